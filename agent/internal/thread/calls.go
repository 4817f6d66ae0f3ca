package thread

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/offshoot-sdk/offshoot/session"
)

// ErrHangs says that a call has not returned in its time.
var ErrHangs = errors.New("agent: it has not returned in its time")

// returnWithin is how long a call may take to return once its context has ended.
const returnWithin = time.Second

// Calls are calls of a program's code that may hang. Each has a goroutine, which its caller does
// not wait for without end.
type Calls struct {
	life context.Context //nolint:containedctx // all calls end with it
	over error           // what a call returns after the end of life

	mu   sync.Mutex
	left map[*Call]bool // that have not returned
}

// NewCalls returns Calls that end with life, and are over then.
func NewCalls(life context.Context, over error) *Calls {
	return &Calls{life: life, over: over, left: make(map[*Call]bool)}
}

// A Call is one of them.
type Call struct {
	of    session.Key
	says  bool            // it says something, as a delivery does
	ctx   context.Context //nolint:containedctx // of the call
	done  chan struct{}   // closed when err is set
	quits chan struct{}   // closed when it waits for the end of all others, see Quit
	quit  sync.Once
	err   error
}

// callKey is the key under which the context of a call has the Call.
type callKey struct{}

// Of returns the Call under whose context ctx is, or nil.
func Of(ctx context.Context) *Call {
	call, _ := ctx.Value(callKey{}).(*Call)
	return call
}

// Quit notes that the function of a call waits until all else has ended, as Shutdown does. What
// waits for the call once its context has ended gives it up at once, and [Calls.Left] may leave it
// out. Quit of nil does nothing.
func (c *Call) Quit() {
	if c != nil {
		c.quit.Do(func() { close(c.quits) })
	}
}

// hasQuit reports whether Quit was called.
func (c *Call) hasQuit() bool {
	select {
	case <-c.quits:
		return true
	default:
		return false
	}
}

// Start calls f on behalf of a session. The context of f ends after the time limit, if that is not
// zero, and is one that [Of] finds the Call by. With says the call counts as a delivery.
func (c *Calls) Start(
	ctx context.Context, of session.Key, says bool, limit time.Duration,
	f func(context.Context) error,
) *Call {
	call := &Call{of: of, says: says, done: make(chan struct{}), quits: make(chan struct{})}
	ctx, cancel := within(context.WithValue(ctx, callKey{}, call), limit)
	call.ctx = ctx
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.life.Err() != nil {
		cancel()
		call.err = c.over
		close(call.done)
		return call
	}
	c.left[call] = true
	stop := context.AfterFunc(c.life, cancel) //nolint:contextcheck // it ends with both
	go func() {
		call.err = f(ctx)
		stop()
		cancel() // before a caller goes on, which may be done with the parent of ctx
		c.mu.Lock()
		delete(c.left, call)
		c.mu.Unlock()
		close(call.done)
	}()
	return call
}

// within returns ctx with a time limit, of which zero is none.
func within(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	if limit == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, limit)
}

// Wait returns what a call returned, or [ErrHangs] if it does not return in its time.
func (c *Call) Wait() error {
	select {
	case <-c.done:
		return c.err
	case <-c.ctx.Done():
	}
	return c.waitSoon(nil)
}

// WaitFor is Wait for a caller that leaves when its ctx ends, with the cause of that. The context
// of the call is derived from ctx.
func (c *Call) WaitFor(ctx context.Context) error {
	select {
	case <-c.done:
		return c.err
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-c.ctx.Done():
	}
	if err := c.waitSoon(ctx.Done()); !errors.Is(err, ErrHangs) || ctx.Err() == nil {
		return err
	}
	return context.Cause(ctx)
}

// waitSoon returns what a call returned whose context has ended, or ErrHangs if the call does not
// return soon, or before its caller leaves.
func (c *Call) waitSoon(left <-chan struct{}) error {
	soon := time.NewTimer(returnWithin)
	defer soon.Stop()
	select {
	case <-c.done:
		return c.err
	case <-left:
	case <-c.quits:
	case <-soon.C:
	}
	return ErrHangs
}

// Returned waits until a call that hangs returns, and returns its error, or that of ctx.
func (c *Call) Returned(ctx context.Context) error {
	select {
	case <-c.done:
		return c.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// A Late is what a call makes whose caller may leave before.
type Late[T any] struct {
	mu        sync.Mutex
	made      T
	set, left bool
	late      func(T)
}

// Set is for the call: it gives v to its caller, or to the late of a caller that has left.
func (l *Late[T]) Set(v T) {
	l.mu.Lock()
	l.made, l.set = v, true
	left := l.left
	l.mu.Unlock()
	if left {
		l.late(v)
	}
}

// Get returns what the call has made.
func (l *Late[T]) Get() T {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.made
}

// Leave is for a caller that leaves: what the call has made, or makes later, is given to late.
func (l *Late[T]) Leave(late func(T)) {
	l.mu.Lock()
	l.left, l.late = true, late
	set, made := l.set, l.made
	l.mu.Unlock()
	if set {
		late(made)
	}
}

// Left waits until all calls have returned, at most until ctx ends, and returns the sessions of
// those that have not: of calls that say something, and of the others. With quitting it does not
// wait for calls that wait themselves, see [Call.Quit].
func (c *Calls) Left(ctx context.Context, quitting bool) (saying, others []session.Key) {
	for {
		var some *Call
		saying, others = nil, nil
		c.mu.Lock()
		for call := range c.left {
			switch {
			case quitting && call.hasQuit():
				continue
			case call.says:
				saying = append(saying, call.of)
			default:
				others = append(others, call.of)
			}
			some = call
		}
		c.mu.Unlock()
		if some == nil {
			return nil, nil
		}
		quits := some.quits
		if !quitting {
			quits = nil
		}
		select {
		case <-some.done:
		case <-quits:
		case <-ctx.Done():
			return saying, others
		}
	}
}
