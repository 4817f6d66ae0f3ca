package offshoot_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// documentPackages are the directories of the packages whose tests docs/seeds.md names.
var documentPackages = map[string]string{
	"agent": "agent", "agentctx": "context", "announce": "announce", "binding": "session/binding",
	"command": "agent/command", "dirstore": "session/dirstore", "openclaw": "agent/openclaw",
	"policy": "policy", "session": "session", "spawn": "spawn", "tree": "spawn/internal/tree",
}

var (
	documentTest = regexp.MustCompile("`([a-z]+)\\.(Test[A-Za-z0-9]+)`")
	documentIDs  = regexp.MustCompile(`^[A-E]( [A-E])*$`)
)

// documentRows returns the cells of the rows of docs/seeds.md that say what a document asks for.
func documentRows(page string) (rows [][]string) {
	for line := range strings.Lines(page) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if len(cells) >= 3 && documentIDs.MatchString(cells[0]) {
			rows = append(rows, cells)
		}
	}
	return rows
}

// faultOfRow returns what is wrong with a row, or "".
func faultOfRow(cells []string, exists func(pkg, name string) bool) string {
	if len(cells) != 3 || cells[1] == "" {
		return "want who asks, what for, and what shows it"
	}
	named := documentTest.FindAllStringSubmatch(cells[2], -1)
	if len(named) == 0 {
		return "it names no test"
	}
	for _, test := range named {
		if !exists(test[1], test[2]) {
			return fmt.Sprintf("there is not a test %s.%s", test[1], test[2])
		}
	}
	return ""
}

// docs/seeds.md names the test of everything that the documents ask for, and each test exists.
func TestDocumentsHaveTests(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("docs", "seeds.md"))
	require.NoError(t, err)
	tests := map[string]bool{}
	for name, dir := range documentPackages {
		for _, test := range testFuncs(t, dir) {
			tests[name+"."+test] = true
		}
	}
	exists := func(pkg, name string) bool { return tests[pkg+"."+name] }
	rows := documentRows(string(page))
	require.Greater(t, len(rows), 100)
	asks := map[string]int{}
	for _, cells := range rows {
		require.Empty(t, faultOfRow(cells, exists), "%q", cells)
		for id := range strings.FieldsSeq(cells[0]) {
			asks[id]++
		}
	}
	for id := range strings.FieldsSeq("A B C D E") {
		require.Greater(t, asks[id], 10, "rows of the document %s", id)
	}
	for _, test := range documentTest.FindAllStringSubmatch(string(page), -1) {
		require.True(t, exists(test[1], test[2]), test[0])
	}

	none := func(string, string) bool { return false }
	require.Equal(t, "there is not a test agent.TestX",
		faultOfRow([]string{"A", "x", "`agent.TestX`"}, none))
	require.NotEmpty(t, faultOfRow([]string{"A", "x", "a reason alone"}, none))
	require.NotEmpty(t, faultOfRow([]string{"A", "", "`agent.TestX`"}, exists))
}

// testFuncs returns the names of the functions in the test files of a directory.
func testFuncs(t *testing.T, dir string) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(filepath.FromSlash(dir), "*_test.go"))
	require.NoError(t, err)
	for _, path := range files {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil {
				names = append(names, f.Name.Name)
			}
		}
	}
	return names
}
