package spawn

import (
	"context"
	"sync"
	"time"
)

// callContext is the context of one call of Deliver. It ends at its deadline, when the sender says
// so, and with its parent, which it joins when the receiver first asks for Done.
//
// Most receivers return at once and never do. With it and the one timer of the sender a call takes
// one allocation instead of six, which [context.WithTimeout] and a timer beside it would
// (BenchmarkDeliver: 18 instead of 23 for each child).
type callContext struct {
	context.Context //nolint:containedctx // the parent; it has no deadline

	deadline time.Time
	mark     mark // tells a Shutdown under this context that the call waits for it

	mu    sync.Mutex
	done  chan struct{} // nil until a receiver asks for it
	err   error         // why the context has ended
	leave func() bool   // leaves the parent
}

// newCallContext returns the context of a call that may take so long from now on.
func newCallContext(parent context.Context, limit time.Duration) *callContext {
	c := &callContext{Context: parent, deadline: time.Now().Add(limit)}
	c.mark.ctx = c //nolint:fatcontext // it refers to itself, and no chain grows
	return c
}

// Value implements context.Context.
func (c *callContext) Value(key any) any {
	if key == (markKey{}) {
		return &c.mark
	}
	return c.Context.Value(key)
}

// Deadline implements context.Context.
func (c *callContext) Deadline() (time.Time, bool) { return c.deadline, true }

// Done implements context.Context.
func (c *callContext) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done != nil {
		return c.done
	}
	c.done = make(chan struct{})
	if c.err != nil {
		close(c.done)
		return c.done
	}
	c.leave = context.AfterFunc(c.Context, func() { c.end(c.Context.Err()) })
	return c.done
}

// Err implements context.Context.
func (c *callContext) Err() error {
	if err := c.Context.Err(); err != nil {
		c.end(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// end ends the context with err, unless it has ended already.
func (c *callContext) end(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return
	}
	c.err = err
	if c.done != nil {
		close(c.done)
		c.leave()
	}
}
