package contexttest_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	agentctx "github.com/offshoot-sdk/offshoot/context"
	"github.com/offshoot-sdk/offshoot/context/contexttest"
	"github.com/offshoot-sdk/offshoot/session"
)

var (
	mainKey  = session.Must(session.Parse("agent:main:main"))
	childKey = session.Must(
		session.Parse("agent:main:subagent:6f1c2a52-7d1c-4f7e-9a30-0d6f5b0e3c11"),
	)
)

// recorder takes the failures of an assertion.
type recorder struct {
	testing.TB
	failures []string
}

func (r *recorder) Helper() {}

func (r *recorder) Errorf(format string, args ...any) {
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}

// failuresOf runs an assertion that must not stop the test.
func failuresOf(t *testing.T, f func(testing.TB)) []string {
	r := &recorder{TB: t}
	f(r)
	return r.failures
}

func assemblePrompt(key session.Key, change func(*agentctx.Input)) agentctx.Prompt {
	in := agentctx.Input{
		Session: key, Files: agentctx.LoadWorkspace(contexttest.Workspace(nil)),
		Now: time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC),
	}
	if change != nil {
		change(&in)
	}
	return agentctx.Assemble(in)
}

func TestGolden(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("OFFSHOOT_UPDATE", "")
	p := assemblePrompt(mainKey, nil)
	golden := func() []string {
		return failuresOf(t, func(tb testing.TB) { contexttest.Golden(tb, "top", p) })
	}

	require.Len(t, golden(), 1)
	assert.Contains(t, golden()[0], "there is no golden file")
	assert.Contains(t, golden()[0], "OFFSHOOT_UPDATE=1")

	t.Setenv("OFFSHOOT_UPDATE", "1")
	assert.Empty(t, golden())
	t.Setenv("OFFSHOOT_UPDATE", "0")
	assert.Empty(t, golden())
	text, err := os.ReadFile(filepath.Join("testdata", "prompts", "top.md"))
	require.NoError(t, err)
	assert.Equal(t, p.String(), string(text))

	// Other line ends of a checkout are not a change.
	require.NoError(
		t,
		os.WriteFile(
			filepath.Join("testdata", "prompts", "top.md"),
			[]byte(strings.ReplaceAll(p.String(), "\n", "\r\n")), 0o644,
		),
	)
	assert.Empty(t, golden())

	p = assemblePrompt(mainKey, func(in *agentctx.Input) { in.Product = "Perch" })
	require.Len(t, golden(), 1)
	assert.Contains(
		t, golden()[0],
		"-You are a personal assistant.\n+You are a personal assistant running inside Perch.\n",
	)

	for _, name := range []string{"", "a/b", "..", "."} {
		assert.Len(
			t, failuresOf(t, func(tb testing.TB) { contexttest.Golden(tb, name, p) }), 1, name,
		)
	}
}

func TestGoldenUpdateFlag(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("OFFSHOOT_UPDATE", "")
	require.Nil(t, flag.Lookup("update"), "the kit must leave the flag to its users")
	on := flag.Bool("update", false, "accept changes of golden files")
	p := assemblePrompt(mainKey, nil)
	assert.Len(t, failuresOf(t, func(tb testing.TB) { contexttest.Golden(tb, "top", p) }), 1)
	*on = true
	defer func() { *on = false }()
	assert.Empty(t, failuresOf(t, func(tb testing.TB) { contexttest.Golden(tb, "top", p) }))
}

func TestComplete(t *testing.T) {
	complete := func(change func(*agentctx.Input)) []string {
		return failuresOf(
			t, func(tb testing.TB) { contexttest.Complete(tb, assemblePrompt(mainKey, change)) },
		)
	}
	assert.Empty(t, complete(nil))
	assert.Empty(
		t,
		failuresOf(
			t, func(tb testing.TB) { contexttest.Complete(tb, assemblePrompt(childKey, nil)) },
		),
		"excluded is as it should be",
	)

	load := func(changes map[string]string) func(*agentctx.Input) {
		return func(in *agentctx.Input) {
			in.Files = agentctx.LoadWorkspace(contexttest.Workspace(changes))
		}
	}
	assert.Empty(
		t,
		complete(load(map[string]string{"BOOTSTRAP.md": "", "MEMORY.md": "", "HEARTBEAT.md": ""})),
		"optional files may be absent",
	)
	assert.Equal(
		t,
		[]string{
			"contexttest: prompt of agent:main:main is not complete: SOUL.md: missing: absent; " +
				"write it, if need be empty, or have agentctx.Seed make it from its template",
		},
		complete(load(map[string]string{"SOUL.md": ""})),
	)
	assert.Len(t, complete(load(map[string]string{"MEMORY.md": "\xff"})), 1, "but not unreadable")
	assert.Len(t, complete(load(map[string]string{"AGENTS.md": contexttest.Text(20_001)})), 1)
	assert.Empty(t, complete(load(map[string]string{"AGENTS.md": contexttest.Text(20_000)})))
	assert.Len(t, complete(func(in *agentctx.Input) { in.Limits.Total = 100 }), 3)
	assert.Len(t, complete(func(in *agentctx.Input) {
		in.Tools = []agentctx.Tool{{Name: "read"}}
		in.Skills = []agentctx.Skill{{Name: "x", Description: strings.Repeat("d", 500)}}
		in.Limits.Skills = 300
	}), 1)
}

// C3: every SKILL.md that discovery passes over fails the review, with the reason: of the sources,
// and of a prompt that was made of them.
func TestBrokenSkills(t *testing.T) {
	const good = "---\ndescription: x\n---\n"
	sources := []agentctx.SkillSource{
		{Path: "own", Origin: agentctx.SkillWorkspace, FS: fstest.MapFS{
			"good/SKILL.md": {Data: []byte(good)}, "blank/SKILL.md": {},
			"latin/SKILL.md": {Data: []byte("---\ndescription: \xff\n---\n")},
			"meta/SKILL.md":  {Data: []byte("---\ndescription: x\nmetadata: [a]\n---\n")},
			"named/SKILL.md": {Data: []byte("---\nname: a/b\ndescription: x\n---\n")},
			"picky/SKILL.md": {Data: []byte("---\ndescription: x\nmetadata: " +
				`{"openclaw": {"requires": {"env": ["UNSET"]}}}` + "\n---\n")},
			"1/2/3/4/5/6/7/SKILL.md": {Data: []byte(good)},
		}},
		{Path: "shared", FS: fstest.MapFS{"good/SKILL.md": {Data: []byte(good)}}},
	}
	want := []string{
		"1/2/3/4/5/6: too deep: what is more than 6 levels below the source is not looked at",
		"blank/SKILL.md: there is no front matter between lines of ---",
		"latin/SKILL.md: it is not valid UTF-8 text",
		"meta/SKILL.md: its metadata cannot be read: line 2: metadata is not a mapping",
		`named/SKILL.md: bad name: "a/b" has a separator of paths`,
	}
	check := func(prefix string, failed []string) {
		t.Helper()
		require.Len(t, failed, len(want))
		for i, text := range failed {
			require.Equal(t, prefix+want[i], text)
		}
	}
	check("contexttest: skill own/", failuresOf(t, func(tb testing.TB) {
		contexttest.Skills(tb, sources...)
	}))
	found, problems := agentctx.DiscoverSkills(sources...)
	snapshot := agentctx.SnapshotSkills(
		found, agentctx.SkillHost{}, agentctx.Spec{Skills: []string{"*"}},
	)
	p := assemblePrompt(mainKey, func(in *agentctx.Input) {
		in.Skills = snapshot.Visible()
		in.SkillReports = append(problems, snapshot.Excluded...)
	})
	check("contexttest: prompt of agent:main:main is not complete: ",
		failuresOf(t, func(tb testing.TB) { contexttest.Complete(tb, p) }))
	require.Empty(t, failuresOf(t, func(tb testing.TB) { contexttest.Skills(tb, sources[1]) }))
}

func TestSeesOnly(t *testing.T) {
	sees := func(p agentctx.Prompt, files ...string) []string {
		return failuresOf(t, func(tb testing.TB) { contexttest.SeesOnly(tb, p, files...) })
	}
	child := assemblePrompt(childKey, nil)
	assert.Empty(t, sees(child, "TOOLS.md", "AGENTS.md"))
	assert.Equal(
		t, []string{"contexttest: prompt of " + childKey.String() + " shows TOOLS.md"},
		sees(child, "AGENTS.md"),
	)
	assert.Equal(
		t,
		[]string{
			"contexttest: prompt of " + childKey.String() + " does not show USER.md: excluded: not among the files of the spec",
		},
		sees(child, "AGENTS.md", "TOOLS.md", "USER.md"),
	)
	assert.Contains(
		t, sees(child, "AGENTS.md", "TOOLS.md", "other.md")[0], "was not among the files",
	)
	assert.Empty(t, sees(assemblePrompt(mainKey, nil), agentctx.CoreFiles()...))
}

func TestOrderHasLacks(t *testing.T) {
	p := assemblePrompt(mainKey, nil)
	order := func(ids ...string) []string {
		return failuresOf(t, func(tb testing.TB) { contexttest.Order(tb, p, ids...) })
	}
	assert.Empty(t, order("identity", "safety", "project-context", "runtime"))
	assert.Len(t, order("safety", "identity"), 1)
	assert.Len(t, order("identity", "no-such", "safety"), 1)

	assert.Empty(
		t,
		failuresOf(
			t, func(tb testing.TB) { contexttest.Has(tb, p, "This is USER.md.", "## Safety") },
		),
	)
	assert.Len(
		t,
		failuresOf(
			t, func(tb testing.TB) { contexttest.Has(tb, p, "no such", "## Safety", "nor this") },
		),
		2,
	)
	assert.Empty(t, failuresOf(t, func(tb testing.TB) { contexttest.Lacks(tb, p, "no such") }))
	assert.Equal(
		t,
		[]string{
			`contexttest: prompt of agent:main:main has "This is USER.md." in section project-context`,
		},
		failuresOf(t, func(tb testing.TB) { contexttest.Lacks(tb, p, "This is USER.md.") }),
	)
	assert.Contains(
		t, failuresOf(t, func(tb testing.TB) { contexttest.Lacks(tb, p, "assistant.\n\n##") })[0],
		"between sections",
	)
}

func TestSamePrefix(t *testing.T) {
	same := func(prompts ...agentctx.Prompt) []string {
		return failuresOf(t, func(tb testing.TB) { contexttest.SamePrefix(tb, prompts...) })
	}
	a := assemblePrompt(mainKey, nil)
	later := assemblePrompt(mainKey, func(in *agentctx.Input) { in.Now = in.Now.AddDate(0, 0, 3) })
	assert.Empty(t, same())
	assert.Empty(
		t,
		same(
			a, later,
			assemblePrompt(session.Must(session.Parse("agent:main:telegram:direct:ada")), nil),
		),
	)
	assert.Len(t, same(a, later, assemblePrompt(childKey, nil)), 1)

	volatile := assemblePrompt(mainKey, nil) // a prompt with the clock in front
	volatile.Sections = append(
		[]agentctx.Section{{ID: "clock", Class: agentctx.ClassPerTurn, Text: "09:00"}},
		volatile.Sections...)
	assert.Len(t, same(volatile), 1)
	assert.Contains(t, same(volatile)[0], "earlier class behind")
}

func TestWorkspaceBuilders(t *testing.T) {
	fsys := contexttest.Workspace(
		map[string]string{"SOUL.md": "", "USER.md": "Ada", "memory/x.md": "note"},
	)
	assert.Len(t, fsys, 8)
	assert.NotContains(t, fsys, "SOUL.md")
	assert.Equal(t, "Ada", string(fsys["USER.md"].Data))
	for _, n := range []int{-1, 0, 1, 59, 60, 5000} {
		assert.Len(t, contexttest.Text(n), max(n, 0))
	}
}

func TestDiff(t *testing.T) {
	assert.Empty(t, contexttest.Diff("a\nb\n", "a\nb\n"))
	assert.Equal(t, "@@ -1 +1 @@\n a\n-b\n+B\n c\n", contexttest.Diff("a\nb\nc\n", "a\nB\nc\n"))
	assert.Equal(t, "@@ -1 +1 @@\n-a\n+a\n\\ no newline at the end\n", contexttest.Diff("a\n", "a"))
	assert.Equal(t, "@@ -1 +1 @@\n+a\n", contexttest.Diff("", "a\n"))

	var long []string
	for i := range 100 {
		long = append(long, fmt.Sprint("line ", i))
	}
	a := strings.Join(long, "\n") + "\n"
	long[10], long[80] = "changed", "changed"
	b := strings.Join(long, "\n") + "\n"
	assert.Equal(
		t,
		"@@ -8 +8 @@\n line 7\n line 8\n line 9\n-line 10\n+changed\n line 11\n line 12\n line 13\n"+
			"@@ -78 +78 @@\n line 77\n line 78\n line 79\n-line 80\n+changed\n line 81\n line 82\n line 83\n",
		contexttest.Diff(a, b),
	)

	// Too much to match line by line is still told.
	x, y := strings.Repeat("x\n", 3000), strings.Repeat("y\n", 3000)
	assert.Equal(
		t, "@@ -1 +1 @@\n"+strings.Repeat("-x\n", 3000)+strings.Repeat("+y\n", 3000),
		contexttest.Diff(x, y),
	)
}

// C5: a Spec that names a file that is not there is told in CI; a pattern and a core file are not.
func TestCompleteSeesNamesInVain(t *testing.T) {
	for name, want := range map[string]string{
		"AGENT.md": "; the nearest is AGENTS.md", "notes/DEPLOY.md": "", "memory/2026-01-01.md": "",
		"*.txt": "none", "HEARTBEAT.md": "none", "MEMORY.md": "none", "memory.md": "none",
		"AGENTS.md": "none", "(cwd)/AGENTS.md": "none",
	} {
		p := assemblePrompt(mainKey, func(in *agentctx.Input) {
			in.Files = agentctx.LoadWorkspace(contexttest.Workspace(map[string]string{
				"HEARTBEAT.md": "", "MEMORY.md": "",
			}))
			in.Spec.Files = []string{"AGENTS.md", name}
		})
		failures := failuresOf(t, func(tb testing.TB) { contexttest.Complete(tb, p) })
		if want == "none" {
			assert.Empty(t, failures, name)
			continue
		}
		assert.Len(t, failures, 1, name)
		assert.Contains(t, failures[0], name+": named in vain: the spec names it, and no file of that "+
			"name was loaded"+want)
	}
}
