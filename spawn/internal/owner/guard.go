package owner

import (
	"context"
	"errors"
	"iter"
	"time"

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

// A Helper is a goroutine that reads a sequence for a loop.
type Helper struct {
	// Start has it call a function with the ctx that the sequence is to be read with. It returns
	// false, and does nothing, at the end of a shutdown.
	Start func(func(context.Context)) bool
	// Waits notes whether it waits for a loop that is busy, so that a shutdown does not wait for
	// it.
	Waits func(bool)
	// Leaving is closed when it must not wait much longer.
	Leaving <-chan struct{}
}

// slowLoop is how long a loop may take for an element after Leaving.
const slowLoop = 100 * time.Millisecond

// Apart returns a Journal whose sequences are read by Helpers: for calls on a goroutine of the
// caller, which j must not end, and which leaves when its ctx ends. What j still reads then is not
// heard. Append is that of j. Where helper returns nil for a ctx, j is called on the goroutine of
// the caller.
func Apart(j session.Journal, helper func(ctx context.Context) *Helper) session.Journal {
	return apartJournal{j, helper}
}

type apartJournal struct {
	session.Journal
	helper func(ctx context.Context) *Helper
}

// Read implements session.Journal.
func (a apartJournal) Read(
	ctx context.Context, root session.Key, after session.Seq,
) iter.Seq2[session.Entry, error] {
	return apartSeq(ctx, a.helper(ctx), func(ctx context.Context) iter.Seq2[session.Entry, error] {
		return a.Journal.Read(ctx, root, after)
	})
}

// Roots implements session.Journal.
func (a apartJournal) Roots(
	ctx context.Context, q session.RootQuery,
) iter.Seq2[session.Head, error] {
	return apartSeq(ctx, a.helper(ctx), func(ctx context.Context) iter.Seq2[session.Head, error] {
		return a.Journal.Roots(ctx, q)
	})
}

// apartSeq returns the sequence of f, with f and the sequence in the goroutine of a Helper. The end
// of that goroutine is an error, and so are the end of ctx, and ErrShutdown for a loop that is slow
// when the Helper has to leave. A loop that ends early waits for the goroutine until ctx ends.
func apartSeq[T any](
	ctx context.Context, h *Helper, f func(context.Context) iter.Seq2[T, error],
) iter.Seq2[T, error] {
	if h == nil {
		return f(ctx)
	}
	return func(yield func(T, error) bool) {
		var zero T
		way := handOver[T]{helper: h, items: make(chan item[T]), over: make(chan struct{})}
		if !h.Start(func(ctx context.Context) { way.produce(f(ctx)) }) {
			yield(zero, ErrShutdown)
			return
		}
		defer way.end(ctx)
		for {
			select {
			case next, more := <-way.items:
				if !more {
					if way.err != nil {
						yield(zero, way.err)
					}
					return
				}
				if !yield(next.v, next.err) {
					return
				}
			case <-ctx.Done():
				yield(zero, context.Cause(ctx))
				return
			}
		}
	}
}

type item[T any] struct {
	v   T
	err error
}

// A handOver is the way of elements from the goroutine of a Helper to a loop.
type handOver[T any] struct {
	helper *Helper
	items  chan item[T]  // closed when the goroutine has read the sequence, or has left
	over   chan struct{} // closed when the loop has ended
	err    error         // why the sequence is cut, when items is closed
}

// produce hands over a sequence.
func (o *handOver[T]) produce(seq iter.Seq2[T, error]) {
	defer close(o.items)
	o.err = errExited // unless the sequence returns
	left := false
	for v, err := range seq {
		if left = !o.give(item[T]{v, err}); left {
			break
		}
	}
	if o.err = nil; left {
		o.err = ErrShutdown // which a loop that has ended does not see
	}
}

// give hands over an element. It returns false if the goroutine is to leave.
func (o *handOver[T]) give(x item[T]) bool {
	select {
	case o.items <- x:
		return true
	default:
	}
	o.helper.Waits(true)
	defer o.helper.Waits(false)
	select {
	case o.items <- x:
		return true
	case <-o.over:
		return false
	case <-o.helper.Leaving:
	}
	limit := time.NewTimer(slowLoop)
	defer limit.Stop()
	select {
	case o.items <- x:
		return true
	case <-o.over:
	case <-limit.C:
	}
	return false
}

// end ends the loop, and waits for the goroutine until ctx ends.
func (o *handOver[T]) end(ctx context.Context) {
	close(o.over)
	for {
		select {
		case _, more := <-o.items:
			if !more {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// recoverValue sets err to a recovered value that is not nil.
func recoverValue(value any, err *error) {
	if value != nil {
		*err = NewPanic(value)
	}
}
