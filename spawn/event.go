package spawn

import (
	"context"
	"iter"
	"sync"
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
	EventLate                           // a turn that was given up still said something
	EventDelta                          // text as it comes; not kept
	EventRefused                        // a spawn was refused, by a rule or for its arguments; not kept
	EventLost                           // the tree was lost, to its journal or another owner
	EventStalled                        // the journal takes nothing, or with an empty Error does again
)

var eventNames = [...]string{
	"none", "admitted", "posted", "turn", "turn_ended", "stopping", "ended", "recovered", "delivered", "deferred", "blocked", "archived",
	"late", "delta", "refused", "lost", "stalled",
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
// EventRefused, EventLost and EventStalled show what is durable.
type TreeEvent struct {
	Kind    EventKind     `json:"kind"`
	Time    time.Time     `json:"time"`
	Session session.Key   `json:"session"`
	Run     RunID         `json:"run,omitempty"` // empty for the top-level session
	Parent  session.Key   `json:"parent,omitzero"`
	Agent   string        `json:"agent,omitempty"`
	Label   string        `json:"label,omitempty"`
	Depth   int           `json:"depth"`
	Turn    int           `json:"turn,omitempty"`
	Status  Status        `json:"status,omitzero"` // previous the event
	Class   string        `json:"class,omitempty"` // of EventPosted: the name of an InputClass
	Text    string        `json:"text,omitempty"`  // the task, the message, the result, the delta
	Error   string        `json:"error,omitempty"`
	Usage   session.Usage `json:"usage,omitzero"` // of EventTurnEnded; of EventEnded: of all turns
	To      session.Key   `json:"to,omitzero"`    // of EventEnded: who is told; zero: no session is
	Key     string        `json:"key,omitempty"`  // of a delivery
}

var eventKinds = map[tree.Kind]EventKind{
	tree.Admitted: EventAdmitted, tree.Posted: EventPosted, tree.TurnStarted: EventTurn, tree.TurnEnded: EventTurnEnded,
	tree.StopRequested: EventStopping, tree.RunEnded: EventEnded, tree.Recovered: EventRecovered, tree.Archived: EventArchived, tree.Late: EventLate,
	tree.Delivered: EventDelivered, tree.Deferred: EventDeferred, tree.Blocked: EventBlocked,
}

// eventOf returns what a fact shows to people, if anything.
func eventOf(t *tree.Tree, f *tree.Fact) (e TreeEvent, ok bool) {
	kind, ok := eventKinds[f.Kind]
	if !ok {
		return e, false
	}
	e = TreeEvent{Kind: kind, Time: time.Unix(0, f.At).UTC(), Session: f.Run, Turn: int(f.N), Text: string(f.Text)}
	switch f.Kind {
	case tree.Delivered, tree.Deferred, tree.Blocked:
		e.Session, e.Error, e.Text, e.Turn = t.Root().Key(), string(f.Text), "", 0
		e.Key = keyOfDelivery(t, f.Ord)
	case tree.Posted:
		e.Class = f.Class.String()
	case tree.StopRequested:
		e.Error, e.Text = string(f.Text), ""
	default: // the others have nothing of their own to show yet
	}
	r := t.Run(e.Session)
	if r == nil {
		return e, true
	}
	e.Label, e.Depth, e.Status, e.Agent, e.Parent = r.Spec.Label, r.Spec.Depth, Status(r.State), r.Spec.Agent, r.Spec.Parent
	if !r.IsRoot() {
		e.Run = RunID(r.Spec.ID)
	}
	switch f.Kind {
	case tree.Admitted:
		e.Text, e.Status = string(r.Spec.Task), StatusQueued
	case tree.TurnStarted:
		e.Status = StatusRunning
	case tree.TurnEnded:
		if e.Status.Terminal() { // by a later fact of the same batch
			e.Status = StatusWaiting
		}
		if f.Answer != nil {
			e.Text, e.Usage = string(f.Answer.Text), usageOf(f.Answer.Usage)
		}
	case tree.RunEnded:
		if f.Flags&tree.FlagTell != 0 {
			e.To = r.Spec.Parent
		}
		e.Status, e.Error, e.Usage = Status(f.State), string(r.Reason), usageOf(r.Usage)
		if r.Answer != nil {
			e.Text = string(r.Answer.Text)
		}
	default: // the others show how the session stands
	}
	return e, true
}

// maxPendingEvents bounds what a slow watcher makes us keep: beyond it deltas are dropped, events never.
const maxPendingEvents = 4096

// watcher collects events for one loop over Events.
type watcher struct {
	mu      sync.Mutex
	pending []TreeEvent
	wake    chan struct{} // 1
}

func (w *watcher) add(e TreeEvent) {
	w.mu.Lock()
	if e.Kind != EventDelta || len(w.pending) < maxPendingEvents {
		w.pending = append(w.pending, e)
	}
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *watcher) takePending() []TreeEvent {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := w.pending
	w.pending = nil
	return list
}

func (sh *treeShell) notifyWatchers(e TreeEvent) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for w := range sh.watchers {
		w.add(e)
	}
}

// events yields what happens in the tree until ctx ends or the loop breaks. Watching starts with the call.
func (sh *treeShell) events(ctx context.Context) iter.Seq[TreeEvent] {
	w := sh.watch()
	stop := context.AfterFunc(ctx, func() { sh.unwatch(w) })
	return func(yield func(TreeEvent) bool) {
		defer stop()
		defer sh.unwatch(w)
		for {
			for _, e := range w.takePending() {
				if !yield(e) {
					return
				}
			}
			select {
			case <-w.wake:
			case <-ctx.Done():
				return
			case <-sh.sup.closed:
				return
			}
		}
	}
}

func (sh *treeShell) watch() *watcher {
	w := &watcher{wake: make(chan struct{}, 1)}
	sh.mu.Lock()
	sh.watchers[w] = struct{}{}
	sh.mu.Unlock()
	return w
}

func (sh *treeShell) unwatch(w *watcher) {
	sh.mu.Lock()
	delete(sh.watchers, w)
	sh.mu.Unlock()
}
