package tree

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/offshoot-sdk/offshoot/internal/text"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
)

// NoLimit switches a bound of [Limits] off.
const NoLimit = -1

// Limits bound what callers and models give to a tree. A field that is zero is its default, and one
// that is [NoLimit] means without a bound.
type Limits struct {
	// Task bounds what a run is asked to do. 0: 200,000 bytes.
	Task int
	// Label bounds the label of a run. 0: 200 runes.
	Label int
	// Message bounds the text of a message to a session. 0: 1,000,000 bytes.
	Message int
	// ID bounds the ID of a message, and of a spawn the id of the run, the key, the origin, and the
	// names of the agent, the model and the thinking level that it asks for. 0: 4,096 bytes; at
	// least 36, which the ids have that a Supervisor gives to messages without one.
	ID int
	// Extra bounds what a spawn carries beside its task: the tools that it asks for, what is kept
	// with the run, and what tells requests with one key apart, each by itself. 0: 200,000 bytes.
	Extra int
	// Result bounds what a turn returns: the text, the JSON of a typed result, and the files
	// together. A longer text is cut, with a note at its end. A longer JSON or list of files is
	// left out and fails the turn. 0: 1,000,000 bytes.
	Result int
	// Parts bounds how many parts a message has. 0: 64.
	Parts int
	// Part bounds the bytes of one part of a message. 0: 33,554,432 bytes, which are 32 MiB.
	Part int
	// Meta bounds the Meta of a message, its keys and values together. 0: 16,384 bytes.
	Meta int
	// Says bounds how often a turn speaks before it ends, over its repetitions. 0: 100 texts.
	Says int
}

// The defaults of Limits.
const (
	defaultTask    = 200_000
	defaultLabel   = 200
	defaultMessage = 1_000_000
	defaultID      = 4_096
	defaultExtra   = 200_000
	defaultResult  = 1_000_000
	defaultParts   = 64
	defaultPart    = 32 << 20
	defaultMeta    = 16 << 10
	defaultSays    = 100
)

// minID is the least bound of ids: that of the ids that the library makes.
const minID = 36

// maxRoute is how many bytes a part of a route has at most, as in a key.
const maxRoute = session.MaxKeyLen

// perName is how many bytes a name in a list counts beside its own.
const perName = 4

// MaxResult returns how many bytes of a result are kept, or a negative number for all of them.
func (l Limits) MaxResult() int { return cmp.Or(l.Result, defaultResult) }

// MaxID returns how many bytes an id has at most, or a negative number for no bound.
func (l Limits) MaxID() int { return cmp.Or(l.ID, defaultID) }

// Validate returns an *InputError that names the field if a bound is negative and not NoLimit, or
// so small that nothing can work.
func (l Limits) Validate() error {
	for _, f := range []struct {
		name         string
		value, least int
	}{
		{"Task", l.Task, 1},
		{"Label", l.Label, 1},
		{"Message", l.Message, 1},
		{"ID", l.ID, minID},
		{"Extra", l.Extra, 1},
		{"Result", l.Result, 1},
		{"Parts", l.Parts, 1},
		{"Part", l.Part, 1},
		{"Meta", l.Meta, 1},
		{"Says", l.Says, 1},
	} {
		if reason := boundFault(f.value, f.least); reason != "" {
			return &InputError{"Limits." + f.name, reason}
		}
	}
	return nil
}

// boundFault says why a value cannot be a bound that is at least least; empty: it can.
func boundFault(value, least int) string {
	switch {
	case value < NoLimit:
		return strconv.Itoa(value) + ": 0 is the default, and -1 (NoLimit) means without a bound"
	case value > 0 && value < least:
		return fmt.Sprintf("%d: the least is %d; 0 is the default", value, least)
	}
	return ""
}

// A LimitError is something that is over one of the limits. It is an *InputError too.
type LimitError struct {
	Field string // what is too long, such as "task"
	Size  int    // how long it is; 0: longer than the Limit, and it was not read to its end
	Limit int    // how long it may be
	Unit  string // of Size and Limit: "bytes", "characters", "tool calls", "parts", "texts"
	Path  string // where the limit is set: "Limits.Task"
}

func (e *LimitError) Error() string { return "spawn: " + e.Field + ": " + e.reason() }

func (e *LimitError) reason() string {
	if e.Size == 0 {
		return fmt.Sprintf("it has more than %d %s, which is the limit (%s)", e.Limit, e.Unit, e.Path)
	}
	return fmt.Sprintf("it has %d %s, the limit is %d (%s)", e.Size, e.Unit, e.Limit, e.Path)
}

// Unwrap returns the same as an *InputError.
func (e *LimitError) Unwrap() error { return &InputError{e.Field, e.reason()} }

// MaxCommand is the most bytes of texts of one command, whatever the Limits say, and of the
// commands that are recorded together. JSON takes at most six bytes for one of a text. So a batch
// of them is less than every journal takes, see [session.BatchLimit].
const MaxCommand = 10 << 20

// TextOf returns how many bytes the texts of a command take.
func TextOf(c Command) int {
	switch c := c.(type) {
	case *Spawn:
		q := &c.Request
		n := len(c.Task) + len(c.Label) + len(c.Name) + len(c.Key) + len(c.Origin) +
			len(c.Extra) +
			len(q.Agent) + len(q.Model) + len(q.Thinking) + len(q.Runtime)
		for _, name := range q.Tools {
			n += perName + len(name)
		}
		return n
	case *Post:
		return len(c.Text) + len(c.ID) + c.Mail.bytes()
	case *Steer:
		return len(c.Text) + len(c.ID)
	case *SendOut:
		return len(c.Text) + len(c.ID)
	case *Say:
		return len(c.ID) + c.Answer.bytes()
	case *Report:
		return len(c.Text)
	case *TurnDone:
		return len(c.Failed) + len(c.Note) + c.Answer.bytes()
	case KeepSkills:
		return c.Skills.bytes()
	case Keep:
		return len(c.Kept)
	case InTurn:
		return TextOf(c.Cmd)
	default: // the texts of the others are short
		return 0
	}
}

// checkCommand returns the command that is decided for c: c, unless it has more texts than a
// command may. A turn that returns so much is one that fails. The error is that of the field with
// a limit of its own for any other command, else a *LimitError for all of them.
func (t *Tree) checkCommand(c Command) (Command, error) {
	n := TextOf(c)
	if n <= MaxCommand {
		return c, nil
	}
	if err := t.opt.Limits.checkFields(c); err != nil {
		return nil, err
	}
	over := overCommand(n)
	d, ok := c.(*TurnDone)
	if !ok {
		return nil, over
	}
	failed := *d
	over.Field = "result"
	failed.Failed, failed.Note = over.Error(), ""
	if d.Answer != nil {
		failed.Answer = &Result{Model: d.Answer.Model, Usage: d.Answer.Usage}
	}
	return &failed, nil
}

// overCommand refuses a command with so many bytes of texts.
func overCommand(n int) *LimitError {
	return &LimitError{
		Field: "text", Size: n, Limit: MaxCommand, Unit: "bytes of texts", Path: "Limits",
	}
}

// Check returns what is wrong with a command of a caller by itself, whatever the tree has on
// record, and nil if only the tree can tell. Decide refuses such a command at any time, unless its
// ID or Key is known. So a command that comes too late is told that, and not to be sent again.
func (l Limits) Check(c Command) error {
	switch c := c.(type) {
	case *Spawn:
		if err := c.Check(l); err != nil {
			return err
		}
	case *Post:
		err := l.checkMessageID(c.ID)
		if err == nil && c.Thread {
			err = c.checkThread()
		}
		if err != nil {
			return err
		}
	case *Steer:
		err := cmp.Or(l.checkMessageID(c.ID), checkSteer(c), l.checkSenders(c.Senders))
		if err != nil {
			return err
		}
	case Ensure:
		return l.checkMessageID(c.ID)
	case Restart:
		if c.ID != "" {
			return l.checkMessageID(c.ID)
		}
	case SetRoute:
		return checkRoute(&c.Route)
	case *Bind:
		if !c.Dry {
			return checkConversation(&c.Route)
		}
	case *Unbind:
		return checkReason(c)
	case Hear:
		return l.checkSenders(c.Senders)
	case *Say:
		return l.checkSay(c)
	case InTurn:
		return l.Check(c.Cmd)
	case nil:
		return nil
	}
	if err := l.checkFields(c); err != nil {
		return err
	}
	if n := TextOf(c); n > MaxCommand && !isTurnDone(c) {
		return overCommand(n)
	}
	return nil
}

// isTurnDone reports whether a command ends a turn, which fails if it has too many texts.
func isTurnDone(c Command) bool {
	_, ok := c.(*TurnDone)
	return ok
}

// checkFields checks each text of a command that is of any length.
func (l Limits) checkFields(c Command) error {
	switch c := c.(type) {
	case *Spawn:
		return l.checkSpawn(c)
	case *Post:
		if err := l.checkID(c.ID); err != nil {
			return err
		}
		return l.CheckPost(c, session.Part.Validate)
	case *Steer:
		if err := l.checkID(c.ID); err != nil {
			return err
		}
		return checkSteer(c)
	case *SendOut:
		return l.checkSendOut(c)
	case *Report:
		return checkReport(c)
	case InTurn:
		return l.checkFields(c.Cmd)
	}
	return nil
}

// checkBytes checks the length of a field against the bound of that name, which limit and def are.
func checkBytes(field string, size, limit, def int, name string) error {
	limit = cmp.Or(limit, def)
	if limit < 0 || size <= limit {
		return nil
	}
	return &LimitError{Field: field, Size: size, Limit: limit, Unit: "bytes", Path: "Limits." + name}
}

// blankError refuses a text in which a reader sees nothing.
func blankError(field string, s Text) error {
	reason := "it is empty"
	if strings.TrimSpace(string(s)) != "" {
		reason = "it holds nothing that can be seen"
	}
	return &InputError{field, reason}
}

func (l Limits) checkSpawn(c *Spawn) error {
	if text.IsBlank(string(c.Task)) {
		return blankError("task", c.Task)
	}
	q := &c.Request
	tools := 0
	for _, name := range q.Tools {
		tools += perName + len(name)
	}
	for _, f := range [...]struct {
		field            string
		size, limit, def int
		name             string
	}{
		{"task", len(c.Task), l.Task, defaultTask, "Task"},
		{"id", len(c.ID), l.ID, defaultID, "ID"},
		{"key", len(c.Key), l.ID, defaultID, "ID"},
		{"origin", len(c.Origin), l.ID, defaultID, "ID"},
		{"agent", len(q.Agent), l.ID, defaultID, "ID"},
		{"model", len(q.Model), l.ID, defaultID, "ID"},
		{"thinking", len(q.Thinking), l.ID, defaultID, "ID"},
		{"runtime", len(q.Runtime), l.ID, defaultID, "ID"},
		{"tools", tools, l.Extra, defaultExtra, "Extra"},
		{"variant", len(c.Variant), l.Extra, defaultExtra, "Extra"},
		{"extra", len(c.Extra), l.Extra, defaultExtra, "Extra"},
	} {
		if err := checkBytes(f.field, f.size, f.limit, f.def, f.name); err != nil {
			return err
		}
	}
	limit := cmp.Or(l.Label, defaultLabel)
	if n := utf8.RuneCountInString(c.Label); limit >= 0 && n > limit {
		return &LimitError{
			Field: "label", Size: n, Limit: limit, Unit: "characters", Path: "Limits.Label",
		}
	}
	return l.checkSenders(c.Senders)
}

// checkRoute checks where a message came from: a part is the id of something at a channel, and
// answers go there, so that it cannot be cut.
func checkRoute(r *session.Route) error {
	if r == nil {
		return nil
	}
	for _, f := range [...]struct{ name, value string }{
		{"channel", r.Channel}, {"account", r.Account}, {"to", r.To}, {"thread", r.Thread},
	} {
		switch field := "route." + f.name; {
		case len(f.value) > maxRoute:
			return &LimitError{
				Field: field, Size: len(f.value), Limit: maxRoute, Unit: "bytes",
				Path: "session.MaxKeyLen",
			}
		case !utf8.ValidString(f.value):
			return &InputError{field, "it is not UTF-8: " + text.Quote(f.value)}
		}
	}
	return nil
}

// checkID checks the id of a message to a session.
func (l Limits) checkID(id string) error {
	return checkBytes("id", len(id), l.ID, defaultID, "ID")
}

// checkMessageID is checkID for an id that the journal keeps as it is.
func (l Limits) checkMessageID(id string) error {
	if err := l.checkID(id); err != nil {
		return err
	}
	if !utf8.ValidString(id) {
		return &InputError{"id", "it is not UTF-8: " + text.Quote(id)}
	}
	return nil
}

// CheckPost checks a message to a session. One with parts may be without words. The caller says
// which parts are valid: those of the tree have no Data. Beside a *LimitError and an *InputError
// the error may be a *session.PartError.
func (l Limits) CheckPost(c *Post, valid func(session.Part) error) error {
	if text.IsBlank(string(c.Text)) && (c.Mail == nil || len(c.Mail.Parts) == 0) {
		return blankError("text", c.Text)
	}
	if err := checkBytes("text", len(c.Text), l.Message, defaultMessage, "Message"); err != nil {
		return err
	}
	if err := checkBytes("origin", len(c.Origin), l.ID, defaultID, "ID"); err != nil {
		return err
	}
	if !utf8.ValidString(c.Origin) {
		return &InputError{"origin", "it is not UTF-8: " + text.Quote(c.Origin)}
	}
	return cmp.Or(checkRoute(c.Route), l.checkMail(c.Mail, valid), l.checkSenders(c.Senders))
}

// checkSenders checks people, whom the rules tell apart byte for byte, and readers by sight.
func (l Limits) checkSenders(list []policy.Sender) error {
	for i, s := range list {
		for _, f := range [...]struct{ name, value string }{
			{"ID", s.ID}, {"Channel", s.Channel}, {"Peer", s.Peer},
		} {
			field := fmt.Sprintf("senders[%d].%s", i, f.name)
			if err := checkBytes(field, len(f.value), l.ID, defaultID, "ID"); err != nil {
				return err
			}
			if !utf8.ValidString(f.value) {
				return &InputError{field, "it is not UTF-8: " + text.Quote(f.value)}
			}
		}
		if fault := text.IDFault(s.ID); fault != "" {
			return &InputError{fmt.Sprintf("senders[%d].ID", i), fault}
		}
	}
	return nil
}

// checkCount checks a number of things against the bound of a name.
func checkCount(field string, n, limit, def int, unit, name string) error {
	if limit = cmp.Or(limit, def); limit < 0 || n <= limit {
		return nil
	}
	return &LimitError{Field: field, Size: n, Limit: limit, Unit: unit, Path: "Limits." + name}
}

// checkMail checks what a message has beside its text, which may be nil.
func (l Limits) checkMail(m *Mail, valid func(session.Part) error) error {
	if m == nil {
		return nil
	}
	if err := checkCount("parts", len(m.Parts), l.Parts, defaultParts, "parts", "Parts"); err != nil {
		return err
	}
	if err := session.ValidateParts(m.Parts, valid); err != nil {
		return err
	}
	for i, p := range m.Parts {
		size := int(min(max(int64(len(p.Data)), p.File.Size), math.MaxInt))
		field := fmt.Sprintf("parts[%d]", i)
		if err := checkBytes(field, size, l.Part, defaultPart, "Part"); err != nil {
			return err
		}
	}
	size := 0
	for k, v := range m.Meta {
		if size += len(k) + len(v); !utf8.ValidString(k) || !utf8.ValidString(v) {
			return &InputError{"meta", "it is not UTF-8: " + text.Quote(k) + ", " + text.Quote(v)}
		}
	}
	if err := checkBytes("meta", size, l.Meta, defaultMeta, "Meta"); err != nil {
		return err
	}
	return l.checkSender(m.Sender)
}

// checkSender checks who has said a message.
func (l Limits) checkSender(s session.Sender) error {
	if err := checkBytes("from.id", len(s.ID), l.ID, defaultID, "ID"); err != nil {
		return err
	}
	if fault := text.IDFault(s.ID); fault != "" {
		return &InputError{"from.id", fault}
	}
	if s.Name != "" && !text.IsLine(s.Name, MaxSenderName) {
		return &InputError{"from.name", "it is not a line of text: " + text.Quote(s.Name)}
	}
	return nil
}

// MaxSenderName is how many bytes the name of a sender has at most.
const MaxSenderName = 200
