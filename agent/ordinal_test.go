package agent_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/session"
)

// A line that was made of an input has its ordinal, a line of the Runner has none, whatever the
// Runner says, and a line of Offshoot itself says so. So a reader, and a turn that goes on where a
// crash cut it, knows whose each line is.
func TestLinesSayWhoseTheyAre(t *testing.T) {
	long := strings.Repeat("long ", 100_000)
	store := session.NewMemory()
	cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
		switch {
		case tn.Run != "" && tn.Label == "quiet":
			return agent.Result{Text: "NO_REPLY"}, pause(ctx, time.Minute)
		case tn.Run != "":
			return agent.Result{Text: "found"}, pause(ctx, time.Minute)
		case tn.N == 1: // a message arrives within the turn, and a call gets no result
			require.NoError(t, pause(ctx, time.Minute))
			_, err := tn.Inbox(ctx)
			require.NoError(t, err)
			for _, m := range []agent.Message{
				{Role: session.MessageUser, Text: "mine", Ord: 77, Synthetic: true, Internal: true},
				{Role: session.MessageAssistant, Text: "calls", ToolCalls: callsOf("x", "y"), Ord: 78},
				{Role: session.MessageTool, ToolCallID: "call_0", Text: "x", Synthetic: true},
			} {
				require.NoError(t, tn.Record(ctx, m))
			}
			_, err = tn.Spawn(ctx, agent.Task{Text: "find", Label: "loud", Announce: true})
			require.NoError(t, err)
			return textResult("first")
		case tn.N == 3:
			_, err := tn.Spawn(ctx, agent.Task{Text: "find", Label: "quiet", Announce: true})
			require.NoError(t, err)
			tn.Yield(agent.JoinOptions{})
			return textResult("third")
		}
		return textResult("again")
	})
	cfg.Store = store
	agenttest.Run(t, cfg, nil, func(h *harness) {
		h.Post("one")
		time.Sleep(time.Second)
		h.Post(long)
		time.Sleep(time.Hour)
		h.Post("three")
		time.Sleep(time.Hour)
		h.Crash()
		h.Post("four")
		time.Sleep(time.Hour)
		type whose struct {
			text               string
			ord                int
			synthetic, runners bool
		}
		var got []whose
		for _, line := range linesOf(t, store) {
			m := line.Message
			begin := m.Text[:min(5, len(m.Text))]
			got = append(got, whose{begin, m.Ord, m.Synthetic, m.IsRunners()})
		}
		require.Equal(t, []whose{
			{"one", 1, false, false}, {"long ", 2, false, false}, {"mine", 0, false, true},
			{"calls", 0, false, true}, {"x", 0, false, true}, {"no re", 0, true, false},
			{"first", 0, false, true},
			{"<<<co", 3, false, false}, {"again", 0, false, true},
			{"three", 4, false, false}, {"third", 0, false, true},
			{"[Offs", 0, true, false}, {"again", 0, false, true},
			{"four", 5, false, false}, {"again", 0, false, true},
		}, got)
		page, err := h.Main().History(h.Context(), agent.HistoryQuery{})
		require.NoError(t, err)
		require.Equal(t, 5, page.Lines[len(page.Lines)-2].Message.Ord, "in the safe view, too")
	})
	require.False(t, session.Fence(1, time.Now()).IsRunners())
}
