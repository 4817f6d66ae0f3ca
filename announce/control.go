package announce

import (
	"strings"
	"unicode/utf8"

	"github.com/offshoot-sdk/offshoot/internal/ahead"
)

const (
	widePipe   = "｜" // the full-width pipe, U+FF5C
	maxControl = 256 // bytes between the pipes of a control token
)

// controlTokenEnd returns the position after the one control token at a position, which has a '<',
// or 0 if none starts there. A control token is what chat templates put between <| and |>. Its
// pipes are ASCII or full-width. A backtick or a lone pipe before the end makes it text.
func controlTokenEnd(v *ahead.View, at int) int {
	start := at + 1 + pipeLen(v, at+1)
	if start == at+1 || v.Byte(start) == ' ' {
		return 0
	}
	for at = start; at < start+maxControl && !v.Ended(at); at++ {
		switch v.S[at] {
		case '`': // what follows is code about a token
			return 0
		case '|', widePipe[0]:
			if n := pipeLen(v, at); n > 0 {
				if v.Byte(at+n) == '>' {
					return at + n + 1
				}
				return 0
			}
		}
	}
	return 0
}

// hidingTokens are the control tokens behind which nothing is said to people, by their names: in
// lower case, with '_' between words. The end of it is the next control token.
var hidingTokens = map[string]bool{
	"tool_calls_begin": true, "tool_call_begin": true, "tool_outputs_begin": true,
	"tool_output_begin": true, "tool_calls_section_begin": true, "tool_call": true,
	"tool_call_start": true, "tool_response": true, "start_thinking": true, "start_action": true,
	"start_tool_result": true, "action_start": true, "function_call": true,
	"functioncallbegin": true, "tools_prefix": true, "inner_prefix": true, "python_tag": true,
	"python_start": true, "start_of_cite": true, "box_start": true, "system": true, "user": true,
	"observation": true, "tool": true, "media_begin": true,
}

// innerTokens are those that stand within what is hidden.
var innerTokens = map[string]bool{
	"tool_sep": true, "tool_call_begin": true, "tool_output_begin": true,
	"tool_call_argument_begin": true, "constrain": true, "message": true, "plugin": true,
	"interpreter": true, "media_content": true, "media_pad": true,
	"end_header_id": true, "header_end": true, "end_of_role": true, "im_middle": true, "im_sep": true,
	"sep": true, "recipient": true, "content": true,
}

// roleTokens are those behind which the role of a turn stands.
var roleTokens = map[string]bool{
	"im_start": true, "start": true, "start_header_id": true, "header_start": true,
	"start_of_role": true, "im_assistant": true, "im_user": true, "im_system": true,
	"from": true, recipientToken: true, openToken: true, closeToken: true,
}

// roles tells of each role whether it speaks to people.
var roles = map[string]bool{
	"assistant": true, "model": true, "ai": true, "bot": true,
	"system": false, "user": false, "human": false, "developer": false, "tool": false,
	"function": false, "functions": false, "ipython": false, "environment": false,
}

// kimiParts tells of each part of a message of Kimi whether it hides what it has.
var kimiParts = map[string]bool{
	"message": false, "response": false, "think": true, "tools": true, "call": true, "argument": true,
	"tool": true, "system": true, "user": true,
}

const (
	channelToken   = "channel"   // of Harmony: the channel follows
	recipientToken = "recipient" // of Functionary: who is told follows
	openToken      = "open"      // of Kimi: the name of a part follows
	closeToken     = "close"
	maxHeader      = 128 // bytes of a role or a channel
)

// tokenName returns the name of the control token that is at the beginning of s, as the tables have
// it.
func tokenName(s string) string {
	s = strings.Trim(s, "<>|"+widePipe)
	return strings.ToLower(strings.ReplaceAll(s, "▁", "_"))
}

// control decides about the control token that ends at a position.
func (l *lexer) control(v *ahead.View, end int) action {
	do := action{end: end, cut: true, gap: true}
	name := tokenName(v.S[l.At:end])
	if name == "bot" || name == "user" { // InternLM has a ':' behind it
		do.end = v.Skip(end, ":")
	}
	switch {
	case hidingTokens[name]:
		do.then.how = endControl
	case roleTokens[name], name == channelToken:
		header, ends, stops := l.header(v, end)
		shows, known := speaksToPeople(name, header)
		if !known || !stops && name != "im_start" {
			return do
		}
		if do.end = ends; !shows {
			do.then = ending{how: endControl, closed: name == "start"}
		}
	}
	return do
}

// header returns what follows a token at a position up to the end of the line or another control
// token, and where it ends: behind one line break. stops says that a control token follows.
func (l *lexer) header(v *ahead.View, at int) (header string, end int, stops bool) {
	near := v.Within(at, maxHeader)
	end = near.Any(at, "<\n")
	v.Join(near)
	header = strings.TrimSpace(v.S[at:min(end, len(v.S))])
	if v.Ended(end) {
		return header, end, false
	}
	if v.S[end] == '\n' {
		return header, end + 1, v.Byte(end+1) == '<' && controlTokenEnd(v, end+1) > 0
	}
	return header, end, controlTokenEnd(v, end) > 0
}

// speaksToPeople reports whether what follows the header behind a token is said to people. known is
// false if the header is none, but text.
func speaksToPeople(token, header string) (shows, known bool) {
	word, rest, _ := strings.Cut(header, " ")
	word = strings.ToLower(word)
	toOther := strings.Contains(rest, "to=") || strings.HasPrefix(word, "to=")
	switch token {
	case closeToken:
		return true, rest == ""
	case recipientToken:
		return word == "all", rest == "" && word != ""
	case openToken:
		hides, ok := kimiParts[word]
		return !hides, ok
	case channelToken:
		switch word {
		case "final":
			return true, true
		case "commentary":
			return !toOther, true
		case "analysis":
			return false, true
		}
		return false, false
	}
	shows, known = roles[word]
	if token == "start" { // the name of a tool may stand for a role
		return shows && !toOther, known || toOther || strings.HasPrefix(word, "functions.")
	}
	return shows, known && rest == ""
}

// passControl passes what is not said to people, up to a control token that is not a part of it.
func (e *ending) passControl(l *lexer) bool {
	if find(l, "<") == 0 {
		return true
	}
	v := l.View()
	end := controlTokenEnd(&v, l.At)
	if v.Waits() {
		return false
	}
	switch name := tokenName(l.Buf[l.At:max(end, l.At)]); {
	case end == 0:
		l.Skip(l.At + 1)
	case innerTokens[name], e.closed && name == channelToken:
		l.Skip(end)
	default:
		*e = ending{}
	}
	return true
}

// pipeLen returns the length in bytes of the pipe at a position, or 0.
func pipeLen(v *ahead.View, at int) int {
	switch {
	case v.Byte(at) == '|':
		return 1
	case v.Has(at, widePipe):
		return len(widePipe)
	}
	return 0
}

// lastRune returns the last rune of what is kept. It is not a word's if nothing is kept.
func (l *lexer) lastRune() rune {
	r, _ := utf8.DecodeLastRuneInString(l.Tail())
	return r
}

// joinWords puts a space where control tokens were removed if they separated two words. It returns
// false if that is not known yet.
func (l *lexer) joinWords() bool {
	v := l.View()
	r, _ := v.Rune(l.At)
	if v.Waits() {
		return false
	}
	if isWord(r) {
		l.Write(" ")
	}
	l.gap = false
	return true
}

// startsWith reports whether what is kept before At ends with a line break, or is nothing.
func (l *lexer) startsKept() bool {
	kept := l.Tail()
	return kept == "" || strings.HasSuffix(kept, "\n")
}
