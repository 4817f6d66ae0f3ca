package arch

import (
	"go/ast"
	"path"
	"slices"
	"strings"
)

// imports checks everything that the sources of a package import.
func (c *checker) imports(p *pkg) {
	k, r := c.house.place(p.dir)
	if k == stranger && !p.nested {
		c.in(p.dir, "room", "no room of the house has this directory")
		return
	}
	for _, s := range p.sources {
		for _, spec := range s.file.Imports {
			to, ours := c.house.ours(imported(spec))
			switch {
			case standard(imported(spec)):
			case p.nested:
				c.fromOutside(p, spec, to, ours)
			case ours:
				c.arrow(p, k, r, s.test, spec, to)
			default:
				c.third(p, k, r, s.test, spec)
			}
		}
	}
}

// fromOutside checks an import of a nested module: what is internal to this one is not for it,
// though the compiler would let it, because the versions of the two could then differ in silence.
// One that is internal itself is not published, and has no version that could.
func (c *checker) fromOutside(p *pkg, spec *ast.ImportSpec, to string, ours bool) {
	if !ours || !slices.Contains(strings.Split(to, "/"), "internal") || within(p.dir, "internal") {
		return
	}
	if !slices.ContainsFunc(c.nested, func(dir string) bool { return within(to, dir) }) {
		c.at(spec.Pos(), "nested", "a nested module imports %q, which is internal to the root module", imported(spec))
	}
}

// arrow checks an import of one package of this module by another.
func (c *checker) arrow(p *pkg, from kind, home *Room, test bool, spec *ast.ImportSpec, to string) {
	k, r := c.house.place(to)
	switch {
	case k == hidden && !c.mayLookInto(p.dir, r):
		c.at(spec.Pos(), "hidden", "%s imports %s, which is for %s and its test kit alone", p.dir, to, r.Dir)
		return
	case k == kit && from != kit && from != program && !test:
		c.at(spec.Pos(), "kit", "%s imports the test kit %s in code that is not a test", p.dir, to)
		return
	}
	var ok bool
	switch from {
	case sign:
		ok = test
	case program:
		ok = k != program || within(to, p.dir)
	case foundation:
		ok = k == foundation
	default:
		ok = k == foundation || r != nil && home.mayImport(r, test)
	}
	if !ok {
		c.at(spec.Pos(), "arrow", "%s imports %s; it may import %s", p.dir, to, c.below(from, home))
	}
}

// mayLookInto reports whether the package in dir may import what is internal to a room: only the
// room's own package, the test kit, what is internal itself, and the rooms within it may.
func (c *checker) mayLookInto(dir string, r *Room) bool {
	k, home := c.house.place(dir)
	if home != r {
		return home != nil && within(home.Dir, r.Dir)
	}
	return dir == r.Dir || k == kit || k == hidden
}

// below says what a package may import of this module.
func (c *checker) below(from kind, home *Room) string {
	switch {
	case from == foundation:
		return path.Join(c.house.Internal, "...")
	case home == nil || len(home.Ours) == 0:
		return "nothing of the other rooms"
	}
	return strings.Join(home.Ours, ", ")
}

// third checks an import of another module's package.
func (c *checker) third(p *pkg, from kind, home *Room, test bool, spec *ast.ImportSpec) {
	var allowed []string
	switch {
	case from == foundation:
		allowed = c.house.InternalThird
	case home != nil && (from != kit || test):
		allowed = home.Third
	}
	name := imported(spec)
	switch {
	case listed(name, allowed), test && listed(name, c.house.TestOnly):
	case listed(name, c.house.TestOnly):
		c.at(spec.Pos(), "third", "%q is for _test.go files", name)
	default:
		c.at(spec.Pos(), "third", "%s imports %q; a dependency is a proposal", p.dir, name)
	}
}
