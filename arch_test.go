package offshoot_test

import (
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/internal/arch"
)

// house is what DESIGN.md says in words and with a picture. An arrow or a dependency that is added
// here is added there too.
var house = arch.House{
	Module: "github.com/offshoot-sdk/offshoot",
	Rooms: []arch.Room{
		{Dir: "session", Third: []string{"github.com/google/uuid"}},
		{Dir: "session/dirstore", Ours: []string{"session"}},
		{Dir: "session/binding", Ours: []string{"session"}},
		{
			Dir: "session/storecopy", Ours: []string{"session"},
			TestOurs: []string{"session/dirstore"},
		},
		{
			// The load of a bot, for the tests of the engines.
			Dir:  "session/internal/load",
			Ours: []string{"agent", "announce", "spawn", "policy", "session"},
		},
		{
			Dir: "session/internal/enginetest", Kit: true, // of the nested modules below session
			Ours: []string{
				"agent", "spawn", "policy", "session", "session/dirstore", "session/storecopy",
			},
		},
		{Dir: "policy", Ours: []string{"session"}},
		{Dir: "context", Ours: []string{"session"}, Third: []string{"go.yaml.in/yaml/v3"}},
		{Dir: "spawn", Ours: []string{"policy", "session"}, TestOurs: []string{"session/dirstore"}},
		{
			Dir: "announce", Ours: []string{"spawn", "session"},
			TestOurs: []string{"session/dirstore"},
		},
		{
			Dir: "agent",
			Ours: []string{
				"announce", "spawn", "context", "policy", "session", "session/binding",
			},
			Third:    []string{"golang.org/x/sync/errgroup"},
			TestOurs: []string{"session/dirstore"},
		},
		{
			Dir:  "agent/provider",
			Ours: []string{"agent", "announce", "spawn", "policy", "session"},
		},
		{
			Dir:  "agent/command",
			Ours: []string{"agent", "announce", "spawn", "policy", "session", "session/binding"},
		},
	},
	Internal:      "internal",
	InternalThird: []string{"golang.org/x/sync"},
	Examples:      "examples",
	TestOnly:      []string{"github.com/stretchr/testify/assert", "github.com/stretchr/testify/require"},
	Pure:          []string{"policy", "session/internal/lease", "spawn/internal/tree", "spawn/internal/tenure"},
	Bubbles:       []string{"agent/agenttest", "spawn/spawntest"},
	MaxFunc:       80,
	Words: []arch.Word{
		{Is: "whoever|somebody|anybody|nobody"},
		{
			Is:  `(?:there )?(?:is|are) no \w+`,
			But: []string{"(is|are) no longer", "there (is|are) no", `(is|are) no \w+er than`},
		},
	},
	MaxColumns: 100,
	MaxFiles:   40,
	MaxRepeat:  12,
	Prefixes: map[string]string{
		"spawn/internal/tree": "spawn", "spawn/internal/owner": "spawn",
		"spawn/internal/route":  "spawn",
		"agent/internal/thread": "agent",
		"agent/internal/attach": "agent", "agent/internal/workdir": "agent",
		"agent/internal/sender": "agent",
	},
	Exempt: map[string][]string{
		"columns": {"context/templates", "examples/quickstart/workspace"},
		// The texts of prompts speak to models.
		"word": {
			"context/templates", "examples/promptci/bot.go", "examples/quickstart/workspace",
		},
		// They decide by session/internal/lease and are members by session/internal/cluster, which
		// are for stores of a cluster. All are of one version while session.Owners is experimental.
		"nested": {"session/natsstore", "session/pgstore"},
	},
	// Only the switch of a state machine may be longer.
	LongFuncs: []string{},
	// A path of one machine is of no use on another, and no test reads a directory outside the
	// repository. The brackets keep a pattern from matching itself.
	Forbidden: []*regexp.Regexp{
		regexp.MustCompile(`/[w]ork/`),
		regexp.MustCompile(`/[r]oot/`),
		regexp.MustCompile(`/[t]mp/b\.sh`),
		regexp.MustCompile(`shared/[r]eference|shared/[s]eeds|\b[s]eed 00\d`),
		regexp.MustCompile(`\.\./[s]hared|OFFSHOOT_[V]ECTORS`),
	},
}

// The sources of the whole repository keep to the rules of the house.
func TestHouse(t *testing.T) {
	skipUnderRace(t)
	found, err := arch.Check(os.DirFS("."), house)
	require.NoError(t, err)
	for _, v := range found {
		t.Error(v)
	}
}

// The versions in the documentation of the adapters are those that their modules are built on, and
// the module of the library has none of them.
func TestVersionsOfAdapters(t *testing.T) {
	read := func(path string) string {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		return string(text)
	}
	row := regexp.MustCompile("(?m)^\\| `(agent/\\w+)` \\| (\\S+) \\| (v\\S+) \\|$")
	rows := row.FindAllStringSubmatch(read("docs/adapters.md"), -1)
	require.Len(t, rows, 4)
	for _, cells := range rows {
		require.Contains(t, read(cells[1]+"/go.mod"), "\t"+cells[2]+" "+cells[3]+"\n", cells[1])
		require.NotContains(t, read("go.mod")+read("go.sum"), cells[2])
		for _, file := range []string{"README.md", "example_test.go"} {
			require.FileExists(t, cells[1]+"/"+file)
		}
	}
}
