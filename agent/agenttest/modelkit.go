package agenttest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/offshoot-sdk/offshoot/agent"
	agentctx "github.com/offshoot-sdk/offshoot/context"
	"github.com/offshoot-sdk/offshoot/session"
)

// ModelOptions say what a Model promises beyond the rules of every Model, and how long [TestModel]
// waits for it. The zero ModelOptions promise nothing more.
type ModelOptions struct {
	Stream       bool // it is an agent.StreamModel
	Thinking     bool // it tells the provider the thinking level
	Thoughts     bool // the Raw of an answer has what the model thought before its calls
	Schema       bool // it tells the provider the schema of a typed answer
	Cache        bool // Usage has what the provider read from its cache
	CacheWrite   bool // Usage has what the provider wrote into its cache
	Pictures     bool // it sends pictures of people
	ToolPictures bool // it sends pictures of tools
	Internal     bool // it tells the provider which messages are Internal

	// Name is a model as a Config names it, "provider/model". Empty: "test/model-1".
	Name string
	// Patience is how long a rule waits for a call to end. Zero: 10 seconds.
	Patience time.Duration
}

// A ModelUnderTest is what [TestModel] tries a rule with.
type ModelUnderTest struct {
	Model agent.Model
	// Provider is what the Model calls. A Key that is set is a secret that no error may have.
	Provider *Provider
	// Close ends what the test has opened for them, such as a server; nil: nothing. It is called
	// when the Model has returned from all calls.
	Close func()
}

// TestModel checks that a Model keeps to its contract, before a fake of the provider that it calls.
// Each rule is a subtest with a number, and a failure quotes the rule: see modelRules. What is not
// promised is skipped.
//
// It calls fresh once for each rule. The Provider of what fresh returns stands behind a server in
// the form of the real one: a [ProviderDialect]. A request that the dialect refuses fails the rule.
//
// Time is that of the machine. A call that does not end fails the rule after ModelOptions.Patience,
// and is left behind.
func TestModel(t *testing.T, fresh func(t testing.TB) ModelUnderTest, o ModelOptions) {
	t.Helper()
	if fresh == nil {
		t.Fatalf("agenttest: TestModel: fresh is nil: it is to return what is tested")
	}
	for i, rule := range modelRules {
		t.Run(fmt.Sprintf("%02d_%s", i+1, strings.ReplaceAll(rule.name, " ", "_")),
			func(t *testing.T) {
				if rule.promised != nil && !rule.promised(&o) {
					t.Skip("agenttest: it is not promised: " + rule.sentence)
				}
				rule.try(t, i+1, fresh, o)
			})
	}
}

// A modelRule is one promise of a Model.
type modelRule struct {
	name     string
	sentence string
	promised func(o *ModelOptions) bool // nil: by every Model
	check    func(p *modelProbe)
}

// try runs the rule, which is the n-th.
func (r *modelRule) try(
	t testing.TB, n int, fresh func(t testing.TB) ModelUnderTest, o ModelOptions,
) {
	t.Helper()
	if o.Name == "" {
		o.Name = "test/model-1"
	}
	if o.Patience <= 0 {
		o.Patience = 10 * time.Second
	}
	p := &modelProbe{
		t: t, rule: fmt.Sprintf("rule %d is broken: %s", n, r.sentence), o: o,
		ModelUnderTest: fresh(t),
	}
	if p.Model == nil || p.Provider == nil {
		p.fail("the Model or the Provider is nil")
	}
	if p.Close != nil {
		defer p.Close()
	}
	r.check(p)
	if err := p.Provider.Err(); err != nil {
		p.fail("a call is not one that the provider takes: %v", err)
	}
}

// A modelProbe is one run of one rule.
type modelProbe struct {
	ModelUnderTest

	t    testing.TB
	rule string
	o    ModelOptions
}

// fail ends the rule.
func (p *modelProbe) fail(format string, args ...any) {
	p.t.Helper()
	p.t.Fatalf("agenttest: %s\n\t%s", p.rule, fmt.Sprintf(format, args...))
}

// request returns a call with a conversation.
func (p *modelProbe) request(messages ...agent.Message) *agent.ModelRequest {
	key := session.Must(session.DirectKey("main", "agenttest", "1"))
	return &agent.ModelRequest{
		Model:    p.o.Name,
		Prompt:   agentctx.Assemble(agentctx.Input{Session: key}),
		Messages: messages, New: min(len(messages), 1),
		Session: session.Lineage{Key: key, Root: key},
	}
}

// userSays and modelSays are messages of a conversation.
func userSays(text string) agent.Message {
	return agent.Message{Role: session.MessageUser, Text: text}
}

func modelSays(text string, calls ...agent.ToolCall) agent.Message {
	return agent.Message{Role: session.MessageAssistant, Text: text, ToolCalls: calls}
}

// toolSays is the result of a call.
func toolSays(id, text string) agent.Message {
	return agent.Message{Role: session.MessageTool, ToolCallID: id, Text: text}
}

// toolCall is a call of a tool.
func toolCall(id, name, args string) agent.ToolCall {
	return agent.ToolCall{ID: id, Name: name, Args: json.RawMessage(args)}
}

// kitTool returns a tool that is not called.
func kitTool(name, description, schema string) agent.Tool {
	return agent.Tool{
		Name: name, Description: description, Schema: json.RawMessage(schema),
		Call: func(context.Context, agent.ToolCall) (agent.ToolResult, error) {
			return agent.ToolResult{}, errors.New("agenttest: a tool of the kit is not called")
		},
	}
}

// A modelOutcome is what a call came to.
type modelOutcome struct {
	resp   *agent.ModelResponse
	err    error
	shown  []string // the texts of the chunks
	beyond int      // what was yielded behind the end
}

// text returns the text of the answer, as a Loop takes it.
func (o *modelOutcome) text() string {
	if o.resp == nil {
		return ""
	}
	if o.resp.Text == "" {
		return strings.Join(o.shown, "")
	}
	return o.resp.Text
}

// generate makes a call as a Loop does. It does not wait for longer than the Patience.
func (p *modelProbe) generate(ctx context.Context, req *agent.ModelRequest) modelOutcome {
	p.t.Helper()
	return p.generateUntil(ctx, req, func(string) bool { return true })
}

// generateUntil is generate. A stream is told to end by a more that returns false.
func (p *modelProbe) generateUntil(
	ctx context.Context, req *agent.ModelRequest, more func(text string) bool,
) modelOutcome {
	p.t.Helper()
	ended := make(chan modelOutcome, 1)
	go func() { ended <- callAsLoop(ctx, p.Model, req, more) }()
	late := time.NewTimer(p.o.Patience)
	defer late.Stop()
	select {
	case o := <-ended:
		return o
	case <-late.C:
		p.fail("the call has not ended after %v", p.o.Patience)
		return modelOutcome{}
	}
}

// callAsLoop calls the model as a Loop does.
func callAsLoop(
	ctx context.Context, m agent.Model, req *agent.ModelRequest, more func(text string) bool,
) (o modelOutcome) {
	streaming, ok := m.(agent.StreamModel)
	if !ok {
		o.resp, o.err = m.Generate(ctx, req)
		return o
	}
	over := false
	for chunk, err := range streaming.Stream(ctx, req) {
		if over {
			o.beyond++
			continue
		}
		o.err = err
		if chunk.Text != "" && err == nil {
			o.shown = append(o.shown, chunk.Text)
		}
		o.resp = chunk.Response
		over = err != nil || o.resp != nil
		if !over && !more(chunk.Text) {
			return o
		}
	}
	return o
}

// answer is generate for a call that must end well.
func (p *modelProbe) answer(req *agent.ModelRequest) modelOutcome {
	p.t.Helper()
	o := p.generate(p.t.Context(), req)
	if o.err != nil {
		p.fail("the call failed: %v", o.err)
	}
	if o.resp == nil {
		p.fail("the call returned neither a response nor an error")
	}
	return o
}

// failure is generate for a call that must fail.
func (p *modelProbe) failure(a ProviderAnswer) error {
	p.t.Helper()
	p.Provider.Answer(a)
	o := p.generate(p.t.Context(), p.request(userSays("Hello.")))
	if o.err == nil {
		p.fail("the call did not fail: it returned %q", o.text())
	}
	if o.resp != nil {
		p.fail("a call that failed returned a response beside its error")
	}
	return o.err
}

// asked returns what the Provider was asked, which must be one call.
func (p *modelProbe) asked() ProviderCall {
	p.t.Helper()
	calls := p.Provider.Calls()
	if len(calls) == 0 {
		p.fail("the provider was not called, or did not understand it: %v", p.Provider.Err())
	}
	return calls[len(calls)-1]
}

// withFiles makes a call of a Loop in a session that has a picture, so that the request has the
// bytes of it. It calls change with the request and the picture as a message has it.
func (p *modelProbe) withFiles(
	picture agent.Part, change func(req *agent.ModelRequest, stored agent.Part),
) {
	p.t.Helper()
	var o modelOutcome
	ctx, cancel := context.WithTimeout(p.t.Context(), p.o.Patience)
	defer cancel()
	called := agent.ModelFunc(
		func(ctx context.Context, req *agent.ModelRequest) (*agent.ModelResponse, error) {
			last := req.Messages[len(req.Messages)-1]
			if len(last.Parts) == 0 {
				return nil, errors.New("agenttest: the message has lost its picture")
			}
			own := *req
			own.Model, own.Tools = p.o.Name, nil
			change(&own, last.Parts[0])
			o = callAsLoop(ctx, p.Model, &own, func(string) bool { return true })
			return &agent.ModelResponse{Text: "Done."}, nil
		})
	rt, err := agent.Open(ctx, agent.Config{
		Runner: &agent.Loop{Model: called}, Logger: slog.New(slog.DiscardHandler),
		Reply: func(context.Context, agent.Delivery) error { return nil },
	})
	if err != nil {
		p.fail("opening the Runtime: %v", err)
	}
	running, stop := context.WithCancel(ctx)
	ran := make(chan struct{})
	go func() {
		defer close(ran)
		_ = rt.Run(running)
	}()
	chat := rt.Session(session.Must(session.DirectKey("main", "agenttest", "1")))
	_, err = chat.Post(ctx, agent.Incoming{Text: "Look.", Parts: []agent.Part{picture}})
	if err == nil {
		err = chat.Idle(ctx)
	}
	stop()
	<-ran
	switch {
	case err != nil:
		p.fail("the turn with the picture: %v", err)
	case o.err != nil:
		p.fail("the call failed: %v", o.err)
	case o.resp == nil:
		p.fail("the call returned neither a response nor an error")
	}
}

// wait waits until something holds, and reports whether it does within the Patience.
func (p *modelProbe) wait(holds func() bool) bool {
	late := time.NewTimer(p.o.Patience)
	defer late.Stop()
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		if holds() {
			return true
		}
		next := time.NewTimer(pause)
		select {
		case <-next.C:
		case <-late.C:
			next.Stop()
			return holds()
		}
	}
}
