package agent_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/policy"
)

// C5: the refusal of a tool that a spawn asks for says that there is none of that name, with the
// nearest, or which rule keeps the requester from handing it down. ChildInput says the same.
func TestRefusalOfAToolSaysWhy(t *testing.T) {
	agents := func(tools policy.ToolPolicy) policy.Rules {
		return policy.Rules{Agents: []policy.Agent{{ID: "main", Tools: tools}}}
	}
	for want, c := range map[string]struct {
		rules policy.Rules
		tools []string
	}{
		`allowed "exec, read"; there is no tool "exce"; the nearest is "exec"`: {
			tools: []string{"exce"},
		},
		`there is no tool "zzz"; there is no tool "group:web"`: {tools: []string{"zzz", "group:web"}},
		`set at Config.Rules.Agents[0].Tools.Deny (agents.list[main].tools.deny); tool "exec" is not among what the caller may hand down, Config.Rules.Agents[0].Tools.Deny (agents.list[main].tools.deny)`: {
			agents(policy.ToolPolicy{Deny: []string{"exec"}}), []string{"exec"},
		},
		`set at Config.Rules.Agents[0].Tools.Delegable.Allow (agents.list[main].tools.delegable.allow)`: {
			agents(policy.ToolPolicy{Delegable: &policy.ToolRules{Allow: []string{"read"}}}),
			[]string{"exec"},
		},
		`set at Config.Rules.Tools.Allow (tools.allow)`: {
			policy.Rules{Tools: policy.ToolPolicy{Allow: []string{"read"}}}, []string{"exec"},
		},
	} {
		cfg := configAnswering(asText)
		cfg.Rules, cfg.Tools = c.rules, []agent.Tool{namedTool("exec"), namedTool("read")}
		task := agent.Task{Text: "x", Tools: c.tools}
		_, preview := cfg.ChildInput(t.Context(), topKey, task)
		agenttest.Run(t, cfg, nil, func(h *harness) {
			_, err := agent.Spawn[string](h.Context(), h.Main(), task)
			for _, err := range []error{err, preview} {
				require.ErrorIs(t, err, &policy.Refusal{Rule: policy.RuleTools})
				require.ErrorContains(t, err, want)
				require.NotContains(t, err.Error(), "Caller.Delegable")
			}
			// What is granted beside it has the same sentence as a warning.
			task.Tools = append([]string{"read"}, c.tools...)
			child, err := agent.Spawn[string](h.Context(), h.Main(), task)
			require.NoError(t, err)
			h.Pass(time.Second)
			info, err := child.Info(h.Context())
			require.NoError(t, err)
			require.Equal(t, []string{"read"}, info.Tools)
		})
	}
}
