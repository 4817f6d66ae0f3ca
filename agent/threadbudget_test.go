package agent_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/session"
)

// docs/limits.md: in the thread of a sub-agent the messages of all people who write while one run
// works share the budget of that run. A message after it begins a run with a budget of its own.
func TestRequestBudgetIsSharedInAThread(t *testing.T) {
	cfg := agent.Config{Runner: agent.RunnerFunc(
		func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
			if err := tn.Spend(ctx, agent.Usage{Input: 600}); err != nil {
				return agent.Result{}, err
			}
			return agent.Result{Text: "answer"}, pause(ctx, time.Minute)
		})}
	cfg.Rules.RequestBudget.Tokens = 1000
	threadsOn(t, cfg, nil, func(b threadBot) {
		_, thread := b.spawnThread(agent.Task{Text: "x"})
		b.Pass(time.Hour)
		write := func(at session.Route, pauses ...time.Duration) []string {
			before := len(b.chat.Said(at))
			for _, d := range pauses {
				b.write(at, "hello")
				time.Sleep(d)
			}
			b.Pass(time.Hour)
			return b.chat.Said(at)[before:]
		}
		alone := write(thread, time.Hour)
		require.Equal(t, []string{"answer"}, alone)
		// The second comes while the run works, whose next turn exceeds the budget of both.
		shared := write(thread, 30*time.Second, time.Second)
		require.Len(t, shared, 2)
		require.Equal(t, "answer", shared[0])
		require.Contains(t, shared[1], "what I may spend is used up")
		require.Equal(t, []string{"answer"}, write(thread, time.Hour))
	})
}

// docs/limits.md: Subagents.Budget is taken at the spawn. One that is lowered later does not bind
// the sessions that exist, and Budget does.
func TestLoweredSubagentsBudget(t *testing.T) {
	for name, c := range map[string]struct {
		lower func(cfg *agent.Config)
		binds bool
	}{
		"of sub-agents": {lower: func(cfg *agent.Config) { cfg.Rules.Subagents.Budget.Tokens = 1 }},
		"of trees":      {lower: func(cfg *agent.Config) { cfg.Rules.Budget.Tokens = 1 }, binds: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := configAnswering(asText)
				cfg.Store, cfg.Rules.Subagents.Budget.Tokens = session.NewMemory(), 1000
				cfg.Runner = agent.RunnerFunc(
					func(context.Context, *agent.Turn) (agent.Result, error) {
						return agent.Result{Text: "ok", Usage: agent.Usage{Input: 100}}, nil
					})
				var key session.Key
				running(t, cfg, func(rt *agent.Runtime) {
					main := rt.Session(topKey)
					child, err := main.Spawn(t.Context(), agent.Task{Text: "x"})
					require.NoError(t, err)
					_, err = child.Wait(t.Context())
					require.NoError(t, err)
					key = child.Key()
				})
				c.lower(&cfg)
				running(t, cfg, func(rt *agent.Runtime) {
					receipt, err := rt.Session(key).Post(t.Context(), agent.Incoming{Text: "more"})
					if c.binds {
						require.ErrorContains(t, err, "udget")
						return
					}
					require.NoError(t, err)
					child, err := agent.ChildOf[string](t.Context(), rt.Session(topKey), receipt)
					require.NoError(t, err)
					got, err := child.Wait(t.Context())
					require.NoError(t, err)
					require.Equal(t, "ok", got)
				})
			})
		})
	}
}
