package agent_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// A wait that has begun has what became of the run, also where the session is deleted that the run
// is of, or one above it, and is gone before the wait looks.
func TestWaitsOverADeletedSession(t *testing.T) {
	for _, parent := range []bool{false, true} {
		for range 20 { // which of the two comes first is a matter of chance
			cfg := configWith(func(ctx context.Context, _ *agent.Turn) (agent.Result, error) {
				<-ctx.Done()
				return agent.Result{Text: "so far"}, ctx.Err()
			})
			agenttest.Run(t, cfg, nil, func(h *harness) {
				key := session.Must(session.NamedKey("main", "chat"))
				child, err := h.Session(key).Spawn(h.Context(), agent.Task{Text: "w"})
				require.NoError(t, err)
				waits, joins := make(chan error, 5), make(chan []agent.Outcome[string], 5)
				for range cap(waits) {
					go func() {
						_, err := child.Wait(h.Context())
						waits <- err
					}()
					go func() {
						o, _ := agent.Join(h.Context(), h.Session(key),
							[]*agent.Child[string]{child}, agent.JoinOptions{})
						joins <- o
					}()
				}
				synctest.Wait()
				h.Pass(time.Minute)
				gone := child.Key()
				if parent {
					gone = key
				}
				require.NoError(t, h.Runtime().DeleteSession(h.Context(), gone))
				for range cap(waits) {
					var failed *agent.RunError
					require.ErrorAs(t, <-waits, &failed)
					o := <-joins
					require.Len(t, o, 1)
					require.Equal(t, spawn.StatusCancelled, o[0].Run.Status)
				}
			})
		}
	}
}
