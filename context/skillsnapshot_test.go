package agentctx_test

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	agentctx "github.com/offshoot-sdk/offshoot/context"
)

// manySkills returns the files of n skills.
func manySkills(n int) map[string]string {
	files := map[string]string{}
	for i := range n {
		name := fmt.Sprintf("s%04d", i)
		files[name+"/SKILL.md"] = skillText(name, "x")
	}
	return files
}

// allSkills lets every skill through.
var allSkills = agentctx.Spec{Skills: []string{"*"}}

// reportsOf returns the names of the reports with a reason.
func reportsOf(reports []agentctx.FileReport, r agentctx.Reason) (names []string) {
	for _, f := range reports {
		if f.Reason == r {
			names = append(names, f.Name)
		}
	}
	return names
}

// C3: discovery, a snapshot and the prompt take so many skills and no more, and
// report on each that they leave out.
func TestCapsOfSkills(t *testing.T) {
	source := func(n int) agentctx.SkillSource {
		return skillSource(agentctx.SkillExtra, fmt.Sprint("x", n), manySkills(n))
	}
	found, problems := agentctx.DiscoverSkills(source(200))
	assert.Len(t, found, 200)
	assert.Empty(t, problems)

	found, problems = agentctx.DiscoverSkills(source(202))
	assert.Len(t, found, 200)
	assert.Equal(t, []string{"s0200/SKILL.md", "s0201/SKILL.md"},
		reportsOf(problems, agentctx.ReasonTooMany))
	assert.Contains(t, problems[0].Why, "first 200 skills of a source")

	empty := map[string]string{}
	for i := range 310 { // with the root, 311 directories
		empty[fmt.Sprintf("d%03d/README.md", i)] = "x"
	}
	_, problems = agentctx.DiscoverSkills(skillSource(agentctx.SkillExtra, "x", empty))
	require.Equal(t, []string{"d299"}, reportsOf(problems, agentctx.ReasonTooMany))
	assert.Contains(t, problems[0].Why, "first 300 directories")

	var many []agentctx.SkillEntry
	for i := range 1002 {
		many = append(many, agentctx.SkillEntry{Skill: agentctx.Skill{
			Name: fmt.Sprintf("s%04d", i), Description: "x", Path: "p",
		}})
	}
	snap := agentctx.SnapshotSkills(many, agentctx.SkillHost{}, allSkills)
	assert.Len(t, snap.Skills, 1000)
	assert.Equal(t, []string{"s1000", "s1001"}, reportsOf(snap.Excluded, agentctx.ReasonTooMany))

	p := agentctx.Assemble(agentctx.Input{
		Session: mainKey, Skills: snap.Visible()[:152], SkillReports: snap.Excluded,
		Tools: toolsNamed("read"),
	})
	assert.Equal(t, []string{"s0150", "s0151"}, reportsOf(p.Skills, agentctx.ReasonOverSkills))
	assert.Equal(t, []string{"s1000", "s1001"}, reportsOf(p.Skills, agentctx.ReasonTooMany))
	skills, _ := p.Section(agentctx.SectionSkills)
	assert.Contains(t, skills.Text, "Not listed for want of room: 2.")
}

// O10: a skill that lacks several things names all of them.
func TestSkillLacksAreAllNamed(t *testing.T) {
	e := agentctx.SkillEntry{Key: "x", Requires: agentctx.SkillRequirements{
		Bins: []string{"git", "jq"}, AnyBins: []string{"rg", "ag"}, Env: []string{"TOKEN", "SET"},
		Config: []string{"browser.enabled"},
	}}
	host := agentctx.SkillHost{Env: func(name string) string {
		return map[string]string{"SET": "1"}[name]
	}}
	for _, c := range []struct {
		has  func(*agentctx.SkillHost)
		want string
	}{
		{func(*agentctx.SkillHost) {}, `needs the program "git", the program "jq", ` +
			`one of the programs ["rg" "ag"], the variable "TOKEN" and the setting "browser.enabled"`},
		{
			func(h *agentctx.SkillHost) { h.HasBin = func(name string) bool { return name != "jq" } },
			`needs the program "jq", the variable "TOKEN" and the setting "browser.enabled"`,
		},
		{
			func(h *agentctx.SkillHost) { h.Setting = func(string) bool { return true } },
			`needs the program "jq" and the variable "TOKEN"`,
		},
		{
			func(h *agentctx.SkillHost) { h.Env = func(string) string { return "1" } },
			`needs the program "jq"`,
		},
		{func(h *agentctx.SkillHost) { h.HasBin = func(string) bool { return true } }, ""},
	} {
		c.has(&host)
		ok, why := host.Eligible(e)
		assert.Equal(t, c.want, why)
		assert.Equal(t, c.want == "", ok)
	}
}

// readsFS counts how often a file is opened, by its name.
type readsFS struct {
	fstest.MapFS

	reads map[string]int
}

func (f readsFS) Open(name string) (fs.File, error) {
	if strings.HasSuffix(name, ".md") {
		f.reads[name]++
	}
	return f.MapFS.Open(name)
}

// C3: the sources are looked at again by size, time and name. Only what has changed is read again.
func TestSkillIndexReadsWhatHasChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at := time.Now()
		file := func(text string) *fstest.MapFile {
			return &fstest.MapFile{Data: []byte(text), Mode: 0o644, ModTime: at}
		}
		files := readsFS{fstest.MapFS{
			"a/SKILL.md": file(skillText("alpha", "one")), "b/SKILL.md": file("broken"),
		}, map[string]int{}}
		index := agentctx.NewSkillIndex(agentctx.SkillSource{FS: files, Path: "skills"})
		look := func(wantReads ...string) (texts []string) {
			t.Helper()
			clear(files.reads)
			found, problems := index.Look()
			for _, e := range found {
				texts = append(texts, e.Name+": "+e.Description)
			}
			for _, p := range problems {
				texts = append(texts, p.Name+": "+p.Reason.String())
			}
			var reads []string
			for name := range files.reads {
				if files.MapFS[name] != nil {
					reads = append(reads, name)
				}
			}
			slices.Sort(reads)
			require.Equal(t, wantReads, reads)
			return texts
		}
		broken := "b/SKILL.md: blank"
		both := []string{"alpha: one", broken}
		time.Sleep(time.Second) // so soon after a change the time of a file would not show another
		require.Equal(t, both, look("a/SKILL.md", "b/SKILL.md"))
		require.Equal(t, both, look("a/SKILL.md", "b/SKILL.md"))
		time.Sleep(time.Hour)
		require.Equal(t, both, look("a/SKILL.md", "b/SKILL.md"))
		require.Equal(t, both, look())

		files.MapFS["a/SKILL.md"] = file(skillText("alpha", "three")) // another size
		require.Equal(t, []string{"alpha: three", broken}, look("a/SKILL.md"))
		at = at.Add(time.Minute)
		files.MapFS["a/SKILL.md"] = file(skillText("alpha", "seven")) // another time
		require.Equal(t, []string{"alpha: seven", broken}, look("a/SKILL.md"))
		files.MapFS["c/SKILL.md"] = files.MapFS["a/SKILL.md"] // another name
		delete(files.MapFS, "a/SKILL.md")
		require.Equal(t, []string{"alpha: seven", broken}, look("c/SKILL.md"))
		files.MapFS["b/SKILL.md"] = file(skillText("beta", "mended"))
		require.Equal(t, []string{"alpha: seven", "beta: mended"}, look("b/SKILL.md"))
		delete(files.MapFS, "b/SKILL.md")
		require.Equal(t, []string{"alpha: seven"}, look())

		at = time.Time{} // as in an embed.FS: the time says nothing
		files.MapFS["c/SKILL.md"] = file(skillText("gamma", "x"))
		require.Equal(t, []string{"gamma: x"}, look("c/SKILL.md"))
		require.Equal(t, []string{"gamma: x"}, look("c/SKILL.md"))

		clear(files.reads)
		last, _ := index.Last()
		require.Equal(t, []string{"gamma"}, skillNames(last))
		require.Empty(t, files.reads, "what Look has found")
		last, _ = agentctx.NewSkillIndex(agentctx.SkillSource{FS: files}).Last()
		require.Equal(t, []string{"gamma"}, skillNames(last))
	})
}

// C3: a session lists what it took, as that was then, of what is still there and let through.
func TestSkillIndexKeepsWhatWasTaken(t *testing.T) {
	files := skillFS(map[string]string{
		"a/SKILL.md": skillText("alpha", "one"), "b/SKILL.md": skillText("beta", "one"),
		"c/SKILL.md": skillText("gamma", "one"),
	})
	index := agentctx.NewSkillIndex(agentctx.SkillSource{FS: files, Path: "skills"})
	now := func(names ...string) agentctx.SkillSnapshot {
		found, _ := index.Look()
		return agentctx.SnapshotSkills(found, agentctx.SkillHost{}, agentctx.Spec{Skills: names})
	}
	taken := now("*")
	refs := taken.Refs()
	require.Equal(t, taken, index.Keep(refs, taken))

	change := func(name, text string) { files[name] = &fstest.MapFile{Data: []byte(text)} }
	change("a/SKILL.md", skillText("alpha", "two"))
	change("d/SKILL.md", skillText("delta", "one"))
	delete(files, "b/SKILL.md")
	kept := index.Keep(refs, now("*"))
	assert.Equal(t, []agentctx.Skill{
		{Name: "alpha", Description: "one", Path: "skills/a/SKILL.md"},
		{Name: "gamma", Description: "one", Path: "skills/c/SKILL.md"},
	}, kept.Visible(), "a changed skill stays as it was, one that is gone is left out")
	assert.Equal(t, []string{"beta"}, reportsOf(kept.Excluded, agentctx.ReasonAbsent))
	assert.Equal(t, []string{"delta"}, reportsOf(kept.Excluded, agentctx.ReasonExcluded))
	assert.Equal(t, kept.Version, index.Keep(refs, now("*")).Version)
	assert.NotEqual(t, taken.Version, kept.Version)

	kept = index.Keep(refs, now("alpha", "delta"))
	assert.Equal(t, []string{"alpha"}, skillNames(kept.Skills), "the rules of today hold")
	assert.Equal(t, []string{"delta", "gamma"},
		sorted(reportsOf(kept.Excluded, agentctx.ReasonExcluded)), "once each")

	// A skill that has moved is where it is now, and says what it says there.
	delete(files, "c/SKILL.md")
	change("e/SKILL.md", skillText("gamma", "two"))
	assert.Equal(t, []agentctx.Skill{{Name: "gamma", Description: "two", Path: "skills/e/SKILL.md"}},
		index.Keep(refs, now("gamma")).Visible())

	// Another index, as that of the next process, has not seen what was taken. It keeps what it
	// sees first.
	index = agentctx.NewSkillIndex(agentctx.SkillSource{FS: files, Path: "skills"})
	assert.Equal(t, "two", index.Keep(refs, now("alpha")).Skills[0].Description)
	change("a/SKILL.md", skillText("alpha", "three"))
	assert.Equal(t, "two", index.Keep(refs, now("alpha")).Skills[0].Description)
	assert.Equal(t, "three", index.Keep(now("alpha").Refs(), now("alpha")).Skills[0].Description)
}

func sorted(list []string) []string {
	slices.Sort(list)
	return list
}

// C3: a filter of the agent narrows a spec and never widens it.
func TestOnlySkills(t *testing.T) {
	for _, c := range []struct{ spec, only, want []string }{
		{nil, nil, nil},
		{nil, []string{"a"}, []string{}},
		{[]string{"*"}, nil, []string{"*"}},
		{[]string{"*"}, []string{}, []string{}},
		{[]string{"*"}, []string{" a ", "", "b"}, []string{"a", "b"}},
		{[]string{"*"}, []string{"*"}, []string{"*"}},
		{[]string{"a", "c"}, []string{"a", "b"}, []string{"a"}},
		{[]string{" a "}, []string{"a", "a"}, []string{"a", "a"}},
		{[]string{"a"}, []string{"*", "b"}, []string{"a"}},
		{[]string{}, []string{"a"}, []string{}},
	} {
		got := agentctx.Spec{Skills: c.spec}.OnlySkills(c.only)
		assert.Equal(t, c.want, got.Skills, "%v only %v", c.spec, c.only)
	}
}

// C3: the commands of skills are names that every chat takes, and no two are alike.
func TestSkillCommands(t *testing.T) {
	long := strings.Repeat("very-long-", 8)
	entries := []agentctx.SkillEntry{{Skill: agentctx.Skill{Name: "silent"}}}
	for _, name := range []string{
		"hello-world", "hello_world", "Hello  World!", "help", "help_2", "日本語", "--", long, long + "2",
	} {
		entries = append(entries, agentctx.SkillEntry{
			Skill:         agentctx.Skill{Name: name, Description: strings.Repeat("d", 101)},
			UserInvocable: true, Hidden: name == "help",
		})
	}
	s := agentctx.SkillSnapshot{Skills: entries}
	names := map[string]string{}
	for _, c := range s.Commands("HELP", "stop") {
		names[c.Skill] = c.Name
		assert.Regexp(t, `^[a-z0-9_]{1,32}$`, c.Name)
		assert.Equal(t, strings.Repeat("d", 99)+"…", c.Description)
	}
	assert.Equal(t, map[string]string{
		"hello-world": "hello_world", "hello_world": "hello_world_2", "Hello  World!": "hello_world_3",
		"help": "help_2", "help_2": "help_2_2", "日本語": "skill", "--": "skill_2",
		long:       "very_long_very_long_very_long_ve",
		long + "2": "very_long_very_long_very_long__2",
	}, names)
	assert.Empty(t, agentctx.SkillSnapshot{}.Commands())
}

// C3: the home directory is shown as ~, and no other path is touched.
func TestHomeOfSkills(t *testing.T) {
	for _, c := range []struct {
		home, path, want string
		sandboxed        bool
	}{
		{"/home/ada", "/home/ada/skills/x/SKILL.md", "~/skills/x/SKILL.md", false},
		{"/home/ada/", "/home/ada/skills/x/SKILL.md", "~/skills/x/SKILL.md", false},
		{`C:\Users\ada`, `C:\Users\ada\skills/x/SKILL.md`, `~\skills/x/SKILL.md`, false},
		{"/home/ada", "/home/adam/x/SKILL.md", "/home/adam/x/SKILL.md", false},
		{"/home/ada", "/srv/home/ada/x/SKILL.md", "/srv/home/ada/x/SKILL.md", false},
		{"/home/ada", "skills/x/SKILL.md", "skills/x/SKILL.md", false},
		{"", "/home/ada/x/SKILL.md", "/home/ada/x/SKILL.md", false},
		{"/", "/x/SKILL.md", "/x/SKILL.md", false},
		{"/home/ada", "/home/ada/x/SKILL.md", "/home/ada/x/SKILL.md", true},
	} {
		p := agentctx.Assemble(agentctx.Input{
			Session: mainKey, Env: agentctx.Env{Home: c.home},
			Sandbox: agentctx.Sandbox{Enabled: c.sandboxed},
			Tools:   []agentctx.Tool{{Name: "read"}},
			Skills:  []agentctx.Skill{{Name: "x", Description: "y", Path: c.path}},
		})
		skills, _ := p.Section(agentctx.SectionSkills)
		assert.Contains(t, skills.Text, "<location>"+c.want+"</location>")
	}
}

// C3: what discovery and a snapshot left out is in the account of the prompt, and can forge nothing
// there.
func TestSkillReportsOfAPrompt(t *testing.T) {
	found, problems := agentctx.DiscoverSkills(skillSource(agentctx.SkillExtra, "skills",
		map[string]string{
			"a/SKILL.md": skillText("alpha", "x"), "b\x1b[31m/SKILL.md": "no head",
			"c/SKILL.md": skillText("gamma", "x", "metadata: {openclaw: {requires: {bins: git}}}"),
		}))
	snap := agentctx.SnapshotSkills(found, agentctx.SkillHost{}, allSkills)
	p := agentctx.Assemble(agentctx.Input{
		Session: mainKey, Skills: snap.Visible(), SkillReports: append(problems, snap.Excluded...),
		Tools: toolsNamed("read"),
	})
	var names []string
	for _, f := range p.Skills {
		names = append(names, f.Name+": "+f.Reason.String())
	}
	assert.Equal(t, []string{"alpha: whole", "b[31m: bad name", "gamma: excluded"}, names)
	assert.Contains(t, p.Report(), `needs the program "git"`)
	assert.NotContains(t, p.String(), "gamma")
}

// waitFS waits before it opens a file for as long as there is a gate.
type waitFS struct {
	fstest.MapFS

	gate *chan struct{}
}

func (f waitFS) Open(name string) (fs.File, error) {
	if gate := *f.gate; gate != nil {
		<-gate
	}
	return f.MapFS.Open(name)
}

// C3: a source that hangs holds up no call but those that look at it, and a look that ends late
// does not take the place of a later one.
func TestSkillIndexWithASourceThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var gate chan struct{}
		files := waitFS{skillFS(map[string]string{"a/SKILL.md": skillText("alpha", "old")}), &gate}
		index := agentctx.NewSkillIndex(agentctx.SkillSource{FS: files})
		index.Look()
		gate = make(chan struct{})
		hangs := gate
		done := make(chan []agentctx.SkillEntry)
		go func() {
			found, _ := index.Look()
			done <- found
		}()
		synctest.Wait()
		found, _ := index.Last()
		require.Equal(t, "old", found[0].Description)
		require.Empty(t, index.Keep(nil, agentctx.SkillSnapshot{}).Skills)

		gate = nil
		files.MapFS["b/SKILL.md"] = &fstest.MapFile{Data: []byte(skillText("beta", "new"))}
		found, _ = index.Look()
		require.Equal(t, []string{"alpha", "beta"}, skillNames(found))
		delete(files.MapFS, "b/SKILL.md") // what the look that hangs will find
		close(hangs)
		require.Equal(t, []string{"alpha"}, skillNames(<-done))
		found, _ = index.Last()
		require.Equal(t, []string{"alpha", "beta"}, skillNames(found))
	})
}

// C2: a session without a tool that could open a file is not told to open one, and the report on
// each skill says why it is not listed.
func TestSkillsNeedATool(t *testing.T) {
	for tools, listed := range map[string]bool{
		"": false, "sessions_spawn subagents sessions_yield session_status agents_list": false,
		"read": true, "exec": true, "ReadFile": true, "sessions_spawn cat": true,
	} {
		p := agentctx.Assemble(agentctx.Input{
			Session: mainKey, Tools: toolsNamed(strings.Fields(tools)...),
			Skills: []agentctx.Skill{{Name: "x", Description: "y", Path: "x/SKILL.md"}},
		})
		_, ok := p.Section(agentctx.SectionSkills)
		assert.Equal(t, listed, ok, tools)
		assert.Equal(t, listed, p.Skills[0].Shown(), tools)
		assert.Equal(t, !listed, strings.Contains(p.Report(), "no tool that could open its file"))
	}
}
