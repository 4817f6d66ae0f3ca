package contexttest

import (
	"fmt"
	"slices"
	"strings"
)

const (
	around    = 3         // unchanged lines shown before and after a change
	maxMatrix = 4_000_000 // size of table over which lines are not matched one by one
)

// An edit is one line of a diff.
type edit struct {
	mark rune // ' ', '-' or '+'
	text string
}

// Diff returns a line diff: "-" before lines of a, "+" before lines of b,
// with three unchanged lines around each change and the line numbers before
// each group. It is "" for equal texts.
func Diff(a, b string) string {
	if a == b {
		return ""
	}
	return render(edits(slices.Collect(strings.Lines(a)), slices.Collect(strings.Lines(b))))
}

// edits turns a into b, by way of a longest common subsequence.
func edits(a, b []string) []edit {
	var head, tail []edit
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		head = append(head, edit{' ', a[0]})
		a, b = a[1:], b[1:]
	}
	n := 0
	for n < len(a) && n < len(b) && a[len(a)-1-n] == b[len(b)-1-n] {
		n++
	}
	for _, line := range a[len(a)-n:] {
		tail = append(tail, edit{' ', line})
	}
	a, b = a[:len(a)-n], b[:len(b)-n]
	return append(append(head, middle(a, b)...), tail...)
}

// middle matches what is left between equal beginnings and ends.
func middle(a, b []string) []edit {
	var list []edit
	if (len(a)+1)*(len(b)+1) > maxMatrix {
		return replace(list, a, b)
	}
	// common[i][j] is the length of the longest common subsequence of a[i:]
	// and b[j:].
	common := make([][]int, len(a)+1)
	for i := range common {
		common[i] = make([]int, len(b)+1)
	}
	for i, line := range slices.Backward(a) {
		for j, other := range slices.Backward(b) {
			if line == other {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	i, j := 0, 0
	for i < len(a) && j < len(b) {
		switch {
		case a[i] == b[j]:
			list = append(list, edit{' ', a[i]})
			i, j = i+1, j+1
		case common[i+1][j] >= common[i][j+1]:
			list = append(list, edit{'-', a[i]})
			i++
		default:
			list = append(list, edit{'+', b[j]})
			j++
		}
	}
	return replace(list, a[i:], b[j:])
}

// replace appends all of a as removed and all of b as added.
func replace(list []edit, a, b []string) []edit {
	for _, line := range a {
		list = append(list, edit{'-', line})
	}
	for _, line := range b {
		list = append(list, edit{'+', line})
	}
	return list
}

// render writes the changes in groups.
func render(list []edit) string {
	var b strings.Builder
	lineA, lineB, shownTo := 1, 1, 0
	for i, e := range list {
		near := false
		for _, other := range list[max(0, i-around):min(len(list), i+around+1)] {
			near = near || other.mark != ' '
		}
		if near {
			if shownTo != i || i == 0 {
				fmt.Fprintf(&b, "@@ -%d +%d @@\n", lineA, lineB)
			}
			line, whole := strings.CutSuffix(e.text, "\n")
			fmt.Fprintf(&b, "%c%s\n", e.mark, line)
			if !whole {
				b.WriteString("\\ no newline at the end\n")
			}
			shownTo = i + 1
		}
		if e.mark != '+' {
			lineA++
		}
		if e.mark != '-' {
			lineB++
		}
	}
	return b.String()
}
