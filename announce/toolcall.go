package announce

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// endsToolName reports whether the name of a tool tag may end at a byte: <tool_call-example> is not <tool_call>.
func endsToolName(s string, at int) bool {
	if at == len(s) {
		return true
	}
	r, _ := utf8.DecodeRuneInString(s[at:])
	return r == '/' || r == '>' || unicode.IsSpace(r) || isInvisible(r)
}

// visitToolTag decides about a tag of a tool call. An opening is one only if arguments follow; otherwise somebody writes about
// it, and the closing tag that belongs to the mention stays too.
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
		switch at := skipBlank(l.src, t.end); {
		case at < len(l.src) && (l.src[at] == '{' || l.src[at] == '['):
			l.cut(jsonCallEnd(l.src, at, t.kind))
		case at < len(l.src) && t.complete && l.src[at] == '<' && startsPayload(parseTag(l.src, at)):
			l.cut(xmlCallEnd(l.src, at, t.kind))
		case t.complete:
			l.mentions[t.kind]++
			l.at = t.end
		default:
			l.at++
		}
	}
}

func startsPayload(t tag) bool {
	return !t.closing && (t.kind == payloadTag || t.kind == invokeTag || t.kind == toolCallTag || t.kind == functionCallTag)
}

// jsonCallEnd returns where a call or result ends whose JSON starts at a byte: after the closing tag outside of a string,
// or at the end of the text.
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

// xmlCallEnd is the same for arguments in tags, where quotes mean nothing and calls nest.
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

// closesBlock reports whether a closing tag of one kind ends a block of another: models close a result as if it were a call.
func closesBlock(closing, block tagKind) bool {
	return closing == block || block == toolResultTag && closing == toolCallTag
}

// stringEnd returns the position after the JSON string that starts at a byte, or the end of the text.
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
		at++ // what is escaped
	}
	return len(s)
}

// An answer is a question about the whole text that is asked once, and only if it matters.
type answer uint8

const (
	answerUnknown answer = iota
	answerNo
	answerYes
)

// visitInvokeTag removes <invoke> blocks from a text that has the tag of MiniMax somewhere; elsewhere they are prose.
func (l *lexer) visitInvokeTag(t tag) {
	if l.minimax == answerUnknown {
		l.minimax = answerNo
		if containsFold(l.src, "minimax:tool_call") {
			l.minimax = answerYes
		}
	}
	switch {
	case l.minimax == answerNo:
		l.at++
	case t.closing, t.empty:
		l.cut(t.end)
	default:
		l.cut(l.blockEnd(t.end, invokeTag))
	}
}

// containsFold reports whether s contains word, which is lower-case ASCII and holds a ':', in any letter case.
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

// hasPrefixFold reports whether s starts with prefix, which is lower-case ASCII, in any letter case.
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
