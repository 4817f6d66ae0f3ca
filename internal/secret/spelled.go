package secret

import (
	"slices"
	"strings"
)

// A value is a secret of a program. It is looked for by what it stands for and not by how it is
// written: a text is decoded where it may go on with the value, in each way that is possible there.
// So the value is found as it is and in the escapes of URLs, of JSON by any encoder and of strings
// in programs, of markup and of mails, any mixture of them, and one in another up to maxEncoded
// times. What a reader does not see within it does not count.
type value struct {
	text  string
	wraps bool // line breaks and seams within it do not count either
}

// wraps is how many bytes a value has at least of which a line break or a seam does not make
// another one.
const wraps = 6

// newValue returns the value of a text, without what a reader does not see. What looks like an
// escape is a part of it, but where a line of its own begins.
func newValue(text string) value {
	if seen := drawn(text); len(seen) >= 4 {
		text = seen
	}
	if flat := flatten(text); len(flat) >= wraps {
		text = flat
	}
	return value{text, len(text) >= wraps}
}

// trimBreaks returns a secret without the breaks of lines around it, such as the last one of a file
// that has it.
func trimBreaks(text string) string {
	if trimmed := strings.Trim(text, "\r\n"); len(trimmed) >= 4 {
		return trimmed
	}
	return text
}

// flatten returns a value with a line feed for each of its gaps, as they are found in a text: how
// its lines are indented or quoted does not count.
func flatten(text string) string {
	if !strings.ContainsAny(text, "\n\v\f") {
		return text
	}
	var out strings.Builder
	r := reader{}
	r.S = text
	for at := 0; at < len(text); {
		end := at
		if c := text[at]; c < ' ' {
			end = r.lineBreak(at)
		}
		if end == at {
			out.WriteByte(text[at])
			at++
			continue
		}
		if end = r.gapAt(at, end).end; end == len(text) { // nothing counts behind it
			out.WriteString(text[at:])
			break
		}
		out.WriteByte('\n')
		at = end
	}
	return out.String()
}

// A front is the places in a text behind which the rest of a value may begin. One that is full
// takes no more: so many spellings of the same bytes are not met outside of an attack on the time.
type front struct {
	at    [32]int
	n     int
	marks int // from this one on they are of the marks of a line
}

// add adds a place.
func (f *front) add(at int) {
	if f.n < len(f.at) && !slices.Contains(f.at[:f.n], at) {
		f.at[f.n] = at
		f.n++
	}
}

// verbatimEnd returns where the bytes end from a position on that stand for themselves alone.
// They end before a seam, also before a blank that may be one.
func (r *reader) verbatimEnd(at int) int {
	end := at
	if r.sieves != nil {
		end = max(at, r.sieves.verbatim.end(at))
	}
	end = min(end, len(r.S))
	for end < len(r.S) && isVerbatim(r.S[end]) {
		if r.S[end] == ' ' && end > at && inWord(r.S[end-1]) &&
			(end+1 == len(r.S) || inWord(r.S[end+1])) {
			break
		}
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
