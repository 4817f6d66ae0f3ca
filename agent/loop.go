package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/offshoot-sdk/offshoot/announce"
	"github.com/offshoot-sdk/offshoot/internal/text"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// DefaultSteps is how many model calls a Loop makes in one turn at most, unless it says otherwise.
const DefaultSteps = 50

// announceSteps are the model calls of an announce step at most. Every tool is refused in it, so
// that more of them would say the same again.
const announceSteps = 3

// A Loop is the Runner of a bot that has only a model client. It calls the model and the tools
// until the model is done. Messages that arrive meanwhile are read before the next call. A budget
// that is exhausted ends the turn with the text that there is. So does the end of ctx, and in the
// middle of a stream that is what had come of the answer.
//
// An answer in which nothing is visible, without tool calls and Parts, is asked for once more; so
// is one that only thinks. A second one in a row fails the turn with [ErrEmptyAnswer]. An answer
// that chooses silence is not empty, and neither is one behind a [Turn.Say]: the turn has answered.
//
// A Loop that a shutdown cancels before the model has answered returns [ErrUntouched].
type Loop struct {
	Model    Model // a [StreamModel] streams its answers
	MaxSteps int   // model calls in one turn, from 1; 0: DefaultSteps
	// Parallel is how many calls of Concurrent tools run at once, from 1, which means one after the
	// other; 0: [DefaultParallel]. Whatever it is, results stand in the transcript in the order of
	// the calls, each as soon as all before it are there.
	Parallel int
	// Retries is how often a call is made again that has failed with an error that is
	// [IsRetryable], 100 at most. 0: [DefaultRetries]; negative: never. Before a further try the
	// Loop waits up to a second, and twice as long with each, up to 30 seconds; after a
	// [RateLimited] as long as that says, see [Turn.Limited]. The end of the turn ends the wait.
	// After the last try the turn fails with the error. What a failed try has streamed stays with
	// those who watch: an EventDelta with an Error tells them that it does not count. The
	// transcript has nothing of it.
	Retries int
}

// DefaultParallel is how many calls of Concurrent tools a Loop makes at once, unless it says
// otherwise.
const DefaultParallel = 8

// Errors of a Loop.
var (
	// ErrSteps is returned by a Loop whose model has not come to an end after the steps that it may
	// take.
	ErrSteps = errors.New("agent: the model did not come to an end")
	// ErrEmptyAnswer is returned by a Loop whose model answered with nothing, and did so again when
	// it was asked once more.
	ErrEmptyAnswer = errors.New(
		"agent: the model returned an empty response, without text and tool calls, twice in a row")
	// ErrNoResponse is returned by a Loop whose model returned neither a response nor an error, or
	// whose stream ended before there was a response.
	ErrNoResponse = errors.New("agent: the model returned neither a response nor an error")
)

// loopTurn is how far a Loop is with a turn.
type loopTurn struct {
	*Turn

	res   Result
	place int  // how many answers had tool calls
	again bool // the last answer was empty, and was asked for once more
}

// Run implements Runner.
func (l *Loop) Run(ctx context.Context, t *Turn) (res Result, err error) {
	if !l.hasModel() {
		return res, &spawn.InputError{Field: "Loop.Model", Reason: "it is missing"}
	}
	steps := cmp.Or(l.MaxSteps, DefaultSteps)
	for _, f := range [...]struct {
		name  string
		value int
	}{{"MaxSteps", steps}, {"Parallel", l.Parallel}} {
		if f.value < 0 {
			return res, &spawn.InputError{
				Field: "Loop." + f.name, Reason: fmt.Sprintf("%d is negative", f.value),
			}
		}
	}
	if t.Announces {
		steps = min(steps, announceSteps)
	}
	turn := &loopTurn{Turn: t}
	for range steps {
		done, err := l.step(ctx, turn)
		if err != nil && errors.Is(context.Cause(ctx), ErrShutdown) && !t.worked.Load() {
			err = fmt.Errorf("%w: %w", ErrUntouched, err)
		}
		if err != nil || done {
			return turn.res, err
		}
	}
	if turn.again {
		return turn.res, ErrEmptyAnswer
	}
	return turn.res, fmt.Errorf("%w after %s", ErrSteps, text.Count(steps, "step", "steps"))
}

// hasModel reports whether there is a Model. A ModelFunc that is nil is none.
func (l *Loop) hasModel() bool {
	f, isFunc := l.Model.(ModelFunc)
	return l.Model != nil && (!isFunc || f != nil)
}

// step makes one call of the model and the calls of tools that it asks for, and folds what was said
// into the result. It reports whether the turn is done.
func (l *Loop) step(ctx context.Context, t *loopTurn) (done bool, err error) {
	if _, err := t.Inbox(ctx); err != nil {
		return false, err
	}
	resp, err := l.callModel(ctx, t.Turn)
	said := resp.ModelResponse
	if said != nil && said.Text != "" && (err == nil || ctx.Err() != nil) {
		t.res.Text = said.Text
	}
	if err != nil {
		return false, err
	}
	used, spent := resp.used, resp.spent
	if resp.Model != "" {
		t.res.Model = resp.Model
	}
	asked := len(resp.ToolCalls)
	answer := t.rt.cfg().Limits.answerOf(resp.ModelResponse)
	answer.Usage = recordable(used)
	if answer.Parts, _, err = t.keepParts(ctx, "the model", resp.Parts); err != nil {
		return false, err
	}
	lines, err := t.record(ctx, answer)
	if err != nil {
		return false, err
	}
	if asked == 0 {
		if isEmpty(answer) && !t.hasSaid() {
			return false, t.gotNothing(ctx, spent)
		}
		t.res.Text = resp.Text
		return true, nil // a budget that this very call exhausted takes nothing back
	}
	t.again = false
	if spent != nil {
		return false, spent
	}
	calls := answer.ToolCalls
	if n := len(lines); n > 0 { // the ids are those of the transcript
		calls = withIDs(calls, lines[n-1].ToolCalls)
	}
	err = l.callTools(ctx, t, calls, asked)
	t.place++
	return t.hasYielded(), err
}

// isEmpty reports whether an answer without tool calls says nothing, and has not chosen to.
func isEmpty(m Message) bool {
	return len(m.Parts) == 0 && announce.Decide(m.Text) == announce.DecisionDefer
}

// gotNothing asks for an empty answer once more, or returns why it does not. The budget of the turn
// is exhausted if spent is an error.
func (t *loopTurn) gotNothing(ctx context.Context, spent error) error {
	t.rt.log.WarnContext(ctx, "offshoot: the model returned an empty response",
		"session", t.Session.Key.String(), "turn", t.N, "model", t.Model)
	switch {
	case t.again:
		t.res.Text = ""
		return ErrEmptyAnswer
	case spent != nil:
		return spent
	}
	t.again = true
	err := t.write(ctx, Message{
		Role: session.MessageUser, Internal: true, Synthetic: true, Text: t.askAgainText(),
	})
	return err
}

// askAgainText is what a model is told whose answer was empty. The answer of a sub-agent is owed.
func (t *Turn) askAgainText() string {
	const again = "[Offshoot] Your last answer had neither a visible text nor a tool call. Answer now."
	if t.Run != "" {
		return again
	}
	return again + " If there is nothing to say, answer with exactly " + announce.NoReply +
		" and nothing else."
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

// callTools calls tools and records their answers. The model asked for so many calls.
func (l *Loop) callTools(ctx context.Context, t *loopTurn, calls []ToolCall, asked int) error {
	c := &toolCalls{
		turn: t.Turn, step: t.place, calls: calls, asked: asked,
		lock: make(chan struct{}, 1), ended: make([]*Message, len(calls)),
	}
	for from := 0; from < len(calls); {
		to := from + 1
		for t.isConcurrent(calls[from]) && to < len(calls) && t.isConcurrent(calls[to]) {
			to++
		}
		if err := c.run(ctx, from, to, cmp.Or(l.Parallel, DefaultParallel)); err != nil {
			return err
		}
		from = to
	}
	return nil
}

// isConcurrent reports whether a call may run beside others.
func (t *Turn) isConcurrent(c ToolCall) bool {
	i := slices.IndexFunc(t.Tools, func(tool Tool) bool { return tool.Name == c.Name })
	return i >= 0 && t.Tools[i].Concurrent
}

// toolCalls are the tool calls of one answer.
type toolCalls struct {
	turn  *Turn
	step  int // how many answers of the turn had calls before
	calls []ToolCall
	asked int // how many the model asked for

	// lock holds an item while a goroutine has what follows. A store may take its time meanwhile,
	// and in a bubble of package synctest time does not pass while a goroutine waits for a Mutex.
	lock     chan struct{}
	ended    []*Message // the results, by call; nil until it has ended
	recorded int        // how many of them, from the first on
}

// run makes the calls from one to another, some at once, and waits for all of them. If the turn is
// cancelled it keeps what they have come to.
func (c *toolCalls) run(ctx context.Context, from, to, parallel int) error {
	g, within := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	for i := from; i < to; i++ {
		g.Go(func() error {
			if within.Err() != nil {
				return context.Cause(within)
			}
			return c.end(within, i, c.call(within, i))
		})
	}
	err := g.Wait()
	if ctx.Err() != nil {
		c.keep(context.WithoutCancel(ctx))
		return context.Cause(ctx)
	}
	if err == nil && c.recorded < to { // by the only code of the caller's that is not contained
		err = newCallbackError("Logger", nil)
	}
	return err
}

// call makes the i-th call and returns its result.
func (c *toolCalls) call(ctx context.Context, i int) *Message {
	t, call := c.turn, c.calls[i]
	ctx = context.WithValue(ctx, placeKey{}, placeOf(c.step, i, c.calls))
	var out ToolResult
	// The Runner may have put tools of its own into Turn.Tools.
	err := protect(fmt.Sprintf("Tools[%q].Call", call.Name), func() (err error) {
		out, err = t.Call(ctx, call)
		return err
	})
	if broken, ok := errors.AsType[*CallbackError](err); ok {
		if _, told := errors.AsType[*toolError](err); !told {
			t.logToolPanic(call.Name, broken, broken.Stack)
			err = &toolError{call.Name, broken}
		}
	}
	answer := &Message{Role: session.MessageTool, ToolCallID: call.ID}
	if answer.Text, answer.Parts = out.Text, out.Parts; err != nil {
		answer.Text, answer.Failed = "error: "+err.Error(), true
	}
	if i == len(c.calls)-1 && c.asked > len(c.calls) {
		t.rt.log.Warn("offshoot: tool calls were left out", "session", t.Session.Key.String(),
			"turn", t.N, "asked", c.asked, "run", len(c.calls))
		limits := t.rt.cfg().Limits
		answer.Text = withNote(answer.Text, limits.tooManyCalls(c.asked), limits.ToolResult)
	}
	return answer
}

// end takes the result of the i-th call, and records those that have ended up to the first one that
// has not.
func (c *toolCalls) end(ctx context.Context, i int, result *Message) error {
	c.lock <- struct{}{}
	defer func() { <-c.lock }()
	c.ended[i] = result
	for c.recorded < len(c.ended) && c.ended[c.recorded] != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if _, err := c.turn.record(ctx, *c.ended[c.recorded]); err != nil {
			return err
		}
		c.recorded++
	}
	return nil
}

// keep records what calls have come to in a turn that is cancelled, up to the last that has
// succeeded. Those before it that have not are given a failed result. The end of the turn gives one
// to those behind it.
func (c *toolCalls) keep(ctx context.Context) {
	last := len(c.ended) - 1
	for last >= c.recorded && (c.ended[last] == nil || c.ended[last].Failed) {
		last--
	}
	for i := c.recorded; i <= last; i++ {
		var err error
		if done := c.ended[i]; done != nil && !done.Failed {
			_, err = c.turn.record(ctx, *done)
		} else if err = c.turn.enter(); err == nil {
			err = c.turn.write(ctx, noResult(c.calls[i].ID, time.Time{}))
			c.turn.gate.RUnlock()
		}
		if err != nil {
			return
		}
	}
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
