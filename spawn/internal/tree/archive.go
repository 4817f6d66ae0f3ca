package tree

import "time"

// A delay says when a run that could not be put away is put away again. It is volatile: a new owner tries at once.
type delay struct {
	at    int64
	pause time.Duration
}

// archiveAt returns when a run that has ended leaves the tree.
func (t *Tree) archiveAt(r *Run) int64 {
	return max(r.Ended+int64(t.opt.ArchiveAfter), t.putOff[r].at)
}

// decidePutAway archives a run whose transcript has been put away. If that failed it is tried again, after pauses like those of a
// delivery but without an end: nobody misses anything meanwhile.
func (t *Tree) decidePutAway(c PutAway) {
	r := t.find(c.Run)
	switch {
	case r == nil || !r.State.Terminal() || r.firstChild != nil:
	case !c.Failed:
		t.emit(archived(t.now, r))
	case r.archiving:
		r.archiving = false
		t.archiving--
		pause := min(max(2*t.putOff[r].pause, FirstRetry), LastRetry)
		if t.putOff == nil {
			t.putOff = make(map[*Run]delay)
		}
		t.putOff[r] = delay{at: t.now + int64(pause), pause: pause}
		t.arm(r)
	}
}
