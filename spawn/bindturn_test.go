package spawn_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
	"github.com/offshoot-sdk/offshoot/spawn/spawntest"
)

// talkWorld is a tree with sub-agents that conversations are bound to.
type talkWorld struct {
	t       *testing.T
	log     *spawntest.Recorder
	sup     *spawn.Supervisor
	mu      sync.Mutex
	told    []spawn.Reply
	unbound []spawn.UnbindRequest
	unbind  func(ctx context.Context, n int) error // of the nth call; nil: it succeeds
}

// openTalk runs a Supervisor whose sub-agents answer "re: " and what they were told last. A turn
// over "fail" fails, one over "hang" waits for its end, and one over "nothing" says nothing.
func openTalk(t *testing.T, change func(*spawn.Config, *talkWorld)) *talkWorld {
	w := &talkWorld{t: t, log: spawntest.NewRecorder(session.NewMemory().Journal)}
	cfg := spawn.Config{
		Store: &session.Store{Journal: w.log}, Replies: true, Apology: "sorry", CallerRun: true,
		Runner: runnerFunc(w.turn),
		Deliver: func(_ context.Context, out spawn.Delivery) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			if out.Reply != nil {
				assert.Equal(t, topKey, out.To)
				w.told = append(w.told, *out.Reply)
			}
			return nil
		},
		Unbind: func(ctx context.Context, u spawn.UnbindRequest) error {
			w.mu.Lock()
			w.unbound = append(w.unbound, u)
			n, f := len(w.unbound), w.unbind
			w.mu.Unlock()
			if f != nil {
				return f(ctx, n)
			}
			return nil
		},
	}
	if change != nil {
		change(&cfg, w)
	}
	w.sup = openSupervisor(t, cfg)
	return w
}

// turn is the Runner of a talkWorld.
func (w *talkWorld) turn(
	ctx context.Context, tn *spawn.TurnInput,
) (out spawn.TurnResult, err error) {
	last := tn.Inputs[len(tn.Inputs)-1]
	out.Result.Text = last.Text
	switch last.Text {
	case "fail":
		return spawn.TurnResult{}, errors.New("broken")
	case "hang":
		<-ctx.Done()
		return out, context.Cause(ctx)
	case "nothing":
		return out, nil
	}
	if tn.ForPeople {
		assert.Equal(w.t, *last.Route, tn.Route)
	}
	out.Reply = "re: " + last.Text // not told to people unless the turn is for them
	return out, nil
}

// spawn admits a sub-agent with a conversation, and waits for the end of its first run.
func (w *talkWorld) spawn(q spawn.Request) session.Key {
	w.t.Helper()
	q.Announce, q.Thread, q.Bind = true, true, threadOne
	info, err := w.sup.Spawn(w.t.Context(), topKey, topKey, q)
	require.NoError(w.t, err)
	synctest.Wait()
	return info.Key
}

// say posts what a conversation says to a session.
func (w *talkWorld) say(to session.Key, text, id string) (spawn.Receipt, error) {
	return w.sup.Post(w.t.Context(), topKey, to, spawn.Incoming{
		ID: id, Text: text, Route: threadOne, Thread: true,
	})
}

// ask says something and waits for the answer.
func (w *talkWorld) ask(to session.Key, text string) (spawn.Reply, error) {
	return w.sup.PostAndWait(w.t.Context(), topKey, to, spawn.Incoming{
		Text: text, Route: threadOne, Thread: true,
	})
}

// heard returns what people were told, and forgets it.
func (w *talkWorld) heard() (texts []string) {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.told {
		assert.Equal(w.t, threadOne, r.Route)
		texts = append(texts, r.Text)
	}
	w.told = nil
	return texts
}

// What a bound conversation says is answered there, by the sub-agent, and begins a run when the one
// before has ended. Nothing of that is what the requester is told.
func TestBoundConversationIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := openTalk(t, nil)
		key := w.spawn(spawn.Request{Task: "work", Session: true})
		require.Empty(t, w.heard(), "the task is answered to the requester")
		receipt, err := w.say(key, "hello", "m1")
		require.NoError(t, err)
		require.NotEmpty(t, receipt.Run)
		require.Equal(t, []string{"re: hello"}, w.heard())
		again, err := w.say(key, "hello", "m1")
		require.NoError(t, err)
		require.True(t, again.Existing)
		require.Empty(t, w.heard())

		reply, err := w.ask(key, "and")
		require.NoError(t, err)
		require.Equal(t, "re: and", reply.Text)
		require.Equal(t, key, reply.From)
		require.Equal(t, []string{"re: and"}, w.heard())

		_, err = w.ask(key, "nothing")
		require.ErrorIs(t, err, spawn.ErrSilent)
		reply, err = w.ask(key, "fail")
		require.NoError(t, err)
		require.True(t, reply.Failed)
		require.Equal(t, "sorry", reply.Text)
		require.Equal(t, "broken", reply.Err)
		require.Equal(t, []string{"sorry"}, w.heard())

		_, err = w.sup.PostAndWait(t.Context(), topKey, key, spawn.Incoming{Text: "program"})
		require.ErrorIs(t, err, spawn.ErrNoConversation)
		_, err = w.sup.Post(t.Context(), topKey, key, spawn.Incoming{Text: "program"})
		require.NoError(t, err)
		require.Empty(t, w.heard(), "the program waits for the run")
		require.NoError(t, spawntest.Audit(w.log.History(topKey)))
	})
}

// A caller that waits for the answer of a run that a person stops, or whose time is up, is told so.
func TestWaitForBoundSessionEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := openTalk(t, func(c *spawn.Config, _ *talkWorld) {
			c.Apology, c.Rules.Subagents.Timeout = "", time.Minute
		})
		key := w.spawn(spawn.Request{Task: "work", Session: true})
		_, err := w.ask(key, "hang")
		require.ErrorIs(t, err, spawn.ErrTimedOut)
		failed := make(chan error)
		go func() {
			_, err := w.ask(key, "hang")
			failed <- err
		}()
		synctest.Wait()
		require.NoError(t, w.sup.Stop(t.Context(), topKey, key, "enough"))
		require.ErrorIs(t, <-failed, spawn.ErrStopped)
		_, err = w.ask(key, "late")
		require.ErrorIs(t, err, spawn.ErrNotBound)
		require.Empty(t, w.heard())
		require.NoError(t, spawntest.Audit(w.log.History(topKey)))
	})
}

// Unbind is called until it succeeds, whatever it does. Meanwhile the session takes nothing of the
// conversation, and is not archived.
func TestUnbindIsCalledUntilItSucceeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := openTalk(t, func(c *spawn.Config, w *talkWorld) {
			c.Rules.Subagents.ArchiveAfter = time.Second
			w.unbind = func(ctx context.Context, n int) error {
				switch n {
				case 1:
					return errors.New("the table is away")
				case 2:
					panic("bad")
				case 3:
					runtime.Goexit()
				case 4:
					<-ctx.Done()
					time.Sleep(time.Hour) // it hangs
					return ctx.Err()
				}
				return nil
			}
		})
		key := w.spawn(spawn.Request{Task: "work"})
		_, err := w.say(key, "late", "m1")
		require.ErrorIs(t, err, spawn.ErrNotBound)
		time.Sleep(30 * time.Minute)
		_, err = w.sup.Find(t.Context(), topKey, spawn.RunRef{Session: key})
		require.NoError(t, err, "it is bound")
		time.Sleep(2 * time.Hour)
		w.mu.Lock()
		calls := w.unbound
		w.mu.Unlock()
		require.Len(t, calls, 5)
		for _, u := range calls {
			require.Equal(t, spawn.UnbindRequest{
				Root: topKey, Session: key, Route: threadOne, Reason: "subagent-complete",
			}, u)
		}
		_, err = w.sup.Find(t.Context(), topKey, spawn.RunRef{Session: key})
		require.ErrorIs(t, err, spawn.ErrNotFound)
		require.NoError(t, spawntest.Audit(w.log.History(topKey)))
	})
}

// In the instant of an unbind, a stop, a bind and an end each message is taken by the session it
// was for, or refused: never both, and never by none.
func TestBoundConversationInOneInstant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 20 {
			w := openTalk(t, nil)
			key := w.spawn(spawn.Request{Task: "work", Session: true})
			var mu sync.Mutex
			taken, refused := 0, 0
			var all sync.WaitGroup
			for range 10 {
				all.Go(func() {
					switch _, err := w.say(key, "hello", ""); {
					case err == nil:
						mu.Lock()
						taken++
						mu.Unlock()
					case errors.Is(err, spawn.ErrNotBound), errors.Is(err, spawn.ErrStopping):
						mu.Lock()
						refused++
						mu.Unlock()
					default:
						t.Error(err)
					}
				})
			}
			all.Go(func() { _ = w.sup.Unbind(t.Context(), topKey, key, threadOne, "idle-expired") })
			all.Go(func() { _ = w.sup.Stop(t.Context(), topKey, key, "enough") })
			all.Go(func() { _ = w.sup.Bind(t.Context(), topKey, key, threadOne) })
			all.Wait()
			synctest.Wait()
			require.Equal(t, 10, taken+refused)
			require.NoError(t, spawntest.Audit(w.log.History(topKey)))
		}
	})
}

// The events of a conversation say where it is, and why it is unbound.
func TestEventsOfBoundConversations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := openTalk(t, nil)
		var seen []spawn.TreeEvent
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			q := spawn.EventQuery{
				Root: topKey, Kinds: []spawn.EventKind{spawn.EventBound, spawn.EventUnbound},
			}
			for e, err := range w.sup.Events(t.Context(), q) {
				assert.NoError(t, err)
				if e.Kind == spawn.EventBound || e.Kind == spawn.EventUnbound {
					seen = append(seen, e)
				}
				if e.Kind == spawn.EventUnbound {
					return
				}
			}
		}()
		synctest.Wait()
		key := w.spawn(spawn.Request{Task: "work", Session: true})
		require.NoError(t, w.sup.Unbind(t.Context(), topKey, key, threadOne, "manual"))
		<-ended
		require.Len(t, seen, 2)
		for i, kind := range []spawn.EventKind{spawn.EventBound, spawn.EventUnbound} {
			require.Equal(t, kind, seen[i].Kind)
			require.Equal(t, threadOne, seen[i].Route)
			require.Equal(t, key, seen[i].Session)
		}
		require.Equal(t, "manual", seen[1].Text)
	})
}
