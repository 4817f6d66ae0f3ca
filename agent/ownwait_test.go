package agent_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// A turn that waits for its own run, or for one above it, would wait for ever. It is refused,
// whichever call waits. A wait with a limit is not, nor one for a run that has ended.
func TestTurnThatWaitsForItsOwnEnd(t *testing.T) {
	type child = *agent.Child[string]
	var rt *agent.Runtime
	waits := map[string]func(context.Context, *agent.Turn, child) error{
		"Child.Wait": func(ctx context.Context, _ *agent.Turn, c child) error {
			_, err := c.Wait(ctx)
			return err
		},
		"Session.Wait": func(ctx context.Context, _ *agent.Turn, c child) error {
			_, err := rt.Session(topKey).Wait(ctx, []child{c}, agent.JoinOptions{})
			return err
		},
		"Join from the turn": func(_ context.Context, tn *agent.Turn, c child) error {
			_, err := agent.Join(context.Background(), tn, []child{c},
				agent.JoinOptions{AtLeast: 1})
			return err
		},
	}
	for name, wait := range waits {
		for _, above := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				var waited, limited, ended error
				var own, done child
				ready := make(chan struct{}) // closed when both are set
				cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
					switch tn.Label {
					case "done":
						return agent.Result{Text: "done"}, nil
					case "parent":
						<-ready
						if above {
							_, err := agent.Spawn[string](ctx, tn, agent.Task{Text: "x", Label: "own"})
							return agent.Result{Text: "parent"}, err
						}
					}
					waited = wait(ctx, tn, own)
					ended = wait(ctx, tn, done)
					_, limited = agent.Join(ctx, tn, []child{own},
						agent.JoinOptions{Within: time.Second})
					return agent.Result{Text: "own"}, nil
				})
				cfg.Rules.Subagents.MaxSpawnDepth = 3
				agenttest.Run(t, cfg, nil, func(h *harness) {
					t := h.T()
					rt = h.Runtime()
					var err error
					done, err = h.Main().Spawn(h.Context(), agent.Task{Text: "x", Label: "done"})
					require.NoError(t, err)
					_, err = done.Wait(h.Context())
					require.NoError(t, err)
					own, err = h.Main().Spawn(h.Context(), agent.Task{Text: "x", Label: "parent"})
					require.NoError(t, err)
					close(ready)
					h.Pass(time.Hour / 4)
					info, err := own.Info(h.Context())
					require.NoError(t, err)
					require.Equal(t, spawn.StatusOK, info.Status)
					var bad *agent.InputError
					require.ErrorAs(t, waited, &bad)
					require.ErrorContains(t, waited, "wait for its own end")
					require.NoError(t, ended)
					require.NotErrorAs(t, limited, &bad)
				})
			})
		}
	}
}
