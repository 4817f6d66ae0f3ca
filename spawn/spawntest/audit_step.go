package spawntest

import (
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
)

// A step is what has become of the announce step of a run.
type step struct {
	taken  bool // since the last turn that was none
	silent bool // it asked that the requester be told nothing
}

// updates reports whether people are told of the end of a run, in place of its requester.
func (r *run) updates() bool { return r.spec.Update && r.begin == nil }

// plain reports whether a turn is neither a compaction nor an announce step.
func (t *turn) plain() bool { return !t.compact && !t.step }

// stepStarted takes a turn that may be the announce step of a run: the run has nothing left to do,
// has not announced before, and its requester, or people, are told.
func (a *auditor) stepStarted(r *run, f *tree.Fact) {
	if f.Flags&tree.FlagStep == 0 {
		if f.Flags&tree.FlagCompact == 0 {
			r.step = step{}
		}
		return
	}
	switch {
	case r.parent == nil || !r.spec.Step || !r.announced() && !r.updates():
		a.fail(r, "announce steps", "turn %d announces, and its requester is not told so", f.N)
	case r.step.taken:
		a.fail(r, "announce steps", "turn %d announces once more", f.N)
	case f.Ord != r.consumed || !r.started || r.mayNotEnd():
		a.fail(r, "announce steps", "turn %d announces what may not be the end", f.N)
	case f.Until == 0:
		a.fail(r, "announce steps", "turn %d announces and has no end", f.N)
	}
	for _, c := range r.children {
		if !c.state.Terminal() {
			a.fail(r, "announce steps", "turn %d announces while %q is %v", f.N, c.spec.Key, c.state)
		}
	}
	for _, in := range r.inbox {
		if in.ord > max(r.consumed, r.aside) && (in.class == tree.User ||
			in.class == tree.Completion || in.repair) {
			a.fail(r, "announce steps", "turn %d announces with input %d unread", f.N, in.ord)
		}
	}
}

// stepEnded takes the end of a turn that may be an announce step.
func (a *auditor) stepEnded(r *run, f *tree.Fact) {
	const other = tree.FlagReply | tree.FlagAside | tree.FlagGivenUp | tree.FlagSkip
	isStep := f.Flags&tree.FlagStep != 0
	if isStep != r.turn.step || isStep && (f.Flags&other != 0 || f.Join() != nil) {
		a.fail(r, "announce steps", "turn %d ends as another sort of turn", f.N)
	}
	if isStep {
		r.step = step{true, f.Flags&tree.FlagSilent != 0}
	}
}

// checkStep checks that a run which ends well has announced in a turn, if it was to and nothing
// could have kept it from that: a budget of the rules may have, if these are not known.
func (a *auditor) checkStep(r *run, f *tree.Fact) {
	if f.State != tree.OK || !r.spec.Step {
		return
	}
	told := f.Flags&tree.FlagTell != 0 || f.N > 0
	if told && r.step.silent {
		a.fail(r, "announce steps", "its requester is told although its step was silent")
	}
	free := a.known && r.spec.Timeout == 0 && !a.treeLimit.Limited() && !a.requestLimit.Limited()
	for x := r; x.parent != nil; x = x.parent {
		free = free && !x.spec.Budget.Limited()
	}
	if told && free && !r.step.taken {
		a.fail(r, "announce steps", "it ends well without one")
	}
}
