package agenttest

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/session"
)

// A Provider is a fake of a provider of models: it answers the calls of a Model as it was told, and
// keeps what it was asked. [Provider.Handler] is its service. The zero Provider is ready. Its
// methods may be called from several goroutines at once.
type Provider struct {
	// Key is what a call must authorise itself with. Empty: any key will do, also none.
	Key string
	// Play chooses the answer to a call for which [Provider.Answer] has left none. Nil: such a call
	// is a mistake of the test.
	Play func(ProviderCall) ProviderAnswer

	mu       sync.Mutex
	answers  []ProviderAnswer
	calls    []ProviderCall
	mistakes []error
	open     int
}

// A ProviderAnswer is what a Provider answers to a call. The zero ProviderAnswer is an answer
// without a text.
type ProviderAnswer struct {
	Thought string           // what the model thinks first; "": nothing
	Text    []string         // the pieces in which the text comes
	Calls   []agent.ToolCall // the calls of tools, behind the text
	Refusal string           // the words with which the model refuses to answer
	Usage   agent.Usage
	Model   string        // the one that ran; "": the one that was asked for
	Fault   ProviderFault // what goes wrong
	After   time.Duration // of a FaultRate: how long to wait, in whole seconds; 0: it is not said
	Message string        // what the provider says of the fault
	// Spoiled: each U+FFFD in what the provider says is sent as a byte that is not UTF-8.
	Spoiled bool
	// Cause is what is wrong with the request, of a FaultRequest that the Provider has made of one:
	// the answer may name a member of it. Nil: the test has chosen the fault.
	Cause error
}

// A ProviderFault is what goes wrong with a call.
type ProviderFault string

// The faults. FaultNone is the zero value.
const (
	FaultNone     ProviderFault = ""
	FaultRate     ProviderFault = "rate"     // the provider takes no calls for now
	FaultServer   ProviderFault = "server"   // its server has failed
	FaultOverload ProviderFault = "overload" // it has more to do than it can
	FaultTooLong  ProviderFault = "too long" // the conversation is longer than the model takes
	FaultAccount  ProviderFault = "account"  // the key is not valid
	FaultRequest  ProviderFault = "request"  // the request is not one that it understands
	FaultCut      ProviderFault = "cut"      // the connection breaks in the middle of the answer
	FaultEnd      ProviderFault = "end"      // the answer ends before it is complete, without an error
	FaultStream   ProviderFault = "stream"   // it reports in the middle of the answer that it failed
	FaultHang     ProviderFault = "hang"     // the answer stops coming, and the connection stays
	FaultLength   ProviderFault = "length"   // the answer is cut at the limit of its length
)

// A ProviderCall is what a Provider was asked, in words that all providers share.
type ProviderCall struct {
	Model    string // in the words of the provider
	Key      string // with which the call authorises itself
	Thinking string // the level, in the words of the provider; "": it is not said
	System   string // the prompt
	Messages []ProviderMessage
	Tools    []ProviderTool
	Schema   json.RawMessage // of a typed answer
	// Breakpoints are where the provider is asked to keep what it has read so far, in its words.
	Breakpoints []string
	Body        []byte // the whole request, as it came
}

// A ProviderMessage is one message of a call. The content blocks of a message that the provider
// keeps apart may be messages of their own.
type ProviderMessage struct {
	Role    session.MessageRole
	Name    string // by which the provider tells speakers apart
	Text    string
	Parts   []ProviderPart
	Calls   []agent.ToolCall
	CallID  string // of the call that the message is the result of
	Failed  bool   // the call has failed
	Thought string // what the model thought, which it gets back as it was
}

// A ProviderPart is a picture or another file of a message.
type ProviderPart struct {
	MediaType string
	Data      []byte
	URL       string // where the bytes are, in the place of Data
}

// A ProviderTool is a tool that a model may call.
type ProviderTool struct {
	Name, Description string
	Schema            json.RawMessage
}

// Answer has the Provider answer the next calls, in this order.
func (p *Provider) Answer(answers ...ProviderAnswer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answers = append(p.answers, answers...)
}

// Calls returns what the Provider was asked so far. A call that it did not understand is not there.
func (p *Provider) Calls() []ProviderCall {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.calls)
}

// Err returns what was wrong with the calls so far: those that the service of a provider would
// refuse, and those that the test has no answer for. Nil: nothing.
func (p *Provider) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return errors.Join(p.mistakes...)
}

// underWay returns how many calls have begun and not ended.
func (p *Provider) underWay() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.open
}

// count adds to the calls under way.
func (p *Provider) count(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open += n
}

// refuse notes a mistake of a call.
func (p *Provider) refuse(err error) ProviderAnswer {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mistakes = append(p.mistakes, err)
	return ProviderAnswer{Fault: FaultRequest, Message: err.Error(), Cause: err}
}

// take notes a call and returns the answer to it.
func (p *Provider) take(c ProviderCall) ProviderAnswer {
	if err := c.Check(); err != nil {
		return p.refuse(err)
	}
	p.mu.Lock()
	p.calls = append(p.calls, c)
	n, play := len(p.calls), p.Play
	if len(p.answers) > 0 {
		next := p.answers[0]
		p.answers = p.answers[1:]
		p.mu.Unlock()
		return next
	}
	p.mu.Unlock()
	if play != nil {
		return play(c)
	}
	return p.refuse(fmt.Errorf("agenttest: the Provider has no answer to call %d", n))
}

// Check returns what a provider would refuse in the conversation of the call: a call of a tool
// without a result right behind it, a result without a call that waits for it, calls of one answer
// without ids or with the same, or a message that is empty. Nil: nothing.
func (c *ProviderCall) Check() error {
	if c.Model == "" {
		return errors.New("agenttest: the call names no model")
	}
	if len(c.Messages) == 0 {
		return errors.New("agenttest: the call has no messages")
	}
	var waiting []string
	for i, m := range c.Messages {
		if err := m.check(&waiting); err != nil {
			return fmt.Errorf("agenttest: message %d of %d: %w", i+1, len(c.Messages), err)
		}
	}
	if len(waiting) > 0 {
		return fmt.Errorf("agenttest: the calls %q have no results", waiting)
	}
	return nil
}

// check returns what is wrong with one message behind calls that wait for their results.
func (m *ProviderMessage) check(waiting *[]string) error {
	if m.Role == session.MessageTool {
		i := slices.Index(*waiting, m.CallID)
		if i < 0 {
			return fmt.Errorf("it is the result of the call %q, and the calls %q wait for theirs",
				m.CallID, *waiting)
		}
		*waiting = slices.Delete(*waiting, i, i+1)
		return nil
	}
	if m.Role != session.MessageAssistant && len(*waiting) > 0 {
		return fmt.Errorf("the calls %q before it have no results", *waiting)
	}
	if m.Text == "" && len(m.Parts) == 0 && len(m.Calls) == 0 && m.Thought == "" {
		return errors.New("it is empty")
	}
	for _, call := range m.Calls {
		if call.ID == "" || slices.Contains(*waiting, call.ID) {
			return fmt.Errorf("the id %q of a call is empty, or that of another call", call.ID)
		}
		*waiting = append(*waiting, call.ID)
	}
	return nil
}
