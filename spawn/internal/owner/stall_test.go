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

// Whoever asks while others ask too is told after a second and a half as well.
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

// So is each of eight that ask at once.
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

// Whoever lost a tree and has it back looks at it when it is due.
func TestTimerAfterTheTreeWasLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := session.NewMemory()
		p, q := newProcess(store.Journal), newProcess(store.Journal)
		mine, theirs := p.owner(), q.owner()
		require.NoError(t, mine.Do(t.Context(), spawnCmd("a"), nil))
		a := childKey(t, mine)
		require.NoError(t, mine.DoTurn(t.Context(), 1, &tree.TurnDone{Run: a, N: 1, Answer: &tree.Result{Text: "x"}}, nil))
		require.NoError(t, theirs.Do(t.Context(), &tree.Post{To: top, ID: "1", Text: "x"}, nil))
		q.end(theirs)
		post := func() error { return mine.Do(t.Context(), &tree.Post{To: top, ID: "2", Text: "x"}, nil) }
		require.ErrorIs(t, post(), ErrUnconfirmed)
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

type choosy struct{ session.Journal }

func (c *choosy) Append(ctx context.Context, root session.Key, after session.Seq, b session.Batch) (session.Seq, error) {
	for _, e := range b.Entries {
		if f, err := tree.FactOf(e.Payload); err == nil && f.Kind == tree.Admitted && f.Spec.Task == "poison" {
			return 0, fmt.Errorf("too large: %w", session.ErrInvalidBatch)
		}
	}
	return c.Journal.Append(ctx, root, after, b)
}

// A panic says nothing of what has happened, whatever it is called.
func TestPanicIsNoConflict(t *testing.T) {
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

// One that comes after the batch was taken does not hide that.
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

// A snapshot that the journal does not take at first, or takes in silence, is the log from then on; what rests or ticks meanwhile changes nothing.
func TestCompactionThatStalls(t *testing.T) {
	for _, how := range []string{"fail", "lose"} {
		synctest.Test(t, func(t *testing.T) {
			store := session.NewMemory()
			j := &journal{Journal: store.Journal}
			var down, done atomic.Bool
			p := newProcess(&resetFails{Journal: j, down: &down, done: &done, lose: how == "lose"})
			down.Store(true)
			p.cfg.Check = func(root session.Key, live *tree.Tree, last session.Seq) {
				if !done.Load() {
					return
				}
				folded, seq, err := Load(t.Context(), store.Journal, root, p.cfg.Options)
				require.NoError(t, err)
				require.Equal(t, last, seq)
				require.Equal(t, live.Image(), folded.Image())
			}
			o := p.owner()
			for i := range 400 {
				for o.Do(t.Context(), &tree.Post{To: top, ID: fmt.Sprint(i), Text: "x"}, nil) != nil {
					o.Unload(0)
					o.Tick()
					o.Unload(0)
					time.Sleep(time.Second)
					down.Store(false)
				}
				synctest.Wait()
				o.Send(o.gen, &tree.TurnDone{Run: top, N: uint32(i + 1), Answer: &tree.Result{Text: "y"}})
				synctest.Wait()
			}
			require.True(t, done.Load())
			require.NotContains(t, p.world.list(), "lost false")
			p.end(o)
		})
	}
}

type resetFails struct {
	session.Journal
	down, done *atomic.Bool
	lose       bool
}

func (r *resetFails) Append(ctx context.Context, root session.Key, after session.Seq, b session.Batch) (session.Seq, error) {
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

// An abandoned Take consumes nothing.
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
		require.NoError(t, o.DoTurn(t.Context(), 1, tree.Take{Run: top, N: 1}, func(_ *tree.Tree, r tree.Reply) { seen = len(r.Inputs) }))
		require.Equal(t, 1, seen, "the message was consumed and nobody has read it")
		p.end(o)
	})
}
