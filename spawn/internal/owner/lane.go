package owner

import (
	"sync"
	"time"

	"github.com/offshoot-sdk/offshoot/internal/fifo"
	"github.com/offshoot-sdk/offshoot/internal/spare"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
)

// A Lane limits how many turns run at the same time, over all trees of a supervisor. It has two
// halves with a limit each: one for the turns of sub-agents, one for those of top-level sessions.
//
// A session that wants a turn queues a ticket. Sub-agents get slots in the order in which they came
// within one requester, and round robin over the requesters. Top-level sessions, of which each has
// one turn at most, get slots in the order of their class, and within a class in the order in which
// they came: turns under way that go on after a wait, then turns that answer people, then others.
//
// A provider of models may pause, see [Lane.Pause]. Then the tickets of its sessions are put aside
// until the pause ends, and those behind them are served.
//
// A lane is a queue of tickets and not a semaphore, so that a session that waits for a slot costs
// no goroutine. It keeps nothing that must survive: an owner that opens a tree asks again. The
// methods of a Lane may be called concurrently. The zero value is not usable; see [NewLane].
type Lane struct {
	// Provider returns the provider of the model that turns of a session call first. It is pure,
	// must not call the Lane, and is set before the Lane is used. Nil: all have the provider "".
	Provider func(r *tree.Run) string

	isUsable func(*ticket) bool // the method usable; made once, as a method value is an allocation

	mu        sync.Mutex
	state     laneState
	subagents half
	sessions  half
	pauses    map[string]*pause // by provider
	timer     *time.Timer       // of the next end of a pause; nil: there was none
	// spare is the memory of tickets that were granted, which is one of 13 allocations of a child
	// that waits for a slot.
	spare spare.List[ticket]
}

// laneState says what a lane grants.
type laneState uint8

const (
	laneNew    laneState = iota // nothing: it has not been opened
	laneOpen                    // everything
	laneClosed                  // slots for turns that go on, and none for turns that would start
)

// half is one half of a lane.
type half struct {
	limit, used int // slots that there are, and that are taken
	queue       ticketQueue
	share       *share // in the slots of a cluster; nil: all slots are of this process
}

// A ticketQueue says which ticket is next. The lock of the lane guards it.
type ticketQueue interface {
	push(r *tree.Run, t *ticket)
	// pushFront puts a ticket for a turn that would start before those of its queue.
	pushFront(t *ticket)
	// pop takes the next ticket that is usable, and those before it that are not. Nil: none is.
	pop(usable func(*ticket) bool) *ticket
	dropStarts() // removes the tickets for turns that would start
}

// NewLane returns a lane with so many slots for turns of sub-agents and of top-level sessions. It
// grants nothing before Open.
func NewLane(subagents, sessions int) *Lane {
	l := &Lane{
		subagents: half{limit: subagents, queue: &ring{queues: make(map[*tree.Run]*queue)}},
		sessions:  half{limit: sessions, queue: &classes{waiting: make(map[*Owner]*ticket)}},
	}
	l.isUsable = l.usable
	return l
}

// A ticket is a place in a queue. It belongs to a session of an owner, or to a caller of Wait.
type ticket struct {
	owner     *Owner
	gen       uint64 // the incarnation of the owner that asked
	run       *tree.Run
	class     ticketClass   // of a top-level session
	wait      chan struct{} // closed by the grant; nil: the owner is told
	granted   bool          // the ticket has its slot
	abandoned bool          // nothing waits for the ticket any more
	asked     uint64        // the number under which the cluster was asked

	fifo.Link[ticket]
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

// of returns the half for the turns of a session.
func (l *Lane) of(r *tree.Run) *half {
	if r.IsRoot() {
		return &l.sessions
	}
	return &l.subagents
}

// free reports whether a slot can be taken at once. Tickets that wait beside a free slot are not
// usable, because every change of the lane serves those that are.
func (h *half) free() bool { return h.used < h.limit }

// ask asks for a slot on behalf of a session of an owner. It returns true if the session has the
// slot now. Otherwise the lane calls the owner's granted method when the session has it. A
// top-level session that waits already keeps its place, unless its class is a better one now.
func (l *Lane) ask(o *Owner, r *tree.Run) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.of(r)
	switch {
	case l.state == laneClosed, h.share.asks(l, o, r):
		return false
	case l.state == laneOpen && h.free() && l.pauseOf(r) == nil:
		h.used++
		if h.share != nil {
			h.share.ask(l, &ticket{owner: o, gen: o.gen, run: r, class: classOf(r), granted: true})
		}
		return h.share == nil
	}
	t := l.spare.Take()
	t.owner, t.gen, t.run, t.class = o, o.gen, r, classOf(r)
	if l.state == laneOpen && l.pauseOf(r) == nil {
		if spare := h.share.spare(r); spare != nil {
			h.queue.pushFront(spare)
			t.granted = true
			h.share.ask(l, t)
			return false
		}
	}
	h.queue.push(r, t)
	return false
}

// Wait asks for a slot with which a turn of r goes on, and waits for it. It returns true with the
// slot, which the caller gives back with Free, or false without one if done is closed first.
func (l *Lane) Wait(done <-chan struct{}, r *tree.Run) bool {
	granted := make(chan struct{})
	l.mu.Lock()
	h := l.of(r)
	mine := &ticket{wait: granted, run: r, class: classUnderWay}
	switch {
	case l.state == laneNew || !h.free():
		h.queue.push(r, mine)
	case h.share == nil:
		h.used++
		l.mu.Unlock()
		return true
	default:
		h.used++
		mine.granted = true
		h.share.ask(l, mine)
	}
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
		l.Free(r)
	}
	return false
}

// Free gives one slot of a turn of r back and grants it to the ticket that is next.
func (l *Lane) Free(r *tree.Run) {
	l.mu.Lock()
	h := l.of(r)
	h.used--
	h.share.free(r.Key())
	var room [1]ticket // one slot is free, for which there is mostly one ticket
	granted := l.serve(h, room[:0])
	l.mu.Unlock()
	for i := range granted {
		granted[i].grant()
	}
}

// Open opens the lane and grants what can be granted.
func (l *Lane) Open() {
	l.mu.Lock()
	l.state = laneOpen
	granted := l.serve(&l.subagents, l.serve(&l.sessions, nil))
	l.mu.Unlock()
	for i := range granted {
		granted[i].grant()
	}
}

// Close closes the lane: no further turn starts. Turns under way keep their slots, and get one
// again after a wait.
func (l *Lane) Close() {
	l.mu.Lock()
	l.state = laneClosed
	for _, h := range [...]*half{&l.subagents, &l.sessions} {
		h.queue.dropStarts()
		h.used -= h.share.dropStarts()
	}
	l.setTimer(time.Time{})
	granted := l.serve(&l.subagents, l.serve(&l.sessions, nil))
	l.mu.Unlock()
	for i := range granted {
		granted[i].grant()
	}
}

// SetLimits has the lane have so many slots from now on. With more of them, what waits is granted.
// With fewer, no turn loses its slot: none is granted before so many are given back.
func (l *Lane) SetLimits(subagents, sessions int) {
	l.mu.Lock()
	l.subagents.limit, l.sessions.limit = subagents, sessions
	for _, h := range [...]*half{&l.subagents, &l.sessions} {
		if h.share != nil {
			h.share.lane.SetLimit(h.limit)
		}
	}
	granted := l.serve(&l.subagents, l.serve(&l.sessions, nil))
	l.mu.Unlock()
	for i := range granted {
		granted[i].grant()
	}
}

// Used returns how many slots are taken in both halves.
func (l *Lane) Used() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.subagents.used + l.sessions.used
}

// serve takes the tickets that can be granted now from the queue of a half, marks them, and appends
// them to granted, or asks the cluster for each. It drops abandoned tickets. The caller holds the
// lock and grants the tickets after it.
func (l *Lane) serve(h *half, granted []ticket) []ticket {
	for l.state != laneNew && h.used < h.limit {
		t := h.queue.pop(l.isUsable)
		if t == nil {
			break
		}
		h.used++
		if t.granted = true; h.share != nil {
			h.share.ask(l, t)
			continue
		}
		granted = append(granted, *t)
		if t.wait == nil { // else a call of Wait has it
			*t = ticket{} // or it would keep its tree
			l.spare.Keep(t)
		}
	}
	return granted
}
