package examples_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A program is one command line of an example.
type program struct {
	folder string
	args   []string
	says   []string // what its usage names, beside the program
	typed  string   // what a person types at first
	ready  string   // what the terminal shows before Ctrl-C; empty: the program ends by itself
	codes  []int    // the exit statuses with which it may end
}

// programs has a row for every example that has a main.
var programs = []program{
	{
		folder: "chat", says: []string{"-state", "/image", "/compact", "/reset", "Ctrl-C"},
		typed: "hello\n", ready: "That makes", codes: []int{0},
	},
	{
		folder: "chat", args: []string{"-state", "STATE"},
		typed: "hello\n", ready: "That makes", codes: []int{0},
	},
	{
		folder: "embed", says: []string{"terminal", "Ctrl-C"},
		typed: "hello\n", ready: "You said", codes: []int{0},
	},
	{
		folder: "existingbot", says: []string{"Ctrl-C"},
		ready: "There are 42 files.", codes: []int{0},
	},
	{
		folder: "harness", says: []string{"-state", "-foreign", "Ctrl-C"},
		args: []string{"-state", "STATE"}, typed: "hello\n", ready: "You told me", codes: []int{0},
	},
	{
		folder: "inspect", says: []string{
			"-workspace", "-session", "-diff", "-mode", "-report", "-state", "-tree", "-json",
			"-verify", "-repair", "-restored", "-retry", "-dismiss",
		},
		args:  []string{"-workspace", "quickstart/workspace", "-session", "agent:main:main"},
		codes: []int{0},
	},
	{folder: "keys", says: []string{"key"}, codes: []int{0}},
	{
		folder: "managedbot", says: []string{"Ctrl-C"},
		ready: "Sunny in Lisbon.", codes: []int{0},
	},
	{
		folder: "orchestrator", says: []string{"ten sub-agents", "Ctrl-C"},
		ready: "Ctrl-C stops them", codes: []int{1, 0}, // it may have been quicker
	},
	{folder: "policyonly", says: []string{"policy"}, codes: []int{0}},
	{
		folder: "quickstart",
		says:   []string{"-all", "-depth", "-json", "-state", "-task", "-workspace"},
		ready:  "OFFSHOOT", codes: []int{1},
	},
	{
		folder: "quickstart", args: []string{"-all"},
		ready: "A stop", codes: []int{1},
	},
	{
		folder: "quickstart", args: []string{"-state", "STATE"},
		ready: "kill -9 it", codes: []int{1},
	},
	{
		folder: "threads", says: []string{"-state", "general/1", "/focus", "/unfocus", "Ctrl-C"},
		typed: "general: paint the door\n", ready: "painter\" works here", codes: []int{0},
	},
	{
		folder: "threads", args: []string{"-state", "STATE"},
		typed: "general: paint the door\n", ready: "painter\" works here", codes: []int{0},
	},
}

// libraries are the examples that have no main.
var libraries = []string{"bottest", "customjournal", "histories", "promptci"}

// limit is how long a program may take for anything. It is only for those that would not end.
const limit = time.Minute

// bin is where the programs are.
var bin string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "examples")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir) //nolint:errcheck // what stays is a file of the system's
		build := exec.Command("go", "build", "-o", dir+string(filepath.Separator), "./...")
		if out, err := build.CombinedOutput(); err != nil {
			panic(string(out))
		}
		bin = dir
		return m.Run()
	}())
}

// command returns a program that has not been started. It is ended with the test.
func command(t *testing.T, folder string, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	args = slices.Clone(args)
	for i := range args {
		if args[i] == "STATE" {
			args[i] = filepath.Join(t.TempDir(), "state")
		}
	}
	name := filepath.Join(bin, folder)
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	return exec.CommandContext(ctx, name, args...)
}

// run runs a program whose input stays open. It returns its exit status and what it wrote.
func run(t *testing.T, folder string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	cmd := command(t, folder, args...)
	in, typing, err := os.Pipe()
	require.NoError(t, err)
	defer func() { assert.NoError(t, errors.Join(in.Close(), typing.Close())) }()
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, &out, &errs
	err = cmd.Run()
	if _, exited := errors.AsType[*exec.ExitError](err); !exited {
		require.NoError(t, err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// A new example gets a row, unless it is a module of its own, whose tests run there.
func TestEveryExampleHasARow(t *testing.T) {
	want := slices.Clone(libraries)
	for _, p := range programs {
		if !slices.Contains(want, p.folder) {
			want = append(want, p.folder)
		}
	}
	entries, err := os.ReadDir(".")
	require.NoError(t, err)
	var folders []string
	for _, e := range entries {
		_, err := os.Stat(filepath.Join(e.Name(), "go.mod"))
		if !e.IsDir() || err == nil {
			continue
		}
		folders = append(folders, e.Name())
		assert.Equal(t, !slices.Contains(libraries, e.Name()), hasMain(t, e.Name()), e.Name())
	}
	assert.ElementsMatch(t, want, folders)
}

// hasMain reports whether a folder is that of a program.
func hasMain(t *testing.T, folder string) bool {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(folder, "*.go"))
	require.NoError(t, err)
	return slices.ContainsFunc(names, func(name string) bool {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		return regexp.MustCompile(`(?m)^package main$`).Match(text)
	})
}

// A7: the README says which examples have no main, and that the others answer -h.
func TestReadmeTellsProgramsFromLibraries(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	require.NoError(t, err)
	text := strings.Join(strings.Fields(string(readme)), " ")
	_, text, found := strings.Cut(text, "are read and run with `go test`: ")
	require.True(t, found)
	text, _, _ = strings.Cut(text, ". ")
	var named []string
	for _, m := range regexp.MustCompile("`([a-z]+)`").FindAllStringSubmatch(text, -1) {
		named = append(named, m[1])
	}
	assert.ElementsMatch(t, libraries, named)
}

// A7: an example that reads lines takes those that a message may have, and says why it ends.
func TestReadersOfLinesSayWhyTheyEnd(t *testing.T) {
	names, err := filepath.Glob("*/*.go")
	require.NoError(t, err)
	found := 0
	for _, name := range names {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		if strings.HasSuffix(name, "_test.go") || !bytes.Contains(text, []byte("NewScanner(")) {
			continue
		}
		found++
		assert.Contains(t, string(text), ".Buffer(", name)
		assert.Contains(t, string(text), ".Err()", name)
	}
	assert.NotZero(t, found)
}

// A7: every program says what it is when it is asked, and does nothing else.
func TestHelp(t *testing.T) {
	for _, p := range programs {
		for _, flag := range []string{"-h", "-help", "--help"} {
			code, out, errs := run(t, p.folder, flag)
			assert.Zero(t, code, p.folder)
			for _, want := range append([]string{p.folder}, p.says...) {
				assert.Contains(t, out+errs, want, "%s %s", p.folder, flag)
			}
		}
	}
}

// A7: a program that is given what it does not know says so, and does nothing else.
func TestUnknownArguments(t *testing.T) {
	for _, p := range programs {
		for _, args := range [][]string{
			{"surplus"},
			{"-surplus"},
			{"-surplus=1"},
			{"--surplus"},
			{"--", "surplus"},
			{"-", "surplus"},
			append(slices.Clone(p.args), "surplus"), append(slices.Clone(p.args), "-surplus"),
		} {
			code, out, errs := run(t, p.folder, args...)
			assert.Equal(t, 2, code, "%s %q", p.folder, args)
			assert.Empty(t, out, "%s %q", p.folder, args)
			assert.Regexp(t, `surplus|unexpected argument "-"`, errs, "%s %q", p.folder, args)
		}
	}
}

// A chat that is killed in the middle of an answer gives it when it is run again, and then it has
// nothing left to say.
func TestChatGoesOnAfterKill(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there a process ends in another way")
	}
	state := filepath.Join(t.TempDir(), "state")
	cmd := command(t, "chat", "-state", state)
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	_, err = io.WriteString(in, strings.Repeat("word ", 100)+"\n")
	require.NoError(t, err)
	_, err = out.Read(make([]byte, 1)) // the answer has begun, and takes three seconds
	require.NoError(t, err)
	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait())
	for _, want := range []string{"That makes 1 messages.", ""} {
		cmd := command(t, "chat", "-state", state) // its input is empty
		shown, err := cmd.Output()
		require.NoError(t, err)
		require.Contains(t, string(shown), want)
		require.Equal(t, want == "", len(shown) == 0)
	}
}

// A person in a thread that is focused goes on in it when the server was killed in the middle of an
// answer there, and leaves it.
func TestThreadsGoOnAfterKill(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there a process ends in another way")
	}
	state := filepath.Join(t.TempDir(), "state")
	type exchange struct{ typed, shown string }
	talk := func(kill bool, exchanges ...exchange) {
		t.Helper()
		cmd := command(t, "threads", "-state", state)
		in, err := cmd.StdinPipe()
		require.NoError(t, err)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		lines := bufio.NewScanner(out)
		for _, x := range exchanges {
			_, err := io.WriteString(in, x.typed+"\n")
			require.NoError(t, err)
			for x.shown != "" && lines.Scan() && !strings.Contains(lines.Text(), x.shown) {
			}
		}
		if kill {
			require.NoError(t, cmd.Process.Kill())
			require.Error(t, cmd.Wait())
			return
		}
		require.NoError(t, lines.Err())
		require.NoError(t, in.Close())
		rest, err := io.ReadAll(out)
		require.NoError(t, err)
		require.NoError(t, cmd.Wait(), string(rest))
	}
	talk(true,
		exchange{"general: /subagents spawn painter a fence", "Painted: a fence"},
		exchange{"general: /focus last", "The new thread 1 now speaks to a fence."},
		exchange{"general/1: in red", ""},
		// It takes a second, so it runs at the kill, unless the machine is very busy.
		exchange{"general: /agents", "a fence (painter) "},
	)
	talk(false,
		exchange{"general/1: in blue", "[general/1] Painted: in blue"},
		exchange{"general: /agents", "a fence (painter) ok thread:1"},
		exchange{"general/1: /unfocus", "[general/1] Thread unfocused."},
		exchange{"general: /agents", "(none)"},
	)
}

// orchestrators are the examples that are tools for trees rather than bots. They alone import
// package spawn.
var orchestrators = []string{"histories", "inspect"}

// No bot needs to import package spawn: what it meets has a name in package agent.
func TestBotsDoNotImportSpawn(t *testing.T) {
	files, err := filepath.Glob("*/*.go")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	imports := map[string]bool{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		source, err := os.ReadFile(file)
		require.NoError(t, err)
		folder := filepath.Dir(file)
		imports[folder] = imports[folder] || bytes.Contains(source, []byte(`offshoot/spawn"`))
	}
	for folder, does := range imports {
		require.Equal(t, slices.Contains(orchestrators, folder), does, folder)
	}
}
