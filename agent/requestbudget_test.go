package agent_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
)

// costlyModel answers every message and every completion with a spawn, as a model that loops, and
// counts its calls. Each costs a dime by the price of the model. If nested says so, a sub-agent
// spawns one of its own.
func costlyModel(calls *atomic.Int64, nested bool) agent.Config {
	rules := rulesForDepth(2)
	rules.RequestBudget.Cost = 0.5
	return agent.Config{
		Rules: rules,
		Models: agent.Models{
			Model:  "acme/large",
			Prices: map[string]agent.Price{"acme/large": {Input: 1}},
		},
		Runner: &agent.Loop{Model: modelFunc(
			func(_ context.Context, req *agent.ModelRequest) (*agent.ModelResponse, error) {
				calls.Add(1)
				time.Sleep(time.Duration(req.Session.Depth) * time.Second)
				out := &agent.ModelResponse{Usage: agent.Usage{Input: 100_000}}
				last := lastMessage(req)
				deep := req.Session.Depth > 1 ||
					req.Session.Depth == 1 && (!nested || last.Internal)
				if last.Role == session.MessageTool || deep {
					out.Text = "ok"
					return out, nil
				}
				id := fmt.Sprint(len(req.Messages))
				out.ToolCalls = []agent.ToolCall{spawnCallOf(id, "work")}
				return out, nil
			},
		)},
	}
}

// 2.13: what one message leads to costs no more than its budget and what is in flight when that
// runs out, over sub-agents, their completions, a crash and a snapshot. The next message has a
// budget of its own, as often as one comes.
func TestRequestBudgetOfAChat(t *testing.T) {
	for name, nested := range map[string]bool{"flat": false, "nested": true} {
		t.Run(name, func(t *testing.T) {
			var calls atomic.Int64
			agenttest.Run(t, costlyModel(&calls, nested), nil, func(h *harness) {
				for n := range 3 {
					before := calls.Load()
					h.Post("go")
					time.Sleep(time.Hour)
					h.Crash()
					time.Sleep(time.Hour)
					spent := calls.Load() - before
					require.GreaterOrEqual(t, spent, int64(5), "message %d", n)
					require.LessOrEqual(t, spent, int64(5+2), "message %d: two turns", n)
				}
				for _, run := range h.Runs() {
					require.True(t, run.Status.Terminal(), "%v", run)
				}
			})
		})
	}
}

// 2.13: a session whose request has spent its budget gets its turn, which says so. The next message
// is answered, and the result that came meanwhile is not lost.
func TestSpentRequestBudgetIsSaid(t *testing.T) {
	var calls atomic.Int64
	cfg := costlyModel(&calls, false)
	cfg.Rules.RequestBudget = policy.Budget{Turns: 2}
	agenttest.Run(t, cfg, nil, func(h *harness) {
		const sorry = "I have stopped here, because what I may spend is used up. " +
			"What has come in is kept."
		h.Post("go")
		time.Sleep(time.Minute)
		h.Replied("ok", sorry)
		require.True(t, h.Replies()[1].Reply.Failed)
		h.Post("again")
		time.Sleep(time.Minute)
		h.Replied("ok", sorry, "ok", sorry)
	})
}

// 2.13: a message that a turn reads while it works is a request of its own: the turn goes on,
// although the one before is spent.
func TestMessageInATurnHasABudgetOfItsOwn(t *testing.T) {
	spent := make(chan error, 10)
	cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
		spend := func() { spent <- tn.Spend(ctx, agent.Usage{Input: 1000}) }
		spend()
		time.Sleep(time.Minute)
		_, err := tn.Inbox(ctx)
		spend()
		return agent.Result{Text: "done"}, err
	})
	cfg.Rules.RequestBudget.Tokens = 1500
	agenttest.Run(t, cfg, nil, func(h *harness) {
		h.Post("go")
		time.Sleep(time.Second)
		h.Post("and that")
		time.Sleep(2 * time.Minute)
		require.NoError(t, <-spent)
		require.NoError(t, <-spent, "1000 for each of the two")
		h.Post("go on")
		time.Sleep(2 * time.Minute)
		require.NoError(t, <-spent)
		require.ErrorIs(t, <-spent, agent.ErrBudget, "2000 for the third")
	})
}

// 2.13: of a session that the caller runs, one set of Session.Tools is one request. What a program
// spawns is one by itself.
func TestRequestBudgetOfACaller(t *testing.T) {
	cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
		return agent.Result{Text: "done"}, tn.Spend(ctx, agent.Usage{Input: 600})
	})
	cfg.Rules.RequestBudget.Tokens = 1000
	cfg.Deliver = func(context.Context, agent.Delivery) error { return nil }
	agenttest.Run(t, cfg, nil, func(h *harness) {
		for set := range 3 {
			tools := h.Main().Tools()
			for i, want := range []string{"accepted", "accepted", "forbidden"} {
				out, err := callToolOf(h, tools, "sessions_spawn", fmt.Sprint(i), `{"task":"x"}`)
				require.NoError(t, err)
				require.Equal(t, want, out["status"], "set %d call %d: %v", set, i, out)
				if want == "forbidden" {
					require.Contains(t, fmt.Sprint(out), "agents.defaults.requestBudget.tokens")
				}
				time.Sleep(time.Minute)
			}
			if set == 1 {
				h.Crash()
			}
		}
		for range 5 {
			text, err := agent.Spawn[string](h.Context(), h.Main(), agent.Task{Text: "x"})
			require.NoError(t, err)
			got, err := text.Wait(h.Context())
			require.NoError(t, err)
			require.Equal(t, "done", got)
		}
	})
}

// A run that a budget has ended is ErrBudget for the program that waits for it.
func TestRunErrorOfASpentBudget(t *testing.T) {
	cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
		if tn.Label == "fails" {
			return agent.Result{}, errors.New("no")
		}
		return agent.Result{Text: "part"}, tn.Spend(ctx, agent.Usage{Input: 1000})
	})
	cfg.Rules.Subagents.Budget.Tokens = 500
	agenttest.Run(t, cfg, nil, func(h *harness) {
		for label, budget := range map[string]bool{"spends": true, "fails": false} {
			c, err := h.Main().Spawn(h.Context(), agent.Task{Text: "x", Label: label})
			require.NoError(t, err)
			_, err = c.Wait(h.Context())
			require.Error(t, err)
			require.Equal(t, budget, errors.Is(err, agent.ErrBudget), "%v", err)
		}
	})
}

// A turn counts against a budget of turns as it begins. One that has begun is paid for: when those
// below it have used up the rest it goes on and may spend, it spawns nothing more, and no other
// turn begins. A next message has a RequestBudget of its own.
func TestBudgetOfTurnsAmidATurn(t *testing.T) {
	for name, c := range map[string]struct {
		rules policy.Rules
		again bool // the next message gets a turn that may call
	}{
		"of the tree":    {policy.Rules{Budget: policy.Budget{Turns: 2}}, false},
		"of the request": {policy.Rules{RequestBudget: policy.Budget{Turns: 2}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			var spent, spawned []error
			cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
				if tn.Session.Depth > 0 {
					return textResult("worked")
				}
				spend := func() { spent = append(spent, tn.Spend(ctx, agent.Usage{Input: 1})) }
				spend()
				for range 2 {
					child, err := tn.Spawn(ctx, agent.Task{Text: "x"})
					if spawned = append(spawned, err); err == nil {
						_, err = child.Wait(ctx)
						require.NoError(t, err)
					}
					spend()
				}
				return textResult("done")
			})
			cfg.Rules = c.rules
			agenttest.Run(t, cfg, nil, func(h *harness) {
				h.Post("go")
				h.Pass(time.Minute)
				require.Equal(t, []error{nil, nil, nil}, spent)
				require.Len(t, spawned, 2)
				require.NoError(t, spawned[0])
				require.ErrorIs(t, spawned[1], &policy.Refusal{Rule: policy.RuleBudget})
				spent, spawned = nil, nil
				h.Post("and?")
				h.Pass(time.Minute)
				if c.again {
					require.NoError(t, spent[0])
					require.NoError(t, spawned[0])
					return
				}
				require.Empty(t, spent, "the Runner is not called")
				require.Len(t, h.Replies(), 2)
			})
		})
	}
}
