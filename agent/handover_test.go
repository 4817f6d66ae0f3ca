package agent_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/session"
)

// runFor runs a Runtime for the duration of f.
func runFor(t *testing.T, cfg agent.Config, f func(rt *agent.Runtime)) {
	t.Helper()
	rt, err := agent.Open(t.Context(), cfg)
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() { done <- rt.Run(t.Context()) }()
	synctest.Wait()
	f(rt)
	require.NoError(t, rt.Shutdown(t.Context()))
	require.NoError(t, <-done)
}

func TestWithoutReplyAnswersAreInTheTranscript(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, notes := newNotebook()
		cfg := configWith(func(_ context.Context, tn *agent.Turn) (agent.Result, error) {
			return textResult("answer to " + tn.Input())
		})
		cfg.Store = store
		runFor(t, cfg, func(rt *agent.Runtime) {
			require.NoError(
				t, errorOf(rt.Session(topKey).Post(t.Context(), agent.Incoming{Text: "a"})),
			)
			synctest.Wait()
			require.Equal(t, []string{"user: a", "assistant: answer to a"}, notes.shown(t, topKey))
			blocked, err := rt.Blocked(t.Context())
			require.NoError(t, err)
			require.Empty(t, blocked)
		})
	})
}

// A completion that a bot could not take becomes an input of the session when Offshoot is to run it
// from now on.
func TestCallerHandsItsSessionsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var replies []string
		cfg := configWith(func(_ context.Context, tn *agent.Turn) (agent.Result, error) {
			if tn.Run != "" {
				return textResult("42")
			}
			return textResult("I hear " + tn.Messages[len(tn.Messages)-1].ID)
		})
		cfg.Store = session.NewMemory()
		cfg.Deliver = func(context.Context, agent.Delivery) error {
			return errors.New("no connection")
		}
		var id string
		runFor(t, cfg, func(rt *agent.Runtime) {
			c, err := agent.Spawn[string](t.Context(), rt.Session(topKey),
				agent.Task{Text: "count", Announce: true})
			require.NoError(t, err)
			id = string(c.ID())
			synctest.Wait()
		})
		cfg.Deliver = nil
		cfg.Reply = func(_ context.Context, d agent.Delivery) error {
			replies = append(replies, d.Reply.Text)
			return nil
		}
		runFor(t, cfg, func(*agent.Runtime) {
			time.Sleep(time.Minute)
			synctest.Wait()
			require.Equal(t, []string{"I hear " + id}, replies)
		})
	})
}

// A reply that a Config without Reply cannot take is kept until a Config has one again.
func TestReplyWaitsForAReceiver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var replies []string
		cfg := configWith(func(context.Context, *agent.Turn) (agent.Result, error) {
			return textResult("answer")
		})
		cfg.Store = session.NewMemory()
		cfg.Reply = func(context.Context, agent.Delivery) error { return errors.New("no connection") }
		runFor(t, cfg, func(rt *agent.Runtime) {
			require.NoError(
				t, errorOf(rt.Session(topKey).Post(t.Context(), agent.Incoming{Text: "a"})),
			)
			synctest.Wait()
		})
		cfg.Reply = nil
		runFor(t, cfg, func(*agent.Runtime) { time.Sleep(2 * time.Hour) })
		cfg.Reply = func(_ context.Context, d agent.Delivery) error {
			replies = append(replies, d.Reply.Text)
			return nil
		}
		runFor(t, cfg, func(rt *agent.Runtime) {
			blocked, err := rt.Blocked(t.Context())
			require.NoError(t, err)
			require.Len(t, blocked, 1)
			require.NoError(t, rt.Retry(t.Context(), blocked[0].Key))
			synctest.Wait()
			require.Equal(t, []string{"answer"}, replies)
		})
	})
}

// Two Runtimes over one Store take a tree from each other: each tree has one owner at a time. A
// call of the one that has lost it may be ErrNotRecorded, and comes again. Each message is
// answered once.
func TestTwoRuntimesOverOneStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := session.NewMemory()
		var replies, want []string
		lost := 0
		config := func() agent.Config {
			cfg := configWith(func(_ context.Context, tn *agent.Turn) (agent.Result, error) {
				return textResult("heard " + tn.Input())
			})
			cfg.Store = store
			cfg.Reply = func(_ context.Context, d agent.Delivery) error {
				replies = append(replies, d.Reply.Text)
				return nil
			}
			return cfg
		}
		runFor(t, config(), func(one *agent.Runtime) {
			runFor(t, config(), func(two *agent.Runtime) {
				for i, rt := range []*agent.Runtime{one, two, one, one, two, two, one} {
					m := agent.Incoming{ID: fmt.Sprint(i), Text: fmt.Sprint("message ", i)}
					_, err := rt.Session(topKey).Post(t.Context(), m)
					if errors.Is(err, agent.ErrNotRecorded) {
						lost++
						_, err = rt.Session(topKey).Post(t.Context(), m)
					}
					require.NoError(t, err)
					want = append(want, "heard "+m.Text)
					time.Sleep(time.Minute)
				}
			})
		})
		require.Equal(t, want, replies)
		require.Positive(t, lost)
	})
}
