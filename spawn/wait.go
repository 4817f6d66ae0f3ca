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
	members  map[session.Key]bool // true: it has ended
	join     tree.Join
	root     bool // waits until the top-level session has recovered from a stop
	ready    chan struct{}
	err      error
	finished bool
}

func (w *waiter) finish(err error) {
	if !w.finished {
		w.finished, w.err = true, err
		close(w.ready)
	}
}

// recount counts from the tree as it stands.
func (w *waiter) recount(t *tree.Tree) {
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
		w.finish(nil)
	}
}

// runEnded counts one run that has ended.
func (w *waiter) runEnded(k session.Key, s tree.State) {
	if over, member := w.members[k]; member && !over {
		w.members[k] = true
		w.join.Count(s)
		if w.join.Ready(0) {
			w.finish(nil)
		}
	}
}

// wait waits for runs of the tree and returns how each of them stands then, in the order given.
func (sh *treeShell) wait(ctx context.Context, keys []session.Key, opt JoinOptions) ([]RunInfo, error) {
	w := &waiter{members: make(map[session.Key]bool, len(keys)), ready: make(chan struct{})}
	for _, k := range keys {
		w.members[k] = false
	}
	w.join.Need = uint32(max(0, opt.AtLeast))
	if err := sh.registerWaiter(ctx, w, keys); err != nil {
		return nil, err
	}
	defer sh.removeWaiter(w)
	defer turnOf(ctx).pause()()
	if opt.Within > 0 {
		limit := time.NewTimer(opt.Within)
		defer limit.Stop()
		select {
		case <-w.ready:
		case <-limit.C:
		case <-ctx.Done():
		case <-sh.sup.closed:
			return nil, ErrShutdown
		}
	} else {
		select {
		case <-w.ready:
		case <-ctx.Done():
		case <-sh.sup.closed:
			return nil, ErrShutdown
		}
	}
	if w.failure(sh) != nil {
		return nil, w.err
	}
	cause := context.Cause(ctx)
	if opt.StopRest && cause == nil {
		if err := sh.stopRest(ctx, keys); err != nil {
			return nil, err
		}
	}
	if cause != nil {
		return sh.snapshot(ctx, keys), cause
	}
	return sh.infos(ctx, keys, sh.owner.Await)
}

// snapshot returns how runs stand for somebody whose context has ended, or nil if that is not to be had at once: a journal may hang.
func (sh *treeShell) snapshot(ctx context.Context, keys []session.Key) []RunInfo {
	soon, cancel := context.WithTimeout(context.WithoutCancel(ctx), 50*time.Millisecond)
	defer cancel()
	infos, err := sh.infos(soon, keys, sh.owner.Await)
	if err != nil {
		return nil
	}
	return infos
}

func (w *waiter) failure(sh *treeShell) error {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return w.err
}

// An askFunc is a way of asking the owner: its Do, or Await for somebody who waits anyway.
type askFunc func(ctx context.Context, cmd tree.Command, read func(*tree.Tree, tree.Reply)) error

// registerWaiter lets a waiter know of every end from the moment at which the tree was counted.
func (sh *treeShell) registerWaiter(ctx context.Context, w *waiter, keys []session.Key) error {
	var missing session.Key
	err := sh.owner.Await(ctx, nil, func(t *tree.Tree, _ tree.Reply) {
		for _, k := range keys {
			if t.Run(k) == nil {
				missing = k
				return
			}
		}
		sh.addWaiter(w, t)
	})
	if err == nil && missing.IsValid() {
		err = fmt.Errorf("%w: waiting for %q", ErrNotFound, missing)
	}
	if err != nil {
		sh.removeWaiter(w)
	}
	return err
}

// addWaiter counts a waiter and lets it know of what follows. It is called by the owner, so that nothing is missed in between.
func (sh *treeShell) addWaiter(w *waiter, t *tree.Tree) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.waiters[w] = struct{}{}
	for k := range w.members {
		sh.waitersByRun[k] = append(sh.waitersByRun[k], w)
	}
	w.recount(t)
}

func (sh *treeShell) removeWaiter(w *waiter) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	delete(sh.waiters, w)
	for k := range w.members {
		rest := slices.DeleteFunc(sh.waitersByRun[k], func(x *waiter) bool { return x == w })
		if len(rest) == 0 {
			delete(sh.waitersByRun, k)
		} else {
			sh.waitersByRun[k] = rest
		}
	}
}

// stopRest stops those that have not ended and waits until they have.
func (sh *treeShell) stopRest(ctx context.Context, keys []session.Key) error {
	infos, err := sh.infos(ctx, keys, sh.owner.Await)
	if err != nil {
		return err
	}
	var rest []session.Key
	for _, info := range infos {
		if info.Status.Terminal() {
			continue
		}
		rest = append(rest, info.Key)
		cmd := &tree.Stop{Run: info.Key, Reason: "no longer needed", Rand: sh.sup.rand()}
		if err := sh.owner.Await(ctx, cmd, nil); err != nil {
			return err
		}
	}
	if len(rest) == 0 {
		return nil
	}
	_, err = sh.wait(ctx, rest, JoinOptions{})
	return err
}

// infos returns how runs stand; do is how the owner is asked.
func (sh *treeShell) infos(ctx context.Context, keys []session.Key, do askFunc) (infos []RunInfo, err error) {
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
func (sh *treeShell) stop(ctx context.Context, key session.Key, reason string) error {
	w := &waiter{members: make(map[session.Key]bool), ready: make(chan struct{})}
	cmd := &tree.Stop{Run: key, Reason: reason, Rand: sh.sup.rand()}
	err := sh.owner.Do(ctx, cmd, func(t *tree.Tree, r tree.Reply) {
		if r.Run.IsRoot() {
			w.root = true
		} else {
			w.members[key] = false
		}
		sh.addWaiter(w, t)
	})
	if err != nil {
		return err
	}
	defer sh.removeWaiter(w)
	select {
	case <-w.ready:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-sh.sup.closed:
		return ErrShutdown
	}
	if err := w.failure(sh); err != nil {
		return err
	}
	return sh.stillRunning(ctx, key)
}

// stillRunning names the turns of a session and of everything below it that were cancelled and have not returned within the grace
// period. Those that the tree has waited for have had it; those of a tree that was lost may have not.
func (sh *treeShell) stillRunning(ctx context.Context, key session.Key) error {
	var left []session.Key
	for _, rt := range sh.cancelledBelow(key) {
		if !sh.waitReturned(ctx, rt) {
			left = append(left, rt.key)
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
func (sh *treeShell) cancelledBelow(key session.Key) (list []*runningTurn) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for _, rt := range sh.turns {
		for r := rt.id.run; r != nil && !rt.hasReturned && !rt.cancelledAt.IsZero(); r = r.Parent {
			if r.Key() == key {
				list = append(list, rt)
				break
			}
		}
	}
	return list
}

// waitReturned waits until a turn has returned, its grace period is over, or ctx ends.
func (sh *treeShell) waitReturned(ctx context.Context, rt *runningTurn) bool {
	sh.mu.Lock()
	done, left := rt.whenReturned(), sh.sup.cfg.Grace-time.Since(rt.cancelledAt)
	sh.mu.Unlock()
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
func (sh *treeShell) Publish(t *tree.Tree, facts []tree.Fact) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for i := range facts {
		f := &facts[i]
		switch f.Kind {
		case tree.Opened:
			for w := range sh.waiters {
				w.recount(t)
			}
		case tree.RunEnded:
			for _, w := range sh.waitersByRun[f.Run] {
				w.runEnded(f.Run, f.State)
			}
		case tree.Recovered:
			for w := range sh.waiters {
				if w.root {
					w.finish(nil)
				}
			}
		default: // nobody waits for the others
		}
		if len(sh.watchers) > 0 {
			if e, ok := eventOf(t, f); ok {
				for x := range sh.watchers {
					x.add(e)
				}
			}
		}
	}
}

// Stalled implements owner.Executor.
func (sh *treeShell) Stalled(err error) {
	e := TreeEvent{Kind: EventStalled, Time: time.Now(), Session: sh.owner.Root()}
	if err != nil {
		e.Error = err.Error()
		sh.sup.log.Error("offshoot: the journal fails", "root", sh.owner.Root().String(), "error", e.Error)
	} else {
		sh.sup.log.Info("offshoot: the journal is back", "root", sh.owner.Root().String())
	}
	sh.notifyWatchers(e)
}

// Lost implements owner.Executor.
func (sh *treeShell) Lost(err error, conflict bool) {
	sh.mu.Lock()
	for _, rt := range sh.turns {
		if rt.cancelledAt.IsZero() {
			rt.cancelledAt = time.Now()
		}
		rt.cancel(ErrUnconfirmed)
	}
	for _, p := range sh.senders {
		p.queue = nil
	}
	if conflict {
		for w := range sh.waiters {
			w.finish(fmt.Errorf("%w: %q: %w", ErrUnconfirmed, sh.owner.Root(), err))
		}
	}
	sh.mu.Unlock()
	sh.sup.log.Error("offshoot: the tree was lost", "root", sh.owner.Root().String(), "conflict", conflict, "error", err.Error())
	sh.notifyWatchers(TreeEvent{Kind: EventLost, Time: time.Now(), Session: sh.owner.Root(), Error: err.Error()})
}
