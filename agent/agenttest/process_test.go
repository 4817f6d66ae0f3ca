package agenttest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
)

// A process that is killed at one of its first writes, before the call that has started it has
// returned, does not take the place of the one that follows it.
func TestProcessThatIsKilledAtOnce(t *testing.T) {
	s := Script{Main: {Say("done").After(time.Minute)}}
	for range 20 {
		EveryCrash(t, agent.Config{}, s, func(h *Harness) {
			h.Post("go")
			h.Pass(time.Second)
			h.Crash()
			h.Replied() // all that can happen now has happened
			require.Same(h.T(), h.processes[len(h.processes)-1], h.current())
			require.False(h.T(), h.current().dead.Load())
		})
	}
}
