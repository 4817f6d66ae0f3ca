package owner

import (
	"github.com/offshoot-sdk/offshoot/internal/fifo"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
)

// A ring is the ticketQueue of sub-agents: one queue for each requester, served in turn.
type ring struct {
	queues map[*tree.Run]*queue // those with tickets, by requester
	next   *queue               // the requester to be served next, of those with tickets
}

// A queue holds the tickets of one requester, oldest first. The queues with tickets form a ring.
type queue struct {
	requester  *tree.Run
	tickets    ticketList
	prev, next *queue
}

// A ticketList has tickets, oldest first.
type ticketList struct{ fifo.Queue[ticket, *ticket] }

// take takes tickets until one is usable, which it returns, or none is left.
func (f *ticketList) take(usable func(*ticket) bool) *ticket {
	for {
		if t := f.Pop(); t == nil || usable(t) {
			return t
		}
	}
}

// dropStarts marks the tickets for turns that would start as abandoned.
func (f *ticketList) dropStarts() {
	for t := range f.All {
		t.abandoned = t.abandoned || t.wait == nil
	}
}

// push implements ticketQueue: it appends a ticket to the queue of the requester of r. A requester
// without tickets so far is served last of the present round.
func (l *ring) push(r *tree.Run, t *ticket) { l.queueOf(r.Parent).tickets.Push(t) }

// pushFront implements ticketQueue.
func (l *ring) pushFront(t *ticket) { l.queueOf(t.run.Parent).tickets.PushFront(t) }

// queueOf returns the queue of a requester, which is new in the ring if it had no tickets.
func (l *ring) queueOf(requester *tree.Run) *queue {
	q := l.queues[requester]
	if q != nil {
		return q
	}
	q = &queue{requester: requester}
	l.queues[requester] = q
	if l.next == nil {
		q.prev, q.next = q, q
		l.next = q
	} else {
		q.prev, q.next = l.next.prev, l.next
		q.prev.next, q.next.prev = q, q
	}
	return q
}

// pop implements ticketQueue: it takes the first usable ticket of the requester that is next and
// moves the ring on by one requester.
func (l *ring) pop(usable func(*ticket) bool) *ticket {
	for l.next != nil {
		q := l.next
		t := q.tickets.take(usable)
		l.next = q.next
		if q.tickets.First() == nil {
			l.remove(q)
		}
		if t != nil {
			return t
		}
	}
	return nil
}

// remove takes a queue without tickets out of the ring.
func (l *ring) remove(q *queue) {
	delete(l.queues, q.requester)
	if q.next == q {
		l.next = nil
		return
	}
	q.prev.next, q.next.prev = q.next, q.prev
}

func (l *ring) dropStarts() {
	for _, q := range l.queues {
		q.tickets.dropStarts()
	}
}

// A ticketClass says how soon a turn of a top-level session gets a slot: the lower the sooner.
type ticketClass uint8

const (
	classUnderWay ticketClass = iota // the turn goes on after a wait
	classPeople                      // it answers a person
	classOthers                      // it reads completions
	ticketClasses
)

// classOf returns the class of the next turn of a session.
func classOf(r *tree.Run) ticketClass {
	if r.ForPeople() {
		return classPeople
	}
	return classOthers
}

// classes is the ticketQueue of top-level sessions: one queue for each class. A tree has one ticket
// at most for a turn that would start.
type classes struct {
	tickets [ticketClasses]ticketList
	waiting map[*Owner]*ticket // tickets for turns that would start, by owner
}

// push implements ticketQueue. The ticket of an owner that has one already takes its place, or is
// put into its own class if that is served sooner.
func (c *classes) push(_ *tree.Run, t *ticket) {
	if old := c.waiting[t.owner]; t.owner != nil && old != nil {
		if old.class <= t.class {
			old.gen, old.run = t.gen, t.run
			return
		}
		old.abandoned = true
	}
	if t.owner != nil {
		c.waiting[t.owner] = t
	}
	c.tickets[t.class].Push(t)
}

// pushFront implements ticketQueue.
func (c *classes) pushFront(t *ticket) { c.tickets[t.class].PushFront(t) }

// pop implements ticketQueue. A ticket that is kept for the end of a pause stays that of its owner.
func (c *classes) pop(usable func(*ticket) bool) *ticket {
	for i := range c.tickets {
		t := c.tickets[i].take(usable)
		if t == nil {
			continue
		}
		if c.waiting[t.owner] == t {
			delete(c.waiting, t.owner)
		}
		return t
	}
	return nil
}

func (c *classes) dropStarts() {
	for i := range c.tickets {
		c.tickets[i].dropStarts()
	}
	clear(c.waiting)
}
