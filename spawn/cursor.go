package spawn

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/offshoot-sdk/offshoot/internal/text"
	"github.com/offshoot-sdk/offshoot/session"
)

// A Cursor is a place in the history of one tree: that of an event of the tree. A stream of events
// goes on behind it, see [EventQuery].After. It is opaque and comparable. Its text is one line,
// which a program may keep over restarts or hand to a client, as the id of a server-sent event.
//
// The zero Cursor does not name a place, and its text is empty.
type Cursor struct {
	root  session.Key
	seq   session.Seq // of the last entry of a batch; 0: before the first entry
	batch uint32      // a sum of the name of the batch, because a repair may use the sequence again
	index uint32      // of an entry within the batch, or wholeBatch
}

// wholeBatch is the index of a Cursor behind which nothing of its batch is left.
const wholeBatch = math.MaxUint32

// Root returns the top-level session of the tree, or the zero Key for the zero Cursor.
func (c Cursor) Root() session.Key { return c.root }

// IsZero reports whether c is the zero Cursor.
func (c Cursor) IsZero() bool { return c == Cursor{} }

// String returns the text of the cursor.
func (c Cursor) String() string {
	switch {
	case c.IsZero():
		return ""
	case c.index == wholeBatch:
		return fmt.Sprintf("%d-%08x@%s", c.seq, c.batch, c.root)
	default:
		return fmt.Sprintf("%d-%08x-%d@%s", c.seq, c.batch, c.index, c.root)
	}
}

// MarshalText returns the text of the cursor. It does not fail.
func (c Cursor) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText sets c to the Cursor of a text that MarshalText has returned. For any other text
// the error is an *[InputError], and c stays as it is.
func (c *Cursor) UnmarshalText(b []byte) error {
	given := string(b)
	at, ok := parseCursor(given)
	if !ok || at.String() != given {
		return &InputError{
			Field: "cursor", Reason: text.Quote(given) + " is not the text of a Cursor",
		}
	}
	*c = at
	return nil
}

// parseCursor reads the text of a cursor. It takes texts that are not canonical, too.
func parseCursor(s string) (c Cursor, ok bool) {
	if s == "" {
		return c, true
	}
	place, key, _ := strings.Cut(s, "@")
	root, err := session.Parse(key)
	if err != nil || !isTree(root) {
		return Cursor{}, false
	}
	parts := strings.Split(place, "-")
	if len(parts) < 2 || len(parts) > 3 {
		return Cursor{}, false
	}
	seq, err1 := strconv.ParseUint(parts[0], 10, 64)
	batch, err2 := strconv.ParseUint(parts[1], 16, 32)
	index, err3 := uint64(wholeBatch), error(nil)
	if len(parts) == 3 {
		index, err3 = strconv.ParseUint(parts[2], 10, 32)
	}
	c = Cursor{root: root, seq: session.Seq(seq), batch: uint32(batch), index: uint32(index)}
	return c, err1 == nil && err2 == nil && err3 == nil
}

// An EventQuery selects the events of a stream. The zero EventQuery selects those of all trees, of
// all kinds but EventDelta. With several fields it selects what each of them selects.
type EventQuery struct {
	// Root is the top-level session of a tree. Zero: all trees.
	Root session.Key
	// Run selects the events of a run. Empty: of all runs and of the top-level session.
	Run RunID
	// Session selects the events of a session, without those of the sessions below it. Zero: of all
	// sessions.
	Session session.Key
	// Kinds selects by kind. None: all kinds but EventDelta. EventSnapshot and EventGap come in any
	// case, because they say from where on a stream is complete.
	Kinds []EventKind
	// After has the cursors behind which the stream begins, at most one of each tree. A tree that
	// it does not name begins with an EventSnapshot.
	After []Cursor
	// Deltas asks for EventDelta, too, whatever Kinds says, and in which form. Zero: for none.
	Deltas DeltaForm
}

// A TreeState is what a tree was like at one moment. It is for drawing the tree: that of an
// EventSnapshot or an EventGap replaces all that a watcher knew of it.
type TreeState struct {
	// Sessions has the sessions that the query selects, parents before their children, at most
	// MaxStateSessions: the top-level session, those that have not ended, then the youngest of the
	// others.
	Sessions []SessionState `json:"sessions"`
	// Omitted is how many more sessions the tree has.
	Omitted int `json:"omitted,omitempty"`
	// Runs is how many runs the tree has, Live how many of them have not ended, and Total how many
	// it has ever admitted.
	Runs  int `json:"runs"`
	Live  int `json:"live"`
	Total int `json:"total"`
	// Outbox is how many deliveries have not arrived, and Blocked how many of them wait for
	// [Supervisor.Retry] or [Supervisor.Dismiss].
	Outbox  int `json:"outbox,omitempty"`
	Blocked int `json:"blocked,omitempty"`
}

// MaxStateSessions is how many sessions a TreeState has at most.
const MaxStateSessions = 256

// A SessionState is what is known of a session in a [TreeState]. The fields are those of a
// [TreeEvent] of the session.
type SessionState struct {
	Session  session.Key   `json:"session"`
	Run      RunID         `json:"run,omitempty"` // the present run, or the last one
	Parent   session.Key   `json:"parent,omitzero"`
	Agent    string        `json:"agent,omitempty"`
	Model    string        `json:"model,omitempty"`
	Label    string        `json:"label,omitempty"`
	Depth    int           `json:"depth"`
	Status   Status        `json:"status"`
	Turn     int           `json:"turn,omitempty"`     // the turn under way, or the last one
	Children int           `json:"children,omitempty"` // those that have not ended
	Usage    session.Usage `json:"usage,omitzero"`     // of all turns of all runs
}
