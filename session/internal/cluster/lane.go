package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/offshoot-sdk/offshoot/internal/contain"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/internal/lease"
)

// A lane is the [session.Lane] of a process. What it has is what that process wants; the service
// brings the document of the lane to that.
type lane struct {
	owners *Owners
	name   string
	user   session.LaneUser

	mu     sync.Mutex
	limit  int
	want   []lease.Want     // in the order of asking
	pauses map[string]pause // not at the server yet, by provider
	dirty  bool             // the document may not have what is wanted

	// The service alone uses these.
	version int64                // of the document that was seen last
	synced  time.Time            // when what is wanted was brought to the server last
	told    map[string]time.Time // the ends of pauses that the user knows
}

// A pause is what Lane.Pause asks for.
type pause struct {
	d     time.Duration
	asked time.Time // by the clock of the process
}

// left returns how much of p is left.
func (p pause) left(now time.Time) time.Duration { return p.d - now.Sub(p.asked) }

// change changes what the process wants, and has the service see it.
func (l *lane) change(f func() (changed bool)) {
	l.mu.Lock()
	changed := f()
	l.dirty = l.dirty || changed
	l.mu.Unlock()
	if !changed {
		return
	}
	l.owners.mu.Lock()
	defer l.owners.mu.Unlock()
	if l.owners.serving != nil {
		signal(l.owners.serving.lane)
	}
}

func (l *lane) indexOf(id string) int {
	return slices.IndexFunc(l.want, func(w lease.Want) bool { return w.ID == id })
}

// Ask implements session.Lane.
func (l *lane) Ask(t session.Ticket) error {
	if err := t.Validate(l.name); err != nil {
		return err
	}
	l.change(func() bool {
		if l.indexOf(t.ID) >= 0 {
			return false
		}
		l.want = append(l.want, lease.Want{Ticket: t})
		return true
	})
	return nil
}

// Free implements session.Lane.
func (l *lane) Free(id string) {
	l.change(func() bool {
		i := l.indexOf(id)
		if i >= 0 {
			l.want = slices.Delete(l.want, i, i+1)
		}
		return i >= 0
	})
}

// Pause implements session.Lane.
func (l *lane) Pause(provider string, d time.Duration) {
	l.change(func() bool {
		now := time.Now()
		if d <= 0 || l.pauses[provider].left(now) >= d {
			return false
		}
		l.pauses[provider] = pause{d, now}
		return true
	})
}

// SetLimit implements session.Lane.
func (l *lane) SetLimit(limit int) {
	l.change(func() bool {
		changed := l.limit != limit
		l.limit = limit
		return changed
	})
}

// lanesByName returns the lanes of the process.
func (o *Owners) lanesByName() (lanes []*lane) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, l := range o.lanes {
		lanes = append(lanes, l)
	}
	slices.SortFunc(lanes, func(a, b *lane) int { return strings.Compare(a.name, b.name) })
	return lanes
}

// tendLanes brings the documents of the lanes to what the process wants where they may not have it,
// and tells the users of lanes what others have changed.
func (s *service) tendLanes(ctx context.Context) {
	lanes := s.lanesByName()
	if len(lanes) == 0 {
		return
	}
	begun := time.Now()
	s.noteWork(ctx, workLanes, begun, s.tend(ctx, lanes))
}

// tend is tendLanes for these. After an error the next look tries again.
func (s *service) tend(ctx context.Context, lanes []*lane) error {
	known := make(map[string]int64)
	var errs []error
	for _, l := range lanes {
		if !l.isDue(s.look()) {
			known[l.name] = l.version
			continue
		}
		if err := l.sync(ctx); errors.Is(err, ErrLapsed) {
			signal(s.lapsed)
		} else if err != nil {
			errs = append(errs, fmt.Errorf("lane %q: %w", l.name, err))
		}
	}
	if len(known) == 0 {
		return errors.Join(errs...)
	}
	changed, now, err := s.ledger.Lanes(ctx, known)
	for _, l := range lanes {
		if view, ok := changed[l.name]; ok && err == nil {
			l.see(view, now)
		}
	}
	return errors.Join(append(errs, err)...)
}

// isDue reports whether the document is to be looked at under its lock: because the process wants
// something else, or because a ticket has waited for so long that the lease of a process which has
// a slot may have lapsed.
func (l *lane) isDue(look time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	waits := slices.ContainsFunc(l.want, func(w lease.Want) bool { return !w.Held })
	return l.dirty || waits && time.Since(l.synced) >= look
}

// sync brings the document to what the process wants.
func (l *lane) sync(ctx context.Context) error {
	l.mu.Lock()
	limit, want := l.limit, slices.Clone(l.want)
	pauses := maps.Clone(l.pauses)
	l.dirty = false
	l.mu.Unlock()
	o := l.owners
	var paused bool
	var others []session.Process // whose tickets have got a slot
	view, now, changed, err := o.ledger.ChangeLane(ctx, o.self, l.name,
		func(doc *lease.Lane, now time.Time, alive func(session.Process) bool) (changed bool) {
			paused = false
			for provider, p := range pauses {
				paused = doc.Pause(provider, now, now.Add(p.left(time.Now()))) || paused
			}
			_, others, changed = doc.Sync(o.self, limit, want, now, alive)
			return changed || paused
		})
	l.mu.Lock()
	if err != nil {
		l.dirty = true
		l.mu.Unlock()
		return err
	}
	for provider, p := range pauses {
		if l.pauses[provider] == p {
			delete(l.pauses, provider)
		}
	}
	l.mu.Unlock()
	l.synced = time.Now()
	if changed && paused {
		o.hub.tell(laneChanged(l.name))
	}
	for _, p := range others {
		if changed && p != o.self {
			o.hub.tell(granted(p.Incarnation))
		}
	}
	l.see(view, now)
	return nil
}

// see tells the user what is new in a document that was read at a time of the server's clock.
func (l *lane) see(view LaneView, now time.Time) {
	l.version = view.Version
	var granted []string
	l.mu.Lock()
	for _, t := range view.Doc.Tickets {
		if !t.Has || t.Owner != l.owners.self {
			continue
		}
		if i := l.indexOf(t.ID); i >= 0 && !l.want[i].Held {
			l.want[i].Held = true
			granted = append(granted, t.ID)
		}
	}
	l.mu.Unlock()
	for _, id := range granted {
		if told := l.user.Granted; told != nil {
			contain.Log(l.owners.name, "LaneUser.Granted", func() { told(id) })
		}
	}
	for provider, until := range view.Doc.Pauses {
		told := l.user.Paused
		if told != nil && until.After(now) && !l.told[provider].Equal(until) {
			left := until.Sub(now)
			contain.Log(l.owners.name, "LaneUser.Paused", func() { told(provider, left) })
		}
		l.told[provider] = until
	}
}
