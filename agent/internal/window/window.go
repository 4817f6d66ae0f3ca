package window

import (
	"slices"
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

// PerTool is what a tool takes beside its texts, in tokens.
const PerTool = 16

// A Counter counts the tokens of a text. The nil Counter takes four characters for one.
type Counter func(text string) int

// Text returns the tokens of a text. A count below zero is not one: four characters are a token.
func (c Counter) Text(text string) int {
	if c != nil {
		if n := c(text); n >= 0 {
			return n
		}
	}
	return (utf8.RuneCountInString(text) + 3) / 4
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

// A Plan says what stays of a conversation when its beginning is replaced by a summary.
type Plan struct {
	Keep   int // messages at most
	Room   int // tokens that the conversation may take; 0: without a bound
	Pinned int // messages at the beginning that hold the summary before
}

// Start returns where the part begins that stays: at most Keep messages, which take at most half of
// the room. A message counts at most a quarter of the room, since one that is larger is cut. A call
// is not parted from its results, so that the newest message stays with its results whatever that
// takes. The part begins with a message of the user's role if at least half of it stays then.
func (p Plan) Start(messages []session.Message, sizes []int) int {
	start, tokens := len(messages), 0
	for i, size := range slices.Backward(sizes) {
		if p.Room > 0 {
			size = min(size, p.Room/4)
		}
		tokens = sat.Add(tokens, size)
		if messages[i].Role == session.MessageTool {
			continue
		}
		over := len(messages)-i > p.Keep || p.Room > 0 && tokens > p.Room/2
		if start < len(messages) && over {
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

// IsWorth reports whether it makes room to replace messages of these sizes: they take an eighth of
// it, beside the summary before.
func (p Plan) IsWorth(sizes []int) bool {
	return Capped(sizes[p.Pinned:], p.Room) >= p.Room/8
}

// maxScale is how many tokens one of a count is at most.
const maxScale = 4

// Scale returns how many tokens of a provider one of a count is, at least 1, from what a call was
// taken for and what it has used. A usage that has no place in the window is that of several calls.
func Scale(sent int, u session.Usage, tokens int) float64 {
	prompt := u
	prompt.Output = 0
	used := prompt.Total()
	if sent <= 0 || used <= 0 || used > int64(tokens) {
		return 1
	}
	return min(max(float64(used)/float64(sent), 1), maxScale)
}

// Room returns how many tokens of the count a conversation may take beside what is fixed, and at
// least an eighth of what is left of the limit: a scale is an estimate.
func Room(limit, fixed int, scale float64) int {
	left := limit - fixed
	if scale <= 1 {
		return left
	}
	return max(int(float64(limit)/scale)-fixed, left/8)
}

// Used returns how many tokens a call has used, and what is new since then: the usage of the last
// message that has one, behind so many that say nothing, and the sizes of those behind it. It is
// zero if none has one, or one that has no place in the window.
func Used(messages []session.Message, sizes []int, measured, tokens int) (used int) {
	for i := len(messages) - 1; i >= measured; i-- {
		if total := messages[i].Usage.Total(); total > 0 {
			if total > int64(tokens) {
				return 0
			}
			return sat.Add(used, int(total))
		}
		used = sat.Add(used, sizes[i])
	}
	return 0
}
