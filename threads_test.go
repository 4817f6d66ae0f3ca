package offshoot_test

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// bots are the examples that are a bot, and read nothing of a store but by package agent.
var bots = []string{
	"bottest", "chat", "embed", "existingbot", "managedbot", "orchestrator", "quickstart", "realbot",
	"threads",
}

// No bot needs package spawn, and that of examples/threads has less than 80 lines beside its
// transport and its fake model.
func TestBotsNeedPackageAgentAlone(t *testing.T) {
	for _, bot := range bots {
		files, err := filepath.Glob(filepath.Join("examples", bot, "*.go"))
		require.NoError(t, err)
		require.NotEmpty(t, files, bot)
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
			require.NoError(t, err)
			for _, of := range file.Imports {
				require.NotEqual(t, `"github.com/offshoot-sdk/offshoot/spawn"`, of.Path.Value, name)
			}
		}
	}
	main, err := os.ReadFile(filepath.Join("examples", "threads", "main.go"))
	require.NoError(t, err)
	require.Less(t, strings.Count(string(main), "\n"), 80)
}
