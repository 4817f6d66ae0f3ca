package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/offshoot-sdk/offshoot/internal/text"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// DefaultSteps is how many model calls a Loop makes in one turn at most, unless it says otherwise.
const DefaultSteps = 50

// A Loop is the Runner of a bot that has only a model client. It calls the model and the tools
// until the model is done. Messages that arrive meanwhile are read before the next call. A budget
// that is exhausted ends the turn with the text that there is. A response without text and tool
// calls ends the turn with nothing to say: it is logged, and the Error of the turn's event says so.
type Loop struct {
	Model    Model
	MaxSteps int // model calls in one turn, from 1; 0: DefaultSteps
	// Retries is how often a call is made again that has failed with an error that is
	// [IsRetryable], 100 at most. 0: [DefaultRetries]; negative: never. Before a further try the
	// Loop waits up to a second, and twice as long with each, up to 30 seconds; after a
	// [RateLimited] as long as that says, see [Turn.Limited]. The end of the turn ends the wait.
	// After the last try the turn fails with the error. What a failed try has streamed stays with
	// those who watch: an EventDelta with an Error tells them that it does not count. The
	// transcript has nothing of it.
	Retries int
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
		done, err := l.step(ctx, t, step, &res)
		if err != nil || done {
			return res, err
		}
	}
	return res, fmt.Errorf("%w after %s", ErrSteps, text.Count(steps, "step", "steps"))
}

// step makes one call of the model and the calls of tools that it asks for, and folds what was said
// into res. It reports whether the turn is done.
func (l *Loop) step(ctx context.Context, t *Turn, step int, res *Result) (done bool, err error) {
	if _, err := t.Inbox(ctx); err != nil {
		return false, err
	}
	resp, err := l.callModel(ctx, t)
	if err != nil {
		return false, err
	}
	used, spent := resp.used, resp.spent
	if resp.Model != "" {
		res.Model = resp.Model
	}
	asked := len(resp.ToolCalls)
	said := t.rt.cfg.Limits.answerOf(resp.ModelResponse)
	said.Usage = recordable(used)
	if said.Parts, _, err = t.keepParts(ctx, "the model", resp.Parts); err != nil {
		return false, err
	}
	lines, err := t.record(ctx, said)
	if err != nil {
		return false, err
	}
	if resp.Text != "" {
		res.Text = resp.Text
	}
	if len(resp.ToolCalls) == 0 {
		if res.Text = resp.Text; text.IsBlank(resp.Text) && len(said.Parts) == 0 {
			t.noteEmpty(ctx)
		}
		return true, nil // a budget that this very call exhausted takes nothing back
	}
	if spent != nil {
		return false, spent
	}
	calls := said.ToolCalls
	if n := len(lines); n > 0 { // the ids are those of the transcript
		calls = withIDs(calls, lines[n-1].ToolCalls)
	}
	err = l.callTools(ctx, t, step, calls, asked)
	return t.hasYielded(), err
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
