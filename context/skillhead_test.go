package agentctx_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	agentctx "github.com/offshoot-sdk/offshoot/context"
)

// maxWhy is the length in runes to which a report's Why is cut.
const maxWhy = 400

// maxSkillWork is how many bytes the reading of one SKILL.md may allocate, over its whole run.
const maxSkillWork = 16 << 20

// hostileHeads make front matter of about n bytes that costs a careless parser much more than that.
var hostileHeads = map[string]func(n int) string{
	"one key again and again": func(n int) string { return repeatTo("a:\n", n) },
	"unique keys": func(n int) string {
		var b strings.Builder
		for i := 0; b.Len() < n; i++ {
			fmt.Fprintf(&b, "k%d:\n", i)
		}
		return b.String()
	},
	"one key again in metadata": func(n int) string { return "metadata:\n" + repeatTo("  a:\n", n) },
	"one key again on a line":   func(n int) string { return "{" + repeatTo("a: 1, ", n) + "}\n" },
	"one key again for a program": func(n int) string {
		return "metadata: {openclaw: {" + repeatTo("os: x, ", n) + "}}\n"
	},
	"one key again in JSON": func(n int) string {
		return `metadata: '{` + repeatTo(`"a": 1, `, n) + `"b": 1}'` + "\n"
	},
	"lists in lists":       func(n int) string { return "a: " + repeatTo("[", n) + "\n" },
	"closed lists":         func(n int) string { return "a: " + repeatTo("[", n/2) + repeatTo("]", n/2) + "\n" },
	"mappings in mappings": func(n int) string { return repeatTo("{a: ", n) + "\n" },
	"lists on a line":      func(n int) string { return "a:\n  " + repeatTo("- ", n) + "\n" },
	"complex keys":         func(n int) string { return repeatTo("? ", n) + "\n" },
	"aliases":              func(n int) string { return "a: &a [x]\nb: [" + repeatTo("*a, ", n) + "*a]\n" },
	"aliases of aliases": func(n int) string {
		b := "a0: &a0 [x,x,x,x,x,x,x,x,x]\n"
		for i := 1; len(b) < min(n, 500); i++ {
			b += fmt.Sprintf("a%d: &a%d [%s]\n", i, i, strings.Repeat(fmt.Sprintf("*a%d,", i-1), 9))
		}
		return b + "metadata: {openclaw: {os: *a5}}\n"
	},
	"alias of itself":       func(int) string { return "metadata: &a {openclaw: *a}\n" },
	"merge keys":            func(n int) string { return "metadata: {" + repeatTo("<<: {a: b}, ", n) + "}\n" },
	"anchors":               func(n int) string { return repeatTo("a: &x\n", n) },
	"a long unknown anchor": func(n int) string { return "a: *" + strings.Repeat("x", n) + "\n" },
	"a long key":            func(n int) string { return "metadata: {" + strings.Repeat("x", n) + ": }\n" },
	"a long key twice":      func(n int) string { return "metadata: {" + repeatTo(strings.Repeat("x", n/2)+": 1,", n) + "}\n" },
	"a long scalar":         func(n int) string { return "name: " + strings.Repeat("x", n) + "\n" },
	"a long wrong value":    func(n int) string { return "metadata: {openclaw: {always: " + strings.Repeat("x", n) + "}}\n" },
	"a long wrong list":     func(n int) string { return "metadata: {openclaw: [" + repeatTo("x,", n) + "]}\n" },
	"a number":              func(n int) string { return "name: " + strings.Repeat("9", n) + "\n" },
	"programs": func(n int) string {
		return "metadata: {openclaw: {requires: {anyBins: \"" + repeatTo("x,", n) + "\"}}}\n"
	},
	"a list of programs": func(n int) string { return "metadata: {openclaw: {requires: {bins: [" + repeatTo("x,", n) + "]}}}\n" },
	"a needed program": func(n int) string {
		return "metadata: {openclaw: {requires: {bins: " + strings.Repeat("x", n) + "}}}\n"
	},
	"systems":                func(n int) string { return "metadata: {openclaw: {os: " + strings.Repeat("x", n) + "}}\n" },
	"a string never closed":  func(n int) string { return "name: \"" + repeatTo(`\n`, n) },
	"a block scalar":         func(n int) string { return "name: |\n" + repeatTo("  x\n", n) },
	"comments":               func(n int) string { return repeatTo("#\n", n) },
	"comments between keys":  func(n int) string { return repeatTo("# x\na: b\n", n) },
	"blank lines":            func(n int) string { return strings.Repeat("\n", n) },
	"tabs":                   func(n int) string { return strings.Repeat("\t", n) + "\n" },
	"tabs in values":         func(n int) string { return repeatTo("\tx: y\n", n) },
	"NUL":                    func(n int) string { return "a: " + strings.Repeat("\x00", n) + "\n" },
	"not UTF-8":              func(n int) string { return "a: " + strings.Repeat("\xff", n) + "\n" },
	"tags":                   func(n int) string { return repeatTo("!a ", n) + "\n" },
	"a binary value":         func(n int) string { return "name: !!binary " + strings.Repeat("A", n) + "\n" },
	"directives":             func(n int) string { return repeatTo("%a\n", n) },
	"carriage returns":       func(n int) string { return repeatTo("a:\r", n) },
	"lists with comments":    func(n int) string { return repeatTo("[#\n", n) },
	"a head that never ends": func(n int) string { return repeatTo("x\n", n) },
}

// repeatTo returns s repeated until it has n bytes or more.
func repeatTo(s string, n int) string { return strings.Repeat(s, n/len(s)+1) }

// allocated returns how many bytes f allocates. Nothing else may run at the same time.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// S1: whatever stands in the front matter of a SKILL.md, reading it takes a bounded amount of work,
// its report is short, and the skills beside it are found.
func TestHostileFrontMatterIsBounded(t *testing.T) {
	for name, head := range hostileHeads {
		for _, size := range []int{100, 4 << 10, 15 << 10, 48 << 10, 240 << 10} {
			t.Run(fmt.Sprintf("%s/%d", name, size), func(t *testing.T) {
				for _, form := range []string{
					"---\n%s\n---\n", "---\ndescription: x\n%s\n---\n", "---\n%[1]s\ndescription: x\n",
				} {
					source := skillSource(agentctx.SkillWorkspace, "skills", map[string]string{
						"bad/SKILL.md":  fmt.Sprintf(form, head(size)),
						"good/SKILL.md": skillText("good", "x"),
					})
					var found []agentctx.SkillEntry
					var problems []agentctx.FileReport
					work := allocated(func() { found, problems = agentctx.DiscoverSkills(source) })
					assert.Less(t, work, uint64(maxSkillWork))
					require.Equal(t, 2, len(found)+len(problems), "a skill or a reason")
					assert.Contains(t, skillNames(found), "good")
					host := agentctx.SkillHost{OS: []string{"linux"}}
					snapshot := agentctx.SnapshotSkills(
						found, host, agentctx.Spec{Skills: []string{"*"}},
					)
					for _, p := range append(problems, snapshot.Excluded...) {
						assert.NotEmpty(t, p.Why)
						assert.LessOrEqual(t, utf8.RuneCountInString(p.Why), maxWhy)
					}
				}
			})
		}
	}
}

// S1: the limits are those that DiscoverSkills documents, and a file at a limit is a skill.
func TestLimitsOfFrontMatter(t *testing.T) {
	const blank = "---\ndescription: x\n"
	keys := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "k%d: v\n", i)
		}
		return b.String()
	}
	nested := func(n int) string { return "a: " + strings.Repeat("[", n) + strings.Repeat("]", n) + "\n" }
	bins := func(n int) string {
		return "metadata: {openclaw: {requires: {bins: [" + strings.Repeat("x,", n) + "]}}}\n"
	}
	for _, tt := range []struct {
		name, head string
		reason     agentctx.Reason // ReasonWhole: it is a skill
		why        string
	}{
		{"bytes", "# " + strings.Repeat("x", 16<<10-18), agentctx.ReasonWhole, ""},
		{"a byte more", "# " + strings.Repeat("x", 16<<10-17), agentctx.ReasonTooLarge, "16384 bytes"},
		{"lines", strings.Repeat("#\n", 254), agentctx.ReasonWhole, ""},
		{"a line more", strings.Repeat("#\n", 256), agentctx.ReasonTooLarge, "256 lines"},
		{"keys", keys(127), agentctx.ReasonWhole, ""},
		{"a key more", keys(128), agentctx.ReasonTooLarge, "129 keys or items in one place"},
		{"levels", nested(15), agentctx.ReasonWhole, ""},
		{"a level more", nested(16), agentctx.ReasonTooLarge, "deeper than 16 levels"},
		{"items", bins(128), agentctx.ReasonWhole, ""},
		{"an item more", bins(129), agentctx.ReasonTooLarge, "129 keys or items"},
		{"an alias", "a: &a x\nb: *a\n", agentctx.ReasonUnreadable, "line 3: its front matter has a YAML alias"},
		{"a merge key", "<<: {a: b}\n", agentctx.ReasonUnreadable, "line 2: its front matter has a YAML merge key"},
		{"a key twice at the top", "homepage: a\nhomepage: b\n", agentctx.ReasonWhole, ""},
		{
			"a key twice in metadata", "metadata: {openclaw: {os: a, os: b}}\n", agentctx.ReasonUnreadable,
			`line 2: openclaw has the key "os" twice`,
		},
		{
			"a key twice in JSON", `metadata: '{"openclaw": {}, "openclaw": {}}'` + "\n",
			agentctx.ReasonUnreadable, `line 1: metadata has the key "openclaw" twice`,
		},
		{
			"a wrong kind", "metadata: {openclaw: {emoji: [x]}}\n", agentctx.ReasonUnreadable,
			"line 2: emoji is not a single value",
		},
		{
			"a wrong truth value", "metadata: {openclaw: {always: maybe}}\n", agentctx.ReasonUnreadable,
			`line 2: always is "maybe", want true or false`,
		},
		{
			"metadata that is text", "metadata: text\n", agentctx.ReasonUnreadable,
			"line 1: metadata is not a mapping",
		},
		{"nulls", "metadata: {openclaw: {os: , requires: , emoji: ~}}\n", agentctx.ReasonWhole, ""},
		{"null metadata", "metadata:\n", agentctx.ReasonWhole, ""},
		{"a null program", "metadata: {openclaw: }\n", agentctx.ReasonWhole, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			found, problems := agentctx.DiscoverSkills(skillSource(
				agentctx.SkillWorkspace, "skills",
				map[string]string{"dir/SKILL.md": blank + tt.head + "\n---\n"},
			))
			if tt.reason == agentctx.ReasonWhole {
				require.Empty(t, problems)
				require.Len(t, found, 1)
				return
			}
			require.Empty(t, found)
			require.Len(t, problems, 1)
			assert.Equal(t, tt.reason.String(), problems[0].Reason.String())
			assert.Contains(t, problems[0].Why, tt.why)
		})
	}
}

// S1: the list of what SyncSkills made lies where programs of a sandbox can write. It is bounded.
func TestManifestOfSyncSkillsIsBounded(t *testing.T) {
	dir, root := makeRoot(t, map[string]string{"keep/x": "x"})
	manifest := filepath.Join(dir, ".skills-synced")
	require.NoError(t, os.WriteFile(manifest, []byte(repeatTo("keep\n", 1<<20)), 0o644))
	work := allocated(func() {
		_, err := agentctx.SyncSkills(root, agentctx.SkillSnapshot{})
		assert.ErrorContains(t, err, ".skills-synced: ")
		assert.ErrorContains(t, err, "over the limit of 262144")
	})
	assert.Less(t, work, uint64(1<<20))
	assert.FileExists(t, filepath.Join(dir, "keep/x"))
}
