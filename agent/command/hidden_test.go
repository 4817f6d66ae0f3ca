package command_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/command"
	"github.com/offshoot-sdk/offshoot/policy"
)

// A person who asks for an agent is told the same of one that may not be spawned and of one that is
// not there, whatever the rules say, as a model is.
func TestSpawnsDoNotTellOfHiddenAgents(t *testing.T) {
	for _, allowed := range [][]string{nil, {}, {"other"}} {
		cfg := agent.Config{Runner: worker}
		cfg.Rules.Agents = []policy.Agent{
			{ID: "main", Subagents: policy.Subagents{AllowAgents: allowed}},
			{ID: "other"},
			{ID: "hidden"},
		}
		playBy(t, cfg, command.Options{}, func(b *bot) {
			general := room(b)
			b.say(general, "ann", "hello")
			told := func(id string) string {
				answer := b.say(general, "ann", "/subagents spawn "+id+" look around")
				return strings.ReplaceAll(answer, id, "AGENT")
			}
			there := told("hidden")
			require.Contains(t, there, "refused by the rule allowAgents: asked for AGENT")
			require.Equal(t, there, told("ghost"))
			require.Equal(t, told("HIDDEN"), told("GHOST"))
		})
	}
}
