package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/offshoot-sdk/offshoot/agent/internal/workdir"
	"github.com/offshoot-sdk/offshoot/announce"
	agentctx "github.com/offshoot-sdk/offshoot/context"
	"github.com/offshoot-sdk/offshoot/internal/enum"
	"github.com/offshoot-sdk/offshoot/internal/text"
	"github.com/offshoot-sdk/offshoot/internal/weight"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
)

// Config configures a Runtime. Only a Runner is required, and every other field has a useful zero
// value. Open copies a Config and does not change it. A text in it has at most 1,000,000 bytes, and
// all of them together have 10,000,000.
type Config struct {
	// Runner runs one turn of one session. It may be nil if each agent has one in Runners.
	Runner Runner
	// Tools are the caller's own. Policy decides which session gets which.
	Tools []Tool
	// Rules are the agents, limits, tool rules and budgets. The zero Rules are the defaults.
	// [Runtime.SetRules] puts others in their place.
	Rules policy.Rules
	// Owner says whether who has written to the session in is an owner of the bot, beside those of
	// whom Rules.Owners say so: what Rules.OwnerOnly and [Tool].OwnerOnly name is for owners alone.
	// It is asked for each message as it is posted, with who wrote it, who may be the zero Sender,
	// and its answer is kept with the message. It must be safe for concurrent use and should return
	// at once. After an error, a panic, or DeliverTimeout the person is not one, and the Logger is
	// told. Nil: the Rules say it alone; if they do not either, every person counts as one.
	Owner func(ctx context.Context, in session.Key, from session.Sender) (bool, error)
	// Store keeps everything that is durable. Nil: in memory, gone with the process. Several
	// processes share one that has Owners, which is experimental: each session is run by one of
	// them, whichever was asked, and by another one after that has died. Their Configs say the
	// same. See docs/cluster.md.
	Store *session.Store
	// Workspace holds AGENTS.md and the seven other files that prompts are made of. Nil: none. For
	// a real directory, os.OpenRoot(dir) and its FS method keep links from leading outside;
	// os.DirFS is fine for a directory that is trusted.
	Workspace fs.FS

	// Deliver takes completions for top-level sessions that the caller runs with a loop of its own;
	// d.Completion is set, or d.Event for what [Runtime.Announce] has such a session know, and
	// [announce.EventOf] reads both. It returns nil once the completion can no longer be lost.
	// After an error it is called again with the same Key, until its session has failed for half an
	// hour in which a process runs, from the first failure on; then the delivery is blocked until
	// Runtime.Retry or Runtime.Dismiss. Calls for one session never overlap.
	// announce.NewEvent(d.Completion) makes the text for the model of the session, and the one for
	// a person. A message that the caller posts to such a session still gets a turn of the Runner,
	// whose answer goes to Reply. Nil: Offshoot runs those sessions, and completions are inputs of
	// theirs. A sub-agent that has ended well and chose silence is not handed to Deliver, see
	// [announce.NoReply]; one that did not end well is, whatever it said.
	//
	// Completions for one session arrive in the order in which the runs ended. One that fails, or
	// whose session is busy (ErrBusy), holds back those behind it until it is delivered or blocked.
	// A panic and runtime.Goexit are failures. A completion that was blocked may come late, and
	// says so. An error from [Permanent] has it blocked at once. One from [RetryAfter], or a
	// [RateLimited], has it tried again after the pause that it says, which does not count to the
	// half hour. So it is with Reply.
	//
	// A model that answers the completion is given the Session.Tools, which are called with ctx or
	// one derived from it: so they count against the limit of runs of the message that it began
	// with.
	Deliver func(ctx context.Context, d Delivery) error
	// Queue says how a session that the caller runs is told when several completions or events wait
	// for it: QueueFollowup one by one, QueueCollect in one call, each under its own key, see
	// [Delivery].All; QueueSteer and QueueInterrupt say to the caller's loop, in Delivery.Mode,
	// what to do with the turn under way. It is asked at each call of Deliver, with the session.
	// Nil: QueueFollowup, and so is one that panics. One that ends its goroutine has the attempt
	// fail. See docs/delivery.md.
	Queue func(of session.Key) QueueMode
	// Reply takes what sessions run by Offshoot say to people; d.Reply is set, and its Text is
	// visible text only, never empty. The same promises hold for what a session says to one Route:
	// one channel, account, recipient and thread. Those of a session whose key names no chat, such
	// as a main session, have the zero Route until a message had one: a transport that cannot send
	// them returns nil, since an error is tried again. Nil: what they say is in the transcript
	// only.
	Reply func(ctx context.Context, d Delivery) error
	// Route says where people are told what comes of a sub-agent: what the session that spawned it
	// says over its end, and a [Task].Update. It is asked at each spawn, and what it returns is
	// kept with the run. A conversation that is bound to the sub-agent does not change it. Zero,
	// after an error or a panic, which the Logger is told, and nil: where the session was answering
	// at the spawn, or where its key or [Session.SetRoute] says: an error refuses no spawn, and no
	// requester is told of it. The Route beside an error is not used. It should return at once.
	// After DeliverTimeout it has failed, and a spawn whose ctx ends before that does not wait for
	// it.
	Route func(ctx context.Context, q RouteRequest) (session.Route, error)
	// DeliverTimeout is how long a call of Deliver or Reply may take. Then its ctx ends, and the
	// attempt has failed. If the receiver does not return all the same, it is not called for the
	// same session or Route before it has; what waits is blocked after half an hour. If it returns
	// nil in the end, the delivery has arrived. Zero: 2 minutes.
	DeliverTimeout time.Duration

	// AnnounceTurn says how a sub-agent announces its result in a turn of its own, where
	// [policy.AnnounceTurn] asks for that. The zero AnnounceTurn has words for it.
	AnnounceTurn AnnounceTurn
	// AnnounceTo says who is told of the end of what the model of a top-level session spawns: the
	// session, or people. The zero AnnounceTo is the session.
	AnnounceTo AnnounceTo

	// Logger is told of failures that no call returns, such as the error of a model. Credentials
	// in their texts are masked, and each text has at most 10,000 bytes. Nil: what slog.Default is
	// when the Runtime is opened. slog.New(slog.DiscardHandler) is silent. A record on which its
	// Handler panics is lost. A Handler must not call runtime.Goexit: Open, which logs doubts,
	// would end its caller, and a turn that logs before it has come to its end fails with
	// spawn.ErrExited. What a turn has come to is kept also then. Nor may it hang: what logs waits
	// for it, so that a spawn that logs outlasts its ctx.
	Logger *slog.Logger
	// Grace is how long a Runner may take to return once its turn is cancelled. Zero: 10 seconds.
	Grace time.Duration
	// Drain is how long turns under way may go on, and what they say be delivered, when the ctx of
	// [Runtime.Run] has ended: Run then shuts the Runtime down as [Runtime.Shutdown] does with that
	// time. Zero: they are cancelled at once.
	Drain time.Duration
	// Now is the clock of the prompts' date. Nil: time.Now. If it returns the zero time, prompts
	// have no date.
	Now func() time.Time

	// Redact says what is masked, beyond the credentials that [announce.Redact] knows, in what
	// others than a session itself see of it: in what people are told by Reply, in what a sub-agent
	// and another tree tell the model of a session, in events and deltas, in the safe view of
	// [Session.History], in milestones, in the texts of errors and in what the Logger is told. Its
	// Open leaves replies, or what models are told, as they are. What a session replays, a task,
	// what a Runner returns and the Completion that Deliver takes are not changed: a bot that wants
	// that masked, too, calls [announce.Redactor.Redact]. Open of the Runtime refuses a pattern
	// that is not one, that matches everything or nothing, and says why. See docs/redaction.md.
	Redact announce.Redaction

	// Prompts say what prompts hold beyond the files of Workspace.
	Prompts Prompts
	// Models say what sessions run with.
	Models Models
	// Runners are those of agents that have their own.
	Runners Runners
	// Threads say on which channels a conversation can be bound to a session, such as a thread to
	// the sub-agent that works in it. The zero Threads say: on none. With a Store that several
	// processes share, a conversation is bound for all of them.
	Threads Threads
	// Hooks hear of spawns, which they may refuse, and of the ends of sub-agents.
	Hooks Hooks
	// Limits bound what people, models and tools give. The zero Limits are the defaults.
	Limits Limits

	// WorkDir returns the directory in which the tools of an agent work, by the id of the agent: an
	// absolute path of a directory that is there. Turn.Dir has it in each turn of the sessions of
	// the agent, and Task.Dir names a directory inside. An AGENTS.md in it is part of the prompt if
	// the Spec of the session has AGENTS.md. Empty: the agent has none. Nil: no agent has one.
	//
	// It is called for a spawn with a Task.Dir or Task.Attachments and in each turn, for many
	// sessions at once, and should return at once; a spawn whose ctx ends does not wait for it. If
	// it panics, or returns what is not a directory, the spawn or the turn fails with a
	// *[CallbackError] whose Field is "WorkDir". See docs/directories.md.
	WorkDir func(agent string) string
}

// A RouteRequest is a sub-agent that is to be spawned, for [Config].Route.
type RouteRequest struct {
	From   session.Key // the session that spawns it
	Agent  string      // whose the sub-agent is
	Label  string      // of the task
	Update bool        // the chat itself is told of its end
}

// An AnnounceTurn is the announce step of sub-agents: one more turn in the session of a sub-agent
// whose work is done and whose requester is to be told. What the sub-agent says in it takes the
// place of its result in the announcement. See docs/announcements.md.
//
// Which sub-agents have one say policy.Subagents.Announce of the Rules, for all or by agent, and
// policy.AnnounceTurn. It takes a slot, counts against budgets and limits of turns, and comes once
// over every crash. If it fails, is cancelled or says nothing, the result is announced.
type AnnounceTurn struct {
	// Words are what the sub-agent is told to do, as a message behind its conversation. Offshoot
	// adds that its answer is the announcement, that no tool can be called, and that an answer with
	// only [announce.AnnounceSkip] announces nothing. Empty: to sum up what came of its task.
	Words string
	// Model is what the step runs on, a name as in [Models]. Empty: what the run does.
	Model string
	// Timeout is how long the step may take, from its slot on. The time of the run does not count
	// then. Zero: 2 minutes.
	Timeout time.Duration
}

// validate adds the mistakes of the announce step.
func (a *AnnounceTurn) validate(bad func(path, format string, args ...any)) {
	if a.Timeout < 0 {
		bad("AnnounceTurn.Timeout", "%v is negative", a.Timeout)
	}
	fault := text.NameFault(a.Model)
	if fault == "" && a.Model != "" {
		fault = policy.ModelFault(a.Model)
	}
	if fault != "" {
		bad("AnnounceTurn.Model", "%s", fault)
	}
}

// An AnnounceTo says who is told of the end of a sub-agent that the model of a top-level session
// has spawned. A sub-agent that spawns is always told itself.
type AnnounceTo uint8

const (
	// AnnounceToSession tells the session, whose model says to people what they should know of it.
	AnnounceToSession AnnounceTo = iota
	// AnnounceToChat tells people, by Reply and in the form of [announce.Event.Report], where
	// [Task].Update would. The session has no turn over it, and its model knows that from the
	// prompt; it finds what came of the task with the tools that look at sub-agents. Without Reply
	// it is AnnounceToSession.
	//
	// Every Task.Update has that form then. The end of a sub-agent to which the model has sent a
	// message is announced to the session as well.
	AnnounceToChat
)

var announceToNames = [...]string{"session", "chat"}

// String returns "session" or "chat".
func (a AnnounceTo) String() string { return enum.String(announceToNames[:], "AnnounceTo", a) }

// MarshalText returns the name. A value that is not an AnnounceTo is an error.
func (a AnnounceTo) MarshalText() ([]byte, error) {
	return enum.Marshal(announceToNames[:], "agent", "announceTo", a)
}

// UnmarshalText sets the value that has the name text, in any letter case.
func (a *AnnounceTo) UnmarshalText(text []byte) error {
	return enum.Unmarshal(announceToNames[:], "agent", "announceTo", text, a)
}

// tellsChat reports whether people are told of the end of what the model of a session spawns.
func (c *Config) tellsChat(from session.Key) bool {
	return c.AnnounceTo == AnnounceToChat && c.Reply != nil && !from.IsSubagent()
}

// Prompts say what the prompts of a bot hold beyond the files of [Config.Workspace]. The zero value
// adds nothing.
type Prompts struct {
	// Workspaces are those of agents that have their own, by agent id in any letter case. The
	// others use Config.Workspace. A sub-agent for which there is neither has that of the session
	// that spawned it, and so on up to the top-level session.
	Workspaces map[string]fs.FS
	// Loader says how workspaces are read. The zero Loader reads the eight files.
	Loader agentctx.Loader
	// SubagentSpecs say what sub-agents see, by the id of the agent that runs them; the Spec under
	// "" holds for agents that have none. Ids are in any letter case. What a Spec leaves open is
	// AGENTS.md and TOOLS.md in minimal mode.
	SubagentSpecs map[string]agentctx.Spec
	// Skills are the directories that skills come from. A session takes a snapshot of them at its
	// first turn, and keeps that over restarts: later turns list the same skills, as they were.
	// [policy.Agent.Skills] says which of them the sessions of an agent may see. A sub-agent sees
	// those of them that its Spec names. A SKILL.md that is passed over is logged, and its report
	// is in Turn.Prompt.Skills. See docs/skills.md.
	Skills []agentctx.SkillSource
	// SkillHost says which programs, variables and settings skills find where tools run. A skill
	// that lacks what it requires is left out. Nil: the machine of this process, without settings.
	SkillHost *agentctx.SkillHost
	// Input holds what prompts say beyond what the Runtime knows: product, documentation, limits,
	// channel, extra sections, and in Spec what top-level sessions see. The Runtime fills in
	// Session, Lineage, Files, Tools, Skills, SkillReports, Subagent, Active, Now and Task;
	// [Config.Input] returns the whole. Sandbox describes the sandbox of the sessions that the
	// Rules put into one: the Runtime sets its Enabled for each session, and leaves Sandbox out of
	// the prompts of the others.
	Input agentctx.Input
	// Describe says what is special about one session: the group that it serves, its channel with
	// what that can do, the words about its sandbox, sections of its own. It is called before each
	// prompt is assembled, also for [Config.Input] and [Config.ChildInput], and changes in, which
	// has everything that the prompt is made of. Nil: Input holds for every session.
	//
	// in is a copy, so that no change reaches the Config or another session. What a session may see
	// and do is not Describe's to say: Session, Lineage, Spec, Files, Tools, Skills, SkillReports,
	// Subagent, Active, Now, Task, Env.Model, Env.Thinking and Sandbox.Enabled are set again after
	// it, whatever it has made of them, and a session that is in no sandbox has no words about one.
	// So a sub-agent never sees a file that its Spec withholds.
	//
	// The lineage of a session that [Config.Input] is asked about is that of a first turn; of a
	// sub-agent it has Key, Depth and Role alone.
	//
	// The prompts of several sessions are described at the same time. Describe runs within the turn
	// and should return soon after ctx ends, as a Runner should. After an error or a panic, and if
	// it makes an Input that [agentctx.Input.Validate] refuses or that is too long for a Config,
	// the turn fails with a *[CallbackError] whose Field is "Prompts.Describe", and a person gets
	// an apology.
	Describe func(ctx context.Context, l session.Lineage, in *agentctx.Input) error
}

// Runners say which [Runner] runs the turns of an agent. The zero value leaves them all to
// [Config.Runner].
type Runners struct {
	// Agents are the Runners of agents, top-level sessions and sub-agents alike, by agent id in any
	// letter case. The others use Config.Runner, which may be nil if Rules.Agents are configured
	// and each of them has a Runner here. An error that names a Runner names its field, such as
	// `Runners.Agents["coder"]`.
	Agents map[string]Runner
	// Runtimes are external programs that sub-agents can run in, by the name that
	// [Task].Runtime and the argument runtime of sessions_spawn have for them, such as "acp". Names
	// are of letters, digits, _ and -, in any letter case, and not "subagent".
	Runtimes map[string]ExternalRuntime
}

// runner returns the Runner of a session, and its field in the Config. It is nil if neither the
// agent nor the Config has one.
func (c *Config) runner(key session.Key) (r Runner, field string) {
	id := c.Rules.AgentOf(key)
	if as, ok := keyInAnyCase(c.Runners.Agents, id); ok {
		return c.Runners.Agents[as], runnerField(as)
	}
	if c.Runner == nil {
		return nil, runnerField(id)
	}
	return c.Runner, "Runner"
}

func runnerField(id string) string { return fmt.Sprintf("Runners.Agents[%q]", id) }

// Models say which language models sessions run with. Names are "provider/model", or an alias of
// Prompts.Input.Aliases in any letter case. An alias counts wherever a model is named: here, in the
// Rules, in a Task and as an argument of sessions_spawn. Rules, Valid and the Runner see the full
// name.
type Models struct {
	// Model is what top-level sessions run with whose agent has no [policy.Agent] with a Model, and
	// what their sub-agents inherit unless a rule says otherwise. Empty: the Runner's own default,
	// which the Rules do not know, so that nothing of [policy.ToolPolicy.ByProvider] holds for such
	// a session. Open warns of that.
	Model string
	// Thinking is the thinking level of the same sessions. Empty: the Runner's own default.
	Thinking string
	// Prices are what models cost, by name in any letter case. A call that is accounted for without
	// a Cost has the cost that the price of its model gives, which counts against budgets like any
	// other. A Cost that the Runner gives stands. A model that is not there has no cost. See
	// [Turn.Spend].
	Prices map[string]Price
	// Valid reports whether a model name that a spawn asks for can be used. Nil: every well-formed
	// name. It may call the Runtime. One that takes long delays that spawn alone, and one that
	// panics refuses it with a *spawn.CallbackError.
	Valid func(name string) bool
	// Window says how much of a conversation a model is shown, by its full name; an empty name is
	// that of the Runner's own default. It is asked at the beginning of each turn, for many
	// sessions at once. Nil, and for a model with the zero [Window]: the whole conversation.
	Window func(model string) Window
	// Credentials returns what an agent logs in to its providers with, by the id of the agent. It
	// is called at the beginning of each turn, for the agent of the session and, unless that is
	// Isolated, for agent main, whose profiles the agent has, too, but for the ids that it has
	// itself. The Runner gets them through its ctx, with [CredentialFor], and they are nowhere
	// else: an agent has no credential of a session that spawned it. Nil: there are none.
	//
	// What it returns is masked from then on as [announce.Redaction].Secrets are: in errors, events
	// and replies, and in what the Logger is told. It must not be changed afterwards. It is called
	// for many sessions at once, and should return soon after ctx ends. After an error or a panic
	// the turn fails with a *[CallbackError] whose Field is "Models.Credentials".
	Credentials func(ctx context.Context, agent string) (Profiles, error)
}

// validate reports names that cannot stand in a line of a prompt, and a model that cannot be one.
func (m *Models) validate(bad func(path, format string, args ...any)) {
	for _, f := range []struct{ path, name string }{
		{"Models.Model", m.Model}, {"Models.Thinking", m.Thinking},
	} {
		if fault := text.NameFault(f.name); fault != "" {
			bad(f.path, "%s", fault)
			return
		}
	}
	if fault := policy.ModelFault(m.Model); fault != "" && m.Model != "" {
		bad("Models.Model", "%s", fault)
	}
}

// A ConfigError is one mistake in a Config.
type ConfigError struct {
	Path string // the Go path below Config: "Tools[2].Name", "Rules.Subagents.MaxChildren"
	// Setting is the place of a rule in the JSON configuration, as refusals name it:
	// "agents.defaults.subagents.maxChildrenPerAgent". It is empty for what is not a rule.
	Setting string
	Message string
}

func (e *ConfigError) Error() string {
	path := "Config." + e.Path
	if e.Setting != "" {
		path += " (" + e.Setting + ")"
	}
	return "agent: " + path + ": " + e.Message
}

// ConfigErrors are all the mistakes of a Config. Open returns them.
type ConfigErrors []*ConfigError

// Error returns one line for each mistake, of the first 20.
func (e ConfigErrors) Error() string { return text.List(e, "\n", (*ConfigError).Error) }

// Unwrap returns the mistakes one by one.
func (e ConfigErrors) Unwrap() []error {
	errs := make([]error, len(e))
	for i, x := range e {
		errs[i] = x
	}
	return errs
}

// validate reports every mistake at once, and else what is doubtful.
func (c *Config) validate() ([]policy.Doubt, error) {
	found := c.checkup()
	if len(found.errs) > 0 {
		return nil, found.errs
	}
	return found.moreDoubts(c), nil
}

// checkup returns every mistake, and the doubts that were found beside them.
func (c *Config) checkup() (found checkup) {
	bad := found.bad
	if over := weight.Check(*c, weight.OfConfig); over != nil {
		bad(cmp.Or(over.Path, "(all)"), "%v", over)
		return found // the others would repeat it
	}
	found.runners(c)
	found.runtimes(c)
	if c.Store != nil && (c.Store.Journal == nil || c.Store.Transcripts == nil) {
		bad("Store", "it lacks a Journal or Transcripts; session.NewMemory has both")
	}
	found.tools(c.Tools)
	if c.DeliverTimeout < 0 {
		bad("DeliverTimeout", "%v is negative", c.DeliverTimeout)
	}
	c.Limits.validate(bad)
	validateRedaction(c.Redact, bad)
	c.Models.validate(bad)
	c.AnnounceTurn.validate(bad)
	if c.AnnounceTo > AnnounceToChat {
		bad("AnnounceTo", "%v is not one", c.AnnounceTo)
	}
	if c.Grace < 0 {
		bad("Grace", "%v is negative", c.Grace)
	}
	if c.Drain < 0 {
		bad("Drain", "%v is negative", c.Drain)
	}
	found.prompts(c)
	found.aliases(c)
	found.prices(c)
	found.threads(&c.Threads)
	found.rules(&c.Rules)
	found.owners(c)
	return found
}

// moreDoubts returns all doubts of a Config that has no mistakes.
func (c *checkup) moreDoubts(cfg *Config) []policy.Doubt {
	c.models(cfg)
	c.unusedPrices(cfg)
	c.promptNames(cfg)
	if len(cfg.Prompts.Skills) == 0 {
		c.doubts = append(c.doubts, cfg.skillDoubts(nil, nil)...)
	}
	for _, f := range []struct {
		path string
		d    time.Duration
	}{
		{"DeliverTimeout", cfg.DeliverTimeout},
		{"Grace", cfg.Grace},
		{"Drain", cfg.Drain},
		{"AnnounceTurn.Timeout", cfg.AnnounceTurn.Timeout},
	} {
		if fault := text.UnitFault(f.d); fault != "" {
			c.doubt(f.path, "%s", fault)
		}
	}
	if level := cfg.Models.Thinking; level != "" {
		if _, ok := policy.ParseThinking(level); !ok {
			c.doubt("Models.Thinking", "it is %s, which is not one of %s", text.Quote(level),
				strings.Join(policy.ThinkingLevels(), ", "))
		}
	}
	c.unknownModels(cfg)
	return append(c.doubts, cfg.Rules.Doubts(cfg.allToolNames())...)
}

// validateRules reports every mistake that other Rules make of a Config without another, and else
// what is doubtful of them.
func (c *Config) validateRules() ([]policy.Doubt, error) {
	var found checkup
	if over := weight.Check(*c, weight.OfConfig); over != nil {
		found.bad(cmp.Or(over.Path, "(all)"), "%v", over)
		return nil, found.errs
	}
	found.rules(&c.Rules)
	found.aliases(c)
	found.owners(c)
	if c.Runner == nil {
		found.withoutRunner(c)
	}
	if len(found.errs) > 0 {
		return nil, found.errs
	}
	found.modelsOfRules(c)
	found.unknownModels(c)
	return append(found.doubts, c.Rules.Doubts(c.allToolNames())...), nil
}

// validateRedaction reports patterns and secrets that are refused.
func validateRedaction(r announce.Redaction, bad func(path, format string, args ...any)) {
	_, err := announce.NewRedactor(r)
	for _, err := range splitErrors(err) {
		var refused *announce.PatternError
		if !errors.As(err, &refused) {
			continue
		}
		reason := refused.Reason
		if refused.Pattern != "" {
			reason = text.Quote(refused.Pattern) + ": " + reason
		}
		bad("Redact."+refused.Field, "%s", reason)
	}
}

// splitErrors returns the errors that err joins, or err alone; none for nil.
func splitErrors(err error) []error {
	if err == nil {
		return nil
	}
	var many interface{ Unwrap() []error }
	if errors.As(err, &many) {
		return many.Unwrap()
	}
	return []error{err}
}

func validToolName(name string) bool {
	if name == "" || len(name) > maxToolName || name[0] == '-' {
		return false
	}
	for _, c := range []byte(name) {
		if c != '_' && c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'z') &&
			(c < 'A' || c > 'Z') {
			return false
		}
	}
	return true
}

// workspace returns the files of a session: its agent's own, else the common ones, else those of
// the nearest session above it that has any.
func (c *Config) workspace(key session.Key, above []session.Key) fs.FS {
	if own, ok := inAnyCase(c.Prompts.Workspaces, c.Rules.AgentOf(key)); ok {
		return own
	}
	if c.Workspace != nil {
		return c.Workspace
	}
	for _, requester := range above {
		if files, _ := inAnyCase(c.Prompts.Workspaces, c.Rules.AgentOf(requester)); files != nil {
			return files
		}
	}
	return nil
}

// inAnyCase returns what a map of the Config holds for a name, which may be in any letter case in
// it.
func inAnyCase[T any](m map[string]T, name string) (of T, ok bool) {
	key, ok := keyInAnyCase(m, name)
	if ok {
		of = m[key]
	}
	return of, ok
}

// keyInAnyCase returns the name as a map of the Config spells it.
func keyInAnyCase[T any](m map[string]T, name string) (key string, ok bool) {
	if _, ok = m[name]; ok || name == "" {
		return name, ok
	}
	for key := range m {
		if strings.EqualFold(key, name) {
			return key, true
		}
	}
	return "", false
}

// authority returns what a top-level session has, and a sub-agent would have right below a session
// of its agent that may hand everything down.
func (c *Config) authority(key session.Key) policy.Authority {
	all, model := c.allToolNames(), c.model(key)
	if !key.IsSubagent() {
		return c.Rules.ForSenders(c.Rules.TopAuthority(key, model, all), key, nil)
	}
	id := c.Rules.AgentOf(key)
	above := policy.Authority{
		Agent: id, Role: session.RoleMain, Tools: all, Delegable: all,
	}
	return c.Rules.Effective(above, policy.Descendant{Key: key, Given: policy.Authority{
		Agent: id, Role: session.RoleAt(1, c.Rules.MaxSpawnDepth()), Depth: 1,
		Model: model, Tools: all, Delegable: all,
	}})
}

// model returns what a top-level session runs on, and a sub-agent of it unless a rule says
// otherwise.
func (c *Config) model(key session.Key) string {
	return c.Rules.SessionModel(key, c.Models.Model)
}

func (c *Config) allToolNames() []string {
	names := make([]string, 0, len(c.Tools)+len(sessionToolNames))
	for _, t := range c.Tools {
		names = append(names, t.Name)
	}
	return append(names, sessionToolNames...)
}

// input is the one place where prompt inputs are made.
func (c *Config) input(
	key session.Key, l session.Lineage, above []session.Key, spec agentctx.Spec, tools []string,
	sandboxed bool, place workdir.Place,
) agentctx.Input {
	in := c.Prompts.Input
	in.Session, in.Lineage = key, l
	if in.Sandbox.Enabled = sandboxed; !sandboxed {
		in.Sandbox = agentctx.Sandbox{}
	}
	if key.IsSubagent() {
		spec = c.subagentSpec(c.Rules.AgentOf(key), spec)
	} else {
		spec = spec.Or(c.Prompts.Input.Spec)
	}
	in.Spec = c.onlySkills(key, spec)
	in.ReportsToPeople = c.tellsChat(key)
	in.Skills, in.SkillReports = nil, nil
	dir, done := execution(place)
	defer done()
	in.Files = c.Prompts.Loader.Load(agentctx.LoadRequest{
		Session: key, Spec: spec, Workspace: c.workspace(key, above), Sandboxed: sandboxed,
		Execution: dir,
	})
	setDir(&in, place)
	c.addRuntimes(&in, tools, sandboxed)
	in.Tools = make([]agentctx.Tool, 0, len(tools))
	for _, t := range c.Tools {
		if slices.Contains(tools, t.Name) {
			in.Tools = append(in.Tools, agentctx.Tool{Name: t.Name, Summary: t.firstLine()})
		}
	}
	for _, t := range sessionToolDocs {
		if slices.Contains(tools, t.Name) {
			in.Tools = append(in.Tools, t)
		}
	}
	if in.Env.Model == "" {
		in.Env.Model = c.model(key)
	}
	if in.Env.Thinking == "" {
		in.Env.Thinking = c.Models.Thinking
	}
	if in.Env.Channel == "" {
		in.Env.Channel = key.Channel()
	}
	return in
}

// PresetGoClaw makes c that of a bot whose main sessions have workers, and whose workers have none.
//
// It sets Rules.Subagents.MaxSpawnDepth to 1, Rules.MaxSessions to 30, Prompts.Input.Layout to
// [agentctx.LayoutGoClaw], and Prompts.Input.Markers to all core files, so that a prompt mentions
// each one that is missing. Call it before you set fields of c, since it overwrites these four; it
// leaves all others as they are.
//
// Its workers have the keys of all sub-agents, agent:<agent>:subagent:<id>. A key with the word
// spawn in that place, as that bot has them, is read and names a sub-agent, and is never made. A
// program that looks for either word in keys calls [session.IsSubagentSession]. A nil c is left
// alone.
func PresetGoClaw(c *Config) {
	if c == nil {
		return
	}
	c.Rules.Subagents.MaxSpawnDepth = 1
	c.Rules.MaxSessions = 30
	c.Prompts.Input.Layout = agentctx.LayoutGoClaw
	c.Prompts.Input.Markers = agentctx.CoreFiles()
}

// PresetClawdbot makes c that of the reference system's first months: sub-agents are all leaves,
// and are denied the four session tools of that time and nothing else.
//
// What a sub-agent has come to it says itself, in a turn of its own, and that goes to the chat, not
// to the session: as status, result, notes and stats, see [announce.Event.Report].
//
// It sets Rules.Subagents.MaxSpawnDepth to 1, Rules.MaxSessions to 4, Rules.Subagents.Announce to
// [policy.AnnounceTurn], Rules.DefaultDeny, AnnounceTurn.Words and AnnounceTo. Call it before you
// set fields of c, since it overwrites these six; it leaves all others as they are.
//
// The stats have no session keys, ids and paths, which that bot posted for its model: people see
// them. The tools that look at sub-agents, and Child.Info, have them. A nil c is left alone.
func PresetClawdbot(c *Config) {
	if c == nil {
		return
	}
	c.Rules.Subagents.MaxSpawnDepth = 1
	c.Rules.MaxSessions = 4
	c.Rules.Subagents.Announce = policy.AnnounceTurn
	c.Rules.DefaultDeny = []string{"sessions_list", "sessions_history", "sessions_send", toolSpawn}
	c.AnnounceTurn.Words = "Your work on this task is done. Now announce it where the task came " +
		"from, where nothing of this conversation was seen. Write two sections: one that begins " +
		"with the line \"Result:\" and says in a few sentences what came of it, and one that " +
		"begins with the line \"Notes:\" and says what is uncertain or left undone, if anything."
	c.AnnounceTo = AnnounceToChat
}
