package agentctx_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	agentctx "github.com/offshoot-sdk/offshoot/context"
)

// discovered returns the skills of a source with these files.
func discovered(files map[string]string) ([]agentctx.SkillEntry, []agentctx.FileReport) {
	return agentctx.DiscoverSkills(skillSource(agentctx.SkillWorkspace, "skills", files))
}

// described returns the description of a skill whose front matter has it in these lines.
func described(t *testing.T, lines ...string) string {
	t.Helper()
	text := "---\nname: x\n" + strings.Join(lines, "\n") + "\n---\n"
	found, problems := discovered(map[string]string{"x/SKILL.md": text})
	require.Len(t, found, 1, "%v", problems)
	return found[0].Description
}

// needing is a skill of a workspace that requires something.
func needing(r agentctx.SkillRequirements) agentctx.SkillEntry {
	return agentctx.SkillEntry{
		Skill: agentctx.Skill{Name: "x"}, Key: "x", Origin: agentctx.SkillWorkspace, Requires: r,
	}
}

// works checks whether a skill can work on a host, and that there is a reason where it cannot.
func works(t *testing.T, want bool, host agentctx.SkillHost, e agentctx.SkillEntry) {
	t.Helper()
	ok, why := host.Eligible(e)
	require.Equal(t, want, ok, why)
	require.Equal(t, want, why == "")
}

// having is a host with some programs.
func having(bins ...string) agentctx.SkillHost {
	return agentctx.SkillHost{HasBin: func(name string) bool {
		return strings.Contains(" "+strings.Join(bins, " ")+" ", " "+name+" ")
	}}
}

// setting is a host with one setting.
func setting(path string, on bool) agentctx.SkillHost {
	return agentctx.SkillHost{Setting: func(p string) bool { return p == path && on }}
}

// eligibleCases are the rows about which skills a session has, shownCases those about how they are
// found and shown.
var eligibleCases = []numberedCase{
	{id: "SK1", given: "a name in four sources", expect: "the workspace's", run: TestSkillPrecedence},
	{id: "SK2", given: "six sources", expect: "in their order", run: TestSkillPrecedence},
	{id: "SK3", given: "no filter, an empty one, one name", expect: "all, none, that one", run: func(
		t *testing.T,
	) {
		entries, _ := discovered(map[string]string{
			"a/SKILL.md": skillText("alpha", "x"), "b/SKILL.md": skillText("beta", "x"),
		})
		for _, c := range []struct{ filter, want []string }{
			{nil, []string{"alpha", "beta"}},
			{[]string{}, nil},
			{[]string{" ", ""}, nil},
			{[]string{" alpha ", "unknown"}, []string{"alpha"}},
		} {
			spec := allSkills.OnlySkills(c.filter)
			snap := agentctx.SnapshotSkills(entries, agentctx.SkillHost{}, spec)
			assert.Equal(t, c.want, skillNames(snap.Skills), "%q", c.filter)
			in := agentctx.Input{Skills: snap.Visible(), Tools: toolsNamed("read")}
			assert.Equal(t, c.want == nil, sectionOf(in, agentctx.SectionSkills) == "")
		}
	}},
	{id: "SK4", given: "a hidden skill", expect: "in the snapshot alone", run: TestSnapshot},
	{id: "SK5", given: "a program that is not, that is there", expect: "out, in", run: func(
		t *testing.T,
	) {
		e := needing(agentctx.SkillRequirements{Bins: []string{"git", "rg"}})
		works(t, false, agentctx.SkillHost{}, e)
		works(t, false, having("git"), e)
		works(t, true, having("git", "rg"), e)
		works(t, false, agentctx.SkillHost{HasBin: new(agentctx.Bins).Has}, e)
	}},
	{id: "SK6", given: "the second of several programs", expect: "in", run: func(t *testing.T) {
		e := needing(agentctx.SkillRequirements{AnyBins: []string{"ag", "rg"}})
		works(t, true, having("rg"), e)
		works(t, false, having("git"), e)
	}},
	{
		id: "SK7", given: "browser.enabled, not set, false", expect: "in, out",
		differs: "the host says which settings are on, and without it none is; that of a file has " +
			"the browser on where it is not set",
		run: func(t *testing.T) {
			e := needing(agentctx.SkillRequirements{Config: []string{"browser.enabled"}})
			works(t, true, setting("browser.enabled", true), e)
			works(t, false, setting("browser.enabled", false), e)
			works(t, false, agentctx.SkillHost{}, e)
		},
	},
	{id: "SK8", given: "always, without a variable, on another system", expect: "in, out", run: func(
		t *testing.T,
	) {
		host := agentctx.SkillHost{OS: []string{"linux"}}
		e := needing(needsEnv("NO"))
		works(t, false, host, e)
		e.Always = true
		works(t, true, host, e)
		e.OS = []string{"darwin"}
		works(t, false, host, e)
	}},
	{id: "SK9", given: "an apiKey, an empty one", expect: "in, out", run: func(t *testing.T) {
		e := keyed("x", "K", "K")
		for key, want := range map[string]bool{"secret": true, "": false} {
			works(t, want, agentctx.SkillHost{
				Config: map[string]agentctx.SkillConfig{"x": {APIKey: key}},
			}, e)
		}
	}},
	{
		id: "SK10", given: "a skillKey", expect: "its settings are found by it",
		differs: "only those of skills that are shipped or installed for all: another could write " +
			"any, and have the key of another skill",
		run: TestSkillGetsSettingsThatAreMeantForIt,
	},
	{id: "SK11", given: "a list of bundled skills", expect: "others stay", run: func(t *testing.T) {
		host := agentctx.SkillHost{Bundled: []string{"ours"}}
		for names, want := range map[[2]string]bool{
			{"ours", "x"}: true, {"x", "ours"}: true, {"theirs", "theirs"}: false,
		} {
			e := agentctx.SkillEntry{Skill: agentctx.Skill{Name: names[0]}, Key: names[1]}
			for o := range agentctx.SkillWorkspace + 1 {
				e.Origin = o
				works(t, want || o != agentctx.SkillBundled, host, e)
			}
		}
	}},
	{id: "SK12", given: "a SKILL.md over 256,000 bytes", expect: "passed over", run: func(
		t *testing.T,
	) {
		for _, name := range []string{"SKILL.md", "x/SKILL.md"} {
			text := skillText("x", "y")
			text += strings.Repeat(" ", maxSkillBytes-len(text))
			found, problems := discovered(map[string]string{name: text})
			assert.Len(t, found, 1, name)
			assert.Empty(t, problems)
			found, problems = discovered(map[string]string{name: text + " "})
			assert.Empty(t, found, name)
			assert.Equal(t, []string{name}, reportsOf(problems, agentctx.ReasonTooLarge))
		}
	}},
}

var shownCases = []numberedCase{
	{
		id: "SK13", given: "8 descriptions of 800, a limit of 500", expect: "a note, under 2,000",
		run: func(t *testing.T) {
			in := agentctx.Input{Limits: agentctx.Limits{Skills: 500}, Tools: toolsNamed("read")}
			for i := range 8 {
				in.Skills = append(in.Skills, agentctx.Skill{
					Name: fmt.Sprint("s", i), Description: strings.Repeat("d", 800), Path: "p",
				})
			}
			text := sectionOf(in, agentctx.SectionSkills)
			assert.Contains(t, text, "Not listed for want of room: ")
			assert.Less(t, len(text), 2000)
		},
	},
	{id: "SK14", given: "a skill in the 30th directory of skills", expect: "found", run: func(
		t *testing.T,
	) {
		files := map[string]string{}
		for i := range 30 {
			files[fmt.Sprintf("skills/d%02d/README.md", i)] = "x"
		}
		files["skills/d29/SKILL.md"] = skillText("last", "x")
		found, problems := discovered(files)
		assert.Equal(t, []string{"last"}, skillNames(found))
		assert.Empty(t, problems)
	}},
	{
		id: "SK15", given: "more skills than a source may have", expect: "the first by name",
		differs: "the limits of discovery are fixed: 300 directories and 200 skills of a source",
		run:     TestCapsOfSkills,
	},
	{
		id: "SK16", given: "a skill called ../../../x", expect: "copied under its directory's name",
		differs: "discovery refuses the name; a copy is called like the directory all the same",
		run: func(t *testing.T) {
			_, problems := discovered(map[string]string{"d/SKILL.md": skillText("../../../x", "y")})
			assert.Equal(t, []string{"d/SKILL.md"}, reportsOf(problems, agentctx.ReasonBadName))
			found, _ := discovered(map[string]string{"d/SKILL.md": skillText("x", "y")})
			found[0].Name = "../../../x"
			into, dst := makeRoot(t, nil)
			problems, err := agentctx.SyncSkills(dst, agentctx.SkillSnapshot{Skills: found})
			require.NoError(t, err)
			assert.Empty(t, problems)
			copied, err := filepath.Glob(filepath.Join(into, "*", "SKILL.md"))
			require.NoError(t, err)
			assert.Equal(t, []string{filepath.Join(into, "d", "SKILL.md")}, copied)
			_, err = os.Stat(filepath.Join(into, "../../../x"))
			assert.ErrorIs(t, err, os.ErrNotExist)
		},
	},
	{id: "SK17", given: "a description with a colon", expect: "whole", run: func(t *testing.T) {
		assert.Equal(t, "Use when: the user asks: why",
			described(t, "description: Use when: the user asks: why"))
		assert.Equal(t, "a: b goes on here",
			described(t, "description: 'a: b", "  goes on", "\there'", "bad: x: y"))
		assert.Equal(t, "quoted: yes", described(t, `description: "quoted: yes"`))
	}},
	{id: "SK18", given: "a block of YAML", expect: "its text", run: func(t *testing.T) {
		for _, mark := range []string{">", "|", ">-"} {
			assert.Equal(t, "one two", described(t, "description: "+mark, "  one", "  two"))
			assert.Equal(t, "one two", described(t, "description: "+mark+"\r", "  one\r", "  two"))
		}
	}},
	{id: "SK19", given: `a<b & "c"`, expect: "escaped", run: TestSkillsAreEscaped},
	{id: "SK20", given: "paths in and outside of the home", expect: "~, as it is", run: TestHomeOfSkills},
	{
		id: "SK21", given: "filters that are empty, none, in another order", expect: "0, 1",
		differs: "what two filters let through is compared, and not the filters", run: func(
			t *testing.T,
		) {
			entries, _ := discovered(manySkills(3))
			version := func(filter []string) string {
				spec := allSkills.OnlySkills(filter)
				return agentctx.SnapshotSkills(entries, agentctx.SkillHost{}, spec).Version
			}
			assert.NotEqual(t, version(nil), version([]string{}))
			assert.Equal(t, version([]string{"s0000", "s0001"}),
				version([]string{"s0001", " s0000 ", "s0001"}))
			assert.Equal(t, version(nil), version([]string{"s0002", "s0001", "s0000"}))
		},
	},
	{
		id: "SK22", given: "two changes in a millisecond", expect: "the version rises twice",
		differs: "a version is a digest: it differs for other skills, and only for those",
		run: func(t *testing.T) {
			versions := map[string]bool{}
			for _, text := range []string{"one", "two", "six", "one"} {
				entries, _ := discovered(map[string]string{"a/SKILL.md": skillText("a", text)})
				snap := agentctx.SnapshotSkills(entries, agentctx.SkillHost{}, allSkills)
				versions[snap.Version] = true
			}
			assert.Len(t, versions, 3)
		},
	},
	{id: "SK23", given: "names that make one command", expect: "numbered", run: TestSkillCommands},
}

// Every row of the reference is driven against the public API, in its order.
func TestSkillCases(t *testing.T) {
	runNumbered(t, "SK", 23, append(append([]numberedCase{}, eligibleCases...), shownCases...))
}
