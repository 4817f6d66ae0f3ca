package tree

// settle brings every touched run to where the rules want it: it starts what wants a turn, cancels what must go, ends what is
// done, and hands over what is due, until nothing changes any more. Effects follow from what is, not from what was done, so
// that none can be forgotten.
func (t *Tree) settle() {
	for i := 0; i < len(t.touched); i++ {
		r := t.touched[i]
		r.touched = false
		if !r.gone {
			t.settleRun(r)
		}
	}
	clear(t.touched)
	t.touched = t.touched[:0]
	for _, ord := range t.dueEntries {
		if e := t.outbox.entries[ord]; e != nil && e.Blocked == 0 && !e.inFlight && e.Due <= t.now {
			t.setInFlight(e, true)
			t.addEffect(EffectDeliver, nil, ord)
		}
	}
	t.dueEntries = t.dueEntries[:0]
}

func (t *Tree) settleRun(r *Run) {
	switch {
	case r.State.Terminal():
		t.settleEnded(r)
		return
	case r.Open != nil && r.Grace > 0 && r.Grace <= t.now:
		t.cutTurn(r)
	case r.Cause == NoCause && r.Deadline > 0 && r.Deadline <= t.now:
		t.emit(stopRequested(t.now, r, Timeout, "its time is up", t.now+int64(t.opt.Grace), 0))
	}
	switch {
	case r.Cause != NoCause:
		t.settleStopping(r)
	case r.Open != nil:
	case r.wantsTurn(t.now):
		t.askSlot(r)
	case r.Join == nil && r.live == 0 && r.Turns > 0 && !r.IsRoot():
		t.settleDone(r)
	}
}

// wantsTurn reports whether there is something for the next turn. What people say and the task always wake; a steer wakes
// only who waits for a join; completions wake unless the join they belong to is still outstanding.
func (r *Run) wantsTurn(now int64) bool {
	switch {
	case r.State.Terminal() || r.Cause != NoCause || r.Open != nil:
		return false
	case r.Join != nil:
		return r.nUser > 0 || r.nControl > 0 || r.Join.Ready(now)
	}
	return r.nUser > 0 || r.nComp > 0
}

func (t *Tree) askSlot(r *Run) {
	if what := t.turnForbiddenBy(r); what != "" && !r.IsRoot() {
		t.emit(stopRequested(t.now, r, LimitReached, what+" is exhausted", 0, 0))
		return
	}
	if !r.asked {
		r.asked = true
		t.addEffect(EffectAskSlot, r, 0)
	}
}

// cutTurn gives a turn up that did not come back in time.
func (t *Tree) cutTurn(r *Run) {
	t.endTurn(r, turnEnded(t.now, r, Cancelled, nil, FlagCut, 0, nil))
}

// settleStopping ends a run bottom-up: its turn and everything below it first.
func (t *Tree) settleStopping(r *Run) {
	if !r.cascaded {
		r.cascaded = true
		for c := r.firstChild; c != nil; c = c.nextSibling {
			if c.State.Terminal() {
				continue
			}
			t.touch(c)
			if c.Cause == NoCause {
				t.emit(stopRequested(t.now, c, Stopped, "its requester ended: "+r.Cause.String(), t.now+int64(t.opt.Grace), FlagQuiet))
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

// settleDone ends a run that has nothing left to do.
func (t *Tree) settleDone(r *Run) {
	if r.TurnCancelled {
		t.emit(stopRequested(t.now, r, Stopped, "its last turn was cancelled", 0, 0))
		return
	}
	t.endRun(r, OK)
}

func (t *Tree) endRun(r *Run, s State) {
	var flags Flags
	if t.tellsRequester(r, s) {
		flags |= FlagTell
	}
	if r.Parent.IsRoot() && t.opt.CallerRun {
		flags |= FlagOut
	}
	t.emit(runEnded(t.now, r, s, t.nextNonce(), flags))
}

// tellsRequester reports whether the requester of a run is told of its end. Inside a stopped subtree nobody is; a requester that is
// ending itself hears only what can move up.
func (t *Tree) tellsRequester(r *Run, s State) bool {
	switch p := r.Parent; {
	case !r.Spec.Announce, r.Quiet, p.Cause == Stopped:
		return false
	case p.Cause != NoCause && s == Cancelled:
		return false
	}
	return !(s == OK && r.Silent)
}

func (t *Tree) settleEnded(r *Run) {
	if t.opt.ArchiveAfter > 0 && !r.archiving && r.firstChild == nil && !r.held && t.archiveAt(r) <= t.now {
		r.archiving = true
		t.archiving++
		t.addEffect(EffectArchive, r, 0)
	}
}

// tick looks at whatever wants to be looked at by now.
func (t *Tree) tick() {
	for len(t.timers) > 0 && t.timers[0].at <= t.now {
		x := t.popTimer()
		if at := t.wakeTime(x); at == 0 || at > t.now {
			t.rearmTimer(x, at)
			continue
		}
		if x.run != nil {
			t.touch(x.run)
		} else {
			t.dueEntries = append(t.dueEntries, x.ord)
		}
	}
}
