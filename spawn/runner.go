package spawn

import (
	"context"
	"time"

	"github.com/offshoot-sdk/offshoot/internal/enum"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
)

// A Runner runs one turn of one session. It may be called for many sessions at once, but never
// twice at once for the same session.
//
// The turn is over when RunTurn returns. When ctx ends RunTurn should return soon, with what it
// has; a Runner that does not is given up after a grace period, and what it still says is recorded
// as late. What it was to read, and has not told of with [TurnInput.Reached], the next turn reads
// again. A TurnResult beside an error is what there is so far. A Runner that panics or ends its
// goroutine has failed; see [TurnInput.ExitWith].
type Runner interface {
	RunTurn(ctx context.Context, t *TurnInput) (TurnResult, error)
}

// A TurnResult is what a turn came to. The zero TurnResult is an empty answer.
type TurnResult struct {
	Result Result
	// Models say which models Result.Usage is of, if they are several: [TurnInput.SpentBy] has
	// them. Result.Usage is then their sum, whatever it says. Nil: all of it is of Result.Model, or
	// of the model that policy resolved if that is empty, too.
	Models []ModelUsage
	// Fallback is announced where Result.Text is blank.
	Fallback string
	// Silent asks that nothing be announced. The answer of an earlier turn of the run stays.
	Silent bool
	// Refused says why the Result is not one that the run may end with, for example that it does
	// not fit a schema; empty: it may. When the run would end with it, the session gets an Input
	// with Repair and this text instead, and answers again. After [MaxRepairs] of them the run has
	// failed, with the Result. It counts for sub-agents, and not for what people are told; see
	// docs/typed-results.md. Credentials in it are masked, and it has at most 2,000 bytes.
	Refused string
	// Skip, beside Silent, asks to drop the answer of an earlier turn too.
	Skip bool
	// Reply is what a turn with [TurnInput.ForPeople] says to people. If it is empty, it says
	// nothing.
	Reply string
	// Note says, of a turn that did not fail, why it came to nothing, for the Error of its
	// EventTurnEnded: for example that the model returned nothing. Of a sub-agent it is not kept.
	Note string
	// ReplyTo is the ID of the message that the Reply answers as a native reply. Empty: of none.
	// One that is not a line of text, or longer than the Limits allow an id to be, is left out.
	ReplyTo string
	// Voice asks for the Reply as a voice message.
	Voice bool
	// Pos is the committed end of the session's transcript.
	Pos session.Pos
	// Compacted is how many messages a turn with [TurnInput.Compact] has left to a summary. Zero:
	// it had nothing to compact. Of another turn it is not kept.
	Compacted int
}

// MaxRepairs is how often a run is told to answer again, see [TurnResult.Refused].
const MaxRepairs = tree.MaxRepairs

// An InputClass says what sort of input an Input is. The zero InputClass is not one that an input
// has.
type InputClass uint8

// The classes of inputs, in the order of presentation but for the last.
const (
	InputUser       InputClass = iota + 1 // a message of a person, or of the caller
	InputSteer                            // a message of another session to a run under way
	InputTask                             // what a run was asked to do
	InputCompletion                       // the end of a child
	// InputMilestone is what a child has reached. It starts no turn. It comes before completions.
	InputMilestone
	// InputEvent is what the program has the session know, see [Supervisor.Announce]. It comes
	// after the messages of people.
	InputEvent
)

// String returns the name of the class: "user", "control" for InputSteer, "task", "completion",
// "milestone" or "event".
func (c InputClass) String() string { return enum.String(tree.ClassNames[:], "InputClass", c) }

// MarshalText returns the name. A value that is not an InputClass is an error.
func (c InputClass) MarshalText() ([]byte, error) {
	return enum.Marshal(tree.ClassNames[:], "spawn", "input class", c)
}

// UnmarshalText sets c to the InputClass of that name, in any letter case of ASCII.
func (c *InputClass) UnmarshalText(text []byte) error {
	return enum.Unmarshal(tree.ClassNames[:], "spawn", "input class", text, c)
}

// A SkillSet is what a session keeps of the skills that it took; see [TurnInput.KeepSkills]. It is
// not changed once it is made.
type SkillSet = tree.SkillSet

// A SkillRef names one skill of a [SkillSet], with a digest of what it said then.
type SkillRef = tree.SkillRef

// MaxSkills is how many skills a [SkillSet] has at most.
const MaxSkills = tree.MaxSkills

// MaxState is how many bytes a session keeps for its Runner; see [TurnInput.SetState].
const MaxState = tree.MaxKept

// An Input is something that a turn consumes.
type Input struct {
	// Ord is the ordinal of the input. It counts from 1 in the session.
	Ord   int
	Class InputClass
	// ID is the ID of the message, if the caller gave it one.
	ID   string
	Text string
	// From is the session that sent an InputSteer or an InputUser, whose end an InputCompletion is,
	// or that has reached an InputMilestone.
	From session.Key
	// Time is when a message was said: its Incoming.At, or when it was posted.
	Time time.Time
	// Sender, Parts and Meta are those of the message. The bytes of the Parts are in the Store.
	Sender session.Sender
	Parts  []session.Part
	Meta   map[string]string
	// Route is where the message came from. Nil: that is not known.
	Route *session.Route
	// Label and Percent are those of an InputMilestone: what the requester called the run, or its
	// task, and how much of its work is done, of which 0 says that it is not known.
	Label   string
	Percent int
	// Repair says, of an InputSteer, that the answer before was refused, and Text why: the session
	// is to answer again. From is zero.
	Repair bool
	// Completion is set if the Class is InputCompletion.
	Completion *Completion
}
