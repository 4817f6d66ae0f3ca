package owner

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
)

// A call is one entry of the queue of an owner: a command, a read of the tree, a granted slot, or a
// request to unload the tree.
type call struct {
	cmd         tree.Command  // nil: the call only reads
	gen         uint64        // the incarnation that the call is for; 0: any
	timer       bool          // the timer sent it, not a caller
	await       bool          // sent by Await: the caller waits out a stall
	leave       bool          // nothing to do without a tree in memory
	peek        bool          // sent by Peek: the same, and the tree is not in use for it
	orphan      bool          // a timer's for a tree that no process has
	lost        *loss         // the claim on the tree is over; nil: a call of another kind
	unloadAfter time.Duration // unload the tree if it has been idle for so long; 0: no such request
	state       uint32        //nolint:modernize // see the states below; calls are copied
	decided     bool          // the tree knows of the slot, so that discarding the tree frees it
	read        func(*tree.Tree, tree.Reply)
	slot        *tree.Run // the run that the lane granted a slot, which the call owns until decided
	reply       tree.Reply
	err         error
	done        chan struct{} // receives one value when the call is answered; nil: no caller waits
	after       func()        // called when the call is over, if no caller waits; may be nil

	// turnDone is the memory of the cmd of SendDone, which the calls take in turns. With the answer
	// that it names the command would be kept as long as the run. Nil: the call had none yet.
	turnDone *tree.TurnDone
}

// Do sends a command and waits until its facts are durable and its effects have been handed to the
// Executor. A nil cmd only reads. If read is not nil, the owner calls it in between with the tree,
// which read must not keep.
//
// Do returns the error of the decision; an error that is ErrNotRecorded if the journal did not take
// the command, or ErrUnreadable if it only reads; one that is ErrUnconfirmed if the command may
// have happened or not, also beside ErrShutdown if a shutdown ends while it waits; and ErrShutdown
// alone after a shutdown. If ctx ends first, Do returns its cause, and of a command also
// ErrUnconfirmed, or ErrNotRecorded if ctx had ended before the call. Do may be called
// concurrently.
func (o *Owner) Do(
	ctx context.Context, cmd tree.Command, read func(*tree.Tree, tree.Reply),
) error {
	err := o.ended(ctx, cmd)
	if err == nil {
		err = o.submit(ctx, call{cmd: cmd, read: read})
	}
	return o.orWrong(cmd, err)
}

// orWrong returns what is wrong with a command by itself in the place of an error that says that it
// may be sent again: the same command would fail again. Any other err it returns as it is: while it
// is not known whether the command is recorded, the command may still be the owner's.
func (o *Owner) orWrong(cmd tree.Command, err error) error {
	if !o.root.IsValid() || o.root.IsSubagent() {
		return o.noTree()
	}
	if errors.Is(err, ErrNotRecorded) {
		if wrong := o.cfg.Options.Limits.Check(cmd); wrong != nil {
			return wrong
		}
	}
	return err
}

// noTree refuses a call to what has no tree.
func (o *Owner) noTree() error {
	reason := fmt.Sprintf("%q is not a top-level session", o.root)
	return &tree.InputError{Field: "root", Reason: reason}
}

// Await is Do for a caller that waits for something else anyway, such as the end of a run: while
// the journal fails, Await waits for it to recover instead of returning an error, also if the tree
// is not in memory and cannot be opened. It returns an error once the journal will never append
// again, if a person must repair the tree, and if another owner has taken the tree over. A cmd must
// be one that may be decided again.
func (o *Owner) Await(
	ctx context.Context, cmd tree.Command, read func(*tree.Tree, tree.Reply),
) error {
	err := o.ended(ctx, cmd)
	if err == nil {
		err = o.submit(ctx, call{cmd: cmd, read: read, await: true})
	}
	return o.orWrong(cmd, err)
}

// Peek reads the tree if it is in memory, and reports whether it is. It does not open the tree and
// does not keep it in memory. The errors are those of a Do that only reads, and [ErrRetired].
func (o *Owner) Peek(ctx context.Context, read func(*tree.Tree)) (there bool, err error) {
	if err := o.ended(ctx, nil); err != nil {
		return false, err
	}
	err = o.submit(ctx, call{peek: true, read: func(t *tree.Tree, _ tree.Reply) {
		there = true
		read(t)
	}})
	return there, err
}

// ended returns the error of a call whose ctx has ended before it, or nil.
func (o *Owner) ended(ctx context.Context, cmd tree.Command) error {
	switch {
	case ctx.Err() == nil:
		return nil
	case cmd == nil:
		return context.Cause(ctx)
	default:
		return fmt.Errorf("%w: %q: %w", ErrNotRecorded, o.root, context.Cause(ctx))
	}
}

// DoTurn is Do for a command of a turn that the incarnation gen started. It returns an error that
// is tree.ErrStale if that incarnation has passed. Like Await it waits out a failing journal.
func (o *Owner) DoTurn(
	ctx context.Context, gen uint64, cmd tree.Command, read func(*tree.Tree, tree.Reply),
) error {
	if ctx.Err() != nil {
		if wrong := o.cfg.Options.Limits.Check(cmd); wrong != nil {
			return wrong
		}
	}
	return o.orWrong(cmd, o.submit(ctx, call{cmd: cmd, gen: gen, read: read}))
}

// The states of a call that a caller waits for. Only one side moves it from pending: the owner, to
// run read on the caller's behalf, or the caller, to leave without an answer. So read never runs
// after its caller has returned.
const (
	pending uint32 = iota
	reading
	abandoned
)

// submit enqueues a copy of what and waits for the answer.
func (o *Owner) submit(ctx context.Context, what call) error {
	if !o.root.IsValid() || o.root.IsSubagent() {
		return o.noTree()
	}
	c, ok := o.cfg.callPool.Get().(*call)
	if !ok {
		c = &call{done: make(chan struct{}, 1)}
	}
	what.done = c.done
	*c = what
	if err := o.enqueue(c); err != nil {
		if what.gen != 0 && errors.Is(err, ErrRetired) {
			err = tree.ErrStale // the incarnation has passed
		}
		if what.cmd != nil && errors.Is(err, ErrShutdown) {
			err = fmt.Errorf("%w: %w", ErrNotRecorded, err)
		}
		return fmt.Errorf("%w: %q", err, o.root)
	}
	select {
	case <-c.done:
	case <-ctx.Done():
		if c.abandon() {
			return o.leave(what.cmd, context.Cause(ctx))
		}
	case <-o.cfg.Closed:
		if c.abandon() {
			return o.leave(what.cmd, fmt.Errorf("%w: %q", ErrShutdown, o.root))
		}
	}
	err := c.err
	*c = call{done: c.done}
	o.cfg.callPool.Put(c)
	return err
}

// leave returns the error of a caller that leaves before the answer because of cause: its ctx has
// ended, or a shutdown in which the store has not returned. Its command may have been recorded, or
// be recorded later.
func (o *Owner) leave(cmd tree.Command, cause error) error {
	if cmd == nil {
		return cause
	}
	return fmt.Errorf("%w: %q: %w", ErrUnconfirmed, o.root, cause)
}

// abandon lets the caller leave without an answer and returns true. It returns false if the call
// has been answered already or is being answered, in which case it waits for that to end.
func (c *call) abandon() bool {
	select {
	case <-c.done:
		return false
	default:
	}
	if atomic.CompareAndSwapUint32(&c.state, pending, abandoned) {
		return true
	}
	<-c.done
	return false
}

// Send sends a command of the incarnation gen and does not wait. The owner drops the command if
// that incarnation has passed. Send may be called concurrently.
func (o *Owner) Send(gen uint64, cmd tree.Command) {
	c := o.newCall(gen)
	c.cmd = cmd
	_ = o.enqueue(c)
}

// SendFrom is Send for a goroutine that is about to end, or to do something else: it drains the
// queue itself if no other does.
func (o *Owner) SendFrom(by Starter, gen uint64, cmd tree.Command) {
	c := o.newCall(gen)
	c.cmd = cmd
	_ = o.enqueueFrom(by, c)
}

// SendDone is SendFrom for the end of a turn, of which the owner takes a copy. The tree keeps the
// Answer, the Yield and the Route.
func (o *Owner) SendDone(by Starter, gen uint64, done tree.TurnDone) {
	c := o.newCall(gen)
	if c.turnDone == nil {
		c.turnDone = new(tree.TurnDone)
	}
	*c.turnDone = done
	c.cmd = c.turnDone
	_ = o.enqueueFrom(by, c)
}

// SendIfThere sends a command to the tree, of whatever incarnation, if it is in memory. It does not
// wait, and may be called concurrently.
func (o *Owner) SendIfThere(cmd tree.Command) {
	c := o.newCall(0)
	c.cmd, c.leave = cmd, true
	_ = o.enqueue(c)
}

// Leave tells the tree, if it is in memory, that its owner ends in good order, see [tree.Leave].
// The queued entries are of the incarnation gen; without any, gen may be 0. Leave does not wait. It
// may be called concurrently.
func (o *Owner) Leave(gen uint64, queued []uint32) {
	c := o.newCall(gen)
	c.cmd, c.leave = tree.Leave{Queued: queued}, true
	_ = o.enqueue(c)
}

// newCall returns a call of the incarnation gen that no caller waits for.
func (o *Owner) newCall(gen uint64) *call {
	c, ok := o.cfg.sendPool.Get().(*call)
	if !ok {
		c = new(call)
	}
	c.gen = gen
	return c
}

// enqueue adds a call to the queue and starts the goroutine that drains it, if there is none. It
// adds nothing and returns ErrRetired after Retire, or ErrShutdown if a goroutine can no longer be
// started.
func (o *Owner) enqueue(c *call) error { return o.enqueueFrom(o.cfg, c) }

// enqueueFrom is enqueue for a caller that says what starts the goroutine.
func (o *Owner) enqueueFrom(by Starter, c *call) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.retired {
		return ErrRetired
	}
	o.queue = append(o.queue, c)
	if !o.draining && !by.Start(o.drainFunc) {
		o.queue = o.queue[:len(o.queue)-1]
		return ErrShutdown
	}
	o.draining = true
	return nil
}

// Retire ends an owner that has nothing to do and nothing to keep: no call, no tree in memory, and
// nothing to try again. It reports whether the owner has ended. Every later call fails with
// [ErrRetired]. Retire may be called concurrently.
//
// An owner whose tree has runs does not retire, so that the way from the key of a run to its tree
// is known. Neither does one whose tree another process has taken over, which it must remember.
func (o *Owner) Retire() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.draining && len(o.queue) == 0 {
		// No goroutine drains the queue, so that its fields may be read here.
		o.retired = o.tree == nil && o.stalled == nil &&
			len(o.parked) == 0 && !o.retrying && !o.lostToOther && !o.keepsRuns &&
			o.claim == 0
	}
	return o.retired
}

// Retired reports whether the owner has ended. It may be called concurrently.
func (o *Owner) Retired() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.retired
}

// maxArrivalYields is how often the owner yields the processor before it decides a lone note that a
// delivery has arrived.
const maxArrivalYields = 3

// nextBatch takes all calls from the queue. It returns none when the queue is empty, which ends the
// goroutine that drains it.
//
// A lone note that a delivery has arrived is not urgent, and its receiver is likely to send a
// command next. So the owner first yields to it: noted together, the two are one append.
func (o *Owner) nextBatch() []*call {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := 0; i < maxArrivalYields && len(o.queue) == 1 && o.queue[0].arrived(); i++ {
		o.mu.Unlock()
		o.handOver()
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

// firstOf returns as many of the first calls of a batch as one append takes, see
// [tree.MaxCommand]. It puts the others back into the queue, before those that have come since.
func (o *Owner) firstOf(batch []*call) []*call {
	size := 0
	for i, c := range batch {
		if size += tree.TextOf(c.cmd); i == 0 || size <= tree.MaxCommand {
			continue
		}
		o.mu.Lock()
		o.queue = append(slices.Clone(batch[i:]), o.queue...)
		o.mu.Unlock()
		return batch[:i]
	}
	return batch
}

// arrived reports whether a call only notes that a delivery has arrived.
func (c *call) arrived() bool {
	s, ok := c.cmd.(*tree.Settle)
	return ok && s.Error == ""
}

// answer runs the reads of a batch that is durable and tells its callers.
func (o *Owner) answer(batch []*call) {
	for _, c := range batch {
		if c.err == nil && c.read != nil && c.startReading() {
			c.read(o.tree, c.reply)
		}
		o.finish(c)
	}
}

// startReading claims the call for its read. It returns false if the caller has left.
func (c *call) startReading() bool {
	return c.done == nil || atomic.CompareAndSwapUint32(&c.state, pending, reading)
}

// finish tells the caller that the call is over, or recycles a call that no caller waits for.
//
// A caller that is woken goes on at once where the goroutine of the owner waits. While that does
// something else, another processor takes the caller over only after 60 µs or so. So what was
// started in the round is handed over first.
func (o *Owner) finish(c *call) {
	if c.done != nil {
		o.handOver()
		c.done <- struct{}{}
		return
	}
	after, turnDone := c.after, c.turnDone
	if *c = (call{}); turnDone != nil {
		*turnDone = tree.TurnDone{}
		c.turnDone = turnDone
	}
	if after != nil {
		after()
	}
	o.cfg.sendPool.Put(c)
}

// refuse ends calls with err and what it means for the caller: a command that was not decided is
// not recorded. One that was decided is so only if absent says that it is not in the journal and
// will not be.
func (o *Owner) refuse(batch []*call, err error, absent bool) {
	for _, c := range batch {
		o.releaseSlot(c)
		what := ErrUnconfirmed
		switch {
		case c.cmd == nil:
			what = ErrUnreadable
		case absent || !c.decided:
			what = ErrNotRecorded
		}
		c.err = fmt.Errorf("%w: %q: %w", what, o.root, err)
		o.finish(c)
	}
}

// releaseSlot frees the slot that a call owns if the call will not be decided.
func (o *Owner) releaseSlot(c *call) {
	if c.slot != nil && !c.decided {
		o.cfg.Lane.Free(c.slot)
	}
}
