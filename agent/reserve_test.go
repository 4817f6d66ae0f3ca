package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	agentctx "github.com/offshoot-sdk/offshoot/context"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
)

// Before the first call all that is sent is expected to be used, and then what the last call used
// and what has come since. What is in the cache of the provider is not counted.
func TestWhatACallIsExpectedToUse(t *testing.T) {
	text := func(role session.MessageRole, n int, u agent.Usage) agent.Message {
		return agent.Message{Role: role, Text: strings.Repeat("x", n), Usage: u}
	}
	const perMessage = 8
	user, said := session.MessageUser, session.MessageAssistant
	used := agent.Usage{Input: 1000, Output: 50}
	cached := agent.Usage{Input: 10, Output: 50, CacheRead: 900, CacheWrite: 90, Cost: 3}
	first := []agent.Message{text(user, 400, agent.Usage{})}
	for name, c := range map[string]struct {
		req  agent.ModelRequest
		want agent.Usage
	}{
		"nothing": {agent.ModelRequest{}, agent.Usage{Output: 1000}},
		"first": {
			agent.ModelRequest{
				Messages: first,
				Tools: []agent.Tool{{
					Description: strings.Repeat("d", 40), Schema: json.RawMessage(`{    }`),
				}},
			}, agent.Usage{Input: 100 + perMessage + 10 + 2, Output: 1000},
		},
		"after a call": {
			agent.ModelRequest{Messages: append(first[:1:1], text(said, 8, used),
				text(user, 40, agent.Usage{}))},
			agent.Usage{Input: 1050 + 10 + perMessage, Output: 50},
		},
		"after a call, cached": {
			agent.ModelRequest{Messages: append(first[:1:1], text(said, 8, cached),
				text(user, 40, agent.Usage{}))},
			agent.Usage{Input: 10 + 10 + perMessage, Output: 50, CacheRead: 990},
		},
	} {
		require.Equal(t, c.want, agent.Estimate(&c.req), name)
	}
	prompted := agent.ModelRequest{Prompt: agentctx.Assemble(agentctx.Input{})}
	require.Positive(t, agent.Estimate(&prompted).Input)
}

// An honestModel uses what the Loop expects of it, and more now and then. It calls a tool so often.
type honestModel struct {
	mu       sync.Mutex
	rand     *rand.Rand
	steps    int
	more     int64 // tokens that a call may use beyond what is expected
	used     int64 // by all calls
	longest  int64 // call
	underWay int
	most     int // calls under way
}

func (m *honestModel) Generate(
	_ context.Context, req *agent.ModelRequest,
) (*agent.ModelResponse, error) {
	m.mu.Lock()
	u := agent.Estimate(req)
	u.Input += m.rand.Int64N(m.more + 1)
	m.used += u.Input + u.Output
	m.longest = max(m.longest, u.Input+u.Output)
	m.underWay++
	m.most = max(m.most, m.underWay)
	takes := time.Duration(m.rand.IntN(10)) * time.Second
	again := m.rand.IntN(m.steps) > 0
	m.mu.Unlock()
	time.Sleep(takes)
	m.mu.Lock()
	m.underWay--
	m.mu.Unlock()
	resp := &agent.ModelResponse{Text: "done", Usage: agent.Usage{Input: u.Input, Output: u.Output}}
	if again {
		resp.ToolCalls = []agent.ToolCall{{ID: session.NewID(), Name: "ls", Args: []byte(`{}`)}}
	}
	return resp, nil
}

// I9: turns that call models at the same time exceed a budget by one call if these use what is
// expected of them, and whatever they use by one call of each turn under way.
func TestTurnsAtTheSameTimeShareABudget(t *testing.T) {
	for seed := range uint64(30) {
		if !playsOneOf(4) {
			continue
		}
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 5))
			m := &honestModel{rand: rand.New(rand.NewPCG(seed, 6)), steps: 1 + r.IntN(6)}
			if seed%3 == 0 {
				m.more = 20_000
			}
			limit := int64(20_000 + r.IntN(200_000))
			cfg := agent.Config{
				Runner: &agent.Loop{Model: m}, Tools: toolbox("ls"),
				Rules: policy.Rules{
					Budget: policy.Budget{Tokens: limit},
					Subagents: policy.Subagents{
						MaxConcurrent: 8, MaxChildren: 20, MaxSpawnDepth: 2,
					},
				},
				Deliver: func(context.Context, agent.Delivery) error { return nil },
			}
			runFor(t, cfg, func(rt *agent.Runtime) {
				var all []*agent.Child[string]
				for i := range 20 {
					task := agent.Task{
						Text: strings.Repeat("x", 4*(1000+r.IntN(30_000))), Label: fmt.Sprint(i),
					}
					c, err := rt.Session(topKey).Spawn(t.Context(), task)
					if err != nil {
						require.ErrorContains(t, err, "budget")
						break
					}
					all = append(all, c)
				}
				_, err := agent.Join(t.Context(), rt.Session(topKey), all, agent.JoinOptions{})
				if err != nil {
					require.ErrorContains(t, err, "ended well")
				}
				ended := 0
				for _, c := range all {
					info, err := c.Info(t.Context())
					require.NoError(t, err)
					if info.Status == agent.StatusOK {
						ended++
					} else {
						require.Equal(t, agent.StatusIncomplete, info.Status)
					}
				}
				require.Positive(t, ended+int(m.used/limit), "a call that is alone may begin")
			})
			if m.more == 0 {
				require.LessOrEqual(t, m.used, limit+m.longest)
			} else {
				require.LessOrEqual(t, m.used, limit+8*m.longest)
			}
		})
	}
}

// What is reserved for a call is free again when the call is over, while its turn goes on. A turn
// may have several calls under way, and end them in any order, and more than once.
func TestReservationsEndWithTheirCalls(t *testing.T) {
	child := agent.Usage{Input: 60_000}
	cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
		if tn.Session.Depth == 2 {
			end, err := tn.BeginCall(ctx, "", child)
			defer end()
			return agent.Result{Text: fmt.Sprint(err)}, nil
		}
		var ends []func()
		for range 3 {
			end, err := tn.BeginCall(ctx, "", agent.Usage{Input: 30_000})
			if err != nil {
				return agent.Result{}, err
			}
			ends = append(ends, end)
		}
		texts := make([]string, 0, 3)
		for _, end := range []func(){func() {}, ends[1], ends[0], ends[2]} {
			end()
			end()
			c, err := tn.Spawn(ctx, agent.Task{Text: "x"})
			if err != nil {
				return agent.Result{}, err
			}
			text, _ := c.Wait(ctx)
			texts = append(texts, text)
		}
		return agent.Result{Text: strings.Join(texts, "; ")}, nil
	})
	cfg.Rules = rulesForDepth(3)
	cfg.Rules.Budget.Tokens = 100_000
	synctest.Test(t, func(t *testing.T) {
		runFor(t, cfg, func(rt *agent.Runtime) {
			c, err := rt.Session(topKey).Spawn(t.Context(), agent.Task{Text: "x"})
			require.NoError(t, err)
			text, err := c.Wait(t.Context())
			require.NoError(t, err)
			const no = "spawn: the budget is exhausted: the tree's budget of tokens, which the " +
				"model calls under way may use"
			require.Equal(t, no+"; "+no+"; <nil>; <nil>", text)
		})
	})
}

// What is reserved for a call does not outlive it: after a crash at any point the rest of the
// budget can be used, and so it can after a call that has failed.
func TestReservationsOverEveryCrash(t *testing.T) {
	var mu sync.Mutex
	failed := false
	cfg := agent.Config{
		Rules: policy.Rules{Budget: policy.Budget{Tokens: 100_000}},
		Runner: &agent.Loop{Model: modelFunc(
			func(_ context.Context, req *agent.ModelRequest) (*agent.ModelResponse, error) {
				mu.Lock()
				defer mu.Unlock()
				if failed = !failed; failed {
					return nil, agent.Retryable(errors.New("overloaded"))
				}
				return &agent.ModelResponse{Text: "done", Usage: agent.Usage{Input: 10}}, nil
			},
		)},
	}
	agenttest.EveryCrash(t, cfg, nil, func(h *harness) {
		h.Post(strings.Repeat("x", 4*60_000))
		h.Pass(time.Minute)
		h.Replied("done")
		h.Post(strings.Repeat("y", 4*60_000))
		h.Pass(time.Minute)
		h.Replied("done", "done")
	})
}
