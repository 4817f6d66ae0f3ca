package owner

import (
	"sync"

	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
)

// A Lane limits how many turns of sub-agents run at the same time, over all trees of a supervisor.
//
// A run that wants a turn queues a ticket. The lane grants tickets in the order in which they came
// within one requester, and round robin over the requesters. It is a queue of tickets and not a
// semaphore, so that a waiting run costs no goroutine. Turns of top-level sessions take no slot;
// like all others they wait until the lane is opened.
//
// The lane keeps nothing that must survive: an owner that opens a tree asks again. The methods of
// a Lane may be called concurrently. The zero value is not usable; see [NewLane].
type Lane struct {
	mu     sync.Mutex
	limit  int
	used   int // slots that are taken
	open   bool
	queues map[*tree.Run]*queue // those with tickets, by requester
	ring   *queue               // the requester to be served next, of those with tickets
	roots  []*ticket            // of top-level sessions, until the lane opens
}

// NewLane returns a lane with limit slots. It is closed: it grants nothing before Open.
func NewLane(limit int) *Lane {
	return &Lane{limit: limit, queues: make(map[*tree.Run]*queue)}
}

// A queue holds the tickets of one requester, oldest first. The queues with tickets form a ring.
type queue struct {
	requester   *tree.Run
	first, last *ticket
	prev, next  *queue
}

// A ticket is a place in a queue. It belongs to a run of an owner, or to a caller of Wait.
type ticket struct {
	owner     *Owner
	gen       uint64        // the incarnation of the owner that asked
	run       *tree.Run     // nil with wait
	wait      chan struct{} // closed by the grant; nil: the owner is told
	granted   bool          // the ticket has its slot
	abandoned bool          // the caller of Wait has left
	next      *ticket
}

// grant hands the slot over to the holder of the ticket. The lane calls it once and without its
// lock, because the owner may call the lane.
func (t *ticket) grant() {
	if t.wait != nil {
		close(t.wait)
		return
	}
	t.owner.granted(t.gen, t.run)
}

// ask asks for a slot on behalf of a run of an owner. It returns true if the run has the slot now.
// Otherwise the lane calls the owner's granted method when the run has it.
func (l *Lane) ask(o *Owner, r *tree.Run) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.IsRoot() {
		if !l.open {
			l.roots = append(l.roots, &ticket{owner: o, gen: o.gen, run: r})
		}
		return l.open
	}
	if l.open && l.used < l.limit && l.ring == nil {
		l.used++
		return true
	}
	l.push(r.Parent, &ticket{owner: o, gen: o.gen, run: r})
	return false
}

// Wait asks for a slot for a turn of r and waits for it. It returns true with the slot, which the
// caller gives back with Free, or false without one if done is closed first.
func (l *Lane) Wait(done <-chan struct{}, r *tree.Run) bool {
	granted := make(chan struct{})
	l.mu.Lock()
	if l.open && l.used < l.limit && l.ring == nil {
		l.used++
		l.mu.Unlock()
		return true
	}
	mine := &ticket{wait: granted}
	l.push(r.Parent, mine)
	l.mu.Unlock()
	select {
	case <-granted:
		return true
	case <-done:
	}
	l.mu.Lock()
	mine.abandoned = true
	taken := mine.granted
	l.mu.Unlock()
	if taken { // the grant came at the same moment as done
		l.Free()
	}
	return false
}

// Free gives one slot back and grants it to the ticket that is next.
func (l *Lane) Free() {
	l.mu.Lock()
	l.used--
	granted := l.serve(nil)
	l.mu.Unlock()
	for _, t := range granted {
		t.grant()
	}
}

// Open opens the lane and grants what can be granted.
func (l *Lane) Open() {
	l.mu.Lock()
	l.open = true
	granted := l.serve(l.roots)
	l.roots = nil
	l.mu.Unlock()
	for _, t := range granted {
		t.grant()
	}
}

// Close closes the lane: no further ticket is granted. Slots that are taken stay taken.
func (l *Lane) Close() {
	l.mu.Lock()
	l.open = false
	l.mu.Unlock()
}

// Used returns how many slots are taken.
func (l *Lane) Used() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.used
}

// serve takes the tickets that can be granted now from the ring, marks them, and appends them to
// granted. It skips abandoned tickets. The caller holds the lock and grants the tickets after it.
func (l *Lane) serve(granted []*ticket) []*ticket {
	for l.open && l.used < l.limit && l.ring != nil {
		if t := l.pop(); !t.abandoned {
			l.used++
			t.granted = true
			granted = append(granted, t)
		}
	}
	return granted
}

// push appends a ticket to the queue of its requester. A requester without tickets so far is served
// last of the present round.
func (l *Lane) push(requester *tree.Run, t *ticket) {
	q := l.queues[requester]
	if q == nil {
		q = &queue{requester: requester}
		l.queues[requester] = q
		if l.ring == nil {
			q.prev, q.next = q, q
			l.ring = q
		} else {
			q.prev, q.next = l.ring.prev, l.ring
			q.prev.next, q.next.prev = q, q
		}
	}
	if q.last == nil {
		q.first = t
	} else {
		q.last.next = t
	}
	q.last = t
}

// pop takes the first ticket of the requester that is next and moves the ring on by one requester.
func (l *Lane) pop() *ticket {
	q := l.ring
	t := q.first
	if q.first = t.next; q.first != nil {
		l.ring = q.next
		return t
	}
	delete(l.queues, q.requester)
	if q.next == q {
		l.ring = nil
	} else {
		q.prev.next, q.next.prev = q.next, q.prev
		l.ring = q.next
	}
	return t
}
