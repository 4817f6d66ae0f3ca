package secret

import (
	"slices"
	"unicode/utf8"
)

// A value is a secret of a program. It is looked for by what it stands for and not by how it is
// written: a text is decoded where it may go on with the value, in each way that is possible there.
// So the value is found as it is and in the escapes of URLs, of JSON by any encoder and of strings
// in programs, of markup and of mails, any mixture of them, and one in another up to maxEncoded
// times. What a reader does not see within it does not count.
type value struct {
	text  string
	wraps bool // line breaks within it do not count either

	rarest int // the position of the byte that it has least often
}

// wraps is how many bytes a value has at least of which a line break does not make another one.
const wraps = 6

// newValue returns the value of a text, without what a reader does not see. What looks like an
// escape is a part of it.
func newValue(text string) value {
	if seen := drawn(text); len(seen) >= 4 {
		text = seen
	}
	return valueOf(text, len(text) >= wraps)
}

// valueOf returns the value that a text is.
func valueOf(text string, wraps bool) value {
	var counts [256]int
	for i := range len(text) {
		counts[text[i]]++
	}
	v := value{text: text, wraps: wraps}
	for i := range len(text) {
		if counts[text[i]] < counts[text[v.rarest]] {
			v.rarest = i
		}
	}
	return v
}

// A front is the places in a text behind which the rest of a value may begin. One that is full
// takes no more: so many spellings of the same bytes are not met outside of an attack on the time.
type front struct {
	at [32]int
	n  int
}

// add adds a place.
func (f *front) add(at int) {
	if f.n < len(f.at) && !slices.Contains(f.at[:f.n], at) {
		f.at[f.n] = at
		f.n++
	}
}

// verbatimEnd returns where the bytes end from a position on that stand for themselves alone.
func (r *reader) verbatimEnd(at int) int {
	end := at
	if r.sieves != nil {
		end = max(at, r.sieves.verbatim.end(at))
	}
	end = min(end, len(r.S))
	for end < len(r.S) && isVerbatim(r.S[end]) {
		end++
	}
	if r.sieves != nil {
		r.sieves.verbatim = stretch{at, end}
	}
	return end
}

// escapes are the bytes that may begin an escape.
var escapes = letters(`%\&+=`)

// isVerbatim reports whether a byte stands for itself alone wherever it is.
func isVerbatim(c byte) bool { return c >= ' ' && c < 0x7F && !escapes[c] }

// valueEnd returns where a value ends that begins at a position, or 0 if another text stands there.
func (r *reader) valueEnd(at int, v value) int {
	end := r.verbatimEnd(at)
	if stop := at + len(v.text); stop <= end { // it stands there as it is, or not at all
		r.Read(stop)
		if r.S[at+v.rarest] == v.text[v.rarest] && r.S[at:stop] == v.text {
			return stop
		}
		return 0
	}
	n := end - at
	if r.S[at:end] != v.text[:n] {
		r.Read(end)
		return 0
	}
	if at = end; r.Ended(at) {
		return 0
	}
	// steps are counted, so that a value that is followed far for nothing is looked for by a sieve.
	steps := n
	if r.sieves.clears(r, v, at-n) || r.Waits() {
		return 0
	}
	is := hopsWithin
	if !v.wraps {
		is = hopsInLine
	}
	// fronts[i%len] are the places behind the first i bytes of the value.
	var fronts [utf8.UTFMax + 1]front
	fronts[n%len(fronts)].add(at)
	for reached := n; n < len(v.text) && n <= reached; n++ {
		now := fronts[n%len(fronts)]
		fronts[n%len(fronts)] = front{}
		steps += now.n
		rest, is := v.text[n:], is
		if n == 0 {
			is = hopsFirst
		}
		for _, at := range now.at[:now.n] {
			hops := r.hops(at, is)
			for i := range hops {
				if hop := &hops[i]; hop.begins(rest) {
					next := n + int(hop.size)
					fronts[next%len(fronts)].add(at + hop.span)
					reached = max(reached, next)
				}
			}
		}
	}
	if last := fronts[n%len(fronts)]; n == len(v.text) && last.n > 0 {
		return slices.Max(last.at[:last.n])
	}
	if steps >= leastSteps {
		r.sieves.make(v)
	}
	return 0
}
