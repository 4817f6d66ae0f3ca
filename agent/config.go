package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	agentctx "github.com/offshoot-sdk/offshoot/context"
	"github.com/offshoot-sdk/offshoot/internal/text"
	"github.com/offshoot-sdk/offshoot/internal/weight"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
)

// Config configures a Runtime. Only Runner is required, and every other field has a useful zero
// value. Open copies a Config and does not change it. A text in it has at most 1,000,000 bytes, and
// all of them together have 10,000,000.
type Config struct {
	// Runner runs one turn of one session.
	Runner Runner
	// Tools are the caller's own. Policy decides which session gets which.
	Tools []Tool
	// Rules are the agents, limits, tool rules and budgets. The zero Rules are the defaults.
	Rules policy.Rules
	// Store keeps everything that is durable. Nil: in memory, gone with the process.
	Store *session.Store
	// Workspace holds AGENTS.md and the seven other files that prompts are made of. Nil: none. For
	// a real directory, os.OpenRoot(dir) and its FS method keep links from leading outside;
	// os.DirFS is fine for a directory that is trusted.
	Workspace fs.FS

	// Deliver takes completions for top-level sessions that the caller runs with a loop of its own;
	// d.Completion is set. It returns nil once the completion can no longer be lost. After an error
	// it is called again with the same Key, for up to half an hour; then the delivery is blocked
	// until Runtime.Retry or Runtime.Dismiss. Calls for one session never overlap.
	// announce.NewEvent(d.Completion) makes the text for the model of the session, and the one for
	// a person. A message that the caller posts to such a session still gets a turn of the Runner,
	// whose answer goes to Reply. Nil: Offshoot runs those sessions, and completions are inputs of
	// theirs.
	//
	// Completions for one session arrive in the order in which the runs ended. One that fails, or
	// whose session is busy (ErrBusy), holds back those behind it until it is delivered or blocked.
	// A panic and runtime.Goexit are failures. A completion that was blocked may come late, and
	// says so.
	//
	// A model that answers the completion is given the Session.Tools, which are called with ctx or
	// one derived from it: so they count against the limit of runs of the message that it began
	// with.
	Deliver func(ctx context.Context, d Delivery) error
	// Reply takes what sessions run by Offshoot say to people; d.Reply is set, and its Text is
	// visible text only, never empty. The same promises hold for what a session says to one Route:
	// one channel, account, recipient and thread. Nil: what they say is in the transcript only.
	Reply func(ctx context.Context, d Delivery) error
	// DeliverTimeout is how long a call of Deliver or Reply may take. Then its ctx ends, and the
	// attempt has failed. If the receiver does not return all the same, it is not called for the
	// same session or Route before it has; what waits is blocked after half an hour. If it returns
	// nil in the end, the delivery has arrived. Zero: 2 minutes.
	DeliverTimeout time.Duration

	// Logger is told of failures that no call returns, such as the error of a model. Nil: what
	// slog.Default is when the Runtime is opened. slog.New(slog.DiscardHandler) is silent.
	Logger *slog.Logger
	// Grace is how long a Runner may take to return once its turn is cancelled. Zero: 10 seconds.
	Grace time.Duration
	// Now is the clock of the prompts' date. Nil: time.Now.
	Now func() time.Time

	// Prompts say what prompts hold beyond the files of Workspace.
	Prompts Prompts
	// Models say what sessions run with.
	Models Models
	// Limits bound what people, models and tools give. The zero Limits are the defaults.
	Limits Limits
}

// Prompts say what the prompts of a bot hold beyond the files of [Config.Workspace]. The zero value
// adds nothing.
type Prompts struct {
	// Workspaces are those of agents that have their own, by agent id. The others use
	// Config.Workspace.
	Workspaces map[string]fs.FS
	// Loader says how workspaces are read. The zero Loader reads the eight files.
	Loader agentctx.Loader
	// SubagentSpecs say what sub-agents see, by the id of the agent that runs them; the Spec under
	// "" holds for agents that have none. Ids are in lower case, as keys of sessions have them.
	// What a Spec leaves open is AGENTS.md and TOOLS.md in minimal mode.
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
}

// Models say which language models sessions run with. Names are "provider/model".
type Models struct {
	// Model is what top-level sessions run with, and what sub-agents inherit unless a rule says
	// otherwise. Empty: the Runner's own default.
	Model string
	// Thinking is the thinking level of the same sessions. Empty: the Runner's own default.
	Thinking string
	// Valid reports whether a model name that a spawn asks for can be used. Nil: every well-formed
	// name. It may call the Runtime. One that takes long delays that spawn alone, and one that
	// panics refuses it with a *spawn.CallbackError.
	Valid func(name string) bool
}

// validate reports names that cannot stand in a line of a prompt.
func (m *Models) validate(bad func(path, format string, args ...any)) {
	for _, f := range []struct{ path, name string }{
		{"Models.Model", m.Model}, {"Models.Thinking", m.Thinking},
	} {
		if fault := text.NameFault(f.name); fault != "" {
			bad(f.path, "%s", fault)
		}
	}
}

// A ConfigError is one mistake in a Config.
type ConfigError struct {
	Path    string // "Tools[2].Name"
	Message string
}

func (e *ConfigError) Error() string { return "agent: config: " + e.Path + ": " + e.Message }

// ConfigErrors are all the mistakes of a Config. Open returns them.
type ConfigErrors []*ConfigError

func (e ConfigErrors) Error() string {
	texts := make([]string, len(e))
	for i, x := range e {
		texts[i] = x.Error()
	}
	return strings.Join(texts, "\n")
}

// Unwrap returns the mistakes one by one.
func (e ConfigErrors) Unwrap() []error {
	errs := make([]error, len(e))
	for i, x := range e {
		errs[i] = x
	}
	return errs
}

// validate reports every mistake at once.
func (c *Config) validate() error {
	var list ConfigErrors
	bad := func(path, format string, args ...any) {
		list = append(list, &ConfigError{Path: path, Message: fmt.Sprintf(format, args...)})
	}
	if over := weight.Check(*c, weight.OfConfig); over != nil {
		bad(cmp.Or(over.Path, "(all)"), "%v", over)
		return list // the others would repeat it
	}
	if f, isFunc := c.Runner.(RunnerFunc); c.Runner == nil || isFunc && f == nil {
		bad("Runner", "it is missing; it is the one thing that a Runtime cannot do without")
	}
	if l, ok := c.Runner.(*Loop); ok && (l == nil || l.Model == nil) {
		bad("Runner", "the Loop has no Model")
	} else if ok && l.MaxSteps < 0 {
		bad("Runner.MaxSteps", "%d is negative", l.MaxSteps)
	}
	if c.Store != nil && (c.Store.Journal == nil || c.Store.Transcripts == nil) {
		bad("Store", "it lacks a Journal or Transcripts; session.NewMemory has both")
	}
	seen := slices.Clone(sessionToolNames)
	for i, t := range c.Tools {
		path := fmt.Sprintf("Tools[%d]", i)
		switch {
		case !validToolName(t.Name):
			bad(path+".Name", "%s: a letter, digit or _, then up to 63 of those and -",
				text.Quote(t.Name))
		case slices.Contains(sessionToolNames, t.Name):
			bad(path+".Name", "%q is a tool of Offshoot", t.Name)
		case slices.Contains(seen, t.Name):
			bad(path+".Name", "%q is there twice", t.Name)
		}
		if t.Call == nil {
			bad(path+".Call", "it is missing")
		}
		if err := t.checkSchema(); err != nil {
			bad(path+".Schema", "tool %s: %v", text.Quote(t.Name), err)
		}
		seen = append(seen, t.Name)
	}
	if c.DeliverTimeout < 0 {
		bad("DeliverTimeout", "%v is negative", c.DeliverTimeout)
	}
	c.Limits.validate(bad)
	c.Models.validate(bad)
	if len(c.Prompts.Input.Skills) > 0 {
		bad("Prompts.Input.Skills", "the Runtime fills it in, from the sources in Prompts.Skills")
	}
	for i, s := range c.Prompts.Skills {
		if _, err := s.Origin.MarshalText(); err != nil {
			bad(fmt.Sprintf("Prompts.Skills[%d].Origin", i), "%v", err)
		}
	}
	if err := c.Prompts.Input.Limits.Validate(); err != nil {
		bad("Prompts.Input.Limits", "%v", err)
	}
	if zone := c.Prompts.Input.Env.Zone; !knownZone(zone) {
		bad("Prompts.Input.Env.Zone", "%s is not the name of a time zone that this system knows, "+
			"such as Europe/Stockholm", text.Quote(zone))
	}
	if c.Grace < 0 {
		bad("Grace", "%v is negative", c.Grace)
	}
	for _, id := range slices.Sorted(maps.Keys(c.Prompts.SubagentSpecs)) {
		if err := c.Prompts.SubagentSpecs[id].Validate(); err != nil {
			bad(fmt.Sprintf("Prompts.SubagentSpecs[%q]", id), "%v", err)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(c.Prompts.Workspaces)) {
		if _, err := session.MainKey(id); err != nil {
			bad(fmt.Sprintf("Prompts.Workspaces[%q]", id), "%v", err)
		}
	}
	if err := c.Rules.Validate(); err != nil {
		for _, e := range splitErrors(err) {
			bad("Rules", "%v", e)
		}
	}
	if len(list) == 0 {
		return nil
	}
	return list
}

// knownZone reports whether package time finds a zone of that name, which may be empty.
func knownZone(name string) bool {
	_, err := time.LoadLocation(name)
	return err == nil
}

func splitErrors(err error) []error {
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

// workspace returns the files of an agent: its own, else the common ones.
func (c *Config) workspace(agent string) fs.FS {
	if own, ok := c.Prompts.Workspaces[agent]; ok {
		return own
	}
	return c.Workspace
}

// authority returns what a top-level session has, and a sub-agent would have right below a session
// of its agent that may hand everything down.
func (c *Config) authority(key session.Key) policy.Authority {
	all, model := c.allToolNames(), c.Models.Model
	if !key.IsSubagent() {
		return c.Rules.TopAuthority(key, model, all)
	}
	above := policy.Authority{
		Agent: key.Agent(), Role: session.RoleMain, Tools: all, Delegable: all,
	}
	return c.Rules.Effective(above, policy.Descendant{Key: key, Given: policy.Authority{
		Agent: key.Agent(), Role: session.RoleAt(1, c.Rules.MaxSpawnDepth()), Depth: 1,
		Model: model, Tools: all, Delegable: all,
	}})
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
	key session.Key, l session.Lineage, spec agentctx.Spec, tools []string, sandboxed bool,
) agentctx.Input {
	in := c.Prompts.Input
	in.Session, in.Lineage = key, l
	if in.Sandbox.Enabled = sandboxed; !sandboxed {
		in.Sandbox = agentctx.Sandbox{}
	}
	if key.IsSubagent() {
		under, ok := c.Prompts.SubagentSpecs[key.Agent()]
		if !ok {
			under = c.Prompts.SubagentSpecs[""]
		}
		spec = spec.Or(under)
	} else {
		spec = spec.Or(c.Prompts.Input.Spec)
	}
	in.Spec = c.onlySkills(key, spec)
	in.Skills, in.SkillReports = nil, nil
	in.Files = c.Prompts.Loader.Load(agentctx.LoadRequest{
		Session: key, Spec: spec, Workspace: c.workspace(key.Agent()), Sandboxed: sandboxed,
	})
	in.Tools = nil
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
		in.Env.Model = c.Models.Model
	}
	if in.Env.Thinking == "" {
		in.Env.Thinking = c.Models.Thinking
	}
	if in.Env.Channel == "" {
		in.Env.Channel = key.Channel()
	}
	return in
}
