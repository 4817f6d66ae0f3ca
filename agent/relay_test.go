package agent_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/policy"
)

// relayed runs a program that works as f says, and returns the milestones that its requester was
// told of, with the times since it began.
func relayed(
	t *testing.T, stream bool, f func(ctx context.Context, tn *agent.Turn) error,
) (told []string) {
	t.Helper()
	cfg := saying(func(context.Context, *agent.Turn) (string, error) { return "native", nil })
	cfg.Rules.Subagents.ArchiveAfter = policy.Off
	cfg.Runners.Runtimes = map[string]agent.ExternalRuntime{"acp": {
		Runner: agent.RunnerFunc(func(
			ctx context.Context, tn *agent.Turn,
		) (agent.Result, error) {
			return agent.Result{Text: "done"}, f(ctx, tn)
		}),
	}}
	agenttest.Run(t, cfg, nil, func(h *harness) {
		began := time.Now()
		events := make(chan struct{})
		ctx, cancel := context.WithCancel(h.Context())
		go func() {
			defer close(events)
			q := agent.EventQuery{Root: topKey, Kinds: []agent.EventKind{agent.EventMilestone}}
			for e, err := range h.Runtime().Events(ctx, q) {
				if err == nil && e.Kind == agent.EventMilestone {
					told = append(told, fmt.Sprintf("%v: %s", e.Time.Sub(began), e.Text))
				}
			}
		}()
		spawnedOver(h, topKey, agent.Task{Text: "work", Runtime: "acp", Stream: stream})
		h.Pass(8 * time.Hour)
		cancel()
		<-events
	})
	return told
}

// 8.15: what a program says is passed on after 2.5 seconds, or 220 characters, or a blank line; a
// minute of silence is told once, and so is its end.
func TestRelay(t *testing.T) {
	long := strings.Repeat("word ", 60)
	script := func(ctx context.Context, tn *agent.Turn) error {
		for _, step := range []struct {
			say   string
			pause time.Duration
		}{
			{"I ", time.Second},
			{"read the", time.Second},
			{" code.", 3 * time.Second},
			{"First.\n\n", time.Second},
			{long, 10 * time.Minute},
			{"On.", 10 * time.Second},
			{"<think>hidden</think>", 5 * time.Second},
			{"key sk-ant-api03-" + strings.Repeat("a1B2", 20), 3 * time.Second},
		} {
			tn.Delta(step.say)
			if err := pause(ctx, step.pause); err != nil {
				return err
			}
		}
		return nil
	}
	told := relayed(t, true, script)
	require.Len(t, told, 7, "%q", told)
	require.Equal(t, []string{"2.5s: I read the code.", "5s: First."}, told[:2])
	require.Contains(t, told[2], "6s: ... ")
	require.Less(t, len(told[2]), 240)
	require.Contains(t, told[3], "1m6s: It has said nothing for a minute")
	require.Equal(t, []string{"10m6s: It works again.", "10m8.5s: On."}, told[4:6])
	require.NotContains(t, told[6], "a1B2a1B2")
	require.Empty(t, relayed(t, false, script), "no requester has asked for it")
}

// 8.16: a program that never stops talking does not use up the milestones of its run, and six hours
// are the end.
func TestRelayIsBounded(t *testing.T) {
	told := relayed(t, true, func(ctx context.Context, tn *agent.Turn) error {
		for n := range 7 * 3600 {
			tn.Delta(fmt.Sprintf("step %d. ", n))
			if err := pause(ctx, time.Second); err != nil {
				return err
			}
		}
		return tn.Report(ctx, agent.Progress{Text: "own", Milestone: true})
	})
	require.LessOrEqual(t, len(told), 91)
	when, _, _ := strings.Cut(told[len(told)-2], ":")
	last, err := time.ParseDuration(when)
	require.NoError(t, err)
	require.Greater(t, last, 3*time.Hour, "it slows down")
	require.Contains(t, told[len(told)-1], "own")
	told = relayed(t, true, func(ctx context.Context, tn *agent.Turn) error {
		return pause(ctx, 7*time.Hour)
	})
	require.Len(t, told, 2)
	require.Contains(t, told[1], "6h0m0s: It has worked for six hours")
}
