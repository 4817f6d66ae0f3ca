package announce

import (
	"strings"
	"unicode/utf8"

	"github.com/offshoot-sdk/offshoot/internal/ahead"
)

const (
	// maxFence is the length, in characters, from which on all fences count as equally long. It
	// bounds how often closingFence searches the text.
	maxFence = 64
	// maxInline is the number of bytes within which inline code ends, and a fence tells what it
	// holds.
	maxInline = 1024
)

// A fence is what opens fenced code: so many backticks or tildes, at most maxFence.
type fence struct {
	char   byte
	length int
}

// Fenced code starts with three or more backticks or tildes at the start of a line. It ends with
// the line that closes the fence, or with the text. Inside a hidden block, which a thought is, a
// fence that is not closed is not code. Otherwise a thought that breaks off in an example would
// swallow the answer.
//
// Inline code is between two runs of backticks of the same length on one line. The first run must
// not follow a letter or a digit, so backticks that stand for apostrophes protect nothing.
//
// Where the second run stands on a later line of the paragraph, two stray backticks look the same.
// So what is between them is text for the lexer, but for one thing: what would hide the rest of the
// text and is not closed ahead stays, because it is named there.

// fenceAt returns the fence that opens at a position, which starts a line, and the end of its run.
// The fence is zero if none opens.
func fenceAt(v *ahead.View, at int) (f fence, end int) {
	end = runEnd(v, at)
	if end-at < 3 {
		return fence{}, end
	}
	f = fence{v.S[at], min(end-at, maxFence)}
	if f.char == '`' {
		line := v.Within(end, maxInline)
		i := line.Any(end, "`\n")
		v.Join(line)
		if line.Byte(i) == '`' {
			return fence{}, end // the line holds inline code
		}
	}
	return f, end
}

// closes reports whether the line at a position holds nothing but what closes a fence, with blanks
// around it, and returns where it ends.
func (f fence) closes(v *ahead.View, at int) (end int, ok bool) {
	at = v.Skip(at, " \t")
	if v.Byte(at) != f.char {
		return 0, false
	}
	end = runEnd(v, at)
	if end-at < f.length {
		return 0, false
	}
	end = v.Skip(end, " \t\r")
	return end, v.Ended(end) || v.S[end] == '\n'
}

// within returns the fence that is open at the end of a text, if f is open at its beginning. Text
// may follow on the last line, which therefore closes nothing.
func (f fence) within(text string) fence {
	for line := range strings.Lines(text) {
		v := ahead.View{S: line}
		at := v.Skip(0, " \t")
		switch {
		case f.length > 0:
			if _, ok := f.closes(&v, at); ok && strings.HasSuffix(line, "\n") {
				f = fence{}
			}
		case v.Byte(at) == '`', v.Byte(at) == '~':
			f, _ = fenceAt(&v, at)
		}
	}
	return f
}

// inlineEnd returns where the inline code ends that starts with a run of backticks, or 0 if none
// starts there.
func inlineEnd(v *ahead.View, at, run int) int {
	if r, _ := utf8.DecodeLastRuneInString(v.S[:at]); v.S[at] != '`' || at > 0 && isWord(r) {
		return 0
	}
	line := v.Within(run, maxInline)
	defer func() { v.Join(line) }()
	for i := run; ; {
		i = line.Any(i, "`\n")
		if line.Byte(i) != '`' {
			return 0
		}
		end := runEnd(&line, i)
		if end-i == run-at {
			return end
		}
		i = end
	}
}

// A span is inline code that may go on behind a line break: a run of backticks that its line does
// not close. The zero span is none.
type span struct {
	length int // of the run
	left   int // bytes within which it ends
}

// behind returns the span behind an action that keeps its text.
func (s span) behind(do action) span {
	switch {
	case do.then.how == endFence, do.ticks > 0 && do.ticks == s.length:
		return span{}
	case do.opens && s.length == 0:
		return span{do.ticks, maxInline}
	}
	return s
}

// over returns the span behind a text that is kept. A blank line ends the paragraph, and so the
// span. within says that the line in which the text begins has something else before it.
func (s span) over(text string, within bool) span {
	if s.length == 0 {
		return s
	}
	if s.left -= len(text); s.left < 0 {
		return span{}
	}
	for line := range strings.Lines(text) {
		if !within && strings.HasSuffix(line, "\n") && strings.Trim(line, " \t\r\n") == "" {
			return span{}
		}
		within = false
	}
	return s
}

// isSpanned reports whether what an action would hide is named in a span: the span ends ahead, and
// what is hidden would not. A thought begins its line, so what begins a line must have the end of
// the span right behind it.
func (l *lexer) isSpanned(v *ahead.View, do action) bool {
	if l.span.length == 0 || !l.within && v.Byte(do.end) != '`' || !l.spanEnds(v, do.end) {
		return false
	}
	switch then := do.then; then.how {
	case endBlock, endJSONCall, endXMLCall:
		return !l.closingTagAhead(v, do.end, then.kind)
	case endControl:
		return !l.isAhead(v, do.end, "<|")
	case endUntil:
		for _, word := range then.until {
			if l.isAhead(v, do.end, word) {
				return false
			}
		}
		return true
	case endResult:
		return true
	default: // it hides nothing behind itself
		return false
	}
}

// isAhead reports whether a word is ahead.
func (l *lexer) isAhead(v *ahead.View, at int, word string) bool {
	i := strings.Index(v.S[min(at, len(v.S)):], word)
	if i < 0 {
		v.Read(len(v.S) + 1)
		return false
	}
	v.Read(at + i + len(word))
	return true
}

// spanEnds reports whether the run of backticks is ahead, in the paragraph, that ends the span. One
// beside a silent token is not shown, and ends nothing.
func (l *lexer) spanEnds(v *ahead.View, at int) bool {
	near := v.Within(at, maxInline)
	defer func() { v.Join(near) }()
	for {
		at = near.Any(at, "`\n")
		if near.Ended(at) {
			return false
		}
		if near.S[at] == '\n' {
			at = near.Skip(at+1, " \t\r")
			if near.Byte(at) == '\n' || tokenAhead(&near, at) {
				return false
			}
			continue
		}
		end := runEnd(&near, at)
		if end-at == l.span.length {
			return !tokenAhead(&near, at)
		}
		at = end
	}
}

// runEnd returns where the run of equal bytes ends that starts at a position.
func runEnd(v *ahead.View, at int) int {
	end := at + 1
	for !v.Ended(end) && v.S[end] == v.S[at] {
		end++
	}
	return end
}

// hiddenCodeEnd returns where the code ends that starts with a run of backticks or tildes inside a
// hidden block, or the end of that run. starts says that the run starts a line.
func (l *lexer) hiddenCodeEnd(v *ahead.View, at int, starts bool) int {
	run := runEnd(v, at)
	if starts {
		if f, end := fenceAt(v, at); f.length > 0 {
			if end, ok := l.closingFence(v, f, end); ok {
				return end
			}
		}
	}
	if end := inlineEnd(v, at, run); end > 0 {
		return end
	}
	return run
}

// closingFence returns the end of the line that closes a fence, which is searched from a position
// on. It remembers for which fences none is ahead, so that it does not search in vain twice.
func (l *lexer) closingFence(v *ahead.View, f fence, at int) (end int, ok bool) {
	known := &l.unfenced[0]
	if f.char == '~' {
		known = &l.unfenced[1]
	}
	line := v.Any(at, "\n")
	if known.length > 0 && f.length >= known.length && line < known.upTo {
		line = min(known.upTo, len(v.S)) // the line break that was searched last
	}
	for last := line; ; line = v.Any(line+1, "\n") {
		if line >= len(v.S) {
			v.Read(len(v.S) + 1)
			if !v.Waits() {
				*known = unfenced{f.length, last}
			}
			return 0, false
		}
		last = line
		if end, ok = f.closes(v, line+1); ok {
			return end, true
		}
	}
}

// unfenced says for which fences no closing line starts behind the line breaks before a position:
// those of a length and longer ones.
type unfenced struct{ length, upTo int }

// lineEnd returns the position of the first line feed from s[at] on, or the length of the text.
func lineEnd(s string, at int) int {
	if i := strings.IndexByte(s[at:], '\n'); i >= 0 {
		return at + i
	}
	return len(s)
}

// endsLine reports whether only space stands behind a position on its line. A silent token counts
// as the end of the line, because it is not shown there.
func endsLine(v *ahead.View, at int) bool {
	for {
		r, size := v.Rune(at)
		if size == 0 || r == '\n' {
			return true
		}
		if !isBlankRune(r) {
			return tokenAhead(v, at)
		}
		at += size
	}
}

// tokenAhead reports whether a silent token follows what may stand around one at a position.
func tokenAhead(v *ahead.View, at int) bool {
	prev := byte(0)
	if at > 0 {
		prev = v.S[min(at, len(v.S))-1]
	}
	for {
		if token := tokenAt(v, at); token {
			return true
		}
		n := aroundLen(v, at, prev)
		if n == 0 {
			return false
		}
		at += n
		prev = v.S[min(at, len(v.S))-1]
	}
}

// tokenAt reports whether a silent token stands at a position. It notes no byte as read that the
// answer does not depend on: the guard asks for that, and how much of the text has come must make
// no difference to it.
func tokenAt(v *ahead.View, at int) bool {
	if v.Ended(at) {
		return false
	}
	near := v.S[at:min(at+maxToken, len(v.S))]
	for read := 1; read <= len(near); read++ {
		if n, whole := tokenLen(near[:read]); whole {
			v.Read(at + read)
			return n > 0
		}
	}
	v.Read(len(v.S) + 1)
	return false
}
