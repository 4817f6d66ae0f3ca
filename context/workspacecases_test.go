package agentctx_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	agentctx "github.com/offshoot-sdk/offshoot/context"
	"github.com/offshoot-sdk/offshoot/session"
)

// workspaceOf returns a file system with files of these texts.
func workspaceOf(texts map[string]string) fstest.MapFS {
	fsys := fstest.MapFS{}
	for name, text := range texts {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return fsys
}

// memoryOf returns what a workspace has for MEMORY.md.
func memoryOf(fsys fstest.MapFS) agentctx.WorkspaceFile {
	files := agentctx.LoadWorkspace(fsys)
	return files[len(files)-1]
}

// extra loads the extra files of a session, without the core files that are absent.
func extra(
	key session.Key, fsys fstest.MapFS, patterns ...string,
) (files []agentctx.WorkspaceFile) {
	l := agentctx.Loader{Extra: patterns}
	for _, f := range l.Load(agentctx.LoadRequest{Session: key, Workspace: fsys}) {
		if f.Reason != agentctx.ReasonAbsent {
			files = append(files, f)
		}
	}
	return files
}

// seen returns the names of the core files that the session with the text of a key sees. A text
// that is not a key has the zero key.
func seen(text string) []string {
	key, err := session.Parse(text)
	if err != nil {
		key = session.Key{}
	}
	files := agentctx.LoadWorkspace(coreWorkspace())
	return shownFiles(agentctx.Assemble(agentctx.Input{Session: key, Files: files}))
}

// readCases are the rows about the reading of files, seedCases those about a new workspace, and
// filterCases those about what a session sees.
var readCases = []numberedCase{
	{
		id: "W1", given: "an empty directory", expect: "7 records, without one of the memory",
		differs: "the memory has a record, too, with the reason; no prompt speaks of its absence",
		run: func(t *testing.T) {
			for _, files := range [][]agentctx.WorkspaceFile{
				agentctx.LoadWorkspace(fstest.MapFS{}), agentctx.LoadWorkspace(nil),
			} {
				assert.Equal(t, agentctx.CoreFiles(), fileNames(files))
				for _, f := range files {
					assert.True(t, f.Missing)
					assert.Equal(t, agentctx.ReasonAbsent, f.Reason, f.Name)
				}
				p := agentctx.Assemble(agentctx.Input{Session: mainKey, Files: files})
				assert.NotContains(t, p.String(), "MEMORY.md")
			}
		},
	},
	{id: "W2", given: "memory.md", expect: "its record", run: func(t *testing.T) {
		f := memoryOf(workspaceOf(map[string]string{"memory.md": "lower"}))
		assert.Equal(t, "memory.md", f.Name)
		assert.Equal(t, "lower", f.Content)
	}},
	{id: "W3", given: "memory.md, MEMORY.md", expect: "MEMORY.md", run: func(t *testing.T) {
		f := memoryOf(workspaceOf(map[string]string{"memory.md": "lower", "MEMORY.md": "upper"}))
		assert.Equal(t, "MEMORY.md", f.Name)
		assert.Equal(t, "upper", f.Content)
	}},
	{id: "W4", given: "memory.md, a link to MEMORY.md", expect: "one", run: func(t *testing.T) {
		dir, root := makeRoot(t, map[string]string{"MEMORY.md": "upper"})
		require.NoError(t, os.Symlink("MEMORY.md", filepath.Join(dir, "memory.md")))
		files := agentctx.Loader{Extra: []string{"memory.md"}}.Load(agentctx.LoadRequest{
			Session: mainKey, Workspace: root.FS(),
		})
		p := agentctx.Assemble(agentctx.Input{Session: mainKey, Files: files})
		assert.Equal(t, []string{"MEMORY.md"}, shownFiles(p))
	}},
	{id: "W5", given: "a hard link to the outside", expect: "missing", run: func(t *testing.T) {
		outside := filepath.Join(t.TempDir(), "x")
		require.NoError(t, os.WriteFile(outside, []byte("secret"), 0o600))
		dir, root := makeRoot(t, nil)
		require.NoError(t, os.Link(outside, filepath.Join(dir, "AGENTS.md")))
		f := loadFile(t, root.FS(), "AGENTS.md")
		assert.Equal(t, agentctx.ReasonLinked, f.Reason)
		assert.Empty(t, f.Content)
	}},
	{id: "W6", given: "links to the outside, inside", expect: "missing, read", run: func(t *testing.T) {
		outside := filepath.Join(t.TempDir(), "x")
		require.NoError(t, os.WriteFile(outside, []byte("secret"), 0o600))
		dir, root := makeRoot(t, map[string]string{"docs/rules.md": "rules"})
		require.NoError(t, os.Symlink(outside, filepath.Join(dir, "AGENTS.md")))
		require.NoError(t, os.Symlink("docs/rules.md", filepath.Join(dir, "TOOLS.md")))
		f := loadFile(t, root.FS(), "AGENTS.md")
		assert.Equal(t, agentctx.ReasonOutside, f.Reason)
		assert.Empty(t, f.Content)
		assert.Equal(t, "rules", loadFile(t, root.FS(), "TOOLS.md").Content)
	}},
	{
		id: "W7", given: "2 MiB and a byte", expect: "missing; of an extra file with the reason",
		differs: "every file that is not read has its reason", run: func(t *testing.T) {
			files := extra(mainKey, workspaceOf(map[string]string{
				"AGENTS.md": strings.Repeat("x", maxFileBytes+1),
				"x.md":      strings.Repeat("x", maxFileBytes+1),
				"y.md":      strings.Repeat("x", maxFileBytes),
			}), "x.md", "y.md")
			require.Equal(t, []string{"AGENTS.md", "x.md", "y.md"}, fileNames(files))
			for i, f := range files {
				assert.Equal(t, i < 2, f.Reason == agentctx.ReasonTooLarge, f.Name)
				assert.Equal(t, i < 2, f.Content == "", f.Name)
			}
		},
	},
	{id: "W8", given: "a workspace that is a link", expect: "read", run: func(t *testing.T) {
		dir, _ := makeRoot(t, map[string]string{"AGENTS.md": "text"})
		link := filepath.Join(t.TempDir(), "link")
		require.NoError(t, os.Symlink(dir, link))
		files, err := agentctx.LoadWorkspaceFiles(link)
		require.NoError(t, err)
		assert.Equal(t, "text", files[0].Content)
		assert.Equal(t, filepath.Join(link, "AGENTS.md"), files[0].Path)
	}},
	{id: "W9", given: "an extra file outside", expect: "no file", run: func(t *testing.T) {
		files := extra(mainKey, fstest.MapFS{}, "../outside/AGENTS.md")
		require.Len(t, files, 1, "the mistake is told")
		assert.Equal(t, agentctx.ReasonBadName, files[0].Reason)
		assert.True(t, files[0].Missing)
	}},
	{
		id: "W10", given: "a pattern that matches TOOLS.md and README.md", expect: "TOOLS.md alone",
		differs: "a pattern reads what it matches: its writer names files of any name, and a session " +
			"sees of them what its Spec lets through",
		run: func(t *testing.T) {
			fsys := workspaceOf(map[string]string{
				"packages/api/TOOLS.md": "t", "packages/api/README.md": "r",
			})
			assert.Equal(t, []string{"packages/api/README.md", "packages/api/TOOLS.md"},
				fileNames(extra(mainKey, fsys, "packages/*/*")))
			assert.Empty(t, extra(childKey, fsys, "packages/*/*"))
		},
	},
}

var seedCases = []numberedCase{
	{
		id: "W11", given: "a new directory", expect: "six files, BOOTSTRAP.md, a repository",
		differs: "no repository: the library starts no program", run: func(t *testing.T) {
			_, root := makeRoot(t, nil)
			s := mustSeed(t, root, agentctx.SeedOptions{})
			assert.Equal(t, seededFiles, s.Created)
			assert.Equal(t, agentctx.SeedState{Version: 1, SeededAt: noonUTC}, s.State)
			for _, f := range agentctx.LoadWorkspace(root.FS(), seededFiles...) {
				assert.NotEmpty(t, f.Content, f.Name)
			}
		},
	},
	{id: "W12", given: "BOOTSTRAP.md is deleted", expect: "completed", run: TestSeedNewWorkspace},
	{id: "W13", given: "an IDENTITY.md and USER.md of one's own", expect: "completed", run: func(
		t *testing.T,
	) {
		for _, files := range []map[string]string{
			{"IDENTITY.md": "I am Perch"}, {"USER.md": "Ada"}, {"IDENTITY.md": "x", "USER.md": "y"},
		} {
			seedUsed(t, files)
		}
	}},
	{id: "W14", given: "notes, or a repository, alone", expect: "completed", run: func(t *testing.T) {
		for _, name := range []string{"memory/x.md", "MEMORY.md", "memory.md", ".git/HEAD"} {
			seedUsed(t, map[string]string{name: "once"})
		}
	}},
	{id: "W15", given: "AGENTS.md alone", expect: "seeded, it stays", run: func(t *testing.T) {
		_, root := makeRoot(t, map[string]string{"AGENTS.md": "own"})
		s := mustSeed(t, root, agentctx.SeedOptions{})
		assert.Equal(t, seededFiles[1:], s.Created)
		assert.Equal(t, agentctx.SeedState{Version: 1, SeededAt: noonUTC}, s.State)
		assert.Equal(t, "own", loadFile(t, root.FS(), "AGENTS.md").Content)
	}},
}

// seedUsed checks that a workspace with files is taken for one in use, and that they stay.
func seedUsed(t *testing.T, files map[string]string) {
	t.Helper()
	_, root := makeRoot(t, files)
	s := mustSeed(t, root, agentctx.SeedOptions{})
	assert.NotContains(t, s.Created, "BOOTSTRAP.md", "%v", files)
	assert.Equal(t, agentctx.SeedState{Version: 1, CompletedAt: noonUTC}, s.State, "%v", files)
	for file, text := range files {
		got, err := root.ReadFile(file)
		require.NoError(t, err)
		assert.Equal(t, text, string(got), "never overwritten")
	}
}

var filterCases = []numberedCase{
	{
		id: "W16", given: "another file of the same time and size", expect: "its text",
		run: func(t *testing.T) {
			dir, root := makeRoot(t, map[string]string{"AGENTS.md": "one"})
			path := filepath.Join(dir, "AGENTS.md")
			loader := agentctx.Loader{Cache: &agentctx.Cache{}}
			for _, text := range []string{"one", "two", "six"} {
				require.NoError(t, os.WriteFile(path+".new", []byte(text), 0o600))
				require.NoError(t, os.Chtimes(path+".new", time.Time{}, noonUTC))
				require.NoError(t, os.Rename(path+".new", path))
				files := loader.Load(agentctx.LoadRequest{Session: mainKey, Workspace: root.FS()})
				assert.Equal(t, text, files[0].Content)
			}
		},
	},
	{id: "W17", given: "20 loads at once", expect: "all the same", run: func(t *testing.T) {
		_, root := makeRoot(t, map[string]string{"AGENTS.md": "a", "TOOLS.md": "t"})
		want := agentctx.LoadWorkspace(root.FS())
		l := agentctx.Loader{Cache: &agentctx.Cache{}}
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				r := agentctx.LoadRequest{Session: mainKey, Workspace: root.FS()}
				assert.Equal(t, want, l.Load(r))
			})
		}
		wg.Wait()
	}},
	{
		id: "W18", given: "a sub-agent, cron, a chat, none", expect: "few, few, all, all",
		differs: "what has no key, or a text that is none, is trusted least", run: func(t *testing.T) {
			worker := agentctx.WorkerSpec().Files
			for _, few := range []string{
				"agent:default:subagent:t", "agent:default:cron:d", "agent:default:chat:main", "",
			} {
				assert.Equal(t, worker, seen(few), "%q", few)
			}
			for _, all := range []string{"agent:default:main", "agent:default:chat:direct:main"} {
				assert.Equal(t, agentctx.CoreFiles(), seen(all), "%q", all)
			}
		},
	},
	{id: "W19", given: "the word spawn", expect: "few", run: func(t *testing.T) {
		assert.Equal(t, []string{"AGENTS.md", "TOOLS.md"}, seen("agent:main:spawn:x"))
	}},
	{
		id: "W20", given: "a heartbeat, or cron, with little context", expect: "HEARTBEAT.md, none",
		differs: "there is no mode of it: a program names the files in the Spec",
		run: func(t *testing.T) {
			cron := session.Must(session.CronKey("main", "d"))
			for _, c := range []struct {
				key  session.Key
				only []string
			}{{mainKey, []string{"HEARTBEAT.md"}}, {cron, []string{}}} {
				files := agentctx.Loader{}.Load(agentctx.LoadRequest{
					Session: c.key, Workspace: coreWorkspace(), Spec: agentctx.Spec{Files: c.only},
				})
				assert.Equal(t, c.only, fileNames(files))
			}
		},
	},
	{
		id: "W21", given: "files of a hook without a name", expect: "dropped, a warning each",
		differs: "the report of the prompt has each of them, without its text",
		run:     TestBadNamesOfHooksAreReported,
	},
	{
		id: "W22", given: "a hook shows a sub-agent MEMORY.md", expect: "dropped",
		run: TestHooksComeBeforeTheFilter,
	},
}

// Every row of the reference is driven against the public API, in its order.
func TestWorkspaceCases(t *testing.T) {
	runNumbered(t, "W", 22, append(append(append([]numberedCase{}, readCases...), seedCases...),
		filterCases...))
}
