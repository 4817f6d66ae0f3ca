package agent_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
)

// A refusal names what was asked for in the words of the one who asked: a program has a Task, a
// model the tool sessions_spawn.
func TestRefusalsNameWhatWasAskedFor(t *testing.T) {
	rules := policy.Rules{
		Agents:    []policy.Agent{{ID: "main"}, {ID: "research"}, {ID: "ops"}},
		Subagents: policy.Subagents{AllowAgents: []string{"research"}},
	}
	read := toolSaying("")
	tools := []agent.Tool{{Name: "read", Call: read}}
	cfg := agent.Config{Rules: rules, Tools: tools}
	agenttest.Run(t, cfg, script{"main": {echo()}}, func(h *harness) {
		for want, task := range map[string]agent.Task{
			"Task.Timeout":                          {Timeout: -time.Minute},
			"Task.Thinking":                         {Thinking: "banana"},
			"Task.Budget.Tokens":                    {Budget: policy.Budget{Tokens: -1}},
			"Task.Budget.Cost":                      {Budget: policy.Budget{Cost: -1}},
			"agents.list":                           {Agent: "ghost"},
			"agents.defaults.subagents.allowAgents": {Agent: "ops"},
		} {
			task.Text = "x"
			_, err := agent.Spawn[string](h.Context(), h.Main(), task)
			refused, ok := errors.AsType[*policy.Refusal](err)
			require.True(t, ok, "%s: %v", want, err)
			require.Equal(t, want, refused.Path)
			require.NotContains(t, err.Error(), "sessions_spawn")
			require.NotContains(t, err.Error(), "Request.")
			if want == "agents.list" {
				require.EqualError(t, err, `policy: spawn refused by agents.list: asked "ghost", `+
					`which is not configured, allowed "main, research", set at Config.Rules.Agents (agents.list)`)
			}
			if strings.HasPrefix(want, "agents.") { // C13: the Go path, for a program
				require.Regexp(t, `^Config\.Rules\.`, refused.Field)
			}
		}
		_, err := agent.Spawn[string](h.Context(), h.Main(), agent.Task{
			Text: "x", Tools: []string{"read", "fly"}, Strict: true,
		})
		require.ErrorIs(t, err, &policy.Refusal{Rule: policy.RuleTools})
		require.NotContains(t, err.Error(), "Request.")

		out, err := callTool(h, "sessions_spawn", "1", `{"task":"x","thinking":"banana"}`)
		require.NoError(t, err)
		require.Equal(t, "sessions_spawn.thinking", out["path"])
		out, err = callTool(h, "sessions_spawn", "2", `{"task":"x","agentId":"ghost"}`)
		require.NoError(t, err)
		require.Equal(t, "forbidden", out["status"])
		require.Equal(t, "main, research", out["limit"])
		require.Equal(t, string(policy.RuleAgents), out["rule"])
		same := out["error"]
		out, err = callTool(h, "sessions_spawn", "3", `{"task":"x","agentId":"ops"}`)
		require.NoError(t, err)
		require.Equal(t, strings.ReplaceAll(out["error"].(string), "ops", "ghost"), same)
	})
}

// TestRefusalsOfMessagesNameOurSettings: what refuses a message names a field of the Config or of
// the Task, whichever call brings the message.
func TestRefusalsOfMessagesNameOurSettings(t *testing.T) {
	post := func(ctx context.Context, s *agent.Session) error {
		return errorOf(s.Post(ctx, agent.Incoming{Text: "x"}))
	}
	postAndWait := func(ctx context.Context, s *agent.Session) error {
		return errorOf(s.PostAndWait(ctx, agent.Incoming{Text: "x"}))
	}
	setRoute := func(ctx context.Context, s *agent.Session) error {
		return s.SetRoute(ctx, session.Route{Channel: "chat", To: "1"})
	}
	rules := rulesForDepth(1)
	rules.Agents = []policy.Agent{{ID: "main"}}
	rules.Subagents.MaxChildren = 1
	cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
		if tn.Label == "hangs" {
			return agent.Result{}, pause(ctx, time.Hour)
		}
		return textResult("done")
	})
	cfg.Rules = rules
	agenttest.Run(t, cfg, nil, func(h *harness) {
		t, ctx := h.T(), h.Context()
		named := func(err error, rule policy.Rule, field, path string) {
			t.Helper()
			refused, ok := errors.AsType[*policy.Refusal](err)
			require.True(t, ok, "%v", err)
			require.Equal(t, rule, refused.Rule)
			require.Equal(t, []string{field, path}, []string{refused.Field, refused.Path})
			require.NotRegexp(t, `Request\.|[^.]Rules\.`, err.Error())
		}
		ghost := h.Session(session.Must(session.MainKey("ghost")))
		for _, call := range []func(context.Context, *agent.Session) error{
			post, postAndWait, setRoute,
		} {
			named(call(ctx, ghost), policy.RuleTarget, "Config.Rules.Agents", "agents.list")
		}
		spent, err := agent.Spawn[string](ctx, h.Main(), agent.Task{
			Text: "x", Label: "spent", Budget: policy.Budget{Turns: 1},
		})
		require.NoError(t, err)
		h.Pass(time.Minute)
		budget := func(err error) { named(err, policy.RuleBudget, "", "Task.Budget") }
		budget(post(ctx, spent.Session()))
		budget(errorOf(spent.Post(ctx, agent.Incoming{Text: "x"})))
		out, err := callTool(h, "sessions_send", "1", `{"target":"spent","message":"x"}`)
		require.NoError(t, err)
		require.Equal(t, "Task.Budget", out["path"])

		hangs := startAll(h, "hangs")[0]
		h.Pass(time.Second)
		children := func(err error) {
			named(err, policy.RuleChildren, "Config.Rules.Subagents.MaxChildren",
				"agents.defaults.subagents.maxChildrenPerAgent")
		}
		children(post(ctx, spent.Session()))
		children(errorOf(spent.Post(ctx, agent.Incoming{Text: "x"})))
		time.Sleep(2 * time.Second)
		out, err = callTool(h, "sessions_send", "2", `{"target":"spent","message":"x"}`)
		require.NoError(t, err)
		require.Contains(t, out["error"], "Config.Rules.Subagents.MaxChildren")
		require.NoError(t, hangs.Stop(ctx))
	})
}
