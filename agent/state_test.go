package agent_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	agentctx "github.com/offshoot-sdk/offshoot/context"
	"github.com/offshoot-sdk/offshoot/session"
)

// countingTurns keeps in the state of a session how many turns there were, and answers
// with it. A turn takes a second after that.
func countingTurns() agent.Config {
	return saying(func(ctx context.Context, tn *agent.Turn) (string, error) {
		state := append(tn.State(), '+')
		if err := tn.SetState(ctx, state); err != nil {
			return "", err
		}
		return string(tn.State()), pause(ctx, time.Second)
	})
}

// The state of a session is what was set last, wherever the process dies: a turn that is repeated
// has what the one before has set. A reset begins without.
func TestStateOverEveryCrash(t *testing.T) {
	agenttest.EveryCrash(t, countingTurns(), nil, func(h *harness) {
		for range 3 {
			h.Post("on")
			h.Pass(time.Minute)
		}
		last := func() string { r := h.Replies(); return r[len(r)-1].Reply.Text }
		require.Contains(h.T(), []string{"+++", "++++"}, last(), "one more for the turn that was cut")
		require.NoError(h.T(), h.Do(func(rt *agent.Runtime) error {
			return rt.Session(topKey).Reset(h.Context())
		}))
		h.Post("on")
		h.Pass(time.Minute)
		require.Contains(h.T(), []string{"+", "++"}, last())
	})
}

// A sub-agent has a state of its own, in its later runs and when it comes back from the archive,
// wherever the process dies.
func TestStateOfLaterRunsOverEveryCrash(t *testing.T) {
	cfg := saying(func(ctx context.Context, tn *agent.Turn) (string, error) {
		if tn.State() == nil {
			return "new", tn.SetState(ctx, []byte(tn.Session.Key.String()))
		}
		return string(tn.State()), nil
	})
	agenttest.EveryCrash(t, cfg, nil, func(h *harness) {
		h.Post("on")
		h.Pass(time.Minute)
		key := spawnedOver(h, topKey, agent.Task{Text: "work"})
		answer := func() string {
			var info agent.RunInfo
			require.NoError(h.T(), h.Do(func(rt *agent.Runtime) error {
				c, err := rt.Session(key).Post(h.Context(), agent.Incoming{Text: "more"})
				if err != nil {
					return err
				}
				child, err := agent.ChildOf[string](h.Context(), rt.Session(topKey), c)
				if err == nil {
					_, err = child.Wait(h.Context())
				}
				if err == nil {
					info, err = child.Info(h.Context())
				}
				return err
			}))
			return info.Result.Text
		}
		h.Pass(time.Minute)
		answer() // the first run may have ended before it kept anything
		require.Equal(h.T(), key.String(), answer())
		h.Pass(3 * time.Hour)
		require.Empty(h.T(), h.Runs())
		require.NoError(h.T(), h.Do(func(rt *agent.Runtime) error {
			return rt.Session(key).Revive(h.Context())
		}))
		require.Equal(h.T(), key.String(), answer())
	})
}

// A state has 64 KiB, of whatever bytes, and stands although its turn was cancelled or failed. What
// it was given and what it gives are copies.
func TestStateOfAnyBytes(t *testing.T) {
	every := make([]byte, agent.MaxState)
	for i := range every {
		every[i] = byte(i)
	}
	var errs []error
	var found [][]byte
	cfg := saying(func(ctx context.Context, tn *agent.Turn) (string, error) {
		found = append(found, tn.State())
		switch tn.Input() {
		case "long":
			errs = append(errs, tn.SetState(ctx, append(bytes.Clone(every), 0)))
		case "cancelled":
			<-ctx.Done()
			given := bytes.Clone(every)
			errs = append(errs, tn.SetState(context.WithoutCancel(ctx), given))
			given[0]++
			tn.State()[1]++
			return "", context.Cause(ctx)
		case "none":
			errs = append(errs, tn.SetState(ctx, []byte{}))
			return "", errors.New("the turn fails")
		}
		return "done", nil
	})
	cfg.Store = session.NewMemory()
	agenttest.Run(t, cfg, nil, func(h *harness) {
		h.Post("long")
		h.Pass(time.Second)
		h.Post("cancelled")
		synctest.Wait()
		require.NoError(h.T(), h.Main().CancelTurn(h.Context()))
		h.Pass(time.Second)
		h.Crash()
		h.Post("none")
		h.Pass(time.Second)
		h.Post("last")
		h.Pass(time.Second)
	})
	var over *agent.LimitError
	require.ErrorAs(t, errs[0], &over)
	require.Equal(t, agent.MaxState, over.Limit)
	require.ErrorContains(t, errs[0], "65537 bytes")
	require.NoError(t, errors.Join(errs[1:]...))
	require.Equal(t, [][]byte{nil, nil, every, nil}, found)
}

// A fork begins without the state of its requester, and the state is in no text that a model or a
// person gets.
func TestStateIsShownToNoModel(t *testing.T) {
	const secret = "thread-0815"
	var seen strings.Builder
	cfg := saying(func(ctx context.Context, tn *agent.Turn) (string, error) {
		fmt.Fprintf(&seen, "%s %v", tn.Prompt, tn.Messages)
		if tn.Run != "" {
			return fmt.Sprintf("%q", tn.State()), nil
		}
		if err := tn.SetState(ctx, []byte(secret)); err != nil {
			return "", err
		}
		child, err := tn.Spawn(ctx, agent.Task{Text: "work", Spec: agentctx.Spec{
			History: agentctx.HistoryFork,
		}})
		if err != nil {
			return "", err
		}
		return child.Wait(ctx)
	})
	agenttest.Run(t, cfg, nil, func(h *harness) {
		h.Watch(topKey)
		h.Post("go")
		h.Pass(time.Minute)
		h.Replied(`""`)
	})
	require.NotContains(t, seen.String(), secret)
}
