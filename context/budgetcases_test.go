package agentctx_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	agentctx "github.com/offshoot-sdk/offshoot/context"
)

// projectOf returns the section with the files, and what the reports keep together.
func projectOf(p agentctx.Prompt) (text string, kept int) {
	s, _ := p.Section(agentctx.SectionProject)
	for _, f := range p.Files {
		kept += f.Kept
	}
	return s.Text, kept
}

// contentOf returns what stands between the fences of the first file of a section.
func contentOf(t *testing.T, text string) string {
	t.Helper()
	_, rest, ok := strings.Cut(text, "\n```\n")
	require.True(t, ok)
	content, _, ok := strings.Cut(rest, "\n```")
	require.True(t, ok)
	return content
}

// tellsParts checks that a prompt tells which file it shows in part.
func tellsParts(t *testing.T, p agentctx.Prompt, name string) {
	t.Helper()
	text, _ := projectOf(p)
	require.Contains(t, text, "Shown in part: `"+name+"`.")
}

// limitCases are the rows about what is kept, reportCases those about what is said of it.
var limitCases = []numberedCase{
	{
		id: "B1", given: "an absent file", expect: "a marker with its path on the host",
		differs: "the path within the workspace: the host is not the model's business, and the " +
			"prompt is the same on every machine; LayoutGoClaw has the one on the host",
		run: TestMissingMarkers,
	},
	{id: "B2", given: "a file of spaces", expect: "left out", run: func(t *testing.T) {
		p, a := assembleFiles(agentctx.Limits{}, agentctx.Spec{},
			textFile("AGENTS.md", "a"), textFile("SOUL.md", " \n\t\n"))
		assert.Equal(t, []string{"AGENTS.md"}, shownFiles(p))
		assert.Equal(t, agentctx.ReasonBlank, a["SOUL.md"].Reason)
		assert.NotContains(t, p.String(), "SOUL.md")
	}},
	{id: "B3", given: "19,990 characters", expect: "unchanged", run: func(t *testing.T) {
		text := strings.Repeat("é", 19_990)
		p, a := assembleFiles(agentctx.Limits{}, agentctx.Spec{}, textFile("AGENTS.md", text))
		assert.Equal(t, agentctx.ReasonWhole, a["AGENTS.md"].Reason)
		assert.Contains(t, p.String(), "\n"+text+"\n")
	}},
	{
		id: "B4", given: "a long file, 200", expect: "140 from its head, 40 from its tail",
		differs: "the marker is within the limit, and of the rest three quarters are the head's, as " +
			"in the later versions; the report stands in place of a warning",
		run: func(t *testing.T) {
			text := strings.Repeat("h", 500) + strings.Repeat("t", 500)
			p, a := assembleFiles(
				agentctx.Limits{File: 200}, agentctx.Spec{}, textFile("TOOLS.md", text),
			)
			section, _ := projectOf(p)
			kept := contentOf(t, section)
			head := len(kept) - len(strings.TrimLeft(kept, "h"))
			tail := len(kept) - len(strings.TrimRight(kept, "t"))
			assert.InDelta(t, 3*tail, head, 3)
			assert.Greater(t, head+tail, 100)
			assert.Contains(t, kept[head:len(kept)-tail], "TOOLS.md")
			assert.Equal(t, len(kept), a["TOOLS.md"].Kept)
			assert.LessOrEqual(t, len(kept), 200)
			assert.Contains(t, a["TOOLS.md"].Why, "limit of 200")
			tellsParts(t, p, "TOOLS.md")
		},
	},
	{id: "B5", given: "three of 10,000, 24,000", expect: "three, the third cut", run: func(t *testing.T) {
		text := strings.Repeat("x", 10_000)
		p, a := assembleFiles(agentctx.Limits{Total: 24_000}, agentctx.Spec{},
			textFile("AGENTS.md", text), textFile("TOOLS.md", text), textFile("SOUL.md", text))
		_, kept := projectOf(p)
		assert.LessOrEqual(t, kept, 24_000)
		assert.Len(t, shownFiles(p), 3)
		assert.Equal(t, agentctx.ReasonWhole, a["TOOLS.md"].Reason)
		assert.Equal(t, agentctx.ReasonOverTotal, a["SOUL.md"].Reason)
		tellsParts(t, p, "SOUL.md")
	}},
	{
		id: "B6", given: "two of 1,000, 100 each, 150 together", expect: "at most 150",
		differs: "the first stays within 100, and the second is reported and not dropped silently",
		run: func(t *testing.T) {
			text := strings.Repeat("x", 1000)
			p, a := assembleFiles(agentctx.Limits{File: 100, Total: 150}, agentctx.Spec{},
				textFile("AGENTS.md", text), textFile("TOOLS.md", text))
			_, kept := projectOf(p)
			assert.LessOrEqual(t, kept, 150)
			assert.LessOrEqual(t, a["AGENTS.md"].Kept, 100)
			assert.Equal(t, agentctx.ReasonNoRoom, a["TOOLS.md"].Reason)
		},
	},
	{
		id: "B7", given: "40 together, a file", expect: "none",
		differs: "a file that fits is shown, however small the limit; one that does not is named",
		run: func(t *testing.T) {
			for runes, reason := range map[int]agentctx.Reason{
				40: agentctx.ReasonWhole, 41: agentctx.ReasonNoRoom,
			} {
				p, a := assembleFiles(agentctx.Limits{Total: 40}, agentctx.Spec{},
					textFile("AGENTS.md", strings.Repeat("x", runes)))
				assert.Equal(t, reason, a["AGENTS.md"].Reason)
				assert.Equal(t, runes == 40, a["AGENTS.md"].Kept > 0)
				text, _ := projectOf(p)
				assert.Contains(t, text, "AGENTS.md")
			}
		},
	},
	{id: "B8", given: "20 together, an absent file", expect: "a cut marker", run: TestMarkerIsCut},
	{id: "B9", given: "three names that are none, a file", expect: "one", run: func(t *testing.T) {
		p, _ := assembleFiles(agentctx.Limits{}, agentctx.Spec{}, textFile("", "x"),
			textFile(" ", "x"), textFile("/etc/x", "x"), textFile("AGENTS.md", "rules"))
		assert.Equal(t, []string{"AGENTS.md"}, shownFiles(p))
		require.Len(t, p.Files, 4)
		for _, f := range p.Files[:3] {
			assert.Equal(t, agentctx.ReasonBadName, f.Reason)
		}
	}},
	{
		id: "B10", given: "a limit of -1, or none", expect: "the default",
		differs: "-1 is NoLimit. Another negative one is the default, and Validate names its field; " +
			"in a file every limit below 1 is a mistake",
		run: func(t *testing.T) {
			for limit, want := range map[int]int{0: 20_000, -7: 20_000, agentctx.NoLimit: 30_000} {
				limits := agentctx.Limits{File: limit}
				assert.Equal(t, limit == -7, limits.Validate() != nil)
				_, a := assembleFiles(limits, agentctx.Spec{},
					textFile("AGENTS.md", strings.Repeat("x", 30_000)))
				assert.InDelta(t, want, a["AGENTS.md"].Kept, 1, "limit %d", limit)
			}
		},
	},
}

var reportCases = []numberedCase{
	{
		id: "B11", given: "150 over 120, 90 over what is left of 200", expect: "both, the total",
		differs: "a report has one reason, which is the limit that cut, with the figures of both",
		run: func(t *testing.T) {
			_, a := assembleFiles(agentctx.Limits{File: 120, Total: 200}, agentctx.Spec{},
				textFile("AGENTS.md", strings.Repeat("x", 150)),
				textFile("TOOLS.md", strings.Repeat("x", 90)))
			assert.Equal(t, agentctx.ReasonOverFile, a["AGENTS.md"].Reason)
			assert.Equal(t, "cut: 150 runes, over the file limit of 120", a["AGENTS.md"].Why)
			assert.Equal(t, agentctx.ReasonOverTotal, a["TOOLS.md"].Reason)
			assert.Contains(t, a["TOOLS.md"].Why, "cut: 90 runes, 8")
			assert.Contains(t, a["TOOLS.md"].Why, "left of the total limit of 200")
		},
	},
	{
		id: "B12", given: "a file that is cut within both limits", expect: "no cause",
		differs: "there is no such cut: what is not whole has a reason", run: func(t *testing.T) {
			rng := rand.New(rand.NewPCG(3, 4))
			for range 500 {
				limits := agentctx.Limits{File: 1 + rng.IntN(200), Total: 1 + rng.IntN(400)}
				var files []agentctx.WorkspaceFile
				for _, name := range agentctx.CoreFiles() {
					files = append(files, textFile(name, strings.Repeat("x", 1+rng.IntN(250))))
				}
				_, reports := assembleFiles(limits, agentctx.Spec{}, files...)
				for name, f := range reports {
					require.Equal(t, f.Kept < f.Runes, f.Reason != agentctx.ReasonWhole, name)
					require.Equal(t, f.Kept < f.Runes, f.Why != "", name)
				}
			}
		},
	},
	{
		id: "B13", given: "A, B and A once more", expect: "a warning, a warning, none",
		differs: "every prompt says what it does not show: a prompt that changes after the first " +
			"turn costs the provider's cache, and what was said once may be compacted away",
		run: func(t *testing.T) {
			prompt := func(name string) agentctx.Prompt {
				p, _ := assembleFiles(agentctx.Limits{File: 100}, agentctx.Spec{},
					textFile(name, strings.Repeat("x", 200)))
				tellsParts(t, p, name)
				return p
			}
			first := prompt("AGENTS.md")
			prompt("SOUL.md")
			assert.Equal(t, first.String(), prompt("AGENTS.md").String())
		},
	},
	{
		id: "B14", given: "warnings are off", expect: "none",
		differs: "they cannot be turned off, as in the later versions; a Spec may drop the file " +
			"whole, and a program may refuse the prompt",
		run: TestOverflow,
	},
	{id: "B15", given: "two files of one base name", expect: "told apart", run: func(t *testing.T) {
		long := strings.Repeat("x", 200)
		for _, cut := range []string{"a/AGENTS.md", "b/AGENTS.md"} {
			files := []agentctx.WorkspaceFile{textFile("a/AGENTS.md", "a"), textFile("b/AGENTS.md", "b")}
			for i := range files {
				if files[i].Name == cut {
					files[i].Content = long
				}
			}
			p, a := assembleFiles(agentctx.Limits{File: 100}, agentctx.Spec{}, files...)
			tellsParts(t, p, cut)
			for name, f := range a {
				assert.Equal(t, name == cut, f.Short(), name)
			}
		}
	}},
	{id: "B16", given: "an emoji where it is cut", expect: "UTF-8", run: func(t *testing.T) {
		for limit := range 120 {
			p, a := assembleFiles(agentctx.Limits{File: limit + 1}, agentctx.Spec{},
				textFile("AGENTS.md", strings.Repeat("😀👩‍👧é", 60)))
			section, _ := projectOf(p)
			content := contentOf(t, section)
			require.True(t, utf8.ValidString(content), limit)
			require.NotContains(t, content, string(utf8.RuneError), limit)
			require.Equal(t, a["AGENTS.md"].Kept, utf8.RuneCountInString(content), limit)
		}
	}},
	{id: "B17", given: "a limit of 4", expect: "at most 4", run: func(t *testing.T) {
		for limit := 1; limit <= 4; limit++ {
			p, _ := assembleFiles(agentctx.Limits{File: limit}, agentctx.Spec{},
				textFile("AGENTS.md", "abcdefghij"))
			section, _ := projectOf(p)
			assert.Equal(t, limit, utf8.RuneCountInString(contentOf(t, section)))
		}
	}},
	{id: "B18", given: "every limit from 1 to 500", expect: "it is strict", run: TestLimitsAreStrict},
}

// Every row of the reference is driven against the public API, in its order.
func TestBudgetCases(t *testing.T) {
	runNumbered(t, "B", 18, append(append([]numberedCase{}, limitCases...), reportCases...))
}
