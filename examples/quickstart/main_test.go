package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/announce"
	agentctx "github.com/offshoot-sdk/offshoot/context"
)

// runProgram runs the program as from a command line and returns what it writes.
func runProgram(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), args, &out, &errs)
	return code, out.String(), errs.String()
}

func TestStory(t *testing.T) {
	for _, depth := range []string{"1", "2", "3", "5"} {
		t.Run("depth "+depth, func(t *testing.T) {
			code, out, errs := runProgram(t, "-all", "-depth", depth)
			require.Zero(t, code, errs)
			assert.Empty(t, errs)
			at := 0
			for _, landmark := range []string{
				"OFFSHOOT", "project-context", "SOUL.md", "not for sub-agents",
				"only for sub-agents", "calls       sessions_spawn {",
				"allowed     routes is in allowAgents, depth 1/" + depth,
				`gets        {"status":"accepted"`,
				"refused     by the rule allowAgents", "asked   bookings", "limit   main, routes, places",
				"set at  agents.list[main].subagents.allowAgents",
				"prompts was, byte for byte, what Config.Input had said before",
				"<<<completion ", "status: success, completed successfully",
				"<<<end of completion ",
				"Ghent, Mira. This is what I would do:",
				"says: stop.", "cancelled", "runs alive                     0",
				"turns under way                0", "messages to the person since   0",
				"the process dies", "interrupted", "once", "not silently repeated",
				"asked for again",
				"Ljubljana, Mira. This is what I would do:", "Trains: ", "Sleep: ", "Eat: ",
				"See: ", "Rain: ",
				"log has moved", "runs                    0", "messages to the person  0",
				"Your turn",
			} {
				i := strings.Index(out[at:], landmark)
				require.GreaterOrEqual(
					t, i, 0, "%q is missing, or not after what comes before it, in\n%s", landmark,
					out,
				)
				at += i
			}
			assert.NotContains(t, out, " times", "something was not announced exactly once")
			checkPlain(t, out)
			checkWaits(t, out)
		})
	}
}

// checkPlain fails for what does not belong into a file.
func checkPlain(t *testing.T, out string) {
	t.Helper()
	for line := range strings.Lines(out) {
		n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n"))
		assert.LessOrEqual(t, n, maxWidth, line)
	}
	assert.NotContains(t, out, "\x1b", "a file is not coloured")
	assert.False(t, strings.ContainsAny(out, "─│╭╰"), "nor framed")
}

// checkWaits fails for a run that waits and has not spawned any other.
func checkWaits(t *testing.T, out string) {
	t.Helper()
	waits := regexp.MustCompile(`(?m)^ +\d+\.\d\d  ( *)(\S+) .* waits +for its sub-agents`)
	for _, m := range waits.FindAllStringSubmatch(out, -1) {
		child := regexp.MustCompile(`(?m)^ +\d+\.\d\d  ` + m[1] + `  \S.* allowed `)
		assert.Regexp(t, child, out, "A8: %s waits for whom?", m[2])
		assert.NotContains(t, []string{"trains", "eat", "see", "rain"}, m[2], "A8")
	}
}

// A8: what matters fits in 100 lines: who sees which file, a refusal with its path, a spawn, its
// announcement, the reply.
func TestEssentials(t *testing.T) {
	for _, depth := range []string{"1", "2", "3", "5"} {
		t.Run("depth "+depth, func(t *testing.T) {
			code, out, errs := runProgram(t, "-depth", depth)
			require.Zero(t, code, errs)
			assert.LessOrEqual(t, strings.Count(out, "\n"), 100, out)
			for _, name := range agentctx.CoreFiles() {
				want := ` +\d+ +-  not for sub-agents\n`
				if slices.Contains(agentctx.WorkerSpec().Files, name) {
					want = ` +(\d+) +\d+\n`
				}
				assert.Regexp(t, `(?m)^ +`+regexp.QuoteMeta(name)+want, out)
			}
			for _, want := range []string{
				"allowed     routes is in allowAgents, depth 1/" + depth,
				"refused     by the rule allowAgents",
				"set at  agents.list[main].subagents.allowAgents",
				"| <<<completion ", "| <<<end of completion ",
				"| Ghent, Mira. This is what I would do:",
				"   -all ",
			} {
				assert.Equal(t, 1, strings.Count(out, want), "%s\n%s", want, out)
			}
			for _, rest := range []string{
				"cancelled", "interrupted", "turn 1", "delivered   ", "calls   ", "gets   ", "tool_ended",
			} {
				assert.NotContains(t, out, rest)
			}
			checkPlain(t, out)
			checkWaits(t, out)
		})
	}
}

// The reply is made of what the children say; what only main is told, the name of the person, is in
// no announcement.
func TestChildrenDoNotKnowThePerson(t *testing.T) {
	_, out, _ := runProgram(t, "-all")
	_, announcements, ok := strings.Cut(out, "3  The announcements")
	require.True(t, ok)
	announcements, reply, ok := strings.Cut(announcements, "4  The reply")
	require.True(t, ok)
	assert.NotContains(t, announcements, "Mira")
	assert.Contains(t, reply, "Mira")
	for _, token := range []string{announce.NoReply, announce.AnnounceSkip, "<<<", "Stats:", "sessionKey"} {
		assert.NotContains(t, strings.SplitN(reply, "5  A stop", 2)[0], token)
	}
}

func TestJSON(t *testing.T) {
	code, out, errs := runProgram(t, "-json")
	require.Zero(t, code, errs)
	assert.Empty(t, errs)
	kinds := map[string]int{}
	ends := map[string]int{}
	for lines := bufio.NewScanner(strings.NewReader(out)); lines.Scan(); {
		var e struct {
			Kind, Run, Status, Session, Text string
			Depth                            int
		}
		require.NoError(t, json.Unmarshal(lines.Bytes(), &e), lines.Text())
		require.NotEmpty(t, e.Session)
		kinds[e.Kind]++
		if e.Kind == "ended" {
			ends[e.Run]++
			kinds[e.Status]++
		}
		if e.Depth == 0 {
			assert.NotContains(t, e.Text, announce.NoReply)
		}
	}
	assert.Equal(t, 3, kinds["posted"])
	assert.Equal(t, 20, kinds["admitted"], "six runs for each request, and two again")
	assert.Len(t, ends, 20)
	for run, n := range ends {
		assert.Equal(t, 1, n, run)
	}
	assert.Equal(
		t,
		map[string]int{"ok": 12, "cancelled": 6, "interrupted": 2},
		map[string]int{
			"ok": kinds["ok"], "cancelled": kinds["cancelled"], "interrupted": kinds["interrupted"],
		},
	)
	assert.Equal(t, 1, kinds["lost"])
}

func TestTask(t *testing.T) {
	_, out, _ := runProgram(t, "-task", "Only the food in Porto, please.")
	assert.Contains(t, out, "Porto, Mira. This is what I would do:")
	assert.NotContains(t, strings.Split(out, "5  A stop")[0], "Trains:")
	code, out, _ := runProgram(t, "-task", "Write \x1b[31man essay\nin \u202eTimbuktu!")
	assert.Zero(t, code)
	assert.Contains(t, out, "There is nothing on file for")
	assert.NotContains(t, out, "\x1b")
	assert.NotContains(t, out, "\u202e")
}

func TestNothingIsLeft(t *testing.T) {
	before := runtime.NumGoroutine()
	code, _, errs := runProgram(t, "-all")
	require.Zero(t, code, errs)
	// A goroutine that was told to end may take a moment. One that stays is a leak, and hangs the
	// test here.
	for runtime.NumGoroutine() > before {
		runtime.Gosched()
	}
}

// An interrupt ends the story at once, with a reason and without leaving anything.
func TestInterrupt(t *testing.T) {
	before := runtime.NumGoroutine()
	ctx, cancel := context.WithCancelCause(t.Context())
	var out, errs bytes.Buffer
	code := run(ctx, []string{"-json"}, writerFunc(func(p []byte) (int, error) {
		cancel(errors.New("a key was pressed"))
		return out.Write(p)
	}), &errs)
	assert.Equal(t, 1, code)
	assert.Contains(t, errs.String(), "a key was pressed")
	assert.NotContains(t, out.String(), `"lost"`)
	for runtime.NumGoroutine() > before {
		runtime.Gosched()
	}
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestHelp(t *testing.T) {
	code, out, errs := runProgram(t, "-h")
	assert.Zero(t, code)
	assert.Empty(t, out)
	for _, f := range []string{"-workspace", "-task", "-depth", "-json", "-all", "-state"} {
		assert.Contains(t, errs, f)
	}
}

func TestBadCommandLine(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	folder := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(folder, agentctx.AgentsFile), 0o700))
	binary := t.TempDir()
	require.NoError(
		t, os.WriteFile(filepath.Join(binary, agentctx.SoulFile), []byte{0xff, 0xfe}, 0o600),
	)
	for _, test := range []struct {
		name string
		args []string
		want string
	}{
		{"depth 0", []string{"-depth", "0"}, "-depth 0: it must be 1 to 5"},
		{"depth 6", []string{"-depth", "6"}, "-depth 6: it must be 1 to 5"},
		{"depth below zero", []string{"-depth=-1"}, "-depth -1: it must be 1 to 5"},
		{"depth in words", []string{"-depth", "two"}, `"two"`},
		{"all of what stays", []string{"-all", "-state", dir}, "-all and -state exclude each other"},
		{"empty task", []string{"-task", " \n"}, "-task: the text is empty"},
		{"unknown flag", []string{"-speed", "9"}, "-speed"},
		{"not a flag", []string{"depth", "3"}, `unexpected argument "depth"`},
		{"no such workspace", []string{"-workspace", filepath.Join(dir, "none")}, "none"},
		{"workspace is a file", []string{"-workspace", file}, "not a directory"},
		{"file is a directory", []string{"-workspace", folder}, agentctx.AgentsFile},
		{"file is not text", []string{"-workspace", binary}, agentctx.SoulFile},
	} {
		t.Run(test.name, func(t *testing.T) {
			code, out, errs := runProgram(t, test.args...)
			assert.Equal(t, 2, code)
			assert.Empty(t, out)
			assert.Contains(t, errs, test.want)
			assert.Equal(t, 1, strings.Count(errs, "quickstart: "), errs)
		})
	}
}

func TestUnreadableFile(t *testing.T) {
	if os.Geteuid() <= 0 || runtime.GOOS == "windows" {
		t.Skip("nothing is unreadable here")
	}
	dir := t.TempDir()
	require.NoError(
		t, os.WriteFile(filepath.Join(dir, agentctx.ToolsFile), []byte("secret"), 0o000),
	)
	code, _, errs := runProgram(t, "-workspace", dir)
	assert.Equal(t, 2, code)
	assert.Contains(t, errs, agentctx.ToolsFile)
}

func TestOwnWorkspace(t *testing.T) {
	dir := t.TempDir()
	require.NoError(
		t, os.WriteFile(filepath.Join(dir, agentctx.UserFile), []byte("- Call her: Zoe\n"), 0o600),
	)
	code, out, errs := runProgram(t, "-workspace", dir)
	require.Zero(t, code, errs)
	assert.Contains(t, out, "Ghent, Zoe. This is what I would do:")
	assert.NotContains(t, out, "Mira")
}

func TestEmbeddedWorkspaceIsWhole(t *testing.T) {
	w, err := openWorkspace("")
	require.NoError(t, err)
	for _, f := range agentctx.LoadWorkspace(w) {
		assert.False(t, f.Missing, f.Name)
		assert.Greater(t, utf8.RuneCountInString(f.Content), 150, f.Name)
	}
}

func TestFailureOfStdout(t *testing.T) {
	for _, args := range [][]string{nil, {"-all"}, {"-json"}} {
		var errs bytes.Buffer
		assert.Equal(t, 1, run(t.Context(), args, fullDisk{}, &errs))
		assert.Contains(t, errs.String(), "no space left")
	}
}

// fullDisk is a disk without room.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) {
	return 0, &fs.PathError{Op: "write", Path: "stdout", Err: errDiskFull}
}

var errDiskFull = errors.New("no space left")

func TestReading(t *testing.T) {
	for text, want := range map[string]string{
		"Plan a weekend in Ghent for two": "Ghent",
		"Then Ljubljana instead of Porto": "Ljubljana",
		"two days in New York, by boat":   "New York",
		"a week, please":                  "a week",
		"bring me to Rome.":               "Rome",
		strings.Repeat("long ", 20):       "long long long long long long long long…",
	} {
		assert.Equal(t, want, placeIn(text), text)
	}
	assert.Len(t, topicsIn("anything"), len(topics))
	assert.Equal(t, "eat", topicsIn("some FOOD")[0].id)
}

func TestWrap(t *testing.T) {
	assert.Equal(t, []string{"one two", "three", ""}, wrap("one two three\n", 7))
	assert.Equal(t, []string{"ääää", "ää b"}, wrap("ääääää b", 4))
	assert.Equal(t, "a b", oneLine("a\t\x1b\n b"))
	assert.Equal(t, "abc…", shorten("abcdefg", 4))
}

func TestTableIsNeverTooWide(t *testing.T) {
	var out bytes.Buffer
	p := &paper{out: &out, width: 60}
	tab := &table{head: []string{"a", "b"}}
	tab.add(span{"short", normal}, span{strings.Repeat("wide ", 40), normal})
	p.table(tab)
	p.box(strings.Repeat("heading", 40), []string{strings.Repeat("x", 200)}, dim)
	p.fancy = true
	p.box(strings.Repeat("heading", 40), []string{strings.Repeat("x", 200)}, dim)
	plain := out.String()
	for _, e := range append(escapes[1:], reset) {
		plain = strings.ReplaceAll(plain, e, "")
	}
	for line := range strings.Lines(plain) {
		assert.LessOrEqual(t, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")), 60, line)
	}
}
