package spawn

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
)

// waiter is somebody outside the tree who waits for runs to end, with the same arithmetic as a session that yields. Being
// volatile, it is counted anew when the tree has been lost and is read again.
type waiter struct {
	members map[session.Key]bool // true: it has ended
	join    tree.Join
	root    bool // waits until the top-level session has recovered from a stop
	ready   chan struct{}
	err     error
	closed  bool
}

func (w *waiter) close(err error) {
	if !w.closed {
		w.closed, w.err = true, err
		close(w.ready)
	}
}

// count counts from the tree as it stands.
func (w *waiter) count(t *tree.Tree) {
	w.join.Left, w.join.Good = 0, 0
	for k := range w.members {
		r := t.Run(k)
		w.members[k] = r == nil || r.State.Terminal()
		switch {
		case !w.members[k]:
			w.join.Left++
		case r != nil && r.State == tree.OK:
			w.join.Good++
		}
	}
	if w.root && t.Root().Cause != tree.NoCause {
		w.join.Left++
	}
	if w.join.Ready(0) {
		w.close(nil)
	}
}

// ended counts one run that has ended.
func (w *waiter) ended(k session.Key, s tree.State) {
	if over, member := w.members[k]; member && !over {
		w.members[k] = true
		w.join.Count(s)
		if w.join.Ready(0) {
			w.close(nil)
		}
	}
}

// wait waits for runs of the tree and returns how each of them stands then, in the order given.
func (h *home) wait(ctx context.Context, keys []session.Key, opt JoinOptions) ([]RunInfo, error) {
	w := &waiter{members: make(map[session.Key]bool, len(keys)), ready: make(chan struct{})}
	for _, k := range keys {
		w.members[k] = false
	}
	w.join.Need = uint32(max(0, opt.AtLeast))
	if err := h.register(ctx, w, keys); err != nil {
		return nil, err
	}
	defer h.unregister(w)
	defer turnOf(ctx).pause()()
	if opt.Within > 0 {
		limit := time.NewTimer(opt.Within)
		defer limit.Stop()
		select {
		case <-w.ready:
		case <-limit.C:
		case <-ctx.Done():
		case <-h.sup.closed:
			return nil, ErrShutdown
		}
	} else {
		select {
		case <-w.ready:
		case <-ctx.Done():
		case <-h.sup.closed:
			return nil, ErrShutdown
		}
	}
	if w.failed(h) != nil {
		return nil, w.err
	}
	cause := context.Cause(ctx)
	if opt.StopRest && cause == nil {
		if err := h.stopRest(ctx, keys); err != nil {
			return nil, err
		}
	}
	if cause != nil {
		return h.lastLook(ctx, keys), cause
	}
	return h.infos(ctx, keys, h.owner.Await)
}

// lastLook returns how runs stand for somebody whose context has ended, or nil if that is not to be had at once: a journal may hang.
func (h *home) lastLook(ctx context.Context, keys []session.Key) []RunInfo {
	soon, cancel := context.WithTimeout(context.WithoutCancel(ctx), 50*time.Millisecond)
	defer cancel()
	infos, err := h.infos(soon, keys, h.owner.Await)
	if err != nil {
		return nil
	}
	return infos
}

func (w *waiter) failed(h *home) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return w.err
}

// An asker is a way of asking the owner: its Do, or Await for somebody who waits anyway.
type asker func(ctx context.Context, cmd tree.Command, read func(*tree.Tree, tree.Reply)) error

// register lets a waiter know of every end from the moment at which the tree was counted.
func (h *home) register(ctx context.Context, w *waiter, keys []session.Key) error {
	var missing session.Key
	err := h.owner.Await(ctx, nil, func(t *tree.Tree, _ tree.Reply) {
		for _, k := range keys {
			if t.Run(k) == nil {
				missing = k
				return
			}
		}
		h.admit(w, t)
	})
	if err == nil && missing.IsValid() {
		err = fmt.Errorf("%w: waiting for %q", ErrNotFound, missing)
	}
	if err != nil {
		h.unregister(w)
	}
	return err
}

// admit counts a waiter and lets it know of what follows. It is called by the owner, so that nothing is missed in between.
func (h *home) admit(w *waiter, t *tree.Tree) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waiters[w] = struct{}{}
	for k := range w.members {
		h.waiting[k] = append(h.waiting[k], w)
	}
	w.count(t)
}

func (h *home) unregister(w *waiter) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.waiters, w)
	for k := range w.members {
		rest := slices.DeleteFunc(h.waiting[k], func(x *waiter) bool { return x == w })
		if len(rest) == 0 {
			delete(h.waiting, k)
		} else {
			h.waiting[k] = rest
		}
	}
}

// stopRest stops those that have not ended and waits until they have.
func (h *home) stopRest(ctx context.Context, keys []session.Key) error {
	infos, err := h.infos(ctx, keys, h.owner.Await)
	if err != nil {
		return err
	}
	var rest []session.Key
	for _, info := range infos {
		if info.Status.Terminal() {
			continue
		}
		rest = append(rest, info.Key)
		cmd := &tree.Stop{Run: info.Key, Reason: "no longer needed", Rand: h.sup.rand()}
		if err := h.owner.Await(ctx, cmd, nil); err != nil {
			return err
		}
	}
	if len(rest) == 0 {
		return nil
	}
	_, err = h.wait(ctx, rest, JoinOptions{})
	return err
}

// infos returns how runs stand; do is how the owner is asked.
func (h *home) infos(ctx context.Context, keys []session.Key, do asker) (infos []RunInfo, err error) {
	err = do(ctx, nil, func(t *tree.Tree, _ tree.Reply) {
		infos = make([]RunInfo, 0, len(keys))
		for _, k := range keys {
			if r := t.Run(k); r != nil {
				infos = append(infos, infoOf(t, r))
			} else {
				infos = append(infos, RunInfo{Key: k, Root: t.Root().Key()})
			}
		}
	})
	return infos, err
}

// stop stops a session and everything below it, and waits until nothing of it is alive.
func (h *home) stop(ctx context.Context, key session.Key, reason string) error {
	w := &waiter{members: make(map[session.Key]bool), ready: make(chan struct{})}
	cmd := &tree.Stop{Run: key, Reason: reason, Rand: h.sup.rand()}
	err := h.owner.Do(ctx, cmd, func(t *tree.Tree, r tree.Reply) {
		if r.Run.IsRoot() {
			w.root = true
		} else {
			w.members[key] = false
		}
		h.admit(w, t)
	})
	if err != nil {
		return err
	}
	defer h.unregister(w)
	select {
	case <-w.ready:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-h.sup.closed:
		return ErrShutdown
	}
	if err := w.failed(h); err != nil {
		return err
	}
	return h.stillRunning(ctx, key)
}

// stillRunning names the turns of a session and of everything below it that were cancelled and have not returned within the grace
// period. Those that the tree has waited for have had it; those of a tree that was lost may have not.
func (h *home) stillRunning(ctx context.Context, key session.Key) error {
	var left []session.Key
	for _, u := range h.cancelledBelow(key) {
		if !h.hasReturned(ctx, u) {
			left = append(left, u.key)
		}
	}
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case len(left) == 0:
		return nil
	}
	slices.SortFunc(left, func(a, b session.Key) int { return strings.Compare(a.String(), b.String()) })
	return &StillRunningError{Sessions: left}
}

// cancelledBelow returns the turns of a session and of what is below it that were cancelled and have not returned. A tree that was
// lost and is read again has other runs under the same keys.
func (h *home) cancelledBelow(key session.Key) (list []*underWay) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, u := range h.turns {
		for r := u.id.run; r != nil && !u.over && !u.cancelled.IsZero(); r = r.Parent {
			if r.Key() == key {
				list = append(list, u)
				break
			}
		}
	}
	return list
}

// hasReturned waits until a turn has returned, its grace period is over, or ctx ends.
func (h *home) hasReturned(ctx context.Context, u *underWay) bool {
	h.mu.Lock()
	done, left := u.returned(), h.sup.cfg.Grace-time.Since(u.cancelled)
	h.mu.Unlock()
	grace := time.NewTimer(max(left, 0))
	defer grace.Stop()
	select {
	case <-done:
		return true
	default:
	}
	select {
	case <-done:
		return true
	case <-grace.C:
	case <-ctx.Done():
	}
	return false
}

// Publish implements owner.Executor.
func (h *home) Publish(t *tree.Tree, facts []tree.Fact) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range facts {
		f := &facts[i]
		switch f.Kind {
		case tree.Opened:
			for w := range h.waiters {
				w.count(t)
			}
		case tree.RunEnded:
			for _, w := range h.waiting[f.Run] {
				w.ended(f.Run, f.State)
			}
		case tree.Recovered:
			for w := range h.waiters {
				if w.root {
					w.close(nil)
				}
			}
		default: // nobody waits for the others
		}
		if len(h.watchers) > 0 {
			if e, ok := eventOf(t, f); ok {
				for x := range h.watchers {
					x.add(e)
				}
			}
		}
	}
}

// Stalled implements owner.Executor.
func (h *home) Stalled(err error) {
	e := TreeEvent{Kind: EventStalled, Time: time.Now(), Session: h.owner.Root()}
	if err != nil {
		e.Error = err.Error()
		h.sup.log.Error("offshoot: the journal fails", "root", h.owner.Root().String(), "error", e.Error)
	} else {
		h.sup.log.Info("offshoot: the journal is back", "root", h.owner.Root().String())
	}
	h.show(e)
}

// Lost implements owner.Executor.
func (h *home) Lost(err error, conflict bool) {
	h.mu.Lock()
	for _, u := range h.turns {
		if u.cancelled.IsZero() {
			u.cancelled = time.Now()
		}
		u.cancel(ErrUnconfirmed)
	}
	for _, p := range h.posts {
		p.queue = nil
	}
	if conflict {
		for w := range h.waiters {
			w.close(fmt.Errorf("%w: %q: %w", ErrUnconfirmed, h.owner.Root(), err))
		}
	}
	h.mu.Unlock()
	h.sup.log.Error("offshoot: the tree was lost", "root", h.owner.Root().String(), "conflict", conflict, "error", err.Error())
	h.show(TreeEvent{Kind: EventLost, Time: time.Now(), Session: h.owner.Root(), Error: err.Error()})
}
