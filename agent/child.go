package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"strings"
	"time"

	agentctx "github.com/offshoot-sdk/offshoot/context"
	"github.com/offshoot-sdk/offshoot/internal/enum"
	"github.com/offshoot-sdk/offshoot/internal/jsonschema"
	"github.com/offshoot-sdk/offshoot/internal/secret"
	"github.com/offshoot-sdk/offshoot/internal/text"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// A Task is what a sub-agent is asked to do. Only Text is required.
type Task struct {
	Text  string // verbatim in the first message
	Label string // for people, on one line, see Limits.Label; what is not drawn is taken out
	// Name is what the session calls the child, as a target of its tools: a letter from a to z,
	// then at most 63 of a-z, 0-9, "_" and "-", but not "all", "last" or the form of a run id. It
	// names one child of the session, the one that was given it last; while that one has not ended,
	// another Spawn with the Name is a *[spawn.NameTakenError]. Empty: it has none. See
	// [Session.Named].
	Name string
	// Key makes the spawn idempotent: spawning twice with one Key, even after a restart, gives the
	// same child. Another Task with the same Key is a *[spawn.KeyConflictError], for seven days
	// after the child has been archived: every field is compared but Again and Senders, and so is
	// every byte of the Attachments. The type of the result is not compared. The keys that
	// session tools make of a model's call ids are others, whatever their text. As long as the Key
	// is known, so is what has become of the child: its Wait, Info and Join give that also after
	// the child has been archived.
	Key string
	// Again has the Key start another child, in a new session, if the last one was cut short: its
	// process died in its turn, or that of a sub-agent above it did, or a shutdown cut it after it
	// had done something. Whatever else has become of the last one is what Spawn gives, and so is
	// the last one while it is alive. Set it where the work may be done twice: see
	// docs/doing-again.md. Without a Key it has no effect.
	Again bool

	Agent    string // empty: the session's own
	Model    string // full name or alias; empty: as the rules say, else the caller's
	Thinking string // likewise
	// Timeout is that of the run, from its first turn; zero: as the rules say; policy.Off: none.
	Timeout time.Duration
	Spec    agentctx.Spec // what it sees; zero: as the Config says
	Tools   []string      // narrows what the child may use; nil: all that policy leaves it
	// Budget is that of the child and everything below it, for its life. It may be exceeded by what
	// the turns spend that are under way when it runs out.
	Budget  policy.Budget
	Sandbox bool // refuse unless the child runs in a sandbox
	// Dir is the directory that the child works in, inside the [Config.WorkDir] of its agent: a
	// path that is relative to it, or absolute. It must be there. What leads out of the work
	// directory, links included, is refused at the spawn, and fails a later turn if it has become
	// so. The child works where the path leads to at the spawn, also after a restart and in its
	// later runs. It has at most 4,096 bytes. Empty: the work directory itself, wherever the
	// requester works.
	Dir string
	// Runtime names the external program that the child runs in, one of [Runners].Runtimes. Empty
	// and "subagent": it runs as its agent does. One that is not configured, or not for the agent,
	// and one for a session in a sandbox, is a *[policy.Refusal].
	Runtime string
	// Stream, beside Runtime, has the session find what the program says as it works, as Milestones
	// does with what it reports: the newest, with its next turn. See docs/runtimes.md.
	Stream bool
	// Strict refuses an invalid model instead of passing it over with a warning.
	Strict bool
	// Thread gives the sub-agent a conversation of its own: people see what it says there, and what
	// they write there goes to it. [Config.Threads] must allow it.
	Thread bool
	// Mode says whether the conversation stays bound when the run has ended; see [TaskMode].
	Mode TaskMode
	// Conversation, beside Thread, is where: a Route with a Thread is bound as it is, in any other
	// one a thread is created. Zero: a thread is created where the session talks to people. Beside
	// Update without Thread it is where the update is said, and Config.Route is not asked.
	Conversation session.Route
	// Attachments are files that the child is given: see [Attachment]. Rules.Attachments bound
	// them.
	Attachments []Attachment
	// AttachAs, beside Attachments, tells the child where the requester thinks of them as being: at
	// most 256 of letters, digits and ._-/: without ".." in between. It is a hint, and nothing is
	// put there.
	AttachAs string
	// Announce also delivers the result to the session, as a model's spawn does.
	Announce bool
	// Update says the result to the chat itself when the sub-agent has ended, by Config.Reply and
	// without a turn of the session: for what a person has asked for by hand. The text names the
	// Label and how it ended, see [announce.Event.Update]; nothing is said if it chose silence. It
	// is for top-level sessions, excludes Announce, and needs Config.Reply. A follow-up to the
	// sub-agent has none.
	Update bool
	// Milestones also has the session find what the sub-agent reports as a milestone, see
	// [Turn.Report].
	Milestones bool
	// Senders are people on whose behalf a program spawns, beside those for whom the turn works
	// that does: the child, and all that comes of it, may use what the least of them may. See
	// [Session.SendersOf]. The Key does not tell them apart.
	Senders []policy.Sender

	// Cleanup says what becomes of the session after its end. With CleanupDelete it is archived as
	// soon as its requester has read the end, or at once if there is none to tell, whatever
	// Rules.Subagents.ArchiveAfter says; so is everything below it. It has no effect on a session
	// to which a conversation stays bound.
	//
	// A program that waits for such a child gets its outcome as long as it began to wait before the
	// archive. Under a Key the outcome is kept.
	Cleanup Cleanup

	byModel bool          // a model asks
	route   session.Route // see Config.Route
	given   given         // by the spawn
	origin  string        // see spawn.Request.Origin
	id      RunID         // of the run, if it is known before the spawn; empty: Spawn makes one
}

// A Cleanup says what becomes of a sub-agent's session after its end.
type Cleanup uint8

// The ways to clean up.
const (
	CleanupKeep   Cleanup = iota // it is archived after Rules.Subagents.ArchiveAfter
	CleanupDelete                // it is archived as soon as its end was read
)

var cleanupNames = [...]string{"keep", "delete"}

// String returns "keep" or "delete".
func (c Cleanup) String() string { return enum.String(cleanupNames[:], "Cleanup", c) }

// MarshalText returns the name. A value that is not a Cleanup is an error.
func (c Cleanup) MarshalText() ([]byte, error) {
	return enum.Marshal(cleanupNames[:], "agent", "cleanup", c)
}

// UnmarshalText sets c to the Cleanup of that name, in any letter case of ASCII.
func (c *Cleanup) UnmarshalText(text []byte) error {
	return enum.Unmarshal(cleanupNames[:], "agent", "cleanup", text, c)
}

// runExtra is what is kept with a run beyond what the spawn package knows.
type runExtra struct {
	Spec     agentctx.Spec   `json:"spec,omitzero"`
	Schema   json.RawMessage `json:"schema,omitempty"`
	Type     string          `json:"type,omitempty"` // of Go, see resultTypes
	Fork     fork            `json:"fork,omitzero"`
	Attached attached        `json:"attached,omitzero"`
	Dir      string          `json:"dir,omitempty"` // below the work directory of the agent
	// Runtime is the external runtime that runs the turns; empty: none. With Stream what it says is
	// told to the requester.
	Runtime string `json:"runtime,omitempty"`
	Stream  bool   `json:"stream,omitempty"`
}

func decodeRunExtra(data []byte) (runExtra, error) {
	if len(data) == 0 {
		return runExtra{}, nil // and none on the heap: it is asked for three times in a turn
	}
	return parseRunExtra(data)
}

func parseRunExtra(data []byte) (x runExtra, err error) {
	if err = json.Unmarshal(data, &x); err != nil {
		err = fmt.Errorf("agent: the journal holds a run with an unreadable context: %w", err)
	}
	return x, err
}

// A Requester is what sub-agents are spawned from and waited for: a *[Session], or the *[Turn] of
// one. What is spawned from a Turn belongs to the turn: no spawn, and no verb of the Child,
// outlives it.
type Requester interface { //nolint:interfacebloat // only a Session and a Turn have it
	spawnRun(ctx context.Context, q spawn.Request) (RunInfo, error)
	// waitRoot returns the tree that the requester waits in.
	waitRoot(ctx context.Context) (session.Key, error)
	sessionKey() session.Key
	// forkHere names the conversation as a sub-agent that is spawned now may begin with it. Its
	// Through is zero if there is none.
	forkHere(ctx context.Context) (fork, error)
	// deposit has the files of a sub-agent be put before it is spawned, see
	// [spawn.Supervisor.Deposit].
	deposit(ctx context.Context, q spawn.Request, with func(spawn.Deposit) error) error
	actor() (rt *Runtime, turn *Turn)
}

// checkRequester returns an *InputError for a nil Requester.
func checkRequester(from Requester, purpose string) error {
	if from == nil || reflect.ValueOf(from).IsNil() {
		return &InputError{
			Field: "from", Reason: "there is no session or turn to " + purpose + " from",
		}
	}
	return nil
}

// A Child is a handle on a sub-agent whose result is a T. If it was spawned from a [Turn], its
// verbs return an error that is [ErrStale] once the turn is over. A program that goes on with the
// sub-agent takes [Runtime.Session] of its Key.
type Child[T any] struct {
	rt   *Runtime
	root session.Key
	key  session.Key
	id   spawn.RunID
	turn *Turn // that the handle belongs to; nil: it outlives turns
}

// Spawn starts a sub-agent of a session and returns at once, when that is durable. T is string for
// the text of the result; any other T is decoded from JSON, whose schema the Runner finds in
// Turn.Schema. A result that does not fit the schema of T, with null and members that are missing,
// unknown, there twice, of another type or out of range, has the sub-agent answer again, at most
// twice. Then the run has failed, and the Outcome has a *[ResultError]. Prose around the JSON is
// passed over if exactly one value in it fits. docs/typed-results.md says the rest.
//
// The result of a Key that is spawned again is held against the T of today: a member that a program
// adds to its T should be optional.
//
// A T without a schema gives an error: it contains itself, or has a field that JSON cannot
// represent.
//
// A spawn beyond a limit is refused, and not queued: with the default of five active children of a
// session, a sixth is, until one has ended. What is admitted and finds no free slot is queued. A
// budget, of the Task or of the Rules, lasts for the life of the run or the tree, and may be
// exceeded by what the turns spend that are under way when it runs out.
//
// With agentctx.HistoryFork in its Spec the sub-agent begins with a copy of the conversation: from
// a Turn with what that has read and recorded, up to the message whose tool calls are under way;
// from a Session with what is committed. The copy is made when the first turn begins, and is what
// it was at the spawn. If it cannot be read then, the run fails without a call of the Runner.
//
// A rule that refuses gives a *[policy.Refusal], Hooks.Spawning a *[VetoError], and that function,
// Models.Valid or Rules.Sandbox.Decide that panics a *[spawn.CallbackError]. The Key of another
// task gives a *[spawn.KeyConflictError]. A field that cannot be accepted, such as a fork of a
// session that has no conversation here, gives an *[InputError], which is a *[LimitError] for one
// that is too long, and a requester that has ended or is to end [ErrEnded] or [spawn.ErrStopping],
// or [ErrArchived] if it was archived. With Thread it may be a *[binding.Error], which is
// [binding.ErrBound] where the conversation is that of another session, or a *[CallbackError] of
// the ThreadHost. Else the error is one that every command can return: after [ErrUnconfirmed] spawn
// again with the same Key.
func Spawn[T any](ctx context.Context, from Requester, t Task) (*Child[T], error) {
	if err := checkRequester(from, "spawn"); err != nil {
		return nil, err
	}
	schema, err := ResultSchema[T]()
	if err != nil {
		return nil, err
	}
	rt, turn := from.actor()
	x := runExtra{Spec: t.Spec, Schema: schema, Type: learnType[T](&rt.results, schema)}
	info, err := t.spawn(ctx, from, x)
	if err != nil {
		return nil, err
	}
	return &Child[T]{rt: rt, root: info.Root, key: info.Key, id: info.ID, turn: turn}, nil
}

// ResultSchema returns the JSON Schema that the result of a Spawn[T] must fit, as the prompt of the
// sub-agent and Turn.Schema have it; nil for a T that is a string, which any text fits. The error
// is that of a T without a schema, such as a channel or a type that contains itself.
func ResultSchema[T any]() (json.RawMessage, error) {
	if isText[T]() {
		return nil, nil
	}
	schema, _, err := jsonschema.For[T]()
	if err != nil {
		return nil, fmt.Errorf("agent: a result of type %v: %w", reflect.TypeFor[T](), err)
	}
	return schema, nil
}

// spawn starts the sub-agent of the task, with what is kept with its run.
func (t *Task) spawn(ctx context.Context, from Requester, x runExtra) (info RunInfo, err error) {
	rt, _ := from.actor()
	if err := t.check(rt.cfg().Rules.AgentOf(from.sessionKey())); err != nil {
		return info, err
	}
	var attachments error // before a Reader is read from
	if len(t.Attachments) > 0 {
		attachments = attachmentError(t.checkAttachments(rt.cfg(), false))
	}
	info, err = t.spawnChecked(ctx, from, x)
	return info, orWrong(err, func() error {
		return cmp.Or(t.wrong(rt.cfg(), from, x), attachments)
	})
}

// wrong returns what is wrong with a task that check has taken by itself, whatever is on record and
// the rules say, or nil; what is wrong with its attachments it leaves out. A spawn that was cut off
// asks it. One that comes to its decision is refused for the same on the way.
func (t *Task) wrong(c *Config, from Requester, x runExtra) error {
	if err := t.checkUpdate(c); err != nil {
		return err
	}
	q, err := t.request(x)
	if err != nil {
		return err
	}
	q.Dry, q.Bind = true, q.Bind.Clean() // a conversation that it has not may still be created
	if err := q.Validate(c.Limits.spawn()); err != nil {
		return inOurWords(err)
	}
	if t.Stream && t.external() == "" {
		_, err := c.runtimeFor(t, from.sessionKey())
		return err
	}
	if t.Dir != "" && c.WorkDir == nil {
		_, err := c.workPlace(t.agentFor(from), t.Dir)
		return err
	}
	return nil
}

// spawnChecked starts the sub-agent of a task that check has taken.
func (t *Task) spawnChecked(
	ctx context.Context, from Requester, x runExtra,
) (info RunInfo, err error) {
	if x.Fork, err = t.forkOf(ctx, from); err != nil {
		return info, err
	}
	if err := t.findRoute(ctx, from); err != nil {
		return info, err
	}
	if t.Dir == "" && t.external() == "" && !t.Stream && len(t.Attachments) == 0 {
		q, err := t.request(x)
		if err != nil {
			return info, err
		}
		return from.spawnRun(ctx, q)
	}
	own := *t // it outlives the call, and so most tasks need not be on the heap (BenchmarkDeliver)
	info, err = own.spawnEquipped(ctx, from, x)
	t.given = own.given
	return info, err
}

// spawnEquipped is spawnChecked for a task with what is looked at before it is spawned.
func (t *Task) spawnEquipped(
	ctx context.Context, from Requester, x runExtra,
) (info RunInfo, err error) {
	t.id = RunID(session.NewID()) // Hooks.Spawning is asked first, and told of that run
	if info, err = t.equip(ctx, from, &x); err != nil || info.ID != "" {
		return info, err
	}
	if len(t.Attachments) > 0 {
		return t.spawnAttached(ctx, from, x)
	}
	q, err := t.request(x)
	if err != nil {
		return info, err
	}
	q.Asked = true
	return from.spawnRun(ctx, q)
}

// isSaidThere reports whether the Conversation of the task is where its update is said.
func (t *Task) isSaidThere() bool { return t.Update && !t.Thread && !t.Conversation.IsZero() }

// checkUpdate refuses an update that no person would see.
func (t *Task) checkUpdate(c *Config) error {
	if t.Update && c.Reply == nil {
		return &InputError{Field: "Task.Update", Reason: "the Config has no Reply"}
	}
	return nil
}

// findRoute asks Config.Route where what comes of the task is said.
func (t *Task) findRoute(ctx context.Context, from Requester) error {
	rt, _ := from.actor()
	if t.isSaidThere() {
		t.route = t.Conversation
	}
	if err := t.checkUpdate(rt.cfg()); err != nil || rt.cfg().Route == nil || t.isSaidThere() {
		return err
	}
	q := RouteRequest{
		From: from.sessionKey(), Agent: t.agentFor(from), Label: t.Label, Update: t.Update,
	}
	route, err := asked(ctx, rt, q.From, "Route", func(ctx context.Context) (session.Route, error) {
		return rt.cfg().Route(ctx, q)
	})
	t.route = route
	if err != nil && (ctx.Err() != nil || rt.bindings.cut() != nil) {
		return err
	}
	if err != nil { // people are told where they would be without it
		rt.log.Warn("offshoot: Config.Route failed", "session", from.sessionKey().String(),
			"error", rt.redact(err).Error())
	}
	return nil
}

// maxDir is how many bytes a Task.Dir has at most: no system of ours takes a longer path.
const maxDir = 4096

// check returns what is wrong with the task by itself, where own is the agent of its requester. A
// spawn and its preview ask it first.
func (t *Task) check(own string) error {
	if err := t.Spec.Validate(); err != nil {
		return err
	}
	if err := t.checkHint(); err != nil {
		return err
	}
	if _, err := t.mode(); err != nil {
		return err
	}
	if t.Update && t.Announce {
		return &InputError{Field: "Task.Update", Reason: "it excludes Announce"}
	}
	if n := len(t.Dir); n > maxDir {
		long := &LimitError{
			Field: "Task.Dir", Size: n, Limit: maxDir, Unit: "bytes", Path: "Config.WorkDir",
		}
		var said *InputError
		errors.As(long, &said)
		return &DirError{t.Dir, t.agentBelow(own), said.Reason, errors.Join(fs.ErrInvalid, long)}
	}
	if t.Cleanup > CleanupDelete {
		return &InputError{Field: "Task.Cleanup", Reason: t.Cleanup.String() + " is not one"}
	}
	return nil
}

// request returns a task that check has taken as the spawn package takes it.
func (t *Task) request(x runExtra) (q spawn.Request, err error) {
	keep, _ := t.mode()
	q = spawn.Request{
		ID: t.id, Task: t.Text, Label: t.Label, Name: t.Name, Key: t.Key, Announce: t.Announce,
		Milestones: t.Milestones || t.Stream, Origin: t.origin, Again: t.Again,
		Update: t.Update, Route: t.route, Senders: t.Senders,
		Delete: t.Cleanup == CleanupDelete,
		Thread: t.Thread, Session: keep, Bind: t.Conversation, Place: t.Conversation,
		Policy: policy.Request{
			Agent: t.Agent, Model: t.Model, Thinking: t.Thinking, Timeout: t.Timeout,
			Tools: t.Tools, Budget: t.Budget,
			RequireSandbox: t.Sandbox, Strict: t.Strict, ByModel: t.byModel,
			Fork: !x.Fork.IsZero(), Runtime: t.external(),
		},
	}
	if t.isSaidThere() {
		q.Bind = session.Route{}
	}
	if !reflect.ValueOf(t.Spec).IsZero() {
		spec, err := json.Marshal(t.Spec)
		if err != nil {
			return q, fmt.Errorf("agent: comparing the context of a run: %w", err)
		}
		q.Variant = string(spec)
	}
	q.Variant += t.dirVariant() + t.runtimeVariant() + x.Attached.variant()
	if !reflect.ValueOf(x).IsZero() {
		if q.Extra, err = json.Marshal(x); err != nil {
			return q, fmt.Errorf("agent: keeping the context of a run: %w", err)
		}
	}
	return q, nil
}

// spawnRun implements Requester.
func (s *Session) spawnRun(ctx context.Context, q spawn.Request) (info RunInfo, err error) {
	root, err := s.commandTree(ctx)
	if err != nil {
		return info, s.rt.commandOrArchived(ctx, s.key, err)
	}
	s.rt.expectRun()
	q.Policy.Model = s.rt.cfg().modelNamed(q.Policy.Model)
	if q.Thread && !q.Dry {
		info, err = s.rt.spawnBound(ctx, boundSpawn{
			requester: s.key, root: root, request: q,
			spawn: func(ctx context.Context, q spawn.Request) (RunInfo, error) {
				return s.rt.sup.Spawn(ctx, root, s.key, q)
			},
		})
	} else {
		info, err = s.rt.sup.Spawn(ctx, root, s.key, q)
	}
	if refusal, ok := errors.AsType[*policy.Refusal](err); ok && refusal.Rule == policy.RuleCaller {
		if _, gone := s.present(ctx, (*spawn.Supervisor).RootOf); errors.Is(gone, ErrNotFound) {
			err = gone
		}
	}
	return info, s.rt.commandOrArchived(ctx, s.key, inOurWords(err))
}

// inOurWords names what refused something by the field of our Config or Task.
func inOurWords(err error) error {
	ours := func(field, path *string) {
		if strings.HasPrefix(*field, "Rules.") {
			*field = "Config." + *field
		}
		if strings.HasPrefix(*path, "Rules.") {
			*path = "Config." + *path
		}
		if asked, ok := strings.CutPrefix(*path, "Request."); ok {
			*path = "Task." + asked
		}
	}
	if refused, ok := errors.AsType[*policy.Refusal](err); ok {
		ours(&refused.Field, &refused.Path)
		for i := range refused.Removed {
			ours(&refused.Removed[i].Field, &refused.Removed[i].Path)
		}
	}
	if failed, ok := errors.AsType[*spawn.CallbackError](err); ok {
		failed.Callback = functionField(failed.Callback)
	}
	return err
}

// functionField returns the field of the Config that has a function of the spawn package.
func functionField(name string) string {
	switch name {
	case "ValidModel":
		return "Models.Valid"
	case "Spawning":
		return "Hooks.Spawning"
	}
	return name
}

// waitRoot implements Requester.
func (s *Session) waitRoot(ctx context.Context) (session.Key, error) {
	return s.treeBy(ctx, (*spawn.Supervisor).WaitRootOf)
}

// sessionKey implements Requester.
func (s *Session) sessionKey() session.Key { return s.key }

// actor implements Requester.
func (s *Session) actor() (*Runtime, *Turn) { return s.rt, s.turn }

func isText[T any]() bool { return reflect.TypeFor[T]().Kind() == reflect.String }

// ChildOf returns the handle on the run that takes a message which [Session.Post] or another call
// has posted to a sub-agent, so that a program can wait for what comes of it. T is as in [Spawn].
//
// The error is that of a T without a schema, an *[InputError] for a from that is nil and for a
// Receipt without a Run, which a top-level session has none of, [ErrShutdown] after a shutdown, the
// cause of a ctx that has ended, or one that every call that reads can return. ChildOf does not
// look for the run: Wait of a Child that is not on record returns [ErrNotFound].
func ChildOf[T any](ctx context.Context, from Requester, r Receipt) (*Child[T], error) {
	if err := checkRequester(from, "wait"); err != nil {
		return nil, err
	}
	schema, err := ResultSchema[T]()
	if err != nil {
		return nil, err
	}
	if r.Run == "" || !r.Session.IsSubagent() {
		return nil, &InputError{
			Field: "receipt", Reason: "it names no run: a top-level session has none",
		}
	}
	root, err := from.waitRoot(ctx)
	if err != nil {
		return nil, err
	}
	rt, turn := from.actor()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err := rt.bindings.ended(); err != nil {
		return nil, err
	}
	learnType[T](&rt.results, schema)
	return &Child[T]{rt: rt, root: root, key: r.Session, id: r.Run, turn: turn}, nil
}

// Key returns the session key of the sub-agent.
func (c *Child[T]) Key() session.Key { return c.key }

// ID returns the id of the run. A later run of the same session has another handle: see
// [Child.Post] and [ChildOf].
func (c *Child[T]) ID() spawn.RunID { return c.id }

// ref names the run.
func (c *Child[T]) ref() spawn.RunRef { return spawn.RunRef{Session: c.key, Run: c.id} }

// Session returns a handle on the sub-agent's session.
func (c *Child[T]) Session() *Session {
	s := c.rt.sessionIn(c.key, c.root)
	s.turn = c.turn
	return s
}

// Post puts a message into the inbox of the sub-agent, as [Session.Post] does, and returns the
// handle on the run that takes it: this one while it has not ended, else the one that the message
// begins. That one is announced to no session: the caller waits for it. The errors are those of
// Session.Post, and [ErrStale] for the child of a turn that is over.
func (c *Child[T]) Post(ctx context.Context, m Incoming) (*Child[T], error) {
	if err := c.check(ctx, "child"); err != nil {
		return nil, err
	}
	r, err := c.Session().Post(ctx, m)
	if err != nil {
		return nil, err
	}
	later := *c
	later.id = r.Run
	return &later, nil
}

// check returns an *InputError if c does not name a sub-agent.
func (c *Child[T]) check(ctx context.Context, field string) error {
	if c == nil || c.rt == nil {
		return &InputError{Field: field, Reason: "it is nil, or was not returned by Spawn"}
	}
	return c.rt.checked(ctx)
}

// Info returns what is known of the run now. A run that a later one has followed stays as it has
// ended. The error is [ErrArchived], which is [ErrNotFound] too, once it has been archived, unless
// it has a [Task].Key, ErrNotFound if it is not kept after several later ones, or one that every
// call that reads can return.
//
// The turn under whose context it is called works for those, too, for whom a run has worked that
// has said something, as after Wait; see docs/senders.md.
func (c *Child[T]) Info(ctx context.Context) (RunInfo, error) {
	if err := c.check(ctx, "child"); err != nil {
		return RunInfo{}, err
	}
	if c.turn == nil {
		info, err := c.rt.sup.Find(ctx, c.root, c.ref())
		if err != nil {
			return info, c.rt.orOutcomeGone(ctx, err, c.ref())
		}
		return shownIn(ctx, info, info)
	}
	if err := c.turn.err(); err != nil {
		return RunInfo{}, err
	}
	info, err := c.turn.spawn.Find(ctx, c.ref())
	if err == nil {
		err = c.turn.Hear(ctx, sendersOfWords(info)...)
	}
	if err != nil {
		return RunInfo{}, c.rt.orOutcomeGone(ctx, err, c.ref())
	}
	return info, nil
}

// shownIn returns what a call answers with that has read runs. The turn under whose context ctx is
// works for those for whom these have worked, before it has their words.
func shownIn[A any](ctx context.Context, answer A, runs ...RunInfo) (A, error) {
	err := spawn.HearUnder(ctx, func() ([]policy.Sender, error) {
		return sendersOfWords(runs...), nil
	})
	if err != nil {
		var none A
		return none, inOurWords(err)
	}
	return answer, nil
}

// sendersOfWords returns the people for whom those of some runs have worked that have said
// something.
func sendersOfWords(runs ...RunInfo) (of []policy.Sender) {
	for i := range runs {
		r := &runs[i]
		if r.Status.Terminal() || r.Result.Text != "" || len(r.Result.JSON) > 0 ||
			r.Announcement != "" {
			of = policy.MergeSenders(of, r.Senders)
		}
	}
	return of
}

// orOutcomeGone says that one of the sessions was archived, and how an outcome is kept, where err
// is that a run is not found.
func (rt *Runtime) orOutcomeGone(ctx context.Context, err error, of ...spawn.RunRef) error {
	if !errors.Is(err, ErrNotFound) {
		return err
	}
	for _, ref := range of {
		gone := rt.orArchived(ctx, ref.Session, err)
		switch {
		case errors.Is(gone, ErrArchived):
			return fmt.Errorf("%w (that of the run which a Task.Key began stays for seven days)", gone)
		case !errors.Is(gone, ErrNotFound): // its transcript cannot be read
			return gone
		}
	}
	return err
}

// Steer gives the sub-agent a message without restarting it: at most 4,000 characters, at most one
// in two seconds. Its Runner finds it in Turn.Inbox, or the next turn begins with it; a run whose
// last turn is over has missed it, and RunInfo.Missed counts it at the end of the run.
//
// The error is an *[InputError] for a text that is blank or too long, a *[policy.Refusal] for a
// steer that comes too soon, [ErrEnded] or [spawn.ErrStopping] for a run that has ended, also if a
// later one has followed it, or is to end, [ErrArchived], which is [ErrNotFound] too, once it has
// been archived, or one that every command can return.
func (c *Child[T]) Steer(ctx context.Context, text string) error {
	return c.SteerFor(ctx, text)
}

// SteerFor is [Child.Steer] on behalf of people, who bind the run from then on: see
// [Session.SendersOf]. The errors are those of Steer, an *[InputError] for what is not UTF-8 in a
// Sender, and a *[LimitError] for what is too long.
func (c *Child[T]) SteerFor(ctx context.Context, text string, senders ...policy.Sender) error {
	return c.SteerOnce(ctx, "", text, senders...)
}

// SteerOnce is [Child.SteerFor] with an id of the message, as that of [Incoming] is for
// [Session.Post]: a message with an id that the sub-agent has got already is not given to it again,
// however soon it comes and also if the run has ended since, and the error is nil. An empty id is
// that of no other message. The errors are those of SteerFor, and an *[InputError] for an id that
// cannot be one.
func (c *Child[T]) SteerOnce(
	ctx context.Context, id, text string, senders ...policy.Sender,
) error {
	if err := c.check(ctx, "child"); err != nil {
		return err
	}
	m := spawn.Incoming{ID: id, Text: text, Senders: senders}
	if c.turn == nil {
		return c.rt.commandOrArchived(ctx, c.key, c.rt.sup.Steer(ctx, c.root, c.root, c.ref(), m))
	}
	return c.turn.steer(ctx, c.ref(), m)
}

// Stop ends the run and everything below it, and returns when nothing of it is alive. A later run
// of the session goes on: then nothing of this one is alive, and Stop returns nil. The errors are
// those of [Session.Stop].
func (c *Child[T]) Stop(ctx context.Context) error {
	if err := c.check(ctx, "child"); err != nil {
		return err
	}
	if c.turn == nil {
		return c.rt.sup.StopRun(ctx, c.root, c.ref(), "stopped by the caller")
	}
	if err := c.turn.err(); err != nil {
		return err
	}
	return c.turn.spawn.Stop(ctx, c.ref(), "stopped by its requester")
}

// Wait waits for the end of the run and returns its result. Later runs of its session change
// nothing of that, as long as the session keeps the run: its first one, its last two, and each
// whose end is still to be read. One that is kept no longer is [ErrNotFound]. A run that did not
// end well gives a *RunError, one whose result is not a T gives a *ResultError. Within a turn, wait
// under the turn's context: it holds no slot meanwhile. Before [Runtime.Run] runs, Wait waits for
// that too. Else the error is the cause of ctx, an *[InputError] for the run of the turn that waits
// or one above it, one that is as for Info, or one that every call that waits can return.
// [ErrUnreadable] says that the whole of a long result was removed from the
// archive: Info has its beginning.
//
// A Wait that has begun before the run is archived gets its result. One that begins later gets it
// only of a run with a Task.Key, whose outcome is kept for seven days: a child with
// [CleanupDelete] is archived as soon as its end has been read or delivered.
func (c *Child[T]) Wait(ctx context.Context) (T, error) {
	if err := c.check(ctx, "child"); err != nil {
		var zero T
		return zero, err
	}
	outcomes, err := join(ctx, c.turn, c.root, []*Child[T]{c}, JoinOptions{})
	if len(outcomes) == 1 && (outcomes[0].Run.Status.Terminal() || err == nil) {
		return outcomes[0].Value, outcomes[0].Err
	}
	var zero T
	return zero, err
}

// A RunError is a run that has not ended well, or not at all. Run.Result is what there is of it.
// It is [ErrBudget] for a run that a budget has ended.
type RunError struct {
	Run RunInfo

	label string // of the Run, in which secrets are masked
}

// Is reports whether target is [ErrBudget] and a budget has ended the run.
func (e *RunError) Is(target error) bool {
	return target == ErrBudget && e.Run.Status == StatusIncomplete
}

func (e *RunError) Error() string {
	said := fmt.Sprintf("agent: run %s", e.Run.ID)
	label := secret.OneLine(secret.Mask, cmp.Or(e.label, e.Run.Label))
	if label != "" {
		said += fmt.Sprintf(" (%q)", text.Label(label))
	}
	said += " is " + e.Run.Status.String()
	if e.Run.Error != "" {
		said += ": " + e.Run.Error
	}
	return said
}

// waitFor waits for runs of the tree of c, within a turn if there is one.
func (c *Child[T]) waitFor(
	ctx context.Context, turn *Turn, refs []spawn.RunRef, opt JoinOptions,
) ([]RunInfo, error) {
	if turn == nil {
		c.rt.expectRun()
		infos, err := c.rt.sup.Wait(ctx, c.root, refs, opt)
		return infos, c.rt.orOutcomeGone(ctx, err, refs...)
	}
	if err := turn.err(); err != nil {
		return nil, err
	}
	infos, err := turn.spawn.Wait(ctx, refs, opt)
	return infos, c.rt.orOutcomeGone(ctx, err, refs...)
}
