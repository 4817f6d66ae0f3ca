package arch

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/token"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
)

// A checker collects what one [Check] finds.
type checker struct {
	*tree
	house *House
	found []Violation
}

// Check reads the repository in fsys and returns every place that breaks a rule of the house, in
// order of position. The error says that a file could not be read or parsed, or that a [Word] does
// not compile.
func Check(fsys fs.FS, house House) ([]Violation, error) {
	t, err := read(fsys)
	if err != nil {
		return nil, err
	}
	c := checker{tree: t, house: &house}
	for _, p := range t.pkgs {
		c.imports(p)
		if p.nested {
			continue
		}
		c.documents(p)
		c.behaves(p)
	}
	c.lengths()
	c.texts()
	if err := c.words(); err != nil {
		return nil, err
	}
	c.columns()
	c.prefixes()
	c.files()
	c.repeats()
	c.exempt()
	slices.SortStableFunc(c.found, func(a, b Violation) int {
		return cmp.Or(strings.Compare(a.Pos, b.Pos), strings.Compare(a.Rule, b.Rule))
	})
	return c.found, nil
}

// at records a violation in a source.
func (c *checker) at(pos token.Pos, rule, format string, args ...any) {
	p := c.fset.Position(pos)
	c.in(fmt.Sprintf("%s:%d", p.Filename, p.Line), rule, format, args...)
}

// in records a violation at a place that is not a position in a source.
func (c *checker) in(place, rule, format string, args ...any) {
	c.found = append(c.found, Violation{Pos: place, Rule: rule, Text: fmt.Sprintf(format, args...)})
}

// behaves checks what the sources of a package do: contexts, pauses, and the purity of what
// decides.
func (c *checker) behaves(p *pkg) {
	k, _ := c.house.place(p.dir)
	for i := range p.sources {
		s := &p.sources[i]
		if !s.test && k != program {
			s.uses("context", []string{"Background", "TODO"}, func(pos token.Pos, name string) {
				c.at(pos, "background", "context.%s in library code: pass the caller's context on", name)
			})
		}
		if (s.test || k != program) && !c.mayPause(s) {
			s.uses("time", []string{"Sleep"}, func(pos token.Pos, _ string) {
				c.at(pos, "sleep", "time.Sleep outside a testing/synctest bubble")
			})
		}
		if !s.test && slices.Contains(c.house.Pure, p.dir) {
			c.pure(s)
		}
	}
}

// mayPause reports whether a source may call time.Sleep: in a bubble, where it costs nothing, and
// among benchmarks, where it is a slow device and not a wait for something.
func (c *checker) mayPause(s *source) bool {
	if s.imports("testing/synctest") != "" || path.Base(s.name) == "bench_test.go" {
		return true
	}
	return slices.ContainsFunc(c.house.Bubbles, func(dir string) bool {
		return s.imports(c.house.Module+"/"+dir) != ""
	})
}

// worldly are imports that a package that decides has no use for.
var worldly = []string{"os", "net", "math/rand", "crypto/rand", "io/ioutil", "syscall", "runtime", "log", "sync"}

// pure checks one source of a package that decides.
func (c *checker) pure(s *source) {
	for _, spec := range s.file.Imports {
		if listed(imported(spec), worldly) {
			c.at(spec.Pos(), "pure", "imports %q in code that decides", imported(spec))
		}
	}
	clock := []string{"Now", "Since", "Until", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"}
	s.uses("time", clock, func(pos token.Pos, name string) {
		c.at(pos, "pure", "time.%s in code that decides: the time is an argument", name)
	})
	ast.Inspect(s.file, func(n ast.Node) bool {
		if g, ok := n.(*ast.GoStmt); ok {
			c.at(g.Pos(), "pure", "a goroutine in code that decides")
		}
		return true
	})
}

// lengths checks how long functions are, and that no exception is left over.
func (c *checker) lengths() {
	if c.house.MaxFunc == 0 {
		return
	}
	needed := map[string]bool{}
	for _, p := range c.pkgs {
		for _, s := range p.sources {
			if !p.nested {
				c.length(p.dir, s, needed)
			}
		}
	}
	for _, name := range c.house.LongFuncs {
		if !needed[name] {
			c.in("LongFuncs", "length", "%s needs no exception", name)
		}
	}
}

// length checks the functions of one source, and adds those that are longer to needed.
func (c *checker) length(dir string, s source, needed map[string]bool) {
	for _, d := range s.file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		lines := c.lines(f)
		if s.test {
			lines -= c.tables(f)
		}
		if lines <= c.house.MaxFunc {
			continue
		}
		name := function(dir, f)
		needed[name] = true
		if !slices.Contains(c.house.LongFuncs, name) {
			c.at(f.Pos(), "length", "%s has %d lines, %d are allowed", name, lines, c.house.MaxFunc)
		}
	}
}

// lines returns how many lines a node has.
func (c *checker) lines(n ast.Node) int {
	return c.fset.Position(n.End()).Line - c.fset.Position(n.Pos()).Line + 1
}

// tables returns how many lines of a test are tables: literals of data. What functions in them have
// counts as the test's own.
func (c *checker) tables(n ast.Node) (lines int) {
	ast.Inspect(n, func(n ast.Node) bool {
		table, ok := n.(*ast.CompositeLit)
		if !ok {
			return true
		}
		lines += c.lines(table) - 1
		ast.Inspect(table, func(n ast.Node) bool {
			if f, ok := n.(*ast.FuncLit); ok {
				lines -= c.lines(f) - 1 - c.tables(f.Body)
				return false
			}
			return true
		})
		return false
	})
	return lines
}

// function names a function as [House.LongFuncs] does.
func function(dir string, f *ast.FuncDecl) string {
	name := f.Name.Name
	if f.Recv != nil && len(f.Recv.List) == 1 {
		t := f.Recv.List[0].Type
		if star, ok := t.(*ast.StarExpr); ok {
			t = star.X
		}
		switch x := t.(type) {
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		}
		if id, ok := t.(*ast.Ident); ok {
			name = id.Name + "." + name
		}
	}
	return dir + "." + name
}

// texts searches every text file for what must not be in one.
func (c *checker) texts() {
	for _, name := range slices.Sorted(maps.Keys(c.text)) {
		b := c.text[name]
		for _, re := range c.house.Forbidden {
			if at := re.FindIndex(b); at != nil {
				line := 1 + strings.Count(string(b[:at[0]]), "\n")
				c.in(fmt.Sprintf("%s:%d", path.Clean(name), line), "text", "%q must not be in the repository", b[at[0]:at[1]])
			}
		}
	}
}
