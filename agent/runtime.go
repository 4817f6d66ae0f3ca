package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/offshoot-sdk/offshoot/agent/internal/target"
	"github.com/offshoot-sdk/offshoot/agent/internal/thread"
	"github.com/offshoot-sdk/offshoot/announce"
	agentctx "github.com/offshoot-sdk/offshoot/context"
	"github.com/offshoot-sdk/offshoot/internal/clone"
	"github.com/offshoot-sdk/offshoot/internal/contain"
	"github.com/offshoot-sdk/offshoot/internal/ctxguard"
	"github.com/offshoot-sdk/offshoot/internal/guardlog"
	"github.com/offshoot-sdk/offshoot/internal/secret"
	"github.com/offshoot-sdk/offshoot/internal/text"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// A Runtime runs trees of sessions. Its methods are safe for concurrent use.
type Runtime struct {
	// config is what the Runtime goes by. It is not changed any more: SetRules puts another one in
	// its place, which differs in the Rules.
	config atomic.Pointer[Config]
	ruling sync.Mutex // held by SetRules
	log    *slog.Logger
	sup    *spawn.Supervisor

	watch   runWatch
	checked ctxguard.Check // of the contexts of calls, for package agenttest
	// redactor masks what others than a session itself see of it, see Config.Redact.
	redactor *announce.Redactor
	skills   *skillShelf
	hot      hotHistories
	// summaries are the calls of Window.Compact that are under way.
	summaries summaries
	prices    priceList
	bindings  *bindings
	ending    thread.Ending
	attached  attachedDirs
	results   resultTypes
	shown     target.Book // the lists of sub-agents that models and people were shown
	sends     target.Pace // of what models send with sessions_send, and subagents
	leftOut   instructionsLog
	prompts   agentctx.Assembler
	carrier   func() session.Carrier // that of the Store, or nil; it is asked for once
}

// Open checks the Config and makes a Runtime of it. The error is a [ConfigErrors] with all that is
// surely wrong, at once: each has its Go path, and for a rule its place in the configuration. What
// is only doubtful, such as a rule for a tool that is not there, is a warning to the Logger. Ids of
// agents are matched without letter case. An id that is not in Rules.Agents is a mistake where
// agents are configured; main never is. Where none is configured, any id may be that of a session,
// and the id is a warning. Open looks whether the directory of each workspace is there, if its
// fs.FS has Stat, and so it does with the sources of skills.
//
// Open starts nothing: Post, Spawn and Stop are accepted, and durable, from here on; turns and
// deliveries start with Run. If Run has not been called five seconds after the first Post, Spawn,
// Idle or Wait, that is logged, once. The values of ctx are kept for the Runtime's own work, its
// end is not.
func Open(ctx context.Context, cfg Config) (*Runtime, error) {
	doubts, err := cfg.validate()
	if err != nil {
		return nil, err
	}
	if cfg.Store == nil {
		cfg.Store = session.NewMemory()
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	redactor, err := newRedactor(cfg.Redact)
	if err != nil {
		return nil, err // which validate has reported
	}
	cfg.Logger = guardlog.NewBy(cfg.Logger, redactor.Redact)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Prompts.Loader.Cache == nil {
		// Workspaces are read again only where they have changed.
		cfg.Prompts.Loader.Cache = new(agentctx.Cache)
	}
	for _, d := range doubts {
		logDoubt(cfg.Logger, d)
	}
	cfg.Rules, cfg.Prompts.Input = clone.Of(cfg.Rules), clone.Of(cfg.Prompts.Input)
	cfg = cfg.withFullModels()
	cfg.Prompts.Workspaces = maps.Clone(cfg.Prompts.Workspaces)
	cfg.Runners.Agents = maps.Clone(cfg.Runners.Agents)
	cfg.Runners.Runtimes = maps.Clone(cfg.Runners.Runtimes)
	for name, x := range cfg.Runners.Runtimes {
		x.Agents = slices.Clone(x.Agents)
		cfg.Runners.Runtimes[name] = x
	}
	cfg.Prompts.SubagentSpecs = clone.Of(cfg.Prompts.SubagentSpecs)
	cfg.Prompts.Loader.Extra = slices.Clone(cfg.Prompts.Loader.Extra)
	cfg.Prompts.Loader.Hooks = slices.Clone(cfg.Prompts.Loader.Hooks)
	cfg.Tools = slices.Clone(cfg.Tools)
	for i := range cfg.Tools {
		if err := cfg.Tools[i].checkSchema(); err != nil {
			return nil, err // validate has found nothing wrong
		}
	}
	cfg.Limits = cfg.Limits.orDefault(cfg.Store.Files != nil)
	cfg.Prompts.SkillHost = clone.Of(cfg.Prompts.SkillHost)
	cfg.Threads = cfg.Threads.clone()
	rt := &Runtime{
		redactor: redactor,
		log:      cfg.Logger, skills: newSkillShelf(&cfg), checked: ctxguard.From(ctx),
		hot: hotHistories{
			most: cfg.Limits.Hot, mostTogether: cfg.Limits.HotTotal, ids: cfg.idForm(),
		},
		prices: cfg.priceList(),
	}
	rt.config.Store(&cfg)
	rt.carrier = sync.OnceValue(func() session.Carrier { return carrierOf(cfg.Store) })
	rt.bindings = newBindings(ctx, rt)
	sup, err := spawn.Open(ctx, spawn.Config{
		Store: cfg.Store, Runner: turnRunner{rt}, Rules: cfg.Rules,
		Deliver: rt.deliver, CallerRun: cfg.Deliver != nil, Replies: cfg.Reply != nil,
		ValidModel: cfg.Models.Valid, Model: cfg.Models.Model, Thinking: cfg.Models.Thinking,
		Tools: cfg.allToolNames(), Grace: cfg.Grace,
		DeliverTimeout: cfg.DeliverTimeout, AnnounceTimeout: cfg.AnnounceTurn.Timeout,
		Logger: cfg.Logger, Redact: rt.maskKept, Queue: cfg.Queue,
		Limits:  cfg.Limits.spawn(),
		Apology: apologyText,
		Rested:  rt.rested,
		Unbind:  rt.bindings.unbind,
		Tidy:    rt.tidy,
		Ended:   rt.endedHook(), Spawning: cfg.Hooks.Spawning,
	})
	if err != nil {
		return nil, err
	}
	rt.sup = sup
	rt.bindings.endWith(sup.WorkContext()) //nolint:contextcheck // it outlives the call
	return rt, sup.SetRules(&cfg.Rules)    // the very ones, so that a turn need not compare two
}

// endedHook returns what tells Hooks.Ended of the end of a run, nil without one.
func (rt *Runtime) endedHook() func(context.Context, spawn.Delivery) error {
	if rt.cfg().Hooks.Ended == nil {
		return nil
	}
	return rt.hookEnded
}

// SetRules puts other Rules in the place of those of the Config, while the Runtime works: whatever
// is asked of policy from then on goes by them. That is every call of a tool, every spawn and
// follow-up, every message that a model sends to another session and every list that it is shown,
// every post, budgets, limits and slots, and when what is archived. The Rules are taken as a whole
// or not at all: the error is a [ConfigErrors] with every mistake, as that of [Open]. What is
// doubtful is a warning to the Logger. SetRules copies the Rules, and waits for no turn.
//
// When it has returned, no question is answered by the rules before. While it is under way, each
// question is answered by one set of rules as a whole; a call that asks several, as a spawn with
// attachments does, may have the first one answered by the old and the next one by the new rules.
// A turn under way meets the new rules at its next call, also of a tool that it was offered: the
// error is a *[policy.Refusal]. A [Loop] offers its model with the next call of it what is left,
// and what has come. The prompt of the turn stays as it is, and a sandbox that the turn began in
// holds until its end.
//
// What was granted to a sub-agent is on record, and what it may use is that, within what is left to
// every session above it, within the rules of now. So new rules can take of it and give back what
// others have taken, and never add to it. Nothing that exists is ended by them: a limit that is
// lower than what is under way keeps more from beginning, and a turn keeps its slot. A budget that
// is exceeded under them ends what it limits at the next call of a model.
//
// Rules are not recorded: the Runtime of the next process has those of its Config. An agent that
// comes with them has the common Runner and Workspace, unless the Config has others for its id.
// SetRules records nothing, and is not a command: after a shutdown the error is
// [spawn.ErrShutdown] alone.
func (rt *Runtime) SetRules(rules policy.Rules) error {
	rt.ruling.Lock()
	defer rt.ruling.Unlock()
	next := *rt.cfg()
	next.Rules = clone.Of(rules)
	doubts, err := next.validateRules()
	if err != nil {
		return err
	}
	for _, d := range doubts {
		logDoubt(rt.log, d)
	}
	next = next.withFullModels()
	if now := rt.cfg(); reflect.DeepEqual(next.Rules, now.Rules) {
		return rt.sup.SetRules(&now.Rules) // nothing asked under them is asked again
	}
	if err := rt.sup.SetRules(&next.Rules); err != nil {
		return err
	}
	rt.config.Store(&next)
	return nil
}

// cfg returns the Config as it is now. A function that asks more than one question takes it once.
func (rt *Runtime) cfg() *Config { return rt.config.Load() }

// newRedactor returns the Redactor of a Runtime, which learns what Models.Credentials return.
func newRedactor(r announce.Redaction) (*announce.Redactor, error) {
	redactor, err := announce.NewRedactor(r)
	if redactor == nil {
		redactor = new(announce.Redactor)
	}
	return redactor, err
}

// rested forgets what is kept of a session between its turns, or of a whole tree if the session is
// the zero Key.
func (rt *Runtime) rested(root, of session.Key) {
	rt.hot.drop(root, of)
	rt.summaries.forget(root, of)
}

// Run runs everything until ctx ends or Shutdown is called: it takes up what an earlier process
// left, starts turns, delivers. When ctx ends, turns under way may finish for [Config.Drain], are
// cancelled then and given the grace period; Run returns nil if all have returned by then, and else
// a *StillRunningError that names what has not. After a Shutdown it returns nil, also if that came
// first, or the StillRunningError if no call of Shutdown is left to return it. A second Run returns
// [spawn.ErrRunning].
//
// A store that fails for a while costs nothing but that while: see [spawn.Supervisor.Run]. One that
// takes nothing any more, because it is closed or must be opened again ([session.ErrSync]), ends
// Run with that error; end the program then, and have it started again.
func (rt *Runtime) Run(ctx context.Context) error {
	if err := rt.checked(ctx); err != nil {
		return err
	}
	rt.watch.end()
	rt.bindings.start() //nolint:contextcheck // its goroutine ends with the Runtime, not with ctx
	err := rt.driveAlive(ctx)
	if errors.Is(err, spawn.ErrRunning) {
		return err
	}
	left := rt.stopHosts(ctx)
	if err == nil && ctx.Err() == nil && rt.ending.IsTold() {
		return nil
	}
	return withHosts(err, left)
}

// driveAlive is drive for as long as the store takes the bindings of conversations: that it does
// not any more ends the Supervisor as it does where a tree meets it.
func (rt *Runtime) driveAlive(ctx context.Context) error {
	alive := rt.bindings.alive
	whole, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := context.AfterFunc(alive, cancel) //nolint:contextcheck // whole ends with both
	err := rt.drive(ctx, whole)
	if stop() || errors.Is(err, spawn.ErrRunning) || rt.bindings.ended() != nil {
		return err
	}
	dead := context.Cause(alive) //nolint:contextcheck // it is asked, not passed on
	if errors.Is(err, dead) {    // a tree has met it, too
		return err
	}
	return errors.Join(fmt.Errorf("agent: the journal takes nothing any more: %w", dead), err)
}

// drive has the Supervisor run until ctx ends, and for the Drain after that, or until whole ends.
func (rt *Runtime) drive(ctx, whole context.Context) error {
	if rt.cfg().Drain == 0 || ctx.Err() != nil { // nothing has begun yet
		both, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(whole, cancel)()
		return rt.sup.Run(both)
	}
	drained := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		soon, cancel := context.WithTimeout(whole, rt.cfg().Drain)
		defer cancel()
		drained <- rt.sup.Shutdown(soon)
	})
	err := rt.sup.Run(whole)
	if !stop() {
		err = cmp.Or(err, <-drained)
	}
	return err
}

// Shutdown lets the turns under way finish, and has what they came to recorded and handed to Reply
// and Deliver, until ctx ends, that of Run, or that of another call of Shutdown. Then it cancels
// what is left, waits for the grace period, and reports in a *StillRunningError what did not stop.
// A call beside the first one whose ctx ends earlier returns an error that is
// [spawn.ErrShuttingDown].
//
// Give Shutdown a ctx with the time that people may wait for their answers. What has not arrived by
// then, or failed when it was tried, is kept in the Store: the next process delivers it. With the
// Store in memory, which a Config without one has, it is lost.
//
// A Runner, a tool, Reply or Deliver may call it. Under the ctx that it was given, or one derived
// from that, the call does not wait for the turn or delivery that it is part of: it returns nil
// when all else has ended, and the turn goes on to its own end. If the turn or delivery comes to
// its end first, its timeout included, the call returns ErrShuttingDown, and the others still have
// their time. With another ctx, which should then have an end, and from a function without a ctx,
// the call waits for itself until a ctx ends. See [spawn.Supervisor.Shutdown]. A [ThreadHost] may
// call it, too, and the call does not wait for it; the end of its ctx ends the time of the others.
func (rt *Runtime) Shutdown(ctx context.Context) error {
	if err := rt.checked(ctx); err != nil {
		return err
	}
	rt.watch.end()
	within := rt.bindings.isCall(ctx) // Run waits for the call that this one is part of
	if !within {
		rt.ending.Enter()
	}
	err := rt.sup.Shutdown(ctx)
	if errors.Is(err, spawn.ErrShuttingDown) && (within || rt.ending.Leave()) {
		return err // another call goes on, or Run tells
	}
	left := rt.stopHosts(ctx)
	if !within {
		rt.ending.Tell()
	}
	return withHosts(err, left)
}

// stopHosts ends what is done for conversations that are bound, after the Supervisor has come to an
// end. It returns what has not returned, or nil.
func (rt *Runtime) stopHosts(ctx context.Context) *StillRunningError {
	grace := cmp.Or(rt.cfg().Grace, spawn.DefaultGrace)
	if end := rt.sup.GraceEnd(); !end.IsZero() {
		grace = min(grace, max(time.Until(end), lateGrace))
	}
	return rt.bindings.stop(ctx, grace)
}

// withHosts adds the calls of a ThreadHost that have not returned to what the Supervisor has come
// to an end with.
func withHosts(err error, left *StillRunningError) error {
	merged, err := mapStillRunning(err, func(running *StillRunningError) *StillRunningError {
		return ourStillRunning(running, left)
	})
	switch {
	case left == nil || merged:
		return err
	case err == nil:
		return left
	}
	return errors.Join(err, left)
}

// mapStillRunning reports whether a StillRunningError is in err, and returns err with it replaced.
// What is joined with it stays: a journal that is dead ends Run with both.
func mapStillRunning(
	err error, replace func(*StillRunningError) *StillRunningError,
) (found bool, _ error) {
	switch e := err.(type) { //nolint:errorlint // it walks the tree of what is joined
	case *StillRunningError:
		return true, replace(e)
	case interface{ Unwrap() []error }:
		joined := slices.Clone(e.Unwrap())
		for i := range joined {
			var ok bool
			ok, joined[i] = mapStillRunning(joined[i], replace)
			found = found || ok
		}
		if found {
			return true, errors.Join(joined...)
		}
	}
	return false, err
}

// ourStillRunning returns what the Supervisor names, which other calls return too, with the fields
// of our Config, and with what is left of the bindings, which may be nil.
func ourStillRunning(running, left *StillRunningError) *StillRunningError {
	ours := *running
	ours.Functions = slices.Clone(running.Functions)
	for i := range ours.Functions {
		ours.Functions[i].Name = functionField(ours.Functions[i].Name)
	}
	if left != nil {
		ours.Sessions = distinct(slices.Concat(running.Sessions, left.Sessions))
		ours.Deliveries = distinct(slices.Concat(running.Deliveries, left.Deliveries))
	}
	return &ours
}

// distinct sorts keys, and leaves each there once.
func distinct(keys []session.Key) []session.Key {
	slices.SortFunc(keys, func(a, b session.Key) int {
		return strings.Compare(a.String(), b.String())
	})
	return slices.Compact(keys)
}

// Session returns a handle on a session, which need not exist yet if it is a top-level one.
func (rt *Runtime) Session(key session.Key) *Session {
	if key.IsSubagent() {
		return &Session{rt: rt, key: key}
	}
	return rt.sessionIn(key, key)
}

func (rt *Runtime) sessionIn(key, root session.Key) *Session {
	return &Session{rt: rt, key: key, root: root}
}

// A MainSessionError refuses to delete a main session, which is the one of its agent for good.
type MainSessionError struct{ Session session.Key }

func (e *MainSessionError) Error() string {
	return fmt.Sprintf("agent: deleting %q: a main session cannot be deleted; Session.Reset has it "+
		"begin anew", e.Session)
}

// DeleteSession archives a session with its files, and every session below it, as soon as that may
// be, whatever Rules.Subagents.ArchiveAfter says. What is alive is stopped, as [Session.Stop] does,
// and conversations are unbound. A session of another sort than a sub-agent's, such as that of a
// chat or a cron job, has its conversation put away as with [Session.Reset]: under its key it may
// begin anew, and what people have written and it has not read is answered there. What a turn had
// read that is stopped gets no answer.
//
// No result is lost without a word. The requester of a sub-agent is told that it was cancelled, as
// after a Stop. A completion that waits is read or delivered before the archive. One that is
// blocked, or becomes so, is dismissed: [Session.History] and [Session.Revive] still find the
// result in the archive, as long as that is kept.
//
// DeleteSession returns when all is archived. It is durable from the beginning on: a crash, and the
// end of ctx, do not call it off. Under the ctx of a turn of the same tree, of a delivery or of a
// hook it returns when it is durable, since the archive may wait for what calls it. An archive that
// fails is tried again, first after 15 seconds.
//
// The error is a *[MainSessionError] for a main session and the global one, [ErrNotFound] for a
// session that is not on record, [ErrArchived] for one that is archived, an *[InputError] from a
// turn of the session or of one below it, the cause of ctx beside [ErrUnconfirmed] if that ends
// first, or one that every command can return.
func (rt *Runtime) DeleteSession(ctx context.Context, key session.Key) error {
	s := rt.Session(key)
	if err := s.check(ctx); err != nil {
		return err
	}
	if kind := key.Kind(); kind == session.KindMain || kind == session.KindGlobal {
		return &MainSessionError{key}
	}
	root, err := s.commandTree(ctx)
	if err == nil {
		err = rt.sup.DeleteSession(ctx, root, key, "its session is deleted")
	}
	return rt.commandOrArchived(ctx, key, err)
}

// Purge removes what was archived longer ago than Rules.KeepArchives, for good, and returns how
// many transcripts that were. Run does it too, a minute after it has begun and then every hour, so
// that Purge is for a program that does not wait. What a tree still names stays, such as an outcome
// that is kept for a [Task].Key. The error joins those of the Store, of what cannot be read and so
// stays; or it is the cause of ctx, or [ErrShutdown]. If either came before the call, it is
// [ErrNotRecorded] as well, as of every command: nothing was removed, and Purge may be called
// again.
func (rt *Runtime) Purge(ctx context.Context) (removed int, err error) {
	if err := rt.checked(ctx); err != nil {
		return 0, err
	}
	return rt.sup.Purge(ctx)
}

// Blocked returns what could not be delivered for half an hour, or was refused for good, and is not
// tried again until [Runtime.Retry]: completions, replies, events, ends for Hooks.Ended, and
// messages to other trees, see Delivery.Sent. The list beside an error lacks those of the trees
// that cannot be read.
func (rt *Runtime) Blocked(ctx context.Context) ([]Delivery, error) {
	if err := rt.checked(ctx); err != nil {
		return nil, err
	}
	return rt.sup.Blocked(ctx)
}

// Retry tries a blocked delivery again. The error is [ErrNotFound] if there is none with the key,
// or one that every command can return.
func (rt *Runtime) Retry(ctx context.Context, key string) error {
	if err := rt.checked(ctx); err != nil {
		return err
	}
	return rt.sup.Retry(ctx, key)
}

// Dismiss gives a blocked delivery up. The errors are those of [Runtime.Retry].
func (rt *Runtime) Dismiss(ctx context.Context, key string) error {
	if err := rt.checked(ctx); err != nil {
		return err
	}
	return rt.sup.Dismiss(ctx, key)
}

var errNoReceiver = errors.New("agent: the Config has no Deliver or Reply that takes this")

// originKey is the key under which the context of a call to Deliver holds the Origin of what the
// receiver spawns in answer.
type originKey struct{}

// receiving is the context of a call to Deliver.
type receiving struct {
	context.Context //nolint:containedctx // it is a context

	origin  string
	senders []policy.Sender
}

// Value implements context.Context.
func (c *receiving) Value(key any) any {
	switch key.(type) {
	case originKey:
		return c.origin
	case sendersKey:
		return c.senders
	}
	return c.Context.Value(key)
}

// deliver hands over what leaves a tree.
func (rt *Runtime) deliver(ctx context.Context, out spawn.Delivery) error {
	// An earlier configuration may have had a receiver that this one has not. The entry is then
	// kept, and blocked in the end.
	err := errNoReceiver
	switch {
	case out.Update && rt.cfg().Reply != nil:
		return deliveryError(rt.sayUpdate(ctx, out))
	case out.Update: // this configuration says nothing to people
	case (out.Completion != nil || out.Event != nil) && rt.cfg().Deliver != nil:
		ctx = &receiving{ctx, originOf(out), sendersIn(out)}
		err = rt.cfg().Deliver(ctx, rt.maskLabels(out)) //nolint:contextcheck // it is made of ctx
	case out.Reply != nil && rt.cfg().Reply != nil:
		reply := rt.shownReply(*out.Reply)
		out.Reply = &reply
		if err = nil; reply.Text != "" {
			err = rt.cfg().Reply(ctx, out)
		}
		if err == nil {
			rt.bindings.replied(ctx, &reply)
		}
	}
	return deliveryError(err)
}

// maskLabels returns a delivery of whose labels a receiver may show the beginning, as
// [announce.NewEvent] does. A label that has no secret stays as it was given.
func (rt *Runtime) maskLabels(out spawn.Delivery) spawn.Delivery {
	out.More = slices.Clone(out.More)
	for i := range len(out.More) + 1 {
		d := &out
		if i > 0 {
			d = &out.More[i-1]
		}
		if d.Completion == nil {
			continue
		}
		if label := rt.maskedLabel(d.Completion.Run.Label); label != d.Completion.Run.Label {
			masked := *d.Completion // others read it, too
			masked.Run.Label, d.Completion = label, &masked
		}
	}
	return out
}

// maskedLabel returns a label as it is, or on one line, sanitized and masked if it has a secret.
func (rt *Runtime) maskedLabel(label string) string {
	sane := secret.OneLine(announce.Sanitize, label)
	shown := secret.OneLine(func(s string) string {
		return rt.maskKept(announce.Sanitize(s))
	}, label)
	if shown == sane {
		return label
	}
	return shown
}

// originOf returns the Origin of what the receiver of a call spawns in answer: that of the newest
// delivery in it, as the turn of a session that Offshoot runs belongs to what it has read last.
func originOf(out spawn.Delivery) string {
	if n := len(out.More); n > 0 {
		out = out.More[n-1]
	}
	if out.Event != nil {
		return out.Event.Origin
	}
	return out.Completion.Origin
}

// sendersIn returns the people for whom the sub-agents of a delivery have worked.
func sendersIn(out spawn.Delivery) (all []policy.Sender) {
	for _, x := range append([]spawn.Delivery{out}, out.More...) {
		if x.Completion != nil {
			all = policy.MergeSenders(all, x.Completion.Run.Senders)
		}
	}
	return all
}

// sayUpdate says the end of a sub-agent to the chat, for which a person has asked, or AnnounceTo.
func (rt *Runtime) sayUpdate(ctx context.Context, out spawn.Delivery) error {
	shown := *out.Completion // others read it, too
	shown.Run.Label = rt.shownLine(shown.Run.Label)
	event := announce.NewEvent(&shown)
	// It is shown before it is one line, and is cut. A person who may not call everyone must not
	// have the bot do it by the name of a task.
	event.Task = text.WithoutMentions(rt.Shown(event.Task))
	event.Reason = rt.redactor.At(announce.BoundaryReplies, announce.Sanitize(event.Reason))
	said := event.Update()
	if rt.cfg().AnnounceTo == AnnounceToChat {
		said = event.Report()
	}
	said = speaking(rt.redactor.At(announce.BoundaryReplies, said), said)
	if said == "" {
		return nil
	}
	out.Reply = &spawn.Reply{
		From: out.Completion.Run.Key, Text: said, Route: out.Route,
		Failed: out.Completion.Run.Status != spawn.StatusOK, Err: out.Completion.Run.Error,
	}
	out.Completion, out.Update = nil, false
	return rt.cfg().Reply(ctx, out)
}

// deliveryError returns the error of a receiver as the tree reads it: one that has called a model
// may return what its provider said.
func deliveryError(err error) error {
	limited, isLimited := errors.AsType[RateLimited](contain.Read(err))
	if _, asks := errors.AsType[*spawn.RetryAfterError](err); isLimited && !asks {
		err = spawn.RetryAfter(limited.After, err)
	}
	return err
}

// toolsOf returns what policy leaves a session for a turn, now: what was granted to it and to every
// session above it, within today's rules, which are those of cfg. Each has the Call of an ownTool.
func (rt *Runtime) toolsOf(t *Turn, cfg *Config, now *policy.Authority) []ownTool {
	own := make([]ownTool, 0, len(now.Tools))
	for _, tool := range cfg.Tools {
		if slices.Contains(now.Tools, tool.Name) {
			own = append(own, ownTool{tool, t})
		}
	}
	isLeft := func(name string) bool { return slices.Contains(now.Tools, name) }
	if !slices.ContainsFunc(sessionToolNames, isLeft) { // as most sub-agents
		return own
	}
	host := toolHost{
		rt: rt, session: rt.sessionIn(t.Session.Key, t.Session.Root), turn: t,
		token: turnToken(t.spawn.First),
	}
	for _, tool := range host.tools(cfg, now, now.Tools) {
		own = append(own, ownTool{tool, t})
	}
	return own
}

// retrySection is the section that has the retryText, and peopleSection the one that has the
// peopleText.
const (
	retrySection  = "retry"
	peopleSection = "people"
)

// loadResults has the results of completions be whole. A model is shown the two ends of a long one.
// Of one that cannot be loaded now it is shown the beginning.
func (rt *Runtime) loadResults(ctx context.Context, inputs []spawn.Input) {
	for _, in := range inputs {
		if in.Completion == nil {
			continue
		}
		run := &in.Completion.Run
		if run.Result.Whole.IsZero() && run.Result.WholeJSON.IsZero() {
			continue
		}
		ref := session.Ref{Key: run.Key, SessionID: run.SessionID}
		err := attempt(func() error { return run.Result.Load(ctx, rt.cfg().Store.Files, ref) })
		if err != nil {
			rt.log.Warn("offshoot: a model is told the beginning of a result",
				"session", run.Key.String(), "error", redact(err).Error())
		}
	}
}

// runWithin is how soon after the first work Run is called, before its absence is logged.
const runWithin = 5 * time.Second

// A runWatch logs once that a Runtime has work and that Run has not been called: nothing else says
// so, and Idle and Wait would wait for ever. The zero runWatch is ready for use.
//
// The goroutine that logs is the only one of the library without an owner that waits for it: a
// Logger that hangs would otherwise hold Run.
type runWatch struct {
	mu    sync.Mutex
	over  bool // Run or Shutdown was called
	timer *time.Timer
}

// expectRun notes that the Runtime has work.
func (rt *Runtime) expectRun() {
	w := &rt.watch
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over || w.timer != nil {
		return
	}
	w.timer = time.AfterFunc(runWithin, func() {
		if w.isOver() {
			return
		}
		rt.log.Warn("offshoot: there is work, and Runtime.Run has "+
			"not been called: turns and deliveries start with it, and Idle and Wait wait for it",
			"after", runWithin.String())
	})
}

func (w *runWatch) isOver() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.over
}

// end notes that Run or Shutdown was called.
func (w *runWatch) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over = true; w.timer != nil {
		w.timer.Stop()
	}
}
