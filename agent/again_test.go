package agent_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// A2: a program that spawns under the same Key after the sub-agent was archived gets its outcome,
// of its type, also in another process. What has no Key is gone.
func TestOutcomeAfterTheArchive(t *testing.T) {
	type answer struct{ N int }
	long := strings.Repeat("long ", 50_000)
	cfg := configWith(func(_ context.Context, tn *agent.Turn) (agent.Result, error) {
		switch {
		case strings.Contains(tn.Input(), "fail"):
			return agent.Result{}, fmt.Errorf("boom")
		case tn.Schema != nil:
			return agent.Result{JSON: json.RawMessage(`{"N":7}`)}, nil
		}
		return textResult(long)
	})
	agenttest.Run(t, cfg, nil, func(h *harness) {
		ctx := h.Context()
		for range 3 {
			typed, err := agent.Spawn[answer](ctx, h.Main(), agent.Task{Text: "a", Key: "typed"})
			require.NoError(t, err)
			text, err := agent.Spawn[string](ctx, h.Main(), agent.Task{Text: "b", Key: "text"})
			require.NoError(t, err)
			bad, err := agent.Spawn[string](ctx, h.Main(), agent.Task{Text: "fail", Key: "bad"})
			require.NoError(t, err)
			plain, err := agent.Spawn[string](ctx, h.Main(), agent.Task{Text: "c"})
			require.NoError(t, err)

			value, err := typed.Wait(ctx)
			require.NoError(t, err)
			require.Equal(t, answer{7}, value)
			_, err = bad.Wait(ctx) // AtLeast counts what ended well, and lets this one go on
			require.ErrorAs(t, err, new(*agent.RunError))
			outcomes, err := agent.Join(ctx, h.Main(), []*agent.Child[string]{text, bad, plain},
				agent.JoinOptions{AtLeast: 2})
			require.NoError(t, err)
			require.Equal(t, long, outcomes[0].Value)
			var failed *agent.RunError
			require.ErrorAs(t, outcomes[1].Err, &failed)
			require.Equal(t, spawn.StatusFailed, failed.Run.Status)
			require.Contains(t, failed.Run.Error, "boom")
			info, err := text.Info(ctx)
			require.NoError(t, err)
			require.Equal(t, int64(len(long)), info.Result.Whole.Size)

			time.Sleep(2 * time.Hour)
			_, err = plain.Info(ctx)
			require.ErrorIs(t, err, agent.ErrNotFound)
			h.Crash()
		}
		require.Equal(t, 3, h.Calls("c"))
		require.Equal(t, 1, h.Calls("a"))
		require.Equal(t, 1, h.Calls("b"))
	})
}

// A3: Again has a Key begin anew what was interrupted, in a session of its own, and nothing else.
func TestAgain(t *testing.T) {
	var calls atomic.Int32
	cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
		if calls.Add(1) > 1 {
			return textResult("done")
		}
		err := tn.Record(ctx, agent.Message{Role: session.MessageAssistant, Text: "hm"})
		if err == nil {
			err = pause(ctx, time.Minute)
		}
		return agent.Result{}, err
	})
	agenttest.Run(t, cfg, nil, func(h *harness) {
		spawned := func(again bool) *agent.Child[string] {
			c, err := h.Main().Spawn(h.Context(), agent.Task{Text: "x", Key: "k", Again: again})
			require.NoError(t, err)
			return c
		}
		first := spawned(true)
		require.Equal(t, first.ID(), spawned(true).ID(), "it is alive")
		time.Sleep(time.Second)
		interruptNow(h)
		_, err := spawned(false).Wait(h.Context())
		var failed *agent.RunError
		require.ErrorAs(t, err, &failed)
		require.Equal(t, spawn.StatusInterrupted, failed.Run.Status)
		_, err = h.Main().Spawn(h.Context(), agent.Task{Text: "another", Key: "k", Again: true})
		require.ErrorIs(t, err, spawn.ErrKeyConflict)

		time.Sleep(2 * time.Hour) // the interrupted one is archived
		second := spawned(true)
		require.NotEqual(t, first.ID(), second.ID())
		require.NotEqual(t, first.Key(), second.Key())
		value, err := second.Wait(h.Context())
		require.NoError(t, err)
		require.Equal(t, "done", value)
		h.Crash()
		for _, again := range []bool{false, true} {
			require.Equal(t, second.ID(), spawned(again).ID(), "it is done")
		}
		require.EqualValues(t, 2, calls.Load())
	})
}
