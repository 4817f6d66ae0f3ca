package agent_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/dirstore"
)

// usedBy returns the Usage of every line that the model said in a transcript.
func usedBy(t *testing.T, store *session.Store, r agent.RunInfo) (used []session.Usage) {
	t.Helper()
	ref := session.Ref{Key: r.Key, SessionID: r.SessionID}
	lines := store.Transcripts.Read(t.Context(), ref, session.LineQuery{})
	for line, err := range session.Committed(lines) {
		require.NoError(t, err)
		if line.Message.Role == session.MessageAssistant {
			used = append(used, line.Message.Usage)
		}
	}
	return used
}

// The Loop records what each call took with its line, the run has the sum, and both survive a
// restart.
func TestLoopKeepsTheTokensOfCaches(t *testing.T) {
	first := agent.Usage{Input: 10, Output: 2, CacheRead: 300, CacheWrite: 40, Cost: 0.5}
	second := agent.Usage{Input: 1, CacheRead: 350, Cost: math.NaN()}
	kept := []session.Usage{first, {Input: 1, CacheRead: 350}}
	generate := func(_ context.Context, req *agent.ModelRequest) (*agent.ModelResponse, error) {
		if lastMessage(req).Role == session.MessageTool {
			return &agent.ModelResponse{Text: "42", Usage: second}, nil
		}
		calls := []agent.ToolCall{{ID: "1", Name: "ls", Args: []byte(`{}`)}}
		return &agent.ModelResponse{ToolCalls: calls, Usage: first}, nil
	}
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		for n := range 3 {
			store, err := dirstore.Open(dir)
			require.NoError(t, err)
			runner := &agent.Loop{Model: modelFunc(generate)}
			cfg := agent.Config{Runner: runner, Tools: toolbox("ls"), Store: store}
			runFor(t, cfg, func(rt *agent.Runtime) {
				if n == 0 {
					c, err := agent.Spawn[string](t.Context(), rt.Session(topKey),
						agent.Task{Text: "count"})
					require.NoError(t, err)
					_, err = c.Wait(t.Context())
					require.NoError(t, err)
				}
				runs, err := rt.Session(topKey).Runs(t.Context())
				require.NoError(t, err)
				require.Len(t, runs, 1)
				want := agent.Usage{Input: 11, Output: 2, CacheRead: 650, CacheWrite: 40, Cost: 0.5}
				require.Equal(t, want, runs[0].Result.Usage)
				require.Equal(t, kept, usedBy(t, store, runs[0]))
			})
			require.NoError(t, store.Close())
		}
	})
}

// R11: amounts that a Runner reports are added without wrapping around: a budget that was exceeded
// stays exhausted, in the turn, in the run and after a restart.
func TestHugeUsageDoesNotGiveABudgetBack(t *testing.T) {
	huge := agent.Usage{
		Input: math.MaxInt64, Output: math.MaxInt64, CacheRead: math.MaxInt64,
		CacheWrite: math.MaxInt64, Cost: math.MaxFloat64,
	}
	cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
		if tn.Run == "" {
			return textResult("x")
		}
		for i := range 8194 {
			if err := tn.Spend(ctx, huge); !errors.Is(err, agent.ErrBudget) {
				t.Errorf("spend %d: %v", i, err)
			}
		}
		return textResult("done")
	})
	cfg.Rules = rulesForDepth(2)
	agenttest.Run(t, cfg, nil, func(h *harness) {
		task := agent.Task{Text: "go", Label: "rich"}
		task.Budget.Tokens = 1000
		task.Budget.Cost = 1
		_, err := agent.Spawn[string](h.Context(), h.Main(), task)
		require.NoError(t, err)
		for range 2 {
			u := h.Child("rich").Result.Usage
			require.Positive(t, u.Input)
			require.Positive(t, u.Total())
			require.GreaterOrEqual(t, u.Total(), u.Input)
			h.Crash()
		}
	})
}
