package binding

import (
	"container/heap"
	"slices"
	"time"

	"github.com/offshoot-sdk/offshoot/session"
)

// A deadline says that a binding does not expire before a time. Each binding with a limit has one
// that is not later than its expiry; a touch moves the expiry and leaves the deadline as it is. A
// binding may have several, and one may be of a conversation that is not bound any more.
type deadline struct {
	at time.Time
	of session.Route
}

// deadlines is a heap, the earliest first.
type deadlines []deadline

// Len, Less, Swap, Push and Pop implement heap.Interface.
func (d deadlines) Len() int           { return len(d) }
func (d deadlines) Less(i, j int) bool { return d[i].at.Before(d[j].at) }
func (d deadlines) Swap(i, j int)      { d[i], d[j] = d[j], d[i] }
func (d *deadlines) Push(x any)        { *d = append(*d, x.(deadline)) }
func (d *deadlines) Pop() any {
	last := len(*d) - 1
	x := (*d)[last]
	(*d)[last] = deadline{}
	*d = (*d)[:last]
	return x
}

// limit adds the deadline of a binding that has been put. It drops what is out of date when that is
// most of the heap.
func (s *state) limit(b *Binding) {
	if at, _, ok := b.Expiry(); ok {
		heap.Push(&s.deadlines, deadline{at, b.Conversation})
	}
	if len(s.deadlines) <= 64+2*len(s.bound) {
		return
	}
	s.deadlines = s.deadlines[:0]
	for at, held := range s.bound {
		if end, _, ok := held.Expiry(); ok {
			s.deadlines = append(s.deadlines, deadline{end, at})
		}
	}
	heap.Init(&s.deadlines)
}

// next returns when the first binding expires, the zero time if no binding has a limit. It moves
// the deadlines before that to where they belong.
func (s *state) next() time.Time {
	for len(s.deadlines) > 0 {
		first := &s.deadlines[0]
		switch at, _, ok := s.bound[first.of].Expiry(); {
		case !ok:
			heap.Pop(&s.deadlines)
		case at.After(first.at):
			first.at = at
			heap.Fix(&s.deadlines, 0)
		default:
			return at
		}
	}
	return time.Time{}
}

// expired returns the bindings that have expired at now, with their reasons, in the order of their
// conversations.
func (s *state) expired(now time.Time) []Unbound {
	var ended []Unbound
	seen := make(map[session.Route]bool)
	var look func(i int)
	look = func(i int) {
		if i >= len(s.deadlines) || s.deadlines[i].at.After(now) {
			return
		}
		if of := s.deadlines[i].of; !seen[of] {
			seen[of] = true
			b := s.bound[of].Binding
			if why, over := b.expired(now); over {
				ended = append(ended, Unbound{Binding: b, Reason: why, At: now})
			}
		}
		look(2*i + 1)
		look(2*i + 2)
	}
	look(0)
	slices.SortFunc(ended, func(a, b Unbound) int { return compareBindings(a.Binding, b.Binding) })
	return ended
}
