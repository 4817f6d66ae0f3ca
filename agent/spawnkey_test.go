package agent_test

import (
	"context"
	"encoding/json"
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

// A model chooses the ids of its calls, and never meets a key of the program by them, whatever form
// the key of a call takes: neither of the two is refused or is given the other's run, whichever
// comes first, also after a crash.
func TestToolKeysAreNotThoseOfTheProgram(t *testing.T) {
	loop := &agent.Loop{Model: modelOfResponses(
		[]agent.ToolCall{
			spawnCallOf("deploy", "a"), spawnCallOf("deploy", "b"), spawnCallOf("", "c"),
			spawnCallOf(strings.Repeat("x", 600), "d"),
		},
		[]agent.ToolCall{spawnCallOf("deploy", "e"), spawnCallOf("", "f")},
	)}
	run := func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
		if tn.Run != "" || !strings.HasPrefix(tn.Input(), "go") {
			return agent.Result{Text: "done"}, pause(ctx, time.Minute)
		}
		for _, task := range []string{"g", "h"} { // one id for two requests
			if _, err := tn.Call(ctx, spawnCallOf("twice", task)); err != nil {
				return agent.Result{}, err
			}
		}
		return loop.Run(ctx, tn)
	}
	for _, limit := range []int{0, 36} {
		cfg := configWith(run)
		cfg.Limits.ID, cfg.Rules = limit, rulesForDepth(1)
		var tasks []agent.Task
		learn := cfg
		learn.Store = session.NewMemory()
		agenttest.Run(t, learn, nil, func(h *harness) {
			h.Post("go")
			time.Sleep(30 * time.Second)
			tasks = keyedTasks(t, learn.Store)
			require.NoError(t, h.Main().Stop(h.Context()))
		})
		require.Len(t, tasks, 8)
		for _, programFirst := range []bool{false, true} {
			t.Run(fmt.Sprintf("limit %d program first %t", limit, programFirst), func(t *testing.T) {
				agenttest.Run(t, cfg, nil, func(h *harness) {
					ids := make(map[string]spawn.RunID)
					program := func() {
						for _, task := range tasks {
							c, err := agent.Spawn[string](h.Context(), h.Main(), task)
							require.NoError(t, err, task.Key)
							if ids[task.Key] == "" {
								ids[task.Key] = c.ID()
							}
							require.Equal(t, ids[task.Key], c.ID(), task.Key)
						}
					}
					if programFirst {
						program()
					}
					h.Post("go")
					for range 2 {
						time.Sleep(20 * time.Second)
						program()
						labels := countLabels(h.Runs())
						require.Len(t, labels, len(tasks))
						for label, n := range labels {
							require.Equal(t, 2, n, label)
						}
						h.Crash()
					}
					require.NoError(t, h.Main().Stop(h.Context()))
				})
			})
		}
	}
}

// keyedTasks returns what the runs with a key were asked for, as a program would ask for the same.
func keyedTasks(t *testing.T, store *session.Store) (tasks []agent.Task) {
	for e, err := range store.Journal.Read(t.Context(), topKey, 0) {
		require.NoError(t, err)
		data, err := e.Payload.AppendJSON(nil)
		require.NoError(t, err)
		var fact struct {
			Spec struct {
				SpawnKey, Task, Label string
				Announce              bool
			}
		}
		require.NoError(t, json.Unmarshal(data, &fact))
		if s := fact.Spec; s.SpawnKey != "" {
			tasks = append(tasks, agent.Task{
				Text: s.Task, Label: s.Label, Key: s.SpawnKey, Announce: s.Announce,
			})
		}
	}
	return tasks
}
