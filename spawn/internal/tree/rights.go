package tree

import (
	"slices"

	"github.com/offshoot-sdk/offshoot/policy"
)

// Authority returns what a session may use and hand down under the present rules: what it was
// granted, within what is left to every session above it. It is decided once for each session of
// the tree, because neither the rules nor a grant change while the tree is in memory. Without rules
// it is what was granted. The caller must not change it.
//
// Nothing is left to a session if Sandbox.Decide of the rules panics for it or for one above it.
func (t *Tree) Authority(r *Run) *policy.Authority {
	if r.rights == nil {
		a := t.decideAuthority(r)
		if older := r.prevSibling; older != nil && older.rights != nil &&
			sameAuthority(older.rights, &a) {
			r.rights = older.rights // the runs of one fan-out share it
		} else {
			own := a // &a would move a to the heap even when it is shared
			r.rights = &own
		}
	}
	return r.rights
}

func (t *Tree) decideAuthority(r *Run) (a policy.Authority) {
	defer func() {
		if recover() != nil {
			a = policy.Authority{Sandboxed: true}
		}
	}()
	switch {
	case t.opt.Rules == nil:
		return r.Spec.Authority()
	case r.IsRoot():
		return t.opt.Rules.TopAuthority(r.Key(), t.opt.Model, t.opt.Tools)
	}
	return t.opt.Rules.Effective(*t.Authority(r.Parent),
		policy.Descendant{Key: r.Key(), Given: r.Spec.Authority()})
}

func sameAuthority(a, b *policy.Authority) bool {
	return a.Agent == b.Agent && a.Role == b.Role && a.Depth == b.Depth && a.Model == b.Model &&
		a.Sandboxed == b.Sandboxed && slices.Equal(a.Tools, b.Tools) &&
		slices.Equal(a.Delegable, b.Delegable)
}
