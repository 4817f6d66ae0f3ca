package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/offshoot-sdk/offshoot/agent/internal/window"
	agentctx "github.com/offshoot-sdk/offshoot/context"
	"github.com/offshoot-sdk/offshoot/internal/contain"
	"github.com/offshoot-sdk/offshoot/internal/sat"
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

// ModelFunc is a function that is a Model.
type ModelFunc func(ctx context.Context, req *ModelRequest) (*ModelResponse, error)

// Generate implements Model: it calls f.
func (f ModelFunc) Generate(ctx context.Context, req *ModelRequest) (*ModelResponse, error) {
	return f(ctx, req)
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
	Turn     int             // which turn of the session, from 1; 0: the call is outside of one
	New      int             // how many of Messages, at the end, this turn has brought so far

	delta func(string)
	open  func(context.Context, session.File) (io.ReadCloser, error)
	leave func(done <-chan struct{}) bool
}

// Input returns the text of what the turn has brought so far, as [Turn.Input] does.
func (r *ModelRequest) Input() string {
	return inputText(r.Session.Key, r.Messages[max(len(r.Messages)-r.New, 0):])
}

// Delta shows text as it comes to those who watch the session.
func (r *ModelRequest) Delta(text string) {
	if r.delta != nil {
		r.delta(text)
	}
}

// Leave says that code which the Model has called, such as an http.Client, has not returned
// although its context has ended, and that the call returns without it. Until done is closed, Stop
// and Shutdown name the session in a [StillRunningError], and only the hard phase of a shutdown
// waits for it. Leave returns false, and does nothing, for a request that is not of a turn, and
// once the Runtime has been shut down.
func (r *ModelRequest) Leave(done <-chan struct{}) bool {
	return r.leave != nil && r.leave(done)
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

// A StreamModel is a Model that can show its answer as it comes. A Loop whose Model has Stream
// calls it, and not Generate.
type StreamModel interface {
	Model
	// Stream makes the call and yields the answer piece by piece. The Loop shows the Text of each
	// chunk to those who watch the session, as [ModelRequest.Delta] does; Stream itself need not.
	// The last chunk has the Response, behind which the Loop takes nothing. A Response without a
	// Text gets the Texts of the chunks, up to the Limits.
	//
	// An error that is yielded is that of the call, with what was shown so far left as it is. A
	// stream that ends before a Response is [ErrNoResponse]. When ctx ends the stream should end
	// soon. It is called for one pass, in the goroutine of the Loop, and may not yield after yield
	// has returned false.
	Stream(ctx context.Context, req *ModelRequest) iter.Seq2[ModelChunk, error]
}

// A ModelChunk is a piece of the answer of a [StreamModel].
type ModelChunk struct {
	Text     string         // what has come since the chunk before
	Response *ModelResponse // the whole answer, with its Usage; nil: there is more to come
}

// generate calls the model, and shows its answer as it comes if the model can do that.
func (l *Loop) generate(
	ctx context.Context, t *Turn, req *ModelRequest,
) (resp *ModelResponse, err error) {
	streaming, ok := l.Model.(StreamModel)
	if ok {
		resp, err = readStream(ctx, req, streaming.Stream(ctx, req), t.rt.cfg().Limits.Reply)
	} else {
		resp, err = l.Model.Generate(ctx, req)
	}
	if err == nil && resp == nil {
		err = ErrNoResponse
	}
	return resp, contain.Read(err)
}

// readStream reads a stream until it has a response or an error, or ctx ends, and shows its text on
// the way. It keeps little more of the text than limit bytes; negative: all of it. A stream that
// goes on although it was told to end is not listened to. The response beside an error has the text
// so far.
func readStream(
	ctx context.Context, req *ModelRequest, stream iter.Seq2[ModelChunk, error], limit int,
) (resp *ModelResponse, err error) {
	if stream == nil {
		return nil, nil //nolint:nilnil // it is what such a stream is
	}
	var said strings.Builder
	over := false
	stream(func(chunk ModelChunk, failed error) bool {
		if over {
			return false
		}
		if err = failed; err == nil && ctx.Err() != nil && chunk.Response == nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			over = true
			return false
		}
		if chunk.Text != "" {
			req.Delta(chunk.Text)
			if limit < 0 || said.Len() <= limit {
				said.WriteString(chunk.Text)
			}
		}
		resp, over = chunk.Response, chunk.Response != nil
		return !over
	})
	over = true // a yield that the stream has kept is not listened to either
	if said.Len() == 0 || resp != nil && resp.Text != "" {
		return resp, err
	}
	var whole ModelResponse
	if resp != nil {
		whole = *resp
	}
	whole.Text = said.String()
	if resp == nil && err == nil {
		err = ErrNoResponse
	}
	return &whole, err
}

// Retryable marks an error of a [Model] or a tool as worth another try: the provider is overloaded,
// or the connection broke. The text stays, and errors.Is and errors.As see err. Nil stays nil.
func Retryable(err error) error {
	if err == nil {
		return nil
	}
	return &retryableError{err}
}

type retryableError struct{ err error }

func (e *retryableError) Error() string { return e.err.Error() }

// Unwrap returns the error that is marked.
func (e *retryableError) Unwrap() error { return e.err }

// What a [Model] says of an error that no other try mends, by wrapping one of these: people are
// told then what they can do.
var (
	// ErrTooLong says that the conversation is longer than the provider takes.
	ErrTooLong = errors.New("agent: the conversation is too long for the model")
	// ErrAccount says that the provider refuses the account: its key is not valid, it is not paid
	// for, or it may not use the model.
	ErrAccount = errors.New("agent: the provider refuses the account")
)

// RateLimited is the error of a [Model] whose provider takes no calls for now, as HTTP status 429
// says. It is worth another try, see [IsRetryable].
//
// A RateLimited and a pointer to one are both errors, and errors.As finds either as the other.
type RateLimited struct { //nolint:errname // it says what the provider did
	After time.Duration // from now until the provider takes calls again; 0 or less: not known
	Err   error         // what the provider answered; may be nil
}

func (e RateLimited) Error() string {
	text := "agent: the provider limits the rate of calls"
	if e.After > 0 {
		text += fmt.Sprintf(" for %v", e.After)
	}
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap returns Err.
func (e RateLimited) Unwrap() error { return e.Err }

// As implements what errors.As asks: it sets target to e if that is one of the two forms.
func (e RateLimited) As(target any) bool {
	switch target := target.(type) {
	case *RateLimited:
		*target = e
	case **RateLimited:
		*target = &e
	default:
		return false
	}
	return true
}

// IsRetryable reports whether an error is worth another try: [Retryable] has marked it, or it is a
// [RateLimited], or it wraps one that is. No other error is, nor is nil.
func IsRetryable(err error) bool {
	_, marked := errors.AsType[*retryableError](err)
	_, limited := errors.AsType[RateLimited](err)
	return marked || limited
}

// DefaultRetries is how often a Loop calls its model again after an error that is worth it, unless
// it says otherwise: five tries in total.
const DefaultRetries = 4

// maxRetries is the largest Loop.Retries: the pauses of so many take about 50 minutes.
const maxRetries = 100

// The pause before a call is made again is from half of firstRetry to firstRetry after the first
// try. It doubles with each try, and is never longer than longestRetry.
const (
	firstRetry   = time.Second
	longestRetry = 30 * time.Second
)

// retryPause returns the pause after so many tries, from 1 on. The number random is from 0 and
// below 1.
func retryPause(tries int, random float64) time.Duration {
	longest := longestRetry
	if tries < 6 { // the shift of a later one may be out of range
		longest = min(firstRetry<<(tries-1), longestRetry)
	}
	return longest/2 + time.Duration(random*float64(longest/2))
}

// tries returns how often a call is made at most.
func (l *Loop) tries() (int, error) {
	switch {
	case l.Retries > maxRetries:
		return 0, &spawn.InputError{Field: "Loop.Retries", Reason: fmt.Sprintf(
			"%d is more than the limit of %d", l.Retries, maxRetries)}
	case l.Retries < 0:
		return 1, nil
	}
	return 1 + cmp.Or(l.Retries, DefaultRetries), nil
}

// A modelAnswer is what a call of the model came to, which is accounted for.
type modelAnswer struct {
	*ModelResponse

	used  Usage // with its cost
	spent error // what SpendOn said to it
}

// callModel makes one call of the model with what the conversation has now. It makes the call again
// if that fails with an error that is worth it.
func (l *Loop) callModel(ctx context.Context, t *Turn) (a modelAnswer, err error) {
	tries, err := l.tries()
	if err != nil {
		return a, err
	}
	messages, fresh, err := t.view(ctx)
	if err != nil {
		return a, err
	}
	t.renewTools(ctx)
	if err := checkNames(t.Tools); err != nil {
		return a, err
	}
	t.deltas.void(t.spawn, nil)
	req := ModelRequest{
		Model: t.Model, Thinking: t.Thinking, Prompt: t.Prompt, Messages: messages,
		Tools: t.Tools, Schema: t.Schema, Session: t.Session, Run: t.Run,
		Turn: t.N, New: fresh, open: t.OpenFile,
	}
	for n := 1; ; n++ {
		if a, err = l.tryModel(ctx, t, req); err == nil {
			return a, nil
		}
		pause, limited := t.pauseFor(req.Model, n, err)
		if n >= tries || !IsRetryable(err) || ctx.Err() != nil || t.err() != nil {
			return a, err
		}
		t.rt.log.WarnContext(ctx, "offshoot: a call of the model is made again",
			"session", t.Session.Key.String(), "turn", t.N, "model", t.Model, "tries", n,
			"error", redact(err).Error())
		t.deltas.void(t.spawn, t.rt.redact(err))
		if limited {
			continue // it waits for the provider
		}
		if err := t.sleep(ctx, pause); err != nil {
			return modelAnswer{}, err // what has been streamed does not count
		}
	}
}

// pauseFor returns the pause after so many tries of a call that failed. After a RateLimited it is
// the provider that pauses.
func (t *Turn) pauseFor(model string, tries int, err error) (pause time.Duration, limited bool) {
	pause = retryPause(tries, rand.Float64())
	e, limited := errors.AsType[RateLimited](err)
	if limited {
		e.After = cmp.Or(max(e.After, 0), pause)
		_ = t.Limited(model, e)
	}
	return pause, limited
}

// pauseAfter waits for the pause after so many tries of a call that failed, unless the provider
// pauses: then the next try waits.
func (t *Turn) pauseAfter(ctx context.Context, model string, tries int, err error) error {
	pause, limited := t.pauseFor(model, tries, err)
	if limited {
		return nil
	}
	return t.sleep(ctx, pause)
}

// tryModel makes one call of the model when the provider and the budget allow it, and accounts for
// it.
func (l *Loop) tryModel(
	ctx context.Context, t *Turn, req ModelRequest,
) (a modelAnswer, err error) {
	end, err := t.beginCall(ctx, req.Model, func() Usage { return estimate(&req) })
	if err != nil {
		return a, err
	}
	defer end()
	req.delta, req.leave = t.Delta, t.spawn.Leave
	before := t.entering(t.runner + ".Model")
	a.ModelResponse, err = l.generate(ctx, t, &req)
	t.entering(before)
	if err == nil {
		a.used = t.priced(a.Model, a.Usage)
		a.spent = t.SpendOn(ctx, a.Model, a.used)
	}
	return a, err
}

// sleep waits so long, or until ctx or the turn ends.
func (t *Turn) sleep(ctx context.Context, d time.Duration) error {
	ctx, end := t.spawn.Within(ctx)
	defer end()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Limited says that the provider of a model takes no calls for now: it pauses for e.After, for all
// turns of the Runtime. The provider is what stands before the first slash of the model; all models
// without one have the provider "". An empty model is that of the turn, and the model may be an
// alias. A Loop calls Limited for a Model that returns a [RateLimited], and a Runner that calls
// models itself may.
//
// Until the pause ends [Turn.BeginCall] waits in each turn that is to call the provider, and no
// turn starts of a session whose model is of it. Other sessions go on. The pause takes ten minutes
// at most; an After of zero or less is none. Of several pauses the one that ends last stands.
// Pauses are not recorded: a restart forgets them. The timeout of a run goes on in a pause.
//
// The error is [ErrStale] once the turn is cancelled or over, and an *[InputError] if the provider
// has more than 1,024 bytes.
func (t *Turn) Limited(model string, e RateLimited) error {
	if err := t.err(); err != nil {
		return err
	}
	return t.spawn.Limited(t.rt.cfg().modelNamed(model), e.After)
}

// BeginCall lets a call of a model begin. A Loop calls it before each call, and a Runner that calls
// models itself may. An empty model is that of the turn, and the model may be an alias.
//
// First it waits while the provider of the model pauses, see [Turn.Limited]. Meanwhile the turn
// gives its slot back, so that turns of other providers run. Calls that waited begin within a tenth
// of the length of the pause after it, and within ten seconds, and not all at once.
//
// Then, if a budget limits the run, what the call is expected to use is reserved until the Runner
// calls end: after it has told Spend what the call has used, or when the call has failed. Nothing
// is written for it. If the amount is not left of a budget, beside what the other calls under way
// are expected to use, the call begins only if there is no such other call. Otherwise, and if the
// budget is exhausted, the error is [ErrBudget]: the Runner should return what it has.
//
// end is never nil, and has no effect after its first call. The error is ErrStale once the turn is
// cancelled or over, or the cause of ctx.
func (t *Turn) BeginCall(
	ctx context.Context, model string, expected Usage,
) (end func(), err error) {
	return t.beginCall(ctx, model, func() Usage { return expected })
}

// beginCall is BeginCall. It asks what is expected if a budget limits the run.
func (t *Turn) beginCall(
	ctx context.Context, model string, expected func() Usage,
) (end func(), err error) {
	end = func() {}
	if err := t.rt.checked(ctx); err != nil {
		return end, err
	}
	if err := t.err(); err != nil {
		return end, err
	}
	if err := t.spawn.AwaitProvider(ctx, t.rt.cfg().modelNamed(model)); err != nil {
		return end, err
	}
	if !t.spawn.Budgeted() {
		return end, nil
	}
	return t.spawn.Reserve(ctx, t.priced(model, expected()))
}

// expectedOutput is how many tokens an answer is expected to have before one is known.
const expectedOutput = 1000

// estimate returns what a call is expected to use: what the last call of the conversation used, and
// four characters a token of what came after it. Before the first call that is all that is sent.
// What the provider has in its cache does not count.
func estimate(req *ModelRequest) Usage {
	last := len(req.Messages) - 1
	for last >= 0 && req.Messages[last].Usage.IsZero() {
		last--
	}
	var counter window.Counter
	_, sent := counter.Messages(req.Messages[last+1:])
	if last < 0 {
		sent = sat.Add(sent, counter.Text(req.Prompt.String()))
		for _, tool := range req.Tools {
			sent = sat.Add(sent, counter.Text(tool.Description))
			sent = sat.Add(sent, counter.Text(string(tool.Schema)))
		}
		return Usage{Input: int64(sent), Output: expectedOutput}
	}
	u := req.Messages[last].Usage
	used := Usage{
		Input: sat.Add(u.Input, int64(sent)), Output: cmp.Or(u.Output, expectedOutput),
		CacheRead: sat.Add(u.CacheRead, u.CacheWrite),
	}
	if used.CacheRead == 0 {
		used.Input = sat.Add(used.Input, u.Output)
	}
	return used
}
