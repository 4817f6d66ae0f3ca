package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	agentctx "github.com/offshoot-sdk/offshoot/context"
	"github.com/offshoot-sdk/offshoot/internal/text"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// A Model is one call to a language model. It may be called from several goroutines at once.
//
// If the process dies in the middle of a turn, the calls of that turn are made again by the next
// process: a top-level session has three attempts at what people have said. What a Model does
// beside answering may so be done three times.
type Model interface {
	Generate(ctx context.Context, req *ModelRequest) (*ModelResponse, error)
}

// A ModelRequest is one call.
type ModelRequest struct {
	Model    string // "provider/model"; empty: the model's own default
	Thinking string
	Prompt   agentctx.Prompt
	// Messages are the conversation, oldest first. Internal marks those that the library says: a
	// person can write a text that looks like one of them. A Model that can tells its provider of
	// the difference, for example by a name or a role that no message of a person gets.
	Messages []Message
	Tools    []Tool
	Schema   json.RawMessage // of the answer, if a typed one is wanted
	Session  session.Lineage // whose turn it is
	Run      spawn.RunID     // empty in a top-level session
	New      int             // how many of Messages, at the end, this turn has brought so far

	delta func(string)
	open  func(context.Context, session.File) (io.ReadCloser, error)
}

// Delta shows text as it comes to those who watch the session.
func (r *ModelRequest) Delta(text string) {
	if r.delta != nil {
		r.delta(text)
	}
}

// A ModelResponse is what came back: text, calls of tools, Parts, or several of them.
type ModelResponse struct {
	Text      string
	ToolCalls []ToolCall
	// Parts are what the model made beside its text, such as pictures. They are kept in the
	// transcript; what cannot be kept is left out, as of a ToolResult, and the log says so. A
	// person gets the text alone.
	Parts []Part
	// Usage is that of this call. The Loop spends it and records it with the line; a Cost that is
	// zero is what Models.Prices give.
	Usage Usage
	Model string          // the one that really ran
	Raw   json.RawMessage // the provider's own form, kept in the transcript; see [Limits]
}

// DefaultSteps is how many model calls a Loop makes in one turn at most, unless it says otherwise.
const DefaultSteps = 50

// A Loop is the Runner of a bot that has only a model client. It calls the model and the tools
// until the model is done. Messages that arrive meanwhile are read before the next call. A budget
// that is exhausted ends the turn with the text that there is. A response without text and tool
// calls ends the turn with nothing to say: it is logged, and the Error of the turn's event says so.
type Loop struct {
	Model    Model
	MaxSteps int // model calls in one turn, from 1; 0: DefaultSteps
}

// ErrSteps is returned by a Loop whose model has not come to an end after the steps it may take.
var ErrSteps = errors.New("agent: the model did not come to an end")

// Run implements Runner.
func (l *Loop) Run(ctx context.Context, t *Turn) (res Result, err error) {
	if l.Model == nil {
		return res, &spawn.InputError{Field: "Loop.Model", Reason: "it is missing"}
	}
	steps := cmp.Or(l.MaxSteps, DefaultSteps)
	if steps < 0 {
		return res, &spawn.InputError{
			Field: "Loop.MaxSteps", Reason: fmt.Sprintf("%d is negative", steps),
		}
	}
	for step := range steps {
		if _, err := t.Inbox(ctx); err != nil {
			return res, err
		}
		messages := t.log.since(t.Messages)
		before := t.entering(t.runner + ".Model")
		resp, err := l.Model.Generate(ctx, &ModelRequest{
			Model: t.Model, Thinking: t.Thinking, Prompt: t.Prompt, Messages: messages,
			Tools: t.Tools, Schema: t.Schema, Session: t.Session, Run: t.Run,
			New: len(messages) - len(t.Messages) + t.New, delta: t.Delta, open: t.OpenFile,
		})
		t.entering(before)
		if err != nil {
			return res, err
		}
		if resp == nil {
			return res, errors.New("agent: the model returned neither a response nor an error")
		}
		used := t.priced(resp.Model, resp.Usage)
		spent := t.SpendOn(ctx, resp.Model, used)
		if resp.Model != "" {
			res.Model = resp.Model
		}
		asked := len(resp.ToolCalls)
		said := t.rt.cfg.Limits.answerOf(resp)
		said.Usage = recordable(used)
		if said.Parts, _, err = t.keepParts(ctx, "the model", resp.Parts); err != nil {
			return res, err
		}
		lines, err := t.record(ctx, said)
		if err != nil {
			return res, err
		}
		if resp.Text != "" {
			res.Text = resp.Text
		}
		if len(resp.ToolCalls) == 0 {
			if res.Text = resp.Text; text.IsBlank(resp.Text) && len(said.Parts) == 0 {
				t.noteEmpty(ctx)
			}
			return res, nil // a budget that this very call exhausted takes nothing back
		}
		if spent != nil {
			return res, spent
		}
		calls := said.ToolCalls
		if n := len(lines); n > 0 { // the ids are those of the transcript
			calls = withIDs(calls, lines[n-1].ToolCalls)
		}
		if err = l.callTools(ctx, t, step, calls, asked); err != nil || t.hasYielded() {
			return res, err
		}
	}
	return res, fmt.Errorf("%w after %s", ErrSteps, text.Count(steps, "step", "steps"))
}

// answerOf returns the message that an answer of a model is. Of its tool calls it has the first as
// many as the Limits allow, and then not the provider's form, which has all of them.
func (l Limits) answerOf(resp *ModelResponse) Message {
	m := Message{
		Role: session.MessageAssistant, Text: resp.Text, ToolCalls: resp.ToolCalls,
		Model: resp.Model, Raw: resp.Raw,
	}
	if l.ToolCalls >= 0 && len(m.ToolCalls) > l.ToolCalls {
		m.ToolCalls, m.Raw = m.ToolCalls[:l.ToolCalls:l.ToolCalls], nil
	}
	return m
}

// withIDs returns calls with the ids of others, which are the same calls.
func withIDs(calls, others []ToolCall) []ToolCall {
	calls = slices.Clone(calls)
	for i := range calls {
		calls[i].ID = others[i].ID
	}
	return calls
}

// recordable returns u as a transcript can hold it. JSON has no cost that is not finite, and a turn
// does not fail for one.
func recordable(u Usage) Usage {
	if math.IsNaN(u.Cost) || math.IsInf(u.Cost, 0) {
		u.Cost = 0
	}
	return u
}

// callTools calls the tools one after the other and records their answers. The model asked for so
// many calls.
func (l *Loop) callTools(
	ctx context.Context, t *Turn, step int, calls []ToolCall, asked int,
) error {
	limits := t.rt.cfg.Limits
	for i, c := range calls {
		answer := Message{Role: session.MessageTool, ToolCallID: c.ID}
		out, err := t.Call(context.WithValue(ctx, placeKey{}, placeOf(step, i, calls)), c)
		if answer.Text, answer.Parts = out.Text, out.Parts; err != nil {
			answer.Text, answer.Failed = "error: "+err.Error(), true
		}
		if i == len(calls)-1 && asked > len(calls) {
			t.rt.log.Warn("offshoot: tool calls were left out", "session", t.Session.Key.String(),
				"turn", t.N, "asked", asked, "run", len(calls))
			note := limits.tooManyCalls(asked)
			answer.Text = withNote(answer.Text, note, limits.ToolResult)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if _, err := t.record(ctx, answer); err != nil {
			return err
		}
	}
	return nil
}

// withNote returns the answer of a tool with a note at its end, within a limit.
func withNote(answer, note string, limit int) string {
	if limit >= 0 {
		answer = text.Bound(answer, max(limit-len(note), 0))
	}
	return answer + note
}

// placeKey is the key under which the context of a tool call of a Loop holds where in the turn the
// call stands.
type placeKey struct{}

// placeOf returns where the i-th call of a response stands, for the spawn key of the call.
// Providers number the calls of each response anew, and a turn that is retried makes its calls in
// the same places. The place is empty for an id of the first response, which has the key of earlier
// versions.
func placeOf(step, i int, calls []ToolCall) string {
	twice := calls[i].ID == ""
	for _, c := range calls[:i] {
		twice = twice || c.ID == calls[i].ID
	}
	switch {
	case twice:
		return fmt.Sprintf(".%d.%d", step, i)
	case step > 0:
		return fmt.Sprintf(".%d", step)
	}
	return ""
}
