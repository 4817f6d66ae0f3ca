package otel

import (
	"cmp"
	"context"
	"strings"

	"github.com/offshoot-sdk/offshoot/agent"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// Names of the semantic conventions for GenAI, as package semconv v1.40.0 of
// go.opentelemetry.io/otel has them, and what is beyond them.
const (
	opAgent = "invoke_agent"
	opTool  = "execute_tool"
	opModel = "chat"

	nameTokens   = "gen_ai.client.token.usage"
	unitTokens   = "{token}"
	nameDuration = "gen_ai.client.operation.duration"
	unitDuration = "s"

	keyOperation = attribute.Key("gen_ai.operation.name")
	keyAgent     = attribute.Key("gen_ai.agent.name")
	keyChat      = attribute.Key("gen_ai.conversation.id")
	keyModel     = attribute.Key("gen_ai.request.model")
	keyRan       = attribute.Key("gen_ai.response.model")
	keyProvider  = attribute.Key("gen_ai.provider.name")
	keyInput     = attribute.Key("gen_ai.usage.input_tokens")
	keyOutput    = attribute.Key("gen_ai.usage.output_tokens")
	keyTool      = attribute.Key("gen_ai.tool.name")
	keyToolType  = attribute.Key("gen_ai.tool.type")
	keyCall      = attribute.Key("gen_ai.tool.call.id")
	keyArguments = attribute.Key("gen_ai.tool.call.arguments")
	keyResult    = attribute.Key("gen_ai.tool.call.result")
	keyTokenType = attribute.Key("gen_ai.token.type")
	keyError     = attribute.Key("error.type")

	keyRun        = attribute.Key("offshoot.run.id")
	keyStatus     = attribute.Key("offshoot.status")
	keyDepth      = attribute.Key("offshoot.depth")
	keyTurn       = attribute.Key("offshoot.turn")
	keyGuessed    = attribute.Key("offshoot.start_unknown")
	keyCut        = attribute.Key("offshoot.end_unknown")
	keyCost       = attribute.Key("offshoot.cost_usd")
	keyCacheRead  = attribute.Key("gen_ai.usage.cache_read.input_tokens")
	keyCacheWrite = attribute.Key("gen_ai.usage.cache_creation.input_tokens")
	keySession    = attribute.Key("offshoot.session")
	keyLabel      = attribute.Key("offshoot.label")
	keyTask       = attribute.Key("offshoot.task")
	keyText       = attribute.Key("offshoot.result")
	keyOutcome    = attribute.Key("offshoot.outcome")
)

// name returns the name of a span, which has few values.
func (s *span) name() string {
	switch s.kind {
	case kindRun:
		return strings.TrimSpace(opAgent + " " + s.event.Agent)
	case kindTurn:
		return "offshoot.turn"
	case kindCall:
		return opTool + " " + s.event.Tool.Name
	case kindModel:
		_, model, _ := splitModel(s.event.Model)
		return strings.TrimSpace(opModel + " " + model)
	case kindTree:
	}
	return "offshoot.tree"
}

func (s *span) failed() bool {
	return s.status != agent.StatusOK && s.status != agent.StatusCancelled
}

// cause says in one word why a span has failed.
func (s *span) cause() string { return cmp.Or(s.reason, s.status.String()) }

// attributes returns what a span says.
func (s *span) attributes(content bool) []attribute.KeyValue {
	e := &s.event
	list := []attribute.KeyValue{
		keyChat.String(conversation(e.Session)), keyDepth.Int(e.Depth),
		keyStatus.String(s.status.String()),
	}
	add := func(kv ...attribute.KeyValue) { list = append(list, kv...) }
	text := func(key attribute.Key, value string) {
		if value != "" {
			add(key.String(value))
		}
	}
	text(keyAgent, e.Agent)
	text(keyRun, string(e.Run))
	if s.failed() {
		add(keyError.String(s.cause()))
	}
	if s.guessed {
		add(keyGuessed.Bool(true))
	}
	if s.cut {
		add(keyCut.Bool(true))
	}
	if e.Turn > 0 {
		add(keyTurn.Int(e.Turn))
	}
	switch s.kind {
	case kindRun:
		add(keyOperation.String(opAgent))
	case kindCall:
		add(keyOperation.String(opTool), keyTool.String(e.Tool.Name), keyToolType.String("function"))
		text(keyCall, e.Tool.Call)
	case kindModel:
		add(keyOperation.String(opModel))
		_, ran, _ := splitModel(s.ran)
		text(keyRan, ran)
	case kindTree, kindTurn:
	}
	if s.kind != kindTree && s.kind != kindCall {
		add(modelOf(e)...)
		add(usageOf(e)...)
	}
	if content {
		text(keySession, e.Session.String())
		text(keyLabel, e.Label)
		switch s.kind {
		case kindCall:
			text(keyArguments, s.task)
			text(keyResult, e.Text)
		case kindRun:
			text(keyTask, s.task)
			text(keyText, e.Text)
		case kindTurn:
			text(keyText, e.Text)
		case kindTree, kindModel:
		}
	}
	return list
}

func modelOf(e *agent.TreeEvent) []attribute.KeyValue {
	if e.Model == "" {
		return nil
	}
	provider, model, ok := splitModel(e.Model)
	if !ok {
		return []attribute.KeyValue{keyModel.String(e.Model)}
	}
	return []attribute.KeyValue{keyModel.String(model), keyProvider.String(provider)}
}

// splitModel returns the parts of "provider/model"; false: there is no provider.
func splitModel(name string) (provider, model string, ok bool) {
	if provider, model, ok = strings.Cut(name, "/"); !ok {
		return "", name, false
	}
	return provider, model, true
}

// usageOf returns the tokens. The convention counts what a cache held as input, too.
func usageOf(e *agent.TreeEvent) []attribute.KeyValue {
	u := e.Usage
	if u.IsZero() {
		return nil
	}
	list := []attribute.KeyValue{
		keyInput.Int64(u.Input + u.CacheRead + u.CacheWrite), keyOutput.Int64(u.Output),
	}
	if u.CacheRead > 0 {
		list = append(list, keyCacheRead.Int64(u.CacheRead))
	}
	if u.CacheWrite > 0 {
		list = append(list, keyCacheWrite.Int64(u.CacheWrite))
	}
	if u.Cost > 0 {
		list = append(list, keyCost.Float64(u.Cost))
	}
	return list
}

// meters are the instruments.
type meters struct {
	tokens     metric.Int64Histogram
	duration   metric.Float64Histogram
	runs       metric.Int64Counter
	active     metric.Int64UpDownCounter
	refused    metric.Int64Counter
	deliveries metric.Int64Counter
}

// open makes the instruments, with the buckets that the convention names.
func (m *meters) open(meter metric.Meter) (err error) {
	var errs [6]error
	m.tokens, errs[0] = meter.Int64Histogram(nameTokens, metric.WithUnit(unitTokens),
		metric.WithDescription("Tokens used by a turn."),
		metric.WithExplicitBucketBoundaries(1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144,
			1048576, 4194304, 16777216, 67108864))
	m.duration, errs[1] = meter.Float64Histogram(nameDuration,
		metric.WithUnit(unitDuration), metric.WithDescription("How long a run or a call took."),
		metric.WithExplicitBucketBoundaries(0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56,
			5.12, 10.24, 20.48, 40.96, 81.92))
	m.runs, errs[2] = meter.Int64Counter("offshoot.runs", metric.WithUnit("{run}"),
		metric.WithDescription("Runs that have ended."))
	m.active, errs[3] = meter.Int64UpDownCounter("offshoot.runs.active", metric.WithUnit("{run}"),
		metric.WithDescription("Runs that have not ended."))
	m.refused, errs[4] = meter.Int64Counter("offshoot.spawns.refused", metric.WithUnit("{spawn}"),
		metric.WithDescription("Spawns that were refused."))
	m.deliveries, errs[5] = meter.Int64Counter("offshoot.deliveries", metric.WithUnit("{delivery}"),
		metric.WithDescription("Attempts to deliver a completion or a reply."))
	for _, e := range errs {
		if e != nil && err == nil {
			err = e
		}
	}
	return err
}

// count counts an event, unless it is of before this process.
func (m *meters) count(ctx context.Context, e agent.TreeEvent, began int, fresh bool) {
	if began != 0 {
		m.active.Add(ctx, int64(began))
	}
	if !fresh {
		return
	}
	outcome := func(name string) {
		m.deliveries.Add(ctx, 1, metric.WithAttributes(keyOutcome.String(name)))
	}
	switch e.Kind {
	case agent.EventRefused: // Agent is what a model asked for, which may be any text
		m.refused.Add(ctx, 1, metric.WithAttributes(keyAgent.String(e.Session.Agent())))
	case agent.EventDelivered:
		outcome("delivered")
	case agent.EventDeferred:
		outcome("deferred")
	case agent.EventBlocked:
		outcome("blocked")
	default:
	}
}

// isCounted reports whether count has an instrument for events of a kind.
func isCounted(kind agent.EventKind) bool {
	switch kind {
	case agent.EventRefused, agent.EventDelivered, agent.EventDeferred, agent.EventBlocked:
		return true
	default:
		return false
	}
}

// record measures a span that has ended.
func (m *meters) record(ctx context.Context, s *span) {
	e := &s.event
	who := append([]attribute.KeyValue{keyAgent.String(e.Agent)}, modelOf(e)...)
	switch s.kind {
	case kindTurn:
		tokens := func(n int64, name string) {
			if n > 0 {
				m.tokens.Record(ctx, n, metric.WithAttributes(who...), metric.WithAttributes(
					keyOperation.String(opAgent), keyTokenType.String(name)))
			}
		}
		tokens(e.Usage.Input+e.Usage.CacheRead+e.Usage.CacheWrite, "input")
		tokens(e.Usage.Output, "output")
	case kindRun:
		m.runs.Add(ctx, 1, metric.WithAttributes(
			keyAgent.String(e.Agent), keyStatus.String(s.status.String())))
		m.took(ctx, s, append(who, keyOperation.String(opAgent)))
	case kindCall:
		m.took(ctx, s, []attribute.KeyValue{
			keyAgent.String(e.Agent), keyOperation.String(opTool), keyTool.String(e.Tool.Name),
		})
	case kindModel:
		m.took(ctx, s, append(who, keyOperation.String(opModel)))
	case kindTree:
	}
}

func (m *meters) took(ctx context.Context, s *span, of []attribute.KeyValue) {
	if s.guessed {
		return
	}
	if s.failed() {
		of = append(of, keyError.String(s.cause()))
	}
	m.duration.Record(ctx, s.end.Sub(s.start).Seconds(), metric.WithAttributes(of...))
}
