package agent

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/offshoot-sdk/offshoot/spawn"
)

// A lasting is the context of what a turn writes: it ends with its parent, and some time after the
// turn was cancelled. The caller calls end, which waits for what the lasting has started.
//
// A store asks most contexts for nothing but Err, and most turns are not cancelled. So a lasting
// becomes contexts of package context only when its Done is asked for, or when its turn has been
// cancelled: a turn takes 2 allocations for those that it writes under, and not 19 (BenchmarkDeliver).
type lasting struct {
	context.Context //nolint:containedctx // the parent

	turn   *Turn
	life   context.Context //nolint:containedctx // of the turn
	from   time.Time
	begins bool // it is what the turn begins with that is written

	mu     sync.Mutex
	over   bool            // end was called
	real   context.Context //nolint:containedctx // nil: not needed so far
	cancel context.CancelCauseFunc
	stop   func() bool   // see context.AfterFunc
	waited chan struct{} // closed when what AfterFunc has started has returned
}

// keepInputs returns the context under which a turn writes what it begins with. A person who
// cancels the turn or stops the session does not end it before half of the grace period has passed:
// what people have written would be in no turn and in no transcript. Life is the context of the
// turn.
func (t *Turn) keepInputs(life context.Context) *lasting {
	t.kept = lasting{
		Context: t.detached, turn: t, life: life, from: time.Now(), begins: true,
	}
	return &t.kept
}

// outlasting returns a context, for writing the transcript, that ends with ctx and some time after
// the turn was cancelled, well within the grace period. If the turn is over then, and what it does
// not accounted for any more, the context ends at once.
func (t *Turn) outlasting(ctx context.Context) *lasting {
	return &lasting{Context: ctx, turn: t, life: t.log.life, from: time.Now()}
}

// left returns how long the context goes on, and why it ends then. The turn was cancelled.
func (l *lasting) left() (time.Duration, error) {
	cause := context.Cause(l.life)
	grace := cmp.Or(l.turn.rt.cfg().Grace, spawn.DefaultGrace)
	switch {
	case !l.begins && l.turn.spawn.Over() != nil:
		return 0, nil
	case !l.begins:
		grace, cause = min(time.Second, grace/4), nil
	case !errors.Is(cause, ErrTurnCancelled) && !errors.Is(cause, ErrStopped):
		return 0, cause
	default:
		grace /= 2
	}
	from := l.from
	if at := l.turn.spawn.CancelledAt(); at.After(from) {
		from = at
	}
	return grace - time.Since(from), cause
}

// made returns the context of package context that the lasting now is.
func (l *lasting) made() context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.real != nil {
		return l.real
	}
	l.real, l.cancel = context.WithCancelCause(l.Context)
	if l.over {
		l.cancel(nil)
		return l.real
	}
	if l.life.Err() != nil {
		if left, cause := l.left(); left <= 0 {
			l.cancel(cause)
		}
	}
	l.waited = make(chan struct{})
	l.stop = context.AfterFunc(l.life, l.turnEnded)
	return l.real
}

// turnEnded ends the context when what is left of it has passed.
func (l *lasting) turnEnded() {
	defer close(l.waited)
	left, cause := l.left()
	if left > 0 {
		timer := time.NewTimer(left)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-l.real.Done():
		}
	}
	l.cancel(cause)
}

// end ends the context: what it is for was written.
func (l *lasting) end() {
	l.mu.Lock()
	l.over = true
	made := l.real != nil
	l.mu.Unlock()
	if !made || l.stop == nil {
		return
	}
	l.cancel(nil)
	if !l.stop() {
		<-l.waited
	}
}

// Done implements context.Context.
func (l *lasting) Done() <-chan struct{} { return l.made().Done() }

// Err implements context.Context.
func (l *lasting) Err() error { return l.now().Err() }

// Value implements context.Context.
func (l *lasting) Value(key any) any { return l.now().Value(key) }

// now returns the context that the lasting is, which is its parent until it matters.
func (l *lasting) now() context.Context {
	l.mu.Lock()
	real, over := l.real, l.over
	l.mu.Unlock()
	switch {
	case real != nil:
		return real
	case over, l.life.Err() != nil:
		return l.made()
	}
	return l.Context
}
