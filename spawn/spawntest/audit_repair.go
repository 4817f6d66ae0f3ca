package spawntest

import (
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
)

// maxRepairs is how often a run may be told to answer again.
const maxRepairs = 2

// An answer is what a run would end with, as far as it matters whether it may.
type answer struct {
	given   bool // a turn has had one
	text    bool // it has a text
	refused bool
	repairs uint8 // how often the run was told to answer again
}

// keepAnswer takes the answer of a turn. What was said to people alone is not one of the run, and
// neither is an empty one beside another, nor one that asks for silence beside a text.
func (r *run) keepAnswer(f *tree.Fact, toPeople bool) {
	x := f.Answer
	if x == nil || r.parent == nil || toPeople && (r.begin == nil || !r.begin.Thread) {
		return
	}
	empty := x.Text == "" && x.JSON == "" && len(x.Files) == 0 && x.Fallback == "" &&
		x.WholeJSON().IsZero()
	takes := !empty
	if f.Flags&tree.FlagSilent != 0 {
		takes = f.Flags&tree.FlagSkip != 0 || !r.answer.text
	}
	if takes || !r.answer.given {
		r.answer.given, r.answer.text, r.answer.refused = true, x.Text != "", x.Refused() != ""
	}
}

// mayNotEnd reports whether a run has an answer that was refused. A run that a conversation began
// answers there.
func (r *run) mayNotEnd() bool {
	return r.answer.refused && (r.begin == nil || !r.begin.Thread)
}

// repair takes an input that has a run answer again.
func (a *auditor) repair(r *run, f *tree.Fact) {
	switch {
	case f.Class != tree.Control || r.parent == nil || r.turn != nil || !r.mayNotEnd():
		a.fail(r, "repairs", "input %d asks for another answer, and none was refused", f.Ord)
	case r.answer.repairs >= maxRepairs:
		a.fail(r, "repairs", "repair %d of %d", r.answer.repairs+1, maxRepairs)
	}
	r.answer.repairs++
}

// refusedEnd checks the cause of a run whose answer was refused too often.
func (a *auditor) refusedEnd(r *run, f *tree.Fact) {
	if f.Cause == tree.AnswerRefused && (!r.mayNotEnd() || r.answer.repairs < maxRepairs) {
		a.fail(r, "repairs", "it fails for its answer after %d repairs", r.answer.repairs)
	}
}
