package owner

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
)

// call is a command on its way.
type call struct {
	cmd         tree.Command  // nil: only a read
	gen         uint64        // 0: whatever incarnation there is
	timer       bool          // nobody asked for it
	await       bool          // whoever sent it waits anyway
	unloadAfter time.Duration // let the tree go if nothing has happened for so long
	state       uint32        //nolint:modernize // see wait; calls are copied
	decided     bool          // what it changed is in the tree in memory, which knows what to give back
	read        func(*tree.Tree, tree.Reply)
	slot        *tree.Run // the lane's, for this run, goes with the call
	reply       tree.Reply
	err         error
	done        chan struct{} // nil: nobody waits
}

// Do sends a command, or only reads, and waits until its facts are durable and its effects under way. read is called in
// between with the tree, and must not keep it. If ctx ends first the command may still happen.
func (o *Owner) Do(ctx context.Context, cmd tree.Command, read func(*tree.Tree, tree.Reply)) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	return o.submit(ctx, call{cmd: cmd, read: read})
}

// Await is Do for somebody who waits for something else anyway: while the journal fails it waits for that too.
func (o *Owner) Await(ctx context.Context, cmd tree.Command, read func(*tree.Tree, tree.Reply)) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	return o.submit(ctx, call{cmd: cmd, read: read, await: true})
}

// DoTurn is Do for a command of a turn of one incarnation.
func (o *Owner) DoTurn(ctx context.Context, gen uint64, cmd tree.Command, read func(*tree.Tree, tree.Reply)) error {
	return o.submit(ctx, call{cmd: cmd, gen: gen, read: read})
}

// The states of a call that somebody waits for. Whoever moves it from pending first has it: the owner, to read on the
// caller's behalf, or the caller, to go away.
const (
	pending uint32 = iota
	reading
	abandoned
)

func (o *Owner) submit(ctx context.Context, what call) error {
	if !o.root.IsValid() || o.root.IsSubagent() {
		return &tree.InputError{Field: "root", Reason: fmt.Sprintf("%q is no top-level session", o.root)}
	}
	c, ok := o.cfg.callPool.Get().(*call)
	if !ok {
		c = &call{done: make(chan struct{}, 1)}
	}
	what.done = c.done
	*c = what
	if !o.enqueue(c) {
		return fmt.Errorf("%w: %q", ErrShutdown, o.root)
	}
	select {
	case <-c.done:
	case <-ctx.Done():
		if c.abandon() {
			return context.Cause(ctx)
		}
	case <-o.cfg.Closed:
		if c.abandon() {
			return fmt.Errorf("%w: %q", ErrShutdown, o.root)
		}
	}
	err := c.err
	*c = call{done: c.done}
	o.cfg.callPool.Put(c)
	return err
}

// abandon has the caller go away without an answer, or returns false, with the answer, if there is one already.
func (c *call) abandon() bool {
	select {
	case <-c.done:
		return false
	default:
	}
	if atomic.CompareAndSwapUint32(&c.state, pending, abandoned) {
		return true
	}
	<-c.done // it is being read at this moment
	return false
}

// Send sends a command of one incarnation and does not wait. If that has passed, the command is dropped.
func (o *Owner) Send(gen uint64, cmd tree.Command) {
	c := o.newCall(gen)
	c.cmd = cmd
	o.enqueue(c)
}

// newCall returns a call that nobody waits for.
func (o *Owner) newCall(gen uint64) *call {
	c, ok := o.cfg.sendPool.Get().(*call)
	if !ok {
		c = new(call)
	}
	*c = call{gen: gen}
	return c
}

func (o *Owner) enqueue(c *call) bool {
	o.mu.Lock()
	o.queue = append(o.queue, c)
	start := !o.draining
	if start && !o.cfg.Go(o.drainFunc) {
		o.queue = o.queue[:len(o.queue)-1]
		o.mu.Unlock()
		return false
	}
	o.draining = true
	o.mu.Unlock()
	return true
}

// maxArrivalYields is how often a note that something has arrived lets others go first.
const maxArrivalYields = 3

// nextBatch returns what has come meanwhile. That a delivery has arrived is not urgent, and whoever it was for is likely about to ask for
// something else: noted together, the two are one append.
func (o *Owner) nextBatch() []*call {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := 0; i < maxArrivalYields && len(o.queue) == 1 && o.queue[0].arrived(); i++ {
		o.mu.Unlock()
		runtime.Gosched()
		o.mu.Lock()
	}
	batch := o.queue
	o.draining = len(batch) > 0
	if o.draining {
		o.queue = o.spareQueue[:0]
	}
	return batch
}

// arrived reports whether a call notes that a delivery has arrived, and nothing else.
func (c *call) arrived() bool {
	s, ok := c.cmd.(*tree.Settle)
	return ok && s.Error == ""
}

// answer calls back whoever waits for what is durable now.
func (o *Owner) answer(batch []*call) {
	for _, c := range batch {
		if c.err == nil && c.read != nil && (c.done == nil || atomic.CompareAndSwapUint32(&c.state, pending, reading)) {
			c.read(o.tree, c.reply)
		}
		o.finish(c)
	}
}

func (o *Owner) finish(c *call) {
	if c.done != nil {
		c.done <- struct{}{}
		return
	}
	*c = call{}
	o.cfg.sendPool.Put(c)
}

func (o *Owner) refuse(batch []*call, err error) {
	for _, c := range batch {
		o.releaseSlot(c)
		c.err = fmt.Errorf("%w: %q: %w", ErrUnconfirmed, o.root, err)
		o.finish(c)
	}
}

// releaseSlot frees the slot that came with a call that nobody will decide.
func (o *Owner) releaseSlot(c *call) {
	if c.slot != nil && !c.slot.IsRoot() && !c.decided {
		o.cfg.Lane.Free()
	}
}
