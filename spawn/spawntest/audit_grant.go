package spawntest

import (
	"fmt"
	"slices"

	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
)

// A session gets its grant when it is admitted, and all its runs have that one. What people may not
// do that a session has worked for, no later run of it does: it works for them, too.

// within checks that a session gets no more than the one above it has.
func (a *auditor) within(p, r *run) {
	s := r.spec
	if s.Depth != p.spec.Depth+1 {
		a.fail(r, "depth", "%d below a session at depth %d", s.Depth, p.spec.Depth)
	}
	if p != a.root {
		for _, tool := range s.Tools {
			if !slices.Contains(p.spec.Delegable, tool) {
				a.fail(r, "tools", "%q is not what %q may delegate", tool, p.spec.Key)
			}
		}
		for _, tool := range s.Delegable {
			if !slices.Contains(p.spec.Delegable, tool) {
				a.fail(r, "tools", "it may delegate %q, which %q may not", tool, p.spec.Key)
			}
		}
	}
	if p.spec.Sandboxed && !s.Sandboxed {
		a.fail(r, "sandbox", "its parent runs in one")
	}
}

// keepsGrant checks that a snapshot has of a sub-agent what it was granted, whichever run it is at.
func (a *auditor) keepsGrant(r *run, s *tree.RunState) {
	if r.parent == nil {
		return
	}
	if now, before := grantOf(s.Spec), grantOf(r.spec); now != before {
		a.fail(r, "first grant", "it may do %s; it was granted %s", now, before)
	}
}

// grantOf returns a grant as a text. It is the same for a nil list and an empty one.
func grantOf(s *tree.Spec) string { return fmt.Sprintf("%+v", *s.Grant) }

// worksFor notes people for whom a session works.
func (r *run) worksFor(people []policy.Sender) {
	r.people = policy.MergeSenders(r.people, people)
}

// keepsPeople checks that a later run works for all for whom the session has worked, so that it may
// not do what one of them may not.
func (a *auditor) keepsPeople(r *run, f *tree.Fact) {
	for _, s := range r.people {
		stands := func(x policy.Sender) bool { return standsFor(x, s) }
		if !slices.ContainsFunc(f.Senders(), stands) {
			a.fail(r, "first grant", "the run %q does not work for %+v, as the session did",
				f.Begin().ID, s)
			return
		}
	}
}

// standsFor reports whether a run that works for x may do no more than one that works for s. An x
// whose ID is * stands for every person of its conversation, or of all.
func standsFor(x, s policy.Sender) bool {
	switch {
	case x.ID == anyone && x.Channel == anyone:
		return true
	case x.Channel != s.Channel || x.Peer != s.Peer:
		return false
	}
	return x.ID == anyone || x.ID == s.ID && (s.Owner || !x.Owner)
}

// anyone is the ID of what policy.MergeSenders keeps of too many people.
const anyone = "*"
