package secret

import (
	"strings"
	"unicode/utf8"

	"github.com/offshoot-sdk/offshoot/internal/text"
)

// transparentEnd returns the position behind what a reader does not see at a position: a sequence
// of a terminal, a colour of one as a string of a program writes it, a control character that no
// line ends with, or a character that is not drawn. It returns the position itself if nothing of
// that stands there.
func (r *reader) transparentEnd(at int) int {
	switch c := r.Byte(at); {
	case c == 0x1B:
		return r.escapeSequenceEnd(at)
	case c == '\\':
		for _, escape := range colourEscapes {
			if r.Has(at, escape) {
				return r.colourEnd(at, at+len(escape)-len("["))
			}
		}
	case c == '\r':
		if n := r.Byte(at + 1); n != '\n' && !r.Ended(at+1) {
			return at + 1
		}
	case c < ' ' && c != '\t' && c != '\n' && c != '\v' && c != '\f', c == 0x7F:
		if !r.Ended(at) {
			return at + 1
		}
	case c >= 0xC2:
		v, size := r.Rune(at)
		if !text.IsUndrawn(v) {
			return at
		}
		next := r.Byte(at + size) // a wrong encoding has such characters too, but no number behind
		if v == 0x9B && next == '?' || (v == 0x9B || v == 0x9D) && next >= '0' && next <= '9' {
			return max(at+size, r.sequenceEnd(v, at+size, 0))
		}
		return at + size
	}
	return at
}

// escapeSequenceEnd returns the position behind the sequence that the ESC at a position begins, or
// behind the ESC. One of a letter is so rare that a letter behind an ESC is more likely one of the
// text, but for some.
func (r *reader) escapeSequenceEnd(at int) int {
	end := r.sequenceEnd(0x1B, at+1, 0)
	if end == 0 || end == at+2 && strings.IndexByte("78=>cDEHMZ", r.Byte(at+1)) < 0 {
		return at + 1
	}
	return end
}

// colourEscapes are the ways in which strings of programs begin a colour.
var colourEscapes = [...]string{
	`\x1b[`, `\u001b[`, `\033[`, `\e[`, `\x1B[`, `\u001B[`, `\\x1b[`, `\\u001b[`,
}

// colourEnd returns the position behind a control sequence that starts at a position and whose
// bracket stands at another one, or the first if it is not one.
func (r *reader) colourEnd(at, bracket int) int {
	const most = 24
	for i := bracket + 1; i < bracket+most; i++ {
		c := r.Byte(i)
		if c >= '@' && c <= '~' {
			return i + 1
		}
		if c < ' ' || c > '?' {
			return at
		}
	}
	return at
}

// plain returns a text without what is transparent in it.
func plain(s string) string {
	if strings.IndexByte(s, '\\') < 0 && isPrinted(s) {
		return s
	}
	return withoutTransparent(s, true)
}

// drawn returns a text without what a reader does not see as it is: what looks like an escape is
// seen.
func drawn(s string) string {
	if isPrinted(s) {
		return s
	}
	return withoutTransparent(s, false)
}

// withoutTransparent returns a text without what is transparent in it, escaped or only as it is.
func withoutTransparent(s string, escaped bool) string {
	var out []byte
	r := reader{}
	r.S = s
	for i := 0; i < len(s); {
		if escaped || s[i] != '\\' {
			if next := r.transparentEnd(i); next > i {
				i = next
				continue
			}
		}
		out = append(out, s[i])
		i++
	}
	return string(out)
}

// isPrinted reports whether a text is ASCII without control characters but tabs and line feeds.
func isPrinted(s string) bool {
	for i := range len(s) {
		if c := s[i]; c >= 0x7F || c < ' ' && c != '\t' && c != '\n' {
			return false
		}
	}
	return true
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// quoteSpellings are the ways to write a quote, beside those with backslashes before it.
var quoteSpellings = []string{
	"&quot;", "&#34;", "&#x22;", "&#39;", "&apos;", "&#x27;", "%22", "%27", "%5C%22", "%5c%22",
	"%2522", "%2527", `\u0022`, `\u0027`, `\x22`, `\x27`, `\\u0022`,
}

// quoteEnd returns the position behind the quote at a position, or that position if there is none.
func (r *reader) quoteEnd(at int) int {
	switch r.Byte(at) {
	case '"', '\'', '`':
		return at + 1
	case '\\':
		n := r.Skip(at, `\`)
		if c := r.Byte(n); c == '"' || c == '\'' || c == '`' {
			return n + 1
		}
	case '&', '%':
	default:
		return at
	}
	for _, s := range quoteSpellings {
		if r.Has(at, s) {
			return at + len(s)
		}
	}
	return at
}

// An op is what stands between a name and its value.
type op uint8

const (
	opNone op = iota
	opEquals
	opColon
	opBlank
	opComma
	opTag
	opIs
)

// opSpellings are the ways to write what stands between a name and its value.
var opSpellings = []struct {
	text string
	op   op
	url  bool // what follows is percent-encoded
}{
	{":=", opEquals, false},
	{"=>", opEquals, false},
	{"?=", opEquals, false},
	{"||=", opEquals, false},
	{"+=", opEquals, false},
	{"===", opEquals, false},
	{"==", opEquals, false},
	{"=3D", opEquals, false},
	{"=", opEquals, false},
	{"->", opNone, false},
	{"::", opNone, false},
	{"://", opNone, false},
	{":", opColon, false},
	{"：", opColon, false},
	{"%3D", opEquals, true},
	{"%3d", opEquals, true},
	{"%253D", opEquals, true},
	{"%253d", opEquals, true},
	{"%3A", opColon, true},
	{"%3a", opColon, true},
	{`\u003d`, opEquals, false},
	{`\u003D`, opEquals, false},
	{`\u003a`, opColon, false},
	{`\u003A`, opColon, false},
	{`\x3d`, opEquals, false},
	{"&#61;", opEquals, false},
	{"&#x3D;", opEquals, false},
	{"&#x3d;", opEquals, false},
	{"&equals;", opEquals, false},
	{"&#58;", opColon, false},
}

// opAt returns which operator stands at a position, the position behind it, and whether what
// follows is percent-encoded.
func (r *reader) opAt(at int) (o op, end int, url bool) {
	switch r.Byte(at) {
	case '=', ':', '%', '\\', '&', '?', '|', '+', '-', 0xEF:
	default:
		return opNone, at, false
	}
	for _, s := range opSpellings {
		if r.Has(at, s.text) {
			return s.op, at + len(s.text), s.url
		}
	}
	return opNone, at, false
}

// blankEnd returns the position behind blanks and colours, without line breaks.
func (r *reader) blankEnd(at int) int {
	for {
		next := r.transparentEnd(r.Skip(at, " \t"))
		if next == at {
			return at
		}
		at = next
	}
}

// joined returns a secret as it is without what is transparent in it, and without line breaks.
func joined(s string) string {
	s = plain(s)
	if strings.IndexByte(s, '\n') < 0 {
		return s
	}
	return strings.NewReplacer("\r", "", "\n", "").Replace(s)
}
