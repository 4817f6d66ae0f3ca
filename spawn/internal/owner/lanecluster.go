package owner

import (
	"slices"
	"strconv"
	"time"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
)

// The names of the lanes of a cluster: one for the turns of sub-agents, one for those of top-level
// sessions.
const (
	laneOfSubagents = "offshoot.subagents"
	laneOfSessions  = "offshoot.sessions"
)

// A share is the part of one process in a half of a lane whose slots all processes of a cluster
// share. A ticket that the half has granted has a slot here, and waits in the lane of the cluster
// for one there. So the queue of the half says which of its sessions are asked for, and the lane of
// the cluster which of those of all processes come next. The lock of the Lane guards it.
type share struct {
	lane   session.Lane
	prefix string // of the ids of tickets; no other process has it
	n      uint64 // tickets so far
	asked  map[string]*ticket
	// starts are the ids of those of asked with which a turn would start, by session.
	starts map[session.Key]string
	// held are the ids of all that has a slot here and was not freed, by session, oldest first.
	held map[session.Key][]string
}

// Share has the slots of both halves be those of all processes of a cluster, by the lanes that take
// returns. No other process has the name. Share is called before Open, and once.
func (l *Lane) Share(
	name string, take func(lane string, limit int, u session.LaneUser) session.Lane,
) {
	halves := map[string]*half{laneOfSubagents: &l.subagents, laneOfSessions: &l.sessions}
	for lane, h := range halves {
		s := &share{
			prefix: name + "/", asked: make(map[string]*ticket),
			starts: make(map[session.Key]string), held: make(map[session.Key][]string),
		}
		s.lane = take(lane, h.limit, session.LaneUser{
			Granted: func(id string) { l.grantShared(s, id) },
			Paused:  l.pausedElsewhere,
		})
		l.mu.Lock()
		h.share = s
		l.mu.Unlock()
	}
}

// ask asks the cluster for a slot for a ticket that has one here. The caller holds the lock.
func (s *share) ask(l *Lane, t *ticket) {
	s.n++
	id, key := s.prefix+strconv.FormatUint(s.n, 10), t.run.Key()
	s.asked[id], t.asked = t, s.n
	s.held[key] = append(s.held[key], id)
	x := session.Ticket{ID: id}
	switch {
	case t.run.IsRoot():
		x.Class = uint8(t.class)
	default:
		x.Requester = t.run.Spec.Parent.String()
	}
	if t.wait == nil {
		s.starts[key] = id
		if l.Provider != nil {
			x.Provider = l.Provider(t.run)
		}
	}
	if s.lane.Ask(x) != nil { // then the pauses of that provider are those of this process alone
		x.Provider = ""
		_ = s.lane.Ask(x)
	}
}

// asks reports whether a turn of a session that would start waits for the cluster already. It keeps
// its place, unless its class is a better one now. The caller holds the lock.
func (s *share) asks(l *Lane, o *Owner, r *tree.Run) bool {
	if s == nil {
		return false
	}
	id := s.starts[r.Key()]
	t := s.asked[id]
	if t == nil || t.owner != o {
		return false
	}
	t.gen, t.run = o.gen, r
	if class := classOf(r); r.IsRoot() && class < t.class {
		s.drop(id, r.Key())
		t.class = class
		s.ask(l, t)
	}
	return true
}

// spare returns a ticket of a sub-agent that gives its place up for r, or nil: the newest one of
// the requester that waits for the cluster with the most, if the requester of r waits there with
// none. So the requester that came first does not have all places. The caller holds the lock, and
// queues the ticket again.
func (s *share) spare(r *tree.Run) *ticket {
	if s == nil || r.IsRoot() {
		return nil
	}
	waiting := make(map[session.Key]int)
	for k := range s.starts {
		waiting[s.asked[s.starts[k]].run.Spec.Parent]++
	}
	if waiting[r.Spec.Parent] > 0 {
		return nil
	}
	var spare *ticket
	most := 1
	for _, id := range s.starts {
		t := s.asked[id]
		n := waiting[t.run.Spec.Parent]
		if n > most || n == most && spare != nil && t.asked > spare.asked {
			spare, most = t, n
		}
	}
	if spare != nil {
		k := spare.run.Key()
		s.drop(s.starts[k], k)
		spare.granted = false
	}
	return spare
}

// free gives the oldest slot of a session back, or its place. The caller holds the lock.
func (s *share) free(k session.Key) {
	if s == nil || len(s.held[k]) == 0 {
		return
	}
	s.drop(s.held[k][0], k)
}

// drop gives a slot of a session back, or its place. The caller holds the lock.
func (s *share) drop(id string, k session.Key) {
	s.held[k] = slices.DeleteFunc(s.held[k], func(other string) bool { return other == id })
	if len(s.held[k]) == 0 {
		delete(s.held, k)
	}
	s.forget(id, k)
	s.lane.Free(id)
}

// forget takes a ticket out of those that wait for the cluster. The caller holds the lock.
func (s *share) forget(id string, k session.Key) {
	delete(s.asked, id)
	if s.starts[k] == id {
		delete(s.starts, k)
	}
}

// dropStarts gives up the places of turns that would start, and returns how many. The caller holds
// the lock.
func (s *share) dropStarts() (dropped int) {
	if s == nil {
		return 0
	}
	for k, id := range s.starts {
		s.drop(id, k)
		dropped++
	}
	return dropped
}

// grantShared grants the ticket for which the cluster has a slot.
func (l *Lane) grantShared(s *share, id string) {
	l.mu.Lock()
	t := s.asked[id]
	if t != nil {
		s.forget(id, t.run.Key())
	}
	l.mu.Unlock()
	if t != nil { // else it was freed meanwhile
		t.grant()
	}
}

// pausedElsewhere takes note of a pause that any process of the cluster has asked for.
func (l *Lane) pausedElsewhere(provider string, d time.Duration) {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pauseUntil(provider, now, now.Add(d))
}

// sharePause has the other processes of the cluster pause as well. The caller holds the lock.
func (l *Lane) sharePause(provider string, d time.Duration) {
	for _, h := range [...]*half{&l.subagents, &l.sessions} {
		if h.share != nil {
			h.share.lane.Pause(provider, min(d, MaxPause))
		}
	}
}
