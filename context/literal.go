package agentctx

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxLiteral is the longest literal in runes; what is longer ends in "…".
const maxLiteral = 1000

// literal makes a value that somebody else chose (a label, host, path, key)
// fit to stand in a line of the prompt: without control, format and
// line-breaking characters, with runs of white space as one space, trimmed.
// It has no line break, so it can start a heading only at the start of a
// line, where no section puts one.
func literal(s string) string {
	if plain(s) {
		return s
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

// plain reports whether s is printable ASCII that literal would not change.
func plain(s string) bool {
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

// quote returns the literal as a code span, in which nothing has a meaning;
// "" if nothing of it is left.
func quote(s string) string {
	s = literal(s)
	if s == "" {
		return ""
	}
	return "`" + strings.ReplaceAll(s, "`", "'") + "`"
}

// bare returns the literal as it is if it is one harmless word, else quoted.
func bare(s string) string {
	s = literal(s)
	for _, r := range s {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("._/:@+-", r) {
			return quote(s)
		}
	}
	return s
}

// fence returns a line of backticks that closes nothing inside text: longer
// than any run of backticks or tildes in it, and at least three.
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
