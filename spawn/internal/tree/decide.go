package tree

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/offshoot-sdk/offshoot/internal/sat"
	"github.com/offshoot-sdk/offshoot/internal/text"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
)

// What a command may be refused with, beside a *policy.Refusal and an *InputError.
var (
	ErrNotFound = errors.New("spawn: not on record")
	ErrEnded    = errors.New("spawn: the run has ended")
	ErrStopping = errors.New("spawn: the session is being stopped")
	ErrStale    = errors.New("spawn: the turn is no longer under way")
	ErrBudget   = errors.New("spawn: the budget is exhausted")

	ErrNoConversation = errors.New("spawn: the session does not speak to people")
	ErrNotTopLevel    = errors.New("spawn: it is not a top-level session")
	ErrNothing        = errors.New("spawn: the conversation has nothing to compact")
	ErrTurnCancelled  = errors.New("spawn: the turn was cancelled")
	ErrMoved          = errors.New("spawn: the session has been reset meanwhile")
	ErrAnnouncing     = errors.New("spawn: the turn only announces what its run has come to")
)

// RuleSteer refuses steers that come too fast.
const RuleSteer policy.Rule = "steerPause"

// An InputError is a field of a command that cannot be accepted.
type InputError struct{ Field, Reason string }

func (e *InputError) Error() string { return fmt.Sprintf("spawn: %s: %s", e.Field, e.Reason) }

// Grant decides a Granted command without allocating one.
func (t *Tree) Grant(run session.Key, now int64) error {
	t.setNow(now)
	_, err := t.decideGranted(Granted{Run: run})
	t.settle()
	return err
}

// Decide decides one command at the time now, in Unix nanoseconds. It first checks the command and
// changes nothing if it refuses, except that it records the answer of a turn that was cut before,
// what a turn used beyond its reservation, and that the clock has gone back. Then it emits the
// facts that follow, each of which is applied at once. Last it settles every run that was touched.
// Take returns the facts and effects.
//
// The same tree, command and time give the same facts and effects. Decide returns an *InputError, a
// *policy.Refusal, a *KeyConflictError, or an error that is one of those above.
func (t *Tree) Decide(c Command, now int64) (Reply, error) {
	if _, open := c.(*Open); open {
		t.now = now // what the time of the last fact means is decided after the takeover
	} else {
		t.setNow(now)
	}
	c, err := t.checkCommand(c)
	if err != nil {
		return Reply{}, err
	}
	reply, err := t.decide(c)
	t.settle()
	return reply, err
}

func (t *Tree) decide(c Command) (Reply, error) {
	switch c := c.(type) {
	case *Open:
		return t.decideOpen(c)
	case *Spawn:
		return t.decideSpawn(c)
	case *Post:
		return t.decidePost(c)
	case Ensure:
		return t.decideEnsure(c)
	case SetRoute:
		return t.decideSetRoute(c)
	case *Bind:
		return t.decideBind(c)
	case *Unbind:
		return t.decideUnbind(c)
	case *UnbindDone:
		t.decideUnbindDone(c)
		return Reply{}, nil
	case Restart:
		return t.decideRestart(c)
	case Condense:
		return t.decideCondense(c)
	case *Steer:
		return t.decideSteer(c)
	case *SendOut:
		return t.decideSendOut(c)
	case InTurn:
		return t.decideInTurn(c)
	case Granted:
		return t.decideGranted(c)
	case *TurnDone:
		return t.decideTurnDone(c)
	case Take:
		return t.decideTake(c)
	case Reserve:
		return t.decideReserve(c)
	case Hold:
		return t.decideHold(c)
	case Reach:
		return t.decideReach(c)
	case KeepSkills:
		return t.decideKeepSkills(c)
	case Keep:
		return t.decideKeep(c)
	case CancelTurn:
		return t.decideCancelTurn(c)
	case *Stop:
		return t.decideStop(c)
	case *Settle:
		return t.decideSettle(c)
	case Ready:
		return t.decideReady(c)
	case Retry:
		return t.decideBlocked(c.Ord, Revived)
	case Dismiss:
		return t.decideBlocked(c.Ord, Dismissed)
	case *Discard:
		return t.decideDiscard(c)
	case *Revive:
		return t.decideRevive(c)
	case RestoreDone:
		return t.decideRestoreDone(c)
	case AnnounceRest:
		return t.decideAnnounceRest(c)
	case ArchiveDone, Abandon, DropDone:
		t.decideOver(c)
		return Reply{}, nil
	case Tick:
		return t.decideTick(c)
	case ShutDown, NotBegun, Leave:
		t.decideEnd(c)
		return Reply{}, nil
	case Compact:
		t.emit(snapshot(t.now))
		return Reply{}, nil
	}
	return Reply{}, errors.New("spawn: no decision knows this command")
}

func (t *Tree) decideTick(c Tick) (Reply, error) {
	t.rand = c.Rand
	t.tick()
	return Reply{}, nil
}

// decideOpen takes the tree over. The turns that were under way have ended with the process that
// ran them. A run becomes interrupted. The top-level session keeps its inputs and starts another
// turn, marked as a repeat. Then every session is settled, so that recovery is the same code as
// normal work.
//
// Entries of the outbox are delivered again. Completions move to the inbox if the present
// configuration has the top-level session run here.
func (t *Tree) decideOpen(c *Open) (Reply, error) {
	t.rand = c.Rand
	now, last := t.now, t.lastFact
	t.now = last // what follows is of the epoch before, in which no time has passed
	t.decideNotBegun(NotBegun{Turns: c.NotBegun})
	t.now = now
	t.emit(opened(t.now, t.epoch+1, c.Writer, c.SessionID))
	if c.Repair != "" && c.Repair != t.MarkOf(math.MaxUint32) {
		t.emit(repaired(t.now, c.Repair, max(t.epoch+1, c.RepairEpoch)))
	}
	t.setBackSince(last)
	t.root.walk(true, func(r *Run) {
		t.touch(r)
		r.asked, r.slot, r.cancelled, r.cascaded, r.archiving = false, false, false, false, false
		r.unbinding, r.restoring, r.takenBack = false, false, false
		if r.Open == nil {
			return
		}
		if r.IsRoot() && (r.TurnCancelled || r.Cause != NoCause) {
			t.emit(t.cut(r, Interrupted)) // it was to end, so it is not repeated
			return
		}
		f := turnEnded(t.now, r, Interrupted, nil, FlagCrashed, 0, nil)
		if r.Open.Step {
			f.Flags |= FlagStep
			t.emit(f) // the run has done its work
			return
		}
		if r.Open.Compact {
			f.Flags |= FlagCompact
		} else {
			t.giveUp(r, &f)
		}
		t.emit(f)
		if !r.IsRoot() && r.Cause == NoCause {
			t.emit(stopRequested(t.now, r, Crashed, "the process that ran its turn is gone", 0, 0))
		}
	})
	t.archiving, t.unbinding, t.deposits = 0, nil, nil
	for _, ord := range t.outbox.ords() {
		e := t.outbox.entries[ord]
		t.setFlying(e.queue, 0)
		t.setHung(e.queue, 0, "")
		switch {
		case e.Hook && !t.opt.Ends: // there is no hook any more
			t.emit(outboxFact(Dismissed, t.now, ord, 0, ""))
		case e.movesToInbox() && !t.opt.CallerRun:
			t.emit(outboxFact(Redirected, t.now, ord, 0, ""))
		}
	}
	return Reply{Run: t.root}, nil
}

// MaxAttempts is how often a turn of a top-level session may crash over an input. After that the
// input is taken to be what crashes the process.
const MaxAttempts = 3

// giveUp completes the crash f of the turn of r if it was the last attempt at some of the inputs.
// These are consumed, and people are told.
func (t *Tree) giveUp(r *Run, f *Fact) {
	if !r.IsRoot() || r.Open.Shutdown || len(r.Crashes) < MaxAttempts-1 {
		return
	}
	f.Flags |= FlagGivenUp
	f.Ord = r.Crashes[len(r.Crashes)-(MaxAttempts-1)]
	f.Elsewhere = r.asksElsewhere(r.Inbox, f.Ord)
	if t.opt.Apology == "" {
		return
	}
	f.Answer = &Result{Reply: t.opt.Apology}
	if t.opt.Replies {
		f.Flags |= FlagReply
		f.Route = r.Route
	}
}

// decideShutDown notes that the turns under way may not come back, because the owner shuts down.
func (t *Tree) decideShutDown() {
	if t.turns == 0 {
		return
	}
	t.Walk(func(r *Run) {
		if r.Open != nil && !r.Open.Shutdown {
			t.emit(shuttingDown(t.now, r))
		}
	})
}

// decideUntouched has a run whose turn did nothing before a shutdown ended it wait for another
// turn, and the inputs of a top-level session. A turn that has done something is not recorded: the
// next owner interrupts it. Nor is one that works for others than its inputs say, as after a wait:
// one that repeats it works for them, too.
func (t *Tree) decideUntouched(r *Run) {
	if r.Open.Shutdown && r.Cause == NoCause && !r.TurnCancelled &&
		r.canBeUntouched(r.Open) && (!r.IsRoot() || r.Retry || t.worksForInputs(r)) {
		f := turnEnded(t.now, r, Interrupted, nil, FlagUntouched, 0, nil)
		if r.Open.Step {
			f.Flags |= FlagStep
		}
		t.endTurn(r, f)
	}
}

// worksForInputs reports whether the turn of r under way works for those alone for whom its inputs
// count.
func (t *Tree) worksForInputs(r *Run) bool {
	of := t.addReaders(nil, r, r.Consumed, r.Open.Through)
	return slices.Equal(of, policy.MergeSenders(of, r.Senders()))
}

// canBeUntouched reports whether the turn open of r has done nothing that another turn would do
// again. One of a top-level session that compacts, or that has gone on to another request, counts
// as one that has: what it leaves is for the next owner.
func (r *Run) canBeUntouched(open *OpenTurn) bool {
	return !r.didWork && (!r.IsRoot() || !open.Compact && len(open.Shares) == 0)
}

// decideLeave notes which entries of the outbox no attempt can have delivered: those that have not
// been handed over, or for which the receiver has not been called, or was busy. The next owner
// knows then that its first attempt repeats nothing.
func (t *Tree) decideLeave(c Leave) {
	for _, ord := range t.outbox.ords() {
		e := t.outbox.entries[ord]
		handed := slices.Contains(e.queue.pending[:e.queue.flying], e)
		if e.Unsent || e.MayRepeat() || handed && !slices.Contains(c.Queued, ord) {
			continue
		}
		t.emit(outboxFact(Unsent, t.now, ord, 0, ""))
	}
}

// Check refuses what no requester can ask for, whatever the tree has on record.
func (c *Spawn) Check(l Limits) error {
	if err := l.checkSpawn(c); err != nil {
		return err
	}
	if err := c.checkText(); err != nil {
		return err
	}
	return c.checkThread()
}

// checkText refuses what the journal could not keep as it is.
func (c *Spawn) checkText() error {
	switch {
	case !utf8.ValidString(c.Key):
		return &InputError{"key", "it is not UTF-8: " + text.Quote(c.Key)}
	case !utf8.ValidString(c.Label):
		return &InputError{"label", "it is not UTF-8: " + text.Quote(c.Label)}
	case !utf8.ValidString(c.Origin):
		return &InputError{"origin", "it is not UTF-8: " + text.Quote(c.Origin)}
	}
	if fault := nameFault(c.Name); fault != "" {
		return &InputError{"name", fault}
	}
	if c.Update && c.Announce {
		return &InputError{"update", "it is for a run whose requester is not told"}
	}
	return checkRoute(c.Route)
}

// decideSpawn admits a run, or finds the run of a key that is known.
func (t *Tree) decideSpawn(c *Spawn) (Reply, error) {
	if err := c.Check(t.opt.Limits); err != nil {
		return Reply{}, err
	}
	parent := t.find(c.Parent)
	if parent == nil {
		return Reply{}, &policy.Refusal{
			Rule: policy.RuleCaller, Asked: c.Parent.String(),
			Limit: "a session on record", Path: "requester",
		}
	}
	if ref, ok := t.spawnedBy(c); ok {
		if err := c.conflict(ref); err != nil {
			return Reply{}, err
		}
		if !c.Again || c.Request.ByModel || !t.wasCutShort(ref) {
			return t.foundSpawn(parent, c, ref), nil
		}
	}
	switch {
	case parent.leaves():
		return Reply{}, archivedError("spawning from", c.Parent)
	case parent.State.Terminal():
		return Reply{}, fmt.Errorf("%w: spawning from %q", ErrEnded, c.Parent)
	case parent.Cause != NoCause:
		return Reply{}, fmt.Errorf("%w: spawning from %q", ErrStopping, c.Parent)
	case c.Turn > 0 && (parent.Open == nil || parent.Open.N != c.Turn):
		return Reply{}, fmt.Errorf("%w: spawning from turn %d of %q", ErrStale, c.Turn, c.Parent)
	case c.Turn > 0 && parent.TurnCancelled:
		return Reply{}, fmt.Errorf(
			"%w: spawning from turn %d of %q, which was cancelled", ErrStale, c.Turn, c.Parent)
	case c.Turn > 0 && parent.inStep():
		return Reply{}, announcing(parent)
	case c.Update && !parent.IsRoot():
		return Reply{}, &InputError{"update", "the requester is a sub-agent, which has no chat"}
	}
	ask := c.Request
	asker := t.newAsker(c.Answers)
	rules := t.rulesFor(asker)
	ask.ValidModel = t.validModel(asker)
	agent := cmp.Or(strings.TrimSpace(ask.Agent), rules.AgentOf(parent.Key()))
	key, bad := parent.Key().Child(agent, c.ID)
	ask.Child = key // zero for an agent that Admit refuses
	caller := t.policyCaller(parent, rules, t.sendersOf(parent, c))
	request := c.requestFor(parent)
	caller.Requested = int(t.requests.Of(request).byModel)
	caller.RequestBudget = remaining(t.rules.RequestBudget, t.chargedFor(parent, request))
	grant, err := rules.Admit(caller, ask)
	if open := asker.missing(); open != nil {
		return Reply{}, open
	}
	if err != nil {
		return Reply{}, err
	}
	if err := t.spawnForbidden(parent, c); err != nil {
		return Reply{}, err
	}
	if grant.Agent != agent {
		key, bad = parent.Key().Child(grant.Agent, c.ID)
	}
	switch {
	case bad != nil:
		return Reply{}, fmt.Errorf("spawn: the key of a run: %w", bad)
	case t.runs.Has(key), !c.Files && t.deposit(key) >= 0:
		return Reply{}, &InputError{"id", text.Quote(c.ID) + " is the id of another run"}
	}
	spec := t.newSpec(c, parent, key, grant)
	var rights *policy.Authority
	if asker != nil { // the answers are here, so that no function is asked when the run starts
		now := rightsUnder(rules, t.authorityUnder(rules, parent), spec)
		rights = &now
		if open := asker.missing(); open != nil {
			return Reply{}, open
		}
	}
	if t.opt.AskSpawns && !c.isAsked(t.rules) && !asker.ask(Question{Spawn: true, Key: key}) {
		return Reply{}, &QuestionsError{Questions: asker.open, Spec: spec, Rules: t.rules}
	}
	return t.admit(c, spec, rights)
}

// isAsked reports whether it is known that the run may be admitted that comes of certain rules.
func (c *Spawn) isAsked(rules *policy.Rules) bool {
	return c.Asked && (c.AskedOf == nil || c.AskedOf == rules)
}

// spawnForbidden returns why a spawn that policy admits is refused, or nil.
func (t *Tree) spawnForbidden(parent *Run, c *Spawn) error {
	if err := t.nameTaken(c); err != nil {
		return err
	}
	if what := t.turnForbiddenBy(parent, ""); what != "" {
		return &policy.Refusal{
			Rule: policy.RuleBudget, Asked: "another run",
			Limit: what + ", which is spent", Path: "Request.Budget",
		}
	}
	return nil
}

// admit records a run that may be admitted, with the conversation that is bound to it, or that
// files of it are put.
func (t *Tree) admit(c *Spawn, spec *Spec, rights *policy.Authority) (Reply, error) {
	switch {
	case c.Deposits:
		return t.beginDeposit(spec)
	case c.Dry:
		return Reply{}, nil
	case c.Files && !t.holdsDeposit(spec.Key):
		return Reply{}, fmt.Errorf("%w: spawning %q", ErrNoDeposit, spec.Key)
	}
	t.emit(admitted(spec))
	r := t.find(spec.Key)
	r.rights = rights
	if c.Bind != nil {
		t.emit(bound(t.now, r, c.Bind))
	}
	return Reply{Run: r, Ref: spec.Key, ID: c.ID}, nil
}

// newSpec returns the Spec of a child that policy has granted.
func (t *Tree) newSpec(c *Spawn, parent *Run, key session.Key, g policy.Grant) *Spec {
	digest := ""
	if c.Key != "" {
		digest = c.digest()
	}
	spec := Spec{
		ID: key.ID(), SessionID: key.ID(), Key: key, Parent: c.Parent,
		ByModel: c.Request.ByModel, Task: c.Task,
		Announce: c.Announce, Milestones: c.Milestones, Update: c.Update,
		Thread: c.Thread, Session: c.Session, Delete: c.Delete && !c.Session,
		Step:    g.Announce == policy.AnnounceTurn,
		Created: t.now,
		Grant: parent.sharedGrant(Grant{
			Agent: key.Agent(), Role: g.Role, Depth: g.Depth, MaxDepth: t.maxDepth(),
			Sandboxed: g.Sandboxed, Tools: g.Tools, Delegable: g.Delegable,
			Asked: c.Request.Model, Model: g.Model.Value, Thinking: g.Thinking.Value,
			Warnings: g.Warnings, Timeout: max(0, int64(g.Timeout.Value)),
			Budget: BudgetOf(g.Budget),
		}),
	}
	return spec.with(SpecMore{
		SpawnKey: c.Key, Digest: digest, Request: c.requestFor(parent),
		Label: text.Line(cmp.Or(c.Shown, c.Label)), // the digest has it as it was asked for
		Name:  c.Name, Extra: c.Extra, Senders: t.sendersOf(parent, c),
		Route: cmp.Or(c.Route, parent.Route, parent.ownRoute()),
	})
}

// decideGranted starts the turn that a run asked the lane for, or gives the slot back if the run no
// longer wants it.
func (t *Tree) decideGranted(c Granted) (Reply, error) {
	r := t.find(c.Run)
	if r == nil {
		return Reply{}, fmt.Errorf("%w: a slot for %q", ErrNotFound, c.Run)
	}
	r.asked = false
	t.touch(r)
	if t.startCompaction(r) {
		return Reply{Run: r}, nil
	}
	if t.startStep(r) {
		return Reply{Run: r}, nil
	}
	if !r.wantsTurn(t.now) || !r.IsRoot() && t.turnForbiddenBy(r, requestOf(r)) != "" {
		t.armTimer(r)
		t.addEffect(EffectFreeSlot, r, 0)
		return Reply{}, nil
	}
	r.slot = true
	var deadline int64
	if r.Started == 0 && r.Spec.Timeout > 0 {
		deadline = sat.Add(t.now, r.Spec.Timeout)
	}
	through := t.through(r, r.Consumed)
	var at *session.Route
	if t.endsWait(r, through) {
		at = r.Join.At
		t.endWait(r)
	}
	request, _, _ := t.nextRequest(r, r.Consumed, through, true)
	f := turnStarted(t.now, r, through, deadline, t.reserve(r, request))
	f.Route = at
	t.emit(f)
	t.addEffect(EffectStartTurn, r, 0)
	return Reply{Run: r}, nil
}

// decideTurnDone records what a turn returned. A turn that is no longer under way is refused, after
// its answer has been recorded as late.
func (t *Tree) decideTurnDone(c *TurnDone) (Reply, error) {
	t.rand = c.Rand
	r := t.find(c.Run)
	if r == nil {
		return Reply{}, fmt.Errorf("%w: a turn of %q", ErrNotFound, c.Run)
	}
	if r.Open == nil || r.Open.N != c.N {
		if c.Answer != nil && c.Answer.Text != "" {
			t.emit(late(t.now, r, c.N, c.Answer.Text))
		}
		return Reply{}, fmt.Errorf("%w: turn %d of %q", ErrStale, c.N, c.Run)
	}
	switch {
	case c.Untouched:
		t.decideUntouched(r)
		return Reply{Run: r}, nil
	case r.Open.Compact:
		t.endCompaction(r, c)
		return Reply{Run: r}, nil
	case r.Open.Step:
		t.endStep(r, c)
		return Reply{Run: r}, nil
	}
	var flags Flags
	state := OK
	switch {
	case r.TurnCancelled:
		state = Cancelled // whatever the Runner returned
	case c.Failed != "":
		state = Failed
	}
	if c.Silent {
		flags |= FlagSilent
	}
	if c.Skip {
		flags |= FlagSkip
	}
	if t.opt.Replies && r.Cause == NoCause && !r.TurnCancelled &&
		c.Answer != nil && c.Answer.Reply != "" && r.answersPeople(r.Inbox, r.Open.Through) {
		flags |= FlagReply
	}
	var join *Join
	if c.Yield != nil && r.Cause == NoCause && c.Failed == "" {
		if w := c.Yield.start(r, t); w.Left > 0 || t.missedEnd(r, c.Yield) {
			join = w
			if join.At = r.waitsAt(); r.IsRoot() {
				join.Senders = r.Senders()
			}
		}
	}
	f := turnEnded(t.now, r, state, c.Answer, flags, c.Pos, join)
	f.Elsewhere = r.asksElsewhere(r.Inbox, r.Open.Through)
	if flags&FlagReply != 0 {
		f.Route = r.Route
	}
	if (r.IsRoot() || flags&FlagReply != 0) && state != Cancelled {
		f.Text = Text(cmp.Or(c.Failed, c.Note))
	}
	t.endTurn(r, f)
	if c.Failed != "" && !r.IsRoot() && !r.TurnCancelled && r.Cause == NoCause {
		cause := RunnerFailed
		if c.Budget {
			cause = LimitReached
		}
		t.emit(stopRequested(t.now, r, cause, c.Failed, 0, 0))
	}
	return Reply{Run: r}, nil
}

// endTurn records that a turn is over and gives its slot back.
func (t *Tree) endTurn(r *Run, f Fact) {
	t.emit(f)
	if r.slot {
		r.slot = false
		t.addEffect(EffectFreeSlot, r, f.N)
	}
}

// runInTurn returns the session k if its turn n is under way, else an error that is ErrStale.
func (t *Tree) runInTurn(k session.Key, n uint32) (*Run, error) {
	r := t.find(k)
	if r == nil || r.Open == nil || r.Open.N != n {
		return nil, fmt.Errorf("%w: turn %d of %q", ErrStale, n, k)
	}
	return r, nil
}

// decideInTurn decides a command of a turn, unless the turn is over or ends.
func (t *Tree) decideInTurn(c InTurn) (Reply, error) {
	r, err := t.runInTurn(c.Run, c.N)
	switch {
	case err != nil:
		return Reply{}, err
	case r.TurnCancelled || r.Cause != NoCause:
		return Reply{}, fmt.Errorf("%w: turn %d of %q is to end", ErrStale, c.N, c.Run)
	}
	switch c.Cmd.(type) {
	case nil, Take, Hear:
	default:
		if r.Open.Step {
			return Reply{}, announcing(r)
		}
	}
	var target session.Key
	switch cmd := c.Cmd.(type) {
	case nil:
		return Reply{Run: r}, nil
	case Take:
		return t.decideTake(cmd)
	case Hear:
		return t.decideHear(r, cmd)
	case *Say:
		if r.Open.Compact {
			return Reply{}, fmt.Errorf("%w: turn %d of %q compacts", ErrStale, c.N, c.Run)
		}
		return t.decideSay(r, cmd)
	case *Report:
		return t.decideReport(r, cmd)
	case *SendOut:
		return t.decideSentInTurn(r, cmd)
	case *Steer:
		target = cmd.To
		cmd.Senders = policy.MergeSenders(r.Senders(), cmd.Senders)
	case *Stop:
		target = cmd.Run
	case *Post:
		target = cmd.To
		cmd.Senders = policy.MergeSenders(r.Senders(), cmd.Senders)
	default:
		return Reply{}, errors.New("spawn: a turn cannot give this command")
	}
	if below := t.find(target); below == nil || below == r || !below.Below(r) {
		return Reply{}, fmt.Errorf("%w: %q below %q", ErrNotFound, target, c.Run)
	}
	r.didWork = true // also where that is not a fact of r
	return t.decide(c.Cmd)
}

func (t *Tree) decideTake(c Take) (Reply, error) {
	r, err := t.runInTurn(c.Run, c.N)
	if err != nil || r.Open.Compact || r.Open.Step {
		return Reply{}, err
	}
	through := t.through(r, r.Open.Through)
	if through == r.Open.Through {
		return Reply{}, nil
	}
	var in []Input
	r.Unread(r.Open.Through, through, func(x Input) { in = append(in, x) })
	t.emit(taken(t.now, r, through))
	return Reply{Run: r, Inputs: in}, nil
}

func (t *Tree) decideCancelTurn(c CancelTurn) (Reply, error) {
	t.rand = c.Rand
	r := t.find(c.Run)
	if r == nil {
		return Reply{}, fmt.Errorf("%w: cancelling the turn of %q", ErrNotFound, c.Run)
	}
	t.cancelWaiting(r)
	if r.Open != nil && !r.TurnCancelled && r.Cause == NoCause {
		t.emit(turnCancelled(t.now, r, t.graceEnd()))
		r.cancelled = true
		t.addEffect(EffectCancelTurn, r, 0)
	}
	return Reply{Run: r}, nil
}

// cancelWaiting cancels the turn for which a top-level session waits for a slot. No Runner is
// called. What the turn was to read is set aside: it is not lost, and the next turn reads it. The
// session keeps its place in the lane, for a turn that it may want until then.
func (t *Tree) cancelWaiting(r *Run) {
	if r.Open == nil {
		t.answerAll(&r.wish().compact, ErrTurnCancelled)
	}
	if r.IsRoot() && r.asked && r.wantsTurn(t.now) {
		t.endWait(r)
		t.emit(setAside(t.now, r))
	}
}

// decideStop gives a run the cause Stopped to end. It has no effect on what has ended, has a cause
// already, or has nothing under way.
func (t *Tree) decideStop(c *Stop) (Reply, error) {
	t.rand = c.Rand
	r := t.find(c.Run)
	if r == nil {
		return Reply{}, fmt.Errorf("%w: stopping %q", ErrNotFound, c.Run)
	}
	if !r.isPresent(c.RunID) {
		return Reply{Run: r}, nil
	}
	t.cancelWaiting(r)
	t.answerAll(&r.wish().compact, ErrTurnCancelled)
	if r.State.Terminal() || r.Cause != NoCause || r.IsRoot() &&
		r.Open == nil && r.live == 0 && !r.hasCompletion() && !r.Retry {
		return Reply{Run: r}, nil
	}
	t.emit(stopRequested(t.now, r, Stopped, c.Reason, t.graceEnd(), 0))
	return Reply{Run: r}, nil
}
