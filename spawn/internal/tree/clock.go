package tree

import (
	"time"

	"github.com/offshoot-sdk/offshoot/internal/sat"
)

// DueNow is the Due of a tree that needs an owner now. It is a fixed instant in the past: the wall
// time of the decision would lie in the future of a later owner if the clock was ahead, and what is
// in hand would wait for it.
var DueNow = time.Unix(1, 0).UTC()

// clockSlack is how far the clock may go back without a ClockSetBack. What waits for a time then
// waits that much longer.
const clockSlack = int64(time.Second)

// setNow sets the time of a decision. If the clock has gone back since the last fact, the tree
// first records that.
func (t *Tree) setNow(now int64) {
	t.now = now
	if by := t.lastFact - now; by > clockSlack {
		t.emit(clockSetBack(now, by, t.graceEnd()))
	}
}

// setBackSince records that the clock has gone back if it was at the time last with an owner
// before, or if that owner put a delivery off for longer than any pause.
func (t *Tree) setBackSince(last int64) {
	by := last - t.now
	far := false
	t.Outbox(func(e *Entry) {
		far = far || e.Blocked == 0 && e.Due > sat.Add(t.now, int64(LastRetry))
	})
	if by > clockSlack || far {
		t.emit(clockSetBack(t.now, max(by, 0), t.graceEnd()))
	}
}

// applyClockSetBack moves what lies in the future of f to where the clock would have put it if it
// had been right all along, or later: what waits for a time waits no longer than if it began to
// wait now. Times that people are told, such as the end of a run, stay as they are.
func (t *Tree) applyClockSetBack(f *Fact) {
	t.root.walk(false, func(r *Run) {
		r.setBack(f)
		t.armTimer(r)
	})
	for _, ord := range t.outbox.ords() {
		e := t.outbox.entries[ord]
		due := sat.Add(f.At, int64(LastRetry))
		if e.Tries == 0 && !e.Busy {
			due = f.At
		}
		e.queue.since = min(e.queue.since, f.At)
		if e.Due > due {
			t.changeEntry(e, func(e *Entry) { e.Due = due })
		}
	}
	window := sat.Add(f.At, int64(KeyWindow))
	for k, ref := range t.spawned {
		ref.Until = min(ref.Until, window)
		t.spawned[k] = ref
	}
	for k, until := range t.posts {
		t.posts[k] = min(until, window)
	}
	for r, retry := range t.archiveRetries {
		retry.at = min(retry.at, sat.Add(f.At, int64(retry.pause)))
		t.archiveRetries[r] = retry
	}
}

// setBack is applyClockSetBack for one session.
func (r *Run) setBack(f *Fact) {
	if r.State.Terminal() {
		if from := r.archiveFrom(); from > f.At {
			r.ArchiveFrom = f.At
		}
		return
	}
	if r.Deadline > 0 {
		r.Deadline = min(r.Deadline, sat.Add(f.At, r.Spec.Timeout))
	}
	if r.Grace > 0 {
		r.Grace = min(r.Grace, f.Until)
	}
	if j := r.Join; j != nil && j.Within > 0 {
		j.Until = min(j.Until, sat.Add(f.At, j.Within))
	}
	steers := make([]Steered, 0, len(r.Steers)) // an image may share the old slice
	for _, s := range r.Steers {
		steers = append(steers, Steered{s.From, min(s.At, f.At)})
	}
	if len(steers) > 0 {
		r.Steers = steers
	}
}

// archiveFrom returns the time from which the archive of an ended run counts.
func (r *Run) archiveFrom() int64 {
	if r.ArchiveFrom > 0 {
		return r.ArchiveFrom
	}
	return r.Ended
}
