package otel_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/dirstore"
	"github.com/offshoot-sdk/offshoot/spawn"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/offshoot-sdk/offshoot/agent/otel"
)

// secret stands in every text that a person, a model or a tool gives.
const secret = "CONFIDENTIAL"

// killedBot makes this program a bot that is killed; its value is the directory.
const killedBot = "OFFSHOOT_OTEL_BOT"

func TestMain(m *testing.M) {
	if dir := os.Getenv(killedBot); dir != "" {
		if err := botInDirectory(dir); err != nil {
			panic(err)
		}
		return
	}
	m.Run()
}

// chain is a Runner in which each session down to depth 3 spawns one more, yields until that has
// ended, and then says so. A bottom function is called at depth 3.
func chain(bottom func(ctx context.Context, t *agent.Turn) error) agent.Runner {
	return agent.RunnerFunc(func(ctx context.Context, t *agent.Turn) (agent.Result, error) {
		if err := t.Spend(ctx, agent.Usage{Input: 10, CacheRead: 5, Output: 2}); err != nil {
			return agent.Result{}, err
		}
		switch {
		case t.Session.Depth == 3:
			return agent.Result{Text: secret + " bottom"}, bottom(ctx, t)
		case len(t.Messages) > 1:
			return agent.Result{Text: secret + " done"}, nil
		}
		task := agent.Task{Text: secret + " dig", Label: secret + " label"}
		if _, err := t.Spawn(ctx, task); err != nil {
			return agent.Result{}, err
		}
		t.Yield(agent.JoinOptions{})
		return agent.Result{}, nil
	})
}

func botConfig(bottom func(ctx context.Context, t *agent.Turn) error) agent.Config {
	cfg := agent.Config{
		Runner: chain(bottom), Logger: slog.New(slog.DiscardHandler),
		Tools: []agent.Tool{agent.NewTool("dig", "Digs.", func(
			context.Context, struct{ Where string },
		) (string, error) {
			return secret + " found", nil
		})},
	}
	cfg.Models.Model = "acme/large"
	cfg.Rules.Subagents.MaxSpawnDepth = 3
	return cfg
}

// thinking is a Runner that calls a model at the beginning of each turn.
func thinking(m agent.Model, next agent.Runner) agent.Runner {
	return agent.RunnerFunc(func(ctx context.Context, t *agent.Turn) (agent.Result, error) {
		_, err := m.Generate(ctx, &agent.ModelRequest{
			Model: t.Model, Session: t.Session, Run: t.Run, Turn: t.N,
		})
		if err != nil {
			return agent.Result{}, err
		}
		return next.Run(ctx, t)
	})
}

// answers is a model.
func answers(context.Context, *agent.ModelRequest) (*agent.ModelResponse, error) {
	return &agent.ModelResponse{Text: secret, Usage: agent.Usage{Input: 3, Output: 1}}, nil
}

func chatKey() session.Key { return session.Must(session.DirectKey("main", "test", "555-0100")) }

// botInDirectory plays one process of a bot whose state is in a directory. The first one kills
// itself at depth 3.
func botInDirectory(dir string) error {
	ctx := context.Background()
	store, err := dirstore.Open(filepath.Join(dir, "state"))
	if err != nil {
		return err
	}
	mark := filepath.Join(dir, "killed")
	_, isTop := os.Stat(filepath.Join(dir, "top"))
	_, isUnsaved := os.Stat(filepath.Join(dir, "unsaved"))
	die := func(ctx context.Context, _ *agent.Turn) error {
		if _, err := os.Stat(mark); err == nil {
			return nil
		}
		for isTop != nil { // until the turns above are over
			v, err := spawn.View(chatKey(), store.Journal.Read(ctx, chatKey(), 0))
			if err != nil {
				return err
			}
			turns := 0
			for _, r := range v.Runs {
				if r.Status == spawn.StatusRunning {
					turns++
				}
			}
			if v.Status == spawn.StatusWaiting && turns == 1 {
				break
			}
			runtime.Gosched()
		}
		for { // until the State has the turn of the chat
			state, _ := os.ReadFile(filepath.Join(dir, "otel.json"))
			if bytes.Contains(state, []byte(`"turn":1`)) || isTop != nil || isUnsaved == nil {
				break
			}
			runtime.Gosched()
		}
		if err := os.WriteFile(mark, nil, 0o600); err != nil {
			return err
		}
		if isUnsaved == nil { // what it has exported was not flushed
			if err := os.Remove(filepath.Join(dir, "spans")); err != nil {
				return err
			}
		}
		p, err := os.FindProcess(os.Getpid())
		if err != nil {
			return err
		}
		_ = p.Kill()
		select {}
	}
	turns := int64(2)
	cfg := botConfig(die)
	if isTop == nil {
		turns++ // one is cut off
		chain := cfg.Runner
		cfg.Runner = agent.RunnerFunc(func(
			ctx context.Context, t *agent.Turn,
		) (agent.Result, error) {
			if err := die(ctx, t); err != nil {
				return agent.Result{}, err
			}
			return chain.Run(ctx, t)
		})
	}
	cfg.Store = store
	models := otel.NewModels()
	cfg.Runner = thinking(models.Watch(agent.ModelFunc(answers)), cfg.Runner)
	rt, err := agent.Open(ctx, cfg)
	if err != nil {
		return err
	}
	out, err := os.OpenFile(filepath.Join(dir, "spans"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	written := &lines{out: out, last: make(chan struct{}), turns: turns}
	tracer := sdktrace.NewTracerProvider(
		sdktrace.WithIDGenerator(otel.IDs{}), sdktrace.WithSyncer(written))
	interval := time.Millisecond
	if isUnsaved == nil {
		interval = time.Hour
	}
	x, err := otel.New(rt, otel.Config{
		Tracer: tracer, Models: models,
		State: otel.File(filepath.Join(dir, "otel.json")), Interval: interval,
	})
	if err != nil {
		return err
	}
	watch := x.Watch(ctx)
	ended := make(chan error, 2)
	go func() { ended <- watch() }()
	go func() { ended <- rt.Run(ctx) }()
	chat := rt.Session(chatKey())
	if _, err := chat.Post(ctx, agent.Incoming{ID: "m1", Text: secret + " go"}); err != nil {
		return err
	}
	if err := chat.Idle(ctx); err != nil {
		return err
	}
	<-written.last // it may still read what the first process left
	return errors.Join(rt.Shutdown(ctx), <-ended, <-ended, store.Close(), out.Close())
}

// line is a span in a file.
type line struct {
	Trace, Span, Parent, Name, Status string
	Depth                             int64
	Start, End                        time.Time
	Unknown                           []string // of its times
}

// lines writes spans to a file, one to a line.
type lines struct {
	mu  sync.Mutex
	out *os.File
	// last is closed when the turn of the chat is there that is the last one.
	last  chan struct{}
	turns int64
}

func (l *lines) ExportSpans(_ context.Context, spans []sdktrace.ReadOnlySpan) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range spans {
		if err := json.NewEncoder(l.out).Encode(lineOf(s)); err != nil {
			return err
		}
		if of := lineOf(s); of.Name == "offshoot.turn" && of.Depth == 0 && slices.ContainsFunc(
			s.Attributes(), func(kv attribute.KeyValue) bool {
				return kv.Key == "offshoot.turn" && kv.Value.AsInt64() == l.turns
			}) {
			close(l.last)
		}
	}
	return nil
}

func (l *lines) Shutdown(context.Context) error { return nil }

func lineOf(s sdktrace.ReadOnlySpan) line {
	out := line{
		Trace: s.SpanContext().TraceID().String(), Span: s.SpanContext().SpanID().String(),
		Name: s.Name(), Start: s.StartTime().UTC(), End: s.EndTime().UTC(),
	}
	if s.Parent().IsValid() {
		out.Parent = s.Parent().SpanID().String()
	}
	for _, kv := range s.Attributes() {
		switch kv.Key {
		case "offshoot.status":
			out.Status = kv.Value.AsString()
		case "offshoot.depth":
			out.Depth = kv.Value.AsInt64()
		case "offshoot.start_unknown", "offshoot.end_unknown":
			out.Unknown = append(out.Unknown, string(kv.Key))
		}
	}
	return out
}

// checkTrace checks that spans are one trace, in which each has its parent, and runs hang below
// runs. A span that is there twice is the same twice.
func checkTrace(t *testing.T, spans []line) map[string]line {
	t.Helper()
	byID := map[string]line{}
	for _, s := range spans {
		assert.Equal(t, otel.TraceID("", chatKey()), s.Trace)
		if twin, ok := byID[s.Span]; ok {
			assert.Equal(t, twin, s, "a span with two forms")
		}
		byID[s.Span] = s
	}
	for _, s := range byID {
		if s.Name == "offshoot.tree" {
			assert.Empty(t, s.Parent)
			continue
		}
		parent, ok := byID[s.Parent]
		require.True(t, ok, "%s has no parent", s.Name)
		switch {
		case strings.HasPrefix(s.Name, "invoke_agent"):
			assert.Equal(t, s.Depth-1, parent.Depth)
			assert.NotEqual(t, "offshoot.turn", parent.Name)
		case s.Name == "offshoot.turn":
			assert.Equal(t, s.Depth, parent.Depth)
		case strings.HasPrefix(s.Name, "execute_tool"), strings.HasPrefix(s.Name, "chat"):
			assert.Equal(t, "offshoot.turn", parent.Name)
		}
		assert.False(t, s.End.Before(s.Start), s.Name)
	}
	return byID
}

// runDepths returns the depths of the runs.
func runDepths(spans map[string]line) []int64 {
	var list []int64
	for _, s := range spans {
		if strings.HasPrefix(s.Name, "invoke_agent") {
			list = append(list, s.Depth)
		}
	}
	slices.Sort(list)
	return list
}

// slack is how far the clock of a file may be from that of a program.
const slack = 50 * time.Millisecond

// killed plays a bot in a directory that kills itself, and then another process, and returns the
// spans of both, and when the first was killed.
func killed(t *testing.T, dir string) (spans []line, kill time.Time) {
	t.Helper()
	play := func() error {
		exe, err := os.Executable()
		require.NoError(t, err)
		cmd := exec.CommandContext(t.Context(), exe)
		cmd.Env = append(os.Environ(), killedBot+"="+dir, "GORACE=atexit_sleep_ms=0")
		out, err := cmd.CombinedOutput()
		t.Logf("%s", out)
		return err
	}
	died, ok := errors.AsType[*exec.ExitError](play())
	require.True(t, ok)
	require.False(t, died.Exited(), "it has ended by itself")
	mark, err := os.Stat(filepath.Join(dir, "killed"))
	require.NoError(t, err)
	kill = mark.ModTime()
	require.NoError(t, play())

	f, err := os.Open(filepath.Join(dir, "spans"))
	require.NoError(t, err)
	defer func() { _ = f.Close() }()
	for s := bufio.NewScanner(f); s.Scan(); {
		var l line
		require.NoError(t, json.Unmarshal(s.Bytes(), &l))
		spans = append(spans, l)
	}
	return spans, kill
}

// A bot that is killed while a sub-agent at depth 3 works, and goes on as another process, leaves
// one trace in which each span has the right parent.
func TestTraceSurvivesAKillAtDepth3(t *testing.T) {
	checkKillAtDepth3(t, t.TempDir())
}

// So does one that is killed before the State was saved for the first time since it began, and
// before anything was flushed: the second process exports all.
func TestTraceSurvivesAKillBeforeTheFirstSave(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "unsaved"), nil, 0o600))
	checkKillAtDepth3(t, dir)
}

// checkKillAtDepth3 plays a bot in a directory that is killed at depth 3, and checks its trace.
func checkKillAtDepth3(t *testing.T, dir string) {
	t.Helper()
	spans, kill := killed(t, dir)
	byID := checkTrace(t, spans)
	assert.Equal(t, []int64{1, 2, 3}, runDepths(byID))
	cut := 0
	calls := map[int64]int{}
	for _, s := range byID {
		if s.Name == "chat large" {
			calls[s.Depth]++
			continue
		}
		var unknown []string // all other times are those of the journal
		if s.Depth == 3 {
			assert.Equal(t, "interrupted", s.Status, s.Name)
			assert.True(t, s.Start.Before(kill.Add(slack)), s.Name)
			assert.True(t, s.End.After(kill.Add(-slack)), s.Name)
			cut++
			if s.Name == "offshoot.turn" {
				unknown = []string{"offshoot.end_unknown"}
			}
		}
		assert.Equal(t, unknown, s.Unknown, s.Name)
	}
	assert.Equal(t, 2, cut, "the run at depth 3 and its turn")
	for depth := range int64(3) { // those of the first process may be lost, those of the second not
		assert.NotZero(t, calls[depth], depth)
	}
}

// A turn of a person that is killed was interrupted, begins when it has begun and is marked, since
// its end is not known. The turn that takes its message up is another one.
func TestTurnOfAPersonThatIsKilled(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "top"), nil, 0o600))
	spans, kill := killed(t, dir)
	interrupted := 0
	for _, s := range checkTrace(t, spans) {
		if s.Status != "interrupted" {
			require.Empty(t, s.Unknown, s.Name)
			continue
		}
		interrupted++
		require.Equal(t, "offshoot.turn", s.Name)
		require.Zero(t, s.Depth)
		require.Equal(t, []string{"offshoot.end_unknown"}, s.Unknown)
		require.True(t, s.Start.Before(kill.Add(slack)))
		require.True(t, s.End.After(kill.Add(-slack)))
	}
	require.Equal(t, 1, interrupted)
}

// world is a bot in this process, its exporters, and what they have.
type world struct {
	rt    *agent.Runtime
	x     *otel.Exporter
	spans *tracetest.InMemoryExporter
	read  *sdkmetric.ManualReader
}

// play runs a bot over one message, until it has answered and what is given holds, and returns what
// was exported.
func play(
	t *testing.T, cfg agent.Config, set func(c *otel.Config), until ...func(w *world) bool,
) *world {
	t.Helper()
	w := &world{spans: tracetest.NewInMemoryExporter(), read: sdkmetric.NewManualReader()}
	var err error
	w.rt, err = agent.Open(t.Context(), cfg)
	require.NoError(t, err)
	c := otel.Config{
		Tracer: sdktrace.NewTracerProvider(
			sdktrace.WithIDGenerator(otel.IDs{}), sdktrace.WithSyncer(w.spans)),
		Meter: sdkmetric.NewMeterProvider(sdkmetric.WithReader(w.read)),
	}
	if set != nil {
		set(&c)
	}
	w.x, err = otel.New(w.rt, c)
	require.NoError(t, err)
	watch := w.x.Watch(t.Context())
	ended := make(chan error, 2)
	go func() { ended <- watch() }()
	go func() { ended <- w.rt.Run(t.Context()) }()
	chat := w.rt.Session(chatKey())
	_, err = chat.Post(t.Context(), agent.Incoming{Text: secret + " go"})
	require.NoError(t, err)
	require.NoError(t, chat.Idle(t.Context()))
	for _, holds := range until {
		require.Eventually(t, func() bool { return holds(w) }, 20*time.Second, time.Millisecond)
	}
	require.NoError(t, w.rt.Shutdown(t.Context()))
	require.NoError(t, <-ended)
	require.NoError(t, <-ended)
	return w
}

func (w *world) lines() []line {
	var list []line
	for _, s := range w.spans.GetSpans().Snapshots() {
		list = append(list, lineOf(s))
	}
	return list
}

// dig calls the tool.
func dig(ctx context.Context, t *agent.Turn) error {
	args := json.RawMessage(`{"Where":"` + secret + `"}`)
	use := agent.ToolCall{ID: "c1", Name: "dig", Args: args}
	err := t.Record(ctx, agent.Message{
		Role: session.MessageAssistant, ToolCalls: []agent.ToolCall{use},
	})
	if err != nil {
		return err
	}
	_, err = t.Call(ctx, use)
	return err
}

// A tree is a trace: turns, runs and calls of tools are spans, each below what it belongs to, with
// the names of the convention and without a word of content.
func TestTreeIsATrace(t *testing.T) {
	w := play(t, botConfig(dig), nil)
	byID := checkTrace(t, w.lines())
	assert.Equal(t, []int64{1, 2, 3}, runDepths(byID))
	names := map[string]int{}
	for _, s := range byID {
		names[s.Name]++
		assert.Equal(t, "ok", s.Status, s.Name)
	}
	assert.Equal(t, map[string]int{
		"offshoot.tree": 1, "invoke_agent main": 3, "execute_tool dig": 1, "offshoot.turn": 7,
	}, names)
	linked := 0
	for _, s := range w.spans.GetSpans() {
		whole := fmt.Sprintf("%+v", s)
		assert.NotContains(t, whole, secret)
		assert.NotContains(t, whole, "555-0100")
		if strings.HasPrefix(s.Name, "invoke_agent") {
			require.Len(t, s.Links, 1)
			turn, ok := byID[s.Links[0].SpanContext.SpanID().String()]
			require.True(t, ok)
			assert.Equal(t, "offshoot.turn", turn.Name)
			linked++
			assert.Contains(t, whole, "gen_ai.request.model")
		}
	}
	assert.Equal(t, 3, linked)
}

// With Content the texts are there.
func TestContent(t *testing.T) {
	w := play(t, botConfig(dig), func(c *otel.Config) { c.Content = true })
	var found []string
	for _, s := range w.spans.GetSpans() {
		for _, kv := range s.Attributes {
			text := kv.Value.String()
			if strings.Contains(text, secret) || strings.Contains(text, "555-0100") {
				found = append(found, string(kv.Key))
			}
		}
	}
	slices.Sort(found)
	assert.Equal(t, []string{
		"gen_ai.tool.call.arguments", "gen_ai.tool.call.result", "offshoot.label", "offshoot.result",
		"offshoot.session", "offshoot.task",
	}, slices.Compact(found))
}

// The namespace tells apart the traces of bots with the same keys.
func TestNamespace(t *testing.T) {
	w := play(t, botConfig(dig), func(c *otel.Config) { c.Namespace = "two" })
	for _, s := range w.lines() {
		assert.Equal(t, otel.TraceID("two", chatKey()), s.Trace)
	}
	assert.NotEqual(t, otel.TraceID("two", chatKey()), otel.TraceID("", chatKey()))
}

// Metrics have the names of the convention.
func TestMetrics(t *testing.T) {
	w := play(t, botConfig(dig), nil)
	var all metricdata.ResourceMetrics
	require.NoError(t, w.read.Collect(t.Context(), &all))
	require.Len(t, all.ScopeMetrics, 1)
	got := map[string]string{}
	for _, m := range all.ScopeMetrics[0].Metrics {
		switch data := m.Data.(type) {
		case metricdata.Histogram[int64]:
			var sum int64
			for _, p := range data.DataPoints {
				sum += p.Sum
			}
			got[m.Name] = fmt.Sprint(sum, " ", m.Unit)
		case metricdata.Histogram[float64]:
			var n uint64
			for _, p := range data.DataPoints {
				n += p.Count
			}
			got[m.Name] = fmt.Sprint(n, " ", m.Unit)
		case metricdata.Sum[int64]:
			var sum int64
			for _, p := range data.DataPoints {
				sum += p.Value
			}
			got[m.Name] = fmt.Sprint(sum, " ", m.Unit)
		}
	}
	assert.Equal(t, map[string]string{
		"gen_ai.client.token.usage":        fmt.Sprint(7*17, " {token}"),
		"gen_ai.client.operation.duration": "4 s",
		"offshoot.runs":                    "3 {run}",
		"offshoot.runs.active":             "0 {run}",
	}, got)
}

// A TracerProvider that draws ids of its own is an error that says what it lacks.
func TestProviderWithoutIDs(t *testing.T) {
	rt, err := agent.Open(t.Context(), botConfig(dig))
	require.NoError(t, err)
	x, err := otel.New(rt, otel.Config{Tracer: sdktrace.NewTracerProvider()})
	require.NoError(t, err)
	watch := x.Watch(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- rt.Run(t.Context()) }()
	_, err = rt.Session(chatKey()).Post(t.Context(), agent.Incoming{Text: "go"})
	require.NoError(t, err)
	require.ErrorIs(t, watch(), otel.ErrNoIDs)
	require.NoError(t, rt.Shutdown(t.Context()))
	require.NoError(t, <-ended)
}

func TestConfigThatIsRefused(t *testing.T) {
	rt, err := agent.Open(t.Context(), botConfig(dig))
	require.NoError(t, err)
	tracer := sdktrace.NewTracerProvider()
	for field, cfg := range map[string]otel.Config{
		"Tracer": {}, "Interval": {Tracer: tracer, Interval: -1},
	} {
		_, err := otel.New(rt, cfg)
		bad, ok := errors.AsType[*otel.ConfigError](err)
		require.True(t, ok, "%v", err)
		assert.Equal(t, field, bad.Field)
	}
	_, err = otel.New(nil, otel.Config{Tracer: tracer})
	assert.Error(t, err)
}

// memory is a State in memory.
type memory struct {
	mu    sync.Mutex
	data  []byte
	first []byte // what the first save has saved
	saves int
	fails error
}

func (m *memory) Load(context.Context) ([]byte, error) { return m.data, m.fails }

func (m *memory) Save(_ context.Context, data []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.data = slices.Clone(data)
	if m.saves++; m.saves == 1 {
		m.first = m.data
	}
	return nil
}

// cursorOf returns the place up to which a state has the tree of the chat.
func cursorOf(m *memory) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, behind, _ := strings.Cut(string(m.data), `"cursor":"`)
	cursor, _, _ := strings.Cut(behind, `"`)
	return cursor
}

// deaf is an exporter that fails.
type deaf struct{ *sdktrace.TracerProvider }

func (deaf) ForceFlush(context.Context) error { return errors.New("the backend is away") }

// The state has no content, is not saved before the spans are exported, and one that is damaged is
// dropped. That of another store does not keep what happens from being exported.
func TestState(t *testing.T) {
	quiet := slog.New(slog.DiscardHandler)
	state := &memory{}
	play(t, botConfig(dig), func(c *otel.Config) { c.State = state })
	require.NotEmpty(t, state.data)
	assert.NotContains(t, string(state.data), secret)

	unsaved := &memory{}
	play(t, botConfig(dig), func(c *otel.Config) {
		c.State, c.Logger = unsaved, quiet
		c.Tracer = deaf{c.Tracer.(*sdktrace.TracerProvider)}
	})
	assert.Equal(t, 1, unsaved.saves, "before anything happened")
	assert.NotContains(t, string(unsaved.data), "cursor")

	key, other := chatKey().String(), "agent:main:test:direct:555-0199"
	for _, data := range []string{
		"{", `{"trees":{"` + key + `":null}}`,
		strings.ReplaceAll(string(state.data), key, other),
		strings.Replace(string(state.data), key, other, 1), // what it has is not of that tree
	} {
		saved := &memory{data: []byte(data)}
		w := play(t, botConfig(dig), func(c *otel.Config) { c.State, c.Logger = saved, quiet })
		byID := map[string]line{}
		for _, s := range w.lines() {
			byID[s.Span] = s
		}
		assert.Equal(t, []int64{1, 2, 3}, runDepths(byID), data)
	}
	// The place that it names is one of another journal. What happens before that is found is gone.
	elsewhere := &memory{data: state.data}
	w := play(t, botConfig(dig), func(c *otel.Config) {
		c.State, c.Interval, c.Logger = elsewhere, time.Millisecond, quiet
	}, func(*world) bool {
		return cursorOf(elsewhere) != cursorOf(state)
	}, func(w *world) bool {
		chat := w.rt.Session(chatKey())
		require.NoError(t, chat.Reset(t.Context()))
		_, err := chat.Post(t.Context(), agent.Incoming{Text: "once more"})
		return err == nil && chat.Idle(t.Context()) == nil
	})
	depths := map[int64]int{}
	for _, s := range w.lines() {
		if strings.HasPrefix(s.Name, "invoke_agent") {
			depths[s.Depth]++
		}
	}
	for depth := int64(1); depth <= 3; depth++ {
		assert.GreaterOrEqual(t, depths[depth], 1, "depth %d", depth)
	}

	rt, err := agent.Open(t.Context(), botConfig(dig))
	require.NoError(t, err)
	gone := errors.New("gone")
	x, err := otel.New(rt, otel.Config{
		Tracer: sdktrace.NewTracerProvider(), State: &memory{fails: gone},
	})
	require.NoError(t, err)
	assert.ErrorIs(t, x.Run(t.Context()), gone)
}

// A span that a tool begins with the context of the Exporter is a child of the turn.
func TestSpanOfATool(t *testing.T) {
	var x *otel.Exporter
	cfg := botConfig(dig)
	tracers := make(chan *sdktrace.TracerProvider, 1)
	cfg.Tools[0].Call = func(ctx context.Context, _ agent.ToolCall) (agent.ToolResult, error) {
		tracer := <-tracers
		_, span := tracer.Tracer("mine").Start(x.Context(ctx), "query")
		span.End()
		return agent.ToolResult{Text: "found"}, nil
	}
	spans := tracetest.NewInMemoryExporter()
	tracer := sdktrace.NewTracerProvider(
		sdktrace.WithIDGenerator(otel.IDs{}), sdktrace.WithSyncer(spans))
	rt, err := agent.Open(t.Context(), cfg)
	require.NoError(t, err)
	x, err = otel.New(rt, otel.Config{Tracer: tracer})
	require.NoError(t, err)
	tracers <- tracer
	watch := x.Watch(t.Context())
	ended := make(chan error, 2)
	go func() { ended <- watch() }()
	go func() { ended <- rt.Run(t.Context()) }()
	chat := rt.Session(chatKey())
	_, err = chat.Post(t.Context(), agent.Incoming{Text: "go"})
	require.NoError(t, err)
	require.NoError(t, chat.Idle(t.Context()))
	require.NoError(t, rt.Shutdown(t.Context()))
	require.NoError(t, errors.Join(<-ended, <-ended))
	w := &world{spans: spans}
	var own, call line
	for _, s := range w.lines() {
		switch s.Name {
		case "query":
			own = s
		case "execute_tool dig":
			call = s
		}
	}
	assert.Equal(t, otel.TraceID("", chatKey()), own.Trace)
	assert.NotEmpty(t, own.Parent)
	assert.Equal(t, call.Parent, own.Parent)
	assert.Equal(t, t.Context(), x.Context(t.Context()))
}

// What a process did whose spans were lost is exported by the next one that has the State: the
// journal has it. Metrics do not count it again.
func TestLostSpansAreExportedAgain(t *testing.T) {
	state, store := &memory{}, session.NewMemory()
	cfg := botConfig(dig)
	cfg.Store = store
	turned := func(w *world) bool { // its turn was exported, and not the calls alone
		return slices.ContainsFunc(w.lines(), func(s line) bool {
			return !strings.HasPrefix(s.Name, "execute_tool")
		})
	}
	play(t, cfg, func(c *otel.Config) { c.State = state }, turned)

	lost := &memory{data: slices.Clone(state.data)}
	second := play(t, cfg, func(c *otel.Config) { c.State = lost }, turned)
	again := &memory{data: slices.Clone(state.data)}
	third := play(t, cfg, func(c *otel.Config) { c.State = again }, func(w *world) bool {
		return len(w.lines()) > len(second.lines()) // its own turn comes last
	})

	exported := map[string]line{}
	for _, s := range third.lines() {
		exported[s.Span] = s
	}
	n := 0
	for _, s := range second.lines() {
		if strings.HasPrefix(s.Name, "execute_tool") {
			continue // the journal does not have them
		}
		assert.Equal(t, s, exported[s.Span], s.Name)
		n++
	}
	assert.Positive(t, n)
	assert.Greater(t, len(exported), n, "and what it did itself")

	var all metricdata.ResourceMetrics
	require.NoError(t, third.read.Collect(t.Context(), &all))
	for _, m := range all.ScopeMetrics[0].Metrics {
		if data, ok := m.Data.(metricdata.Histogram[int64]); ok {
			require.Len(t, data.DataPoints, 2) // of input and of output
			assert.Equal(t, uint64(1), data.DataPoints[0].Count, "its own turn")
		}
	}
}

// others has two more chats answer.
func others(t *testing.T) func(w *world) bool {
	t.Helper()
	return func(w *world) bool {
		for _, peer := range []string{"555-0101", "555-0102"} {
			chat := w.rt.Session(session.Must(session.DirectKey("main", "test", peer)))
			_, err := chat.Post(t.Context(), agent.Incoming{Text: "go"})
			require.NoError(t, err)
			require.NoError(t, chat.Idle(t.Context()))
		}
		return true
	}
}

// durable returns the spans of what the journal has, by id. Each is there in one form.
func (w *world) durable(t *testing.T) map[string]line {
	t.Helper()
	byID := map[string]line{}
	for _, s := range w.lines() {
		if strings.HasPrefix(s.Name, "execute_tool") {
			continue
		}
		if twin, ok := byID[s.Span]; ok {
			require.Equal(t, twin, s)
		}
		byID[s.Span] = s
	}
	return byID
}

// allTurns waits until a number of spans of turns are there.
func allTurns(n int) func(w *world) bool {
	return func(w *world) bool {
		seen := map[string]bool{}
		for _, s := range w.lines() {
			if s.Name == "offshoot.turn" {
				seen[s.Span] = true
			}
		}
		return len(seen) >= n
	}
}

// A process that is killed before it has saved the State, with one tree or several, which work or
// are at rest, leaves all to the next one: the same spans with the same times, that of the tree
// included, whose beginning is known.
func TestKillBeforeTheFirstSave(t *testing.T) {
	for trees, begin := range map[int]func(w *world) bool{
		1: func(*world) bool { return true }, 3: others(t),
	} {
		cfg := botConfig(dig)
		cfg.Store = session.NewMemory()
		state := &memory{}
		turns := 7 * trees
		first := play(t, cfg, func(c *otel.Config) { c.State = state }, begin, allTurns(turns))
		killed := &memory{data: slices.Clone(state.first)}
		second := play(t, cfg, func(c *otel.Config) { c.State = killed }, allTurns(turns+1))
		got := second.durable(t)
		n := 0
		for id, s := range first.durable(t) {
			require.Equal(t, s, got[id], s.Name)
			require.Empty(t, s.Unknown)
			if s.Name == "offshoot.tree" {
				n++
			}
		}
		require.Equal(t, trees, n)

		// A process that has ended has left nothing, and so the next one has its own alone.
		third := play(t, cfg, func(c *otel.Config) { c.State = killed }, allTurns(1))
		for id, s := range third.durable(t) {
			require.NotContains(t, got, id, s.Name)
		}
	}
}

// A State that is first used over an old store exports nothing of what was before, and everything
// of what is from then on, whether the process is killed or not.
func TestFirstUseOverAnOldStore(t *testing.T) {
	cfg := botConfig(dig)
	cfg.Store = session.NewMemory()
	play(t, cfg, nil, others(t))
	began := time.Now()
	state := &memory{}
	first := play(t, cfg, func(c *otel.Config) { c.State = state }, allTurns(1)).durable(t)
	assert.Contains(t, string(state.first), `"running"`)
	assert.NotContains(t, string(state.data), `"running"`, "the next one need not look for trees")
	for _, data := range [][]byte{state.first, state.data} {
		next := &memory{data: slices.Clone(data)}
		w := play(t, cfg, func(c *otel.Config) { c.State = next }, allTurns(2))
		if got := w.durable(t); bytes.Equal(data, state.first) {
			for id, s := range first {
				if s.Name != "offshoot.tree" {
					require.Equal(t, s, got[id], s.Name)
				}
			}
		}
		for _, s := range w.lines() {
			if s.Name != "offshoot.tree" { // it is where the tree was first seen
				require.False(t, s.Start.Before(began), s.Name)
			}
			require.Equal(t, otel.TraceID("", chatKey()), s.Trace)
		}
	}
}
