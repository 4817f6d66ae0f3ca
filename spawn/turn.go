package spawn

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/offshoot-sdk/offshoot/internal/sat"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn/internal/owner"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
)

// A TurnInput is one turn of one session, as its Runner gets it. The methods are safe for
// concurrent use. They end with the turn, in every goroutine: what comes after it, or after its
// context, is refused with an error that is ErrStale, and changes nothing. See [TurnInput.Err].
type TurnInput struct {
	// Session is where the session stands in its tree.
	Session session.Lineage
	// Above are the sessions above it, from the one that spawned it to the top.
	Above []session.Key
	// SessionID names the transcript.
	SessionID string
	// Run is the run that the turn belongs to. Its ID is empty in a top-level session.
	Run RunInfo
	// MaxDepth is how deep the tree may be, by the limits in force when the run was admitted.
	MaxDepth int
	// Authority is what the session may use and hand down, and whether it is in a sandbox, under
	// the present rules: what it was granted, within what is left to every session above it. It is
	// decided for a top-level session, too.
	Authority policy.Authority
	// Compact says that the turn compacts the conversation, as [Supervisor.Compact] has asked for,
	// and does nothing else: it has no Inputs, and nothing that it returns reaches people. Its
	// Runner returns a TurnResult with Compacted.
	Compact bool
	// Announces says that the turn is the announce step of its run: the run has nothing left to do,
	// its requester is to be told, and policy wants that in words of its own. The turn has no
	// Inputs and a Deadline of its own. The text of its TurnResult takes the place of the result
	// where the run is announced, [RunInfo].Announcement, and the rest of the Result is not kept
	// but for the usage. With Silent the requester is told nothing.
	//
	// It can begin nothing: Spawn, Send, Steer, Stop, Say and Report return [ErrAnnouncing], a
	// Yield has no effect, and Take gives nothing. If it fails, is cancelled, says nothing, or the
	// process dies, the result of the run is announced; nothing of that changes the result, or that
	// the run ends well. A message that comes meanwhile is read in a turn after it, and takes back
	// what it has said: the run announces again when it would end again. Only a run that would end
	// well has an announce step, and it has none if its time is over or a budget does not allow
	// another turn.
	Announces bool
	// Former are the session ids from before resets whose files may be those of Inputs, oldest
	// first: bytes of a message that came before a reset and is read after it. The Runner copies
	// them, because the files are archived when the turn has ended.
	Former []string
	// N counts the turns of the session from 1.
	N int
	// Waited is what became of the wait that the turn ends. Nil: it ends none, or it repeats one
	// that a crash interrupted, and that is not known any more.
	Waited *Waited
	// First is the ordinal of the first input. A turn that repeats one that a crash interrupted has
	// the same First.
	First int
	// Inputs are what the turn consumes: messages and steers first, then the task, then milestones
	// of children, then completions. There are none but milestones if the turn ends a wait and no
	// child has ended since; Waited says why it is over.
	Inputs []Input
	// Pos is the committed end of the transcript before this turn.
	Pos session.Pos
	// Deadline is when the run is stopped, or an announce step cancelled. Zero: never.
	Deadline time.Time
	// ForPeople says that people are told what the turn answers, which is [TurnResult.Reply], and
	// that it may say something before its end, with Say. Every turn of a top-level session is, but
	// one that compacts. One of a sub-agent is if it reads what a conversation has written that is
	// bound to the sub-agent, or goes on with a run that such a message began. It reads nothing
	// then that the requester wants to know: that is for the turn before or after it.
	ForPeople bool
	// Route is where the people are, if that is known.
	Route session.Route
	// Retry says that an earlier turn over the same inputs, which may have done something, was
	// interrupted, or of a sub-agent that a crash has interrupted the run before, and that this is
	// the first turn since. A turn of a top-level session that a shutdown has ended untouched, see
	// [ErrUntouched], is not repeated, unless it had no input because a wait was over.
	Retry bool
	// Said is what interrupted turns over the same inputs have told people, oldest first.
	Said []string
	// Children are the newest children of the session that have not ended, oldest first, at most
	// 50.
	Children []RunInfo
	// Active counts the children that have not ended, those beyond the 50 too.
	Active int
	// Exhausted names the budget that forbids model calls. Empty: none does.
	Exhausted string
	// Extra is what the Request that spawned the run carried.
	Extra json.RawMessage
	// Skills are those that the session took in an earlier turn. Nil: it has not taken any.
	Skills *SkillSet
	// State is what the session keeps for its Runner, as the turn begins. Nil: nothing.
	State []byte

	oneInput [1]Input             // memory for Inputs: most turns have one
	oneAbove [1]session.Key       // memory for Above: most sub-agents are below a top-level session
	oneGrant [1]policy.Descendant // memory for lineage, likewise

	shell   *treeShell
	lineage []policy.Descendant // what was granted to the session and to those above it
	run     *tree.Run
	gen     uint64 // the incarnation of the tree that the turn belongs to
	slot    slot
	fence   fence

	model string // of the events of the turn

	progress pacer
	answer   shownAnswer

	mu       sync.Mutex
	senders  []policy.Sender // see Senders
	rights   turnRights      // see Rights
	yield    *JoinOptions    // what Yield asked for
	yieldTo  []RunRef        // the runs of children that Yield named
	reserved tree.Budget     // for the turn so far
	expected tree.Budget     // of the model calls under way
	spent    session.Usage
	spentBy  []ModelUsage // the parts of spent
	reached  tree.Reach   // as Reached has told; zero: it has not
	exit     *turnExit    // if its goroutine ends before the Runner returns; nil: it was lost
	says     uint32       // without an ID
	byModel  bool         // a model chose the time of the wait
	holds    bool         // the tree knows of expected
	ending   bool         // the tree is told of reached

	limited bool // whether a budget limited the run as the turn began; nothing writes it later
}

// A turnExit is what a turn came to. Few turns have one, and each has room for what it holds.
type turnExit struct {
	out TurnResult
	err error
}

// Waited is what became of a wait that [TurnInput.Yield] asked for: all of those waited for have
// ended, else Enough of them well, else the time was up.
type Waited struct {
	Left   int  // how many of those waited for had not ended
	Enough bool // whether as many had ended well as JoinOptions.AtLeast asked for
	Ended  int  // how many of them have ended
	Told   int  // how many of the Ended the session was told of, in this turn or before
}

// Take consumes what has arrived since the turn began, or since the last Take. If ctx ends first,
// the inputs may count as consumed all the same. The error is [ErrStale], or the cause of ctx.
func (t *TurnInput) Take(ctx context.Context) (in []Input, err error) {
	err = t.do(ctx, tree.Take{Run: t.run.Key(), N: uint32(t.N)},
		func(tr *tree.Tree, r tree.Reply) {
			for _, x := range r.Inputs {
				in = append(in, inputOf(tr, r.Run, x))
			}
			if r.Run != nil {
				t.mu.Lock()
				t.senders = r.Run.Senders()
				t.mu.Unlock()
			}
		})
	return in, err
}

// Senders returns the people for whom the turn works: those of whom it has read something, and
// those for whom the sessions and runs worked of which it has. Of a sub-agent they are those of
// all its runs so far. Take may add to them; then the turn may use less than its Authority
// says. Nil: the turn works for no person, as far as is known. The caller must not change the
// list.
func (t *TurnInput) Senders() []policy.Sender {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.senders
}

// turnRights are the rights that a turn was told last, and what they were decided by.
type turnRights struct {
	rules *policy.Rules
	of    []policy.Sender
	now   *policy.Authority // nothing writes to it; mostly the tree's
}

// Rights returns what the session may use and hand down under the rules, which are those of
// [Supervisor.Rules], and for those for whom the turn works by now: the Authority, which is as the
// turn began, as long as neither has changed. A Runner asks before each call of a tool. It waits
// for nothing but a Sandbox.Decide of new rules; if that fails or ctx ends, nothing but a sandbox
// is left to the session until another call has an answer. The caller must not change the result.
func (t *TurnInput) Rights(ctx context.Context, rules *policy.Rules) policy.Authority {
	t.mu.Lock()
	known, of := t.rights, t.senders
	t.mu.Unlock()
	if known.rules == rules && sameSenders(known.of, of) {
		return *known.now
	}
	now, err := t.rightsUnder(ctx, rules, of)
	if err == nil {
		t.mu.Lock()
		t.rights = turnRights{rules, of, &now}
		t.mu.Unlock()
	}
	return now
}

// rightsUnder returns what is left to the session under rules for the people of.
func (t *TurnInput) rightsUnder(
	ctx context.Context, rules *policy.Rules, of []policy.Sender,
) (policy.Authority, error) {
	root := t.Session.Root
	now, err := t.shell.sup.authority(ctx, rules, root, t.lineage)
	return rules.ForSenders(now, root, of), err
}

// sameSenders reports whether two lists of one turn are the same. Its list is replaced, and not
// changed.
func sameSenders(a, b []policy.Sender) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// Hear has the turn work for people from now on, beside those for whom it works already: those for
// whom another session has worked whose words the Runner is about to show its model. What the turn
// calls, spawns and sends afterwards is bound by them, also if a crash interrupts it and it is
// repeated. The turns after it are not, unless it waits for sub-agents, nor is what it has spawned
// before. Hear returns when that is durable. [TurnInput.Wait] and [TurnInput.SendAndWait], and
// [Supervisor.Wait], PostAndWait and SendAndWait under the context of the turn, do it for what they
// return.
//
// The error is an *[InputError] for what is not UTF-8 in a Sender, a *[LimitError] for what is too
// long, [ErrStale], or one that every command can return. After an error the words are not to be
// shown.
func (t *TurnInput) Hear(ctx context.Context, of ...policy.Sender) error {
	if err := t.Err(); err != nil {
		return err
	}
	if len(of) == 0 {
		return nil
	}
	t.mu.Lock()
	bound := slices.Equal(policy.MergeSenders(t.senders, of), t.senders)
	t.mu.Unlock()
	if bound {
		return nil
	}
	err := t.do(ctx, tree.Hear{Senders: slices.Clone(of)}, func(_ *tree.Tree, r tree.Reply) {
		t.mu.Lock()
		t.senders = r.Run.Senders()
		t.mu.Unlock()
	})
	return repeatable(err, repeatAsIs)
}

// HearUnder is [TurnInput.Hear] of the turn under whose context ctx is, for the people that of
// returns. Without a turn it does nothing and does not call of; nor does a turn that is over, which
// does nothing more with the words. The errors are those of Hear and of the function of.
func HearUnder(ctx context.Context, of func() ([]policy.Sender, error)) error {
	t := turnOf(ctx)
	if isOver := t != nil && t.Err() != nil; t == nil || isOver {
		return nil
	}
	people, err := of()
	if err == nil {
		err = t.Hear(ctx, people...)
	}
	if errors.Is(err, ErrStale) {
		return context.Cause(ctx)
	}
	return err
}

// hearRuns has the turn, unless it is nil, work for those for whom the runs have worked that have
// ended. The words of its own people bind nothing more.
func (t *TurnInput) hearRuns(ctx context.Context, runs []RunInfo) error {
	var of []policy.Sender
	for i := range runs {
		if runs[i].Status.Terminal() {
			of = policy.MergeSenders(of, runs[i].Senders)
		}
	}
	if t == nil || len(of) == 0 {
		return nil
	}
	return t.Hear(ctx, of...)
}

// Withheld says why the people for whom the turn works keep it from a tool that it has otherwise,
// under the present rules, see [policy.Rules.ForSenders]. ok is false if they do not.
func (t *TurnInput) Withheld(tool string) (v policy.ToolVerdict, ok bool) {
	rules := t.shell.sup.rules.Load()
	return rules.Withheld(t.Session.Root, t.Authority.Role, t.Senders(), tool)
}

// Reached says that the transcript is a complete conversation up to a position, and that it has the
// inputs up to through, which is the Ord of one that the turn was given; it is First-1 for none. It
// does not wait. A Runner calls it whenever that has changed.
//
// It counts if the turn is given up because the Runner does not return within the grace period.
// Then the transcript is committed up to the position of the last call. Inputs behind through are
// not consumed: they start no turn, and the next one reads them. So it is with all inputs of a turn
// that has not called Reached. A crash of the process after the turn was cancelled ends what
// Reached has said.
func (t *TurnInput) Reached(pos session.Pos, through int) {
	t.mu.Lock()
	t.reached = tree.Reach{
		Run: t.run.Key(), N: uint32(t.N), Pos: uint64(pos), Through: uint32(max(through, 0)),
	}
	told := t.ending
	t.mu.Unlock()
	if told {
		t.tellReached()
	}
}

// tellReached has the tree know what the turn has reached, and from then on whenever that changes.
// While a turn is not to end, the tree need not know.
func (t *TurnInput) tellReached() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ending = true
	if t.reached.N > 0 {
		t.shell.owner.Send(t.gen, t.reached)
	}
}

// KeepSkills records which skills the session has taken, for every later turn, also of another
// process. A session keeps the first set: for one that has Skills the call changes nothing. It does
// not wait for the journal. A turn that crashes before the set is durable has not taken it.
//
// The error is an *[InputError] for more than [MaxSkills] skills, and for a name, digest or version
// of more than 1,000 bytes or that is not UTF-8. It is [ErrStale] after the turn.
func (t *TurnInput) KeepSkills(set SkillSet) error {
	if err := t.Err(); err != nil {
		return err
	}
	if err := set.Check(); err != nil {
		return err
	}
	set.Skills = slices.Clone(set.Skills)
	keep := tree.KeepSkills{Run: t.run.Key(), N: uint32(t.N), Skills: &set}
	t.shell.owner.Send(t.gen, keep)
	return nil
}

// SetState has the session keep something for its Runner, in place of what it kept before: every
// later turn gets it as its State, also in a later run of the session and in another process. An
// empty state is none. It stands as soon as SetState returns, whatever becomes of the turn, and a
// turn that was cancelled may still set it. A session that is reset begins without; one that is
// revived has what it had; a fork gets nothing of it.
//
// The error is a *[LimitError] for more than [MaxState] bytes, [ErrStale] after the turn, or one
// that every command can return. A state that is [ErrUnconfirmed] may be set again.
func (t *TurnInput) SetState(ctx context.Context, state []byte) error {
	if err := t.Over(); err != nil {
		return err
	}
	cmd := tree.Keep{Run: t.run.Key(), N: uint32(t.N), Kept: tree.Text(state)}
	return repeatable(t.doUntilOver(ctx, cmd, nil), repeatAsIs)
}

// Spawn admits a child of this session. The errors are [ErrStale] and those of [Supervisor.Spawn].
func (t *TurnInput) Spawn(ctx context.Context, q Request) (RunInfo, error) {
	if err := t.mayBegin(ctx); err != nil {
		return RunInfo{}, err
	}
	return t.shell.spawn(ctx, t.Session.Key, q, t)
}

// Runs returns the children of this session that are in the tree, oldest first. The error is
// [ErrStale], or the cause of ctx.
func (t *TurnInput) Runs(ctx context.Context) (list []RunInfo, err error) {
	err = t.do(ctx, nil, func(tr *tree.Tree, r tree.Reply) {
		list = runsBelow(tr, r.Run, false, nil)
	})
	return list, err
}

// Find returns a run below this session. The error is [ErrNotFound] if the tree does not have it
// there, see [Supervisor.Find], [ErrStale], or the cause of ctx.
func (t *TurnInput) Find(ctx context.Context, run RunRef) (info RunInfo, err error) {
	var missing error
	err = t.do(ctx, nil, func(tr *tree.Tree, r tree.Reply) {
		var found bool
		info, found = findRun(tr, run)
		above := info.Parent
		if c := tr.Run(run.Session); c != nil {
			above = c.Spec.Parent
		}
		switch {
		case run.Session == t.Session.Key || !isBelow(tr, above, r.Run):
			missing = fmt.Errorf("%w: %q below %q", ErrNotFound, run.Session, t.Session.Key)
		case !found:
			missing = missingRun(tr, "", run)
		}
	})
	if err == nil {
		err = missing
	}
	if err != nil {
		return RunInfo{}, err
	}
	return info, nil
}

// isBelow reports whether a session is r or below it.
func isBelow(t *tree.Tree, k session.Key, r *tree.Run) bool {
	c := t.Run(k)
	return c != nil && c.Below(r)
}

// Send posts a message from this session to one below it, as [Supervisor.Send] does: a run that has
// ended is followed by another. The errors are [ErrStale], ErrNotFound for a session that is not
// below this one, and those of Supervisor.Send.
func (t *TurnInput) Send(
	ctx context.Context, to session.Key, m Incoming, opt SendOptions,
) (Receipt, error) {
	if _, err := t.Find(ctx, RunRef{Session: to}); err != nil {
		return Receipt{}, t.orWrong(ctx, err, func() error {
			return m.Validate(t.shell.sup.cfg.Limits)
		})
	}
	from := t.Session.Key
	return t.shell.sup.send(ctx, t.Session.Root, from, to, &m, opt, t.do)
}

// SendAndWait sends a message from this session to the top-level session of a tree, which may be
// another one, and waits for the reply, as [Supervisor.SendAndWait] does. The turn holds no slot
// while it waits. The errors are [ErrStale] and those of Supervisor.SendAndWait.
func (t *TurnInput) SendAndWait(
	ctx context.Context, root session.Key, m Incoming, opt SendOptions,
) (Receipt, Reply, error) {
	if err := t.Err(); err != nil {
		return Receipt{}, Reply{}, err
	}
	ctx, done := t.Within(context.WithValue(ctx, turnKey{}, t))
	defer done()
	return t.shell.sup.SendAndWait(ctx, root, t.Session.Key, root, m, opt)
}

// Steer sends a message from this session to a run below it that is under way. The errors are
// [ErrStale], ErrNotFound for a session that is not below this one, and those of
// [Supervisor.Steer].
func (t *TurnInput) Steer(ctx context.Context, run RunRef, m Incoming) error {
	if _, err := t.Find(ctx, RunRef{Session: run.Session}); err != nil {
		return t.orWrong(ctx, err, func() error {
			return m.ValidateSteer(t.shell.sup.cfg.Limits)
		})
	}
	return repeatable(t.do(ctx, t.shell.sup.steerOf(ctx, t.Session.Key, run, &m), nil), m.repeat())
}

// orWrong is the error of what a command of the turn reads first: what wrong says of its arguments,
// unless that is nil, if ctx or a shutdown has ended before.
func (t *TurnInput) orWrong(ctx context.Context, err error, wrong func() error) error {
	if ctx.Err() == nil && !errors.Is(err, ErrShutdown) {
		return err
	}
	return cmp.Or(wrong(), err)
}

// Stop stops a run below this session and everything below that. The errors are [ErrStale] and
// those of [Supervisor.StopRun].
func (t *TurnInput) Stop(ctx context.Context, run RunRef, reason string) error {
	ctx, done := t.Within(ctx)
	defer done()
	return repeatable(t.shell.stop(ctx, run, reason, t.do), repeatAsIs)
}

// Yield has the session wait after this turn: for the children named, or if none is for all that
// are alive when the turn ends. A child that is spawned later does not count. It takes effect when
// the Runner returns. A session that waits holds no slot and calls no model. A message wakes the
// session, and the wait goes on after the turn over that message. A wait for a child that has ended
// since the turn began, or which a Spawn of this turn has found ended by its key and not archived,
// is over at once: another turn follows, that of the end where the session is told. A Yield with
// nothing to wait for has no effect, nor has one after the turn. Nor has one in a turn that ends a
// wait and has found ended children alone. The last Yield of a turn counts.
//
// The wait is over when a turn begins that finds it so, or when CancelTurn takes that turn back.
// Then opt.Rest decides on the children that have not ended. One that is not a Rest means RestKeep.
func (t *TurnInput) Yield(opt JoinOptions, children ...RunRef) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.Err() == nil {
		t.yield, t.yieldTo, t.byModel = &opt, children, false
	}
}

// YieldByModel is Yield for all children as a model asks for it, whose choice of opt.Within is
// bounded: the wait takes at least a second. The least doubles, up to ten minutes, with each such
// wait since the session last read an input or a child of it ended.
// YieldByModel returns how long the session waits at most; zero is without limit. The error is
// [ErrStale], or the cause of ctx.
func (t *TurnInput) YieldByModel(
	ctx context.Context, opt JoinOptions,
) (within time.Duration, err error) {
	err = t.do(ctx, nil, func(tr *tree.Tree, r tree.Reply) {
		within = time.Duration(tr.ModelWait(r.Run, int64(opt.Within)))
	})
	if err != nil {
		return 0, err
	}
	opt.Within = within
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.Err(); err != nil {
		return 0, err
	}
	t.yield, t.yieldTo, t.byModel = &opt, nil, true
	return within, nil
}

// Wait waits for children of this session within the turn; see [Supervisor.Wait]. Meanwhile the
// turn gives its slot of the lane back, so that its children, or other sessions, can run. Wait
// returns when the turn has a slot again, also if ctx has ended, or when the turn is cancelled. The
// errors are [ErrStale] and those of [Supervisor.Wait].
func (t *TurnInput) Wait(
	ctx context.Context, children []RunRef, opt JoinOptions,
) ([]RunInfo, error) {
	if err := t.Err(); err != nil {
		return nil, err
	}
	ctx, done := t.Within(context.WithValue(ctx, turnKey{}, t))
	defer done()
	return t.shell.wait(ctx, slices.Clone(children), opt)
}

// turnKey is the key under which the context of a Runner holds its TurnInput. A wait under that
// context gives the slot of the turn back.
type turnKey struct{}

// turnOf returns the turn under whose context ctx is, or nil.
func turnOf(ctx context.Context) *TurnInput {
	t, _ := ctx.Value(turnKey{}).(*TurnInput)
	return t
}

// pause gives the slot of the turn back while a call under its context waits. The caller must call
// the function that it returns, which waits for a slot again.
func (t *TurnInput) pause() (resume func()) {
	if t == nil {
		return func() {}
	}
	t.slot.pause()
	return t.slot.resume
}

// ExitWith says what the turn comes to if its goroutine ends before the Runner returns, as
// [runtime.Goexit] and so testing.T.FailNow end it. A Runner that calls other code has a deferred
// function call ExitWith. The last call counts. Without one, such a turn has failed with the zero
// TurnResult. If the Runner returns, ExitWith has no effect. A nil err stands for an error that
// says what happened.
func (t *TurnInput) ExitWith(out TurnResult, err error) {
	if err == nil {
		err = ErrExited
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.exit = &turnExit{out, err}
}

// exited returns what ExitWith has set.
func (t *TurnInput) exited() (TurnResult, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.exit == nil {
		return TurnResult{}, ErrExited
	}
	return t.exit.out, t.exit.err
}

// Spend accounts for one model call. It returns an error that is ErrBudget when the budget does not
// allow another: then the Runner should return what it has. Input, Output and Cost count against
// budgets; CacheRead and CacheWrite are summed and do not. Amounts below zero, and a cost that is
// not a number, count as zero. A turn that was cancelled may still account for what it has used.
// The error is [ErrStale] after the turn, see [TurnInput.Over].
func (t *TurnInput) Spend(ctx context.Context, u session.Usage) error {
	return t.SpendOn(ctx, "", u)
}

// SpendOn is [TurnInput.Spend] for a call of a model that it names. An empty model, and one that is
// not a name, stand for the one that policy resolved. The errors are those of Spend.
func (t *TurnInput) SpendOn(ctx context.Context, model string, u session.Usage) error {
	if err := t.Over(); err != nil {
		return err
	}
	u = usageOf(treeUsage(u).Clean())
	t.mu.Lock()
	t.spent, t.spentBy = t.spent.Add(u), addModel(t.spentBy, model, u)
	spent := treeUsage(t.spent).Charge()
	enough := spent.Tokens < t.reserved.Tokens && spent.Micros < t.reserved.Micros
	t.mu.Unlock()
	if t.Exhausted != "" {
		return fmt.Errorf("%w: %s", ErrBudget, t.Exhausted)
	}
	if enough || !t.Budgeted() {
		return nil
	}
	cmd := tree.Reserve{Run: t.run.Key(), N: uint32(t.N), Used: spent}
	return t.doUntilOver(ctx, cmd, func(_ *tree.Tree, r tree.Reply) {
		t.mu.Lock()
		t.reserved.Tokens = sat.Add(t.reserved.Tokens, r.Grant.Tokens)
		t.reserved.Micros = sat.Add(t.reserved.Micros, r.Grant.Micros)
		t.mu.Unlock()
	})
}

// Spent returns the sum of what Spend and SpendOn have accounted for in this turn.
func (t *TurnInput) Spent() session.Usage {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.spent
}

// SpentBy returns the parts of Spent by model, in the order in which the models were first named.
// Of more than 32 models the others are [OtherModels].
func (t *TurnInput) SpentBy() []ModelUsage {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.spentBy)
}

// slot is the turn's hold on a slot of the lane. The turn can give the slot back early and ask for
// one again.
type slot struct {
	turn   *TurnInput
	mu     sync.Mutex
	paused int // how many callers wait within the turn; while any does, the turn holds no slot
	held   bool
	closed bool // the turn is over for the tree: a slot that is granted now goes back at once
}

// lane returns the lane of the slot.
func (s *slot) lane() *owner.Lane { return s.turn.shell.sup.lane }

// pause gives the slot back while a caller waits within the turn.
func (s *slot) pause() {
	s.mu.Lock()
	s.paused++
	s.mu.Unlock()
	s.release()
}

// resume ends a pause. After the last one it waits for a slot again until the turn is cancelled.
// The end of another context must not end that wait, or a turn would go on without a slot.
func (s *slot) resume() {
	s.mu.Lock()
	s.paused--
	enough := s.paused > 0 || s.held || s.closed
	s.mu.Unlock()
	if enough || !s.lane().Wait(s.turn.fence.life.Done(), s.turn.run) {
		return
	}
	s.mu.Lock()
	enough = s.paused > 0 || s.held || s.closed // it may have changed meanwhile
	s.held = s.held || !enough
	s.mu.Unlock()
	if enough {
		s.lane().Free(s.turn.run)
	}
}

// release gives the slot back if the turn holds one.
func (s *slot) release() {
	s.mu.Lock()
	held := s.held
	s.held = false
	s.mu.Unlock()
	if held {
		s.lane().Free(s.turn.run)
	}
}

// close gives the slot back for good.
func (s *slot) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.release()
}
