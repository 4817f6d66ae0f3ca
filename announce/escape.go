package announce

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	barPrefix = "|" // what every line of a child's text is behind
	maxBrief  = 300 // runes
)

// oneLine makes a field of one line out of any text: runs of white space and line breaks become one space, and characters
// that no reader sees are dropped.
func oneLine(s string) string {
	return strings.Join(strings.FieldsFunc(normalize(s), unicode.IsSpace), " ")
}

// brief is oneLine for text that may be long; what is cut off is an ellipsis.
func brief(s string) string {
	s = oneLine(s)
	if len(s) <= maxBrief {
		return s
	}
	n := 0
	for i := range s {
		if n == maxBrief {
			return s[:i] + "…"
		}
		n++
	}
	return s
}

// behindBars puts every line of a text behind a bar. So none of them can start a heading or close a fence, whatever it says.
func behindBars(s string) string {
	s = normalize(s)
	var b strings.Builder
	b.Grow(len(s) + len(s)/16 + 64)
	for start := 0; ; {
		end := lineEnd(s, start)
		b.WriteString(barPrefix)
		if end > start {
			b.WriteByte(' ')
			b.WriteString(s[start:end])
		}
		if end == len(s) {
			return b.String()
		}
		b.WriteByte('\n')
		start = end + 1
	}
}

// normalize makes line feeds of everything that a reader may take for a line break and drops the characters that nobody sees
// and that can turn text around or hide it. Joiners stay, because emoji and some scripts need them. Bytes that are not
// UTF-8 are replaced.
func normalize(s string) string {
	clean := 0
	for clean < len(s) && (s[clean] >= ' ' && s[clean] < 0x7F || s[clean] == '\n' || s[clean] == '\t') {
		clean++
	}
	if clean == len(s) {
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	b.WriteString(s[:clean])
	for i := clean; i < len(s); {
		if c := s[i]; c < utf8.RuneSelf {
			switch {
			case c == '\r' && strings.HasPrefix(s[i+1:], "\n"):
			case c == '\r', c == '\v', c == '\f':
				b.WriteByte('\n')
			case c >= ' ' && c != 0x7F, c == '\n', c == '\t':
				b.WriteByte(c)
			}
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		i += size
		switch {
		case r == '\u0085', r == '\u2028', r == '\u2029':
			b.WriteByte('\n')
		case r == '\u200C', r == '\u200D', !unicode.In(r, unicode.Cc, unicode.Cf):
			b.WriteRune(r)
		}
	}
	return b.String()
}
