package tree

import (
	"slices"
	"strings"

	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
)

// Authority returns what a session may use and hand down under the present rules: what it was
// granted, within what is left to every session above it. It is decided once for each session of
// the tree, because neither the rules nor a grant change while the tree is in memory. Without rules
// it is what was granted. The caller must not change it.
//
// Authority does not ask Sandbox.Decide of the rules, which is the caller's and not called by a
// tree: until a spawn has had the answer, a session counts as sandboxed if that was granted. See
// [Tree.Lineage] for the whole.
func (t *Tree) Authority(r *Run) *policy.Authority {
	switch {
	case r.rights != nil:
		return r.rights
	case t.opt.Rules == nil:
		a := r.Spec.Authority()
		return &a
	case t.opt.Rules.Sandbox.Decide != nil:
		rules := *t.opt.Rules
		rules.Sandbox.Decide = func(_ string, key session.Key) bool {
			of := t.find(key)
			return of != nil && of.Spec.Sandboxed
		}
		a := t.authorityUnder(&rules, r)
		return &a
	}
	if older := r.prevSibling; older != nil && older.rights != nil && older.likeFor(r) {
		r.rights = older.rights // the runs of one fan-out share it
		return r.rights
	}
	a := t.authorityUnder(t.opt.Rules, r)
	if older := r.prevSibling; older != nil && older.rights != nil &&
		sameAuthority(older.rights, &a) {
		r.rights = older.rights
	} else {
		own := a // &a would move a to the heap even when it is shared
		r.rights = &own
	}
	return r.rights
}

// likeFor reports whether policy cannot tell the sibling s from r, unless it asks Sandbox.Decide:
// both were granted the same, and their keys differ in the last part alone.
func (r *Run) likeFor(s *Run) bool {
	a, b := r.Key().String(), s.Key().String()
	n := strings.LastIndexByte(a, ':')
	return r.Spec.Grant == s.Spec.Grant && n > 0 && n == strings.LastIndexByte(b, ':') &&
		a[:n] == b[:n]
}

// Lineage returns what a session and every session below the top-level one and above it were
// granted, from the top down. It is what policy folds under the present rules.
func (t *Tree) Lineage(r *Run) (list []policy.Descendant) {
	for ; !r.IsRoot(); r = r.Parent {
		list = append(list, policy.Descendant{Key: r.Key(), Given: r.Spec.Authority()})
	}
	slices.Reverse(list)
	return list
}

// authorityUnder is Authority under certain rules. If they stand for those of the tree while a
// command is decided, what it returns is of use only if every question has an answer.
func (t *Tree) authorityUnder(rules *policy.Rules, r *Run) policy.Authority {
	switch {
	case r.rights != nil:
		return *r.rights
	case r.IsRoot():
		return rules.TopAuthority(r.Key(), rules.SessionModel(r.Key(), t.opt.Model), t.opt.Tools)
	case rules == t.opt.Rules:
		return rightsUnder(rules, *t.Authority(r.Parent), r.Spec)
	}
	return rightsUnder(rules, t.authorityUnder(rules, r.Parent), r.Spec)
}

// rightsUnder returns what is left to a run below a session with the authority above.
func rightsUnder(rules *policy.Rules, above policy.Authority, s *Spec) policy.Authority {
	return rules.Effective(above, policy.Descendant{Key: s.Key, Given: s.Authority()})
}

func sameAuthority(a, b *policy.Authority) bool {
	return a.Agent == b.Agent && a.Role == b.Role && a.Depth == b.Depth && a.Model == b.Model &&
		a.Sandboxed == b.Sandboxed && slices.Equal(a.Tools, b.Tools) &&
		slices.Equal(a.Delegable, b.Delegable)
}
