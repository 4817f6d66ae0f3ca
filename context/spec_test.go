package agentctx_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	agentctx "github.com/offshoot-sdk/offshoot/context"
	"github.com/offshoot-sdk/offshoot/session"
)

func fileNames(files []agentctx.WorkspaceFile) []string {
	list := make([]string, len(files))
	for i, f := range files {
		list[i] = f.Name
	}
	return list
}

func TestSpecForFailsClosed(t *testing.T) {
	const uuid = "6f1c2a52-7d1c-4f7e-9a30-0d6f5b0e3c11"
	worker := agentctx.Spec{
		Mode: agentctx.ModeMinimal, Files: []string{"AGENTS.md", "TOOLS.md"}, Skills: []string{},
		History: agentctx.HistoryIsolated, Overflow: agentctx.OverflowCut,
	}
	for key, full := range map[string]bool{
		"agent:main:main":                                   true,
		"agent:main:telegram:direct:ada":                    true,
		"agent:main:telegram:group:-100":                    true,
		"agent:main:telegram:group:-100:topic:42":           true,
		"agent:main:discord:channel:c1":                     true,
		"agent:subagent:main":                               true, // an agent may be called so
		"agent:main:subagent:" + uuid:                       false,
		"agent:main:subagent:" + uuid + ":subagent:" + uuid: false,
		"agent:main:subagent:" + uuid + ":thread:9":         false,
		"agent:main:spawn:abc123":                           false,
		"agent:main:cron:daily":                             false,
		"agent:main:cron:daily:run:1":                       false,
		"agent:main:acp:" + uuid:                            false,
		"agent:main:telegram:direct:spawn":                  false, // looks like one
		// C14: rooms and people may be called by words of the grammar, and their kind counts.
		"agent:main:telegram:group:cron":       true,
		"agent:main:irc:channel:acp":           true,
		"agent:main:irc:direct:cron:run:1":     true,
		"agent:main:irc:group:acp:thread:cron": true,
		"agent:main:irc:group:#subagent":       true,
		"agent:main:irc:cron:direct:ada":       true,
		"agent:cron:main":                      true,
		"agent:main:hook:acp":                  true,
	} {
		k, err := session.Parse(key)
		if err != nil {
			k = session.Key{} // refused by the parser: then it must fail closed here
			full = false
		}
		spec := agentctx.SpecFor(k)
		want := worker
		if full {
			want = agentctx.Spec{
				Mode: agentctx.ModeFull, Files: []string{"*"}, Skills: []string{"*"},
				History: agentctx.HistoryIsolated, Overflow: agentctx.OverflowCut,
			}
		}
		assert.Equal(t, want, spec, key)
	}
	assert.Equal(t, worker, agentctx.SpecFor(session.Key{}))
}

func TestLineageKeepsAChildAWorker(t *testing.T) {
	// A key that looks like a top-level one, and a record that says otherwise.
	for name, l := range map[string]session.Lineage{
		"depth":        {Depth: 1},
		"leaf":         {Role: session.RoleLeaf},
		"orchestrator": {Role: session.RoleOrchestrator},
		"parent":       {Parent: mainKey},
	} {
		p := agentctx.Assemble(
			agentctx.Input{
				Session: mainKey, Lineage: l, Files: agentctx.LoadWorkspace(coreWorkspace()),
			},
		)
		assert.Equal(t, agentctx.ModeMinimal, p.Mode, name)
		assert.Equal(t, []string{"AGENTS.md", "TOOLS.md"}, shownFiles(p), name)
	}
}

func TestPresetsOfSpec(t *testing.T) {
	files := agentctx.LoadWorkspace(coreWorkspace())
	assert.Equal(
		t, []string{"AGENTS.md", "TOOLS.md"}, fileNames(agentctx.WorkerSpec().Filter(files)),
	)
	assert.Equal(t, []string{"AGENTS.md"}, fileNames(agentctx.InstructionsSpec().Filter(files)))
	assert.Equal(
		t, []string{"AGENTS.md", "SOUL.md", "TOOLS.md", "IDENTITY.md"},
		fileNames(agentctx.PersonaSpec().Filter(files)),
	)
	assert.Equal(
		t, []string{"AGENTS.md", "TOOLS.md"}, fileNames(agentctx.Spec{}.Filter(files)),
		"the zero spec fails closed",
	)
	assert.Empty(t, agentctx.Spec{Files: []string{}}.Filter(files), "an empty list is none")
	assert.Len(t, agentctx.Spec{Files: []string{"*"}}.Filter(files), 8)

	w := agentctx.WorkerSpec() // a caller's change does not reach the next caller
	w.Files[0] = "USER.md"
	assert.Equal(t, "AGENTS.md", agentctx.WorkerSpec().Files[0])
}

func TestSees(t *testing.T) {
	for _, c := range []struct {
		files []string
		name  string
		want  bool
	}{
		{[]string{"AGENTS.md"}, "AGENTS.md", true},
		{[]string{"AGENTS.md"}, "agents.md", false},
		{[]string{"AGENTS.md"}, " AGENTS.md", false},
		{[]string{"AGENTS.md"}, "./AGENTS.md", false},
		{[]string{"AGENTS.md"}, "/AGENTS.md", false},
		{[]string{"AGENTS.md"}, "../AGENTS.md", false},
		{[]string{"*"}, "../USER.md", false},
		{[]string{"*"}, "a\\..\\USER.md", false},
		{[]string{"*"}, "USER.md\n", false},
		{[]string{"*"}, "", false},
		{[]string{"*"}, ".", false},
		{[]string{"AGENTS.md"}, "packages/api/AGENTS.md", false},
		{[]string{"AGENTS.md"}, "USER.md/AGENTS.md", false},
		{[]string{"packages/*/AGENTS.md"}, "packages/api/AGENTS.md", true},
		{[]string{"packages/*/AGENTS.md"}, "AGENTS.md", false},
		{[]string{"packages/api/AGENTS.md"}, "packages/api/AGENTS.md", true},
		{[]string{"A*.md"}, "packages/api/AGENTS.md", true},
		{[]string{"README.md"}, "docs/README.md", false},
		{[]string{"MEMORY.md"}, "x/memory.md", false},
		{[]string{"packages/api/AGENTS.md"}, agentctx.ExecutionFile, false},
		{[]string{"[x].md"}, "[x].md", true}, // a name that looks like a pattern is a name too
		{[]string{"[x].md"}, "x.md", true},
		{[]string{"AGENTS.md"}, agentctx.ExecutionFile, true},
		{[]string{"TOOLS.md"}, agentctx.ExecutionFile, false},
		{[]string{"MEMORY.md"}, "memory.md", true},
		{[]string{"memory.md"}, "MEMORY.md", false},
		{[]string{"memory/*.md"}, "memory/2026-11-20.md", true},
		{[]string{"memory/*.md"}, "notes/2026-11-20.md", false},
		{[]string{"*"}, "memory/2026-11-20.md", true},
		{[]string{"docs/*/a.md"}, "docs/x/a.md", true},
		{[]string{"[", "USER.md"}, "USER.md", true}, // a malformed pattern matches nothing
		{[]string{"["}, "USER.md", false},
		{nil, "USER.md", false},
	} {
		seen := agentctx.Spec{Files: c.files}.Filter([]agentctx.WorkspaceFile{{Name: c.name}})
		assert.Equal(t, c.want, len(seen) == 1, "%q %q", c.files, c.name)
	}
}

// S10: the names of core files mean the root of the workspace. A spec that wants others names them
// by their path.
func TestCoreNamesMeanTheRoot(t *testing.T) {
	var files []agentctx.WorkspaceFile
	for _, dir := range []string{"", "x/", "memory/", "USER.md/", "AGENTS.md/"} {
		for _, name := range agentctx.CoreFiles() {
			files = append(files, agentctx.WorkspaceFile{Name: dir + name, Content: dir + name})
		}
	}
	want := []string{"AGENTS.md", "TOOLS.md"}
	p := agentctx.Assemble(agentctx.Input{Session: childKey, Files: files})
	assert.Equal(t, want, shownFiles(p))
	assert.Equal(t, want, fileNames(agentctx.FilterForSubagent(files)))
	for name, spec := range map[string]agentctx.Spec{
		"worker": agentctx.WorkerSpec(), "instructions": agentctx.InstructionsSpec(),
		"persona": agentctx.PersonaSpec(),
	} {
		assert.Equal(t, spec.Files, fileNames(spec.Filter(files)), name)
	}
	text := agentctx.Assemble(agentctx.Input{Session: mainKey, Files: []agentctx.WorkspaceFile{
		{Name: "x/BOOTSTRAP.md", Content: "x"}, {Name: "x/SOUL.md", Content: "x"},
	}}).String()
	assert.NotContains(t, text, "this workspace is new")
	assert.NotContains(t, text, "Take on the persona")
}

func TestPrecedence(t *testing.T) {
	spawn := agentctx.Spec{Files: []string{"AGENTS.md"}}
	agent := agentctx.Spec{
		Files: []string{"USER.md"}, Mode: agentctx.ModeFull, History: agentctx.HistoryFork,
	}
	defaults := agentctx.Spec{
		Mode: agentctx.ModeNone, Skills: []string{"pdf"}, Overflow: agentctx.OverflowRefuse,
		History: agentctx.HistoryIsolated,
	}
	got := spawn.Or(agent).Or(defaults).Or(agentctx.SpecFor(childKey))
	assert.Equal(t, agentctx.Spec{
		Mode: agentctx.ModeFull, Files: []string{"AGENTS.md"}, Skills: []string{"pdf"},
		History: agentctx.HistoryFork, Overflow: agentctx.OverflowRefuse,
	}, got)

	// A mode alone opens no file: what a child sees is still a worker's.
	p := agentctx.Assemble(agentctx.Input{
		Session: childKey, Spec: agentctx.Spec{Mode: agentctx.ModeFull},
		Files: agentctx.LoadWorkspace(coreWorkspace()),
	})
	assert.Equal(t, agentctx.ModeFull, p.Mode)
	assert.Equal(t, []string{"AGENTS.md", "TOOLS.md"}, shownFiles(p))

	// An empty list is an answer, nil is none.
	none := agentctx.Spec{
		Files: []string{}, Skills: []string{},
	}.Or(
		agentctx.Spec{Files: []string{"*"}, Skills: []string{"*"}},
	)
	assert.Equal(t, agentctx.Spec{Files: []string{}, Skills: []string{}}, none)
}

func TestSpecValidate(t *testing.T) {
	require.NoError(t, agentctx.Spec{}.Validate())
	require.NoError(t, agentctx.PersonaSpec().Validate())
	for want, s := range map[string]agentctx.Spec{
		"Spec.Mode is 9":       {Mode: 9},
		"Spec.History is 9":    {History: 9},
		"Spec.Overflow is 9":   {Overflow: 9},
		`Spec.Files[1] is "["`: {Files: []string{"AGENTS.md", "["}},
		`Spec.Files[0] is ""`:  {Files: []string{""}},
		"Spec.Skills[0]":       {Skills: []string{" "}},
	} {
		assert.ErrorContains(t, s.Validate(), want)
	}
}

func TestSpecJSON(t *testing.T) {
	s := agentctx.Spec{
		Mode: agentctx.ModeMinimal, Files: []string{}, History: agentctx.HistoryFork,
		Overflow: agentctx.OverflowDrop,
	}
	text, err := json.Marshal(s)
	require.NoError(t, err)
	assert.JSONEq(
		t, `{"mode":"minimal","files":[],"history":"fork","overflow":"drop"}`, string(text),
	)
	var back agentctx.Spec
	require.NoError(t, json.Unmarshal(text, &back))
	assert.Equal(t, s, back, "nil and empty stay apart")
	assert.ErrorContains(
		t, json.Unmarshal([]byte(`{"mode":"maximal"}`), &back), `unknown mode "maximal"`,
	)
	_, err = json.Marshal(agentctx.Spec{Mode: 77})
	assert.ErrorContains(t, err, "77 is not a mode")
}

// checkTextRoundTrip fails unless the first n values of an enumeration read back what they write,
// in any letter case, and no other value or text is accepted.
func checkTextRoundTrip[T ~uint8, P interface {
	*T
	UnmarshalText(text []byte) error
}](t *testing.T, n int) {
	t.Helper()
	type named interface {
		fmt.Stringer
		MarshalText() ([]byte, error)
	}
	for v := range T(n) {
		value := any(v).(named)
		text, err := value.MarshalText()
		require.NoError(t, err)
		assert.Equal(t, value.String(), string(text))
		for _, spelling := range []string{string(text), strings.ToUpper(string(text))} {
			back := T(n)
			require.NoError(t, P(&back).UnmarshalText([]byte(spelling)))
			assert.Equal(t, v, back)
		}
	}
	beyond := any(T(n)).(named)
	_, err := beyond.MarshalText()
	require.Error(t, err)
	assert.Contains(t, beyond.String(), "(")
	v := T(1)
	require.Error(t, P(&v).UnmarshalText([]byte("no such")))
	assert.Equal(t, T(1), v, "an error changes nothing")
}

func TestEnumerationsReadBackWhatTheyWrite(t *testing.T) {
	checkTextRoundTrip[agentctx.Class](t, 3)
	checkTextRoundTrip[agentctx.Mode](t, 4)
	checkTextRoundTrip[agentctx.History](t, 3)
	checkTextRoundTrip[agentctx.Overflow](t, 4)
	checkTextRoundTrip[agentctx.Layout](t, 2)
	checkTextRoundTrip[agentctx.Answer](t, 3)
	checkTextRoundTrip[agentctx.SkillOrigin](t, 6)
	checkTextRoundTrip[agentctx.Reason](t, int(agentctx.ReasonUnmatched)+1)
}

// C5: everything that is wrong is reported at once, by its field.
func TestValidateReportsEveryField(t *testing.T) {
	in := agentctx.Input{
		Spec: agentctx.Spec{
			Mode: 9, History: 9, Overflow: 9, Files: []string{"["}, Skills: []string{""},
		},
		Limits:  agentctx.Limits{File: -7, Total: -7, Skills: -7},
		Layout:  9,
		Channel: agentctx.Channel{Reactions: "x", Buttons: 9},
		Sandbox: agentctx.Sandbox{Access: "x", HostBrowser: 9},
		Extra:   []agentctx.Section{{Class: 9}},
	}
	var fields []string
	joined, ok := in.Validate().(interface{ Unwrap() []error })
	require.True(t, ok)
	for _, err := range joined.Unwrap() {
		f, ok := errors.AsType[*agentctx.FieldError](err)
		require.True(t, ok)
		require.NotEmpty(t, f.Reason)
		require.EqualError(t, err, "agentctx: "+f.Field+" "+f.Reason)
		fields = append(fields, f.Field)
	}
	require.Equal(t, []string{
		"Input.Session", "Input.Spec.Mode", "Input.Spec.History", "Input.Spec.Overflow",
		"Input.Spec.Files[0]", "Input.Spec.Skills[0]", "Input.Limits.File", "Input.Limits.Total",
		"Input.Limits.Skills", "Input.Layout", "Input.Channel.Reactions", "Input.Sandbox.Access",
		"Input.Channel.Buttons", "Input.Sandbox.HostBrowser", "Input.Extra[0].ID",
		"Input.Extra[0].Class",
	}, fields)
	require.NoError(t, agentctx.Loader{Extra: []string{"docs/*.md"}}.Validate())
}
