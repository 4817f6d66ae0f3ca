package text

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// WithoutControls returns s without what steers a terminal or the direction of a text instead of
// being read: escape sequences, controls but for the line feed and the tab, and the marks,
// overrides and isolates of bidirectional text. Bytes that are not UTF-8 become U+FFFD. It takes
// time linear in s.
func WithoutControls(s string) string {
	s = strings.ToValidUTF8(s, "\ufffd")
	at := strings.IndexFunc(s, steers)
	if at < 0 {
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	for at >= 0 {
		b.WriteString(s[:at])
		s = s[at+escapeLen(s[at:]):]
		at = strings.IndexFunc(s, steers)
	}
	return b.String() + s
}

// steers reports whether r is a control or a mark of direction that no reader needs to see.
func steers(r rune) bool {
	switch {
	case r == '\n', r == '\t':
		return false
	case r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069:
		return true
	case r == 0x061c, r == 0x200e, r == 0x200f:
		return true
	}
	return unicode.IsControl(r)
}

// escapeLen returns how many bytes the escape sequence has with which s begins, or those of the
// first character if it begins none that ends.
func escapeLen(s string) int {
	const escape = 0x1b
	kind, n := utf8.DecodeRuneInString(s)
	if kind == escape && len(s) > 1 {
		if c := s[1]; c >= '@' && c <= '_' {
			kind, n = rune(c)+0x40, 2 // the same as a character of C1
		} else if end := skipBytes(s, 1, ' ', '/'); end < len(s) && s[end] >= '0' && s[end] <= '~' {
			return end + 1
		}
	}
	switch kind {
	case 0x9b: // a control sequence: its parameters, and the character that says what it does
		end := skipBytes(s, skipBytes(s, n, '0', '?'), ' ', '/')
		if end < len(s) && s[end] >= '@' && s[end] <= '~' {
			return end + 1
		}
	case 0x90, 0x98, 0x9d, 0x9e, 0x9f: // a string for the terminal, up to what ends it
		end := strings.IndexFunc(s[n:], unicode.IsControl)
		if end < 0 {
			return n
		}
		for _, terminator := range []string{"\a", "\u009c", "\x1b\\"} {
			if strings.HasPrefix(s[n+end:], terminator) {
				return n + end + len(terminator)
			}
		}
	}
	return n
}

// skipBytes returns the position of the first byte from s[at] on that is not between two others.
func skipBytes(s string, at int, from, to byte) int {
	for at < len(s) && s[at] >= from && s[at] <= to {
		at++
	}
	return at
}

// DropControls returns s without the characters that steer a terminal or the direction of a text,
// one by one: what stands behind the character that begins an escape sequence stays. So the pieces
// of a text, each cut between characters, give the same as the whole. Bytes that are not UTF-8
// stay. It takes time linear in s.
func DropControls(s string) string {
	at := strings.IndexFunc(s, steers)
	if at < 0 {
		return s
	}
	b := make([]byte, at, len(s))
	copy(b, s)
	for i := at; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError || !steers(r) {
			b = append(b, s[i:i+n]...)
		}
		i += n
	}
	return string(b)
}

// CutRune returns s without the beginning of a character at its end whose rest may be still to
// come, and that beginning.
func CutRune(s string) (whole, tail string) {
	for i := len(s) - 1; i >= 0 && i >= len(s)-utf8.UTFMax+1; i-- {
		if utf8.RuneStart(s[i]) {
			if !utf8.FullRuneInString(s[i:]) {
				return s[:i], s[i:]
			}
			break
		}
	}
	return s, ""
}
