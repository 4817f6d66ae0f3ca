package arch_test

import (
	"io/fs"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/internal/arch"
)

// a house of two rooms, one with a room within: up may import down, and its tests the room in down as well.
var house = arch.House{
	Module: "example.com/m",
	Rooms: []arch.Room{
		{Dir: "down", Third: []string{"example.org/uuid"}},
		{Dir: "down/cellar", Ours: []string{"down"}},
		{Dir: "up", Ours: []string{"down"}, TestOurs: []string{"down/cellar"}},
	},
	Internal:      "internal",
	InternalThird: []string{"example.org/sync"},
	Examples:      "examples",
	TestOnly:      []string{"example.org/assert"},
	Pure:          []string{"down"},
	Bubbles:       []string{"up/uptest"},
	MaxFunc:       10,
	LongFuncs:     []string{"up.Machine.Step"},
	Forbidden:     []*regexp.Regexp{regexp.MustCompile(`secret-path`)},
}

const (
	exampleRuns = "func Example() {\n\t// Output:\n}\n"
	exampleOnly = "func Example() { println() }\n"
)

// sound is a repository without a violation; a test breaks one thing in it.
func sound() fstest.MapFS {
	fsys := fstest.MapFS{}
	for name, text := range map[string]string{
		"go.mod":                   "module example.com/m\n",
		"doc.go":                   "// Package m is a sign.\npackage m\n",
		"m_test.go":                "package m_test\n\n" + imports("example.com/m/up", "example.org/assert"),
		"README.md":                "plain text",
		".git/config":              "secret-path",
		"logo.png":                 "secret-path \x00",
		"down/doc.go":              packageDoc("down"),
		"down/down.go":             "package down\n\n" + imports("strings", "example.org/uuid/v2", "example.com/m/internal/x"),
		"down/down_test.go":        "package down_test\n\n" + imports("example.org/assert", "example.com/m/down/downtest") + exampleRuns,
		"down/internal/i/doc.go":   "// Package i is hidden.\npackage i\n",
		"down/cellar/doc.go":       packageDoc("cellar"),
		"down/cellar/cellar.go":    "package cellar\n\n" + imports("example.com/m/down", "example.com/m/down/internal/i"),
		"down/cellar/a_test.go":    "package cellar_test\n\n" + imports("example.com/m/down/downtest") + exampleRuns,
		"down/testdata/a.go":       "not Go",
		"down/downtest/doc.go":     "// Package downtest tests.\npackage downtest\n",
		"down/downtest/kit.go":     "package downtest\n\n" + imports("testing", "example.com/m/down"),
		"down/downtest/a_test.go":  "package downtest_test\n\n" + imports("example.org/assert") + exampleOnly,
		"up/doc.go":                packageDoc("up"),
		"up/up.go":                 "package up\n\n" + imports("example.com/m/down", "example.com/m/up/internal/tree"),
		"up/machine.go":            "package up\n\ntype Machine[T any] struct{}\n\nfunc (m *Machine[T]) Step() {" + strings.Repeat("\n", 20) + "}\n",
		"up/up_test.go":            "package up_test\n\n" + imports("example.com/m/down/downtest", "example.com/m/down/cellar") + exampleRuns,
		"up/uptest/doc.go":         "// Package uptest tests.\npackage uptest\n",
		"up/uptest/kit.go":         "package uptest\n\n" + imports("example.com/m/up/internal/tree", "example.com/m/down/downtest"),
		"up/uptest/a_test.go":      "package uptest\n\n" + exampleOnly,
		"up/internal/tree/doc.go":  "// Package tree is hidden.\npackage tree\n",
		"up/internal/tree/tree.go": "package tree\n\n" + imports("example.com/m/down"),
		"internal/x/doc.go":        "// Package x is common.\npackage x\n",
		"internal/x/x.go":          "package x\n\n" + imports("example.org/sync/errgroup"),
		"examples/p/main.go":       "// P shows.\npackage main\n\n" + imports("context", "time", "example.com/m/up") + "\nvar _ = context.Background\n\nfunc main() { time.Sleep(1) }\n",
		"nested/go.mod":            "module example.com/m/nested\n",
		"nested/n.go":              "package nested\n\n" + imports("example.com/m/up", "example.com/m/nested/internal/y", "example.org/anything"),
	} {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return fsys
}

// packageDoc returns a doc.go as it should be.
func packageDoc(name string) string {
	return "// Package " + name + " is documented.\n//\n//\ta -> picture\npackage " + name + "\n"
}

// imports returns an import declaration.
func imports(paths ...string) string {
	var b strings.Builder
	for _, p := range paths {
		b.WriteString("import " + strconv.Quote(p) + "\n")
	}
	return b.String()
}

func TestSound(t *testing.T) {
	found, err := arch.Check(sound(), house)
	require.NoError(t, err)
	assert.Empty(t, found)
}

func TestViolations(t *testing.T) {
	for _, test := range []struct {
		name string
		file string // which file is put there instead
		text string // what it has, "" to remove it
		want string // the only violation
	}{
		{
			"upward arrow", "down/down.go", "package down\n" + imports("example.com/m/up"),
			"down/down.go:2: arrow: down imports up; it may import nothing of the other rooms",
		},
		{
			"upward arrow in a test", "down/a_test.go", "package down\n" + imports("example.com/m/up"),
			"down/a_test.go:2: arrow: down imports up; it may import nothing of the other rooms",
		},
		{
			"upward arrow in a test kit", "down/downtest/kit.go", "package downtest\n" + imports("example.com/m/up"),
			"down/downtest/kit.go:2: arrow: down/downtest imports up; it may import nothing of the other rooms",
		},
		{
			"upward arrow for another system", "down/down_windows.go", "package down\n" + imports("example.com/m/up"),
			"down/down_windows.go:2: arrow: down imports up; it may import nothing of the other rooms",
		},
		{
			"a room imports the one within it", "down/a_test.go", "package down\n" + imports("example.com/m/down/cellar"),
			"down/a_test.go:2: arrow: down imports down/cellar; it may import nothing of the other rooms",
		},
		{
			"what is for tests, in code that is not a test", "up/up.go", "package up\n" + imports("example.com/m/down/cellar"),
			"up/up.go:2: arrow: up imports down/cellar; it may import down",
		},
		{
			"a third party of the outer room", "down/cellar/cellar.go", "package cellar\n" + imports("example.org/uuid"),
			"down/cellar/cellar.go:2: third: down/cellar imports \"example.org/uuid\"; a dependency is a proposal",
		},
		{
			"a room imports the sign", "up/up.go", "package up\n" + imports("example.com/m"),
			"up/up.go:2: arrow: up imports .; it may import down",
		},
		{
			"a room imports an example", "up/up.go", "package up\n" + imports("example.com/m/examples/p"),
			"up/up.go:2: arrow: up imports examples/p; it may import down",
		},
		{
			"an example imports another", "examples/q/main.go", "// Q.\npackage main\n" + imports("example.com/m/examples/p"),
			"examples/q/main.go:3: arrow: examples/q imports examples/p; it may import nothing of the other rooms",
		},
		{
			"the sign imports a room", "m.go", "package m\n" + imports("example.com/m/up"),
			"m.go:2: arrow: . imports up; it may import nothing of the other rooms",
		},
		{
			"internal imports a room", "internal/x/x.go", "package x\n" + imports("example.com/m/down"),
			"internal/x/x.go:2: arrow: internal/x imports down; it may import internal/...",
		},
		{
			"a directory that is no room", "cellar/doc.go", "// Package cellar is new.\npackage cellar\n",
			"cellar: room: no room of the house has this directory",
		},
		{
			"what is internal to a room, from below", "down/a_test.go", "package down\n" + imports("example.com/m/up/internal/tree"),
			"down/a_test.go:2: hidden: down imports up/internal/tree, which is for up and its test kit alone",
		},
		{
			"what is internal to a room, from beside", "up/more/a_test.go", "package more\n" + imports("example.com/m/up/internal/tree"),
			"up/more/a_test.go:2: hidden: up/more imports up/internal/tree, which is for up and its test kit alone",
		},
		{
			"a test kit in production", "up/up.go", "package up\n" + imports("example.com/m/down/downtest"),
			"up/up.go:2: kit: up imports the test kit down/downtest in code that is not a test",
		},
		{
			"a dependency of another room", "up/up.go", "package up\n" + imports("example.org/uuid"),
			"up/up.go:2: third: up imports \"example.org/uuid\"; a dependency is a proposal",
		},
		{
			"a dependency that only begins alike", "down/down.go", "package down\n" + imports("example.org/uuidish"),
			"down/down.go:2: third: down imports \"example.org/uuidish\"; a dependency is a proposal",
		},
		{
			"a dependency in a test kit", "down/downtest/kit.go", "package downtest\n" + imports("example.org/uuid"),
			"down/downtest/kit.go:2: third: down/downtest imports \"example.org/uuid\"; a dependency is a proposal",
		},
		{
			"a dependency in an example", "examples/p/main.go", "// P.\npackage main\n" + imports("example.org/sync"),
			"examples/p/main.go:3: third: examples/p imports \"example.org/sync\"; a dependency is a proposal",
		},
		{
			"a dependency of internal", "internal/x/x.go", "package x\n" + imports("example.org/uuid"),
			"internal/x/x.go:2: third: internal/x imports \"example.org/uuid\"; a dependency is a proposal",
		},
		{
			"an assertion in production", "up/uptest/kit.go", "package uptest\n" + imports("example.org/assert"),
			"up/uptest/kit.go:2: third: \"example.org/assert\" is for _test.go files",
		},
		{
			"a nested module looks inside", "nested/n.go", "package nested\n" + imports("example.com/m/up/internal/tree"),
			"nested/n.go:2: nested: a nested module imports \"example.com/m/up/internal/tree\", which is internal to the root module",
		},
		{
			"background", "up/up.go", "package up\n\nimport ctx \"context\"\n\nvar _ = ctx.TODO()\n",
			"up/up.go:5: background: context.TODO in library code: pass the caller's context on",
		},
		{
			"background in a test kit", "up/uptest/kit.go", "package uptest\n\nimport \"context\"\n\nvar _ = context.Background()\n",
			"up/uptest/kit.go:5: background: context.Background in library code: pass the caller's context on",
		},
		{
			"pause in a test", "up/a_test.go", "package up\n\nimport \"time\"\n\nfunc wait() { time.Sleep(1) }\n",
			"up/a_test.go:5: sleep: time.Sleep outside a testing/synctest bubble",
		},
		{
			"pause in a library", "up/up.go", "package up\n\nimport \"time\"\n\nfunc wait() { time.Sleep(1) }\n",
			"up/up.go:5: sleep: time.Sleep outside a testing/synctest bubble",
		},
		{
			"pause in the test of an example", "examples/p/a_test.go", "package main\n\nimport \"time\"\n\nfunc wait() { time.Sleep(1) }\n",
			"examples/p/a_test.go:5: sleep: time.Sleep outside a testing/synctest bubble",
		},
		{
			"a clock in code that decides", "down/down.go", "package down\n\nimport \"time\"\n\nvar _ = time.Now\n",
			"down/down.go:5: pure: time.Now in code that decides: the time is an argument",
		},
		{
			"the world in code that decides", "down/down.go", "package down\n" + imports("os/exec"),
			"down/down.go:2: pure: imports \"os/exec\" in code that decides",
		},
		{
			"a goroutine in code that decides", "down/down.go", "package down\n\nfunc f() { go f() }\n",
			"down/down.go:3: pure: a goroutine in code that decides",
		},
		{
			"long function", "up/up.go", "package up\n\nfunc Long() {" + strings.Repeat("\n", 10) + "}\n",
			"up/up.go:3: length: up.Long has 11 lines, 10 are allowed",
		},
		{
			"long test", "up/a_test.go", "package up\n\nfunc long() {" + strings.Repeat("\n", 10) + "}\n",
			"up/a_test.go:3: length: up.long has 11 lines, 10 are allowed",
		},
		{
			"long function in the table of a test", "up/a_test.go", "package up\n\nfunc long() {\n\t_ = []func(){func() {" + strings.Repeat("\n", 10) + "}}\n}\n",
			"up/a_test.go:3: length: up.long has 13 lines, 10 are allowed",
		},
		{
			"long table in a library", "up/up.go", "package up\n\nfunc table() {\n\t_ = []int{" + strings.Repeat("\n", 10) + "}\n}\n",
			"up/up.go:3: length: up.table has 13 lines, 10 are allowed",
		},
		{
			"exception without need", "up/machine.go", "",
			"LongFuncs: length: up.Machine.Step needs no exception",
		},
		{
			"no doc.go", "internal/x/doc.go", "",
			"internal/x: doc: package x has no package comment",
		},
		{
			"package comment elsewhere", "internal/x/x.go", "// Package x is said again.\npackage x\n",
			"internal/x/x.go: doc: internal/x/doc.go has a package comment as well",
		},
		{
			"package comment without its name", "internal/x/doc.go", "// This is x.\npackage x\n",
			"internal/x/doc.go: doc: the package comment does not begin with \"Package x\"",
		},
		{
			"no picture", "up/doc.go", "// Package up is plain.\npackage up\n",
			"up/doc.go: doc: the package comment has no picture",
		},
		{
			"an example without a word", "examples/p/main.go", "package main\n",
			"examples/p: doc: package main has no package comment",
		},
		{
			"no example", "up/up_test.go", "",
			"up: example: no Example with an // Output comment",
		},
		{
			"an example that does not run", "up/up_test.go", "package up_test\n" + exampleOnly,
			"up: example: no Example with an // Output comment",
		},
		{
			"no example of a test kit", "up/uptest/a_test.go", "",
			"up/uptest: example: no Example with an // Output comment",
		},
		{
			"text", "README.md", "one\ntwo secret-path\n",
			"README.md:2: text: \"secret-path\" must not be in the repository",
		},
		{
			"text in testdata", "down/testdata/corpus", "secret-path",
			"down/testdata/corpus:1: text: \"secret-path\" must not be in the repository",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			fsys := sound()
			fsys[test.file] = &fstest.MapFile{Data: []byte(test.text)}
			if test.text == "" {
				delete(fsys, test.file)
			}
			found, err := arch.Check(fsys, house)
			require.NoError(t, err)
			var lines []string
			for _, v := range found {
				lines = append(lines, v.String())
			}
			assert.Equal(t, []string{test.want}, lines)
		})
	}
}

func TestAllowed(t *testing.T) {
	for name, files := range map[string]map[string]string{
		"a pause in a bubble": {
			"up/a_test.go": "package up\n\nimport \"time\"\nimport \"testing/synctest\"\n\nvar _ = synctest.Wait\n\nfunc wait() { time.Sleep(1) }\n",
		},
		"a pause in the bubble of a test kit": {
			"up/a_test.go": "package up_test\n\nimport \"time\"\nimport \"example.com/m/up/uptest\"\n\nvar _ = uptest.Run\n\nfunc wait() { time.Sleep(1) }\n",
		},
		"a slow device in a benchmark": {
			"up/bench_test.go": "package up\n\nimport \"time\"\n\nfunc wait() { time.Sleep(1) }\n",
		},
		"a background context in a test": {
			"up/a_test.go": "package up\n\nimport \"context\"\n\nvar _ = context.Background()\n",
		},
		"another package of a similar name": {
			"up/a.go": "package up\n\nimport \"example.com/m/down/context\"\n\nvar _ = context.Background()\n",
		},
		"an example that is no program": {
			"examples/lib/lib.go": "// Package lib shows something.\npackage lib\n",
		},
		"a long table": {
			"up/a_test.go": "package up\n\nfunc table() {\n\t_ = []int{" + strings.Repeat("\n", 30) + "}\n}\n",
		},
		"a goroutine in the test of code that decides": {
			"down/a_test.go": "package down\n\nfunc f() { go f() }\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			fsys := sound()
			for file, text := range files {
				fsys[file] = &fstest.MapFile{Data: []byte(text)}
			}
			found, err := arch.Check(fsys, house)
			require.NoError(t, err)
			assert.Empty(t, found)
		})
	}
}

func TestUnreadable(t *testing.T) {
	fsys := sound()
	fsys["up/broken.go"] = &fstest.MapFile{Data: []byte("package up\n\nfunc {")}
	_, err := arch.Check(fsys, house)
	require.ErrorContains(t, err, "arch: up/broken.go:3")

	_, err = arch.Check(os.DirFS("no-such-directory"), house)
	assert.ErrorIs(t, err, fs.ErrNotExist)
}
