package owner

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
)

// childOf reads a tree as its journal has it, and returns its one run and how many entries it has.
func childOf(t *testing.T, j session.Journal) (r *tree.Run, entries int) {
	t.Helper()
	tr, _, err := Load(t.Context(), j, top, &tree.Options{})
	require.NoError(t, err)
	tr.Walk(func(x *tree.Run) {
		if !x.IsRoot() {
			r = x
		}
	})
	for _, err := range j.Read(t.Context(), top, 0) {
		require.NoError(t, err)
		entries++
	}
	return r, entries
}

// The last word of an owner says what has not begun, beside an append that hangs after it has added
// its batch. The owner decides and appends nothing more, also if that append comes back.
func TestLastWord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner, hang := session.NewMemory().Journal, make(chan struct{})
		j := &journal{Journal: inner}
		j.after = func(n int, seq session.Seq, err error) (session.Seq, error) {
			if n == 1 {
				<-hang
			}
			return seq, err
		}
		p := newProcess(j)
		o := p.owner()
		require.False(t, o.Unacted())
		spawned := make(chan error, 1)
		go func() { spawned <- o.Do(t.Context(), spawnCmd("a"), nil) }()
		synctest.Wait()
		require.True(t, o.Unacted())
		r, _ := childOf(t, inner)
		require.Equal(t, tree.Running, r.State)

		require.NoError(t, o.LastWord(t.Context(), tree.NotBegun{}))
		r, entries := childOf(t, inner)
		require.Equal(t, tree.Queued, r.State)
		require.Nil(t, r.Open)
		require.NoError(t, o.LastWord(t.Context(), tree.NotBegun{}), "it has been said")

		close(hang)
		require.NoError(t, <-spawned)
		require.ErrorIs(t, o.Do(t.Context(), spawnCmd("b"), nil), ErrShutdown)
		_, err := o.Peek(t.Context(), func(*tree.Tree) {})
		require.ErrorIs(t, err, ErrShutdown)
		_, after := childOf(t, inner)
		require.Equal(t, entries, after)
		require.NotContains(t, p.world.list(), "lost true")
		p.end(o)
	})
}

// The last word says nothing of a turn that the Executor was told to start, of a batch that is not
// in the log, and in a journal that cannot be read or written.
func TestLastWordThatSaysNothing(t *testing.T) {
	t.Run("acted on", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			j := &journal{Journal: session.NewMemory().Journal}
			p := newProcess(j)
			o := p.owner()
			require.NoError(t, o.Do(t.Context(), spawnCmd("a"), nil))
			require.False(t, o.Unacted())
			require.NoError(t, o.LastWord(t.Context(), tree.NotBegun{}))
			r, _ := childOf(t, j)
			require.Equal(t, tree.Running, r.State)
			require.NoError(t, o.Do(t.Context(), spawnCmd("b"), nil), "it goes on")
			p.end(o)
		})
	})
	t.Run("not there", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p, o, down := withChild(t, waysToFail["error"])
			down.Store(true)
			require.ErrorIs(t, o.Do(t.Context(), spawnCmd("b"), nil), ErrUnconfirmed)
			require.True(t, o.Unacted())
			require.NoError(t, o.LastWord(t.Context(), tree.NotBegun{}))
			r, _ := childOf(t, p.cfg.Journal)
			require.Equal(t, tree.Text("a"), r.Spec.Task)
			require.Equal(t, tree.Running, r.State)
			p.end(o)
		})
	})
	t.Run("not written", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			broken := errors.New("broken")
			ctx, cancel := context.WithCancel(t.Context())
			j := &journal{Journal: session.NewMemory().Journal}
			j.before = func(n int) error {
				if n > 1 {
					return broken
				}
				return nil
			}
			j.after = func(int, session.Seq, error) (session.Seq, error) {
				cancel() // so that the log cannot be read
				return 0, broken
			}
			p := newProcess(j)
			p.cfg.Context = func() context.Context { return ctx }
			o := p.owner()
			require.ErrorIs(t, o.Do(t.Context(), spawnCmd("a"), nil), ErrUnconfirmed)
			require.ErrorIs(t, o.LastWord(ctx, tree.NotBegun{}), context.Canceled)
			require.ErrorIs(t, o.LastWord(t.Context(), tree.NotBegun{}), broken)
			r, _ := childOf(t, j)
			require.Equal(t, tree.Running, r.State)
			p.end(o)
		})
	})
}

// A turn that the Executor was told to start has begun, also if the tree is discarded right after
// and its start is the last that the log has.
func TestTurnThatBeganIsInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, o, down := withChild(t, func() error { return session.ErrConflict })
		down.Store(true)
		require.ErrorIs(t, o.Do(t.Context(), spawnCmd("b"), nil), ErrNotRecorded)
		down.Store(false)
		require.NoError(t, o.Do(t.Context(), &tree.Post{To: top, ID: "1", Text: "x"}, nil))
		r, _ := childOf(t, p.cfg.Journal)
		require.Equal(t, tree.Interrupted, r.State)
		p.end(o)
	})
}
