package agent_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	agentctx "github.com/offshoot-sdk/offshoot/context"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// spawnCallOf is a call of sessions_spawn.
func spawnCallOf(id, task string) agent.ToolCall {
	args := fmt.Sprintf(`{"task":%q,"label":%q}`, task, task)
	return agent.ToolCall{ID: id, Name: "sessions_spawn", Args: []byte(args)}
}

// countLabels counts runs by label.
func countLabels(runs []agent.RunInfo) map[string]int {
	m := make(map[string]int)
	for _, r := range runs {
		m[r.Label]++
	}
	return m
}

// modelOfResponses answers the n-th call for a top-level turn with the n-th response, over
// restarts the n-th of the turn; sub-agents and later calls get the text "done".
func modelOfResponses(responses ...[]agent.ToolCall) modelFunc {
	return func(ctx context.Context, req *agent.ModelRequest) (*agent.ModelResponse, error) {
		n := 0
		for _, m := range req.Messages[len(req.Messages)-req.New:] {
			if m.Role == session.MessageAssistant {
				n++
			}
		}
		if req.Run != "" || n >= len(responses) || !strings.Contains(fmt.Sprint(req.Messages), "go") {
			return &agent.ModelResponse{Text: "done"}, pause(ctx, time.Minute)
		}
		return &agent.ModelResponse{ToolCalls: responses[n]}, nil
	}
}

// S3: providers number the calls of each response from call_0. Two spawns of one turn under one id
// are two spawns, in different responses and in one; a turn that is retried and draws the same ids
// finds the same runs.
func TestToolCallIDsOfEachResponse(t *testing.T) {
	model := modelOfResponses(
		[]agent.ToolCall{spawnCallOf("call_0", "a")},
		[]agent.ToolCall{spawnCallOf("call_0", "b"), spawnCallOf("call_0", "c")},
		[]agent.ToolCall{spawnCallOf("call_0", "b"), spawnCallOf("", "d")},
	)
	cfg := agent.Config{Runner: &agent.Loop{Model: model}, Rules: rulesForDepth(1)}
	agenttest.Run(t, cfg, nil, func(h *harness) {
		want := map[string]int{"a": 1, "b": 2, "c": 1, "d": 1}
		h.Post("go")
		time.Sleep(30 * time.Second)
		require.Equal(t, want, countLabels(h.Runs()))
		h.Crash()
		time.Sleep(30 * time.Second)
		require.Equal(t, want, countLabels(h.Runs()))
	})
}

// S3: a caller with a loop of its own gets two sub-agents for two tasks under one id, and one for a
// call that it repeats.
func TestToolCallIDsOfACaller(t *testing.T) {
	cfg := configAnswering(asText)
	cfg.Deliver = func(context.Context, agent.Delivery) error { return nil }
	agenttest.Run(t, cfg, nil, func(h *harness) {
		tool := findTool(t, h.Main().Tools(), "sessions_spawn")
		for _, task := range []string{"a", "b", "a", "b"} {
			_, err := tool.Call(h.Context(), spawnCallOf("call_0", task))
			require.NoError(t, err)
		}
		require.Equal(t, map[string]int{"a": 1, "b": 1}, countLabels(h.Runs()))
	})
}

// S3: one Key is one request. Another request under it is an error that names the run, until the
// window of the key is over, and nothing is spawned.
func TestKeyOfAnotherRequest(t *testing.T) {
	first := agent.Task{Text: "a", Label: "l", Key: "job", Tools: []string{"read"}}
	others := map[string]func(q *agent.Task){
		"text":     func(q *agent.Task) { q.Text = "b" },
		"label":    func(q *agent.Task) { q.Label = "m" },
		"agent":    func(q *agent.Task) { q.Agent = "main" },
		"model":    func(q *agent.Task) { q.Model = "x/y" },
		"thinking": func(q *agent.Task) { q.Thinking = "high" },
		"timeout":  func(q *agent.Task) { q.Timeout = time.Hour },
		"spec":     func(q *agent.Task) { q.Spec = agentctx.Spec{Files: []string{"SOUL.md"}} },
		"tools":    func(q *agent.Task) { q.Tools = nil },
		"budget":   func(q *agent.Task) { q.Budget = policy.Budget{Tokens: 10} },
		"sandbox":  func(q *agent.Task) { q.Sandbox = true },
		"strict":   func(q *agent.Task) { q.Strict = true },
		"announce": func(q *agent.Task) { q.Announce = true },
	}
	cfg := configAnswering(asText)
	cfg.Tools = toolbox("read")
	agenttest.Run(t, cfg, nil, func(h *harness) {
		child, err := agent.Spawn[string](h.Context(), h.Main(), first)
		require.NoError(t, err)
		look := func(when string) {
			again, err := agent.Spawn[string](h.Context(), h.Main(), first)
			require.NoError(t, err, when)
			require.Equal(t, child.ID(), again.ID(), when)
			for name, change := range others {
				q := first
				change(&q)
				_, err := agent.Spawn[string](h.Context(), h.Main(), q)
				require.ErrorIs(t, err, agent.ErrKeyConflict, "%s %s", name, when)
				var conflict *spawn.KeyConflictError
				require.ErrorAs(t, err, &conflict)
				require.Equal(t, spawn.KeyConflictError{
					Requester: topKey, Key: "job", Run: string(child.ID()), Session: child.Key(),
				}, *conflict)
			}
		}
		look("at once")
		h.Crash()
		look("after a crash")
		time.Sleep(3 * 24 * time.Hour)
		look("after it was archived")
		h.Crash()
		look("after it was archived, and a crash")
	})
}
