package lease

import (
	"hash/fnv"
	"maps"
	"slices"
	"time"

	"github.com/offshoot-sdk/offshoot/session"
)

// orphansAtATime is how many orphans a Lookout gives before the engine is asked anew.
const orphansAtATime = 16

// A Lookout is what one process has seen of the orphans. Its zero value has seen nothing.
//
// An engine with many orphans gives them page by page. The Lookout stays at a page until it has
// nothing to claim there, and begins anew behind the last one.
type Lookout struct {
	next map[session.Key]time.Time // when an orphan is to be given, or given again
	skip int                       // how many orphans stand before the page
}

// Skip returns how many orphans, of those that are due longest, the engine is to leave out of the
// next page.
func (l *Lookout) Skip() int { return l.skip }

// Forget has a tree be a new orphan if it is one: the process has learned that it had an owner.
func (l *Lookout) Forget(root session.Key) { delete(l.next, root) }

// Keep has the next Look give these orphans again, which Look returned and p has not claimed.
func (l *Lookout) Keep(claim []session.Key) {
	for _, root := range claim {
		l.next[root] = time.Time{}
	}
}

// Look takes a page of the orphans that there are, and returns those that p is to claim now, 16 at
// most, the one first that has waited longest. It also returns when to look again: now if there is
// more to claim or another page, and zero if there are no orphans. behind is how many orphans stand
// before the next page, 0 if this one is the last.
//
// Trees that are orphans no more are forgotten: at once where the page has all, and else when they
// would be given again. So one that is on no page, because others before it were claimed meanwhile,
// is not taken for a new one.
func (l *Lookout) Look(
	p session.Process, page []session.Key, behind int, now time.Time,
) (claim []session.Key, again time.Time) {
	whole := l.skip == 0 && behind == 0
	next := l.next
	if whole || next == nil {
		next = make(map[session.Key]time.Time, len(page))
	}
	for _, root := range page {
		at, seen := l.next[root]
		if !seen {
			at = now.Add(OrphanDelay(p, root))
		}
		next[root] = at
		if !at.After(now) {
			claim = append(claim, root)
		}
	}
	slices.SortFunc(claim, func(a, b session.Key) int { return next[a].Compare(next[b]) })
	if len(claim) > orphansAtATime {
		claim = claim[:orphansAtATime]
	}
	for _, root := range claim {
		next[root] = now.Add(session.OrphanAgain)
	}
	l.next = next
	switch {
	case whole:
	case len(claim) > 0:
		return claim, now
	case behind > 0:
		l.skip = behind
		return nil, now
	default:
		l.skip = 0
		maps.DeleteFunc(next, func(_ session.Key, at time.Time) bool { return !at.After(now) })
	}
	for _, at := range next {
		if again.IsZero() || at.Before(again) {
			again = at
		}
	}
	return claim, again
}

// OrphanDelay returns how long p waits with an orphan after it has seen it, from zero to
// OrphanSpread. It differs by process and tree, so that processes which see many orphans at once
// share them.
func OrphanDelay(p session.Process, root session.Key) time.Duration {
	h := fnv.New64a()
	_, _ = h.Write([]byte(p.String()))
	_, _ = h.Write([]byte{0})
	_, _ = h.Write([]byte(root.String()))
	sum := h.Sum64()
	sum ^= sum >> 32 // the low bits of the hash alone are alike for names that are alike
	sum *= 0x9e3779b97f4a7c15
	return time.Duration((sum >> 33) % uint64(session.OrphanSpread)) //nolint:gosec // below 2^31
}
