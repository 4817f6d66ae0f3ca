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
// Silent tokens are not its business; see [Visible].
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

// A lexer walks a text once. Whatever starts first wins: a tag inside a thought is part of the thought.
type lexer struct {
	src  string
	at   int    // the byte that is looked at
	from int    // src[from:at] is kept and not copied yet
	out  []byte // what is kept of src[:from]

	mentions [toolKinds]int // by tag: openings that were left in the text because they are prose
	unfenced [2]int         // by fence character: the shortest fence that has no closing line ahead; 0 for none known
	ticks    tickRuns       // the backticks of the current line
	minimax  gate           // whether the text has the word that makes <invoke> a tool call
}

func (l *lexer) run() string {
	for l.at < len(l.src) {
		i := strings.IndexAny(l.src[l.at:], "<[`~")
		if i < 0 {
			break
		}
		l.at += i
		switch l.src[l.at] {
		case '<':
			l.angle()
		case '[':
			l.marker()
		default:
			l.at = l.codeEnd(l.at, false)
		}
	}
	if l.out == nil && l.from == 0 {
		return l.src
	}
	return string(append(l.out, l.src[l.from:]...))
}

// angle decides what the '<' at hand is the start of.
func (l *lexer) angle() {
	if end := controlEnd(l.src, l.at); end > 0 {
		l.cutControl(end)
		return
	}
	t := parseTag(l.src, l.at)
	switch {
	case t.kind == noTag:
		l.at++
	case t.kind < toolKinds:
		l.toolTag(t)
	case !t.complete:
		l.at++
	case t.kind == invokeTag:
		l.invokeTag(t)
	case t.kind == finalTag, t.kind == minimaxTag, t.closing:
		l.cut(t.end)
	default: // a thought or a memory block
		l.cut(l.blockEnd(t.end, t.kind))
	}
}

// cut leaves out the text from the current position to end.
func (l *lexer) cut(end int) {
	l.out = append(l.out, l.src[l.from:l.at]...)
	l.at, l.from = end, end
}

// last returns up to four bytes of what is kept before the current position.
func (l *lexer) last() string {
	if l.at > l.from {
		return l.src[max(l.from, l.at-4):l.at]
	}
	return string(l.out[max(0, len(l.out)-4):])
}

// blockEnd returns where a block of this kind ends whose opening tag ends at the given byte: after the closing tag that
// matches, nested blocks being counted. Without one it ends after the last closing tag that it has, because then one of
// the openings was only mentioned; a block without any goes on to the end of the text.
func (l *lexer) blockEnd(at int, k tagKind) int {
	depth, last := 1, len(l.src)
	for at < len(l.src) {
		i := strings.IndexAny(l.src[at:], "<`~")
		if i < 0 {
			break
		}
		at += i
		if l.src[at] != '<' {
			at = l.codeEnd(at, true)
			continue
		}
		t := parseTag(l.src, at)
		switch {
		case t.kind != k || !t.complete:
			at++
			continue
		case t.closing:
			depth--
			last = t.end
		case !t.empty:
			depth++
		}
		if depth == 0 {
			return t.end
		}
		at = t.end
	}
	return last
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
