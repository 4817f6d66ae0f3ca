package agentctx_test

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	agentctx "github.com/offshoot-sdk/offshoot/context"
	"github.com/offshoot-sdk/offshoot/session"
)

// maxFileBytes is the size in bytes over which a workspace file is not read.
const maxFileBytes = 2 << 20

// makeRoot makes a directory with files and opens it.
func makeRoot(t *testing.T, files map[string]string) (string, *os.Root) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, root.Close()) })
	return dir, root
}

func loadFile(t *testing.T, fsys fs.FS, name string) agentctx.WorkspaceFile {
	t.Helper()
	files := agentctx.LoadWorkspace(fsys, name)
	require.Len(t, files, 1)
	assert.Equal(t, files[0].Missing, files[0].Reason != agentctx.ReasonWhole)
	assert.Equal(t, files[0].Missing, files[0].Why != "")
	return files[0]
}

func TestReasons(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "secret.md")
	require.NoError(t, os.WriteFile(outside, []byte("secret"), 0o644))
	dir, root := makeRoot(t, map[string]string{
		"AGENTS.md": "inside", "docs/real.md": "linked text", "bom.md": "\ufeffafter the mark",
		"latin.md": "caf\xe9", "big.md": strings.Repeat("x", maxFileBytes+1),
		"full.md":     strings.Repeat("x", maxFileBytes),
		"folder.md/x": "", "twice.md": "two names",
	})
	link := func(target, name string) {
		require.NoError(t, os.Symlink(target, filepath.Join(dir, name)))
	}
	link(outside, "absolute.md")
	link("../"+filepath.Base(filepath.Dir(outside))+"/secret.md", "climbing.md")
	link("docs/real.md", "inside.md")
	link("inside.md", "chain.md")
	link("loop.md", "loop.md")
	link("nowhere.md", "dangling.md")
	link("docs", "alias")
	link("..", "parent")
	require.NoError(t, os.Link(filepath.Join(dir, "twice.md"), filepath.Join(dir, "second.md")))
	require.NoError(t, os.Link(outside, filepath.Join(dir, "hard.md")))

	want := map[string]agentctx.Reason{
		"AGENTS.md": agentctx.ReasonWhole, "inside.md": agentctx.ReasonWhole,
		"chain.md": agentctx.ReasonWhole, "bom.md": agentctx.ReasonWhole,
		"full.md": agentctx.ReasonWhole, "alias/real.md": agentctx.ReasonWhole,
		"absolute.md": agentctx.ReasonOutside, "climbing.md": agentctx.ReasonOutside,
		"loop.md": agentctx.ReasonOutside, "parent/x.md": agentctx.ReasonOutside,
		"dangling.md": agentctx.ReasonAbsent, "none.md": agentctx.ReasonAbsent,
		"AGENTS.md/x": agentctx.ReasonAbsent,
		"latin.md":    agentctx.ReasonNotUTF8, "big.md": agentctx.ReasonTooLarge,
		"folder.md": agentctx.ReasonNotRegular, "hard.md": agentctx.ReasonLinked,
		"twice.md": agentctx.ReasonLinked, "second.md": agentctx.ReasonLinked,
		"../x.md": agentctx.ReasonBadName, "/etc/passwd": agentctx.ReasonBadName,
		"a\\b.md": agentctx.ReasonBadName, "": agentctx.ReasonBadName,
	}
	for name, reason := range want {
		for kind, fsys := range map[string]fs.FS{"root": root.FS(), "dirfs": os.DirFS(dir)} {
			f := loadFile(t, fsys, name)
			assert.Equal(t, reason.String(), f.Reason.String(), "%s over %s: %s", name, kind, f.Why)
			assert.NotContains(t, f.Content, "secret", name)
		}
	}
	assert.Equal(t, "linked text", loadFile(t, root.FS(), "chain.md").Content)
	assert.Equal(t, "after the mark", loadFile(t, root.FS(), "bom.md").Content)
	assert.Contains(
		t, loadFile(t, root.FS(), "big.md").Why, "2097153 bytes, over the limit of 2097152",
	)
}

func TestPipeDoesNotBlock(t *testing.T) {
	fsys := fstest.MapFS{"AGENTS.md": {Mode: fs.ModeNamedPipe}, "SOUL.md": {Mode: fs.ModeDevice}}
	assert.Equal(t, agentctx.ReasonNotRegular, loadFile(t, fsys, "AGENTS.md").Reason)
	assert.Equal(t, agentctx.ReasonNotRegular, loadFile(t, fsys, "SOUL.md").Reason)
}

// readFS gives every file what its function reads.
type readFS struct {
	fstest.MapFS

	read func(p []byte) (int, error)
}

func (f readFS) Open(name string) (fs.File, error) {
	file, err := f.MapFS.Open(name)
	return readFile{file, f.read}, err
}

type readFile struct {
	fs.File

	read func(p []byte) (int, error)
}

func (f readFile) Read(p []byte) (int, error) { return f.read(p) }

// A file whose Read breaks its contract is a file that cannot be read, and ends.
func TestReadsThatBreakTheirContract(t *testing.T) {
	for name, c := range map[string]struct {
		read   func(p []byte) (int, error)
		reason agentctx.Reason
	}{
		"nothing": {func([]byte) (int, error) { return 0, nil }, agentctx.ReasonUnreadable},
		"less":    {func([]byte) (int, error) { return -1, nil }, agentctx.ReasonUnreadable},
		"more": {
			func(p []byte) (int, error) { return len(p) + 1, nil },
			agentctx.ReasonUnreadable,
		},
		"without end": {func(p []byte) (int, error) { return len(p), nil }, agentctx.ReasonTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			fsys := readFS{fstest.MapFS{"AGENTS.md": {Data: []byte("x")}}, c.read}
			assert.Equal(t, c.reason, loadFile(t, fsys, "AGENTS.md").Reason)
			skills := readFS{fstest.MapFS{"a/SKILL.md": {Data: []byte("x")}}, c.read}
			found, reports := agentctx.DiscoverSkills(agentctx.SkillSource{FS: skills})
			assert.Empty(t, found)
			require.Len(t, reports, 1)
			assert.Equal(t, c.reason, reports[0].Reason)
		})
	}
}

// S10: a link shows no session a core file or memory note that its spec withholds, whichever way
// the link goes, and nothing of it is opened.
func TestLinksShowNothingThatTheSpecWithholds(t *testing.T) {
	const private = "what only the user may know"
	workspace := func(t *testing.T) (string, *os.Root) {
		return makeRoot(t, map[string]string{
			"USER.md": private, "MEMORY.md": private, "memory/2026-11-20.md": private,
			"people/ada.md": private, "notes/x.md": private, "CLAUDE.md": "rules",
			"SOUL.md": "calm",
		})
	}
	for name, tt := range map[string]struct {
		links  [][2]string // target and name
		target string      // "": the link is harmless
	}{
		"a core file":        {[][2]string{{"USER.md", "AGENTS.md"}}, "USER.md"},
		"a memory":           {[][2]string{{"MEMORY.md", "AGENTS.md"}}, "MEMORY.md"},
		"a note":             {[][2]string{{"memory/2026-11-20.md", "AGENTS.md"}}, "memory/2026-11-20.md"},
		"a persona":          {[][2]string{{"SOUL.md", "AGENTS.md"}}, "SOUL.md"},
		"a chain":            {[][2]string{{"x.md", "AGENTS.md"}, {"USER.md", "x.md"}}, "USER.md"},
		"a way round":        {[][2]string{{"people/../USER.md", "AGENTS.md"}}, "USER.md"},
		"a linked directory": {[][2]string{{"d/2026-11-20.md", "AGENTS.md"}, {"memory", "d"}}, "memory/2026-11-20.md"},
		"a file that is a core file by a link": {
			[][2]string{{"people/ada.md", "AGENTS.md"}, {"people/ada.md", "HEARTBEAT.md"}},
			"HEARTBEAT.md",
		},
		"a file of one's own": {[][2]string{{"CLAUDE.md", "AGENTS.md"}}, ""},
		"one admitted by another": {
			[][2]string{{"TOOLS.md", "AGENTS.md"}, {"CLAUDE.md", "TOOLS.md"}}, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir, root := workspace(t)
			for _, link := range tt.links {
				require.NoError(t, os.Symlink(link[0], filepath.Join(dir, link[1])))
			}
			for kind, fsys := range map[string]fs.FS{"root": root.FS(), "dirfs": os.DirFS(dir)} {
				counting := newCountingFS(fsys)
				loader := agentctx.Loader{Cache: &agentctx.Cache{}}
				files := loader.Load(agentctx.LoadRequest{
					Session: childKey, Workspace: counting, Execution: counting,
				})
				byHand := agentctx.LoadWorkspace(fsys)
				for _, list := range [][]agentctx.WorkspaceFile{
					files, byHand, agentctx.FilterForSubagent(byHand),
				} {
					p := agentctx.Assemble(agentctx.Input{Session: childKey, Files: list})
					assert.NotContains(t, p.String(), private, kind)
				}
				agents := files[0]
				assert.Equal(t, "AGENTS.md", agents.Name)
				if tt.target == "" {
					assert.Equal(t, "rules", agents.Content)
					continue
				}
				assert.Zero(t, counting.opened[tt.target], kind)
				assert.Equal(t, tt.target, agents.Target)
				assert.Equal(t, agentctx.ReasonExcluded, agents.Reason)
				assert.Equal(
					t, "it is a link to "+tt.target+", which is not among the files of the spec",
					agents.Why,
				)
				own := agentctx.Loader{}.Load(
					agentctx.LoadRequest{Session: mainKey, Workspace: fsys},
				)
				assert.NotEmpty(t, own[0].Content, "a session that sees both follows the link")
				assert.Equal(t, tt.target, own[0].Target)
			}
		})
	}
}

// S10: a directory of notes that is a link itself does not hide that a file is a note.
func TestLinkToALinkedDirectoryOfNotes(t *testing.T) {
	dir, root := makeRoot(t, map[string]string{"notes/x.md": "a note"})
	require.NoError(t, os.Symlink("notes", filepath.Join(dir, "memory")))
	require.NoError(t, os.Symlink("notes/x.md", filepath.Join(dir, "AGENTS.md")))
	f := agentctx.Loader{}.Load(
		agentctx.LoadRequest{Session: childKey, Workspace: root.FS()},
	)[0]
	assert.Equal(t, agentctx.ReasonExcluded, f.Reason)
	assert.Equal(t, "memory/x.md", f.Target)
}

// plainFS hides everything of a file system but Open and Stat, so that links are followed unseen.
type plainFS struct{ fsys fs.FS }

func (p plainFS) Open(name string) (fs.File, error) { return p.fsys.Open(name) }

// S10: where a file system follows links itself, files of the operating system can be told apart.
func TestLinksThatTheFileSystemFollows(t *testing.T) {
	dir, root := makeRoot(t, map[string]string{"USER.md": "private"})
	require.NoError(t, os.Symlink("USER.md", filepath.Join(dir, "AGENTS.md")))
	for _, fsys := range []fs.FS{plainFS{root.FS()}, plainFS{os.DirFS(dir)}} {
		f := agentctx.Loader{}.Load(agentctx.LoadRequest{Session: childKey, Workspace: fsys})[0]
		assert.Equal(t, agentctx.ReasonExcluded, f.Reason)
		assert.Equal(t, "USER.md", f.Target)
	}
}

// S10: a hard link is refused whatever it leads to, on every file system that shows files of the
// operating system.
func TestHardLinksShowNothing(t *testing.T) {
	dir, root := makeRoot(t, map[string]string{"USER.md": "private"})
	require.NoError(t, os.Link(filepath.Join(dir, "USER.md"), filepath.Join(dir, "AGENTS.md")))
	for _, fsys := range []fs.FS{root.FS(), os.DirFS(dir), plainFS{root.FS()}} {
		f := agentctx.Loader{}.Load(agentctx.LoadRequest{Session: childKey, Workspace: fsys})[0]
		assert.True(t, f.Missing)
		assert.Empty(t, f.Content)
	}
}

// brokenFS fails to open, or opens another file than Lstat described.
type brokenFS struct {
	fs.FS
	open func(name string) (fs.File, error)
}

func (b brokenFS) Open(name string) (fs.File, error)      { return b.open(name) }
func (b brokenFS) Lstat(name string) (fs.FileInfo, error) { return fs.Lstat(b.FS, name) }
func (b brokenFS) ReadLink(name string) (string, error)   { return fs.ReadLink(b.FS, name) }

func TestUnreadableAndExchanged(t *testing.T) {
	_, root := makeRoot(t, map[string]string{"AGENTS.md": "mine", "evil.md": "other"})
	fail := func(err error) fs.FS {
		return brokenFS{root.FS(), func(string) (fs.File, error) { return nil, err }}
	}
	f := loadFile(
		t, fail(&fs.PathError{Op: "open", Path: "AGENTS.md", Err: fs.ErrPermission}), "AGENTS.md",
	)
	assert.Equal(t, agentctx.ReasonUnreadable, f.Reason)
	f = loadFile(t, fail(errors.New("disk on fire")), "AGENTS.md")
	assert.Equal(t, agentctx.ReasonUnreadable, f.Reason)
	assert.Contains(t, f.Why, "disk on fire")

	exchanged := brokenFS{
		root.FS(), func(string) (fs.File, error) { return root.FS().Open("evil.md") },
	}
	f = loadFile(t, exchanged, "AGENTS.md")
	assert.Equal(t, agentctx.ReasonChanged, f.Reason)
	assert.Empty(t, f.Content)
}

func TestMemoryFileRules(t *testing.T) {
	text := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
	last := func(fsys fs.FS) agentctx.WorkspaceFile { return agentctx.LoadWorkspace(fsys)[7] }

	f := last(fstest.MapFS{"memory.md": text("lower"), "MEMORY.md": text("\xff")})
	assert.Equal(
		t, agentctx.ReasonNotUTF8, f.Reason,
		"a MEMORY.md that cannot be read is told, not replaced",
	)

	f = last(fstest.MapFS{})
	assert.Equal(t, "MEMORY.md", f.Name)
	assert.Equal(t, agentctx.ReasonAbsent, f.Reason)

	// A hook that brings both does not get both in.
	p := agentctx.Assemble(agentctx.Input{Session: mainKey, Files: []agentctx.WorkspaceFile{
		{Name: "MEMORY.md", Content: "upper"}, {Name: "memory.md", Content: "lower"},
	}})
	assert.Equal(t, []string{"MEMORY.md"}, shownFiles(p))
}

// countingFS counts what is opened and looked at.
type countingFS struct {
	fs.FS
	mu        sync.Mutex
	opened    map[string]int
	described map[string]int
}

func newCountingFS(fsys fs.FS) *countingFS {
	return &countingFS{FS: fsys, opened: map[string]int{}, described: map[string]int{}}
}

func (c *countingFS) Open(name string) (fs.File, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.opened[name]++
	return c.FS.Open(name)
}

func (c *countingFS) Lstat(name string) (fs.FileInfo, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.described[name]++
	return fs.Lstat(c.FS, name)
}

func (c *countingFS) ReadLink(name string) (string, error) { return fs.ReadLink(c.FS, name) }

func TestMinimalOpensTwoFiles(t *testing.T) {
	fsys := newCountingFS(coreWorkspace())
	loader := agentctx.Loader{Memory: true, Extra: []string{"notes/*.md"}}
	files := loader.Load(agentctx.LoadRequest{Session: childKey, Workspace: fsys})
	assert.Equal(t, []string{"AGENTS.md", "TOOLS.md"}, fileNames(files))
	for _, name := range agentctx.CoreFiles() {
		want := 0
		if name == "AGENTS.md" || name == "TOOLS.md" {
			want = 1
		}
		assert.Equal(t, want, fsys.opened[name], name)
		assert.Equal(t, want, fsys.described[name], name)
	}

	none := newCountingFS(coreWorkspace())
	loader.Load(
		agentctx.LoadRequest{
			Session: mainKey, Spec: agentctx.Spec{Mode: agentctx.ModeNone}, Workspace: none,
		},
	)
	assert.Empty(t, none.opened)
	assert.Empty(t, none.described)
}

func TestLoaderMemoryAndExtras(t *testing.T) {
	fsys := coreWorkspace()
	for _, name := range []string{
		"memory/2026-11-19.md", "memory/2026-11-20.md", "memory/deep/x.md", "memory/readme.txt",
		"packages/api/AGENTS.md", "packages/api/README.md", "packages/web/TOOLS.md",
	} {
		fsys[name] = &fstest.MapFile{Data: []byte(name)}
	}
	plain := agentctx.Loader{}.Load(agentctx.LoadRequest{Session: mainKey, Workspace: fsys})
	assert.Equal(t, agentctx.CoreFiles(), fileNames(plain), "memory/*.md is off unless asked for")

	l := agentctx.Loader{
		Memory: true, Extra: []string{"packages/*/*.md", "AGENTS.md", "none.md", "../x.md", "["},
	}
	files := l.Load(agentctx.LoadRequest{Session: mainKey, Workspace: fsys})
	assert.Equal(t, append(
		agentctx.CoreFiles(), "memory/2026-11-19.md", "memory/2026-11-20.md",
		"packages/api/AGENTS.md", "packages/api/README.md", "packages/web/TOOLS.md", "none.md",
		"../x.md", "[",
	), fileNames(files),
		"each file once")
	for _, f := range files[len(files)-2:] {
		assert.Equal(t, agentctx.ReasonBadName, f.Reason, "a wrong name is told, not followed")
		assert.Empty(t, f.Content)
	}

	files = l.Load(agentctx.LoadRequest{Session: childKey, Workspace: fsys})
	assert.Equal(
		t, []string{"AGENTS.md", "TOOLS.md", "../x.md", "["}, fileNames(files),
		"the allowlist holds for extra files too",
	)

	files = l.Load(
		agentctx.LoadRequest{
			Session: childKey, Spec: agentctx.Spec{Files: []string{"memory/*.md"}}, Workspace: fsys,
		},
	)
	assert.Equal(
		t, []string{"memory/2026-11-19.md", "memory/2026-11-20.md", "../x.md", "["},
		fileNames(files),
	)
}

func TestPatternsThatMatchNothing(t *testing.T) {
	l := agentctx.Loader{Memory: true, Extra: []string{"pakages/*.md", "/etc/*.md", "../*.md"}}
	files := l.Load(agentctx.LoadRequest{Session: mainKey, Workspace: coreWorkspace()})
	require.Len(t, files, 11)
	assert.Equal(t, agentctx.WorkspaceFile{
		Name: "pakages/*.md", Path: "pakages/*.md", Missing: true, Reason: agentctx.ReasonAbsent,
		Why: "no file matches",
	}, files[8])
	assert.Equal(t, agentctx.ReasonBadName, files[9].Reason)
	assert.Equal(t, agentctx.ReasonBadName, files[10].Reason)
}

func TestPatternThatMatchesTooMuch(t *testing.T) {
	fsys := fstest.MapFS{}
	for i := range 300 {
		fsys["memory/"+string(rune('a'+i/26))+string(rune('a'+i%26))+".md"] = &fstest.MapFile{
			Data: []byte("x"),
		}
	}
	spec := agentctx.Spec{Files: []string{"memory/*"}}
	files := agentctx.Loader{
		Memory: true,
	}.Load(
		agentctx.LoadRequest{Session: mainKey, Spec: spec, Workspace: fsys},
	)
	require.Len(t, files, 257)
	assert.Equal(t, agentctx.ReasonTooMany, files[0].Reason)
	assert.Equal(t, "300 files match, the last 256 are read", files[0].Why)
	assert.Equal(
		t, slices.Max(slices.Collect(maps.Keys(fsys))), files[256].Name, "the newest are read",
	)
}

func TestExecutionDirectory(t *testing.T) {
	repo := fstest.MapFS{
		"AGENTS.md": {Data: []byte("rules of the repository")},
		"SOUL.md":   {Data: []byte("not read")},
	}
	load := func(key session.Key, spec agentctx.Spec, execution fs.FS) []agentctx.WorkspaceFile {
		return agentctx.Loader{}.Load(
			agentctx.LoadRequest{
				Session: key, Spec: spec, Workspace: coreWorkspace(), Execution: execution,
			},
		)
	}
	files := load(childKey, agentctx.Spec{}, repo)
	assert.Equal(t, []string{"AGENTS.md", "TOOLS.md", agentctx.ExecutionFile}, fileNames(files))
	text := agentctx.Assemble(agentctx.Input{Session: childKey, Files: files}).String()
	assert.Contains(t, text, "rules of the repository")
	assert.NotContains(t, text, "not read")

	assert.NotContains(
		t, fileNames(load(childKey, agentctx.Spec{Files: []string{"TOOLS.md"}}, repo)),
		agentctx.ExecutionFile,
	)
	assert.NotContains(
		t, fileNames(load(childKey, agentctx.Spec{}, fstest.MapFS{})), agentctx.ExecutionFile,
		"its absence is nothing to tell",
	)

	// Nor is it taken for a repetition of what is not shown.
	p0 := agentctx.Assemble(agentctx.Input{
		Session: childKey, Spec: agentctx.Spec{Files: []string{agentctx.ExecutionFile}},
		Files: append(
			agentctx.LoadWorkspace(coreWorkspace(), "AGENTS.md"),
			agentctx.WorkspaceFile{Name: agentctx.ExecutionFile, Content: "text of AGENTS.md"},
		),
	})
	assert.Equal(t, []string{agentctx.ExecutionFile}, shownFiles(p0))

	// The same directory again is not shown twice.
	p := agentctx.Assemble(
		agentctx.Input{Session: childKey, Files: load(childKey, agentctx.Spec{}, coreWorkspace())},
	)
	assert.Equal(t, []string{"AGENTS.md", "TOOLS.md"}, shownFiles(p))
}

func TestHooksComeBeforeTheFilter(t *testing.T) {
	hook := func(r agentctx.LoadRequest, files []agentctx.WorkspaceFile) []agentctx.WorkspaceFile {
		files = slices.DeleteFunc(
			files, func(f agentctx.WorkspaceFile) bool { return f.Name == "TOOLS.md" },
		)
		for i := range files {
			files[i].Content = "replaced for " + r.Session.Agent()
		}
		return append(files,
			agentctx.WorkspaceFile{Name: "MEMORY.md", Content: "smuggled"},
			agentctx.WorkspaceFile{Name: "x/../USER.md", Content: "smuggled"},
			agentctx.WorkspaceFile{Name: "team/AGENTS.md", Content: "added"},
			agentctx.WorkspaceFile{Content: "no name"})
	}
	loader := agentctx.Loader{Hooks: []agentctx.Hook{hook}}
	files := loader.Load(agentctx.LoadRequest{Session: childKey, Workspace: coreWorkspace()})
	assert.Equal(t, []string{"AGENTS.md", "x/../USER.md", ""}, fileNames(files))
	assert.Equal(t, "replaced for coder", files[0].Content)
	for _, f := range files[1:] {
		assert.Equal(t, agentctx.ReasonBadName, f.Reason, "a mistake of the hook stays in the list")
		assert.Empty(t, f.Content)
	}

	// Even what is put into the input by hand meets the filter.
	p := agentctx.Assemble(agentctx.Input{Session: childKey, Files: append(
		files,
		agentctx.WorkspaceFile{
			Name: "USER.md", Content: "smuggled",
		},
		agentctx.WorkspaceFile{Content: "no name"},
	)})
	assert.NotContains(t, p.String(), "smuggled")
	assert.NotContains(t, p.String(), "no name")
	require.Len(t, p.Files, 5)
	assert.Equal(t, agentctx.ReasonExcluded, p.Files[3].Reason)
	assert.Equal(t, agentctx.ReasonBadName, p.Files[4].Reason)
}

// O7: a file that a hook adds under a name that cannot be shown is reported, and not its content.
func TestBadNamesOfHooksAreReported(t *testing.T) {
	bad := []string{"", "  ", "/etc/passwd", "../x.md", `a\b.md`, "a\nb.md"}
	for _, spec := range []agentctx.Spec{{}, agentctx.WorkerSpec()} {
		l := agentctx.Loader{Hooks: []agentctx.Hook{
			func(_ agentctx.LoadRequest, files []agentctx.WorkspaceFile) []agentctx.WorkspaceFile {
				for _, name := range bad {
					files = append(files, agentctx.WorkspaceFile{Name: name, Content: "secret"})
				}
				return files
			},
		}}
		files := l.Load(agentctx.LoadRequest{Session: mainKey, Spec: spec})
		require.Len(t, files, len(bad))
		p := agentctx.Assemble(agentctx.Input{Session: mainKey, Spec: spec, Files: files})
		require.Len(t, p.Files, len(bad))
		for i, f := range p.Files {
			require.Equal(t, agentctx.ReasonBadName, f.Reason, "%q", bad[i])
			require.Contains(t, f.Why, "a hook added a file", "%q", bad[i])
			require.Empty(t, files[i].Content)
		}
		require.NotContains(t, p.String(), "secret")
	}
}
