package arch

import (
	"go/ast"
	"go/doc"
	"go/doc/comment"
	"path"
	"slices"
	"strings"
)

// documents checks that a package says what it is: every one in doc.go and nowhere else, an example
// in any of its files. A package that users import also has a picture there and an example that
// runs; that of a test kit need not run, because it may need a *testing.T.
func (c *checker) documents(p *pkg) {
	k, _ := c.house.place(p.dir)
	var said *ast.File
	var where, name string
	for _, s := range p.sources {
		if s.test {
			continue
		}
		name = s.file.Name.Name
		if s.file.Doc == nil {
			continue
		}
		if said != nil {
			c.in(s.name, "doc", "%s has a package comment as well", where)
			continue
		}
		said, where = s.file, s.name
	}
	switch {
	case name == "": // nothing but tests
		return
	case said == nil:
		c.in(p.dir, "doc", "package %s has no package comment", name)
		return
	case k == program:
		return
	case path.Base(where) != "doc.go":
		c.in(where, "doc", "the comment of package %s belongs into doc.go", name)
	}
	if !strings.HasPrefix(said.Doc.Text(), "Package "+name+" ") {
		c.in(where, "doc", "the package comment does not begin with %q", "Package "+name)
	}
	if k != room && k != kit {
		return
	}
	if k == room && !picture(said.Doc.Text()) {
		c.in(where, "doc", "the package comment has no picture")
	}
	c.examples(p, k)
}

// picture reports whether a package comment has a block of preformatted text.
func picture(text string) bool {
	var parser comment.Parser
	return slices.ContainsFunc(parser.Parse(text).Content, func(b comment.Block) bool {
		_, ok := b.(*comment.Code)
		return ok
	})
}

// examples checks that a package has one.
func (c *checker) examples(p *pkg, k kind) {
	var files []*ast.File
	for _, s := range p.sources {
		if s.test {
			files = append(files, s.file)
		}
	}
	runs := func(e *doc.Example) bool { return k == kit || e.Output != "" || e.EmptyOutput }
	if !slices.ContainsFunc(doc.Examples(files...), runs) {
		c.in(p.dir, "example", "no Example with an // Output comment")
	}
}
