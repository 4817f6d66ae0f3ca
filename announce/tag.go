package announce

import (
	"strings"
	"unicode/utf8"

	"github.com/offshoot-sdk/offshoot/internal/ahead"
)

// A tagKind says which tag this is, of those that models write and people must not see. The tags of
// tool calls come first, so that a kind below toolKinds is one of them.
type tagKind uint8

const (
	toolCallTag tagKind = iota
	toolCallsTag
	toolResultTag
	functionCallTag
	functionCallsTag
	functionResponseTag
	antmlInvokeTag
	functionTag // it begins a call if it has a name and arguments; else it is a payload
	toolKinds   // the number of kinds of tool tags, not a tag

	thinkTag
	memoryTag
	finalTag
	markTag // what chat templates put around turns, in the form of a tag
	minimaxTag
	invokeTag
	asideTag   // what a harness or a model puts around what is not said to people
	jsonTag    // one that is common, and an asideTag if it holds JSON
	citeTag    // around a text with a source, if it has the index of one
	strikeTag  // <s>, see sentence
	payloadTag // a tag that models write inside a tool call; it is text outside of one
	noTag      // a name that is not in tagKinds
)

// tagKinds has the names of the tags, in lower case.
var tagKinds = map[string]tagKind{
	"tool_call": toolCallTag, "tool_calls": toolCallsTag, "tool_result": toolResultTag,
	"function_call": functionCallTag, "function_calls": functionCallsTag, "function_response": functionResponseTag,
	"antml:invoke": antmlInvokeTag, "steptml:invoke": antmlInvokeTag, "function": functionTag,
	"antml:function_calls": functionCallsTag, "xai:function_call": functionCallTag,
	"toolcall": toolCallTag, "seed:tool_call": toolCallTag, "longcat_tool_call": toolCallTag,
	"steptml:toolcalls": toolCallsTag,

	"tool_use": toolCallTag, "tool_uses": toolCallsTag,

	"tool_results": asideTag, "function_result": asideTag, "function_output": asideTag, "function_outputs": asideTag,
	"tool_response": asideTag, "tool_output": asideTag, "tool_outputs": asideTag, "tool_code": asideTag,
	"function_results": asideTag, "antml:function_results": asideTag, "citations": asideTag,
	"system-reminder": asideTag, "task-notification": asideTag,
	"search_quality_reflection": asideTag, "search_quality_score": asideTag,
	"xai:tool_usage_card": asideTag, "grok:render": asideTag, "seed:cot_budget_reflect": asideTag,
	"tools": jsonTag, "schema": jsonTag, "cite": citeTag,

	"think": thinkTag, "thinking": thinkTag, "thought": thinkTag, "antthinking": thinkTag,
	"antml:think": thinkTag, "antml:thinking": thinkTag, "antml:thought": thinkTag,
	"mm:think": thinkTag, "mm:thinking": thinkTag, "mm:thought": thinkTag,

	"relevant-memories": memoryTag, "relevant_memories": memoryTag,

	"reasoning": thinkTag, "scratchpad": thinkTag, "scratch_pad": thinkTag, "seed:think": thinkTag,
	"longcat_think": thinkTag,

	"bos": markTag, "eos": markTag, "bos_token": markTag, "eos_token": markTag,
	"seed:bos": markTag, "seed:eos": markTag, "sop": markTag, "eop": markTag, "eoa": markTag,
	"start_of_turn": markTag, "end_of_turn": markTag,
	"start_of_image": markTag, "end_of_image": markTag, "img_context": markTag,
	"end_of_sentence": markTag,

	"final": finalTag, "answer": finalTag, "response": finalTag, "minimax:tool_call": minimaxTag, "invoke": invokeTag,

	"arg_key": payloadTag, "arg_value": payloadTag, "steptml:parameter": payloadTag,
	"parameter": payloadTag, "parameters": payloadTag,
	"argument": payloadTag, "arguments": payloadTag, "antml:parameter": payloadTag,
}

// A tag is what parseTag has read at a '<'.
type tag struct {
	kind     tagKind
	closing  bool // </name>
	empty    bool // <name/>
	complete bool // the tag has its '>'
	nameEnd  int  // the position after the name
	end      int  // the position after the '>', or where the tag breaks off
}

// hasAttributes reports whether more than blanks stands between the name of a complete tag of s and
// its '>'.
func (t tag) hasAttributes(s string) bool {
	return t.complete && strings.Trim(s[t.nameEnd:t.end-1], " \t\r\n/") != ""
}

// mentionEnd returns the position behind what stays of the complete tag at a position without
// another look at it: the tag, or its '<' if the tag goes on behind a line. The end of such a tag
// may stand among silent tokens that are not shown.
func (t tag) mentionEnd(v *ahead.View, at int) int {
	if strings.IndexByte(v.S[at:t.end], '\n') >= 0 {
		return at + 1
	}
	return t.end
}

const (
	maxTagName   = 28  // bytes of a name; no name in tagKinds is longer
	maxAttribute = 256 // bytes of a quoted value that may hold '<' or '>', with its closing quote
)

// parseTag reads the tag at a position, which has a '<'. Its kind is noTag if the name is not a
// known one. Letter case, space and invisible characters do not hide a tag.
func parseTag(v *ahead.View, at int) tag {
	t := tag{kind: noTag, end: at + 1}
	i := skipBlank(v, at+1)
	if v.Byte(i) == '/' {
		t.closing = true
		i = skipBlank(v, i+1)
	}
	for _, prefix := range [...]string{"｜DSML｜", "|DSML|"} { // DeepSeek writes it before each name
		if v.Has(i, prefix) {
			i += len(prefix)
			break
		}
	}
	kind, i := tagName(v, i)
	if kind == noTag || kind < toolKinds && !endsToolName(v, i) {
		return t
	}
	t.kind, t.nameEnd = kind, i
	t.end, t.complete = attributesEnd(v, i, kind < toolKinds)
	t.empty = t.complete && v.S[t.end-2] == '/'
	return t
}

// tagName reads the name at a position. It returns the kind of tag and where the name ends.
// Letters of any case, digits, '_', the ':' of a known namespace and the '-' of some names belong
// to a name. Invisible characters are skipped, and any other character ends the name. A name with a
// letter or digit outside of ASCII, or of more than maxTagName bytes, is unknown.
func tagName(v *ahead.View, at int) (tagKind, int) {
	var name [maxTagName]byte
	n := 0
	for !v.Ended(at) {
		c := v.S[at]
		switch {
		case c >= 'A' && c <= 'Z':
			c += 'a' - 'A'
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '_':
		case c == ':' && isNamespace(string(name[:n])), c == '-' && takesHyphen(string(name[:n])):
		case c >= utf8.RuneSelf:
			r, size := v.Rune(at)
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
		if n == len(hashedThink) && string(name[:n]) == hashedThink {
			near := v.Within(at, maxHash)
			at = near.Skip(at, "0123456789abcdefABCDEF")
			v.Join(near)
			return thinkTag, at
		}
	}
	return lookupTag(name[:n]), at
}

// hashedThink begins the name of the thoughts of Doubao, behind which a hash in hexadecimal digits
// stands that differs between its models.
const (
	hashedThink = "think_never_used_"
	maxHash     = 64
)

// isNamespace reports whether a known tag has this name before its ':'.
func isNamespace(name string) bool {
	switch name {
	case "antml", "mm", "minimax", "seed", "xai", "grok", "steptml":
		return true
	}
	return false
}

// takesHyphen reports whether a known tag has this name before its '-'.
func takesHyphen(name string) bool {
	return name == "relevant" || name == "system" || name == "task"
}

// lookupTag returns the kind of tag with this name, or noTag.
func lookupTag(name []byte) tagKind {
	if kind, ok := tagKinds[string(name)]; ok {
		return kind
	}
	return noTag
}

// attributesEnd returns the position after the '>' that ends the tag whose name ends at a position.
// The tag breaks off, and is not complete, at another '<' and at the end of the text. If arguments
// is true, it breaks off at a '{' or '[' too, because the arguments of a tool call begin there.
func attributesEnd(v *ahead.View, at int, arguments bool) (end int, complete bool) {
	for at = v.Any(at, "<>{[\"'"); !v.Ended(at); at = v.Any(at+1, "<>{[\"'") {
		switch c := v.S[at]; c {
		case '>':
			return at + 1, true
		case '<':
			return at, false
		case '{', '[':
			if arguments {
				return at, false
			}
		default:
			at = quoteEnd(v, at, c)
		}
	}
	return at, false
}

// quoteEnd returns where the quoted value ends that starts at a position with this quote, or that
// position if the value is longer than maxAttribute or its line.
func quoteEnd(v *ahead.View, at int, quote byte) int {
	value := v.Within(at+1, maxAttribute)
	defer func() { v.Join(value) }()
	for i := at + 1; !value.Ended(i) && value.S[i] != '\n'; i++ {
		if value.S[i] == quote {
			return i
		}
	}
	return at
}

// skipBlank returns the position of the first rune from at on that is neither space nor invisible.
func skipBlank(v *ahead.View, at int) int {
	for {
		r, size := v.Rune(at)
		if size == 0 || !isBlankRune(r) {
			return at
		}
		at += size
	}
}
