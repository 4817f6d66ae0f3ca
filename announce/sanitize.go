package announce

import (
	"strings"
	"unicode"
)

// Sanitize returns the part of a model's text that is meant to be read. It removes what a reader
// cannot see and what steers a terminal or the direction of a text, thoughts, memory blocks, tool
// calls and their results, control tokens and other marks of chat templates, what a template says
// in the turn of another role, citations that only their service can read, reply tags, echoes of
// the runtime's own events in any letter case and of the lines above a message that say who speaks
// or which session has sent it, and outer white space.
//
// Code, fenced or inline, stays as it is, because a text about tags is not a tag. An echoed event
// is removed even there, without its end as far as its own lines reach, and so is what is not
// drawn. A thought, a memory block, and a tool call with arguments that was opened and never closed
// are hidden up to the end of the text. A sentence about the tags of a tool call, such as
// <parameter>, about a mark, such as [INST], or about <relevant-memories> stays.
//
// A tag, and what tells a call from a mention, is looked for in the next 16 KB alone: what is not
// complete there is text. Sanitize does not fail, and it takes time linear in the text.
// Sanitize(Sanitize(s)) equals Sanitize(s): a removal may put two halves of a tag together, and
// Sanitize removes that tag as well. A text in which this is done over and over is hostile, and
// loses from there on the characters with which something starts that is removed, such as brackets.
//
// Sanitize returns "" if a reader would see nothing of what is left, see [IsBlank]. It keeps silent
// tokens; [Visible] reads them.
func Sanitize(text string) string { return sanitizeTagged(text, nil) }

// sanitizeTagged is Sanitize. It adds the reply tags that it removes to tags, unless that is nil.
func sanitizeTagged(text string, tags *ReplyTags) string {
	text = trim(stripAll(text, tags))
	if IsBlank(text) {
		return ""
	}
	return text
}

// stripAll removes echoes and scaffolding. What the first two rounds put together is hostile, and
// the guards of the last passes make it harmless. A pass that removes nothing would do so again, so
// that what follows it is left out.
//
// White space before the text goes first: a fence behind it would not begin a line, and would begin
// one once the white space is gone.
func stripAll(text string, tags *ReplyTags) string {
	text = new(lead).write(new(drawn).pass(text, true), true)
	var p passes
	p.first.tags, p.second.tags = tags, tags
	if !mayRemove(text) {
		return text
	}
	p.begin()
	text = p.first.pass(p.echoes[0].pass(text, true), true)
	if !p.echoes[0].cuts && !p.first.cuts {
		return text
	}
	return p.last(text, true)
}

// mayRemove reports whether an echo or a lexer may remove something of a text.
func mayRemove(text string) bool {
	for at := 0; ; at++ {
		i := nextOpener(text[at:])
		if i < 0 {
			return strings.Contains(text, statsBullet) || mayBeEcho(text)
		}
		if at += i; text[at] != '`' && text[at] != '~' {
			return true
		}
	}
}

// passes are the passes that Sanitize makes.
type passes struct {
	echoes        [3]echo
	first, second lexer
	again         drawn // what was drawn beside something that the first round has removed
	begun         bool
}

// behind is how many bytes before a place the lexer looks at: a rune, or the word for MiniMax.
const behind = len(minimaxWord)

// begin makes the passes ready.
func (p *passes) begin() {
	if !p.begun {
		p.first.Behind, p.second.Behind = behind, behind
		p.begun, p.second.on, p.echoes[2].on = true, true, true
	}
}

// last makes the passes behind the first round.
func (p *passes) last(piece string, final bool) string {
	piece = p.again.pass(piece, final)
	return p.echoes[2].pass(p.second.pass(p.echoes[1].pass(piece, final), final), final)
}

// all makes all passes.
func (p *passes) all(piece string, final bool) string {
	p.begin()
	return p.last(p.first.pass(p.echoes[0].pass(piece, final), final), final)
}

// trim removes outer white space and byte order marks.
func trim(s string) string { return strings.TrimFunc(s, isOuterSpace) }

// trimStart removes leading white space and byte order marks.
func trimStart(s string) string { return strings.TrimLeftFunc(s, isOuterSpace) }

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
