package agent_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
)

// withRuntime gives a bot the external runtime acp, which says who it is.
func withRuntime(cfg agent.Config, agents ...string) agent.Config {
	cfg.Runners.Runtimes = map[string]agent.ExternalRuntime{"acp": {
		Agents: agents, Guidance: "writes code",
		Runner: agent.RunnerFunc(func(
			ctx context.Context, tn *agent.Turn,
		) (agent.Result, error) {
			return agent.Result{Text: fmt.Sprintf("%s runs %q with %s %s", tn.Runtime,
				tn.Input(), tn.Model, tn.Thinking)}, pause(ctx, time.Second)
		}),
	}}
	return cfg
}

// 8.13, 8.20: a sub-agent of an external runtime is one like any other: model, thinking, timeout,
// announcement, limits, later runs, and all of it over every crash.
func TestRuntimeRunsSubagents(t *testing.T) {
	cfg := withRuntime(saying(func(context.Context, *agent.Turn) (string, error) {
		return "native", nil
	}))
	agenttest.EveryCrash(t, cfg, nil, func(h *harness) {
		key := spawnedOver(h, topKey, agent.Task{
			Text: "work", Runtime: "ACP", Model: "p/m", Thinking: "high", Timeout: time.Minute,
		})
		h.Pass(time.Minute)
		run := h.Runs()[0]
		if run.Status == agent.StatusOK {
			require.Contains(h.T(), run.Result.Text, "acp runs")
			require.Contains(h.T(), run.Result.Text, "with p/m high")
			require.Equal(h.T(), time.Minute, run.Deadline.Sub(run.Started))
		}
		h.PostTo(key, "more")
		h.Pass(time.Minute)
		run = h.Runs()[0]
		if run.Status == agent.StatusOK {
			require.Contains(h.T(), run.Result.Text, "more")
		}
	})
}

// What a session may do with external runtimes is in its prompt and in the schema of the tool:
// available, not for its agents, not in a sandbox.
func TestPromptsTellOfRuntimes(t *testing.T) {
	prompt := func(t *testing.T, cfg agent.Config) (prompt, schema string) {
		cfg.Runner = agent.RunnerFunc(func(
			_ context.Context, tn *agent.Turn,
		) (agent.Result, error) {
			prompt = tn.Prompt.String()
			schema = string(findTool(t, tn.Tools, "sessions_spawn").Schema)
			return agent.Result{Text: "done"}, nil
		})
		agenttest.Run(t, cfg, nil, func(h *harness) { h.Post("go"); h.Pass(time.Minute) })
		return prompt, schema
	}
	var cfg agent.Config
	said, schema := prompt(t, cfg)
	require.NotContains(t, said, "External Runtimes")
	require.NotContains(t, schema, `"runtime"`)
	said, schema = prompt(t, withRuntime(cfg))
	require.Contains(t, said, "- acp: writes code")
	require.Contains(t, schema, `"enum":["subagent","acp"]`)
	require.Contains(t, schema, `"streamTo"`)
	said, _ = prompt(t, withRuntime(cfg, "elsewhere"))
	require.Contains(t, said, "No external runtime is for the agents that you may start")
	cfg.Rules.Sandbox.Mode = policy.SandboxAll
	said, _ = prompt(t, withRuntime(cfg))
	require.Contains(t, said, "You are in a sandbox, which does not hold external programs")
}

// A prompt and the schema offer a runtime where a spawn in it is admitted, and nowhere else: to a
// session of any depth, for agents that no sandbox holds.
func TestRuntimesAreOfferedAsTheyAreAdmitted(t *testing.T) {
	boxed := func(ids ...string) (list []policy.Agent) {
		for _, id := range []string{"main", "coder", "other"} {
			a := policy.Agent{ID: id, Subagents: policy.Subagents{AllowAgents: []string{"*"}}}
			if slices.Contains(ids, id) {
				a.Sandbox = policy.SandboxAll
			}
			list = append(list, a)
		}
		return list
	}
	for name, c := range map[string]struct {
		rules policy.Rules
		only  []string // Agents of the runtime
		line  string
	}{
		"all":              {policy.Rules{Agents: boxed()}, nil, "- acp: writes code"},
		"some":             {policy.Rules{Agents: boxed()}, []string{"coder"}, "code (agentId: coder)"},
		"one in a sandbox": {policy.Rules{Agents: boxed("coder")}, nil, "code (agentId: main, other)"},
		"its one in a sandbox": {
			policy.Rules{Agents: boxed("coder")}, []string{"coder"}, "No external runtime is for",
		},
		"sub-agents in a sandbox": {
			policy.Rules{Sandbox: policy.Sandbox{Mode: policy.SandboxNonMain}},
			nil,
			"No external runtime is for",
		},
		"by a function": {policy.Rules{
			Agents: boxed(),
			Sandbox: policy.Sandbox{
				Decide: func(id string, _ session.Key) bool { return id == "other" },
			},
		}, nil, "code (agentId: main, coder)"},
	} {
		t.Run(name, func(t *testing.T) {
			seen := map[int]string{} // by depth
			cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
				if tn.Runtime != "" || tn.Sandboxed {
					return agent.Result{Text: "done"}, nil
				}
				_, offered, _ := strings.Cut(tn.Prompt.String(), "## External Runtimes\n")
				schema := string(findTool(t, tn.Tools, "sessions_spawn").Schema)
				require.Equal(t, strings.Contains(offered, "- acp"), strings.Contains(schema, `"acp"`))
				require.Equal(t, strings.Contains(offered, "- acp"), strings.Contains(schema, "streamTo"))
				seen[tn.Session.Depth] = offered
				line, _, _ := strings.Cut(offered[strings.Index(offered, "- acp")+1:], "\n")
				for _, id := range []string{"main", "coder", "other"} {
					_, err := tn.Spawn(ctx, agent.Task{Text: id, Agent: id, Runtime: "acp"})
					says := strings.Contains(offered, "- acp") &&
						(!strings.Contains(line, "agentId") || strings.Contains(line, id))
					if len(c.rules.Agents) == 0 && id != "main" {
						says = false // there is none
					}
					require.Equal(t, says, err == nil, "%s: %q, %v", id, line, err)
				}
				if tn.Session.Depth == 0 {
					_, err := tn.Spawn(ctx, agent.Task{Text: "below", Agent: "main"})
					return agent.Result{Text: "done"}, err
				}
				return agent.Result{Text: "done"}, nil
			})
			cfg.Rules = c.rules
			cfg.Rules.Subagents.MaxSpawnDepth, cfg.Rules.Subagents.MaxChildren = 2, 20
			cfg = withRuntime(cfg, c.only...)
			agenttest.Run(t, cfg, nil, func(h *harness) { h.Post("go"); h.Pass(time.Minute) })
			require.Contains(t, seen[0], c.line)
			if c.rules.Sandbox.Mode != policy.SandboxNonMain {
				require.Contains(t, seen[1], c.line)
			}
		})
	}
}

// The same Key with another runtime, or with what the program says passed on, is another task. The
// name is taken in any letter case.
func TestRuntimeOfAKey(t *testing.T) {
	cfg := withRuntime(saying(func(context.Context, *agent.Turn) (string, error) {
		return "native", nil
	}))
	cfg.Runners.Runtimes["other"] = cfg.Runners.Runtimes["acp"]
	agenttest.Run(t, cfg, nil, func(h *harness) {
		spawn := func(task agent.Task) (agent.RunID, error) {
			task.Text, task.Key = "work", "k"
			child, err := h.Main().Spawn(h.Context(), task)
			if err != nil {
				return "", err
			}
			return child.ID(), nil
		}
		first, err := spawn(agent.Task{Runtime: "acp"})
		require.NoError(t, err)
		again, err := spawn(agent.Task{Runtime: " ACP "})
		require.NoError(t, err)
		require.Equal(t, first, again)
		for _, task := range []agent.Task{{}, {Runtime: "other"}, {Runtime: "acp", Stream: true}} {
			_, err = spawn(task)
			require.ErrorIs(t, err, agent.ErrKeyConflict)
		}
	})
}

// A run whose runtime is not configured any more fails, and says so.
func TestRuntimeThatIsGone(t *testing.T) {
	store := session.NewMemory()
	native := saying(func(context.Context, *agent.Turn) (string, error) { return "native", nil })
	native.Store = store
	native.Rules.Subagents.ArchiveAfter = policy.Off // the clocks of the two processes differ
	var key session.Key
	agenttest.Run(t, withRuntime(native), nil, func(h *harness) {
		key = spawnedOver(h, topKey, agent.Task{Text: "work", Runtime: "acp"})
		h.Pass(time.Second * 2)
	})
	rt, err := agent.Open(t.Context(), native)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { _ = rt.Run(ctx) }()
	r, err := rt.Session(key).Post(ctx, agent.Incoming{Text: "more"})
	require.NoError(t, err)
	child, err := agent.ChildOf[string](ctx, rt.Session(topKey), r)
	require.NoError(t, err)
	_, err = child.Wait(ctx)
	require.ErrorContains(t, err, `there is no Runners.Runtimes["acp"].Runner any more`)
	require.NoError(t, rt.Shutdown(ctx))
}

// Mistakes in the Config of external runtimes are found when it is opened.
func TestRuntimesOfAConfig(t *testing.T) {
	good := agent.RunnerFunc(func(context.Context, *agent.Turn) (agent.Result, error) {
		return agent.Result{}, nil
	})
	for want, runtimes := range map[string]map[string]agent.ExternalRuntime{
		`Runners.Runtimes["acp"].Runner: it is nil`:   {"acp": {}},
		`Runners.Runtimes["subagent"]: the name is`:   {"subagent": {Runner: good}},
		`Runners.Runtimes["a b"]: the name "a b"`:     {"a b": {Runner: good}},
		`there twice, in another letter case`:         {"acp": {Runner: good}, "ACP": {Runner: good}},
		`Runners.Runtimes["acp"].Agents["no agent!"]`: {"acp": {Runner: good, Agents: []string{"no agent!"}}},
	} {
		cfg := agent.Config{Runner: good}
		cfg.Runners.Runtimes = runtimes
		_, err := agent.Open(t.Context(), cfg)
		require.ErrorContains(t, err, want)
	}
}
