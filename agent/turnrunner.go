package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/offshoot-sdk/offshoot/announce"
	agentctx "github.com/offshoot-sdk/offshoot/context"
	"github.com/offshoot-sdk/offshoot/internal/contain"
	"github.com/offshoot-sdk/offshoot/internal/secret"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// turnRunner runs turns of the spawn package on the caller's Runner.
type turnRunner struct{ rt *Runtime }

// RunTurn implements spawn.Runner. Whatever of the caller's it calls may panic or end the
// goroutine: then the turn fails, what was recorded is kept, and a person is answered.
func (b turnRunner) RunTurn(
	ctx context.Context, st *spawn.TurnInput,
) (out spawn.TurnResult, err error) {
	t := &Turn{
		Session: st.Session, Run: st.Run.ID, Label: st.Run.Label, N: st.N, Retry: st.Retry,
		New:   len(st.Inputs),
		Model: b.rt.cfg().model(st.Session.Key), Thinking: b.rt.cfg().Models.Thinking,
		rt: b.rt, spawn: st, state: st.State,
		Sandboxed: st.Authority.Sandboxed, Announces: st.Announces,
	}
	if st.Run.ID != "" {
		t.Model, t.Thinking = st.Run.Model.Resolved, st.Run.Thinking
	}
	if t.Announces {
		t.New = 1
		t.Model = cmp.Or(b.rt.cfg().modelNamed(b.rt.cfg().AnnounceTurn.Model), t.Model)
	}
	returned := false
	defer t.closeAttachments()
	defer t.end() // also if the Runner ends its goroutine
	defer func() {
		if !returned && !t.decided {
			out, err = b.contain(ctx, t, recover())
		}
	}()
	out, err = b.runTurn(ctx, t)
	returned = true
	return out, t.untouched(ctx, err)
}

// decide says what a turn has come to, before the Logger is told, which may end the goroutine.
func (t *Turn) decide(out spawn.TurnResult, err error) {
	t.decided = true
	t.spawn.ExitWith(out, err)
}

// contain returns what a turn came to in which a part of the Config panicked with a value, or ended
// the goroutine if that is nil.
func (b turnRunner) contain(
	ctx context.Context, t *Turn, value any,
) (out spawn.TurnResult, err error) {
	failed := newCallbackError(t.current(), nil)
	if value != nil {
		t.spawn.ExitWith(apology(ctx, t.spawn, failed), failed) // reading the value may end it, too
		failed = newCallbackError(failed.Field, value)
	}
	shown := b.rt.redact(failed)
	// Last: a Logger may end the goroutine.
	defer b.rt.log.Error("offshoot: a turn was broken off", "session", t.Session.Key.String(),
		"turn", t.N, "in", failed.Field, "error", shown.Error(), "stack", string(failed.Stack))
	out = apology(ctx, t.spawn, shown)
	t.spawn.ExitWith(out, shown) // should what follows end the goroutine, too
	if t.log == nil {
		return out, shown
	}
	out, err = b.result(ctx, t, Result{}, shown)
	t.spawn.ExitWith(out, err)
	return out, err
}

// runTurn prepares a turn and runs it.
func (b turnRunner) runTurn(ctx context.Context, t *Turn) (spawn.TurnResult, error) {
	rt, st := b.rt, t.spawn
	extra, err := decodeRunExtra(st.Extra)
	if err != nil {
		return b.refuse(ctx, t, err)
	}
	t.Runtime, t.stream = extra.Runtime, extra.Stream && !t.Announces
	t.noteAsked(st.Inputs)
	t.entering("Store.Files")
	st.InStore(true)
	rt.loadResults(ctx, st.Inputs)
	t.entering("Store.Transcripts")
	var fresh []Message
	if !st.Compact {
		fresh = rt.firstMessages(ctx, t)
	}
	t.detached = context.WithoutCancel(ctx)
	kept := t.keepInputs(ctx)
	log, messages, err := beginRecord(
		kept, ctx, rt.cfg().Store, rt.carrier(), &rt.hot, rt.log, st, extra, fresh)
	kept.end()
	if err != nil {
		return b.refuse(ctx, t, err)
	}
	st.InStore(false)
	log.startRunner()
	t.log, t.New, t.extra = log, len(fresh), extra
	if !t.Announces && !st.ForPeople {
		t.Schema = slices.Clone(extra.Schema)
	}
	t.Messages, t.input = messages, messages[len(messages)-len(fresh):]
	if st.Compact {
		return b.compactTurn(ctx, t)
	}
	given, err := t.withCredentials(ctx)
	t.offerTools(ctx, rt.cfg())
	var in agentctx.Input
	if err == nil {
		err = t.openWindow()
	}
	if err == nil {
		err = t.openPlace(extra.Dir)
	}
	if err == nil {
		err = t.openAttachments(ctx, extra.Attached)
	}
	if err == nil {
		in, err = rt.promptInput(ctx, t, extra)
	}
	var res Result
	if err == nil {
		t.entering("Prompts.Input")
		t.Prompt = rt.prompts.Assemble(in)
		res, err = b.callRunner(given, t)
	}
	st.InStore(true)
	t.end()
	t.entering("Store.Transcripts")
	return b.result(ctx, t, res, err)
}

// refuse logs why a turn could not begin and returns what it came to.
func (b turnRunner) refuse(
	ctx context.Context, t *Turn, err error,
) (spawn.TurnResult, error) {
	err = t.outcome(err)
	out := apology(ctx, t.spawn, err)
	t.decide(out, err)
	level := slog.LevelError
	if ctx.Err() != nil { // it was cancelled, as by a shutdown
		level = slog.LevelInfo
	}
	b.rt.log.Log(context.WithoutCancel(ctx), level, "offshoot: a turn could not begin",
		"session", t.Session.Key.String(), "turn", t.N, "error", causeOf(err).Error())
	return out, err
}

// apology returns what a turn comes to that failed without a result.
func apology(ctx context.Context, st *spawn.TurnInput, err error) (out spawn.TurnResult) {
	if st.ForPeople && ctx.Err() == nil {
		out.Reply = apologyFor(err)
	}
	return out
}

// callRunner calls the Runner, unless the turn may not call a model.
func (b turnRunner) callRunner(ctx context.Context, t *Turn) (Result, error) {
	if t.spawn.Exhausted != "" {
		return Result{}, fmt.Errorf("agent: %w: %s", ErrBudget, t.spawn.Exhausted)
	}
	if err := t.Prompt.Err(); err != nil {
		return Result{}, err
	}
	runner, field := b.rt.cfg().runnerOf(t)
	switch {
	case runner != nil:
	case t.Runtime != "": // the journal may have sessions of what is not configured any more
		return Result{}, fmt.Errorf("agent: there is no %s any more", field)
	default:
		return Result{}, fmt.Errorf("agent: there is neither Config.Runner nor %s", field)
	}
	t.runner = field
	if err := t.beginView(ctx); err != nil {
		return Result{}, err
	}
	t.entering(field)
	t.entered = true
	if t.stream {
		t.relay = startRelay(ctx, t)
		defer t.relay.close()
	}
	res, err := runner.Run(ctx, t)
	return res, contain.Read(err)
}

// What a person is told of a turn that failed; why is in the log and in the events.
const (
	apologyText = "Sorry, something went wrong and I could not finish that. Please try again."
	budgetText  = "I have stopped here, because what I may spend is used up. " +
		"What has come in is kept."
	tooLongText = "This conversation has become too long for me, so I could not answer that. " +
		"Please begin a new one, or send less at once."
	accountText = "I cannot answer, because the provider of my model does not accept my account. " +
		"The person who runs me has to look after that."
	overloadText = "My model cannot be reached at the moment. Please try again in a few minutes."
)

// apologyFor returns what a person is told of a turn that failed with err: what can be done, and
// nothing of what a provider has said.
func apologyFor(err error) string {
	limit, limited := errors.AsType[RateLimited](err)
	switch {
	case errors.Is(err, ErrBudget):
		return budgetText
	case errors.Is(err, ErrTooLong), errors.Is(err, ErrWindow):
		return tooLongText
	case errors.Is(err, ErrAccount):
		return accountText
	case limited:
		return limitedText(limit.After)
	case IsRetryable(err):
		return overloadText
	}
	return apologyText
}

// limitedText is what a person is told while a provider takes no calls for a time, of which 0 says
// that it is not known. It is rounded up: a person who tries again too early is refused again.
func limitedText(after time.Duration) string {
	const day = 24 * time.Hour
	up := func(unit time.Duration) string { return strconv.FormatInt(int64((after-1)/unit+1), 10) }
	when := "in a few minutes"
	switch {
	case after <= 0:
	case after <= time.Minute:
		when = "in a minute"
	case after <= 90*time.Minute:
		when = "in " + up(time.Minute) + " minutes"
	case after <= 2*day:
		when = "in " + up(time.Hour) + " hours"
	case after <= 365*day:
		when = "in " + up(day) + " days"
	default:
		when = "much later"
	}
	return "Too many requests have come to my model. Please try again " + when + "."
}

// result says what a turn came to, as outcome does, and then logs why it failed.
func (b turnRunner) result(
	ctx context.Context, t *Turn, res Result, err error,
) (spawn.TurnResult, error) {
	out, err := b.outcome(ctx, t, res, err)
	if err != nil {
		t.decide(out, err)
		b.logFailure(ctx, t, err)
	}
	return out, err
}

// outcome says what a turn came to: what is announced of it, what people are told, and how far the
// transcript goes.
func (b turnRunner) outcome(
	ctx context.Context, t *Turn, res Result, err error,
) (spawn.TurnResult, error) {
	var models []spawn.ModelUsage
	if res.Usage.IsZero() {
		res.Usage, models = t.spawn.Spent(), t.spawn.SpentBy()
	} else {
		res.Usage = t.priced(res.Model, res.Usage)
	}
	if bad := b.rt.cfg().Limits.boundResult(&res, b.rt.redactor.Redact); bad != nil {
		err = errors.Join(err, bad)
	}
	out := spawn.TurnResult{Result: res, Models: models}
	t.spawn.InStore(true)
	// A turn that is cancelled, if only while this is written, keeps what it has if that can be had
	// soon.
	saved := t.outlasting(t.detached) //nolint:contextcheck // it is made of ctx
	closing := t.unanswered(ctx, res, err)
	werr := t.log.finish(saved, res, closing...) //nolint:contextcheck // it is made of ctx
	if werr != nil && err == nil {
		err = werr
	}
	saved.end()
	out.Pos, err = t.log.close(), t.outcome(err)
	decision := announce.Decide(res.Text)
	if t.Announces {
		return t.announcement(out, decision), err
	}
	if decision == announce.DecisionDefer && len(res.JSON) == 0 {
		out.Fallback, decision = announce.Fallback(statusOf(ctx, err), t.log.runnerMessages())
		out.Fallback = b.rt.maskKept(out.Fallback)
	}
	if decision == announce.DecisionSilent && err == nil {
		out.Silent, out.Skip = true, strings.Contains(res.Text, announce.AnnounceSkip)
	}
	if !t.spawn.ForPeople {
		if err == nil && len(t.extra.Schema) > 0 {
			t.spawn.InStore(false)
			t.entering("the type of the result")
			out.Refused = b.rt.results.refusal(t.extra, &out.Result)
		}
		return out, err
	}
	switch text, visible := announce.Visible(res.Text); {
	case visible:
		tags := announce.ReadTags(res.Text)
		out.Reply, out.ReplyTo, out.Voice = text, t.replyTo(tags), tags.Voice
	case err != nil && ctx.Err() == nil:
		out.Reply = apologyFor(err)
	}
	return out, err
}

// unansweredText closes what a turn has not answered. The next turn may be for other people, and a
// model answers all that stands open before their message.
const unansweredText = "[Offshoot] The turn over what stands above has ended before it was " +
	"answered: it failed, or it was stopped. Answer it only if you are asked to again, and say " +
	"nothing of it where it was not asked: the next message may be from another conversation."

// unanswered returns what the conversation says of a turn that has failed or was stopped with what
// it comes to, if the session may speak in several places: it is a top-level one whose key names
// none, and people have said where they are. A turn that a shutdown ends is repeated.
func (t *Turn) unanswered(ctx context.Context, res Result, err error) []Message {
	cause := context.Cause(ctx)
	switch {
	case err == nil && cause == nil, errors.Is(cause, spawn.ErrShutdown),
		t.Session.Depth > 0, t.Session.Key.Peer() != "",
		!t.spawn.ForPeople, t.spawn.Route.IsZero():
		return nil
	}
	// People are not told what a turn had said by the time at which it was stopped.
	if !errors.Is(cause, ErrTurnCancelled) && !errors.Is(cause, ErrStopped) {
		if _, answered := announce.Visible(res.Text); answered {
			return nil
		}
	}
	return []Message{{
		Role: session.MessageUser, Text: unansweredText, Internal: true, Synthetic: true,
		Time: time.Now(),
	}}
}

// announcement returns what an announce step came to.
func (t *Turn) announcement(out spawn.TurnResult, d announce.Decision) spawn.TurnResult {
	out.Silent = d == announce.DecisionSilent
	if d != announce.DecisionSpeak {
		out.Result.Text = ""
	}
	if out.Result.Model == "" {
		out.Result.Model = t.Model // which need not be that of the run
	}
	return out
}

// logFailure logs why a turn failed, unless contain has.
func (b turnRunner) logFailure(ctx context.Context, t *Turn, err error) {
	if failed, ok := errors.AsType[*CallbackError](err); ok && failed.Stack != nil {
		return
	}
	level, what := slog.LevelError, "offshoot: a turn failed"
	switch statusOf(ctx, err) {
	case spawn.StatusCancelled: // or the program ends
		level, what = slog.LevelDebug, "offshoot: a turn was cancelled"
	case spawn.StatusTimedOut:
		level, what = slog.LevelDebug, "offshoot: a turn timed out"
	default:
	}
	b.rt.log.Log(ctx, level, what, "session", t.Session.Key.String(), "turn", t.N,
		"error", causeOf(err).Error())
}

// A redactedError is an error whose text is masked and bounded: what providers of models answer may
// repeat a key, or megabytes. The error itself is what errors.Is and errors.As see.
type redactedError struct {
	text string
	err  error
}

// redact is [Runtime.redact] without what Config.Redact adds. The Logger adds that to what it is
// told.
func redact(err error) error { return (*Runtime)(nil).redact(err) }

// redact returns err with a text that may stand in the journal, in events and in logs.
func (rt *Runtime) redact(err error) error {
	if err == nil {
		return nil
	}
	said := err.Error()
	mask := secret.Mask
	if rt != nil {
		mask = rt.redactor.Redact
	}
	shown := secret.TextBy(func(s string) string { return speaking(mask(s), s) }, said)
	if shown == said {
		return err
	}
	return &redactedError{shown, err}
}

func (e *redactedError) Error() string { return e.text }

// Unwrap returns the error as it was.
func (e *redactedError) Unwrap() error { return e.err }

// A storeError is a turn of a sub-agent that the store has broken off for good. The requester's
// model and people read its text, so that it does not have that of the store, which may name files
// and other trees.
type storeError struct{ kind, err error }

func (e *storeError) Error() string { return "agent: the store has failed: " + e.kind.Error() }

// Unwrap returns the error of the store, masked.
func (e *storeError) Unwrap() error { return e.err }

// outcome returns the error that a turn has come to, as the journal, events and the requester have
// it.
func (t *Turn) outcome(err error) error {
	err = t.rt.redact(err)
	if t.Session.Depth == 0 { // no model is told
		return err
	}
	for _, kind := range []error{
		session.ErrClosed, session.ErrReadOnly, session.ErrCorrupt, session.ErrFormat,
		session.ErrUnsafe, session.ErrSync, session.ErrConflict,
	} {
		if errors.Is(err, kind) {
			return &storeError{kind, err}
		}
	}
	return err
}

// causeOf returns the error that a turn has come to, as the log has it.
func causeOf(err error) error {
	if failed, ok := errors.AsType[*storeError](err); ok {
		return failed.err
	}
	return err
}

// A lasting is the context of what a turn writes: it ends with its parent, and some time after the
// turn was cancelled. The caller calls end, which waits for what the lasting has started.
//
// A store asks most contexts for nothing but Err, and most turns are not cancelled. So a lasting
// becomes contexts of package context only when its Done is asked for, or when its turn has been
// cancelled: a turn takes 2 allocations for those that it writes under, and not 19
// (BenchmarkDeliver).
type lasting struct {
	context.Context //nolint:containedctx // the parent

	turn   *Turn
	life   context.Context //nolint:containedctx // of the turn
	from   time.Time
	begins bool // it is what the turn begins with that is written

	mu     sync.Mutex
	over   bool            // end was called
	real   context.Context //nolint:containedctx // nil: not needed so far
	cancel context.CancelCauseFunc
	stop   func() bool   // see context.AfterFunc
	waited chan struct{} // closed when what AfterFunc has started has returned
}

// keepInputs returns the context under which a turn writes what it begins with. A person who
// cancels the turn or stops the session does not end it before half of the grace period has passed:
// what people have written would be in no turn and in no transcript. Life is the context of the
// turn.
func (t *Turn) keepInputs(life context.Context) *lasting {
	t.kept = lasting{
		Context: t.detached, turn: t, life: life, from: time.Now(), begins: true,
	}
	return &t.kept
}

// outlasting returns a context, for writing the transcript, that ends with ctx and some time after
// the turn was cancelled, well within the grace period. If the turn is over then, and what it does
// not accounted for any more, the context ends at once.
func (t *Turn) outlasting(ctx context.Context) *lasting {
	return &lasting{Context: ctx, turn: t, life: t.log.life, from: time.Now()}
}

// left returns how long the context goes on, and why it ends then. The turn was cancelled.
func (l *lasting) left() (left time.Duration, cause error) {
	grace := cmp.Or(l.turn.rt.cfg().Grace, spawn.DefaultGrace)
	if l.begins {
		cause = context.Cause(l.life)
	}
	switch {
	case !l.begins:
		if grace = min(time.Second, grace/4); l.turn.spawn.Over() != nil {
			return 0, cause
		}
	case !errors.Is(cause, ErrTurnCancelled) && !errors.Is(cause, ErrStopped):
		return 0, cause
	default:
		grace /= 2
	}
	from := l.from
	if at := l.turn.spawn.CancelledAt(); at.After(from) {
		from = at
	}
	return grace - time.Since(from), cause
}

// made returns the context of package context that the lasting now is.
func (l *lasting) made() context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.real != nil {
		return l.real
	}
	l.real, l.cancel = context.WithCancelCause(l.Context)
	if l.over {
		l.cancel(nil)
		return l.real
	}
	if l.life.Err() != nil {
		if left, cause := l.left(); left <= 0 {
			l.cancel(cause)
		}
	}
	l.waited = make(chan struct{})
	l.stop = context.AfterFunc(l.life, l.turnEnded)
	return l.real
}

// turnEnded ends the context when what is left of it has passed.
func (l *lasting) turnEnded() {
	defer close(l.waited)
	left, cause := l.left()
	if left > 0 {
		timer := time.NewTimer(left)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-l.real.Done():
		}
	}
	l.cancel(cause)
}

// end ends the context: what it is for was written.
func (l *lasting) end() {
	l.mu.Lock()
	l.over = true
	made := l.real != nil
	l.mu.Unlock()
	if !made || l.stop == nil {
		return
	}
	l.cancel(nil)
	if !l.stop() {
		<-l.waited
	}
}

// Done implements context.Context.
func (l *lasting) Done() <-chan struct{} { return l.made().Done() }

// Err implements context.Context.
func (l *lasting) Err() error { return l.now().Err() }

// Value implements context.Context.
func (l *lasting) Value(key any) any { return l.now().Value(key) }

// now returns the context that the lasting is, which is its parent until it matters.
func (l *lasting) now() context.Context {
	l.mu.Lock()
	made, over := l.real, l.over
	l.mu.Unlock()
	switch {
	case made != nil:
		return made
	case over, l.life.Err() != nil:
		return l.made()
	}
	return l.Context
}

// statusOf returns how a turn ended as far as it can be told from inside.
func statusOf(ctx context.Context, err error) spawn.Status {
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, spawn.ErrTimedOut):
		return spawn.StatusTimedOut
	case cause != nil:
		return spawn.StatusCancelled
	case err != nil:
		return spawn.StatusFailed
	}
	return spawn.StatusOK
}

// A CallbackError is a part of the Config that did not return, or one that returned an error. A
// turn that it broke off fails with it.
type CallbackError struct {
	// Field is the path of that part, such as "Prompts.Loader", "Now", "Runner" or
	// `Runners.Agents["coder"]`.
	Field string
	// Err is a *[spawn.PanicError], [spawn.ErrExited], or what [Prompts.Describe] returned.
	Err error
	// Stack is the stack of the goroutine at that moment. Nil: the part has returned.
	Stack []byte
}

// newCallbackError returns the error of a field that panicked with a value, or ended its goroutine
// if that is nil.
func newCallbackError(field string, value any) *CallbackError {
	e := &CallbackError{Field: field, Err: spawn.ErrExited, Stack: debug.Stack()}
	if value != nil {
		e.Err = &spawn.PanicError{Value: contain.Value(value), Stack: e.Stack}
	}
	return e
}

func (e *CallbackError) Error() string {
	text := "it failed"
	switch {
	case e.Err == nil:
	case e.Err == spawn.ErrExited: //nolint:errorlint // what the constructor set
		text = "it ended its goroutine"
	default:
		text = e.Err.Error()
	}
	return "agent: " + e.Field + ": " + text
}

// protect calls a function of the Config, which may panic or end its goroutine, and returns its
// error, which was read.
func protect(field string, f func() error) error {
	return contain.Call(f, newCallbackError(field, nil), func(value any, stack []byte) error {
		return &CallbackError{
			Field: field, Err: &spawn.PanicError{Value: value, Stack: stack}, Stack: stack,
		}
	})
}

// newPanic returns the error of a panic that was recovered.
func newPanic(value any) *spawn.PanicError {
	stack := debug.Stack()
	return &spawn.PanicError{Value: contain.Value(value), Stack: stack}
}

// Unwrap returns Err, which says nothing of the call that asked the part: it is neither
// [ErrUnconfirmed] nor another of the errors of a command for errors.Is, also if the part returned
// one of another call.
func (e *CallbackError) Unwrap() error {
	return contain.Foreign(e.Err,
		ErrUnconfirmed, ErrNotRecorded, ErrShutdown, ErrStale, ErrNotFound)
}

var errStoreExited = errors.New("agent: the store ended its goroutine")

// attempt calls f in a goroutine of its own, so that a store that panics or ends its goroutine has
// failed and nothing else.
func attempt(f func() error) error { return contain.Call(f, errStoreExited, storePanicked) }

// attemptOn is attempt for an f that calls nothing but part, which is a part of the store. One of
// the library's own needs no goroutine, which takes longer than an append in memory.
func attemptOn(part any, f func() error) error {
	if contain.IsSteady(part) {
		return contain.Here(f, storePanicked)
	}
	return attempt(f)
}

func storePanicked(value any, stack []byte) error {
	return &spawn.PanicError{Value: value, Stack: stack}
}
