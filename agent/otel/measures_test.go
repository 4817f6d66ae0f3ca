package otel_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/offshoot-sdk/offshoot/agent/otel"
)

// A spawn that is refused is counted with the agent that asked, and an attempt to deliver with what
// came of it. The agent that a model asked for may be any text: it is not exported.
func TestRefusalsAndDeliveries(t *testing.T) {
	cfg := botConfig(func(ctx context.Context, t *agent.Turn) error {
		for _, asked := range []string{"", secret} {
			if _, err := t.Spawn(ctx, agent.Task{Text: "Dig.", Agent: asked}); err == nil {
				return fmt.Errorf("a spawn of %q at depth %d was not refused", asked, t.Session.Depth)
			}
		}
		return nil
	})
	cfg.Reply = func(context.Context, agent.Delivery) error { return nil }
	w := play(t, cfg, nil)
	var all metricdata.ResourceMetrics
	require.NoError(t, w.read.Collect(t.Context(), &all))
	got := map[string]string{}
	for _, m := range all.ScopeMetrics[0].Metrics {
		data, ok := m.Data.(metricdata.Sum[int64])
		if !ok || m.Name != "offshoot.spawns.refused" && m.Name != "offshoot.deliveries" {
			continue
		}
		for _, p := range data.DataPoints {
			who := p.Attributes.Encoded(attribute.DefaultEncoder())
			got[m.Name+" "+who] = fmt.Sprint(p.Value, " ", m.Unit)
		}
	}
	require.Equal(t, map[string]string{
		"offshoot.spawns.refused gen_ai.agent.name=main": "2 {spawn}",
		"offshoot.deliveries offshoot.outcome=delivered": "1 {delivery}",
	}, got)
}

// A sampler by trace id keeps a tree as a whole, or drops it as a whole.
func TestSamplerKeepsWholeTrees(t *testing.T) {
	seen := map[int]bool{}
	for i := range 12 {
		spans := tracetest.NewInMemoryExporter()
		play(t, botConfig(dig), func(c *otel.Config) {
			c.Namespace = fmt.Sprint(i)
			c.Tracer = sdktrace.NewTracerProvider(
				sdktrace.WithIDGenerator(otel.IDs{}), sdktrace.WithSyncer(spans),
				sdktrace.WithSampler(sdktrace.TraceIDRatioBased(0.5)))
		})
		seen[len(spans.GetSpans())] = true
	}
	require.Equal(t, map[int]bool{0: true, allSpans: true}, seen)
}
