package agent_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/policy"
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
		require.Contains(t, out["error"], "which is not configured")
	})
}
