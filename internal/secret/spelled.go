package secret

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A value is a secret of a program. It is looked for by what it stands for and not by how it is
// written: a text is decoded where it may go on with the value, in each way that is possible there.
// So the value is found as it is and in the escapes of URLs, of JSON by any encoder and of strings
// in programs, of markup and of mails, and any mixture of them. What a reader does not see within
// it does not count.
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
			r.decode(at, func(part string, end int) {
				if strings.HasPrefix(rest, part) {
					fronts[(n+len(part))%len(fronts)].add(end)
					reached = max(reached, n+len(part))
				}
			})
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

// decode calls yield with each text that the escape at a position may stand for, and with where
// the escape ends. The text is never empty and has at most utf8.UTFMax bytes.
func (r *reader) decode(at int, yield func(part string, end int)) {
	switch r.Byte(at) {
	case '+':
		yield(" ", at+1)
	case '\r':
		if r.Byte(at+1) == '\n' {
			yield("\n", at+2)
		}
	case '%':
		const most = 3 // times that something was encoded
		for next := at + 1; next <= at+2*most-1; next += 2 {
			r.decodeHex(next, 2, yield)
			if r.hexAt(next, 2) == '+' {
				yield(" ", next+2)
			}
			if !r.Has(next, "25") {
				break
			}
		}
	case '=':
		r.decodeHex(at+1, 2, yield)
	case '&':
		r.decodeEntity(at, yield)
	case '\\':
		r.decodeEscape(at, yield)
	}
}

// decodeHex yields the byte of so many hexadecimal digits.
func (r *reader) decodeHex(at, digits int, yield func(part string, end int)) {
	if n := r.hexAt(at, digits); n >= 0 && n < 0x100 {
		yield(string([]byte{byte(n)}), at+digits)
	}
}

// hexAt returns the number of so many hexadecimal digits at a position, or -1.
func (r *reader) hexAt(at, digits int) int {
	for i := range digits {
		if !hex[r.Byte(at+i)] {
			return -1
		}
	}
	n, err := strconv.ParseUint(r.S[at:at+digits], 16, 32)
	if err != nil {
		return -1
	}
	return int(n)
}

// entities are the names that encoders of markup write.
var entities = []struct{ name, text string }{
	{"&amp;", "&"}, {"&lt;", "<"}, {"&gt;", ">"}, {"&quot;", `"`}, {"&apos;", "'"}, {"&nbsp;", " "},
}

// decodeEntity yields what the name or the number of a character in markup stands for.
func (r *reader) decodeEntity(at int, yield func(part string, end int)) {
	for _, e := range entities {
		if r.HasFold(at, e.name) {
			yield(e.text, at+len(e.name))
			return
		}
	}
	if r.Byte(at+1) != '#' {
		return
	}
	from, base, digits := at+2, 10, 8
	if c := r.Byte(from); c == 'x' || c == 'X' {
		from, base = from+1, 16
	}
	end := from
	for end-from < digits && hex[r.Byte(end)] {
		end++
	}
	if n, err := strconv.ParseUint(r.S[from:end], base, 32); err == nil && r.Byte(end) == ';' {
		yieldRune(rune(n), end+1, yield)
	}
}

// decodeEscape yields what the escape stands for that begins with a backslash. A string within a
// string has more backslashes before the same escape.
func (r *reader) decodeEscape(at int, yield func(part string, end int)) {
	const most = 15 // of a string within a string within a string within a string
	next := at
	for next-at < most && r.Byte(next) == '\\' {
		next++
	}
	for n := 2; n <= next-at; n *= 2 {
		yield(`\`, at+n)
	}
	switch c := r.Byte(next); c {
	case 'n', 't', 'r', 'b', 'f':
		yield(string("\n\t\r\b\f"[strings.IndexByte("ntrbf", c)]), next+1)
	case 'x':
		r.decodeHex(next+1, 2, yield)
		if n := r.hexAt(next+1, 2); n >= utf8.RuneSelf {
			yieldRune(rune(n), next+3, yield)
		}
	case 'u':
		r.decodeUnicode(next+1, yield)
	case 'U':
		if n := r.hexAt(next+1, 8); n >= 0 {
			yieldRune(rune(n), next+9, yield)
		}
	case '0', '1', '2', '3':
		if end := r.octalEnd(next); end > 0 {
			n, err := strconv.ParseUint(r.S[next:end], 8, 8)
			if err == nil {
				yield(string([]byte{byte(n)}), end)
			}
		}
	default:
		if c > ' ' && c < 0x7F && c != '\\' && !alnum[c] {
			yield(string(c), next+1)
		}
	}
}

// octalEnd returns where a number of three octal digits ends, or 0.
func (r *reader) octalEnd(at int) int {
	for i := range 3 {
		if c := r.Byte(at + i); c < '0' || c > '7' {
			return 0
		}
	}
	return at + 3
}

// decodeUnicode yields the character of the four digits behind \u, or of two such escapes, of which
// JSON makes a character with a high number.
func (r *reader) decodeUnicode(at int, yield func(part string, end int)) {
	n, end := r.hexAt(at, 4), at+4
	if n < 0 && r.Byte(at) == '{' {
		end = at + 1
		for end-at < 8 && hex[r.Byte(end)] {
			end++
		}
		if r.Byte(end) == '}' {
			n = r.hexAt(at+1, end-at-1)
			end++
		}
	}
	if n >= 0xD800 && n < 0xDC00 {
		low := r.Skip(end, `\`)
		if r.Byte(low) != 'u' || low == end {
			return
		}
		second := r.hexAt(low+1, 4)
		if second < 0xDC00 || second >= 0xE000 {
			return
		}
		n, end = 0x10000+(n-0xD800)<<10+second-0xDC00, low+5
	}
	if n >= 0 {
		yieldRune(rune(n), end, yield)
	}
}

// yieldRune yields a character that UTF-8 has.
func yieldRune(c rune, end int, yield func(part string, end int)) {
	if utf8.ValidRune(c) {
		yield(string(c), end)
	}
}
