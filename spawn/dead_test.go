package spawn_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
	"github.com/offshoot-sdk/offshoot/spawn/spawntest"
)

// A store that takes nothing any more ends Run, which cancels what is under way. The program has to
// be started again.
func TestRunEndsWithADeadJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := session.NewMemory()
		r := (&spawntest.Runner{}).On(
			"", spawntest.Play{spawntest.Delay(time.Hour), spawntest.Say("x")},
		)
		s, err := spawn.Open(t.Context(), spawn.Config{Store: store, Runner: r})
		require.NoError(t, err)
		ran := make(chan error, 1)
		go func() { ran <- s.Run(context.WithoutCancel(t.Context())) }()
		_, err = s.Spawn(t.Context(), topKey, topKey, spawn.Request{Task: "x"})
		require.NoError(t, err)
		synctest.Wait()
		require.NoError(t, store.Close())
		_, err = s.Spawn(t.Context(), topKey, topKey, spawn.Request{Task: "y"})
		require.ErrorIs(t, err, spawn.ErrNotRecorded)
		require.ErrorIs(t, err, session.ErrClosed)
		err = <-ran
		require.ErrorIs(t, err, session.ErrClosed)
		require.NoError(t, s.Shutdown(t.Context()), "it is over")
	})
}

// A shutdown while the journal fails takes no longer than its context allows and a grace period,
// in which the journal is still tried. What was asked for and is not durable is refused at the end.
func TestShutdownWhileStalledEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		journal := spawntest.NewCrashJournal(session.NewMemory().Journal)
		r := (&spawntest.Runner{}).On("", spawntest.Play{
			spawntest.Delay(time.Minute),
			spawntest.Spawn(spawn.Request{Task: "below", Key: "k"}),
			spawntest.Say("x"),
		})
		s, err := spawn.Open(
			t.Context(), spawn.Config{Store: &session.Store{Journal: journal}, Runner: r},
		)
		require.NoError(t, err)
		ran := make(chan error, 1)
		go func() { ran <- s.Run(context.WithoutCancel(t.Context())) }()
		require.NoError(t, errorOf(s.Post(t.Context(), topKey, topKey, spawn.Incoming{Text: "go"})))
		synctest.Wait()
		journal.At(journal.Appends()+1, spawntest.FaultDieBefore)
		time.Sleep(2 * time.Minute) // the turn waits with its spawn
		soon, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		require.NoError(t, s.Shutdown(soon))
		took := time.Since(began) - time.Minute
		require.InDelta(t, spawn.DefaultGrace, took, 0.2*float64(time.Second))
		require.NoError(t, <-ran)
	})
}

// In the hard phase, too, a journal that fails for a moment costs no more than that: the end of a
// turn is as it would have been, whichever of the appends fails.
func TestHardPhaseWaitsForTheJournal(t *testing.T) {
	for name, ends := range map[string]func() (spawn.TurnResult, error){
		"result":    func() (spawn.TurnResult, error) { return sayText("worth a minute") },
		"untouched": func() (spawn.TurnResult, error) { return spawn.TurnResult{}, spawn.ErrUntouched },
	} {
		t.Run(name, func(t *testing.T) {
			want := viewAfterHardPhase(t, ends, 0, 0)
			for at := range 4 {
				for _, times := range []int{1, 4} {
					require.Equal(t, want, viewAfterHardPhase(t, ends, at+1, times),
						"append %d fails %d times", at+1, times)
				}
			}
		})
	}
}

// viewAfterHardPhase returns what is on record of a run that a hard phase has cancelled, in which
// appends from the one with the number at on have failed some times.
func viewAfterHardPhase(
	t *testing.T, ends func() (spawn.TurnResult, error), at, times int,
) (said []string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		store := session.NewMemory()
		journal := spawntest.NewCrashJournal(store.Journal)
		cfg := spawn.Config{Store: &session.Store{Journal: journal}}
		cfg.Runner = runnerFunc(
			func(ctx context.Context, _ *spawn.TurnInput) (spawn.TurnResult, error) {
				<-ctx.Done()
				time.Sleep(200 * time.Millisecond)
				return ends()
			},
		)
		s, err := spawn.Open(t.Context(), cfg)
		require.NoError(t, err)
		ran := make(chan error, 1)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { ran <- s.Run(ctx) }()
		mustSpawn(t, s, spawn.Request{Task: "x"})
		synctest.Wait()
		for n := range times {
			journal.At(journal.Appends()+at+n, spawntest.FaultFailBefore)
		}
		cancel()
		require.NoError(t, <-ran)
		v, err := spawn.View(topKey, store.Journal.Read(t.Context(), topKey, 0))
		require.NoError(t, err)
		for _, r := range v.Runs {
			said = append(said, fmt.Sprint(r.Status, " ", r.Result.Text, " ", r.Error))
		}
	})
	return said
}

// The result of a turn that ends while the journal fails is recorded before the shutdown is over,
// if there is time for it.
func TestShutdownWaitsForTheJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := session.NewMemory()
		journal := spawntest.NewCrashJournal(store.Journal)
		r := (&spawntest.Runner{}).On(
			"", spawntest.Play{spawntest.Delay(time.Minute), spawntest.Say("worth a minute")},
		)
		s, err := spawn.Open(
			t.Context(), spawn.Config{Store: &session.Store{Journal: journal}, Runner: r},
		)
		require.NoError(t, err)
		ran := make(chan error, 1)
		go func() { ran <- s.Run(context.WithoutCancel(t.Context())) }()
		key := mustSpawn(t, s, spawn.Request{Task: "x"})
		synctest.Wait()
		for n := range 6 { // six times from now on
			journal.At(journal.Appends()+1+n, spawntest.FaultFailBefore)
		}
		require.NoError(t, s.Shutdown(t.Context()))
		require.NoError(t, <-ran)
		v, err := spawn.View(topKey, store.Journal.Read(t.Context(), topKey, 0))
		require.NoError(t, err)
		require.Equal(t, key, v.Runs[0].Key)
		require.Equal(t, spawn.StatusOK, v.Runs[0].Status)
		require.Equal(t, "worth a minute", v.Runs[0].Result.Text)
	})
}

// sickJournal is a journal whose Health fails while it is sick.
type sickJournal struct {
	session.Journal
	sick atomic.Bool
}

func (u *sickJournal) Health(context.Context) error {
	if u.sick.Load() {
		return errors.New("a frame is rotten")
	}
	return nil
}

// A failure that a store reports of itself is logged once, and again when it comes again.
func TestStoreThatIsNotWellIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		j := &sickJournal{Journal: session.NewMemory().Journal}
		cfg := spawn.Config{
			Store:  &session.Store{Journal: j},
			Runner: instantRunner,
			Logger: slog.New(slog.NewTextHandler(&log, nil)),
		}
		s, err := spawn.Open(t.Context(), cfg)
		require.NoError(t, err)
		ran := make(chan error, 1)
		go func() { ran <- s.Run(context.WithoutCancel(t.Context())) }()
		for range 2 {
			j.sick.Store(true)
			time.Sleep(10 * time.Minute)
			j.sick.Store(false)
			time.Sleep(10 * time.Minute)
		}
		require.NoError(t, s.Shutdown(t.Context()))
		require.NoError(t, <-ran)
		require.Equal(t, 2, strings.Count(log.String(), "a frame is rotten"), log.String())
	})
}

// laggingJournal is a journal that takes a second for an append.
type laggingJournal struct{ session.Journal }

func (j laggingJournal) Append(
	ctx context.Context, root session.Key, after session.Seq, b session.Batch,
) (session.Seq, error) {
	time.Sleep(time.Second)
	return j.Journal.Append(ctx, root, after, b)
}

// A turn that a shutdown cuts off has not failed. Its run is interrupted, and a top-level session
// reads again what it was about to answer.
func TestShutdownInterrupts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := session.NewMemory()
		r := (&spawntest.Runner{}).
			On("work", spawntest.Play{spawntest.Delay(time.Hour), spawntest.Say("x")}).
			On(topKey.String(), spawntest.Play{spawntest.Delay(time.Hour), spawntest.Say("answered")})
		s, err := spawn.Open(
			t.Context(),
			spawn.Config{Store: &session.Store{Journal: laggingJournal{store.Journal}}, Runner: r},
		)
		require.NoError(t, err)
		ran := make(chan error, 1)
		go func() { ran <- s.Run(context.WithoutCancel(t.Context())) }()
		key := mustSpawn(t, s, spawn.Request{Task: "work", Announce: true})
		require.NoError(t, errorOf(s.Post(t.Context(), topKey, topKey, spawn.Incoming{Text: "go"})))
		time.Sleep(time.Minute)
		posted := make(chan error, 1) // so that the owner is at work, and hears of the turns
		more := spawn.Incoming{Text: "and more"}
		go func() { posted <- errorOf(s.Post(t.Context(), topKey, topKey, more)) }()
		synctest.Wait()
		now, cancel := context.WithCancel(t.Context())
		cancel()
		require.NoError(t, s.Shutdown(now))
		require.NoError(t, <-ran)
		require.NoError(t, <-posted)

		next := openSupervisor(t, spawn.Config{Store: store, Runner: r})
		time.Sleep(time.Minute)
		require.Equal(t, spawn.StatusInterrupted, mustFind(t, next, key).Status)
		time.Sleep(5 * time.Hour)
		report, err := spawntest.Inspect(store.Journal.Read(t.Context(), topKey, 0))
		require.NoError(t, err)
		require.NoError(t, report.AtRest())
		retried := false
		for e, err := range store.Journal.Read(t.Context(), topKey, 0) {
			require.NoError(t, err)
			require.NotContains(t, spawn.Describe(e), "ended failed")
			retried = retried || strings.Contains(spawn.Describe(e), "answered")
		}
		require.True(t, retried)
	})
}

// A caller that waits with a context returns when that ends, also while the journal hangs.
func TestWaitEndsWithItsContextWhileTheJournalHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		journal := spawntest.NewCrashJournal(session.NewMemory().Journal)
		r := (&spawntest.Runner{}).On(
			"", spawntest.Play{spawntest.Delay(time.Minute), spawntest.Say("x")},
		)
		s := openSupervisor(t, spawn.Config{Store: &session.Store{Journal: journal}, Runner: r})
		key := mustSpawn(t, s, spawn.Request{Task: "x"})
		synctest.Wait()
		journal.At(journal.Appends()+1, spawntest.FaultHang)
		time.AfterFunc(time.Second, func() {
			hurry, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			_, _ = s.Post(hurry, topKey, topKey, spawn.Incoming{Text: "stuck"})
		})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		began := time.Now()
		infos, err := s.Wait(ctx, topKey, refsOf(key), spawn.JoinOptions{})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Nil(t, infos)
		require.Less(t, time.Since(began), 11*time.Second)
		journal.Release()
	})
}
