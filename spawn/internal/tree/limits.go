package tree

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/offshoot-sdk/offshoot/internal/text"
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
	// ID bounds the ID of a message, and of a spawn the key, the origin, and the names of the
	// agent, the model and the thinking level that it asks for. 0: 4,096 bytes; at least 36, which
	// the ids have that a Supervisor gives to messages without one.
	ID int
	// Extra bounds what a spawn carries beside its task: the tools that it asks for, what is kept
	// with the run, and what tells requests with one key apart, each by itself. 0: 200,000 bytes.
	Extra int
	// Result bounds what a turn returns: the text, the JSON of a typed result, and the files
	// together. A longer text is cut, with a note at its end. A longer JSON or list of files is
	// left out and fails the turn. 0: 1,000,000 bytes.
	Result int
}

// The defaults of Limits.
const (
	defaultTask    = 200_000
	defaultLabel   = 200
	defaultMessage = 1_000_000
	defaultID      = 4_096
	defaultExtra   = 200_000
	defaultResult  = 1_000_000
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
	Size  int    // how long it is
	Limit int    // how long it may be
	Unit  string // of Size and Limit: "bytes", "characters", "tool calls"
	Path  string // where the limit is set: "Limits.Task"
}

func (e *LimitError) Error() string { return "spawn: " + e.Field + ": " + e.reason() }

func (e *LimitError) reason() string {
	return fmt.Sprintf("it has %d %s, the limit is %d (%s)", e.Size, e.Unit, e.Limit, e.Path)
}

// Unwrap returns the same as an *InputError.
func (e *LimitError) Unwrap() error { return &InputError{e.Field, e.reason()} }

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
		{"key", len(c.Key), l.ID, defaultID, "ID"},
		{"origin", len(c.Origin), l.ID, defaultID, "ID"},
		{"agent", len(q.Agent), l.ID, defaultID, "ID"},
		{"model", len(q.Model), l.ID, defaultID, "ID"},
		{"thinking", len(q.Thinking), l.ID, defaultID, "ID"},
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
	return nil
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

// checkMessage checks the text of a message to a session.
func (l Limits) checkMessage(s Text) error {
	if text.IsBlank(string(s)) {
		return blankError("text", s)
	}
	return checkBytes("text", len(s), l.Message, defaultMessage, "Message")
}
