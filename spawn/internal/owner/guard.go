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

// recoverValue sets err to a recovered value that is not nil.
func recoverValue(value any, err *error) {
	if value != nil {
		*err = NewPanic(value)
	}
}
