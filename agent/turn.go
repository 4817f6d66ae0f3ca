package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/offshoot-sdk/offshoot/agent/internal/attach"
	"github.com/offshoot-sdk/offshoot/agent/internal/sender"
	"github.com/offshoot-sdk/offshoot/agent/internal/workdir"
	"github.com/offshoot-sdk/offshoot/announce"
	agentctx "github.com/offshoot-sdk/offshoot/context"
	"github.com/offshoot-sdk/offshoot/internal/text"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// A Runner runs one turn of one session: it answers what is new, with whatever model and tools it
// likes.
//
// The turn's result is what Run returns; a Result beside an error is what there is so far, as with
// an io.Reader. Run is called for many sessions at once, but never twice at once for the same. When
// ctx ends Run should return soon; if it does not, the turn is given up after the grace period and
// what Run still returns is recorded as late. A Runner that a shutdown has cancelled before it did
// anything returns [ErrUntouched].
type Runner interface {
	Run(ctx context.Context, t *Turn) (Result, error)
}

// RunnerFunc is a function that is a Runner.
type RunnerFunc func(ctx context.Context, t *Turn) (Result, error)

// Run implements Runner: it calls f.
func (f RunnerFunc) Run(ctx context.Context, t *Turn) (Result, error) { return f(ctx, t) }

// A Turn is what a Runner needs to know. Its methods are safe for concurrent use.
//
// They end with the turn, and so do its Tools and the handles that its Spawn returned, in every
// goroutine: once the Runner has returned, or the turn was given up, or its process has lost the
// tree, each call returns an error that is [ErrStale] and changes nothing. While a turn that was
// cancelled has its grace period, only Record, Spend, Delta and SetState still work.
type Turn struct {
	// Session is where the session stands in its tree.
	Session session.Lineage
	// Run names the run; empty in a top-level session.
	Run spawn.RunID
	// Label is what the requester called the run.
	Label string
	// Runtime is the name of the external runtime that runs the session; empty: none does. See
	// [Runners.Runtimes].
	Runtime string
	// N counts the turns of the session from 1.
	N int
	// Retry says that a crash interrupted an earlier turn over the same inputs. Tools with effects
	// may have had them. A top-level session has three attempts at an input; after the third crash
	// it counts as read, and people get an apology. The turn of a sub-agent has one: of the first
	// turn of a later run Retry says that a crash has interrupted the run before. What that did in
	// its last turn is not in Messages. A turn that a shutdown has ended before it did anything is
	// not one that the next repeats, unless a wait that was over began it; after a crash it is not
	// known whether the Runner was called.
	Retry bool
	// Announces says that the turn is the announce step of its run: the work is done, and the text
	// of the Result is what the requester is told in its place. The last of the Messages asks for
	// it, with the words of [Config.AnnounceTurn]. The run has its Result already: of that of this
	// turn the Text and the Usage count. The Tools are there, so that the conversation stays one
	// that a provider of models takes, and each call of one is refused; so are Spawn, Say and all
	// else that would begin something, with [ErrAnnouncing].
	Announces bool
	// Prompt is the system prompt, as an ordered list of sections; String joins them.
	Prompt agentctx.Prompt
	// Messages are the whole conversation, oldest first, ending with what is new. With a [Window]
	// they are as much of it as that has room for, behind a summary of the others.
	//
	// In a group or a channel, and in a sub-agent, to which conversations may be bound, the Text of
	// a message of a person begins with a line that says who speaks, if that is known. Any other
	// line of such a message that looks like one is quoted: "> " stands before it, also in a task
	// and in what says no From. A model is not told of From and Parts otherwise: a Model or Runner
	// that can show pictures reads the Parts, and their bytes from the Files of the Store.
	//
	// A Runner may set the field, for example to the last messages, and may append to it. It must
	// not change the messages themselves, nor their slices: later turns are given the same.
	Messages []Message
	// New is how many of the Messages, at the end, are new in this turn. What is new and was left
	// out for lack of room does not count.
	New int
	// Tools are what policy leaves this session today, sorted as the Config has them, ready to
	// call. They end with the turn: the next turn has its own. A Runner may put tools of its own
	// here. With two of one name a [Loop] returns an *[InputError], and calls no model.
	Tools []Tool
	// Skills are those that the session took at its first turn, as far as they are still there and
	// policy lets it see them, hidden ones too; see [Prompts.Skills]. The Prompt lists them. Their
	// Commands are for people, and agentctx.SyncSkills copies them to where a sandbox sees them.
	Skills agentctx.SkillSnapshot
	// Sandboxed says that the session is in a sandbox today: its tools must work there. The Config
	// provides the sandbox, the Rules say which sessions it is for. A tool finds the same in
	// [CallerOf].
	Sandboxed bool
	// Dir is the directory that the tools of the session work in, an absolute path without links:
	// that of [Config.WorkDir], or the [Task].Dir below it. A tool finds the same in [CallerOf].
	// Empty: the Config says nothing of it. It is a directory when the turn begins.
	Dir string
	// Files are those that the session was given with its task, in one directory, which has none of
	// another session; see [Task].Attachments. They cannot be written, are opened as they are asked
	// for, and end with the turn, also where they are open: all that reads is [ErrStale] then.
	// What is in them is untrusted.
	Files fs.FS
	// Model and Thinking are what policy resolved; empty: the caller's default.
	Model, Thinking string
	// Schema is the JSON Schema of the result, if a typed one was asked for. It is nil in a turn
	// that answers people, and in one that announces: these say words.
	Schema json.RawMessage

	rt    *Runtime
	spawn *spawn.TurnInput
	log   *turnRecord
	// detached has the values of the context of the turn, and not its end.
	detached context.Context //nolint:containedctx // for what outlasts the turn
	kept     lasting         // see keepInputs
	// decided: what the turn came to is with the Supervisor. It is of the goroutine of the turn.
	decided  bool
	extra    runExtra // its Schema is as that of the Turn, which is the Runner's to change
	runner   string   // the field of the Config that has the Runner
	place    workdir.Place
	attaches bool // attachments are in use in the place
	files    attach.FS

	entered bool        // the Runner was called; of the goroutine of the turn
	worked  atomic.Bool // the Runner has recorded something, or called what may have an effect

	over atomic.Bool  // the Runner has returned
	gate sync.RWMutex // held for reading by calls that write the transcript, until over is set

	deltas deltas
	relay  *relay // nil: what is said is not passed on to the requester
	stream bool   // there is a relay while the Runner runs

	offered offer // of the goroutine of the Runner

	mu      sync.Mutex
	yielded bool
	said    bool   // people were told something before the end of the turn
	within  string // the field of the Config that the turn is in
	asked   string // the ID of the last message of a person that the turn consumed, or ""
	state   []byte // see State

	window    turnWindow
	overspent error     // of what a summary has spent; guarded by mu
	input     []Message // what is new, as it was before a window cut it
}

// entering notes which field of the Config the turn is in from here on, for a panic there.
func (t *Turn) entering(field string) (before string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	before, t.within = t.within, field
	return before
}

func (t *Turn) current() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.within
}

// err returns nil while the turn may begin something, else an error that is ErrStale.
func (t *Turn) err() error {
	if err := t.spawn.Err(); err != nil {
		return err // it says why
	}
	if t.over.Load() {
		return t.stale()
	}
	return nil
}

func (t *Turn) stale() error {
	return fmt.Errorf("%w: turn %d of %q", ErrStale, t.N, t.Session.Key)
}

// enter lets a call write the transcript before the turn ends. The call must leave the gate.
func (t *Turn) enter() error {
	t.gate.RLock()
	err := t.spawn.Over()
	if err == nil && t.over.Load() {
		err = t.stale()
	}
	if err != nil {
		t.gate.RUnlock()
	}
	return err
}

// end waits for the calls that write the transcript, and refuses those that follow.
func (t *Turn) end() {
	t.deltas.end(t.spawn)
	t.gate.Lock()
	t.over.Store(true)
	t.gate.Unlock()
}

// Input returns the text of what is new in this turn, for engines that keep the conversation
// themselves.
func (t *Turn) Input() string {
	fresh := t.input
	if t.log == nil || !t.log.isGiven(t.Messages) {
		fresh = t.Messages[len(t.Messages)-t.New:]
	}
	return inputText(t.Session.Key, fresh)
}

// inputText returns the texts of messages that are new in a session.
func inputText(key session.Key, fresh []Message) string {
	known := slices.ContainsFunc(fresh, func(m Message) bool { return !m.From.IsZero() })
	texts := make([]string, 0, len(fresh))
	for i, m := range fresh {
		first := i == 0 && key.IsSubagent() // its task, or a follow-up behind nothing
		if known && !first && isSeveral(key) && isPersons(m) && m.From.IsZero() {
			m.Text = sender.Unknown + m.Text // it does not pass for the words of the one before
		}
		texts = append(texts, m.Text)
	}
	return strings.Join(texts, "\n\n")
}

// Delta shows text to those who watch the session, as the model writes it; see [Runtime.Events]. An
// answer of a model begins with the first text after the one before, and it ends when it is
// recorded, when a tool is called, and when the turn ends: the last of its text is shown then, if
// it had to be held back.
func (t *Turn) Delta(text string) {
	if !t.over.Load() {
		t.deltas.write(t.spawn, t.rt.redactor, text)
		t.relay.hear(text)
	}
}

// Retract takes back what [Turn.Delta] has shown of the answer that is under way: those who watch
// are told that it counts for nothing, and why, with the Void of an EventDelta. A Runner that calls
// its model again after an error calls it; a [Loop] does so. The transcript has nothing of it.
func (t *Turn) Retract(why error) {
	if !t.over.Load() {
		t.deltas.void(t.spawn, t.rt.redact(why))
	}
}

// Record adds a message to the transcript as it happens: what the model said, a tool call, a tool's
// answer. A Runner that records nothing leaves only what it returns.
//
// The transcript stays a conversation that providers of models accept. What comes between a tool
// call and its result is written behind the result. A call that has no result when the turn ends
// gets a failed one. Calls of one message that share an id, or have none, get ids of their own;
// their results come in the order of the calls. An assistant's message without text and calls is
// left out.
//
// The error is an *[InputError], and nothing is recorded, for a result without a call that waits
// for it, for a role that is not that of a user, the assistant or a tool, and for more tool calls
// or longer ids than the [Limits] allow. A longer text is cut, with a note, and longer arguments, a
// Raw with which the message is too long, and a Model that is not a name are left out. It is
// [spawn.ErrStale] after the turn.
//
// The Data of the Parts goes into Store.Files before the line is written. The error is a
// *[session.PartError] for a Part that is not valid, or whose File the session does not have with
// all its bytes, a *[LimitError] for too many or too large ones, and [session.ErrNoFiles] for Data
// or a File where the Store has no Files. Nothing is recorded then.
//
// Raw comes back byte for byte. It is left out, which is logged, where it would contradict the
// line: where a text, arguments or the name of a tool were cut, and where calls got other ids.
func (t *Turn) Record(ctx context.Context, m Message) error {
	_, err := t.record(ctx, m)
	return err
}

// record is Record. It returns what was written: m, and what waited for it.
func (t *Turn) record(ctx context.Context, m Message) ([]Message, error) {
	if err := t.rt.checked(ctx); err != nil {
		return nil, err
	}
	if err := t.enter(); err != nil {
		return nil, err
	}
	defer t.gate.RUnlock()
	switch m.Role {
	case session.MessageAssistant:
	case session.MessageUser, session.MessageTool:
		if len(m.ToolCalls) > 0 {
			return nil, &InputError{
				Field: "Message.ToolCalls", Reason: "only messages of the assistant have them",
			}
		}
	default:
		return nil, &InputError{
			Field: "Message.Role", Reason: text.Quote(string(m.Role)) + " is not a " +
				"role that a Runner records",
		}
	}
	m = withoutContents(m)
	bounded, err := t.rt.cfg().Limits.boundMessage(m, t.rt.redactor.Redact)
	if err != nil {
		return nil, err
	}
	if m.Raw != nil && bounded.Raw == nil {
		t.log.logLoss("the message is over a limit, with it or without")
	}
	if m.Role == session.MessageAssistant {
		t.deltas.end(t.spawn)
	}
	t.worked.Store(true)
	later := t.outlasting(ctx)
	defer later.end()
	bounded.Parts, err = t.log.storeParts(later, bounded.Parts) //nolint:contextcheck // it is made of ctx
	if err != nil {
		return nil, err
	}
	return t.log.write(later, false, bounded) //nolint:contextcheck // it is made of ctx
}

// write adds messages to the transcript of the turn, which it does not outlast, whatever ctx is.
func (t *Turn) write(ctx context.Context, messages ...Message) error {
	later := t.outlasting(ctx)
	defer later.end()
	_, err := t.log.write(later, false, messages...) //nolint:contextcheck // it is made of ctx
	return err
}

// Spend accounts for one call of the Model of the turn. An error that is [ErrBudget] says that the
// budget does not allow another. Input, Output and Cost count against budgets; CacheRead and
// CacheWrite are summed in RunInfo.Result.Usage and do not. If the Cost is zero it is what
// [Models.Prices] give. The error is [ErrStale] after the turn.
//
// What a turn has spent is its Result.Usage, unless the Runner returns one of its own. That counts
// as one call of Result.Model, and without a Cost has that of its price.
func (t *Turn) Spend(ctx context.Context, u Usage) error { return t.SpendOn(ctx, "", u) }

// SpendOn is [Turn.Spend] for a call of another model than that of the turn: its price counts, and
// [Runtime.Usage] tells it apart. The model may be an alias. Empty: the Model of the turn. A Loop
// names the [ModelResponse.Model]. The errors are those of Spend.
func (t *Turn) SpendOn(ctx context.Context, model string, u Usage) error {
	if err := t.rt.checked(ctx); err != nil {
		return err
	}
	if t.over.Load() {
		return t.stale()
	}
	if model == "" && t.Announces {
		model = t.Model // which need not be that of the run
	}
	return t.spawn.SpendOn(ctx, t.rt.cfg().modelNamed(model), t.priced(model, u))
}

// Inbox takes what has arrived since the turn began: steers, follow-ups, completions. They are in
// the transcript then. The error is [ErrStale] after the turn, the cause of ctx, or that of the
// store.
func (t *Turn) Inbox(ctx context.Context) ([]Message, error) {
	if err := t.rt.checked(ctx); err != nil {
		return nil, err
	}
	if err := t.enter(); err != nil {
		return nil, err
	}
	defer t.gate.RUnlock()
	t.log.taking.Add(1)
	in, err := t.spawn.Take(ctx)
	if err != nil {
		return nil, err // they may count as consumed all the same
	}
	if len(in) == 0 {
		t.log.took(nil)
		return nil, nil
	}
	t.noteAsked(in)
	t.rt.loadResults(ctx, in)
	messages := t.rt.messagesOf(ctx, t, in)
	if err = t.write(ctx, messages...); err == nil {
		t.log.took(in)
	}
	return tellSenders(t.Session.Key, t.rt.hot.ids, messages), err
}

// noteAsked notes which message of a person is the last that the turn has consumed.
func (t *Turn) noteAsked(inputs []spawn.Input) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, in := range inputs {
		if in.Class == spawn.InputUser {
			t.asked = in.ID
		}
	}
}

// replyTo returns the ID of the message that a reply with these tags answers, or "": the model
// named none, the turn consumed no message of a person, or the last one had no ID.
func (t *Turn) replyTo(tags announce.ReplyTags) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if tags.Current {
		return t.asked
	}
	return tags.To
}

// Call calls one of the Tools by its name. The Parts of the result are those that the transcript
// can keep, with their bytes in the Store: [Turn.OpenFile] reads them. A name that is not among the
// Tools is an error. So is [ErrStale] after the turn. Else the error is that of the tool.
func (t *Turn) Call(ctx context.Context, c ToolCall) (ToolResult, error) {
	if err := t.rt.checked(ctx); err != nil {
		return ToolResult{}, err
	}
	for _, tool := range t.Tools {
		if tool.Name == c.Name {
			t.noteCall(tool.Effect)
			return tool.Call(ctx, c)
		}
	}
	if err := t.err(); err != nil {
		return ToolResult{}, err
	}
	cfg := t.rt.cfg()
	if v, ok := t.spawn.Withheld(c.Name); ok && slices.Contains(cfg.allToolNames(), c.Name) {
		return ToolResult{}, withheldError(v)
	}
	if slices.Contains(t.spawn.Authority.Tools, c.Name) { // the turn has had it
		if _, err := t.mayCall(ctx, cfg, c.Name); err != nil {
			return ToolResult{}, err
		}
	}
	return ToolResult{}, fmt.Errorf("agent: no tool %s in this session", t.rt.quote(c.Name))
}

// Senders returns the people for whom the turn works, and whose least may says which tools it
// has: those whose messages it has read, and those for whom the sessions and sub-agents worked
// of which it has read something. Of a sub-agent they are those of all its runs so far.
// [Turn.Inbox] may add to them. They are on record whatever the rules ask. Nil: no one, as far as
// is known. The Runner must not change the list.
func (t *Turn) Senders() []policy.Sender { return t.spawn.Senders() }

// Hear has the turn work for people from now on, beside its Senders: those for whom another session
// has worked whose words the Runner, or a tool, is about to show the model. It returns when that is
// durable; then the tools that those may not use are refused, and what the turn spawns and sends
// is bound by them. A crash does not undo it; the next turn has everything again. The tools that
// return a reply or a conversation of a sub-agent do it themselves, and so do the calls that wait
// for runs or replies under the context of the turn: Child.Wait, [Join], PostAndWait. No people
// change nothing.
//
// After an error the words are not to be shown. It is an *[InputError] or *[LimitError] for a
// Sender that cannot be kept, [ErrStale], or one that every command can return.
func (t *Turn) Hear(ctx context.Context, of ...policy.Sender) error {
	if err := t.rt.checked(ctx); err != nil {
		return err
	}
	if err := t.err(); err != nil {
		return err
	}
	return inOurWords(t.spawn.Hear(ctx, of...))
}

// noteCall notes that a tool with such an Effect is called.
func (t *Turn) noteCall(e Effect) {
	if !e.isRepeatable() {
		t.worked.Store(true)
	}
}

// untouched returns the error of a turn. A shutdown leaves a turn untouched whose Runner was not
// called, and one whose Runner says so with [ErrUntouched] and has done nothing.
func (t *Turn) untouched(ctx context.Context, err error) error {
	switch {
	case err == nil || !errors.Is(context.Cause(ctx), ErrShutdown):
		return err
	case !t.entered:
		return fmt.Errorf("%w: %w", ErrUntouched, err)
	case t.worked.Load() && errors.Is(err, ErrUntouched):
		return fmt.Errorf("agent: the turn has done something: %w", context.Cause(ctx))
	}
	return err
}

// Spawn starts a sub-agent of this session and returns at once. With Task.Announce its end comes to
// this session as an input; either way the session does not end before it. The function [Spawn]
// takes a Turn, too, for results of another type than string.
//
// The Child belongs to the turn, and its verbs end with the turn. The errors are [ErrStale] and
// those of the function [Spawn].
func (t *Turn) Spawn(ctx context.Context, task Task) (*Child[string], error) {
	return Spawn[string](ctx, t, task)
}

// spawnRun implements Requester.
func (t *Turn) spawnRun(ctx context.Context, q spawn.Request) (info RunInfo, err error) {
	if err := t.rt.checked(ctx); err != nil {
		return info, err
	}
	q.Policy.Model = t.rt.cfg().modelNamed(q.Policy.Model)
	if err := t.err(); err != nil {
		return info, err
	}
	if q.Thread && !q.Dry {
		info, err = t.rt.spawnBound(ctx, boundSpawn{
			requester: t.Session.Key, root: t.Session.Root, request: q, spawn: t.spawn.Spawn,
		})
	} else {
		info, err = t.spawn.Spawn(ctx, q)
	}
	return info, inOurWords(err)
}

// waitRoot implements Requester.
func (t *Turn) waitRoot(context.Context) (session.Key, error) { return t.Session.Root, nil }

// sessionKey implements Requester.
func (t *Turn) sessionKey() session.Key { return t.Session.Key }

// actor implements Requester.
func (t *Turn) actor() (*Runtime, *Turn) { return t.rt, t }

// Wait waits for sub-agents within the turn: it is [Join] from the turn. The errors are those of
// Join.
func (t *Turn) Wait(
	ctx context.Context, children []*Child[string], opt JoinOptions,
) ([]Outcome[string], error) {
	return Join(ctx, t, children, opt)
}

// Steer gives a sub-agent below this session a message without restarting it, as [Child.Steer]
// does. The errors are [ErrStale], [ErrNotFound] for a session that is not below this one, and
// those of Child.Steer.
func (t *Turn) Steer(ctx context.Context, key session.Key, text string) error {
	return t.steer(ctx, spawn.RunRef{Session: key}, spawn.Incoming{Text: text})
}

func (t *Turn) steer(ctx context.Context, run spawn.RunRef, m spawn.Incoming) error {
	if err := t.rt.checked(ctx); err != nil {
		return err
	}
	if err := t.err(); err != nil {
		return err
	}
	return t.rt.commandOrArchived(ctx, run.Session, t.spawn.Steer(ctx, run, m))
}

// Yield says that the session now waits for its sub-agents, without a turn, a slot or a model call,
// and goes on with another turn when the wait is over. It takes effect when the Runner returns.
// What people say still wakes the session. What has not ended when that turn begins is announced to
// the session with [RestAnnounce] when it ends, and stopped with [RestStop].
//
// A wait for a sub-agent that has ended since the turn began, or which Spawn has found ended by its
// Task.Key and not archived, as after a crash, is over at once: another turn follows. Where there
// is nothing to wait for, no turn follows, and the session has answered what its Runner returned.
// That is so, too, in a turn that came of a wait and has found sub-agents that have ended alone.
func (t *Turn) Yield(opt JoinOptions) {
	if t.err() != nil {
		return
	}
	t.mu.Lock()
	t.yielded = true
	t.mu.Unlock()
	t.spawn.Yield(opt)
}

// yieldByModel is Yield as a model asks for it. It returns how long the session waits at most; zero
// is without limit.
func (t *Turn) yieldByModel(ctx context.Context, opt JoinOptions) (time.Duration, error) {
	if err := t.err(); err != nil {
		return 0, err
	}
	within, err := t.spawn.YieldByModel(ctx, opt)
	if err == nil {
		t.mu.Lock()
		t.yielded = true
		t.mu.Unlock()
	}
	return within, err
}

func (t *Turn) hasYielded() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.yielded
}

// MaxState is how many bytes a session keeps for its Runner; see [Turn.SetState].
const MaxState = spawn.MaxState

// State returns what the session keeps for its Runner, as [Turn.SetState] has set it in this turn,
// or in an earlier one, of whatever run of the session and in whatever process; nil for nothing.
// The caller may change what it gets. State works after the turn, too.
func (t *Turn) State() []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	return bytes.Clone(t.state)
}

// SetState has the session keep something for its Runner, such as the id that a foreign agent has
// given to its side of the conversation. It takes the place of what the session kept before. Nil
// and empty: the session keeps nothing.
//
// It is durable when SetState returns, and stands whatever becomes of the turn: after a crash the
// turn that repeats it has it. A Runner sets the id as soon as it has it, so that no crash makes
// the foreign agent begin anew. A turn that was cancelled can set it within its grace period.
//
// Later runs of the session have it, and so has a session that [Session.Revive] brings back.
// [Session.Reset] and [Runtime.DeleteSession] begin a new conversation, which has none. A sub-agent
// has nothing of its requester, also if it begins with a copy of the conversation. The state is
// shown to no model and to no person, and stands in the journal as it is: it is not for secrets.
//
// The error is a *[LimitError] for more than [MaxState] bytes, [ErrStale] after the turn, or one
// that every command can return; then the state may be set again.
func (t *Turn) SetState(ctx context.Context, state []byte) error {
	if err := t.rt.checked(ctx); err != nil {
		return err
	}
	if t.over.Load() {
		return t.stale()
	}
	t.worked.Store(true)
	if err := t.spawn.SetState(ctx, state); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.state = nil
	if len(state) > 0 {
		t.state = bytes.Clone(state)
	}
	return nil
}
