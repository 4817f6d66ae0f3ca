package agent_test

import (
	"context"
	"testing"
	"time"

	"github.com/offshoot-sdk/offshoot/agent"
)

// BenchmarkDelta measures one delta of 20 bytes of a turn: with no watcher, which is the floor, and
// with watchers that read. The ratio is how much of the time that a turn of 10,000 deltas a second
// has for each is left to it.
func BenchmarkDelta(b *testing.B) {
	for _, c := range []struct {
		name     string
		form     agent.DeltaForm
		watchers int
	}{
		{"none", agent.DeltasNone, 0},
		{"events", agent.DeltasNone, 1},
		{"raw", agent.DeltasRaw, 1},
		{"shown", agent.DeltasShown, 1},
		{"shown to 10", agent.DeltasShown, 10},
	} {
		b.Run(c.name, func(b *testing.B) {
			deltas := make(chan func(*agent.Turn))
			rt := runForBench(b, agent.Config{Runner: agent.RunnerFunc(
				func(_ context.Context, t *agent.Turn) (agent.Result, error) {
					for f := range deltas {
						f(t)
					}
					return agent.Result{Text: "x"}, nil
				},
			)})
			ctx, leave := context.WithCancel(b.Context())
			ended := make(chan struct{}, c.watchers)
			for range c.watchers {
				begun := make(chan struct{}, 1)
				events := rt.Events(ctx, agent.EventQuery{Root: topKey, Deltas: c.form})
				go func() {
					defer func() { ended <- struct{}{} }()
					for range events { //nolint:errcheck // it ends with ctx
						select {
						case begun <- struct{}{}:
						default:
						}
					}
				}()
				<-begun
			}
			if _, err := rt.Session(topKey).Post(ctx, agent.Incoming{Text: "go"}); err != nil {
				b.Fatal(err)
			}
			done := make(chan struct{})
			b.ReportAllocs()
			b.ResetTimer()
			deltas <- func(t *agent.Turn) {
				for n := range b.N {
					if t.Delta("twenty bytes of text "); n%200 == 199 {
						_, _ = t.Call(ctx, agent.ToolCall{Name: "read"}) // another answer
					}
				}
				close(done)
			}
			<-done
			b.StopTimer()
			each := float64(b.Elapsed()) / float64(b.N)
			b.ReportMetric(float64(time.Second)/10_000/each, "x10000/s")
			close(deltas)
			leave()
			for range c.watchers {
				<-ended
			}
		})
	}
}
