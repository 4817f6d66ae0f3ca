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
	of   session.Key
	ctx  context.Context //nolint:containedctx // of the call
	done chan struct{}   // closed when err is set
	err  error
}

// Start calls f on behalf of a session. The context of f ends after the time limit.
func (c *Calls) Start(
	ctx context.Context, of session.Key, limit time.Duration, f func(context.Context) error,
) *Call {
	ctx, cancel := context.WithTimeout(ctx, limit)
	call := &Call{of: of, ctx: ctx, done: make(chan struct{})}
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
		defer cancel()
		defer stop()
		call.err = f(ctx)
		c.mu.Lock()
		delete(c.left, call)
		c.mu.Unlock()
		close(call.done)
	}()
	return call
}

// Wait returns what a call returned, or [ErrHangs] if it does not return in its time.
func (c *Call) Wait() error {
	select {
	case <-c.done:
		return c.err
	case <-c.ctx.Done():
	}
	soon := time.NewTimer(returnWithin)
	defer soon.Stop()
	select {
	case <-c.done:
		return c.err
	case <-soon.C:
		return ErrHangs
	}
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

// Left waits until all calls have returned, at most until stop is closed or yields. It returns the
// sessions of those that have not.
func (c *Calls) Left(stop <-chan time.Time) []session.Key {
	for {
		c.mu.Lock()
		var some *Call
		var of []session.Key
		for call := range c.left {
			some, of = call, append(of, call.of)
		}
		c.mu.Unlock()
		if some == nil {
			return nil
		}
		select {
		case <-some.done:
		case <-stop:
			return of
		}
	}
}
