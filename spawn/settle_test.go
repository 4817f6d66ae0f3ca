package spawn_test

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
	"github.com/offshoot-sdk/offshoot/spawn/spawntest"
)

// settleWorld is a store with two trees. That of topKey has a blocked delivery and a run with a
// turn whose process is gone. That of settleOther has a delivery that waits for its next attempt.
type settleWorld struct {
	t       *testing.T
	log     *spawntest.Recorder
	store   *session.Store
	blocked string       // the key of the delivery that is blocked
	pending string       // the key of the one that is not
	hanging session.Key  // the run with the turn
	runs    atomic.Int32 // calls of the Runner
}

var settleOther = session.Must(session.NamedKey("main", "other"))

func newSettleWorld(t *testing.T) *settleWorld {
	t.Helper()
	w := &settleWorld{t: t, log: spawntest.NewRecorder(session.NewMemory().Journal)}
	w.store = &session.Store{Journal: w.log}
	s, done := w.run(func(spawn.Delivery) error { return errors.New("the receiver is away") })
	_, err := s.Spawn(t.Context(), topKey, topKey, spawn.Request{Task: "report", Announce: true})
	require.NoError(t, err)
	time.Sleep(2 * time.Hour)
	_, err = s.Spawn(
		t.Context(), settleOther, settleOther, spawn.Request{Task: "report", Announce: true},
	)
	require.NoError(t, err)
	info, err := s.Spawn(t.Context(), topKey, topKey, spawn.Request{Task: "hang", Announce: true})
	require.NoError(t, err)
	synctest.Wait()
	done()
	blocked, pending := w.view(topKey).Outbox, w.view(settleOther).Outbox
	require.Len(t, blocked, 1)
	require.NotZero(t, blocked[0].Blocked)
	require.Len(t, pending, 1)
	w.blocked, w.pending, w.hanging = blocked[0].Key, pending[0].Key, info.Key
	w.runs.Store(0)
	return w
}

// run runs a Supervisor until the function that it returns is called.
func (w *settleWorld) run(deliver func(spawn.Delivery) error) (*spawn.Supervisor, func()) {
	w.t.Helper()
	s, err := spawn.Open(w.t.Context(), spawn.Config{
		Store: w.store, CallerRun: true,
		Deliver: func(_ context.Context, out spawn.Delivery) error { return deliver(out) },
		Runner:  runnerFunc(w.turn),
	})
	require.NoError(w.t, err)
	ran := make(chan error, 1)
	go func() { ran <- s.Run(context.WithoutCancel(w.t.Context())) }()
	return s, func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		require.NoError(w.t, s.Shutdown(ctx))
		require.NoError(w.t, <-ran)
	}
}

// turn plays a run that hangs or that ends at once.
func (w *settleWorld) turn(ctx context.Context, in *spawn.TurnInput) (spawn.TurnResult, error) {
	w.runs.Add(1)
	if in.Run.Task == "hang" {
		<-ctx.Done()
		return spawn.TurnResult{}, ctx.Err()
	}
	return sayText("done")
}

// delivered runs a Supervisor whose receiver is back, and returns the keys of what arrives.
func (w *settleWorld) delivered() map[string]int {
	w.t.Helper()
	arrived := make(chan string, 100)
	_, done := w.run(func(out spawn.Delivery) error { arrived <- out.Key; return nil })
	time.Sleep(2 * time.Hour)
	done()
	close(arrived)
	keys := make(map[string]int)
	for key := range arrived {
		keys[key]++
	}
	for _, root := range w.log.RootKeys() {
		require.NoError(w.t, spawntest.Audit(w.log.History(root)))
	}
	return keys
}

func (w *settleWorld) view(root session.Key) spawn.TreeView {
	w.t.Helper()
	v, err := spawn.View(root, w.store.Journal.Read(context.Background(), root, 0))
	require.NoError(w.t, err)
	return v
}

func (w *settleWorld) settle(key string, how spawn.Settlement) error {
	return spawn.Settle(w.t.Context(), w.store, key, how)
}

// kinds returns what the entries of the tree of topKey record, one word each.
func (w *settleWorld) kinds() (kinds []string) {
	for f, err := range spawntest.Facts(w.store.Journal.Read(context.Background(), topKey, 0)) {
		require.NoError(w.t, err)
		kinds = append(kinds, f.Kind)
	}
	return kinds
}

// A settled delivery is due or gone, its tree is due, and nothing else has happened; the next
// Supervisor delivers what is to be delivered once, under its key.
func TestSettleWhatIsBlocked(t *testing.T) {
	for how, word := range map[spawn.Settlement]string{
		spawn.SettleRetry: "revived", spawn.SettleDismiss: "dismissed",
	} {
		t.Run(how.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newSettleWorld(t)
				before, had, other := w.view(topKey), w.kinds(), w.view(settleOther)
				time.Sleep(time.Minute)
				require.NoError(t, w.settle(w.blocked, how))
				require.Zero(t, w.runs.Load())
				require.Equal(
					t, append(had, "opened", "turn_ended", "stop_requested", "run_ended", word),
					w.kinds(),
				)
				require.Equal(t, before.Epoch+1, w.view(topKey).Epoch)
				require.Equal(t, other, w.view(settleOther))
				heads := 0
				for head, err := range w.store.Journal.Roots(t.Context(), session.RootQuery{}) {
					require.NoError(t, err)
					if head.Root == topKey {
						require.True(
							t, head.Due.Equal(tree.DueNow),
							"the next Supervisor looks at it first thing",
						)
						heads++
					}
				}
				require.Equal(t, 1, heads)

				arrived := w.delivered()
				require.Equal(t, how == spawn.SettleRetry, arrived[w.blocked] == 1)
				require.Equal(t, 1, arrived[w.pending])
				delete(arrived, w.blocked)
				delete(arrived, w.pending)
				require.Len(t, arrived, 1, "the end of the run whose process was gone")
				require.Zero(t, w.runs.Load())
				require.ErrorIs(t, w.settle(w.blocked, how), spawn.ErrNotFound)
			})
		})
	}
}

// What cannot be settled is refused with its reason, and nothing is written.
func TestSettleRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSettleWorld(t)
		journal := spawntest.NewCrashJournal(w.log)
		w.store = &session.Store{Journal: journal}

		var input *spawn.InputError
		for _, how := range []spawn.Settlement{0, spawn.SettleDismiss + 1} {
			require.ErrorAs(t, w.settle(w.blocked, how), &input)
			require.Equal(t, "how", input.Field)
		}
		for _, store := range []*session.Store{nil, {}} {
			err := spawn.Settle(t.Context(), store, w.blocked, spawn.SettleRetry)
			require.ErrorAs(t, err, &input)
			require.Equal(t, "store", input.Field)
		}
		err := w.settle("unknown", spawn.SettleDismiss)
		require.ErrorIs(t, err, spawn.ErrNotFound)
		require.EqualError(t, err, `spawn: not on record: delivery "unknown"`)

		var pending *spawn.NotBlockedError
		require.ErrorAs(t, w.settle(w.pending, spawn.SettleDismiss), &pending)
		due := w.view(settleOther).Outbox[0].Due
		want := &spawn.NotBlockedError{Key: w.pending, Root: settleOther, Due: due}
		require.Equal(t, want, pending)
		requirePrefixOnce(t, pending)

		ended, cancel := context.WithCancel(t.Context())
		cancel()
		err = spawn.Settle(ended, w.store, w.blocked, spawn.SettleRetry)
		require.ErrorIs(t, err, context.Canceled)
		require.Zero(t, journal.Appends())
	})
}

// readOnlyJournal is a Journal that was opened for reading.
type readOnlyJournal struct{ session.Journal }

func (readOnlyJournal) Append(
	context.Context, session.Key, session.Seq, session.Batch,
) (session.Seq, error) {
	return 0, session.ErrReadOnly
}

// A store that was opened for reading tells what can be settled from what cannot.
func TestSettleInAView(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSettleWorld(t)
		w.store = &session.Store{Journal: readOnlyJournal{w.log}}
		err := w.settle(w.blocked, spawn.SettleDismiss)
		require.ErrorIs(t, err, session.ErrReadOnly)
		require.NotErrorIs(t, err, spawn.ErrUnconfirmed)
		require.ErrorIs(t, w.settle("unknown", spawn.SettleDismiss), spawn.ErrNotFound)
	})
}

// A key that several trees have, because a journal was copied, settles none of them.
func TestSettleWhatIsAmbiguous(t *testing.T) {
	store := session.NewMemory()
	copied := func(root session.Key) {
		var b session.Batch
		name := `"` + root.String() + `"`
		for _, f := range []string{
			`{"v":1,"kind":"opened","at":1,"num":1,"id":"s"}`,
			`{"v":1,"kind":"posted","at":1,"run":` + name + `,"class":1,"ord":1,"text":"hello"}`,
			`{"v":1,"kind":"turn_started","at":1,"run":` + name + `,"n":1,"ord":1}`,
			`{"v":1,"kind":"turn_ended","at":1,"run":` + name + `,"state":5,"flags":64,"n":1,"answer":{"reply":"hi"}}`,
			`{"v":1,"kind":"blocked","at":1,"ord":1,"text":"down"}`,
		} {
			b.Entries = append(b.Entries, session.Entry{Payload: session.Raw(f)})
		}
		_, err := store.Journal.Append(t.Context(), root, 0, b)
		require.NoError(t, err)
	}
	copied(settleOther)
	copied(topKey)
	var ambiguous *spawn.AmbiguousError
	require.ErrorAs(t, spawn.Settle(t.Context(), store, "s.1", spawn.SettleRetry), &ambiguous)
	want := &spawn.AmbiguousError{Key: "s.1", Roots: []session.Key{topKey, settleOther}}
	require.Equal(t, want, ambiguous)
	requirePrefixOnce(t, ambiguous)
	require.EqualValues(t, 5, viewTop(t, store.Journal).Last)
}

// A tree that cannot be read is part of the error where the delivery may be in it, and else no
// obstacle.
func TestSettleBesideATreeThatCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSettleWorld(t)
		rotten := session.Must(session.NamedKey("main", "rotten"))
		batch := session.Batch{
			ID:      "x",
			Entries: []session.Entry{{Payload: session.Raw(`{"v":1,"kind":"archived"}`)}},
		}
		_, err := w.store.Journal.Append(t.Context(), rotten, 0, batch)
		require.NoError(t, err)

		err = w.settle("unknown", spawn.SettleRetry)
		require.ErrorIs(t, err, spawn.ErrNotFound)
		require.ErrorIs(t, err, session.ErrCorrupt)
		require.Contains(t, err.Error(), rotten.String())
		require.NoError(t, w.settle(w.blocked, spawn.SettleRetry))
	})
}

// A Supervisor that owns the tree loses it to Settle, and takes it back for the next command.
func TestSettleBesideAnOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSettleWorld(t)
		s, done := w.run(func(spawn.Delivery) error { return spawn.ErrBusy })
		defer done()
		synctest.Wait()
		require.NoError(t, w.settle(w.blocked, spawn.SettleDismiss))
		message := spawn.Incoming{ID: "1", Text: "hello"}
		require.ErrorIs(
			t, errorOf(s.Post(t.Context(), topKey, topKey, message)), spawn.ErrNotRecorded,
		)
		require.NoError(t, errorOf(s.Post(t.Context(), topKey, topKey, message)))
		outbox, err := s.Outbox(t.Context(), topKey)
		require.NoError(t, err)
		require.Len(t, outbox, 1)
		require.NotEqual(t, w.blocked, outbox[0].Key)
	})
}

// A settlement whose append fails, hangs or kills the process is recorded as a whole or not at all,
// and may be sent again.
func TestSettleCrashesAtEveryAppend(t *testing.T) {
	for n, reached := 1, true; reached; n++ {
		for fault := spawntest.FaultDieBefore; fault <= spawntest.FaultExitAfter; fault++ {
			t.Run(strconv.Itoa(n)+" "+fault.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newSettleWorld(t)
					before := w.view(topKey)
					journal := spawntest.NewCrashJournal(w.log).At(n, fault)
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					defer cancel()
					store := &session.Store{Journal: journal}
					err := spawn.Settle(ctx, store, w.blocked, spawn.SettleRetry)
					if reached = journal.Appends() >= n; !reached {
						require.NoError(t, err)
						return
					}
					switch fault {
					case spawntest.FaultLoseAck, spawntest.FaultPanicAfter,
						spawntest.FaultExitAfter:
						require.NoError(t, err, "the batch is found in the log")
					case spawntest.FaultFailBefore, spawntest.FaultPanicBefore,
						spawntest.FaultExitBefore:
						require.ErrorIs(t, err, spawn.ErrNotRecorded)
					default:
						require.ErrorIs(t, err, spawn.ErrUnconfirmed)
					}
					after := w.view(topKey)
					var pending *spawn.NotBlockedError
					if after.Last == before.Last {
						require.NoError(t, w.settle(w.blocked, spawn.SettleRetry))
					} else {
						require.ErrorAs(t, w.settle(w.blocked, spawn.SettleRetry), &pending)
					}
					require.Equal(t, 1, w.delivered()[w.blocked])
				})
			})
		}
	}
}
