package agenttest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
)

// A10: a context with a timeout that was made outside of the bubble is noticed, and so is one made
// of it, and one that is given to a Turn.
func TestOuterTimeoutIsNoticed(t *testing.T) {
	outer, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	for how, derive := range derivations {
		ctx, cancel := derive(outer)
		failed := failures(t, agent.Config{}, Script{Main: {Say("x")}}, nil, func(h *Harness) {
			_, _ = h.Main().Post(ctx, agent.Incoming{Text: "x"})
		})
		cancel()
		require.Equal(t, errOuterContext.Error(), failed, how)
	}
	for name, use := range map[string]func(ctx context.Context, tn *agent.Turn) error{
		"Inbox": func(ctx context.Context, tn *agent.Turn) error {
			_, err := tn.Inbox(ctx)
			return err
		},
		"Record": func(ctx context.Context, tn *agent.Turn) error {
			return tn.Record(ctx, agent.Message{Text: "x"})
		},
		"Spend": func(ctx context.Context, tn *agent.Turn) error {
			return tn.Spend(ctx, agent.Usage{})
		},
		"Call": func(ctx context.Context, tn *agent.Turn) error {
			_, err := tn.Call(ctx, agent.ToolCall{Name: "subagents"})
			return err
		},
	} {
		for _, ctx := range []context.Context{outer, t.Context()} {
			cfg := agent.Config{Runner: agent.RunnerFunc(
				func(_ context.Context, tn *agent.Turn) (agent.Result, error) {
					return agent.Result{Text: "x"}, use(ctx, tn)
				})}
			failed := failures(t, cfg, nil, nil, func(h *Harness) { h.Post("x"); h.Pass(1) })
			require.Equal(t, errOuterContext.Error(), failed, name)
		}
	}
}

// A10: the clock of the prompts is what was set, however far away.
func TestSetNowFarAway(t *testing.T) {
	Run(t, agent.Config{}, Script{}, func(h *Harness) {
		for _, year := range []int{1, 1600, 2026, 2300, 9999} {
			want := time.Date(year, 6, 1, 12, 0, 0, 0, time.UTC)
			h.SetNow(want)
			h.Pass(time.Hour)
			require.Equal(t, want.Add(time.Hour), h.Now())
			ctx, cancel := context.WithDeadline(h.Context(), h.Now().Add(time.Hour))
			require.False(t, hasOuterDeadline(ctx))
			cancel()
		}
	})
}

// A10: what a Harness cannot do fails the test with a sentence.
func TestMisuseIsNoticed(t *testing.T) {
	failed := failures(t, agent.Config{}, Script{}, nil, func(h *Harness) {
		_ = h.Do(func(*agent.Runtime) error { h.Crash(); return nil })
	})
	require.Contains(t, failed, "call it outside of Do")
	failed = failures(t, agent.Config{}, Script{}, nil, func(h *Harness) {
		defer enterBubble(h)()
		Run(t, agent.Config{}, Script{}, func(*Harness) {})
	})
	require.Contains(t, failed, "bubbles cannot be nested")

	var h *Harness
	Run(t, agent.Config{}, Script{}, func(used *Harness) { h = used })
	for name, use := range map[string]func(){
		"Post": func() { h.Post("x") }, "Replies": func() { h.Replies() },
		"Deliveries": func() { h.Deliveries() }, "Runs": func() { h.Runs() },
		"Calls": func() { h.Calls(Main) }, "Crash": func() { h.Crash() },
		"Pass": func() { h.Pass(1) }, "Events": func() { h.Events() },
		"Watch": func() { h.Watch(h.mainKey()) }, "Now": func() { h.Now() },
		"SetNow": func() { h.SetNow(time.Time{}) }, "Requests": func() { h.Requests(Main) },
		"Context": func() { h.Context() }, "T": func() { h.T() }, "Main": func() { h.Main() },
		"Do": func() { _ = h.Do(func(*agent.Runtime) error { return nil }) },
	} {
		r, done := &recorder{TB: t}, make(chan struct{})
		h.outer = r
		go func() { defer close(done); use() }()
		<-done
		require.Len(t, r.failed, 1, name)
		require.Contains(t, r.failed[0], "after Run has returned", name)
	}
}
