package otel_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/session"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/offshoot-sdk/offshoot/agent/otel"
)

// helper answers people with what a sub-agent has found.
func helper(ctx context.Context, t *agent.Turn) (agent.Result, error) {
	switch {
	case t.Session.Depth > 0:
		return agent.Result{Text: "It is sunny."}, nil
	case t.N > 1:
		return agent.Result{Text: "Take a hat."}, nil
	}
	_, err := t.Spawn(ctx, agent.Task{Text: "Look at the sky."})
	t.Yield(agent.JoinOptions{})
	return agent.Result{}, err
}

// A tree is a trace. Here the exporter keeps it in memory; a program has that of its backend, and a
// State, so that the trace goes on after a crash.
func Example() {
	ctx := context.Background()
	rt, err := agent.Open(ctx, agent.Config{Runner: agent.RunnerFunc(helper)})
	if err != nil {
		log.Fatal(err)
	}
	spans := tracetest.NewInMemoryExporter()
	tracer := sdktrace.NewTracerProvider(
		sdktrace.WithIDGenerator(otel.IDs{}), sdktrace.WithSyncer(spans))
	x, err := otel.New(rt, otel.Config{Tracer: tracer})
	if err != nil {
		log.Fatal(err)
	}
	export := x.Watch(ctx)
	ended := make(chan error, 2)
	go func() { ended <- export() }()
	go func() { ended <- rt.Run(ctx) }()

	chat := rt.Session(session.Must(session.DirectKey("main", "terminal", "me")))
	if _, err := chat.Post(ctx, agent.Incoming{Text: "What shall I wear?"}); err != nil {
		log.Fatal(err)
	}
	if err := chat.Idle(ctx); err != nil {
		log.Fatal(err)
	}
	for len(spans.GetSpans()) < 5 { // a bot runs for longer than that
		time.Sleep(time.Millisecond)
	}
	if err := rt.Shutdown(ctx); err != nil {
		log.Fatal(err)
	}
	for range 2 {
		if err := <-ended; err != nil {
			log.Fatal(err)
		}
	}
	names := map[string]string{}
	for _, s := range spans.GetSpans() {
		names[s.SpanContext.SpanID().String()] = s.Name
	}
	for _, s := range spans.GetSpans() {
		same := s.SpanContext.TraceID().String() == otel.TraceID("", chat.Key())
		fmt.Printf("%s, below %q, in the trace: %t\n", s.Name,
			names[s.Parent.SpanID().String()], same)
	}
	// Unordered output:
	// offshoot.tree, below "", in the trace: true
	// offshoot.turn, below "offshoot.tree", in the trace: true
	// offshoot.turn, below "invoke_agent main", in the trace: true
	// invoke_agent main, below "offshoot.tree", in the trace: true
	// offshoot.turn, below "offshoot.tree", in the trace: true
}
