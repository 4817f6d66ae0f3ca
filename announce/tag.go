package announce

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// A tagKind is a tag that models write and people must not see. The tags of tool calls come first; see toolKinds.
type tagKind uint8

const (
	toolCallTag tagKind = iota
	toolCallsTag
	toolResultTag
	functionCallTag
	functionCallsTag
	functionResponseTag
	toolKinds // how many kinds of tool tags there are

	thinkTag
	memoryTag
	finalTag
	minimaxTag
	invokeTag
	payloadTag // stands only inside a tool call
	noTag
)

var tagKinds = map[string]tagKind{
	"tool_call": toolCallTag, "tool_calls": toolCallsTag, "tool_result": toolResultTag,
	"function_call": functionCallTag, "function_calls": functionCallsTag, "function_response": functionResponseTag,

	"think": thinkTag, "thinking": thinkTag, "thought": thinkTag, "antthinking": thinkTag,
	"antml:think": thinkTag, "antml:thinking": thinkTag, "antml:thought": thinkTag,
	"mm:think": thinkTag, "mm:thinking": thinkTag, "mm:thought": thinkTag,

	"relevant-memories": memoryTag, "relevant_memories": memoryTag,

	"final": finalTag, "minimax:tool_call": minimaxTag, "invoke": invokeTag,

	"function": payloadTag, "parameter": payloadTag, "parameters": payloadTag,
	"argument": payloadTag, "arguments": payloadTag, "antml:invoke": payloadTag, "antml:parameter": payloadTag,
}

// A tag is what stands at a '<'.
type tag struct {
	kind     tagKind
	closing  bool // </name>
	empty    bool // <name/>
	complete bool // it has its '>'
	end      int  // after the '>', or where the tag breaks off
}

const (
	maxTagName   = 20  // bytes, the longest one above
	maxAttribute = 256 // bytes of a quoted value that may hold '<' or '>'
)

// parseTag reads the tag at s[at], which is a '<'. Letter case, space and invisible characters do not hide a tag.
func parseTag(s string, at int) tag {
	t := tag{kind: noTag, end: at + 1}
	i := skipBlank(s, at+1)
	if i < len(s) && s[i] == '/' {
		t.closing = true
		i = skipBlank(s, i+1)
	}
	kind, i := tagName(s, i)
	if kind == noTag || kind < toolKinds && !endsToolName(s, i) {
		return t
	}
	t.kind = kind
	t.end, t.complete = attributesEnd(s, i, kind < toolKinds)
	t.empty = t.complete && s[t.end-2] == '/'
	return t
}

// tagName reads a name and returns which one it is and where it ends.
func tagName(s string, at int) (tagKind, int) {
	var name [maxTagName]byte
	n := 0
	for at < len(s) {
		c := s[at]
		switch {
		case c >= 'A' && c <= 'Z':
			c += 'a' - 'A'
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '_':
		case c == ':' && isNamespace(string(name[:n])), c == '-' && string(name[:n]) == "relevant":
		case c >= utf8.RuneSelf:
			r, size := utf8.DecodeRuneInString(s[at:])
			if isInvisible(r) {
				at += size
				continue
			}
			if isWord(r) {
				return noTag, at
			}
			return lookupTag(name[:n]), at
		default:
			return lookupTag(name[:n]), at
		}
		if n == len(name) {
			return noTag, at
		}
		name[n] = c
		n++
		at++
	}
	return lookupTag(name[:n]), at
}

func isNamespace(name string) bool { return name == "antml" || name == "mm" || name == "minimax" }

func lookupTag(name []byte) tagKind {
	if kind, ok := tagKinds[string(name)]; ok {
		return kind
	}
	return noTag
}

// attributesEnd returns the position after the '>' that ends a tag whose name ends at a byte. The tag breaks off at another
// '<', at the end of the text and, if arguments end it, where these begin.
func attributesEnd(s string, at int, arguments bool) (end int, complete bool) {
	for ; at < len(s); at++ {
		switch c := s[at]; c {
		case '>':
			return at + 1, true
		case '<':
			return at, false
		case '{', '[':
			if arguments {
				return at, false
			}
		case '"', '\'':
			value := s[at+1 : min(len(s), at+1+maxAttribute)]
			if i := strings.IndexByte(value, c); i >= 0 && strings.IndexByte(value[:i], '\n') < 0 {
				at += 1 + i
			}
		}
	}
	return at, false
}

// skipBlank returns the position of the first byte that is neither space nor invisible.
func skipBlank(s string, at int) int {
	for at < len(s) {
		r, size := utf8.DecodeRuneInString(s[at:])
		if !unicode.IsSpace(r) && !isInvisible(r) {
			break
		}
		at += size
	}
	return at
}
