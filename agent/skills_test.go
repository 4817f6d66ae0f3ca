package agent_test

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	agentctx "github.com/offshoot-sdk/offshoot/context"
	"github.com/offshoot-sdk/offshoot/context/contexttest"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
)

func skillFile(name, description, more string) *fstest.MapFile {
	return &fstest.MapFile{Data: []byte(
		"---\nname: " + name + "\ndescription: " + description + "\n" + more + "\n---\n",
	)}
}

// skillFiles returns the skills alpha and beta, and gamma, which needs a program.
func skillFiles() fstest.MapFS {
	return fstest.MapFS{
		"alpha/SKILL.md": skillFile("alpha", "one", ""),
		"beta/SKILL.md":  skillFile("beta", "one", ""),
		"gamma/SKILL.md": skillFile("gamma", "one",
			`metadata: {"openclaw": {"requires": {"bins": ["no-such-program"]}}}`),
	}
}

// listedSkills returns the names that the prompt of a session lists.
func listedSkills(p agentctx.Prompt) string {
	var names []string
	for _, f := range p.Skills {
		if f.Shown() {
			names = append(names, f.Name)
		}
	}
	return strings.Join(names, " ")
}

// C3, SK3: the filter of an agent, and what the Spec of a sub-agent names, hold in the prompt, for
// commands and for the directory of a sandbox, of every kind of session. It is what Config.Input
// and Config.Skills say.
func TestSkillsThatSessionsSee(t *testing.T) {
	names := func(list ...string) []string { return append([]string{}, list...) }
	for name, c := range map[string]struct {
		filter []string // of both agents
		top    []string // Prompts.Input.Spec.Skills
		child  []string // what the Spec of the child names
		want   map[string]string
	}{
		"no filter":          {nil, nil, nil, map[string]string{"": "alpha beta"}},
		"none":               {names(), nil, names("*"), map[string]string{}},
		"a list":             {names("beta", "unknown"), nil, nil, map[string]string{"": "beta"}},
		"a spec and a list":  {names("beta"), names("alpha", "beta"), nil, map[string]string{"": "beta"}},
		"a spec":             {nil, names("alpha"), nil, map[string]string{"": "alpha"}},
		"a child that names": {nil, names(), names("alpha"), map[string]string{"child": "alpha"}},
		"a child that names all": {
			names("beta"), nil, names("*"), map[string]string{"": "beta", "child": "beta"},
		},
		"a child that names none": {nil, nil, names(), map[string]string{"": "alpha beta"}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := agent.Config{
				Tools: toolbox("read"),
				Prompts: agent.Prompts{
					Skills: []agentctx.SkillSource{{FS: skillFiles(), Path: "skills"}},
					Input:  agentctx.Input{Spec: agentctx.Spec{Skills: c.top}},
				},
				Rules: policy.Rules{Agents: []policy.Agent{{ID: "main", Skills: c.filter}}},
			}
			seen := make(map[string]string)
			cfg.Runner = agent.RunnerFunc(func(
				_ context.Context, tn *agent.Turn,
			) (agent.Result, error) {
				seen[tn.Label] = listedSkills(tn.Prompt)
				require.Equal(t, seen[tn.Label], usableSkills(t, tn.Skills))
				return textResult("ok")
			})
			cron := session.Must(session.CronKey("main", "daily"))
			agenttest.Run(t, cfg, nil, func(h *harness) {
				h.Post("hello")
				synctest.Wait()
				_, err := agent.Spawn[string](h.Context(), h.Main(), agent.Task{
					Text: "work", Label: "child", Spec: agentctx.Spec{Skills: c.child},
				})
				require.NoError(t, err)
				synctest.Wait()
				main := h.Main().Key()
				require.Equal(t, seen[""], listedSkills(agentctx.Assemble(inputOf(t, cfg, main))))
				require.Equal(t, seen[""], usableSkills(t, cfg.Skills(main)))
				h.PostTo(cron, "go")
				synctest.Wait()
				if c.top == nil {
					require.Empty(t, seen[""], "cron is a worker")
				}
				seen[""] = listedSkills(agentctx.Assemble(inputOf(t, cfg, main)))
			})
			require.Equal(t, map[string]string{"": c.want[""], "child": c.want["child"]}, seen)
		})
	}
}

// usableSkills returns the skills of which a sandbox gets copies, which are those that have
// commands.
func usableSkills(t *testing.T, s agentctx.SkillSnapshot) string {
	t.Helper()
	root, err := os.OpenRoot(t.TempDir())
	require.NoError(t, err)
	defer root.Close() //nolint:errcheck // of a test
	problems, err := agentctx.SyncSkills(root, s)
	require.NoError(t, err)
	require.Empty(t, problems)
	entries, err := os.ReadDir(root.Name())
	require.NoError(t, err)
	var copied, commands []string
	for _, e := range entries {
		if e.IsDir() {
			copied = append(copied, e.Name())
		}
	}
	for _, c := range s.Commands() {
		commands = append(commands, c.Skill)
	}
	require.Equal(t, copied, commands)
	return strings.Join(copied, " ")
}

// C3: a session lists the skills of its first turn in every later one, as they were, also while
// other sessions begin with others. The next process lists the same ones, as they are then.
func TestSkillsOfASessionStay(t *testing.T) {
	files := skillFiles()
	cfg := agent.Config{Tools: toolbox("read"), Prompts: agent.Prompts{
		Skills: []agentctx.SkillSource{{FS: files, Path: "skills"}},
	}}
	var said agentctx.Prompt
	cfg.Runner = agent.RunnerFunc(func(_ context.Context, tn *agent.Turn) (agent.Result, error) {
		said = tn.Prompt
		return textResult("ok")
	})
	other := session.Must(session.DirectKey("main", "telegram", "7"))
	agenttest.Run(t, cfg, nil, func(h *harness) {
		ask := func(key session.Key) (list, text string) {
			h.PostTo(key, "hello")
			synctest.Wait()
			skills, _ := said.Section(agentctx.SectionSkills)
			return listedSkills(said), skills.Text
		}
		list, text := ask(h.Main().Key())
		require.Equal(t, "alpha beta", list)
		files["alpha/SKILL.md"] = skillFile("alpha", "two words", "")
		files["delta/SKILL.md"] = skillFile("delta", "new", "")
		_, again := ask(h.Main().Key())
		require.Equal(t, text, again, "nothing is looked at while a session goes on")

		list, _ = ask(other)
		require.Equal(t, "alpha beta delta", list, "the sources are looked at when one begins")
		_, again = ask(h.Main().Key())
		require.Equal(t, text, again, "the same bytes, for the provider's cache")

		h.Crash()
		list, again = ask(h.Main().Key())
		require.Equal(t, "alpha beta", list)
		require.Equal(t, strings.Replace(text, ">one<", ">two words<", 1), again)

		delete(files, "beta/SKILL.md")
		h.Crash()
		list, _ = ask(h.Main().Key())
		require.Equal(t, "alpha", list, "one that is gone is left out")
		i := slices.IndexFunc(said.Skills, func(f agentctx.FileReport) bool {
			return f.Name == "beta"
		})
		require.Equal(t, agentctx.ReasonAbsent, said.Skills[i].Reason)
		contexttest.Complete(t, said)
	})
}

// C3: a session that began before its bot had skills takes them at its next turn. The directory of
// an earlier version has such sessions.
func TestSkillsOfAnOlderSession(t *testing.T) {
	store := session.NewMemory()
	synctest.Test(t, func(t *testing.T) {
		var said agentctx.Prompt
		cfg := configWith(func(_ context.Context, tn *agent.Turn) (agent.Result, error) {
			said = tn.Prompt
			return textResult("ok")
		})
		cfg.Store, cfg.Tools = store, toolbox("read")
		for _, want := range []string{"", "alpha beta", ""} {
			rt, err := agent.Open(t.Context(), cfg)
			require.NoError(t, err)
			ran := make(chan error, 1)
			go func() { ran <- rt.Run(context.WithoutCancel(t.Context())) }()
			require.NoError(
				t, errorOf(rt.Session(topKey).Post(t.Context(), agent.Incoming{Text: "hello"})),
			)
			synctest.Wait()
			require.Equal(t, want, listedSkills(said))
			require.NoError(t, rt.Shutdown(t.Context()))
			require.NoError(t, <-ran)
			cfg.Prompts.Skills = []agentctx.SkillSource{{FS: skillFiles()}}
			if want != "" {
				cfg.Prompts.Skills = nil
			}
		}
	})
}

// C3: each SKILL.md that is passed over is in the log, once for each reason, and in the account of
// the prompt, which contexttest looks at.
func TestBrokenSkillsAreReported(t *testing.T) {
	files := skillFiles()
	files["mute/SKILL.md"] = &fstest.MapFile{Data: []byte("---\nname: mute\n---\n")}
	var log bytes.Buffer
	cfg := agent.Config{
		Tools:  toolbox("read"),
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
		Prompts: agent.Prompts{Skills: []agentctx.SkillSource{
			{FS: files, Path: "skills", Origin: agentctx.SkillWorkspace},
			{FS: skillFiles(), Path: "bundled", Origin: agentctx.SkillBundled}, // repeated
		}},
	}
	const why = "the front matter has no description"
	var said agentctx.Prompt
	cfg.Runner = agent.RunnerFunc(func(_ context.Context, tn *agent.Turn) (agent.Result, error) {
		said = tn.Prompt
		return textResult("ok")
	})
	agenttest.Run(t, cfg, nil, func(h *harness) {
		for i, id := range []string{"1", "2", "3", "4"} {
			if i == 2 {
				files["mute/SKILL.md"].Data = []byte("# no head")
			}
			h.PostTo(session.Must(session.DirectKey("main", "telegram", id)), "hello")
			synctest.Wait()
		}
	})
	require.Equal(t, 2, strings.Count(log.String(), "a skill was passed over"), log.String())
	require.Equal(t, 1, strings.Count(log.String(), why), log.String())
	require.Contains(t, log.String(), "skills/mute/SKILL.md")
	require.Contains(t, said.Report(), "there is no front matter")
	require.Contains(t, said.Report(), `needs the program "no-such-program"`)
	failed := &failures{TB: t}
	contexttest.Complete(failed, said)
	require.Len(t, failed.texts, 1)
	require.Contains(t, failed.texts[0], "mute/SKILL.md: there is no front matter")
}

// failures keeps what a test would have failed with.
type failures struct {
	testing.TB

	texts []string
}

func (f *failures) Errorf(format string, args ...any) {
	f.texts = append(f.texts, fmt.Sprintf(format, args...))
}

func (f *failures) Helper() {}

// A sharedFS is a file system that changes while a process reads it.
type sharedFS struct {
	mu    sync.Mutex
	files fstest.MapFS
}

func (f *sharedFS) Open(name string) (fs.File, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.files.Open(name)
}

func (f *sharedFS) set(files fstest.MapFS) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.files = files
}

// C3: wherever the process dies, a session that has answered with its skills keeps them.
func TestEveryCrashWithSkills(t *testing.T) {
	disk := new(sharedFS)
	cfg := agent.Config{Tools: toolbox("read"), Prompts: agent.Prompts{
		Skills: []agentctx.SkillSource{{FS: disk, Path: "skills"}},
	}}
	cfg.Runner = agent.RunnerFunc(func(_ context.Context, tn *agent.Turn) (agent.Result, error) {
		return textResult("I have " + listedSkills(tn.Prompt))
	})
	agenttest.EveryCrash(t, cfg, nil, func(h *harness) {
		disk.set(skillFiles())
		h.Post("hello")
		time.Sleep(time.Minute)
		later := skillFiles()
		delete(later, "beta/SKILL.md")
		later["delta/SKILL.md"] = skillFile("delta", "new", "")
		disk.set(later)
		h.PostTo(session.Must(session.DirectKey("main", "telegram", "7")), "hello")
		time.Sleep(time.Minute)
		h.Post("again")
		time.Sleep(time.Minute)
		for i, d := range h.Replies() {
			want := []string{"I have alpha beta", "I have alpha delta", "I have alpha"}[min(i, 2)]
			require.Equal(h.T(), want, d.Reply.Text)
		}
	})
}

// C3: what is surely wrong with skills is an error of Open.
func TestSkillsThatOpenRefuses(t *testing.T) {
	cfg := configAnswering(asText)
	cfg.Prompts.Input.Skills = []agentctx.Skill{{Name: "x"}}
	cfg.Prompts.Skills = []agentctx.SkillSource{{}, {Origin: 99}}
	_, err := agent.Open(t.Context(), cfg)
	require.ErrorContains(t, err, "Prompts.Input.Skills: ")
	require.ErrorContains(t, err, "Prompts.Skills[1].Origin: ")
}
