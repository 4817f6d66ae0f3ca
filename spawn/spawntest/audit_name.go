package spawntest

import (
	"regexp"

	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
)

var nameForm = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,63}$`)

// called returns the child of r that has a name, or nil.
func (r *run) called(name string) *run {
	for _, c := range r.children {
		if name != "" && c.name == name {
			return c
		}
	}
	return nil
}

// named checks the name that a child of p is admitted with, and gives it to the child.
func (a *auditor) named(p, r *run) {
	if r.name = r.spec.Name(); r.name == "" {
		return
	}
	if !nameForm.MatchString(r.name) || r.name == "all" || r.name == "last" {
		a.fail(r, "names", "it is called %q", r.name)
	}
	if older := p.called(r.name); older != nil {
		if !older.state.Terminal() {
			a.fail(r, "names", "it is called %q, as %q, which is %v", r.name, older.spec.Key, older.state)
		}
		older.name = ""
	}
}

// renamed checks that a session which comes back below p has its name, unless another has it.
func (a *auditor) renamed(p, r *run, s *tree.RunState) {
	if given := p.called(s.Spec.Name()); s.Unnamed != (given != nil) {
		a.fail(r, "names", "it comes back, called %q", r.name)
	}
}
