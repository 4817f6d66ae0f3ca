package agentctx_test

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	agentctx "github.com/offshoot-sdk/offshoot/context"
)

// maxSkillBytes is the size in bytes over which a SKILL.md is not read.
const maxSkillBytes = 256_000

// skillFS returns a source with one SKILL.md for each path.
func skillFS(files map[string]string) fstest.MapFS {
	fsys := fstest.MapFS{}
	for name, text := range files {
		fsys[name] = &fstest.MapFile{Data: []byte(text), Mode: 0o644}
	}
	return fsys
}

func skillText(name, description string, more ...string) string {
	return "---\nname: " + name + "\ndescription: " + description + "\n" + strings.Join(
		more, "\n",
	) + "\n---\n# " + name + "\n"
}

func skillSource(
	origin agentctx.SkillOrigin, path string, files map[string]string,
) agentctx.SkillSource {
	return agentctx.SkillSource{Origin: origin, FS: skillFS(files), Path: path}
}

func skillNames(list []agentctx.SkillEntry) []string {
	var names []string
	for _, e := range list {
		names = append(names, e.Name)
	}
	return names
}

func TestSkillPrecedence(t *testing.T) {
	var sources []agentctx.SkillSource
	for o := range agentctx.SkillWorkspace + 1 {
		sources = append(
			sources,
			skillSource(
				o, o.String(),
				map[string]string{"pdf/SKILL.md": skillText("pdf", "from "+o.String())},
			),
		)
	}
	for n := len(sources); n > 0; n-- {
		list := slices.Clone(sources[:n])
		slices.Reverse(list) // whatever the order of the sources
		found, problems := agentctx.DiscoverSkills(list...)
		require.Len(t, found, 1)
		assert.Equal(t, "from "+agentctx.SkillOrigin(n-1).String(), found[0].Description)
		assert.Len(t, problems, n-1)
	}
	found, problems := agentctx.DiscoverSkills(sources[0], sources[0])
	assert.Len(t, found, 1)
	assert.Equal(t, agentctx.ReasonRepeated, problems[0].Reason)
}

func TestSkillDiscovery(t *testing.T) {
	big := skillText("big", strings.Repeat("x", maxSkillBytes))
	found, problems := agentctx.DiscoverSkills(
		skillSource(agentctx.SkillWorkspace, "skills", map[string]string{
			"b/SKILL.md": skillText(
				"b", "second",
			), "a/SKILL.md": skillText("a", "first"), "a/nested/SKILL.md": skillText("nested", "below a skill"),
			"skills/deep/er/SKILL.md": skillText(
				"deep", "levels down",
			), ".hidden/SKILL.md": skillText("hidden", "x"),
			"node_modules/m/SKILL.md": skillText(
				"m", "x",
			), "big/SKILL.md": big, "none/SKILL.md": "# no front matter",
			"mute/SKILL.md":    "---\nname: mute\n---\n",
			"unnamed/SKILL.md": "---\ndescription: by its directory\n---\n",
			"1/2/3/4/5/6/7/SKILL.md": skillText(
				"seven", "too deep",
			), "latin/SKILL.md": "---\ndescription: \xff\n---\n",
		}),
	)
	assert.Equal(t, []string{"a", "b", "deep", "unnamed"}, skillNames(found), "by name")
	assert.Equal(t, "skills/a/SKILL.md", found[0].Path)
	reasons := map[string]agentctx.Reason{}
	for _, p := range problems {
		reasons[p.Name] = p.Reason
		assert.NotEmpty(t, p.Why)
	}
	assert.Equal(t, map[string]agentctx.Reason{
		"big/SKILL.md": agentctx.ReasonTooLarge, "none/SKILL.md": agentctx.ReasonBlank,
		"mute/SKILL.md": agentctx.ReasonBlank, "latin/SKILL.md": agentctx.ReasonNotUTF8,
		"1/2/3/4/5/6": agentctx.ReasonTooMany,
	}, reasons)

	one, _ := agentctx.DiscoverSkills(
		skillSource(
			agentctx.SkillExtra, "x/solo",
			map[string]string{"SKILL.md": "---\ndescription: the root itself\n---\n"},
		),
	)
	assert.Equal(t, []string{"solo"}, skillNames(one))

	found, _ = agentctx.DiscoverSkills(agentctx.SkillSource{})
	assert.Empty(t, found)
}

func TestSkillsStayInside(t *testing.T) {
	outside := t.TempDir()
	require.NoError(
		t, os.WriteFile(filepath.Join(outside, "SKILL.md"), []byte(skillText("evil", "x")), 0o644),
	)
	dir, root := makeRoot(
		t,
		map[string]string{
			"good/SKILL.md": skillText("good", "x"), "shelf/one/SKILL.md": skillText("one", "x"),
		},
	)
	require.NoError(t, os.Symlink(outside, filepath.Join(dir, "evil")))
	require.NoError(t, os.Symlink("shelf/one", filepath.Join(dir, "alias")))
	found, problems := agentctx.DiscoverSkills(agentctx.SkillSource{FS: root.FS(), Path: "skills"})
	assert.Equal(t, []string{"good", "one"}, skillNames(found))
	var reasons []agentctx.Reason
	for _, p := range problems {
		reasons = append(reasons, p.Reason)
	}
	assert.ElementsMatch(
		t, []agentctx.Reason{agentctx.ReasonOutside, agentctx.ReasonRepeated}, reasons,
	)
}

func TestFrontMatter(t *testing.T) {
	parse := func(text string) agentctx.SkillEntry {
		t.Helper()
		found, problems := agentctx.DiscoverSkills(
			skillSource(agentctx.SkillWorkspace, "skills", map[string]string{"dir/SKILL.md": text}),
		)
		require.Len(t, found, 1, "%v", problems)
		return found[0]
	}
	assert.Equal(
		t, "{what: this}", parse("---\ndescription: {what: this}\n---\n").Description,
		"YAML, and not meant as it",
	)
	assert.Equal(t, "x", parse("---\nname: [list]\ndescription: x\n---").Description)

	e := parse(
		"---\ndescription: x\nuser-invocable: no\ndisable-model-invocation: true\nhomepage: https://example.org\n" +
			`metadata: {"openclaw": {"always": true, "emoji": "x", "skillKey": "key", "primaryEnv": "X_KEY", "os": ["darwin", "linux"],` +
			` "requires": {"bins": ["ffmpeg"], "anyBins": "a, b", "env": ["X_KEY"], "config": ["browser.enabled"]}}}` + "\n---\n",
	)
	assert.False(t, e.UserInvocable)
	assert.True(t, e.Hidden)
	assert.True(t, e.Always)
	assert.Equal(t, "key", e.Key)
	assert.Equal(t, "X_KEY", e.PrimaryEnv)
	assert.Equal(t, []string{"darwin", "linux"}, e.OS)
	assert.Equal(t, agentctx.SkillRequirements{
		Bins: []string{
			"ffmpeg",
		}, AnyBins: []string{"a", "b"}, Env: []string{"X_KEY"}, Config: []string{"browser.enabled"},
	}, e.Requires)

	e = parse(
		"---\ndescription: x\nmetadata:\n  offshoot:\n    os: win32\n  openclaw:\n    os: linux\n---\n",
	)
	assert.Equal(t, []string{"win32"}, e.OS, "our own key stands first")
	assert.True(t, e.UserInvocable)
	assert.Equal(t, "dir", e.Key)

	_, problems := agentctx.DiscoverSkills(
		skillSource(agentctx.SkillWorkspace, "skills", map[string]string{
			"a/SKILL.md": "---\ndescription: x\nmetadata: '{not: [closed'\n---\n",
		}),
	)
	require.Len(t, problems, 1)
	assert.Equal(t, agentctx.ReasonUnreadable, problems[0].Reason)
}

// S1: FuzzFrontMatter bounds the memory that any SKILL.md takes, and the reports on it.
func FuzzFrontMatter(f *testing.F) {
	for _, s := range []string{
		skillText("x", "y"), "---\n---\n", "---\ndescription: a: b\n---",
		"---\nmetadata: {a: [b\n---\n", "---\r\nx\r\n---", "---\n&a [*a, *a]\n---\n",
		"---\ndescription: |\n  a\n  b\nname: 'x\n---\n",
		"---\nmetadata: &a\n  openclaw: *a\n---\n", "---\n? [a]\n: b\ndescription: x\n---\n",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var found []agentctx.SkillEntry
		var problems []agentctx.FileReport
		source := agentctx.SkillSource{
			FS: skillFS(map[string]string{"dir/SKILL.md": text}), Path: "skills",
		}
		work := allocated(func() { found, problems = agentctx.DiscoverSkills(source) })
		assert.Less(t, work, uint64(maxSkillWork))
		assert.Equal(t, 1, len(found)+len(problems), "a skill or a reason")
		for _, p := range problems {
			assert.LessOrEqual(t, utf8.RuneCountInString(p.Why), maxWhy)
		}
		for _, e := range found {
			assert.NotEmpty(t, e.Name)
			assert.NotEmpty(t, e.Description)
			assert.NotContains(t, e.Name+e.Description, "\n")
		}
	})
}

func needsEnv(name string) agentctx.SkillRequirements {
	return agentctx.SkillRequirements{Env: []string{name}}
}

// keyed returns a skill whose settings are under its name, and which needs a variable.
func keyed(name, primary, needed string) agentctx.SkillEntry {
	return agentctx.SkillEntry{
		Skill: agentctx.Skill{Name: name}, Key: name, PrimaryEnv: primary,
		Requires: needsEnv(needed),
	}
}

func TestEligibility(t *testing.T) {
	host := agentctx.SkillHost{
		OS:      []string{"linux"},
		Env:     func(name string) string { return map[string]string{"SET": "1"}[name] },
		Setting: func(path string) bool { return path == "browser.enabled" },
		Config: map[string]agentctx.SkillConfig{
			"off": {Disabled: true}, "keyed": {APIKey: "k"},
			"env": {Env: map[string]string{"OWN": "1"}},
		},
		Bundled: []string{"ours"},
	}
	for name, c := range map[string]struct {
		e  agentctx.SkillEntry
		ok bool
	}{
		"nothing needed":      {agentctx.SkillEntry{Key: "x", Origin: agentctx.SkillWorkspace}, true},
		"turned off":          {agentctx.SkillEntry{Key: "off", Always: true}, false},
		"other system":        {agentctx.SkillEntry{Key: "x", OS: []string{"win32"}}, false},
		"this system":         {agentctx.SkillEntry{Key: "x", OS: []string{"darwin", " Linux "}}, true},
		"variable set":        {needing(agentctx.SkillRequirements{Env: []string{"SET"}}), true},
		"variable missing":    {needing(agentctx.SkillRequirements{Env: []string{"NO"}}), false},
		"key of another":      {keyed("keyed", "K", "J"), false},
		"variable configured": {keyed("env", "", "OWN"), true},
		"setting off":         {needing(agentctx.SkillRequirements{Config: []string{"browser.enabled", "x"}}), false},
	} {
		ok, why := host.Eligible(c.e)
		assert.Equal(t, c.ok, ok, name)
		assert.Equal(t, ok, why == "", name)
	}
	ok, _ := agentctx.SkillHost{}.Eligible(needing(agentctx.SkillRequirements{Bins: []string{"git"}}))
	assert.False(t, ok, "the zero host has nothing")
	ok, _ = agentctx.SkillHost{
		OS: []string{"windows"},
	}.Eligible(
		agentctx.SkillEntry{OS: []string{"win32"}},
	)
	assert.True(t, ok)
}

func TestEnviron(t *testing.T) {
	host := agentctx.SkillHost{
		Env: func(name string) string { return map[string]string{"SET": "1"}[name] },
		Config: map[string]agentctx.SkillConfig{"x": {APIKey: "k", Env: map[string]string{
			"PLAIN": "p", "SET": "other", "LD_PRELOAD": "evil.so", "PATH": "/evil",
			"OPENSSL_CONF": "x", "NUL": "a\x00b",
			"OTHER_TOKEN": "t", "DECLARED_TOKEN": "d", "A=B": "x", "": "x", "dyld_x": "y",
		}}},
	}
	e := agentctx.SkillEntry{
		Skill: agentctx.Skill{Name: "x"}, Key: "x", PrimaryEnv: "X_API_KEY",
		Requires: agentctx.SkillRequirements{Env: []string{"DECLARED_TOKEN"}},
	}
	assert.Equal(t, []string{"DECLARED_TOKEN=d", "PLAIN=p", "X_API_KEY=k"}, host.Environ(e))
	assert.Len(t, host.Config["x"].Env, 11, "the configuration is not changed")
	assert.Empty(t, os.Getenv("PLAIN"))
	assert.Empty(t, agentctx.SkillHost{}.Environ(e))
}

func TestSnapshot(t *testing.T) {
	entries, _ := agentctx.DiscoverSkills(
		skillSource(agentctx.SkillWorkspace, "skills", map[string]string{
			"a/SKILL.md": skillText(
				"alpha", "x",
			), "b/SKILL.md": skillText("beta", "x", "disable-model-invocation: true"),
			"c/SKILL.md": skillText(
				"gamma", "x", `metadata: {"openclaw": {"requires": {"bins": ["none"]}}}`,
			),
		}),
	)
	snap := func(filter []string) agentctx.SkillSnapshot {
		return agentctx.SnapshotSkills(entries, agentctx.SkillHost{}, agentctx.Spec{Skills: filter})
	}
	all := snap([]string{"*"})
	assert.Equal(t, []string{"alpha", "beta"}, skillNames(all.Skills))
	assert.Equal(
		t, []agentctx.Skill{{Name: "alpha", Description: "x", Path: "skills/a/SKILL.md"}},
		all.Visible(), "a hidden one is not in the prompt",
	)
	require.Len(t, all.Excluded, 1)
	assert.Equal(t, `needs the program "none"`, all.Excluded[0].Why)
	assert.Equal(t, all.Version, snap([]string{"*", "alpha"}).Version)
	assert.NotEqual(t, all.Version, snap([]string{"alpha"}).Version)
	slices.Reverse(entries)
	assert.Equal(t, all.Version, snap([]string{"*"}).Version)
	entries[0].Description = "changed"
	assert.Equal(t, all.Version, snap([]string{"*"}).Version, "gamma is not in it")
	entries[2].Description = "changed"
	assert.NotEqual(t, all.Version, snap([]string{"*"}).Version)
}

func TestBins(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "folder"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "plain"), nil, 0o644))
	b := &agentctx.Bins{Path: "/none" + string(os.PathListSeparator) + dir}
	for _, name := range []string{"folder", "plain", "tool", "", "../x", dir + "/tool"} {
		assert.False(t, b.Has(name), name)
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "tool"), nil, 0o755))
	assert.False(t, b.Has("tool"), "remembered")
	b.Refresh()
	assert.True(t, b.Has("tool"))
}

func TestSyncSkills(t *testing.T) {
	dir, root := makeRoot(t, map[string]string{
		"a/SKILL.md": skillText("alpha", "x"), "a/run.sh": "#!/bin/sh", "a/data/x.bin": "\xff\x00",
		"b/SKILL.md": skillText("beta", "x"), "shelf/a/SKILL.md": skillText("gamma", "x"),
	})
	require.NoError(t, os.Chmod(filepath.Join(dir, "a/run.sh"), 0o755))
	require.NoError(t, os.Symlink("/etc/passwd", filepath.Join(dir, "a/passwd")))
	entries, _ := agentctx.DiscoverSkills(agentctx.SkillSource{FS: root.FS(), Path: "skills"})
	require.Len(t, entries, 3)

	into, dst := makeRoot(t, map[string]string{"mine/file": "stays", "b/own": "stays"})
	tree := func() (list []string) {
		require.NoError(
			t,
			filepath.WalkDir(into, func(path string, d os.DirEntry, err error) error {
				require.NoError(t, err)
				if rel, _ := filepath.Rel(into, path); !d.IsDir() && !strings.HasPrefix(rel, ".") {
					list = append(list, filepath.ToSlash(rel))
				}
				return nil
			}),
		)
		slices.Sort(list)
		return list
	}
	for range 2 { // again and again
		problems, err := agentctx.SyncSkills(dst, agentctx.SkillSnapshot{Skills: entries})
		require.NoError(t, err)
		assert.Empty(t, problems)
		assert.Equal(t, []string{
			"a-2/SKILL.md", "a/SKILL.md", "a/data/x.bin", "a/run.sh", "b-2/SKILL.md", "b/own",
			"mine/file",
		}, tree(), "by the names of directories; what is not ours is left alone")
	}
	info, err := os.Stat(filepath.Join(into, "a/run.sh"))
	require.NoError(t, err)
	assert.EqualValues(t, 0o755, info.Mode().Perm())

	// The filter decides what is there.
	snapshot := agentctx.SnapshotSkills(
		entries, agentctx.SkillHost{}, agentctx.Spec{Skills: []string{"gamma"}},
	)
	_, err = agentctx.SyncSkills(dst, snapshot)
	require.NoError(t, err)
	assert.Equal(t, []string{"a/SKILL.md", "b/own", "mine/file"}, tree())
	text, err := os.ReadFile(filepath.Join(into, "a/SKILL.md"))
	require.NoError(t, err)
	assert.Contains(t, string(text), "gamma")

	// What cannot be copied leaves the older copy in its place.
	require.NoError(t, os.WriteFile(filepath.Join(dir, "shelf/a/one"), []byte("x"), 0o644))
	require.NoError(
		t, os.Link(filepath.Join(dir, "shelf/a/one"), filepath.Join(dir, "shelf/a/two")),
	)
	problems, err := agentctx.SyncSkills(dst, snapshot)
	require.NoError(t, err)
	require.Len(t, problems, 1)
	assert.Equal(t, agentctx.ReasonLinked, problems[0].Reason)
	assert.Equal(t, []string{"a/SKILL.md", "b/own", "mine/file"}, tree())

	problems, err = agentctx.SyncSkills(
		dst,
		agentctx.SkillSnapshot{Skills: []agentctx.SkillEntry{
			{Skill: agentctx.Skill{Name: "x", Path: "skills/x/SKILL.md"}},
			{Skill: agentctx.Skill{Path: "../SKILL.md"}},
		}},
	)
	require.NoError(t, err)
	require.Len(t, problems, 2)
	assert.Equal(t, agentctx.ReasonBadName, problems[1].Reason)
	assert.Equal(t, []string{"b/own", "mine/file"}, tree(), "nothing half done")
}

// S1, S9: the name of a skill stands in lines of a prompt and in commands, and programs make paths
// of it. What cannot be a name is passed over with a report, by discovery and in a prompt.
func TestHostileSkillNames(t *testing.T) {
	taken := []string{
		"weather", "Weather Report", "a.b", "plugin:weather", "日本語", "e\u0301", ".hidden", "...",
		strings.Repeat("é", 100),
	}
	refused := []string{
		".", "..", "../x", "a/b", "/etc/passwd", `a\b`, `\\host\share`, `C:\x`, "C:x", "a/..",
		"a\x00b", "a\nb", "a\rb", "a\u2028b", "a\u0085b", "\u202egnp", "ad\u200bmin", "a\u2066b",
		"a\u3164", "\u3164", "\u200b", "a\xffb", "a  b", "a\tb", "\x1b[31mred", "\U000e0041",
		strings.Repeat("é", 101), strings.Repeat("x", 12_000),
	}
	for want, names := range map[bool][]string{true: taken, false: refused} {
		for _, name := range names {
			if utf8.ValidString(name) {
				quoted := strconv.QuoteToASCII(name) // YAML has the same escapes
				for _, file := range []string{
					skillText(quoted, "x"),
					skillText("plain", "x", `metadata: {"openclaw": {"skillKey": `+quoted+`}}`),
				} {
					found, problems := agentctx.DiscoverSkills(agentctx.SkillSource{
						FS: fstest.MapFS{"dir/SKILL.md": {Data: []byte(file)}}, Path: "skills",
					})
					require.Equal(t, want, len(found) == 1, "%q in %.200q", name, file)
					if !want {
						require.Len(t, problems, 1, "%q", name)
						require.Equal(t, agentctx.ReasonBadName, problems[0].Reason, "%q", name)
						require.Less(t, len(problems[0].Why), 2000, "%q", name)
					}
				}
			}
			p := agentctx.Assemble(agentctx.Input{
				Session: mainKey, Spec: agentctx.Spec{Skills: []string{"*"}},
				Tools:  []agentctx.Tool{{Name: "read"}},
				Skills: []agentctx.Skill{{Name: name, Description: "x", Path: "p"}},
			})
			_, shown := p.Section(agentctx.SectionSkills)
			require.Equal(t, want, shown, "%q", name)
			require.Len(t, p.Skills, 1)
			require.Equal(t, !want, p.Skills[0].Reason == agentctx.ReasonBadName, "%q", name)
			require.Equal(t, !want, p.Skills[0].Why != "", "%q", name)
		}
	}
}
