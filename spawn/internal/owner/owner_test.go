package owner

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
)

var top = session.Must(session.MainKey("main"))

// world is an Executor that only records its calls.
type world struct {
	mu   sync.Mutex
	did  []string
	runs map[turn]bool
}

type turn struct {
	run *tree.Run
	n   uint32
}

func (w *world) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.did = append(w.did, fmt.Sprintf(format, args...))
}

func (w *world) list() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string(nil), w.did...)
}

func (w *world) Start(_ Goroutine, _ uint64, _ *tree.Tree, r *tree.Run) {
	w.runs[turn{r, r.Open.N}] = true
	w.note("start %s %d", r.Spec.Task, r.Open.N)
}

func (w *world) Cancel(r *tree.Run, n uint32) { w.note("cancel %s %d", r.Spec.Task, n) }

func (w *world) Deliver(Goroutine, uint64, *tree.Tree, *tree.Entry, bool) { w.note("deliver") }

func (w *world) Recall(tree.Destination)              { w.note("recall") }
func (w *world) Tidy(r *tree.Run)                     { w.note("tidy %s", r.Spec.Task) }
func (w *world) Drop(_ uint64, d tree.DroppedDeposit) { w.note("drop %s", d.Run.ID()) }
func (w *world) Restore(_ uint64, r *tree.Run)        { w.note("restore %s", r.Spec.Task) }
func (w *world) Unbind(_ uint64, r *tree.Run, _ session.Route, why string) {
	w.note("unbind %s: %s", r.Spec.Task, why)
}
func (w *world) Archive(_ uint64, _ *tree.Tree, r *tree.Run) { w.note("archive %s", r.Spec.Task) }
func (w *world) Answer(id string, err error)                 { w.note("answer %s %v", id, err) }
func (w *world) Round(*tree.Tree, Place)                     {}
func (w *world) Publish(_ Goroutine, _ *tree.Tree, _ session.Seq, _ Place, facts []tree.Fact) {
	w.note("publish %d", len(facts))
}
func (w *world) Lost(_ error, conflict bool) { w.note("lost %v", conflict) }
func (w *world) Owned(error)                 { w.note("owned") }
func (w *world) Stalled(err error)           { w.note("stalled %v", err != nil) }
func (w *world) Rested()                     {}

// Free leaves it to the owner to give the slot back.
func (w *world) Free(*tree.Run, uint32) bool { return false }

// process is what the owners of a test share.
type process struct {
	cfg   Config
	world *world
	all   sync.WaitGroup
	alive atomic.Bool
}

func newProcess(j session.Journal) *process {
	p := &process{world: &world{runs: make(map[turn]bool)}}
	p.alive.Store(true)
	var ids atomic.Int64
	p.cfg = Config{
		Journal: j, Lane: NewLane(2, 100), Writer: fmt.Sprintf("w%p", p),
		Rand:  func() uint64 { return 7 },
		NewID: func() string { return fmt.Sprint("id", ids.Add(1)) },
		Go: func(drain func(Goroutine)) bool {
			p.all.Go(func() { drain(nil) })
			return true
		},
		Active: p.alive.Load, Awake: p.alive.Load, Context: context.Background,
		Fatal: func(err error) { p.world.note("fatal %v", err) },
		Options: &tree.Options{
			Rules: &policy.Rules{}, Grace: 10 * time.Second, ArchiveAfter: time.Hour,
		},
	}
	p.cfg.Lane.Open()
	return p
}

func (p *process) owner() *Owner { return New(&p.cfg, top, p.world) }

func (p *process) end(o *Owner) {
	p.alive.Store(false)
	o.StopTimer()
	p.all.Wait()
}

// journal counts appends and lets a test change what they do.
type journal struct {
	session.Journal
	mu      sync.Mutex
	appends int
	hold    chan struct{} // an append waits for it
	after   func(n int, seq session.Seq, err error) (session.Seq, error)
	before  func(n int) error
}

func (j *journal) Append(
	ctx context.Context, root session.Key, after session.Seq, b session.Batch,
) (session.Seq, error) {
	j.mu.Lock()
	j.appends++
	n := j.appends
	j.mu.Unlock()
	if j.hold != nil {
		<-j.hold
	}
	if j.before != nil {
		if err := j.before(n); err != nil {
			return 0, err
		}
	}
	seq, err := j.Journal.Append(ctx, root, after, b)
	if j.after != nil {
		return j.after(n, seq, err)
	}
	return seq, err
}

func spawnCmd(name string) *tree.Spawn {
	return &tree.Spawn{Parent: top, ID: name, Key: name, Task: tree.Text(name)}
}

// postCmd posts message i to the top-level session.
func postCmd(i int) *tree.Post { return &tree.Post{To: top, ID: fmt.Sprint(i), Text: "x"} }

// doneCmd ends turn n of the top-level session.
func doneCmd(n int) *tree.TurnDone {
	return &tree.TurnDone{Run: top, N: uint32(n), Answer: &tree.Result{Text: "y"}}
}

// The owner decides together and appends once what arrives while an append is under way. Admission
// and start of a run are one append.
func TestBatchIsOneAppend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &journal{Journal: session.NewMemory().Journal, hold: make(chan struct{})}
		p := newProcess(j)
		p.cfg.Options.Rules.Subagents.MaxChildren = 20
		o := p.owner()
		var people sync.WaitGroup
		for i := range 10 {
			people.Go(func() {
				require.NoError(t, o.Do(t.Context(), spawnCmd(fmt.Sprint("r", i)), nil))
			})
		}
		synctest.Wait()
		require.Equal(t, 1, j.appends)
		require.Empty(t, p.world.list(), "nothing is done before it is durable")
		close(j.hold)
		people.Wait()
		synctest.Wait()
		require.LessOrEqual(t, j.appends, 2)
		started := 0
		for _, x := range p.world.list() {
			if x[:5] == "start" {
				started++
			}
		}
		require.Equal(t, 2, started, "as many as the lane has slots")
		p.end(o)
	})
}

// The owner finds an append whose acknowledgement was lost by its id: nothing is lost or done
// twice.
func TestLostAcknowledgement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &journal{Journal: session.NewMemory().Journal}
		j.after = func(n int, seq session.Seq, err error) (session.Seq, error) {
			if n == 2 {
				return 0, errors.New("lost")
			}
			return seq, err
		}
		p := newProcess(j)
		o := p.owner()
		require.NoError(t, o.Do(t.Context(), &tree.Post{To: top, ID: "1", Text: "x"}, nil))
		require.NoError(t, o.Do(t.Context(), spawnCmd("a"), nil))
		require.NoError(t, o.Do(t.Context(), nil, func(tr *tree.Tree, _ tree.Reply) {
			require.EqualValues(t, 1, tr.Epoch())
			require.Equal(t, 1, tr.Total())
		}))
		require.NotContains(t, p.world.list(), "lost false")
		p.end(o)
	})
}

// failing is a journal that takes nothing while it is down.
func failing(how func() error) (j *journal, down *atomic.Bool) {
	j, down = &journal{Journal: session.NewMemory().Journal}, new(atomic.Bool)
	j.before = func(int) error {
		if down.Load() {
			return how()
		}
		return nil
	}
	return j, down
}

// withChild returns the owner of a tree that has the child "a", on a journal that fails in that way
// while down is set.
func withChild(t *testing.T, how func() error) (p *process, o *Owner, down *atomic.Bool) {
	t.Helper()
	j, down := failing(how)
	p = newProcess(j)
	o = p.owner()
	require.NoError(t, o.Do(t.Context(), spawnCmd("a"), nil))
	return p, o, down
}

var waysToFail = map[string]func() error{
	"error": func() error { return errors.New("disk full") },
	"panic": func() error { panic("disk on fire") },
	"exit":  func() error { runtime.Goexit(); return nil },
}

// An append that fails for a moment costs a moment: no caller is refused and no turn is cancelled.
func TestAppendThatFailsForAMoment(t *testing.T) {
	for name, how := range waysToFail {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, o, down := withChild(t, how)
				down.Store(true)
				time.AfterFunc(time.Second, func() { down.Store(false) })
				began := time.Now()
				require.NoError(t, o.Do(t.Context(), spawnCmd("b"), nil))
				require.Less(t, time.Since(began), 2*time.Second)
				require.NoError(t, o.Do(t.Context(), nil, func(tr *tree.Tree, _ tree.Reply) {
					require.EqualValues(t, 1, tr.Epoch())
					require.Equal(t, 2, tr.Total())
				}))
				require.Equal(t, []string{
					"start a 1", "publish 3", "stalled true", "stalled false", "start b 1", "publish 2",
				}, p.world.list())
				p.end(o)
			})
		})
	}
}

// A journal that fails for long costs that long: callers from outside are refused, the reports of
// the tree's turns are kept, and all of it happens when the journal works again.
func TestAppendThatFailsForLong(t *testing.T) {
	for name, how := range waysToFail {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, o, down := withChild(t, how)
				a := childKey(t, o)
				down.Store(true)
				// The command is decided and not durable: it may still happen.
				err := o.Do(t.Context(), spawnCmd("b"), nil)
				require.ErrorIs(t, err, ErrUnconfirmed)
				if name == "panic" {
					var contained *PanicError
					require.ErrorAs(t, err, &contained)
				}
				began := time.Now()
				require.ErrorIs(t, o.Do(t.Context(), spawnCmd("c"), nil), ErrNotRecorded)
				err = o.Do(t.Context(), nil, func(*tree.Tree, tree.Reply) {
					t.Error("it reads what is not durable")
				})
				require.ErrorIs(t, err, ErrUnreadable)
				require.NotErrorIs(t, err, ErrUnconfirmed)
				require.Less(t, time.Since(began), time.Second, "later callers are refused at once")

				o.Send(1, &tree.TurnDone{Run: a, N: 1, Answer: &tree.Result{Text: "done"}})
				took := make(chan error, 1)
				go func() { took <- o.DoTurn(t.Context(), 1, tree.Take{Run: a, N: 1}, nil) }()
				time.Sleep(time.Hour)
				require.NotContains(t, p.world.list(), "start b 1")
				require.NotContains(t, p.world.list(), "lost false")
				down.Store(false)
				time.Sleep(10 * time.Second)
				require.ErrorIs(t, <-took, tree.ErrStale, "the turn was over before")
				require.NoError(t, o.Do(t.Context(), nil, func(tr *tree.Tree, _ tree.Reply) {
					require.EqualValues(t, 1, tr.Epoch())
					require.Equal(t, 2, tr.Total(), "a and b; c was refused before it was decided")
					require.Equal(t, tree.OK, tr.Run(a).State)
					require.EqualValues(t, "done", tr.Run(a).Answer.Text)
				}))
				require.Equal(t, 1, p.cfg.Lane.Used())
				p.end(o)
			})
		})
	}
}

// The owner takes a copy of the end of a turn. Several that wait do not share it, and its memory is
// used again with nothing in it.
func TestSendDoneTakesACopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &journal{Journal: session.NewMemory().Journal}
		p := newProcess(j)
		o := p.owner()
		var runs []session.Key
		for _, name := range []string{"a", "b"} {
			require.NoError(t, o.Do(t.Context(), spawnCmd(name), func(_ *tree.Tree, r tree.Reply) {
				runs = append(runs, r.Run.Key())
			}))
		}
		j.hold = make(chan struct{})
		o.SendIfThere(&tree.Post{To: top, ID: "1", Text: "x"})
		synctest.Wait() // the append is under way, and the others wait in the queue
		for i, k := range runs {
			o.SendDone(&p.cfg, 1, tree.TurnDone{Run: k, N: 1, Failed: fmt.Sprint(i)})
		}
		close(j.hold)
		synctest.Wait()
		require.NoError(t, o.Do(t.Context(), nil, func(tr *tree.Tree, _ tree.Reply) {
			for i, k := range runs {
				require.Equal(t, tree.Failed, tr.Run(k).State, k)
				require.EqualValues(t, fmt.Sprint(i), tr.Run(k).Reason, k)
			}
		}))
		c := &call{gen: 1, turnDone: &tree.TurnDone{Run: top, Answer: new(tree.Result)}}
		c.cmd = c.turnDone
		o.finish(c)
		require.Equal(t, call{turnDone: new(tree.TurnDone)}, *c)
		p.end(o)
	})
}

func childKey(t *testing.T, o *Owner) (k session.Key) {
	t.Helper()
	require.NoError(t, o.Do(t.Context(), nil, func(tr *tree.Tree, _ tree.Reply) {
		tr.Root().Children(func(r *tree.Run) bool { k = r.Key(); return false })
	}))
	return k
}

// Another owner that takes the tree over while the journal fails keeps it, and the waiting callers
// are refused.
func TestTakenOverWhileStalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, down := failing(waysToFail["error"])
		p := newProcess(j)
		o := p.owner()
		require.NoError(t, o.Do(t.Context(), spawnCmd("a"), nil))
		a := childKey(t, o)
		down.Store(true)
		o.Send(1, &tree.TurnDone{Run: a, N: 1, Answer: &tree.Result{Text: "done"}})
		synctest.Wait()
		took := make(chan error, 1)
		go func() { took <- o.DoTurn(t.Context(), 1, tree.Take{Run: a, N: 1}, nil) }()
		time.Sleep(time.Minute)
		q := newProcess(j.Journal)
		other := q.owner()
		require.NoError(t, other.Do(t.Context(), &tree.Post{To: top, ID: "1", Text: "x"}, nil))
		down.Store(false)
		err := <-took
		require.ErrorIs(t, err, ErrNotRecorded)
		require.ErrorIs(t, err, session.ErrConflict)
		require.Contains(t, p.world.list(), "lost true")
		require.Zero(t, p.cfg.Lane.Used())
		p.end(o)
		q.end(other)
	})
}

// An append that succeeded although it returned an error is found once the journal can be read.
func TestStalledBatchThatIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &blind{journal: &journal{Journal: session.NewMemory().Journal}}
		p := newProcess(j)
		o := p.owner()
		require.NoError(t, o.Do(t.Context(), spawnCmd("a"), nil))
		j.after = func(n int, seq session.Seq, err error) (session.Seq, error) {
			if n == 2 {
				return 0, errors.New("gone")
			}
			return seq, err
		}
		j.unread.Store(true)
		time.AfterFunc(time.Second, func() { j.unread.Store(false) })
		require.NoError(t, o.Do(t.Context(), spawnCmd("b"), nil))
		require.NoError(t, o.Do(t.Context(), nil, func(tr *tree.Tree, _ tree.Reply) {
			require.EqualValues(t, 1, tr.Epoch())
			require.Equal(t, 2, tr.Total())
		}))
		p.end(o)
	})
}

// blind is a journal that cannot be read for a while.
type blind struct {
	*journal
	unread atomic.Bool
}

func (b *blind) Read(
	ctx context.Context, root session.Key, after session.Seq,
) iter.Seq2[session.Entry, error] {
	if b.unread.Load() {
		return func(yield func(session.Entry, error) bool) {
			yield(session.Entry{}, errors.New("unreadable"))
		}
	}
	return b.journal.Read(ctx, root, after)
}

// The owner discards the tree when the journal will never append again, and reports that as fatal.
func TestJournalThatIsDead(t *testing.T) {
	said := map[error]error{session.ErrSync: ErrUnconfirmed, session.ErrClosed: ErrNotRecorded}
	for name, dead := range map[string]error{"sync": session.ErrSync, "closed": session.ErrClosed} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, o, down := withChild(t, func() error { return fmt.Errorf("journal: %w", dead) })
				down.Store(true)
				err := o.Do(t.Context(), spawnCmd("b"), nil)
				require.ErrorIs(t, err, said[dead])
				require.ErrorIs(t, err, dead)
				require.Contains(t, p.world.list(), "lost false")
				require.Contains(t, p.world.list(), "fatal journal: "+dead.Error())
				require.Zero(t, p.cfg.Lane.Used())
				p.end(o)
			})
		})
	}
}

// An owner that lost the tree to another owner leaves it alone until a caller sends a command: the
// clock does not take the tree back.
func TestConflictYields(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := session.NewMemory()
		p, q := newProcess(store.Journal), newProcess(store.Journal)
		mine, theirs := p.owner(), q.owner()
		post := func(o *Owner, id string) error {
			return o.Do(t.Context(), &tree.Post{To: top, ID: id, Text: "x"}, nil)
		}
		epoch := func(o *Owner) (n uint64) {
			err := o.Do(t.Context(), nil, func(tr *tree.Tree, _ tree.Reply) { n = tr.Epoch() })
			require.NoError(t, err)
			return n
		}
		require.NoError(t, post(mine, "1"))
		require.NoError(t, post(theirs, "2"))
		err := post(mine, "3")
		require.ErrorIs(t, err, ErrNotRecorded)
		require.ErrorIs(t, err, session.ErrConflict)
		require.Contains(t, p.world.list(), "lost true")
		for range 10 {
			mine.Tick()
			time.Sleep(time.Minute)
		}
		read, _, err := Load(t.Context(), store.Journal, top, p.cfg.Options)
		require.NoError(t, err)
		require.EqualValues(t, 2, read.Epoch(), "the clock has not taken it back")
		require.NoError(t, post(mine, "3"))
		require.EqualValues(t, 3, epoch(mine))
		require.ErrorIs(t, post(theirs, "4"), ErrNotRecorded)
		p.end(mine)
		q.end(theirs)
	})
}

// A former owner that appends once more while the new owner opens the tree does not keep the new
// one from it: the new owner tries again by itself.
func TestFormerOwnerWhileOpening(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := session.NewMemory()
		old := newProcess(store.Journal)
		former := old.owner()
		require.NoError(t, former.Do(t.Context(), spawnCmd("a"), nil))
		j := &journal{Journal: store.Journal}
		j.before = func(n int) error { // between the reading and the first append
			if n == 1 {
				post := &tree.Post{To: top, ID: "last", Text: "append"}
				require.NoError(t, former.Do(context.WithoutCancel(t.Context()), post, nil))
			}
			return nil
		}
		p := newProcess(j)
		o := p.owner()
		o.Tick()
		time.Sleep(time.Second)
		require.Contains(t, p.world.list(), "lost false")
		require.Equal(t, 2, j.appends)
		read, _, err := Load(t.Context(), store.Journal, top, p.cfg.Options)
		require.NoError(t, err)
		require.EqualValues(t, 2, read.Epoch(), "it has taken the tree over after all")
		old.end(former)
		p.end(o)
	})
}

// An idle tree leaves memory, and the next command reads it again.
func TestUnload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProcess(session.NewMemory().Journal)
		o := p.owner()
		require.NoError(t, o.Do(t.Context(), spawnCmd("a"), nil))
		time.Sleep(time.Hour)
		o.Unload(time.Minute, func() {})
		synctest.Wait()
		require.NotNil(t, o.tree, "a run is alive")
		a := session.Must(top.Child("main", "a"))
		o.Send(o.gen, &tree.TurnDone{Run: a, N: 1, Answer: &tree.Result{Text: "x"}})
		o.Unload(time.Minute, func() {})
		synctest.Wait()
		require.NotNil(t, o.tree, "it was used a moment ago")
		time.Sleep(2 * time.Minute)
		o.Unload(time.Minute, func() {})
		synctest.Wait()
		require.Nil(t, o.tree)
		require.NoError(t, o.Do(t.Context(), nil, func(tr *tree.Tree, _ tree.Reply) {
			require.Equal(t, 1, tr.Total())
		}))
		p.end(o)
	})
}

// A long log is replaced by a snapshot, and what is read afterwards is the same tree.
func TestCompact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := session.NewMemory()
		p := newProcess(store.Journal)
		verified := 0
		p.cfg.Check = func(root session.Key, live *tree.Tree, last session.Seq) {
			if last%16 != 0 && (last < 1000 || last > 1100) { // it compacts at about 1000
				return
			}
			folded, seq, err := Load(t.Context(), store.Journal, root, p.cfg.Options)
			require.NoError(t, err)
			require.Equal(t, last, seq.Seq)
			require.Equal(t, live.Image(), folded.Image())
			verified++
		}
		o := p.owner()
		for i := range 600 {
			require.NoError(t, o.Do(t.Context(), postCmd(i), nil))
			synctest.Wait()
			o.Send(o.gen, doneCmd(i+1))
			synctest.Wait()
		}
		entries, snapshots := 0, 0
		for e, err := range store.Journal.Read(t.Context(), top, 0) {
			require.NoError(t, err)
			entries++
			if f, err := tree.FactOf(e.Payload); err == nil && f.Kind == tree.Snapshot {
				snapshots++
				require.Equal(t, 1, entries, "it is the first")
			}
		}
		require.Equal(t, 1, snapshots)
		require.Less(t, entries, 1800)
		require.Positive(t, verified)
		require.NoError(t, o.Do(t.Context(), postCmd(0), func(_ *tree.Tree, r tree.Reply) {
			require.True(t, r.Existing)
		}))
		p.end(o)
	})
}
