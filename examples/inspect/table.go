package main

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode"
)

// A table is rows of cells under a head. A column without any content is left out.
type table struct {
	head []string
	rows [][]string // as long as head
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

// print writes the table, indented, and nothing if it has no rows.
func (t *table) print(b *strings.Builder) error {
	if len(t.rows) == 0 {
		return nil
	}
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	for _, row := range append([][]string{t.head}, t.rows...) {
		var cells []string
		for i, cell := range row {
			if slices.ContainsFunc(t.rows, func(r []string) bool { return r[i] != "" }) {
				cells = append(cells, plain(cell))
			}
		}
		fmt.Fprintln(w, "  "+strings.Join(cells, "\t")+"\t")
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for line := range strings.Lines(text.String()) {
		b.WriteString(strings.TrimRightFunc(line, unicode.IsSpace) + "\n")
	}
	return nil
}

// plain returns a text that keeps to its place in a table or a line.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t' || r == '\n':
			return ' '
		case !unicode.IsPrint(r):
			return unicode.ReplacementChar
		}
		return r
	}, s)
}

// short returns the first line of a text, of 60 runes at most.
func short(s string) string {
	s, _, cut := strings.Cut(s, "\n")
	if r := []rune(s); len(r) > 60 {
		s, cut = string(r[:60]), true
	}
	if cut {
		s += "..."
	}
	return s
}
