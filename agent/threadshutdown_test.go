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
)

// hostOps are the methods of a ThreadHost, as a FakeChannel names them.
var hostOps = []string{"create", "farewell", "probe"}

// inHost runs a Runtime in a bubble whose ThreadHost is in one of its methods, where it calls do.
// The function then gets what Run returns.
func inHost(
	t *testing.T, op string, grace time.Duration,
	do func(ctx context.Context, rt *agent.Runtime),
	then func(t *testing.T, rt *agent.Runtime, stop func(), done <-chan error),
) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		chat := agenttest.NewFakeChannel("discord")
		cfg := agent.Config{Runner: sayOK, Grace: grace, Store: session.NewMemory()}
		chat.Connect(&cfg)
		main := session.Must(session.MainKey("main"))
		at := chat.At("general", "1")
		chat.Set(at, agent.ThreadOpen)
		before, err := agent.Open(t.Context(), cfg) // a process that binds the conversation
		require.NoError(t, err)
		_, err = before.Focus(t.Context(), agent.FocusRequest{
			Conversation: at, Session: main, By: "alice",
		})
		require.NoError(t, err)
		require.NoError(t, before.Shutdown(t.Context()))
		rt, err := agent.Open(t.Context(), cfg)
		require.NoError(t, err)
		called := false
		chat.Intercept(func(ctx context.Context, c agenttest.FakeCall) error {
			if c.Op == op && !c.Done && !called {
				called = true
				do(ctx, rt)
			}
			return nil
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- rt.Run(ctx) }()
		synctest.Wait()
		switch op {
		case "create":
			go func() {
				_, _ = rt.Session(main).Spawn(t.Context(), agent.Task{
					Text: "x", Thread: true, Conversation: chat.At("general", ""),
				})
			}()
		case "farewell":
			_, err = rt.Unfocus(t.Context(), agent.UnfocusRequest{Conversation: at, By: "alice"})
			require.NoError(t, err)
		}
		synctest.Wait()
		require.True(t, called)
		then(t, rt, cancel, done)
		synctest.Wait()
	})
}

// A call of a ThreadHost that hangs is named once the grace period is over, however short that is,
// to Run and to Shutdown.
func TestShutdownNamesAThreadHostThatHangs(t *testing.T) {
	main := []session.Key{session.Must(session.MainKey("main"))}
	for _, op := range hostOps {
		for _, grace := range []time.Duration{time.Millisecond, time.Second, 5 * time.Second} {
			for _, how := range []string{"Run", "Shutdown"} {
				t.Run(op+" "+grace.String()+" "+how, func(t *testing.T) {
					var release chan struct{}
					hang := func(context.Context, *agent.Runtime) {
						release = make(chan struct{})
						<-release
					}
					inHost(t, op, grace, hang, func(
						t *testing.T, rt *agent.Runtime, stop func(), done <-chan error,
					) {
						defer stop()
						defer close(release)
						began := time.Now()
						var err error
						if how == "Shutdown" {
							err = rt.Shutdown(t.Context())
							require.NoError(t, <-done, "Run leaves it to Shutdown")
						} else {
							stop()
							err = <-done
						}
						require.Equal(t, grace, time.Since(began))
						var left *agent.StillRunningError
						require.ErrorAs(t, err, &left)
						if op == "farewell" {
							require.Equal(t, main, left.Deliveries)
							require.Empty(t, left.Sessions)
						} else {
							require.Len(t, left.Sessions, 1)
							require.Empty(t, left.Deliveries)
						}
						require.ErrorContains(t, err, "not returned: agent:main:")
					})
				})
			}
		}
	}
}

// A call of a ThreadHost that returns when its ctx ends is waited for within the grace period, and
// neither Run nor Shutdown names it. If no call of Shutdown is left at the end, Run names one that
// hangs.
func TestShutdownWaitsForAThreadHost(t *testing.T) {
	for _, op := range hostOps {
		t.Run(op, func(t *testing.T) {
			honour := func(ctx context.Context, _ *agent.Runtime) {
				<-ctx.Done()
				time.Sleep(time.Second / 2)
			}
			inHost(t, op, time.Second, honour, func(
				t *testing.T, rt *agent.Runtime, _ func(), done <-chan error,
			) {
				began := time.Now()
				require.NoError(t, rt.Shutdown(t.Context()))
				require.NoError(t, <-done)
				require.Equal(t, time.Second/2, time.Since(began))
			})
		})
		t.Run(op+" no Shutdown is left", func(t *testing.T) {
			var release chan struct{}
			hang := func(context.Context, *agent.Runtime) {
				release = make(chan struct{})
				<-release
			}
			inHost(t, op, time.Second, hang, func(
				t *testing.T, rt *agent.Runtime, stop func(), done <-chan error,
			) {
				defer close(release)
				stop()
				require.ErrorAs(t, <-done, new(*agent.StillRunningError))
				require.ErrorAs(t, rt.Shutdown(t.Context()), new(*agent.StillRunningError))
			})
		})
	}
}

// A session is named once, however many calls for it hang.
func TestShutdownNamesASessionOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		chat := agenttest.NewFakeChannel("discord")
		cfg := agent.Config{Runner: sayOK, Grace: time.Second, Store: session.NewMemory()}
		chat.Connect(&cfg)
		main := session.Must(session.MainKey("main"))
		rt, err := agent.Open(t.Context(), cfg)
		require.NoError(t, err)
		release := make(chan struct{})
		defer synctest.Wait()
		defer close(release)
		chat.Intercept(func(context.Context, agenttest.FakeCall) error {
			<-release
			return nil
		})
		for range 3 {
			go func() {
				_, _ = rt.Focus(t.Context(), agent.FocusRequest{
					Conversation: chat.At("general", ""), NewThread: true, Session: main, By: "alice",
				})
			}()
		}
		synctest.Wait()
		var left *agent.StillRunningError
		require.ErrorAs(t, rt.Shutdown(t.Context()), &left)
		require.Equal(t, []session.Key{main}, left.Sessions)
		require.ErrorContains(t, left, "1 session has code that has not returned: "+main.String())
	})
}

// Shutdown under the ctx of a method of a ThreadHost does not wait for that method.
func TestShutdownUnderAThreadHost(t *testing.T) {
	for _, op := range hostOps {
		for _, grace := range []time.Duration{time.Millisecond, 10 * time.Second} {
			t.Run(op+" "+grace.String(), func(t *testing.T) {
				var err error
				var took time.Duration
				quit := func(ctx context.Context, rt *agent.Runtime) {
					began := time.Now()
					err = rt.Shutdown(ctx)
					took = time.Since(began)
				}
				inHost(t, op, grace, quit, func(
					t *testing.T, _ *agent.Runtime, _ func(), done <-chan error,
				) {
					require.NoError(t, <-done)
					require.NoError(t, err)
					require.Zero(t, took)
				})
			})
		}
	}
}
