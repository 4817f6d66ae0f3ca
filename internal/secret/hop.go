package secret

import (
	"slices"
	"unicode/utf8"
)

// A hop is one way on from a place in a text: what may be meant there, and where it ends.
type hop struct {
	bytes [utf8.UTFMax]byte
	size  uint8
	span  int // from the place on, with what does not count before it
}

// part returns what may be meant.
func (h *hop) part() []byte { return h.bytes[:h.size] }

// A hopKind says what does not count before what is meant at a place.
type hopKind int

const (
	hopsFirst  hopKind = iota // everything counts, because a value begins there
	hopsInLine                // what a reader does not see does not count
	hopsWithin                // line breaks and seams do not, either
)

// A hopped remembers the hops of some places of a buffer, because many values, and many beginnings
// of one, come to the same place. The zero hopped is ready.
type hopped struct {
	places []hopSpot
	used   bool
}

// A hopSpot is what a hopped remembers of a place.
type hopSpot struct {
	key   int // of the place and whether line breaks count; 0: none
	seen  int // as of a spot
	size  int // as of a spot
	hops  []hop
	whole bool // hops has all, and not those of hopsFirst alone

	first     int // of the hops are those of hopsFirst
	firstSeen int // as seen, for those
}

// hopSpots is how many places a hopped remembers, and mostHops how many hops a place has. One that
// is full takes no more, as a front.
const (
	hopSpots = 256
	mostHops = 64
)

// forget empties a hopped, because the positions in its buffer have changed.
func (h *hopped) forget() {
	if h.used {
		for i := range h.places {
			h.places[i].key = 0
		}
		h.used = false
	}
}

// held returns how many bytes a hopped takes.
func (h *hopped) held() int {
	n := 0
	for i := range h.places {
		n += 72 + 16*cap(h.places[i].hops)
	}
	return n
}

// hops returns the hops from a place on. They are valid until the next call.
func (r *reader) hops(at int, is hopKind) []hop {
	if r.Ended(at) {
		return nil
	}
	if c := r.S[at]; isVerbatim(c) {
		r.plain[0] = hop{[utf8.UTFMax]byte{c}, 1, 1}
		if is == hopsWithin && c == ' ' && r.isSeam(at) {
			r.plain[1] = hop{[utf8.UTFMax]byte{r.S[at+1]}, 1, 2}
			return r.plain[:]
		}
		return r.plain[:1]
	}
	wraps := is != hopsInLine
	key := 2 * (at + 1)
	if wraps {
		key++
	}
	spot := r.hopped.spot(key)
	if spot.key != key || !r.knows(spot.seen, spot.size) {
		w := r.apart()
		w.Reread(at)
		spot.key, spot.size, spot.hops = key, len(w.S), spot.hops[:0]
		w.addMeant(at, at, spot)
		w.addBreaks(at, at, wraps, spot)
		spot.first, spot.seen, spot.whole = len(spot.hops), w.Seen(), false
		spot.firstSeen = spot.seen
	}
	if is == hopsFirst {
		r.Read(spot.firstSeen)
		return spot.hops[:spot.first]
	}
	if !spot.whole {
		w := r.apart()
		w.Reread(spot.seen)
		var now front
		now.add(at)
		w.passUnseen(at, wraps, &now)
		for i, place := range now.at[1:now.n] {
			w.addMeant(at, place, spot)
			if i+1 < now.marks {
				w.addBreaks(at, place, wraps, spot)
			}
		}
		spot.size, spot.seen, spot.whole = len(w.S), w.Seen(), true
	}
	r.Read(spot.seen)
	return spot.hops
}

// knows reports whether what was read before a position of a text of some size is the same now.
func (r *reader) knows(seen, size int) bool {
	return size == len(r.S) || seen <= size && seen <= len(r.S)
}

// spot returns the spot for the hops of a key.
func (h *hopped) spot(key int) *hopSpot {
	if h == nil {
		return new(hopSpot)
	}
	if h.places == nil {
		h.places = make([]hopSpot, hopSpots)
	}
	h.used = true
	return &h.places[key%hopSpots]
}

// addMeant adds the hops of a place to those of one before it, behind which it does not count.
func (r *reader) addMeant(at, place int, to *hopSpot) {
	if r.Ended(place) {
		return
	}
	to.add(hop{[utf8.UTFMax]byte{r.S[place]}, 1, place + 1 - at})
	if mayEscape(r.S[place]) {
		meant := r.decoded(place, maxEncoded)
		for i := range meant.n {
			one := &meant.all[i]
			to.add(hop{one.bytes, one.size, place + int(one.span) - at})
		}
	}
}

// addBreaks adds those of the break of a line at a place. It stands for any other, and for a space,
// also with what does not count behind it.
func (r *reader) addBreaks(at, place int, wraps bool, to *hopSpot) {
	end := r.breakEnd(place)
	if end == place {
		return
	}
	ends := [...]int{end, end}
	if wraps {
		ends[1] = r.gapAt(place, end).end
	}
	for _, end := range ends {
		to.add(hop{[utf8.UTFMax]byte{' '}, 1, end - at})
		to.add(hop{[utf8.UTFMax]byte{'\n'}, 1, end - at})
	}
}

// apart returns a reader of the same text that notes what it reads on its own.
func (r *reader) apart() reader {
	return reader{
		View: r.View, spelt: r.spelt, unseen: r.unseen, gaps: r.gaps, has: r.has,
	}
}

// add adds a hop.
func (h *hopSpot) add(one hop) {
	if len(h.hops) < mostHops && !slices.Contains(h.hops, one) {
		h.hops = append(h.hops, one)
	}
}
