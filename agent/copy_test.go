package agent_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	agentctx "github.com/offshoot-sdk/offshoot/context"
	"github.com/offshoot-sdk/offshoot/policy"
)

// What the caller changes in its Config after Open reaches neither rights nor prompts.
func TestOpenCopiesRulesAndPrompts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		deny := []string{"exec"}
		aliases := map[string]string{"fast": "acme/small"}
		senders := []string{"4711"}
		specs := map[string]agentctx.Spec{"": {Files: []string{"AGENTS.md"}}}
		var tools [][]string
		var prompts []string
		cfg := configWith(func(_ context.Context, tn *agent.Turn) (agent.Result, error) {
			tools = append(tools, toolNamesOf(tn.Tools))
			prompts = append(prompts, tn.Prompt.String())
			return textResult("ok")
		})
		cfg.Tools = toolbox("read", "exec")
		cfg.Rules.Tools = policy.ToolPolicy{Deny: deny}
		cfg.Prompts.SubagentSpecs = specs
		cfg.Prompts.Input.Aliases = aliases
		cfg.Prompts.Input.Channel.Senders = senders
		runFor(t, cfg, func(rt *agent.Runtime) {
			for range 2 {
				require.NoError(
					t, errorOf(rt.Session(topKey).Post(t.Context(), agent.Incoming{Text: "go"})),
				)
				synctest.Wait()
				deny[0], senders[0], aliases["wild"] = "other", "666", "acme/wild"
				specs[""].Files[0] = "MEMORY.md"
			}
		})
		require.Len(t, tools, 2)
		require.NotContains(t, tools[0], "exec")
		require.Equal(t, tools[0], tools[1])
		require.Equal(t, prompts[0], prompts[1])
	})
}
