package tree

import (
	"maps"
	"slices"
)

// settle brings every touched run to where the rules want it: it asks for a slot for what wants a
// turn, cancels what must go, ends what is done, and delivers what is due. What it emits touches
// further runs, and settle goes on until none is left. Effects follow from the state of a run and
// not from what was done to it, so that none can be forgotten.
func (t *Tree) settle() {
	for w := t.work(); len(w.touched)+len(w.dueQueues) > 0; {
		t.settleTouched()
	}
}

// settleTouched settles the runs and the destinations that were touched. A destination may touch
// further runs.
func (t *Tree) settleTouched() {
	w := t.work()
	for i := 0; i < len(w.touched); i++ {
		r := w.touched[i]
		r.touched = false
		if !r.gone {
			t.settleRun(r)
		}
	}
	clear(w.touched)
	w.touched = w.touched[:0]
	for i := 0; i < len(w.dueQueues); i++ {
		q := w.dueQueues[i]
		q.marked = false
		t.settleQueue(q)
	}
	clear(w.dueQueues)
	w.dueQueues = w.dueQueues[:0]
}

// settleRun emits the next facts of one run and adds its effects.
func (t *Tree) settleRun(r *Run) {
	t.settleBound(r)
	switch {
	case r.State.Terminal():
		t.settleEnded(r)
		return
	case r.Open != nil && r.Grace > 0 && r.Grace <= t.now:
		t.cutTurn(r)
	case t.outOfTime(r):
		t.emit(stopRequested(t.now, r, Timeout, "its time is up", t.graceEnd(), 0))
	}
	t.settleStep(r)
	t.settleFormer(r)
	if r.IsRoot() {
		t.settleDeposits()
	}
	switch {
	case r.Cause != NoCause:
		t.settleStopping(r)
	case r.Open != nil:
	case t.settleRestart(r):
	case r.wantsTurn(t.now):
		t.askSlot(r)
	case r.Join == nil && r.live == 0 && r.Turns > 0 && !r.IsRoot():
		t.settleDone(r)
	}
}

// wantsTurn reports whether r has inputs that start a turn, or is owed one that crashed. The task
// and messages of people always start one. A completion does unless r waits for a join that is not
// ready. A steer does only while r waits for a join, and a repair always does.
func (r *Run) wantsTurn(now int64) bool {
	return r.owesTurn(now) || r.wantsCompaction()
}

// wantsCompaction reports whether callers wait for a turn that compacts, and none is under way.
func (r *Run) wantsCompaction() bool {
	return r.wishes != nil && len(r.wishes.compact) > 0 && r.Open == nil && r.Cause == NoCause
}

// owesTurn is wantsTurn without what callers of this process wait for: that ends with the process,
// and the next owner has nothing to do for it.
func (r *Run) owesTurn(now int64) bool {
	switch {
	case r.State.Terminal() || r.Cause != NoCause || r.Open != nil:
		return false
	case r.Retry:
		return true
	case r.Join != nil:
		return r.nUser > 0 || r.nControl > 0 || r.Join.Ready(now)
	}
	return r.nUser > 0 || r.nComp > 0 || r.nRepair > 0
}

// askSlot asks the lane for a slot for the next turn of r, once. A top-level session that waits for
// a slot asks again when a person has written, because such a turn comes sooner. A run whose budget
// is exhausted is stopped instead; a top-level session gets its turn, so that it can say so.
func (t *Tree) askSlot(r *Run) {
	if what := t.turnForbiddenBy(r, requestOf(r)); what != "" && !r.IsRoot() {
		t.emit(stopRequested(t.now, r, LimitReached, what+" is exhausted", 0, 0))
		return
	}
	t.askLane(r)
}

// askLane asks the lane for a slot for r, unless it has been asked.
func (t *Tree) askLane(r *Run) {
	if !r.asked || r.IsRoot() && r.ForPeople() && !r.askedForPeople {
		r.asked, r.askedForPeople = true, r.ForPeople()
		t.addEffect(EffectAskSlot, r, 0)
	}
}

// cutTurn ends a turn that has not come back in its grace period, and gives its slot back.
func (t *Tree) cutTurn(r *Run) {
	t.endTurn(r, t.cut(r, Cancelled))
	t.answerAll(&r.wish().compacting, ErrTurnCancelled)
}

// decideEnd notes what the owner knows at its end.
func (t *Tree) decideEnd(c Command) {
	switch c := c.(type) {
	case ShutDown:
		t.decideShutDown()
	case NotBegun:
		t.decideNotBegun(c)
	case Leave:
		t.decideLeave(c)
	}
}

// decideNotBegun notes which turns have not begun. They end as those do that a shutdown comes
// before: a run is queued again, and a message has not had an attempt.
func (t *Tree) decideNotBegun(c NotBegun) {
	for _, turn := range c.Cut {
		if r, err := t.runInTurn(turn.Run, turn.N); err == nil && !r.Open.Shutdown {
			t.emit(shuttingDown(t.now, r))
		}
	}
	for _, turn := range c.Turns {
		r, err := t.runInTurn(turn.Run, turn.N)
		if err != nil {
			continue
		}
		if !r.Open.Shutdown {
			t.emit(shuttingDown(t.now, r))
		}
		t.decideUntouched(r)
	}
}

// reach is how far the transcript of a turn under way is a complete conversation, and the last
// input in it. It is not a fact: the turn says it again and again, and a crash ends what it says.
type reach struct {
	pos     uint64
	through uint32
}

// decideReach notes what the turn under way has reached. Of two commands the one that says more
// counts, in whatever order they come.
func (t *Tree) decideReach(c Reach) (Reply, error) {
	r, err := t.runInTurn(c.Run, c.N)
	if err != nil {
		return Reply{}, err
	}
	if t.reached == nil {
		t.reached = make(map[*Run]reach)
	}
	if c.Pos >= t.reached[r].pos {
		t.reached[r] = reach{c.Pos, c.Through}
	}
	return Reply{Run: r}, nil
}

// cut returns the end of a turn of r that is no longer waited for. What the turn has reached stays.
// The inputs that are not in there are not consumed: no later turn would be shown them.
func (t *Tree) cut(r *Run, s State) Fact {
	f := turnEnded(t.now, r, s, nil, FlagCut, 0, nil)
	if r.Open.Compact {
		f.Flags |= FlagCompact
		return f
	}
	reached := t.reached[r]
	if reached.pos > r.Pos {
		f.Num = reached.pos
	}
	if r.Open.Step {
		f.Flags |= FlagStep
		return f
	}
	if read := max(reached.through, r.Consumed); read < r.Open.Through {
		f.Flags |= FlagAside
		f.Ord = read
	}
	f.Elsewhere = r.asksElsewhere(r.Inbox, f.read(r.Open))
	return f
}

// settleStopping takes a run that has a cause to end one step further, from the bottom up: it stops
// the children, cancels the turn, waits for both, and then ends the run. A top-level session
// recovers instead of ending.
func (t *Tree) settleStopping(r *Run) {
	if !r.cascaded {
		r.cascaded = true
		for c := r.firstChild; c != nil; c = c.nextSibling {
			if c.State.Terminal() {
				continue
			}
			t.touch(c)
			if c.Cause == NoCause {
				reason := "its requester ended: " + r.Cause.String()
				if r.Quiet && r.Reason == crashedAbove {
					reason = crashedAbove // of what a crash has cut short, all is
				}
				grace := t.graceEnd()
				t.emit(stopRequested(t.now, c, Stopped, reason, grace, FlagQuiet))
			}
		}
	}
	if r.Open != nil {
		if !r.cancelled {
			r.cancelled = true
			t.addEffect(EffectCancelTurn, r, 0)
		}
		return
	}
	switch {
	case r.live > 0:
	case r.IsRoot():
		t.emit(recovered(t.now, r))
	default:
		t.endRun(r, r.Cause.endState())
	}
}

// settleDone ends a run that has nothing left to do: well, or as stopped if its last turn was
// cancelled. One whose answer was refused answers again instead, or fails, and one that announces
// in a turn of its own asks for a slot for that.
func (t *Tree) settleDone(r *Run) {
	if r.TurnCancelled {
		t.emit(stopRequested(t.now, r, Stopped, "its last turn was cancelled", 0, 0))
		return
	}
	if r.isRefused() {
		t.settleRefused(r)
		return
	}
	if t.wantsStep(r) {
		t.askLane(r)
		return
	}
	t.endRun(r, OK)
}

// endRun records the end of a run, and whether and how its requester is told.
func (t *Tree) endRun(r *Run, s State) {
	var flags Flags
	if t.tellsRequester(r, s) {
		flags |= FlagTell
	}
	if t.requester(r).IsRoot() && t.opt.CallerRun {
		flags |= FlagOut
	}
	if t.opt.Ends {
		flags |= FlagHook
	}
	f := runEnded(t.now, r, s, t.nextNonce(), flags)
	if t.tellsPeople(r, s) {
		f.N = 1
	}
	t.apologize(r, &f)
	t.emit(f)
}

// tellsRequester reports whether the requester of r is told of its end in state s. Inside a stopped
// subtree it is not. A requester that is ending itself is told only of what can move up. An end
// that went well is not told if its answer, or its announce step, asks for silence.
func (t *Tree) tellsRequester(r *Run, s State) bool {
	switch p := t.requester(r); {
	case !r.announces(), r.Quiet, p.Cause == Stopped, r.Parent.Cause == Stopped:
		return false
	case p.Cause != NoCause && s == Cancelled:
		return false
	}
	return !(s == OK && r.asksForSilence())
}

// tellsPeople reports whether people are told of the end of r in state s, in place of the
// requester. They are not told of a follow-up, nor of what was stopped with its requester, nor of
// an end that went well if its answer, or its announce step, asks for silence.
func (t *Tree) tellsPeople(r *Run, s State) bool {
	return r.Spec.Update && r.Begin == nil && t.opt.Replies &&
		r.Parent.Cause != Stopped && !(s == OK && r.asksForSilence())
}

// tells reports whether the requester of r, or people, are told of its end in state s.
func (t *Tree) tells(r *Run, s State) bool { return t.tellsRequester(r, s) || t.tellsPeople(r, s) }

// asksForSilence reports whether the answer of r, or its announce step, asks for silence.
func (r *Run) asksForSilence() bool {
	return r.Silent || r.Announced != nil && r.Announced.Silent
}

// tick has settle look at every run and every destination whose timer is due. A run may wait for
// something later too, which what is begun now need not bring back.
func (t *Tree) tick() {
	for _, ord := range slices.Sorted(maps.Keys(t.outbox.hung)) {
		t.mark(t.outbox.hung[ord])
	}
	for len(t.timers) > 0 && t.timers[0].at <= t.now {
		x := t.popTimer()
		if at := t.wakeTime(x); at == 0 || at > t.now {
			t.rearmTimer(x, at)
			continue
		}
		if x.run != nil {
			t.touch(x.run)
			t.armTimerAt(x.run, t.runWakeTimeAfter(x.run, t.now))
		} else {
			t.mark(x.queue)
		}
	}
}
