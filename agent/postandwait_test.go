package agent_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/session"
)

// An awaited is a call of PostAndWait that goes on beside the test.
type awaited struct {
	reply agent.Reply
	err   error
	done  chan struct{}
}

// await posts a message and waits for the reply in a goroutine.
func await(ctx context.Context, s *agent.Session, m agent.Incoming) *awaited {
	a := &awaited{done: make(chan struct{})}
	go func() {
		defer close(a.done)
		a.reply, a.err = s.PostAndWait(ctx, m)
	}()
	return a
}

// over reports whether the call has returned when everything that can happen now has happened.
func (a *awaited) over() bool {
	synctest.Wait()
	select {
	case <-a.done:
		return true
	default:
		return false
	}
}

// slow is a bot that takes an hour for each turn.
func slow() agent.Config {
	return saying(func(ctx context.Context, _ *agent.Turn) (string, error) {
		return "hi", pause(ctx, time.Hour)
	})
}

// A message that was posted before is waited for while it is unread or its turn is under way.
// Several may wait for it, and each gets the reply, which Config.Reply gets once.
func TestPostAndWaitOfAKnownMessage(t *testing.T) {
	m := agent.Incoming{ID: "1", Text: "hi"}
	agenttest.Run(t, slow(), nil, func(h *harness) {
		h.PostIncoming(topKey, m)
		underWay := await(h.Context(), h.Main(), m)
		require.False(t, underWay.over())
		next := agent.Incoming{ID: "2", Text: "and?"}
		unread := await(h.Context(), h.Main(), next)
		again := await(h.Context(), h.Main(), next)
		h.Pass(time.Hour)
		require.True(t, underWay.over())
		require.Equal(t, []string{"1"}, underWay.reply.InReplyTo)
		require.False(t, unread.over())
		h.Pass(time.Hour)
		for _, a := range []*awaited{unread, again} {
			require.True(t, a.over())
			require.NoError(t, a.err)
			require.Equal(t, []string{"2"}, a.reply.InReplyTo)
		}
		h.Replied("hi", "hi")
		_, err := h.Main().PostAndWait(h.Context(), m)
		require.ErrorIs(t, err, agent.ErrAnswered)
	})
}

// A reply that has not been delivered yet is returned, by a later process too.
func TestPostAndWaitFindsTheReplyInTheOutbox(t *testing.T) {
	m := agent.Incoming{ID: "1", Text: "hi"}
	cfg := saying(func(context.Context, *agent.Turn) (string, error) { return "hello", nil })
	cfg.Reply = func(context.Context, agent.Delivery) error { return errors.New("offline") }
	agenttest.Run(t, cfg, nil, func(h *harness) {
		h.PostIncoming(topKey, m)
		synctest.Wait()
		for range 2 {
			reply, err := h.Main().PostAndWait(h.Context(), m)
			require.NoError(t, err)
			require.Equal(t, "hello", reply.Text)
			h.Crash()
		}
	})
}

// A crash ends the call with its process. The next process waits for the turn that repeats the one
// that crashed, and finds the apology after three of them.
func TestPostAndWaitOverCrashes(t *testing.T) {
	m := agent.Incoming{ID: "1", Text: "hi"}
	for crashes, want := range []string{
		0: "hi", 1: "hi", 2: "hi",
		3: "Sorry, something went wrong and I could not finish that. Please try again.",
	} {
		cfg := slow()
		cfg.Reply = func(context.Context, agent.Delivery) error { return errors.New("offline") }
		agenttest.Run(t, cfg, nil, func(h *harness) {
			a := &awaited{done: make(chan struct{})}
			go func() {
				defer close(a.done)
				a.err = h.Do(func(rt *agent.Runtime) (err error) {
					a.reply, err = rt.Session(topKey).PostAndWait(h.Context(), m)
					return err
				})
			}()
			for range crashes {
				require.False(t, a.over())
				h.Crash()
			}
			h.Pass(time.Hour)
			require.True(t, a.over())
			require.NoError(t, a.err)
			require.Equal(t, want, a.reply.Text)
			require.Equal(t, crashes == 3, a.reply.Failed)
		})
	}
}

// The call ends when its caller goes, the program ends, or a person does not let the turn begin.
func TestPostAndWaitEnds(t *testing.T) {
	m := agent.Incoming{ID: "1", Text: "hi"}
	agenttest.Run(t, slow(), nil, func(h *harness) {
		ctx, cancel := context.WithTimeoutCause(h.Context(), time.Minute, errors.New("gone"))
		defer cancel()
		_, err := h.Main().PostAndWait(ctx, m)
		require.EqualError(t, err, "gone")
		require.NotErrorIs(t, err, agent.ErrNotRecorded)
		a := await(h.Context(), h.Main(), m)
		require.False(t, a.over())
		now, end := context.WithCancel(h.Context())
		end()
		require.NoError(t, h.Runtime().Shutdown(now))
		require.True(t, a.over())
		require.ErrorIs(t, a.err, agent.ErrShutdown)
	})
	for name, end := range map[string]func(ctx context.Context, s *agent.Session) error{
		"cancel": func(ctx context.Context, s *agent.Session) error { return s.CancelTurn(ctx) },
		"stop":   func(ctx context.Context, s *agent.Session) error { return s.Stop(ctx) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rt := mustOpen(t, slow()) // it does not run: no turn begins
				a := await(t.Context(), rt.Session(topKey), m)
				require.False(t, a.over())
				require.NoError(t, end(t.Context(), rt.Session(topKey)))
				require.True(t, a.over())
				require.ErrorIs(t, a.err, agent.ErrTurnCancelled)
				require.NoError(t, rt.Shutdown(t.Context()))
			})
		})
	}
}

// A message that comes while a turn is under way does not end with that turn, however it ends.
func TestPostAndWaitOutlivesTheTurnBefore(t *testing.T) {
	for name, end := range map[string]func(ctx context.Context, s *agent.Session) error{
		"cancel": func(ctx context.Context, s *agent.Session) error { return s.CancelTurn(ctx) },
		"stop":   func(ctx context.Context, s *agent.Session) error { return s.Stop(ctx) },
	} {
		for says, want := range map[string]error{"hi": nil, "NO_REPLY": agent.ErrSilent} {
			t.Run(name+"/"+says, func(t *testing.T) {
				cfg := saying(func(ctx context.Context, _ *agent.Turn) (string, error) {
					return says, pause(ctx, time.Hour)
				})
				agenttest.Run(t, cfg, nil, func(h *harness) {
					first := await(h.Context(), h.Main(), agent.Incoming{ID: "1", Text: "hi"})
					require.False(t, first.over())
					second := await(h.Context(), h.Main(), agent.Incoming{ID: "2", Text: "and?"})
					require.False(t, second.over())
					require.NoError(t, end(h.Context(), h.Main()))
					require.True(t, first.over())
					require.Error(t, first.err)
					require.False(t, second.over())
					h.Pass(time.Hour)
					require.True(t, second.over())
					require.ErrorIs(t, second.err, want)
				})
			})
		}
	}
}

// A turn that waits for the answer of another session gives its slot back. It cannot wait for its
// own session, and not for a sub-agent.
func TestPostAndWaitInATurn(t *testing.T) {
	other := session.Must(session.DirectKey("main", "telegram", "ann"))
	var rt *agent.Runtime
	cfg := saying(func(ctx context.Context, tn *agent.Turn) (string, error) {
		if tn.Session.Key != topKey {
			return "pong", nil
		}
		_, err := rt.Session(topKey).PostAndWait(ctx, agent.Incoming{Text: "x"})
		_, own := errors.AsType[*agent.InputError](err)
		assert.True(t, own, "%v", err)
		child, err := tn.Spawn(ctx, agent.Task{Text: "x"})
		assert.NoError(t, err)
		_, err = child.Session().PostAndWait(ctx, agent.Incoming{Text: "x"})
		assert.ErrorIs(t, err, agent.ErrNoConversation)
		reply, err := rt.Session(other).PostAndWait(ctx, agent.Incoming{Text: "ping"})
		return reply.Text, err
	})
	cfg.Rules.MaxSessions = 1
	agenttest.Run(t, cfg, nil, func(h *harness) {
		rt = h.Runtime()
		reply, err := h.Main().PostAndWait(h.Context(), agent.Incoming{Text: "go"})
		require.NoError(t, err)
		require.Equal(t, "pong", reply.Text)
	})
}

// Another process that takes the tree over ends the call: the message may be answered there.
func TestPostAndWaitOfALostTree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := slow()
		cfg.Store = session.NewMemory()
		runFor(t, cfg, func(rt *agent.Runtime) {
			m := agent.Incoming{ID: "1", Text: "hi"}
			a := await(t.Context(), rt.Session(topKey), m)
			require.False(t, a.over())
			runFor(t, cfg, func(other *agent.Runtime) {
				b := await(t.Context(), other.Session(topKey), m)
				require.False(t, b.over())
				require.Error(t, rt.Session(topKey).Post(t.Context(), agent.Incoming{Text: "x"}))
				require.True(t, a.over())
				require.ErrorIs(t, a.err, agent.ErrUnconfirmed)
				time.Sleep(2 * time.Hour)
				require.True(t, b.over())
				require.NoError(t, b.err)
			})
		})
	})
}
