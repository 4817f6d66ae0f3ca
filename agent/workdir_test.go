package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	agentctx "github.com/offshoot-sdk/offshoot/context"
	"github.com/offshoot-sdk/offshoot/internal/text"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// makeTree makes directories and files below a new directory, and returns its path without links.
// A path that ends with a slash is a directory. One with " -> " is a link.
func makeTree(t testing.TB, paths ...string) string {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	for _, p := range paths {
		name, target, link := strings.Cut(p, " -> ")
		at := filepath.Join(base, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(at), 0o755))
		switch {
		case link:
			require.NoError(t, os.Symlink(strings.ReplaceAll(target, "BASE", base), at))
		case strings.HasSuffix(p, "/"):
			require.NoError(t, os.MkdirAll(at, 0o755))
		default:
			require.NoError(t, os.WriteFile(at, []byte("This is "+name+"."), 0o644))
		}
	}
	return base
}

// dirBot answers with the directory of each turn, and notes its prompt.
type dirBot struct {
	mu      sync.Mutex
	prompts map[string]string // of the last turn, by directory
}

func (b *dirBot) Run(_ context.Context, tn *agent.Turn) (agent.Result, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.prompts == nil {
		b.prompts = make(map[string]string)
	}
	b.prompts[tn.Dir] = tn.Prompt.String()
	return textResult("in " + filepath.ToSlash(tn.Dir))
}

// dirsConfig is that of a bot whose agents have work directories below base, but for agent none.
func dirsConfig(base string) agent.Config {
	return agent.Config{
		Runner: &dirBot{},
		Rules:  policy.Rules{Agents: agentsAllowing([]string{"*"}, "coder", "none")},
		WorkDir: func(id string) string {
			if id == "none" {
				return ""
			}
			return filepath.Join(base, id)
		},
	}
}

// A session works in the work directory of its own agent, whichever session has spawned it, or in
// the directory inside that was asked for. The turn, and each tool, are told which that is.
func TestTurnHasADirectory(t *testing.T) {
	base := makeTree(t, "main/", "coder/app/AGENTS.md", "coder/current -> app", "elsewhere/",
		"coder/round -> BASE/coder/app")
	cfg := dirsConfig(base)
	agenttest.Run(t, cfg, nil, func(h *harness) {
		h.Post("hello")
		h.Pass(time.Minute)
		h.Replied("in " + base + "/main")
		for name, c := range map[string]struct {
			task agent.Task
			want string
		}{
			"own":             {agent.Task{}, base + "/main"},
			"another agent's": {agent.Task{Agent: "coder"}, base + "/coder"},
			"none":            {agent.Task{Agent: "none"}, ""},
			"relative":        {agent.Task{Agent: "Coder", Dir: "app"}, base + "/coder/app"},
			"with a dot":      {agent.Task{Agent: "coder", Dir: "./x/../app/"}, base + "/coder/app"},
			"itself":          {agent.Task{Agent: "coder", Dir: "."}, base + "/coder"},
			"absolute": {
				agent.Task{Agent: "coder", Dir: base + "/coder/app"}, base + "/coder/app",
			},
			"a link":           {agent.Task{Agent: "coder", Dir: "current"}, base + "/coder/app"},
			"an absolute link": {agent.Task{Agent: "coder", Dir: "round"}, base + "/coder/app"},
		} {
			c.task.Text = name
			child, err := agent.Spawn[string](h.Context(), h.Main(), c.task)
			require.NoError(h.T(), err, name)
			got, err := child.Wait(h.Context())
			require.NoError(h.T(), err, name)
			require.Equal(h.T(), "in "+c.want, got, name)
		}
	})
}

// badDirs are directories that a task cannot have, with a part of the reason and its kind.
var badDirs = map[string]struct {
	dir, reason string
	kind        error
}{
	"above":              {"..", "leads out", agent.ErrDirOutside},
	"above and beside":   {"../elsewhere", "leads out", agent.ErrDirOutside},
	"above by a detour":  {"app/../../elsewhere", "leads out", agent.ErrDirOutside},
	"absolute":           {"/", "is an absolute path", agent.ErrDirOutside},
	"a common beginning": {"BASE/coder2", "is an absolute path", agent.ErrDirOutside},
	"absolute, above":    {"BASE/coder/../elsewhere", "absolute path", agent.ErrDirOutside},
	"a link out":         {"out", "through a link", agent.ErrDirOutside},
	"below a link out":   {"out/deep", "through a link", agent.ErrDirOutside},
	"absent behind one":  {"out/nowhere", "through a link", agent.ErrDirOutside},
	"a link out to none": {"hollow", "through a link", agent.ErrDirOutside},
	"a file outside":     {"out/file", "through a link", agent.ErrDirOutside},
	"an absolute link":   {"far", "through a link", agent.ErrDirOutside},
	"a link to a link":   {"twice", "through a link", agent.ErrDirOutside},
	"a link to itself":   {"loop", "go in a circle", agent.ErrNotDir},
	"a link to nothing":  {"dangling", "to what does not exist", fs.ErrNotExist},
	"a link to a file":   {"page", "is not a directory", agent.ErrNotDir},
	"a file":             {"app/AGENTS.md", "is not a directory", agent.ErrNotDir},
	"below a file":       {"app/AGENTS.md/x", "is not a directory", agent.ErrNotDir},
	"absent":             {"nowhere", "does not exist", fs.ErrNotExist},
	"absent, absolute":   {"BASE/coder/nowhere", "does not exist", fs.ErrNotExist},
	"lines":              {"a\nb", "is not a path", fs.ErrInvalid},
	"a zero byte":        {"a\x00b", "is not a path", fs.ErrInvalid},
	"not UTF-8":          {"a\xffb", "is not a path", fs.ErrInvalid},
}

// makeBadDirs makes the directories of badDirs.
func makeBadDirs(t testing.TB) string {
	return makeTree(t, "main/", "coder/app/AGENTS.md", "coder2/", "elsewhere/deep/", "elsewhere/file",
		"coder/hollow -> ../elsewhere/nowhere", "coder/page -> app/AGENTS.md",
		"coder/out -> ../elsewhere", "coder/far -> BASE/elsewhere", "coder/twice -> out",
		"coder/loop -> loop", "coder/dangling -> nothing")
}

// A path that no system of ours takes is refused for its length, whatever it would lead to and
// whichever agent it is for. It is a *DirError as every other one, also in a preview.
func TestDirThatIsTooLong(t *testing.T) {
	cfg := dirsConfig(makeBadDirs(t))
	agenttest.Run(t, cfg, nil, func(h *harness) {
		for _, size := range []int{4097, 6000, 11 << 20} {
			for name, agentOf := range map[string]string{
				"coder": "coder", " Coder ": "coder", "": "main", "none": "none",
			} {
				task := agent.Task{Text: "x", Agent: name, Dir: strings.Repeat("x", size)}
				_, err := agent.Spawn[string](h.Context(), h.Main(), task)
				_, preview := cfg.ChildInput(h.Context(), h.Main().Key(), task)
				for _, err := range []error{err, preview} {
					long, ok := errors.AsType[*agent.LimitError](err)
					require.True(h.T(), ok, "%v", err)
					require.Equal(h.T(), agent.LimitError{
						Field: "Task.Dir", Size: size, Limit: 4096, Unit: "bytes", Path: "Config.WorkDir",
					}, *long)
					bad, ok := errors.AsType[*agent.DirError](err)
					require.True(h.T(), ok, "%v", err)
					require.Equal(h.T(), agentOf, bad.Agent)
					require.Len(h.T(), bad.Dir, len(task.Dir))
					require.ErrorIs(h.T(), err, fs.ErrInvalid)
					require.ErrorContains(h.T(), err, "Task.Dir: it has")
					require.Less(h.T(), len(err.Error()), 200)
				}
			}
		}
		require.Empty(h.T(), h.Runs())
	})
}

// A directory that leads out of the work directory, links included, or that is not one, is refused
// before anything exists, from Go and from a model. The reason says nothing of what is outside.
func TestDirThatIsRefused(t *testing.T) {
	base := makeBadDirs(t)
	cfg := dirsConfig(base)
	agenttest.Run(t, cfg, nil, func(h *harness) {
		for name, c := range badDirs {
			dir := strings.ReplaceAll(c.dir, "BASE", base)
			_, err := agent.Spawn[string](h.Context(), h.Main(), agent.Task{
				Text: "x", Agent: "coder", Dir: dir, Key: name,
			})
			bad, ok := errors.AsType[*agent.InputError](err)
			require.True(h.T(), ok, "%s: %v", name, err)
			require.Equal(h.T(), "Task.Dir", bad.Field, name)
			require.Contains(h.T(), bad.Reason, c.reason, name)
			require.ErrorIs(h.T(), err, c.kind, name)
			refused, ok := errors.AsType[*agent.DirError](err)
			require.True(h.T(), ok, name)
			require.Equal(h.T(), []string{dir, "coder"}, []string{refused.Dir, refused.Agent}, name)
			given, rule, ok := strings.Cut(bad.Reason, ": want ")
			require.True(h.T(), ok, bad.Reason)
			require.Contains(h.T(), rule, `inside the work directory of agent "coder" (Config.WorkDir)`)
			require.True(h.T(), strings.HasPrefix(given, text.Quote(dir)+" "), given)
			said := strings.TrimPrefix(bad.Reason, text.Quote(dir))
			require.NotContains(h.T(), said, base, name)
			require.NotContains(h.T(), said, "elsewhere", name)
			_, preview := cfg.ChildInput(h.Context(), h.Main().Key(), agent.Task{
				Text: "x", Agent: "coder", Dir: dir,
			})
			seen, ok := errors.AsType[*agent.DirError](preview)
			require.True(h.T(), ok, "%s: %v", name, preview)
			require.Equal(h.T(), refused, seen, name)
			args, err := json.Marshal(map[string]string{"task": "x", "agentId": "coder", "cwd": dir})
			require.NoError(h.T(), err)
			_, err = callTool(h, "sessions_spawn", name, string(args))
			told, ok := errors.AsType[*agent.ArgumentError](err)
			require.True(h.T(), ok, "%s: %v", name, err)
			require.Equal(h.T(), "cwd", told.Argument, name)
			if utf8.ValidString(dir) { // else JSON has another one
				require.Contains(h.T(), told.Reason, c.reason, name)
			}
		}
		_, err := agent.Spawn[string](h.Context(), h.Main(), agent.Task{
			Text: "x", Agent: "none", Dir: "app",
		})
		require.ErrorContains(h.T(), err, `"app" cannot be given, since agent "none" has no work`)
		require.ErrorIs(h.T(), err, agent.ErrNoWorkDir)
		_, err = agent.Spawn[string](h.Context(), h.Main(), agent.Task{
			Text: "x", Agent: "stranger", Dir: "..",
		})
		refused, ok := errors.AsType[*policy.Refusal](err)
		require.True(h.T(), ok, "a rule refuses first: %v", err)
		require.Equal(h.T(), policy.RuleTarget, refused.Rule)
		require.Empty(h.T(), h.Runs())
	})
}

// A link that leads elsewhere since the spawn, and a directory that is gone, fail the turn, and the
// Runner is not called.
func TestDirThatHasChanged(t *testing.T) {
	for name, change := range map[string]func(base string) error{
		"gone": func(base string) error { return os.RemoveAll(base + "/coder/app") },
		"a link out": func(base string) error {
			return errors.Join(os.RemoveAll(base+"/coder/app"),
				os.Symlink(base+"/elsewhere", base+"/coder/app"))
		},
		"no work directory": func(base string) error { return os.RemoveAll(base + "/coder") },
	} {
		t.Run(name, func(t *testing.T) {
			base := makeBadDirs(t)
			cfg := dirsConfig(base)
			agenttest.Run(t, cfg, nil, func(h *harness) {
				child, err := agent.Spawn[string](h.Context(), h.Main(), agent.Task{
					Text: "x", Agent: "coder", Dir: "app",
				})
				require.NoError(t, err)
				_, err = child.Wait(h.Context())
				require.NoError(t, err)
				require.NoError(t, change(base))
				again, err := child.Post(h.Context(), agent.Incoming{Text: "go on"})
				require.NoError(t, err)
				_, err = again.Wait(h.Context())
				failed, ok := errors.AsType[*agent.RunError](err)
				require.True(t, ok, "%v", err)
				require.Equal(t, spawn.StatusFailed, failed.Run.Status)
				require.Contains(t, failed.Run.Error, "has no directory to work in")
			})
		})
	}
}

// What a path led to at the spawn is where the sub-agent works: over every crash, in its later
// runs, and when the link that was named leads elsewhere inside.
func TestDirLastsOverCrashes(t *testing.T) {
	base := makeTree(t, "main/", "coder/one/", "coder/two/", "coder/now -> one")
	cfg := dirsConfig(base)
	agenttest.EveryCrash(t, cfg, nil, func(h *harness) {
		_ = os.Remove(base + "/coder/now")
		require.NoError(h.T(), os.Symlink("one", base+"/coder/now"))
		task := agent.Task{Text: "x", Label: "kid", Agent: "coder", Dir: "now", Key: "k"}
		require.NoError(h.T(), h.Do(func(rt *agent.Runtime) error {
			_, err := agent.Spawn[string](h.Context(), rt.Session(topKey), task)
			return err
		}))
		require.NoError(h.T(), os.Remove(base+"/coder/now"))
		require.NoError(h.T(), os.Symlink("two", base+"/coder/now"))
		h.Pass(time.Minute)
		key := h.Child("kid").Key
		require.NoError(h.T(), h.Do(func(rt *agent.Runtime) error {
			_, err := rt.Session(key).Post(h.Context(), agent.Incoming{ID: "1", Text: "go on"})
			return err
		}))
		h.Pass(time.Minute)
		if run := h.Child("kid"); run.Status == spawn.StatusOK {
			require.Equal(h.T(), "in "+base+"/coder/one", run.Result.Text)
		}
	})
}

// The same Key gives the same child, also when its directory is gone. With another directory it is
// another task.
func TestDirOfAKey(t *testing.T) {
	base := makeTree(t, "main/app/", "main/other/")
	agenttest.Run(t, dirsConfig(base), nil, func(h *harness) {
		task := agent.Task{Text: "x", Key: "k", Dir: "app/"}
		first, err := agent.Spawn[string](h.Context(), h.Main(), task)
		require.NoError(t, err)
		require.NoError(t, os.RemoveAll(base+"/main/app"))
		task.Dir = "./app"
		second, err := agent.Spawn[string](h.Context(), h.Main(), task)
		require.NoError(t, err)
		require.Equal(t, first.ID(), second.ID())
		task.Dir = "other"
		_, err = agent.Spawn[string](h.Context(), h.Main(), task)
		require.ErrorIs(t, err, agent.ErrKeyConflict)
	})
}

// C16: the AGENTS.md of the directory is in the prompt, behind that of the workspace, and Config
// and turn have the same. A link in it that leads out is not read.
func TestInstructionsOfTheDirectory(t *testing.T) {
	base := makeTree(t, "main/", "coder/app/AGENTS.md", "coder/same/", "secret/AGENTS.md",
		"coder/sly/AGENTS.md -> ../../secret/AGENTS.md")
	require.NoError(t, os.WriteFile(base+"/coder/same/AGENTS.md", []byte("Be kind."), 0o644))
	bot := &dirBot{}
	cfg := dirsConfig(base)
	cfg.Runner = bot
	cfg.Workspace = fstest.MapFS{"AGENTS.md": {Data: []byte("Be kind.")}}
	cfg.Now = func() time.Time { return time.Time{} }
	const heading = "(cwd)/AGENTS.md"
	for dir, want := range map[string]bool{"app": true, "same": false, "sly": false, "": false} {
		task := agent.Task{Text: "x", Agent: "coder", Dir: dir}
		agenttest.Run(t, cfg, nil, func(h *harness) {
			child, err := agent.Spawn[string](h.Context(), h.Main(), task)
			require.NoError(t, err)
			_, err = child.Wait(h.Context())
			require.NoError(t, err)
			prompt := bot.prompts[filepath.Join(base, "coder", dir)]
			require.Contains(t, prompt, "Be kind.")
			require.Equal(t, want, strings.Contains(prompt, heading), prompt)
			require.Equal(t, want, strings.Contains(prompt, "This is coder/app/AGENTS.md."))
			require.NotContains(t, prompt, "secret")
			in, err := cfg.ChildInput(t.Context(), topKey, task)
			require.NoError(t, err)
			in.Session, in.Subagent.Requester = child.Key(), topKey
			require.Equal(t, agentctx.Assemble(in).String(), prompt)
		})
	}
}

// An AGENTS.md of the directory that is there and cannot be in the prompt is logged, once for each
// directory and reason, and stands in the report of each prompt. One that is not there is not.
func TestInstructionsThatAreLeftOut(t *testing.T) {
	base := makeTree(t, "main/", "coder/none/", "coder/good/AGENTS.md", "secret/AGENTS.md",
		"coder/out/AGENTS.md -> ../../secret/AGENTS.md", "coder/binary/", "coder/large/",
		"coder/linked/", "coder/dir/AGENTS.md/")
	require.NoError(t, os.Link(base+"/secret/AGENTS.md", base+"/coder/linked/AGENTS.md"))
	require.NoError(t, os.WriteFile(base+"/coder/binary/AGENTS.md", []byte{0xff, 'x'}, 0o644))
	require.NoError(t, os.WriteFile(base+"/coder/large/AGENTS.md", make([]byte, 2<<20+1), 0o644))
	var log strings.Builder
	var mu sync.Mutex
	reports := make(map[string]agentctx.Reason)
	cfg := dirsConfig(base)
	cfg.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	cfg.Runner = agent.RunnerFunc(func(_ context.Context, tn *agent.Turn) (agent.Result, error) {
		mu.Lock()
		defer mu.Unlock()
		for _, f := range tn.Prompt.Files {
			if f.Name == agentctx.ExecutionFile {
				reports[filepath.Base(tn.Dir)] = f.Reason
			}
		}
		return textResult("ok")
	})
	said := func(dir, why string) int {
		n := 0
		for line := range strings.Lines(log.String()) {
			if strings.Contains(line, "AGENTS.md of a directory is left out") &&
				strings.Contains(line, "level=WARN") && strings.Contains(line, "coder/"+dir+" ") &&
				strings.Contains(line, why) {
				n++
			}
		}
		return n
	}
	agenttest.Run(t, cfg, nil, func(h *harness) {
		work := func(dir string) {
			child, err := agent.Spawn[string](h.Context(), h.Main(), agent.Task{
				Text: "x", Agent: "coder", Dir: dir,
			})
			require.NoError(t, err)
			_, err = child.Wait(h.Context())
			require.NoError(t, err)
		}
		bad := map[string]agentctx.Reason{
			"out": agentctx.ReasonOutside, "binary": agentctx.ReasonNotUTF8,
			"large": agentctx.ReasonTooLarge, "linked": agentctx.ReasonLinked,
			"dir": agentctx.ReasonNotRegular,
		}
		for dir, reason := range bad {
			work(dir)
			work(dir)
			require.Equal(t, 1, said(dir, reason.String()), "%s: %s", dir, log.String())
			require.Equal(t, reason, reports[dir], dir)
		}
		for _, dir := range []string{"none", "good"} {
			work(dir)
			require.Zero(t, said(dir, ""), dir)
		}
		require.NoError(t, os.Remove(base+"/coder/binary/AGENTS.md"))
		work("binary")
		require.NoError(t, os.WriteFile(base+"/coder/binary/AGENTS.md", []byte{0xff}, 0o644))
		work("binary")
		require.Equal(t, 2, said("binary", "not UTF-8"), log.String())
		require.NotContains(t, log.String(), "This is")
	})
}

// A WorkDir that misbehaves fails the spawn, the preview and the turn with an error that names it.
func TestWorkDirThatMisbehaves(t *testing.T) {
	for name, c := range map[string]struct {
		dir    func(string) string
		reason string
	}{
		"relative": {func(string) string { return "work" }, "not an absolute path"},
		"absent":   {func(string) string { return "/nowhere/at/all" }, "not a directory"},
		"panics":   {func(string) string { panic("oh no") }, "oh no"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := agent.Config{Runner: &dirBot{}, WorkDir: c.dir}
			_, err := cfg.Input(t.Context(), topKey)
			require.ErrorContains(t, err, c.reason)
			agenttest.Run(t, cfg, nil, func(h *harness) {
				_, err := agent.Spawn[string](h.Context(), h.Main(), agent.Task{
					Text: "x", Dir: "y",
				})
				bad, ok := errors.AsType[*agent.CallbackError](err)
				require.True(t, ok, "%v", err)
				require.Equal(t, "WorkDir", bad.Field)
				child, err := agent.Spawn[string](h.Context(), h.Main(), agent.Task{Text: "x"})
				require.NoError(t, err)
				_, err = child.Wait(h.Context())
				require.ErrorContains(t, err, "agent: WorkDir: ")
				require.ErrorContains(t, err, c.reason)
			})
		})
	}
}

// A model of a bot without work directories is told so, and is not offered the argument.
func TestCwdWithoutAWorkDir(t *testing.T) {
	offered := func(h *harness) string {
		return string(findTool(h.T(), h.Main().Tools(), "sessions_spawn").Schema)
	}
	agenttest.Run(t, agent.Config{Runner: &dirBot{}}, nil, func(h *harness) {
		require.NotContains(t, offered(h), `"cwd"`)
		_, err := callTool(h, "sessions_spawn", "1", `{"task":"x","cwd":"app"}`)
		require.ErrorContains(t, err, "name the directory in the task instead")
	})
	agenttest.Run(t, dirsConfig(makeTree(t, "main/")), nil, func(h *harness) {
		require.Contains(t, offered(h), `"cwd"`)
	})
}

// A tool is told where it works.
func TestToolIsToldItsDirectory(t *testing.T) {
	base := makeTree(t, "main/")
	cfg := dirsConfig(base)
	cfg.Runner = nil
	cfg.Tools = []agent.Tool{{Name: "where", Call: textCall(
		func(ctx context.Context, _ agent.ToolCall) (string, error) {
			caller, _ := agent.CallerOf(ctx)
			return caller.Dir, nil
		})}}
	agenttest.Run(t, cfg, script{"main": {call("where", `{}`), echo()}}, func(h *harness) {
		h.Post("where?")
		h.Pass(time.Minute)
		h.Told("main", filepath.Join(base, "main"))
	})
}
