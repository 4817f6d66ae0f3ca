package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/offshoot-sdk/offshoot/agent/internal/workdir"
	agentctx "github.com/offshoot-sdk/offshoot/context"
	"github.com/offshoot-sdk/offshoot/internal/clone"
	"github.com/offshoot-sdk/offshoot/internal/contain"
	"github.com/offshoot-sdk/offshoot/internal/text"
	"github.com/offshoot-sdk/offshoot/internal/weight"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// Input returns the prompt input that a Runtime with this Config uses for a session, so that a test
// of a prompt tests the one that is sent. Now is left zero.
//
// With Deliver, the program runs top-level sessions itself. Of the session tools, the input of one
// lists those that [Session.Tools] returns. The Tools of the Config are the program's own, and
// listed as policy leaves them.
//
// Of a sub-agent it is that of a first turn right below a top-level session, without what only a
// spawn knows: its label, and the session and channel of its requester. [Config.ChildInput] has
// those.
//
// The error is that of [Prompts.Describe], which is called with ctx, or that of [Config.WorkDir];
// without them there is none. Functions of the Config are called in the goroutine of the caller,
// and Input returns when they have: no Runtime is there that could leave one that hangs. A panic of
// one is a [*CallbackError].
func (c Config) Input(ctx context.Context, key session.Key) (agentctx.Input, error) {
	c = c.withFullModels() //nolint:revive // a copy is meant
	place, err := c.findPlace(c.Rules.AgentOf(key), "")
	if err != nil {
		return agentctx.Input{}, err
	}
	in := c.plainInput(key, place)
	l, err := session.Top(key)
	if err != nil {
		now := c.authority(key)
		l = session.Lineage{Key: key, Depth: max(now.Depth, key.Depth()), Role: now.Role}
	}
	return c.described(ctx, l, in)
}

// plainInput is Input without Prompts.Describe, of a Config whose models have their full names.
func (c *Config) plainInput(key session.Key, place workdir.Place) agentctx.Input {
	now := c.authority(key)
	names := now.Tools
	if c.Deliver != nil && !key.IsSubagent() {
		names = callerRunTools(names)
	}
	in := c.input(key, session.Lineage{}, nil, agentctx.Spec{}, names, now.Sandboxed, place)
	fillSkills(&in, c.skills(key, in.Spec))
	if !key.IsSubagent() {
		return in
	}
	in.Subagent = agentctx.Subagent{
		Depth: max(1, key.Depth()), MaxDepth: c.Rules.MaxSpawnDepth(),
		MaySpawn: slices.Contains(now.Tools, toolSpawn),
	}
	above := policy.Caller{
		Role: session.RoleMain, Model: c.model(key), Thinking: c.Models.Thinking,
		Delegable: c.allToolNames(),
	}
	id := c.Rules.AgentOf(key)
	main, err := session.MainKey(id)
	if above.Key = main; err != nil {
		return in
	}
	// A refusal has no model. The input then keeps that of the Config.
	if grant, err := c.Rules.Admit(above, policy.Request{Agent: id}); err == nil {
		setModel(&in, grant.Model.Value, grant.Thinking.Value)
	}
	return in
}

// ChildInput returns the prompt input of the first turn of a sub-agent, as Input does for a session
// whose key is known: the top-level session from spawns the first task, the sub-agent of that one
// spawns the second, and so on. The input is that of the last.
//
// The ids of the sub-agents are made up, from 00000000-0000-4000-8000-000000000001 on, so that the
// input is the same every time. To have the prompt that a certain sub-agent was sent, set Session
// to its key and Subagent.Requester to that of its requester; for one with a typed result, set
// Subagent.Schema to string(schema) of the schema that [ResultSchema] returns. In a work directory
// the section of its attachments has its id too: that of the last task is made up.
//
// The attachments of the last task are read to their end, as a spawn does it, under ctx; a spawn
// of that task needs new Readers. Each Reader is read in a goroutine of its own. ChildInput leaves
// one that hangs when ctx ends, and its goroutine ends when the Reader returns.
//
// The error is that of the function [Spawn] for a task that it refuses in a tree that is new, or
// that of [Prompts.Describe], which is called with ctx for the last one. What depends on what is on
// record is not looked at: keys and names that are known, runs, budgets that are spent and what
// Hooks.Spawning says. A session is taken to talk to people where the key from says; a task whose
// thread is to be elsewhere names its Conversation.
func (c Config) ChildInput(
	ctx context.Context, from session.Key, tasks ...Task,
) (in agentctx.Input, err error) {
	if len(tasks) == 0 || !from.IsValid() || from.IsSubagent() {
		return in, &InputError{
			Field: "from", Reason: "want the key of a top-level session, and at least one task",
		}
	}
	c = c.withFullModels() //nolint:revive // a copy is meant
	p := preview{cfg: &c, from: from}
	p.containAsked()
	model := c.model(from)
	now := c.Rules.ForSenders(c.Rules.TopAuthority(from, model, c.allToolNames()), from, nil)
	above := policy.Caller{
		Key: from, Role: session.RoleMain, Model: model, Thinking: c.Models.Thinking,
		Delegable: now.Delegable, Known: c.allToolNames(), Sandboxed: now.Sandboxed,
		Budget: c.Rules.Budget, RequestBudget: c.Rules.RequestBudget,
	}
	var line session.Lineage
	var lineage []session.Key // of the sessions above, the nearest first
	var kid previewed
	for i, task := range tasks {
		above.TreeRuns = i
		if kid, err = p.spawn(ctx, above, &task, i == len(tasks)-1); err != nil {
			return agentctx.Input{}, err
		}
		grant := kid.grant
		now = c.Rules.Effective(now, policy.Descendant{Key: kid.key, Given: grant.Authority()})
		line = session.Lineage{
			Key: kid.key, Root: from, Parent: above.Key, Depth: grant.Depth, Role: now.Role,
		}
		lineage = slices.Insert(lineage, 0, above.Key)
		in = c.input(kid.key, line, lineage, task.Spec, now.Tools, now.Sandboxed, kid.place)
		fillSkills(&in, c.skills(kid.key, in.Spec))
		setModel(&in, grant.Model.Value, grant.Thinking.Value)
		in.Task = task.Text
		keep, _ := task.mode() // the spawn has refused what cannot be
		in.Subagent = agentctx.Subagent{
			Label: text.Line(task.Label), Requester: above.Key, RequesterChannel: from.Channel(),
			Depth: grant.Depth, MaxDepth: c.Rules.MaxSpawnDepth(),
			MaySpawn: slices.Contains(now.Tools, toolSpawn), Forked: kid.forked,
			Persistent: keep,
		}
		above.Key, above.Role, above.Depth = kid.key, now.Role, grant.Depth
		above.Model, above.Thinking = grant.Model.Value, grant.Thinking.Value
		above.Delegable, above.Sandboxed = now.Delegable, now.Sandboxed
	}
	if p.failed != nil {
		return agentctx.Input{}, p.failed
	}
	if in, err = c.described(ctx, line, in); err == nil {
		tellAttachments(&in, attachedDir(line.Key, kid.place), kid.files)
	}
	return in, err
}

// idForm is the form of ids of people in the list of senders and above messages.
func (c *Config) idForm() text.IDForm {
	at := &c.Prompts.Input.Channel
	return text.IDForm{Hashed: at.HashSenders, Secret: slices.Clone(at.SenderSecret)}
}

// describeField is the path of the function that describes prompts.
const describeField = "Prompts.Describe"

// described is describe for a preview, which has no turn that contains a panic.
func (c *Config) described(
	ctx context.Context, l session.Lineage, in agentctx.Input,
) (agentctx.Input, error) {
	err := protect(describeField, func() error { return c.describe(ctx, l, &in) })
	if err != nil {
		return agentctx.Input{}, redact(err)
	}
	return in, nil
}

// describe has Prompts.Describe change the input of a prompt. What policy, the journal and the
// workspace decide stays as it is.
func (c *Config) describe(ctx context.Context, l session.Lineage, in *agentctx.Input) error {
	if c.Prompts.Describe == nil {
		return nil
	}
	given := clone.Of(*in)
	if err := contain.Read(c.Prompts.Describe(ctx, l, &given)); err != nil {
		return &CallbackError{Field: describeField, Err: err}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx) // the turn may have been given up meanwhile
	}
	keepDecided(&given, &agentctx.Input{ // what is left is Describe's own
		Session: in.Session, Sandbox: agentctx.Sandbox{Enabled: true},
	})
	if over := weight.Check(given, weight.OfConfig); over != nil {
		return &CallbackError{Field: describeField, Err: over}
	}
	if err := given.Validate(); err != nil {
		return &CallbackError{Field: describeField, Err: err}
	}
	given = clone.Of(given) // Describe may have kept what it put in
	keepDecided(&given, in)
	*in = given
	return nil
}

// keepDecided sets what Prompts.Describe does not decide to what decided has.
func keepDecided(in, decided *agentctx.Input) {
	in.Session, in.Lineage, in.Spec = decided.Session, decided.Lineage, decided.Spec
	in.Files, in.Tools = decided.Files, decided.Tools
	in.Skills, in.SkillReports = decided.Skills, decided.SkillReports
	in.Subagent, in.Active = decided.Subagent, decided.Active
	in.ReportsToPeople = decided.ReportsToPeople
	in.Now, in.Task = decided.Now, decided.Task
	// The lines above messages, earlier ones as well, have the form of the Config.
	in.Channel.HashSenders = decided.Channel.HashSenders
	in.Channel.SenderSecret = decided.Channel.SenderSecret
	in.Env.Model, in.Env.Thinking = decided.Env.Model, decided.Env.Thinking
	if in.Sandbox.Enabled = decided.Sandbox.Enabled; !in.Sandbox.Enabled {
		in.Sandbox = agentctx.Sandbox{}
	}
}

// A preview decides the spawns of ChildInput, one below the other, as those of a tree that is new.
type preview struct {
	cfg    *Config
	from   session.Key // the top-level session
	spawns int
	failed error // of a function of the Config, as a spawn returns it
}

// previewed is what a spawn of a preview comes to.
type previewed struct {
	key    session.Key
	grant  policy.Grant
	place  workdir.Place
	files  attached // of the last task
	forked bool
}

// containAsked has a panic of a function that a spawn asks be kept in failed.
func (p *preview) containAsked() {
	contain := func(name string, ask func() bool) (yes bool) {
		err := protect(name, func() error { yes = ask(); return nil })
		if bad, ok := errors.AsType[*CallbackError](err); ok && p.failed == nil {
			p.failed = &spawn.CallbackError{Callback: name, Err: bad.Err}
		}
		return yes
	}
	if valid := p.cfg.Models.Valid; valid != nil {
		p.cfg.Models.Valid = func(model string) bool {
			return contain("Models.Valid", func() bool { return valid(model) })
		}
	}
	if decide := p.cfg.Rules.Sandbox.Decide; decide != nil {
		p.cfg.Rules.Sandbox.Decide = func(agent string, key session.Key) bool {
			return contain("Rules.Sandbox.Decide", func() bool { return decide(agent, key) })
		}
	}
}

// spawn decides the spawn of a task, in the order of Task.equip. It reads the attachments if that
// is asked for.
func (p *preview) spawn(
	ctx context.Context, above policy.Caller, task *Task, reads bool,
) (made previewed, err error) {
	c := p.cfg
	p.spawns++
	id := fmt.Sprintf("00000000-0000-4000-8000-%012d", p.spawns)
	x := runExtra{Spec: task.Spec}
	if err = task.check(c.Rules.AgentOf(above.Key)); err != nil {
		return made, err
	}
	if x.Fork, err = c.previewFork(above.Key, task); err != nil {
		return made, err
	}
	if err = task.checkUpdate(c); err != nil {
		return made, err
	}
	made.forked = !x.Fork.IsZero()
	if made.grant, err = p.admit(above, task, x, id); err != nil {
		return made, err
	}
	if made.key, err = above.Key.Child(made.grant.Agent, id); err != nil {
		return made, err
	}
	if err = task.checkAttaching(&c.Rules); err != nil {
		return made, err
	}
	if x.Runtime, err = c.runtimeFor(task, above.Key); err != nil {
		return made, err
	}
	if made.place, err = c.findPlace(made.grant.Agent, task.Dir); err != nil {
		return made, err
	}
	if made.files, err = task.previewAttachments(ctx, c, made.place, reads); err != nil {
		return made, err
	}
	if err = task.previewThread(c, p.from.Route()); err != nil {
		return made, err
	}
	x.Stream, x.Attached = task.Stream, made.files
	if task.Dir != "" {
		x.Dir = made.place.Rel
	}
	_, err = c.previewRequest(task, x) // with what its length depends on
	return made, err
}

// previewFork returns the fork of a task of a session, whose conversation is not read. A session
// whose turns the program runs has none.
func (c *Config) previewFork(from session.Key, task *Task) (f fork, err error) {
	if !c.forks(from, task) {
		return f, nil
	}
	if c.Deliver == nil || from.IsSubagent() {
		return fork{SessionID: session.NewID(), Through: 1}, nil
	}
	if task.Spec.History == agentctx.HistoryFork {
		return f, noConversation(from)
	}
	return f, nil
}

// previewRequest returns the request of a task, which is not refused whatever is on record.
func (c *Config) previewRequest(task *Task, x runExtra) (q spawn.Request, err error) {
	if q, err = task.request(x); err != nil {
		return q, err
	}
	q.Policy.Model = c.modelNamed(q.Policy.Model)
	q.Dry, q.Bind = true, session.Route{} // as wouldSpawn has it
	return q, q.Validate(c.Limits.spawn())
}

// admit returns what the sub-agent of a task is granted.
func (p *preview) admit(
	above policy.Caller, task *Task, x runExtra, id string,
) (grant policy.Grant, err error) {
	q, err := p.cfg.previewRequest(task, x)
	if err != nil {
		return grant, err
	}
	agent := q.Policy.Agent
	if agent == "" {
		agent = p.cfg.Rules.AgentOf(above.Key)
	}
	q.Policy.Child, _ = above.Key.Child(agent, id) // zero for an agent that Admit refuses
	q.Policy.ValidModel = p.cfg.Models.Valid
	grant, err = p.cfg.Rules.Admit(above, q.Policy)
	if p.failed != nil {
		return grant, p.failed
	}
	return grant, inOurWords(err)
}

// setModel sets what a session runs with. What is empty is the default of the Config.
func setModel(in *agentctx.Input, model, thinking string) {
	if model != "" {
		in.Env.Model = model
	}
	if thinking != "" {
		in.Env.Thinking = thinking
	}
}

// callerRunTools returns the names without the tools that a session lacks whose loop is the
// caller's: it has nothing to yield.
func callerRunTools(names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return name == toolYield
	})
}

// promptInput returns the prompt input of a turn. The error is that of Prompts.Describe.
func (rt *Runtime) promptInput(
	ctx context.Context, t *Turn, extra runExtra,
) (agentctx.Input, error) {
	st := t.spawn
	t.entering("Prompts.Loader")
	in := rt.cfg().input(
		st.Session.Key, st.Session, st.Above, extra.Spec, t.offered.now, t.Sandboxed, t.place)
	rt.tellInstructions(t, in.Files)
	t.Skills = rt.skills.take(t, in.Spec)
	fillSkills(&in, t.Skills)
	t.entering("Now")
	in.Now = rt.cfg().Now()
	setModel(&in, t.Model, t.Thinking)
	if st.Run.ID != "" {
		in.Subagent = subagentOf(st)
		if !t.Announces {
			in.Subagent.Schema = string(extra.Schema)
		}
		in.Task = st.Run.Task
	}
	for _, c := range st.Children {
		in.Active = append(in.Active, agentctx.ActiveSubagent{
			Key: c.Key, Name: c.Name, Label: rt.maskedLabel(c.Label), State: c.Status.String(),
			Task: c.Task,
		})
	}
	t.entering(describeField)
	err := rt.cfg().describe(ctx, st.Session, &in)
	if st.Retry || len(st.Said) > 0 {
		note := retryText(st.Said)
		if st.Run.ID != "" {
			note = followsCrashText
		}
		in.Extra = append(slices.Clone(in.Extra), agentctx.Section{
			ID: retrySection, Class: agentctx.ClassPerTurn, Minimal: true,
			Text: note, Source: "agent",
		})
	}
	tellAttachments(&in, attachedDir(t.Session.Key, t.place), extra.Attached)
	if st.ForPeople && st.Session.Key.IsSubagent() {
		in.Extra = append(slices.Clone(in.Extra), agentctx.Section{
			ID: peopleSection, Class: agentctx.ClassPerTurn, Minimal: true, Text: peopleText,
			Source: "agent",
		})
	}
	return in, err
}

// subagentOf returns what a sub-agent is told of itself: the same in each of its turns.
func subagentOf(st *spawn.TurnInput) agentctx.Subagent {
	x, _ := decodeRunExtra(st.Extra) // a turn does not begin with one that is not readable
	return agentctx.Subagent{
		Label:            st.Run.Label,
		Requester:        st.Session.Parent,
		RequesterChannel: st.Session.Root.Channel(),
		Depth:            st.Session.Depth,
		MaxDepth:         st.MaxDepth,
		MaySpawn:         slices.Contains(st.Run.Tools, toolSpawn),
		Forked:           !x.Fork.IsZero(),
		Persistent:       st.Run.Persistent,
	}
}
