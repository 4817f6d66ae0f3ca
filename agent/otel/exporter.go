package otel

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"time"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/session"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// scope is the name of the instrumentation.
const scope = "github.com/offshoot-sdk/offshoot/agent/otel"

// DefaultInterval is how often the State is saved.
const DefaultInterval = 5 * time.Second

// lastFlush is how long the last flush and save may take when the ctx of Run has ended.
const lastFlush = 10 * time.Second

// ErrNoIDs says that the TracerProvider draws ids of its own: it lacks
// sdktrace.WithIDGenerator(otel.IDs{}).
var ErrNoIDs = errors.New("otel: the TracerProvider does not use otel.IDs")

// A Config says where an [Exporter] exports to. The types of OpenTelemetry are in it because they
// are the seam: every backend has them.
type Config struct {
	// Tracer gets the spans. It must have been made with sdktrace.WithIDGenerator(IDs{}). A
	// sampler by trace id, such as sdktrace.TraceIDRatioBased, keeps or drops whole trees. If it
	// has a ForceFlush, as that of the SDK has, this is called before each Save. Nil: no spans.
	Tracer trace.TracerProvider
	// Meter gets the metrics. Nil: none.
	Meter metric.MeterProvider
	// Namespace tells apart bots that export to one backend and have the same keys of sessions.
	Namespace string
	// Content asks for texts, labels, errors and keys of sessions in spans; see the package
	// documentation.
	Content bool
	// Models tells of single calls of models. Nil: there are no spans of them.
	Models *Models
	// State keeps open spans over restarts, and is saved before anything happens. Nil: the next
	// process begins with what is open then.
	State State
	// Interval is how often State is saved, if there is something new. Zero: DefaultInterval.
	Interval time.Duration
	// Logger is told of flushes and saves that fail. Nil: what slog.Default is at New.
	Logger *slog.Logger
}

// A ConfigError is a field of a [Config] that cannot be accepted.
type ConfigError struct{ Field, Reason string }

func (e *ConfigError) Error() string { return "otel: Config." + e.Field + ": " + e.Reason }

// An Exporter watches a Runtime and exports what it does. [Exporter.Run] is called once.
type Exporter struct {
	rt     *agent.Runtime
	cfg    Config
	tracer trace.Tracer
	meters meters
	forest forest
	began  time.Time // what is older is not counted
	dirty  bool
	behind chan struct{} // closed when a call has returned that was left behind; nil: there is none
	hangs  string        // the name of that call
	lost   int           // spans and measurements, since that was logged
	told   time.Time     // when it was logged last
}

// New makes an Exporter. It starts nothing. The error is a *ConfigError, one of the Meter, or a
// *[CallError] of a Tracer or Meter that panics, ends its goroutine, or does not return within 10
// seconds: that call is left behind then.
func New(rt *agent.Runtime, cfg Config) (*Exporter, error) {
	switch {
	case rt == nil:
		return nil, errors.New("otel: the Runtime is nil")
	case cfg.Tracer == nil && cfg.Meter == nil:
		return nil, &ConfigError{Field: "Tracer", Reason: "it is nil, and so is Meter"}
	case cfg.Interval < 0:
		return nil, &ConfigError{Field: "Interval", Reason: fmt.Sprintf("%v is negative", cfg.Interval)}
	}
	cfg.Interval = cmp.Or(cfg.Interval, DefaultInterval)
	cfg.Logger = cmp.Or(cfg.Logger, slog.Default())
	if cfg.Tracer == nil {
		cfg.Tracer = noop.NewTracerProvider()
	}
	if cfg.Meter == nil {
		cfg.Meter = metricnoop.NewMeterProvider()
	}
	x := &Exporter{rt: rt, cfg: cfg}
	var err error
	x.tracer, err = open("Tracer", func() (trace.Tracer, error) {
		return cfg.Tracer.Tracer(scope), nil
	})
	if err != nil {
		return nil, err
	}
	x.meters, err = open("Meter", func() (made meters, err error) {
		err = made.open(cfg.Meter.Meter(scope))
		return made, err
	})
	if err != nil && !isCallError(err) {
		err = fmt.Errorf("otel: %w", err)
	}
	if err != nil {
		return nil, err
	}
	return x, nil
}

// Run exports until ctx ends or the Runtime is shut down. Then it flushes and saves once more, and
// returns nil. Give it a ctx that does not end before Runtime.Run has returned, so that it has the
// last events. What it has not read by then, such as what an earlier process left, the next one
// that has the State exports.
//
// The error is ErrNoIDs, one of State.Load, or one of Runtime.Events. A State that panics, ends its
// goroutine or does not return is a *[CallError]: of Load it is what Run returns, and of Save it is
// logged. Run returns then, too, within half a minute of the end of ctx. A Tracer or Meter that
// does so loses the span or the measurement, which is logged.
func (x *Exporter) Run(ctx context.Context) error {
	return x.Watch(ctx)()
}

// Watch is Run in two steps: when it returns, the Runtime is watched, and what it returns is the
// rest of Run, which the caller must call. So nothing is missed that happens in between, also
// without a State.
//
// Watch saves the State before it returns. If the process before was killed, it reads each tree of
// the store once, for up to 30 seconds, to find those that were active and that the State does not
// know: call it before Runtime.Run. That took half a millisecond for a chat of seven turns. What is
// not found is logged, and its trace begins when it is next active.
func (x *Exporter) Watch(ctx context.Context) (run func() error) {
	x.began = time.Now()
	if err := x.load(ctx); err != nil {
		return func() error { return err }
	}
	x.takeOver(ctx)
	life, stop := context.WithCancel(ctx)
	events := x.rt.Events(life, agent.EventQuery{After: x.forest.cursors()})
	return func() error {
		defer stop()
		err := x.export(life, stop, events)
		last, done := context.WithTimeout(context.WithoutCancel(ctx), lastFlush)
		defer done()
		if err == nil {
			err = x.finish(last, x.forest.settle())
		}
		if err == nil {
			err = x.takeCalls(last)
		}
		if err == nil && ctx.Err() == nil { // the Runtime was shut down, and its events are taken
			x.forest.Running, x.dirty = false, true
		}
		x.save(last)
		return err
	}
}

// load reads the saved state. One that cannot be read is dropped.
func (x *Exporter) load(ctx context.Context) error {
	if x.cfg.State == nil {
		return nil
	}
	var data []byte
	err := x.call(ctx, "State.Load", loadLimit, func(ctx context.Context) (err error) {
		data, err = x.cfg.State.Load(ctx)
		return err
	})
	if isCallError(err) {
		return err
	}
	if err != nil {
		return fmt.Errorf("otel: State.Load: %w", err)
	}
	if len(data) == 0 {
		return nil
	}
	err = json.Unmarshal(data, &x.forest)
	if err = cmp.Or(err, x.forest.check()); err != nil {
		x.cfg.Logger.Warn("otel: the saved state cannot be read, and is dropped", "error", err)
		x.forest = forest{}
	}
	return nil
}

// takeOver makes the state that was loaded that of this process. It is kept before anything
// happens: what a tree does from now on is exported, also if this process is killed before the next
// save. Nothing has to be flushed for that, because nothing was exported yet.
func (x *Exporter) takeOver(ctx context.Context) {
	if x.cfg.State == nil {
		return
	}
	wasKilled := x.forest.Running
	x.forest.Running = true
	switch {
	case x.forest.Since.IsZero():
		x.forest.Since = x.began
	case wasKilled:
		x.find(ctx)
	}
	x.keep(ctx)
}

// find has those trees read from their beginning that were active since the state was first used,
// and that it does not know because a process was killed before it was saved. What they did before
// that is not exported. It reads every tree of the store.
func (x *Exporter) find(ctx context.Context) {
	ctx, stop := context.WithTimeout(ctx, findLimit)
	defer stop()
	list, err := x.rt.Sessions(ctx, agent.SessionQuery{
		TopLevel: true, ActiveSince: x.forest.Since,
	})
	if err != nil {
		x.cfg.Logger.Warn("otel: trees that the state does not know cannot be found", "error", err)
	}
	for i := range list {
		x.forest.find(list[i].Key, list[i].LastActive)
	}
}

// save flushes what was exported, and keeps the state then.
func (x *Exporter) save(ctx context.Context) {
	if !x.dirty {
		return
	}
	if f, ok := x.cfg.Tracer.(interface {
		ForceFlush(ctx context.Context) error
	}); ok {
		if err := x.call(ctx, "Tracer.ForceFlush", saveLimit, f.ForceFlush); err != nil {
			x.cfg.Logger.Warn("otel: spans cannot be exported", "error", err)
			return
		}
	}
	x.keep(ctx)
}

// keep saves the state, without a flush.
func (x *Exporter) keep(ctx context.Context) {
	x.dirty = false
	if x.cfg.State == nil {
		return
	}
	data, err := json.Marshal(&x.forest)
	if err == nil {
		err = x.call(ctx, "State.Save", saveLimit, func(ctx context.Context) error {
			return x.cfg.State.Save(ctx, data)
		})
	}
	if err != nil {
		x.dirty = true
		x.cfg.Logger.Warn("otel: the state cannot be saved", "error", err)
	}
}

// happened is an event, or the error that ends the stream.
type happened struct {
	event agent.TreeEvent
	err   error
}

// export takes events until the stream ends.
func (x *Exporter) export(
	ctx context.Context, stop context.CancelFunc, events iter.Seq2[agent.TreeEvent, error],
) error {
	stream := make(chan happened)
	go func() { // ends when the stream does, which the loop below waits for
		defer close(stream)
		for e, err := range events {
			stream <- happened{e, err}
		}
	}()
	defer func() { // whatever happens leaves nothing behind
		stop()
		for range stream {
		}
	}()
	tick := time.NewTicker(x.cfg.Interval)
	defer tick.Stop()
	var failed error
	for {
		select {
		case h, ok := <-stream:
			switch {
			case !ok:
				return failed
			case failed != nil: // the rest of the stream is not of interest
			case h.err != nil:
				if ctx.Err() == nil {
					failed = h.err
				}
			default:
				if failed = x.take(ctx, h.event); failed != nil {
					stop()
				}
			}
		case s := <-x.calls():
			if failed == nil {
				if failed = x.takeCall(ctx, s); failed != nil {
					stop()
				}
			}
		case <-tick.C:
			x.save(ctx)
			tick.Reset(x.cfg.Interval) // so that a slow save does not keep events waiting
		}
	}
}

// take exports what has ended with an event.
func (x *Exporter) take(ctx context.Context, e agent.TreeEvent) error {
	root := e.Cursor.Root()
	if root.IsZero() {
		if root = e.Session; e.Depth > 0 {
			return nil // its tree is not known
		}
	}
	x.dirty = true
	g := x.forest.grove(root)
	before := g.active()
	ended := x.forest.apply(root, e)
	ctx = context.WithoutCancel(ctx)
	began, isFresh := g.active()-before, !e.Time.Before(x.began)
	if began != 0 || isFresh && isCounted(e.Kind) {
		err := x.call(ctx, "Meter", saveLimit, func(ctx context.Context) error {
			x.meters.count(ctx, e, began, isFresh)
			return nil
		})
		if err != nil {
			x.lose(err, time.Now())
		}
	}
	return x.finish(ctx, ended)
}

// finish exports spans that have ended. What misbehaves costs the span or the measurement, and
// nothing else. The error is ErrNoIDs.
func (x *Exporter) finish(ctx context.Context, ended []span) error {
	for i := range ended {
		s := &ended[i]
		err := x.call(ctx, "Tracer", saveLimit, func(ctx context.Context) error {
			return x.emit(ctx, s)
		})
		if err == nil && !s.event.Time.Before(x.began) {
			err = x.call(ctx, "Meter", saveLimit, func(ctx context.Context) error {
				x.meters.record(ctx, s)
				return nil
			})
		}
		if errors.Is(err, ErrNoIDs) {
			return err
		}
		if err != nil {
			x.lose(err, time.Now())
		}
	}
	return nil
}

// isCallError reports whether an error says that code of the program has not returned as it must.
func isCallError(err error) bool {
	_, ok := errors.AsType[*CallError](err)
	return ok
}

// emit exports one span.
func (x *Exporter) emit(ctx context.Context, s *span) error {
	of := traceOf(x.cfg.Namespace, s.root)
	begin := context.WithValue(ctx, idsKey{}, spanIDs{of, s.id})
	if s.parent.IsValid() {
		begin = trace.ContextWithRemoteSpanContext(begin, remote(of, s.parent))
	}
	kind := trace.SpanKindInternal
	if s.kind == kindModel {
		kind = trace.SpanKindClient
	}
	options := []trace.SpanStartOption{
		trace.WithTimestamp(s.start), trace.WithSpanKind(kind),
		trace.WithAttributes(s.attributes(x.cfg.Content)...),
	}
	if s.link.IsValid() {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: remote(of, s.link)}))
	}
	_, out := x.tracer.Start(begin, s.name(), options...)
	sc := out.SpanContext()
	if sc.IsValid() && sc.SpanID() != s.parent && (sc.TraceID() != of || sc.SpanID() != s.id) {
		out.End()
		return ErrNoIDs
	}
	if s.failed() {
		what := ""
		if x.cfg.Content {
			what = s.event.Error
		}
		out.SetStatus(codes.Error, what)
	}
	out.End(trace.WithTimestamp(s.end))
	return nil
}

// remote is the context of a span that may be of another process.
func remote(of trace.TraceID, id trace.SpanID) trace.SpanContext {
	return trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: of, SpanID: id, TraceFlags: trace.FlagsSampled, Remote: true,
	})
}

// Context returns a context whose span is the turn that has called a tool, so that spans that the
// tool begins with it are children of the turn. It returns ctx if that is not the context of a call
// through agent.Turn.Tools.
func (x *Exporter) Context(ctx context.Context) context.Context {
	c, ok := agent.CallerOf(ctx)
	if !ok {
		return ctx
	}
	return trace.ContextWithRemoteSpanContext(ctx, remote(
		traceOf(x.cfg.Namespace, c.Session.Root), turnSpan(c.Session.Key, c.Turn)))
}

// conversation is the id by which spans of one session belong together without naming it.
func conversation(key session.Key) string { return spanOf("session", key.String()).String() }
