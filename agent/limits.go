package agent

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"unicode/utf8"

	"github.com/offshoot-sdk/offshoot/internal/secret"
	"github.com/offshoot-sdk/offshoot/internal/text"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// NoLimit switches a bound of [Limits] off.
const NoLimit = spawn.NoLimit

// A LimitError is something that is over one of the [Limits]. It is an *[InputError] too.
type LimitError = spawn.LimitError

// Limits bound what people, models and tools give to a Runtime, and what it keeps in memory. A
// field that is zero is its default, and one that is [NoLimit] means without a bound.
//
//	Task        the task of a sub-agent           200,000 bytes    refused: *LimitError
//	Label       the label of a sub-agent          200 runes        refused: *LimitError
//	Extra       what a spawn carries beside its   200,000 bytes    refused: *LimitError
//	            task: its Tools; its Spec with
//	            the schema of the result
//	Message     the text of Session.Post          1,000,000 bytes  refused: *LimitError
//	Meta        Meta of a message, keys and       16,384 bytes     refused: *LimitError
//	            values together
//	Says        texts that a turn says before     100              refused: *LimitError
//	            its end, see Turn.Say
//	ID          ids of messages and of what is    4,096 bytes,     refused: *LimitError
//	            focused; of spawns the key,       at least 36
//	            agent, model and thinking
//	Reply       what a model or a Runner answers  1,000,000 bytes  cut, with a note at its end; a
//	                                                               typed result, or its files,
//	                                                               fails the turn
//	Line        a message that a Runner records,  four times the   first Raw is left out; without
//	            with its calls and its Raw, but   greatest of      it refused: *LimitError, which
//	            without the bytes of its Parts    Reply, Tool-     fails the turn of a Loop
//	                                              Result, ToolArgs;
//	                                              33,554,432 where
//	                                              the Store has
//	                                              Files
//	CallID      the id of a tool call             65,536 bytes,    refused: *LimitError, which
//	                                              at least 64      fails the turn of a Loop
//	ToolResult  what a tool returns               1,000,000 bytes  cut, with a note at its end
//	ToolCalls   tool calls of one answer          64               the first are run, and the
//	                                                               model is told; Record refuses
//	ToolArgs    the arguments of one tool call    1,000,000 bytes, the call fails: *LimitError
//	                                              at least 2
//	Parts       the Parts of one message          64               of a tool's, the first are
//	                                                               kept, and the model is told;
//	                                                               Record and Post refuse:
//	                                                               *LimitError
//	Part        the bytes of one Part             33,554,432       of a tool's, it is left out,
//	                                                               and the model is told; Record,
//	                                                               Post and PutFile: *LimitError
//	Hot         what a session keeps of its       16 MiB           not kept: each turn reads all
//	            conversation between its turns                     of its transcript
//	HotTotal    all of these together             256 MiB          what was not used for the
//	                                                               longest is not kept
//
// A conversation takes the memory of its texts, arguments and Raw, and about 500 bytes a message.
// It is kept until its session has ended or its tree has had nothing to do for ten minutes.
//
// A message that [Child.Steer] sends has at most 4,000 runes, whatever the Limits say. A tool's
// name has 64 bytes: a model that calls a longer one is told that there is no such tool, and the
// transcript has the first 64. A model's name, as a Runner reports it, has 256 bytes on one line,
// and is left out otherwise.
type Limits struct {
	Task, Label, Extra, Message, ID, Reply int
	Line, CallID                           int
	ToolResult, ToolCalls, ToolArgs        int
	Hot, HotTotal                          int
	Parts, Part, Meta, Says                int
}

// orDefault returns l with the defaults of this package in place of zeros. Those of the tree are
// set by package spawn. With files a line does not hold a long message, so that the provider's form
// of one with pictures in it has room.
func (l Limits) orDefault(files bool) Limits {
	l.Reply, l.ID = l.spawn().MaxResult(), l.spawn().MaxID()
	l.ToolResult = cmp.Or(l.ToolResult, 1_000_000)
	l.ToolCalls = cmp.Or(l.ToolCalls, 64)
	l.ToolArgs = cmp.Or(l.ToolArgs, 1_000_000)
	l.CallID = cmp.Or(l.CallID, 65_536)
	l.Hot = cmp.Or(l.Hot, 16<<20)
	l.HotTotal = cmp.Or(l.HotTotal, 256<<20)
	l.Parts = cmp.Or(l.Parts, 64)
	l.Part = cmp.Or(l.Part, defaultPart)
	if l.Line == 0 {
		l.Line = NoLimit
		greatest := max(l.Reply, l.ToolResult, l.ToolArgs)
		if min(l.Reply, l.ToolResult, l.ToolArgs) >= 0 && greatest <= math.MaxInt/4 {
			l.Line = 4 * greatest
		}
		if files && l.Line != NoLimit {
			l.Line = max(l.Line, defaultPart)
		}
	}
	return l
}

// defaultPart is as much as providers take in one request.
const defaultPart = 32 << 20

// spawn returns the bounds that the tree checks.
func (l Limits) spawn() spawn.Limits {
	return spawn.Limits{
		Task: l.Task, Label: l.Label, Extra: l.Extra, Message: l.Message, ID: l.ID,
		Result: l.Reply, Parts: l.Parts, Part: l.Part, Meta: l.Meta, Says: l.Says,
	}
}

// validate reports every bound that is not one. That of the spawn package names its Result, which
// is our Reply.
func (l Limits) validate(bad func(path, format string, args ...any)) {
	for _, f := range []struct {
		name   string
		limits spawn.Limits
	}{
		{"Task", spawn.Limits{Task: l.Task}},
		{"Label", spawn.Limits{Label: l.Label}},
		{"Extra", spawn.Limits{Extra: l.Extra}},
		{"Message", spawn.Limits{Message: l.Message}},
		{"ID", spawn.Limits{ID: l.ID}},
		{"Reply", spawn.Limits{Result: l.Reply}},
		{"Parts", spawn.Limits{Parts: l.Parts}},
		{"Part", spawn.Limits{Part: l.Part}},
		{"Meta", spawn.Limits{Meta: l.Meta}},
		{"Says", spawn.Limits{Says: l.Says}},
		// These have no other bounds than a Result.
		{"Line", spawn.Limits{Result: l.Line}},
		{"CallID", spawn.Limits{Result: l.CallID}},
		{"ToolResult", spawn.Limits{Result: l.ToolResult}},
		{"ToolCalls", spawn.Limits{Result: l.ToolCalls}},
		{"ToolArgs", spawn.Limits{Result: l.ToolArgs}},
		{"Hot", spawn.Limits{Result: l.Hot}},
		{"HotTotal", spawn.Limits{Result: l.HotTotal}},
	} {
		if in, ok := errors.AsType[*InputError](f.limits.Validate()); ok {
			bad("Limits."+f.name, "%s", in.Reason)
		}
	}
	all := l
	all.Line = NoLimit
	all = all.orDefault(false)
	for _, f := range []struct {
		name         string
		value, least int
		why          string
	}{
		{"Line", l.Line, max(all.Reply, all.ToolResult, all.ToolArgs), "as much as its parts"},
		{"CallID", l.CallID, minCallID, "since providers choose the ids"},
		{"ToolArgs", l.ToolArgs, len(noArgs), "for " + noArgs},
	} {
		if f.value > 0 && f.value < f.least {
			bad("Limits."+f.name, "%d: the least is %d, %s; 0 is the default", f.value, f.least,
				f.why)
		}
	}
}

// minCallID is the least bound of ids of tool calls. The ids of common providers are shorter.
const minCallID = 64

// checkArgs checks the arguments of a tool call.
func (l Limits) checkArgs(c ToolCall) error {
	if l.ToolArgs < 0 || len(c.Args) <= l.ToolArgs {
		return nil
	}
	return overLimit("arguments of tool "+text.Quote(c.Name), len(c.Args), l.ToolArgs, "bytes",
		"ToolArgs")
}

// noArgs stand in the transcript for arguments that are too long.
const noArgs = "{}"

// maxToolName is how many bytes the name of a tool has at most.
const maxToolName = 64

// noToolName stands in the transcript for the name of a tool that is too long and begins with a
// secret, within which it would be cut.
const noToolName = "tool"

// checkID returns why an ID that a transport gives cannot be one, or nil.
func (l Limits) checkID(id string) error {
	if !utf8.ValidString(id) {
		return &InputError{Field: "ID", Reason: "it is not UTF-8: " + text.Quote(id)}
	}
	return overLimit("ID", len(id), l.ID, "bytes", "ID")
}

// overLimit returns a *LimitError if the size of a field is over the limit of a name.
func overLimit(field string, size, limit int, unit, name string) error {
	if limit < 0 || size <= limit {
		return nil
	}
	return &LimitError{Field: field, Size: size, Limit: limit, Unit: unit, Path: "Limits." + name}
}

// checkMessage refuses what cannot be cut in a message that a Runner records. A provider finds a
// call again by its id, and a transport a message.
func (l Limits) checkMessage(m *Message) error {
	over := func(field string, size, limit int, unit, name string) error {
		return overLimit("Message."+field, size, limit, unit, name)
	}
	if err := over("ToolCalls", len(m.ToolCalls), l.ToolCalls, "tool calls", "ToolCalls"); err != nil {
		return err
	}
	for i, c := range m.ToolCalls {
		field := fmt.Sprintf("ToolCalls[%d].ID", i)
		if err := over(field, len(c.ID), l.CallID, "bytes", "CallID"); err != nil {
			return err
		}
	}
	if err := over("ToolCallID", len(m.ToolCallID), l.CallID, "bytes", "CallID"); err != nil {
		return err
	}
	for _, f := range [...]struct{ name, value string }{
		{"ID", m.ID}, {"From.ID", m.From.ID}, {"From.Name", m.From.Name},
	} {
		if err := over(f.name, len(f.value), l.ID, "bytes", "ID"); err != nil {
			return err
		}
	}
	return l.checkParts(m.Parts)
}

// boundMessage returns a message that a Runner records as the Limits allow it. Long texts and names
// of tools are cut, within no secret that mask knows, arguments that are too long are left out, and
// so is what is not the name of a model. The provider's form, which would hold all of that, is left
// out with it, or if the message would be too long with it. A message that is too long even so is
// refused.
func (l Limits) boundMessage(m Message, mask func(string) string) (Message, error) {
	if err := l.checkMessage(&m); err != nil {
		return m, err
	}
	limit := l.Reply
	if m.Role == session.MessageTool {
		limit = l.ToolResult
	}
	if s := secret.Bound(mask, m.Text, limit); s != m.Text {
		m.Text, m.Raw = s, nil
	}
	m.Model, m.Whole = modelName(m.Model), session.File{}
	m.Ord, m.Synthetic, m.Copied = 0, false, false // they are not the Runner's to say
	calls := m.ToolCalls
	for i, c := range calls {
		tooLong := l.checkArgs(c) != nil
		if !tooLong && len(c.Name) <= maxToolName {
			continue
		}
		if m.Raw = nil; &m.ToolCalls[0] == &calls[0] {
			m.ToolCalls = slices.Clone(calls)
		}
		m.ToolCalls[i].Name = cmp.Or(secret.Cut(mask, c.Name, maxToolName), noToolName)
		if tooLong {
			m.ToolCalls[i].Args = json.RawMessage(noArgs)
		}
	}
	size := len(m.ID) + len(m.Text) + len(m.ToolCallID) + len(m.Model)
	for _, c := range m.ToolCalls {
		size += len(c.ID) + len(c.Name) + len(c.Args)
	}
	if l.Line < 0 || size+len(m.Raw) <= l.Line {
		return m, nil
	}
	if m.Raw = nil; size <= l.Line {
		return m, nil
	}
	return m, overLimit("Message", size, l.Line, "bytes", "Line")
}

// modelName returns a name of a model that a Runner reports, or "" for what is not one: a name that
// was cut would be that of another model.
func modelName(name string) string {
	if !text.IsLine(name, text.MaxName) {
		return ""
	}
	return name
}

// boundResult bounds what a Runner returned before it is recorded: a text is cut, what is not the
// name of a model is left out, and a typed result or a list of files that is too long is left out
// with an error.
func (l Limits) boundResult(res *Result, mask func(string) string) error {
	res.Text, res.Model = secret.Bound(mask, res.Text, l.Reply), modelName(res.Model)
	typed := overLimit("Result.JSON", len(res.JSON), l.Reply, "bytes", "Reply")
	if typed != nil {
		res.JSON = nil
	}
	size := 0
	for _, f := range res.Files {
		size += perFile + len(f.Name) + len(f.Path) + len(f.MediaType)
	}
	files := overLimit("Result.Files", size, l.Reply, "bytes", "Reply")
	if files != nil {
		res.Files = nil
	}
	return errors.Join(typed, files)
}

// perFile is how many bytes a file counts beside its texts.
const perFile = 16

// tooManyCalls is what a model is told that made more calls in one answer than are run.
func (l Limits) tooManyCalls(n int) string {
	return fmt.Sprintf("\n[Offshoot] Your answer had %d tool calls, and only the first %d were run: "+
		"make the others in a later answer.", n, l.ToolCalls)
}
