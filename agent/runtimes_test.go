package agent_test

import (
	"context"
	"fmt"
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

// What an external runtime cannot do is refused before anything exists, each with its rule.
func TestRuntimesThatAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		cfg   func(*agent.Config)
		task  agent.Task
		rule  policy.Rule
		wants []string
	}{
		"8.1 not configured": {
			task: agent.Task{Runtime: "codex"}, rule: policy.RuleRuntime,
			wants: []string{`"codex"`, `"subagent, acp"`, "Config.Runners.Runtimes"},
		},
		"8.3 not for the agent": {
			task: agent.Task{Runtime: "acp", Agent: "other"}, rule: policy.RuleRuntime,
			wants: []string{`Runners.Runtimes["acp"].Agents`, `"coder"`},
		},
		"8.5 sandbox require": {
			task: agent.Task{Runtime: "acp", Agent: "coder", Sandbox: true}, rule: policy.RuleSandbox,
		},
		"8.4 in a sandbox": {
			cfg: func(c *agent.Config) {
				c.Rules.Sandbox.Mode = policy.SandboxAll
			},
			task: agent.Task{Runtime: "acp", Agent: "coder"}, rule: policy.RuleRuntime,
			wants: []string{"acp in a sandbox"},
		},
		"8.20 depth": {
			cfg:  func(c *agent.Config) { c.Rules.Subagents.MaxChildren = 1 },
			task: agent.Task{Runtime: "acp", Agent: "coder"}, rule: policy.RuleChildren,
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := withRuntime(saying(func(ctx context.Context, _ *agent.Turn) (string, error) {
				return "", pause(ctx, time.Hour)
			}), "coder")
			cfg.Rules.Agents = agentsAllowing([]string{"*"}, "coder", "other")
			if c.cfg != nil {
				c.cfg(&cfg)
			}
			agenttest.Run(t, cfg, nil, func(h *harness) {
				busy := 0
				if c.rule == policy.RuleChildren {
					spawnedOver(h, topKey, agent.Task{Text: "native"})
					busy = 1
				}
				c.task.Text = "work"
				_, err := h.Main().Spawn(h.Context(), c.task)
				require.ErrorIs(h.T(), err, &policy.Refusal{Rule: c.rule})
				for _, want := range c.wants {
					require.ErrorContains(h.T(), err, want)
				}
				require.Len(h.T(), h.Runs(), busy)
			})
		})
	}
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
