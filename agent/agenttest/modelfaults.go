package agenttest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/offshoot-sdk/offshoot/agent"
)

func checkModelRate(p *modelProbe) {
	for _, after := range []time.Duration{7 * time.Second, 0} {
		err := p.failure(ProviderAnswer{Fault: FaultRate, After: after, Message: "Slow down."})
		limited, ok := errors.AsType[agent.RateLimited](err)
		if !ok {
			p.fail("it is %v", err)
		}
		if max(limited.After, 0) != after {
			p.fail("After is %v, want %v", limited.After, after)
		}
	}
}

// checkModelFaults checks faults that are worth another try.
func checkModelFaults(p *modelProbe, faults ...ProviderFault) {
	for _, fault := range faults {
		err := p.failure(ProviderAnswer{
			Fault: fault, Text: kitPieces, Calls: kitCalls[:1], Message: "Try again.",
		})
		if !agent.IsRetryable(err) {
			p.fail("at the fault %q it is not: %v", fault, err)
		}
		// A fault costs its call and no other one.
		p.Provider.Answer(ProviderAnswer{Text: kitPieces})
		p.answer(p.request(userSays("Hello.")))
	}
}

// checkModelSentinel checks a fault that no other try mends.
func checkModelSentinel(p *modelProbe, fault ProviderFault, want error) {
	err := p.failure(ProviderAnswer{Fault: fault, Message: "Not this way."})
	if !errors.Is(err, want) || agent.IsRetryable(err) {
		p.fail("it is %v, retryable: %v", err, agent.IsRetryable(err))
	}
}

func checkModelRequest(p *modelProbe) {
	const words = "messages.3 is not what it should be"
	err := p.failure(ProviderAnswer{Fault: FaultRequest, Message: words})
	if !strings.Contains(err.Error(), words) {
		p.fail("it is %q, and the provider said %q", err, words)
	}
	if agent.IsRetryable(err) || errors.Is(err, agent.ErrTooLong) ||
		errors.Is(err, agent.ErrAccount) {
		p.fail("it is more than that: %v", err)
	}
}

func checkModelRefusal(p *modelProbe) {
	const words = "I cannot help with that."
	p.Provider.Answer(ProviderAnswer{Refusal: words})
	if got := p.answer(p.request(userSays("Hello."))); got.text() != words {
		p.fail("it returned %q, and the model said %q", got.text(), words)
	}
}

func checkModelLength(p *modelProbe) {
	p.Provider.Answer(ProviderAnswer{Fault: FaultLength, Text: kitPieces})
	want := strings.Join(kitPieces, "")
	if got := p.answer(p.request(userSays("Hello."))); got.text() != want {
		p.fail("it returned %q, and the model said %q", got.text(), want)
	}
}

var errKitCancel = errors.New("agenttest: the call is cancelled")

func checkModelCancel(p *modelProbe) {
	p.Provider.Answer(ProviderAnswer{Fault: FaultHang, Text: kitPieces})
	ctx, cancel := context.WithCancelCause(p.t.Context())
	defer cancel(nil)
	go func() {
		p.wait(func() bool { return len(p.Provider.Calls()) == 1 })
		cancel(errKitCancel)
	}()
	o := p.generate(ctx, p.request(userSays("Hello.")))
	if o.err == nil {
		p.fail("it returned no error, and its context had ended")
	}
	if agent.IsRetryable(o.err) {
		p.fail("its error is retryable: %v", o.err)
	}
	if !p.wait(func() bool { return p.Provider.underWay() == 0 }) {
		p.fail("the provider goes on")
	}
}

func checkModelStop(p *modelProbe) {
	p.Provider.Answer(ProviderAnswer{Fault: FaultHang, Text: kitPieces})
	o := p.generateUntil(p.t.Context(), p.request(userSays("Hello.")),
		func(text string) bool { return text == "" })
	if o.err != nil || o.resp != nil || len(o.shown) == 0 {
		p.fail("it yielded %q, the response %v and the error %v", o.shown, o.resp, o.err)
	}
	if !p.wait(func() bool { return p.Provider.underWay() == 0 }) {
		p.fail("the provider goes on")
	}
}

func checkModelOnce(p *modelProbe) {
	for i, fault := range []ProviderFault{FaultNone, FaultServer, FaultRate, FaultCut} {
		p.Provider.Answer(ProviderAnswer{Fault: fault, Text: kitPieces})
		p.generate(p.t.Context(), p.request(userSays("Hello.")))
		if got := len(p.Provider.Calls()); got != i+1 {
			p.fail("at the fault %q the provider was called %d times", fault, got-i)
		}
	}
}

func checkModelApart(p *modelProbe) {
	p.Provider.Play = func(c ProviderCall) ProviderAnswer {
		name := c.Messages[len(c.Messages)-1].Text
		return ProviderAnswer{
			Text: []string{"For ", name}, Calls: []agent.ToolCall{toolCall("c", "now", `"`+name+`"`)},
		}
	}
	var all sync.WaitGroup
	wrong := make(chan string, 20)
	for i := range cap(wrong) {
		all.Go(func() {
			name := fmt.Sprintf("Number %d.", i)
			ctx, cancel := context.WithTimeout(p.t.Context(), p.o.Patience)
			defer cancel()
			o := callAsLoop(ctx, p.Model, p.request(userSays(name)),
				func(string) bool { return true })
			if o.err != nil || o.text() != "For "+name || len(o.resp.ToolCalls) != 1 ||
				string(o.resp.ToolCalls[0].Args) != `"`+name+`"` {
				wrong <- fmt.Sprintf("%q got %q and the error %v", name, o.text(), o.err)
			}
		})
	}
	all.Wait()
	select {
	case what := <-wrong:
		p.fail("%s", what)
	default:
	}
}

func checkModelKeeps(p *modelProbe) {
	build := func() *agent.ModelRequest {
		said := modelSays("I look.", slices.Clone(kitCalls[:2])...)
		said.Raw = json.RawMessage(`{"another":1}`)
		req := p.request(userSays("Hello."), said, toolSays("call_a", "Sun."),
			toolSays("call_b", "Rain."))
		req.Schema = json.RawMessage(kitSchema)
		req.Thinking = "low"
		return req
	}
	req := build()
	p.Provider.Answer(ProviderAnswer{Text: kitPieces})
	p.answer(req)
	want := build()
	if !reflect.DeepEqual(req.Messages, want.Messages) ||
		!bytes.Equal(req.Schema, want.Schema) || req.Thinking != want.Thinking ||
		req.Model != want.Model {
		p.fail("it is %+v, and was %+v", req, want)
	}
}

func checkModelSecret(p *modelProbe) {
	if p.Provider.Key == "" {
		p.t.Skip("agenttest: the Provider has no Key")
	}
	// A server may repeat the key, and all headers of a request.
	echo := fmt.Sprintf("No, with the key %[1]s, and the header Bearer %[1]s.", p.Provider.Key)
	for _, fault := range []ProviderFault{
		FaultServer, FaultRate, FaultCut, FaultRequest, FaultTooLong, FaultAccount,
		FaultOverload, FaultStream,
	} {
		err := p.failure(ProviderAnswer{Fault: fault, Text: kitPieces, Message: echo})
		if text := fmt.Sprintf("%v %+v", err, err); strings.Contains(text, p.Provider.Key) {
			p.fail("at the fault %q it is %q", fault, text)
		}
	}
}

func checkModelGoroutines(p *modelProbe) {
	const calls = 20
	label := newLabel()
	pprof.Do(p.t.Context(), labelsOf(label), func(ctx context.Context) {
		for range calls {
			p.cancelledCall(ctx)
		}
	})
	if !p.wait(func() bool { return countLabelled(label) < calls/2 }) {
		p.fail("after %d calls there are %d more", calls, countLabelled(label))
	}
}

// cancelledCall makes a call whose ctx ends while the provider hangs.
func (p *modelProbe) cancelledCall(ctx context.Context) {
	p.Provider.Answer(ProviderAnswer{Fault: FaultHang, Text: kitPieces})
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		p.wait(func() bool { return p.Provider.underWay() > 0 })
		cancel()
	}()
	p.generate(ctx, p.request(userSays("Hello.")))
	cancel()
	if !p.wait(func() bool { return p.Provider.underWay() == 0 }) {
		p.fail("the provider goes on")
	}
}

func checkModelBytes(p *modelProbe) {
	p.Provider.Answer(ProviderAnswer{
		Spoiled: true, Thought: "Let \uFFFD me think.", Text: []string{"It is gr", "\uFFFDn."},
		Calls: []agent.ToolCall{toolCall("call_a", "weather", `{"city":"K\uFFFDln"}`)},
	})
	got := p.answer(p.request(userSays("Hello.")))
	if len(got.resp.ToolCalls) != 1 {
		p.fail("it returned the calls %s", showCalls(got.resp.ToolCalls))
	}
	args := got.resp.ToolCalls[0].Args
	texts := map[string]string{
		"text": got.text(), "arguments": string(args), "Raw": string(got.resp.Raw),
	}
	for i, text := range got.shown {
		texts[fmt.Sprintf("chunk %d", i)] = text
	}
	for what, text := range texts {
		if !utf8.ValidString(text) {
			p.fail("the %s of the answer is %q", what, text)
		}
	}
	if text := strings.ReplaceAll(got.text(), "\uFFFD", ""); text != "It is grn." {
		p.fail("it returned %q, and one byte of that was not UTF-8", got.text())
	}
	said := modelSays(got.text(), got.resp.ToolCalls...)
	said.Raw = got.resp.Raw
	// A Model that let such bytes pass may have written the transcript.
	old := modelSays(string(spoiled([]byte(got.text()))),
		toolCall("call_a", "weather", string(spoiled(args))))
	old.Raw = spoiled(got.resp.Raw)
	for _, said := range []agent.Message{said, old} {
		p.Provider.Answer(ProviderAnswer{Text: kitPieces})
		p.answer(p.request(userSays("Hello."), said, toolSays("call_a", "Sun \xff.")))
		if body := p.asked().Body; !utf8.Valid(body) {
			p.fail("the provider got %q", body)
		}
	}
}
