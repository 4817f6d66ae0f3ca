package agent_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// watchEvents collects the events of the main session's tree until the test is over.
func watchEvents(h *harness) func() []agent.TreeEvent {
	var list []agent.TreeEvent
	events := h.Main().Events(h.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for e, err := range events {
			if err != nil {
				h.T().Error(err)
			}
			list = append(list, e)
		}
	}()
	return func() []agent.TreeEvent { synctest.Wait(); return list }
}

func TestEvents(t *testing.T) {
	s := script{
		"main":  {startStep("count"), say("On it."), say("It is 42.")},
		"count": {say("42").After(time.Minute)},
	}
	agenttest.Run(t, agent.Config{}, s, func(h *harness) {
		seen := watchEvents(h)
		h.Post("How many files?")
		time.Sleep(time.Hour)
		var got []string
		deltas := ""
		for _, e := range seen() {
			line := fmt.Sprint(e.Depth, " ", e.Kind)
			switch e.Kind {
			case spawn.EventDelta, spawn.EventTurnEnded:
				line += " " + e.Text
			case spawn.EventEnded, spawn.EventAdmitted:
				line += " " + e.Label + " " + e.Status.String()
			default:
			}
			if got = append(got, line); e.Kind == spawn.EventDelta && e.Depth == 0 {
				deltas += e.Text
			}
			require.False(t, e.Time.IsZero())
			require.True(t, e.Session.IsValid())
			data, err := json.Marshal(e)
			require.NoError(t, err)
			require.Contains(t, string(data), fmt.Sprintf(`"kind":%q`, e.Kind))
		}
		for _, want := range []string{
			"0 posted", "0 turn", "1 admitted count queued", "1 turn", "1 delta 42",
			"1 turn_ended 42", "1 ended count ok",
			"0 turn_ended On it.", "0 turn_ended It is 42.",
			"0 delivered",
		} {
			require.Contains(t, got, want)
		}
		require.Equal(t, "On it.It is 42.", deltas, "in pieces")
		require.Less(t, indexOf(got, "1 admitted count queued"), indexOf(got, "1 turn"))
		require.Less(t, indexOf(got, "1 turn_ended 42"), indexOf(got, "1 ended count ok"))
		require.Less(t, indexOf(got, "1 ended count ok"), indexOf(got, "0 turn_ended It is 42."))
	})
}

func indexOf(list []string, s string) int {
	for i, x := range list {
		if x == s {
			return i
		}
	}
	return -1
}

func TestEventsEndWithTheirContextAndTheRuntime(t *testing.T) {
	agenttest.Run(t, agent.Config{}, script{"main": {echo()}}, func(h *harness) {
		ctx, cancel := context.WithCancel(h.Context())
		ended := make(chan int, 3)
		loop := func(ctx context.Context, most int) {
			events := h.Main().Events(ctx)
			go func() {
				n := 0
				for _, err := range events {
					if err != nil {
						t.Error(err)
					}
					if n++; n == most {
						break
					}
				}
				ended <- n
			}()
		}
		loop(ctx, 0)
		loop(h.Context(), 1)
		h.Post("hello")
		require.Equal(t, 1, <-ended, "the loop that broke off")
		synctest.Wait()
		cancel()
		require.Positive(t, <-ended, "the one whose context ended")
		loop(h.Context(), 0) // ends with the Runtime, else a goroutine is left
	})
}
