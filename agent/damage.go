package agent

import (
	"context"
	"log/slog"

	"github.com/offshoot-sdk/offshoot/session"
)

// mend has the store put the damaged lines of a transcript aside, and logs that. A store that
// cannot do that returns the error of the damage again.
func mend(
	ctx context.Context, store session.Transcripts, log *slog.Logger, ref session.Ref,
) {
	m, ok := store.(session.Mender)
	if !ok {
		return
	}
	done, err := m.Mend(ctx, ref)
	if err != nil {
		log.Error("offshoot: a damaged transcript cannot be mended", "session", ref.Key.String(),
			"error", err.Error())
	}
	if done.Bytes > 0 {
		log.Error("offshoot: damaged lines of a transcript were put aside",
			"session", ref.Key.String(), "transcript", store.Locate(ref),
			"bytes", done.Bytes, "aside", done.Aside)
	}
}

// lostResult is the result of a tool call whose own was lost.
const lostResult = "The result of this call has been lost."

// completeCalls returns a conversation out of which lines were lost as a model accepts it. Each
// tool call has a result before the next calls, and each result has its call.
func completeCalls(lines []session.Line) []Message {
	var history []Message
	for len(lines) > 0 {
		block := 1 // up to the next calls
		for block < len(lines) && len(lines[block].Message.ToolCalls) == 0 {
			block++
		}
		history = append(history, completeBlock(lines[:block])...)
		lines = lines[block:]
	}
	return history
}

// completeBlock is completeCalls for lines of which only the first may have calls.
func completeBlock(lines []session.Line) (history []Message) {
	results, called := make(map[string]bool), make(map[string]bool)
	for _, line := range lines {
		if line.Message.Role == session.MessageTool {
			results[line.Message.ToolCallID] = true
		}
	}
	for _, line := range lines {
		m := line.Message
		if m.Role == session.MessageTool && !called[m.ToolCallID] {
			continue
		}
		history = append(history, m)
		for _, c := range m.ToolCalls {
			called[c.ID] = true
			if !results[c.ID] {
				history = append(history, Message{
					Role: session.MessageTool, ToolCallID: c.ID, Failed: true, Text: lostResult,
					Time: m.Time,
				})
			}
		}
	}
	return history
}
