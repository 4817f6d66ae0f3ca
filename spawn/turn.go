package spawn

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/offshoot-sdk/offshoot/internal/enum"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
)

// A Runner runs one turn of one session. It may be called for many sessions at once, but never twice at once for the same.
//
// The turn is over when RunTurn returns. When ctx ends RunTurn should return soon, with what it
// has; a Runner that does not is given up after a grace period, and what it still says is recorded
// as late. A TurnResult beside an error is what there is so far.
type Runner interface {
	RunTurn(ctx context.Context, t *TurnInput) (TurnResult, error)
}

// A TurnResult is what a turn came to. The zero TurnResult is an empty answer.
type TurnResult struct {
	Result Result
	// Fallback is announced where Result.Text is blank.
	Fallback string
	// Silent asks that nothing be announced. An answer of an earlier turn of the run stays; Skip asks to drop that too.
	Silent, Skip bool
	// Reply is what a top-level session says to people; empty: nothing.
	Reply string
	// Pos is the committed end of the session's transcript.
	Pos session.Pos
}

// An InputClass says what sort of input an Input is. The zero InputClass is not one that an input
// has.
type InputClass uint8

// The classes of inputs, in the order of presentation.
const (
	InputUser       = InputClass(tree.User)       // a message of a person, or of the caller
	InputSteer      = InputClass(tree.Control)    // a message of another session to a run under way
	InputTask       = InputClass(tree.Task)       // what a run was asked to do
	InputCompletion = InputClass(tree.Completion) // the end of a child
)

// String returns the name of the class: "user", "control" for InputSteer, "task" or "completion".
func (c InputClass) String() string { return enum.String(tree.ClassNames[:], "InputClass", c) }

// MarshalText returns the name. A value that is not an InputClass is an error.
func (c InputClass) MarshalText() ([]byte, error) {
	return enum.Marshal(tree.ClassNames[:], "spawn", "input class", c)
}

// UnmarshalText sets c to the InputClass of that name, in any letter case of ASCII.
func (c *InputClass) UnmarshalText(text []byte) error {
	return enum.Unmarshal(tree.ClassNames[:], "spawn", "input class", text, c)
}

// An Input is something that a turn consumes.
type Input struct {
	Ord   int // counts from 1 in the session
	Class InputClass
	ID    string // of the message, if it had one
	Text  string
	From  session.Key // who steers, or whose end it is
	Time  time.Time
	Route *session.Route // where it came from
	// Completion is set if the Class is InputCompletion.
	Completion *Completion
}

// A TurnInput is one turn of one session, as its Runner gets it. The methods are safe for concurrent use; all of them end with the
// turn.
type TurnInput struct {
	// Session is where the session stands in its tree.
	Session session.Lineage
	// SessionID names the transcript.
	SessionID string
	// Run is the run that the turn belongs to; its ID is empty in a top-level session.
	Run RunInfo
	// MaxDepth is how deep the tree may be by the limits in force when the run was admitted.
	MaxDepth int
	// N counts the turns of the session from 1.
	N int
	// First is the ordinal of the first input. A turn that repeats one that a crash interrupted has the same one.
	First int
	// Inputs are what the turn consumes: people and steers first, then the task, then completions. There may be none: then
	// the children that the session waited for have ended and none of them had anything to report.
	Inputs []Input
	// Pos is the committed end of the transcript before this turn.
	Pos session.Pos
	// Deadline is when the run is stopped; zero: never.
	Deadline time.Time
	// Retry says that an earlier turn over the same inputs was interrupted by a crash.
	Retry bool
	// Children are the children of the session that have not ended.
	Children []RunInfo
	// Exhausted names the budget that forbids model calls; empty: none does.
	Exhausted string
	// Extra is what the Request that spawned the run carried.
	Extra json.RawMessage

	oneInput [1]Input // memory for Inputs: most turns have one

	shell *treeShell
	run   *tree.Run
	gen   uint64
	slot  slot

	limited bool

	mu       sync.Mutex
	yield    *JoinOptions
	yieldTo  []session.Key
	reserved tree.Budget // reserved
	spent    session.Usage
}

// JoinOptions say when a wait for children is over. The zero JoinOptions wait until all have ended.
type JoinOptions struct {
	// AtLeast is how many must have ended well; 0: all must have ended.
	AtLeast int
	// Within is how long to wait from now; 0: without limit.
	Within time.Duration
	// StopRest stops what is still running when the wait is over.
	StopRest bool
}

// Take consumes what has arrived since the turn began, or since the last Take. If ctx ends first it may count as consumed all the same.
func (t *TurnInput) Take(ctx context.Context) (in []Input, err error) {
	err = t.shell.owner.DoTurn(ctx, t.gen, tree.Take{Run: t.run.Key(), N: uint32(t.N)}, func(tr *tree.Tree, r tree.Reply) {
		for _, x := range r.Inputs {
			in = append(in, t.shell.input(tr, x))
		}
	})
	return in, err
}

// Spawn admits a child of this session; see [Supervisor.Spawn].
func (t *TurnInput) Spawn(ctx context.Context, q Request) (RunInfo, error) {
	return t.shell.spawn(ctx, t.Session.Key, q, t)
}

// Yield says that the turn that follows waits: for the children given, or for all of them. It takes effect when the Runner
// returns, and holds no slot and calls no model meanwhile. What people say still wakes the session, and the wait goes on
// previous that. A yield with nothing to wait for has no effect.
func (t *TurnInput) Yield(opt JoinOptions, children ...session.Key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.yield, t.yieldTo = &opt, children
}

// Wait waits for children of this session within the turn. Meanwhile the turn holds no slot of the lane, so that its children
// can run; it returns when it has one again, also if ctx has ended, or when the turn is cancelled.
func (t *TurnInput) Wait(ctx context.Context, children []session.Key, opt JoinOptions) ([]RunInfo, error) {
	return t.shell.wait(context.WithValue(ctx, turnKey{}, t), children, opt)
}

// turnKey is where the context of a Runner holds its Turn, so that whatever waits under that context gives the slot back.
type turnKey struct{}

// turnOf returns the turn under whose context ctx is, or nil.
func turnOf(ctx context.Context) *TurnInput {
	t, _ := ctx.Value(turnKey{}).(*TurnInput)
	return t
}

// pause gives the slot of the turn back while somebody under its context waits. The function it returns asks for one again;
// it is the caller's to call.
func (t *TurnInput) pause() (resume func()) {
	if t == nil || !t.Session.Parent.IsValid() {
		return func() {}
	}
	t.slot.pause()
	return func() { t.slot.resume(t.run) }
}

// Spend accounts for one model call. It returns an error that is ErrBudget when the budget does not
// allow another: then the Runner should return what it has. Input, Output and Cost count against
// budgets; CacheRead and CacheWrite are summed and do not. Amounts below zero, and a cost that is
// not a number, count as zero.
func (t *TurnInput) Spend(ctx context.Context, u session.Usage) error {
	t.mu.Lock()
	t.spent = t.spent.Add(usageOf(treeUsage(u).Clean()))
	used := treeUsage(t.spent).Charge()
	enough := used.Tokens < t.reserved.Tokens && used.Micros < t.reserved.Micros
	t.mu.Unlock()
	if t.Exhausted != "" {
		return fmt.Errorf("%w: %s", ErrBudget, t.Exhausted)
	}
	if enough || !t.limited {
		return nil
	}
	return t.shell.owner.DoTurn(ctx, t.gen, tree.Reserve{Run: t.run.Key(), N: uint32(t.N), Used: used}, func(_ *tree.Tree, r tree.Reply) {
		t.mu.Lock()
		t.reserved.Tokens += r.Grant.Tokens
		t.reserved.Micros += r.Grant.Micros
		t.mu.Unlock()
	})
}

// Spent returns the sum of what Spend has accounted for in this turn.
func (t *TurnInput) Spent() session.Usage {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.spent
}

// Delta shows text as it comes to those who watch the tree. It is not kept.
func (t *TurnInput) Delta(text string) {
	t.shell.notifyWatchers(TreeEvent{Kind: EventDelta, Time: time.Now(), Session: t.Session.Key, Run: t.Run.ID, Depth: t.Session.Depth, Turn: t.N, Text: text})
}

// A Request asks for a child.
type Request struct {
	// Task is what the child is asked to do. It must not be blank.
	Task string
	// Label is a short name for people.
	Label string
	// Key makes the spawn idempotent: the same key of the same requester gives the same run, over restarts too and for seven
	// days after the run has been archived. Empty: every call is another run.
	Key string
	// Policy is what is asked of policy: the agent, the model and so on.
	Policy policy.Request
	// Announce has the end of the run told to the requester.
	Announce bool
	// Extra is kept with the run and given to each of its turns.
	Extra json.RawMessage
}
