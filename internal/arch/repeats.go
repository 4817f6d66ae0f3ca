package arch

import (
	"fmt"
	"go/ast"
	"maps"
	"strings"
)

// A codeLine is a trimmed line of a source that says something: not blank, not a comment, not an
// import, and not punctuation alone.
type codeLine struct {
	n    int // its number in the file
	text string
}

// A spot is an index into the code lines of a source.
type spot struct {
	name  string
	lines []codeLine
	at    int
}

// repeats checks that the tests of a package do not repeat one another: no block of more than
// MaxRepeat code lines stands in two of the files.
func (c *checker) repeats() {
	if c.house.MaxRepeat == 0 {
		return
	}
	for _, p := range c.pkgs {
		seen := map[string]spot{} // by the text of a block, of the files before this one
		for i := range p.sources {
			if s := &p.sources[i]; s.test {
				c.repeated(s, seen)
			}
		}
	}
}

// repeated records the blocks of a source that stand in one seen before, and adds those it has.
func (c *checker) repeated(s *source, seen map[string]spot) {
	lines := c.codeLines(s)
	size := c.house.MaxRepeat + 1
	own := map[string]spot{}
	reported := 0 // the end of the last block that was recorded
	for at := range max(0, len(lines)-size+1) {
		key := block(lines[at : at+size])
		here := spot{name: s.name, lines: lines, at: at}
		if first, ok := seen[key]; !ok {
			own[key] = here
		} else if at >= reported {
			n := common(first, here)
			reported = at + n
			place := fmt.Sprintf("%s:%d", s.name, lines[at].n)
			c.in(place, "repeat", "%d lines stand in %s:%d as well, %d are allowed",
				n, first.name, first.lines[first.at].n, c.house.MaxRepeat)
		}
	}
	maps.Copy(seen, own)
}

// block returns the text of consecutive lines.
func block(lines []codeLine) string {
	var b strings.Builder
	for _, l := range lines {
		b.WriteString(l.text)
		b.WriteByte('\n')
	}
	return b.String()
}

// common returns how many lines are the same at two spots.
func common(a, b spot) int {
	as, bs := a.lines[a.at:], b.lines[b.at:]
	n := 0
	for n < min(len(as), len(bs)) && as[n].text == bs[n].text {
		n++
	}
	return n
}

// codeLines returns the code lines of a source.
func (c *checker) codeLines(s *source) []codeLine {
	head := c.line(s.file.Name.Pos()) // the package clause and the imports stand up to this line
	for _, d := range s.file.Decls {
		if g, ok := d.(*ast.GenDecl); ok && len(g.Specs) > 0 {
			if _, ok := g.Specs[0].(*ast.ImportSpec); ok {
				head = c.line(g.End())
			}
		}
	}
	var lines []codeLine
	n := 0
	for text := range strings.Lines(string(c.text[s.name])) {
		n++
		text = strings.TrimSpace(text)
		if n > head && strings.Trim(text, "(){}[],;") != "" && !strings.HasPrefix(text, "//") {
			lines = append(lines, codeLine{n: n, text: text})
		}
	}
	return lines
}
