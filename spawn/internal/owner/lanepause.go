package owner

import (
	"slices"
	"time"

	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
)

// MaxPause is the longest pause of a provider.
const MaxPause = 10 * time.Minute

// maxSpread is the longest time after a pause within which the calls begin that waited for its end.
const maxSpread = 10 * time.Second

// A pause is a time in which a provider of models takes no calls. The calls that waited for its end
// begin at random moments between until and spread, a tenth of the pause and at most maxSpread
// later: all at once they would meet the next limit.
type pause struct {
	until, spread time.Time
	over          bool      // turns start again
	parked        []*ticket // for turns that would have started, oldest first
}

// extended returns p with a pause that is asked for at now until another time. The later end
// stands.
func (p pause) extended(now, until time.Time) pause {
	if most := now.Add(MaxPause); until.After(most) {
		until = most
	}
	if until.After(p.until) {
		p.until, p.over = until, false
		p.spread = until.Add(min(until.Sub(now)/10, maxSpread))
	}
	return p
}

// callAt returns when a call may begin that has come at now and waited for a pause until waited, if
// that is not zero. The number random is from 0 and below 1. The zero time is at once.
func (p pause) callAt(now, waited time.Time, random float64) time.Time {
	if !now.Before(p.spread) || waited.Equal(p.until) {
		return time.Time{}
	}
	from := p.until
	if now.After(from) {
		from = now
	}
	return from.Add(time.Duration(random * float64(p.spread.Sub(from))))
}

// Pause has turns of sessions whose model is of a provider not start before until, but within
// MaxPause from now. Of several pauses of one provider the one that ends last stands. Turns under
// way wait by themselves, see CallAt. Other providers are not affected, and a pause outlives
// neither the Lane nor its process.
func (l *Lane) Pause(provider string, now, until time.Time) {
	if !until.After(now) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pauseUntil(provider, now, until)
	l.sharePause(provider, until.Sub(now))
}

// pauseUntil is Pause in this process. The caller holds the lock.
func (l *Lane) pauseUntil(provider string, now, until time.Time) {
	if l.pauses == nil {
		l.pauses = make(map[string]*pause)
	}
	p := l.pauses[provider]
	if p == nil {
		p = new(pause)
		l.pauses[provider] = p
	}
	*p = p.extended(now, until)
	l.setTimer(now)
}

// CallAt returns when a turn that has come at now may call a provider, and the end of the pause
// that the turn waits for. The zero time is at once. A turn that has waited passes the end of the
// pause that it has waited for.
func (l *Lane) CallAt(
	provider string, now, waited time.Time, random float64,
) (at, until time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.pauses[provider]
	if p == nil {
		return at, until
	}
	return p.callAt(now, waited, random), p.until
}

// pauseOf returns the pause that keeps turns of r from starting, or nil. The caller holds the lock.
func (l *Lane) pauseOf(r *tree.Run) *pause {
	if len(l.pauses) == 0 || r == nil {
		return nil
	}
	provider := ""
	if l.Provider != nil {
		provider = l.Provider(r)
	}
	if p := l.pauses[provider]; p != nil && !p.over {
		return p
	}
	return nil
}

// usable reports whether a ticket that was taken from a queue can be granted. It keeps a ticket for
// a turn whose provider pauses. The caller holds the lock.
func (l *Lane) usable(t *ticket) bool {
	if t.abandoned {
		return false
	}
	if t.wait != nil {
		return true
	}
	if p := l.pauseOf(t.run); p != nil {
		p.parked = append(p.parked, t)
		return false
	}
	return true
}

// setTimer sets the timer to the next end of a pause. The caller holds the lock.
func (l *Lane) setTimer(now time.Time) {
	var next time.Time
	for _, p := range l.pauses {
		at := p.until
		if p.over {
			at = p.spread
		}
		if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	switch {
	case next.IsZero() || l.state == laneClosed:
		if l.timer != nil {
			l.timer.Stop()
		}
	case l.timer == nil:
		l.timer = time.AfterFunc(next.Sub(now), l.endPauses)
	default:
		l.timer.Reset(next.Sub(now))
	}
}

// endPauses ends the pauses whose time has come. The tickets that were kept are served first, in
// their order.
func (l *Lane) endPauses() {
	now := time.Now()
	l.mu.Lock()
	for provider, p := range l.pauses {
		if !p.over && !now.Before(p.until) {
			p.over = true
			for _, t := range slices.Backward(p.parked) {
				l.of(t.run).queue.pushFront(t)
			}
			p.parked = nil
		}
		if !now.Before(p.spread) {
			delete(l.pauses, provider)
		}
	}
	l.setTimer(now)
	granted := l.serve(&l.subagents, l.serve(&l.sessions, nil))
	l.mu.Unlock()
	for i := range granted {
		granted[i].grant()
	}
}
