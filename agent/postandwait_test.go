package agent_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
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
		gone := errors.New("gone")
		ctx, cancel := context.WithTimeoutCause(h.Context(), time.Minute, gone)
		defer cancel()
		_, err := h.Main().PostAndWait(ctx, m)
		require.ErrorIs(t, err, gone)
		require.ErrorIs(t, err, agent.ErrUnconfirmed)
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

// A message that comes while a turn is under way does not end with that turn, however it ends, and
// the wait for that turn says why it ended, wherever the next message came from.
func TestPostAndWaitOutlivesTheTurnBefore(t *testing.T) {
	for name, end := range map[string]struct {
		do   func(s *agent.Session, ctx context.Context) error
		want error
		from session.Route
	}{
		"cancel": {do: (*agent.Session).CancelTurn, want: agent.ErrTurnCancelled},
		"stop":   {do: (*agent.Session).Stop, want: agent.ErrStopped},
		"cancel, another room": {
			do: (*agent.Session).CancelTurn, want: agent.ErrTurnCancelled,
			from: session.Route{Channel: "irc", To: "b"},
		},
		"stop, another room": {
			do: (*agent.Session).Stop, want: agent.ErrStopped,
			from: session.Route{Channel: "irc", To: "b"},
		},
	} {
		for says, want := range map[string]error{"hi": nil, "NO_REPLY": agent.ErrSilent} {
			t.Run(name+"/"+says, func(t *testing.T) {
				cfg := saying(func(ctx context.Context, _ *agent.Turn) (string, error) {
					return says, pause(ctx, time.Hour)
				})
				agenttest.Run(t, cfg, nil, func(h *harness) {
					first := await(h.Context(), h.Main(), agent.Incoming{ID: "1", Text: "hi"})
					require.False(t, first.over())
					second := await(h.Context(), h.Main(), agent.Incoming{
						ID: "2", Text: "and?", Route: end.from,
					})
					require.False(t, second.over())
					require.NoError(t, end.do(h.Main(), h.Context()))
					require.True(t, first.over())
					require.ErrorIs(t, first.err, end.want)
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
				require.Error(
					t, errorOf(rt.Session(topKey).Post(t.Context(), agent.Incoming{Text: "x"})),
				)
				require.True(t, a.over())
				require.ErrorIs(t, a.err, agent.ErrUnconfirmed)
				time.Sleep(2 * time.Hour)
				require.True(t, b.over())
				require.NoError(t, b.err)
			})
		})
	})
}

// 1.4: PostAndWait ends with what answers the message in the end, or says why there is nothing.
func TestPostAndWait(t *testing.T) {
	fail := errors.New("broken")
	cancelTurn := func(ctx context.Context, s *agent.Session) error { return s.CancelTurn(ctx) }
	stop := func(ctx context.Context, s *agent.Session) error { return s.Stop(ctx) }
	for name, c := range map[string]struct {
		run   func(ctx context.Context, tn *agent.Turn) (string, error)
		after func(ctx context.Context, main *agent.Session) error // a minute later
		want  string
		err   error
	}{
		"an answer": {run: func(context.Context, *agent.Turn) (string, error) { return "hi", nil }, want: "hi"},
		"what it ends with": {
			run: func(ctx context.Context, tn *agent.Turn) (string, error) {
				return "later", tn.Say(ctx, "first")
			},
			want: "later",
		},
		"what it says last": {
			run: func(ctx context.Context, tn *agent.Turn) (string, error) {
				return "NO_REPLY", errors.Join(tn.Say(ctx, "first"), tn.Say(ctx, "interim"))
			},
			want: "interim",
		},
		"what it says before it is stopped": {
			run: func(ctx context.Context, tn *agent.Turn) (string, error) {
				return "late", errors.Join(tn.Say(ctx, "first"), pause(ctx, time.Hour))
			},
			after: stop,
			err:   agent.ErrStopped,
		},
		"what a later turn ends with": {
			run: func(ctx context.Context, tn *agent.Turn) (string, error) {
				if tn.Run != "" || tn.N > 1 {
					return "done", pause(ctx, time.Minute)
				}
				_, err := tn.Spawn(ctx, agent.Task{Text: "x", Announce: true})
				return "NO_REPLY", errors.Join(err, tn.Say(ctx, "first"))
			},
			want: "done",
		},
		"silence": {
			run: func(context.Context, *agent.Turn) (string, error) { return "NO_REPLY", nil },
			err: agent.ErrSilent,
		},
		"a failure": {
			run:  func(context.Context, *agent.Turn) (string, error) { return "", fail },
			want: "Sorry, something went wrong and I could not finish that. Please try again.",
		},
		"a failure with words": {
			run:  func(context.Context, *agent.Turn) (string, error) { return "half", fail },
			want: "half",
		},
		"the turn after a sub-agent": {
			run: func(ctx context.Context, tn *agent.Turn) (string, error) {
				switch {
				case tn.Run != "":
					return "found", pause(ctx, time.Minute)
				case tn.N > 1:
					return "It is found.", nil
				}
				_, err := tn.Spawn(ctx, agent.Task{Text: "x", Announce: true})
				return "NO_REPLY", err
			},
			want: "It is found.",
		},
		"a sub-agent that says nothing": {
			run: func(ctx context.Context, tn *agent.Turn) (string, error) {
				if tn.Run != "" {
					return "NO_REPLY", pause(ctx, time.Minute)
				}
				_, err := tn.Spawn(ctx, agent.Task{Text: "x", Announce: true})
				return "NO_REPLY", err
			},
			err: agent.ErrSilent,
		},
		"cancelled": {
			run: func(ctx context.Context, tn *agent.Turn) (string, error) {
				return "late", pause(ctx, time.Hour)
			},
			after: cancelTurn,
			err:   agent.ErrTurnCancelled,
		},
		"stopped": {
			run: func(ctx context.Context, tn *agent.Turn) (string, error) {
				return "late", pause(ctx, time.Hour)
			},
			after: stop,
			err:   agent.ErrStopped,
		},
		"cancelled while a sub-agent works": {
			run: func(ctx context.Context, tn *agent.Turn) (string, error) {
				if tn.Run != "" {
					return "x", pause(ctx, 3*time.Hour)
				}
				_, err := tn.Spawn(ctx, agent.Task{Text: "x", Announce: true})
				err = errors.Join(err, tn.Say(ctx, "first"))
				_ = pause(ctx, time.Hour)
				return "NO_REPLY", err
			},
			after: cancelTurn,
			err:   agent.ErrTurnCancelled,
		},
		"stopped while a sub-agent works": {
			run: func(ctx context.Context, tn *agent.Turn) (string, error) {
				if tn.Run != "" {
					return "x", pause(ctx, time.Hour)
				}
				_, err := tn.Spawn(ctx, agent.Task{Text: "x", Announce: true})
				return "NO_REPLY", err
			},
			after: stop,
			err:   agent.ErrStopped,
		},
	} {
		for _, id := range []string{"", "1"} {
			for _, replies := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s/id=%s/reply=%v", name, id, replies), func(t *testing.T) {
					waitOnce(t, saying(c.run), id, replies, c.after, c.want, c.err)
				})
			}
		}
	}
}

// waitOnce posts a message and waits for its reply. Without replies the Config has no Reply.
func waitOnce(
	t *testing.T, cfg agent.Config, id string, replies bool,
	after func(context.Context, *agent.Session) error, want string, wantErr error,
) {
	check := func(ctx context.Context, main *agent.Session) {
		if after != nil {
			done := make(chan struct{})
			timer := time.AfterFunc(time.Minute, func() {
				defer close(done)
				assert.NoError(t, after(ctx, main))
			})
			defer func() {
				if !timer.Stop() {
					<-done
				}
			}()
		}
		m := agent.Incoming{ID: id, Text: "hi", Meta: map[string]string{"k": "v"}}
		reply, err := main.PostAndWait(ctx, m)
		require.ErrorIs(t, err, wantErr)
		require.Equal(t, want, reply.Text)
		if wantErr == nil {
			require.Equal(t, m.Meta, reply.Meta)
			require.Equal(t, id != "", len(reply.InReplyTo) == 1)
			require.Equal(t, strings.HasPrefix(want, "Sorry") || want == "half", reply.Failed)
			require.Equal(t, want == "interim", reply.Interim)
		}
		if id != "" {
			time.Sleep(2 * time.Hour)
			_, err = main.PostAndWait(ctx, m)
			require.ErrorIs(t, err, agent.ErrAnswered, "History has it")
		}
	}
	if replies {
		agenttest.Run(t, cfg, nil, func(h *harness) { check(h.Context(), h.Main()) })
		return
	}
	synctest.Test(t, func(t *testing.T) {
		runFor(t, cfg, func(rt *agent.Runtime) { check(t.Context(), rt.Session(topKey)) })
	})
}

// 1.4: a caller that hangs up and asks again is told what was said meanwhile, although it has been
// delivered.
func TestPostAndWaitAgainAfterASay(t *testing.T) {
	cfg := saying(func(ctx context.Context, tn *agent.Turn) (string, error) {
		return "NO_REPLY", errors.Join(tn.Say(ctx, "said"), pause(ctx, time.Minute))
	})
	agenttest.Run(t, cfg, nil, func(h *harness) {
		m := agent.Incoming{ID: "1", Text: "hi"}
		soon, cancel := context.WithTimeout(h.Context(), time.Second)
		defer cancel()
		_, err := h.Main().PostAndWait(soon, m)
		require.ErrorIs(h.T(), err, context.DeadlineExceeded)
		require.Len(h.T(), h.Replies(), 1)
		reply, err := h.Main().PostAndWait(h.Context(), m)
		require.NoError(h.T(), err)
		require.Equal(h.T(), "said", reply.Text)
		require.True(h.T(), reply.Interim)
		require.Equal(h.T(), []string{"1"}, reply.InReplyTo)
	})
}
