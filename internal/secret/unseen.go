package secret

import (
	"slices"
	"sort"
	"unicode/utf8"

	"github.com/offshoot-sdk/offshoot/internal/ahead"
	"github.com/offshoot-sdk/offshoot/internal/text"
)

// This file has what does not count within a value: what a reader does not see, and the breaks of
// lines. Each may stand there as it is, or encoded as the value itself may be:
//
//	a character     U+200B, BEL         \u200b  \a  %E2%80%8B  &shy;
//	a sequence      ESC ]0;x BEL        \x1b]0;x\a  %1B%5D0;x%07
//	a break         U+2028, VT, CR LF   \u2028  \v  \r\n  &NewLine;

// maxSequence is how many bytes a sequence of a terminal has at most, as in package text. One that
// is encoded may take more.
const maxSequence = 4096

// isBreak reports whether a line ends with a character.
func isBreak(c rune) bool {
	switch c {
	case '\n', '\r', '\v', '\f', 0x85, 0x2028, 0x2029:
		return true
	}
	return false
}

// isUnseen reports whether a reader does not see a character, nor a break of the line in its place.
func isUnseen(c rune) bool {
	switch {
	case c >= ' ' && c < 0x7F, c == '\t', isBreak(c):
		return false
	}
	return c < ' ' || text.IsUndrawn(c)
}

// An unseen is the places of a buffer at which something begins that a reader does not see, one
// behind another. It is remembered, because a value may come to each of them.
type unseen struct {
	places []int
	end    int // of the last
}

// forget empties an unseen, because the positions in its buffer have changed.
func (u *unseen) forget() { u.places, u.end = u.places[:0], 0 }

// held returns how many bytes an unseen takes.
func (u *unseen) held() int { return 8 * cap(u.places) }

// add adds a place, and where what begins there ends. It forgets those that do not lead to it.
func (u *unseen) add(at, end int) {
	if u == nil || u.leads(at) {
		return
	}
	if u.end != at {
		u.forget()
	}
	u.places, u.end = append(u.places, at), end
}

// leads reports whether a place is one of the unseen.
func (u *unseen) leads(at int) bool {
	if u == nil || at >= u.end {
		return false
	}
	i := sort.SearchInts(u.places, at)
	return i < len(u.places) && u.places[i] == at
}

// passUnseen adds the places behind what does not count within a value.
func (r *reader) passUnseen(at int, wraps bool, f *front) {
	at = r.unseenRun(at, f)
	f.add(at)
	f.marks = len(f.at)
	if !wraps {
		return
	}
	if end := r.breakEnd(at); end > at {
		g := r.gapAt(at, end)
		f.add(g.end)
		f.add(end)
		f.marks = f.n
		r.addMarks(g.places, f)
	}
}

// unseenRun returns the place behind all that a reader does not see from a place on. Of the first
// of that it adds what may be otherwise: a value may have what looks like an escape, and a reader
// may see what follows the first character of a sequence.
func (r *reader) unseenRun(at int, f *front) int {
	const firsts = 3
	u := r.unseen
	for n := 0; ; n++ {
		if n >= firsts && u.leads(at) {
			at = u.end
			continue
		}
		end, first := r.unseenEnd(at)
		if end == at {
			return at
		}
		if n < firsts {
			f.add(at)
			f.add(first)
		}
		if !r.Ends() {
			u.add(at, end)
		}
		at = end
	}
}

// unseenEnd returns the place behind what a reader does not see at a place, and the one behind its
// first character, which is another if it is a sequence of a terminal. It returns the place itself
// if nothing of that stands there.
func (r *reader) unseenEnd(at int) (end, first int) {
	end, first = at, at
	if r.Ended(at) {
		return at, at
	}
	c := r.S[at]
	if isVerbatim(c) {
		return at, at
	}
	if c == '\r' {
		if n := r.Byte(at + 1); n != '\n' && !r.Ended(at+1) {
			return at + 1, at + 1
		}
		return at, at
	}
	if !mayEscape(c) {
		v, size := r.Rune(at)
		if !isUnseen(v) || size == 0 {
			return at, at
		}
		first = at + size
		return max(first, r.sequenceEnd(v, first, 0)), first
	}
	meant := r.decoded(at, maxEncoded)
	for i := range meant.n {
		v, next := r.wholeRune(at, &meant.all[i])
		if next == at || !isUnseen(v) {
			continue
		}
		if stop := max(next, r.sequenceEnd(v, next, r.timesOf(at, v))); stop > end {
			end, first = stop, next
		}
	}
	return end, first
}

// isSeam reports whether the blank at a place that is not the first stands between two words. Each
// byte that is not ASCII counts as one of a word. What is shown of a text has such a blank where
// control tokens of a template stood, and the two words may be one value. A blank of the text
// itself looks the same.
func (r *reader) isSeam(at int) bool { return inWord(r.S[at-1]) && inWord(r.Byte(at+1)) }

// inWord reports whether a byte may be one of a word.
func inWord(c byte) bool { return alnum[c] || c == '_' || c >= utf8.RuneSelf }

// timesOf returns how many times the text was encoded at a place where a character is meant that
// begins a sequence of a terminal.
func (r *reader) timesOf(at int, v rune) int {
	if v != 0x1B && (v < 0x90 || v > 0x9F) {
		return maxEncoded
	}
	for times := 1; times < maxEncoded; times++ {
		meant := r.decoded(at, times)
		for i := range meant.n {
			if c, next := r.wholeRune(at, &meant.all[i]); next > at && c == v {
				return times
			}
		}
	}
	return maxEncoded
}

// wholeRune returns the character that is meant at a place and begins with a spelling, and where it
// ends. That is the place itself if none does.
func (r *reader) wholeRune(at int, begin *spelling) (v rune, end int) {
	part, end := begin.bytes, at+int(begin.span)
	size := int(begin.size)
	for part[0] >= utf8.RuneSelf && !utf8.FullRune(part[:size]) { // each byte has its own escape
		next := r.decoded(end, maxEncoded)
		i := slices.IndexFunc(next.all[:next.n], func(s spelling) bool {
			return s.size == 1 && !utf8.RuneStart(s.bytes[0])
		})
		if i < 0 {
			return 0, at
		}
		part[size] = next.all[i].bytes[0]
		size, end = size+1, end+int(next.all[i].span)
	}
	v, n := utf8.DecodeRune(part[:size])
	if n != size || v == utf8.RuneError && n == 1 {
		return 0, at
	}
	return v, end
}

// meantAt returns the character that is meant at a place of a text that was encoded so many times:
// of several the one that takes most of the text. The end is the place itself where the text ends.
func (r *reader) meantAt(at, times int) (v rune, end int) {
	if !r.Ended(at) && times > 0 && mayEscape(r.S[at]) {
		meant := r.decoded(at, times)
		end = at
		for i := range meant.n {
			if c, next := r.wholeRune(at, &meant.all[i]); next > end {
				v, end = c, next
			}
		}
		if end > at {
			return v, end
		}
	}
	v, size := r.Rune(at)
	return v, at + size
}

// sequenceEnd returns the place behind the rest of a sequence of a terminal that begins with a
// character before a place of a text that was encoded so many times, or 0 if none does that has an
// end. The text for a terminal, such as a title, ends with its line at the latest.
func (r *reader) sequenceEnd(kind rune, at, times int) int {
	stop := at + maxSequence
	if times > 0 {
		stop = at + ahead.Max
	}
	if kind == 0x1B {
		c, next := r.meantAt(at, times)
		switch {
		case next == at || c < ' ' || c > '~':
			return 0
		case c == '[':
			kind = 0x9B
		case c == ']' || c == 'P' || c == 'X' || c == '^' || c == '_':
			kind = 0x9D
		case c < '0':
			next = r.passMeant(next, stop, times, ' ', '/')
			if c, end := r.meantAt(next, times); end > next && c >= '0' && c <= '~' {
				return end
			}
			return 0
		default:
			return next
		}
		at = next
	}
	switch kind {
	case 0x9B:
		at = r.passMeant(at, stop, times, ' ', '?')
		if c, end := r.meantAt(at, times); end > at && c >= '@' && c <= '~' {
			return end
		}
	case 0x90, 0x98, 0x9D, 0x9E, 0x9F:
		return r.ownTextEnd(at, stop, times)
	}
	return 0
}

// passMeant returns the place behind the characters from one to another that are meant at a place.
func (r *reader) passMeant(at, stop, times int, from, to rune) int {
	for at < stop {
		c, end := r.meantAt(at, times)
		if end == at || c < from || c > to {
			break
		}
		at = end
	}
	return at
}

// ownTextEnd returns the place behind a text for the terminal that begins at a place, or 0 if it
// has no end.
func (r *reader) ownTextEnd(at, stop, times int) int {
	for at < stop {
		c, end := r.meantAt(at, times)
		switch {
		case end == at:
			return 0
		case c == '\n', c == '\r':
			return at
		case c == '\a', c == 0x9C:
			return end
		case c == 0x1B:
			if c, stop := r.meantAt(end, times); c == '\\' {
				return stop
			}
			return 0
		}
		at = end
	}
	return 0
}

// breakEnd returns the place behind the break of a line at a place, or the place itself.
func (r *reader) breakEnd(at int) int {
	if r.Ended(at) || isVerbatim(r.S[at]) {
		return at
	}
	end := r.lineBreak(at)
	if !mayEscape(r.S[at]) {
		return end
	}
	meant := r.decoded(at, maxEncoded)
	for i := range meant.n {
		v, next := r.wholeRune(at, &meant.all[i])
		if next == at || !isBreak(v) {
			continue
		}
		if v == '\r' {
			if c, after := r.meantAt(next, maxEncoded); c == '\n' {
				next = after
			}
		}
		end = max(end, next)
	}
	return end
}

// lineBreak returns the place behind the break of a line at a place, as it is or as a mail, a shell
// or JSON writes it, or the place itself.
func (r *reader) lineBreak(at int) int {
	switch c := r.Byte(at); {
	case c == '\v' || c == '\f':
		return at + 1
	case c == '\r':
		if n := r.Byte(at + 1); n != '\n' && n != '\r' && !r.Ended(at+1) { // the last one of a run
			return at + 1
		}
	case c == 0xC2 && r.Byte(at+1) == 0x85:
		return at + 2
	case c == 0xE2 && (r.Has(at, "\u2028") || r.Has(at, "\u2029")):
		return at + len("\u2028")
	}
	return max(at, r.softBreak(at))
}

// mostGap is of how many parts a gap has at most: of breaks, of marks, and of what is not seen.
const mostGap = 4096

// A gap is a break of a line with what does not count behind it: blanks, marks of quotations and of
// comments, further breaks, and what a reader does not see.
type gap struct {
	places []int // behind its first break and behind each part, but for the last
	end    int   // the place behind it; that of its first break if it has more than mostGap parts
}

// gaps are the places of the gap that was read last, one behind another. They are remembered,
// because a value may come to each of them, and read as far as they are asked for.
type gaps struct {
	places []int
	whole  bool // the gap ends with the last place
	sure   int  // so many places do not depend on where the text ends
	size   int  // of the text of which the others were read
}

// forget empties the gaps, because the positions in their buffer have changed.
func (g *gaps) forget() { *g = gaps{places: g.places[:0]} }

// held returns how many bytes the gaps take.
func (g *gaps) held() int { return 8 * cap(g.places) }

// gapAt returns the gap that begins with the break of a line at a place.
func (r *reader) gapAt(at, end int) gap {
	g := r.gaps
	if g == nil {
		g = new(gaps)
	}
	if g.size != len(r.S) {
		g.whole = g.whole && g.sure > len(g.places)
		g.places, g.size = g.places[:min(g.sure, len(g.places))], len(r.S)
	}
	i, ok := slices.BinarySearch(g.places, at)
	if !ok && i > 0 && i < len(g.places) {
		if i, ok = r.joinGap(g, end); ok {
			return r.restOf(g, i)
		}
	}
	if !ok {
		g.forget()
		g.places, g.size, i = append(g.places, at, end), len(r.S), 0
		w := r.apart()
		if w.Reread(at); w.breakEnd(at) == end && !w.Ends() {
			g.sure = len(g.places)
		}
	}
	return r.restOf(g, i+1)
}

// joinGap looks for the place of the known gap to which a place leads that is within it and none of
// it, such as the second of two backslashes.
func (r *reader) joinGap(g *gaps, at int) (i int, ok bool) {
	const few = 8
	for range few {
		i, ok = slices.BinarySearch(g.places, at)
		if ok || i == len(g.places) {
			return i, ok
		}
		end := r.partEnd(at)
		if end == at {
			break
		}
		at = end
	}
	return 0, false
}

// restOf returns what follows in the gaps from an index on, and reads more of them.
func (r *reader) restOf(g *gaps, i int) gap {
	most := i + mostGap
	for len(g.places) <= most+1 && !g.whole {
		last := g.places[len(g.places)-1]
		w := r.apart()
		w.Reread(last)
		end := w.partEnd(last)
		if g.sure == len(g.places) && !w.Ends() {
			g.sure++ // so that it is over len(g.places) if it is sure that they are all
		}
		if g.whole = end == last; !g.whole {
			g.places = append(g.places, end)
		}
	}
	last := len(g.places) - 1
	if g.sure <= min(last, most) {
		r.Read(len(r.S) + 1)
	}
	if last > most {
		r.Read(g.places[most])
		return gap{nil, g.places[i]}
	}
	if i > last {
		return gap{nil, g.places[last]}
	}
	r.partEnd(g.places[last]) // which notes that it was read
	return gap{g.places[i:last], g.places[last]}
}

// partEnd returns the place behind a part of a gap that stands at a place, or the place itself.
func (r *reader) partEnd(at int) int {
	if r.Ended(at) {
		return at
	}
	switch c := r.S[at]; {
	case c == '\n':
		return at + 1
	case isVerbatim(c):
		if lineMarks[c] && (c != '*' || r.Byte(at+1) != '*') { // several may be a mask
			return at + 1
		}
		return at
	}
	if end := r.breakEnd(at); end > at {
		return end
	}
	if c, end := r.meantAt(at, maxEncoded); c < utf8.RuneSelf && lineMarks[c] {
		return end
	}
	end, _ := r.unseenEnd(at)
	return end
}

// lineMarks are what lines begin with that are indented, quoted, or made a comment or a change.
var lineMarks = letters(" \t>|/#*;\"'+-")

// addMarks adds the last places of a gap: a value may go on with the mark of a line itself.
func (r *reader) addMarks(places []int, f *front) {
	const lasts = 16
	for _, at := range slices.Backward(places[max(0, len(places)-lasts):]) {
		if r.has == nil || r.has[r.S[at]] || !isVerbatim(r.S[at]) {
			f.add(at)
		}
	}
}
