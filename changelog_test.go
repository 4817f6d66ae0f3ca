package offshoot_test

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	findingNumber = regexp.MustCompile(`^([RDSCAO])(\d+)\b`)
	designNumber  = regexp.MustCompile(`^(\d+)\.(\d+)\b`)
)

// findingRank returns a text by which findings are sorted: the audit's by kind and number, then the
// numbers of the design, then those that have none, by their words.
func findingRank(finding string) string {
	number := func(s string) int { n, _ := strconv.Atoi(s); return n }
	if m := findingNumber.FindStringSubmatch(finding); m != nil {
		return fmt.Sprintf("0 %d %04d", strings.Index("RDSCAO", m[1]), number(m[2]))
	}
	if m := designNumber.FindStringSubmatch(finding); m != nil {
		return fmt.Sprintf("1 %04d %04d", number(m[1]), number(m[2]))
	}
	return "2 " + strings.ReplaceAll(finding, "`", "")
}

// The changelog has one table of findings, which is sorted.
func TestFindingsAreSorted(t *testing.T) {
	text, err := os.ReadFile("CHANGELOG.md")
	require.NoError(t, err)
	parts := strings.Split(string(text), "\n### Findings closed\n")
	require.Len(t, parts, 2)
	table, _, _ := strings.Cut(parts[1], "\n### ")
	var rows []string
	for line := range strings.Lines(table) {
		if cells := strings.Split(line, "|"); strings.HasPrefix(line, "|") {
			require.GreaterOrEqual(t, len(cells), 6, line)
			rows = append(rows, strings.TrimSpace(cells[1]))
		}
	}
	require.Greater(t, len(rows), 100)
	require.Equal(t, []string{"finding", "---"}, rows[:2])
	rows = rows[2:]
	for i := 1; i < len(rows); i++ {
		require.LessOrEqual(t, findingRank(rows[i-1]), findingRank(rows[i]),
			"%q stands behind %q", rows[i], rows[i-1])
	}
}
