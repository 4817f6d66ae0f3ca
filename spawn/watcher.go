package spawn

import (
	"context"
	"iter"
	"sync"

	"github.com/offshoot-sdk/offshoot/session"
)

// maxPendingEvents bounds the memory that a slow watcher takes. Once so many events are pending
// further deltas are dropped; other events never are.
const maxPendingEvents = 4096

// watcher collects the events of a tree for one loop over Events, or for one call of Idle.
type watcher struct {
	form   DeltaForm // of the deltas that it wants
	joined uint64    // its number among those of the Supervisor

	mu      sync.Mutex
	pending []TreeEvent
	wake    chan struct{} // has room for one: there may be pending events
}

// add appends an event and wakes the reader. It does not block.
func (w *watcher) add(e TreeEvent) {
	e, ok := e.inForm(w.form, w.joined)
	if !ok {
		return
	}
	w.mu.Lock()
	if e.Kind != EventDelta || len(w.pending) < maxPendingEvents {
		w.pending = append(w.pending, e)
	}
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// takePending returns the pending events and forgets them.
func (w *watcher) takePending() []TreeEvent {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := w.pending
	w.pending = nil
	return list
}

// notifyWatchers gives an event that no fact records to all watchers of the tree.
func (sh *treeShell) notifyWatchers(e TreeEvent) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for w := range sh.watchers {
		w.add(e)
	}
}

// watched reports whether the tree has a watcher.
func (sh *treeShell) watched() bool {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return len(sh.watchers) > 0
}

// watchesDeltas reports in which forms watchers of the tree want deltas.
func (sh *treeShell) watchesDeltas() (shown, raw bool) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for w := range sh.watchers {
		shown, raw = shown || w.form == DeltasShown, raw || w.form == DeltasRaw
	}
	return shown, raw
}

// events yields what a watcher sees until ctx ends or the loop breaks.
func (sh *treeShell) events(ctx context.Context, w *watcher) iter.Seq[TreeEvent] {
	stop := context.AfterFunc(ctx, func() { sh.unwatch(w) })
	return func(yield func(TreeEvent) bool) {
		defer stop()
		defer sh.unwatch(w)
		for {
			for _, e := range w.takePending() {
				if !yield(e) {
					return
				}
			}
			select {
			case <-w.wake:
			case <-ctx.Done():
				return
			case <-sh.sup.closed:
				return
			}
		}
	}
}

// watch returns a new watcher of a tree and the shell of the tree, which stays until unwatch.
func (s *Supervisor) watch(root session.Key, form DeltaForm) (*treeShell, *watcher) {
	w := &watcher{form: form, joined: s.joined.Add(1), wake: make(chan struct{}, 1)}
	for {
		sh := s.shellOf(root)
		sh.mu.Lock()
		sh.watchers[w] = struct{}{}
		sh.mu.Unlock()
		if !sh.owner.Retired() {
			return sh, w
		}
	}
}

func (sh *treeShell) unwatch(w *watcher) {
	sh.mu.Lock()
	delete(sh.watchers, w)
	sh.mu.Unlock()
	sh.sup.forget(sh)
}
