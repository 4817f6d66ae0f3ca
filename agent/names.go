package agent

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/offshoot-sdk/offshoot/announce"
	"github.com/offshoot-sdk/offshoot/internal/text"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// Types of other packages that users of this one need. Each is the type that it names, not a copy
// of it.
type (
	// Message is one line of a conversation.
	Message = session.Message
	// Part is something that a message has beside its text, such as a picture.
	Part = session.Part
	// PartKind says what a Part is to its receiver.
	PartKind = session.PartKind
	// Result is what a turn or a run produced.
	Result = spawn.Result
	// Usage is what one model call consumed, or several together.
	Usage = session.Usage
	// RunID names a run.
	RunID = spawn.RunID
	// RunInfo is what is known of a run at one moment.
	RunInfo = spawn.RunInfo
	// Status is where a run stands. The zero Status is not one that a run has.
	Status = spawn.Status
	// TreeEvent is one thing that happened in a tree.
	TreeEvent = spawn.TreeEvent
	// EventQuery selects the events of a stream.
	EventQuery = spawn.EventQuery
	// Cursor is a place in the history of a tree, behind which a stream of events goes on.
	Cursor = spawn.Cursor
	// TreeState is what a tree was like at one moment.
	TreeState = spawn.TreeState
	// SessionState is what is known of a session in a TreeState.
	SessionState = spawn.SessionState
	// ToolEvent is the call of a tool, as events show it.
	ToolEvent = spawn.ToolEvent
	// DeltaForm says in which form a watcher gets what models write.
	DeltaForm = spawn.DeltaForm
	// EventKind says what a TreeEvent shows.
	EventKind = spawn.EventKind
	// JoinOptions say when a wait for sub-agents is over.
	JoinOptions = spawn.JoinOptions
	// Rest says what becomes of the sub-agents that a wait leaves over.
	Rest = spawn.Rest
	// Delivery is something that leaves a tree: a completion or an event for Config.Deliver, a
	// reply for Config.Reply, an end for Hooks.Ended, or a message to a session of another tree.
	Delivery = spawn.Delivery
	// QueueMode says how a session that the caller runs is told of what waits; see Config.Queue.
	QueueMode = spawn.QueueMode
	// Completion is the end of a run as its requester is told of it; see announce.NewEvent.
	Completion = spawn.Completion
	// Reply is what a session run by Offshoot says to people: Text, in Route where it goes, in
	// ReplyTo and Voice what the model asked for with tags such as [[reply_to_current]], and in
	// InReplyTo and Meta which messages it answers.
	Reply = spawn.Reply
	// InputError is a Field that cannot be accepted, and the Reason.
	InputError = spawn.InputError
	// ChildrenError refuses a Session.Reset of a session with sub-agents that have not ended.
	ChildrenError = spawn.ChildrenError
	// StillRunningError names sessions whose Runner, or a tool after its timeout, has not returned.
	StillRunningError = spawn.StillRunningError
)

// How a session that the caller runs is told of what waits; see [Config].Queue.
const (
	// QueueFollowup hands over one delivery a call, in order. It is the zero QueueMode.
	QueueFollowup = spawn.QueueFollowup
	// QueueCollect hands over what waits in one call.
	QueueCollect = spawn.QueueCollect
	// QueueSteer has the loop put a delivery into the turn under way.
	QueueSteer = spawn.QueueSteer
	// QueueInterrupt has the loop end the turn under way for a delivery.
	QueueInterrupt = spawn.QueueInterrupt
)

// What a Part is.
const (
	// PartImage parts are pictures.
	PartImage = session.PartImage
	// PartAudio parts are recordings, such as voice messages.
	PartAudio = session.PartAudio
	// PartVideo parts are moving pictures.
	PartVideo = session.PartVideo
	// PartFile parts are anything else, such as documents.
	PartFile = session.PartFile
)

// What becomes of the sub-agents that a wait leaves over; see [spawn.Rest].
const (
	// RestKeep has them go on, and spend.
	RestKeep = spawn.RestKeep
	// RestStop stops them.
	RestStop = spawn.RestStop
	// RestAnnounce has the session that spawned each told of its end, as with Task.Announce.
	RestAnnounce = spawn.RestAnnounce
)

// Where a run stands. The last six have ended; see [spawn.Status.Terminal].
const (
	// StatusQueued runs are admitted, and no turn of theirs has started.
	StatusQueued = spawn.StatusQueued
	// StatusRunning runs have a turn under way.
	StatusRunning = spawn.StatusRunning
	// StatusWaiting runs have no turn under way: they wait for sub-agents, or for their next turn.
	StatusWaiting = spawn.StatusWaiting
	// StatusStopping runs are about to end, and wait for their turn or their sub-agents to be back.
	StatusStopping = spawn.StatusStopping
	// StatusOK runs ended by themselves.
	StatusOK = spawn.StatusOK
	// StatusFailed runs ended because their Runner returned an error or panicked.
	StatusFailed = spawn.StatusFailed
	// StatusTimedOut runs ran out of their time.
	StatusTimedOut = spawn.StatusTimedOut
	// StatusCancelled runs were stopped.
	StatusCancelled = spawn.StatusCancelled
	// StatusInterrupted runs had a turn under way when their process died.
	StatusInterrupted = spawn.StatusInterrupted
	// StatusIncomplete runs were ended by a limit, such as a budget, with what they had.
	StatusIncomplete = spawn.StatusIncomplete
)

// What a TreeEvent shows.
const (
	// EventAdmitted events show a run that was admitted.
	EventAdmitted = spawn.EventAdmitted
	// EventPosted events show what a session was told.
	EventPosted = spawn.EventPosted
	// EventTurn events show that a turn started.
	EventTurn = spawn.EventTurn
	// EventTurnEnded events show that a turn ended.
	EventTurnEnded = spawn.EventTurnEnded
	// EventStopping events show that a run has a cause to end.
	EventStopping = spawn.EventStopping
	// EventEnded events show that a run ended.
	EventEnded = spawn.EventEnded
	// EventRecovered events show that a top-level session that was stopped is usable again.
	EventRecovered = spawn.EventRecovered
	// EventDelivered events show that a completion or a reply arrived.
	EventDelivered = spawn.EventDelivered
	// EventDeferred events show that a delivery failed and is tried again.
	EventDeferred = spawn.EventDeferred
	// EventBlocked events show that a delivery failed for too long and waits for Retry or Dismiss.
	EventBlocked = spawn.EventBlocked
	// EventArchived events show that a run left the tree.
	EventArchived = spawn.EventArchived
	// EventRevived events show that a run that had left the tree is back.
	EventRevived = spawn.EventRevived
	// EventLate events show what a turn said after it was given up.
	EventLate = spawn.EventLate
	// EventDelta events show text as it comes. They are not kept.
	EventDelta = spawn.EventDelta
	// EventRefused events show that a spawn was refused, by a rule or for its arguments. They are
	// not kept.
	EventRefused = spawn.EventRefused
	// EventLost events show that the tree was lost, to a failing journal or to another owner; it
	// may come back.
	EventLost = spawn.EventLost
	// EventStalled events show that the journal takes nothing, for the reason in Error; with an
	// empty Error it takes entries again. They are not kept.
	EventStalled = spawn.EventStalled
	// EventSaid events show what a turn said to people before its end.
	EventSaid = spawn.EventSaid
	// EventSnapshot events show what a tree is like where a stream of events begins.
	EventSnapshot = spawn.EventSnapshot
	// EventGap events show what a tree is like after events that are not on record any more.
	EventGap = spawn.EventGap
	// EventCompacted events show that a turn has compacted a conversation, and has ended.
	EventCompacted = spawn.EventCompacted
	// EventReset events show that a session goes on in a new conversation.
	EventReset = spawn.EventReset
	// EventTool events show that a tool of a turn is called. They are not kept.
	EventTool = spawn.EventTool
	// EventToolEnded events show that a call of a tool is over. They are not kept. One that is
	// under way when its turn ends has none.
	EventToolEnded = spawn.EventToolEnded
	// EventProgress events show how far a turn has come. They are not kept.
	EventProgress = spawn.EventProgress
	// EventMilestone events show that a turn has reached a milestone.
	EventMilestone = spawn.EventMilestone
	// EventRestarted events show that a message has begun another run of a session that had ended.
	EventRestarted = spawn.EventRestarted
	// EventBound events show that a conversation is bound to a session.
	EventBound = spawn.EventBound
	// EventUnbound events show that a conversation is no longer bound to a session.
	EventUnbound = spawn.EventUnbound
)

// The forms of the deltas of an EventQuery.
const (
	// DeltasNone leaves EventDelta out.
	DeltasNone = spawn.DeltasNone
	// DeltasShown has what people may see of what a model writes.
	DeltasShown = spawn.DeltasShown
	// DeltasRaw has what a model writes, also its thoughts, silent tokens and credentials.
	DeltasRaw = spawn.DeltasRaw
)

// Errors of other packages that users of this one meet.
var (
	// ErrBudget says that a budget does not allow what was asked.
	ErrBudget = spawn.ErrBudget
	// ErrNotFound says that a session, run or delivery is not on record.
	ErrNotFound = spawn.ErrNotFound
	// ErrArchived says that a sub-agent has ended and was archived. What writes to its session
	// returns it, with [ErrNotFound]. [Session.History] reads it. One that has left no transcript,
	// because it crashed before its first turn had written anything, is ErrNotFound alone.
	ErrArchived = session.ErrArchived
	// ErrNoRecord says that an archive does not say what the session was; see [Session.Revive].
	ErrNoRecord = spawn.ErrNoRecord
	// ErrEnded says that a run has ended.
	ErrEnded = spawn.ErrEnded
	// ErrAnnouncing is returned by what would begin something in a turn with [Turn].Announces.
	ErrAnnouncing = spawn.ErrAnnouncing
	// ErrStale is returned by what belongs to a turn that is over: the methods of its Turn, its
	// Tools, and the handles that its Spawn returned.
	ErrStale = spawn.ErrStale
	// ErrNoConversation says that a session does not speak to people: it is a sub-agent.
	ErrNoConversation = spawn.ErrNoConversation
	// ErrSilent says that no turn has answered a message, and that none will.
	ErrSilent = spawn.ErrSilent
	// ErrAnswered says that a message was dealt with before.
	ErrAnswered = spawn.ErrAnswered
	// ErrUndelivered says that a message to a session of another tree is blocked in the outbox of
	// its sender.
	ErrUndelivered = spawn.ErrUndelivered
	// ErrKeyConflict says that a Task.Key is that of another task; see [spawn.KeyConflictError].
	ErrKeyConflict = spawn.ErrKeyConflict
	// ErrTurnCancelled is the cause of the context of a turn that [Session.CancelTurn] ended.
	ErrTurnCancelled = spawn.ErrTurnCancelled
	// ErrStopped is the cause of the context of a turn whose run, or one above it, is being
	// stopped.
	ErrStopped = spawn.ErrStopped
	// ErrTimedOut is the cause of the context of a turn whose run has no time left.
	ErrTimedOut = spawn.ErrTimedOut
	// ErrShutdown is the cause of the contexts of turns that a shutdown cancels. Every call after
	// the end of a Runtime returns it, a command beside ErrNotRecorded, but one whose arguments are
	// refused. Streams of events end.
	ErrShutdown = spawn.ErrShutdown
	// ErrUntouched is returned by a Runner, alone or wrapped, for a turn of a sub-agent that a
	// shutdown has cancelled before it did anything: it recorded nothing, and called no tool that
	// may have had an effect. The run is queued again then, and the next process starts it over the
	// same inputs, under its time and its budget; else it is interrupted. A Loop returns it. A turn
	// that recorded, spent, spawned, steered or reported something is interrupted, whatever its
	// Runner says. The turn of a top-level session is repeated either way. Without a shutdown
	// ErrUntouched fails the turn like every other error.
	ErrUntouched = spawn.ErrUntouched
	// ErrNotTopLevel is returned for a sub-agent by what only a top-level session has:
	// Session.Reset and Session.Compact.
	ErrNotTopLevel = spawn.ErrNotTopLevel
	// ErrNothing is returned by Session.Compact for a conversation of which nothing can be left to
	// a summary.
	ErrNothing = spawn.ErrNothing
	// ErrUnconfirmed says that it is not certain that a command is durable; see
	// [spawn.ErrUnconfirmed].
	ErrUnconfirmed = spawn.ErrUnconfirmed
	// ErrNotRecorded says that a command was not recorded and may be sent again, because the store
	// failed, as a full disk does, or its ctx or the Runtime had ended before; see
	// [spawn.ErrNotRecorded].
	ErrNotRecorded = spawn.ErrNotRecorded
	// ErrUnreadable says that a tree cannot be read now, because the store fails; see
	// [spawn.ErrUnreadable].
	ErrUnreadable = spawn.ErrUnreadable
	// ErrBusy may be returned by Deliver for a requester that is in the middle of something. See
	// [Session.Ready].
	ErrBusy = announce.ErrBusy
	// ErrPermanent is what an error of [Permanent] is: no later attempt would arrive.
	ErrPermanent = spawn.ErrPermanent
)

// Permanent returns an error for Deliver, Reply and Hooks.Ended to return: the delivery can never
// arrive, and is blocked at once. See [spawn.Permanent].
func Permanent(err error) error { return spawn.Permanent(err) }

// RetryAfter returns an error for Deliver, Reply and Hooks.Ended to return: the delivery is tried
// again when the pause is over, see [spawn.RetryAfter]. A [RateLimited] that one of them returns
// counts as a RetryAfter of its After.
func RetryAfter(pause time.Duration, err error) error { return spawn.RetryAfter(pause, err) }

// modelNamed returns the full name of a model that is named by an alias, in any letter case. Any
// other name is returned as it is.
func (c *Config) modelNamed(name string) string {
	if strings.Contains(name, "/") { // as no alias has
		return name
	}
	if full, ok := inAnyCase(c.Prompts.Input.Aliases, strings.TrimSpace(name)); ok {
		return strings.TrimSpace(full)
	}
	return name
}

// withFullModels returns a copy in which no alias names a model, so that rules, Models.Valid and
// the Runner see one name of each, and whose Rules have what the Tools are marked with.
func (c Config) withFullModels() Config {
	c.Rules = c.withOwners()
	if len(c.Prompts.Input.Aliases) == 0 {
		return c
	}
	c.Models.Model = c.modelNamed(c.Models.Model)
	c.Rules.Subagents.Model = c.modelNamed(c.Rules.Subagents.Model)
	c.Rules.Agents = slices.Clone(c.Rules.Agents)
	for i := range c.Rules.Agents {
		a := &c.Rules.Agents[i]
		a.Model = c.modelNamed(a.Model)
		a.Subagents.Model = c.modelNamed(a.Subagents.Model)
	}
	return c
}

// aliases adds the mistakes of the names of models. An alias has no slash, so that it is not a full
// name, and names a model, not another alias.
func (c *checkup) aliases(cfg *Config) {
	aliases := cfg.Prompts.Input.Aliases
	seen := make(map[string]string, len(aliases))
	for _, alias := range slices.Sorted(maps.Keys(aliases)) {
		at, model := fmt.Sprintf("Prompts.Input.Aliases[%q]", alias), strings.TrimSpace(aliases[alias])
		folded := strings.ToLower(alias)
		other, twice := seen[folded]
		seen[folded] = alias
		chained := false
		if !strings.Contains(model, "/") { // no name with a slash is an alias
			_, chained = inAnyCase(aliases, model)
		}
		switch {
		case alias == "":
			c.bad(at, "an alias is empty")
		case strings.Contains(alias, "/") || !policy.IsModelName(alias):
			c.bad(at, "an alias is one word without a slash, of at most 256 bytes")
		case twice:
			c.bad(at, "it is Prompts.Input.Aliases[%q], since letter case does not matter", other)
		case !policy.IsModelName(model):
			c.bad(at, "it is %s, want a model such as provider/name", text.Quote(model))
		case chained:
			c.bad(at, "it is %s, which is an alias, too; want the full name of a model",
				text.Quote(model))
		}
	}
	c.byAlias("Rules.Tools.ByProvider", aliases, cfg.Rules.Tools.ByProvider)
	for i := range cfg.Rules.Agents {
		c.byAlias(fmt.Sprintf("Rules.Agents[%d].Tools.ByProvider", i), aliases,
			cfg.Rules.Agents[i].Tools.ByProvider)
	}
}

// byAlias adds the rules for a model that name it by an alias: they never hold, because rules see
// the full name. The alias may be the name of its provider as well.
func (c *checkup) byAlias(
	path string, aliases map[string]string, rules map[string]policy.ToolPolicy,
) {
	for _, key := range slices.Sorted(maps.Keys(rules)) {
		name := strings.TrimSpace(key)
		full, isAlias := inAnyCase(aliases, name)
		provider, _, _ := strings.Cut(full, "/")
		if isAlias && !strings.EqualFold(provider, name) {
			c.bad(fmt.Sprintf("%s[%q]", path, key),
				"it is an alias of the model %s; rules are for the full name", text.Quote(full))
		}
	}
}
