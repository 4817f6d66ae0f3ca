package agent

import (
	"cmp"
	"fmt"

	"github.com/offshoot-sdk/offshoot/internal/text"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// NoLimit switches a bound of [Limits] off.
const NoLimit = spawn.NoLimit

// A LimitError is something that is over one of the [Limits]. It is an *[InputError] too.
type LimitError = spawn.LimitError

// Limits bound what people, models and tools give to a Runtime. A field that is zero is its
// default, and one that is [NoLimit] means without a bound.
//
//	Task        the task of a sub-agent           200,000 bytes    refused: *LimitError
//	Label       the label of a sub-agent          200 runes        refused: *LimitError
//	Message     the text of Session.Post          1,000,000 bytes  refused: *LimitError
//	ID          ids of messages, keys of spawns,  4,096 bytes      refused: *LimitError
//	            the model that a spawn asks for
//	Reply       what a model or a Runner answers  1,000,000 bytes  cut, with a note at its end; a
//	                                                               typed result fails the turn
//	ToolResult  what a tool returns               1,000,000 bytes  cut, with a note at its end
//	ToolCalls   tool calls of one answer          64               the first are run, and the
//	                                                               model is told; Record refuses
//	ToolArgs    the arguments of one tool call    1,000,000 bytes  the call fails: *LimitError
//
// A message that [Child.Steer] sends has at most 4,000 runes, whatever the Limits say.
type Limits struct {
	Task, Label, Message, ID, Reply int
	ToolResult, ToolCalls, ToolArgs int
}

// orDefault returns l with the defaults of this package in place of zeros. Those of the tree are
// set by package spawn.
func (l Limits) orDefault() Limits {
	l.Reply = l.spawn().MaxResult()
	l.ToolResult = cmp.Or(l.ToolResult, 1_000_000)
	l.ToolCalls = cmp.Or(l.ToolCalls, 64)
	l.ToolArgs = cmp.Or(l.ToolArgs, 1_000_000)
	return l
}

// spawn returns the bounds that the tree checks.
func (l Limits) spawn() spawn.Limits {
	return spawn.Limits{
		Task: l.Task, Label: l.Label, Message: l.Message, ID: l.ID, Result: l.Reply,
	}
}

// validate reports every bound that is not one.
func (l Limits) validate(bad func(path, format string, args ...any)) {
	for _, f := range []struct {
		name  string
		value int
	}{
		{"Task", l.Task},
		{"Label", l.Label},
		{"Message", l.Message},
		{"ID", l.ID},
		{"Reply", l.Reply},
		{"ToolResult", l.ToolResult},
		{"ToolCalls", l.ToolCalls},
		{"ToolArgs", l.ToolArgs},
	} {
		if f.value < NoLimit {
			bad("Limits."+f.name, "%d: 0 is the default, and -1 (NoLimit) means without a bound", f.value)
		}
	}
}

// checkArgs checks the arguments of a tool call.
func (l Limits) checkArgs(c ToolCall) error {
	if l.ToolArgs < 0 || len(c.Args) <= l.ToolArgs {
		return nil
	}
	return &LimitError{
		Field: "arguments of tool " + text.Quote(c.Name), Size: len(c.Args), Limit: l.ToolArgs,
		Unit: "bytes", Path: "Limits.ToolArgs",
	}
}

// boundMessage returns a message that a Runner records as the Limits allow it: long texts are cut,
// and arguments that are too long are left out. The provider's form, which would hold all of that,
// is left out with it.
func (l Limits) boundMessage(m Message) Message {
	limit := l.Reply
	if m.Role == "tool" {
		limit = l.ToolResult
	}
	if s := text.Bound(m.Text, limit); s != m.Text {
		m.Text, m.Raw = s, nil
	}
	for i, c := range m.ToolCalls {
		if l.checkArgs(c) == nil {
			continue
		}
		calls := append([]ToolCall(nil), m.ToolCalls...)
		calls[i].Args = []byte("{}")
		m.ToolCalls, m.Raw = calls, nil
	}
	return m
}

// tooManyCalls is what a model is told that made more calls in one answer than are run.
func (l Limits) tooManyCalls(n int) string {
	return fmt.Sprintf("\n[Offshoot] Your answer had %d tool calls, and only the first %d were run: "+
		"make the others in a later answer.", n, l.ToolCalls)
}
