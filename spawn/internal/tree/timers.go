package tree

import "time"

// A timer is a time at which a run or an entry of the outbox wants to be looked at. It may be out of date: whoever takes it
// asks the run or the entry.
type timer struct {
	at  int64
	run *Run
	ord uint32
}

// timers is a binary heap, earliest first.
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

// wakeTime returns when what a timer stands for really wants to be looked at; 0: never.
func (t *Tree) wakeTime(x timer) int64 {
	if x.run == nil {
		if e := t.outbox.entries[x.ord]; e != nil && e.Blocked == 0 && !e.inFlight {
			return e.Due
		}
		return 0
	}
	if x.run.gone {
		return 0
	}
	return t.runWakeTime(x.run)
}

// runWakeTime returns the next time at which something about r changes by itself; 0: never.
func (t *Tree) runWakeTime(r *Run) (at int64) {
	first := func(x int64) {
		if x > 0 && (at == 0 || x < at) {
			at = x
		}
	}
	if r.State.Terminal() {
		if t.opt.ArchiveAfter > 0 && !r.archiving && r.firstChild == nil && !r.held {
			first(t.archiveAt(r))
		}
		return at
	}
	if r.Cause == NoCause {
		first(r.Deadline)
		if r.Join != nil && r.Open == nil {
			first(r.Join.Until)
		}
	}
	if r.Open != nil {
		first(r.Grace)
	}
	return at
}

// armTimer sees to it that the heap has a timer for r that is early enough.
func (t *Tree) armTimer(r *Run) {
	if at := t.runWakeTime(r); at > 0 && (r.armedAt == 0 || at < r.armedAt) {
		r.armedAt = at
		t.timers.push(timer{at: at, run: r})
	}
}

func (t *Tree) popTimer() timer {
	x := t.timers.pop()
	if x.run != nil && x.run.armedAt == x.at {
		x.run.armedAt = 0
	}
	return x
}

// rearmTimer puts back what was popped before its time, which is at; 0: never.
func (t *Tree) rearmTimer(x timer, at int64) {
	switch {
	case at == 0:
	case x.run != nil:
		t.armTimer(x.run)
	default:
		t.timers.push(timer{at: at, ord: x.ord})
	}
}

// A archiveRetry says when a run that could not be put away is put away again. It is volatile: a new owner tries at once.
type archiveRetry struct {
	at    int64
	pause time.Duration
}

// archiveAt returns when a run that has ended leaves the tree.
func (t *Tree) archiveAt(r *Run) int64 {
	return max(r.Ended+int64(t.opt.ArchiveAfter), t.archiveRetries[r].at)
}
