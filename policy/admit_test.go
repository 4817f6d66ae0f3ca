package policy_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
)

const (
	uuidA = "0b6f1e5c-6a2e-4a59-9a53-1f2d3c4b5a69"
	uuidB = "c3a9d1f0-1b2c-4d3e-8f4a-5b6c7d8e9f00"
)

var (
	mainKey   = session.Must(session.MainKey("main"))
	childKey  = session.Must(session.Parse("agent:main:subagent:" + uuidA))
	nestedKey = session.Must(session.Parse("agent:main:subagent:" + uuidA + ":subagent:" + uuidB))
)

func maxDepth(n int) policy.Subagents { return policy.Subagents{MaxSpawnDepth: n} }

func configuredAgents(ids ...string) []policy.Agent {
	list := make([]policy.Agent, len(ids))
	for i, id := range ids {
		list[i].ID = id
	}
	return list
}

// assertRefused fails unless err is, or wraps, a refusal by that rule.
func assertRefused(t *testing.T, err error, rule policy.Rule) {
	t.Helper()
	assert.ErrorIs(t, err, &policy.Refusal{Rule: rule})
}

// The names of cases that start with a number are those of the field's conformance list.
func TestAdmitRefuses(t *testing.T) {
	main := policy.Caller{Key: mainKey}
	sub := policy.Caller{Key: childKey, Role: session.RoleOrchestrator, Depth: 1}
	allow := func(ids ...string) policy.Rules {
		return policy.Rules{Agents: []policy.Agent{
			{ID: "main", Subagents: policy.Subagents{AllowAgents: ids}}, {ID: "research"}, {ID: "beta"},
		}}
	}
	tests := []struct {
		name  string
		rules policy.Rules
		c     policy.Caller
		q     policy.Request
		want  policy.Refusal
	}{
		{
			"1.4 no id of an agent",
			policy.Rules{},
			main,
			policy.Request{Agent: "Agent not found: xyz"},
			policy.Refusal{Rule: policy.RuleAgentID, Asked: "Agent not found: xyz", Limit: "a letter or digit, then up to 63 of those, _ and -, but neither subagent nor spawn", Path: "agents.list"},
		},
		{
			"1.5 path as id",
			policy.Rules{},
			main,
			policy.Request{Agent: "../x"},
			policy.Refusal{Rule: policy.RuleAgentID, Asked: "../x", Limit: "a letter or digit, then up to 63 of those, _ and -, but neither subagent nor spawn", Path: "agents.list"},
		},
		{
			"1.10 depth",
			policy.Rules{},
			policy.Caller{Key: childKey, Role: session.RoleLeaf, Depth: 1},
			policy.Request{},
			policy.Refusal{Rule: policy.RuleDepth, Asked: "2", Limit: "1", Path: "agents.defaults.subagents.maxSpawnDepth"},
		},
		{
			"1.12 stored depth of a flat key",
			policy.Rules{Subagents: maxDepth(2)},
			policy.Caller{Key: childKey, Role: session.RoleLeaf, Depth: 2},
			policy.Request{},
			policy.Refusal{Rule: policy.RuleDepth, Asked: "3", Limit: "2", Path: "agents.defaults.subagents.maxSpawnDepth"},
		},
		{
			"depth of the key is the floor",
			policy.Rules{Subagents: maxDepth(2)},
			policy.Caller{Key: nestedKey, Role: session.RoleOrchestrator, Depth: 1},
			policy.Request{},
			policy.Refusal{Rule: policy.RuleDepth, Asked: "3", Limit: "2", Path: "agents.defaults.subagents.maxSpawnDepth"},
		},
		{
			"1.15 children",
			policy.Rules{Subagents: policy.Subagents{MaxChildren: 1}},
			policy.Caller{Key: mainKey, Children: 1},
			policy.Request{},
			policy.Refusal{Rule: policy.RuleChildren, Asked: "2", Limit: "1", Path: "agents.defaults.subagents.maxChildrenPerAgent"},
		},
		{
			"children by default",
			policy.Rules{},
			policy.Caller{Key: mainKey, Children: 5},
			policy.Request{},
			policy.Refusal{Rule: policy.RuleChildren, Asked: "6", Limit: "5", Path: "agents.defaults.subagents.maxChildrenPerAgent"},
		},
		{
			"1.17 depth before agent",
			policy.Rules{},
			policy.Caller{Key: childKey, Role: session.RoleLeaf},
			policy.Request{Agent: "ops"},
			policy.Refusal{Rule: policy.RuleDepth, Asked: "2", Limit: "1", Path: "agents.defaults.subagents.maxSpawnDepth"},
		},
		{
			"1.19 nothing allowed", allow(), main,
			policy.Request{Agent: "beta"},
			policy.Refusal{Rule: policy.RuleAgents, Asked: "beta", Limit: "main", Path: "agents.list[main].subagents.allowAgents"},
		},
		{
			"3.19 an agent's empty list blocks that of the defaults",
			policy.Rules{
				Subagents: policy.Subagents{AllowAgents: []string{"a"}},
				Agents: []policy.Agent{
					{ID: "main", Subagents: policy.Subagents{AllowAgents: []string{}}}, {ID: "a"},
				},
			},
			main,
			policy.Request{Agent: "a"},
			policy.Refusal{Rule: policy.RuleAgents, Asked: "a", Limit: "main", Path: "agents.list[main].subagents.allowAgents"},
		},
		{
			"allowed by the defaults, but another",
			policy.Rules{
				Subagents: policy.Subagents{AllowAgents: []string{"a", "", "B"}},
				Agents:    configuredAgents("main", "a", "b", "c"),
			},
			main,
			policy.Request{Agent: "c"},
			policy.Refusal{Rule: policy.RuleAgents, Asked: "c", Limit: "main, a, b", Path: "agents.defaults.subagents.allowAgents"},
		},
		{
			"neither configured nor allowed",
			policy.Rules{
				Subagents: policy.Subagents{AllowAgents: []string{"B", "other"}},
				Agents:    configuredAgents("main", "a", "b"),
			},
			main,
			policy.Request{Agent: "ghost"},
			policy.Refusal{Rule: policy.RuleTarget, Asked: "ghost", Limit: "main, b", Path: "agents.list"},
		},
		{
			"neither configured nor allowed, for a model",
			policy.Rules{
				Subagents: policy.Subagents{AllowAgents: []string{"B", "other"}},
				Agents:    configuredAgents("main", "a", "b"),
			},
			main,
			policy.Request{Agent: "ghost", ByModel: true},
			policy.Refusal{Rule: policy.RuleAgents, Asked: "ghost", Limit: "main, b", Path: "agents.defaults.subagents.allowAgents"},
		},
		{
			"the caller is not configured",
			policy.Rules{Agents: configuredAgents("a", "B")},
			main,
			policy.Request{},
			policy.Refusal{Rule: policy.RuleTarget, Asked: "main", Limit: "a, b", Path: "agents.list"},
		},
		{
			"nothing is configured",
			policy.Rules{},
			main,
			policy.Request{Agent: "ghost"},
			policy.Refusal{Rule: policy.RuleTarget, Asked: "ghost", Limit: "main", Path: "agents.list"},
		},
		{
			"* is every configured agent only",
			policy.Rules{
				Subagents: policy.Subagents{AllowAgents: []string{"*"}},
				Agents:    configuredAgents("main", "a"),
			},
			main,
			policy.Request{Agent: "ghost"},
			policy.Refusal{Rule: policy.RuleTarget, Asked: "ghost", Limit: "main, a", Path: "agents.list"},
		},
		{
			"allowed but not configured",
			policy.Rules{Subagents: policy.Subagents{AllowAgents: []string{"ghost"}}},
			main,
			policy.Request{Agent: "ghost"},
			policy.Refusal{Rule: policy.RuleTarget, Asked: "ghost", Limit: "main", Path: "agents.list"},
		},
		{
			"1.20 sandboxed caller",
			policy.Rules{},
			policy.Caller{Key: mainKey, Sandboxed: true},
			policy.Request{},
			policy.Refusal{Rule: policy.RuleSandbox, Asked: "main without a sandbox", Limit: "a sandbox, as the caller's: the mode is off", Path: "agents.defaults.sandbox.mode"},
		},
		{
			"1.21 sandbox required",
			policy.Rules{Agents: configuredAgents("main")},
			main,
			policy.Request{RequireSandbox: true},
			policy.Refusal{Rule: policy.RuleSandbox, Asked: "main in a sandbox", Limit: "no sandbox: the mode is off", Path: "agents.defaults.sandbox.mode"},
		},
		{
			"the caller's function decides",
			policy.Rules{Sandbox: policy.Sandbox{
				Mode: policy.SandboxAll, Decide: func(string, session.Key) bool { return false },
			}},
			main,
			policy.Request{RequireSandbox: true},
			policy.Refusal{Rule: policy.RuleSandbox, Asked: "main in a sandbox", Limit: "no sandbox", Path: "Rules.Sandbox.Decide"},
		},
		{
			"1.22 thinking",
			policy.Rules{},
			main,
			policy.Request{Thinking: "banana"},
			policy.Refusal{Rule: policy.RuleThinking, Asked: "banana", Limit: "off, minimal, low, medium, high, xhigh, adaptive", Path: "Request.Thinking"},
		},
		{
			"1.22 thinking of a model",
			policy.Rules{},
			main,
			policy.Request{Thinking: "banana", ByModel: true},
			policy.Refusal{Rule: policy.RuleThinking, Asked: "banana", Limit: "off, minimal, low, medium, high, xhigh, adaptive", Path: "sessions_spawn.thinking"},
		},
		{
			"2.16 thinking of the defaults",
			policy.Rules{Subagents: policy.Subagents{Thinking: "banana"}},
			main,
			policy.Request{},
			policy.Refusal{Rule: policy.RuleThinking, Asked: "banana", Limit: "off, minimal, low, medium, high, xhigh, adaptive", Path: "agents.defaults.subagents.thinking"},
		},
		{
			"thinking of the agent",
			policy.Rules{
				Agents: []policy.Agent{{ID: "main", Subagents: policy.Subagents{Thinking: "banana"}}},
			},
			main,
			policy.Request{},
			policy.Refusal{Rule: policy.RuleThinking, Asked: "banana", Limit: "off, minimal, low, medium, high, xhigh, adaptive", Path: "agents.list[main].subagents.thinking"},
		},
		{
			"2.8 strict model",
			policy.Rules{},
			main,
			policy.Request{Model: "a b", Strict: true},
			policy.Refusal{Rule: policy.RuleModel, Asked: "a b", Limit: "the name of a model, without spaces and empty parts", Path: "Request.Model"},
		},
		{
			"negative timeout",
			policy.Rules{},
			main,
			policy.Request{Timeout: -time.Second},
			policy.Refusal{Rule: policy.RuleTimeout, Asked: "-1s", Limit: "0s or more, or policy.Off", Path: "Request.Timeout"},
		},
		{
			"negative timeout of a model",
			policy.Rules{},
			main,
			policy.Request{Timeout: -time.Second, ByModel: true},
			policy.Refusal{Rule: policy.RuleTimeout, Asked: "-1s", Limit: "0s or more, or policy.Off", Path: "sessions_spawn.runTimeoutSeconds"},
		},
		{
			"agent id required",
			policy.Rules{
				Subagents: policy.Subagents{RequireAgentID: new(true), AllowAgents: []string{"*"}},
				Agents:    configuredAgents("main", "b", "a"),
			},
			main,
			policy.Request{},
			policy.Refusal{Rule: policy.RuleRequireID, Asked: "no agentId", Limit: "main, a, b", Path: "agents.defaults.subagents.requireAgentId"},
		},
		{
			"agent id required by the agent",
			policy.Rules{
				Agents: []policy.Agent{
					{ID: "main", Subagents: policy.Subagents{RequireAgentID: new(true)}},
				},
			},
			main,
			policy.Request{Agent: " "},
			policy.Refusal{Rule: policy.RuleRequireID, Asked: "no agentId", Limit: "main", Path: "agents.list[main].subagents.requireAgentId"},
		},
		{
			"the conversation for another agent",
			policy.Rules{
				Subagents: policy.Subagents{AllowAgents: []string{"*"}},
				Agents:    []policy.Agent{{ID: "Main"}, {ID: "coder", ShareHistory: true}},
			},
			main,
			policy.Request{Agent: "coder", Fork: true},
			policy.Refusal{
				Rule: policy.RuleHistory, Asked: "the conversation of main for coder",
				Limit: "none but its own agent's", Path: "agents.list[main].shareHistory",
			},
		},
		{
			"a sub-agent without a record",
			policy.Rules{Subagents: maxDepth(5)},
			policy.Caller{Key: childKey, Depth: 1},
			policy.Request{},
			policy.Refusal{
				Rule: policy.RuleCaller, Asked: childKey.String() + " as unknown", Limit: "a session with a record", Path: "Caller.Role",
			},
		},
		{
			"a sub-agent that claims to be main",
			policy.Rules{Subagents: maxDepth(5)},
			policy.Caller{Key: childKey, Role: session.RoleMain},
			policy.Request{},
			policy.Refusal{
				Rule: policy.RuleCaller, Asked: childKey.String() + " as main", Limit: "a session with a record", Path: "Caller.Role",
			},
		},
		{
			"no caller",
			policy.Rules{},
			policy.Caller{},
			policy.Request{},
			policy.Refusal{Rule: policy.RuleCaller, Asked: " as unknown", Limit: "a session with a record", Path: "Caller.Role"},
		},
		{
			"4.20 a leaf stays one",
			policy.Rules{Subagents: maxDepth(3)},
			policy.Caller{Key: childKey, Role: session.RoleLeaf, Depth: 1},
			policy.Request{},
			policy.Refusal{Rule: policy.RuleRole, Asked: "leaf", Limit: "main or orchestrator when it was spawned", Path: "agents.defaults.subagents.maxSpawnDepth"},
		},
		{
			"an orchestrator is demoted",
			policy.Rules{},
			sub,
			policy.Request{},
			policy.Refusal{Rule: policy.RuleDepth, Asked: "2", Limit: "1", Path: "agents.defaults.subagents.maxSpawnDepth"},
		},
		{
			"lifetime of a run",
			policy.Rules{Subagents: policy.Subagents{MaxSpawnDepth: 2, MaxSpawns: 3}},
			policy.Caller{Key: childKey, Role: session.RoleOrchestrator, Depth: 1, Spawned: 3},
			policy.Request{},
			policy.Refusal{Rule: policy.RuleSpawns, Asked: "4", Limit: "3", Path: "agents.defaults.subagents.maxSpawnsPerRun"},
		},
		{
			"runs of a tree",
			policy.Rules{Subagents: policy.Subagents{MaxTreeRuns: 9}},
			policy.Caller{Key: mainKey, TreeRuns: 9},
			policy.Request{},
			policy.Refusal{Rule: policy.RuleTreeRuns, Asked: "10", Limit: "9", Path: "agents.defaults.subagents.maxRunsPerTree"},
		},
		{
			"blocked",
			policy.Rules{},
			policy.Caller{Key: mainKey, Blocked: 50},
			policy.Request{},
			policy.Refusal{Rule: policy.RuleBlocked, Asked: "50", Limit: "50", Path: "agents.defaults.subagents.maxBlocked"},
		},
		{
			"tokens",
			policy.Rules{Budget: policy.Budget{Tokens: 100}},
			policy.Caller{Key: mainKey, Budget: policy.Budget{Cost: 1, Turns: 1}},
			policy.Request{},
			policy.Refusal{Rule: policy.RuleBudget, Asked: "more tokens", Limit: "100", Path: "agents.defaults.budget.tokens"},
		},
		{
			"cost",
			policy.Rules{Budget: policy.Budget{Cost: 2.5}},
			policy.Caller{Key: mainKey},
			policy.Request{},
			policy.Refusal{Rule: policy.RuleBudget, Asked: "more cost", Limit: "2.5", Path: "agents.defaults.budget.cost"},
		},
		{
			"turns",
			policy.Rules{Budget: policy.Budget{Turns: 7}},
			policy.Caller{Key: mainKey, Budget: policy.Budget{Tokens: 1, Cost: 1}},
			policy.Request{},
			policy.Refusal{Rule: policy.RuleBudget, Asked: "more turns", Limit: "7", Path: "agents.defaults.budget.turns"},
		},
		{
			"tokens of the request",
			policy.Rules{Budget: policy.Budget{Tokens: 9}, RequestBudget: policy.Budget{Tokens: 5}},
			policy.Caller{
				Key: mainKey, Budget: policy.Budget{Tokens: 1},
				RequestBudget: policy.Budget{Cost: 1, Turns: 1},
			},
			policy.Request{},
			policy.Refusal{Rule: policy.RuleBudget, Asked: "more tokens", Limit: "5", Path: "agents.defaults.requestBudget.tokens"},
		},
		{
			"cost of the request",
			policy.Rules{RequestBudget: policy.Budget{Cost: 0.5}},
			policy.Caller{Key: mainKey, Budget: policy.Budget{Cost: 1}},
			policy.Request{},
			policy.Refusal{Rule: policy.RuleBudget, Asked: "more cost", Limit: "0.5", Path: "agents.defaults.requestBudget.cost"},
		},
		{
			"turns of the request",
			policy.Rules{RequestBudget: policy.Budget{Turns: 3}},
			policy.Caller{Key: mainKey, RequestBudget: policy.Budget{Tokens: 1, Cost: 1}},
			policy.Request{},
			policy.Refusal{Rule: policy.RuleBudget, Asked: "more turns", Limit: "3", Path: "agents.defaults.requestBudget.turns"},
		},
		{
			"a budget of its own that cannot be",
			policy.Rules{},
			main,
			policy.Request{Budget: policy.Budget{Tokens: -1}},
			policy.Refusal{Rule: policy.RuleBudget, Asked: "-1", Limit: "0 or more", Path: "Request.Budget.Tokens"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g, err := tt.rules.Admit(tt.c, tt.q)
			require.Zero(t, g)
			r, ok := errors.AsType[*policy.Refusal](err)
			require.True(t, ok, "%v", err)
			if r.Field != "" {
				requireGoPath(t, tt.rules, r.Field)
			}
			inJSON := *r
			inJSON.Field = ""
			assert.Equal(t, tt.want, inJSON)
			assertRefused(t, err, tt.want.Rule)
			which := ""
			if r.Rule == policy.RuleTarget {
				which = ", which is not configured"
			}
			want := fmt.Sprintf("policy: spawn refused by %s: asked %q%s, allowed %q, set at %s", r.Rule, r.Asked, which, r.Limit, r.Path)
			assert.Equal(t, want, inConfiguration(err.Error()))
		})
	}
}

// Each step makes the request right in one more way, so that each refusal is the first of all that
// follow.
func TestAdmitOrder(t *testing.T) {
	rules := policy.Rules{
		Subagents: policy.Subagents{
			MaxSpawnDepth: 3, MaxSpawns: 2, MaxTreeRuns: 4, RequireAgentID: new(true),
			AllowAgents: []string{"ghost", "box", "main"},
		},
		Agents: []policy.Agent{{ID: "main"}, {ID: "box", Sandbox: policy.SandboxAll}, {ID: "other"}},
		Budget: policy.Budget{Tokens: 1}, RequestBudget: policy.Budget{Turns: 1},
	}
	c := policy.Caller{
		Key: childKey, Depth: 3, Children: 5, Spawned: 2, TreeRuns: 4, Blocked: 50, Sandboxed: true,
	}
	q := policy.Request{
		Agent: "a b", Thinking: "x", Model: "a b", Strict: true, Timeout: -5, Tools: []string{"read"},
	}
	steps := []struct {
		want policy.Rule
		mend func()
	}{
		{policy.RuleAgentID, func() { q.Agent = "" }},
		{policy.RuleCaller, func() { c.Role = session.RoleLeaf }},
		{policy.RuleDepth, func() { c.Depth = 1 }},
		{policy.RuleRole, func() { c.Role = session.RoleOrchestrator }},
		{policy.RuleChildren, func() { c.Children = 4 }},
		{policy.RuleSpawns, func() { c.Spawned = 1 }},
		{policy.RuleTreeRuns, func() { c.TreeRuns = 3 }},
		{policy.RuleRequireID, func() { q.Agent = "other" }},
		{policy.RuleAgents, func() { q.Agent = "ghost" }},
		{policy.RuleSandbox, func() { c.Sandboxed = false }},
		{policy.RuleTarget, func() { q.Agent = "box" }},
		{policy.RuleBlocked, func() { c.Blocked = 49 }},
		{policy.RuleBudget, func() { c.Budget.Tokens = 1 }},
		{policy.RuleBudget, func() { c.RequestBudget.Turns = 1 }},
		{policy.RuleThinking, func() { q.Thinking = "" }},
		{policy.RuleModel, func() { q.Model = "a/b" }},
		{policy.RuleTimeout, func() { q.Timeout = 5 }},
		{policy.RuleTools, func() { c.Delegable = []string{"read"} }},
	}
	for _, s := range steps {
		_, err := rules.Admit(c, q)
		r, ok := errors.AsType[*policy.Refusal](err)
		require.True(t, ok, "want %s, got %v", s.want, err)
		require.Equal(t, s.want, r.Rule)
		require.NotEmpty(t, r.Asked)
		require.NotEmpty(t, r.Limit)
		require.NotEmpty(t, r.Path)
		s.mend()
	}
	g, err := rules.Admit(c, q)
	require.NoError(t, err)
	assert.Equal(t, []string{"read"}, g.Tools)
	assert.True(t, g.Sandboxed)
}

// A model is told the same of an agent that it may not spawn and of one that is not there.
func TestModelsDoNotLearnOfAgents(t *testing.T) {
	for _, allowed := range [][]string{nil, {}, {"b"}, {"*"}, {"b", "gone"}} {
		for _, own := range []bool{false, true} {
			rules := policy.Rules{
				Subagents: policy.Subagents{AllowAgents: allowed},
				Agents:    configuredAgents("main", "b", "hidden"),
			}
			if own { // the agent's list blocks that of the defaults
				rules.Agents[0].Subagents.AllowAgents = []string{}
			}
			said := func(agent string) string {
				_, err := rules.Admit(policy.Caller{Key: mainKey},
					policy.Request{Agent: agent, ByModel: true})
				if err == nil {
					return ""
				}
				return strings.ReplaceAll(err.Error(), agent, "AGENT")
			}
			if hidden := said("hidden"); hidden != "" {
				assert.Equal(t, hidden, said("ghost"), "%q", allowed)
			}
		}
	}
}

func TestAdmitWarnsOfBlocked(t *testing.T) {
	var rules policy.Rules
	g, err := rules.Admit(policy.Caller{Key: mainKey, Blocked: 24}, policy.Request{})
	require.NoError(t, err)
	assert.Empty(t, g.Warnings)
	g, err = rules.Admit(policy.Caller{Key: mainKey, Blocked: 25}, policy.Request{})
	require.NoError(t, err)
	assert.Equal(t, []string{"25 completions could not be delivered, 50 refuse new spawns"}, g.Warnings)
}

// Whatever Targets names can be spawned, and nothing else can; so it is with an external runtime
// and RuntimeTargets.
func TestTargetsAgreeWithAdmit(t *testing.T) {
	all := []policy.Agent{
		{ID: "main"},
		{ID: "box", Sandbox: policy.SandboxAll},
		{ID: "B"},
		{ID: "a", Subagents: policy.Subagents{AllowAgents: []string{}}},
	}
	ids := []string{"main", "box", "b", "a", "ghost"}
	for _, allowed := range [][]string{nil, {}, {"*"}, {"a"}, {"box", "ghost"}, {" B ", "", "main"}} {
		for _, mode := range []policy.SandboxMode{policy.SandboxOff, policy.SandboxNonMain} {
			for _, c := range []policy.Caller{
				{Key: mainKey},
				{Key: mainKey, Sandboxed: true},
				{Key: mainKey, Children: 99},
				{Key: session.Must(session.MainKey("a"))},
				{Key: session.Must(session.MainKey("nobody"))},
				{Key: childKey, Role: session.RoleOrchestrator},
				{Key: childKey, Role: session.RoleLeaf},
				{Key: childKey},
			} {
				rules := policy.Rules{
					Subagents: policy.Subagents{MaxSpawnDepth: 2, AllowAgents: allowed},
					Agents:    all,
					Sandbox:   policy.Sandbox{Mode: mode},
				}
				targets := rules.Targets(c)
				c.Children = 0
				for _, id := range append(ids, c.Key.Agent()) {
					_, err := rules.Admit(c, policy.Request{Agent: id})
					assert.Equal(t, err == nil, slices.Contains(targets, id), "%s in %q: %v", id, targets, err)
					_, err = rules.Admit(c, policy.Request{Agent: id, Runtime: "acp"})
					outside := rules.RuntimeTargets(c)
					assert.Equal(t, err == nil, slices.Contains(outside, id), "%s in %q: %v", id, outside, err)
				}
			}
		}
	}
}

func TestTargets(t *testing.T) {
	rules := policy.Rules{
		Agents:    configuredAgents("ops", "main", "beta", "ops"),
		Subagents: policy.Subagents{AllowAgents: []string{"*"}},
	}
	assert.Equal(t, []string{"main", "beta", "ops"}, rules.Targets(policy.Caller{Key: mainKey}))
	rules.Subagents.AllowAgents = nil
	assert.Equal(t, []string{"main"}, rules.Targets(policy.Caller{Key: mainKey}))
	assert.Empty(t, rules.Targets(policy.Caller{Key: childKey, Role: session.RoleLeaf}))
}

func TestAdmitDoesNotAllocate(t *testing.T) {
	rules := policy.Rules{
		Subagents: policy.Subagents{MaxSpawnDepth: 2, Model: "a/b"}, Agents: configuredAgents("main", "research"),
	}
	c := policy.Caller{Key: mainKey, Delegable: []string{"read", "exec", "sessions_spawn"}}
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		if _, err := rules.Admit(c, policy.Request{}); err != nil {
			t.Fatal(err)
		}
	}))
	rules.Subagents.MaxSpawnDepth = 1
	assert.LessOrEqual(t, testing.AllocsPerRun(100, func() {
		if _, err := rules.Admit(c, policy.Request{}); err != nil {
			t.Fatal(err)
		}
	}), 1.0)
}
