package agent_test

import (
	"context"
	"sync"
	"testing"
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

// childConfig has a value for all that makes the prompts of sub-agents differ.
func childConfig() agent.Config {
	return agent.Config{
		Workspace: workspace("common"), Tools: toolbox("read", "exec", "web_search"),
		Models: agent.Models{Model: "acme/large", Thinking: "low"},
		Prompts: agent.Prompts{
			Input: agentctx.Input{
				Product: "Perch", Sandbox: agentctx.Sandbox{Dir: "/box"},
				Env: agentctx.Env{Zone: "Asia/Tokyo", Dir: "/work"},
			},
			SubagentSpecs: map[string]agentctx.Spec{"coder": agentctx.PersonaSpec()},
			Skills:        []agentctx.SkillSource{{FS: skillFiles(), Path: "skills"}},
		},
		Rules: policy.Rules{
			Subagents: policy.Subagents{MaxSpawnDepth: 3, Model: "acme/small", Thinking: "high"},
			Agents: []policy.Agent{
				{ID: "main", Subagents: policy.Subagents{AllowAgents: []string{"*"}}},
				{ID: "coder", Subagents: policy.Subagents{
					AllowAgents: []string{"*"}, Model: "acme/code",
				}, Tools: policy.ToolPolicy{Deny: []string{"web_search"}}},
				{ID: "boxed", Sandbox: policy.SandboxAll},
			},
		},
		Now: func() time.Time { return time.Date(2026, 11, 21, 23, 0, 0, 0, time.UTC) },
	}
}

// inputOf returns the prompt input that a Config has for a session.
func inputOf(t *testing.T, cfg agent.Config, key session.Key) agentctx.Input {
	t.Helper()
	in, err := cfg.Input(t.Context(), key)
	require.NoError(t, err)
	return in
}

// C9: what a test shows for a sub-agent is byte for byte what the turn of the sub-agent is sent.
func TestChildInputGivesTheProductionPrompt(t *testing.T) {
	chat := session.Must(session.DirectKey("main", "telegram", "4711"))
	for name, tasks := range map[string][]agent.Task{
		"a child":      {{Text: "work", Label: "one"}},
		"a label":      {{Text: "work", Label: "two\nlines `x`"}},
		"another":      {{Text: "work", Label: "coder", Agent: "coder"}},
		"its own wish": {{Text: "work", Label: "x", Model: "acme/best", Thinking: "medium"}},
		"own spec":     {{Text: "work", Label: "x", Spec: agentctx.InstructionsSpec()}},
		"with skills":  {{Text: "work", Label: "x", Spec: agentctx.Spec{Skills: []string{"*"}}}},
		"fewer tools":  {{Text: "work", Label: "x", Tools: []string{"read"}}},
		"in a sandbox": {{Text: "work", Label: "x", Agent: "boxed"}},
		"a grandchild": {{Text: "a", Label: "up", Agent: "coder"}, {Text: "b", Label: "x"}},
		"a leaf": {
			{Text: "a", Label: "1", Thinking: "medium"},
			{Text: "b", Label: "2", Agent: "coder"},
			{Text: "c", Label: "3"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			last := tasks[len(tasks)-1].Label
			var got *agent.Turn
			cfg := childConfig()
			cfg.Runner = agent.RunnerFunc(func(
				ctx context.Context, tn *agent.Turn,
			) (agent.Result, error) {
				mu.Lock()
				defer mu.Unlock()
				if depth := tn.Session.Depth; depth < len(tasks) && tn.N == 1 {
					_, err := tn.Spawn(ctx, tasks[depth])
					return agent.Result{Text: "ok"}, err
				} else if depth == len(tasks) {
					got = tn
				}
				return textResult("ok")
			})
			agenttest.Run(t, cfg, nil, func(h *harness) {
				h.PostTo(chat, "hello")
				synctest.Wait()
				require.NotNil(t, got, last)
				in, err := cfg.ChildInput(t.Context(), chat, tasks...)
				require.NoError(t, err)
				in.Session, in.Now = got.Session.Key, cfg.Now()
				in.Subagent.Requester = got.Session.Parent
				want := agentctx.Assemble(in).String()
				require.Equal(t, want, got.Prompt.String(),
					contexttest.Diff(want, got.Prompt.String()))
			})
		})
	}
}

// C9: the model and the thinking of the rules are in what Input returns for a sub-agent.
func TestInputOfASubagentHasTheModelOfTheRules(t *testing.T) {
	cfg := childConfig()
	child := session.Must(session.Must(session.MainKey("main")).Child("main", session.NewID()))
	require.Equal(t, "acme/small", inputOf(t, cfg, child).Env.Model)
	require.Equal(t, "high", inputOf(t, cfg, child).Env.Thinking)
	coder := session.Must(session.Must(session.MainKey("coder")).Child("coder", session.NewID()))
	require.Equal(t, "acme/code", inputOf(t, cfg, coder).Env.Model)
}

// C9: the prompt of a session that the caller runs lists no session tool that it does not get.
func TestInputOfACallerRunSession(t *testing.T) {
	cfg := childConfig()
	cfg.Deliver = func(context.Context, agent.Delivery) error { return nil }
	agenttest.Run(t, cfg, script{}, func(h *harness) {
		listed := map[string]bool{}
		for _, tool := range inputOf(t, cfg, topKey).Tools {
			listed[tool.Name] = true
		}
		for _, tool := range h.Main().Tools() {
			require.True(t, listed[tool.Name], tool.Name)
			delete(listed, tool.Name)
		}
		require.Equal(t, map[string]bool{"read": true, "exec": true, "web_search": true}, listed)
		require.NotContains(t, agentctx.Assemble(inputOf(t, cfg, topKey)).String(), "sessions_yield")
	})
	cfg.Deliver = nil
	require.Contains(t, agentctx.Assemble(inputOf(t, cfg, topKey)).String(), "sessions_yield")
}

func TestChildInputRefuses(t *testing.T) {
	cfg := childConfig()
	child := session.Must(topKey.Child("main", session.NewID()))
	for name, f := range map[string]func() error{
		"no task": func() error { _, err := cfg.ChildInput(t.Context(), topKey); return err },
		"no session": func() error {
			_, err := cfg.ChildInput(t.Context(), session.Key{}, agent.Task{Text: "x"})
			return err
		},
		"a sub-agent": func() error {
			_, err := cfg.ChildInput(t.Context(), child, agent.Task{Text: "x"})
			return err
		},
	} {
		var bad *agent.InputError
		require.ErrorAs(t, f(), &bad, name)
	}
	_, err := cfg.ChildInput(t.Context(), topKey, agent.Task{Text: "x", Agent: "nope"})
	var refused *policy.Refusal
	require.ErrorAs(t, err, &refused)
	four := make([]agent.Task, 4)
	_, err = cfg.ChildInput(t.Context(), topKey, four...)
	require.ErrorAs(t, err, &refused)
	require.Equal(t, policy.RuleDepth, refused.Rule)
}
