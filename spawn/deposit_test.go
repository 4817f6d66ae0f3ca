package spawn_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
	"github.com/offshoot-sdk/offshoot/spawn/spawntest"
)

// put puts a text where a deposit says.
func put(t *testing.T, store *session.Store, to spawn.Deposit, text string) error {
	t.Helper()
	_, err := store.Files.Put(t.Context(), to.Ref, strings.NewReader(text), session.File{})
	return err
}

// filesOf counts the files of a transcript.
func filesOf(t *testing.T, store *session.Store, ref session.Ref) (n int) {
	t.Helper()
	for _, err := range store.Files.List(t.Context(), ref) {
		require.NoError(t, err)
		n++
	}
	return n
}

// atRest fails unless nothing is under way in a tree, as its journal has it.
func atRest(t *testing.T, store *session.Store) {
	t.Helper()
	report, err := spawntest.Inspect(store.Journal.Read(t.Context(), topKey, 0))
	require.NoError(t, err)
	require.NoError(t, report.AtRest())
	require.Empty(t, report.Deposits)
}

func quickRunner() spawn.Runner {
	return runnerFunc(func(
		context.Context, *spawn.TurnInput,
	) (spawn.TurnResult, error) {
		return spawn.TurnResult{Result: spawn.Result{Text: "done"}}, nil
	})
}

// What is put for a child is the child's when it is spawned, and else it is removed: however the
// function ends, and whatever refuses the spawn.
func TestDeposit(t *testing.T) {
	errOwn := errors.New("own")
	synctest.Test(t, func(t *testing.T) {
		store := session.NewMemory()
		s := openSupervisor(t, spawn.Config{Store: store, Runner: quickRunner()})
		q := spawn.Request{Task: "x", Key: "k"}
		admit := func(variant string) func(to spawn.Deposit) error {
			return func(to spawn.Deposit) error {
				r := q
				r.ID, r.Files, r.Variant = to.ID, true, variant
				_, err := s.Spawn(t.Context(), topKey, topKey, r)
				return err
			}
		}
		deposit := func(with func(spawn.Deposit) error) (to spawn.Deposit, err error) {
			err = s.Deposit(t.Context(), topKey, topKey, q, func(d spawn.Deposit) error {
				to = d
				if d.Ref == (session.Ref{}) {
					return with(d)
				}
				require.Equal(t, session.Ref{
					Key: session.Must(topKey.Child("main", string(d.ID))), SessionID: string(d.ID),
				}, d.Ref)
				require.NoError(t, put(t, store, d, "text"))
				return with(d)
			})
			synctest.Wait()
			return to, err
		}
		to, err := deposit(func(spawn.Deposit) error { return errOwn })
		require.ErrorIs(t, err, errOwn)
		require.Zero(t, filesOf(t, store, to.Ref))
		require.Panics(t, func() {
			_, _ = deposit(func(d spawn.Deposit) error { to = d; panic("oh no") })
		})
		synctest.Wait()
		require.Zero(t, filesOf(t, store, to.Ref))
		require.ErrorIs(t, admit("one")(to), spawn.ErrNotRecorded, "it is too late")
		to, err = deposit(admit("one"))
		require.NoError(t, err)
		require.Equal(t, 1, filesOf(t, store, to.Ref))
		again, err := deposit(admit("one"))
		require.NoError(t, err)
		require.Zero(t, again.Ref, "the key is known")
		_, err = deposit(admit("two"))
		require.ErrorIs(t, err, spawn.ErrKeyConflict)
		q.Task = " "
		called := false
		_, err = deposit(func(spawn.Deposit) error { called = true; return nil })
		require.Error(t, err)
		require.False(t, called)
		require.Equal(t, 1, filesOf(t, store, to.Ref))
		atRest(t, store)
	})
	t.Run("no files", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			store := session.NewMemory()
			store.Files = nil
			s := openSupervisor(t, spawn.Config{Store: store, Runner: quickRunner()})
			err := s.Deposit(t.Context(), topKey, topKey, spawn.Request{Task: "x"}, nil)
			require.ErrorIs(t, err, session.ErrNoFiles)
		})
	})
}

// Files that take long to read keep the tree in memory, which is not opened anew meanwhile.
func TestDepositThatTakesLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := session.NewMemory()
		s := openSupervisor(t, spawn.Config{Store: store, Runner: quickRunner()})
		q := spawn.Request{Task: "x"}
		require.NoError(t, s.Deposit(t.Context(), topKey, topKey, q, func(to spawn.Deposit) error {
			require.NoError(t, put(t, store, to, "first"))
			time.Sleep(24*time.Hour + 50*time.Second) // just before a sweep, which uses the tree
			s.Rest()
			synctest.Wait()
			require.NoError(t, put(t, store, to, "second"))
			q.ID, q.Files = to.ID, true
			_, err := s.Spawn(t.Context(), topKey, topKey, q)
			return err
		}))
		synctest.Wait()
		atRest(t, store)
	})
}

// A caller that leaves before it is known whether its deposit is recorded leaves nothing.
func TestDepositWhoseCallerLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := session.NewMemory()
		j := &pausedJournal{Journal: store.Journal, takes: time.Minute}
		store.Journal = j
		s := openSupervisor(t, spawn.Config{Store: store, Runner: quickRunner()})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := s.Deposit(ctx, topKey, topKey, spawn.Request{Task: "x"},
			func(spawn.Deposit) error { return errors.New("it is called") })
		require.ErrorIs(t, err, spawn.ErrUnconfirmed)
		time.Sleep(time.Hour)
		atRest(t, store)
		n := 0
		for f, err := range spawntest.Facts(store.Journal.Read(t.Context(), topKey, 0)) {
			require.NoError(t, err)
			if f.Kind == "deposit_begun" {
				n++
			}
		}
		require.Equal(t, 1, n)
	})
}

// deafFiles are Files whose Put does not return before free is closed, whatever its ctx says.
type deafFiles struct {
	session.Files
	free chan struct{}
}

func (f deafFiles) Put(
	ctx context.Context, ref session.Ref, r io.Reader, want session.File,
) (session.File, error) {
	<-f.free
	return f.Files.Put(context.WithoutCancel(ctx), ref, r, want)
}

// A caller whose ctx ends, or a shutdown, leaves a store that does not. What it puts after that is
// removed when it has returned, by this process or the next one. A shutdown names the store.
func TestDepositThatHangs(t *testing.T) {
	for _, shut := range []bool{false, true} {
		t.Run(fmt.Sprint(shut), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := session.NewMemory()
				deaf := deafFiles{store.Files, make(chan struct{})}
				cfg := spawn.Config{
					Store: &session.Store{
						Journal: store.Journal, Transcripts: store.Transcripts, Files: deaf,
					},
					Runner: quickRunner(), Grace: time.Second,
				}
				s, _ := runUntil(forADay(t), t, cfg)
				mustSpawn(t, s, spawn.Request{Task: "before"})
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				ended := make(chan error, 1)
				if shut {
					time.AfterFunc(time.Minute, func() { ended <- s.Shutdown(atOnce(t)) })
				}
				began, ref := time.Now(), session.Ref{}
				err := s.Deposit(ctx, topKey, topKey, spawn.Request{Task: "x"},
					func(to spawn.Deposit) error {
						ref = to.Ref
						_, err := to.Put(ctx, strings.NewReader("x"))
						return err
					})
				require.ErrorIs(t, err, spawn.ErrNotRecorded)
				if shut {
					require.ErrorIs(t, err, spawn.ErrShutdown)
					require.Equal(t, time.Minute, time.Since(began))
					var still *spawn.StillRunningError
					require.ErrorAs(t, <-ended, &still)
					require.Equal(t, spawn.StillRunningError{}, *still, "it is the store")
				} else {
					require.ErrorIs(t, err, context.DeadlineExceeded)
					require.Equal(t, time.Hour, time.Since(began))
				}
				time.Sleep(time.Second)
				close(deaf.free)
				synctest.Wait()
				if shut {
					next := openSupervisor(t, cfg)
					require.NoError(t, next.Ready(t.Context(), topKey))
					synctest.Wait()
				}
				require.Zero(t, filesOf(t, store, ref))
				atRest(t, store)
			})
		})
	}
}

// An owner that another one has followed puts nothing more, and spawns nothing.
func TestDepositOfAFormerOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := session.NewMemory()
		q := spawn.Request{Task: "x", Key: "k"}
		former := openSupervisor(t, spawn.Config{Store: store, Runner: quickRunner()})
		var to spawn.Deposit
		err := former.Deposit(t.Context(), topKey, topKey, q, func(d spawn.Deposit) error {
			to = d
			require.NoError(t, put(t, store, d, "first"))
			next := openSupervisor(t, spawn.Config{Store: store, Runner: quickRunner()})
			_, err := next.Spawn(t.Context(), topKey, topKey, spawn.Request{Task: "other"})
			require.NoError(t, err)
			synctest.Wait()
			require.Zero(t, filesOf(t, store, d.Ref))
			require.ErrorIs(t, put(t, store, d, "second"), session.ErrArchived)
			q.ID, q.Files = d.ID, true
			_, err = former.Spawn(t.Context(), topKey, topKey, q)
			return err
		})
		require.Error(t, err)
		synctest.Wait()
		require.Zero(t, filesOf(t, store, to.Ref))
		atRest(t, store)
	})
}
