package secret

// A value that repeats itself, such as many backslashes, begins at each place of a text that does,
// and is followed from each of them to where it ends. A sieve follows the values of a group from
// many places at once: a place has the states of its automaton that the readings of the text before
// it lead to. It only tells where no value of the group begins.
//
//	text    \   \   \   \   \   x   ...        value  \\\\y
//	states  1   2   3   4   4   0              no place has the fifth
//
// A reading that ends with another one, from places that are not later, stands for both, so that a
// place has few of them. Without sieves a value of 4,096 bytes takes 5,000 times as long in a text
// of its beginning, with line breaks, as another one: 16 KB took 6 s.
type sieve struct {
	of          *group
	from, until int // no value begins from one place to another
	step        int // how many places are looked at next
	reach       int // how many places behind those it looked at as well, last
	idle        int // it does not look before this place, see pause
	pause       int // how many places it did not look at last
}

// Numbers of sieves.
const (
	leastSteps   = 32   // that treeEnd takes before a sieve is worth its cost
	firstSieve   = 64   // places that a sieve looks at first
	mostSieve    = 4096 // places that it looks at, at most
	mostOpen     = 256  // the same while more of the text may follow, which it then waits for
	mostSieves   = 64   // of a pass
	mostReadings = 64   // states of a place; where there are more a value is taken to be met
	mostKept     = 4096 // readings whose room is kept
)

// sieves are those of the groups that were looked for last. The zero sieves are ready.
type sieves struct {
	all  []sieve
	next int  // the oldest, once there are mostSieves
	off  bool // none is made

	verbatim stretch // of bytes that stand for themselves alone, which was found last

	lasts    []int32   // of each place: one more than the index of its last reading
	used     int       // of lasts
	readings []reading // of all places
	free     int32     // one more than the index of one that is not used, and leads to the next
}

// A reading is a state at a place. Some bytes of it may have been met behind the places that a
// sieve looks at: what begins there does not count.
type reading struct {
	node  int32
	since int32 // bytes that were met behind those places
	next  int32 // one more than the index of the reading before it
}

// move notes that the positions in the buffer have moved down.
func (s *sieves) move(by int) {
	s.verbatim = stretch{}
	for i := range s.all {
		one := &s.all[i]
		one.from, one.until, one.idle = one.from-by, one.until-by, one.idle-by
	}
}

// held returns how many bytes the sieves take, without the automata, which their groups have.
func (s *sieves) held() int {
	return 32*cap(s.all) + 4*cap(s.lasts) + 12*cap(s.readings)
}

// find returns the sieve of a group, or nil.
func (s *sieves) find(of *group) *sieve {
	for i := range s.all {
		if s.all[i].of == of {
			return &s.all[i]
		}
	}
	return nil
}

// make makes the sieve of a group, unless there is one, in the place of the oldest.
func (s *sieves) make(of *group) {
	if s == nil || s.off || s.find(of) != nil {
		return
	}
	if len(s.all) < mostSieves {
		s.all = append(s.all, sieve{of: of, step: firstSieve})
		return
	}
	s.all[s.next] = sieve{of: of, step: firstSieve}
	s.next = (s.next + 1) % mostSieves
}

// clears reports whether no value of a group begins at a place, if a sieve was made for it and can
// tell. Where that depends on what has not come yet, it awaits it.
func (s *sieves) clears(r *reader, of *group, at int) bool {
	if s == nil || len(s.all) == 0 {
		return false
	}
	one := s.find(of)
	if one == nil {
		return false
	}
	if one.from <= at && at < one.until {
		return true
	}
	if at < one.idle {
		return false
	}
	if r.MayGrow() {
		one.step = min(one.step, max(mostOpen, one.reach/2))
	}
	for one.step = max(one.step, 1); one.step > 0; one.step /= 2 {
		l := look{s: s, a: of.automaton(), wraps: of.wraps, from: at, until: at + one.step}
		switch l.over(r) {
		case isNowhere:
			one.from, one.until = at, at+one.step
			one.reach, one.pause = l.end-l.until, 0
			one.step = min(max(2*one.step, one.reach/2), mostSieve)
			return true
		case isMet:
		case isUnknown:
			if r.MayGrow() {
				r.Await()
				return false
			}
			if one.step == 1 {
				one.pause = min(max(2*one.pause, firstSieve), mostSieve)
				one.idle = at + one.pause
			}
		}
	}
	one.step = 1
	return false
}

// An answer is what a sieve tells of some places.
type answer uint8

const (
	isNowhere answer = iota // a value begins at none of them
	isMet                   // it may begin at one
	isUnknown               // that depends on what is not seen
)

// A look looks whether a value begins at some places.
type look struct {
	s           *sieves
	a           *automaton
	wraps       bool
	from, until int // the places
	end         int // behind the last that was passed
}

// over looks.
//
// What is seen from the first place ends where a View does. From a later place some bytes more are
// seen. What may be read otherwise with those is not followed: the look is over if they suffice for
// a value.
func (l *look) over(r *reader) answer {
	defer l.clear()
	isWhole := r.IsWhole()
	limit := len(r.S) + l.until - l.from - 1
	at := l.from
	for ; at < len(r.S) && (at < l.until || at-l.from < l.s.used); at++ {
		begins, last := at < l.until, l.last(at)
		if !begins && last == 0 {
			continue
		}
		w := r.apart()
		w.hopped = r.hopped
		w.Reread(at)
		if l.pass(&w, at, begins, last) {
			return isMet
		}
		if w.Ends() && !isWhole && (r.MayGrow() || l.suffices(limit-at, begins, last)) {
			return isUnknown
		}
		l.release(last)
	}
	if l.end = at; isWhole {
		return isNowhere
	}
	last := l.last(at)
	if at < l.until || r.MayGrow() && last > 0 || l.suffices(limit-at, false, last) {
		return isUnknown
	}
	return isNowhere
}

// last returns one more than the index of the last reading of a place, or 0.
func (l *look) last(at int) int32 {
	if i := at - l.from; i < l.s.used {
		return l.s.lasts[i]
	}
	return 0
}

// suffices reports whether a value may end within some bytes behind a place at which it begins, or
// that has readings.
func (l *look) suffices(size int, begins bool, last int32) bool {
	is := begins && int(l.a.nodes[0].rest) <= size
	for ; last > 0 && !is; last = l.s.readings[last-1].next {
		is = int(l.a.nodes[l.s.readings[last-1].node].rest) <= size
	}
	return is
}

// pass passes a place where a value may begin, or that has readings. It reports whether a value may
// end behind it.
func (l *look) pass(r *reader, at int, begins bool, last int32) bool {
	if begins && l.hop(r, at, hopsFirst, 0) {
		return true
	}
	is := hopsWithin
	if !l.wraps {
		is = hopsInLine
	}
	return last > 0 && l.hop(r, at, is, last)
}

// hop passes a place with hops of one kind, from its readings or, where last is 0, from a
// beginning.
func (l *look) hop(r *reader, at int, is hopKind, last int32) bool {
	hops := r.hops(at, is)
	for i := range hops {
		h := &hops[i]
		if last == 0 && l.meets(at, at+h.span, reading{}, h.part()) {
			return true
		}
		for k := last; k > 0; k = l.s.readings[k-1].next {
			if l.meets(at, at+h.span, l.s.readings[k-1], h.part()) {
				return true
			}
		}
	}
	return false
}

// meets adds a reading of the place end, to which a part leads from a reading of the place at. It
// reports whether a value may end with that.
func (l *look) meets(at, end int, from reading, part []byte) bool {
	node := from.node
	for _, c := range part {
		node = l.a.next(node, c)
	}
	since := int32(0)
	if at >= l.until {
		since = from.since + int32(len(part)) //nolint:gosec // a part has at most four bytes
	}
	n := &l.a.nodes[node]
	return n.ended > since || n.depth > since && !l.add(end, node, since)
}

// add adds a reading of a place, unless another one stands for it, and removes those that it stands
// for. It reports false if there is no room.
func (l *look) add(place int, node, since int32) bool {
	s, i := l.s, place-l.from
	if i >= s.used {
		if i >= len(s.lasts) {
			s.lasts = append(s.lasts, make([]int32, i+1-len(s.lasts))...)
		}
		s.used = i + 1
	}
	count, before := 0, int32(0)
	for k := s.lasts[i]; k > 0; {
		one := s.readings[k-1]
		switch {
		case l.a.endsWith(one.node, node):
			s.readings[k-1].since = min(one.since, since)
			return true
		case l.a.endsWith(node, one.node):
			since = min(one.since, since)
			if before == 0 {
				s.lasts[i] = one.next
			} else {
				s.readings[before-1].next = one.next
			}
			s.readings[k-1].next, s.free = s.free, k
		default:
			before = k
			count++
		}
		k = one.next
	}
	if count == mostReadings {
		return false
	}
	made := reading{node, since, s.lasts[i]}
	if s.free > 0 {
		s.lasts[i], s.free = s.free, s.readings[s.free-1].next
		s.readings[s.lasts[i]-1] = made
		return true
	}
	s.readings = append(s.readings, made)
	s.lasts[i] = int32(len(s.readings)) //nolint:gosec // there are at most mostReadings of a place
	return true
}

// release frees the readings of a place.
func (l *look) release(last int32) {
	for s := l.s; last > 0; {
		next := s.readings[last-1].next
		s.readings[last-1].next, s.free = s.free, last
		last = next
	}
}

// clear frees all readings.
func (l *look) clear() {
	s := l.s
	clear(s.lasts[:s.used])
	s.used, s.readings, s.free = 0, s.readings[:0], 0
	if cap(s.readings) > mostKept {
		s.readings = nil
	}
}
