package agent_test

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	agentctx "github.com/offshoot-sdk/offshoot/context"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

var describedGroup = session.Must(session.Parse("agent:main:discord:group:kitchen"))

// describeFunc is a Prompts.Describe.
type describeFunc = func(context.Context, session.Lineage, *agentctx.Input) error

// describedConfig is a Config with all that a prompt is made of.
func describedConfig(describe describeFunc) agent.Config {
	files := workspace("common")
	files["MEMORY.md"] = &fstest.MapFile{Data: []byte("the secret of the house")}
	return agent.Config{
		Runner: idleRunner{}, Workspace: files, Tools: toolbox("read", "exec"),
		Models: agent.Models{Model: "acme/large", Thinking: "low"},
		Prompts: agent.Prompts{
			Skills:   []agentctx.SkillSource{{FS: skillFiles()}},
			Describe: describe,
			Input: agentctx.Input{
				Aliases: map[string]string{"small": "acme/small"}, Notes: []string{"be brief"},
				Sandbox: agentctx.Sandbox{Dir: "/box"},
			},
		},
		Rules: policy.Rules{
			Tools:  policy.ToolPolicy{Deny: []string{"exec"}},
			Agents: []policy.Agent{{ID: "main"}, {ID: "boxed", Sandbox: policy.SandboxAll}},
		},
		Now: func() time.Time { return time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC) },
	}
}

// C8: what a session is told of its group, its channel and its sandbox is a function of the
// session, and a preview is what the turn is sent.
func TestDescribe(t *testing.T) {
	var told sync.Map
	cfg := describedConfig(func(_ context.Context, l session.Lineage, in *agentctx.Input) error {
		told.Store(l.Key, l)
		if len(in.Tools) == 0 || len(in.Files) == 0 {
			return errors.New("the input is not filled in")
		}
		in.Env.Capabilities = []string{"inlineButtons"}
		in.Sandbox.BrowserURL = "http://browser/" + l.Key.Agent()
		in.Extra = append(in.Extra, agentctx.Section{
			ID: "depth", Text: "You are in " + strings.Repeat("the depth of ", l.Depth) + "this.",
			Minimal: true,
		})
		if l.Key == describedGroup {
			in.Conversation, in.Env.Channel = "The kitchen crew plans meals.", "discord"
		}
		return nil
	})
	var mu sync.Mutex
	prompts := make(map[string]string)
	cfg.Runner = agent.RunnerFunc(func(_ context.Context, tn *agent.Turn) (agent.Result, error) {
		mu.Lock()
		defer mu.Unlock()
		prompts[tn.Session.Key.String()+tn.Label] = tn.Prompt.String()
		return textResult("ok")
	})
	boxed := session.Must(session.MainKey("boxed"))
	agenttest.Run(t, cfg, nil, func(h *harness) {
		for _, key := range []session.Key{topKey, describedGroup, boxed} {
			h.PostTo(key, "hello")
			synctest.Wait()
			in := inputOf(t, cfg, key)
			in.Now = cfg.Now()
			require.Equal(t, agentctx.Assemble(in).String(), prompts[key.String()], key)
			l, _ := told.Load(key)
			require.Equal(t, session.Lineage{Key: key, Root: key, Role: session.RoleMain}, l)
		}
		task := agent.Task{Text: "x", Label: "worker"}
		child, err := agent.Spawn[string](h.Context(), h.Session(describedGroup), task)
		require.NoError(t, err)
		synctest.Wait()
		in, err := cfg.ChildInput(t.Context(), describedGroup, task)
		require.NoError(t, err)
		in.Now, in.Session = cfg.Now(), child.Key()
		got := prompts[child.Key().String()+"worker"]
		require.Equal(t, agentctx.Assemble(in).String(), got)
		require.Contains(t, got, "You are in the depth of this.")
		l, _ := told.Load(child.Key())
		require.Equal(t, session.Lineage{
			Key: child.Key(), Root: describedGroup, Parent: describedGroup, Depth: 1,
			Role: session.RoleLeaf,
		}, l)
	})
	require.Contains(t, prompts[describedGroup.String()], "The kitchen crew")
	require.NotContains(t, prompts[topKey.String()], "The kitchen crew")
	require.NotContains(t, prompts[topKey.String()], "http://browser/", "a session that is in no sandbox")
	require.Contains(t, prompts[boxed.String()], "http://browser/boxed")
	l := session.Lineage{Key: childKeyOf(t, topKey), Depth: 1, Role: session.RoleLeaf}
	inputOf(t, cfg, l.Key)
	got, _ := told.Load(l.Key)
	require.Equal(t, l, got)
}

func childKeyOf(t *testing.T, key session.Key) session.Key {
	t.Helper()
	child, err := key.Child("main", session.NewID())
	require.NoError(t, err)
	return child
}

// describable are the fields of an Input that Describe decides. The others are not its to say.
var describable = []string{
	"Layout", "Product", "Markers", "Limits", "Env", "Sandbox", "Channel", "Docs", "Notes",
	"Aliases", "HideCitations", "ReasoningTags", "HeartbeatPrompt", "Conversation", "Extra",
	"Drop", "Order",
}

// Whatever Describe makes of an input, a session sees no tool, file, skill, record or sandbox but
// those that policy, its spec and the journal give it. A field that is added to Input is decided by
// the Runtime unless the list above has it.
func TestDescribeCannotWiden(t *testing.T) {
	forged := agentctx.Input{
		Session: describedGroup,
		Lineage: session.Lineage{Key: describedGroup, Root: describedGroup},
		Spec: agentctx.Spec{
			Mode: agentctx.ModeFull, Files: []string{"*", "MEMORY.md"}, Skills: []string{"*"},
		},
		Files:        []agentctx.WorkspaceFile{{Name: "MEMORY.md", Content: "the secret"}},
		Tools:        []agentctx.Tool{{Name: "exec"}, {Name: "gateway"}},
		Skills:       []agentctx.Skill{{Name: "forged", Description: "x", Path: "/x"}},
		SkillReports: []agentctx.FileReport{{Name: "forged"}},
		Subagent:     agentctx.Subagent{Depth: 7, MaySpawn: true},
		Active:       []agentctx.ActiveSubagent{{Label: "forged"}},
		Now:          time.Unix(1, 0), Task: "forged",
		Env:     agentctx.Env{Model: "acme/forged", Thinking: "forged"},
		Sandbox: agentctx.Sandbox{Enabled: true, Dir: "/forged", Elevated: "full"},
	}
	boxed := session.Must(session.MainKey("boxed"))
	child := childKeyOf(t, topKey)
	fields := reflect.VisibleFields(reflect.TypeFor[agentctx.Input]())
	for _, name := range describable {
		_, ok := reflect.TypeFor[agentctx.Input]().FieldByName(name)
		require.True(t, ok, "Input has no field %s", name)
	}
	for _, key := range []session.Key{topKey, boxed, child} {
		plain := inputOf(t, describedConfig(nil), key)
		for _, f := range fields {
			for how, value := range map[string]reflect.Value{
				"forged": reflect.ValueOf(forged).FieldByIndex(f.Index),
				"zero":   reflect.Zero(f.Type),
			} {
				cfg := describedConfig(func(
					_ context.Context, _ session.Lineage, in *agentctx.Input,
				) error {
					reflect.ValueOf(in).Elem().FieldByIndex(f.Index).Set(value)
					return nil
				})
				in := inputOf(t, cfg, key)
				require.Equal(t, plain.Env.Model, in.Env.Model)
				require.Equal(t, plain.Env.Thinking, in.Env.Thinking)
				require.Equal(t, plain.Sandbox.Enabled, in.Sandbox.Enabled)
				if !in.Sandbox.Enabled {
					require.Zero(t, in.Sandbox)
				}
				if !slices.Contains(describable, f.Name) {
					require.Equal(t, plain, in, "%s of %s is %s", f.Name, key, how)
				}
			}
		}
		in := inputOf(t, describedConfig(func(
			_ context.Context, _ session.Lineage, in *agentctx.Input,
		) error {
			*in = forged
			return nil
		}), key)
		prompt := agentctx.Assemble(in).String()
		for _, unwanted := range []string{"gateway", "exec", "the secret of", "/x", "acme/forged"} {
			if key == child || unwanted != "the secret of" {
				require.NotContains(t, prompt, unwanted, key)
			}
		}
	}
}

// In a turn, too, a Describe that tries everything at once gives a sub-agent nothing to see.
func TestDescribeOfATurnCannotWiden(t *testing.T) {
	cfg := describedConfig(func(_ context.Context, _ session.Lineage, in *agentctx.Input) error {
		in.Spec = agentctx.Spec{Files: []string{"*"}, Skills: []string{"*"}}
		in.Tools = append(in.Tools, agentctx.Tool{Name: "exec", Summary: "run anything"})
		for i := range in.Files {
			in.Files[i].Name = "AGENTS.md"
		}
		in.Files = append(in.Files, agentctx.WorkspaceFile{Name: "TOOLS.md", Content: "forged"})
		in.Session, in.Lineage = topKey, session.Lineage{}
		return nil
	})
	seen := promptsOf(t, cfg, agent.Task{Text: "x", Label: "worker"})
	for label, prompt := range seen {
		require.NotContains(t, prompt.String(), "run anything", label)
		require.NotContains(t, prompt.String(), "forged", label)
	}
	require.Contains(t, seen[""].String(), "the secret of the house")
	require.NotContains(t, seen["worker"].String(), "the secret of the house")
	require.Contains(t, seen["worker"].String(), "common TOOLS.md")
}

// Describe gets a copy, and what it puts in is copied: neither the Config nor the prompt of another
// session changes, and what Describe keeps and changes later changes no prompt. Run with -race.
func TestDescribeSharesNothing(t *testing.T) {
	var mu sync.Mutex
	shared := []agentctx.Section{{ID: "own", Text: "shared"}}
	cfg := describedConfig(func(_ context.Context, l session.Lineage, in *agentctx.Input) error {
		in.Aliases["wild"], in.Notes[0] = "acme/wild", l.Key.String()
		for i := range in.Tools {
			in.Tools[i].Summary = "changed"
		}
		for i := range in.Files {
			in.Files[i].Content = "changed"
		}
		for i := range in.Skills {
			in.Skills[i].Description = "changed"
		}
		mu.Lock() // other calls change it, too
		defer mu.Unlock()
		shared[0].Text = l.Key.String()
		in.Extra = slices.Clone(shared)
		return nil
	})
	var prompts sync.Map
	cfg.Runner = agent.RunnerFunc(func(_ context.Context, tn *agent.Turn) (agent.Result, error) {
		prompts.Store(tn.Session.Key, tn.Prompt.String())
		return textResult("ok")
	})
	var keys []session.Key
	for _, room := range []string{"a", "b", "c", "d"} {
		keys = append(keys, session.Must(session.Parse("agent:main:discord:group:"+room)))
	}
	agenttest.Run(t, cfg, nil, func(h *harness) {
		for range 3 {
			for _, key := range keys {
				require.NoError(
					t, errorOf(h.Session(key).Post(h.Context(), agent.Incoming{Text: "x"})),
				)
			}
			synctest.Wait()
		}
	})
	for _, key := range keys {
		got, _ := prompts.Load(key)
		require.NotContains(t, got, "changed")
		for _, other := range keys {
			if other != key {
				require.NotContains(t, got, other.String())
			}
		}
	}
	require.Equal(t, []string{"be brief"}, cfg.Prompts.Input.Notes)
	require.NotContains(t, cfg.Prompts.Input.Aliases, "wild")
}

// A preview returns what Describe fails with, and so does a turn: it names the field, a credential
// in it is masked, and a person gets an apology.
func TestDescribeMistakes(t *testing.T) {
	const key = "sk-abcdefghijklmnopqrstuvwxyz"
	errLost := errors.New("the directory of groups is lost: " + key)
	for name, c := range map[string]struct {
		describe describeFunc
		want     string
		is       func(error) bool
	}{
		"an error": {
			func(context.Context, session.Lineage, *agentctx.Input) error { return errLost },
			"the directory of groups is lost", func(err error) bool { return errors.Is(err, errLost) },
		},
		"a panic": {
			func(context.Context, session.Lineage, *agentctx.Input) error { panic(errLost) },
			"the directory of groups is lost", func(err error) bool {
				_, ok := errors.AsType[*spawn.PanicError](err)
				return ok
			},
		},
		"an exit": {
			func(context.Context, session.Lineage, *agentctx.Input) error {
				runtime.Goexit()
				return nil
			},
			"ended its goroutine", func(err error) bool { return errors.Is(err, spawn.ErrExited) },
		},
		"a value without a meaning": {
			func(_ context.Context, _ session.Lineage, in *agentctx.Input) error {
				in.Channel.Reactions = "many"
				return nil
			},
			"Input.Channel.Reactions", func(err error) bool {
				_, ok := errors.AsType[*agentctx.FieldError](err)
				return ok
			},
		},
		"a text without an end": {
			func(_ context.Context, _ session.Lineage, in *agentctx.Input) error {
				in.Conversation = strings.Repeat("x", 1_000_001)
				return nil
			},
			"it has 1000001 bytes, the limit is 1000000", func(error) bool { return true },
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := describedConfig(c.describe)
			check := func(err error) {
				failed, ok := errors.AsType[*agent.CallbackError](err)
				require.True(t, ok, "%v", err)
				require.Equal(t, "Prompts.Describe", failed.Field)
				require.ErrorContains(t, err, "agent: Prompts.Describe: ")
				require.ErrorContains(t, err, c.want)
				require.NotContains(t, err.Error(), key)
				require.True(t, c.is(err), "%v", err)
			}
			in, err := cfg.Input(t.Context(), topKey)
			require.Zero(t, in)
			check(err)
			in, err = cfg.ChildInput(t.Context(), topKey, agent.Task{Text: "x"})
			require.Zero(t, in)
			check(err)
			require.NotPanics(t, func() { cfg.Skills(topKey) }, "it does not describe")
			agenttest.Run(t, cfg, nil, func(h *harness) {
				h.Watch(topKey)
				h.Post("hello")
				synctest.Wait()
				require.Len(t, h.Replies(), 1)
				require.Contains(t, h.Replies()[0].Reply.Text, "Sorry")
				require.Zero(t, h.Calls("main"), "the Runner is not called")
				for _, e := range h.Events() {
					require.NotContains(t, e.Error, key)
					if e.Kind == agent.EventTurnEnded {
						require.Contains(t, e.Error, c.want)
					}
				}
				child, err := agent.Spawn[string](h.Context(), h.Main(), agent.Task{Text: "x"})
				require.NoError(t, err)
				_, err = child.Wait(h.Context())
				run, ok := errors.AsType[*agent.RunError](err)
				require.True(t, ok, "%v", err)
				require.Equal(t, spawn.StatusFailed, run.Run.Status)
				require.Contains(t, run.Run.Error, c.want)
			})
		})
	}
}

// A Describe that hangs ends with its turn: at the timeout of the run, and when a person cancels.
// One that outlasts its turn has no model called.
func TestDescribeThatHangs(t *testing.T) {
	for name, obeys := range map[string]bool{"until ctx ends": true, "longer": false} {
		t.Run(name, func(t *testing.T) {
			var ran atomic.Int32
			cfg := describedConfig(func(ctx context.Context, _ session.Lineage, _ *agentctx.Input,
			) error {
				<-ctx.Done()
				if !obeys {
					time.Sleep(time.Hour)
				}
				return nil
			})
			cfg.Runner = agent.RunnerFunc(func(context.Context, *agent.Turn) (agent.Result, error) {
				ran.Add(1)
				return textResult("ok")
			})
			agenttest.Run(t, cfg, nil, func(h *harness) {
				child, err := agent.Spawn[string](h.Context(), h.Main(),
					agent.Task{Text: "x", Timeout: time.Minute})
				require.NoError(t, err)
				_, err = child.Wait(h.Context())
				run, ok := errors.AsType[*agent.RunError](err)
				require.True(t, ok, "%v", err)
				require.Equal(t, spawn.StatusTimedOut, run.Run.Status)
				h.Post("hello")
				time.Sleep(time.Minute)
				require.NoError(t, h.Main().CancelTurn(h.Context()))
				time.Sleep(2 * time.Hour)
				require.Empty(t, h.Replies())
			})
			require.Zero(t, ran.Load())
			ctx, cancel := context.WithCancelCause(t.Context())
			cancel(errBad)
			synctest.Test(t, func(t *testing.T) {
				_, err := cfg.Input(ctx, topKey)
				require.ErrorIs(t, err, errBad)
			})
		})
	}
}

// What Describe says is gone with its turn, and a turn that repeats an interrupted one says so,
// whatever Describe makes of the sections.
func TestDescribeKeepsTheInterruptedTurn(t *testing.T) {
	cfg := describedConfig(func(_ context.Context, _ session.Lineage, in *agentctx.Input) error {
		in.Extra = nil
		return nil
	})
	var calls atomic.Int32
	cfg.Runner = agent.RunnerFunc(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
		if calls.Add(1) == 1 {
			<-ctx.Done()
			return agent.Result{}, ctx.Err()
		}
		return textResult(tn.Prompt.String())
	})
	agenttest.Run(t, cfg, nil, func(h *harness) {
		h.Post("hello")
		synctest.Wait()
		h.Crash()
		synctest.Wait()
		require.Contains(t, h.Replies()[0].Reply.Text, "## Interrupted Turn")
	})
}

// Runners by agent: each session is run by that of its agent, in whatever case it is spelled, and
// by Config.Runner if there is none.
func TestRunnersByAgent(t *testing.T) {
	named := func(name string) agent.Runner {
		return agent.RunnerFunc(func(_ context.Context, tn *agent.Turn) (agent.Result, error) {
			return textResult(name + " for " + tn.Session.Key.Agent())
		})
	}
	cfg := agent.Config{
		Runner: named("the default"),
		Runners: agent.Runners{Agents: map[string]agent.Runner{
			"Coder": named("the coder"), "writer": named("the writer"),
		}},
		Rules: policy.Rules{Agents: []policy.Agent{
			{ID: "main", Subagents: policy.Subagents{AllowAgents: []string{"*"}}},
			{ID: "coder"},
			{ID: "WRITER"},
			{ID: "painter"},
		}},
	}
	given := maps.Clone(cfg.Runners.Agents)
	agenttest.Run(t, cfg, nil, func(h *harness) {
		for id, want := range map[string]string{
			"coder": "the coder for coder", "CODER": "the coder for coder",
			"writer": "the writer for writer", "painter": "the default for painter",
			"": "the default for main",
		} {
			child, err := agent.Spawn[string](h.Context(), h.Main(),
				agent.Task{Text: "x", Agent: id})
			require.NoError(t, err)
			got, err := child.Wait(h.Context())
			require.NoError(t, err)
			require.Equal(t, want, got)
		}
		h.PostTo(session.Must(session.MainKey("coder")), "hello")
		synctest.Wait()
		require.Equal(t, "the coder for coder", h.Replies()[0].Reply.Text)
	})
	require.Len(t, cfg.Runners.Agents, len(given))
	cfg.Runner = nil
	_, err := agent.Open(t.Context(), cfg)
	require.ErrorContains(t, err, `agent "painter" has none in Runners.Agents`)
	cfg.Rules.Agents = cfg.Rules.Agents[1:3]
	_, err = agent.Open(t.Context(), cfg)
	require.NoError(t, err)
}

// A session of the journal whose agent lost its Runner with the configuration fails, and says what
// is missing.
func TestAgentWithoutARunner(t *testing.T) {
	store := session.NewMemory()
	coder := session.Must(session.MainKey("coder"))
	cfg := agent.Config{
		Store: store, Runner: idleRunner{},
		Rules: policy.Rules{Agents: []policy.Agent{{ID: "coder"}, {ID: "main"}}},
	}
	synctest.Test(t, func(t *testing.T) {
		rt, err := agent.Open(t.Context(), cfg)
		require.NoError(t, err)
		require.NoError(t, errorOf(rt.Session(coder).Post(t.Context(), agent.Incoming{Text: "x"})))
		require.NoError(t, rt.Shutdown(t.Context()))
		cfg.Rules.Agents = cfg.Rules.Agents[1:]
		cfg.Runner = nil
		cfg.Runners.Agents = map[string]agent.Runner{"main": idleRunner{}}
		var reply string
		cfg.Reply = func(_ context.Context, d agent.Delivery) error {
			reply = d.Reply.Text
			return nil
		}
		runFor(t, cfg, func(*agent.Runtime) { synctest.Wait() })
		require.Contains(t, reply, "Sorry")
	})
}
