package spawn_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
	"github.com/offshoot-sdk/offshoot/spawn/spawntest"
)

// nestedRuns spawns two runs of a tree and a run below each. The runs have an hour to go.
func nestedRuns(ctx context.Context, s *spawn.Supervisor, root session.Key) ([]session.Key, error) {
	var keys []session.Key
	for i := range 2 {
		above := root
		for depth := range 2 {
			info, err := s.Spawn(ctx, root, above, spawn.Request{
				Task: "work", Key: fmt.Sprintf("%d-%d", i, depth),
			})
			if err != nil {
				return keys, err
			}
			above = info.Key
			keys = append(keys, above)
		}
	}
	return keys, nil
}

// R18: at each write of a history, a process that dies there leaves a journal in which every run
// that was acknowledged is found by its key, before any other call has touched its tree.
func TestRootOfAfterEveryCrash(t *testing.T) {
	for _, fault := range []spawntest.Fault{spawntest.FaultDieBefore, spawntest.FaultDieAfter} {
		for at := 1; ; at++ {
			over := false
			synctest.Test(t, func(t *testing.T) { over = crashAndFind(t, fault, at) })
			if over {
				require.Greater(t, at, 5)
				break
			}
		}
	}
}

// crashAndFind lets one append be the last one of a process and returns whether there was none.
func crashAndFind(t *testing.T, fault spawntest.Fault, at int) (over bool) {
	store := session.NewMemory()
	crash := spawntest.NewCrashJournal(store.Journal)
	crash.At(at, fault)
	cfg := spawn.Config{Runner: runnerFunc(workOn), Rules: policy.Rules{
		Subagents: policy.Subagents{MaxSpawnDepth: 2},
	}}
	cfg.Store = &session.Store{Journal: crash}
	first, err := spawn.Open(t.Context(), cfg)
	require.NoError(t, err)
	other := session.Must(session.NamedKey("main", "other"))
	acknowledged := make(map[session.Key]session.Key)
	for _, root := range []session.Key{topKey, other} {
		var keys []session.Key
		keys, err = nestedRuns(t.Context(), first, root)
		for _, key := range keys {
			acknowledged[key] = root
		}
		if err != nil {
			break
		}
	}
	over = err == nil
	soon, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_ = first.Shutdown(soon) // of a process that is dead, or alive if it is over

	cfg.Store = store
	second, err := spawn.Open(t.Context(), cfg)
	require.NoError(t, err)
	for key, root := range acknowledged {
		found, err := second.RootOf(t.Context(), key)
		require.NoError(t, err, "fault %v at %d", fault, at)
		require.Equal(t, root, found)
		found, err = second.WaitRootOf(t.Context(), key)
		require.NoError(t, err)
		require.Equal(t, root, found)
	}
	require.NoError(t, second.Shutdown(t.Context()))
	return over
}

// memberJournal is a journal whose Roots can fail, and which can ignore members, as one that was
// written for an earlier version does.
type memberJournal struct {
	session.Journal
	fails   atomic.Pointer[error] // nil: it does not
	ignores bool
}

func (j *memberJournal) Append(
	ctx context.Context, root session.Key, after session.Seq, b session.Batch,
) (session.Seq, error) {
	if j.ignores {
		b.Members = nil
	}
	return j.Journal.Append(ctx, root, after, b)
}

func (j *memberJournal) Roots(
	ctx context.Context, q session.RootQuery,
) iter.Seq2[session.Head, error] {
	if fails := j.fails.Load(); fails != nil {
		return func(yield func(session.Head, error) bool) { yield(session.Head{}, *fails) }
	}
	if j.ignores {
		q.Member = session.Key{}
	}
	return j.Journal.Roots(ctx, q)
}

// R18: keys that are not on record are ErrNotFound and leave nothing in memory, also if the journal
// names a tree that does not have them, or not any more.
func TestRootOfUnknownSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := session.NewMemory()
		never := session.Must(topKey.Child("main", session.NewID()))
		_, err := store.Journal.Append(t.Context(), session.BindingsRoot(), 0, session.Batch{
			Entries: []session.Entry{{Payload: session.Raw(`1`)}}, Members: []session.Key{never},
		})
		require.NoError(t, err)
		s := openSupervisor(t, spawn.Config{Store: store, Runner: instantRunner})
		gone := mustSpawn(t, s, spawn.Request{Task: "x"})
		time.Sleep(3 * time.Hour)
		require.Zero(t, s.Shells())
		for _, key := range []session.Key{
			never, gone, session.Must(topKey.Child("main", session.NewID())),
		} {
			_, err := s.RootOf(t.Context(), key)
			require.ErrorIs(t, err, spawn.ErrNotFound)
			_, err = s.WaitRootOf(t.Context(), key)
			require.ErrorIs(t, err, spawn.ErrNotFound)
		}
		time.Sleep(time.Hour)
		require.Zero(t, s.Shells(), "the tree that was opened has been unloaded")
	})
}

// R18: while the journal fails, a run of a tree in memory is found, and another may be there later.
func TestRootOfWhileTheJournalFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &memberJournal{Journal: session.NewMemory().Journal}
		s := openSupervisor(
			t, spawn.Config{Store: &session.Store{Journal: j}, Runner: runnerFunc(workOn)},
		)
		run := mustSpawn(t, s, spawn.Request{Task: "x"})
		unknown := session.Must(topKey.Child("main", session.NewID()))
		for fails, want := range map[error]error{
			errDisk:            spawn.ErrUnreadable,
			session.ErrCorrupt: spawn.ErrUnreadable,
		} {
			j.fails.Store(&fails)
			found, err := s.RootOf(t.Context(), run)
			require.NoError(t, err)
			require.Equal(t, topKey, found)
			_, err = s.RootOf(t.Context(), unknown)
			require.ErrorIs(t, err, want)
			require.ErrorIs(t, err, fails)
			require.NotErrorIs(t, err, spawn.ErrNotFound)
			soon, cancel := context.WithTimeout(t.Context(), time.Minute)
			_, err = s.WaitRootOf(soon, unknown)
			cancel()
			waited := errors.Is(err, context.DeadlineExceeded)
			passes := errors.Is(fails, errDisk)
			require.Equal(t, passes, waited, "what a person must repair is not waited for")
		}
		j.fails.Store(&errDisk)
		go func() {
			time.Sleep(time.Minute)
			j.fails.Store(nil)
		}()
		_, err := s.WaitRootOf(t.Context(), unknown)
		require.ErrorIs(t, err, spawn.ErrNotFound)
	})
}

// R18: the runs of a tree that an earlier version wrote are found once the tree was opened, over
// the next restart too. A journal that ignores members finds all, by looking through every tree.
func TestRootOfInOldJournals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := session.NewMemory()
		j := &memberJournal{Journal: store.Journal, ignores: true}
		cfg := spawn.Config{Store: &session.Store{Journal: j}, Runner: runnerFunc(workOn)}
		old, err := spawn.Open(t.Context(), cfg)
		require.NoError(t, err)
		run := mustSpawn(t, old, spawn.Request{Task: "x"})
		require.NoError(t, old.Shutdown(t.Context()))

		restart := func(store *session.Store, opens bool, want error) {
			cfg.Store = store
			s, err := spawn.Open(t.Context(), cfg)
			require.NoError(t, err)
			if opens {
				require.NoError(t, errorOf(s.Find(t.Context(), topKey, refOf(run))))
			}
			_, err = s.RootOf(t.Context(), run)
			require.ErrorIs(t, err, want)
			require.NoError(t, s.Shutdown(t.Context()))
		}
		restart(&session.Store{Journal: j}, false, nil)
		restart(store, false, spawn.ErrNotFound)
		restart(store, true, nil)
		restart(store, false, nil)
	})
}

// R18: a snapshot names all runs of the tree.
func TestRootOfAfterASnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := session.NewMemory()
		run := runnerFunc(func(ctx context.Context, tn *spawn.TurnInput) (spawn.TurnResult, error) {
			if tn.Session.Key == topKey {
				return sayText("x")
			}
			return workOn(ctx, tn)
		})
		s := openSupervisor(t, spawn.Config{Store: store, Runner: run})
		child := mustSpawn(t, s, spawn.Request{Task: "x"})
		reset := func() bool {
			for e, err := range store.Journal.Read(t.Context(), topKey, 0) {
				require.NoError(t, err)
				return e.Seq > 1
			}
			return false
		}
		for i := 0; !reset(); i++ {
			require.Less(t, i, 5000)
			require.NoError(
				t, errorOf(s.Post(t.Context(), topKey, topKey, spawn.Incoming{Text: "x"})),
			)
			synctest.Wait()
		}
		for key, found := range map[session.Key]int{child: 1, topKey: 0} {
			q := session.RootQuery{Member: key}
			for head, err := range store.Journal.Roots(t.Context(), q) {
				require.NoError(t, err)
				require.Equal(t, topKey, head.Root)
				found--
			}
			require.Zero(t, found, key)
		}
	})
}
