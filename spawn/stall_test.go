package spawn_test

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
	"github.com/offshoot-sdk/offshoot/spawn/spawntest"
)

// downJournal is a journal that takes nothing while it is down. With blind it cannot be read
// either, so that it is not known whether it has taken something.
type downJournal struct {
	session.Journal
	down  atomic.Bool
	wait  time.Duration
	blind bool
}

func (j *downJournal) Read(
	ctx context.Context, root session.Key, after session.Seq,
) iter.Seq2[session.Entry, error] {
	if j.blind && j.down.Load() {
		return func(yield func(session.Entry, error) bool) {
			yield(session.Entry{}, errors.New("disk gone"))
		}
	}
	return j.Journal.Read(ctx, root, after)
}

func (j *downJournal) Append(
	ctx context.Context, root session.Key, after session.Seq, b session.Batch,
) (session.Seq, error) {
	time.Sleep(j.wait)
	if j.down.Load() {
		return 0, errors.New("disk full")
	}
	return j.Journal.Append(ctx, root, after, b)
}

// A shutdown of what never ran ends once the journal is back.
func TestShutdownOfWhatNeverRanEndsWhenTheJournalIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &downJournal{Journal: session.NewMemory().Journal, blind: true}
		s, err := spawn.Open(
			t.Context(), spawn.Config{Store: &session.Store{Journal: j}, Runner: instantRunner},
		)
		require.NoError(t, err)
		require.NoError(t, errorOf(s.Post(t.Context(), topKey, topKey, spawn.Incoming{Text: "1"})))
		j.down.Store(true)
		require.ErrorIs(
			t, errorOf(s.Post(t.Context(), topKey, topKey, spawn.Incoming{Text: "2"})),
			spawn.ErrUnconfirmed,
		)
		j.down.Store(false)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		began := time.Now()
		require.NoError(t, s.Shutdown(ctx))
		require.Less(t, time.Since(began), time.Minute)
	})
}

// A turn that waits for its children while the journal fails does not fail.
func TestTurnWaitsWhileStalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &downJournal{Journal: session.NewMemory().Journal}
		var got error
		parent := spawntest.Do(func(ctx context.Context, tn *spawn.TurnInput) error {
			info, err := tn.Spawn(ctx, spawn.Request{Task: "child"})
			if err != nil {
				return err
			}
			time.Sleep(10 * time.Second)
			if _, err = tn.Wait(ctx, refsOf(info.Key), spawn.JoinOptions{}); got == nil {
				got = err
			}
			return nil
		})
		r := (&spawntest.Runner{}).
			On("child", spawntest.Play{spawntest.Delay(time.Minute), spawntest.Say("x")}).
			On(topKey.String(), spawntest.Play{parent})
		s := openSupervisor(t, spawn.Config{Store: &session.Store{Journal: j}, Runner: r})
		require.NoError(t, errorOf(s.Post(t.Context(), topKey, topKey, spawn.Incoming{Text: "go"})))
		time.Sleep(5 * time.Second)
		j.down.Store(true)
		time.AfterFunc(20*time.Second, func() { j.down.Store(false) })
		require.ErrorIs(
			t, errorOf(s.Post(t.Context(), topKey, topKey, spawn.Incoming{Text: "more"})),
			spawn.ErrUnconfirmed,
		)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		require.NoError(t, got)
	})
}

// A caller that waits for a session to be idle also waits while the journal fails.
func TestIdleWaitsWhileStalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &downJournal{Journal: session.NewMemory().Journal}
		r := (&spawntest.Runner{}).On(
			topKey.String(), spawntest.Play{spawntest.Delay(time.Minute), spawntest.Say("x")},
		)
		s := openSupervisor(t, spawn.Config{Store: &session.Store{Journal: j}, Runner: r})
		require.NoError(t, errorOf(s.Post(t.Context(), topKey, topKey, spawn.Incoming{Text: "go"})))
		idle := make(chan error, 1)
		go func() { idle <- s.Idle(t.Context(), topKey) }()
		time.Sleep(time.Second)
		j.down.Store(true)
		time.AfterFunc(5*time.Minute, func() { j.down.Store(false) })
		require.NoError(t, <-idle)
	})
}

// A turn that was decided on before a shutdown, and has waited for the journal, runs if there is
// time. Its start is durable then.
func TestTurnStartsDuringShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &downJournal{Journal: session.NewMemory().Journal, blind: true}
		r := (&spawntest.Runner{}).On(
			"", spawntest.Play{spawntest.Delay(time.Minute), spawntest.Say("x")},
		)
		s, err := spawn.Open(
			t.Context(), spawn.Config{Store: &session.Store{Journal: j}, Runner: r},
		)
		require.NoError(t, err)
		ran := make(chan error, 1)
		go func() { ran <- s.Run(context.WithoutCancel(t.Context())) }()
		require.NoError(
			t,
			errorOf(s.Post(
				t.Context(), session.Must(session.MainKey("other")),
				session.Must(session.MainKey("other")), spawn.Incoming{Text: "go"},
			)),
		)
		mustSpawn(t, s, spawn.Request{Task: "a"})
		time.Sleep(5 * time.Minute)
		n := len(r.Calls())
		j.down.Store(true)
		_, err = s.Spawn(t.Context(), topKey, topKey, spawn.Request{Task: "b"})
		require.ErrorIs(t, err, spawn.ErrUnconfirmed)
		time.AfterFunc(20*time.Second, func() { j.down.Store(false) })
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		require.NoError(t, s.Shutdown(ctx))
		require.NoError(t, <-ran)
		require.Len(t, r.Calls(), n+1)
	})
}

// A turn that ends before a shutdown has no time left is recorded, also behind several appends.
func TestShutdownRecordsWhatIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := session.NewMemory()
		j := &downJournal{Journal: mem.Journal, wait: 100 * time.Millisecond}
		crash := spawntest.NewCrashJournal(j)
		r := (&spawntest.Runner{}).On(
			"", spawntest.Play{spawntest.Delay(time.Minute), spawntest.Say("worth it")},
		)
		s, err := spawn.Open(
			t.Context(), spawn.Config{Store: &session.Store{Journal: crash}, Runner: r},
		)
		require.NoError(t, err)
		ran := make(chan error, 1)
		go func() { ran <- s.Run(context.WithoutCancel(t.Context())) }()
		key := mustSpawn(t, s, spawn.Request{Task: "x"})
		time.Sleep(30 * time.Second)
		n := crash.Appends()
		for i := range 12 { // stalled by a post; the end of the turn is held
			crash.At(n+1+i, spawntest.FaultFailBefore)
		}
		for i := range 3 { // and fails again when it is decided
			crash.At(n+14+i, spawntest.FaultFailBefore)
		}
		_, _ = s.Post(t.Context(), topKey, topKey, spawn.Incoming{Text: "1"})
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		require.NoError(t, s.Shutdown(ctx))
		require.NoError(t, <-ran)
		v, err := spawn.View(topKey, mem.Journal.Read(t.Context(), topKey, 0))
		require.NoError(t, err)
		require.Equal(t, key, v.Runs[0].Key)
		require.Equal(t, spawn.StatusOK, v.Runs[0].Status)
	})
}

// A child that ended silently during the turn counts for a parent that waits for one of several.
func TestSilentMemberCounts(t *testing.T) {
	for _, before := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var second time.Duration
			began := time.Now()
			r := (&spawntest.Runner{}).
				On("quick", spawntest.Play{spawntest.Delay(5 * time.Second), spawntest.Silent()}).
				On("slow", spawntest.Play{spawntest.Delay(time.Hour), spawntest.Say("x")}).
				On(topKey.String(), spawntest.Play{
					spawntest.Spawn(
						spawn.Request{Task: "quick", Announce: true},
						spawn.Request{Task: "slow", Announce: true},
					),
					spawntest.Do(func(context.Context, *spawn.TurnInput) error {
						if before {
							time.Sleep(time.Minute)
						}
						return nil
					}),
					spawntest.Yield(spawn.JoinOptions{AtLeast: 1}),
				}, spawntest.Play{spawntest.Do(func(context.Context, *spawn.TurnInput) error {
					second = cmp.Or(second, time.Since(began))
					return nil
				})})
			s := openSupervisor(t, spawn.Config{Store: session.NewMemory(), Runner: r})
			require.NoError(
				t, errorOf(s.Post(t.Context(), topKey, topKey, spawn.Incoming{Text: "go"})),
			)
			time.Sleep(3 * time.Hour)
			synctest.Wait()
			require.Less(t, second, 2*time.Minute, "ended during the turn: %v", before)
		})
	}
}
