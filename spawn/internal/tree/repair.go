package tree

import (
	"fmt"

	"github.com/offshoot-sdk/offshoot/internal/text"
	"github.com/offshoot-sdk/offshoot/session"
)

// The shell may refuse the answer of a turn: then Result.Refused says why. An answer that is
// refused is kept like any other, and a later one takes its place. When the run would end with it,
// the run is told to answer again, in a turn of the same session; after MaxRepairs of them it has
// failed. What people are told in a bound conversation is not an answer of the run.

// MaxRepairs is how often a run is told to answer again.
const MaxRepairs = 2

// isRefused reports whether the run may not end with the answer that it has.
func (r *Run) isRefused() bool {
	return r.Answer != nil && r.Answer.Refused() != "" && !r.inThread()
}

// settleRefused has a run that would end with an answer that was refused answer again, or fail.
func (t *Tree) settleRefused(r *Run) {
	why := r.Answer.Refused()
	if r.Repairs < MaxRepairs {
		f := posted(t.now, r, Control, "", why, session.Key{})
		f.Flags |= FlagRepair
		t.emit(f)
		return
	}
	reason := fmt.Sprintf("its answer was refused after %s: %s",
		text.Count(int(r.Repairs), "repair", "repairs"), why)
	t.emit(stopRequested(t.now, r, AnswerRefused, reason, 0, 0))
}

// applyRepair counts a repair of the present run.
func (r *Run) applyRepair(f *Fact) error {
	switch {
	case r.IsRoot() || r.Open != nil || f.Class != Control || !r.isRefused():
		return &CorruptError{f.Kind, f.Run, "it has no answer that was refused"}
	case r.Repairs >= MaxRepairs:
		return &CorruptError{f.Kind, f.Run, fmt.Sprintf("repair %d of %d", r.Repairs+1, MaxRepairs)}
	}
	r.Repairs++
	return nil
}
