package agenttest

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/session"
)

// CheckConversation returns an error unless providers of models accept the messages as a
// conversation. It begins with a user. Each call of a tool has an id that no other call of its
// message has, and exactly one result, behind that message and before the next message of a user or
// the assistant. No result is without a call, and no message of the assistant is empty.
//
// Every Harness checks what a Runner is given, and what each turn has committed. A caller checks
// what an adapter of its own sends to a provider.
func CheckConversation(messages []agent.Message) error {
	if len(messages) > 0 && messages[0].Role != session.MessageUser {
		return fmt.Errorf("agenttest: message 1 is of the %s, not of a user", messages[0].Role)
	}
	open := make(map[string]bool) // calls without their result
	for i, m := range messages {
		if err := checkMessage(m, open); err != nil {
			return fmt.Errorf("agenttest: message %d, of the %s: %w", i+1, m.Role, err)
		}
	}
	if len(open) > 0 {
		return fmt.Errorf("agenttest: %d tool calls at the end have no result", len(open))
	}
	return nil
}

// checkMessage checks the message that follows the open calls, and brings them up to date.
func checkMessage(m agent.Message, open map[string]bool) error {
	switch m.Role {
	case session.MessageTool:
		if !open[m.ToolCallID] {
			return fmt.Errorf("there is no call %q before it that has no result", m.ToolCallID)
		}
		delete(open, m.ToolCallID)
		return nil
	case session.MessageUser, session.MessageAssistant:
	default:
		return errors.New("a provider does not know this role")
	}
	if len(open) > 0 {
		return fmt.Errorf("%d tool calls before it have no result", len(open))
	}
	if m.Role == session.MessageAssistant && len(m.ToolCalls) == 0 && len(m.Parts) == 0 &&
		strings.TrimSpace(m.Text) == "" {
		return errors.New("it says nothing and calls nothing")
	}
	for _, c := range m.ToolCalls {
		if c.ID == "" || open[c.ID] {
			return fmt.Errorf("the id %q of a call is empty, or that of another call", c.ID)
		}
		open[c.ID] = true
	}
	return nil
}

// sumOf returns a checksum of messages.
func sumOf(messages []agent.Message) (sum [sha256.Size]byte) {
	hash := sha256.New()
	var line []byte
	for _, m := range messages {
		line, _ = m.AppendJSON(line[:0]) // they come from a transcript
		_, _ = hash.Write(line)
	}
	hash.Sum(sum[:0])
	return sum
}

// checkMessages fails if a Runner has changed the messages that it was given, which had a sum.
func (h *Harness) checkMessages(t *agent.Turn, given []agent.Message, sum [sha256.Size]byte) {
	if sumOf(given) != sum {
		h.t.Errorf("agenttest: turn %d of %s changed the messages that it was given, which belong "+
			"to the turns after it, too: copy them first", t.N, t.Session.Key)
	}
}

// checkConversations fails unless what each turn committed is a conversation.
func (h *Harness) checkConversations() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sortFacts()
	refs := make(tracker)
	for _, f := range h.facts {
		if refs.note(f); f.Kind != "turn_ended" || f.Pos == 0 {
			continue
		}
		lines := upTo(h.lines[refs[f.Run]], f.Pos)
		if err := CheckConversation(committed(lines)); err != nil {
			h.t.Errorf("agenttest: what %s had committed at entry %d: %v",
				f.Run, f.Seq, err)
		}
	}
}

// committed returns the conversation of a transcript. The copy of one that was compacted begins
// with the summary, which the model is told as the message of a user.
func committed(lines iter.Seq2[session.Line, error]) (messages []agent.Message) {
	for line := range lines { //nolint:errcheck // they have been read
		if m := line.Message; m.Role != session.MessageNote {
			break
		} else if m.IsCompaction() {
			messages = []agent.Message{{Role: session.MessageUser, Text: m.Text}}
		}
	}
	for line := range session.Committed(lines) { //nolint:errcheck // they have been read
		messages = append(messages, line.Message)
	}
	return messages
}
