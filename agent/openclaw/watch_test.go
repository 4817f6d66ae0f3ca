package openclaw_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	agentctx "github.com/offshoot-sdk/offshoot/context"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent/openclaw"
)

// replace puts a text in the place of a file, as editors do.
func replace(t *testing.T, file, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(file+".new", []byte(text), 0o600))
	require.NoError(t, os.Rename(file+".new", file))
}

// overwrite writes a text into a file that is there.
func overwrite(t *testing.T, file, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
}

// readings collects what a Watch tells, as one line each.
type readings struct {
	mu    sync.Mutex
	lines []string
}

func (r *readings) tell(x openclaw.Reading) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if x.Err != nil {
		r.lines = append(r.lines, "error: "+x.Err.Error())
		return
	}
	line := "text:"
	for _, c := range x.Changes {
		line += fmt.Sprintf(" %s %v;", c.Path, c.Effect)
	}
	r.lines = append(r.lines, line)
}

// take returns what was told since the last take.
func (r *readings) take() (lines []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	lines, r.lines = r.lines, nil
	return lines
}

// watched runs f in a bubble, beside a Watch of a file. pass lets so many looks pass.
func watched(
	t *testing.T, file, text string, f func(r *readings, l *openclaw.Live, pass func(looks int)),
) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		overwrite(t, file, text)
		res, err := openclaw.Load(t.Context(), file, nowhere())
		require.NoError(t, err)
		live, told := res.Live(), new(readings)
		ctx, end := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- live.Watch(ctx, 0, told.tell) }()
		synctest.Wait()
		f(told, live, func(looks int) {
			time.Sleep(time.Duration(looks) * openclaw.DefaultWatchInterval)
			synctest.Wait()
		})
		end()
		require.NoError(t, <-done)
	})
}

// Watch finds every change of its file, however it comes about, and takes nothing that is half
// written, wrong or away for a change.
func TestWatch(t *testing.T) {
	file := filepath.Join(t.TempDir(), "openclaw.json")
	const (
		one = `{agents: {defaults: {bootstrapMaxChars: 100}}}`
		two = `{agents: {defaults: {bootstrapMaxChars: 200, subagents: {maxSpawnDepth: 2}}}}`
	)
	watched(t, file, one, func(r *readings, l *openclaw.Live, pass func(int)) {
		limit := func() int {
			var cfg agent.Config
			l.Apply(&cfg)
			in := agentctx.Input{Limits: cfg.Prompts.Input.Limits}
			require.NoError(t, cfg.Prompts.Describe(t.Context(), session.Lineage{}, &in))
			return in.Limits.File
		}
		pass(5)
		require.Empty(t, r.take(), "nothing has changed")

		replace(t, file, two)
		require.Equal(t, 100, limit())
		pass(1)
		require.Equal(t, 200, limit())
		changes := "text: agents.defaults.bootstrapMaxChars live; " +
			"agents.defaults.subagents.maxSpawnDepth needs a restart;"
		require.Equal(t, []string{changes}, r.take())
		pass(5)
		require.Empty(t, r.take(), "each text is told once")

		overwrite(t, file, two+" // nothing else")
		pass(1)
		require.Equal(t, []string{"text: agents.defaults.subagents.maxSpawnDepth needs a restart;"},
			r.take(), "what needs a restart is told as long as it waits for that")

		overwrite(t, file, two[:len(two)/2]) // an editor writes
		pass(1)
		require.Empty(t, r.take())
		require.Equal(t, 200, limit())
		overwrite(t, file, two[:len(two)/2+9])
		pass(1)
		require.Empty(t, r.take(), "the writing goes on")
		overwrite(t, file, one)
		pass(1)
		require.Equal(t, []string{"text: agents.defaults.bootstrapMaxChars live;"}, r.take())
		require.Equal(t, 100, limit())

		overwrite(t, file, "{agents: {defaults: {\n  bootstrapMaxChars: 0}, list: 1}}")
		pass(10)
		require.Equal(t, []string{"error: " +
			"openclaw: " + file + ":2:22: agents.defaults.bootstrapMaxChars: it is 0, want an integer, 1 or more\n" +
			"openclaw: " + file + ":2:32: agents.list: it is 1, want a list"}, r.take(), "once")
		require.Equal(t, 100, limit(), "what was in effect stays so")
		overwrite(t, file, "{agents: {defaults: {bootstrapMaxChars: 0}}}")
		pass(2)
		require.Len(t, r.take(), 1, "another mistake")
		overwrite(t, file, one)
		pass(1)
		require.Equal(t, []string{"text:"}, r.take(), "it can be read again")
		require.Equal(t, 100, limit())

		require.NoError(t, os.Rename(file, file+".away"))
		pass(1)
		require.NoError(t, os.Rename(file+".away", file))
		pass(5)
		require.Empty(t, r.take(), "an editor moves files")
		require.NoError(t, os.Remove(file))
		pass(5)
		lines := r.take()
		require.Len(t, lines, 1)
		require.Contains(t, lines[0], "no such file")
		require.Equal(t, 100, limit())
		overwrite(t, file, two)
		pass(1)
		require.Equal(t, []string{changes}, r.take())

		require.NoError(t, os.Remove(file))
		require.NoError(t, os.Mkdir(file, 0o700))
		pass(3)
		lines = r.take()
		require.Len(t, lines, 1, "a directory")
		require.NoError(t, os.Remove(file))
		overwrite(t, file, "{/*"+strings.Repeat("x", 4<<20)+"*/}")
		pass(3)
		require.Equal(t, []string{"error: openclaw: " + file + ":1:1: the file has more than 4194304 bytes"},
			r.take())
		require.Equal(t, 200, limit())
	})
}

// A file that becomes another one of the same size and time is found out, since its content counts.
func TestWatchOfTheSameSizeAndTime(t *testing.T) {
	file := filepath.Join(t.TempDir(), "openclaw.json")
	of := func(n int) string {
		return fmt.Sprintf(`{agents: {defaults: {bootstrapMaxChars: %d}}}`, n)
	}
	watched(t, file, of(100), func(r *readings, _ *openclaw.Live, pass func(int)) {
		now := time.Now()
		old := now.Add(-time.Hour)
		for i, step := range []struct {
			write func(*testing.T, string, string)
			time  time.Time
			name  string
		}{
			{overwrite, now, "written"},
			{overwrite, now, "written again before the clock of the disk goes on"},
			{replace, old, "replaced by an older file"},
			{replace, old, "replaced by another one of the same age"},
			{overwrite, old.Add(-time.Hour), "written and made older"},
			{overwrite, old.Add(-time.Hour), "made longer, at the same age"},
			{overwrite, now.Add(time.Hour), "written by a machine whose clock is ahead"},
			{overwrite, now.Add(time.Hour), "written by that again"},
		} {
			text := of(200 + i)
			if i >= 5 {
				text += " // longer"
			}
			step.write(t, file, text)
			require.NoError(t, os.Chtimes(file, step.time, step.time))
			pass(1)
			require.Len(t, r.take(), 1, step.name)
			if i > 0 {
				pass(3)
				require.Empty(t, r.take(), step.name)
			}
		}
	})
}

// counted counts how often files of a directory are opened.
type counted struct {
	fs.FS
	opened atomic.Int64
}

func (c *counted) Open(name string) (fs.File, error) {
	c.opened.Add(1)
	return c.FS.Open(name)
}

func (c *counted) Stat(name string) (fs.FileInfo, error) { return fs.Stat(c.FS, name) }

// A file that has not changed for a while is not read at each look. That of another file system,
// which does not say which file is which, is.
func TestWatchReadsWhatMayHaveChanged(t *testing.T) {
	dir := t.TempDir()
	overwrite(t, filepath.Join(dir, "a.json"), `{}`)
	for _, row := range []struct {
		files fs.FS
		reads int64
	}{
		{os.DirFS(dir), 2},
		{fstest.MapFS{"a.json": &fstest.MapFile{Data: []byte(`{}`)}}, 102},
	} {
		synctest.Test(t, func(t *testing.T) {
			old := time.Now().Add(-time.Hour)
			require.NoError(t, os.Chtimes(filepath.Join(dir, "a.json"), old, old))
			files := &counted{FS: row.files}
			r, err := openclaw.LoadFS(t.Context(), files, "a.json", nowhere())
			require.NoError(t, err)
			ctx, end := context.WithTimeout(t.Context(), 100*time.Minute+time.Second)
			defer end()
			require.NoError(t, r.Live().Watch(ctx, time.Minute, nil))
			require.Equal(t, row.reads, files.opened.Load())
		})
	}
}

// A Watch whose ctx has ended looks at nothing, and that of a text has nothing to look at.
func TestWatchThatEnds(t *testing.T) {
	ctx, end := context.WithCancel(t.Context())
	end()
	file := filepath.Join(t.TempDir(), "openclaw.json")
	overwrite(t, file, `{}`)
	r, err := openclaw.Load(t.Context(), file, nowhere())
	require.NoError(t, err)
	overwrite(t, file, `{gateway: {}}`)
	tell := func(openclaw.Reading) { t.Error("a look after the end") }
	require.NoError(t, r.Live().Watch(ctx, time.Hour, tell))
	require.ErrorIs(t, parse(t, `{}`).Live().Watch(t.Context(), 0, tell), openclaw.ErrNoFile)
}

// A tell that panics ends Watch with the panic. What it was told is in effect.
func TestWatchWhoseTellPanics(t *testing.T) {
	file := filepath.Join(t.TempDir(), "openclaw.json")
	overwrite(t, file, `{}`)
	res, err := openclaw.Load(t.Context(), file, nowhere())
	require.NoError(t, err)
	overwrite(t, file, `{gateway: {}}`)
	err = res.Live().Watch(t.Context(), time.Hour, func(r openclaw.Reading) {
		require.NoError(t, r.Err)
		panic("no screen")
	})
	p, ok := errors.AsType[*spawn.PanicError](err)
	require.True(t, ok, "%v", err)
	require.Equal(t, "no screen", p.Value)
	require.NotEmpty(t, p.Stack)
}

// A Runtime that runs sees what changes live at the moment at which it asks next, and nothing of
// what needs a restart.
func TestRunningBotSeesChanges(t *testing.T) {
	file, state := filepath.Join(t.TempDir(), "openclaw.json"), t.TempDir()
	keep(t, state, "a", `{"profiles": {"x": {"type": "api_key", "provider": "p", "key": "first"}}}`)
	keep(t, state, "b", `{"profiles": {"y": {"type": "api_key", "provider": "p", "key": "second"}}}`)
	o := nowhere()
	o.StateDir = state
	dir := func(id string) string { return filepath.ToSlash(filepath.Join(state, "agents", id, "agent")) }
	overwrite(t, file, `{
		agents: {
			defaults: {
				models: {"p/one": {}}, model: "p/one", bootstrapMaxChars: 100,
				subagents: {maxChildrenPerAgent: 5},
			},
			list: [{id: "main", agentDir: "`+dir("a")+`"}],
		},
	}`)
	r, err := openclaw.Load(t.Context(), file, o)
	require.NoError(t, err)
	live := r.Live()

	type seen struct {
		key   string
		chars int
	}
	var turns []seen
	cfg := agent.Config{
		Workspace: fstest.MapFS{"AGENTS.md": {Data: []byte(strings.Repeat("x", 1000))}},
		Runner: agent.RunnerFunc(func(ctx context.Context, turn *agent.Turn) (agent.Result, error) {
			if turn.Session.Key.IsSubagent() {
				if strings.Contains(turn.Input(), "linger") {
					<-ctx.Done()
				}
				return agent.Result{Text: "NO_REPLY"}, nil
			}
			x, err := agent.CredentialFor(ctx, "p")
			turns = append(turns, seen{x.Secret.Reveal(), strings.Count(turn.Prompt.String(), "x")})
			return agent.Result{Text: "ok"}, err
		}),
	}
	described := 0
	cfg.Prompts.Describe = func(context.Context, session.Lineage, *agentctx.Input) error {
		described++
		return nil
	}
	live.Apply(&cfg)
	cfg.Workspace = fstest.MapFS{"AGENTS.md": {Data: []byte(strings.Repeat("x", 1000))}}
	agenttest.Run(t, cfg, nil, func(h *agenttest.Harness) {
		told := new(readings)
		ctx, end := context.WithCancel(h.Context())
		live.Follow(h.Runtime(), nil)
		done := make(chan error, 1)
		go func() { done <- live.Watch(ctx, time.Second, told.tell) }()
		spawn := func(task, model string) (runsOn string, err error) {
			t := agent.Task{Text: task, Model: model}
			c, err := agent.Spawn[string](h.Context(), h.Main(), t)
			if err != nil {
				return "", err
			}
			info, err := c.Info(h.Context())
			h.Pass(time.Second)
			return info.Model.Resolved, err
		}
		model := func(asked, want string) {
			t.Helper()
			got, err := spawn("go", asked)
			require.NoError(t, err)
			require.Equal(t, want, got, asked)
		}
		h.Post("one")
		h.Pass(time.Minute)
		model("p/two", "p/one") // since no model is used that may not be asked for

		replace(t, file, `{
			agents: {
				defaults: {
					models: {"p/two": {}}, model: "p/three", bootstrapMaxChars: 400,
					subagents: {maxChildrenPerAgent: 1},
				},
				list: [{id: "main", agentDir: "`+dir("b")+`"}],
			},
		}`)
		h.Pass(2 * time.Second)
		h.Post("two")
		h.Pass(time.Minute)
		model("p/two", "p/two")
		model("p/three", "p/one") // only a change that waits for a restart names it
		_, err := spawn("linger", "")
		require.NoError(t, err)
		var refused *policy.Refusal
		_, err = spawn("go", "")
		require.ErrorAs(t, err, &refused)
		require.Equal(t, policy.RuleChildren, refused.Rule)
		require.Equal(t, []string{
			`text: agents.defaults.models["p/one"] live; agents.defaults.models["p/two"] live; ` +
				"agents.defaults.model needs a restart; " +
				"agents.defaults.bootstrapMaxChars live; " +
				"agents.defaults.subagents.maxChildrenPerAgent live; " +
				"agents.list[main].agentDir live;",
		}, told.take())
		end()
		require.NoError(t, <-done)
	})
	require.Len(t, turns, 2)
	require.Equal(t, "first", turns[0].key)
	require.Equal(t, "second", turns[1].key)
	require.InDelta(t, 100, turns[0].chars, 50)
	require.InDelta(t, 400, turns[1].chars, 50)
	require.GreaterOrEqual(t, described, len(turns), "the Describe of the program is asked, too")
}

// What the program has stays: its Valid and Setting are asked as well, its Credentials in place of
// those of the file, and its limits hold where the file says none any more.
func TestLiveBesideFunctionsOfTheProgram(t *testing.T) {
	var cfg agent.Config
	cfg.Models.Valid = func(name string) bool { return name != "p/bad" }
	cfg.Models.Credentials = func(context.Context, string) (agent.Profiles, error) {
		return agent.Profiles{Isolated: true}, nil
	}
	cfg.Prompts.Input.Limits = agentctx.Limits{File: 7, Total: 8, Skills: 9}
	cfg.Prompts.SkillHost = &agentctx.SkillHost{
		Setting: func(path string) bool { return path == "own" },
	}
	cfg.Prompts.Describe = func(_ context.Context, _ session.Lineage, in *agentctx.Input) error {
		in.Product = fmt.Sprint("limit ", in.Limits.File)
		return nil
	}
	live := parse(t, `{agents: {defaults: {bootstrapMaxChars: 50, models: {"p/bad": {}, "p/m": {}}}},
		browser: {enabled: false}}`).Live()
	live.Apply(&cfg)
	limits := func() (l agentctx.Limits, product string) {
		in := agentctx.Input{Limits: cfg.Prompts.Input.Limits}
		require.NoError(t, cfg.Prompts.Describe(t.Context(), session.Lineage{}, &in))
		return in.Limits, in.Product
	}
	setting := func(path string) bool { return cfg.Prompts.SkillHost.Setting(path) }
	l, product := limits()
	require.Equal(t, agentctx.Limits{File: 50, Total: 8, Skills: 9}, l)
	require.Equal(t, "limit 50", product)
	require.True(t, cfg.Models.Valid("p/m"))
	require.False(t, cfg.Models.Valid("p/n"))
	require.False(t, cfg.Models.Valid("p/bad"))
	require.True(t, setting("own"))
	require.False(t, setting("browser.enabled"))

	changes := live.Update(parse(t, `{agents: {defaults: {bootstrapTotalMaxChars: 60}}, cron: {x: 1}}`))
	require.Len(t, changes, 6)
	l, product = limits()
	require.Equal(t, agentctx.Limits{File: 7, Total: 60, Skills: 9}, l)
	require.Equal(t, "limit 7", product)
	require.True(t, cfg.Models.Valid("p/n"), "without a list every model may be asked for")
	require.False(t, cfg.Models.Valid("p/bad"))
	require.True(t, setting("browser.enabled"))
	require.True(t, setting("cron.x"))
	p, err := cfg.Models.Credentials(t.Context(), "main")
	require.NoError(t, err)
	require.True(t, p.Isolated)
}

// A model that the running bot is set to stays one that may be asked for, also by its alias.
func TestLiveKeepsTheModelsOfTheStart(t *testing.T) {
	live := parse(t, `{agents: {
		defaults: {model: "fast", models: {"p/a": {alias: "fast"}, "p/x": {}}},
		list: [{id: "main", subagents: {model: "p/own"}}],
	}}`).Live()
	var cfg agent.Config
	live.Apply(&cfg)
	changes := live.Update(parse(t, `{agents: {
		defaults: {model: "fast", models: {"p/b": {alias: "fast"}, "p/c": {alias: "slow"}}},
		list: [{id: "main", subagents: {model: "p/other"}}],
	}}`))
	require.NotEmpty(t, changes)
	for name, want := range map[string]bool{
		"p/a": true, "p/b": true, "p/c": true, "p/own": true, "p/x": false, "p/other": false,
	} {
		require.Equal(t, want, cfg.Models.Valid(name), name)
	}
}

// What was wrong because of something else than the file is right as soon as that is.
func TestWatchAfterAMistakeOutsideOfTheFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "openclaw.json")
	synctest.Test(t, func(t *testing.T) {
		var closed atomic.Bool
		o := nowhere()
		o.OpenDir = func(dir string) (fs.FS, error) {
			if closed.Load() && dir == "/new" {
				return nil, fs.ErrPermission
			}
			return fstest.MapFS{}, nil
		}
		overwrite(t, file, `{}`)
		r, err := openclaw.Load(t.Context(), file, o)
		require.NoError(t, err)
		ctx, end := context.WithCancel(t.Context())
		told, done := new(readings), make(chan error, 1)
		go func() { done <- r.Live().Watch(ctx, time.Second, told.tell) }()
		closed.Store(true)
		overwrite(t, file, `{agents: {defaults: {workspace: "/new"}}}`)
		old := time.Now().Add(-time.Hour)
		require.NoError(t, os.Chtimes(file, old, old))
		time.Sleep(10 * time.Second)
		synctest.Wait()
		require.Equal(t, []string{"error: openclaw: " + file + ":1:33: agents.defaults.workspace: it " +
			"cannot be opened: permission denied"}, told.take())
		closed.Store(false)
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, []string{"text: agents.defaults.workspace needs a restart;"}, told.take())
		end()
		require.NoError(t, <-done)
	})
}

// Any number of goroutines may use a Live.
func TestLiveIsSafeForConcurrentUse(t *testing.T) {
	texts := []string{
		`{agents: {defaults: {models: {"p/a": {}}, bootstrapMaxChars: 5}, list: [{id: "main"}]}}`,
		`{agents: {defaults: {models: {"p/b": {}}, bootstrapMaxChars: 6}, list: [{id: "main"}, {id: "b"}]}}`,
	}
	files := []*openclaw.Result{parse(t, texts[0]), parse(t, texts[1])}
	live := files[0].Live()
	var cfg agent.Config
	live.Apply(&cfg)
	done := make(chan struct{})
	for i := range 4 {
		go func() {
			defer func() { done <- struct{}{} }()
			for n := range 50 {
				live.Update(files[(n+i)%2])
			}
		}()
		go func() {
			defer func() { done <- struct{}{} }()
			for range 200 {
				cfg.Models.Valid("p/a")
				in := new(agentctx.Input)
				_ = cfg.Prompts.Describe(context.Background(), session.Lineage{}, in)
				_, _ = cfg.Models.Credentials(context.Background(), "main")
				cfg.Prompts.SkillHost.Setting("agents.defaults")
			}
		}()
	}
	for range 8 {
		<-done
	}
}

// What a Runtime does not take of the Rules waits, as a whole, and is told with the reason. The
// rest of the text is live. The next text that is right is taken.
func TestRulesThatTheRuntimeRefuses(t *testing.T) {
	var cfg agent.Config
	cfg.Runner = agent.RunnerFunc(func(context.Context, *agent.Turn) (agent.Result, error) {
		return agent.Result{Text: "ok"}, nil
	})
	cfg.Tools = []agent.Tool{{
		Name: "refund", OwnerOnly: true,
		Call: func(context.Context, agent.ToolCall) (agent.ToolResult, error) {
			return agent.ToolResult{}, nil
		},
	}}
	cfg.Rules.Subagents.MaxBlocked = 7 // the program's own
	live := parse(t, `{commands: {ownerAllowFrom: ["1"]}}`).Live()
	live.Apply(&cfg)
	rt, err := agent.Open(t.Context(), cfg)
	require.NoError(t, err)
	var set policy.Rules
	live.Follow(rt, func(r *policy.Rules) { set = *r })
	effects := func(text string) (list []string) {
		for _, c := range live.Update(parse(t, text)) {
			list = append(list, c.Path+" "+c.Effect.String())
		}
		return list
	}
	bad := `{agents: {defaults: {bootstrapMaxChars: 9, subagents: {maxConcurrent: 3}}}}`
	want := []string{
		"commands.ownerAllowFrom needs a restart", "agents.defaults.bootstrapMaxChars live",
		"agents.defaults.subagents.maxConcurrent needs a restart",
	}
	require.Equal(t, want, effects(bad))
	require.ErrorContains(t, live.Refused(), "Config.Tools[0].OwnerOnly")
	require.Equal(t, []string{want[0], want[2]}, effects(bad), "it is tried again")
	require.Equal(t, []string{"agents.defaults.subagents.maxConcurrent live"}, effects(
		`{commands: {ownerAllowFrom: ["1"]},
		agents: {defaults: {bootstrapMaxChars: 9, subagents: {maxConcurrent: 3}}}}`))
	require.NoError(t, live.Refused())
	require.Equal(t, 3, set.Subagents.MaxConcurrent)
	require.Equal(t, 7, set.Subagents.MaxBlocked, "what the file does not say stays")
	require.NoError(t, rt.Shutdown(t.Context()))
	require.Equal(t, []string{"agents.defaults.subagents.maxConcurrent needs a restart"}, effects(
		`{commands: {ownerAllowFrom: ["1"]}, agents: {defaults: {bootstrapMaxChars: 9}}}`))
	require.ErrorIs(t, live.Refused(), agent.ErrShutdown)
}

// Without a Runtime that follows, the Rules are those of the start. Each change of them says so.
func TestRulesWithoutFollow(t *testing.T) {
	live := parse(t, `{}`).Live()
	next := parse(t, `{tools: {deny: ["exec"]}}`)
	for range 2 {
		changes := live.Update(next)
		require.Len(t, changes, 1)
		require.Equal(t, openclaw.EffectRestart, changes[0].Effect)
		require.Contains(t, changes[0].Reason, "Live.Follow")
		require.NoError(t, live.Refused())
	}
	require.Empty(t, live.Update(parse(t, `{}`)))
}

// An agent that comes waits for a restart with all that is said of it, and one that is gone keeps
// its rules until then. What is said of the others is live.
func TestAgentsThatComeAndGo(t *testing.T) {
	var cfg agent.Config
	live := parse(t, `{agents: {list: [{id: "main"}, {id: "old", tools: {deny: ["x"]}}]}}`).Live()
	live.Apply(&cfg)
	f := &rulesTaken{rules: cfg.Rules}
	live.Follow(f, nil)
	changes := live.Update(parse(t, `{agents: {
		list: [{id: "new", tools: {deny: ["y"]}}, {id: "main", tools: {deny: ["z"]}}],
		defaults: {subagents: {allowAgents: ["new", "old", "main"]}},
	}}`))
	var told []string
	for _, c := range changes {
		told = append(told, c.Path+" "+c.Effect.String())
	}
	slices.Sort(told)
	require.Equal(t, []string{
		"agents.defaults.subagents.allowAgents live", "agents.list[main].tools.deny live",
		"agents.list[new] needs a restart", "agents.list[old] needs a restart",
	}, told)
	require.Equal(t, []string{"old", "main"}, f.rules.Subagents.AllowAgents)
	require.Len(t, f.rules.Agents, 2)
	require.Equal(t, []string{"z"}, f.rules.Agents[0].Tools.Deny)
	require.Equal(t, []string{"x"}, f.rules.Agents[1].Tools.Deny)
}

// rulesTaken is a Runtime that takes all rules.
type rulesTaken struct{ rules policy.Rules }

func (f *rulesTaken) SetRules(rules policy.Rules) error {
	f.rules = rules
	return nil
}

// What the Live calls for a Runtime that follows may ask it why the rules before were refused.
func TestFollowerAsksWhyItWasRefused(t *testing.T) {
	res, err := openclaw.Parse([]byte(`{tools:{deny:["exec"]}}`), openclaw.Options{})
	require.NoError(t, err)
	next, err := openclaw.Parse([]byte(`{tools:{deny:["read"]}}`), openclaw.Options{})
	require.NoError(t, err)
	live := res.Live()
	var cfg agent.Config
	live.Apply(&cfg)
	asked := 0
	live.Follow(ruledFunc(func(policy.Rules) error {
		asked++
		require.NoError(t, live.Refused())
		return errors.New("not now")
	}), func(*policy.Rules) {
		asked++
		require.NoError(t, live.Refused())
	})
	require.NotEmpty(t, live.Update(next))
	require.Equal(t, 2, asked)
	require.ErrorContains(t, live.Refused(), "not now")
}

// A ruledFunc is a Runtime of which SetRules alone is asked.
type ruledFunc func(policy.Rules) error

func (f ruledFunc) SetRules(rules policy.Rules) error { return f(rules) }
