package agent

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/offshoot-sdk/offshoot/internal/contain"
	"github.com/offshoot-sdk/offshoot/internal/enum"
	"github.com/offshoot-sdk/offshoot/internal/jsonschema"
	"github.com/offshoot-sdk/offshoot/internal/sat"
	"github.com/offshoot-sdk/offshoot/internal/secret"
	"github.com/offshoot-sdk/offshoot/internal/text"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// A ToolCall is a model's request to call a tool.
type ToolCall = session.ToolCall

// A Tool is something that a model may call.
//
// What a call is told of its session stands in its context: [CallerOf]. A tool that needs its
// [Turn], as for [Turn.Hear], [Turn.Files] or [Turn.Say], takes it from that context, too. That has
// the values of the context that the Runner has called it with, or has given its [Loop]: so a bot
// runs the Loop in a [RunnerFunc] that puts the Turn there. The example has all of it.
type Tool struct {
	// Name is what the model calls; unique among the tools of a Config in any letter case, since
	// the Rules know none.
	Name string
	// Description says what the tool does. Its first line stands in the prompt.
	Description string
	// Schema is the JSON Schema of the arguments; nil: an object without properties, and any object
	// reaches Call. [Open] refuses what is not a schema, or cannot be checked in bounded time.
	// Arguments that do not fit it, or are not an object, give the model a sentence and do not
	// reach Call.
	Schema json.RawMessage
	// Call runs the tool and returns what the model is told. An error is told to the model in its
	// place. A panic fails the call: the model is told a plain sentence, and the log has the value
	// and the stack. So does the end of its goroutine, as by t.FailNow. Call may be called from
	// several goroutines at once.
	Call func(ctx context.Context, c ToolCall) (ToolResult, error)
	// Concurrent says that calls of the tool may run beside other calls of the same answer that
	// are of Concurrent tools, too; see [Loop.Parallel]. Each call of another tool runs alone, in
	// its place among the calls.
	Concurrent bool
	// Timeout is how long a call may take. Then its context ends, and the model is told so, with
	// the duration. A call that returns a result nevertheless, within a second, counts as it is.
	// One that has not returned by then has failed: the turn goes on without it, and what it still
	// returns is dropped. Such a call is named in a [StillRunningError] of Stop and Shutdown until
	// it returns. 0: a call may take as long as the turn. Each try has the whole time; see Effect.
	Timeout time.Duration
	// Effect says what a call changes outside of the conversation. A call of an EffectReadOnly or
	// EffectIdempotent tool whose error [IsRetryable] is tried again, up to two times, after a
	// pause of half a second, then of a second, or as long as a [RateLimited] says. A call that is
	// to wait for longer than a minute is not, nor one that its Timeout has ended, nor any call of
	// another tool.
	Effect Effect
	// OwnerOnly says that owners of the bot alone may use the tool, whatever Rules.OwnerOnly name:
	// no turn has it that answers another person, and nothing that such a turn spawns. Then
	// Rules.Owners or [Config].Owner say who is one.
	OwnerOnly bool

	fault  error              // why NewTool could not make a schema
	answer error              // why what the function of NewTool returns has no JSON form
	made   string             // the Schema of NewTool, against which Call checks the arguments
	schema *jsonschema.Schema // compiled; nil: Call checks, or takes every object
}

// An Effect is what a call of a tool changes outside of the conversation. The zero Effect says that
// this is not known.
//
// Whatever the Effect is, the line of the call is durable in the transcript before the tool is
// called, and the line of its result follows when it has ended. A call without a result, after a
// crash, may have had its effect.
type Effect uint8

// The effects of tools.
const (
	EffectUnknown    Effect = iota // not known: as EffectEffectful
	EffectReadOnly                 // it changes nothing
	EffectIdempotent               // a call that is repeated changes nothing more
	EffectEffectful                // a call that is repeated changes something again
)

var effectNames = [...]string{"unknown", "read_only", "idempotent", "effectful"}

// String returns the name of the effect, such as "read_only".
func (e Effect) String() string { return enum.String(effectNames[:], "Effect", e) }

// MarshalText returns the name. A value that is not an Effect is an error.
func (e Effect) MarshalText() ([]byte, error) {
	return enum.Marshal(effectNames[:], "agent", "effect", e)
}

// UnmarshalText sets e to the Effect of that name, in any letter case of ASCII.
func (e *Effect) UnmarshalText(text []byte) error {
	return enum.Unmarshal(effectNames[:], "agent", "effect", text, e)
}

// isRepeatable reports whether a call may be made twice.
func (e Effect) isRepeatable() bool { return e == EffectReadOnly || e == EffectIdempotent }

// NewTool makes a Tool of a function. The schema of the arguments is that of In: a struct whose
// fields have json tags, and doc tags as descriptions; fields with omitempty or omitzero, and
// pointers, are optional. A map with text keys is an object with any members.
//
// Arguments that do not fit the schema do not reach the function, and the model is told which
// member is wrong and what is wanted: members that are missing, unknown or there twice, values of
// another type or out of range. A member that is optional may be null. What else cannot be decoded
// into In, such as a text that its own UnmarshalText refuses, gives the model that error.
//
// What the function returns is what the model is told: a string is the text, a [ToolResult] is the
// result, and any other value is told as JSON. An empty slice or map is that, also if it is nil.
// What else is nil, or cannot be encoded, gives the model a *[ToolValueError].
//
// An In without a schema is a mistake of the program: one that contains itself, has a field that
// JSON cannot represent, or is not an object. So is an Out without a JSON form, and one with a
// [Part] inside, whose bytes JSON leaves out. NewTool returns a Tool all the same, which Open
// refuses, and whose Call returns why. So is an f that is nil: the Call of its Tool is nil.
//
// A caller that sets another Schema afterwards has Open check it as that of any Tool. Arguments
// must then fit both.
func NewTool[In, Out any](
	name, description string, f func(ctx context.Context, in In) (Out, error),
) Tool {
	raw, schema, err := argsSchema(reflect.TypeFor[In]())
	tool := Tool{
		Name: name, Description: description, Schema: raw, fault: err, made: string(raw),
		answer: answerFault(reflect.TypeFor[Out]()),
	}
	if f == nil {
		return tool
	}
	bad := cmp.Or(err, tool.answer)
	tool.Call = func(ctx context.Context, c ToolCall) (ToolResult, error) {
		if bad != nil {
			return ToolResult{}, fmt.Errorf("agent: tool %q: %w", name, bad)
		}
		in, err := decodeTyped[In](schema, givenArgs(c.Args))
		if err != nil {
			return ToolResult{}, decodingError(name, err)
		}
		out, err := f(ctx, in)
		if err != nil {
			return ToolResult{}, err
		}
		return toolResult(name, out)
	}
	return tool
}

// argsSchema returns the schema of arguments that are decoded into a type.
func argsSchema(of reflect.Type) (json.RawMessage, *jsonschema.Schema, error) {
	raw, schema, err := jsonschema.Of(of)
	if err != nil {
		return nil, nil, err
	}
	if string(raw) == "{}" { // what the type accepts only it knows; a provider wants an object
		raw = json.RawMessage(`{"type":"object"}`)
		schema, err = jsonschema.Compile(raw)
		return raw, schema, err
	}
	if !schema.AcceptsObject() {
		return nil, nil, fmt.Errorf("arguments are an object: "+
			"want a struct, or a map with text keys, not %v", of)
	}
	return raw, schema, nil
}

func argsError(name string, err error) error {
	return fmt.Errorf("agent: arguments of %q: %w", name, err)
}

// decodingError is argsError for arguments that decodeTyped refuses.
func decodingError(name string, err error) error {
	if bad, ok := errors.AsType[*memberError](err); ok {
		return &ArgumentError{
			Tool: name, Argument: cmp.Or(bad.member, "(all)"), Reason: bad.reason, Err: bad.err,
		}
	}
	return argsError(name, err)
}

// givenArgs returns arguments as JSON: a model that gives none means an empty object.
func givenArgs(args json.RawMessage) json.RawMessage {
	if len(strings.TrimSpace(string(args))) == 0 {
		return json.RawMessage(noArgs)
	}
	return args
}

// isAsMade reports whether the tool has the Schema that NewTool gave it.
func (t *Tool) isAsMade() bool { return t.made != "" && t.made == string(t.Schema) }

// checkSchema returns what is wrong with the arguments that a tool asks for.
func (t *Tool) checkSchema() error {
	if t.fault != nil || t.Schema == nil || t.isAsMade() {
		return t.fault
	}
	schema, err := jsonschema.Compile(t.Schema)
	switch {
	case err != nil:
		return err
	case !schema.AcceptsObject():
		return errors.New("arguments are an object, and the type is another")
	}
	t.schema = schema
	return nil
}

// checkArgs refuses arguments that do not fit the schema of a tool of the Config, unless its Call
// checks them, and arguments that are not an object, of which a schema need not say a word.
func (t *Tool) checkArgs(args json.RawMessage) error {
	if t.isAsMade() || t.Schema != nil && t.schema == nil { // a tool of Offshoot
		return nil
	}
	given := givenArgs(args)
	var err error
	switch {
	case t.schema != nil:
		err = t.schema.Validate(given)
	case !json.Valid(given):
		err = errors.New("the text is not one JSON value")
	}
	if err == nil && bytes.TrimSpace(given)[0] != '{' {
		err = errors.New("the value is not an object: want an object")
	}
	if err != nil {
		return argsError(t.Name, err)
	}
	return nil
}

// toolError is a call of a tool that panicked, or ended its goroutine. Its text is for the model,
// so that what the panic was about is not in it.
type toolError struct {
	name string
	err  *CallbackError
}

func (e *toolError) Error() string {
	return fmt.Sprintf("agent: the tool %q failed unexpectedly", e.name)
}

// Unwrap returns the *CallbackError.
func (e *toolError) Unwrap() error { return e.err }

// A ToolTimeoutError is a call of a tool that has taken longer than its [Tool].Timeout. It is told
// to the model, and is [context.DeadlineExceeded].
type ToolTimeoutError struct {
	Tool    string
	Timeout time.Duration
	// Running says that the call had not returned a second after its context has ended.
	Running bool
	Err     error // what the call returned; nil if it is Running
}

func (e *ToolTimeoutError) Error() string {
	s := fmt.Sprintf("agent: the tool %q has not answered within %v, which is its timeout", e.Tool,
		e.Timeout)
	if e.Running {
		s += ", and it may still be at work"
	}
	return s
}

// Unwrap returns context.DeadlineExceeded and Err.
func (e *ToolTimeoutError) Unwrap() []error {
	if e.Err == nil {
		return []error{context.DeadlineExceeded}
	}
	return []error{context.DeadlineExceeded, e.Err}
}

// A Caller is the session for which a tool is called, and its turn.
type Caller struct {
	// Session is where the session stands in its tree.
	Session session.Lineage
	// Run names the run; empty in a top-level session.
	Run RunID
	// Turn is the number of the turn, [Turn.N].
	Turn int
	// Sandboxed says that the tool must work in the sandbox of the session; see [Turn.Sandboxed].
	Sandboxed bool
	// Dir is where the tool works, see [Turn.Dir]; empty: the Config says nothing of it.
	Dir string
	// Call names the call. It is zero if the Runner has not recorded a message with a call of that
	// id before, or the call has its result.
	Call CallID
}

// A CallID names one call of a tool in a session, for ever: where its line stands, and where in it.
// All tries of one call have the same. What a turn that repeats an interrupted one calls has
// another line, and so another CallID, since the model has asked anew.
type CallID struct {
	SessionID string      // of the transcript; a session that is reset gets another one
	Line      session.Pos // of the line of the assistant, which is durable
	Index     int         // of the call in that line, from 0
}

// IsZero reports whether the id names no call.
func (id CallID) IsZero() bool { return id == CallID{} }

// String returns the id as one word, such as "<session id>/1234.0", which is a key for what must
// happen once a call; empty: it names no call.
func (id CallID) String() string {
	if id.IsZero() {
		return ""
	}
	return fmt.Sprintf("%s/%d.%d", id.SessionID, id.Line, id.Index)
}

// callerKey is the key under which the context of a tool's call holds its Caller.
type callerKey struct{}

// CallerOf returns the session for which a tool is called, from the context that the tool got. It
// returns false for a context that is not of a call through [Turn.Tools]; a tool that must not work
// outside a sandbox by mistake then refuses.
func CallerOf(ctx context.Context) (Caller, bool) {
	c, ok := ctx.Value(callerKey{}).(*toolCall)
	if !ok {
		return Caller{}, false
	}
	return c.caller, true
}

// toolCall is who calls a tool, and in which turn.
type toolCall struct {
	caller Caller
	turn   *Turn
}

// An ownTool is a tool as a turn has it: it is told who calls, obeys the Limits, and ends with the
// turn.
type ownTool struct {
	given Tool
	turn  *Turn
}

// offered returns the tools as a turn has them.
func offered(own []ownTool) []Tool {
	tools := make([]Tool, len(own))
	for i := range own {
		tools[i] = own[i].given
		tools[i].Call = own[i].show
	}
	return tools
}

// call calls the tool within what the turn and the Limits allow.
func (o *ownTool) call(ctx context.Context, c ToolCall) (ToolResult, error) {
	t := o.turn
	if err := t.err(); err != nil {
		return ToolResult{}, err
	}
	if t.Announces {
		return ToolResult{}, fmt.Errorf("%w: no tool can be called", ErrAnnouncing)
	}
	now, err := t.mayCall(ctx, t.rt.cfg(), o.given.Name)
	if err != nil {
		return ToolResult{}, err
	}
	if err := t.rt.cfg().Limits.checkArgs(c); err != nil {
		return ToolResult{}, err
	}
	if err := o.given.checkArgs(c.Args); err != nil {
		return ToolResult{}, err
	}
	t.noteCall(o.given.Effect)
	st := t.spawn // not what the Runner may have changed
	who := toolCall{Caller{Session: st.Session, Run: st.Run.ID, Turn: st.N}, t}
	who.caller.Sandboxed = st.Authority.Sandboxed || now.Sandboxed
	who.caller.Call, who.caller.Dir = t.log.callID(c.ID), t.place.Dir()
	ctx, done := st.Within(context.WithValue(ctx, callerKey{}, &who))
	defer done()
	out, err := t.tryTool(ctx, &o.given, c)
	out.Text = secret.Bound(t.rt.redactor.Redact, out.Text, t.rt.cfg().Limits.ToolResult)
	if err != nil {
		return ToolResult{Text: out.Text}, withoutCredentials(ctx, err)
	}
	return t.keepToolParts(ctx, o.given.Name, out)
}

// How often a call of a tool is tried, and how long the pauses between are.
const (
	maxToolTries   = 3
	firstToolPause = 500 * time.Millisecond
	maxToolPause   = time.Minute
)

// tryTool calls a tool, and again where its Effect and its error allow that, each time once the
// process may act for the tree.
func (t *Turn) tryTool(ctx context.Context, tool *Tool, c ToolCall) (ToolResult, error) {
	for n := 1; ; n++ {
		if err := t.spawn.MayAct(ctx); err != nil {
			return ToolResult{}, err
		}
		out, err := t.callTool(ctx, tool, c)
		pause, again := toolPause(tool.Effect, err, n)
		if !again || !sleepFor(ctx, pause) {
			return out, err
		}
	}
}

// toolPause says whether a call is tried again that has failed n times, and after which pause.
func toolPause(effect Effect, err error, n int) (pause time.Duration, again bool) {
	if _, late := errors.AsType[*ToolTimeoutError](err); late || n >= maxToolTries ||
		!effect.isRepeatable() || !IsRetryable(err) {
		return 0, false
	}
	pause = firstToolPause << (n - 1)
	if limited, ok := errors.AsType[RateLimited](err); ok {
		pause = max(pause, limited.After)
	}
	return pause, pause <= maxToolPause
}

// sleepFor waits, and reports whether ctx has not ended meanwhile.
func sleepFor(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// toolGrace is how long a call may take to return after its Timeout.
const toolGrace = time.Second

// callTool calls a tool once, in a goroutine of its own, and waits for it. A call that does not
// return some time after its Timeout is left to the tree, unless the turn ends, too: then the
// Runner has not returned either.
func (t *Turn) callTool(ctx context.Context, tool *Tool, c ToolCall) (ToolResult, error) {
	limited, late := ctx, (<-chan time.Time)(nil)
	if tool.Timeout > 0 {
		var end context.CancelFunc
		limited, end = context.WithTimeout(ctx, tool.Timeout)
		defer end()
		timer := time.NewTimer(sat.Add(tool.Timeout, toolGrace))
		defer timer.Stop()
		late = timer.C
	}
	run := &toolRun{done: make(chan struct{})}
	go t.runTool(limited, tool, c, run)
	failed := &ToolTimeoutError{Tool: tool.Name, Timeout: tool.Timeout}
	select {
	case <-run.done:
	case <-late:
		if ctx.Err() == nil && t.spawn.Leave(run.done) {
			failed.Running = true
			t.rt.log.Warn("offshoot: a tool has not returned in time", "session",
				t.Session.Key.String(), "turn", t.N, "tool", tool.Name, "timeout", tool.Timeout)
			return ToolResult{}, failed
		}
		<-run.done
	}
	if run.err != nil && limited.Err() != nil && ctx.Err() == nil {
		failed.Err = run.err
		return run.out, failed
	}
	return run.out, run.err
}

// toolRun is what a call of a tool has come to, once done is closed.
type toolRun struct {
	out  ToolResult
	err  error
	done chan struct{}
}

// runTool calls a tool. A panic, or the end of the goroutine, is an error: the model is told a
// plain sentence, and the value is in the log.
func (t *Turn) runTool(ctx context.Context, tool *Tool, c ToolCall, run *toolRun) {
	defer close(run.done)
	returned := false
	defer func() {
		if returned {
			return
		}
		failed := newCallbackError(fmt.Sprintf("Tools[%q].Call", tool.Name), recover())
		run.err = &toolError{tool.Name, failed}
		t.logToolPanic(tool.Name, failed, failed.Stack) // last: a Logger may end the goroutine
	}()
	run.out, run.err = tool.Call(ctx, c)
	_ = contain.Read(run.err)
	returned = true
	t.logBadCodec(tool, run.err)
}

// logBadCodec logs the panic of a method by which the arguments' type decodes itself, or that of
// the answer encodes itself.
func (t *Turn) logBadCodec(tool *Tool, err error) {
	var inner error
	if bad, ok := errors.AsType[*ArgumentError](err); ok {
		inner = bad.Err
	} else if bad, ok := errors.AsType[*ToolValueError](err); ok {
		inner = bad.Err
	}
	if p, ok := errors.AsType[*spawn.PanicError](inner); ok {
		t.logToolPanic(tool.Name, p, p.Stack)
	}
}

func (t *Turn) logToolPanic(tool string, err error, stack []byte) {
	t.rt.log.Error("offshoot: a tool panicked", "session", t.Session.Key.String(),
		"turn", t.N, "tool", tool, "error", err.Error(), "stack", string(stack))
}

// firstLine returns the first line of a description.
func (t Tool) firstLine() string {
	line, _, _ := strings.Cut(strings.TrimSpace(t.Description), "\n")
	return line
}

// A ToolResult is what a tool answers the model.
type ToolResult struct {
	Text string
	// Parts are what the tool has beside the text, such as pictures. The bytes of a Part are its
	// Data, which the library keeps in Store.Files, or stand behind its URL.
	//
	// What cannot be kept is left out, and the Text says so: an invalid Part, one beyond
	// Limits.Parts or Limits.Part, a File that the session does not have, and every Data or File
	// where the Store has no Files. A MediaType that the bytes contradict is set right.
	Parts []Part
}

// A ToolValueError says that what the function of a [NewTool] returned cannot be told to the model.
// It is told to the model in its place.
type ToolValueError struct {
	Tool   string
	Reason string
	Err    error // what encoding it failed with, a *[spawn.PanicError] after a panic; or nil
}

func (e *ToolValueError) Error() string {
	return fmt.Sprintf("agent: the answer of tool %s: %s", text.Quote(e.Tool), e.Reason)
}

// Unwrap returns Err.
func (e *ToolValueError) Unwrap() error { return e.Err }

// answerFault returns why what the function of a tool returns cannot be told to a model, or nil.
func answerFault(of reflect.Type) error {
	if of.Kind() == reflect.String || of == reflect.TypeFor[ToolResult]() {
		return nil
	}
	err := jsonschema.Encodes(of, func(t reflect.Type) error {
		if t == reflect.TypeFor[Part]() {
			return errors.New("JSON leaves out the bytes of a Part: return a ToolResult")
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("what it returns: %w", err)
	}
	return nil
}

// toolResult returns what the function of a tool returned as the model is told.
func toolResult(tool string, out any) (ToolResult, error) {
	if res, ok := out.(ToolResult); ok {
		return res, nil
	}
	v := reflect.ValueOf(out)
	if v.Kind() == reflect.String && !jsonschema.EncodesItself(v.Type()) {
		return ToolResult{Text: v.String()}, nil
	}
	data, err := encodeAnswer(out)
	switch panicked, ok := errors.AsType[*spawn.PanicError](err); {
	case ok:
		return ToolResult{}, &ToolValueError{tool, "it cannot be encoded", panicked}
	case err != nil:
		reason := "it cannot be encoded: " + decoderSaid(err)
		return ToolResult{}, &ToolValueError{tool, reason, err}
	case string(data) == "null":
		return ToolResult{}, &ToolValueError{Tool: tool, Reason: "it is nil: there is none"}
	}
	return ToolResult{Text: string(data)}, nil
}

// encodeAnswer returns a value as JSON. A slice or map without items is not null. The methods that
// encode may panic, which is a *[spawn.PanicError].
func encodeAnswer(v any) (data []byte, err error) {
	defer func() {
		if value := recover(); value != nil {
			err = newPanic(value)
		}
	}()
	_, own := v.(json.Marshaler)
	if r := reflect.ValueOf(v); !own && r.IsValid() {
		switch {
		case r.Kind() == reflect.Slice && r.IsNil():
			v = reflect.MakeSlice(r.Type(), 0, 0).Interface()
		case r.Kind() == reflect.Map && r.IsNil():
			v = reflect.MakeMap(r.Type()).Interface()
		}
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // a model reads it
	err = e.Encode(v)
	return bytes.TrimSpace(b.Bytes()), err
}

// mayCall returns what is left to the session under the rules of cfg, and an error unless a tool of
// the Config is left.
func (t *Turn) mayCall(ctx context.Context, cfg *Config, tool string) (policy.Authority, error) {
	now := t.spawn.Rights(ctx, &cfg.Rules)
	if slices.Contains(now.Tools, tool) {
		return now, nil
	}
	v, kept := cfg.Rules.Withheld(t.Session.Root, now.Role, t.Senders(), tool)
	if kept { // also where someone has spoken since the turn began
		return now, withheldError(v)
	}
	return now, cfg.removedError(t.Session.Key, &now, tool, func() (policy.ToolVerdict, bool) {
		return t.spawn.RemovedAbove(ctx, &cfg.Rules, tool)
	})
}

// removedError says why a tool is not among what is left to a session. Where its own rules leave it
// the tool, above says which one of a session above it does not; nil: there is none above.
func (c *Config) removedError(
	key session.Key, now *policy.Authority, tool string, above func() (policy.ToolVerdict, bool),
) error {
	refusal := &policy.Refusal{
		Op: "tool call", Rule: policy.RuleTools, Asked: tool, Limit: strings.Join(now.Tools, ", "),
		Path: "what is left to " + key.String(),
	}
	subject := policy.Subject{
		Key: key, Agent: now.Agent, Role: now.Role, Model: now.Model, Sandboxed: now.Sandboxed,
	}
	for _, v := range c.Rules.ExplainTools(subject, []string{tool}) {
		if !v.Allowed { // else it was removed by the grant, or from a session above
			refusal.Removed = append(refusal.Removed, v)
		}
	}
	if len(refusal.Removed) == 0 && above != nil {
		if v, ok := above(); ok {
			refusal.Removed = append(refusal.Removed, v)
		}
	}
	return inOurWords(refusal)
}

// offerTools sets the Tools to what is left to the session under a Config.
func (t *Turn) offerTools(ctx context.Context, cfg *Config) {
	now := t.spawn.Rights(ctx, &cfg.Rules)
	t.offered = offer{rules: &cfg.Rules, now: now.Tools, tools: t.rt.toolsOf(t, cfg, &now)}
	t.Tools = offered(t.offered.tools)
}

// isAsOffered reports whether a Runner has left a tool of a turn as it was offered. Functions
// cannot be compared: one that the Runner has put around that of the tool has other code.
func isAsOffered(has *Tool, was *ownTool) bool {
	return has.Name == was.given.Name && has.Description == was.given.Description &&
		has.Effect == was.given.Effect && bytes.Equal(has.Schema, was.given.Schema) &&
		reflect.ValueOf(has.Call).Pointer() == reflect.ValueOf(was.show).Pointer()
}

// checkNames returns an *InputError for two tools of one name: a model could not say which it
// means.
func checkNames(tools []Tool) error {
	for i := range tools {
		for first := range i {
			if tools[first].Name == tools[i].Name {
				return &InputError{Field: "Turn.Tools", Reason: fmt.Sprintf(
					"Tools[%d] and Tools[%d] have the same name, %s", first, i, text.Quote(tools[i].Name))}
			}
		}
	}
	return nil
}

// An offer is what of the Tools of a turn Offshoot has put there, and by which rules.
type offer struct {
	rules *policy.Rules
	now   []string  // the names of all that was left
	tools []ownTool // as they were offered: a Runner may change those of the Turn
}

// renewTools has the Tools be those of the rules of now. What the Runner has put there stays, and
// what it has taken out does not come back.
func (t *Turn) renewTools(ctx context.Context) {
	cfg := t.rt.cfg()
	if t.offered.rules == &cfg.Rules || t.Announces {
		return
	}
	named := func(has Tool, was ownTool) bool { return has.Name == was.given.Name }
	if slices.EqualFunc(t.Tools, t.offered.tools, named) {
		had, was := t.Tools, t.offered.tools
		t.offerTools(ctx, cfg)
		for i, tool := range t.Tools {
			at := slices.IndexFunc(was, func(o ownTool) bool { return o.given.Name == tool.Name })
			if at >= 0 && !isAsOffered(&had[at], &was[at]) {
				t.Tools[i] = had[at]
			}
		}
		return
	}
	now := t.spawn.Rights(ctx, &cfg.Rules)
	t.Tools = slices.DeleteFunc(slices.Clone(t.Tools), func(tool Tool) bool {
		return slices.Contains(t.offered.now, tool.Name) && !slices.Contains(now.Tools, tool.Name)
	})
}

// withheldError says why a tool is kept from a turn.
func withheldError(v policy.ToolVerdict) error {
	return inOurWords(&policy.Refusal{
		Op: "tool call", Rule: policy.RuleSender, Asked: v.Tool,
		Limit: "what everyone may use for whom it works", Removed: []policy.ToolVerdict{v},
	})
}
