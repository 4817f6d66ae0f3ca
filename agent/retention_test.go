package agent_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// Pains 33: wherever the process dies, what has ended and was told is archived when its time has
// come. What could not be told, what lives, and what stands above either, is not, and is archived
// when its own time has come.
func TestRetentionOverEveryCrash(t *testing.T) {
	cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
		var err error
		switch {
		case tn.Label == "above" && tn.N == 1:
			_, err = tn.Spawn(ctx, agent.Task{Text: "x", Label: "below", Key: "below"})
		case tn.Label == "slow":
			err = pause(ctx, 5*time.Hour)
		case tn.Label == "below":
			err = pause(ctx, 6*time.Hour)
		}
		return agent.Result{Text: tn.Label}, err
	})
	cfg.Rules = rulesForDepth(2)
	cfg.Rules.Subagents.MaxBlocked = policy.MaxChildren
	cfg.Deliver = func(_ context.Context, d agent.Delivery) error {
		if d.Completion.Run.Label == "untold" {
			return errors.New("no connection")
		}
		return nil
	}
	agenttest.EveryCrash(t, cfg, nil, func(h *harness) {
		keys := map[string]session.Key{}
		for _, label := range []string{"told", "untold", "silent", "slow", "above"} {
			task := agent.Task{
				Text: "x", Label: label, Key: label, Announce: label != "silent" && label != "slow",
			}
			require.NoError(h.T(), h.Do(func(rt *agent.Runtime) error {
				child, err := rt.Session(topKey).Spawn(h.Context(), task)
				if err == nil {
					keys[label] = child.Key()
				}
				return err
			}))
			time.Sleep(time.Minute) // what is delivered says which others are active
		}
		time.Sleep(4 * time.Hour)
		// A crash interrupts what it meets, which has ended then as well.
		alive := map[string]bool{"untold": true}
		for _, r := range h.Runs() {
			alive[r.Label] = alive[r.Label] || !r.Status.Terminal()
		}
		require.False(h.T(), alive["told"] || alive["silent"])
		requireKept(h, keys, alive)
		time.Sleep(8 * time.Hour)
		requireKept(h, keys, map[string]bool{"untold": true})
		for _, r := range h.Runs() {
			require.Equal(h.T(), "untold", r.Label)
			require.True(h.T(), r.Status.Terminal())
		}
	})
}

// requireKept fails unless the sessions that are kept are on record, and the others are archived
// with their history.
func requireKept(h *harness, keys map[string]session.Key, kept map[string]bool) {
	for label, key := range keys {
		err := h.Do(func(rt *agent.Runtime) error {
			page, err := rt.Session(key).History(h.Context(), agent.HistoryQuery{})
			if err == nil {
				require.Equal(h.T(), !kept[label], page.Archived, label)
			}
			if errors.Is(err, spawn.ErrNotFound) {
				return nil // a run that never began has no transcript
			}
			return err
		})
		require.NoError(h.T(), err, label)
	}
}
