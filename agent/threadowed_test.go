package agent_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/binding"
)

// onOddLog runs f with a bot whose log of bindings may misbehave.
func onOddLog(t *testing.T, f func(b threadBot, j *oddJournal)) {
	t.Helper()
	memory := session.NewMemory()
	j := &oddJournal{Journal: memory.Journal, of: isBindings}
	store := *memory
	store.Journal = j
	threadsOn(t, agent.Config{Runner: echoRunner, Store: &store}, nil, func(b threadBot) {
		f(b, j)
	})
}

// failFor has the log of bindings take nothing while f runs.
func (j *oddJournal) failFor(f func()) {
	j.set(endless, 0, false, func() error { return errDisk })
	f()
	j.set(0, 0, false, nil)
}

// A binding that a message has found stale ends when the log works again, without another message
// and without a restart, also one of an earlier version, which names no tree.
func TestStaleBindingEndsAfterTheStoreFailed(t *testing.T) {
	gone := session.Must(topKey.Child("main", "gone"))
	for name, q := range map[string]binding.Request{
		"not on record":                        {Target: gone, Root: topKey},
		"not on record, of an earlier version": {Target: gone},
		"not bound in its tree":                {Target: topKey, Root: topKey},
	} {
		t.Run(name, func(t *testing.T) {
			onOddLog(t, func(b threadBot, j *oddJournal) {
				b.Post("hello")
				b.Pass(time.Minute)
				at := b.chat.At("general", "7")
				other, err := binding.Open(b.Context(), j.Journal)
				require.NoError(t, err)
				q.Conversation, q.By = at, binding.SystemOwner
				_, err = other.Bind(b.Context(), q, time.Now())
				require.NoError(t, err)
				_, err = b.focus(b.chat.At("lounge", ""), topKey, "alice") // reads the log on
				require.NoError(t, err)
				require.Len(t, b.bindings(), 2)
				j.failFor(func() {
					own, err := b.chat.Key(at)
					require.NoError(t, err)
					require.Equal(t, own, b.write(at, "one").Session)
					require.Len(t, b.bindings(), 2, "the end is not on record")
				})
				b.Pass(time.Minute)
				require.Len(t, b.bindings(), 1)
				told := b.chat.Farewells(at)
				require.Len(t, told, 1)
				require.Equal(t, binding.ReasonStaleSession, told[0].Reason)
			})
		})
	}
}

// A thread that the channel creates when its spawn has left, while the store keeps nothing, is told
// so from memory.
func TestLateThreadWhileTheStoreFails(t *testing.T) {
	onOddLog(t, func(b threadBot, j *oddJournal) {
		_, err := b.Runtime().Bindings(b.Context()) // the log is read
		require.NoError(t, err)
		general, err := b.chat.Key(b.general)
		require.NoError(t, err)
		release := make(chan struct{})
		b.chat.Intercept(func(_ context.Context, c agenttest.FakeCall) error {
			if c.Op == "create" && c.Done {
				<-release
			}
			return nil
		})
		ctx, leave := context.WithTimeout(b.Context(), time.Second)
		defer leave()
		_, err = b.Session(general).Spawn(ctx, agent.Task{Text: "x", Thread: true})
		require.ErrorIs(t, err, agent.ErrNotRecorded)
		j.failFor(func() {
			close(release)
			time.Sleep(time.Minute)
		})
		b.Pass(time.Minute)
		require.Len(t, b.chat.Threads(), 1)
		told := b.chat.Farewells(b.chat.Threads()[0])
		require.Len(t, told, 1)
		require.Equal(t, binding.ReasonSpawnFailed, told[0].Reason)
		require.Empty(t, b.bindings())
		require.Empty(t, b.Runs())
	})
}

// A thread that could not be bound, and was bound by another call before people were told so, is
// not told so any more.
func TestThreadThatIsBoundAfterAll(t *testing.T) {
	onOddLog(t, func(b threadBot, j *oddJournal) {
		worker := b.worker("worker")
		var down atomic.Bool
		b.chat.Intercept(func(_ context.Context, c agenttest.FakeCall) error {
			if c.Op == "farewell" && down.Load() {
				return errors.New("the channel is down")
			}
			return nil
		})
		focus := func() error {
			_, err := b.Runtime().Focus(b.Context(), agent.FocusRequest{
				Conversation: b.general, Session: worker.Key(), By: "alice", NewThread: true, ID: "1",
			})
			return err
		}
		down.Store(true)
		j.mu.Lock()
		j.pass = 1 // it is noted that the binding is begun
		j.mu.Unlock()
		j.failFor(func() { require.Error(t, focus()) })
		require.Empty(t, b.bindings())
		require.NoError(t, focus())
		synctest.Wait()
		down.Store(false)
		b.Pass(time.Hour)
		require.Len(t, b.chat.Threads(), 1)
		require.Empty(t, b.chat.Farewells(b.chat.Threads()[0]))
		require.Equal(t, worker.Key(), b.bindings()[0].Target)
		require.Equal(t, worker.Key(), b.write(b.chat.Threads()[0], "hello").Session)
	})
}

func focusAgain(b threadBot, at session.Route, to session.Key) {
	_, err := b.focus(at, to, "alice")
	require.NoError(b.T(), err)
}

// A farewell that is tried again is not said any more in a conversation that is bound again, to the
// same session or to another one, by any call, also after a crash.
func TestFarewellBehindAnotherBinding(t *testing.T) {
	for name, again := range map[string]func(b threadBot, at session.Route, was session.Key){
		"the same": func(b threadBot, at session.Route, was session.Key) {
			focusAgain(b, at, was)
		},
		"another": func(b threadBot, at session.Route, _ session.Key) {
			focusAgain(b, at, b.Main().Key())
		},
		"another, after a crash": func(b threadBot, at session.Route, _ session.Key) {
			b.Crash()
			focusAgain(b, at, b.Main().Key())
		},
		"none": func(threadBot, session.Route, session.Key) {},
	} {
		t.Run(name, func(t *testing.T) {
			threadsOn(t, agent.Config{}, nil, func(b threadBot) {
				failures := 1
				if strings.Contains(name, "crash") { // the next process tries at once
					failures = 2
				}
				b.chat.Intercept(func(_ context.Context, c agenttest.FakeCall) error {
					if c.Op == "farewell" && !c.Done && failures > 0 {
						failures--
						return errors.New("the channel is down")
					}
					return nil
				})
				at := b.chat.At("room", "t")
				was := session.Must(session.NamedKey("main", "was"))
				focusAgain(b, at, was)
				_, err := b.Runtime().Unfocus(b.Context(),
					agent.UnfocusRequest{Conversation: at, By: "alice"})
				require.NoError(t, err)
				b.Pass(time.Second)
				again(b, at, was)
				b.Pass(time.Hour)
				want := 0
				if name == "none" {
					want = 1
				}
				require.Len(t, b.chat.Farewells(at), want)
			})
		})
	}
}
