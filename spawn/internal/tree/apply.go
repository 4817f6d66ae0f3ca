package tree

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/offshoot-sdk/offshoot/internal/few"
	"github.com/offshoot-sdk/offshoot/internal/sat"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
)

// A CorruptError is a fact that cannot have happened to the tree that it is applied to.
type CorruptError struct {
	Kind   Kind
	Run    session.Key
	Reason string
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("spawn: journal is corrupt: %v of %q: %s", e.Kind, e.Run, e.Reason)
}

// Apply folds one fact into the tree. It is the only writer of folded state. The tree keeps what
// the fact points to, so the caller must not change that; a Snapshot without an image is given one.
//
// Apply returns a *CorruptError or a *TransitionError for a fact that does not fit. The tree is not
// usable after that.
func (t *Tree) Apply(f *Fact) error {
	t.sinceSnapshot++
	t.textSince += textOf(f)
	last := t.lastFact
	t.lastFact = f.At
	switch f.Kind {
	case Opened:
		return t.applyOpened(f, last)
	case Admitted:
		return t.applyAdmitted(f)
	case ReviveBegun, Unarchived:
		return t.applyRevival(f)
	case DepositBegun:
		return t.applyDepositBegun(f)
	case DepositDropped:
		return t.applyDepositDropped(f)
	case Snapshot:
		return t.applySnapshot(f)
	case Delivered, Deferred, Blocked, Revived, Dismissed, Redirected, Unsent:
		return t.applyOutbox(f)
	case ClockSetBack:
		t.applyClockSetBack(f)
		return nil
	case Repaired:
		return t.applyRepaired(f)
	default: // the other facts happened to one session
	}
	r := t.find(f.Run)
	if r == nil {
		return &CorruptError{f.Kind, f.Run, "no such session in the tree"}
	}
	t.touch(r)
	switch f.Kind {
	case Posted:
		return t.applyPosted(r, f)
	case Restarted:
		return t.applyRestarted(r, f)
	case TurnStarted:
		return t.applyTurnStarted(r, f)
	case Taken, TurnEnded, TurnCancelled, Reserved, ShuttingDown, SkillsTaken, Said, Reported,
		Kept, Heard:
		if r.Open == nil || r.Open.N != f.N {
			return &CorruptError{f.Kind, f.Run, fmt.Sprintf("turn %d is not under way", f.N)}
		}
		return t.applyTurn(r, f)
	case StopRequested:
		return t.applyStopRequested(r, f)
	case RunEnded:
		return t.applyRunEnded(r, f)
	case Recovered:
		t.applyRecovered(r)
	case ArchiveBegun:
		return t.applyArchiveBegun(r, f)
	case Archived:
		return t.applyArchived(r, f)
	case Discarded:
		return t.applyDiscarded(r, f)
	case SetAside:
		return r.applySetAside(f)
	case RouteSet:
		r.Route = f.Route
		r.setHome(nil)
	case Reset:
		return t.applyReset(r, f)
	case PutAway:
		return t.applyPutAway(r, f)
	case AnnounceSet:
		return t.applyAnnounceSet(r, f)
	case Bound:
		return t.applyBound(r, f)
	case Unbound:
		return t.applyUnbound(r, f)
	case Sent:
		return t.applySent(r, f)
	case Late:
	default:
		return &CorruptError{f.Kind, f.Run, "unknown kind of fact"}
	}
	return nil
}

// transition moves r to a state that the transition table allows.
func (r *Run) transition(s State) error {
	if !transitions[r.State].has(s) {
		return &TransitionError{Run: r.Key().String(), From: r.State, To: s}
	}
	r.State = s
	return nil
}

// applyOpened folds a takeover. What is in the outbox may have arrived, unless the owner before has
// noted that it has not tried it. The fact before was at the time last.
func (t *Tree) applyOpened(f *Fact, last int64) error {
	if f.Num <= t.epoch {
		return &CorruptError{f.Kind, t.root.Key(), fmt.Sprintf("epoch %d after %d", f.Num, t.epoch)}
	}
	t.epoch = f.Num
	for _, e := range t.outbox.entries {
		if !e.Unsent {
			e.mayRepeat = true
		}
		e.Unsent = false
	}
	t.outbox.skip(last, f.At)
	if t.root.Spec.SessionID == "" {
		t.root.Spec.SessionID, t.root.Spec.Created = f.ID(), f.At
		t.firstSession = f.ID()
	}
	return nil
}

// applyRepaired raises the epoch above every one that may have been lost, and marks what is added
// to the outbox from here on.
func (t *Tree) applyRepaired(f *Fact) error {
	if f.Num <= t.epoch {
		return &CorruptError{f.Kind, t.root.Key(), fmt.Sprintf("epoch %d after %d", f.Num, t.epoch)}
	}
	t.epoch = f.Num
	t.outbox.addMark(f.ID())
	return nil
}

func (t *Tree) applyAdmitted(f *Fact) error {
	s := f.Spec
	parent := t.find(s.Parent)
	switch {
	case parent == nil:
		return &CorruptError{f.Kind, s.Key, "its requester is not in the tree"}
	case t.runs.Has(s.Key):
		return &CorruptError{f.Kind, s.Key, "admitted twice"}
	}
	r := &Run{
		key: s.Key, Spec: s, State: Queued, NextOrd: 1, nUser: 1,
		spent: &noSpent, rare: &noRare, talk: &noTalk,
	}
	parent.addChild(r)
	parent.live++
	parent.Spawned++
	parent.Active = f.At
	parent.didWork = true
	t.runs.Set(s.Key, r)
	t.live++
	t.total++
	t.admitRequest(r)
	if s.SpawnKey() != "" {
		few.Put(&t.spawned, keyOf(s), refOf(s))
	}
	t.giveName(r)
	t.endDeposit(s.Key)
	t.touch(r)
	return nil
}

func (t *Tree) applyTurnStarted(r *Run, f *Fact) error {
	switch {
	case r.Open != nil || f.N != r.Turns+1:
		return &CorruptError{f.Kind, f.Run, fmt.Sprintf("turn %d after %d", f.N, r.Turns)}
	case f.Ord < r.Consumed || f.Ord > r.NextOrd:
		reason := fmt.Sprintf("it consumes up to %d of %d", f.Ord, r.NextOrd)
		return &CorruptError{f.Kind, f.Run, reason}
	}
	compact, step := f.Flags&FlagCompact != 0, f.Flags&FlagStep != 0
	if compact && (!r.IsRoot() || f.Ord != r.Consumed) {
		return &CorruptError{f.Kind, f.Run, "it compacts and reads inputs, or is a sub-agent"}
	}
	if step {
		if fault := t.checkStep(r, f); fault != "" {
			return &CorruptError{f.Kind, f.Run, fault}
		}
	}
	if err := r.transition(Running); err != nil {
		return err
	}
	first := r.Consumed + 1
	r.Turns, r.Active = f.N, f.At
	r.Open = t.work().spareTurns.Take()
	*r.Open = OpenTurn{
		N: f.N, First: first, Through: f.Ord, Reserve: f.Budget(), Started: f.At, Compact: compact,
		Empty: f.Ord < first && !compact && !step, startedIn: t.batches,
	}
	r.TurnCancelled, r.asked, r.cancelled = false, false, false
	r.didWork, r.tidied = false, false
	t.turns++
	addCharge(r, f.Budget())
	if compact {
		t.armTimer(r)
		return nil
	}
	if step {
		t.applyStepStarted(r, f)
		return nil
	}
	r.setAnnounced(nil)
	wait := r.endedWait(f)
	t.applyRoute(r, f.Ord)
	if f.Route != nil {
		if wait == nil {
			return &CorruptError{f.Kind, f.Run, "it ends a wait of a place, and there is none"}
		}
		r.answerWait(f.Route)
		r.Open.Wait = wait
	}
	t.readRequest(r, r.Consumed, f.Ord, true)
	t.readSenders(r, r.Consumed, f.Ord, true, wait)
	t.chargeRequest(r, requestOf(r), f.Budget())
	if f.Ord > r.Consumed {
		r.Waits = 0
	}
	if r.IsRoot() {
		r.setMilestones(0)
	}
	r.consume(f.Ord)
	switch j := r.Join; {
	case wait != nil:
		r.setWoke(wait)
		r.Join = nil
	case j != nil && j.At != nil && j.Ready(f.At):
		passed := *j
		passed.Passed = true
		r.Join = &passed
	}
	if r.Started == 0 {
		r.Started, r.Deadline = f.At, f.Until
	}
	t.armTimer(r)
	return nil
}

// applyTurn folds a fact about the turn under way, which Apply has checked to be turn N.
func (t *Tree) applyTurn(r *Run, f *Fact) error {
	switch f.Kind {
	case Taken:
		if f.Ord < r.Open.Through || f.Ord > r.NextOrd || r.Open.Compact || r.Open.Step {
			reason := fmt.Sprintf("it consumes up to %d of %d", f.Ord, r.NextOrd)
			return &CorruptError{f.Kind, f.Run, reason}
		}
		t.applyRoute(r, f.Ord)
		before := requestOf(r)
		if t.readRequest(r, r.Open.Through, f.Ord, false); requestOf(r) != before {
			r.Open.leave(before)
		}
		t.readSenders(r, r.Open.Through, f.Ord, false, nil)
		r.Waits = 0
		r.consume(f.Ord)
		r.Open.Through = f.Ord
	case TurnCancelled:
		r.TurnCancelled = true
		if r.Grace == 0 || f.Until < r.Grace {
			r.setGrace(f.Until)
		}
		t.armTimer(r)
	case Reserved:
		r.Open.Reserve = r.Open.Reserve.Add(f.Budget())
		t.charge(r, f.Budget())
	case ShuttingDown:
		r.Open.Shutdown = true
	case SkillsTaken:
		if r.Skills != nil {
			return &CorruptError{f.Kind, f.Run, "it has taken its skills before"}
		}
		r.Skills = f.Skills()
	case Said:
		r.didWork = true
		return t.applySaid(r, f)
	case Reported:
		r.didWork = true
		return t.applyReported(r, f)
	case Kept:
		r.didWork = true
		r.setKept(f.Text)
	case Heard:
		r.didWork = r.didWork || r.IsRoot() // what repeats the turn is bound as it was
		r.setSenders(policy.MergeSenders(r.Senders(), f.Senders()))
	case TurnEnded:
		compact, step := f.Flags&FlagCompact != 0, f.Flags&FlagStep != 0
		switch {
		case compact != r.Open.Compact || step != r.Open.Step:
			return &CorruptError{f.Kind, f.Run, "another sort of turn is under way"}
		case step:
			return t.applyStepEnded(r, f)
		case compact:
			return t.applyCompacted(r, f)
		}
		return t.applyTurnEnded(r, f)
	default: // Apply sends no others here
	}
	return nil
}

// applyTurnEnded folds the end of a turn. A turn that crashed has consumed nothing.
func (t *Tree) applyTurnEnded(r *Run, f *Fact) error {
	if f.Elsewhere && !r.IsRoot() {
		return &CorruptError{f.Kind, f.Run, "it answers one place, and so does every sub-agent"}
	}
	open, inbox := r.Open, r.Inbox
	people, aside := r.answersPeople(inbox, open.Through), r.asideOfRun(inbox, open.Through)
	r.Open, r.Active = nil, f.At
	r.setGrace(0)
	t.work().spareTurns.Keep(open)
	delete(t.endedInTurn, r)
	delete(t.holds, r)
	delete(t.reached, r)
	t.turns--
	owed := r.Retry
	r.Retry = false
	read := f.read(open)
	if f.Flags&FlagAside != 0 &&
		(f.Flags&FlagCut == 0 || read < r.Consumed || read > open.Through) {
		return &CorruptError{f.Kind, f.Run, fmt.Sprintf("it sets aside what follows %d", read)}
	}
	next := Waiting
	switch {
	case f.Flags&FlagUntouched != 0:
		if !open.Shutdown || r.Cause != NoCause || !r.canBeUntouched(open) {
			return &CorruptError{f.Kind, f.Run, "it is untouched, and has done something"}
		}
		next = t.applyUntouched(r, open, owed)
	case f.Flags&FlagCrashed == 0:
		t.applyRead(r, open, f, read)
		t.chargeEnd(r, open, f)
	default:
		t.applyCrash(r, open, f)
	}
	r.recount()
	t.applyAnswer(r, f, aside)
	if people && t.speaks(r, f) {
		t.speak(r, f, r.asking(inbox, read, r.audience(inbox, read, f.Elsewhere)))
	}
	if f.Join() != nil {
		j := *f.Join()
		r.forgetWait()
		if r.IsRoot() && len(j.Senders) == 0 { // an earlier library did not record them
			j.Senders = r.Senders()
		}
		r.Join = &j
		if j.ByModel {
			r.Waits++
		}
	}
	switch {
	case people:
		t.keepAsked(r, f, inbox, read)
	case !r.inThread() && !r.waitsForPeople():
		r.setAsked(nil) // r.Route may be that of something else from here on
	}
	if r.State == Running {
		if err := r.transition(next); err != nil {
			return err
		}
	}
	t.armTimer(r)
	return nil
}

// applyRead folds that a turn has consumed the inputs up to read. What follows is set aside. The
// turn that reads it repeats the one that is over, if that has read nothing.
func (t *Tree) applyRead(r *Run, open *OpenTurn, f *Fact, read uint32) {
	crashes := r.Crashes
	r.setCrashes(nil)
	r.setWoke(nil)
	t.dropInputs(r, read)
	r.setConsumed(read)
	if read < open.Through {
		r.Aside = open.Through
		if f.State == Interrupted && !open.Shutdown {
			r.setCrashes(append(slices.Clip(crashes), open.Through))
		}
	}
	r.forgetSaid(open, read, read < min(open.First, open.Through))
}

// applyCrash folds the crash of a turn. That of a run is not repeated. That of a top-level session
// is, until inputs have had MaxAttempts: then they are consumed. A turn that a shutdown interrupted
// was not an attempt.
func (t *Tree) applyCrash(r *Run, open *OpenTurn, f *Fact) {
	if !r.IsRoot() {
		return
	}
	r.Retry = true
	if !open.Shutdown {
		r.setCrashes(append(slices.Clip(r.Crashes), open.Through))
	}
	if f.Flags&FlagGivenUp == 0 {
		r.waitAgain(open)
	} else {
		t.dropInputs(r, f.Ord)
		r.setConsumed(max(r.Consumed, f.Ord))
		r.setCrashes(slices.DeleteFunc(slices.Clone(r.Crashes), func(through uint32) bool {
			return through <= f.Ord
		}))
		r.Retry = open.Through > f.Ord
		r.forgetSaid(open, min(f.Ord, open.Through), r.Retry)
	}
}

// applyUntouched folds the end of a turn that a shutdown has ended before it did anything, and
// returns the state of its run. The next turn takes the place of the turn: that pays nothing, and
// if it was the first one, the time of the run begins with the next. A turn of a top-level session
// that comes of its inputs repeats nothing, unless one before it has crashed, which is owed.
func (t *Tree) applyUntouched(r *Run, open *OpenTurn, owed bool) State {
	t.charge(r, Budget{}.Sub(open.Reserve))
	r.waitAgain(open)
	if r.IsRoot() {
		r.recount() // a wait that is over has no input; an earlier library did not keep it
		r.Retry = owed || r.Join == nil && r.nUser+r.nComp+r.nRepair == 0
		return Waiting
	}
	r.Retry = true
	if r.Consumed >= r.firstOrd() {
		return Waiting
	}
	r.Started, r.Deadline = 0, 0
	return Queued
}

// applyAnswer folds what a turn returned: its usage, and its answer unless that is aside of the
// run.
func (t *Tree) applyAnswer(r *Run, f *Fact, aside bool) {
	a := f.Answer
	if f.Num > r.Pos {
		r.Pos = f.Num
	}
	if a != nil {
		r.recordUsage(a, f.At)
		if aside {
			return
		}
		silent := f.Flags&FlagSilent != 0
		// A later turn that stays silent does not withdraw an earlier answer, unless it says so.
		if !silent || f.Flags&FlagSkip != 0 || r.Answer == nil || r.Answer.Text == "" {
			if r.Answer == nil || silent || a.answers() {
				r.Answer, r.Silent = a, silent
			}
		}
	}
}

// answers reports whether a result holds anything to announce.
func (a *Result) answers() bool {
	return a.Text != "" || a.JSON != "" || len(a.Files) > 0 || a.Fallback != "" ||
		!a.WholeJSON().IsZero()
}

func (t *Tree) applyStopRequested(r *Run, f *Fact) error {
	if r.Cause != NoCause {
		return &CorruptError{f.Kind, f.Run, "it has a cause to end already: " + r.Cause.String()}
	}
	if err := r.transition(Stopping); err != nil {
		return err
	}
	r.Cause, r.Quiet = f.Cause, f.Flags&FlagQuiet != 0
	if r.Parent != nil {
		r.Parent.stopping++
	}
	r.setReason(f.Text)
	if r.Open != nil && (r.Grace == 0 || f.Until < r.Grace) {
		r.setGrace(f.Until) // CancelTurn may have set an earlier time
	}
	t.armTimer(r)
	return nil
}

func (t *Tree) applyRunEnded(r *Run, f *Fact) error {
	switch {
	case r.IsRoot():
		return &CorruptError{f.Kind, f.Run, "a top-level session has no end"}
	case r.Open != nil || r.live > 0:
		return &CorruptError{f.Kind, f.Run, "it has a turn or a descendant that is alive"}
	}
	if err := r.transition(f.State); err != nil {
		return err
	}
	p := r.Parent
	r.Ended, r.Nonce, r.Join, r.hastened = f.At, f.Num, nil, false
	r.setGrace(0)
	r.Waits, p.Waits = 0, 0
	t.noteEnd(p, r)
	p.live--
	if r.Cause != NoCause {
		p.stopping--
	}
	t.live--
	r.Siblings = uint32(p.live)
	if p.Join != nil && p.Join.contains(r.Key(), r.runName()) {
		p.Join.Count(f.State)
	}
	if f.Answer != nil {
		if err := t.speakLast(r, f); err != nil {
			return err
		}
	}
	r.setAsked(nil)
	t.forwardCompletions(r, f)
	if f.Flags&FlagTell != 0 {
		t.sendCompletion(r.Key(), r.runName(), f)
	}
	if f.N > 0 {
		t.update(r, f)
	}
	if f.Flags&FlagHook != 0 {
		t.tellHook(r, f)
	}
	to := t.requester(r)
	if p.Asked != nil && !p.owesAnswer() && (p.IsRoot() || p.Cause == NoCause) {
		p.setAsked(nil)
	}
	t.armTimer(r)
	t.touch(p)
	t.touch(to)
	for c := r.firstChild; c != nil; c = c.nextSibling {
		if len(c.Bound) > 0 {
			t.touch(c) // it is closed
		}
	}
	return nil
}

// applyRecovered makes a stopped top-level session usable again. Its unread completions and
// milestones end with what was stopped; unread messages of people stay.
func (t *Tree) applyRecovered(r *Run) {
	r.State, r.Cause, r.Join = Waiting, NoCause, nil
	r.Retry, r.Waits = false, 0
	r.setGrace(0)
	r.setReason("")
	r.setCrashes(nil)
	r.setAsked(nil)
	r.cascaded, r.cancelled = false, false
	rest := r.Inbox[:0:0]
	for i := range r.Inbox {
		in := &r.Inbox[i]
		if in.Class == Completion && in.Ord > r.Consumed {
			t.releaseCompletion(in)
			continue
		}
		if in.Class == Milestone && in.Ord > r.Consumed {
			continue
		}
		rest = append(rest, *in)
	}
	t.setInbox(r, rest)
	r.recount()
}

func (t *Tree) applyArchived(r *Run, f *Fact) error {
	if !r.State.Terminal() || r.firstChild != nil {
		return &CorruptError{f.Kind, f.Run, "it is alive, or has children"}
	}
	if r.archiving {
		r.archiving = false
		t.archiving--
	}
	t.dropMilestone(r.Parent, r.Key())
	r.Parent.removeChild(r)
	r.Parent.inheritUsage(r)
	t.leaveRequest(r)
	t.runs.Delete(r.Key())
	t.dropName(r)
	delete(t.archiveRetries, r)
	r.gone = true
	w := t.work()
	w.left = append(w.left, r)
	if t.lastFound == r {
		t.lastFound = nil
	}
	t.keepOutcome(r, f.At)
	t.touch(r.Parent)
	t.armTimer(r.Parent)
	return nil
}

func (t *Tree) applyOutbox(f *Fact) error {
	e := t.outbox.entries[f.Ord]
	if e == nil {
		return &CorruptError{f.Kind, t.root.Key(), fmt.Sprintf("no entry %d in the outbox", f.Ord)}
	}
	switch f.Kind {
	case Delivered:
		e.queue.since = 0
		t.removeEntry(e)
		t.recycleEntry(e)
	case Dismissed:
		t.removeEntry(e)
	case Redirected:
		if !e.movesToInbox() {
			reason := fmt.Sprintf("entry %d of the outbox is not a completion", f.Ord)
			return &CorruptError{f.Kind, t.root.Key(), reason}
		}
		if e.Event {
			t.takeBack(e, f.At)
		} else { // before the entry lets go of the run, which nothing else may name
			t.postCompletion(t.root, e.Run, e.RunID, f.At)
		}
		t.removeEntry(e)
		t.touch(t.root)
	case Deferred:
		t.changeEntry(e, func(e *Entry) {
			e.Due, e.Error, e.Busy, e.Wait = f.Until, f.Text, f.N&DeferredBusy != 0, 0
			if f.N&DeferredAsked != 0 {
				e.Wait = max(f.Until-f.At, 0)
			}
			if e.Busy {
				return
			}
			e.Tries++
			e.queue.since = sat.Add(cmp.Or(e.queue.since, f.At), e.Wait)
		})
	case Blocked:
		if e.Blocked == 0 {
			t.takeOut(e)
		}
		t.touch(t.find(e.Run)) // see dismissBlocked
		t.changeEntry(e, func(e *Entry) {
			if f.N == 0 {
				e.Tries++
			}
			e.Blocked, e.Error, e.Due, e.Wait = f.At, f.Text, 0, 0
		})
	case Revived:
		wasBlocked := e.Blocked > 0
		t.changeEntry(e, func(e *Entry) {
			e.Late = e.Late || wasBlocked
			e.Blocked, e.Due, e.Busy, e.Wait = 0, f.At, false, 0
		})
		if wasBlocked {
			t.putBack(e)
		}
	case Unsent:
		e.Unsent = true
	default: // Apply sends no others here
	}
	return nil
}
