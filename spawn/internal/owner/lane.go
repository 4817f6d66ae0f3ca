package owner

import (
	"sync"

	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
)

// A Lane caps the turns of sub-agents that are under way. It is a queue of tickets, not a semaphore, so that a run that waits
// costs no goroutine: first come first served within a requester, round robin over requesters. Turns of top-level sessions
// take no slot; like all others they wait until the lane is opened. Losing everything in it is harmless: an owner that opens a
// tree asks again.
type Lane struct {
	mu     sync.Mutex
	limit  int
	used   int
	open   bool
	queues map[*tree.Run]*queue // by requester
	ring   *queue               // the requester whose turn it is, of those with tickets
	roots  []*ticket            // of top-level sessions, before the lane is open
}

// NewLane returns a closed lane of so many slots.
func NewLane(limit int) *Lane {
	return &Lane{limit: limit, queues: make(map[*tree.Run]*queue)}
}

// queue holds the tickets of one requester, oldest first.
type queue struct {
	requester   *tree.Run
	first, last *ticket
	prev, next  *queue
}

// ticket is a place in a queue: of a run of an owner, or of somebody who waits on a channel.
type ticket struct {
	owner     *Owner
	gen       uint64
	run       *tree.Run
	wait      chan struct{}
	granted   bool // it has its slot
	abandoned bool // nobody waits for it any more
	next      *ticket
}

// grant hands the slot over. It is called without the lock, once.
func (t *ticket) grant() {
	if t.wait != nil {
		close(t.wait)
		return
	}
	t.owner.granted(t.gen, t.run)
}

// ask asks for a slot on behalf of a run of an owner. If it returns true the run has it, else the owner is told when it has.
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

// Wait asks for a slot and waits for it. It returns false, and holds nothing, if done is closed first.
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
	if taken { // it came at the same moment
		l.Free()
	}
	return false
}

// Free gives a slot back.
func (l *Lane) Free() {
	l.mu.Lock()
	l.used--
	granted := l.serve(nil)
	l.mu.Unlock()
	for _, t := range granted {
		t.grant()
	}
}

// Open lets turns start.
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

// Close lets no further turn start.
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

// serve takes the tickets that can be granted now. A ticket that nobody waits for any more is passed over.
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

func (l *Lane) push(requester *tree.Run, t *ticket) {
	q := l.queues[requester]
	if q == nil {
		q = &queue{requester: requester}
		l.queues[requester] = q
		if l.ring == nil {
			q.prev, q.next = q, q
			l.ring = q
		} else { // at the end of the round
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

// pop takes the first ticket of the requester whose turn it is and moves on to the next requester.
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
