package secret

import "math/bits"

// A value that repeats itself, such as many backslashes, begins at each place of a text that does,
// and is followed from each of them to where it ends. A sieve follows the values of a tree from
// many places at once: each byte of the tree has a bit, and a place has the bits of those that may
// come next there, from wherever. It only tells where no value of the tree begins.
//
//	text    \   \   \   \   \   x   ...        value  \\\\y
//	bits    1   11  111 1111 1111 -            no place has all five bits
//
// Without it a value of 64 backslashes takes 200 times as long on a text of them as another one.
type sieve struct {
	of    *tree
	wraps bool
	size  int        // bytes of it that are looked at
	words int        // that hold their bits
	masks [][]uint64 // of each byte: where the tree has it; nil: nowhere
	last  []uint64   // the bytes behind which a value ends, or what is not looked at begins
	steps []uint64   // the bytes behind which the next one follows
	forks []uint64   // the bytes behind which others follow
	forms [][]int    // of each byte of forks, in their order: what follows

	from, until int // no value begins from one place to another
	step        int // how many places are looked at next

	bits  []uint64 // of the places from one on
	used  int      // how many of them were set
	moved []uint64 // see meets
	left  []uint64 // see meets
}

// Numbers of sieves.
const (
	sieveSize  = 1024 // bytes of a tree that are looked at, at most
	leastSteps = 32   // that treeEnd takes before a sieve is worth its cost
	firstSieve = 64   // places that a sieve looks at first
	mostSieve  = 4096 // places that it looks at, at most
	mostOpen   = 256  // the same while more of the text may follow, which it then waits for
)

// sieves are those of the values that were looked for last. The zero sieves are ready.
type sieves struct {
	all  [8]*sieve
	next int
	off  bool // none is made

	verbatim stretch // of bytes that stand for themselves alone, which was found last
}

// forget empties the sieves, because the positions in their buffer have changed.
func (s *sieves) forget() {
	s.verbatim = stretch{}
	for _, one := range s.all {
		if one != nil {
			one.from, one.until, one.step = 0, 0, firstSieve
		}
	}
}

// held returns how many bytes the sieves take.
func (s *sieves) held() int {
	n := 0
	for _, one := range s.all {
		if one != nil {
			n += 8 * (6*len(one.masks) + one.words*len(one.masks) + cap(one.bits))
		}
	}
	return n
}

// find returns the sieve of a tree, or nil.
func (s *sieves) find(of *tree, wraps bool) *sieve {
	for _, one := range s.all {
		if one != nil && one.wraps == wraps && one.of == of {
			return one
		}
	}
	return nil
}

// clears reports whether no value of a tree begins at a place, if a sieve was made for it and can
// tell. Where that depends on what has not come yet, it awaits it.
func (s *sieves) clears(r *reader, of *tree, wraps bool, at int) bool {
	if s == nil || s.all[0] == nil {
		return false
	}
	one := s.find(of, wraps)
	if one == nil {
		return false
	}
	if one.from <= at && at < one.until {
		return true
	}
	if r.MayGrow() {
		one.step = min(one.step, mostOpen)
	}
	for ; one.step > 0; one.step /= 2 {
		switch one.look(r, at, one.step) {
		case isNowhere:
			one.from, one.until = at, at+one.step
			one.step = min(2*one.step, mostSieve)
			return true
		case isMet:
		case isUnknown:
			if r.MayGrow() {
				r.Await()
				return false
			}
		}
	}
	one.step = 1
	return false
}

// make makes the sieve of a tree, unless there is one, in the place of the oldest.
func (s *sieves) make(of *tree, wraps bool) {
	if s == nil || s.off || s.find(of, wraps) != nil {
		return
	}
	one := &sieve{of: of, wraps: wraps, step: firstSieve, masks: make([][]uint64, 256)}
	one.words = (min(of.size, sieveSize) + 63) / 64
	for _, list := range []*[]uint64{&one.last, &one.steps, &one.forks, &one.moved, &one.left} {
		*list = make([]uint64, one.words)
	}
	forks := make(map[int][]int)
	one.lay(of, forks)
	for at := range one.size {
		if has(one.forks, at) {
			one.forms = append(one.forms, forks[at])
		}
	}
	s.all[s.next] = one
	s.next = (s.next + 1) % len(s.all)
}

func set(words []uint64, bit int) { words[bit/64] |= 1 << (bit % 64) }

func has(words []uint64, bit int) bool { return words[bit/64]&(1<<(bit%64)) != 0 }

// lay gives the bytes of a tree their bits. What has no room ends where it would begin. The largest
// of the trees below follows right behind, so that most of what is met moves by one bit.
func (s *sieve) lay(t *tree, forks map[int][]int) {
	for i := range len(t.text) {
		if s.size == sieveSize {
			set(s.last, s.size-1)
			return
		}
		mask := &s.masks[t.text[i]]
		if *mask == nil {
			*mask = make([]uint64, s.words)
		}
		set(*mask, s.size)
		if s.size++; i > 0 {
			set(s.steps, s.size-2)
		}
	}
	end := s.size - 1
	if t.ends {
		set(s.last, end)
	}
	largest := 0
	for i, next := range t.next {
		if next.size > t.next[largest].size {
			largest = i
		}
	}
	for i := range t.next {
		k := i // the largest first
		if i == 0 {
			k = largest
		} else if i <= largest {
			k = i - 1
		}
		if s.size == sieveSize {
			set(s.last, end)
			return
		}
		if i == 0 {
			set(s.steps, end)
		} else {
			set(s.forks, end)
			forks[end] = append(forks[end], s.size)
		}
		s.lay(t.next[k], forks)
	}
}

// An answer is what a sieve tells of some places.
type answer uint8

const (
	isNowhere answer = iota // a value begins at none of them
	isMet                   // it may begin at one
	isUnknown               // that depends on what is not seen
)

// look looks whether a value begins at some places from one on.
func (s *sieve) look(r *reader, from, count int) answer {
	w := reader{View: r.View, spelt: r.spelt, hopped: r.hopped, unseen: r.unseen}
	s.used = 0
	defer func() { clear(s.bits[:s.used*s.words]) }()
	at := from
	for ; at < len(w.S) && at < from+max(count, s.used); at++ {
		i := at - from
		begins := i < count
		met := i < s.used && !isZero(s.bits[i*s.words:(i+1)*s.words])
		if (begins || met) && s.passes(&w, from, at, begins, met) {
			return isMet
		}
	}
	if !r.IsWhole() && (w.Ends() || at < from+max(count, s.used)) {
		return isUnknown
	}
	return isNowhere
}

func isZero(words []uint64) bool {
	for _, w := range words {
		if w != 0 {
			return false
		}
	}
	return true
}

// passes passes a place where the value may begin, or before which some bytes of it were met. It
// reports whether the value may end behind it.
func (s *sieve) passes(w *reader, from, at int, begins, met bool) bool {
	if c := w.Byte(at); isVerbatim(c) {
		return s.hop(w, from, at, hopsFirst, begins, met)
	}
	if begins && s.hop(w, from, at, hopsFirst, true, false) {
		return true
	}
	is := hopsWithin
	if !s.wraps {
		is = hopsInLine
	}
	return met && s.hop(w, from, at, is, false, true)
}

// hop passes a place with hops of one kind.
func (s *sieve) hop(w *reader, from, at int, is hopKind, begins, met bool) bool {
	hops := w.hops(at, is)
	for i := range hops {
		if s.meets(from, at, at+hops[i].span, begins, met, hops[i].part()) {
			return true
		}
	}
	return false
}

// meets adds, to the bits of the place end, those of the place at that a part is met behind. It
// reports whether a value may end within the part.
func (s *sieve) meets(from, at, end int, begins, met bool, part []byte) bool {
	now := s.moved
	clear(now)
	if met {
		copy(now, s.bits[(at-from)*s.words:])
	}
	if begins {
		now[0] |= 1
	}
	for i := range len(part) {
		mask := s.masks[part[i]]
		if mask == nil {
			return false
		}
		carry, all, ended, forked := uint64(0), uint64(0), uint64(0), uint64(0)
		for k := range now {
			b := now[k] & mask[k]
			s.left[k] = b
			all, ended, forked = all|b, ended|b&s.last[k], forked|b&s.forks[k]
			b &= s.steps[k]
			now[k] = b<<1 | carry
			carry = b >> 63
		}
		switch {
		case ended != 0:
			return true
		case all == 0:
			return false
		case forked != 0:
			s.fork(now)
		}
	}
	i := (end - from) * s.words
	if i+s.words > len(s.bits) {
		s.bits = append(s.bits, make([]uint64, i+s.words-len(s.bits)+firstSieve)...)
	}
	for k, b := range now {
		s.bits[i+k] |= b
	}
	s.used = max(s.used, end-from+1)
	return false
}

// fork adds the bytes that follow those of left, beside the next ones.
func (s *sieve) fork(now []uint64) {
	before := 0 // forks in the words before
	for k, forks := range s.forks {
		for b := s.left[k] & forks; b != 0; b &= b - 1 {
			bit := bits.TrailingZeros64(b)
			for _, next := range s.forms[before+bits.OnesCount64(forks&(1<<bit-1))] {
				set(now, next)
			}
		}
		before += bits.OnesCount64(forks)
	}
}
