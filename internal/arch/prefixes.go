package arch

import (
	"go/ast"
	"go/token"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// prefixes checks the texts of errors in library code. The text of a sentinel, and of an error that
// an exported function returns as it makes it, begins with the prefix of its own package. No text
// begins with the prefix of another package.
func (c *checker) prefixes() {
	if c.house.Prefixes == nil {
		return
	}
	dirs := map[string]bool{}
	known := map[string]bool{}
	for _, p := range c.pkgs {
		if name := library(p); name != "" {
			dirs[p.dir] = c.house.Prefixes[p.dir] != name
			known[name], known[c.prefix(p)] = true, true
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(c.house.Prefixes)) {
		if !dirs[dir] {
			c.in("Prefixes", "prefix", "%s needs no entry", dir)
		}
	}
	for _, p := range c.pkgs {
		for i := range p.sources {
			if s := &p.sources[i]; !s.test && library(p) != "" {
				c.sourcePrefixes(p, s, known)
			}
		}
	}
}

// library returns the name of a package that others import, "" for a program and for mere tests.
func library(p *pkg) string {
	for _, s := range p.sources {
		if name := s.file.Name.Name; !s.test && name != "main" {
			return name
		}
	}
	return ""
}

// prefix returns the prefix of the errors of a package.
func (c *checker) prefix(p *pkg) string {
	if own, ok := c.house.Prefixes[p.dir]; ok {
		return own
	}
	return library(p)
}

// sourcePrefixes checks the texts of errors in one source. Known are the prefixes of all packages.
func (c *checker) sourcePrefixes(p *pkg, s *source, known map[string]bool) {
	own := c.prefix(p)
	must := c.leaving(p, s)
	ast.Inspect(s.file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || !s.makesError(call) || len(call.Args) == 0 {
			return true
		}
		text, ok := leftmost(call.Args[0])
		if !ok || strings.HasPrefix(text, own+": ") {
			return true
		}
		first, _, colon := strings.Cut(text, ":")
		what, wrong := must[call]
		switch {
		case colon && known[first] && first != own:
			c.at(call.Pos(), "prefix", "%q begins like an error of another package", text)
		case wrong && !strings.HasPrefix(text, "%w"):
			c.at(call.Pos(), "prefix", "%s %q does not begin with %q", what, text, own+": ")
		}
		return true
	})
}

// leaving returns the calls that make an error which leaves the package as it is, and what each
// makes: a sentinel, or what an exported function of a package that users import returns.
func (c *checker) leaving(p *pkg, s *source) map[*ast.CallExpr]string {
	made := map[*ast.CallExpr]string{}
	k, _ := c.house.place(p.dir)
	public := k == room || k == kit || p.nested
	for _, d := range s.file.Decls {
		switch d := d.(type) {
		case *ast.GenDecl:
			if d.Tok == token.VAR {
				sentinels(d, made)
			}
		case *ast.FuncDecl:
			if public && exported(d) && d.Body != nil {
				returned(d.Body, made)
			}
		}
	}
	return made
}

// sentinels adds the calls that are the values of package variables.
func sentinels(d *ast.GenDecl, made map[*ast.CallExpr]string) {
	for _, spec := range d.Specs {
		for _, value := range spec.(*ast.ValueSpec).Values {
			if call, ok := value.(*ast.CallExpr); ok {
				made[call] = "the sentinel"
			}
		}
	}
}

// returned adds the calls whose results a function returns itself.
func returned(body *ast.BlockStmt, made map[*ast.CallExpr]string) {
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false
		case *ast.ReturnStmt:
			for _, e := range n.Results {
				if call, ok := e.(*ast.CallExpr); ok {
					made[call] = "the returned"
				}
			}
		}
		return true
	})
}

// exported reports whether users can call a function: it and the type of its receiver are exported.
func exported(f *ast.FuncDecl) bool {
	for name := range strings.SplitSeq(strings.TrimPrefix(function("", f), "."), ".") {
		if !ast.IsExported(name) {
			return false
		}
	}
	return true
}

// makesError reports whether a call is one of errors.New or fmt.Errorf.
func (s *source) makesError(call *ast.CallExpr) bool {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	x, ok := sel.X.(*ast.Ident)
	if !ok {
		return false
	}
	return sel.Sel.Name == "New" && x.Name == s.imports("errors") ||
		sel.Sel.Name == "Errorf" && x.Name == s.imports("fmt")
}

// leftmost returns the string literal that an expression begins with.
func leftmost(e ast.Expr) (string, bool) {
	for {
		sum, ok := e.(*ast.BinaryExpr)
		if !ok {
			break
		}
		e = sum.X
	}
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(lit.Value)
	return text, err == nil
}
