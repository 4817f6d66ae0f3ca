package agent_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
)

// The outcome of a run that was archived is that of its Key, or an error that says why there is
// none and what would keep it, however the run is asked for.
func TestOutcomeOfAnArchivedChild(t *testing.T) {
	type child = *agent.Child[string]
	asks := map[string]func(h *harness, c child) (string, error){
		"wait": func(h *harness, c child) (string, error) { return c.Wait(h.Context()) },
		"info": func(h *harness, c child) (string, error) {
			info, err := c.Info(h.Context())
			return info.Result.Text, err
		},
		"join": func(h *harness, c child) (string, error) {
			list, err := agent.Join(h.Context(), h.Main(), []child{c}, agent.JoinOptions{})
			require.Equal(h.T(), err, list[0].Err)
			return list[0].Value, err
		},
		"receipt": func(h *harness, c child) (string, error) {
			c, err := agent.ChildOf[string](h.Context(), h.Main(),
				agent.Receipt{Session: c.Key(), Run: c.ID()})
			require.NoError(h.T(), err)
			return c.Wait(h.Context())
		},
	}
	for name, task := range map[string]agent.Task{
		"deleted": {Cleanup: agent.CleanupDelete}, "archived": {},
		"deleted, with a key":  {Cleanup: agent.CleanupDelete, Key: "k"},
		"archived, with a key": {Key: "k"},
	} {
		t.Run(name, func(t *testing.T) {
			// The caller waits before the end: a run without a Key may be deleted with it.
			slow := configWith(func(ctx context.Context, _ *agent.Turn) (agent.Result, error) {
				return agent.Result{Text: "done"}, pause(ctx, time.Minute)
			})
			agenttest.Run(t, slow, nil, func(h *harness) {
				task.Text = "x"
				c, err := h.Main().Spawn(h.Context(), task)
				require.NoError(t, err)
				want, err := c.Wait(h.Context())
				require.NoError(t, err)
				h.Pass(2 * time.Hour)
				require.Empty(t, h.Runs())
				for how, ask := range asks {
					got, err := ask(h, c)
					if task.Key != "" {
						require.NoError(t, err, how)
						require.Equal(t, want, got, how)
						continue
					}
					require.ErrorIs(t, err, agent.ErrArchived, how)
					require.ErrorIs(t, err, agent.ErrNotFound, how)
					require.ErrorContains(t, err, "Task.Key", how)
				}
			})
		})
	}
}
