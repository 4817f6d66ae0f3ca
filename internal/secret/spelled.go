package secret

import (
	"slices"
	"strings"
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
}

// wraps is how many bytes a value has at least of which a line break does not make another one.
const wraps = 6

// newValue returns the value of a text, without what a reader does not see.
func newValue(text string) value {
	if seen := plain(text); len(seen) >= 4 {
		text = seen
	}
	return value{text, len(text) >= wraps}
}

// A front is the places in a text behind which the rest of a value may begin. One that is full
// takes no more: so many spellings of the same bytes are not met outside of an attack on the time.
type front struct {
	at [16]int
	n  int
}

// add adds a place.
func (f *front) add(at int) {
	if f.n < len(f.at) && !slices.Contains(f.at[:f.n], at) {
		f.at[f.n] = at
		f.n++
	}
}

// escapes are the bytes that may begin an escape.
var escapes = letters(`%\&+=`)

// isVerbatim reports whether a byte stands for itself alone wherever it is.
func isVerbatim(c byte) bool { return c >= ' ' && c < 0x7F && !escapes[c] }

// valueEnd returns where a value ends that begins at a position, or 0 if another text stands there.
func (r *reader) valueEnd(at int, v value) int {
	n := 0
	for isVerbatim(r.Byte(at)) && r.S[at] == v.text[n] {
		at++
		if n++; n == len(v.text) {
			return at
		}
	}
	if r.Ended(at) || isVerbatim(r.S[at]) {
		return 0
	}
	// fronts[i%len] are the places behind the first i bytes of the value.
	var fronts [utf8.UTFMax + 1]front
	fronts[n%len(fronts)].add(at)
	for reached := n; n < len(v.text); n++ {
		if n > reached {
			return 0 // nothing has led here
		}
		now := fronts[n%len(fronts)]
		fronts[n%len(fronts)] = front{}
		if n > 0 {
			for _, at := range now.at[:now.n] {
				r.passUnseen(at, v.wraps, &now)
			}
		}
		rest := v.text[n:]
		for _, at := range now.at[:now.n] {
			if !r.Ended(at) && r.S[at] == rest[0] {
				fronts[(n+1)%len(fronts)].add(at + 1)
				reached = max(reached, n+1)
			}
			meant := r.decoded(at, maxEncoded)
			for i := range meant.n {
				s := &meant.all[i]
				part, end := s.text(), at+int(s.span)
				if part == "\n" && rest[0] == ' ' {
					part = " "
				}
				if strings.HasPrefix(rest, part) {
					fronts[(n+len(part))%len(fronts)].add(end)
					reached = max(reached, n+len(part))
				}
			}
			if rest[0] == ' ' {
				if end := r.lineBreak(at); end > at {
					fronts[(n+1)%len(fronts)].add(end)
					reached = max(reached, n+1)
				}
			}
		}
	}
	last := fronts[n%len(fronts)]
	return slices.Max(append(last.at[:last.n], 0))
}

// passUnseen adds the places behind what does not count within a value.
func (r *reader) passUnseen(at int, wraps bool, f *front) {
	meant := r.decoded(at, maxEncoded)
	for i := range meant.n {
		if end := r.unseenEnd(at, &meant.all[i], wraps); end > at {
			f.add(end)
		}
	}
	for range 4 {
		from := at
		for next := r.transparentEnd(at); next > at; next = r.transparentEnd(at) {
			at = next
		}
		f.add(at)
		if !wraps {
			return
		}
		if end := r.lineBreak(at); end > at {
			f.add(end)
			at = r.Skip(end, " \t>|")
			f.add(at)
		}
		if at == from {
			return
		}
	}
}

// lineBreak returns the position behind a line break at a position, or that position.
func (r *reader) lineBreak(at int) int {
	switch c := r.Byte(at); {
	case c == '\v' || c == '\f':
		return at + 1
	case c == 0xC2 && r.Byte(at+1) == 0x85:
		return at + 2
	case c == 0xE2 && (r.Has(at, "\u2028") || r.Has(at, "\u2029")):
		return at + len("\u2028")
	}
	return max(at, r.softBreak(at))
}
