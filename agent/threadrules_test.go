package agent_test

import (
	"context"
	"errors"
	"slices"
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

// What only the tree has, because the log has lost or settled it, ends at the start of a process
// that finds another binding of the tree.
func TestBindingThatOnlyTheTreeHas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		chat := agenttest.NewFakeChannel("discord")
		cfg := agent.Config{Runner: sayOK, Store: session.NewMemory()}
		chat.Connect(&cfg)
		one, two := chat.At("general", "1"), chat.At("general", "2")
		chat.Set(one, agent.ThreadOpen)
		chat.Set(two, agent.ThreadOpen)
		var key session.Key
		running(t, cfg, func(rt *agent.Runtime) {
			child, err := rt.Session(topKey).Spawn(t.Context(), agent.Task{Text: "x"})
			require.NoError(t, err)
			_, err = child.Wait(t.Context())
			require.NoError(t, err)
			key = child.Key()
			for _, at := range []session.Route{one, two} {
				_, err = rt.Focus(t.Context(), agent.FocusRequest{
					Conversation: at, Session: key, By: "ann",
				})
				require.NoError(t, err)
			}
		})
		table, err := binding.Open(t.Context(), cfg.Store.Journal)
		require.NoError(t, err)
		ended, err := table.ReleaseOne(t.Context(), key, one, binding.ReasonManual, time.Now())
		require.NoError(t, err)
		require.NoError(t, table.Settle(t.Context(), ended[0].ID, time.Now()))
		running(t, cfg, func(rt *agent.Runtime) {
			time.Sleep(time.Minute)
			runs, err := rt.Session(topKey).Runs(t.Context())
			require.NoError(t, err)
			require.Equal(t, []session.Route{two}, runs[0].Conversations)
			list, err := rt.Bindings(t.Context())
			require.NoError(t, err)
			require.Len(t, list, 1)
		})
	})
}

// A Focus in the instant of an unbind, of an expiry or of an archive comes before or after it, and
// in the end the table and the trees say the same.
func TestFocusInTheSameInstant(t *testing.T) {
	for name, c := range map[string]struct {
		after time.Duration // since the first bind
		other func(b threadBot, at session.Route, worker session.Key)
	}{
		"unbind": {after: time.Minute, other: func(b threadBot, at session.Route, _ session.Key) {
			_, _ = b.Runtime().Unfocus(b.Context(), agent.UnfocusRequest{
				Conversation: at, By: binding.SystemOwner,
			})
		}},
		"expiry": {after: 24 * time.Hour, other: func(threadBot, session.Route, session.Key) {}},
		"archive": {after: time.Minute, other: func(b threadBot, _ session.Route, key session.Key) {
			_ = b.Runtime().DeleteSession(b.Context(), key)
		}},
	} {
		for _, same := range []bool{true, false} {
			for range 10 {
				rules := policy.Rules{Subagents: policy.Subagents{ArchiveAfter: policy.Off}}
				cfg := agent.Config{Runner: echoRunner, Rules: rules}
				threadsOn(t, cfg, nil, func(b threadBot) {
					worker, next := b.worker("worker").Key(), b.worker("next").Key()
					if same {
						next = worker
					}
					at := b.chat.At("general", "7")
					b.chat.Set(at, agent.ThreadOpen)
					_, err := b.focus(at, worker, "ann")
					require.NoError(t, err)
					time.Sleep(c.after)
					done := make(chan struct{})
					go func() {
						defer close(done)
						c.other(b, at, worker)
					}()
					_, err = b.focus(at, next, "ann")
					<-done
					b.Pass(time.Minute)
					list, runs := b.bindings(), b.Runs()
					for _, run := range runs {
						want := slices.ContainsFunc(list, func(of binding.Binding) bool {
							return of.Target == run.Key
						})
						require.Equal(t, want, len(run.Conversations) > 0, "%s: %v", name, run.Key)
					}
					if name == "expiry" || name == "archive" && !same {
						require.NoError(t, err)
						require.Len(t, list, 1, name)
						require.Equal(t, next, list[0].Target)
					}
					if name == "archive" && same {
						require.Empty(t, list)
						require.Len(t, runs, 1)
					}
				})
			}
		}
	}
}

// An Unfocus in the instant of another one, of an expiry, of a deletion or of a message leaves the
// conversation unbound, in the table as in the trees, with one farewell. Of two, one finds it so.
func TestUnfocusInTheSameInstant(t *testing.T) {
	unfocus := func(b threadBot, at session.Route) error {
		return errorOf(b.Runtime().Unfocus(b.Context(), agent.UnfocusRequest{
			Conversation: at, By: binding.SystemOwner,
		}))
	}
	for name, c := range map[string]struct {
		after time.Duration // since the bind
		other func(b threadBot, at session.Route, worker session.Key) error
	}{
		"unbind": {time.Minute, func(b threadBot, at session.Route, _ session.Key) error {
			return unfocus(b, at)
		}},
		"expiry": {24 * time.Hour, func(threadBot, session.Route, session.Key) error {
			return agent.ErrNotFound
		}},
		"archive": {time.Minute, func(b threadBot, _ session.Route, key session.Key) error {
			return b.Runtime().DeleteSession(b.Context(), key)
		}},
		"message": {time.Minute, func(b threadBot, at session.Route, _ session.Key) error {
			b.write(at, "hello")
			return nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			for range 10 {
				cfg := agent.Config{Runner: echoRunner}
				threadsOn(t, cfg, nil, func(b threadBot) {
					worker, at := b.worker("worker").Key(), b.chat.At("general", "7")
					b.chat.Set(at, agent.ThreadOpen)
					_, err := b.focus(at, worker, "ann")
					require.NoError(t, err)
					time.Sleep(c.after)
					done := make(chan error, 1)
					go func() { done <- c.other(b, at, worker) }()
					err = unfocus(b, at)
					other := <-done
					if err != nil {
						require.ErrorIs(t, err, agent.ErrNotFound)
					}
					switch name {
					case "unbind":
						require.NotEqual(t, err == nil, other == nil, "%v, %v", err, other)
					case "archive":
						require.NoError(t, other)
					case "message":
						require.NoError(t, err)
					}
					b.Pass(time.Minute)
					require.Empty(t, b.bindings())
					for _, run := range b.Runs() {
						require.Empty(t, run.Conversations)
					}
					require.Len(t, b.chat.Farewells(at), 1)
					own, err := b.chat.Key(at)
					require.NoError(t, err)
					require.Equal(t, own, b.write(at, "and now?").Session)
					b.Pass(time.Minute)
				})
			}
		})
	}
}

// A Focus in the instant in which an unbound session is archived, because its time was over while
// it was bound, binds it, or finds it archived. It is never both.
func TestFocusMeetsTheArchive(t *testing.T) {
	outcomes := make(map[bool]int)
	for range 20 {
		cfg := agent.Config{Runner: echoRunner}
		cfg.Rules.Subagents.ArchiveAfter = time.Minute
		threadsOn(t, cfg, nil, func(b threadBot) {
			child, err := b.Main().Spawn(b.Context(), agent.Task{Text: "begin", Label: "worker"})
			require.NoError(t, err)
			_, err = child.Wait(b.Context())
			require.NoError(t, err)
			one, two := b.chat.At("general", "7"), b.chat.At("general", "8")
			b.chat.Set(one, agent.ThreadOpen)
			b.chat.Set(two, agent.ThreadOpen)
			_, err = b.focus(one, child.Key(), "ann")
			require.NoError(t, err)
			time.Sleep(time.Hour)
			done := make(chan error, 1)
			go func() {
				done <- errorOf(b.Runtime().Unfocus(b.Context(), agent.UnfocusRequest{
					Conversation: one, By: "ann",
				}))
			}()
			_, err = b.focus(two, child.Key(), "ann")
			require.NoError(t, <-done)
			b.Pass(time.Hour)
			outcomes[err == nil]++
			if err != nil {
				require.ErrorIs(t, err, agent.ErrArchived)
				require.Empty(t, b.bindings())
				require.Empty(t, b.Runs())
				require.Empty(t, b.chat.Farewells(two))
				return
			}
			require.Len(t, b.bindings(), 1)
			require.Equal(t, []session.Route{two}, b.Runs()[0].Conversations)
			require.Equal(t, child.Key(), b.write(two, "hello").Session)
			b.Pass(time.Minute)
		})
	}
	t.Log(outcomes)
}

// A message to a session whose run is about to end, because its time is over, is the conversation's
// own session's, and does not end the binding.
func TestMessageToASessionThatIsToEnd(t *testing.T) {
	cfg := agent.Config{Runner: agent.RunnerFunc(
		func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
			if strings.Contains(tn.Input(), "[Subagent Task]") {
				<-ctx.Done()
				time.Sleep(5 * time.Second)
				return agent.Result{}, ctx.Err()
			}
			return agent.Result{Text: "heard"}, nil
		})}
	threadsOn(t, cfg, nil, func(b threadBot) {
		child, at := b.spawnThread(agent.Task{Text: "x", Timeout: time.Minute})
		b.Pass(time.Minute + time.Second)
		own, err := b.chat.Key(at)
		require.NoError(t, err)
		_, err = child.Session().Post(b.Context(), agent.Incoming{Text: "more"})
		require.ErrorIs(t, err, spawn.ErrStopping)
		require.Equal(t, own, b.write(at, "hello").Session)
		require.Len(t, b.bindings(), 1)
		b.Pass(time.Minute)
		require.Empty(t, b.chat.Farewells(at))
		require.Equal(t, child.Key(), b.write(at, "and now?").Session)
		b.Pass(time.Minute)
	})
}

// Where a later process may not bind, what is bound is not looked at: messages go where they would
// go otherwise, and one that the bound session has is known to the own session, if that is in its
// tree. With bindings switched on again, the conversation is bound as before.
func TestBindingsThatAreSwitchedOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		chat := agenttest.NewFakeChannel("discord")
		cfg := agent.Config{Runner: echoRunner, Store: session.NewMemory()}
		chat.Connect(&cfg)
		at := chat.At("general", "")
		own, err := chat.Key(at)
		require.NoError(t, err)
		var key session.Key
		message := agent.Incoming{ID: "1", Text: "hello", Route: at}
		running(t, cfg, func(rt *agent.Runtime) {
			child, err := rt.Session(own).Spawn(t.Context(), agent.Task{Text: "x"})
			require.NoError(t, err)
			_, err = child.Wait(t.Context())
			require.NoError(t, err)
			key = child.Key()
			_, err = rt.Focus(t.Context(), agent.FocusRequest{
				Conversation: at, Session: key, By: "ann",
			})
			require.NoError(t, err)
			receipt, err := rt.Session(own).Post(t.Context(), message)
			require.NoError(t, err)
			require.Equal(t, key, receipt.Session)
			time.Sleep(time.Minute)
		})
		no, off := false, cfg
		off.Threads.Bindings.Enabled = &no
		running(t, off, func(rt *agent.Runtime) {
			receipt, err := rt.Session(own).Post(t.Context(), message)
			require.NoError(t, err)
			require.Equal(t, agent.Receipt{Session: own, Existing: true}, receipt)
			receipt, err = chat.Write(t.Context(), rt, at, "ann", "to you")
			require.NoError(t, err)
			require.Equal(t, agent.Receipt{Session: own}, receipt)
			_, err = rt.Focus(t.Context(), agent.FocusRequest{
				Conversation: at, Session: key, By: "ann",
			})
			require.ErrorIs(t, err, &policy.Refusal{Rule: agent.RuleThread})
			time.Sleep(time.Minute)
			list, err := rt.Bindings(t.Context())
			require.NoError(t, err)
			require.Len(t, list, 1)
		})
		running(t, cfg, func(rt *agent.Runtime) {
			receipt, err := chat.Write(t.Context(), rt, at, "ann", "and now?")
			require.NoError(t, err)
			require.Equal(t, key, receipt.Session)
			time.Sleep(time.Minute)
		})
	})
}

// Two sessions that spawn under one key in one conversation have a thread each.
func TestThreadsOfTwoRequestersUnderOneKey(t *testing.T) {
	threadsOn(t, agent.Config{Runner: echoRunner}, nil, func(b threadBot) {
		own, err := b.chat.Key(b.general)
		require.NoError(t, err)
		for _, requester := range []session.Key{own, b.Main().Key(), own} {
			_, err := b.Session(requester).Spawn(b.Context(), agent.Task{
				Text: "x", Key: "k", Thread: true, Conversation: b.general,
			})
			require.NoError(t, err)
		}
		require.Len(t, b.chat.Threads(), 2)
		asked := b.chat.Asked()
		require.NotEqual(t, asked[0].Key, asked[1].Key)
		require.NotContains(t, asked[0].Key, "k\x00")
		require.Len(t, b.bindings(), 2)
	})
}

// A state beside an error is not known.
func TestProbeWithAnErrorAndAState(t *testing.T) {
	for _, state := range []agent.ThreadState{agent.ThreadGone, agent.ThreadArchived} {
		chat := agenttest.NewFakeChannel("discord")
		cfg := agent.Config{Runner: sayOK}
		chat.Connect(&cfg)
		cfg.Threads.Channels["discord"] = agent.ThreadChannel{Host: unsureHost{chat, state}}
		agenttest.Run(t, cfg, nil, func(h *agenttest.Harness) {
			b := threadBot{h, chat, chat.At("general", "")}
			child, at := b.spawnThread(agent.Task{Text: "x"})
			b.Crash()
			b.Pass(time.Minute)
			require.Equal(t, child.Key(), b.write(at, "hello").Session)
			require.Empty(t, b.chat.Farewells(at))
		})
	}
}

// An unsureHost answers a probe with a state and an error.
type unsureHost struct {
	*agenttest.FakeChannel

	state agent.ThreadState
}

func (h unsureHost) ProbeThread(context.Context, session.Route) (agent.ThreadState, error) {
	return h.state, errors.New("500")
}

// What another session says in a conversation, such as its own one about what came before, does not
// keep the binding.
func TestAnswersOfAnotherSessionDoNotTouch(t *testing.T) {
	cfg := agent.Config{Runner: agent.RunnerFunc(
		func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
			if strings.Contains(tn.Input(), "long") {
				return agent.Result{Text: "done"}, pause(ctx, 90*time.Minute)
			}
			return agent.Result{Text: "ok"}, nil
		})}
	cfg.Threads.Bindings.IdleHours = hoursOf(2 * time.Hour)
	threadsOn(t, cfg, nil, func(b threadBot) {
		worker, at := b.worker("worker"), b.chat.At("general", "7")
		own := b.write(at, "a long one").Session
		_, err := b.focus(at, worker.Key(), "ann")
		require.NoError(t, err)
		b.Pass(2*time.Hour - time.Second)
		require.Equal(t, []string{"done"}, b.chat.Said(at))
		require.Len(t, b.bindings(), 1)
		b.Pass(time.Second)
		require.Empty(t, b.bindings())
		require.Equal(t, own, b.write(at, "and now?").Session)
	})
}

// What people write in a thread whose spawn has lost the answer of the channel is their own
// session's, also when the spawn is repeated and the message comes again.
func TestMessageInAThreadBeforeItsSpawnIsRepeated(t *testing.T) {
	threadsOn(t, agent.Config{Runner: echoRunner}, nil, func(b threadBot) {
		lost := false
		b.chat.Intercept(func(_ context.Context, c agenttest.FakeCall) error {
			if c.Op != "create" || !c.Done || lost {
				return nil
			}
			lost = true
			return errors.New("the answer is lost")
		})
		task := agent.Task{Text: "x", Key: "k", Thread: true, Conversation: b.general}
		_, err := b.Main().Spawn(b.Context(), task)
		require.Error(t, err)
		own := b.write(b.chat.Threads()[0], "hello").Session
		child, err := b.Main().Spawn(b.Context(), task)
		require.NoError(t, err)
		require.Len(t, b.chat.Threads(), 1)
		again, err := b.chat.WriteAgain(b.Context(), b.Runtime())
		require.NoError(t, err)
		require.Equal(t, agent.Receipt{Session: own, Existing: true}, again)
		require.Equal(t, child.Key(), b.write(b.chat.Threads()[0], "and you?").Session)
	})
}
