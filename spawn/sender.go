package spawn

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/offshoot-sdk/offshoot/internal/contain"
	"github.com/offshoot-sdk/offshoot/internal/few"
	"github.com/offshoot-sdk/offshoot/internal/fifo"
	"github.com/offshoot-sdk/offshoot/spawn/internal/owner"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
)

// sender hands the deliveries for one destination over, one at a time and in the order in which the
// tree sends them. It has a goroutine only while it may call the receiver. The lock of the shell
// guards it.
//
// The tree sends several deliveries at once. When one does not arrive, the sender stops, and does
// not call the receiver again before the tree has recalled the others.
type sender struct {
	shell   *treeShell
	to      tree.Destination
	queue   deliveryQueue
	sending bool // its goroutine runs
	stopped bool // until the tree recalls

	call  *queuedDelivery // under way; nil: none is
	more  []uint32        // the ordinals of those behind it in the same call
	timer *time.Timer     // calls timeIsUp; nil before the first call
	// orphaned says that the tree of the call is lost. What the call comes to concerns no tree.
	orphaned bool
	// hangs says that the time of the call is up. The tree was told so of the delivery told, which
	// is that of the call, or of a later incarnation of the tree.
	hangs bool
	told  attempt
	limit time.Duration // of a call
}

// attempt names an entry of the outbox, and the incarnation of the tree that is to hear of it.
type attempt struct {
	gen uint64
	ord uint32
}

// queuedDelivery is an entry of the outbox on its way to Deliver. The context of its call and what
// the tree is told of it are parts of it, which saves three allocations of a child in the outbox. A
// receiver that keeps the context keeps it, and so out is cleared when the call has returned.
type queuedDelivery struct {
	attempt

	fifo.Link[queuedDelivery]

	out     Delivery
	ctx     callContext
	outcome tree.Settle
}

// A deliveryQueue has deliveries in the order in which the tree has sent them.
type deliveryQueue = fifo.Queue[queuedDelivery, *queuedDelivery]

// Deliver implements owner.Executor.
func (sh *treeShell) Deliver(
	on owner.Goroutine, gen uint64, t *tree.Tree, e *tree.Entry, more bool,
) {
	to := e.Destination()
	sh.mu.Lock()
	defer sh.mu.Unlock()
	p := sh.senders[to]
	if p == nil {
		if p, sh.spareSender = sh.spareSender, nil; p == nil {
			p = &sender{shell: sh}
		}
		p.to = to
		few.Put(&sh.senders, to, p)
	}
	p.queue.Push(&queuedDelivery{attempt: attempt{gen, e.Ord}, out: deliveryOf(t, e)})
	if p.hangs && !p.stopped { // the call is of an earlier incarnation
		sh.tellHangs(p, p.queue.First().attempt)
	}
	if !more {
		sh.startSender(on, p)
	}
}

// Recall implements owner.Executor.
func (sh *treeShell) Recall(to tree.Destination) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if p := sh.senders[to]; p != nil {
		p.queue, p.stopped = deliveryQueue{}, false
		sh.startSender(nil, p)
	}
}

// dropDeliveries forgets what the tree has sent, because the tree is lost. The caller holds the
// lock.
func (sh *treeShell) dropDeliveries() {
	for _, p := range sh.senders {
		p.queue, p.stopped, p.orphaned, p.told = deliveryQueue{}, false, true, attempt{}
		sh.startSender(nil, p)
	}
}

// startSender starts the goroutine of a sender that has deliveries and none, and drops a sender
// that has nothing to do. It starts nothing before Run, nor after the soft phase of a shutdown. On
// is nil or the goroutine of the owner. The caller holds the lock.
func (sh *treeShell) startSender(on owner.Goroutine, p *sender) {
	switch {
	case p.sending || p.stopped:
	case p.queue.First() == nil:
		sh.dropSender(p)
	case sh.sup.timed():
		p.sending = sh.startOn(on, p)
	}
}

// dropSender drops a sender that has nothing to do, and keeps its memory for the next one. The
// caller holds the lock, and does not use the sender any more.
func (sh *treeShell) dropSender(p *sender) {
	delete(sh.senders, p.to)
	*p = sender{shell: sh, timer: p.timer}
	sh.spareSender = p
}

// leave tells the tree which deliveries were handed over and not tried. No turn and no delivery is
// under way any more.
func (sh *treeShell) leave() {
	sh.mu.Lock()
	var gen uint64
	var queued []uint32
	for _, p := range sh.senders {
		for d := range p.queue.All {
			gen, queued = d.gen, append(queued, d.ord)
		}
	}
	sh.mu.Unlock()
	sh.owner.Leave(gen, queued)
}

// startSenders starts every sender that has deliveries.
func (sh *treeShell) startSenders() {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for _, p := range sh.senders {
		sh.startSender(nil, p)
	}
}

// run implements task: it hands deliveries over until the queue is empty, one does not arrive, or
// the work of the Supervisor ends. Until its goroutine has ended, a sender is not dropped by
// another one, and its destination stays.
func (p *sender) run(g *worker) {
	sh, ctx, to := p.shell, p.shell.sup.workCtx, p.to
	for sh.maySend(ctx, g, p) && sh.nextDelivery(ctx, g, p) && sh.send(ctx, g, to, p) {
	}
}

// maySend waits until the process may act for the tree. It returns false, and the sender has no
// goroutine any more, if the tree is not that of this process: the owner drops what was queued. The
// end of ctx is left to nextDelivery.
func (sh *treeShell) maySend(ctx context.Context, g *worker, p *sender) bool {
	if sh.sup.cluster == nil {
		return true
	}
	g.HandOver()
	for {
		if err := sh.hold().wait(ctx); err == nil || ctx.Err() != nil {
			return true
		}
		sh.mu.Lock()
		if sh.hold().isLost() { // what a later hold sends starts the sender
			p.sending = false
			if p.queue.First() == nil {
				sh.dropSender(p)
			}
			sh.mu.Unlock()
			return false
		}
		sh.mu.Unlock()
	}
}

// nextDelivery takes the next delivery from the queue of a sender. It returns false, and the sender
// has no goroutine any more, if the queue is empty or ctx has ended.
func (sh *treeShell) nextDelivery(ctx context.Context, g *worker, p *sender) bool {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if p.queue.First() == nil || ctx.Err() != nil {
		p.sending = false
		if p.queue.First() == nil {
			sh.dropSender(p)
		}
		return false
	}
	g.HandOver() // the call may take its time
	p.call, p.more, p.orphaned = p.queue.Pop(), nil, false
	limit := sh.sup.cfg.DeliverTimeout
	if p.to.Hook {
		limit = HookTimeout
	}
	p.limit = limit
	p.call.ctx.begin(ctx, limit)
	p.call.ctx.mark.root = sh.owner.Root()
	if p.timer == nil {
		p.timer = time.AfterFunc(limit, func() { sh.timeIsUp(p) })
	} else {
		p.timer.Reset(limit)
	}
	return true
}

var errReceiverExited = errors.New("spawn: the receiver ended its goroutine")

// A receipt is what a call of a receiver has come to, in words: the error itself, whose methods are
// the caller's, is read within the call.
type receipt struct {
	failed string // empty: it has arrived
	busy   bool
	never  bool
	unsent bool // nothing was handed over: a shutdown came before
	pause  time.Duration
}

// receiptOf reads the error of a receiver.
func (sh *treeShell) receiptOf(err error) (r receipt) {
	if contain.Read(err) == nil {
		return r
	}
	r.failed = sh.sup.errorText(err)
	if _, panicked := errors.AsType[*PanicError](err); panicked {
		return r // whatever it has panicked with
	}
	r.busy = errors.Is(err, ErrBusy)
	r.never = errors.Is(err, ErrPermanent) && !r.busy
	r.pause = pauseOf(err)
	return r
}

// send makes the call of a sender and tells the tree of the outcome. It returns false if the sender
// has no goroutine any more: the delivery has not arrived.
func (sh *treeShell) send(
	ctx context.Context, g *worker, to tree.Destination, p *sender,
) (arrived bool) {
	var r receipt
	returned := false
	defer func() {
		if !returned { // the receiver has ended its goroutine
			r = sh.receiptOf(errReceiverExited)
		}
		arrived = sh.callReturned(ctx, g, to, p, r)
	}()
	r = sh.callDeliver(&p.call.ctx, to, p) //nolint:contextcheck // its parent is ctx
	returned = true
	return arrived
}

// returnWithin is how long a receiver may take to return once its context has ended. A call that
// takes longer hangs.
const returnWithin = time.Second

// timeIsUp ends the context of a call whose time is up. When it comes again, the call has not
// returned in spite of that: timeIsUp notes that, and tells the tree.
func (sh *treeShell) timeIsUp(p *sender) {
	sh.mu.Lock()
	if p.call == nil || time.Now().Before(p.call.ctx.deadline) ||
		p.call.ctx.Context.Err() != nil {
		sh.mu.Unlock() // the call has returned, and there may be another
		return
	}
	if p.call.ctx.Err() == nil {
		p.call.ctx.end(context.DeadlineExceeded)
		p.timer.Reset(returnWithin)
		sh.mu.Unlock()
		return
	}
	out := p.call.out
	p.hangs = true
	sh.sup.workers.markHangs(&p.call.ctx.mark)
	switch {
	case !p.orphaned:
		sh.tellHangs(p, p.call.attempt, p.more...)
	case p.queue.First() != nil:
		sh.tellHangs(p, p.queue.First().attempt)
	}
	sh.mu.Unlock()
	sh.sup.log.Warn("offshoot: a delivery has not returned in its time",
		"key", out.Key, "to", out.To.String(), "attempt", out.Attempt)
}

// tellHangs tells the tree that nothing can be delivered to a destination because a call hangs.
// The entry of the attempt, and those in more, count as failed. The caller holds the lock, so that
// the tree hears of the return of the call later.
func (sh *treeShell) tellHangs(p *sender, of attempt, more ...uint32) {
	p.stopped, p.told = true, of
	sh.owner.Send(of.gen, &tree.Settle{
		Ord: of.ord, More: more, Hangs: true, Rand: sh.sup.ids.rand(),
		Error: fmt.Sprintf("spawn: delivery %q: the receiver has not returned within %v",
			p.call.out.Key, p.limit),
	})
}

// callReturned notes that the call of a sender has returned, and tells the tree what it came to. It
// returns whether the sender goes on.
func (sh *treeShell) callReturned(
	ctx context.Context, g *worker, to tree.Destination, p *sender, r receipt,
) (arrived bool) {
	sh.mu.Lock()
	call, more, hung, orphaned := p.call, p.more, p.hangs, p.orphaned
	p.timer.Stop()
	sh.sup.workers.markOver(&call.ctx.mark) // before its context ends
	call.ctx.end(context.Canceled)
	p.call, p.more, p.hangs = nil, nil, false
	call.outcome = tree.Settle{Ord: call.ord, More: more}
	if r.failed == "" && !hung {
		call.out = Delivery{}
		sh.mu.Unlock()
		sh.owner.SendFrom(g, call.gen, &call.outcome)
		return true
	}
	out := call.out
	call.out = Delivery{}
	p.sending = false
	switch {
	case hung:
		sh.tellReturned(p, call.attempt, more, r)
	case ctx.Err() != nil && r.unsent && !orphaned:
		p.queue.PushFront(&queuedDelivery{attempt: call.attempt, out: out}) // see leave
	case ctx.Err() != nil, orphaned: // after a shutdown the delivery stays in the outbox
	default:
		p.stopped = true
		call.outcome.Error, call.outcome.Never = r.failed, r.never
		call.outcome.Busy = r.busy && !to.Hook // a hook has no session that is busy
		call.outcome.Wait, call.outcome.Rand = int64(r.pause), sh.sup.ids.rand()
		sh.owner.Send(call.gen, &call.outcome)
	}
	sh.startSender(nil, p)
	sh.mu.Unlock()
	log := sh.sup.log.With("key", out.Key, "to", out.To.String(), "attempt", out.Attempt)
	switch {
	case r.failed == "":
		log.Info("offshoot: a delivery has arrived after its time")
	case ctx.Err() == nil && !r.busy:
		log.Warn("offshoot: a delivery failed", "error", r.failed)
	}
	return false
}

// tellReturned tells the tree that the call of an attempt and more, which hung, has returned.
// It has arrived only for the incarnation of the tree that sent it. The caller holds the lock.
func (sh *treeShell) tellReturned(p *sender, call attempt, more []uint32, r receipt) {
	if p.told == (attempt{}) {
		return
	}
	outcome := &tree.Settle{Ord: p.told.ord}
	switch {
	case r.failed != "":
		outcome.Error = r.failed
	case p.told != call:
		outcome.Error = "an earlier owner's call has returned"
	default:
		outcome.More = more
	}
	sh.owner.Send(p.told.gen, outcome)
	p.told = attempt{}
}

// callDeliver makes the call of a sender, reads what it returns, and contains the panics of both.
func (sh *treeShell) callDeliver(
	ctx context.Context, to tree.Destination, p *sender,
) (r receipt) {
	out := p.call.out // of the call alone: no other goroutine changes it
	defer func() {
		if p := recover(); p != nil {
			pe := owner.NewPanic(p)
			r = sh.receiptOf(pe)
			sh.sup.log.Error("offshoot: Deliver panicked", "key", out.Key,
				"panic", fmt.Sprint(pe.Value), "stack", string(pe.Stack))
		}
	}()
	err := sh.handOver(ctx, to, p, out)
	r = sh.receiptOf(err)
	r.unsent = out.Sent != nil && (errors.Is(err, ErrNotRecorded) ||
		errors.Is(err, ErrShutdown) && !errors.Is(err, ErrUnconfirmed))
	return r
}

// handOver calls the function of the Config that a delivery is for, or posts a message.
func (sh *treeShell) handOver(
	ctx context.Context, to tree.Destination, p *sender, out Delivery,
) error {
	switch {
	case out.Sent != nil:
		return sh.postSent(ctx, out)
	case out.Ended != nil && sh.sup.cfg.Ended == nil: // an earlier configuration has asked for it
		return fmt.Errorf("spawn: delivery %q: Config.Ended is not set", out.Key)
	case out.Ended != nil:
		return sh.sup.cfg.Ended(ctx, out)
	case sh.sup.cfg.Deliver == nil:
		return fmt.Errorf("spawn: delivery %q: Config.Deliver is not set", out.Key)
	}
	if out.Completion != nil {
		if err := sh.sup.loadResult(ctx, &out.Completion.Run); err != nil {
			return fmt.Errorf("spawn: delivery %q: %w", out.Key, err)
		}
	}
	if out.Mode = sh.modeOf(to); out.Mode == QueueCollect {
		out.More = sh.collect(ctx, p)
		for i := range out.More {
			out.More[i].Mode = QueueCollect
		}
	}
	return sh.sup.cfg.Deliver(ctx, out)
}
