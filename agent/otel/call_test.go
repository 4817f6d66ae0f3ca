package otel_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/spawn"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/metric"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/offshoot-sdk/offshoot/agent/otel"
)

// stateFuncs is a State of functions; nil: it keeps nothing.
type stateFuncs struct {
	load, save func(ctx context.Context) error
	under      atomic.Int32 // calls that have not returned
	most       atomic.Int32
}

func (s *stateFuncs) Load(ctx context.Context) ([]byte, error) { return nil, s.do(ctx, s.load) }

func (s *stateFuncs) Save(ctx context.Context, _ []byte) error { return s.do(ctx, s.save) }

func (s *stateFuncs) do(ctx context.Context, f func(ctx context.Context) error) error {
	if s.most.Store(max(s.most.Load(), s.under.Add(1))); f == nil {
		s.under.Add(-1)
		return nil
	}
	defer s.under.Add(-1)
	return f(ctx)
}

// flusher is a TracerProvider with a flush of its own.
type flusher struct {
	*sdktrace.TracerProvider

	flush func(ctx context.Context) error
}

func (f flusher) ForceFlush(ctx context.Context) error { return f.flush(ctx) }

// badError is a value, or an error, that cannot be read.
type badError struct{ act func() }

func (b badError) Error() string {
	b.act()
	return "it is read"
}

// misdeeds are what code of a program may do when it is called, and what comes of it.
var misdeeds = map[string]struct {
	do   func(ctx context.Context, release <-chan struct{}) error
	want error // nil: a *spawn.PanicError
	says string
}{
	"panics": {
		func(context.Context, <-chan struct{}) error { panic("boom") }, nil, "panic: boom",
	},
	"panics with an error": {
		func(context.Context, <-chan struct{}) error { panic(fs.ErrClosed) }, nil, "file already closed",
	},
	"panics with what cannot be read": {
		func(context.Context, <-chan struct{}) error {
			panic(badError{func() { panic("again") }})
		}, nil, "again",
	},
	"panics with what ends the goroutine": {
		func(context.Context, <-chan struct{}) error { panic(badError{runtime.Goexit}) },
		spawn.ErrExited, "it ended its goroutine",
	},
	"ends its goroutine": {
		func(context.Context, <-chan struct{}) error {
			runtime.Goexit()
			return nil
		}, spawn.ErrExited, "it ended its goroutine",
	},
	"returns an error that cannot be read": {
		func(context.Context, <-chan struct{}) error {
			return badError{func() { panic("again") }}
		}, nil, "again",
	},
	"does not return": {
		func(_ context.Context, release <-chan struct{}) error {
			<-release
			return nil
		}, otel.ErrHangs, "it does not return",
	},
	"returns when it is told to": {
		func(ctx context.Context, _ <-chan struct{}) error {
			<-ctx.Done()
			return context.Cause(ctx)
		}, context.DeadlineExceeded, "deadline exceeded",
	},
	"fails": {
		func(context.Context, <-chan struct{}) error { return fs.ErrPermission }, fs.ErrPermission,
		"permission denied",
	},
}

// exported is what an Exporter did.
type exported struct {
	err   error // of Run
	log   string
	spans int
	took  time.Duration // to return when the Runtime was shut down
}

// export runs a bot over one message, with an Exporter, and shuts it down.
func export(t *testing.T, state otel.State, flush func(ctx context.Context) error) exported {
	t.Helper()
	spans := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithIDGenerator(otel.IDs{}), sdktrace.WithSyncer(spans))
	cfg := otel.Config{Tracer: provider, State: state}
	if flush != nil {
		cfg.Tracer = flusher{provider, flush}
	}
	out := exportTo(t, cfg)
	out.spans = len(spans.GetSpans())
	return out
}

// exportTo is export with a Config.
func exportTo(t *testing.T, cfg otel.Config) exported {
	t.Helper()
	rt, err := agent.Open(t.Context(), botConfig(dig))
	require.NoError(t, err)
	var log bytes.Buffer
	cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	x, err := otel.New(rt, cfg)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ran, served := make(chan error, 1), make(chan error, 1)
	go func() { ran <- x.Run(ctx) }()
	go func() { served <- rt.Run(t.Context()) }()
	synctest.Wait() // it watches, or its State is asked
	chat := rt.Session(chatKey())
	_, err = chat.Post(t.Context(), agent.Incoming{Text: "go"})
	require.NoError(t, err)
	require.NoError(t, chat.Idle(t.Context()))
	time.Sleep(time.Minute) // of the bubble: the State is saved
	require.NoError(t, rt.Shutdown(t.Context()))
	require.NoError(t, <-served)
	began := time.Now()
	out := exported{err: <-ran}
	out.took, out.log = time.Since(began), log.String()
	return out
}

// requireMisdeed checks that an error is what a misdeed comes to.
func requireMisdeed(t *testing.T, err, want error) {
	t.Helper()
	require.Error(t, err)
	if want != nil {
		require.ErrorIs(t, err, want)
		return
	}
	var panicked *spawn.PanicError
	require.ErrorAs(t, err, &panicked)
	require.NotEmpty(t, panicked.Stack)
}

// A State whose Load misbehaves fails Run, and nothing else of the program.
func TestLoadThatMisbehaves(t *testing.T) {
	for name, bad := range misdeeds {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				release := make(chan struct{})
				state := &stateFuncs{load: func(ctx context.Context) error {
					return bad.do(ctx, release)
				}}
				out := export(t, state, nil)
				requireMisdeed(t, out.err, bad.want)
				require.ErrorContains(t, out.err, "otel: State.Load: ")
				close(release)
			})
		})
	}
}

// A State whose Save misbehaves, or a provider whose flush does, is logged. The spans are exported,
// but not while the save before anything happens is left behind. Calls do not overlap, and Run
// returns.
func TestSaveAndFlushThatMisbehave(t *testing.T) {
	for name, bad := range misdeeds {
		for _, at := range []string{"first State.Save", "State.Save", "Tracer.ForceFlush"} {
			t.Run(at+" "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					release := make(chan struct{})
					state := &stateFuncs{}
					act := func(ctx context.Context) error { return bad.do(ctx, release) }
					var flush func(ctx context.Context) error
					saves := 0
					switch at {
					case "first State.Save":
						state.save = act
					case "State.Save":
						state.save = func(ctx context.Context) error {
							if saves++; saves == 1 {
								return nil
							}
							return act(ctx)
						}
					default:
						flush = act
					}
					out := export(t, state, flush)
					require.NoError(t, out.err)
					isLost := at == "first State.Save" && errors.Is(bad.want, otel.ErrHangs)
					require.Equal(t, !isLost, out.spans > 0)
					require.Contains(t, out.log, "level=WARN")
					require.EqualValues(t, 1, state.most.Load())
					require.LessOrEqual(t, out.took, 25*time.Second)
					require.Contains(t, out.log, bad.says)
					if errors.Is(bad.want, otel.ErrHangs) { // and nothing else is said to hang
						hangs := strings.TrimPrefix(at, "first ")
						require.Equal(t, strings.Count(out.log, bad.says),
							strings.Count(out.log, hangs+": "+bad.says))
					}
					close(release)
				})
			})
		}
	}
}

// A badBackend is where an Exporter exports to, which misbehaves in one place.
type badBackend struct {
	at    string
	act   func()
	spans int // that were exported
}

// misbehave misbehaves if this is the place.
func (b *badBackend) misbehave(at string) {
	if b.at == at {
		b.act()
	}
}

// ExportSpans and Shutdown are those of an exporter of spans.
func (b *badBackend) ExportSpans(_ context.Context, spans []sdktrace.ReadOnlySpan) error {
	b.misbehave("ExportSpans")
	b.spans += len(spans)
	return nil
}

func (b *badBackend) Shutdown(context.Context) error { return nil }

// config returns a Config that exports to it.
func (b *badBackend) config() otel.Config {
	next := sdktrace.NewTracerProvider(
		sdktrace.WithIDGenerator(otel.IDs{}), sdktrace.WithSyncer(b))
	return otel.Config{Tracer: badTracers{of: b, next: next}, Meter: badMeters{of: b}}
}

type badTracers struct {
	noop.TracerProvider

	of   *badBackend
	next trace.TracerProvider
}

func (b badTracers) Tracer(string, ...trace.TracerOption) trace.Tracer {
	b.of.misbehave("Tracer")
	return badTracer{of: b.of, next: b.next.Tracer("test")}
}

type badTracer struct {
	noop.Tracer

	of   *badBackend
	next trace.Tracer
}

func (b badTracer) Start(
	ctx context.Context, name string, options ...trace.SpanStartOption,
) (context.Context, trace.Span) {
	b.of.misbehave("Start")
	return b.next.Start(ctx, name, options...)
}

type badMeters struct {
	metricnoop.MeterProvider

	of *badBackend
}

func (b badMeters) Meter(string, ...metric.MeterOption) metric.Meter {
	b.of.misbehave("Meter")
	return badMeter{of: b.of}
}

type badMeter struct {
	metricnoop.Meter

	of *badBackend
}

func (b badMeter) Float64Histogram(
	string, ...metric.Float64HistogramOption,
) (metric.Float64Histogram, error) {
	return badHistogram{of: b.of}, nil
}

func (b badMeter) Int64Counter(
	name string, options ...metric.Int64CounterOption,
) (metric.Int64Counter, error) {
	b.of.misbehave("Int64Counter")
	return b.Meter.Int64Counter(name, options...)
}

func (b badMeter) Int64UpDownCounter(
	string, ...metric.Int64UpDownCounterOption,
) (metric.Int64UpDownCounter, error) {
	return badCounter{of: b.of}, nil
}

type badHistogram struct {
	metricnoop.Float64Histogram

	of *badBackend
}

func (b badHistogram) Record(context.Context, float64, ...metric.RecordOption) {
	b.of.misbehave("Record")
}

type badCounter struct {
	metricnoop.Int64UpDownCounter

	of *badBackend
}

func (b badCounter) Add(context.Context, int64, ...metric.AddOption) { b.of.misbehave("Add") }

// A Tracer, a Meter or an exporter that misbehaves costs what it was to take, and is logged. The
// bot answers, Run returns, and what misbehaves once is asked again.
func TestBackendsThatMisbehave(t *testing.T) {
	for name, bad := range misdeeds {
		if name == "fails" || name == "returns when it is told to" ||
			name == "returns an error that cannot be read" {
			continue // these have no error to return
		}
		for _, at := range []string{"Start", "ExportSpans", "Record", "Add"} {
			for _, isOnce := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s %s, once %t", at, name, isOnce), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						release := make(chan struct{})
						calls := 0
						b := &badBackend{at: at, act: func() {
							if calls++; calls == 1 || !isOnce {
								_ = bad.do(t.Context(), release)
							}
						}}
						out := exportTo(t, b.config())
						require.NoError(t, out.err)
						require.Contains(t, out.log, "a span or a measurement is lost")
						require.Contains(t, out.log, bad.says)
						require.LessOrEqual(t, out.took, 25*time.Second)
						isSpan := at == "Start" || at == "ExportSpans"
						switch isHang := errors.Is(bad.want, otel.ErrHangs); {
						case isHang && isSpan, !isOnce && isSpan:
							require.Zero(t, b.spans)
						case isHang: // it is not asked again until it has returned
						case isSpan:
							require.Equal(t, allSpans-1, b.spans)
						default:
							require.Equal(t, allSpans, b.spans)
						}
						close(release)
					})
				})
			}
		}
	}
}

// allSpans is how many spans the bot of export has: a tree, three runs, seven turns and the call of
// a tool.
const allSpans = 1 + 3 + 7 + 1

// A provider that panics when it is asked for a Tracer or Meter is an error of New.
func TestProvidersThatPanic(t *testing.T) {
	rt, err := agent.Open(t.Context(), botConfig(dig))
	require.NoError(t, err)
	for _, at := range []string{"Tracer", "Meter"} {
		for act, want := range map[string]func(){
			"panic: boom": func() { panic("boom") }, "it ended its goroutine": runtime.Goexit,
		} {
			b := &badBackend{at: at, act: want}
			_, err := otel.New(rt, b.config())
			var bad *otel.CallError
			require.ErrorAs(t, err, &bad)
			require.Equal(t, at, bad.Call)
			require.ErrorContains(t, err, act)
		}
	}
}

// A provider that does not return is an error of New, which takes ten seconds then.
func TestProvidersThatHang(t *testing.T) {
	for at, call := range map[string]string{
		"Tracer": "Tracer", "Meter": "Meter", "Int64Counter": "Meter",
	} {
		t.Run(at, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rt, err := agent.Open(t.Context(), botConfig(dig))
				require.NoError(t, err)
				release := make(chan struct{})
				defer close(release)
				b := &badBackend{at: at, act: func() { <-release }}
				began := time.Now()
				_, err = otel.New(rt, b.config())
				require.Equal(t, 10*time.Second, time.Since(began))
				require.ErrorIs(t, err, otel.ErrHangs)
				var bad *otel.CallError
				require.ErrorAs(t, err, &bad)
				require.Equal(t, call, bad.Call)
			})
		})
	}
}

// The end of ctx ends Run, also in the middle of a call that ignores it.
func TestEndOfRunInACall(t *testing.T) {
	for _, at := range []string{"load", "save"} {
		synctest.Test(t, func(t *testing.T) {
			release := make(chan struct{})
			state := &stateFuncs{}
			hang := func(context.Context) error { <-release; return nil }
			if at == "load" {
				state.load = hang
			} else {
				state.save = hang
			}
			rt, err := agent.Open(t.Context(), botConfig(dig))
			require.NoError(t, err)
			x, err := otel.New(rt, otel.Config{
				Tracer: sdktrace.NewTracerProvider(sdktrace.WithIDGenerator(otel.IDs{})),
				State:  state, Logger: slog.New(slog.DiscardHandler),
			})
			require.NoError(t, err)
			ctx, stop := context.WithCancel(t.Context())
			ran, served := make(chan error, 1), make(chan error, 1)
			go func() { ran <- x.Run(ctx) }()
			go func() { served <- rt.Run(t.Context()) }()
			_, err = rt.Session(chatKey()).Post(t.Context(), agent.Incoming{Text: "go"})
			require.NoError(t, err)
			time.Sleep(6 * time.Second) // of the bubble: a call is under way
			stop()
			began := time.Now()
			err = <-ran
			require.LessOrEqual(t, time.Since(began), 15*time.Second)
			require.Equal(t, at == "load", errors.Is(err, otel.ErrHangs))
			close(release)
			require.NoError(t, rt.Shutdown(t.Context()))
			require.NoError(t, <-served)
		})
	}
}

// Events that came during a slow save are read before the next one, so that Run ends soon after the
// Runtime.
func TestSlowSavesLeaveTimeForEvents(t *testing.T) {
	for range 10 { // what is taken of two things that are ready is up to chance
		synctest.Test(t, slowSaves)
	}
}

func slowSaves(t *testing.T) {
	slow := func(context.Context) error {
		time.Sleep(9 * time.Second) // of the bubble
		return nil
	}
	rt, err := agent.Open(t.Context(), botConfig(dig))
	require.NoError(t, err)
	provider := sdktrace.NewTracerProvider(sdktrace.WithIDGenerator(otel.IDs{}))
	x, err := otel.New(rt, otel.Config{
		Tracer: flusher{provider, slow}, State: &stateFuncs{save: slow},
		Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	ran, served := make(chan error, 1), make(chan error, 1)
	go func() { ran <- x.Run(t.Context()) }()
	go func() { served <- rt.Run(t.Context()) }()
	chat := rt.Session(chatKey())
	for range 5 {
		_, err = chat.Post(t.Context(), agent.Incoming{Text: "go"})
		require.NoError(t, err)
		require.NoError(t, chat.Idle(t.Context()))
		time.Sleep(6 * time.Second) // of the bubble: a save is under way after the first
	}
	require.NoError(t, rt.Shutdown(t.Context()))
	require.NoError(t, <-served)
	began := time.Now()
	require.NoError(t, <-ran)
	took := time.Since(began)
	time.Sleep(time.Minute) // what was left behind returns
	require.LessOrEqual(t, took, 30*time.Second)
}

// A State that was left behind is used again when it has returned.
func TestStateThatComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		saves := 0
		state := &stateFuncs{save: func(context.Context) error {
			if saves++; saves == 1 {
				time.AfterFunc(30*time.Second, func() { close(release) })
				<-release
			}
			return nil
		}}
		out := export(t, state, nil)
		require.NoError(t, out.err)
		require.Greater(t, saves, 1)
		require.Contains(t, out.log, "it does not return")
		require.Zero(t, out.took)
	})
}
