package tree

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/offshoot-sdk/offshoot/internal/text"
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
	// ID bounds the key of a spawn, the model that it asks for, and the ID of a message. 0: 4,096
	// bytes.
	ID int
	// Result bounds what a turn returns: the text, and the JSON of a typed result. A longer text is
	// cut, with a note at its end. A longer JSON fails the turn. 0: 1,000,000 bytes.
	Result int
}

// The defaults of Limits.
const (
	defaultTask    = 200_000
	defaultLabel   = 200
	defaultMessage = 1_000_000
	defaultID      = 4_096
	defaultResult  = 1_000_000
)

// MaxResult returns how many bytes of a result are kept, or a negative number for all of them.
func (l Limits) MaxResult() int { return cmp.Or(l.Result, defaultResult) }

// Validate returns an *InputError that names the field if a bound is negative and not NoLimit.
func (l Limits) Validate() error {
	for _, f := range []struct {
		name  string
		value int
	}{
		{"Task", l.Task},
		{"Label", l.Label},
		{"Message", l.Message},
		{"ID", l.ID},
		{"Result", l.Result},
	} {
		if f.value < NoLimit {
			return &InputError{
				"Limits." + f.name,
				strconv.Itoa(f.value) + ": 0 is the default, and -1 (NoLimit) means without a bound",
			}
		}
	}
	return nil
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
	if err := checkBytes("task", len(c.Task), l.Task, defaultTask, "Task"); err != nil {
		return err
	}
	if err := checkBytes("key", len(c.Key), l.ID, defaultID, "ID"); err != nil {
		return err
	}
	if err := checkBytes("model", len(c.Request.Model), l.ID, defaultID, "ID"); err != nil {
		return err
	}
	limit := cmp.Or(l.Label, defaultLabel)
	if n := utf8.RuneCountInString(c.Label); limit >= 0 && n > limit {
		return &LimitError{
			Field: "label", Size: n, Limit: limit, Unit: "characters", Path: "Limits.Label",
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
