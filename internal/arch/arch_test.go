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

// house has two rooms, down and up, and a room within down. up may import down, and its tests may
// import the room within down as well.
var house = arch.House{
	Module: "example.com/m",
	Rooms: []arch.Room{
		{Dir: "down", Third: []string{"example.org/uuid"}},
		{Dir: "down/cellar", Ours: []string{"down"}},
		{Dir: "up", Ours: []string{"down"}, TestOurs: []string{"down/cellar"}},
		{Dir: "down/rig", Ours: []string{"down", "up"}, Kit: true},
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
	Words: []arch.Word{
		{Is: "nobody|whoever"},
		{Is: `(?:there )?is no \w+`, But: []string{"is no longer", "there is no"}},
	},
	MaxColumns: 100,
	Prefixes:   map[string]string{"up/internal/tree": "up"},
	MaxFiles:   4,
	MaxRepeat:  3,
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
		"down/rig/doc.go":          "// Package rig tests.\npackage rig\n",
		"down/rig/rig.go":          "package rig\n\n" + imports("example.com/m/up", "example.com/m/up/uptest"),
		"down/rig/a_test.go":       "package rig_test\n\n" + exampleOnly,
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
		"internal/own/go.mod":      "module example.com/m/internal/own\n",
		"internal/own/o.go":        "package own\n\n" + imports("example.com/m/internal/x"),
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

// check returns the violations of a repository, one a line.
func check(t *testing.T, fsys fs.FS, house arch.House) (lines []string) {
	t.Helper()
	found, err := arch.Check(fsys, house)
	require.NoError(t, err)
	for _, v := range found {
		lines = append(lines, v.String())
	}
	return lines
}

// with returns the sound repository with files of these texts.
func with(files map[string]string) fstest.MapFS {
	fsys := sound()
	for name, text := range files {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return fsys
}

func TestSound(t *testing.T) {
	assert.Empty(t, check(t, sound(), house))
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
			"a directory in none of the rooms", "cellar/doc.go", "// Package cellar is new.\npackage cellar\n",
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
			"a room that is a test kit in production", "down/cellar/cellar.go", "package cellar\n" + imports("example.com/m/down/rig"),
			"down/cellar/cellar.go:2: kit: down/cellar imports the test kit down/rig in code that is not a test",
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
			assert.Equal(t, []string{test.want}, check(t, fsys, house))
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
		"an example that is a library": {
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
			assert.Empty(t, check(t, with(files), house))
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

func TestWords(t *testing.T) {
	for name, test := range map[string]struct {
		file string
		text string
		want []string // positions and wordings
	}{
		"comment": {
			"up/a.go", "package up\n\n// Nobody comes.\nvar x int // whoever's\n",
			[]string{`up/a.go:3: "Nobody"`, `up/a.go:4: "whoever"`},
		},
		"comment of a test": {
			"up/a_test.go", "package up\n\n// one\n/* two\nnobody */\n",
			[]string{`up/a_test.go:5: "nobody"`},
		},
		"across lines of a comment": {
			"up/a.go", "package up\n\n// This is\n// no key.\n",
			[]string{`up/a.go:3: "is no key"`},
		},
		"names": {
			"up/a.go", "package up\n\ntype nobodyT struct{ toNobody int }\n\n" +
				"func (nobodyT) askWhoever(nobody int) {\n\tisNoKey := nobody\n\t_ = isNoKey\n}\n",
			[]string{
				`up/a.go:3: "nobody"`, `up/a.go:3: "Nobody"`,
				`up/a.go:5: "Whoever"`, `up/a.go:5: "nobody"`, `up/a.go:6: "is No Key"`,
			},
		},
		"message": {
			"up/a.go", "package up\n\nvar x = \"\\nnobody\" + `\nthis is no key`\n",
			[]string{`up/a.go:3: "nobody"`, `up/a.go:4: "is no key"`},
		},
		"names of tests": {
			"up/a_test.go", `package up

func TestForNobody() {
	t.Run("nobody 1", nil)
	for name := range map[string]int{"nobody 2": 1} {
		t.Run(name, nil)
	}
	_ = []struct{ name string }{
		{"nobody 3"},
		{name: "nobody 4"},
	}
}
`,
			[]string{
				`up/a_test.go:3: "Nobody"`, `up/a_test.go:4: "nobody"`, `up/a_test.go:5: "nobody"`,
				`up/a_test.go:9: "nobody"`, `up/a_test.go:10: "nobody"`,
			},
		},
		"document": {
			"docs/a.md", "It is no\nlimit.\n",
			[]string{`docs/a.md:1: "is no limit"`},
		},
		"nested module": {
			"nested/a.go", "package nested\n\n// nobody\n",
			[]string{`nested/a.go:3: "nobody"`},
		},
		"part of a word":      {"up/a.go", "package up\n\n// nobodyish xnobody\n", nil},
		"literal of a test":   {"up/a_test.go", "package up\n\nvar x = \"nobody\"\n", nil},
		"testdata":            {"up/testdata/a.md", "nobody", nil},
		"an allowed wording":  {"README.md", "There is no key, and it is no longer open.", nil},
		"a name used":         {"up/a.go", "package up\n\nvar _ = other.Nobody\n", nil},
		"text of other files": {"LICENSE", "nobody", nil},
	} {
		t.Run(name, func(t *testing.T) {
			var want []string
			for _, w := range test.want {
				at, said, _ := strings.Cut(w, ` "`)
				want = append(want, at+` word: "`+said+": say it in other words")
			}
			fsys := with(map[string]string{test.file: test.text})
			assert.ElementsMatch(t, want, check(t, fsys, house))
		})
	}
}

func TestWordThatDoesNotCompile(t *testing.T) {
	for _, word := range []arch.Word{{Is: "("}, {Is: "a", But: []string{"("}}} {
		_, err := arch.Check(sound(), arch.House{Words: []arch.Word{word}})
		assert.ErrorContains(t, err, `arch: the word "("`)
	}
}

func TestColumns(t *testing.T) {
	long := strings.Repeat("x", 101)
	spaced := strings.Repeat("x ", 60)
	fill := func(n int) string { return strings.Repeat("y", n) }
	for name, test := range map[string]struct {
		file string
		text string
		want string
	}{
		"comment": {
			"up/a.go", "package up\n\n// " + long + "\n",
			"up/a.go:3: columns: 104 columns, 100 are allowed",
		},
		"a tab counts 4": {
			"up/a.go", "package up\n\nfunc f() {\n\t" + fill(95) + "()\n}\n",
			"up/a.go:4: columns: 101 columns, 100 are allowed",
		},
		"test": {
			"up/a_test.go", "package up\n\n// " + long + "\n",
			"up/a_test.go:3: columns: 104 columns, 100 are allowed",
		},
		"code beside a literal": {
			"up/a.go", "package up\n\nvar " + long + " = \"\"\n",
			"up/a.go:3: columns: 110 columns, 100 are allowed",
		},
		"comment of an example": {
			"up/a_test.go", "package up\n\nfunc ExampleX() {\n\t// " + long + "\n}\n",
			"up/a_test.go:4: columns: 108 columns, 100 are allowed",
		},
		"prose of a document": {
			"README.md", "```\n```\n" + spaced + "\n",
			"README.md:3: columns: 120 columns, 100 are allowed",
		},
		"as many as are allowed":  {"up/a.go", "package up\n\n// " + fill(97) + "\n", ""},
		"runes, not bytes":        {"up/a.go", "package up\n\n// " + strings.Repeat("ä", 97) + "\n", ""},
		"literal":                 {"up/a.go", "package up\n\nvar x = \"" + long + "\"\n", ""},
		"literal of many lines":   {"up/a.go", "package up\n\nvar x = `\n" + long + "\n`\n", ""},
		"address in a comment":    {"up/a.go", "package up\n\n// See https://" + long + "\n", ""},
		"directive":               {"up/a.go", "package up\n\n//go:generate " + long + "\n", ""},
		"exception of the linter": {"up/a.go", "package up\n\nvar x = 1 //nolint:x // " + long + "\n", ""},
		"output of an example": {
			"up/a_test.go", "package up\n\nfunc ExampleX() {\n\t// Output:\n\t// " + long + "\n}\n", "",
		},
		"table of a document":     {"README.md", "| " + spaced + "|\n", ""},
		"code of a document":      {"README.md", "```go\n" + spaced + "\n```\n", ""},
		"link of a document":      {"README.md", "see [this](" + long + ").\n", ""},
		"reference of a document": {"README.md", "[this]: " + long + "\n", ""},
		"testdata":                {"up/testdata/a.md", spaced, ""},
	} {
		t.Run(name, func(t *testing.T) {
			fsys := with(map[string]string{test.file: test.text})
			assert.Equal(t, test.want, strings.Join(check(t, fsys, house), "\n"))
		})
	}
}

func TestPrefixes(t *testing.T) {
	const head = "package up\n\nimport \"errors\"\nimport \"fmt\"\n\n"
	for name, test := range map[string]struct {
		file string
		text string
		want string
	}{
		"sentinel": {
			"up/a.go", head + "var ErrX = errors.New(\"gone\")\n",
			`up/a.go:6: prefix: the sentinel "gone" does not begin with "up: "`,
		},
		"sentinel that users cannot see": {
			"up/a.go", head + "var errX = errors.New(\"upper: gone\")\n",
			`up/a.go:6: prefix: the sentinel "upper: gone" does not begin with "up: "`,
		},
		"sentinel of an internal package": {
			"up/internal/tree/a.go",
			"package tree\n\nimport \"errors\"\n\nvar ErrX = errors.New(\"tree: x\")\n",
			`up/internal/tree/a.go:5: prefix: "tree: x" begins like an error of another package`,
		},
		"another package": {
			"up/a.go", head + "func f() error { return fmt.Errorf(\"down: %d\", 1) }\n",
			`up/a.go:6: prefix: "down: %d" begins like an error of another package`,
		},
		"returned to users": {
			"up/a.go", head + "func (*T) F() (int, error) { return 0, errors.New(\"gone\" + \"x\") }\n",
			`up/a.go:6: prefix: the returned "gone" does not begin with "up: "`,
		},
		"own prefix": {
			"up/a.go", head + "var ErrX = errors.New(\"up: gone\")\n\n" +
				"func F() error { return fmt.Errorf(\"up: %d\", 1) }\n", "",
		},
		"prefix of the public package": {
			"up/internal/tree/a.go",
			"package tree\n\nimport \"errors\"\n\nvar ErrX = errors.New(\"up: x\")\n", "",
		},
		"sentinel first": {
			"up/a.go", head + "func F() error { return fmt.Errorf(\"%w: %d\", ErrX, 1) }\n", "",
		},
		"fragment to wrap": {
			"up/a.go", head + "func f() error { return errors.New(\"line 3: gone\") }\n\n" +
				"func F() { g(func() error { return errors.New(\"gone\") }) }\n\n" +
				"func (t) F() error { return errors.New(\"gone\") }\n", "",
		},
		"test": {"up/a_test.go", head + "var errX = errors.New(\"gone\")\n", ""},
		"program": {
			"examples/p/a.go", "package main\n\nimport \"errors\"\n\nvar errX = errors.New(\"x\")\n", "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			fsys := with(map[string]string{test.file: test.text})
			assert.Equal(t, test.want, strings.Join(check(t, fsys, house), "\n"))
		})
	}
}

func TestPrefixWithoutNeed(t *testing.T) {
	h := house
	h.Prefixes = map[string]string{"up": "up", "gone": "x", "up/internal/tree": "up"}
	assert.Equal(t, []string{
		"Prefixes: prefix: gone needs no entry",
		"Prefixes: prefix: up needs no entry",
	}, check(t, sound(), h))
}

func TestFiles(t *testing.T) {
	fsys := with(map[string]string{
		"up/a.go": "package up\n", "up/b.go": "package up\n", "down/a_test.go": "package down\n",
		"down/a.go": "package down\n", "down/b.go": "package down\n",
	})
	want := []string{"up: files: 5 files without tests, 4 are allowed"}
	assert.Equal(t, want, check(t, fsys, house))
}

func TestRepeats(t *testing.T) {
	const (
		block  = "func a() {\n\tb()\n\tc()\n\n\t// why\n\td()\n}\n"
		spaced = "// other\n\n\nfunc a() {\n b()\n // because\n\tc()\n\td()\n}\n"
		short  = "func a() {\n\tb()\n\tc()\n\te()\n}\n"
		head   = "import (\n\t\"a\"\n\t\"b\"\n\t\"c\"\n\t\"d\"\n)\n"
	)
	found := []string{"nested/b_test.go:6: repeat: 4 lines stand in nested/a_test.go:3 as well, 3 are allowed"}
	for name, test := range map[string]struct {
		a, b string
		want []string
	}{
		"other comments and spaces": {block, spaced, found},
		"as many as are allowed":    {block, short, nil},
		"imports":                   {head, head, nil},
		"punctuation": {
			"var _ = [][]int{\n{\n{\n},\n},\n}\n", "var _ = [][]int{\n{\n{\n},\n},\n}\n", nil,
		},
		"within one file": {block + block, "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			fsys := with(map[string]string{
				"nested/a_test.go": "package nested\n\n" + test.a,
				"nested/b_test.go": "package nested_test\n\n" + test.b,
				"nested/b.go":      "package nested\n\n" + test.a,
			})
			assert.Equal(t, test.want, check(t, fsys, house))
		})
	}
}

// In a worktree of Git, .git is a file with the path of the repository.
func TestWorktree(t *testing.T) {
	fsys := with(map[string]string{".git": "secret-path"})
	delete(fsys, ".git/config")
	assert.Empty(t, check(t, fsys, house))
}

func TestExempt(t *testing.T) {
	h := house
	h.Exempt = map[string][]string{"word": {"up/a.go", "docs"}, "columns": {"docs/a.md"}, "files": {"up"}}
	bad := map[string]string{
		"up/a.go": "package up\n\n// nobody\n", "up/b.go": "package up\n",
		"docs/a.md": "nobody " + strings.Repeat("x ", 60),
	}
	assert.Empty(t, check(t, with(bad), h))
	assert.Equal(t, []string{
		"Exempt: columns: docs/a.md needs no exception",
		"Exempt: files: up needs no exception",
		"Exempt: word: up/a.go needs no exception",
		"Exempt: word: docs needs no exception",
	}, check(t, sound(), h))
}

// A rule whose field is zero is off.
func TestOff(t *testing.T) {
	h := house
	h.Words, h.MaxColumns, h.Prefixes, h.MaxFiles, h.MaxRepeat = nil, 0, nil, 0, 0
	repeat := "package up\n\nfunc a() {\n\tb()\n\tc()\n\td()\n\te()\n}\n"
	assert.Empty(t, check(t, with(map[string]string{
		"up/a.go": "package up\n\nimport \"errors\"\n\n// nobody " + strings.Repeat("x", 100) +
			"\nvar ErrX = errors.New(\"gone\")\n",
		"up/b_test.go": repeat,
		"up/c_test.go": repeat,
	}), h))
}
