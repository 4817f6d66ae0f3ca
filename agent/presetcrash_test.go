package agent_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
)

// In each preset a process dies in the middle of a sub-agent's turn. The channel has line by line
// what was said: that the sub-agent was interrupted, once, as the preset tells of an end. Its work
// is not done a second time.
func TestScenarioCrashInAChild(t *testing.T) {
	for name, c := range map[string]struct {
		preset func(*agent.Config)
		end    string
	}{
		"OpenClaw": {func(*agent.Config) {}, "history: interrupted"},
		"GoClaw":   {agent.PresetGoClaw, "history: interrupted"},
		"Clawdbot": {agent.PresetClawdbot, "Status: unknown\n\nResult:\n(not available)\n\n" +
			"Notes:\n- Error: the process that ran its turn is gone\n\n" +
			"Stats: runtime 5m0s • tokens n/a"},
	} {
		t.Run(name, func(t *testing.T) {
			s := script{
				"main": {
					spawnCall(`{"task":"research","label":"history"}`), say("On it."),
					agenttest.Echo(),
				},
				"history": {say("never said").After(10 * time.Minute)},
			}
			playPreset(t, c.preset, nil, s, func(b presetBot) {
				b.write("Find it.")
				b.said("On it.")
				b.Pass(5 * time.Minute)
				b.Crash()
				require.Equal(t, agent.StatusInterrupted, b.Child("history").Status)
				for range 2 {
					b.Pass(20 * time.Minute)
					b.said("On it.", c.end)
				}
				require.Equal(t, 1, b.Calls("history"))
			})
		})
	}
}
