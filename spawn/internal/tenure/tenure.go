package tenure

import (
	"time"

	"github.com/offshoot-sdk/offshoot/session"
)

// MaxPause is how long after the end of its lease a process keeps the turns that wait for its
// engine.
const MaxPause = 10 * time.Minute

// Margin is how long before the end of its lease a process stops to act, at most: what it begins in
// the last moment has effects later.
const Margin = time.Second

// margin returns the margin of a lease of a length: a third of it at most, so that a process which
// beats three times in a lease may act until the beat after next. Zero is a length that is not
// known.
func margin(length time.Duration) time.Duration {
	if length <= 0 {
		return Margin
	}
	return min(Margin, length/3)
}

// A State says what a process may do.
type State uint8

// The states of a process.
const (
	Absent State = iota // it has no trees: it has no lease, or has lost all that it had
	Acting              // it acts
	Paused              // its turns, calls, deliveries and starts wait for the engine
)

// String returns the word for s.
func (s State) String() string {
	switch s {
	case Absent:
		return "absent"
	case Acting:
		return "acting"
	case Paused:
		return "paused"
	}
	return "unknown"
}

// A Tenure is what a process knows of its right to act. Its zero value is that of a process which
// has no lease. It is not safe for concurrent use.
type Tenure struct {
	state State
	until time.Time // the end of the lease, less the margin
}

// A Change is what follows from what a Tenure was told. Lost trees are dropped before anything goes
// on: their turns end, and what they did last is not known to be on record.
type Change struct {
	State  State
	Lost   []session.Claim // others have these
	AllOut bool            // every tree is lost, whether or not another process has it
}

// State returns the state as of the last call of Renewed or Look.
func (t *Tenure) State() State { return t.state }

// MayAct reports whether the process may act now. It holds between two calls of Look, too: a
// process that was stopped for a minute asks it before the timer of the lease has fired.
func (t *Tenure) MayAct(now time.Time) bool { return t.state == Acting && isBefore(now, t.until) }

// Renewed takes what the Owners say of the lease.
func (t *Tenure) Renewed(l session.Lease, now time.Time) Change {
	out := t.Look(now).AllOut // the news may come after the time was up
	if until := l.Until.Add(-margin(l.Length)); t.state == Absent || until.After(t.until) {
		t.until = until
	}
	t.state = Paused
	if isBefore(now, t.until) {
		t.state = Acting
	}
	c := Change{State: t.state, Lost: l.Taken, AllOut: out}
	if out {
		c.Lost = nil // they are among all
	}
	return c
}

// Look takes note of the time.
func (t *Tenure) Look(now time.Time) Change {
	if t.state == Acting && !isBefore(now, t.until) {
		t.state = Paused
	}
	if t.state == Paused && !isBefore(now, t.until.Add(MaxPause)) {
		t.state = Absent
		return Change{State: Absent, AllOut: true}
	}
	return Change{State: t.state}
}

// Next returns when Look has news if the lease is not renewed, or zero if it never has.
func (t *Tenure) Next() time.Time {
	switch t.state {
	case Acting:
		return t.until
	case Paused:
		return t.until.Add(MaxPause)
	case Absent:
	}
	return time.Time{}
}

// isBefore reports whether now is before a time, by the monotonic clock and by the wall clock. The
// first one stands still while a machine sleeps or is moved, during which the lease lapses. The
// second one may be set forward; then a process pauses until its next beat.
func isBefore(now, end time.Time) bool {
	return now.Before(end) && now.Round(0).Before(end.Round(0))
}
