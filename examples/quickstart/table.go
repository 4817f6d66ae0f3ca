package main

import (
	"strings"
	"unicode/utf8"
)

// A table is rows below headings. The last column is cut if the paper is too narrow.
type table struct {
	head  []string
	right []bool // columns that are aligned at the right
	rows  [][]span
	rules map[int]bool // rows that have a line above them
}

func (t *table) add(cells ...span) { t.rows = append(t.rows, cells) }

// rule draws a line above the row that comes next.
func (t *table) rule() {
	if t.rules == nil {
		t.rules = map[int]bool{}
	}
	t.rules[len(t.rows)] = true
}

// table writes a table.
func (p *paper) table(t *table) {
	const indent, gap = "   ", 2
	widths := make([]int, len(t.head))
	for i, h := range t.head {
		widths[i] = utf8.RuneCountInString(h)
		for _, row := range t.rows {
			if i < len(row) {
				widths[i] = max(widths[i], utf8.RuneCountInString(row[i].text))
			}
		}
	}
	last := len(widths) - 1
	total := len(indent)
	for _, w := range widths[:last] {
		total += w + gap
	}
	widths[last] = max(min(widths[last], p.width-total), 0)

	row := func(cells []span) {
		l := line{{indent, normal}}
		for i, c := range cells {
			text := shorten(c.text, widths[i])
			pad := strings.Repeat(" ", max(widths[i]-utf8.RuneCountInString(text), 0))
			if i < len(t.right) && t.right[i] {
				text = pad + text
			} else {
				text += pad
			}
			l = append(l, span{text, c.style}, span{strings.Repeat(" ", gap), normal})
		}
		p.print(l[:len(l)-1]...)
	}
	head := make([]span, len(t.head))
	for i, h := range t.head {
		head[i] = span{h, dim}
	}
	rule := func() {
		p.print(
			span{indent + strings.Repeat(p.glyph("─", "-"), total-len(indent)+widths[last]), dim},
		)
	}
	row(head)
	rule()
	for i, cells := range t.rows {
		if t.rules[i] {
			rule()
		}
		row(cells)
	}
}
