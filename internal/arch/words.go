package arch

import (
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// A wording is a compiled [Word].
type wording struct {
	is  *regexp.Regexp
	but []*regexp.Regexp
}

// compile returns the wordings of the house.
func compile(words []Word) ([]wording, error) {
	var ws []wording
	for _, word := range words {
		is, err := whole(`\b`, word.Is)
		if err != nil {
			return nil, err
		}
		w := wording{is: is}
		for _, but := range word.But {
			re, err := whole(`^`, but)
			if err != nil {
				return nil, err
			}
			w.but = append(w.but, re)
		}
		ws = append(ws, w)
	}
	return ws, nil
}

// whole compiles a pattern of [Word] with what stands before it.
func whole(before, pattern string) (*regexp.Regexp, error) {
	re, err := regexp.Compile(`(?i)` + before + `(?:` + strings.ReplaceAll(pattern, " ", `\s+`) + `)\b`)
	if err != nil {
		return nil, fmt.Errorf("arch: the word %q: %w", pattern, err)
	}
	return re, nil
}

// find calls found with the offset and the text of every occurrence in text.
func (w *wording) find(text string, found func(at int, said string)) {
	for _, m := range w.is.FindAllStringIndex(text, -1) {
		allowed := slices.ContainsFunc(w.but, func(re *regexp.Regexp) bool {
			return re.MatchString(text[m[0]:])
		})
		if !allowed {
			found(m[0], strings.Join(strings.Fields(text[m[0]:m[1]]), " "))
		}
	}
}

// words checks the wording of comments, names, messages and documents.
func (c *checker) words() error {
	ws, err := compile(c.house.Words)
	if err != nil || len(ws) == 0 {
		return err
	}
	for _, p := range c.pkgs {
		for i := range p.sources {
			c.sourceWords(&p.sources[i], ws)
		}
	}
	for name, b := range c.text {
		if path.Ext(name) == ".md" && !ignored(path.Dir(name)) {
			c.say(name, 1, string(b), ws)
		}
	}
	return nil
}

// sourceWords checks one source: its comments and the names that it declares, with its literals
// where it is not a test, and with the names of subtests where it is one.
func (c *checker) sourceWords(s *source, ws []wording) {
	for _, group := range s.file.Comments {
		c.say(s.name, c.line(group.Pos()), c.prose(s, group), ws)
	}
	ast.Inspect(s.file, func(n ast.Node) bool {
		for _, id := range declared(n) {
			c.say(s.name, c.line(id.Pos()), parts(id.Name), ws)
		}
		if lit, ok := n.(*ast.BasicLit); ok && !s.test {
			c.sayLiteral(s, lit, ws)
		}
		if s.test {
			for _, lit := range subtests(n) {
				c.sayLiteral(s, lit, ws)
			}
		}
		return true
	})
}

// say records every wording that a text has. The text begins on the given line of a file.
func (c *checker) say(name string, line int, text string, ws []wording) {
	for i := range ws {
		ws[i].find(text, func(at int, said string) {
			place := fmt.Sprintf("%s:%d", name, line+strings.Count(text[:at], "\n"))
			c.in(place, "word", "%q: say it in other words", said)
		})
	}
}

// sayLiteral records every wording that a string literal has.
func (c *checker) sayLiteral(s *source, lit *ast.BasicLit, ws []wording) {
	if lit.Kind != token.STRING {
		return
	}
	text, err := strconv.Unquote(lit.Value)
	if err != nil {
		return
	}
	if lit.Value[0] == '"' { // an escaped line break is not one of the file
		text = strings.ReplaceAll(text, "\n", " ")
	}
	c.say(s.name, c.line(lit.Pos()), text, ws)
}

// line returns the line of a position.
func (c *checker) line(pos token.Pos) int { return c.fset.Position(pos).Line }

// prose returns the text of a comment with its line breaks and without the marks of its lines.
func (c *checker) prose(s *source, group *ast.CommentGroup) string {
	b := c.text[s.name]
	from, to := c.offset(group.Pos()), c.offset(group.End())
	if to > len(b) {
		return ""
	}
	lines := strings.Split(string(b[from:to]), "\n")
	for i, l := range lines {
		lines[i] = strings.TrimPrefix(strings.TrimLeft(l, " \t"), "//")
	}
	return strings.Join(lines, "\n")
}

// offset returns the offset of a position in its file.
func (c *checker) offset(pos token.Pos) int { return c.fset.PositionFor(pos, false).Offset }

// parts returns a name with a space between its words: "doorKey" becomes "door Key".
func parts(name string) string {
	var b strings.Builder
	var last rune
	for _, r := range name {
		if r == '_' {
			r = ' '
		} else if unicode.IsUpper(r) && unicode.IsLower(last) {
			b.WriteByte(' ')
		}
		b.WriteRune(r)
		last = r
	}
	return b.String()
}

// declared returns the names that a node itself declares.
func declared(n ast.Node) []*ast.Ident {
	switch n := n.(type) {
	case *ast.FuncDecl:
		return []*ast.Ident{n.Name}
	case *ast.TypeSpec:
		return []*ast.Ident{n.Name}
	case *ast.ValueSpec:
		return n.Names
	case *ast.Field:
		return n.Names
	case *ast.LabeledStmt:
		return []*ast.Ident{n.Label}
	case *ast.ImportSpec:
		if n.Name != nil {
			return []*ast.Ident{n.Name}
		}
	case *ast.AssignStmt:
		if n.Tok == token.DEFINE {
			return idents(n.Lhs...)
		}
	case *ast.RangeStmt:
		if n.Tok == token.DEFINE {
			return idents(n.Key, n.Value)
		}
	}
	return nil
}

// idents returns those of the expressions that are identifiers.
func idents(exprs ...ast.Expr) (ids []*ast.Ident) {
	for _, e := range exprs {
		if id, ok := e.(*ast.Ident); ok {
			ids = append(ids, id)
		}
	}
	return ids
}
