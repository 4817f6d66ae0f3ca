package announce

import (
	"strings"
	"unicode"
)

// Sanitize returns the part of a model's text that is meant to be read. It removes thoughts,
// memory blocks, tool calls and their results, control tokens, reply tags, echoes of the runtime's
// own events, and outer white space.
//
// Code, fenced or inline, stays as it is, because a text about tags is not a tag. An echoed event
// is removed even there. A thought, a memory block, and a tool call with arguments that was opened
// and never closed are hidden up to the end of the text. A sentence about the tags of a tool call,
// such as <parameter>, stays.
//
// Sanitize does not fail, and it takes time linear in the text. Sanitize(Sanitize(s)) equals
// Sanitize(s): a removal may put two halves of a tag together, and Sanitize removes that tag as
// well.
//
// Sanitize returns "" if a reader would see nothing of what is left, see [IsBlank]. It keeps silent
// tokens; [Visible] reads them.
func Sanitize(text string) string { return sanitizeTagged(text, nil) }

// sanitizeTagged is Sanitize. It adds the reply tags that it removes to tags, unless that is nil.
func sanitizeTagged(text string, tags *ReplyTags) string {
	text = stripAll(text, tags)
	if IsBlank(text) {
		return ""
	}
	return text
}

// stripAll removes scaffolding and echoes until nothing of them is left, and outer white space.
func stripAll(text string, tags *ReplyTags) string {
	text = trim(text)
	for range maxRounds {
		next := trim(stripScaffolding(stripEchoes(text), tags))
		if next == text {
			return text
		}
		text = next
	}
	// Tags that are nested this deep in halves of tags are an attack. Without '<' and '[', the next
	// removal cannot put a tag together.
	return trim(stripEchoes(strings.Map(dropOpener, text)))
}

// maxRounds is the number of rounds after which a text counts as hostile if each round still found
// something to remove. The first round settles an honest text, and the second one confirms that.
const maxRounds = 5

// dropOpener is a mapping for strings.Map that drops the characters with which scaffolding starts.
func dropOpener(r rune) rune {
	if r == '<' || r == '[' {
		return -1
	}
	return r
}

// stripScaffolding makes one pass of the lexer over src.
func stripScaffolding(src string, tags *ReplyTags) string {
	if strings.IndexByte(src, '<') < 0 && strings.IndexByte(src, '[') < 0 {
		return src
	}
	l := lexer{src: src, tags: tags}
	return l.run()
}

// trim removes outer white space and byte order marks.
func trim(s string) string { return strings.TrimFunc(s, isOuterSpace) }

// isOuterSpace reports whether r is white space or a byte order mark.
func isOuterSpace(r rune) bool { return unicode.IsSpace(r) || r == '\uFEFF' }

// IsBlank reports whether a reader would see nothing of a text. It consists of white space, control
// characters, and characters without a shape: joiners, marks of direction, variation selectors,
// tags, fillers and the like. The empty text is blank. To people and to this library a blank text
// counts as no text.
func IsBlank(text string) bool {
	return strings.IndexFunc(text, func(r rune) bool { return !isShapeless(r) }) < 0
}

// isShapeless reports whether r alone shows nothing.
func isShapeless(r rune) bool {
	switch {
	case r > ' ' && r < 0x7F:
		return false
	case unicode.IsSpace(r), unicode.Is(unicode.Cc, r):
		return true
	case unicode.Is(unicode.Cf, r): // but for some marks that stand around a number
		return !unicode.Is(unicode.Prepended_Concatenation_Mark, r)
	}
	const brailleBlank = '\u2800'
	return r == brailleBlank ||
		unicode.In(r, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point)
}

// isInvisible reports whether a reader cannot see r although r is not a space.
func isInvisible(r rune) bool {
	switch {
	case r == '\u00AD', r == '\u061C', r == '\u180E', r == '\uFEFF':
		return true
	case r >= '\u200B' && r <= '\u200F', // zero-width characters and marks of direction
		r >= '\u202A' && r <= '\u202E', // embeddings and overrides of direction
		r >= '\u2060' && r <= '\u206F': // word joiner, invisible operators, isolates
		return true
	}
	return false
}

// isWord reports whether r belongs to a word: a letter, a digit or '_'.
func isWord(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) }
