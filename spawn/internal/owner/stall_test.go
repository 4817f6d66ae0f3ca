package owner

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
)

// A caller among many others is refused after a second and a half as well.
func TestStalledCallersAreToldInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, o, down := withChild(t, waysToFail["error"])
		down.Store(true)
		began := time.Now()
		var told time.Duration
		first := make(chan error, 1)
		go func() {
			err := o.Do(t.Context(), spawnCmd("b"), nil)
			told = time.Since(began)
			first <- err
		}()
		for range 300 { // ten a second
			time.Sleep(100 * time.Millisecond)
			go func() { _ = o.Do(context.WithoutCancel(t.Context()), nil, nil) }()
		}
		select {
		case err := <-first:
			require.ErrorIs(t, err, ErrUnconfirmed)
			require.LessOrEqual(t, told, 2*time.Second)
		default:
			t.Error("the first caller still waits after 30 s")
		}
		down.Store(false)
		time.Sleep(time.Minute)
		p.end(o)
	})
}

// Each of eight callers at once is refused in time.
func TestStalledBurstIsToldInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, o, down := withChild(t, waysToFail["error"])
		down.Store(true)
		began := time.Now()
		worst := make(chan time.Duration, 8)
		for i := range 8 {
			time.Sleep(10 * time.Millisecond)
			go func() {
				_ = o.Do(t.Context(), spawnCmd(fmt.Sprint("b", i)), nil)
				worst <- time.Since(began)
			}()
		}
		for range 8 {
			require.LessOrEqual(t, <-worst, 2*time.Second)
		}
		p.end(o)
	})
}

// An owner that lost a tree and has it back sets the timer for it.
func TestTimerAfterTheTreeWasLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := session.NewMemory()
		p, q := newProcess(store.Journal), newProcess(store.Journal)
		mine, theirs := p.owner(), q.owner()
		require.NoError(t, mine.Do(t.Context(), spawnCmd("a"), nil))
		a := childKey(t, mine)
		done := &tree.TurnDone{Run: a, N: 1, Answer: &tree.Result{Text: "x"}}
		require.NoError(t, mine.DoTurn(t.Context(), 1, done, nil))
		require.NoError(t, theirs.Do(t.Context(), postCmd(1), nil))
		q.end(theirs)
		post := func() error { return mine.Do(t.Context(), postCmd(2), nil) }
		require.ErrorIs(t, post(), ErrNotRecorded)
		require.NoError(t, post())
		time.Sleep(2 * time.Hour)
		require.Contains(t, p.world.list(), "archive a")
		p.end(mine)
	})
}

// A batch that the journal will never take costs what it was for, not the tree.
func TestBatchThatIsNeverTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &choosy{session.NewMemory().Journal}
		p := newProcess(j)
		o := p.owner()
		require.NoError(t, o.Do(t.Context(), spawnCmd("a"), nil))
		require.ErrorIs(t, o.Do(t.Context(), spawnCmd("poison"), nil), session.ErrInvalidBatch)
		time.Sleep(time.Hour)
		require.NoError(t, o.Do(t.Context(), spawnCmd("b"), nil))
		p.end(o)
	})
}

// choosy is a journal that never takes the task "poison".
type choosy struct{ session.Journal }

func (c *choosy) Append(
	ctx context.Context, root session.Key, after session.Seq, b session.Batch,
) (session.Seq, error) {
	for _, e := range b.Entries {
		f, err := tree.FactOf(e.Payload)
		if err == nil && f.Kind == tree.Admitted && f.Spec.Task == "poison" {
			return 0, fmt.Errorf("too large: %w", session.ErrInvalidBatch)
		}
	}
	return c.Journal.Append(ctx, root, after, b)
}

// A panic with the value ErrConflict is not a conflict: it does not tell what has happened.
func TestPanicIsNotAConflict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, down := failing(func() error { panic(fmt.Errorf("driver: %w", session.ErrConflict)) })
		p := newProcess(j)
		o := p.owner()
		require.NoError(t, o.Do(t.Context(), spawnCmd("a"), nil))
		down.Store(true)
		time.AfterFunc(time.Second, func() { down.Store(false) })
		require.NoError(t, o.Do(t.Context(), spawnCmd("b"), nil))
		require.NotContains(t, p.world.list(), "lost true")
		p.end(o)
	})
}

// A panic that comes after the batch was appended does not hide that it was.
func TestPanicBehindSuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &journal{Journal: session.NewMemory().Journal}
		j.after = func(n int, seq session.Seq, err error) (session.Seq, error) {
			if n == 2 {
				panic(fmt.Errorf("driver: %w", session.ErrConflict))
			}
			return seq, err
		}
		p := newProcess(j)
		o := p.owner()
		require.NoError(t, o.Do(t.Context(), spawnCmd("a"), nil))
		require.NoError(t, o.Do(t.Context(), spawnCmd("b"), nil))
		p.end(o)
	})
}

// A snapshot whose append fails at first, or succeeds with an error, is the log from then on.
// Unloading and ticking meanwhile changes nothing.
func TestCompactionThatStalls(t *testing.T) {
	for _, how := range []string{"fail", "lose"} {
		synctest.Test(t, func(t *testing.T) {
			store := session.NewMemory()
			j := &journal{Journal: store.Journal}
			var down, done atomic.Bool
			p := newProcess(&resetFails{Journal: j, down: &down, done: &done, lose: how == "lose"})
			down.Store(true)
			p.cfg.Check = func(root session.Key, live *tree.Tree, last session.Seq) {
				if !done.Load() || last%8 != 0 {
					return
				}
				folded, seq, err := Load(t.Context(), store.Journal, root, p.cfg.Options)
				require.NoError(t, err)
				require.Equal(t, last, seq.Seq)
				require.Equal(t, live.Image(), folded.Image())
			}
			o := p.owner()
			for i := range 400 {
				for o.Do(t.Context(), postCmd(i), nil) != nil {
					o.Unload(0, func() {})
					o.Tick()
					o.Unload(0, func() {})
					time.Sleep(time.Second)
					down.Store(false)
				}
				synctest.Wait()
				o.Send(o.gen, doneCmd(i+1))
				synctest.Wait()
			}
			require.True(t, done.Load())
			require.NotContains(t, p.world.list(), "lost false")
			p.end(o)
		})
	}
}

// resetFails is a journal whose appends of snapshots fail while down is set, with lose after they
// have happened. It sets done at the first attempt.
type resetFails struct {
	session.Journal
	down, done *atomic.Bool
	lose       bool
}

func (r *resetFails) Append(
	ctx context.Context, root session.Key, after session.Seq, b session.Batch,
) (session.Seq, error) {
	if b.Reset {
		r.done.Store(true)
	}
	if b.Reset && r.down.Load() {
		if r.lose {
			_, _ = r.Journal.Append(ctx, root, after, b)
		}
		return 0, errors.New("no")
	}
	return r.Journal.Append(ctx, root, after, b)
}

// A Take whose caller has left consumes no input.
func TestAbandonedTakeConsumesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, down := failing(waysToFail["error"])
		p := newProcess(j)
		o := p.owner()
		require.NoError(t, o.Do(t.Context(), &tree.Post{To: top, ID: "1", Text: "x"}, nil))
		require.NoError(t, o.Do(t.Context(), &tree.Post{To: top, ID: "2", Text: "steer me"}, nil))
		down.Store(true)
		require.Error(t, o.Do(t.Context(), spawnCmd("a"), nil))
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.Error(t, o.DoTurn(short, 1, tree.Take{Run: top, N: 1}, nil))
		down.Store(false)
		time.Sleep(time.Minute)
		seen := 0
		count := func(_ *tree.Tree, r tree.Reply) { seen = len(r.Inputs) }
		require.NoError(t, o.DoTurn(t.Context(), 1, tree.Take{Run: top, N: 1}, count))
		require.Equal(t, 1, seen, "the message was consumed without a reader")
		p.end(o)
	})
}
