package sessiontest

import (
	"slices"
	"time"

	"github.com/offshoot-sdk/offshoot/internal/contain"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/internal/lease"
)

// A clusterLane is the session.Lane of a process. What it has is what that process wants; the
// service brings the document of the lane to that.
type clusterLane struct {
	m     *member
	name  string
	doc   *lease.Lane
	user  session.LaneUser
	limit int

	want   []lease.Want             // in the order of asking
	pauses map[string]time.Duration // not at the engine yet
	asked  map[string]time.Time     // when these were asked for, by the clock of the process
	told   map[string]time.Time     // the ends of pauses that the user knows
}

// Lane implements session.Owners.
func (m *member) Lane(name string, limit int, u session.LaneUser) session.Lane {
	c := m.cluster
	c.mu.Lock()
	defer c.mu.Unlock()
	if l := m.lanes[name]; l != nil {
		return l
	}
	if c.lanes[name] == nil {
		c.lanes[name] = new(lease.Lane)
	}
	l := &clusterLane{
		m: m, name: name, doc: c.lanes[name], user: u, limit: limit,
		asked: make(map[string]time.Time), told: make(map[string]time.Time),
		pauses: make(map[string]time.Duration),
	}
	m.lanes[name] = l
	return l
}

// change changes what the process wants, and has the service see it.
func (l *clusterLane) change(f func()) {
	l.m.cluster.mu.Lock()
	defer l.m.cluster.mu.Unlock()
	f()
	l.m.cluster.broadcast()
}

func (l *clusterLane) indexOf(id string) int {
	return slices.IndexFunc(l.want, func(w lease.Want) bool { return w.ID == id })
}

// Ask implements session.Lane.
func (l *clusterLane) Ask(t session.Ticket) error {
	if err := t.Validate(l.name); err != nil {
		return err
	}
	l.change(func() {
		if l.indexOf(t.ID) < 0 {
			l.want = append(l.want, lease.Want{Ticket: t})
		}
	})
	return nil
}

// Free implements session.Lane.
func (l *clusterLane) Free(id string) {
	l.change(func() {
		if i := l.indexOf(id); i >= 0 {
			l.want = slices.Delete(l.want, i, i+1)
		}
	})
}

// Pause implements session.Lane.
func (l *clusterLane) Pause(provider string, d time.Duration) {
	if d <= 0 {
		return
	}
	l.change(func() {
		now := time.Now()
		if left := l.pauses[provider] - now.Sub(l.asked[provider]); left < d {
			l.pauses[provider], l.asked[provider] = d, now
		}
	})
}

// SetLimit implements session.Lane.
func (l *clusterLane) SetLimit(limit int) { l.change(func() { l.limit = limit }) }

// sync brings the document to what the process wants. It returns what to tell the user without the
// lock, and whether the document has changed for others. The caller holds the lock.
func (l *clusterLane) sync(now time.Time) (todo []func(), changed bool) {
	c := l.m.cluster
	for provider, d := range l.pauses {
		left := d - time.Since(l.asked[provider])
		changed = l.doc.Pause(provider, now, now.Add(left)) || changed
		delete(l.pauses, provider)
	}
	alive := func(p session.Process) bool { return c.state.IsAlive(p, now) }
	has, _, other := l.doc.Sync(l.m.self, l.limit, l.want, now, alive)
	for _, id := range has {
		if w := &l.want[l.indexOf(id)]; !w.Held {
			w.Held = true
			if granted := l.user.Granted; granted != nil {
				todo = append(todo, func() {
					contain.Log("sessiontest", "LaneUser.Granted", func() { granted(id) })
				})
			}
		}
	}
	for provider, until := range l.doc.Pauses {
		if paused := l.user.Paused; paused != nil && !l.told[provider].Equal(until) {
			l.told[provider] = until
			todo = append(todo, func() {
				contain.Log("sessiontest", "LaneUser.Paused", func() { paused(provider, until.Sub(now)) })
			})
		}
	}
	return todo, changed || other
}
