package tree

import (
	"fmt"

	"github.com/offshoot-sdk/offshoot/internal/sat"
)

// The announce step is one more turn of a run, in which the run does nothing but write the text
// that its requester, or people, are told. It comes when the run has nothing left to do and would
// end well, and only if they are told at all. The run ends after it: so its end and its completion
// stay one fact, and what stops, deletes or waits for a run meets the step as it meets any turn.
//
// What the run has come to is settled before the step: nothing that becomes of the step changes
// the answer of the run, or that the run ends well. A step is not repeated after a crash. One that
// fails, or is cut, has said nothing, and the answer of the run is announced. An input that starts
// a turn takes back what the step has said; the run takes another one when it would end again.

// An Announcement is what the announce step of a run has come to.
type Announcement struct {
	Text   Text `json:"text,omitempty"`   // what the requester is told; empty: the answer of the run
	Silent bool `json:"silent,omitempty"` // it asks that the requester be told nothing
}

// isDone reports whether a run has nothing left to do and would end well.
func (t *Tree) isDone(r *Run) bool {
	return !r.IsRoot() && !r.State.Terminal() && r.Cause == NoCause && r.Open == nil &&
		!r.owesTurn(t.now) && r.Join == nil && r.live == 0 && r.Turns > 0 &&
		!r.TurnCancelled && !r.isRefused()
}

// wantsStep reports whether a run that is done takes its announce step before it ends. It does not
// if its time is over, or a budget does not have room for another turn.
func (t *Tree) wantsStep(r *Run) bool {
	return r.Spec.Step && r.Announced == nil && t.isDone(r) && t.tells(r, OK) &&
		(r.Deadline == 0 || r.Deadline > t.now) && t.turnForbiddenBy(r, requestOf(r)) == ""
}

// outOfTime reports whether the time of a run is over that still has something to do. An announce
// step has a time of its own.
func (t *Tree) outOfTime(r *Run) bool {
	return r.Cause == NoCause && r.Deadline > 0 && r.Deadline <= t.now && !r.inStep() &&
		!(r.Spec.Step && t.isDone(r))
}

// announcing refuses what the announce step of r would begin.
func announcing(r *Run) error {
	return fmt.Errorf("%w: turn %d of %q", ErrAnnouncing, r.Open.N, r.Key())
}

// inStep reports whether the turn of r under way is its announce step.
func (r *Run) inStep() bool { return r.Open != nil && r.Open.Step }

// startStep starts the announce step of a run in the slot that it was granted. It reports whether
// it has.
func (t *Tree) startStep(r *Run) bool {
	if !t.wantsStep(r) {
		return false
	}
	r.slot = true
	until := sat.Add(t.now, int64(t.opt.StepTimeout))
	f := turnStarted(t.now, r, r.Consumed, until, t.reserve(r, requestOf(r)))
	f.Flags = FlagStep
	t.emit(f)
	t.addEffect(EffectStartTurn, r, 0)
	return true
}

// checkStep returns why a turn that begins cannot be the announce step of r, or "".
func (t *Tree) checkStep(r *Run, f *Fact) string {
	switch {
	case r.IsRoot() || !r.Spec.Step:
		return "its requester is not told in a turn"
	case r.Announced != nil:
		return "it has announced before"
	case f.Ord != r.Consumed || r.live > 0 || r.Join != nil:
		return "it announces and has something left to do"
	}
	return ""
}

// applyStepStarted folds what is special about the beginning of an announce step.
func (t *Tree) applyStepStarted(r *Run, f *Fact) {
	r.Open.Step, r.Open.Until = true, f.Until
	t.chargeRequest(r, requestOf(r), f.Budget())
	t.armTimer(r)
}

// settleStep cancels an announce step whose time is over.
func (t *Tree) settleStep(r *Run) {
	if r.inStep() && r.Cause == NoCause && !r.TurnCancelled && r.Open.Until <= t.now {
		t.emit(turnCancelled(t.now, r, t.graceEnd()))
		r.cancelled = true
		t.addEffect(EffectCancelTurn, r, 0)
	}
}

// endStep records what an announce step has come to. Of what its Runner returned there is the text,
// unless the step failed or was to end, and what it used.
func (t *Tree) endStep(r *Run, c *TurnDone) {
	f := turnEnded(t.now, r, OK, nil, FlagStep, c.Pos, nil)
	switch {
	case r.TurnCancelled || r.Cause != NoCause:
		f.State = Cancelled
	case c.Failed != "":
		f.State, f.Text = Failed, Text(c.Failed)
	case c.Silent:
		f.Flags |= FlagSilent
	}
	if a := c.Answer; a != nil {
		f.Answer = a.usageAlone()
		if f.State == OK {
			f.Answer.Text = a.Text
		}
	}
	t.endTurn(r, f)
}

// applyStepEnded folds the end of an announce step. It has read nothing, so that nothing is
// consumed. The time of the run does not count it: a message that came meanwhile has what was left.
// A step that a shutdown has ended before it did anything was none.
func (t *Tree) applyStepEnded(r *Run, f *Fact) error {
	open := r.Open
	r.Open, r.Active, r.TurnCancelled = nil, f.At, false
	r.setGrace(0)
	t.work().spareTurns.Keep(open)
	delete(t.endedInTurn, r)
	delete(t.holds, r)
	delete(t.reached, r)
	t.turns--
	if r.Deadline > 0 {
		r.Deadline = sat.Add(r.Deadline, max(f.At-open.Started, 0))
	}
	if f.Flags&FlagUntouched != 0 {
		if !open.Shutdown || r.didWork || f.Answer != nil {
			return &CorruptError{f.Kind, f.Run, "it is untouched, and has done something"}
		}
		t.charge(r, Budget{}.Sub(open.Reserve))
	} else {
		t.chargeEnd(r, open, f)
		r.setAnnounced(&Announcement{Silent: f.Flags&FlagSilent != 0})
	}
	if a := f.Answer; a != nil {
		r.recordUsage(a, f.At)
		if !r.Announced.Silent {
			r.Announced.Text = a.Text
		}
	}
	r.Pos = max(r.Pos, f.Num)
	if r.State == Running {
		if err := r.transition(Waiting); err != nil {
			return err
		}
	}
	t.armTimer(r)
	return nil
}
