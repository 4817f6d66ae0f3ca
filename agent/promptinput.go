package agent

import (
	"context"
	"fmt"
	"slices"

	"github.com/offshoot-sdk/offshoot/agent/internal/workdir"
	agentctx "github.com/offshoot-sdk/offshoot/context"
	"github.com/offshoot-sdk/offshoot/internal/clone"
	"github.com/offshoot-sdk/offshoot/internal/text"
	"github.com/offshoot-sdk/offshoot/internal/weight"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
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
// without them there is none.
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
// Subagent.Schema to what [ResultSchema] returns.
//
// The error is that of the function [Spawn] for a task that the Rules refuse, or that cannot be
// accepted, or that of [Prompts.Describe], which is called with ctx for the last one.
func (c Config) ChildInput(
	ctx context.Context, from session.Key, tasks ...Task,
) (in agentctx.Input, err error) {
	if len(tasks) == 0 || !from.IsValid() || from.IsSubagent() {
		return in, &InputError{
			Field: "from", Reason: "want the key of a top-level session, and at least one task",
		}
	}
	c = c.withFullModels() //nolint:revive // a copy is meant
	model := c.model(from)
	now := c.Rules.TopAuthority(from, model, c.allToolNames())
	above := policy.Caller{
		Key: from, Role: session.RoleMain, Model: model, Thinking: c.Models.Thinking,
		Delegable: now.Delegable, Known: c.allToolNames(), Sandboxed: now.Sandboxed,
	}
	var line session.Lineage
	var lineage []session.Key // of the sessions above, the nearest first
	for i, task := range tasks {
		var grant policy.Grant
		var key session.Key
		if key, grant, err = c.admit(above, &task, i+1); err != nil {
			return in, err
		}
		now = c.Rules.Effective(now, policy.Descendant{Key: key, Given: grant.Authority()})
		line = session.Lineage{
			Key: key, Root: from, Parent: above.Key, Depth: grant.Depth, Role: now.Role,
		}
		lineage = slices.Insert(lineage, 0, above.Key)
		var place workdir.Place
		if place, err = c.findPlace(grant.Agent, task.Dir); err != nil {
			return agentctx.Input{}, err
		}
		in = c.input(key, line, lineage, task.Spec, now.Tools, now.Sandboxed, place)
		fillSkills(&in, c.skills(key, in.Spec))
		setModel(&in, grant.Model.Value, grant.Thinking.Value)
		in.Task = task.Text
		keep, _ := task.mode() // admit has refused what cannot be
		in.Subagent = agentctx.Subagent{
			Label: text.Line(task.Label), Requester: above.Key, RequesterChannel: from.Channel(),
			Depth: grant.Depth, MaxDepth: c.Rules.MaxSpawnDepth(),
			MaySpawn: slices.Contains(now.Tools, toolSpawn), Forked: c.forks(above.Key, &task),
			Persistent: keep,
		}
		above = policy.Caller{
			Key: key, Role: now.Role, Depth: grant.Depth, Model: grant.Model.Value,
			Thinking: grant.Thinking.Value, Delegable: now.Delegable, Known: above.Known,
			Sandboxed: now.Sandboxed,
		}
	}
	return c.described(ctx, line, in)
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
	if err := c.Prompts.Describe(ctx, l, &given); err != nil {
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
	in.Now, in.Task = decided.Now, decided.Task
	in.Env.Model, in.Env.Thinking = decided.Env.Model, decided.Env.Thinking
	if in.Sandbox.Enabled = decided.Sandbox.Enabled; !in.Sandbox.Enabled {
		in.Sandbox = agentctx.Sandbox{}
	}
}

// admit returns what the nth of the sub-agents of ChildInput is granted, and its key.
func (c *Config) admit(
	above policy.Caller, task *Task, n int,
) (key session.Key, grant policy.Grant, err error) {
	var x runExtra
	if c.forks(above.Key, task) {
		x.Fork.Through = 1 // of a conversation that there is none of
	}
	q, err := task.request(x)
	if err != nil {
		return key, grant, err
	}
	id := fmt.Sprintf("00000000-0000-4000-8000-%012d", n)
	ask := q.Policy
	ask.Model = c.modelNamed(ask.Model)
	if ask.Agent == "" {
		ask.Agent = c.Rules.AgentOf(above.Key)
	}
	ask.Child, _ = above.Key.Child(ask.Agent, id) // zero for an agent that Admit refuses
	ask.ValidModel = c.Models.Valid
	ask.Agent = q.Policy.Agent
	if grant, err = c.Rules.Admit(above, ask); err != nil {
		return key, grant, inOurWords(err)
	}
	key, err = above.Key.Child(grant.Agent, id)
	return key, grant, err
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
