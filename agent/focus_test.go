package agent_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/binding"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// A ctx that has ended before the call has no effect: no thread is created, and nothing recorded.
func TestFocusWithAnEndedContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		chat := agenttest.NewFakeChannel("discord")
		cfg := agent.Config{Runner: sayOK}
		chat.Connect(&cfg)
		rt, err := agent.Open(t.Context(), cfg)
		require.NoError(t, err)
		_, err = rt.Session(topKey).Post(t.Context(), agent.Incoming{Text: "x"})
		require.NoError(t, err)
		cause := errors.New("the caller has left")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		at := chat.At("general", "")
		_, err = rt.Focus(ctx, agent.FocusRequest{
			Conversation: at, Session: topKey, By: "ann", NewThread: true,
		})
		require.ErrorIs(t, err, agent.ErrNotRecorded)
		require.ErrorIs(t, err, cause)
		require.Empty(t, chat.Threads())
		_, err = rt.Unfocus(ctx, agent.UnfocusRequest{Conversation: at, By: "ann"})
		require.ErrorIs(t, err, agent.ErrNotRecorded)
		_, err = rt.LimitFocus(ctx, at, "ann", binding.Limit{})
		require.ErrorIs(t, err, agent.ErrNotRecorded)
		require.NoError(t, rt.Shutdown(t.Context()))
	})
}

// Focus on a session that would refuse a message now is refused with the error of the message, and
// before anything exists: no thread, no binding, and the one that the conversation has stays.
func TestFocusOnASessionThatRefuses(t *testing.T) {
	painter := policy.Agent{ID: "painter"}
	main := policy.Agent{ID: "main", Subagents: policy.Subagents{AllowAgents: []string{"*"}}}
	before := policy.Rules{
		Agents: []policy.Agent{main, painter}, Subagents: policy.Subagents{MaxSpawnDepth: 2},
	}
	with := func(change func(r *policy.Rules)) policy.Rules {
		r := before
		change(&r)
		return r
	}
	for name, c := range map[string]struct {
		rules  policy.Rules // of the process that is asked
		delete bool
		below  bool
		absent bool
		top    session.Key
	}{
		"its agent is not there any more": {
			rules: with(func(r *policy.Rules) { r.Agents = []policy.Agent{main} }),
		},
		"its agent may not be spawned any more": {
			rules: with(func(r *policy.Rules) { r.Agents = []policy.Agent{{ID: "main"}, painter} }),
		},
		"the budget of the tree is spent": {
			rules: with(func(r *policy.Rules) { r.Budget.Tokens = 1 }),
		},
		"below one that has ended": {rules: before, below: true},
		"archived":                 {rules: before, delete: true},
		"not on record":            {rules: before, absent: true},
		"top-level, of an agent that is not there": {
			rules: before, top: session.Must(session.MainKey("sculptor")),
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				chat := agenttest.NewFakeChannel("discord")
				var below session.Key
				cfg := agent.Config{Store: session.NewMemory(), Rules: before}
				cfg.Runner = agent.RunnerFunc(
					func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
						if tn.Session.Key.Agent() == "painter" && tn.Session.Depth == 1 && tn.N == 1 {
							child, err := tn.Spawn(ctx, agent.Task{Text: "x"})
							require.NoError(t, err)
							below = child.Key()
							_, err = child.Wait(ctx)
							require.NoError(t, err)
						}
						return agent.Result{Text: "ok", Usage: agent.Usage{Input: 5}}, nil
					})
				chat.Connect(&cfg)
				at, other := chat.At("general", ""), chat.At("lounge", "")
				key := topKey
				running(t, cfg, func(rt *agent.Runtime) {
					_, err := rt.Session(topKey).Post(t.Context(), agent.Incoming{Text: "x"})
					require.NoError(t, err)
					child, err := rt.Session(topKey).Spawn(t.Context(),
						agent.Task{Text: "x", Agent: "painter"})
					require.NoError(t, err)
					_, err = child.Wait(t.Context())
					require.NoError(t, err)
					_, err = rt.Focus(t.Context(), agent.FocusRequest{
						Conversation: other, Session: topKey, By: "ann",
					})
					require.NoError(t, err)
					key = child.Key()
				})
				cfg.Rules = c.rules
				running(t, cfg, func(rt *agent.Runtime) {
					switch {
					case c.below:
						key = below
					case c.top.IsValid():
						key = c.top
					case c.absent:
						key = session.Must(topKey.Child("main", session.NewID()))
					case c.delete:
						require.NoError(t, rt.DeleteSession(t.Context(), key))
					}
					bound, err := rt.Bindings(t.Context())
					require.NoError(t, err)
					require.Len(t, bound, 1)
					for _, q := range []agent.FocusRequest{
						{Conversation: at},
						{Conversation: at, NewThread: true},
						{Conversation: other},
					} {
						q.Session, q.By = key, "ann"
						_, err = rt.Focus(t.Context(), q)
						message := agent.Incoming{Text: "x"}
						_, refused := rt.Session(key).Post(t.Context(), message)
						require.Error(t, refused)
						require.Error(t, err)
						sameKind(t, refused, err)
						now, err := rt.Bindings(t.Context())
						require.NoError(t, err)
						require.Equal(t, bound, now)
					}
					require.Empty(t, chat.Threads())
					require.Empty(t, chat.Farewells(other))
				})
			})
		})
	}
}

// sameKind checks that an error says what another one does, about the same session.
func sameKind(t *testing.T, want, got error) {
	t.Helper()
	for _, kind := range []error{
		agent.ErrNotFound, agent.ErrArchived, agent.ErrEnded, spawn.ErrStopping,
	} {
		require.Equal(t, errors.Is(want, kind), errors.Is(got, kind), "%v, %v", want, got)
	}
	a, isRefusal := errors.AsType[*policy.Refusal](want)
	b, _ := errors.AsType[*policy.Refusal](got)
	if isRefusal {
		require.NotNil(t, b, got)
		require.Equal(t, a.Rule, b.Rule)
	}
}

// Every call that changes a binding names who asks, and a conversation is not bound to the session
// that it belongs to anyway.
func TestFocusThatMakesNoSense(t *testing.T) {
	threadsOn(t, configWith(func(context.Context, *agent.Turn) (agent.Result, error) {
		return textResult("ok")
	}), nil, func(b threadBot) {
		child, thread := b.spawnThread(agent.Task{Text: "x"})
		own, err := b.chat.Key(b.general)
		require.NoError(b.T(), err)
		for name, call := range map[string]func() error{
			"By": func() error {
				return errorOf(b.Runtime().Unfocus(b.Context(),
					agent.UnfocusRequest{Conversation: thread}))
			},
			"By ": func() error {
				return errorOf(b.Runtime().LimitFocus(b.Context(), thread, "", binding.Limit{}))
			},
			"By  ":         func() error { return errorOf(b.focus(thread, child.Key(), "")) },
			"Conversation": func() error { return errorOf(b.focus(b.general, own, "alice")) },
			"Conversation ": func() error {
				return errorOf(b.focus(b.chat.At("", ""), child.Key(), "alice"))
			},
			"Conversation  ": func() error {
				return errorOf(b.focus(session.Route{To: "general"}, child.Key(), "alice"))
			},
			"Conversation   ": func() error { // no thread is created in a thread
				return errorOf(b.Runtime().Focus(b.Context(), agent.FocusRequest{
					Conversation: thread, Session: child.Key(), By: "alice", NewThread: true,
				}))
			},
			"Reason": func() error {
				return errorOf(b.Runtime().Unfocus(b.Context(), agent.UnfocusRequest{
					Conversation: thread, By: "alice", Reason: 200,
				}))
			},
			"Conversation.Thread": func() error {
				return errorOf(b.focus(b.chat.At("general", "\xff"), child.Key(), "alice"))
			},
		} {
			var input *agent.InputError
			require.ErrorAs(b.T(), call(), &input, name)
			require.Equal(b.T(), strings.TrimSpace(name), input.Field)
		}
		long := new(agent.LimitError)
		err = errorOf(b.focus(b.chat.At(strings.Repeat("x", session.MaxKeyLen+1), ""), child.Key(),
			"alice"))
		require.ErrorAs(b.T(), err, &long)
		require.Equal(b.T(), "Conversation.To", long.Field)
		err = errorOf(b.Runtime().Focus(b.Context(), agent.FocusRequest{
			Conversation: b.general, Session: child.Key(), By: "alice", NewThread: true,
			Label: strings.Repeat("ä", 201),
		}))
		require.ErrorAs(b.T(), err, &long)
		require.Equal(b.T(), "Label", long.Field)
		by := strings.Repeat("x", session.MaxKeyLen+1)
		err = errorOf(b.Runtime().Focus(b.Context(), agent.FocusRequest{
			Conversation: b.general, Session: child.Key(), By: by, NewThread: true,
		}))
		require.ErrorAs(b.T(), err, &long)
		require.Equal(b.T(), "By", long.Field)
		err = errorOf(b.Runtime().Unfocus(b.Context(), agent.UnfocusRequest{
			Conversation: b.general, By: by,
		}))
		require.ErrorAs(b.T(), err, &long)
		require.Equal(b.T(), "By", long.Field)
		err = errorOf(b.Runtime().LimitFocus(b.Context(), thread, by, binding.Limit{}))
		require.ErrorAs(b.T(), err, &long)
		require.Equal(b.T(), "By", long.Field)
		require.Len(b.T(), b.bindings(), 1)
		require.Len(b.T(), b.chat.Threads(), 1)
	})
}

// The ID of a request is bound as the ID of a message is, with and without a new thread, before
// anything exists.
func TestFocusTakesTheIDsOfMessages(t *testing.T) {
	for _, limit := range []int{0, 100, policy.Off} {
		cfg := agent.Config{Runner: sayOK}
		cfg.Limits.ID = limit
		threadsOn(t, cfg, nil, func(b threadBot) {
			child := b.worker("worker")
			for i, id := range []string{
				"", "1", "ä\x00\n", strings.Repeat("x", 100), strings.Repeat("x", 101),
				strings.Repeat("x", 4096), strings.Repeat("x", 4097), "\xff", "a\xffb", "\xed\xa0\x80",
			} {
				_, want := child.Post(b.Context(), agent.Incoming{ID: id, Text: "x"})
				for _, creates := range []bool{false, true} {
					threads := len(b.chat.Threads())
					_, err := b.Runtime().Focus(b.Context(), agent.FocusRequest{
						Conversation: b.chat.At(fmt.Sprint("room", i), ""), Session: child.Key(),
						By: "alice", ID: id, NewThread: creates,
					})
					if want == nil {
						require.NoError(t, err, "%d %q", limit, id)
						continue
					}
					var input *agent.InputError
					require.ErrorAs(t, err, &input)
					require.Equal(t, "ID", input.Field)
					if bound := new(agent.LimitError); errors.As(want, &bound) {
						long := new(agent.LimitError)
						require.ErrorAs(t, err, &long)
						require.Equal(t, "Limits.ID", long.Path)
						require.Equal(t, bound.Limit, long.Limit)
					}
					require.Len(t, b.chat.Threads(), threads)
				}
				b.Pass(time.Minute)
			}
		})
	}
}

// A conversation that was unfocused is in no RunInfo when Unfocus has returned.
func TestUnfocusIsSeenAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		chat := agenttest.NewFakeChannel("discord")
		cfg := configWith(func(context.Context, *agent.Turn) (agent.Result, error) {
			return agent.Result{Text: "an answer"}, nil
		})
		chat.Connect(&cfg)
		rt := runUntilEnd(t, cfg)
		s := rt.Session(topKey)
		child, err := s.Spawn(t.Context(), agent.Task{Text: "x"})
		require.NoError(t, err)
		synctest.Wait()
		for range 20 {
			made, err := rt.Focus(t.Context(), agent.FocusRequest{
				Conversation: chat.At("general", ""), NewThread: true, Session: child.Key(), By: "ann",
			})
			require.NoError(t, err)
			info, err := child.Info(t.Context())
			require.NoError(t, err)
			require.Equal(t, []session.Route{made.Conversation}, info.Conversations)
			_, err = rt.Unfocus(t.Context(), agent.UnfocusRequest{
				Conversation: made.Conversation, By: "ann",
			})
			require.NoError(t, err)
			info, err = child.Info(t.Context())
			require.NoError(t, err)
			require.Empty(t, info.Conversations)
		}
	})
}

// The ID of a request is one of its conversation: two rooms that count alike have a thread each,
// for people of their own, and a repeated request has the thread that it had.
func TestFocusOfTheSameIDInTwoRooms(t *testing.T) {
	threadsOn(t, agent.Config{Runner: echoRunner}, nil, func(b threadBot) {
		worker := b.worker("worker")
		made := map[session.Route]string{}
		for _, again := range []bool{false, true} {
			for room, by := range map[string]string{"general": "alice", "other": "bob"} {
				in := b.chat.At(room, "")
				got, err := b.Runtime().Focus(b.Context(), agent.FocusRequest{
					Conversation: in, Session: worker.Key(), By: by, NewThread: true, ID: "7",
				})
				require.NoError(t, err)
				at := got.Conversation
				require.Equal(t, room, at.To)
				require.NotEmpty(t, at.Thread)
				require.Equal(t, by, got.By)
				_, known := made[at]
				require.Equal(t, again, known)
				made[at] = by
			}
		}
		require.Len(t, made, 2)
		for at := range made {
			require.Equal(t, worker.Key(), b.write(at, "hello").Session)
		}
	})
}
