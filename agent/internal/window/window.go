package window

import (
	"unicode/utf8"

	"github.com/offshoot-sdk/offshoot/internal/sat"
	"github.com/offshoot-sdk/offshoot/session"
)

// What a message takes beside its texts, in tokens.
const (
	perMessage = 8     // its role, and what a provider puts around it
	perCall    = 8     // a tool call
	perPart    = 1_600 // a picture at the size to which providers scale it down
)

// A Counter counts the tokens of a text. The nil Counter takes four characters for one.
type Counter func(text string) int

// Text returns the tokens of a text, and never less than zero.
func (c Counter) Text(text string) int {
	if c == nil {
		return (utf8.RuneCountInString(text) + 3) / 4
	}
	return max(c(text), 0)
}

// Message returns the tokens of a message. The provider's form, if there is one, stands for the
// text and the calls, whichever takes more.
func (c Counter) Message(m *session.Message) int {
	n := c.Text(m.Text)
	for _, call := range m.ToolCalls {
		n = sum(n, perCall, c.Text(call.ID), c.Text(call.Name), c.Text(string(call.Args)))
	}
	if len(m.Raw) > 0 {
		n = max(n, c.Text(string(m.Raw)))
	}
	if m.ToolCallID != "" {
		n = sat.Add(n, c.Text(m.ToolCallID))
	}
	return sum(n, perMessage, perPart*len(m.Parts))
}

// sum returns the sum of tokens, or the largest number if that is out of range.
func sum(tokens ...int) (n int) {
	for _, more := range tokens {
		n = sat.Add(n, more)
	}
	return n
}

// Messages returns the tokens of each message, and their sum.
func (c Counter) Messages(messages []session.Message) (sizes []int, all int) {
	sizes = make([]int, len(messages))
	for i := range messages {
		sizes[i] = c.Message(&messages[i])
		all = sat.Add(all, sizes[i])
	}
	return sizes, all
}

// Start returns where the part of a conversation begins that stays when what is before it is
// replaced by a summary: at most so many messages, which take at most so many tokens. A message
// counts at most a quarter of them, since one that is larger is cut. A call is not parted from its
// results, so that the newest message stays with its results whatever that takes. The part begins
// with a message of the user's role if at least half of it stays then.
func Start(messages []session.Message, sizes []int, keep, room int) int {
	start, tokens := len(messages), 0
	for i := len(messages) - 1; i >= 0; i-- {
		tokens = sat.Add(tokens, min(sizes[i], room/4))
		if messages[i].Role == session.MessageTool {
			continue
		}
		if start < len(messages) && (len(messages)-i > keep || tokens > room) {
			break
		}
		start = i
	}
	for i := start; i-start <= (len(messages)-start)/2 && i < len(messages); i++ {
		if messages[i].Role == session.MessageUser {
			return i
		}
	}
	return start
}
