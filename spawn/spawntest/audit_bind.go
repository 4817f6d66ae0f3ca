package spawntest

import (
	"slices"

	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
)

// bound checks that a conversation is bound to a session that is not being archived, once.
func (a *auditor) bound(r *run, f *tree.Fact) {
	switch {
	case slices.Contains(r.bound, *f.Route):
		a.fail(r, "bindings", "it is bound to %+v, again", *f.Route)
	case !f.Route.Complete():
		a.fail(r, "bindings", "it is bound to %+v, where no message can go", *f.Route)
	}
	for x := r.parent; x != nil; x = x.parent {
		if x.state.Terminal() {
			a.fail(r, "bindings", "it is bound below %q, which is %v", x.spec.Key, x.state)
		}
	}
	r.bound = append(r.bound, *f.Route)
}

// unbound checks that a conversation that is unbound was bound.
func (a *auditor) unbound(r *run, f *tree.Fact) {
	i := slices.Index(r.bound, *f.Route)
	if i < 0 {
		a.fail(r, "bindings", "%+v is unbound and was not bound", *f.Route)
		return
	}
	if f.Text == "" {
		a.fail(r, "bindings", "%+v is unbound without a reason", *f.Route)
	}
	r.bound = slices.Delete(r.bound, i, i+1)
}

// speaks reports whether people are told what the turn under way answers. They are not by a
// sub-agent, unless a conversation that is bound to it began the run, or has written all messages
// that the turn reads.
func (r *run) speaks() bool {
	if r.parent == nil {
		return true
	}
	speaks := r.begin != nil && r.begin.Thread
	for _, in := range r.inbox {
		switch {
		case in.ord > r.turn.through:
		case in.class == tree.User && !in.thread, in.class == tree.Task:
			return false
		case in.class == tree.User:
			speaks = true
		}
	}
	return speaks
}
