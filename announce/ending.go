package announce

import "strings"

// An ending is what the lexer passes before it looks at the text again, and how that ends. The zero
// ending is text.
type ending struct {
	how   endKind
	kind  tagKind // of the block or call
	depth int     // of nested blocks, calls or JSON

	closed bool  // a closing tag was passed, and the block may end there
	quoted bool  // the position is in a JSON string
	begun  bool  // something other than a blank was passed on the current line
	alone  bool  // one line break behind the end goes, too
	fence  fence // of code that stays

	until []string // what ends it, see endUntil
	keeps bool     // what ends it is looked at again
}

// An endKind says what ends something.
type endKind uint8

const (
	endText     endKind = iota
	endBlock            // a thought, a memory block or an <invoke>: its closing tag
	endJSONCall         // a call or result with JSON: its closing tag outside of strings
	endXMLCall          // a call or result with tags: its closing tag
	endResult           // a [Tool Result]: the next call or result
	endJSON             // arguments: the bracket that closes them
	endString           // arguments: the quote that closes them
	endLine             // arguments: the end of the line
	endBreak            // a line break, if one follows
	endSpaces           // blanks that follow
	endFence            // code, which stays: the line that closes the fence
	endControl          // what is not said to people: the next control token
	endUntil            // what is not said to people: one of some words
)

// block returns the ending of a block whose opening tag was passed.
func block(k tagKind) ending { return ending{how: endBlock, kind: k, depth: 1, begun: true} }

// pass passes some of the text. It returns false if it needs more of the text.
func (e *ending) pass(l *lexer) bool {
	switch e.how {
	case endBlock:
		return e.passBlock(l)
	case endJSONCall, endXMLCall:
		return e.passCall(l)
	case endResult:
		return e.passResult(l)
	case endJSON, endString:
		return e.passJSON(l)
	case endLine:
		return e.passLine(l)
	case endFence:
		return e.passFence(l)
	case endControl:
		return e.passControl(l)
	case endUntil:
		return e.passUntil(l)
	case endSpaces:
		v := l.View()
		l.Skip(v.Skip(l.At, " \t"))
		if l.At < len(v.S) {
			e.end()
		}
		return true
	case endBreak, endText:
	}
	v := l.View()
	end := v.Break(l.At)
	if v.Waits() {
		return false
	}
	l.Skip(end)
	*e = ending{}
	return true
}

// find moves to the first of some ASCII characters and removes what lies before. Without one of
// them, it removes the whole text that is there and returns 0.
func find(l *lexer, chars string) byte {
	i := strings.IndexAny(l.Buf[l.At:], chars)
	if i < 0 {
		l.Skip(len(l.Buf))
		return 0
	}
	l.Skip(l.At + i)
	return l.Buf[l.At]
}

// passBlock passes a block of which nothing stays. It ends after the closing tag that matches;
// nested blocks are counted. If no closing tag is near, it ends after the last one, because then
// one of the openings was only a mention. A block without any closing tag extends to the end of
// the text.
func (e *ending) passBlock(l *lexer) bool {
	if e.closed {
		ahead, known := l.closingAhead(e.kind)
		if !known {
			return false
		}
		if e.closed = false; !ahead {
			*e = ending{}
			return true
		}
	}
	before := l.At
	c := find(l, "<`~")
	e.line(l.Buf[before:l.At])
	if c == 0 {
		return true
	}
	v := l.View()
	if c != '<' {
		end := l.hiddenCodeEnd(&v, l.At, !e.begun)
		if v.Waits() {
			return false
		}
		e.line(l.Buf[l.At:end])
		l.Skip(end)
		return true
	}
	t := parseTag(&v, l.At)
	if v.Waits() {
		return false
	}
	switch {
	case t.kind != e.kind || !t.complete:
		t.end = l.At + 1
	case t.closing:
		e.depth--
		e.closed = true
	case !t.empty:
		e.depth++
	}
	l.Skip(t.end)
	if e.begun = true; e.depth == 0 {
		*e = ending{}
	}
	return true
}

// line notes the end of a text that was passed.
func (e *ending) line(text string) {
	if i := strings.LastIndexByte(text, '\n'); i >= 0 {
		text, e.begun = text[i+1:], false
	}
	e.begun = e.begun || strings.Trim(text, " \t") != ""
}

// closingAhead reports whether a closing tag of kind k is ahead outside of code. known is false if
// it needs more of the text.
func (l *lexer) closingAhead(k tagKind) (ok, known bool) {
	v := l.View()
	starts := false
	for at := l.At; ; {
		i := v.Any(at, "<`~")
		if line := strings.LastIndexByte(v.S[at:i], '\n'); line >= 0 {
			starts = strings.Trim(v.S[at+line+1:i], " \t") == ""
		} else {
			starts = starts && strings.Trim(v.S[at:i], " \t") == ""
		}
		if at = i; at >= len(v.S) {
			return false, !v.Waits()
		}
		if v.S[at] != '<' {
			at = l.hiddenCodeEnd(&v, at, starts)
			starts = false
			continue
		}
		t := parseTag(&v, at)
		if t.kind == k && t.complete && t.closing {
			return true, !v.Waits() // code that has not ended yet may hold the tag
		}
		at, starts = at+1, false
	}
}

// passCall passes a call or result of which nothing stays. It ends after its closing tag, or else
// with the text. In JSON, a closing tag inside a string does not count. In tags, quotes mean
// nothing, and calls nest.
func (e *ending) passCall(l *lexer) bool {
	if e.quoted {
		return e.passString(l)
	}
	chars := "<"
	if e.how == endJSONCall {
		chars = "<\""
	}
	switch find(l, chars) {
	case 0:
		return true
	case '"':
		e.quoted = true
		l.Skip(l.At + 1)
		return true
	}
	v := l.View()
	t := parseTag(&v, l.At)
	if v.Waits() {
		return false
	}
	switch {
	case !t.complete || !closesBlock(t.kind, e.kind):
		t.end = l.At + 1
	case t.closing:
		e.depth--
	case e.how == endXMLCall && !t.empty:
		e.depth++
	}
	l.Skip(t.end)
	if e.depth == 0 {
		*e = ending{}
	}
	return true
}

// passString passes a part of a JSON string, whose quote was passed.
func (e *ending) passString(l *lexer) bool {
	switch find(l, `"\`) {
	case '\\': // the next byte is escaped
		if l.At+1 == len(l.Buf) && !l.Final {
			return false
		}
		l.Skip(min(l.At+2, len(l.Buf)))
	case '"':
		e.quoted = false
		l.Skip(l.At + 1)
	}
	return true
}

// passResult passes a result up to the next call or result.
func (e *ending) passResult(l *lexer) bool {
	if find(l, "[") == 0 {
		return true
	}
	v := l.View()
	next := v.HasFold(l.At, callMarker) || isResultMarker(&v, l.At)
	switch {
	case v.Waits():
		return false
	case next:
		*e = ending{}
	default:
		l.Skip(l.At + 1)
	}
	return true
}

// passJSON passes arguments as JSON. Those that are not complete extend to the end of the text,
// because half a call must not show.
func (e *ending) passJSON(l *lexer) bool {
	switch {
	case e.quoted:
		ok := e.passString(l)
		if e.how == endString && !e.quoted {
			e.end()
		}
		return ok
	default:
		switch find(l, `"{}[]`) {
		case 0:
			return true
		case '"':
			e.quoted = true
		case '{', '[':
			e.depth++
		default:
			e.depth--
		}
		l.Skip(l.At + 1)
		if e.depth == 0 && !e.quoted {
			e.end()
		}
	}
	return true
}

// end ends the arguments of a call.
func (e *ending) end() {
	alone := e.alone
	if *e = (ending{}); alone {
		e.how = endBreak
	}
}

// passLine passes the rest of a line, without its line break.
func (e *ending) passLine(l *lexer) bool {
	if find(l, "\r\n") == '\r' {
		v := l.View()
		isBreak := v.Has(l.At, "\r\n")
		if v.Waits() {
			return false
		}
		if !isBreak {
			l.Skip(l.At + 1)
			return true
		}
	}
	if l.At < len(l.Buf) {
		e.end()
	}
	return true
}

// passFence passes fenced code, which stays.
func (e *ending) passFence(l *lexer) bool {
	if e.begun { // the beginning of the line was looked at
		i := strings.IndexByte(l.Buf[l.At:], '\n')
		if i < 0 {
			l.keep(len(l.Buf))
			return true
		}
		l.keep(l.At + i + 1)
		e.begun = false
		return true
	}
	v := l.View()
	end, closes := e.fence.closes(&v, l.At)
	if v.Waits() {
		return false
	}
	if e.begun = true; closes {
		l.keep(end)
		*e = ending{}
	}
	return true
}
