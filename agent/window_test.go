package agent_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/session"
)

// What was compacted stays in the transcript; the turn and those after a crash see its summary.
func TestCompactionIsSeenByLaterTurns(t *testing.T) {
	var seen [][]agent.Message
	cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
		seen = append(seen, tn.Messages)
		if tn.N == 8 {
			if err := agent.Compact(ctx, tn); err != nil {
				return agent.Result{}, err
			}
			seen = append(seen, agent.View(tn))
		}
		return textResult(fmt.Sprint("answer ", tn.N))
	})
	var asked []agent.CompactRequest
	cfg.Models.Window = func(string) agent.Window {
		return agent.Window{Keep: 5, Compact: func(
			_ context.Context, req agent.CompactRequest,
		) (string, error) {
			asked = append(asked, req)
			return "they counted", nil
		}}
	}
	agenttest.Run(t, cfg, nil, func(h *harness) {
		for n := range 10 {
			h.Post(fmt.Sprint("question ", n+1))
			h.Pass(time.Second)
			if n == 8 {
				h.Crash()
			}
		}
		require.Len(t, asked, 1)
		require.Equal(t, 10, len(asked[0].Messages))
		at8, after, at9, at10 := seen[7], seen[8], seen[9], seen[10]
		require.Len(t, at8, 15)
		require.Equal(t, at8[10:], after[1:])
		require.True(t, after[0].Internal)
		require.Equal(t, session.MessageUser, after[0].Role)
		require.Contains(t, after[0].Text, "\n| they counted\n")
		require.Contains(t, after[0].Text, "10 messages")
		require.Equal(t, after, at9[:6])
		require.Equal(t, at9, at10[:8])
		require.Equal(t, []string{"question 8", "answer 8", "question 9"}, saidIn(at9[5:]))
		page, err := h.Main().History(h.Context(), agent.HistoryQuery{Raw: true})
		require.NoError(t, err)
		require.Len(t, page.Lines, 20)
	})
}
