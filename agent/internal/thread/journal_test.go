package thread_test

import (
	"context"
	"errors"
	"iter"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent/internal/thread"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

var (
	errDisk  = errors.New("disk full")
	bindings = session.BindingsRoot()
)

// An unsteady Journal does in each append what the next function says, and nothing odd after the
// last.
type unsteady struct {
	session.Journal

	do      []func(add func() error) error
	unread  error
	appends int
}

func (u *unsteady) Append(
	ctx context.Context, root session.Key, after session.Seq, b session.Batch,
) (seq session.Seq, err error) {
	n := u.appends
	u.appends++
	add := func() error {
		seq, err = u.Journal.Append(context.WithoutCancel(ctx), root, after, b)
		return err
	}
	if n >= len(u.do) {
		err = add()
		return seq, err
	}
	return 0, u.do[n](add)
}

func (u *unsteady) Read(
	ctx context.Context, root session.Key, after session.Seq,
) iter.Seq2[session.Entry, error] {
	if u.unread != nil {
		return func(yield func(session.Entry, error) bool) { yield(session.Entry{}, u.unread) }
	}
	return u.Journal.Read(ctx, root, after)
}

func batch(id string) session.Batch {
	return session.Batch{
		ID: session.BatchID(id), Entries: []session.Entry{{Payload: session.Raw(`{}`)}},
	}
}

// An append that fails is tried again under a patient command, as one to a tree is, unless no other
// would do better. The error says what the log is known to have, whatever a panic says.
func TestJournalOfAFailingStore(t *testing.T) {
	type attempt = func(add func() error) error
	fails := func(err error) []attempt { return []attempt{func(func() error) error { return err }} }
	panics := func(v any) []attempt { return []attempt{func(func() error) error { panic(v) }} }
	exits := []attempt{func(func() error) error { runtime.Goexit(); return nil }}
	loses := []attempt{func(add func() error) error { return errors.Join(add(), errDisk) }}
	exitsLate := []attempt{func(add func() error) error { _ = add(); runtime.Goexit(); return nil }}
	six := slices.Repeat(fails(errDisk), 6)
	const pause, all = 50 * time.Millisecond, 1550 * time.Millisecond
	not, unclear := spawn.ErrNotRecorded, spawn.ErrUnconfirmed
	for name, c := range map[string]struct {
		do        []attempt
		unread    error
		impatient bool
		appends   int
		took      time.Duration
		want      error // nil: it is in the log
		wantNot   error
	}{
		"once":                 {do: six[:1], appends: 2, took: pause},
		"five times":           {do: six[:5], appends: 6, took: all},
		"six times":            {do: six, appends: 6, took: all, want: not},
		"impatient":            {do: six[:1], impatient: true, appends: 1, want: not},
		"its answer is lost":   {do: loses, appends: 1},
		"the second is lost":   {do: slices.Concat(six[:1], loses), appends: 2, took: pause},
		"the log is unread":    {do: six, unread: errDisk, appends: 6, took: all, want: unclear},
		"panics":               {do: panics(errDisk), appends: 2, took: pause},
		"panics, a conflict":   {do: panics(session.ErrConflict), appends: 2, took: pause},
		"panics, closed":       {do: panics(session.ErrClosed), appends: 2, took: pause},
		"ends its goroutine":   {do: exits, appends: 2, took: pause},
		"ends it, and is lost": {do: exitsLate, appends: 1},
		"the batch is wrong":   {do: fails(session.ErrInvalidBatch), appends: 1, want: not},
		"the disk is gone":     {do: fails(session.ErrSync), appends: 1, want: unclear},
		"a conflict": {
			do: fails(session.ErrConflict), appends: 1, want: session.ErrConflict,
		},
		"lost and unread": {
			do: loses, unread: errDisk, appends: 6, took: all, want: unclear,
			wantNot: session.ErrConflict,
		},
		"it is closed": {
			do: fails(session.ErrClosed), unread: session.ErrClosed, appends: 1, want: not,
		},
		"it is not found": {
			do: fails(session.ErrNotFound), impatient: true, appends: 1, want: not,
			wantNot: session.ErrNotFound,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				u := &unsteady{
					Journal: session.NewMemory().Journal, do: c.do, unread: c.unread,
				}
				ctx := thread.NewCommand(!c.impatient).Under(t.Context())
				began := time.Now()
				seq, err := thread.Journal{Journal: u}.Append(ctx, bindings, 0, batch("a"))
				require.Equal(t, c.took, time.Since(began))
				require.Equal(t, c.appends, u.appends)
				if c.want != nil {
					require.ErrorIs(t, err, c.want)
					if c.wantNot != nil {
						require.NotErrorIs(t, err, c.wantNot)
					}
					return
				}
				require.NoError(t, err)
				require.Equal(t, session.Seq(1), seq)
				n := 0
				for _, err := range u.Journal.Read(t.Context(), bindings, 0) {
					require.NoError(t, err)
					n++
				}
				require.Equal(t, 1, n)
			})
		})
	}
}

// An attempt that comes after another writer is a conflict, and no error of the one before.
func TestJournalWithAnotherWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := &unsteady{Journal: session.NewMemory().Journal}
		u.do = []func(func() error) error{func(func() error) error {
			_, err := u.Journal.Append(t.Context(), bindings, 0, batch("other"))
			return errors.Join(err, errDisk)
		}}
		ctx := thread.NewCommand(true).Under(t.Context())
		_, err := thread.Journal{Journal: u}.Append(ctx, bindings, 0, batch("a"))
		require.ErrorIs(t, err, session.ErrConflict)
	})
}

// What a caller is told who leaves holds: what is not recorded then is not appended later.
func TestCommandThatIsLeft(t *testing.T) {
	free := make(chan struct{})
	for name, c := range map[string]struct {
		before bool // the command is left before the append
		do     func(add func() error) error
		want   error
		added  int
	}{
		"before": {before: true, want: spawn.ErrNotRecorded},
		"between two": {
			do: func(func() error) error { return errDisk }, want: spawn.ErrNotRecorded,
		},
		"while it hangs": {
			do:   func(add func() error) error { <-free; return add() },
			want: spawn.ErrUnconfirmed, added: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				free = make(chan struct{})
				u := &unsteady{Journal: session.NewMemory().Journal}
				if c.do != nil {
					u.do = append(u.do, c.do)
				}
				command := thread.NewCommand(true)
				ctx, cancel := context.WithCancel(command.Under(t.Context()))
				var told error
				leave := func() {
					cancel()
					told = command.Leave(context.Canceled)
				}
				if c.before {
					leave()
				}
				done := make(chan struct{})
				go func() {
					defer close(done)
					_, _ = thread.Journal{Journal: u}.Append(ctx, bindings, 0, batch("a"))
				}()
				if !c.before {
					synctest.Wait()
					leave()
				}
				close(free)
				<-done
				require.ErrorIs(t, told, c.want)
				require.ErrorIs(t, told, context.Canceled)
				require.Equal(t, told, command.Leave(told))
				n := 0
				for _, err := range u.Journal.Read(t.Context(), bindings, 0) {
					require.NoError(t, err)
					n++
				}
				require.Equal(t, c.added, n)
			})
		})
	}
}
