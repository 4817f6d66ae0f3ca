package agentctx_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	agentctx "github.com/offshoot-sdk/offshoot/context"
)

func textFile(name, text string) agentctx.WorkspaceFile {
	return agentctx.WorkspaceFile{Name: name, Content: text}
}

// assembleFiles assembles files under limits and returns the reports by name.
func assembleFiles(
	limits agentctx.Limits, spec agentctx.Spec, files ...agentctx.WorkspaceFile,
) (agentctx.Prompt, map[string]agentctx.FileReport) {
	p := agentctx.Assemble(
		agentctx.Input{Session: mainKey, Spec: spec, Files: files, Limits: limits},
	)
	reports := map[string]agentctx.FileReport{}
	for _, a := range p.Files {
		reports[a.Name] = a
	}
	return p, reports
}

func TestLimitsAreStrict(t *testing.T) {
	texts := map[string]string{
		"ascii": strings.Repeat("abcdefghi\n", 80),
		"emoji": strings.Repeat("😀é漢a", 200),
	}
	for kind, text := range texts {
		for limit := 1; limit <= 500; limit++ {
			p, a := assembleFiles(
				agentctx.Limits{File: limit}, agentctx.Spec{}, textFile("AGENTS.md", text),
			)
			report := a["AGENTS.md"]
			require.LessOrEqual(t, report.Kept, limit, kind)
			require.Positive(t, report.Kept, kind)
			require.Equal(t, agentctx.ReasonOverFile, report.Reason)
			require.True(t, utf8.ValidString(p.String()), "limit %d of %s", limit, kind)

			p, a = assembleFiles(
				agentctx.Limits{Total: limit}, agentctx.Spec{}, textFile("AGENTS.md", text),
				textFile("SOUL.md", text), textFile("USER.md", "short"),
			)
			sum := 0
			for _, report := range a {
				sum += report.Kept
			}
			require.LessOrEqual(t, sum, limit, kind)
			require.True(t, utf8.ValidString(p.String()))
		}
	}
}

func TestHeadAndTailAreKept(t *testing.T) {
	text := "HEAD" + strings.Repeat("m", 1000) + "TAIL"
	p, a := assembleFiles(
		agentctx.Limits{File: 200}, agentctx.Spec{}, textFile("notes/AGENTS.md", text),
	)
	s, _ := p.Section(agentctx.SectionProject)
	assert.Contains(t, s.Text, "HEAD")
	assert.Contains(t, s.Text, "TAIL\n```")
	assert.Contains(t, s.Text, "[... notes/AGENTS.md: 869 of 1008 runes left out here ...]")
	assert.Equal(t, 199, a["notes/AGENTS.md"].Kept)
	assert.Equal(t, 1008, a["notes/AGENTS.md"].Runes)
	assert.Equal(t, "cut: 1008 runes, over the file limit of 200", a["notes/AGENTS.md"].Why)
	assert.Contains(t, s.Text, "Shown in part: `notes/AGENTS.md`.")

	// Exactly at the limit nothing happens, one over and it is cut.
	_, a = assembleFiles(agentctx.Limits{File: 1008}, agentctx.Spec{}, textFile("AGENTS.md", text))
	assert.Equal(t, agentctx.ReasonWhole, a["AGENTS.md"].Reason)
	_, a = assembleFiles(agentctx.Limits{File: 1007}, agentctx.Spec{}, textFile("AGENTS.md", text))
	assert.Equal(t, agentctx.ReasonOverFile, a["AGENTS.md"].Reason)
	assert.Greater(t, a["AGENTS.md"].Kept, 1000, "one rune over costs no more than the marker")
}

func TestDefaultLimits(t *testing.T) {
	var files []agentctx.WorkspaceFile
	for _, name := range agentctx.CoreFiles() {
		files = append(files, textFile(name, strings.Repeat("x", 25_000)))
	}
	for _, l := range []agentctx.Limits{{}, {File: -7, Total: -7}} {
		_, a := assembleFiles(l, agentctx.Spec{}, files...)
		sum := 0
		for _, report := range a {
			assert.LessOrEqual(t, report.Kept, 20_000)
			sum += report.Kept
		}
		assert.LessOrEqual(t, sum, 60_000)
		assert.Greater(t, sum, 59_800)
		for _, name := range []string{"AGENTS.md", "TOOLS.md", "SOUL.md"} {
			assert.Greater(t, a[name].Kept, 19_900, name)
		}
		for _, name := range []string{"USER.md", "BOOTSTRAP.md", "HEARTBEAT.md", "MEMORY.md"} {
			assert.Equal(t, agentctx.ReasonNoRoom, a[name].Reason, name)
		}
	}
	_, a := assembleFiles(
		agentctx.Limits{File: agentctx.NoLimit, Total: agentctx.NoLimit},
		agentctx.Spec{},
		files...)
	for name, report := range a {
		assert.Equal(t, agentctx.ReasonWhole, report.Reason, name)
	}
}

func TestWhoGivesWay(t *testing.T) {
	order := []string{
		"AGENTS.md", "TOOLS.md", "SOUL.md", "IDENTITY.md", "USER.md", "BOOTSTRAP.md",
		"HEARTBEAT.md", "MEMORY.md",
		"memory/2026-11-20.md", "memory/2026-11-19.md", "extra/notes.md",
	}
	var files []agentctx.WorkspaceFile
	for i := range order { // in reverse, so that the order of loading cannot help
		files = append(files, textFile(order[len(order)-1-i], strings.Repeat("x", 100)))
	}
	for room := range len(order) + 1 {
		_, a := assembleFiles(agentctx.Limits{Total: max(1, room*100)}, agentctx.Spec{}, files...)
		for i, name := range order {
			want := agentctx.ReasonWhole
			if i >= room {
				want = agentctx.ReasonNoRoom
			}
			assert.Equal(
				t, want.String(), a[name].Reason.String(), "%s with room for %d", name, room,
			)
		}
	}
	// What is left over is not wasted: a small file behind a big one fits.
	_, a := assembleFiles(
		agentctx.Limits{Total: 150}, agentctx.Spec{},
		textFile("AGENTS.md", strings.Repeat("x", 100)),
		textFile("SOUL.md", strings.Repeat("x", 100)), textFile("USER.md", "small"),
	)
	assert.Equal(t, agentctx.ReasonNoRoom, a["SOUL.md"].Reason)
	assert.Equal(t, "no room: 100 runes, 50 left of the total limit of 150", a["SOUL.md"].Why)
	assert.Equal(t, agentctx.ReasonWhole, a["USER.md"].Reason)
	// With room for more than a crumb it is cut.
	_, a = assembleFiles(
		agentctx.Limits{Total: 190}, agentctx.Spec{},
		textFile("AGENTS.md", strings.Repeat("x", 100)),
		textFile("SOUL.md", strings.Repeat("x", 100)),
	)
	assert.Equal(t, agentctx.ReasonOverTotal, a["SOUL.md"].Reason)
	assert.LessOrEqual(t, a["SOUL.md"].Kept, 90)
}

func TestWhatIsLeftOutIsSaid(t *testing.T) {
	p := agentctx.Assemble(agentctx.Input{
		Session: mainKey, Limits: agentctx.Limits{Total: 100},
		Tools: []agentctx.Tool{{Name: "Read"}},
		Files: []agentctx.WorkspaceFile{
			textFile("AGENTS.md", strings.Repeat("x", 100)), textFile("MEMORY.md", "left out"),
			{Name: "SOUL.md", Missing: true, Reason: agentctx.ReasonTooLarge, Why: "3 MB"},
		},
	})
	s, _ := p.Section(agentctx.SectionProject)
	assert.Contains(t, s.Text, "Left out for want of room: `MEMORY.md`, `SOUL.md`.")
	assert.Contains(t, s.Text, "read it with `Read` first")
}

func TestOverflow(t *testing.T) {
	long := strings.Repeat("x", 300)
	_, a := assembleFiles(
		agentctx.Limits{File: 200}, agentctx.Spec{Overflow: agentctx.OverflowDrop},
		textFile("AGENTS.md", long), textFile("SOUL.md", "s"),
	)
	assert.Equal(t, agentctx.ReasonDropped, a["AGENTS.md"].Reason)
	assert.Zero(t, a["AGENTS.md"].Kept)
	assert.True(t, a["SOUL.md"].Shown())

	p, _ := assembleFiles(
		agentctx.Limits{File: 200}, agentctx.Spec{Overflow: agentctx.OverflowRefuse},
		textFile("AGENTS.md", long), textFile("SOUL.md", "s"),
	)
	var over *agentctx.OverflowError
	require.ErrorAs(t, p.Err(), &over)
	require.Len(t, over.Files, 1)
	assert.EqualError(
		t, over,
		`agentctx: prompt of "agent:main:main" does not fit: "AGENTS.md" (cut: 300 runes, over the file limit of 200)`,
	)

	p, _ = assembleFiles(
		agentctx.Limits{}, agentctx.Spec{Overflow: agentctx.OverflowRefuse},
		textFile("AGENTS.md", long),
	)
	require.NoError(t, p.Err())
	p, _ = assembleFiles(agentctx.Limits{File: 200}, agentctx.Spec{}, textFile("AGENTS.md", long))
	require.NoError(t, p.Err(), "cut by default, and accounted for")
}

func TestMissingMarkers(t *testing.T) {
	files := agentctx.LoadWorkspace(coreWorkspace(), "x")
	for _, name := range agentctx.CoreFiles() {
		files = append(
			files,
			agentctx.WorkspaceFile{
				Name: name, Path: "/home/ada/" + name, Missing: true, Reason: agentctx.ReasonAbsent,
			},
		)
	}
	text := agentctx.Assemble(agentctx.Input{Session: mainKey, Files: files}).String()
	for _, name := range agentctx.CoreFiles() {
		assert.Equal(t, name != "HEARTBEAT.md" && name != "BOOTSTRAP.md" && name != "MEMORY.md",
			strings.Contains(text, "## "+name+"\n[MISSING] Expected at: "+name+"\n"), name)
	}
	assert.NotContains(t, text, "/home/ada")
	assert.NotContains(t, text, "persona and tone", "SOUL.md is a marker, not a persona")

	text = agentctx.Assemble(
		agentctx.Input{Session: mainKey, Files: files, Markers: []string{"MEMORY.md"}},
	).String()
	assert.Equal(t, 1, strings.Count(text, "[MISSING]"))
	text = agentctx.Assemble(
		agentctx.Input{Session: mainKey, Files: files, Markers: []string{}},
	).String()
	assert.NotContains(t, text, "[MISSING]")
	assert.NotContains(t, text, "Project Context")

	// Markers are charged, and cut.
	_, a := assembleFiles(agentctx.Limits{Total: 40}, agentctx.Spec{}, files...)
	assert.Positive(t, a["AGENTS.md"].Kept)
	assert.Zero(t, a["AGENTS.md"].Runes, "nothing was loaded")
	assert.Equal(t, 40-a["AGENTS.md"].Kept, a["TOOLS.md"].Kept)
	assert.Zero(t, a["SOUL.md"].Kept)
	assert.Equal(
		t, agentctx.ReasonAbsent, a["TOOLS.md"].Reason,
		"missing, whatever room there is for saying so",
	)

	// What is there and cannot be loaded is not called absent.
	p, _ := assembleFiles(
		agentctx.Limits{},
		agentctx.Spec{},
		agentctx.WorkspaceFile{
			Name: "SOUL.md", Missing: true, Reason: agentctx.ReasonTooLarge, Why: "3 MB",
		},
	)
	assert.Contains(t, p.String(), "## SOUL.md\n[MISSING] Expected at: SOUL.md (too large)\n")
	assert.Contains(t, p.String(), "Left out for want of room: `SOUL.md`.")
	assert.NotContains(t, p.String(), "Shown in part")
}

func TestTokensAreTheCallers(t *testing.T) {
	p, a := assembleFiles(
		agentctx.Limits{Count: func(s string) int { return len(strings.Fields(s)) }},
		agentctx.Spec{},
		textFile(
			"AGENTS.md", "three little words",
		),
		textFile("SOUL.md", "é"),
		textFile("USER.md", " \n\t "),
	)
	assert.Equal(t, 3, a["AGENTS.md"].Tokens)
	assert.Equal(
		t,
		agentctx.FileReport{Name: "SOUL.md", Bytes: 2, Runes: 1, KeptBytes: 2, Kept: 1, Tokens: 1},
		a["SOUL.md"],
	)
	assert.Equal(t, agentctx.ReasonBlank, a["USER.md"].Reason)
	assert.NotContains(t, p.String(), "USER.md")
	report := p.Report()
	for _, want := range []string{"FILE", "AGENTS.md  18", "USER.md", "blank: there is no text in it", "project-context", "stable", "cache key " + p.CacheKey()[:12]} {
		assert.Contains(t, report, want)
	}
}

func TestLimitsPrecedenceAndValidate(t *testing.T) {
	agent := agentctx.Limits{File: 10}
	defaults := agentctx.Limits{File: 20, Total: 30, Skills: 40, Count: utf8.RuneCountInString}
	got := agent.Or(defaults)
	assert.Equal(t, []int{10, 30, 40}, []int{got.File, got.Total, got.Skills})
	assert.NotNil(t, got.Count)
	require.NoError(t, got.Validate())
	require.NoError(t, agentctx.Limits{Total: agentctx.NoLimit}.Validate())
	assert.ErrorContains(t, agentctx.Limits{Total: -2}.Validate(), "Limits.Total is -2")
	assert.ErrorContains(t, agentctx.Limits{Skills: -9}.Validate(), "Limits.Skills is -9")
}

func TestSkillsGiveWayByDescription(t *testing.T) {
	var skills []agentctx.Skill
	for i := range 8 {
		skills = append(
			skills,
			agentctx.Skill{
				Name: fmt.Sprintf("skill-%d", 7-i), Description: strings.Repeat("d", 800),
				Path: "skills/x/SKILL.md",
			},
		)
	}
	in := agentctx.Input{Session: mainKey, Skills: skills, Tools: []agentctx.Tool{{Name: "read"}}}
	section := func(limit int) (string, []agentctx.FileReport) {
		in.Limits.Skills = limit
		p := agentctx.Assemble(in)
		s, _ := p.Section(agentctx.SectionSkills)
		return s.Text, p.Skills
	}
	list := func(text string) string {
		_, after, _ := strings.Cut(text, "<available_skills>\n")
		before, _, _ := strings.Cut(after, "</available_skills>")
		return before
	}
	whole, reports := section(0)
	assert.Less(t, strings.Index(whole, "skill-0"), strings.Index(whole, "skill-7"), "by name")
	for _, a := range reports {
		assert.Equal(t, agentctx.ReasonWhole, a.Reason)
	}
	for limit := 1; limit < 9000; limit += 53 {
		text, reports := section(limit)
		require.LessOrEqual(t, utf8.RuneCountInString(list(text)), limit)
		names, cut := strings.Count(text, "<name>"), 0
		for _, a := range reports {
			if a.Reason == agentctx.ReasonOverSkills {
				cut++
			}
		}
		if names < 8 {
			require.Less(
				t, strings.Count(text, "d"), 400,
				"no name is dropped while there are descriptions to shorten",
			)
			require.Equal(t, 8, cut)
		} else if utf8.RuneCountInString(list(text)) < utf8.RuneCountInString(list(whole)) {
			require.Contains(t, text, "Descriptions shortened: 8.")
			require.Equal(t, 8, cut)
		}
	}
	leftOut, _ := section(900)
	assert.Contains(t, leftOut, "Not listed for want of room: ")
}

func TestAtMost150Skills(t *testing.T) {
	var skills []agentctx.Skill
	for i := range 160 {
		skills = append(skills, agentctx.Skill{Name: fmt.Sprintf("s%03d", i)})
	}
	p := agentctx.Assemble(agentctx.Input{
		Session: mainKey, Skills: skills, Tools: []agentctx.Tool{{Name: "read"}},
	})
	s, _ := p.Section(agentctx.SectionSkills)
	assert.Equal(t, 150, strings.Count(s.Text, "<name>"))
	assert.Contains(t, s.Text, "Not listed for want of room: 10.")
	assert.Equal(t, agentctx.ReasonOverSkills, p.Skills[150].Reason)
}

func TestSkillsAreEscaped(t *testing.T) {
	p := agentctx.Assemble(
		agentctx.Input{
			Session: mainKey,
			Tools:   []agentctx.Tool{{Name: "read"}},
			Skills:  []agentctx.Skill{{Name: "a<name>", Description: "a<b & \"c\"", Path: "<x>'"}},
		},
	)
	s, _ := p.Section(agentctx.SectionSkills)
	assert.Contains(t, s.Text, "<name>a&lt;name&gt;</name>")
	assert.Contains(t, s.Text, "<description>a&lt;b &amp; &quot;c&quot;</description>")
	assert.Contains(t, s.Text, "<location>&lt;x&gt;&apos;</location>")
	// What is escaped counts as it is written.
	p = agentctx.Assemble(agentctx.Input{
		Session: mainKey,
		Tools:   []agentctx.Tool{{Name: "read"}},
		Skills:  []agentctx.Skill{{Name: "x", Description: strings.Repeat("<", 100)}},
		Limits:  agentctx.Limits{Skills: 300},
	})
	s, _ = p.Section(agentctx.SectionSkills)
	assert.Less(t, strings.Count(s.Text, "&lt;"), 75)
	assert.Equal(t, agentctx.ReasonOverSkills, p.Skills[0].Reason)
}

// O9: a marker that does not fit is cut. Neither it nor the section vanishes.
func TestMarkerIsCut(t *testing.T) {
	for _, total := range []int{1, 5, 20, 30} {
		p := agentctx.Assemble(agentctx.Input{
			Session: mainKey, Files: []agentctx.WorkspaceFile{
				{Name: "AGENTS.md", Missing: true, Reason: agentctx.ReasonAbsent},
			},
			Limits: agentctx.Limits{Total: total},
		})
		whole := "[MISSING] Expected at: AGENTS.md"
		s, ok := p.Section(agentctx.SectionProject)
		require.True(t, ok, total)
		require.True(t, strings.HasSuffix(s.Text, "\n"+whole[:total-1]+"…"), s.Text)
		require.Equal(t, agentctx.ReasonAbsent, p.Files[0].Reason)
		require.Equal(t, total, p.Files[0].Kept)
	}
}
