package spawn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/offshoot-sdk/offshoot/internal/few"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
)

// fence is the end of a turn for those who act for it, in whatever goroutine.
type fence struct {
	life   context.Context //nolint:containedctx // of the Runner; the turn's methods compare with it
	hold   *hold           // under which the turn runs
	passed atomic.Bool     // the Runner has returned, the turn was given up, or its tree was lost
	// cancelled is when the context of the Runner was cancelled, nil if it was not.
	cancelled atomic.Pointer[time.Time]

	// inStore says that the Runner is in calls of the store and in no function of its caller.
	inStore atomic.Bool
}

// InStore tells that the Runner is in calls of a store from here on, or with false that it is not
// any more. A turn that has not returned although it was cancelled is named in a
// [StillRunningError] only if it is not in a store. InStore may be called concurrently.
func (t *TurnInput) InStore(in bool) { t.fence.inStore.Store(in) }

// Err returns nil while the turn may begin something. Once the context of its Runner has ended, or
// the turn is over, Err returns an error that is [ErrStale] and, if there is one, the cause of the
// context too. Methods that begin something return that error.
func (t *TurnInput) Err() error {
	if t.fence.life.Err() == nil {
		return t.Over()
	}
	return t.stale(context.Cause(t.fence.life))
}

// CancelledAt returns when the context of the Runner was cancelled. It is zero if that was not
// before the Runner returned. A Runner that does a last thing within the grace period can tell how
// much of it is left.
func (t *TurnInput) CancelledAt() time.Time {
	if at := t.fence.cancelled.Load(); at != nil {
		return *at
	}
	return time.Time{}
}

// Over returns nil while the turn can still account for what it has done. That is a little longer
// than [TurnInput.Err]: a turn that was cancelled has its grace period. Over returns an error that
// is [ErrStale] once the Runner has returned, the turn was given up, its tree was lost, or the
// Supervisor has been shut down.
func (t *TurnInput) Over() error {
	select {
	case <-t.shell.sup.closed:
		return t.stale(ErrShutdown)
	default:
	}
	if t.fence.passed.Load() {
		return t.stale(context.Cause(t.fence.life))
	}
	return nil
}

// A leftCall is a call of code of the caller that a turn has left behind.
type leftCall struct {
	key   session.Key   // of the session
	above []session.Key // the sessions above it
	done  <-chan struct{}
}

// Leave says that code of the caller, such as a tool, has not returned although its context has
// ended, and that the turn goes on without it. Until done is closed, Stop and Shutdown name the
// session in a [StillRunningError], and Shutdown waits for it as for a Runner that was cancelled.
// Leave returns false, and does nothing, once the Supervisor has been shut down: then the caller
// waits for done itself.
func (t *TurnInput) Leave(done <-chan struct{}) bool {
	sh, m := t.shell, new(mark)
	call := &leftCall{t.Session.Key, t.Above, done}
	sh.mu.Lock()
	few.Put(&sh.left, call, struct{}{})
	sh.mu.Unlock()
	forget := func() {
		sh.mu.Lock()
		delete(sh.left, call)
		sh.mu.Unlock()
	}
	if !sh.sup.workers.startLast(taskFunc(func() {
		defer sh.sup.workers.markOver(m)
		<-done
		forget()
	})) {
		forget()
		return false
	}
	sh.sup.workers.markHangs(m)
	return true
}

// addLeft adds the sessions to list that have left a call behind, of a session and of everything
// below it, or of all if key is zero.
func (sh *treeShell) addLeft(list []session.Key, key session.Key) []session.Key {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for call := range sh.left {
		below := key.IsZero() || call.key == key || slices.Contains(call.above, key)
		if below && !slices.Contains(list, call.key) {
			list = append(list, call.key)
		}
	}
	return list
}

// stale returns an error that is ErrStale and why.
func (t *TurnInput) stale(why error) error {
	if why == nil || errors.Is(why, context.Canceled) { // the Runner has returned
		return fmt.Errorf("%w: turn %d of %q", ErrStale, t.N, t.Session.Key)
	}
	return fmt.Errorf("%w: turn %d of %q: %w", ErrStale, t.N, t.Session.Key, why)
}

// mayBegin returns nil once the turn may begin something: after Err has, when the process may act
// for the tree. The error is that of Err, or the cause of ctx.
func (t *TurnInput) mayBegin(ctx context.Context) error {
	if err := t.Err(); err != nil || t.fence.hold == nil {
		return err
	}
	within, done := t.Within(ctx)
	defer done()
	return t.MayAct(within)
}

// MayAct returns nil once the process may act for the tree of the turn. It is asked right before
// what has an effect and is not a command, such as the call of a tool or a line of a transcript, so
// that a process does none of that for a tree which another one may have.
//
// In a Store without Owners MayAct returns nil. Else it waits while the process cannot be heard,
// until ctx ends, and the error is the cause of ctx then. It is [ErrStale] once the tree is lost,
// or the turn is over, see [TurnInput.Over]; a turn that was cancelled may still act.
func (t *TurnInput) MayAct(ctx context.Context) error {
	if t.fence.hold == nil {
		return nil
	}
	if err := t.Over(); err != nil {
		return err
	}
	err := t.fence.hold.wait(ctx)
	if lost, is := errors.AsType[lostError](err); is {
		return t.stale(lost)
	}
	return err
}

// do has the owner decide a command of the turn. A nil cmd only reads.
func (t *TurnInput) do(
	ctx context.Context, cmd tree.Command, read func(*tree.Tree, tree.Reply),
) error {
	if err := t.mayBegin(ctx); err != nil {
		return err
	}
	return t.doUntilOver(ctx, tree.InTurn{Run: t.run.Key(), N: uint32(t.N), Cmd: cmd}, read)
}

// doUntilOver has the owner decide a command, also of a turn that was cancelled.
func (t *TurnInput) doUntilOver(
	ctx context.Context, cmd tree.Command, read func(*tree.Tree, tree.Reply),
) error {
	err := t.shell.owner.DoTurn(ctx, t.gen, cmd, read)
	if errors.Is(err, ErrShutdown) {
		return fmt.Errorf("%w: %w", ErrStale, err)
	}
	return err
}

// Within returns a context that ends with ctx, and with the context of the turn's Runner. It is for
// work of the turn, such as the call of a tool, that is given a context from elsewhere. The caller
// must call the function that Within returns.
func (t *TurnInput) Within(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(t.fence.life, func() { cancel(t.Err()) })
	return ctx, func() { stop(); cancel(nil) }
}

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
	c := new(callContext)
	c.begin(parent, limit)
	return c
}

// begin is newCallContext for one that is a part of what the call needs beside it.
func (c *callContext) begin(parent context.Context, limit time.Duration) {
	c.Context, c.deadline = parent, time.Now().Add(limit)
	c.mark.ctx = c
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
