package spawn

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
)

// destination is where an entry of the outbox goes. Calls of Deliver for one destination never
// overlap and keep their order. Different destinations never wait for each other.
type destination struct {
	to    session.Key
	reply bool
}

// sender hands the deliveries for one destination over, one at a time. It has a goroutine only
// while its queue holds any. The lock of the shell guards it.
type sender struct {
	queue   []queuedDelivery
	sending bool // whether its goroutine runs
}

// queuedDelivery is an entry of the outbox on its way to Deliver.
type queuedDelivery struct {
	gen uint64 // the incarnation of the tree that is to hear of the outcome
	ord uint32 // of the entry
	out Delivery
}

// Deliver implements owner.Executor.
func (sh *treeShell) Deliver(gen uint64, t *tree.Tree, e *tree.Entry) {
	d := destination{e.To, e.Reply}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	p := sh.senders[d]
	if p == nil {
		p = &sender{}
		sh.senders[d] = p
	}
	p.queue = append(p.queue, queuedDelivery{gen, e.Ord, deliveryOf(t, e)})
	sh.startSender(d, p)
}

// startSender starts the goroutine of a sender that has deliveries and no goroutine. Before Run it
// does nothing. The caller holds the lock.
func (sh *treeShell) startSender(d destination, p *sender) {
	if p.sending || len(p.queue) == 0 || !sh.sup.active() {
		return
	}
	send := func(ctx context.Context) { sh.sendQueued(ctx, d, p) }
	p.sending = sh.sup.workers.start(sh.sup.workers.marked(sh.sup.workCtx, send))
}

// startSenders starts every sender that has deliveries.
func (sh *treeShell) startSenders() {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for d, p := range sh.senders {
		sh.startSender(d, p)
	}
}

// sendQueued hands the deliveries of a sender over until its queue is empty or ctx ends, and tells
// the tree of each outcome.
func (sh *treeShell) sendQueued(ctx context.Context, d destination, p *sender) {
	for {
		next, ok := sh.nextDelivery(ctx, d, p)
		if !ok {
			return
		}
		err := sh.callDeliver(ctx, next.out)
		if ctx.Err() != nil && err != nil {
			continue // a shutdown: the delivery stays in the outbox
		}
		outcome := &tree.Settle{Ord: next.ord, Rand: sh.sup.ids.rand()}
		if err != nil {
			outcome.Error, outcome.Busy = errorText(err), errors.Is(err, ErrBusy)
			if !outcome.Busy {
				sh.sup.log.Warn("offshoot: a delivery failed",
					"key", next.out.Key, "to", next.out.To.String(),
					"attempt", next.out.Attempt, "error", outcome.Error)
			}
		}
		sh.owner.Send(next.gen, outcome)
	}
}

// nextDelivery takes the next delivery from the queue of a sender. It returns false, and the sender
// has no goroutine any more, if the queue is empty or ctx has ended.
func (sh *treeShell) nextDelivery(
	ctx context.Context, d destination, p *sender,
) (next queuedDelivery, ok bool) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if len(p.queue) == 0 || ctx.Err() != nil {
		p.sending = false
		if len(p.queue) == 0 {
			delete(sh.senders, d)
		}
		return next, false
	}
	next = p.queue[0]
	p.queue[0] = queuedDelivery{}
	p.queue = p.queue[1:]
	return next, true
}

// callDeliver calls Deliver and contains its panics.
func (sh *treeShell) callDeliver(ctx context.Context, out Delivery) (err error) {
	defer func() {
		if p := recover(); p != nil {
			pe := &PanicError{Value: p, Stack: debug.Stack()}
			sh.sup.log.Error("offshoot: Deliver panicked", "key", out.Key,
				"panic", fmt.Sprint(p), "stack", string(pe.Stack))
			err = pe
		}
	}()
	if sh.sup.cfg.Deliver == nil {
		return fmt.Errorf("spawn: delivery %q: Config.Deliver is not set", out.Key)
	}
	return sh.sup.cfg.Deliver(ctx, out)
}
