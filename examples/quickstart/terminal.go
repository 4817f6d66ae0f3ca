package main

import (
	"io"
	"os"
	"runtime"
	"strings"
	"unicode/utf8"
)

// A style is how a piece of text looks in a terminal. Elsewhere it looks like text.
type style uint8

const (
	normal style = iota
	bold
	dim
	red
	green
	yellow
	blue
	cyan
)

var escapes = [...]string{
	"", "\x1b[1m", "\x1b[2m", "\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[34m", "\x1b[36m",
}

const reset = "\x1b[0m"

// A span is a piece of a line in one style, a line is several of them.
type (
	span struct {
		text  string
		style style
	}
	line []span
)

// width is how many columns the line takes.
func (l line) width() (n int) {
	for _, s := range l {
		n += utf8.RuneCountInString(s.text)
	}
	return n
}

// cut returns at most n columns of the line, the last of them an ellipsis if there are more.
func (l line) cut(n int) line {
	if l.width() <= n {
		return l
	}
	var short line
	for _, s := range l {
		w := utf8.RuneCountInString(s.text)
		if w >= n {
			return append(short, span{shorten(s.text+"…", n), s.style})
		}
		short, n = append(short, s), n-w
	}
	return short
}

// maxWidth is how many columns are used at most, however wide the terminal is.
const maxWidth = 100

// A paper is what the story is written on: a terminal, with colours and frames, or anything else,
// without.
type paper struct {
	out   io.Writer
	fancy bool
	width int
	err   error // the first one of writing
}

// newPaper returns a paper for an output. unhurried reports that a person reads along at a
// terminal, outside of CI, so that the story should pause now and then.
func newPaper(out io.Writer) (p *paper, unhurried bool) {
	p = &paper{out: out, width: maxWidth}
	f, ok := out.(*os.File)
	if !ok {
		return p, false
	}
	columns, ok := terminalSize(f)
	if !ok {
		return p, false
	}
	if columns > 0 {
		p.width = max(min(columns, maxWidth), 60)
	}
	modern := runtime.GOOS != "windows" || os.Getenv("WT_SESSION") != "" || os.Getenv("TERM") != ""
	p.fancy = modern && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	return p, os.Getenv("CI") == ""
}

// print writes a line, never wider than the paper and without spaces at its end.
func (p *paper) print(spans ...span) {
	l := line(spans).cut(p.width)
	for len(l) > 0 && strings.TrimRight(l[len(l)-1].text, " ") == "" {
		l = l[:len(l)-1]
	}
	var b strings.Builder
	for i, s := range l {
		if i == len(l)-1 {
			s.text = strings.TrimRight(s.text, " ")
		}
		if p.fancy && s.style != normal && s.text != "" {
			s.text = escapes[s.style] + s.text + reset
		}
		b.WriteString(s.text)
	}
	b.WriteByte('\n')
	if _, err := io.WriteString(p.out, b.String()); err != nil && p.err == nil {
		p.err = err
	}
}

// glyph returns the character for a terminal, or the one for everything else.
func (p *paper) glyph(fancy, plain string) string {
	if p.fancy {
		return fancy
	}
	return plain
}

// title begins a chapter.
func (p *paper) title(number, text string) {
	p.print()
	rest := p.width - utf8.RuneCountInString(number+text) - 4
	p.print(
		span{number, cyan}, span{"  " + text + "  ", bold},
		span{strings.Repeat(p.glyph("─", "-"), max(rest, 0)), dim},
	)
	p.print()
}

// text writes a paragraph.
func (p *paper) text(text string, s style) {
	for _, l := range wrap(text, p.width-3) {
		p.print(span{"   " + l, s})
	}
}

// say writes what happens to the tree from outside.
func (p *paper) say(text string) {
	p.print()
	p.text(text, bold)
	p.print()
}

// box writes a text in a frame with a heading.
func (p *paper) box(heading string, body []string, s style) {
	const indent = "   "
	inner := p.width - len(indent) - 4
	heading = shorten(heading, inner-2)
	if !p.fancy {
		p.print(span{indent + "+-- " + heading, normal})
		for _, text := range body {
			for _, l := range wrap(text, inner) {
				p.print(span{indent + "| " + l, normal})
			}
		}
		p.print(span{indent + "+--", normal})
		return
	}
	bar := strings.Repeat("─", inner-utf8.RuneCountInString(heading)-1)
	p.print(span{indent + "╭─ ", s}, span{heading, bold}, span{" " + bar + "╮", s})
	for _, text := range body {
		for _, l := range wrap(text, inner) {
			pad := strings.Repeat(" ", inner-utf8.RuneCountInString(l))
			p.print(span{indent + "│ ", s}, span{l + pad, normal}, span{" │", s})
		}
	}
	p.print(span{indent + "╰" + strings.Repeat("─", inner+2) + "╯", s})
}
