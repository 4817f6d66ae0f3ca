package spawn_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/sessiontest"
	"github.com/offshoot-sdk/offshoot/spawn"
	"github.com/offshoot-sdk/offshoot/spawn/spawntest"
)

// begun returns a fleet in which the process a has the tree of the main session, and b does not.
func begun(t *testing.T, a func(f *fleet) *worker) (f *fleet, b *worker) {
	t.Helper()
	f = newFleet(t, sessiontest.ClusterOptions{})
	owner := a(f)
	b = f.talker("b", nil).run()
	_, err := owner.Post(t.Context(), topKey, topKey, spawn.Incoming{ID: "1", Text: "one"})
	require.NoError(t, err)
	time.Sleep(2 * time.Minute)
	require.Equal(t, "a", f.ownerOf(topKey))
	return f, b
}

func talkerA(f *fleet) *worker { return f.talker("a", nil).run() }

// A message to another tree leaves by the tree of the sender, whichever process is asked, and
// arrives once, also if that of the sender dies when it has recorded it.
func TestSendOutOfAnotherProcess(t *testing.T) {
	for name, test := range map[string]struct {
		owner  func(*fleet) *worker
		within time.Duration
		answer string
		dies   time.Duration // after so long
	}{
		"without an answer": {owner: talkerA},
		"with one":          {owner: talkerA, within: 5 * time.Minute, answer: "did it"},
		"owner that dies":   {owner: func(f *fleet) *worker { return f.lossy("a") }},
		"owner that dies, with an answer": {
			owner: talkerA, within: 10 * time.Minute, answer: "did it", dies: 10 * time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, b := begun(t, test.owner)
				m := spawn.Incoming{ID: "x", Text: "hello"}
				if test.dies > 0 {
					defer time.AfterFunc(test.dies, func() { f.cutName("a") }).Stop()
				}
				receipt, reply, err := b.SendOut(t.Context(), topKey, topKey, otherTree, m,
					test.within)
				require.NoError(t, err)
				require.Equal(t, otherTree, receipt.Session)
				require.Equal(t, test.within == 0, receipt.Pending)
				require.True(t, strings.HasSuffix(reply.Text, test.answer), reply.Text)
				time.Sleep(5 * time.Minute)
				told := 0
				for _, turn := range f.turns() {
					if strings.HasSuffix(turn, " hello") {
						told++
					}
				}
				if !strings.HasPrefix(name, "owner that dies") { // else its turns are tried again
					require.Equal(t, 1, told, "%v", f.turns())
				}
				roots := []session.Key{topKey, otherTree}
				require.NoError(t, spawntest.AuditSent(roots, f.entries))
				for _, root := range roots {
					f.settled(root)
				}
			})
		})
	}
}

// What the tree of the sender refuses, it refuses for another process likewise.
func TestSendOutThatAnotherProcessRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, b := begun(t, talkerA)
		gone := session.Must(topKey.Child("main", session.NewID()))
		receipt, _, err := b.SendOut(t.Context(), topKey, gone, otherTree,
			spawn.Incoming{Text: "hello"}, 0)
		require.ErrorIs(t, err, spawn.ErrNotFound)
		require.Zero(t, receipt)
		_, _, err = b.SendOut(t.Context(), topKey, topKey, topKey, spawn.Incoming{Text: "x"}, 0)
		_, wrong := errors.AsType[*spawn.InputError](err)
		require.True(t, wrong, "%v", err)
		receipt, _, err = b.SendOut(t.Context(), topKey, topKey, otherTree,
			spawn.Incoming{Text: "hello"}, time.Second)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.False(t, receipt.Session.IsZero())
		time.Sleep(5 * time.Minute)
	})
}

// Files for a child of a tree of another process are put, and are the child's when it is spawned.
// They are removed if it is not.
func TestDepositOfAnotherProcess(t *testing.T) {
	for _, spawns := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			f, b := begun(t, talkerA)
			errOwn := errors.New("own")
			q := spawn.Request{Task: "two", Key: "k"}
			var ref session.Ref
			err := b.Deposit(t.Context(), topKey, topKey, q, func(to spawn.Deposit) error {
				ref = to.Ref
				require.Equal(t, string(to.ID), to.Ref.SessionID)
				_, err := to.Put(t.Context(), strings.NewReader("text"))
				require.NoError(t, err)
				if !spawns {
					return errOwn
				}
				r := q
				r.ID, r.Files, r.Variant = to.ID, true, "one file"
				_, err = b.Spawn(t.Context(), topKey, topKey, r)
				return err
			})
			synctest.Wait()
			if spawns {
				require.NoError(t, err)
				require.Equal(t, 1, filesOf(t, f.outside, ref))
				known := false
				err = b.Deposit(t.Context(), topKey, topKey, q, func(to spawn.Deposit) error {
					known = to.Ref == (session.Ref{})
					return nil
				})
				require.NoError(t, err)
				require.True(t, known)
			} else {
				require.ErrorIs(t, err, errOwn)
				require.Zero(t, filesOf(t, f.outside, ref))
			}
			time.Sleep(5 * time.Minute)
			require.Equal(t, "a", f.ownerOf(topKey))
			require.Empty(t, f.settled(topKey).Deposits)
		})
	}
}

// A deposit ends with the process that has its tree: the spawn is not recorded, and nothing is
// left. One whose beginning is lost with that process is begun anew by the next.
func TestDepositOfAProcessThatDies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, b := begun(t, talkerA)
		q := spawn.Request{Task: "two"}
		var ref session.Ref
		err := b.Deposit(t.Context(), topKey, topKey, q, func(to spawn.Deposit) error {
			ref = to.Ref
			_, err := to.Put(t.Context(), strings.NewReader("text"))
			require.NoError(t, err)
			f.cutName("a")
			time.Sleep(2 * time.Minute)
			r := q
			r.ID, r.Files = to.ID, true
			_, err = b.Spawn(t.Context(), topKey, topKey, r)
			return err
		})
		require.ErrorIs(t, err, spawn.ErrNotRecorded)
		time.Sleep(5 * time.Minute)
		require.Zero(t, filesOf(t, f.outside, ref))
		require.Empty(t, f.settled(topKey).Deposits)
	})
	synctest.Test(t, func(t *testing.T) {
		f, b := begun(t, func(f *fleet) *worker { return f.lossy("a") })
		q := spawn.Request{Task: "two"}
		err := b.Deposit(t.Context(), topKey, topKey, q, func(to spawn.Deposit) error {
			_, err := to.Put(t.Context(), strings.NewReader("text"))
			require.NoError(t, err)
			r := q
			r.ID, r.Files = to.ID, true
			_, err = b.Spawn(t.Context(), topKey, topKey, r)
			return err
		})
		require.NoError(t, err)
		time.Sleep(5 * time.Minute)
		list, err := b.Runs(t.Context(), topKey, topKey, true)
		require.NoError(t, err)
		require.Len(t, list, 1)
		require.Equal(t, spawn.StatusOK, list[0].Status)
		require.Equal(t, 1, filesOf(t, f.outside,
			session.Ref{Key: list[0].Key, SessionID: list[0].SessionID}))
		require.Empty(t, f.settled(topKey).Deposits)
	})
}

// A session of another process that answers before the sender knows that its message has arrived
// has answered: the sender has the reply, or is told that there is none.
func TestFastAnswerOfAnotherProcess(t *testing.T) {
	for _, silent := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			f, ctx := newFleet(t, sessiontest.ClusterOptions{}), t.Context()
			a := talkerA(f)
			b := f.talker("b", func(cfg *spawn.Config) {
				store := *cfg.Store
				store.Owners = &lossyOwners{
					Owners: store.Owners, lose: func() { time.Sleep(5 * time.Second) },
				}
				cfg.Store = &store
				cfg.Runner = runnerFunc(func(
					_ context.Context, tn *spawn.TurnInput,
				) (spawn.TurnResult, error) {
					if silent {
						return spawn.TurnResult{}, nil
					}
					return spawn.TurnResult{Reply: "to " + taskOf(tn)}, nil
				})
			}).run()
			for root, w := range map[session.Key]*worker{topKey: a, otherTree: b} {
				_, err := w.Post(ctx, root, root, spawn.Incoming{ID: "1", Text: "one"})
				require.NoError(t, err)
				time.Sleep(2 * time.Minute)
				require.Equal(t, w.name, f.ownerOf(root))
			}
			var wg sync.WaitGroup
			for i := range 3 {
				wg.Go(func() {
					text := fmt.Sprint("question ", i)
					receipt, reply, err := a.SendOut(ctx, topKey, topKey, otherTree,
						spawn.Incoming{ID: text, Text: text}, time.Minute)
					assert.Equal(t, otherTree, receipt.Session)
					if silent {
						assert.ErrorIs(t, err, spawn.ErrSilent)
						return
					}
					assert.NoError(t, err)
					assert.Equal(t, "to "+text, reply.Text)
				})
			}
			wg.Wait()
			time.Sleep(5 * time.Minute)
		})
	}
}

// Answers that nothing asks for are kept for sixteen messages of a tree, and for a minute.
func TestAnswersAreKeptForAMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, ctx := newFleet(t, sessiontest.ClusterOptions{}), t.Context()
		a := talkerA(f)
		b := f.talker("b", func(cfg *spawn.Config) {
			cfg.Runner = runnerFunc(func(
				context.Context, *spawn.TurnInput,
			) (spawn.TurnResult, error) {
				return spawn.TurnResult{Reply: "at once"}, nil
			})
		}).run()
		for root, w := range map[session.Key]*worker{topKey: a, otherTree: b} {
			_, err := w.Post(ctx, root, root, spawn.Incoming{ID: "1", Text: "one"})
			require.NoError(t, err)
			time.Sleep(2 * time.Minute)
			require.Equal(t, w.name, f.ownerOf(root))
		}
		send := func(id string) {
			_, _, err := a.SendOut(ctx, topKey, topKey, otherTree,
				spawn.Incoming{ID: id, Text: id}, time.Minute)
			require.NoError(t, err)
		}
		for i := range 40 {
			send(fmt.Sprint("many ", i))
			require.Equal(t, min(i+1, 16), spawn.KeptAnswers(b.Supervisor, otherTree))
		}
		time.Sleep(2 * time.Minute)
		send("later")
		require.Equal(t, 1, spawn.KeptAnswers(b.Supervisor, otherTree))
	})
}
