package announce

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	barPrefix = "|" // every line of a child's text stands behind it
	maxBrief  = 300 // runes that brief keeps
)

// oneLine makes any text fit on one line. A run of white space and line breaks becomes one space,
// and outer white space goes. Characters that a reader cannot see are dropped. A text that IsBlank
// becomes "".
func oneLine(s string) string {
	if IsBlank(s) {
		return ""
	}
	return strings.Join(strings.FieldsFunc(normalize(s), unicode.IsSpace), " ")
}

// shorten is oneLine for text that may be long. It keeps maxBrief runes and puts an ellipsis for
// the rest.
func shorten(s string) string {
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

// behindBars puts every line of a text behind a bar. So a line cannot start a heading or close a
// fence, whatever it says.
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

// normalize makes a text safe to split into lines and to show. Everything that a reader may take
// for a line break becomes a line feed. Control and format characters, which are invisible and
// can turn text around or hide it, are dropped, and so is what else a drawn removes. Tabs stay, and
// so do the joiners U+200C and U+200D, which emoji and some scripts need. Bytes that are not UTF-8
// become U+FFFD.
func normalize(s string) string {
	clean := 0
	for clean < len(s) &&
		(s[clean] >= ' ' && s[clean] < 0x7F || s[clean] == '\n' || s[clean] == '\t') {
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
			case c == '\r' && strings.HasPrefix(s[i+1:], "\n"): // the line feed alone is kept
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
	return new(drawn).pass(b.String(), true) // what a copy of it would lose cannot hide its markers
}
