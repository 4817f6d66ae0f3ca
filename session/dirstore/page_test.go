package dirstore_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// notOfOpening are the exported errors that neither opening a directory nor Health returns.
var notOfOpening = map[string]string{
	"session.ErrInvalidKey":     "of a call",
	"session.KeyError":          "of a call",
	"session.ErrConflict":       "of an append",
	"session.ErrNotFound":       "of a call",
	"session.ErrInvalidLine":    "of an append",
	"session.ErrInvalidBatch":   "of an append",
	"session.ErrArchived":       "of an append",
	"session.ErrNotArchived":    "of a call",
	"session.ErrInvalidPart":    "of an append",
	"session.PartError":         "of an append",
	"session.ErrNoFiles":        "of a call",
	"session.ErrFileChanged":    "of a call",
	"session.ErrCorruptLineage": "of a record",
	"session.LineageError":      "of a record",
	"session.ErrOwned":          "of Owners",
	"session.OwnedError":        "of Owners",
	"session.ErrNoOwner":        "of Owners",
	"session.ErrUnanswered":     "of Owners",
	"session.ErrReplaced":       "of Owners",
	"session.ErrServing":        "of Owners",
	"session.ErrInvalidRequest": "of Owners",
	"session.ErrInvalidTicket":  "of Owners",
	"dirstore.BatchSizeError":   "of an append",
	"dirstore.LineSizeError":    "of an append",
}

// R10: docs/when-a-store-does-not-open.md says of every exported error that opening a directory or
// Health can give what it means.
func TestPageNamesEveryErrorOfOpening(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "when-a-store-does-not-open.md"))
	require.NoError(t, err)
	found := 0
	for pkg, dir := range map[string]string{"session": "..", "dirstore": "."} {
		for _, name := range exportedErrors(t, dir) {
			name = pkg + "." + name
			_, other := notOfOpening[name]
			named := strings.Contains(string(page), "`"+name+"`") ||
				strings.Contains(string(page), "`*"+name+"`")
			assert.NotEqual(t, other, named,
				"%s: name it on the page, or here as one that opening does not return", name)
			found++
		}
	}
	assert.Greater(t, found, len(notOfOpening))
}

// exportedErrors returns the names of the exported sentinels and types of errors in a directory.
func exportedErrors(t *testing.T, dir string) (names []string) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	require.NoError(t, err)
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				return false
			case *ast.ValueSpec:
				if name := n.Names[0].Name; strings.HasPrefix(name, "Err") {
					names = append(names, name)
				}
			case *ast.TypeSpec:
				if name := n.Name.Name; n.Name.IsExported() && strings.HasSuffix(name, "Error") {
					names = append(names, name)
				}
			}
			return true
		})
	}
	return names
}
