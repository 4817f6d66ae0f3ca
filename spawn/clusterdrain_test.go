package spawn_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/sessiontest"
	"github.com/offshoot-sdk/offshoot/spawn"
)

var (
	restingKey = session.Must(session.MainKey("resting"))
	longKey    = session.Must(session.MainKey("long"))
)

// say posts a message to the top-level session of a tree.
func (w *worker) say(root session.Key, text string) {
	w.fleet.t.Helper()
	_, err := w.Post(w.fleet.t.Context(), root, root, spawn.Incoming{Text: text})
	require.NoError(w.fleet.t, err)
}

// drain begins a shutdown of twenty minutes, and returns what it comes to.
func (w *worker) drain() <-chan error {
	done := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(w.fleet.t.Context(), 20*time.Minute)
		defer cancel()
		done <- w.Shutdown(ctx)
	}()
	synctest.Wait()
	return done
}

// In a long drain another process answers at once in a chat at rest, and goes on in each other tree
// as soon as the last turn there is over, sub-agents that wait for a slot included.
func TestDrainHandsOverOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, sessiontest.ClusterOptions{})
		a, b := f.open("a").run(), f.open("b").run()
		a.say(restingKey, "first")
		time.Sleep(2 * time.Minute)
		for _, task := range []string{"one", "two", "three"} { // the last one waits for a slot
			_, err := a.begin(topKey, task)
			require.NoError(t, err)
		}
		time.Sleep(50 * time.Second)
		a.say(longKey, "long")
		synctest.Wait()
		done := a.drain()
		time.Sleep(time.Second)
		b.say(restingKey, "second")
		synctest.Wait()
		require.Contains(t, f.turns(), "b second", "it is answered at once")
		b.say(topKey, "hello")
		synctest.Wait()
		require.NotContains(t, f.turns(), "b hello", "a turn of that tree is under way")
		time.Sleep(9*time.Second + session.OrphanSpread + time.Second)
		require.Contains(t, f.turns(), "b hello", "the turns of that tree are over")
		require.Contains(t, f.turns(), "b three")
		require.Empty(t, done, "the long one is under way")
		require.NoError(t, <-done)
		time.Sleep(5 * time.Minute)
		require.ElementsMatch(t, []string{
			"a first", "a one", "a two", "a long", "b second", "b hello", "b three",
		}, f.turns(), "nothing twice")
		for _, root := range []session.Key{topKey, restingKey, longKey} {
			f.settled(root)
		}
	})
}

// What waits in a process that drains goes on where the tree is then, whichever process it began
// in.
func TestCallsThatWaitInADrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, sessiontest.ClusterOptions{})
		a, b := f.open("a").run(), f.open("b").run()
		a.say(topKey, "work")
		time.Sleep(10 * time.Second)
		a.say(longKey, "long")
		texts := make(chan string, 2)
		for _, w := range []*worker{a, b} {
			go func() {
				reply, err := w.PostAndWait(t.Context(), topKey, topKey,
					spawn.Incoming{Text: "and?"})
				if err != nil {
					reply.Text = err.Error()
				}
				texts <- reply.Text
			}()
		}
		synctest.Wait()
		done := a.drain()
		time.Sleep(5 * time.Minute)
		require.Empty(t, done)
		require.Len(t, texts, 2)
		require.Equal(t, "b did it", <-texts)
		require.Equal(t, "b did it", <-texts)
		require.NoError(t, <-done)
		f.settled(topKey)
	})
}

// A message that is posted in the process that drains is recorded, as ever, and is answered by
// another one without delay. The process that drains takes no tree for longer than that.
func TestPostInADrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, sessiontest.ClusterOptions{})
		a := f.open("a").run()
		f.open("b").run()
		a.say(restingKey, "first")
		time.Sleep(2 * time.Minute)
		a.say(longKey, "long")
		synctest.Wait()
		done := a.drain()
		a.say(restingKey, "second")
		time.Sleep(session.OrphanSpread + time.Second)
		require.Contains(t, f.turns(), "b second")
		a.say(restingKey, "third") // by way of the process that has it
		require.NoError(t, <-done)
		time.Sleep(5 * time.Minute)
		require.Len(t, f.turns(), 4)
		f.settled(restingKey)
	})
}

// A drain of the last process goes on as one without others: nothing is lost or done twice.
func TestDrainOfTheLastProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, sessiontest.ClusterOptions{})
		a := f.open("a").run()
		a.say(longKey, "long")
		synctest.Wait()
		done := a.drain()
		a.say(restingKey, "later")
		require.NoError(t, <-done)
		require.Equal(t, []string{"a long"}, f.turns())
		f.open("b").run()
		time.Sleep(2 * time.Minute)
		require.Equal(t, []string{"a long", "b later"}, f.turns())
		f.settled(restingKey)
	})
}

// A tree that could not be given up when the drain began is given up when the engine answers.
func TestDrainOfAProcessThatIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, sessiontest.ClusterOptions{})
		a, b := f.open("a").run(), f.open("b").run()
		a.say(restingKey, "first")
		time.Sleep(2 * time.Minute)
		a.say(longKey, "long")
		synctest.Wait()
		f.engine.Cut(a.store)
		done := a.drain()
		time.Sleep(10 * time.Second)
		f.engine.Heal(a.store)
		time.Sleep(10 * time.Second)
		b.say(restingKey, "second")
		synctest.Wait()
		require.Contains(t, f.turns(), "b second")
		require.NoError(t, <-done)
		time.Sleep(2 * time.Minute)
		f.settled(restingKey)
	})
}

// A shutdown says how many trees it could not hand over, and why, and has come to its end.
func TestShutdownWithoutTheEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, sessiontest.ClusterOptions{})
		var log lockedLog
		f.log = slog.New(slog.NewTextHandler(&log, nil))
		a := f.open("a").run()
		a.say(restingKey, "one")
		a.say(topKey, "two")
		time.Sleep(2 * time.Minute)
		f.engine.Cut(a.store)
		require.NoError(t, a.Shutdown(t.Context()))
		synctest.Wait()
		require.Equal(t, 1, strings.Count(log.String(), "level=WARN"), log.String())
		require.Contains(t, log.String(), "the end of the lease\" trees=2 error=")
		require.Contains(t, log.String(), sessiontest.ErrUnreachable.Error())
	})
}
