package secret

// A value that repeats itself, such as many backslashes, begins at each place of a text that does,
// and is followed from each of them to where it ends. A sieve follows it from many places at once:
// each byte of a value has a bit, and a place has the bits of those that may have been met before
// it, from wherever. It only tells where a value does not begin.
//
//	text    \   \   \   \   \   x   ...        value  \\\\y
//	bits    1   11  111 1111 1111 -            no place has all five bits
//
// Without it a value of 64 backslashes takes 200 times as long on a text of them as another one.
type sieve struct {
	of    string // the value
	wraps bool
	size  int        // bytes of it that are looked at
	words int        // that hold their bits
	masks [][]uint64 // of each byte: where the value has it; nil: nowhere

	from, until int // the value does not begin from one place to another
	step        int // how many places are looked at next

	bits  []uint64 // of the places from one on
	used  int      // how many of them were set
	moved []uint64 // see meets
}

// Numbers of sieves.
const (
	sieveSize  = 1024 // bytes of a value that are looked at, at most
	leastSteps = 32   // that valueEnd takes before a sieve is worth its cost
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
			n += 8 * (3*len(one.masks) + (1+len(one.of))*one.words + cap(one.bits))
		}
	}
	return n
}

// find returns the sieve of a value, or nil.
func (s *sieves) find(v value) *sieve {
	for _, one := range s.all {
		if one != nil && one.wraps == v.wraps && one.of == v.text {
			return one
		}
	}
	return nil
}

// clears reports whether a value does not begin at a place, if a sieve was made for it and can
// tell. Where that depends on what has not come yet, it awaits it.
func (s *sieves) clears(r *reader, v value, at int) bool {
	if s == nil || s.all[0] == nil {
		return false
	}
	one := s.find(v)
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

// make makes the sieve of a value, unless there is one, in the place of the oldest.
func (s *sieves) make(v value) {
	if s == nil || s.off || s.find(v) != nil {
		return
	}
	one := &sieve{
		of: v.text, wraps: v.wraps, size: min(len(v.text), sieveSize), step: firstSieve,
		masks: make([][]uint64, 256),
	}
	one.words = (one.size + 63) / 64
	one.moved = make([]uint64, one.words)
	for i := range one.size {
		mask := &one.masks[v.text[i]]
		if *mask == nil {
			*mask = make([]uint64, one.words)
		}
		(*mask)[i/64] |= 1 << (i % 64)
	}
	s.all[s.next] = one
	s.next = (s.next + 1) % len(s.all)
}

// An answer is what a sieve tells of some places.
type answer uint8

const (
	isNowhere answer = iota // the value begins at none of them
	isMet                   // it may begin at one
	isUnknown               // that depends on what is not seen
)

// look looks whether the value begins at some places from one on.
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
// reports whether the value may end within the part.
func (s *sieve) meets(from, at, end int, begins, met bool, part []byte) bool {
	bits := s.moved
	clear(bits)
	if met {
		copy(bits, s.bits[(at-from)*s.words:])
	}
	if begins {
		bits[0] |= 1
	}
	for i := range len(part) {
		mask := s.masks[part[i]]
		if mask == nil {
			return false
		}
		carry, left := uint64(0), uint64(0)
		for k := range bits {
			b := bits[k] & mask[k]
			left |= b
			bits[k] = b<<1 | carry
			carry = b >> 63
		}
		switch n := s.size; {
		case left == 0:
			return false
		case carry != 0, n%64 != 0 && bits[n/64]&(1<<(n%64)) != 0:
			return true
		}
	}
	i := (end - from) * s.words
	if i+s.words > len(s.bits) {
		s.bits = append(s.bits, make([]uint64, i+s.words-len(s.bits)+firstSieve)...)
	}
	for k, b := range bits {
		s.bits[i+k] |= b
	}
	s.used = max(s.used, end-from+1)
	return false
}
