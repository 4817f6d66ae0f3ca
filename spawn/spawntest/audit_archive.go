package spawntest

import (
	"fmt"
	"slices"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
)

// leaving says of a session that it takes nothing more.
type leaving struct {
	begun bool // it is being archived
	back  bool // its revival has begun, and it is as one that is being archived until it is over
	to    bool // it is to be archived, or of a top-level session its conversation
}

// mayHappen checks that a session that is leaving takes nothing more.
func (a *auditor) mayHappen(r *run, k tree.Kind) {
	switch {
	case r.leaving.begun && k != tree.Archived && k != tree.Late:
		a.fail(r, "archive", "%v, and it is being archived", k)
	case r.leaving.to && (k == tree.Restarted || k == tree.Bound ||
		k == tree.TurnStarted && r.parent != nil):
		a.fail(r, "deleted", "%v, and it is to be archived", k)
	}
}

// archiveBegun checks that what is archived has ended, and that nothing waits for it.
func (a *auditor) archiveBegun(r *run) {
	a.mayLeave(r)
	a.begun, r.leaving.begun = true, true
}

func (a *auditor) mayLeave(r *run) {
	switch {
	case r.parent == nil || !r.state.Terminal():
		a.fail(r, "archive", "it is archived while it is %v", r.state)
		return
	case len(r.children) > 0:
		a.fail(r, "archive", "it is archived before %d of its children", len(r.children))
	case len(r.bound) > 0:
		a.fail(r, "archive", "it is archived while %+v is bound to it", r.bound[0])
	}
	a.archivedHeld(r)
	a.archivedUntold(r)
}

// archived takes a session out of the tree. Earlier libraries did so without a beginning.
func (a *auditor) archived(r *run, f *tree.Fact) {
	if a.mayLeave(r); a.begun && !r.leaving.begun {
		a.fail(r, "archive", "it is archived, which nothing has begun")
	}
	if a.first != nil {
		return
	}
	r.parent.dropMilestone(r.spec.Key)
	r.archived = f.At
	r.parent.gone = r.parent.gone.Add(r.gone).Add(r.used)
	delete(a.runs, r.spec.Key)
	delete(r.parent.children, r.spec.Key)
	a.left[r.spec.Key] = r
}

func (a *auditor) discarded(r *run) {
	if r.leaving.to {
		a.fail(r, "deleted", "it is to be archived, again")
	}
	r.leaving.to = true
}

// revival brings a session back, which has to be as it was when it left, without what it has used:
// that is its requester's. Earlier libraries did so without a beginning.
func (a *auditor) revival(f *tree.Fact) {
	if f.Image() == nil {
		a.unarchived(f)
		return
	}
	s := &f.Image().Runs[0]
	p := a.runs[s.Spec.Parent]
	switch {
	case p == nil || s.Spec.Key != f.Run:
		a.fail(nil, "revival", "%q comes back below %q, which is not in the tree", f.Run,
			s.Spec.Parent)
		return
	case a.runs[f.Run] != nil:
		a.fail(a.runs[f.Run], "revival", "it comes back and is in the tree")
		return
	}
	r := runOf(s)
	for x := p; x != nil; x = x.parent {
		if x.state.Terminal() || x.leaving.begun {
			a.fail(r, "revival", "it comes back below %q, which is %v", x.spec.Key, x.state)
		}
	}
	if was := a.left[f.Run]; was != nil {
		if was.name = r.name; f.Kind == tree.Unarchived {
			was.leaving = leaving{}
		}
		if got, want := r.describe(), was.describe(); got != want {
			a.fail(r, "revival", "it is %s; it was %s", got, want)
		}
		now, before := fmt.Sprintf("%+v", *s.Spec.Grant), fmt.Sprintf("%+v", *was.spec.Grant)
		if now != before {
			a.fail(r, "revival", "it may do %s; it might do %s", now, before)
		}
	} else if !a.partial {
		a.fail(r, "revival", "it comes back and was never archived")
	}
	if r.used != (session.Usage{}) || r.gone != (session.Usage{}) {
		a.fail(r, "usage", "it comes back with what its requester has: %+v, %+v", r.used, r.gone)
	}
	if s.Open != nil || len(s.Inbox) > 0 || !s.State.Terminal() ||
		r.leaving.begun != (f.Kind == tree.ReviveBegun) {
		a.fail(r, "revival", "it comes back and has not ended")
	}
	a.renamed(p, r, s)
	for _, c := range r.ends {
		c.where = nowhere
	}
	r.parent = p
	p.children[f.Run], a.runs[f.Run] = r, r
	if s.Spec.SpawnKey() != "" {
		a.keys[spawnKey{s.Spec.Parent, s.Spec.SpawnKey(), s.Spec.ByModel}] = r
	}
	delete(a.left, f.Run)
}

// deposit checks that files are put for a session before it is there, and removed if it is not.
func (a *auditor) deposit(f *tree.Fact) {
	begins := f.Kind == tree.DepositBegun
	switch {
	case a.root == nil || a.runs[f.Run] != nil || a.left[f.Run] != nil || !f.Run.IsSubagent():
		a.fail(a.runs[f.Run], "deposits", "%v of %q, which is a session", f.Kind, f.Run)
	case begins == slices.Contains(a.root.deposits, f.Run):
		a.fail(nil, "deposits", "%v of %q, again or before it has begun", f.Kind, f.Run)
	case begins && a.runs[f.From()] == nil && f.From().IsSubagent():
		a.fail(nil, "deposits", "files are put for %q by %q, which is not in the tree", f.Run,
			f.From())
	case begins:
		a.root.deposits = append(a.root.deposits, f.Run)
	default:
		a.endDeposit(f.Run)
	}
}

// endDeposit notes that no files wait for a session any more.
func (a *auditor) endDeposit(k session.Key) {
	if a.root != nil {
		a.root.deposits = slices.DeleteFunc(a.root.deposits, func(x session.Key) bool {
			return x == k
		})
	}
}

// unarchived has a session take messages again whose revival has begun.
func (a *auditor) unarchived(f *tree.Fact) {
	r := a.runs[f.Run]
	if r == nil || !r.leaving.back {
		a.fail(r, "revival", "%q is back, which nothing has begun", f.Run)
		return
	}
	r.leaving = leaving{}
}
