package lease

import (
	"hash/fnv"
	"slices"
	"time"

	"github.com/offshoot-sdk/offshoot/session"
)

// orphansAtATime is how many orphans a Lookout gives before the engine is asked anew.
const orphansAtATime = 16

// A Lookout is what one process has seen of the orphans. Its zero value has seen nothing.
type Lookout struct {
	next map[session.Key]time.Time // when an orphan is to be given, or given again
}

// Look takes all orphans that there are, and returns those that p is to claim now, 16 at most, the
// one first that has waited longest. It also returns when to look again: now if more than 16 were
// to be claimed, and zero if there are no orphans. Trees that are orphans no more are forgotten.
func (l *Lookout) Look(
	p session.Process, orphans []session.Key, now time.Time,
) (claim []session.Key, again time.Time) {
	next := make(map[session.Key]time.Time, len(orphans))
	for _, root := range orphans {
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
