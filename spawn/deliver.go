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

// postman hands the entries for one destination over, one at a time. It has a goroutine only while there are any.
type postman struct {
	queue []parcel
	busy  bool
}

type parcel struct {
	gen uint64
	ord uint32
	out Delivery
}

// Deliver implements owner.Executor.
func (h *home) Deliver(gen uint64, t *tree.Tree, e *tree.Entry) {
	d := destination{e.To, e.Reply}
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.posts[d]
	if p == nil {
		p = &postman{}
		h.posts[d] = p
	}
	p.queue = append(p.queue, parcel{gen, e.Ord, outgoingOf(t, e)})
	h.dispatch(d, p)
}

// dispatch starts the postman of a destination, if there is work and nobody is at it. The caller holds the lock.
func (h *home) dispatch(d destination, p *postman) {
	if p.busy || len(p.queue) == 0 || !h.sup.active() {
		return
	}
	p.busy = h.sup.spawnGoroutine(taskFunc(func() { h.carry(h.sup.base, d, p) }))
}

// dispatchAll starts every postman that has work.
func (h *home) dispatchAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for d, p := range h.posts {
		h.dispatch(d, p)
	}
}

func (h *home) carry(ctx context.Context, d destination, p *postman) {
	for {
		h.mu.Lock()
		if len(p.queue) == 0 || ctx.Err() != nil {
			p.busy = false
			if len(p.queue) == 0 {
				delete(h.posts, d)
			}
			h.mu.Unlock()
			return
		}
		x := p.queue[0]
		p.queue[0] = parcel{}
		p.queue = p.queue[1:]
		h.mu.Unlock()

		err := h.handOver(ctx, x.out)
		if ctx.Err() != nil && err != nil {
			continue // shut down: it stays in the outbox
		}
		s := &tree.Settle{Ord: x.ord, Rand: h.sup.rand()}
		if err != nil {
			s.Error, s.Busy = err.Error(), errors.Is(err, ErrBusy)
			if s.Error == "" {
				s.Error = fmt.Sprintf("%T", err)
			}
			if !s.Busy {
				h.sup.log.Warn("offshoot: a delivery failed", "key", x.out.Key, "to", x.out.To.String(), "attempt", x.out.Attempt, "error", s.Error)
			}
		}
		h.owner.Send(x.gen, s)
	}
}

// handOver calls Deliver and contains its panics.
func (h *home) handOver(ctx context.Context, out Delivery) (err error) {
	defer func() {
		if p := recover(); p != nil {
			pe := &PanicError{Value: p, Stack: debug.Stack()}
			h.sup.log.Error("offshoot: Deliver panicked", "key", out.Key, "panic", fmt.Sprint(p), "stack", string(pe.Stack))
			err = pe
		}
	}()
	if h.sup.cfg.Deliver == nil {
		return errors.New("spawn: nobody takes what leaves the tree: Deliver is not set")
	}
	return h.sup.cfg.Deliver(ctx, out)
}

// Archive implements owner.Executor.
func (h *home) Archive(gen uint64, t *tree.Tree, r *tree.Run) {
	ref, key, at := session.Ref{Key: r.Key(), SessionID: r.Spec.SessionID}, r.Key(), stamp(r.Ended)
	h.sup.spawnGoroutine(taskFunc(func() {
		ctx := h.sup.base
		err := h.putAway(ctx, ref, at)
		if err != nil {
			h.sup.log.Warn("offshoot: archiving failed", "session", key.String(), "error", err.Error())
		}
		h.owner.Send(gen, tree.ArchiveDone{Run: key, Failed: err != nil})
	}))
}
