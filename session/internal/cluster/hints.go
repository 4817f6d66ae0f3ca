package cluster

import (
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// A hint says that it is worth to look now, and not only at the next regular look. Hints may be
// lost, late or wrong: what waits for one looks at least each second.
type hint string

// A Wire brings hints from process to process. The zero Wire brings none.
type Wire struct {
	// Send sends hints to the other processes. It may also bring them back to this one.
	Send func(ctx context.Context, hints []string)
	// Listen calls take for each hint that comes, until ctx ends or hints may be lost. It calls
	// begun when it hears what is sent from then on.
	Listen func(ctx context.Context, begun func(), take func(hint string))
}

// orphaned is the hint that a tree may be without an owner.
const orphaned hint = "orphaned"

// asked is the hint that there is a request for the process with an incarnation.
func asked(incarnation uint64) hint { return hint(fmt.Sprint("asked ", incarnation)) }

// answered is the hint that a request has its answer, or one of so many others.
func answered(request string) hint { return hint(fmt.Sprint("answered ", sum(request)%64)) }

// granted is the hint that a ticket of the process with an incarnation has a slot.
func granted(incarnation uint64) hint { return hint(fmt.Sprint("granted ", incarnation)) }

// laneChanged is the hint that the lane of a name has changed for all processes, because a provider
// pauses or a process has left, or one of so many others.
func laneChanged(name string) hint { return hint(fmt.Sprint(lanePrefix, sum(name)%64)) }

const lanePrefix = "lane "

// sum returns a number for s, the same in every process.
func sum(s string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(s))
	return h.Sum64()
}

// relistenAfter is how long a process waits that cannot listen, and that cannot send.
const relistenAfter = time.Second

// A hub brings hints from process to process, and to those that wait for them in this one. Its
// methods may be called concurrently.
type hub struct {
	wire   Wire
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu      sync.Mutex
	waiting map[hint]chan struct{} // closed when the hint comes
	out     map[hint]bool          // not sent yet
	send    chan struct{}          // has an element if there are any
	service *service               // the Serve that runs; nil: none does
}

// newHub returns a hub that works until its end, and not that of ctx.
func newHub(ctx context.Context, wire Wire) *hub {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	h := &hub{
		wire: wire, cancel: cancel, waiting: make(map[hint]chan struct{}),
		out: make(map[hint]bool), send: make(chan struct{}, 1),
	}
	if wire.Send != nil {
		h.wg.Go(func() { h.sendAll(ctx) })
	}
	if wire.Listen != nil {
		h.wg.Go(func() {
			for ctx.Err() == nil {
				wire.Listen(ctx, h.wakeAll, func(text string) { h.wake(hint(text)) })
				h.wakeAll()
				wait(ctx, relistenAfter)
			}
		})
	}
	return h
}

// end ends what the hub does, and waits for that.
func (h *hub) end() {
	h.cancel()
	h.wg.Wait()
}

// wait waits for a time, or until ctx is done.
func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// on returns what is closed when a hint comes. The caller looks after the call and then waits.
func (h *hub) on(what hint) <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.waiting[what] == nil {
		h.waiting[what] = make(chan struct{})
	}
	return h.waiting[what]
}

// serve has hints that are about a service wake it. Nil ends that.
func (h *hub) serve(s *service) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.service = s
}

// wake wakes those that wait for a hint in this process.
func (h *hub) wake(what hint) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s := h.service; s != nil {
		switch {
		case what == asked(s.self.Incarnation):
			signal(s.asked)
		case what == granted(s.self.Incarnation), strings.HasPrefix(string(what), lanePrefix):
			signal(s.lane)
		}
	}
	if ch := h.waiting[what]; ch != nil {
		close(ch)
		delete(h.waiting, what)
	}
}

// wakeAll wakes all that wait in this process, because hints may have been lost.
func (h *hub) wakeAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, ch := range h.waiting {
		close(ch)
	}
	clear(h.waiting)
	if h.service != nil {
		h.service.kick()
	}
}

// signal puts an element into a channel for one, unless it has one.
func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// tell brings a hint to all processes, this one first. It does not wait.
func (h *hub) tell(what hint) {
	h.wake(what)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.out[what] = true
	signal(h.send)
}

// sendAll sends hints until ctx is done. Those that come while it sends go out together.
func (h *hub) sendAll(ctx context.Context) {
	for {
		select {
		case <-h.send:
		case <-ctx.Done():
			return
		}
		h.mu.Lock()
		var texts []string
		for _, what := range slices.Sorted(maps.Keys(h.out)) {
			texts = append(texts, string(what))
		}
		clear(h.out)
		h.mu.Unlock()
		within, cancel := context.WithTimeout(ctx, relistenAfter)
		h.wire.Send(within, texts)
		cancel()
	}
}
