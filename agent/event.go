package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/offshoot-sdk/offshoot/agent/internal/attach"
	"github.com/offshoot-sdk/offshoot/agent/internal/thread"
	"github.com/offshoot-sdk/offshoot/announce"
	"github.com/offshoot-sdk/offshoot/internal/secret"
	"github.com/offshoot-sdk/offshoot/internal/text"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// Events yields what happens, in one tree or in all of them, for those who watch: a terminal, a
// page, a log. The query selects the events and says where the stream begins: behind the cursors of
// EventQuery.After, which a program may have kept over a restart, or with an [EventSnapshot] of
// each tree. See [spawn.Supervisor.Events] for when it ends, and with which error.
//
// Every text of an event is one that people may see: what a model said is what [announce.Visible]
// leaves of it, credentials are masked as [announce.Redact] and [Config.Redact] say, and what
// steers a terminal or the direction of a text is left out. So an EventTurnEnded whose model chose
// silence has no Text. What was recorded stays as it is, see [Session.History]. Only an EventDelta
// is otherwise, for a query that asks for [DeltasRaw].
//
// The deltas of one answer in the form [DeltasShown], joined, are what people may see of that
// answer. A watcher gets all of them, unless it is slow, or none: a watcher that comes while an
// answer is under way gets those of the next one. TreeEvent.Answer tells the answers of a turn
// apart. One with Void says that the texts of its Answer count for nothing, because the model is
// asked again.
func (rt *Runtime) Events(ctx context.Context, q EventQuery) iter.Seq2[TreeEvent, error] {
	if err := rt.checked(ctx); err != nil {
		return func(yield func(TreeEvent, error) bool) { yield(TreeEvent{}, err) }
	}
	events := rt.sup.Events(ctx, q)
	return func(yield func(TreeEvent, error) bool) {
		view := eventView{redactor: rt.redactor}
		for e, err := range events {
			if !yield(view.show(e), err) {
				return
			}
		}
	}
}

// eventView makes of the events of a stream what people may see of them. It remembers names, which
// the events of a stream share.
type eventView struct {
	redactor            *announce.Redactor
	agent, model, label shownName
}

// shownName is a name, and what people may see of it.
type shownName struct{ given, shown string }

func (n *shownName) show(r *announce.Redactor, name string) string {
	if n.given != name {
		n.given, n.shown = name, shownLine(r, name)
	}
	return n.shown
}

// show returns the event as people may see it. What tools are called with and answer is made so
// where they are called, and deltas as they come.
func (v *eventView) show(e TreeEvent) TreeEvent {
	r := v.redactor
	e.Agent, e.Model = v.agent.show(r, e.Agent), v.model.show(r, e.Model)
	e.Label = v.label.show(r, e.Label)
	switch e.Kind {
	case EventDelta, EventTool, EventToolEnded:
	default:
		e.Text = shownText(r, e.Text)
	}
	if e.Error != "" {
		if e.Error = shownText(r, e.Error); e.Error == "" {
			e.Error = errorNotShown
		}
	}
	if !e.Sender.IsZero() {
		e.Sender = session.Sender{ID: shownText(r, e.Sender.ID), Name: shownText(r, e.Sender.Name)}
	}
	if len(e.Parts) > 0 {
		e.Parts = slices.Clone(e.Parts)
		for i := range e.Parts {
			p := &e.Parts[i]
			p.Name, p.MediaType = shownText(r, p.Name), shownText(r, p.MediaType)
			p.URL = shownText(r, p.URL)
		}
	}
	if e.State != nil {
		state := *e.State
		state.Sessions = slices.Clone(state.Sessions)
		for i := range state.Sessions {
			s := &state.Sessions[i]
			s.Agent, s.Model = shownText(r, s.Agent), shownText(r, s.Model)
			s.Label = shownLine(r, s.Label)
		}
		e.State = &state
	}
	return e
}

// errorNotShown stands for an error of whose text nothing may be seen.
const errorNotShown = "the text of the error is not shown"

// shownText returns what people may see of a text of a model, a tool or a person.
func shownText(r *announce.Redactor, s string) string {
	if s == "" {
		return ""
	}
	s, _ = announce.Visible(s)
	return speaking(r.Redact(s), s)
}

// maskKept masks what is kept masked, and read for silence where it is shown.
func (rt *Runtime) maskKept(s string) string { return speaking(rt.redactor.Redact(s), s) }

// speaking returns a masked text that is read for silence again, as what is kept masked is. A mask
// of asterisks beside a silent token looks like its emphasis, and would make a text silent that
// said something before it was masked: such a text has another mask.
func speaking(masked, s string) string {
	if masked == s {
		return s
	}
	if shown, _ := announce.Visible(masked); shown == strings.TrimSpace(masked) {
		return masked
	}
	if _, speaks := announce.Visible(s); !speaks {
		return masked
	}
	return strings.ReplaceAll(masked, "***", "…redacted…")
}

// shownLine is shownText of a name or a label, on one line.
func shownLine(r *announce.Redactor, s string) string {
	return secret.OneLine(func(s string) string { return shownText(r, s) }, s)
}

// shownStart is shownText of about so many bytes of a long text, which is masked before it is cut.
func shownStart(r *announce.Redactor, s string, most int) string {
	return secret.Head(func(s string) string { return shownText(r, s) }, s, most)
}

// Shown returns what people may see of a text that a model, a tool or a person has written, such as
// the label or the task of a run: what is visible of it, without what steers a terminal or the
// direction of a text, and with its credentials masked as in replies. A text that chooses silence
// is empty.
func (rt *Runtime) Shown(s string) string {
	s, _ = announce.Visible(s)
	return speaking(rt.redactor.At(announce.BoundaryReplies, s), s)
}

// shownLine is Shown of a label or a task, on one line, of which the caller may show the beginning.
func (rt *Runtime) shownLine(s string) string { return secret.OneLine(rt.Shown, s) }

// toModels returns what a model may read of what another session or its model has chosen. It is
// masked before it is cut.
func (rt *Runtime) toModels(s string) string {
	return secret.Clean(func(s string) string {
		return rt.redactor.At(announce.BoundaryModels, s)
	}, s)
}

// lineToModels is toModels for a label or a task, on one line, of which a list shows the beginning:
// markup that is not for people goes before it is masked, so that it hides no secret.
func (rt *Runtime) lineToModels(s string) string {
	return secret.OneLine(func(s string) string { return rt.toModels(announce.Sanitize(s)) }, s)
}

// quote is [text.Quote] for an answer to a model that repeats the model's own words. They stay as
// they are, unless they are cut: what shows the answer to others masks it, and knows no secret of
// which only the head is there.
func (rt *Runtime) quote(s string) string { return text.Quote(rt.whole(s)) }

// whole returns s, masked if it is longer than what a quotation repeats.
func (rt *Runtime) whole(s string) string {
	if len(s) <= text.MaxQuoted {
		return s
	}
	return secret.Clean(rt.redactor.Redact, s)
}

// maxShownTool is how many characters of what a tool is called with, and of what it answers, an
// event shows.
const maxShownTool = 1000

// shownHead returns the beginning of a text that people may see.
func shownHead(s string) string {
	n := 0
	for i := range s {
		if n++; n > maxShownTool {
			return s[:i] + "…"
		}
	}
	return s
}

// shownArgs returns what people may see of the arguments of a tool: of what is long the beginning,
// which is not JSON.
func shownArgs(r *announce.Redactor, args json.RawMessage) string {
	const most = 64 * maxShownTool // what is longer costs too much to look at
	if len(args) > most {
		return "…"
	}
	masked, _ := r.RedactJSON(string(args), func(s string) string { return shownText(r, s) })
	return shownHead(masked)
}

// shownOutcome says how a call of a tool ended, and what people may see of its answer.
func shownOutcome(
	ctx context.Context, r *announce.Redactor, out ToolResult, err error,
) (spawn.Status, string) {
	status, said := StatusOK, out.Text
	switch {
	case err == nil:
	case ctx.Err() != nil:
		status = StatusCancelled
	case errors.Is(err, context.DeadlineExceeded):
		status = StatusTimedOut
	default:
		status = StatusFailed
	}
	if err != nil {
		said = err.Error()
	}
	return status, shownHead(shownStart(r, said, 16*maxShownTool))
}

// show is call, which those who watch see begin and end.
func (o *ownTool) show(ctx context.Context, c ToolCall) (out ToolResult, err error) {
	t := o.turn
	t.deltas.end(t.spawn)
	if !t.spawn.Watched() {
		return o.call(ctx, c)
	}
	began := time.Now()
	id := text.Cut(shownStart(t.rt.redactor, c.ID, text.MaxName), text.MaxName)
	e := spawn.ToolEvent{Call: id, Name: o.given.Name}
	if o.given.Effect != EffectUnknown {
		e.Effect = o.given.Effect.String()
	}
	args := c.Args
	if o.given.Name == toolSpawn {
		args, _ = attach.Redact(args)
	}
	t.spawn.ShowTool(e, shownArgs(t.rt.redactor, args))
	err = spawn.ErrExited // unless call returns
	defer func() {
		outcome, head := shownOutcome(ctx, t.rt.redactor, out, err)
		e.Outcome, e.Took = outcome, time.Since(began)
		t.spawn.ShowTool(e, head)
	}()
	out, err = o.call(ctx, c)
	return out, err
}

// A Progress is how far a turn has come; see [Turn.Report].
type Progress = spawn.Progress

// Report says how far the turn has come, for those who watch and, if it is a Milestone, for the
// requester. See [spawn.TurnInput.Report] for the bounds and the pace; the errors are those of it.
// The Text is kept and shown as people may see it, see [Runtime.Events].
//
// A milestone of a sub-agent whose Task asks for Milestones is told to the model of its requester:
// the newest of each sub-agent, once, with the next turn or [Turn.Inbox]. It starts no turn.
// A session whose turns the caller runs has the events alone.
func (t *Turn) Report(ctx context.Context, p Progress) error {
	if err := t.rt.checked(ctx); err != nil {
		return err
	}
	if err := t.err(); err != nil {
		return err
	}
	p.Text = shownStart(t.rt.redactor, p.Text, 16*spawn.MaxProgress)
	return t.spawn.Report(ctx, p)
}

// Report is [Turn.Report] of the turn that has called a tool, with the context that the tool got.
// The error is an *[InputError] for a context that is not of a call through [Turn.Tools], or one of
// Turn.Report.
func Report(ctx context.Context, p Progress) error {
	c, ok := ctx.Value(callerKey{}).(*toolCall)
	if !ok {
		return &InputError{Field: "ctx", Reason: "it is not that of a call of a tool"}
	}
	return c.turn.Report(ctx, p)
}

// maxCalled is about how many bytes are read of the task of a sub-agent, to call it something.
const maxCalled = 1000

// milestoneText is what a session is told of a milestone of a sub-agent, which has the name that
// lists give it: its label, or the beginning of its task.
func milestoneText(r *announce.Redactor, in spawn.Input) string {
	said := "[Offshoot] A sub-agent"
	if who := text.Label(shownLine(r, shownStart(r, in.Label, maxCalled))); who != "" {
		said = "[Offshoot] The sub-agent " + text.Quote(who)
	}
	done := ""
	if in.Percent > 0 {
		done = ", " + strconv.Itoa(in.Percent) + " % of its work"
	}
	return said + " has reached a milestone" + done +
		". It says: " + strconv.Quote(text.Line(shownText(r, in.Text)))
}

// deltas are the answers of models of a turn, as they come. The zero deltas is ready.
type deltas struct {
	mu         sync.Mutex
	under      bool             // an answer is under way
	shown, raw bool             // in which forms it is watched
	came       bool             // watchers have got something of it
	stream     *announce.Stream // of the form DeltasShown
}

// write shows a piece of an answer.
func (d *deltas) write(st *spawn.TurnInput, r *announce.Redactor, piece string) {
	if piece == "" {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.under {
		d.under, d.came = true, false
		d.shown, d.raw = st.BeginAnswer()
		d.stream = r.Stream()
	}
	var show spawn.Delta
	if d.raw {
		show.Raw = piece
	}
	if d.shown {
		show.Shown = d.stream.Write(piece)
	}
	if show != (spawn.Delta{}) {
		d.came = true
		st.ShowDelta(show)
	}
}

// end shows the rest of the answer that is under way, if there is one.
func (d *deltas) end(st *spawn.TurnInput) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.under && d.shown {
		if rest := d.stream.Close(); rest != "" {
			st.ShowDelta(spawn.Delta{Shown: rest})
		}
	}
	d.under = false
}

// void says that the answer that is under way, if there is one, counts for nothing, and why.
func (d *deltas) void(st *spawn.TurnInput, why error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.under && d.came {
		st.ShowDelta(spawn.Delta{Void: true, Err: why})
	}
	d.under = false
}

// Hooks are functions of the program that hear of the life of sub-agents. They may call the
// Runtime. The zero Hooks are none. docs/hooks.md says more.
type Hooks struct {
	// Spawning is asked before a sub-agent exists, for every spawn of a program and of a model that
	// the Rules admit. An error refuses the spawn: a program gets a *[VetoError], and a model is
	// told the reason in one sentence. A spawn whose Key is known is not asked again, and neither
	// is a message that begins a later run of a sub-agent.
	//
	// ctx is that of the spawn, and ends after 10 seconds. If Spawning has not returned then, or
	// panics or ends its goroutine, the spawn is refused with a *[spawn.CallbackError]. Several
	// spawns are asked at the same time. Nil: what the Rules admit is spawned.
	Spawning func(ctx context.Context, h SpawningHook) error
	// Ended is told of the end of every run of every sub-agent, whether it was announced or not and
	// however it ended. It is told at least once under one Key, over crashes too, in the order in
	// which the runs of a tree end, and never delays what a requester or a person is told. A
	// sub-agent is archived after Ended has heard of it.
	//
	// It returns nil once the end can no longer be lost. ctx ends after 10 seconds. After an error,
	// a panic, a runtime.Goexit or that time Ended is called again, with pauses, and the ends
	// behind it wait. After half an hour the end is blocked until [Runtime.Retry] or
	// [Runtime.Dismiss], as deliveries are, and [Runtime.Blocked] lists it. Nil: nothing is told,
	// and what an earlier process has left is dropped.
	Ended func(ctx context.Context, h EndedHook) error
}

// A SpawningHook is a sub-agent that may be spawned. Run is what it would be: who asks for it, its
// agent, label, task, model and tools, after the Rules. Its ID and Key are those that it will have.
type SpawningHook = spawn.SpawningRun

// A VetoError says that [Hooks].Spawning has refused a spawn. It wraps what that returned.
type VetoError = spawn.VetoError

// An EndedHook is the end of one run.
type EndedHook struct {
	// Key names the end. It is the same in every call for it: a receiver that acts only on keys it
	// has not seen acts once.
	Key string
	// Attempt counts the calls from 1, those that are on record as failed. MayRepeat says that an
	// earlier one may have arrived: it failed, or the process that made it died.
	Attempt   int
	MayRepeat bool
	// Run has the id, key, parent, root, agent, label, status, result, usage and times of the run,
	// and in Error the reason. Of a long Result it has the beginning, which [spawn.Result.Load]
	// completes.
	Run RunInfo
	// Requester is the session that asked for the run, or one above it if that one has ended.
	Requester session.Key
	// Transcript names the conversation in the Store. Where that is, such as the path of a file,
	// only the Store knows.
	Transcript session.Ref
}

// Outcome returns how the run has ended in a word of the field: "ok", "error", "timeout", "killed",
// "interrupted" for one whose process died, or "incomplete" for one whose budget was spent.
func (h *EndedHook) Outcome() string {
	switch h.Run.Status {
	case spawn.StatusFailed:
		return "error"
	case spawn.StatusTimedOut:
		return "timeout"
	case spawn.StatusCancelled:
		return "killed"
	default:
		return h.Run.Status.String()
	}
}

// asked calls a function of the Config that a spawn of a session asks, within
// Config.DeliverTimeout. If the function does not return, Shutdown names the session, and the spawn
// goes on: with an error that is ErrNotRecorded and the cause of ctx when that ends, or ErrShutdown
// when the hard phase of a shutdown begins, else with another one.
func asked[T any](
	ctx context.Context, rt *Runtime, of session.Key, field string,
	f func(context.Context) (T, error),
) (T, error) {
	var answer, zero T
	ctx, cancel := rt.bindings.whole(ctx)
	defer cancel()
	call := rt.bindings.call(ctx, of, false, field, func(ctx context.Context) (err error) {
		answer, err = f(ctx)
		return err
	})
	err := call.WaitFor(ctx)
	stopped := rt.bindings.cut()
	switch { // after an error answer may still be written to
	case err == nil:
		return answer, nil
	case ctx.Err() != nil:
		return zero, fmt.Errorf("%w: %w", ErrNotRecorded, context.Cause(ctx))
	case stopped != nil:
		return zero, fmt.Errorf("%w: %w", ErrNotRecorded, stopped)
	case errors.Is(err, thread.ErrHangs):
		return zero, &CallbackError{Field: field, Err: err}
	}
	return zero, err
}

// hookEnded calls Hooks.Ended.
func (rt *Runtime) hookEnded(ctx context.Context, out spawn.Delivery) error {
	return deliveryError(rt.cfg().Hooks.Ended(ctx, EndedHook{
		Key: out.Key, Attempt: out.Attempt, MayRepeat: out.MayRepeat,
		Run: out.Ended.Run, Requester: out.Ended.Requester,
		Transcript: session.Ref{Key: out.Ended.Run.Key, SessionID: out.Ended.Run.SessionID},
	}))
}
