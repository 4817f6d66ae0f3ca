package announce

import (
	"strings"
	"unicode"

	"github.com/offshoot-sdk/offshoot/internal/ahead"
)

// endsToolName reports whether the name of a tool tag may end before a position:
// <tool_call-example> is not <tool_call>.
func endsToolName(v *ahead.View, at int) bool {
	r, size := v.Rune(at)
	if r == '*' { // as at the end of the text, because the token behind it is not shown
		return tokenAhead(v, at)
	}
	return size == 0 || r == '/' || r == '=' || r == '>' || unicode.IsSpace(r) || isInvisible(r)
}

// toolTag decides about a tag of a tool call or result. An opening tag starts a call only if
// arguments follow. Otherwise the model writes about the tag: this mention stays in the text, and
// so does the closing tag that belongs to it.
func (l *lexer) toolTag(v *ahead.View, t tag) action {
	switch {
	case t.closing && !t.complete, t.kind == functionTag && (t.closing || !t.hasAttributes(v.S)):
		return action{end: l.At + 1}
	case t.closing && l.mentions[t.kind] > 0:
		return action{end: t.mentionEnd(v, l.At), mention: -1, kind: t.kind}
	case t.closing, t.empty:
		return action{end: t.end, cut: true}
	}
	do := l.callAt(v, t)
	switch {
	case do.cut:
		return do
	case t.complete && t.kind != functionTag:
		return action{end: t.mentionEnd(v, l.At), mention: 1, kind: t.kind}
	}
	return action{end: l.At + 1}
}

// callAt returns what removes the call or result that the opening tag t starts. It removes nothing
// if no arguments follow, so that the tag is a mention.
//
// Tags without attributes after one another may also be a sentence about tags. They are arguments
// only if the call is closed soon or looks like one that breaks off, see looksLikeCall.
func (l *lexer) callAt(v *ahead.View, t tag) action {
	at := skipBlank(v, t.end)
	call := action{end: at, cut: true, then: ending{kind: t.kind, depth: 1}}
	if end := breaksOff(v, at); end > 0 {
		return action{end: end, cut: true}
	}
	if startsJSON(v, at) {
		call.then.how = endJSONCall
		return call
	}
	if v.Byte(at) != '<' || !t.complete {
		call.then.how = endXMLCall
		if !t.complete || !l.namesTool(v, t, at) {
			return action{}
		}
		return call
	}
	next := parseTag(v, at)
	if next.kind == t.kind && next.closing {
		return action{end: next.end, cut: next.complete} // a call without arguments, or none
	}
	if !startsPayload(next) || !l.looksLikeCall(v, t.end, at) && !l.closesSoon(v, t.end, t.kind) {
		return action{}
	}
	call.then.how = endXMLCall
	return call
}

// namesTool reports whether the name of a tool stands at a position, behind the opening tag t of a
// call, with arguments in tags or, in a call that is closed soon, in parentheses.
func (l *lexer) namesTool(v *ahead.View, t tag, at int) bool {
	end := nameEnd(v, at)
	if end == at || t.kind == functionTag {
		return false
	}
	if v.Byte(end) == '(' {
		return t.kind == functionCallsTag && l.closesSoon(v, t.end, t.kind)
	}
	end = skipBlank(v, end)
	return v.Byte(end) == '<' && parseTag(v, end).kind == payloadTag &&
		l.closesSoon(v, t.end, t.kind)
}

// asideTag decides about a tag of which nothing stays up to its end, if that is ahead. Otherwise it
// is a mention.
func (l *lexer) asideTag(v *ahead.View, t tag) action {
	kind := t.kind
	switch {
	case t.closing && l.mentions[kind] > 0:
		return action{end: t.mentionEnd(v, l.At), mention: -1, kind: kind}
	case t.closing && kind == jsonTag:
		return action{end: l.At + 1}
	case t.closing, t.empty:
		return action{end: t.end, cut: true}
	case kind == jsonTag && !startsJSON(v, skipBlank(v, t.end)), !l.closingTagAhead(v, t.end, kind):
		return action{end: t.mentionEnd(v, l.At), mention: 1, kind: kind}
	}
	return action{end: t.end, cut: true, then: block(kind)}
}

// emptyEnd returns where a part of a call ends that begins with the opening tag t and has nothing
// but tags in it, or 0. Its names are words of other languages as well, so that one without
// attributes is a part of a call only where it has its line to itself.
func (l *lexer) emptyEnd(v *ahead.View, t tag) int {
	const most = 8 // tags
	if !isPart(t) || !t.complete || t.closing || t.empty {
		return 0
	}
	named := t.hasAttributes(v.S)
	open := []tagKind{t.kind}
	for range most {
		t = parseTag(v, skipBlank(v, t.end))
		switch {
		case !isPart(t) || !t.complete:
			return 0
		case !t.closing && !t.empty:
			open = append(open, t.kind)
		case t.closing && t.kind != open[len(open)-1]:
			return 0
		case t.closing:
			open = open[:len(open)-1]
		}
		if len(open) == 0 {
			if !named && (l.within || !endsLine(v, t.end)) {
				return 0
			}
			return t.end
		}
	}
	return 0
}

// isPart reports whether t is a tag that models write in a call, whose name other texts have, too.
func isPart(t tag) bool {
	switch t.kind {
	case payloadTag, invokeTag, functionTag, jsonTag:
		return true
	default:
		return false
	}
}

// citeTag decides about a tag around a text with a source, of which the text stays. Without an
// index it is one of HTML.
func (l *lexer) citeTag(v *ahead.View, t tag) action {
	switch {
	case t.closing && l.mentions[citeTag] > 0:
		return action{end: t.mentionEnd(v, l.At), mention: -1, kind: citeTag}
	case t.closing, strings.Contains(v.S[t.nameEnd:t.end], "index="):
		return action{end: t.end, cut: true}
	}
	return action{end: t.mentionEnd(v, l.At), mention: 1, kind: citeTag}
}

// closingTagAhead reports whether a closing tag of a kind is ahead. It remembers where none is.
func (l *lexer) closingTagAhead(v *ahead.View, at int, k tagKind) bool {
	last := at
	for i := max(at, l.unclosed[k]); ; i++ {
		if i = v.Any(i, "<"); i >= len(v.S) {
			break
		}
		last = i
		if v.Byte(i+1) != '/' {
			continue
		}
		if t := parseTag(v, i); t.complete && t.closing && t.kind == k {
			return true
		}
	}
	if !v.Waits() {
		l.unclosed[k] = max(l.unclosed[k], last)
	}
	return false
}

// startsJSON reports whether JSON starts at a position. A '[' that begins a link, a note or a box
// of a list is not JSON.
func startsJSON(v *ahead.View, at int) bool {
	switch v.Byte(at) {
	case '{':
		return true
	case '[':
		if v.Byte(at+1) == ']' {
			return true
		}
		next := skipBlank(v, at+1)
		return v.Ended(next) || strings.IndexByte("{[\"", v.S[next]) >= 0 || breaksOff(v, at) > 0
	}
	return false
}

// breaksOff returns the position after a '[' at a position, if what follows it and blanks is not
// shown at the end of a text: a silent token, or the beginning of a person's turn.
// Arguments that break off there break off at the end of what is shown. It returns 0 otherwise.
func breaksOff(v *ahead.View, at int) int {
	if v.Byte(at) != '[' {
		return 0
	}
	end, isTurn := at+1, false
	at = skipBlank(v, end)
	for word := roleAt(v, at); word != ""; word = roleAt(v, at) {
		at, isTurn = skipBlank(v, at+len(word)), true
	}
	if tokenAhead(v, at) || isTurn && v.Ended(at) {
		return end
	}
	return 0
}

const (
	maxCallTags = 4    // the number of tags in a row that looksLikeCall reads
	maxCall     = 4096 // bytes within which a call in bare tags is closed
)

// looksLikeCall reports whether the tags from first on, which follow the opening tag that ends at
// end, are arguments even if the call is not closed: one of them has attributes or holds JSON, the
// text breaks off within one, or both tags have a line to themselves.
func (l *lexer) looksLikeCall(v *ahead.View, end, first int) bool {
	t := parseTag(v, first)
	firstEnd := t.end
	for range maxCallTags {
		if !t.complete {
			line := strings.LastIndexByte(v.S[:t.end], '\n') + 1
			return v.Ended(t.end) || line > t.nameEnd && tokenAhead(v, line)
		}
		at := skipBlank(v, t.end)
		if t.hasAttributes(v.S) || startsJSON(v, at) {
			return true
		}
		if v.Byte(at) != '<' {
			break
		}
		if t = parseTag(v, at); !startsPayload(t) {
			break
		}
	}
	return !l.within && strings.IndexByte(v.S[end:first], '\n') >= 0 && endsLine(v, firstEnd)
}

// startsPayload reports whether t opens the arguments of a call that are written in tags.
func startsPayload(t tag) bool {
	switch t.kind {
	case payloadTag, invokeTag, antmlInvokeTag, toolCallTag, functionCallTag, functionTag:
		return !t.closing
	default:
		return false
	}
}

// closesSoon reports whether a block of kind k whose opening tag ends at a position is closed
// within maxCall bytes. Of several openings before one closing tag, the last one has it.
func (l *lexer) closesSoon(v *ahead.View, at int, k tagKind) bool {
	near := v.Within(at, maxCall)
	defer func() {
		if near.Waits() {
			v.Await() // a removal cannot put a closing tag together: see guard
		}
	}()
	closing, last := false, at
	for i := max(at, l.unclosed[k]); ; i++ {
		if i = near.Any(i, "<"); i >= len(near.S) {
			break
		}
		last = i
		if t := parseTag(&near, i); t.complete && t.closing && closesBlock(t.kind, k) {
			closing = true
			break
		}
	}
	if !closing {
		l.unclosed[k] = max(l.unclosed[k], last)
		return false
	}
	for i, depth := at, 1; depth > 0; {
		if i = near.Any(i, "<"); i >= len(near.S) {
			return false
		}
		t := parseTag(&near, i)
		if !t.complete || !closesBlock(t.kind, k) {
			i++
			continue
		}
		i = t.end
		switch {
		case t.closing:
			depth--
		case !t.empty:
			depth++
		}
	}
	return true
}

// closesBlock reports whether a closing tag of one kind ends a block of another kind. Besides its
// own tag, the closing tag of a call ends a result, because models close results like that.
func closesBlock(closing, block tagKind) bool {
	return closing == block || block == toolResultTag && closing == toolCallTag
}

const minimaxWord = "minimax:tool_call"

// invokeTag removes an <invoke> block if the text has the tag of MiniMax before it or soon after.
// In any other text, <invoke> is prose, and so is one without attributes that is not closed soon.
func (l *lexer) invokeTag(v *ahead.View, t tag) action {
	isBare := !t.hasAttributes(v.S)
	switch {
	case !l.minimaxAhead(v):
		return action{end: l.At + 1}
	case t.closing, t.empty:
		return action{end: t.end, cut: true}
	case isBare && !l.closesSoon(v, t.end, invokeTag):
		return action{end: l.At + 1}
	}
	return action{end: t.end, cut: true, then: block(invokeTag)}
}

// minimaxAhead reports whether the word for MiniMax's tag stands before or ahead.
func (l *lexer) minimaxAhead(v *ahead.View) bool {
	if l.minimax {
		if end := l.searched + len(minimaxWord); end <= len(v.S) {
			return true
		}
	}
	v.Await()
	return false
}

// search looks for the first word for MiniMax's tag in what has come.
func (l *lexer) search() {
	const colon = len("minimax")
	for !l.minimax {
		i := strings.IndexByte(l.Buf[min(l.searched+colon, len(l.Buf)):], ':')
		if i < 0 {
			l.searched = max(l.searched, len(l.Buf)-colon)
			return
		}
		l.searched += i
		v := ahead.View{S: l.Buf}
		l.minimax = v.HasFold(l.searched, minimaxWord)
		if !l.minimax {
			if v.Ends() {
				return
			}
			l.searched++
		}
	}
}
