package announce

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// endsToolName reports whether the name of a tool tag may end before s[at]: <tool_call-example>
// is not <tool_call>.
func endsToolName(s string, at int) bool {
	if at == len(s) {
		return true
	}
	r, _ := utf8.DecodeRuneInString(s[at:])
	return r == '/' || r == '>' || unicode.IsSpace(r) || isInvisible(r)
}

// visitToolTag decides about a tag of a tool call or result. An opening tag starts a call only if
// arguments follow. Otherwise the model writes about the tag: this mention stays in the text, and
// so does the closing tag that belongs to it.
func (l *lexer) visitToolTag(t tag) {
	switch {
	case t.closing && !t.complete:
		l.at++
	case t.closing && l.mentions[t.kind] > 0:
		l.mentions[t.kind]--
		l.at = t.end
	case t.closing, t.empty:
		l.cut(t.end)
	default:
		if end, ok := l.callEnd(t); ok {
			l.cut(end)
		} else if t.complete {
			l.mentions[t.kind]++
			l.at = t.end
		} else {
			l.at++
		}
	}
}

// callEnd returns where the call or result ends that the opening tag t starts. ok is false if no
// arguments follow, so that the tag is a mention.
//
// Tags without attributes after one another may also be a sentence about tags. They are arguments
// only if the call is closed or looks like one that breaks off, see looksLikeCall.
func (l *lexer) callEnd(t tag) (end int, ok bool) {
	s, at := l.src, skipBlank(l.src, t.end)
	if startsJSON(s, at) {
		return jsonCallEnd(s, at, t.kind), true
	}
	if at == len(s) || s[at] != '<' || !t.complete {
		return 0, false
	}
	next := parseTag(s, at)
	if t.kind == antmlInvokeTag && next.kind == t.kind && next.closing {
		return next.end, next.complete // a call without arguments
	}
	if !startsPayload(next) {
		return 0, false
	}
	if l.looksLikeCall(at) {
		return xmlCallEnd(s, at, t.kind), true
	}
	if l.callEnds[t.kind] == nil {
		l.callEnds[t.kind] = matchCalls(s, t.kind)
	}
	end, ok = l.callEnds[t.kind][l.at]
	return end, ok
}

// startsJSON reports whether JSON starts at s[at]. A '[' that begins a link, a note or a box of a
// list is not JSON.
func startsJSON(s string, at int) bool {
	if at == len(s) || s[at] != '{' && s[at] != '[' {
		return false
	}
	if s[at] == '{' || strings.HasPrefix(s[at:], "[]") {
		return true
	}
	at = skipBlank(s, at+1)
	return at == len(s) || strings.IndexByte("{[\"", s[at]) >= 0
}

// maxCallTags is the number of tags in a row that looksLikeCall reads.
const maxCallTags = 4

// looksLikeCall reports whether the tags from src[firstAt] on, which follow the opening tag at the
// current position, are arguments even if the call is never closed: one of them has attributes or
// holds JSON, the text breaks off within one, or both tags have a line to themselves.
func (l *lexer) looksLikeCall(firstAt int) bool {
	s := l.src
	t := parseTag(s, firstAt)
	firstEnd := t.end
	for range maxCallTags {
		if !t.complete {
			return t.end == len(s)
		}
		at := skipBlank(s, t.end)
		if t.hasAttributes(s) || startsJSON(s, at) {
			return true
		}
		if at == len(s) || s[at] != '<' {
			break
		}
		if t = parseTag(s, at); !startsPayload(t) {
			break
		}
	}
	return startsLine(s, l.at) && startsLine(s, firstAt) && endsLine(s, firstEnd)
}

// startsPayload reports whether t opens the arguments of a call that are written in tags.
func startsPayload(t tag) bool {
	switch t.kind {
	case payloadTag, invokeTag, antmlInvokeTag, toolCallTag, functionCallTag:
		return !t.closing
	default:
		return false
	}
}

// jsonCallEnd returns where a call or result of kind k ends whose JSON starts at s[at]. It ends
// after its closing tag, which does not count inside a JSON string, or else with the text.
func jsonCallEnd(s string, at int, k tagKind) int {
	for at < len(s) {
		i := strings.IndexAny(s[at:], `"<`)
		if i < 0 {
			break
		}
		at += i
		if s[at] == '"' {
			at = stringEnd(s, at)
			continue
		}
		if t := parseTag(s, at); t.closing && t.complete && closesBlock(t.kind, k) {
			return t.end
		}
		at++
	}
	return len(s)
}

// xmlCallEnd returns where a call or result of kind k ends whose arguments are tags and start at
// s[at]. In contrast to JSON, quotes mean nothing there, and calls nest.
func xmlCallEnd(s string, at int, k tagKind) int {
	for depth := 1; at < len(s); {
		i := strings.IndexByte(s[at:], '<')
		if i < 0 {
			break
		}
		at += i
		t := parseTag(s, at)
		switch {
		case !t.complete || !closesBlock(t.kind, k):
			at++
			continue
		case t.closing:
			depth--
		case !t.empty:
			depth++
		}
		if depth == 0 {
			return t.end
		}
		at = t.end
	}
	return len(s)
}

// matchCalls returns where each call or result of kind k ends that has its closing tag, by the
// position of its opening tag. Of several openings before one closing tag, the last one has it.
func matchCalls(s string, k tagKind) map[int]int {
	ends := make(map[int]int)
	var open []int
	for at := 0; at < len(s); {
		i := strings.IndexByte(s[at:], '<')
		if i < 0 {
			break
		}
		at += i
		t := parseTag(s, at)
		switch {
		case !t.complete || !closesBlock(t.kind, k):
			at++
			continue
		case !t.closing && !t.empty:
			open = append(open, at)
		case t.closing && len(open) > 0:
			ends[open[len(open)-1]] = t.end
			open = open[:len(open)-1]
		}
		at = t.end
	}
	return ends
}

// closesBlock reports whether a closing tag of one kind ends a block of another kind. Besides its
// own tag, the closing tag of a call ends a result, because models close results like that.
func closesBlock(closing, block tagKind) bool {
	return closing == block || block == toolResultTag && closing == toolCallTag
}

// stringEnd returns the position after the JSON string that starts with the quote at s[at], or
// the end of the text if the string is not closed.
func stringEnd(s string, at int) int {
	for at++; at < len(s); at++ {
		i := strings.IndexAny(s[at:], `"\`)
		if i < 0 {
			break
		}
		at += i
		if s[at] == '"' {
			return at + 1
		}
		at++ // the loop goes on behind the escaped byte
	}
	return len(s)
}

// An answer is what the lexer knows about a question on the whole text. It asks when it first
// needs the answer, and only once.
type answer uint8

const (
	answerUnknown answer = iota
	answerNo
	answerYes
)

// visitInvokeTag removes an <invoke> block if the text has the tag of MiniMax somewhere. In any
// other text, <invoke> is prose, and so is one without attributes that is never closed.
func (l *lexer) visitInvokeTag(t tag) {
	if l.minimax == answerUnknown {
		l.minimax = answerNo
		if containsFold(l.src, "minimax:tool_call") {
			l.minimax = answerYes
		}
	}
	isBare := !t.hasAttributes(l.src)
	switch {
	case l.minimax == answerNo:
		l.at++
	case t.closing, t.empty:
		l.cut(t.end)
	case isBare && l.openInvokes:
		l.at++
	default:
		end, closed := l.blockEnd(t.end, invokeTag)
		if l.openInvokes = !closed; isBare && !closed {
			l.at++
			return
		}
		l.cut(end)
	}
}

// containsFold reports whether s contains word in any letter case. The word must be lower-case
// ASCII with a ':' in it.
func containsFold(s, word string) bool {
	colon := strings.IndexByte(word, ':')
	for at := 0; ; at++ {
		i := strings.IndexByte(s[at:], ':')
		if i < 0 {
			return false
		}
		at += i
		if at >= colon && hasPrefixFold(s[at-colon:], word) {
			return true
		}
	}
}

// hasPrefixFold reports whether s starts with prefix in any letter case. The prefix must be
// lower-case ASCII.
func hasPrefixFold(s, prefix string) bool {
	if len(s) < len(prefix) {
		return false
	}
	for i := range len(prefix) {
		c := s[i]
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != prefix[i] {
			return false
		}
	}
	return true
}
