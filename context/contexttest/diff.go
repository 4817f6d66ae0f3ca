package contexttest

import (
	"fmt"
	"slices"
	"strings"
)

const (
	contextLines = 3         // unchanged lines shown before and after a change
	maxMatrix    = 4_000_000 // size of table over which lines are not matched one by one
)

// An edit is one line of a diff.
type edit struct {
	mark rune // ' ', '-' or '+'
	text string
}

// Diff returns a line diff of two texts: "-" before lines of a, "+" before lines of b. It shows
// three unchanged lines around each change, and the line numbers before each group. It returns ""
// for equal texts. Golden uses it, and a suite may use it for golden files of its own.
func Diff(a, b string) string {
	if a == b {
		return ""
	}
	return renderGroups(
		diffLines(slices.Collect(strings.Lines(a)), slices.Collect(strings.Lines(b))),
	)
}

// diffLines returns the edits that turn a into b, by way of a longest common subsequence.
func diffLines(a, b []string) []edit {
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
	return append(append(head, diffMiddle(a, b)...), tail...)
}

// diffMiddle returns the edits for what is left between equal beginnings and ends.
func diffMiddle(a, b []string) []edit {
	var list []edit
	if (len(a)+1)*(len(b)+1) > maxMatrix {
		return appendReplaced(list, a, b)
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
	return appendReplaced(list, a[i:], b[j:])
}

// appendReplaced appends all of a as removed and all of b as added.
func appendReplaced(list []edit, a, b []string) []edit {
	for _, line := range a {
		list = append(list, edit{'-', line})
	}
	for _, line := range b {
		list = append(list, edit{'+', line})
	}
	return list
}

// renderGroups writes the changes in groups, each with its unchanged lines and line numbers.
func renderGroups(list []edit) string {
	var b strings.Builder
	lineA, lineB, shownTo := 1, 1, 0
	for i, e := range list {
		near := false
		for _, other := range list[max(0, i-contextLines):min(len(list), i+contextLines+1)] {
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
