package tree

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/offshoot-sdk/offshoot/internal/sat"
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
	t.lastFact = f.At
	switch f.Kind {
	case Opened:
		return t.applyOpened(f)
	case Admitted:
		return t.applyAdmitted(f)
	case Unarchived:
		return t.applyUnarchived(f)
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
	case Taken, TurnEnded, TurnCancelled, Reserved, ShuttingDown, SkillsTaken, Said, Reported:
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
// noted that it has not tried it.
func (t *Tree) applyOpened(f *Fact) error {
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
	if t.root.Spec.SessionID == "" {
		t.root.Spec.SessionID, t.root.Spec.Created = f.ID, f.At
		t.firstSession = f.ID
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
	t.outbox.addMark(f.ID)
	return nil
}

func (t *Tree) applyAdmitted(f *Fact) error {
	s := f.Spec
	parent := t.find(s.Parent)
	switch {
	case parent == nil:
		return &CorruptError{f.Kind, s.Key, "its requester is not in the tree"}
	case t.runs[s.Key] != nil:
		return &CorruptError{f.Kind, s.Key, "admitted twice"}
	}
	r := newRun(RunState{Spec: s, State: Queued, NextOrd: 1})
	r.nUser = 1
	parent.addChild(r)
	parent.live++
	parent.Spawned++
	parent.Active = f.At
	parent.didWork = true
	t.runs[s.Key] = r
	t.live++
	t.total++
	t.admitRequest(r)
	if s.SpawnKey != "" {
		t.spawned[keyOf(s)] = refOf(s)
	}
	t.touch(r)
	return nil
}

func (t *Tree) applyPosted(r *Run, f *Fact) error {
	if f.Ord != r.NextOrd+1 {
		return &CorruptError{f.Kind, f.Run, fmt.Sprintf("input %d after %d", f.Ord, r.NextOrd)}
	}
	r.NextOrd, r.Active = f.Ord, f.At
	r.Inbox = append(r.Inbox, Input{
		Ord: f.Ord, Class: f.Class, At: f.At, ID: f.ID, Text: f.Text, From: f.sender(),
		Route: f.Route, Mail: f.Mail, Thread: f.Flags&FlagThread != 0,
	})
	r.count(f.Class, 1)
	if f.Class == Control {
		r.recordSteer(f.From, f.At)
	}
	t.noteSent(f)
	if f.ID != "" {
		t.notePost(f, r.RunID())
	}
	return nil
}

// noteSent notes that the turn under way of a session has sent a message.
func (t *Tree) noteSent(f *Fact) {
	if from := t.find(f.sender()); from != nil {
		from.didWork = true
	}
}

// notePost has the id of a message recognised for a while, with the run that took it, and by the
// session of a bound conversation, too.
func (t *Tree) notePost(f *Fact, runID string) {
	until := sat.Add(f.At, int64(KeyWindow))
	t.posts[postKey{f.Run, f.ID}] = seenPost{until, runID}
	if f.Flags&FlagThread != 0 && f.From.IsValid() {
		t.posts[postKey{f.From, f.ID}] = seenPost{until: until}
	}
}

// sender returns the session that sent the message of f, if one did.
func (f *Fact) sender() session.Key {
	if f.Flags&FlagThread != 0 {
		return session.Key{}
	}
	return f.From
}

func (t *Tree) applyTurnStarted(r *Run, f *Fact) error {
	switch {
	case r.Open != nil || f.N != r.Turns+1:
		return &CorruptError{f.Kind, f.Run, fmt.Sprintf("turn %d after %d", f.N, r.Turns)}
	case f.Ord < r.Consumed || f.Ord > r.NextOrd:
		reason := fmt.Sprintf("it consumes up to %d of %d", f.Ord, r.NextOrd)
		return &CorruptError{f.Kind, f.Run, reason}
	}
	compact := f.Flags&FlagCompact != 0
	if compact && (!r.IsRoot() || f.Ord != r.Consumed) {
		return &CorruptError{f.Kind, f.Run, "it compacts and reads inputs, or is a sub-agent"}
	}
	if err := r.transition(Running); err != nil {
		return err
	}
	first := r.Consumed + 1
	r.Turns, r.Active = f.N, f.At
	r.open = OpenTurn{
		N: f.N, First: first, Through: f.Ord, Reserve: f.Budget, Started: f.At, Compact: compact,
	}
	r.Open = &r.open
	r.TurnCancelled, r.asked, r.cancelled = false, false, false
	r.startedIn, r.didWork = t.batches, false
	t.turns++
	addCharge(r, f.Budget)
	if compact {
		t.armTimer(r)
		return nil
	}
	t.applyRoute(r, f.Ord)
	t.readRequest(r, r.Consumed, f.Ord, true)
	t.chargeRequest(r, requestOf(r), f.Budget)
	if f.Ord > r.Consumed {
		r.Waits = 0
	}
	if r.IsRoot() {
		r.Milestones = 0
	}
	aside := r.asideOfRun(r.Inbox, f.Ord)
	r.consume(f.Ord)
	if r.Join != nil && r.Join.Ready(f.At) && !aside {
		r.woke, r.Join = r.Join, nil
	}
	if r.Started == 0 {
		r.Started, r.Deadline = f.At, f.Until
	}
	t.armTimer(r)
	return nil
}

// applyRoute sets where the answer to the inputs up to an ordinal goes: to the route of the last of
// them that has one. A completion has the route of the child's Spec.
func (t *Tree) applyRoute(r *Run, through uint32) {
	for i := range r.Inbox {
		in := &r.Inbox[i]
		if in.Ord > through {
			return
		}
		switch {
		case r.inThread() && in.Class == Completion: // the conversation that asked is answered
			if route := t.routeOf(in); route != nil {
				r.Route = route
			}
		case r.inThread() && !in.Thread: // the conversation is answered
		case in.Route != nil:
			r.Route = in.Route
		case in.Class == Completion:
			if route := t.routeOf(in); route != nil {
				r.Route = route
			}
		}
	}
}

// routeOf returns what the requester was answering when it asked for the run whose completion in
// is, or nil.
func (t *Tree) routeOf(in *Input) *session.Route {
	c := t.find(in.From)
	if c == nil {
		return nil
	}
	if of, ok := c.RunOf(in.RunID); ok && of.Begin != nil {
		return of.Begin.Route
	}
	return c.Spec.Route
}

// applySetAside takes the unread inputs off the counts, so that they start no turn. They stay in
// the inbox, for the next turn that something else starts.
func (r *Run) applySetAside(f *Fact) error {
	if !r.IsRoot() || r.Open != nil || f.Ord < max(r.Consumed, r.Aside) || f.Ord > r.NextOrd {
		return &CorruptError{f.Kind, f.Run, fmt.Sprintf("it sets aside up to %d", f.Ord)}
	}
	r.consume(f.Ord)
	r.Aside, r.Retry, r.Asked = f.Ord, false, nil
	if r.Join != nil && r.Join.Ready(f.At) {
		r.Join = nil
	}
	return nil
}

// consume takes the inputs up to an ordinal off the counts of unread inputs. They stay in the inbox
// until the turn has ended.
func (r *Run) consume(through uint32) {
	from := max(r.Consumed, r.Aside)
	if r.Open != nil && r.Open.Through > from && r.Open.Through < through {
		from = r.Open.Through
	}
	if from == 0 && r.Parent != nil {
		r.nUser--
	}
	for i := range r.Inbox {
		if in := &r.Inbox[i]; in.Ord > from && in.Ord <= through {
			r.count(in.Class, -1)
		}
	}
}

// setConsumed records that the inputs up to an ordinal have been read.
func (r *Run) setConsumed(through uint32) {
	if r.Consumed = through; r.Aside <= through {
		r.Aside = 0
	}
}

// applyTurn folds a fact about the turn under way, which Apply has checked to be turn N.
func (t *Tree) applyTurn(r *Run, f *Fact) error {
	switch f.Kind {
	case Taken:
		if f.Ord < r.Open.Through || f.Ord > r.NextOrd || r.Open.Compact {
			reason := fmt.Sprintf("it consumes up to %d of %d", f.Ord, r.NextOrd)
			return &CorruptError{f.Kind, f.Run, reason}
		}
		t.applyRoute(r, f.Ord)
		before := requestOf(r)
		if t.readRequest(r, r.Open.Through, f.Ord, false); requestOf(r) != before {
			r.Open.leave(before)
		}
		r.Waits = 0
		r.consume(f.Ord)
		r.Open.Through = f.Ord
	case TurnCancelled:
		r.TurnCancelled = true
		if r.Grace == 0 || f.Until < r.Grace {
			r.Grace = f.Until
		}
		t.armTimer(r)
	case Reserved:
		r.Open.Reserve = r.Open.Reserve.Add(f.Budget)
		t.charge(r, f.Budget)
	case ShuttingDown:
		r.Open.Shutdown = true
	case SkillsTaken:
		if r.Skills != nil {
			return &CorruptError{f.Kind, f.Run, "it has taken its skills before"}
		}
		r.Skills = f.Skills
	case Said:
		r.didWork = true
		return t.applySaid(r, f)
	case Reported:
		r.didWork = true
		return t.applyReported(r, f)
	case TurnEnded:
		switch compact := f.Flags&FlagCompact != 0; {
		case compact != r.Open.Compact:
			return &CorruptError{f.Kind, f.Run, "another sort of turn is under way"}
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
	open, inbox := r.Open, r.Inbox
	people, aside := r.answersPeople(inbox, open.Through), r.asideOfRun(inbox, open.Through)
	r.Open, r.Grace, r.Active = nil, 0, f.At
	delete(t.endedInTurn, r)
	delete(t.holds, r)
	delete(t.reached, r)
	t.turns--
	r.Retry = false
	read := f.read(open)
	if f.Flags&FlagAside != 0 &&
		(f.Flags&FlagCut == 0 || read < r.Consumed || read > open.Through) {
		return &CorruptError{f.Kind, f.Run, fmt.Sprintf("it sets aside what follows %d", read)}
	}
	next := Waiting
	switch {
	case f.Flags&FlagUntouched != 0:
		if r.IsRoot() || !open.Shutdown || r.Cause != NoCause || r.didWork {
			return &CorruptError{f.Kind, f.Run, "it is untouched, and has done something"}
		}
		next = t.applyUntouched(r, open)
	case f.Flags&FlagCrashed == 0:
		t.applyRead(r, open, f, read)
		t.chargeEnd(r, open, f)
	default:
		t.applyCrash(r, open, f)
	}
	r.recount()
	t.applyAnswer(r, f, aside)
	if people && t.speaks(r, f) {
		t.speak(r, f, r.asking(inbox, read))
	}
	if f.Join != nil {
		j := *f.Join
		r.Join = &j
		if j.ByModel {
			r.Waits++
		}
	}
	switch {
	case people:
		t.keepAsked(r, f, inbox, read)
	case !r.inThread():
		r.Asked = nil // r.Route may be that of something else from here on
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
	r.Crashes, r.woke = nil, nil
	t.dropInputs(r, read)
	r.setConsumed(read)
	if read < open.Through {
		r.Aside = open.Through
		if f.State == Interrupted && !open.Shutdown {
			r.Crashes = append(slices.Clip(crashes), open.Through)
		}
	}
	if read >= min(open.First, open.Through) { // a turn may have read nothing
		r.Said = nil
	}
}

// applyCrash folds the crash of a turn. That of a run is not repeated. That of a top-level session
// is, until inputs have had maxAttempts: then they are consumed. A turn that a shutdown interrupted
// was not an attempt.
func (t *Tree) applyCrash(r *Run, open *OpenTurn, f *Fact) {
	if !r.IsRoot() {
		return
	}
	r.Retry = true
	if !open.Shutdown {
		r.Crashes = append(slices.Clip(r.Crashes), open.Through)
	}
	if f.Flags&FlagGivenUp != 0 {
		t.dropInputs(r, f.Ord)
		r.setConsumed(max(r.Consumed, f.Ord))
		r.Crashes = slices.DeleteFunc(slices.Clone(r.Crashes), func(through uint32) bool {
			return through <= f.Ord
		})
		if r.Retry = open.Through > f.Ord; !r.Retry {
			r.Said = nil // what was said over the inputs that are left is not said again
		}
	}
}

// applyUntouched folds the end of a turn that a shutdown has ended before it did anything, and
// returns the state of its run. The next turn takes the place of the turn: that pays nothing, and
// if it was the first one, the time of the run begins with the next.
func (t *Tree) applyUntouched(r *Run, open *OpenTurn) State {
	r.Retry = true
	t.charge(r, Budget{}.Sub(open.Reserve))
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
		!a.WholeJSON.IsZero()
}

// dropInputs removes the inputs up to an ordinal from the inbox.
func (t *Tree) dropInputs(r *Run, through uint32) {
	n := 0
	for i := range r.Inbox {
		in := &r.Inbox[i]
		if in.Ord > through {
			break
		}
		t.releaseCompletion(in)
		n++
	}
	t.setInbox(r, r.Inbox[n:])
}

// releaseCompletion records that a completion no longer waits to be read, so that its run may be
// archived.
func (t *Tree) releaseCompletion(in *Input) {
	if in.Class != Completion {
		return
	}
	if c := t.find(in.From); c != nil {
		t.hold(c, in.RunID, -1)
	}
}

// setInbox sets the inbox to a copy of rest, which frees the memory of consumed inputs.
func (t *Tree) setInbox(r *Run, rest []Input) {
	if len(rest) == 0 {
		r.Inbox = nil
		return
	}
	r.Inbox = append([]Input(nil), rest...)
}

func (t *Tree) applyStopRequested(r *Run, f *Fact) error {
	if r.Cause != NoCause {
		return &CorruptError{f.Kind, f.Run, "it has a cause to end already: " + r.Cause.String()}
	}
	if err := r.transition(Stopping); err != nil {
		return err
	}
	r.Cause, r.Reason, r.Quiet = f.Cause, f.Text, f.Flags&FlagQuiet != 0
	if r.Open != nil && (r.Grace == 0 || f.Until < r.Grace) {
		r.Grace = f.Until // CancelTurn may have set an earlier time
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
	r.Ended, r.Nonce, r.Join, r.Grace = f.At, f.Num, nil, 0
	r.Waits, p.Waits = 0, 0
	t.noteEnd(p, r)
	p.live--
	t.live--
	r.Siblings = uint32(p.live)
	if p.Join != nil && p.Join.contains(r.Key(), r.runName()) {
		p.Join.Count(f.State)
	}
	if f.Answer != nil {
		asked, _ := r.unanswered()
		t.speak(r, f, asked)
	}
	r.Asked = nil
	t.forwardCompletions(r, f)
	if f.Flags&FlagTell != 0 {
		t.sendCompletion(r.Key(), r.runName(), f)
	}
	to := t.requester(r)
	if p.Asked != nil && !p.owesAnswer() && (p.IsRoot() || p.Cause == NoCause) {
		p.Asked = nil
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

// sendCompletion tells the requester of the run that f ends of the end of a run of child, which is
// that run or one below it: through the outbox with FlagOut, else in the inbox.
func (t *Tree) sendCompletion(child session.Key, run string, f *Fact) {
	to := t.requester(t.find(f.Run))
	if f.Flags&FlagOut != 0 {
		t.addEntry(&Entry{Run: child, RunID: run, To: to.Key(), Created: f.At, Due: f.At})
		t.holdCompletion(child, run)
		return
	}
	t.postCompletion(to, child, run, f.At)
}

// forwardCompletions empties the inbox of a run that ends. Unread completions move up to its
// requester, unless the run or its requester was stopped. Other unread inputs are lost.
func (t *Tree) forwardCompletions(r *Run, f *Fact) {
	for i := range r.Inbox {
		in := &r.Inbox[i]
		if in.Class != Completion {
			continue
		}
		if f.State == Cancelled || t.requester(r).Cause == Stopped {
			t.releaseCompletion(in)
			continue
		}
		t.sendCompletion(in.From, in.RunID, f)
		t.hold(t.find(in.From), in.RunID, -1) // it had been held by r
	}
	r.Inbox = nil
	r.recount()
}

// postCompletion adds the completion of a run of child to an inbox.
func (t *Tree) postCompletion(to *Run, child session.Key, run string, at int64) {
	to.NextOrd++
	to.Inbox = append(to.Inbox, Input{
		Ord: to.NextOrd, Class: Completion, At: at, From: child, RunID: run,
	})
	to.nComp++
	t.holdCompletion(child, run)
}

// holdCompletion records that the completion of a run of child waits to be read.
func (t *Tree) holdCompletion(child session.Key, run string) {
	if c := t.find(child); c != nil {
		t.hold(c, run, 1)
	}
}

// applyRecovered makes a stopped top-level session usable again. Its unread completions and
// milestones end with what was stopped; unread messages of people stay.
func (t *Tree) applyRecovered(r *Run) {
	r.State, r.Cause, r.Reason, r.Join, r.Grace = Waiting, NoCause, "", nil, 0
	r.Retry, r.Crashes, r.Waits, r.Asked = false, nil, 0, nil
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
	delete(t.runs, r.Key())
	delete(t.archiveRetries, r)
	r.gone = true
	t.left = append(t.left, r)
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
	case Dismissed:
		t.removeEntry(e)
	case Redirected:
		if e.Reply {
			reason := fmt.Sprintf("entry %d of the outbox is not a completion", f.Ord)
			return &CorruptError{f.Kind, t.root.Key(), reason}
		}
		t.removeEntry(e)
		t.postCompletion(t.root, e.Run, e.RunID, f.At)
		t.touch(t.root)
	case Deferred:
		t.changeEntry(e, func(e *Entry) {
			e.Due, e.Error, e.Busy = f.Until, f.Text, f.N > 0
			if e.Busy {
				return
			}
			e.Tries++
			e.queue.since = cmp.Or(e.queue.since, f.At)
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
			e.Blocked, e.Error, e.Due = f.At, f.Text, 0
		})
	case Revived:
		wasBlocked := e.Blocked > 0
		t.changeEntry(e, func(e *Entry) {
			e.Late = e.Late || wasBlocked
			e.Blocked, e.Due, e.Busy = 0, f.At, false
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
