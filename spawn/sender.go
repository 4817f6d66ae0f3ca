package spawn

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
)

// destination is where an entry of the outbox goes. Calls for one destination never overlap and keep their order; another
// destination never waits for it.
type destination struct {
	to    session.Key
	reply bool
}

// sender hands the entries for one destination over, one at a time. It has a goroutine only while there are any.
type sender struct {
	queue   []queuedDelivery
	sending bool
}

type queuedDelivery struct {
	gen uint64
	ord uint32
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

// startSender starts the postman of a destination, if there is work and nobody is at it. The caller holds the lock.
func (sh *treeShell) startSender(d destination, p *sender) {
	if p.sending || len(p.queue) == 0 || !sh.sup.active() {
		return
	}
	p.sending = sh.sup.startTask(taskFunc(func() { sh.sendQueued(sh.sup.workCtx, d, p) }))
}

// startSenders starts every postman that has work.
func (sh *treeShell) startSenders() {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for d, p := range sh.senders {
		sh.startSender(d, p)
	}
}

func (sh *treeShell) sendQueued(ctx context.Context, d destination, p *sender) {
	for {
		sh.mu.Lock()
		if len(p.queue) == 0 || ctx.Err() != nil {
			p.sending = false
			if len(p.queue) == 0 {
				delete(sh.senders, d)
			}
			sh.mu.Unlock()
			return
		}
		x := p.queue[0]
		p.queue[0] = queuedDelivery{}
		p.queue = p.queue[1:]
		sh.mu.Unlock()

		err := sh.callDeliver(ctx, x.out)
		if ctx.Err() != nil && err != nil {
			continue // shut down: it stays in the outbox
		}
		s := &tree.Settle{Ord: x.ord, Rand: sh.sup.rand()}
		if err != nil {
			s.Error, s.Busy = err.Error(), errors.Is(err, ErrBusy)
			if s.Error == "" {
				s.Error = fmt.Sprintf("%T", err)
			}
			if !s.Busy {
				sh.sup.log.Warn("offshoot: a delivery failed", "key", x.out.Key, "to", x.out.To.String(), "attempt", x.out.Attempt, "error", s.Error)
			}
		}
		sh.owner.Send(x.gen, s)
	}
}

// callDeliver calls Deliver and contains its panics.
func (sh *treeShell) callDeliver(ctx context.Context, out Delivery) (err error) {
	defer func() {
		if p := recover(); p != nil {
			pe := &PanicError{Value: p, Stack: debug.Stack()}
			sh.sup.log.Error("offshoot: Deliver panicked", "key", out.Key, "panic", fmt.Sprint(p), "stack", string(pe.Stack))
			err = pe
		}
	}()
	if sh.sup.cfg.Deliver == nil {
		return errors.New("spawn: nobody takes what leaves the tree: Deliver is not set")
	}
	return sh.sup.cfg.Deliver(ctx, out)
}

// Archive implements owner.Executor.
func (sh *treeShell) Archive(gen uint64, t *tree.Tree, r *tree.Run) {
	ref, key, at := session.Ref{Key: r.Key(), SessionID: r.Spec.SessionID}, r.Key(), timeOf(r.Ended)
	sh.sup.startTask(taskFunc(func() {
		ctx := sh.sup.workCtx
		err := sh.archiveTranscript(ctx, ref, at)
		if err != nil {
			sh.sup.log.Warn("offshoot: archiving failed", "session", key.String(), "error", err.Error())
		}
		sh.owner.Send(gen, tree.PutAway{Run: key, Failed: err != nil})
	}))
}
