package agent

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/offshoot-sdk/offshoot/agent/internal/thread"
	"github.com/offshoot-sdk/offshoot/internal/enum"
	"github.com/offshoot-sdk/offshoot/internal/secret"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/binding"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// Threads say on which channels a conversation can be bound to a session other than its own, such
// as a thread to the sub-agent that works in it. The zero value says: on none. See docs/threads.md.
//
// In a Store that several processes share a conversation is bound for all of them, and their
// Threads are the same: a message is posted in any of them, whichever has bound the conversation,
// or has the session. One of them at a time ends what has expired, says farewells and probes. If it
// dies, another one goes on when its lease is over, and may say a Farewell again, with the same
// Key.
type Threads struct {
	// Channels are those on which conversations can be bound, by their name in any letter case,
	// such as "discord". On a channel that is not there nothing is bound, and what was bound is not
	// looked at.
	Channels map[string]ThreadChannel
	// Bindings are the settings of all channels, which those of a channel or an account override.
	// In a JSON configuration they are session.threadBindings. Where nothing sets a field,
	// conversations can be bound, a spawn may bind one, a binding ends after 24 hours without a
	// message, and its age is not limited.
	Bindings binding.Settings
}

// A ThreadChannel is a channel of [Threads].
type ThreadChannel struct {
	// Host creates threads and speaks in them. Nil: conversations of the channel can be bound with
	// [Runtime.Focus], no thread is created, and farewells are not said.
	Host ThreadHost
	// Bindings are the settings of the channel: channels.<channel>.threadBindings.
	Bindings binding.Settings
	// Accounts are the settings of accounts, as the channel spells them:
	// channels.<channel>.accounts.<account>.threadBindings.
	Accounts map[string]binding.Settings
}

// A ThreadHost is what a transport does with threads. Package agenttest has the kit TestThreads,
// which says whether one keeps to this contract.
//
// Its methods are called for many conversations at once, and have Config.DeliverTimeout. After that
// time, a panic or a runtime.Goexit the call has failed. One that does not return all the same
// holds up nothing but its own conversation, and the end of [Runtime.Run] for the time of
// Config.Grace: then a *[StillRunningError] names the session, under Deliveries for a Farewell and
// else under Sessions. A call of [Runtime.Shutdown] under the ctx of a method does not wait for
// that method, which goes on with a ctx that has ended.
type ThreadHost interface {
	// CreateThread creates a thread and returns the Route of what is said in it. That has the
	// channel and the account of t.In, a recipient, and is not t.In itself. Under a Key that it has
	// seen, CreateThread returns the thread that it created then: it may have been called by a
	// process that died before it had the answer. An error refuses the spawn, and reaches the
	// model.
	CreateThread(ctx context.Context, t NewThread) (session.Route, error)
	// Farewell says f.Text in a conversation. It is called again with the same f.Key after an
	// error, for half an hour, and may be called again after a crash: a transport that remembers
	// keys says it once. It returns nil if the conversation does not exist any more.
	Farewell(ctx context.Context, f Farewell) error
	// ProbeThread says what has become of a conversation. It is asked when [Runtime.Run] begins,
	// for at most eight conversations at once, and of several processes when one takes that over
	// from another. An error is [ThreadUncertain].
	ProbeThread(ctx context.Context, conversation session.Route) (ThreadState, error)
}

// A NewThread is a thread that a [ThreadHost] is to create.
//
// Name and Intro are plain text. What a model or a person has chosen of them, the label, is on one
// line, has no character that is not drawn, and what could begin a mention, a link, a command or
// mark-up on a channel of the field is replaced by characters that look alike. The host still
// escapes the texts as its channel wants it, where that reads other marks, and sends them so that
// they notify no person of what stands in them, where the channel can do that.
type NewThread struct {
	Key     string        // one thread is created under a Key
	In      session.Route // the conversation that gets the thread; it has no Thread itself
	Session session.Key   // whose thread it will be
	Name    string        // for people, on one line, of at most 100 characters
	Intro   string        // what people should read first in it
}

// A Farewell is what is said in a conversation that is not bound to a session any more.
type Farewell struct {
	Key     string         // stays the same over attempts and restarts; no two farewells share one
	Attempt int            // of this process, from 1
	Route   session.Route  // the conversation
	Session session.Key    // that it was bound to
	Label   string         // the name of the session, as it was given: not plain; may be empty
	Reason  binding.Reason // why the binding has ended
	Text    string         // says so in English, plain as a NewThread's; may be put otherwise
}

// A ThreadState says what has become of a conversation.
type ThreadState uint8

// What has become of a conversation. The zero ThreadState is ThreadUncertain.
const (
	ThreadUncertain ThreadState = iota // it is not known: its binding is kept
	ThreadOpen                         // people can write there
	ThreadArchived                     // it is closed: its binding ends, with a farewell
	ThreadGone                         // it does not exist: its binding ends without a word
)

var threadStates = [...]string{
	ThreadUncertain: "uncertain", ThreadOpen: "open", ThreadArchived: "archived", ThreadGone: "gone",
}

// String returns the word for s, such as "open".
func (s ThreadState) String() string { return enum.String(threadStates[:], "ThreadState", s) }

// MarshalText returns the word for s. A value that is not a ThreadState is an error.
func (s ThreadState) MarshalText() ([]byte, error) {
	return enum.Marshal(threadStates[:], "agent", "thread state", s)
}

// UnmarshalText sets s to the ThreadState whose word is text, in any letter case of ASCII.
func (s *ThreadState) UnmarshalText(text []byte) error {
	return enum.Unmarshal(threadStates[:], "agent", "thread state", text, s)
}

// A TaskMode says how long the conversation of a [Task] stays bound.
type TaskMode uint8

// The modes of a Task. The zero TaskMode is TaskModeAuto.
const (
	// TaskModeAuto is TaskModeSession for a Task with Thread, and else TaskModeRun.
	TaskModeAuto TaskMode = iota
	// TaskModeRun releases the conversation when the result of the run has been told.
	TaskModeRun
	// TaskModeSession keeps the conversation: what people write there later begins another run of
	// the same session, which answers there. It needs Task.Thread.
	TaskModeSession
)

var taskModes = [...]string{TaskModeAuto: "auto", TaskModeRun: "run", TaskModeSession: "session"}

// String returns the word for m, such as "session".
func (m TaskMode) String() string { return enum.String(taskModes[:], "TaskMode", m) }

// MarshalText returns the word for m. A value that is not a TaskMode is an error.
func (m TaskMode) MarshalText() ([]byte, error) {
	return enum.Marshal(taskModes[:], "agent", "task mode", m)
}

// UnmarshalText sets m to the TaskMode whose word is text, in any letter case of ASCII.
func (m *TaskMode) UnmarshalText(text []byte) error {
	return enum.Unmarshal(taskModes[:], "agent", "task mode", text, m)
}

// RuleThread is the rule of a [*policy.Refusal] for a conversation that cannot be bound, because
// its channel is not in [Threads], has no ThreadHost, or a setting forbids it.
const RuleThread policy.Rule = "threadBindings"

// clone returns a copy that shares no map with t.
func (t Threads) clone() Threads {
	t.Channels = maps.Clone(t.Channels)
	for name, c := range t.Channels {
		c.Accounts = maps.Clone(c.Accounts)
		t.Channels[name] = c
	}
	return t
}

// A bindingLevel is one level of settings, and where it is.
type bindingLevel struct {
	binding.Settings

	field string // the Go path below Config
	path  string // the place in the JSON configuration
}

// host returns what creates threads on the channel of a conversation, and its place in the Config.
// It is nil for a channel that has none.
func (t *Threads) host(of session.Route) (h ThreadHost, field string) {
	name, _ := keyInAnyCase(t.Channels, of.Channel)
	return t.Channels[name].Host, channelField(name) + ".Host"
}

// levels returns the settings for a conversation, the most specific ones first. It returns none for
// a channel that is not in t.
func (t *Threads) levels(of session.Route) (levels []bindingLevel) {
	name, ok := keyInAnyCase(t.Channels, of.Channel)
	if !ok || name == "" {
		return nil
	}
	c, field, path := t.Channels[name], channelField(name), settingBelow("channels", of.Channel)
	if own, ok := c.Accounts[of.Account]; ok {
		levels = append(levels, bindingLevel{
			own, fmt.Sprintf("%s.Accounts[%q]", field, of.Account),
			settingBelow(path+".accounts", of.Account) + ".threadBindings",
		})
	}
	return append(levels,
		bindingLevel{c.Bindings, field + ".Bindings", path + ".threadBindings"},
		bindingLevel{t.Bindings, "Threads.Bindings", "session.threadBindings"})
}

func channelField(name string) string { return fmt.Sprintf("Threads.Channels[%q]", name) }

// policy returns the rules for the bindings of a conversation. The zero Policy is that of a channel
// that is not in t.
func (t *Threads) policy(of session.Route) binding.Policy {
	levels := t.levels(of)
	if len(levels) == 0 {
		return binding.Policy{}
	}
	settings := make([]binding.Settings, len(levels))
	for i, l := range levels {
		settings[i] = l.Settings
	}
	return binding.Resolve(settings...)
}

// refuse returns why a conversation cannot be bound, or nil. A spawn asks more than a Focus does,
// and a thread can be created only by a host.
func (t *Threads) refuse(of session.Route, op string, creates bool) error {
	refusal := &policy.Refusal{Op: op, Rule: RuleThread, Asked: describeRoute(of)}
	levels := t.levels(of)
	if len(levels) == 0 {
		channels := slices.Sorted(maps.Keys(t.Channels))
		refusal.Limit = cmp.Or(strings.Join(channels, ", "), "no channel")
		refusal.Field = "Config.Threads.Channels"
		return refusal
	}
	off := func(word string, set func(binding.Settings) *bool) bool {
		for _, l := range levels {
			if v := set(l.Settings); v != nil {
				refusal.Limit = "false"
				refusal.Field, refusal.Path = "Config."+l.field+"."+word, l.path+"."+
					strings.ToLower(word[:1])+word[1:]
				return !*v
			}
		}
		return false
	}
	if off("Enabled", func(s binding.Settings) *bool { return s.Enabled }) ||
		op == "" && off("SpawnSubagentSessions",
			func(s binding.Settings) *bool { return s.SpawnSubagentSessions }) {
		return refusal
	}
	if host, field := t.host(of); creates && host == nil {
		refusal.Limit, refusal.Path = "no thread, since the channel has no ThreadHost", ""
		refusal.Field = "Config." + field
		return refusal
	}
	return nil
}

// describeRoute names a conversation in a refusal.
func describeRoute(r session.Route) string {
	if r.Channel == "" {
		return "a thread"
	}
	return "a thread on " + r.Channel
}

// mode returns whether the conversation of the task stays bound, or an *InputError.
func (t *Task) mode() (keep bool, err error) {
	switch {
	case int(t.Mode) >= len(taskModes):
		return false, &InputError{Field: "Task.Mode", Reason: fmt.Sprintf(
			"it is %v, which is none; want TaskModeAuto, TaskModeRun or TaskModeSession", t.Mode)}
	case t.Mode == TaskModeSession && !t.Thread:
		return false, &InputError{
			Field: "Task.Mode", Reason: "it is session, and Thread is not set: " +
				"a sub-agent stays open only in a conversation of its own",
		}
	case checkBound(t.Conversation) != nil:
		return false, checkBound(t.Conversation)
	case !t.Thread && !t.Update && !t.Conversation.IsZero():
		return false, &InputError{
			Field: "Task.Conversation", Reason: "it is set, and Thread is not",
		}
	}
	return t.Thread && t.Mode != TaskModeRun, nil
}

// withThreads returns a schema of sessions_spawn with what it has where sub-agents can have
// threads.
func (c *Config) withThreads(schema json.RawMessage) json.RawMessage {
	if len(c.Threads.Channels) == 0 {
		return schema
	}
	return bytes.Replace(schema, []byte(`"mode":{"type":"string","enum":["run"]}`),
		[]byte(`"thread":{"type":"boolean","description":"give it a thread of its own, where people can talk to it"},`+
			`"mode":{"type":"string","enum":["run","session"],"description":"with thread: session keeps `+
			`the thread open for more work, run closes it after the result; default: session"}`), 1)
}

// modeWord returns the mode that a task comes to, in a word.
func (t *Task) modeWord() string {
	if keep, _ := t.mode(); keep {
		return TaskModeSession.String()
	}
	return TaskModeRun.String()
}

// A boundSpawn is a spawn with a conversation of its own.
type boundSpawn struct {
	requester, root session.Key
	request         spawn.Request // its Bind is where the conversation is or is to be; may be zero
	spawn           func(context.Context, spawn.Request) (RunInfo, error)
}

// dry returns the request for a decision without consequences, and without a place. Its Variant
// tells the files, so that a Key that is known is compared. The ID of one with files is that of
// their deposit, which no request without Files may have.
func (s *boundSpawn) dry() spawn.Request {
	q := s.request
	q.Dry, q.Bind = true, session.Route{}
	if q.Files {
		q.Files, q.ID = false, ""
	}
	return q
}

// follows reports whether the spawn is another attempt at what a session was spawned for. That the
// Key of the spawn gives another is known before.
func (s *boundSpawn) follows(ctx context.Context, of session.Key) (bool, error) {
	if !s.request.Again || s.request.Key == "" {
		return false, nil
	}
	last := s.dry()
	last.Again = false
	info, err := s.spawn(ctx, last)
	return info.Key == of, err
}

// spawnBound spawns a sub-agent whose conversation is bound to it. What forbids that is found
// before anything exists. Then come the thread, the table of bindings and the tree, in this order:
// what a crash leaves behind is found in the table, and a spawn that is repeated under its key
// finds the thread.
func (rt *Runtime) spawnBound(ctx context.Context, s boundSpawn) (info RunInfo, err error) {
	at, creates, err := rt.whereToSpawn(ctx, &s)
	if err != nil {
		return info, unrecorded(ctx, err)
	}
	id := cmp.Or(string(s.request.ID), session.NewID())
	s.request.ID = RunID(id)
	if info, err = s.spawn(ctx, s.dry()); err != nil || info.ID != "" {
		return info, err
	}
	s.request.Asked = true
	agent := cmp.Or(strings.TrimSpace(s.request.Policy.Agent), rt.cfg().Rules.AgentOf(s.requester))
	child, err := s.requester.Child(agent, id)
	if err != nil {
		return info, err
	}
	limits := rt.cfg().Threads.policy(at)
	q := binding.Request{
		Conversation: at, Target: child, Root: s.root, By: binding.SystemOwner,
		Label: rt.threadLabel(s.request.Label), Created: creates,
		Idle: limits.Idle, MaxAge: limits.MaxAge, End: session.NewID(),
	}
	if creates {
		leave, err := rt.bindings.creates()
		if err != nil {
			return info, unrecorded(ctx, err)
		}
		defer leave()
		key := s.request.Key
		if key == "" {
			key = id
		}
		label := rt.shownLine(s.request.Label)
		intro := thread.IntroRun(label, child.Agent())
		if s.request.Session {
			intro = thread.Intro(label, child.Agent(), limits.Idle, limits.MaxAge)
		}
		late := q // the caller changes q when it leaves, at which time the thread may come
		q.Conversation, err = rt.bindings.create(ctx, NewThread{
			Key: threadKey(s.requester, key), In: at, Session: child,
			Name: thread.Name(label, child.Agent()), Intro: intro,
		}, func(made session.Route) {
			late.Conversation = made
			rt.bindings.abandon(ctx, s.root, late)
		})
		if err != nil {
			return info, unrecorded(ctx, err)
		}
	}
	return rt.bindings.spawnAt(ctx, s, q)
}

// threadLabel returns, on one line, as much of a label as a binding keeps.
func (rt *Runtime) threadLabel(label string) string {
	label = secret.Line(rt.maskKept, label)
	return secret.Cut(rt.redactor.Redact, label, maxThreadLabel)
}

const maxThreadLabel = 200 // bytes

// whereToSpawn returns the conversation of a spawn: one that is bound as it is, or one in which a
// thread is created.
func (rt *Runtime) whereToSpawn(
	ctx context.Context, s *boundSpawn,
) (at session.Route, creates bool, err error) {
	at = s.request.Bind.Clean()
	if at.IsZero() {
		if at, err = rt.answers(ctx, s.root, s.requester); err != nil {
			return at, true, err
		}
		at.Thread = "" // a thread beside that of the requester, not in its place
	}
	return at, at.Thread == "", rt.cfg().Threads.refuseSpawn(at)
}

// refuseSpawn returns why no sub-agent can have a conversation, or a thread in it if it has none.
func (t *Threads) refuseSpawn(at session.Route) error {
	if len(t.Channels) > 0 && !at.Complete() {
		return &InputError{
			Field: "Task.Conversation", Reason: "it is not known where the session talks to " +
				"people, so that there is no place for a thread; name a channel and a recipient",
		}
	}
	return t.refuse(at, "", at.Thread == "")
}

// previewThread returns why a spawn of the task refuses its Thread, if the requester talks to
// people where a session key says.
func (t *Task) previewThread(c *Config, talks session.Route) error {
	if !t.Thread {
		return nil
	}
	at := t.Conversation.Clean()
	if at.IsZero() {
		at = talks.Clean()
		at.Thread = "" // as in whereToSpawn
	}
	return c.Threads.refuseSpawn(at)
}

// answers returns where a session talks to people: its own conversation, or that of the session
// that has spawned it.
func (rt *Runtime) answers(
	ctx context.Context, root, key session.Key,
) (session.Route, error) {
	route, err := rt.sup.RouteOf(ctx, root, key)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return session.Route{}, err
	}
	if key == root {
		route = route.Or(key.Route())
	}
	return route.Clean(), nil
}

// threadKey returns the key under which the thread of a spawn is created. It is the same for a
// spawn that is repeated, and tells the transport nothing of its parts.
func threadKey(requester session.Key, spawn string) string {
	sum := sha256.Sum256([]byte(requester.String() + "\x00" + spawn))
	return "thread-" + hex.EncodeToString(sum[:16])
}

// checkThread returns why a route is not that of a thread in a conversation, or nil.
func checkThread(made, in session.Route) error {
	switch {
	case !made.Complete():
		return errors.New("agent: the route of the thread has no channel or no recipient")
	case made.Channel != in.Channel || made.Account != in.Account:
		return errors.New("agent: the thread is on another channel or account")
	case made == in:
		return errors.New("agent: the thread is the conversation itself")
	}
	return nil
}

// create has a thread created, unless the table in which it is to be bound cannot be read. It
// returns when ctx ends, and when the hard phase of a shutdown begins, also if the ThreadHost does
// not: what that has created by then, or creates later, is given to late.
func (b *bindings) create(
	ctx context.Context, t NewThread, late func(session.Route),
) (session.Route, error) {
	if _, err := b.open(ctx); err != nil {
		return session.Route{}, err
	}
	host, field := b.rt.cfg().Threads.host(t.In)
	ctx, cancel := b.whole(ctx)
	defer cancel()
	var made thread.Late[session.Route]
	call := b.call(ctx, t.Session, false, field, func(ctx context.Context) error {
		route, err := host.CreateThread(ctx, t)
		if err != nil {
			return err
		}
		route = route.Clean()
		if err := cmp.Or(checkThread(route, t.In), checkBound(route)); err != nil {
			return err
		}
		made.Set(route)
		return nil
	})
	err := call.WaitFor(ctx)
	if err == nil {
		return made.Get(), nil
	}
	made.Leave(late)
	_, ok := errors.AsType[*CallbackError](err)
	if err = b.rt.redact(err); !ok {
		err = &CallbackError{Field: field, Err: err}
	}
	if ctx.Err() != nil && !errors.Is(err, context.Cause(ctx)) {
		err = fmt.Errorf("agent: %w: %w", context.Cause(ctx), err)
	}
	return session.Route{}, err
}

// bind binds a conversation in the table.
func (b *bindings) bind(ctx context.Context, q binding.Request) (binding.Binding, error) {
	return change(ctx, b, func(
		ctx context.Context, t *binding.Table, now time.Time,
	) (binding.Binding, error) {
		return t.Bind(ctx, q, now)
	})
}

// spawnAt binds a conversation to the sub-agent that it spawns then.
func (b *bindings) spawnAt(
	ctx context.Context, s boundSpawn, q binding.Request,
) (info RunInfo, err error) {
	unlock, err := b.shared.Lock(ctx, q.Conversation, func() { b.doubt(s.root) })
	if err != nil {
		b.unclaimed(q, binding.ReasonSpawnFailed, err)
		return info, unrecorded(ctx, err)
	}
	defer unlock()
	dry := s.request
	dry.Dry, dry.Bind = true, q.Conversation // which is clean, and Task.Conversation may not be
	info, err = s.spawn(ctx, dry)
	if err != nil && q.Created {
		b.abandon(ctx, s.root, q)
	}
	if err != nil || info.ID != "" {
		return info, err // another call has spawned it meanwhile, under the same key
	}
	if err := b.claim(ctx, &s, q); err != nil {
		if errors.Is(err, ErrUnconfirmed) {
			b.release(ctx, s.root, q.Target, q.Conversation, binding.ReasonSpawnFailed)
		}
		b.unclaimed(q, binding.ReasonSpawnFailed, err)
		return info, unrecorded(ctx, err)
	}
	defer b.look() // the session of a former attempt is to know that it has gone on elsewhere
	s.request.Bind = q.Conversation
	info, err = s.spawn(ctx, s.request)
	switch {
	case errors.Is(err, ErrUnconfirmed):
		b.doubt(s.root)
	case err != nil || info.Key != q.Target:
		b.release(ctx, s.root, q.Target, q.Conversation, binding.ReasonSpawnFailed)
	}
	return info, err
}

// abandon says in a thread that was created for a spawn, which is refused since, that nothing
// begins there. It is bound and released at once: a farewell is repeated until it is said.
func (b *bindings) abandon(ctx context.Context, root session.Key, q binding.Request) {
	b.atLast(ctx, func(ctx context.Context) {
		if err := b.claim(ctx, nil, q); err != nil {
			b.unclaimed(q, binding.ReasonSpawnFailed, err)
			return
		}
		b.release(ctx, root, q.Target, q.Conversation, binding.ReasonSpawnFailed)
	})
}

// claim binds the conversation of a spawn, which may be nil. One that an attempt before a crash has
// left to a session that never came to be is free, and so is that of the attempt which the spawn
// follows, see [Task].Again.
func (b *bindings) claim(ctx context.Context, s *boundSpawn, q binding.Request) error {
	if s != nil && s.request.Key != "" { // people may have found it since a former attempt
		q.Created = false
	}
	_, err := b.bind(ctx, q)
	taken, ok := errors.AsType[*binding.Error](err)
	if !ok || taken.Binding.By != binding.SystemOwner {
		return err
	}
	there, findErr := b.holds(ctx, taken.Binding)
	if there && findErr == nil && s != nil {
		there, findErr = s.follows(ctx, taken.Binding.Target)
		there = !there
	}
	if findErr != nil || there {
		return cmp.Or(findErr, err)
	}
	q.Replace = true
	_, err = b.bind(ctx, q)
	return err
}

// farewell says a farewell, unless this process has. It is not said if the conversation is bound
// meanwhile: what people write there goes to that session. The error is that of the ThreadHost,
// unless it has been tried for so long that it is given up.
func (b *bindings) farewell(
	table *binding.Table, u *binding.Unbound, tried *thread.Attempt,
) error {
	if _, bound := table.Find(u.Binding.Conversation, time.Now()); tried.Said || bound {
		return nil
	}
	host, field, what := b.farewellOf(u, tried.Tries+1)
	if host == nil {
		return nil
	}
	call := b.call(b.life, what.Session, true, field, func(ctx context.Context) error {
		return host.Farewell(ctx, what)
	})
	err := call.Wait()
	if errors.Is(err, thread.ErrHangs) && b.life.Err() == nil {
		b.rt.log.Warn("offshoot: a farewell has not returned in its time", boundAttrs(&u.Binding)...)
		err = call.Returned(b.life) // there is no second call before it has
	}
	tried.Said = err == nil
	if err == nil || b.life.Err() != nil {
		return err
	}
	b.logFailure("a farewell failed", err, &u.Binding)
	if tried.Over(time.Now()) {
		tried.Said = true
		b.rt.log.Error("offshoot: a farewell is given up", append(boundAttrs(&u.Binding),
			"reason", u.Reason.String(), "text", what.Text)...)
		return nil
	}
	return err
}

// boundAttrs says in the log which session a binding is of, and which conversation.
func boundAttrs(of *binding.Binding) []any {
	at, parts := of.Conversation, []any{}
	for _, part := range [...]struct{ name, value string }{
		{"channel", at.Channel}, {"account", at.Account}, {"to", at.To}, {"thread", at.Thread},
	} {
		if part.value != "" {
			parts = append(parts, slog.String(part.name, part.value))
		}
	}
	return []any{"session", of.Target.String(), slog.Group("conversation", parts...)}
}

// farewellOf returns what is said at an end, and who says it; nil: nothing is said.
func (b *bindings) farewellOf(
	u *binding.Unbound, attempt int,
) (host ThreadHost, field string, what Farewell) {
	shown := *u // the table has the label as it was given
	shown.Binding.Label = b.rt.shownLine(u.Binding.Label)
	of, said := &shown.Binding, thread.Farewell(shown)
	if host, field = b.rt.cfg().Threads.host(of.Conversation); said == "" {
		host = nil
	}
	return host, field, Farewell{
		Key: "farewell-" + u.ID, Attempt: attempt, Route: of.Conversation,
		Session: of.Target, Label: of.Label, Reason: u.Reason, Text: said,
	}
}

// probe asks the channel what has become of a conversation.
func (b *bindings) probe(of binding.Binding) {
	root, err := b.rootOf(b.life, of)
	if errors.Is(err, ErrNotFound) {
		b.release(b.life, root, of.Target, of.Conversation, binding.ReasonStaleSession)
		return
	}
	host, field := b.rt.cfg().Threads.host(of.Conversation)
	if host == nil || err != nil {
		return
	}
	state := ThreadUncertain
	err = b.call(b.life, of.Target, false, field, func(ctx context.Context) error {
		now, err := host.ProbeThread(ctx, of.Conversation)
		if err == nil {
			state = now
		}
		return err
	}).Wait()
	switch {
	case err != nil:
		b.logFailure("a channel does not know what has become of a conversation", err, &of)
	case state == ThreadGone:
		b.release(b.life, root, of.Target, of.Conversation, binding.ReasonThreadDeleted)
	case state == ThreadArchived:
		b.release(b.life, root, of.Target, of.Conversation, binding.ReasonThreadArchived)
	}
}

// compare has a tree and the table agree: what only the table has ends, and so does what only the
// tree has. If the tree cannot be read, both stay as they are, and are compared again. Of list,
// what the table has, those of other trees are passed over. The zero root stands for the bindings
// of an earlier version, which name no tree: each is looked for in that of its session.
func (b *bindings) compare(table *binding.Table, root session.Key, list []binding.Binding) {
	var there []spawn.BoundSession
	var err error
	if root.IsValid() {
		there, err = b.rt.sup.Bindings(b.life, root)
	}
	if err == nil {
		err = attempt(func() error { return table.Confirm(b.life) })
	}
	for _, of := range list {
		if err == nil && of.Root == root {
			err = b.agree(table, root, of.Target, of.Conversation)
		}
	}
	for _, x := range there {
		if err == nil {
			err = b.agree(table, root, x.Session, x.Route)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err == nil || session.IsPermanent(err) {
		delete(b.doubtful, root)
	} else {
		b.doubtful[root] = time.Now().Add(storePause)
	}
	if err != nil {
		b.logFailure("a tree could not be compared with the bindings", err,
			&binding.Binding{Target: root})
	}
	b.look()
}

// agree has a tree and the table agree on one conversation of a session.
func (b *bindings) agree(table *binding.Table, root, target session.Key, at session.Route) error {
	unlock, err := b.shared.Lock(b.life, at, nil)
	if err != nil {
		return err
	}
	defer unlock()
	of := binding.Binding{Conversation: at, Target: target, Root: root}
	inTree, err := b.holds(b.life, of)
	if err != nil {
		return err
	}
	found, ok := table.Find(at, time.Now())
	inTable := ok && found.Target == target
	switch {
	case inTable && !inTree:
		return b.releaseOne(b.life, target, at, binding.ReasonStaleSession)
	case inTree && !inTable:
		return b.rt.sup.Unbind(b.life, root, target, at, binding.ReasonStaleSession.String())
	}
	return nil
}
