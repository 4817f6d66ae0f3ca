package main

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// stripControls returns a text that a terminal shows as it is: without control characters other
// than line breaks, and without characters that hide or turn what stands around them.
func stripControls(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n':
			return r
		case r == '\t':
			return ' '
		case unicode.IsControl(r), unicode.Is(unicode.Cf, r), r == utf8.RuneError:
			return -1
		}
		return r
	}, s)
}

// oneLine returns a text with every run of white space as one space.
func oneLine(s string) string { return strings.Join(strings.Fields(stripControls(s)), " ") }

// shorten returns at most n runes of a text, the last of them an ellipsis if there are more.
func shorten(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return strings.TrimRight(string([]rune(s)[:max(n-1, 0)]), " ,;:") + "…"
}

// wrap returns the lines of a text with at most n runes each. A word that is longer is broken.
func wrap(s string, n int) (lines []string) {
	n = max(n, 1)
	for line := range strings.SplitSeq(stripControls(s), "\n") {
		var now []rune
		for word := range strings.FieldsSeq(line) {
			w := []rune(word)
			if len(now) > 0 && len(now)+1+len(w) > n {
				lines, now = append(lines, string(now)), nil
			}
			if len(now) > 0 {
				now = append(now, ' ')
			}
			now = append(now, w...)
			for len(now) > n {
				lines, now = append(lines, string(now[:n])), now[n:]
			}
		}
		lines = append(lines, string(now))
	}
	return lines
}
