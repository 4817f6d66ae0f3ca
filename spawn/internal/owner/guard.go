package owner

import (
	"context"
	"errors"
	"iter"

	"github.com/offshoot-sdk/offshoot/internal/contain"
	"github.com/offshoot-sdk/offshoot/session"
)

// errExited is the error of a call of the journal that ended its goroutine, with runtime.Goexit,
// instead of returning. What the call has done is unknown.
var errExited = errors.New("spawn: the journal ended its goroutine")

// Guard returns a Journal that turns the panics of j into errors, each a *[PanicError]. A panic of
// a loop over what it yields passes through.
func Guard(j session.Journal) session.Journal {
	if g, ok := j.(guarded); ok {
		return g
	}
	return guarded{j}
}

type guarded struct{ inner session.Journal }

// Append implements session.Journal.
func (g guarded) Append(
	ctx context.Context, root session.Key, after session.Seq, b session.Batch,
) (seq session.Seq, err error) {
	defer func() { recoverValue(recover(), &err) }()
	seq, err = g.inner.Append(ctx, root, after, b)
	return seq, contain.Read(err)
}

// Read implements session.Journal.
func (g guarded) Read(
	ctx context.Context, root session.Key, after session.Seq,
) iter.Seq2[session.Entry, error] {
	return GuardSeq(func() iter.Seq2[session.Entry, error] {
		return g.inner.Read(ctx, root, after)
	})
}

// Roots implements session.Journal.
func (g guarded) Roots(ctx context.Context, q session.RootQuery) iter.Seq2[session.Head, error] {
	return GuardSeq(func() iter.Seq2[session.Head, error] { return g.inner.Roots(ctx, q) })
}

// GuardSeq returns a sequence that yields what the one of f yields. A panic of f or of its sequence
// is yielded as the last error. A sequence that goes on after the loop has ended is not heard.
func GuardSeq[T any](f func() iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		inLoop, over := false, false
		emit := func(v T, err error) bool {
			if over {
				return false
			}
			_ = contain.Read(err)
			inLoop = true
			over = !yield(v, err)
			inLoop = false
			return !over
		}
		defer func() {
			if inLoop { // the loop panics, or its goroutine ends
				return
			}
			var err error
			if recoverValue(recover(), &err); err != nil {
				var zero T
				emit(zero, err)
			}
		}()
		f()(emit)
	}
}

// Apart returns a Journal whose sequences are read by goroutines of their own, which start starts:
// for calls on a goroutine of the caller, which j must not end, and which leaves when its ctx ends.
// What j still reads then is not heard. Append is that of j. The function that start is given takes
// the ctx that j gets. Where start is nil for a ctx, j is called on the goroutine of the caller.
func Apart(
	j session.Journal, start func(ctx context.Context) func(func(context.Context)) bool,
) session.Journal {
	return apartJournal{j, start}
}

type apartJournal struct {
	session.Journal
	start func(ctx context.Context) func(func(context.Context)) bool
}

// Read implements session.Journal.
func (a apartJournal) Read(
	ctx context.Context, root session.Key, after session.Seq,
) iter.Seq2[session.Entry, error] {
	return apartSeq(ctx, a.start(ctx), func(ctx context.Context) iter.Seq2[session.Entry, error] {
		return a.Journal.Read(ctx, root, after)
	})
}

// Roots implements session.Journal.
func (a apartJournal) Roots(
	ctx context.Context, q session.RootQuery,
) iter.Seq2[session.Head, error] {
	return apartSeq(ctx, a.start(ctx), func(ctx context.Context) iter.Seq2[session.Head, error] {
		return a.Journal.Roots(ctx, q)
	})
}

// apartSeq returns the sequence of f, with f and the sequence in a goroutine that start starts. The
// end of that goroutine is an error, and so is the end of ctx. A loop that ends early waits for the
// goroutine until ctx ends.
func apartSeq[T any](
	ctx context.Context, start func(func(context.Context)) bool,
	f func(context.Context) iter.Seq2[T, error],
) iter.Seq2[T, error] {
	if start == nil {
		return f(ctx)
	}
	type item struct {
		v   T
		err error
	}
	return func(yield func(T, error) bool) {
		var zero T
		items, over := make(chan item), make(chan struct{})
		produce := func(ctx context.Context) {
			defer close(items)
			left := item{err: errExited} // unless the sequence returns
			defer func() {
				if left.err != nil {
					select {
					case items <- left:
					case <-over:
					}
				}
			}()
			for v, err := range f(ctx) {
				select {
				case items <- item{v, err}:
					continue
				case <-over:
				}
				break
			}
			left.err = nil
		}
		if !start(produce) {
			yield(zero, ErrShutdown)
			return
		}
		defer func() {
			close(over)
			for {
				select {
				case _, more := <-items:
					if !more {
						return
					}
				case <-ctx.Done():
					return
				}
			}
		}()
		for {
			select {
			case next, more := <-items:
				if !more || !yield(next.v, next.err) {
					return
				}
			case <-ctx.Done():
				yield(zero, context.Cause(ctx))
				return
			}
		}
	}
}

// recoverValue sets err to a recovered value that is not nil.
func recoverValue(value any, err *error) {
	if value != nil {
		*err = NewPanic(value)
	}
}
