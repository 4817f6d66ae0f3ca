package tree

import (
	"time"

	"github.com/offshoot-sdk/offshoot/internal/sat"
)

// A timer is a time at which a run or a destination of the outbox is to be looked at. A timer may
// be out of date: the code that pops it asks wakeTime whether it still holds.
type timer struct {
	at    int64  // Unix nanoseconds
	run   *Run   // nil for a destination
	queue *queue // of the destination
}

// timers is a binary heap, earliest first. It is not a container/heap, whose interface would
// allocate for every timer that is pushed or popped.
type timers []timer

func (h *timers) push(x timer) {
	*h = append(*h, x)
	s := *h
	for i := len(s) - 1; i > 0; {
		up := (i - 1) / 2
		if s[up].at <= s[i].at {
			break
		}
		s[up], s[i] = s[i], s[up]
		i = up
	}
}

func (h *timers) pop() timer {
	s := *h
	top, last := s[0], len(s)-1
	s[0] = s[last]
	s[last] = timer{}
	s = s[:last]
	*h = s
	for i := 0; ; {
		least := i
		for _, down := range [2]int{2*i + 1, 2*i + 2} {
			if down < last && s[down].at < s[least].at {
				least = down
			}
		}
		if least == i {
			return top
		}
		s[i], s[least] = s[least], s[i]
		i = least
	}
}

// NextWake returns when the tree wants a Tick, in Unix nanoseconds, or 0 for never.
func (t *Tree) NextWake() int64 {
	return earlier(t.nextTimer(), t.outbox.firstGiveUp())
}

// earlier returns the earlier of two times in Unix nanoseconds, of which 0 is never.
func earlier(a, b int64) int64 {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

// WakeOfAll is [Tree.NextWake] of a tree that was folded and that no command was decided for since:
// its timers may lack a run to which the fate of another gives something to do. It asks every run,
// and not the outbox.
func (t *Tree) WakeOfAll() (at int64) {
	t.Walk(func(r *Run) { at = earlier(at, t.runWakeTime(r)) })
	return at
}

// nextTimer returns the earliest time of the heap that still holds, or 0 if there is none. It drops
// timers that are out of date.
func (t *Tree) nextTimer() int64 {
	for len(t.timers) > 0 {
		top := t.timers[0]
		at := t.wakeTime(top)
		if at == top.at {
			return at
		}
		t.popTimer()
		t.rearmTimer(top, at)
	}
	return 0
}

// wakeTime returns when the run or the destination of a timer is to be looked at as things are now,
// in Unix nanoseconds; 0 is never.
func (t *Tree) wakeTime(x timer) int64 {
	if x.run == nil {
		return x.queue.wakeTime()
	}
	if x.run.gone {
		return 0
	}
	return t.runWakeTime(x.run)
}

// runWakeTime returns the next time, in Unix nanoseconds, at which something about r changes
// without a command: it is archived, times out, stops waiting, or its turn is cut. 0 is never. A
// run that has asked for a slot waits for that, and not for the end of its wait.
func (t *Tree) runWakeTime(r *Run) (at int64) { return t.runWakeTimeAfter(r, 0) }

// runWakeTimeAfter is runWakeTime for what is later than a time.
func (t *Tree) runWakeTimeAfter(r *Run, after int64) (at int64) {
	atMost := func(x int64) {
		if x > after && (at == 0 || x < at) {
			at = x
		}
	}
	if t.wantsUnbind(r) {
		atMost(max(t.unbindRetries[r].at, 1))
	}
	if r.State.Terminal() {
		if t.mayArchive(r) {
			atMost(t.archiveAt(r))
		}
		return at
	}
	if r.Cause == NoCause {
		switch {
		case !r.inStep():
			atMost(r.Deadline)
		case !r.TurnCancelled:
			atMost(r.Open.Until)
		}
		if r.Join != nil && r.Open == nil && !r.asked {
			atMost(r.Join.Until)
		}
	}
	if r.Open != nil {
		atMost(r.Grace)
	}
	if r.mayPutAway() {
		atMost(max(t.archiveRetries[r].at, 1))
	}
	if r.IsRoot() {
		atMost(t.wakeOfDeposits())
	}
	return at
}

// armTimer makes sure that the heap has a timer for r that is early enough. It pushes none if there
// is one, so that a run does not fill the heap.
func (t *Tree) armTimer(r *Run) { t.armTimerAt(r, t.runWakeTime(r)) }

// armTimerAt is armTimer for the time at, if that is not 0.
func (t *Tree) armTimerAt(r *Run, at int64) {
	if at > 0 && (r.armedAt == 0 || at < r.armedAt) {
		r.armedAt = at
		t.timers.push(timer{at: at, run: r})
	}
}

// wakeTime returns when the first entry of a destination is to be tried, in Unix nanoseconds; 0
// is never. What a call that hangs leads to is not in the heap, see outbox.firstGiveUp.
func (q *queue) wakeTime() int64 {
	if len(q.pending) == 0 || q.flying > 0 || q.hung > 0 {
		return 0
	}
	return max(q.pending[0].Due, 1)
}

// armQueue is armTimer for a destination.
func (t *Tree) armQueue(q *queue) {
	if at := q.wakeTime(); at > 0 && (q.armedAt == 0 || at < q.armedAt) {
		q.armedAt = at
		t.timers.push(timer{at: at, queue: q})
	}
}

// popTimer takes the earliest timer from the heap, which must have one.
func (t *Tree) popTimer() timer {
	x := t.timers.pop()
	switch {
	case x.run != nil && x.run.armedAt == x.at:
		x.run.armedAt = 0
	case x.queue != nil && x.queue.armedAt == x.at:
		x.queue.armedAt = 0
	}
	return x
}

// rearmTimer pushes a popped timer again for the time at, if that is not 0.
func (t *Tree) rearmTimer(x timer, at int64) {
	switch {
	case at == 0:
	case x.run != nil:
		t.armTimer(x.run)
	default:
		t.armQueue(x.queue)
	}
}

// graceEnd returns when a turn that is cancelled now is cut.
func (t *Tree) graceEnd() int64 { return sat.Add(t.now, int64(t.opt.Grace)) }

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
		far = far || e.Blocked == 0 && e.Due > sat.Add(t.now, max(int64(LastRetry), e.Wait))
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
		due := sat.Add(f.At, max(int64(LastRetry), e.Wait))
		if e.Tries == 0 && !e.Busy {
			due = f.At
		}
		e.queue.since = min(e.queue.since, sat.Add(f.At, e.queue.longestWait()))
		if e.Due > due {
			t.changeEntry(e, func(e *Entry) { e.Due = due })
		}
	}
	window := sat.Add(f.At, int64(KeyWindow))
	for k, ref := range t.spawned {
		ref.Until = min(ref.Until, window)
		t.spawned[k] = ref
	}
	for _, seen := range t.posts.All() {
		for i := range seen {
			seen[i].until = min(seen[i].until, window)
		}
	}
	for _, retries := range [...]map[*Run]archiveRetry{t.archiveRetries, t.unbindRetries} {
		for r, retry := range retries {
			retry.at = min(retry.at, sat.Add(f.At, int64(retry.pause)))
			retries[r] = retry
		}
	}
	for k, w := range t.deposits {
		w.retry.at = min(w.retry.at, sat.Add(f.At, int64(w.retry.pause)))
		t.deposits[k] = w
	}
}

// setBack is applyClockSetBack for one session.
func (r *Run) setBack(f *Fact) {
	if r.State.Terminal() {
		if from := r.archiveFrom(); from > f.At {
			r.ownRare().ArchiveFrom = f.At
		}
		return
	}
	if r.Deadline > 0 {
		r.Deadline = min(r.Deadline, sat.Add(f.At, r.Spec.Timeout))
	}
	if r.inStep() {
		r.Open.Until = min(r.Open.Until, sat.Add(f.At, r.Open.Until-r.Open.Started))
	}
	if r.Grace > 0 {
		r.setGrace(min(r.Grace, f.Until))
	}
	if j := r.Join; j != nil && j.Within > 0 {
		j.Until = min(j.Until, sat.Add(f.At, j.Within))
	}
	steers := make([]Steered, 0, len(r.Steers)) // an image may share the old slice
	for _, s := range r.Steers {
		steers = append(steers, Steered{s.From, min(s.At, f.At)})
	}
	if len(steers) > 0 {
		r.ownRare().Steers = steers
	}
}
