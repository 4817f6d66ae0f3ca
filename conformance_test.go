package offshoot_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// conformanceCases are how many cases each section or family has of which docs/conformance.md has
// rows.
var conformanceCases = map[string]int{
	"1.": 27, "2.": 20, "3.": 20, "4.": 24, "5.": 30, "7.": 24,
	"K": 32, "W": 22, "B": 18, "P": 21, "SK": 23, "SA": 17,
}

// caseNumber finds the section or family of a case, and its number there.
var caseNumber = regexp.MustCompile(`^\| ([0-9]+\.|[A-Z]+)([0-9]+) \|`)

// faultOfCase returns what is wrong with a row of docs/conformance.md, or "". sources has the text
// of the test files of each package.
func faultOfCase(row string, sources map[string]string) string {
	cells := strings.Split(strings.Trim(row, "| "), " | ")
	if len(cells) != 3 {
		return "want the case, what holds, and the test"
	}
	named := documentTest.FindAllStringSubmatch(cells[2], -1)
	if len(named) == 0 {
		return "it names no test"
	}
	has := false
	for _, test := range named {
		source := sources[test[1]]
		if !strings.Contains(source, "func "+test[2]+"(t *testing.T)") {
			return fmt.Sprintf("there is not a test %s.%s", test[1], test[2])
		}
		for _, form := range []string{`"%s"`, `"%s `, "// %s\n", "// %s:"} {
			has = has || strings.Contains(source, fmt.Sprintf(form, cells[0]))
		}
	}
	if has || strings.Contains(cells[1], "; see ") {
		return ""
	}
	return fmt.Sprintf("no test of the package has the case %s", cells[0])
}

// docs/conformance.md has every case of the reference in its order, with a test that exists and has
// the case.
func TestConformancePage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("docs", "conformance.md"))
	require.NoError(t, err)
	sources := map[string]string{}
	for name, dir := range documentPackages {
		files, err := filepath.Glob(filepath.Join(filepath.FromSlash(dir), "*_test.go"))
		require.NoError(t, err)
		for _, path := range files {
			data, err := os.ReadFile(path)
			require.NoError(t, err)
			sources[name] += string(data)
		}
	}
	cases := map[string]int{}
	for line := range strings.Lines(string(page)) {
		number := caseNumber.FindStringSubmatch(line)
		if number == nil {
			continue
		}
		cases[number[1]]++
		require.Equal(t, fmt.Sprint(cases[number[1]]), number[2], line)
		require.Empty(t, faultOfCase(strings.TrimSpace(line), sources), line)
	}
	require.Equal(t, conformanceCases, cases)
	for _, test := range documentTest.FindAllStringSubmatch(string(page), -1) {
		require.Contains(t, sources[test[1]], "func "+test[2]+"(t *testing.T)", test[0])
	}

	row := "| 5.99 | x | `agent.TestLifeCases` |"
	require.Equal(t, "no test of the package has the case 5.99", faultOfCase(row, sources))
	require.Equal(t, "there is not a test agent.TestX",
		faultOfCase("| 5.1 | x | `agent.TestX` |", sources))
	require.Equal(t, "it names no test", faultOfCase("| 5.1 | x | y |", sources))
}

// The pages that have the cases of a section of their own number them as the reference does, and
// every test that they name is there.
func TestConformanceOfCommandsAndHooks(t *testing.T) {
	named := regexp.MustCompile(`\b(Test[A-Z][A-Za-z0-9]*)\b`)
	for page, c := range map[string]struct {
		section string
		cases   int
		dir     string
	}{
		"commands.md": {"6", 28, filepath.Join("agent", "command")},
		"hooks.md":    {"9", 20, "agent"},
	} {
		text, err := os.ReadFile(filepath.Join("docs", page))
		require.NoError(t, err)
		files, err := filepath.Glob(filepath.Join(c.dir, "*_test.go"))
		require.NoError(t, err)
		source := ""
		for _, path := range files {
			data, err := os.ReadFile(path)
			require.NoError(t, err)
			source += string(data)
		}
		cases := 0
		for line := range strings.Lines(string(text)) {
			if !strings.HasPrefix(line, "| "+c.section+".") {
				continue
			}
			cases++
			require.True(t, strings.HasPrefix(line, fmt.Sprintf("| %s.%d |", c.section, cases)), line)
			cells := strings.Split(strings.Trim(strings.TrimSpace(line), "| "), " | ")
			last := cells[len(cells)-1]
			tests := named.FindAllString(last, -1)
			for _, test := range tests {
				require.Contains(t, source, "func "+test+"(t *testing.T)", line)
			}
			elsewhere := strings.Contains(line, "| differs: ") || strings.HasPrefix(last, "scenario ") ||
				strings.HasPrefix(last, "`target` ")
			require.True(t, len(tests) > 0 || elsewhere, "%s: it names no test", line)
		}
		require.Equal(t, c.cases, cases, page)
	}
}
