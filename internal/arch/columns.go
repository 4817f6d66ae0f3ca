package arch

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"strings"
	"unicode/utf8"
)

// tab is how many columns a tab counts.
const tab = 4

var (
	urls   = regexp.MustCompile(`https?://\S+`)
	output = regexp.MustCompile(`(?i)^\s*(unordered )?output:`)
	// links are the parts of a Markdown line that cannot be broken.
	links = regexp.MustCompile(`\]\([^)]*\)|^\s*\[[^\]]+\]:\s*\S+|https?://\S+`)
)

// columns checks how long the lines of sources and of documents are. What cannot be broken does
// not count: the contents of string literals, directives, addresses, what an example prints.
func (c *checker) columns() {
	if c.house.MaxColumns == 0 {
		return
	}
	for _, p := range c.pkgs {
		for i := range p.sources {
			c.sourceColumns(&p.sources[i])
		}
	}
	for name, b := range c.text {
		if path.Ext(name) == ".md" && !ignored(path.Dir(name)) {
			c.documentColumns(name, string(b))
		}
	}
}

// sourceColumns checks the lines of one source.
func (c *checker) sourceColumns(s *source) {
	left := bytes.Clone(c.text[s.name])
	if len(left) == 0 {
		return
	}
	c.unbreakable(s, func(from, to int) {
		for i := from; i < to; i++ {
			if left[i] != '\n' {
				left[i] = 0 // does not count
			}
		}
	})
	c.wide(s.name, strings.Split(string(left), "\n"))
}

// unbreakable calls found with the offsets of every part of a source that does not count.
func (c *checker) unbreakable(s *source, found func(from, to int)) {
	for _, group := range s.file.Comments {
		for _, comment := range group.List {
			at := c.offset(comment.Pos())
			if strings.HasPrefix(comment.Text, "//go:") || strings.HasPrefix(comment.Text, "//nolint") {
				found(at, c.offset(comment.End()))
			}
			for _, m := range urls.FindAllStringIndex(comment.Text, -1) {
				found(at+m[0], at+m[1])
			}
		}
	}
	ast.Inspect(s.file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BasicLit:
			if n.Kind == token.STRING {
				found(c.offset(n.Pos())+1, c.offset(n.End())-1)
			}
		case *ast.FuncDecl:
			if s.test && strings.HasPrefix(n.Name.Name, "Example") {
				c.printed(s, n, found)
			}
		}
		return true
	})
}

// printed calls found with the offsets of what an example prints.
func (c *checker) printed(s *source, example *ast.FuncDecl, found func(from, to int)) {
	for _, group := range s.file.Comments {
		inside := example.Pos() < group.Pos() && group.End() < example.End()
		if inside && output.MatchString(group.Text()) {
			found(c.offset(group.Pos()), c.offset(group.End()))
		}
	}
}

// documentColumns checks the prose of a Markdown document: neither its tables nor its code.
func (c *checker) documentColumns(name, text string) {
	lines := strings.Split(text, "\n")
	code := false
	for i, l := range lines {
		trimmed := strings.TrimSpace(l)
		fence := strings.HasPrefix(trimmed, "```") || strings.HasPrefix(trimmed, "~~~")
		if fence || code || strings.HasPrefix(trimmed, "|") {
			lines[i] = ""
		}
		code = code != fence
		lines[i] = links.ReplaceAllString(lines[i], "")
	}
	c.wide(name, lines)
}

// wide records the lines of a file that are too long.
func (c *checker) wide(name string, lines []string) {
	for i, l := range lines {
		if n := width(l); n > c.house.MaxColumns {
			place := fmt.Sprintf("%s:%d", name, i+1)
			c.in(place, "columns", "%d columns, %d are allowed", n, c.house.MaxColumns)
		}
	}
}

// width returns how many columns a line has. A byte of 0 counts nothing.
func width(line string) int {
	return utf8.RuneCountInString(line) + (tab-1)*strings.Count(line, "\t") -
		strings.Count(line, "\x00") - strings.Count(line, "\r")
}
