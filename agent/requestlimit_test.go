package agent_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
)

// loopingModel answers every message and every completion with a spawn. If nested says so, a
// sub-agent spawns one of its own.
type loopingModel struct {
	nested bool

	mu       sync.Mutex
	spawned  map[string]bool // run ids that were accepted
	refusals []string        // what refused spawns said
}

// count returns how many spawns were accepted.
func (l *loopingModel) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.spawned)
}

// refusal returns what the first spawn that was refused said.
func (l *loopingModel) refusal() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.refusals) == 0 {
		return ""
	}
	return l.refusals[0]
}

// Generate implements agent.Model.
func (l *loopingModel) Generate(
	_ context.Context, req *agent.ModelRequest,
) (*agent.ModelResponse, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range req.Messages {
		var reply struct{ Status, RunID string }
		if m.Role != session.MessageTool {
			continue
		}
		if err := json.Unmarshal([]byte(m.Text), &reply); err != nil {
			return nil, err
		}
		if reply.Status == "forbidden" {
			l.refusals = append(l.refusals, m.Text)
		} else {
			l.spawned[reply.RunID] = true
		}
	}
	last := lastMessage(req)
	if last.Role == session.MessageTool {
		return &agent.ModelResponse{Text: "ok"}, nil
	}
	if req.Session.Depth > 1 || req.Session.Depth > 0 && (!l.nested || last.Internal) {
		return &agent.ModelResponse{Text: "ok"}, nil
	}
	if len(l.spawned) > 1000 { // no limit stops it
		return &agent.ModelResponse{Text: "enough"}, nil
	}
	id := fmt.Sprint(len(req.Messages))
	return &agent.ModelResponse{ToolCalls: []agent.ToolCall{spawnCallOf(id, "work")}}, nil
}

// D3: a model that answers each completion with a spawn is stopped at the limit of its person's
// message, and told so. What sub-agents spawn counts, also over restarts and snapshots. The next
// message of a person begins anew.
func TestSpawnLoopOfAModel(t *testing.T) {
	skipUnderRace(t)
	for name, nested := range map[string]bool{"flat": false, "nested": true} {
		t.Run(name, func(t *testing.T) {
			model := &loopingModel{nested: nested, spawned: map[string]bool{}}
			rules := rulesForDepth(2)
			rules.Subagents.ArchiveAfter = time.Minute
			cfg := agent.Config{Runner: &agent.Loop{Model: model}, Rules: rules}
			agenttest.Run(t, cfg, nil, func(h *harness) {
				h.Post("go")
				time.Sleep(time.Hour)
				require.Equal(t, 100, model.count())
				require.Contains(t, model.refusal(), `"rule":"maxRunsPerRequest"`)
				require.Contains(t, model.refusal(), `"asked":"101","limit":"100",`+
					`"path":"agents.defaults.subagents.maxRunsPerRequest"`)
				h.Crash()
				time.Sleep(time.Hour)
				require.Equal(t, 100, model.count())
				h.Post("and more")
				time.Sleep(time.Hour)
				require.Equal(t, 200, model.count())
			})
		})
	}
}

// D3: one set of Session.Tools is one request of a session that the caller runs. What a program
// spawns is not counted, but what models spawn below it is.
func TestRequestsOfACaller(t *testing.T) {
	cfg := configAnswering(asText)
	cfg.Rules = rulesForDepth(1)
	cfg.Rules.Subagents.MaxRunsPerRequest = 2
	cfg.Deliver = func(context.Context, agent.Delivery) error { return nil }
	agenttest.Run(t, cfg, nil, func(h *harness) {
		for turn := range 2 {
			tools := h.Main().Tools()
			for i := range 3 {
				out, err := callToolOf(h, tools, "sessions_spawn", fmt.Sprint(i), `{"task":"x"}`)
				require.NoError(t, err)
				want := "accepted"
				if i == 2 {
					want = "forbidden"
				}
				require.Equal(t, want, out["status"], "turn %d call %d: %v", turn, i, out)
			}
			time.Sleep(time.Minute)
		}
		for range 5 {
			_, err := agent.Spawn[string](h.Context(), h.Main(), agent.Task{Text: "x"})
			var refusal *policy.Refusal
			require.NotErrorAs(t, err, &refusal)
			time.Sleep(time.Second)
		}
	})
}

// D3: a caller whose model answers each result with another spawn is stopped as a session is that
// Offshoot runs, if it calls the tools with the context of Deliver.
func TestSpawnLoopOfACaller(t *testing.T) {
	for name, derived := range map[string]func(context.Context) context.Context{
		"in Deliver":     func(ctx context.Context) context.Context { return ctx },
		"after it":       context.WithoutCancel,
		"by the program": nil, // whose runs begin requests of their own
	} {
		t.Run(name, func(t *testing.T) {
			cfg := configAnswering(asText)
			cfg.Rules = rulesForDepth(1)
			cfg.Rules.Subagents.MaxRunsPerRequest = 5
			var accepted, refused int
			answers := make(chan context.Context, 10)
			cfg.Deliver = func(ctx context.Context, _ agent.Delivery) error {
				if derived != nil {
					ctx = derived(ctx)
				}
				answers <- ctx
				return nil
			}
			agenttest.Run(t, cfg, nil, func(h *harness) {
				spawn := func(ctx context.Context, id int) {
					tool := findTool(h.T(), h.Main().Tools(), "sessions_spawn")
					out, err := tool.Call(ctx, agent.ToolCall{
						ID: fmt.Sprint(id), Name: tool.Name, Args: json.RawMessage(`{"task":"x"}`),
					})
					require.NoError(t, err)
					if strings.Contains(out.Text, `"accepted"`) {
						accepted++
					} else {
						refused++
					}
				}
				if derived == nil {
					_, err := agent.Spawn[string](h.Context(), h.Main(),
						agent.Task{Text: "x", Announce: true})
					require.NoError(t, err)
				} else {
					spawn(h.Context(), 0)
				}
				for id := 1; id < 20; id++ {
					time.Sleep(time.Minute)
					select {
					case ctx := <-answers:
						spawn(context.WithoutCancel(ctx), id)
					default:
					}
					if id == 10 {
						h.Crash()
					}
				}
				require.Equal(t, []int{5, 1}, []int{accepted, refused})
				spawn(h.Context(), 20) // for a person
				require.Equal(t, 6, accepted)
			})
		})
	}
}

// D3: the limit can be lifted, and every preset has it.
func TestLimitOfRequests(t *testing.T) {
	rules := policy.Rules{}
	require.Equal(t, 100, rules.MaxRunsPerRequest())
	rules.Subagents.MaxRunsPerRequest = policy.Off
	require.NoError(t, rules.Validate())
	require.Equal(t, policy.Off, rules.MaxRunsPerRequest())
	for _, preset := range []func(*agent.Config){agent.PresetGoClaw, agent.PresetClawdbot} {
		var cfg agent.Config
		preset(&cfg)
		require.Equal(t, 100, cfg.Rules.MaxRunsPerRequest())
	}
}
