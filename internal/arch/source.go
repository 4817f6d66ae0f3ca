package arch

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// A source is one parsed Go file.
type source struct {
	name string // relative to the root of the module
	test bool   // a _test.go file
	file *ast.File
}

// A pkg is what one directory has: the package, its tests, and those in its _test package.
type pkg struct {
	dir     string
	nested  bool // belongs to another module, below the root of this one
	sources []source
}

// A tree is everything that was read.
type tree struct {
	fset   *token.FileSet
	pkgs   []*pkg
	text   map[string][]byte // every text file, by name
	nested []string          // the directories of nested modules
}

// maxText is the greatest file, in bytes, that is searched for forbidden text.
const maxText = 1 << 20

// read parses the Go files of a repository and keeps its texts. What Git keeps for itself is not read; testdata is text.
func read(fsys fs.FS) (*tree, error) {
	t := &tree{fset: token.NewFileSet(), text: map[string][]byte{}}
	byDir := map[string]*pkg{}
	err := fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && d.Name() == ".git":
			return fs.SkipDir
		case !d.Type().IsRegular(), d.Name() == ".git": // a file in a linked worktree
			return nil
		}
		return t.add(fsys, name, byDir)
	})
	if err != nil {
		return nil, fmt.Errorf("arch: %w", err)
	}
	for _, p := range byDir {
		p.nested = slices.ContainsFunc(t.nested, func(dir string) bool { return within(p.dir, dir) })
		t.pkgs = append(t.pkgs, p)
	}
	slices.SortFunc(t.pkgs, func(a, b *pkg) int { return strings.Compare(a.dir, b.dir) })
	return t, nil
}

// add reads one file.
func (t *tree) add(fsys fs.FS, name string, byDir map[string]*pkg) error {
	b, err := fs.ReadFile(fsys, name)
	if err != nil {
		return err
	}
	if len(b) <= maxText && !bytes.ContainsRune(b, 0) {
		t.text[name] = b
	}
	dir := path.Dir(name)
	if path.Base(name) == "go.mod" && dir != "." {
		t.nested = append(t.nested, dir)
	}
	if path.Ext(name) != ".go" || ignored(dir) {
		return nil
	}
	f, err := parser.ParseFile(t.fset, name, b, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	if byDir[dir] == nil {
		byDir[dir] = &pkg{dir: dir}
	}
	p := byDir[dir]
	p.sources = append(p.sources, source{name: name, test: strings.HasSuffix(name, "_test.go"), file: f})
	return nil
}

// ignored reports whether the go command does not look for packages in a directory.
func ignored(dir string) bool {
	return slices.ContainsFunc(strings.Split(dir, "/"), func(e string) bool {
		return e == "testdata" || strings.HasPrefix(e, "_") || len(e) > 1 && e[0] == '.'
	})
}

// imports returns the name that a file gives to an import, "" if it does not import it.
func (s *source) imports(wanted string) string {
	for _, spec := range s.file.Imports {
		if imported(spec) != wanted {
			continue
		}
		if spec.Name != nil {
			return spec.Name.Name
		}
		return path.Base(wanted)
	}
	return ""
}

// imported returns the path of an import.
func imported(spec *ast.ImportSpec) string { return strings.Trim(spec.Path.Value, "\"`") }

// uses calls found for every mention of one of an imported package's names in a file.
func (s *source) uses(pkgPath string, names []string, found func(pos token.Pos, name string)) {
	local := s.imports(pkgPath)
	if local == "" {
		return
	}
	ast.Inspect(s.file, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if x, ok := sel.X.(*ast.Ident); ok && x.Name == local && slices.Contains(names, sel.Sel.Name) {
			found(sel.Pos(), sel.Sel.Name)
		}
		return true
	})
}
