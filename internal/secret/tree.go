package secret

import (
	"math/bits"
	"slices"
	"sort"
	"sync"
)

// A tree has values that begin alike, so that what several begin with is followed once for all of
// them:
//
//	hunter2     hunter2 ─┬─ (ends)
//	hunter21             ├─ 1 (ends)
//	hunter2xy            └─ xy (ends)
type tree struct {
	text   string // behind that of the tree above
	rarest int    // the position in text of the byte that it has least often
	ends   bool   // a value ends behind text
	next   []*tree
	size   int // bytes of its text and those of all below
}

// plant returns the tree of values, which are sorted, differ, and have so many bytes alike that
// stand above it.
func plant(values []string, above int) *tree {
	first, last := values[0], values[len(values)-1]
	end := above
	for end < len(first) && end < len(last) && first[end] == last[end] {
		end++
	}
	t := &tree{text: first[above:end], ends: len(first) == end}
	t.rarest, t.size = rarestIn(t.text), len(t.text)
	rest := values
	if t.ends {
		rest = values[1:]
	}
	for len(rest) > 0 {
		c := rest[0][end]
		n := sort.Search(len(rest), func(i int) bool { return rest[i][end] > c })
		child := plant(rest[:n], end)
		t.next, t.size = append(t.next, child), t.size+child.size
		rest = rest[n:]
	}
	return t
}

// rarestIn returns the position of the byte that a text has least often.
func rarestIn(text string) (at int) {
	var counts [256]int
	for i := range len(text) {
		counts[text[i]]++
	}
	for i := range len(text) {
		if counts[text[i]] < counts[text[at]] {
			at = i
		}
	}
	return at
}

// child returns the tree below that begins with a byte, or nil.
func (t *tree) child(c byte) *tree {
	i := 0
	if len(t.next) > 8 {
		i = sort.Search(len(t.next), func(i int) bool { return t.next[i].text[0] >= c })
	}
	for ; i < len(t.next) && t.next[i].text[0] <= c; i++ {
		if t.next[i].text[0] == c {
			return t.next[i]
		}
	}
	return nil
}

// A state is a place in a text, and what was met of the values of a tree before it.
type state struct {
	tree *tree
	met  int // bytes of the text of tree
	at   int
}

// ends reports whether a value ends at a state.
func (s *state) ends() bool { return s.met == len(s.tree.text) && s.tree.ends }

// advance returns the state behind a part at a state. ok is false if no value goes on with it.
func (s state) advance(part []byte) (to state, ok bool) {
	for _, c := range part {
		switch {
		case s.met < len(s.tree.text):
			if s.tree.text[s.met] != c {
				return s, false
			}
			s.met++
		default:
			next := s.tree.child(c)
			if next == nil {
				return s, false
			}
			s.tree, s.met = next, 1
		}
	}
	return s, true
}

// mostStates is how many states there are at most behind the same number of bytes. What is full
// takes no more: so many spellings of the same bytes are not met outside of an attack on the time.
const mostStates = 64

// fronts are the states behind a number of bytes, modulo their number: a part of a value has at
// most four bytes.
type fronts [5][]state

// add adds a state behind so many bytes.
func (f *fronts) add(n int, s state) {
	list := &f[n%len(f)]
	if len(*list) < mostStates && !slices.Contains(*list, s) {
		*list = append(*list, s)
	}
}

// held returns how many bytes the fronts take.
func (f *fronts) held() (n int) {
	for _, list := range f {
		n += 24 * cap(list)
	}
	return n
}

// A group is the values that begin with the same bytes, are about as long, and of which line breaks
// count or not. A value that is found is at least half as long as what was followed for it: the
// short ones of a text are not followed to the ends of long ones.
type group struct {
	*tree
	wraps bool // line breaks do not count

	once sync.Once
	made *automaton
}

// groupsOf returns the groups of values, which are sorted, differ, and begin alike.
func groupsOf(values []string, wraps bool) []*group {
	const short = 64 // bytes, up to which values are about as long
	var bySize [][]string
	for _, v := range values {
		i := bits.Len(uint(len(v)-1) / short)
		for len(bySize) <= i {
			bySize = append(bySize, nil)
		}
		bySize[i] = append(bySize[i], v)
	}
	var groups []*group
	for _, list := range bySize {
		if len(list) > 0 {
			groups = append(groups, &group{tree: plant(list, 0), wraps: wraps})
		}
	}
	return groups
}

// automaton returns the automaton of the group, which is made when it is first asked for.
func (g *group) automaton() *automaton {
	g.once.Do(func() { g.made = newAutomaton(g.tree) })
	return g.made
}

// firstSteps is how many trees are passed before a sieve is asked.
const firstSteps = 8

// groupEnd returns where the longest value of a group ends that begins at a position, or 0.
func (r *reader) groupEnd(begin int, of *group) int {
	end, steps := r.treeEnd(begin, of)
	if end == 0 && steps >= leastSteps {
		r.sieves.make(of)
	}
	return end
}

// treeEnd is groupEnd, and returns how many steps that took as well.
func (r *reader) treeEnd(begin int, of *group) (longest, steps int) {
	t, at, partly := of.tree, begin, true
	end := r.verbatimEnd(at)
	for ; at+len(t.text) <= end; steps++ { // it stands there as it is, or not at all
		stop := at + len(t.text)
		r.Read(stop)
		if r.S[at+t.rarest] != t.text[t.rarest] || r.S[at:stop] != t.text {
			return longest, steps
		}
		if at = stop; t.ends {
			longest = at
		}
		if len(t.next) == 0 {
			return longest, steps
		}
		if at == end {
			partly = false
			break
		}
		r.Read(at + 1)
		next := t.child(r.S[at])
		if next == nil {
			return longest, steps
		}
		if t = next; steps == firstSteps && r.isCleared(of, begin) {
			return 0, 0
		}
	}
	s := state{t, len(t.text), at}
	if partly {
		if s.met, s.at = end-at, end; r.S[at:end] != t.text[:s.met] {
			r.Read(end)
			return longest, steps
		}
	}
	if r.Ended(s.at) {
		return longest, steps
	}
	if r.isCleared(of, begin) {
		return 0, 0
	}
	found, followed := r.followStates(s, s.at > begin, of.wraps)
	return max(longest, found), steps + (s.at-begin)/8 + followed
}

// isCleared reports whether a sieve clears a place, or has to wait for more of the text.
func (r *reader) isCleared(of *group, at int) bool {
	return r.sieves.clears(r, of, at) || r.Waits()
}

// followStates returns where the longest value ends that goes on from a state, or 0, and how many
// states it has come to. Some bytes of the value were met, or none.
func (r *reader) followStates(s state, met, wraps bool) (longest, steps int) {
	is := hopsFirst
	f := r.fronts
	if f == nil {
		f = new(fronts)
	}
	f.add(0, s)
	for n, reached := 0, 0; n <= reached; n++ {
		now := f[n%len(f)]
		switch {
		case n == 0 && !met:
		case wraps:
			is = hopsWithin
		default:
			is = hopsInLine
		}
		steps += len(now)
		for _, s := range now {
			hops := r.hops(s.at, is)
			for i := range hops {
				to, ok := s.advance(hops[i].part())
				if !ok {
					continue
				}
				if to.at = s.at + hops[i].span; to.ends() {
					longest = max(longest, to.at)
				}
				if to.met < len(to.tree.text) || len(to.tree.next) > 0 {
					next := n + int(hops[i].size)
					f.add(next, to)
					reached = max(reached, next)
				}
			}
		}
		f[n%len(f)] = now[:0]
	}
	return longest, steps
}
