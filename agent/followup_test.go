package agent_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
)

// TestReceipt: what is posted says which session has it, which run takes it, and whether the
// session had it before.
func TestReceipt(t *testing.T) {
	cfg := agent.Config{Rules: rulesForDepth(1)}
	steps := script{
		agenttest.Main: {say("hi"), say("ok"), say("ok")},
		"work":         {say("half").After(time.Hour), say("done")},
	}
	agenttest.Run(t, cfg, steps, func(h *harness) {
		t := h.T()
		child := startAll(h, "work")[0]
		for _, c := range []struct {
			to   *agent.Session
			want agent.Receipt
		}{
			{h.Main(), agent.Receipt{Session: topKey}},
			{child.Session(), agent.Receipt{Session: child.Key(), Run: child.ID()}},
		} {
			for _, known := range []bool{false, true} {
				got, err := c.to.Post(h.Context(), agent.Incoming{ID: "1", Text: "hello"})
				require.NoError(t, err)
				c.want.Existing = known
				require.Equal(t, c.want, got)
			}
		}
		got, err := h.Main().Post(h.Context(), agent.Incoming{})
		require.ErrorAs(t, err, new(*agent.InputError))
		require.Zero(t, got)
	})
}
