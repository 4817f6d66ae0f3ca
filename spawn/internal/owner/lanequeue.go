package owner

import "github.com/offshoot-sdk/offshoot/spawn/internal/tree"

// A ring is the ticketQueue of sub-agents: one queue for each requester, served in turn.
type ring struct {
	queues map[*tree.Run]*queue // those with tickets, by requester
	next   *queue               // the requester to be served next, of those with tickets
}

// A queue holds the tickets of one requester, oldest first. The queues with tickets form a ring.
type queue struct {
	requester  *tree.Run
	tickets    fifo
	prev, next *queue
}

// A fifo is a list of tickets, oldest first.
type fifo struct{ first, last *ticket }

func (f *fifo) push(t *ticket) {
	if f.last == nil {
		f.first = t
	} else {
		f.last.next = t
	}
	f.last = t
}

// pop takes the first ticket, of which there must be one.
func (f *fifo) pop() *ticket {
	t := f.first
	if f.first = t.next; f.first == nil {
		f.last = nil
	}
	t.next = nil
	return t
}

// dropStarts marks the tickets for turns that would start as abandoned.
func (f *fifo) dropStarts() {
	for t := f.first; t != nil; t = t.next {
		t.abandoned = t.abandoned || t.wait == nil
	}
}

// push implements ticketQueue: it appends a ticket to the queue of the requester of r. A requester
// without tickets so far is served last of the present round.
func (l *ring) push(r *tree.Run, t *ticket) {
	q := l.queues[r.Parent]
	if q == nil {
		q = &queue{requester: r.Parent}
		l.queues[r.Parent] = q
		if l.next == nil {
			q.prev, q.next = q, q
			l.next = q
		} else {
			q.prev, q.next = l.next.prev, l.next
			q.prev.next, q.next.prev = q, q
		}
	}
	q.tickets.push(t)
}

// pop implements ticketQueue: it takes the first ticket of the requester that is next and moves the
// ring on by one requester.
func (l *ring) pop() *ticket {
	q := l.next
	if q == nil {
		return nil
	}
	t := q.tickets.pop()
	if q.tickets.first != nil {
		l.next = q.next
		return t
	}
	delete(l.queues, q.requester)
	if q.next == q {
		l.next = nil
	} else {
		q.prev.next, q.next.prev = q.next, q.prev
		l.next = q.next
	}
	return t
}

func (l *ring) empty() bool { return l.next == nil }

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
	tickets [ticketClasses]fifo
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
	c.tickets[t.class].push(t)
}

// pop implements ticketQueue.
func (c *classes) pop() *ticket {
	for i := range c.tickets {
		if c.tickets[i].first == nil {
			continue
		}
		t := c.tickets[i].pop()
		if c.waiting[t.owner] == t {
			delete(c.waiting, t.owner)
		}
		return t
	}
	return nil
}

func (c *classes) empty() bool {
	for i := range c.tickets {
		if c.tickets[i].first != nil {
			return false
		}
	}
	return true
}

func (c *classes) dropStarts() {
	for i := range c.tickets {
		c.tickets[i].dropStarts()
	}
	clear(c.waiting)
}
