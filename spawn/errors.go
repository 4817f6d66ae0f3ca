package spawn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/offshoot-sdk/offshoot/internal/text"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn/internal/owner"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
)

// Errors that calls return.
var (
	// ErrNotFound is returned for a session, run or delivery that is not on record.
	ErrNotFound = tree.ErrNotFound
	// ErrEnded is returned for a steer of a run that has ended, for a spawn from it, and for a
	// message that cannot begin another run of its session.
	ErrEnded = tree.ErrEnded
	// ErrStopping is returned for a spawn from a session that is being stopped.
	ErrStopping = tree.ErrStopping
	// ErrStale is returned by the methods of a TurnInput whose turn is over.
	ErrStale = tree.ErrStale
	// ErrBudget is returned where a budget does not allow what was asked.
	ErrBudget = tree.ErrBudget
	// ErrUnconfirmed is returned if the journal failed for more than a moment, another owner took
	// the tree over, or the context of the caller ended, before it was certain that a command is
	// durable. It may have happened or not, or happen once the journal works again. A call that
	// waits for what comes of its command returns it too if its context or a shutdown ends the
	// wait: of a message that was recorded, a stop, a reset, a deletion. The text says
	// how to repeat the call so that it happens once: a spawn with the same [Request].Key, and a
	// message with the same [Incoming].ID. The other calls may be repeated as they are.
	ErrUnconfirmed = owner.ErrUnconfirmed
	// ErrKeyConflict is what a [*KeyConflictError] is.
	ErrKeyConflict = tree.ErrKeyConflict
	// ErrNotRecorded is returned if the journal failed, as a full disk does, another owner took the
	// tree over, or the context of the caller or the Supervisor had ended before the call, and it
	// is certain that a command was not recorded and will not be. The cause is wrapped. The caller
	// may send the command again, after a shutdown to the next process. That is said of one call:
	// an earlier one of the same message or spawn that was ErrUnconfirmed may have been recorded,
	// and what has become of it is known when a call has succeeded.
	ErrNotRecorded = owner.ErrNotRecorded
	// ErrUnreadable is returned by calls that only read if the journal fails, so that the tree
	// cannot be read now, and by calls that wait if a result that is in a file cannot be loaded.
	// The cause is wrapped.
	ErrUnreadable = owner.ErrUnreadable
	// ErrNoConversation is returned where a session would speak to people, or is asked to, that
	// does not: a sub-agent, whose answers go to its requester, unless its turn is one with
	// [TurnInput.ForPeople].
	ErrNoConversation = tree.ErrNoConversation
	// ErrNotBound is returned for a message with Incoming.Thread to a session that its Route is not
	// bound to, or will not be in a moment. The message goes to the conversation's own session.
	ErrNotBound = tree.ErrNotBound
	// ErrAnnouncing is returned by what would begin something in a turn with
	// [TurnInput].Announces: a spawn, a message, a milestone.
	ErrAnnouncing = tree.ErrAnnouncing
	// ErrNotTopLevel is returned by [Supervisor.Reset] and [Supervisor.Compact] for a sub-agent.
	ErrNotTopLevel = tree.ErrNotTopLevel
	// ErrNothing is returned by [Supervisor.Compact] for a conversation of which nothing can be
	// left to a summary.
	ErrNothing = tree.ErrNothing
	// ErrSilent is returned by [Supervisor.PostAndWait] if the turn over the message has ended
	// without a word, and no other is to come that answers it.
	ErrSilent = errors.New("spawn: the session has not answered")
	// ErrAnswered is returned by [Supervisor.PostAndWait] for a message that the session has
	// dealt with before. What it has said then has been delivered.
	ErrAnswered = errors.New("spawn: the message was dealt with before")
	// ErrUndelivered is returned by [Supervisor.SendOut] if it waits, and the delivery of the
	// message is blocked.
	ErrUndelivered = errors.New("spawn: the message is not delivered")
	// ErrRunning is returned by a second [Supervisor.Run].
	ErrRunning = errors.New("spawn: already running")
	// ErrShuttingDown is returned by a [Supervisor.Shutdown] whose context ends while the shutdown
	// is going on. The error of the context is wrapped, too.
	ErrShuttingDown = errors.New("spawn: the shutdown is still going on")
	// ErrBusy is for Deliver to return: the receiver exists, but wants the delivery later. It does
	// not count as a failed attempt.
	ErrBusy = errors.New("spawn: the receiver is busy")
	// ErrPermanent is for Deliver and Ended to return, wrapped by [Permanent]: no later attempt
	// would arrive either. The delivery is blocked at once.
	ErrPermanent = errors.New("spawn: no later attempt would arrive")
	// ErrUntouched is returned by a Runner, alone or wrapped, for a turn that a shutdown has ended
	// before it did anything: it recorded nothing that a later turn reads, and called nothing with
	// effects. The run is not interrupted then. It waits for another turn, which the next
	// Supervisor starts over the same inputs: what the turn had reserved is given back, and the
	// time of a run whose first turn it was begins anew. A turn that spawned, steered, stopped,
	// spoke, reported or spent is interrupted, whatever its Runner says. A turn of a top-level
	// session is repeated either way. Without a shutdown ErrUntouched fails the turn like every
	// other error, because a Runner that always returns it would never come to an end.
	ErrUntouched = errors.New("spawn: the turn ended before it did anything")
	// ErrExited is the error of a turn whose Runner ended its goroutine, with runtime.Goexit,
	// instead of returning.
	ErrExited = errors.New("spawn: the Runner ended its goroutine")
)

// Causes of the context of a turn, as [context.Cause] returns them. A tree that was lost cancels
// its turns with ErrUnconfirmed.
var (
	// ErrShutdown is the cause when a shutdown cancels the turn. Calls that come after a shutdown
	// return it too, commands beside ErrNotRecorded.
	ErrShutdown = owner.ErrShutdown
	// ErrStopped is the cause when the run of the turn, or one above it, is being stopped.
	ErrStopped = errors.New("spawn: stopped")
	// ErrTimedOut is the cause when the run of the turn, or the announce step that the turn is, has
	// no time left.
	ErrTimedOut = errors.New("spawn: timed out")
	// ErrTurnCancelled is the cause when [Supervisor.CancelTurn] ended the turn.
	ErrTurnCancelled = tree.ErrTurnCancelled
)

// lostError is the cause of the context of a turn whose tree is lost. It is [ErrUnconfirmed], whose
// text is for the sender of a command.
type lostError struct{}

func (lostError) Error() string {
	return "spawn: the tree was lost, by a failing journal or to another owner"
}

// Is reports whether target is [ErrUnconfirmed].
func (lostError) Is(target error) bool { return target == ErrUnconfirmed }

// How a call may be repeated, as the text of an error that is ErrUnconfirmed says.
const (
	repeatAsIs       = "the call may be repeated"
	repeatByKey      = "spawn it again with the same Key"
	repeatWithNoKey  = "it has no Key, so that another spawn may make a second run"
	repeatByID       = "send it again with the same ID"
	repeatWithNoName = "it has no ID, so that people may read it twice if it is said again"
	repeatWithNoID   = "it has no ID, so that the session may be told twice if it is sent again"
)

// repeatable adds to an error that is ErrUnconfirmed how the call may be repeated. It leaves other
// errors, and those of a turn that is over, as they are.
func repeatable(err error, how string) error {
	if !errors.Is(err, ErrUnconfirmed) || errors.Is(err, ErrStale) {
		return err
	}
	return fmt.Errorf("%w; %s", err, how)
}

// unrecorded is the error of what a command reads before it is sent: if that cannot be read, or ctx
// or a shutdown ends it, it says that nothing was recorded. An input that is wrong stays that, also
// if ctx has ended.
func unrecorded(ctx context.Context, err error) error {
	ended := ctx.Err() != nil && (errors.Is(err, context.Cause(ctx)) || errors.Is(err, ctx.Err()))
	cut := ended || errors.Is(err, ErrUnreadable) || errors.Is(err, ErrShutdown)
	if err == nil || errors.Is(err, ErrNotRecorded) || !cut {
		return err
	}
	return fmt.Errorf("%w: %w", ErrNotRecorded, err)
}

// orWrong returns what wrong says of the arguments of a command, unless that is nil, in the place
// of an error that says that the command may be sent again. Any other err it returns as it is.
func orWrong(err error, wrong func() error) error {
	if errors.Is(err, ErrNotRecorded) {
		return cmp.Or(wrong(), err)
	}
	return err
}

// repeat returns how the spawn may be repeated.
func (q *Request) repeat() string {
	if q.Key == "" {
		return repeatWithNoKey
	}
	return repeatByKey
}

// repeat returns how sending the message may be repeated.
func (m *Incoming) repeat() string {
	if m.ID == "" {
		return repeatWithNoID
	}
	return repeatByID
}

// An EndedError refuses a message to a session that has ended, below another one that has. It has
// two keys: Session is the one that was asked for, and Ended the topmost one above it that has
// ended. It is [ErrEnded].
type EndedError = tree.EndedError

// An InputError is a field of an argument that cannot be accepted. It has two strings: Field names
// it, and Reason says why.
type InputError = tree.InputError

// A LimitError is something that is over one of the [Limits]: Field has Size, the Limit is set at
// Path, and both are counted in Unit. It is an *[InputError] too.
type LimitError = tree.LimitError

// A KeyConflictError refuses a spawn whose Key the requester has used for another request, within
// the window of the key. It names the run that has the key, and is [ErrKeyConflict].
type KeyConflictError = tree.KeyConflictError

// A NameTakenError refuses a spawn whose Name is that of another child of the requester that has
// not ended. It names the run that is under way in the session of that child.
type NameTakenError = tree.NameTakenError

// A ChildrenError refuses a [Supervisor.Reset] of a session that has sub-agents which have not
// ended.
type ChildrenError = tree.ChildrenError

// A PanicError is a panic in a Runner, in Deliver or in a store that was contained. Value is what
// was passed to panic, Stack the stack of the goroutine at that moment.
type PanicError = owner.PanicError

// A JournalError is an entry of a tree's journal that cannot follow the entries before it. Root and
// Seq name the entry, and Err says what is wrong, which Unwrap returns. It is
// [session.ErrFormat] if a newer version may have written the entry, else [session.ErrCorrupt].
type JournalError = owner.JournalError

// A StillRunningError names the calls that have not returned although they were cancelled and their
// grace period is over. A turn whose Runner only waits for a store, as it says with
// [TurnInput.InStore], is not named. With all lists empty it is the store that has not returned in
// time, or the Logger. A journal may have returned right afterwards, because its ctx ended: what it
// did is unknown.
type StillRunningError struct {
	// Sessions are those whose Runner has not returned, a call that a turn has left behind, or
	// Config.Unbind.
	Sessions   []session.Key
	Deliveries []session.Key // for whom Deliver has not returned; only after a shutdown
	// Functions are those of the Config that a spawn, a message or a turn asks and that have not
	// answered; only after a shutdown. They may be beside a session of the other lists.
	Functions []AskedFunction
}

// An AskedFunction is a function of the [Config] that the library asks on behalf of a session.
type AskedFunction struct {
	Name    string      // the field, such as "ValidModel" or "Rules.Sandbox.Decide"
	Session session.Key // the requester of a spawn, the receiver of a message, or who has the turn
}

func (f AskedFunction) compare(g AskedFunction) int {
	return cmp.Or(strings.Compare(f.Name, g.Name), compareKeys(f.Session, g.Session))
}

func (e *StillRunningError) Error() string {
	var parts []string
	for _, what := range [...]struct {
		one, many string
		keys      []session.Key
	}{
		{"session has code that has", "sessions have code that has", e.Sessions},
		{"delivery has", "deliveries have", e.Deliveries},
	} {
		names := make([]string, len(what.keys))
		for i, k := range what.keys {
			names[i] = k.String()
		}
		if len(names) > 0 {
			parts = append(parts, text.Count(len(names), what.one, what.many)+
				" not returned: "+strings.Join(names, ", "))
		}
	}
	asked := make([]string, len(e.Functions))
	for i, f := range e.Functions {
		asked[i] = f.Name + " for " + f.Session.String()
	}
	if len(asked) > 0 {
		parts = append(parts, text.Count(len(asked), "function of the Config has",
			"functions of the Config have")+" not returned: "+strings.Join(asked, ", "))
	}
	if len(parts) == 0 {
		return "spawn: the store has not returned, or the Logger"
	}
	return "spawn: what was cancelled still runs: " + strings.Join(parts, "; ")
}
