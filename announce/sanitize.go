package announce

import (
	"strings"
	"unicode"
)

// Sanitize returns the part of a model's text that is meant to be read: without thoughts, memory blocks, tool calls and
// their results, control tokens and echoes of the runtime's own events, and without outer space.
//
// Code, fenced or inline, is left alone, because a text about tags is not a tag; an echoed event is removed even there.
// What was opened and never closed is hidden up to the end. It never fails, it takes time linear in the text,
// and Sanitize(Sanitize(s)) is Sanitize(s): what is left never contains scaffolding that the removal itself put together.
//
// DecisionSilent tokens are not its business; see [Visible].
func Sanitize(text string) string {
	text = trim(text)
	for range maxRounds {
		next := trim(stripScaffolding(stripEchoes(text)))
		if next == text {
			return text
		}
		text = next
	}
	// Scaffolding within scaffolding within scaffolding is an attack. Without openers nothing is left to put together.
	return trim(stripEchoes(strings.Map(dropOpener, text)))
}

// maxRounds is how often removal may uncover something else to remove before the text counts as hostile. Honest text is
// settled after the first round, and the second one sees that.
const maxRounds = 5

func dropOpener(r rune) rune {
	if r == '<' || r == '[' {
		return -1
	}
	return r
}

// stripScaffolding makes one pass.
func stripScaffolding(src string) string {
	if strings.IndexByte(src, '<') < 0 && strings.IndexByte(src, '[') < 0 {
		return src
	}
	l := lexer{src: src}
	return l.run()
}

// trim removes outer white space and byte order marks.
func trim(s string) string { return strings.TrimFunc(s, isOuterSpace) }

func isOuterSpace(r rune) bool { return unicode.IsSpace(r) || r == '\uFEFF' }

// isInvisible reports whether a reader cannot see r although it is no space.
func isInvisible(r rune) bool {
	switch {
	case r == '\u00AD', r == '\u061C', r == '\u180E', r == '\uFEFF':
		return true
	case r >= '\u200B' && r <= '\u200F', r >= '\u202A' && r <= '\u202E', r >= '\u2060' && r <= '\u206F':
		return true
	}
	return false
}

func isWord(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) }
