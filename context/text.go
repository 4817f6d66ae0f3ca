package agentctx

import (
	"math/bits"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/offshoot-sdk/offshoot/internal/text"
)

// maxLiteral is the length in runes to which sanitize cuts. A cut text ends in "…".
const maxLiteral = 1000

// sanitize makes a value from outside (a label, host, path or key) fit to stand within a line of
// the prompt. It removes control, format and line-breaking characters, trims the value, and writes
// each run of white space as one space. A value in which a reader sees nothing becomes "".
//
// The result has no line break. It could start a heading only at the start of a line, and no
// section puts a value there.
func sanitize(s string) string {
	if isPlainASCII(s) {
		return s
	}
	if text.IsBlank(s) {
		return ""
	}
	var b strings.Builder
	b.Grow(min(len(s), 4*maxLiteral))
	space, n := false, 0
	for _, r := range s {
		switch {
		case unicode.IsSpace(r), r == '\u2028', r == '\u2029':
			space = n > 0
			continue
		case unicode.In(r, unicode.C), r == utf8.RuneError:
			continue
		}
		if n >= maxLiteral-1 || space && n >= maxLiteral-2 {
			b.WriteString("…")
			break
		}
		if space {
			b.WriteByte(' ')
			space = false
			n++
		}
		b.WriteRune(r)
		n++
	}
	return b.String()
}

// isPlainASCII reports whether s is printable ASCII that sanitize would not change.
func isPlainASCII(s string) bool {
	if len(s) >= maxLiteral {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if c < ' ' || c > '~' || c == ' ' && (i == 0 || i == len(s)-1 || s[i-1] == ' ') {
			return false
		}
	}
	return true
}

// quote returns the sanitized s as a Markdown code span, in which no character has a meaning. It
// returns "" if nothing of s is left.
func quote(s string) string {
	s = sanitize(s)
	if s == "" {
		return ""
	}
	return "`" + strings.ReplaceAll(s, "`", "'") + "`"
}

// wordOrQuote returns the sanitized s as it is if it is one word of letters, digits and ._/:@+-,
// and otherwise as a code span.
func wordOrQuote(s string) string {
	s = sanitize(s)
	for _, r := range s {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("._/:@+-", r) {
			return quote(s)
		}
	}
	return s
}

// fence returns a line of at least three backticks that is longer than any run of backticks or
// tildes in text, so no line of text can close it.
func fence(text string) string {
	return strings.Repeat("`", max(3, 1+longestRun(text, '`'), 1+longestRun(text, '~')))
}

// longestRun returns the length of the longest run of c in s.
func longestRun(s string, c byte) int {
	longest := 0
	for i := 0; i < len(s); {
		at := strings.IndexByte(s[i:], c)
		if at < 0 {
			break
		}
		start := i + at
		for i = start + 1; i < len(s) && s[i] == c; {
			i++
		}
		longest = max(longest, i-start)
	}
	return longest
}

// fenced returns text between two fences.
func fenced(text string) string {
	f := fence(text)
	return f + "\n" + strings.TrimRight(text, "\n") + "\n" + f
}

// Fenced returns a text between fences that no line of it can end, so that a prompt can repeat what
// others wrote. A line break at the end of the text goes, and what is not UTF-8 is replaced.
func Fenced(text string) string { return fenced(normalizeText(text)) }

// normalizeText returns s as valid UTF-8 with every line ending in "\n" alone.
func normalizeText(s string) string {
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, string(utf8.RuneError))
	}
	if strings.IndexByte(s, '\r') < 0 {
		return s
	}
	return strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\r", "\n")
}

const (
	lowBits  = 0x0101010101010101 // the lowest bit of each byte of a word
	highBits = lowBits << 7
)

// loadWord returns the first eight bytes of s as a little-endian word.
func loadWord(s string) uint64 {
	_ = s[7]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}

// countRunes returns what utf8.RuneCountInString does for valid UTF-8, and is faster. It counts the
// bytes that do not continue a rune, 32 at a time where all of them are ASCII.
func countRunes(s string) int {
	n := len(s)
	for len(s) >= 32 {
		a, b, c, d := loadWord(s), loadWord(s[8:]), loadWord(s[16:]), loadWord(s[24:])
		if (a|b|c|d)&highBits != 0 {
			n -= continuationBytes(
				a,
			) + continuationBytes(
				b,
			) + continuationBytes(
				c,
			) + continuationBytes(
				d,
			)
		}
		s = s[32:]
	}
	for i := range len(s) {
		if s[i]&0xC0 == 0x80 {
			n--
		}
	}
	return n
}

// continuationBytes counts the bytes of a word that continue a rune: bit 7 is set and bit 6 is
// clear.
func continuationBytes(w uint64) int { return bits.OnesCount64(w & highBits &^ (w << 1)) }

// firstRunes returns the first n runes of s, and whether s has no more.
func firstRunes(s string, n int) (string, bool) {
	if len(s) <= n {
		return s, true
	}
	for i := range s {
		if n <= 0 {
			return s[:i], false
		}
		n--
	}
	return s, true
}

// lastRunes returns the last n runes of s.
func lastRunes(s string, n int) string {
	i := len(s)
	for ; n > 0 && i > 0; n-- {
		_, size := utf8.DecodeLastRuneInString(s[:i])
		i -= size
	}
	return s[i:]
}

// lines are the lines of a section while it is written.
type lines struct{ b strings.Builder }

// line writes a line that its parts make up, or nothing if all of them are blank. A part may have
// line breaks.
func (l *lines) line(parts ...string) {
	blank := true
	for _, p := range parts {
		blank = blank && strings.TrimSpace(p) == ""
	}
	if blank {
		return
	}
	l.begin()
	for _, p := range parts {
		l.b.WriteString(p)
	}
}

// lineIf writes a line as line does, if ok.
func (l *lines) lineIf(ok bool, parts ...string) {
	if ok {
		l.line(parts...)
	}
}

// quoted writes a line that ends in a value as quote returns it, or nothing if nothing is left of
// the value.
func (l *lines) quoted(head, value string) {
	if value = sanitize(value); value == "" {
		return
	}
	l.begin()
	l.b.WriteString(head)
	l.b.WriteByte('`')
	l.b.WriteString(strings.ReplaceAll(value, "`", "'"))
	l.b.WriteByte('`')
}

// begin ends the line before, if there is one.
func (l *lines) begin() {
	if l.b.Len() > 0 {
		l.b.WriteByte('\n')
	}
}

// String returns the lines without a line break at the end.
func (l *lines) String() string { return l.b.String() }

// joinLines joins the texts that are not blank with line breaks.
func joinLines(list ...string) string {
	size := 0
	for _, l := range list {
		size += len(l) + 1
	}
	var b strings.Builder
	b.Grow(size)
	for _, l := range list {
		if strings.TrimSpace(l) == "" {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(l)
	}
	return b.String()
}

// textIf returns text if ok, else "".
func textIf(ok bool, text string) string {
	if ok {
		return text
	}
	return ""
}
