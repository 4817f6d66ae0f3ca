package spawn

import (
	"cmp"
	"slices"
	"time"

	"github.com/offshoot-sdk/offshoot/internal/enum"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
)

// An EventKind says what a TreeEvent shows. The zero EventKind is not one that an event has.
type EventKind uint8

// The kinds of events. Those that are not kept are seen only by a watcher that is there when they
// happen: no entry of the journal records them.
const (
	EventAdmitted  EventKind = iota + 1 // a run was admitted
	EventPosted                         // a session was told something
	EventTurn                           // a turn started
	EventTurnEnded                      // a turn ended
	EventStopping                       // a run has a cause to end
	EventEnded                          // a run ended
	EventRecovered                      // a top-level session that was stopped is usable again
	EventDelivered                      // a completion or a reply arrived
	EventDeferred                       // a delivery failed and is tried again
	EventBlocked                        // a delivery waits for Retry or Dismiss
	EventArchived                       // a run left the tree
	EventLate                           // a turn that was given up returned something after all
	EventDelta                          // text as it comes, or see Error; not kept
	EventRefused                        // a spawn was refused: by a rule, or as invalid; not kept
	EventLost                           // this process lost the tree, see Error; not kept
	EventStalled                        // the journal fails; no Error: it works again; not kept
	EventSaid                           // a turn told people something before its end
	EventSnapshot                       // the tree as it is where a stream begins; not kept
	EventGap                            // the same, in place of events that are gone; not kept
	EventCompacted                      // a turn that compacts has ended; no EventTurnEnded
	EventReset                          // a session goes on in a new conversation
	EventTool                           // a tool is called; not kept
	EventToolEnded                      // the call of a tool is over; not kept
	EventProgress                       // how far a turn has come; not kept
	EventMilestone                      // a turn has reached a milestone
	EventRestarted                      // a message has begun another run of a session
	EventRevived                        // a run that had left the tree is back
	EventBound                          // a conversation is bound to a session
	EventUnbound                        // a conversation is no longer bound to a session
)

var eventNames = [...]string{
	"none", "admitted", "posted", "turn", "turn_ended", "stopping", "ended", "recovered",
	"delivered", "deferred", "blocked", "archived", "late", "delta", "refused", "lost", "stalled",
	"said", "snapshot", "gap", "compacted", "reset", "tool", "tool_ended", "progress", "milestone",
	"restarted", "revived",
	"bound", "unbound",
}

// String returns the name of the kind, such as "turn_ended". That of the zero EventKind is "none".
func (k EventKind) String() string { return enum.String(eventNames[:], "EventKind", k) }

// MarshalText returns the name. A value that is not an EventKind is an error.
func (k EventKind) MarshalText() ([]byte, error) {
	return enum.Marshal(eventNames[:], "spawn", "event kind", k)
}

// UnmarshalText sets k to the EventKind of that name, in any letter case of ASCII.
func (k *EventKind) UnmarshalText(text []byte) error {
	return enum.Unmarshal(eventNames[:], "spawn", "event kind", text, k)
}

// A TreeEvent is one thing that happened in a tree. It is a value. Events other than EventDelta,
// EventRefused, EventLost, EventStalled, EventTool, EventToolEnded and EventProgress show what is
// durable, and say the same whenever they are read. An EventSnapshot or EventGap stands for all
// that is durable up to its Cursor.
type TreeEvent struct {
	Kind EventKind `json:"kind"`
	Time time.Time `json:"time"`
	// Cursor is the place of the event in the history of the tree. That of an event that is not
	// kept is the place of the last event before it that is; zero if the stream has had none.
	Cursor Cursor `json:"cursor,omitzero"`
	// Session is the session that the event is about. An event of a delivery is about the top-level
	// session.
	Session session.Key `json:"session"`
	// Run is the run that the event is about: that of the session at that time. It is empty for the
	// top-level session.
	Run    RunID       `json:"run,omitempty"`
	Parent session.Key `json:"parent,omitzero"`
	Agent  string      `json:"agent,omitempty"`
	// Model is the model that answered last, if that is known, and else the one that the session is
	// to use. Empty if the configuration leaves it to the Runner.
	Model  string `json:"model,omitempty"`
	Label  string `json:"label,omitempty"`
	Depth  int    `json:"depth"`
	Turn   int    `json:"turn,omitempty"`
	Status Status `json:"status,omitzero"` // after the event
	// Percent is of the work that is done, in an EventProgress or EventMilestone. 0: not known.
	Percent int `json:"percent,omitempty"`
	// Answer says which answer of a model of the turn an EventDelta is of, from 1 on, and Void that
	// the texts of that answer count for nothing: the model is asked again.
	Answer int  `json:"answer,omitempty"`
	Void   bool `json:"void,omitempty"`
	// Tool is the call of a tool, in an EventTool and an EventToolEnded; nil in all others.
	Tool *ToolEvent `json:"tool,omitempty"`
	// Announces says, of an EventTurn and an EventTurnEnded, that the turn is the announce step of
	// its run, see [TurnInput].Announces.
	Announces bool `json:"announces,omitempty"`
	// Crashed says, of an EventTurnEnded, that the process that ran the turn is gone. The Time is
	// when the next one has found that.
	Crashed bool `json:"crashed,omitempty"`
	// Class is the name of the InputClass in an EventPosted and an EventRestarted.
	Class string `json:"class,omitempty"`
	// Text is the task, the message, the result, what was said, the delta, the arguments of a tool,
	// the beginning of its answer, or how far the work has come.
	Text string `json:"text,omitempty"`
	// Sender and Parts are those of a message, in an EventPosted and an EventRestarted.
	Sender session.Sender `json:"sender,omitzero"`
	Parts  []session.Part `json:"parts,omitempty"`
	// Whole names the whole of a result of which Text is the beginning, as in [Result].
	Whole session.File `json:"whole,omitzero"`
	// Error is why: of an EventDelta with Void why the model is asked again, if it is for an error;
	// of an EventTurnEnded why a turn of a top-level session or an announce step
	// failed, or why one that did not fail came to nothing ([TurnResult.Note]). That of a run is in
	// the EventStopping that follows.
	Error string `json:"error,omitempty"`
	// Route is the conversation, in an EventBound and an EventUnbound, whose Text is the reason.
	Route session.Route `json:"route,omitzero"`
	// Messages is how many messages an EventCompacted has left to a summary.
	Messages int `json:"messages,omitempty"`
	// Former is the session id before an EventReset, which names the archived transcript.
	Former string `json:"former,omitempty"`
	// Pos is the end of the transcript that is committed since an EventTurnEnded or EventCompacted:
	// what is at or before it is in the history.
	Pos session.Pos `json:"pos,omitzero"`
	// Usage is that of the turn in an EventTurnEnded, and that of all turns in an EventEnded.
	Usage session.Usage `json:"usage,omitzero"`
	// To is the session that is told, in an EventEnded; zero if none is.
	To session.Key `json:"to,omitzero"`
	// Key is the Key of the Delivery that the event is about.
	Key string `json:"key,omitempty"`
	// State is the tree at the Cursor, in an EventSnapshot and an EventGap; nil in all others. The
	// receiver must not change it.
	State *TreeState `json:"state,omitempty"`

	raw   string // of a delta; Text is what is shown of it until a watcher takes it
	since uint64 // of a delta: see shownAnswer
}

var eventKinds = map[tree.Kind]EventKind{
	tree.Admitted:      EventAdmitted,
	tree.Posted:        EventPosted,
	tree.Said:          EventSaid,
	tree.Reported:      EventMilestone,
	tree.TurnStarted:   EventTurn,
	tree.TurnEnded:     EventTurnEnded,
	tree.StopRequested: EventStopping,
	tree.RunEnded:      EventEnded,
	tree.Recovered:     EventRecovered,
	tree.Archived:      EventArchived,
	tree.Unarchived:    EventRevived,
	tree.Late:          EventLate,
	tree.Delivered:     EventDelivered,
	tree.Deferred:      EventDeferred,
	tree.Blocked:       EventBlocked,
	tree.Reset:         EventReset,
	tree.Restarted:     EventRestarted,
	tree.Bound:         EventBound,
	tree.Unbound:       EventUnbound,
}

// eventOf returns the event that shows the fact i of the batch that the tree has folded last. Not
// every fact has one.
func eventOf(t *tree.Tree, facts []tree.Fact, i int) (e TreeEvent, ok bool) {
	f := &facts[i]
	kind, ok := eventKinds[f.Kind]
	if !ok {
		return e, false
	}
	e = TreeEvent{
		Kind: kind, Time: time.Unix(0, f.At).UTC(), Session: f.Run, Turn: int(f.N),
		Text: string(f.Text), Announces: f.Flags&tree.FlagStep != 0,
	}
	switch f.Kind {
	case tree.Delivered, tree.Deferred, tree.Blocked:
		e.Session, e.Error, e.Text, e.Turn = t.Root().Key(), string(f.Text), "", 0
		e.Key = deliveryKey(t, f.Ord)
	case tree.Posted, tree.Restarted:
		e.Class = max(f.Class, tree.User).String() // a Restarted has none
		if m := f.Mail(); m != nil {
			e.Sender, e.Parts = m.Sender, slices.Clone(m.Parts)
		}
	case tree.Reported:
		e.Percent = int(f.Num)
	case tree.Said:
		e.Text = string(f.Answer.Reply)
	case tree.Reset:
		e.Former, e.Text = string(f.Text), ""
	case tree.Bound, tree.Unbound:
		e.Route = *f.Route
	case tree.StopRequested, tree.TurnEnded:
		e.Error, e.Text = string(f.Text), ""
		if f.Kind == tree.TurnEnded {
			e.Pos, e.Crashed = session.Pos(f.Num), f.Flags&tree.FlagCrashed != 0
		}
		if f.Flags&tree.FlagCompact != 0 && f.Ord > 0 {
			e.Kind, e.Messages = EventCompacted, int(f.Ord)
		}
	default: // nothing to add yet
	}
	if r := t.Described(e.Session); r != nil {
		of := t.RunAt(r, facts, i)
		if f.Kind == tree.Late {
			of = r.RunOfTurn(f.N)
		}
		e.describe(t, r, &of)
		e.describeFact(t, r, &of, f)
	}
	return e, true
}

// describe adds what a run of a session says in every event.
func (e *TreeEvent) describe(t *tree.Tree, r *tree.Run, of *tree.Past) {
	e.Label, e.Depth, e.Agent, e.Parent = r.Spec.Label(), r.Spec.Depth, r.Spec.Agent, r.Spec.Parent
	e.Status, e.Model = Status(of.State), t.Model(r)
	if of.Answer != nil && of.Answer.Model != "" {
		e.Model = string(of.Answer.Model)
	}
	if !r.IsRoot() {
		e.Run = RunID(r.IDOf(of))
	}
}

// describeFact adds what a run says after the fact f.
func (e *TreeEvent) describeFact(t *tree.Tree, r *tree.Run, of *tree.Past, f *tree.Fact) {
	switch f.Kind {
	case tree.Admitted:
		e.Text, e.Status = string(r.Spec.Task), StatusQueued
	case tree.Restarted:
		e.Status = StatusQueued
	case tree.TurnStarted:
		e.Status = StatusRunning
	case tree.TurnEnded:
		if e.Status.Terminal() { // the run was ended by a later fact of the same batch
			e.Status = StatusWaiting
		}
		if f.Answer != nil {
			e.Text, e.Usage = string(f.Answer.Text), usageOf(f.Answer.Usage)
			e.Whole, e.Model = f.Answer.Whole(), cmp.Or(string(f.Answer.Model), e.Model)
		}
	case tree.RunEnded:
		if f.Flags&tree.FlagTell != 0 {
			e.To = t.RequesterOf(r, of)
		}
		e.Status, e.Error, e.Usage = Status(f.State), string(of.Reason), usageOf(of.Usage)
		if of.Answer != nil {
			e.Text, e.Whole = string(of.Answer.Text), of.Answer.Whole()
		}
	default: // the status says all
	}
}
