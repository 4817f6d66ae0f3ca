package policy_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/policy"
)

func TestDefaults(t *testing.T) { // 3.1
	var r policy.Rules
	require.NoError(t, r.Validate())
	assert.Equal(t, 1, r.MaxSpawnDepth())
	assert.Equal(t, 5, r.MaxChildren())
	assert.Equal(t, 8, r.MaxConcurrent())
	assert.Equal(t, 50, r.MaxBlocked())
	assert.Equal(t, time.Hour, r.ArchiveAfter())
	assert.Equal(t, "main", r.DefaultAgent())

	r.Subagents.ArchiveAfter = policy.Off // 3.5
	require.NoError(t, r.Validate())
	assert.EqualValues(t, policy.Off, r.ArchiveAfter())
	r.Subagents.ArchiveAfter = 2 * time.Minute
	assert.Equal(t, 2*time.Minute, r.ArchiveAfter())

	r = policy.Rules{Subagents: policy.Subagents{MaxConcurrent: -3}} // 3.4
	require.Error(t, r.Validate())
	assert.Equal(t, 1, r.MaxConcurrent())
}

// R13: the turns of top-level sessions have a limit, which can be set and lifted.
func TestSessionLimit(t *testing.T) {
	const path = "agents.defaults.maxConcurrent"
	for n, want := range map[int]struct {
		limit int
		valid bool
	}{
		0: {64, true}, 1: {1, true}, 1000: {1000, true}, policy.Off: {math.MaxInt, true},
		-2: {1, false}, math.MinInt: {1, false},
	} {
		r := policy.Rules{MaxSessions: n}
		require.Equal(t, want.limit, r.SessionLimit(), n)
		err := r.Validate()
		require.Equal(t, want.valid, err == nil, n)
		if field, ok := errors.AsType[*policy.FieldError](err); !want.valid && assert.True(t, ok) {
			require.Equal(t, path, field.Path)
			require.Equal(t, "1 or more, or policy.Off", field.Want)
		}
	}
	if math.MaxInt > 1<<53 {
		require.ErrorContains(t, (&policy.Rules{MaxSessions: math.MaxInt}).Validate(), path)
	}
}

func TestAgentByID(t *testing.T) {
	r := policy.Rules{Agents: []policy.Agent{{ID: "Ops", Model: "a/b"}}}
	a, ok := r.Agent(" oPS ")
	assert.True(t, ok)
	assert.Equal(t, "a/b", a.Model)
	_, ok = r.Agent("ghost")
	assert.False(t, ok)
	assert.Equal(t, "ops", r.DefaultAgent())
}

func TestValidate(t *testing.T) {
	sub := func(s policy.Subagents) policy.Rules { return policy.Rules{Subagents: s} }
	of := func(a policy.Agent) policy.Rules { return policy.Rules{Agents: []policy.Agent{a}} }
	global := func(p policy.ToolPolicy) policy.Rules { return policy.Rules{Tools: p} }
	const d, m = "agents.defaults.subagents", "agents.list[main]"
	tests := []struct {
		name  string
		rules policy.Rules
		want  string // "" for none; path, value and what is wanted
	}{
		{"3.2 depth 6", sub(policy.Subagents{MaxSpawnDepth: 6}), d + `.maxSpawnDepth is "6", want 1 to 5`},
		{"3.2 depth below", sub(policy.Subagents{MaxSpawnDepth: -1}), d + `.maxSpawnDepth is "-1", want 1 to 5`},
		{"depth 5", sub(policy.Subagents{MaxSpawnDepth: 5}), ""},
		{"3.3 children 21", sub(policy.Subagents{MaxChildren: 21}), d + `.maxChildrenPerAgent is "21", want 1 to 20`},
		{"children 20", sub(policy.Subagents{MaxChildren: 20}), ""},
		{"3.4 concurrent", sub(policy.Subagents{MaxConcurrent: -1}), d + `.maxConcurrent is "-1", want 1 or more`},
		{"too many at a time", sub(policy.Subagents{MaxConcurrent: math.MaxInt}), d + `.maxConcurrent is "9223372036854775807", want 1 to 9007199254740991`},
		{"longest", sub(policy.Subagents{MaxTimeout: -1}), d + `.maxRunTimeoutSeconds is "-1ns", want 0s or more; 0s: any`},
		{"agent's longest", of(policy.Agent{ID: "main", Subagents: policy.Subagents{MaxTimeout: 1}}), m + `.subagents.maxRunTimeoutSeconds is "1ns", want nothing here: it is set at agents.defaults.subagents.maxRunTimeoutSeconds`},
		{"many at a time", sub(policy.Subagents{MaxConcurrent: 1e9}), ""},
		{"lifetime", sub(policy.Subagents{MaxSpawns: -1}), d + `.maxSpawnsPerRun is "-1", want 1 or more`},
		{"tree", sub(policy.Subagents{MaxTreeRuns: -1}), d + `.maxRunsPerTree is "-1", want 1 or more`},
		{"request", sub(policy.Subagents{MaxRunsPerRequest: -2}), d + `.maxRunsPerRequest is "-2", want 1 or more, or policy.Off`},
		{"any request", sub(policy.Subagents{MaxRunsPerRequest: policy.Off}), ""},
		{"agent's request", of(policy.Agent{ID: "main", Subagents: policy.Subagents{MaxRunsPerRequest: 2}}), m + `.subagents.maxRunsPerRequest is "2", want nothing here: it is set at agents.defaults.subagents.maxRunsPerRequest`},
		{"blocked", sub(policy.Subagents{MaxBlocked: -1}), d + `.maxBlocked is "-1", want 1 or more`},
		{"3.6 timeout", sub(policy.Subagents{Timeout: -time.Second}), d + `.runTimeoutSeconds is "-1s", want 0s or more, or policy.Off`},
		{"archive", sub(policy.Subagents{ArchiveAfter: -time.Minute}), d + `.archiveAfterMinutes is "-1m0s", want 0s or more, or policy.Off`},
		{"run budget", sub(policy.Subagents{Budget: policy.Budget{Tokens: -1}}), d + `.budget.tokens is "-1", want 0 or more`},
		{"cost", policy.Rules{Budget: policy.Budget{Cost: math.NaN()}}, `agents.defaults.budget.cost is "NaN", want 0 or more, and finite`},
		{"endless cost", policy.Rules{Budget: policy.Budget{Cost: math.Inf(1)}}, `agents.defaults.budget.cost is "+Inf", want 0 or more, and finite`},
		{"request's tokens", policy.Rules{RequestBudget: policy.Budget{Tokens: -3}}, `agents.defaults.requestBudget.tokens is "-3", want 0 or more`},
		{"request's cost", policy.Rules{RequestBudget: policy.Budget{Cost: -1}}, `agents.defaults.requestBudget.cost is "-1", want 0 or more, and finite`},
		{"turns", policy.Rules{Budget: policy.Budget{Turns: -2}}, `agents.defaults.budget.turns is "-2", want 0 or more`},
		{"model", sub(policy.Subagents{Model: "a b"}), d + `.model is "a b", want a model such as provider/name, at most 256 bytes, without space`},
		{"thinking", sub(policy.Subagents{Thinking: "bogus"}), d + `.thinking is "bogus", want one of off, minimal, low, medium, high, xhigh, adaptive`},
		{"announce", sub(policy.Subagents{Announce: 9}), d + `.announce is "9", want inherit, reply, turn`},
		{"allowAgents", sub(policy.Subagents{AllowAgents: []string{"", "*", " MAIN ", "a b"}}), d + `.allowAgents[3] is "a b", want an agent id, or *`},
		// C5: an agent that is not configured cannot be spawned, so to allow it is a mistake.
		{"agents that are not", sub(policy.Subagents{AllowAgents: []string{"reseacher"}}), d + `.allowAgents[0] is "reseacher", want the id of an agent in Rules.Agents (agents.list)`},

		{"id", of(policy.Agent{ID: "a b"}), `agents.list[0].id is "a b", want a letter or digit, then up to 63 of those, _ and -, but neither subagent nor spawn`},
		{"a word of keys", of(policy.Agent{ID: "Subagent"}), `agents.list[0].id is "Subagent", want a letter or digit, then up to 63 of those, _ and -, but neither subagent nor spawn`},
		{"no id", of(policy.Agent{}), `agents.list[0].id is "", want a letter or digit, then up to 63 of those, _ and -, but neither subagent nor spawn`},
		{"two of one id", policy.Rules{Agents: configuredAgents("x", "a", "A")}, `agents.list[2].id is "A", want an id that agents.list[1] does not have`},
		{"agent's model", of(policy.Agent{ID: "main", Model: "/m"}), m + `.model is "/m", want a model such as provider/name, at most 256 bytes, without space`},
		{"agent's sub-agents' model", of(policy.Agent{ID: "main", Subagents: policy.Subagents{Model: "m/"}}), m + `.subagents.model is "m/", want a model such as provider/name, at most 256 bytes, without space`},
		{"agent's depth", of(policy.Agent{ID: "main", Subagents: policy.Subagents{MaxSpawnDepth: 2}}), m + `.subagents.maxSpawnDepth is "2", want nothing here: it is set at agents.defaults.subagents.maxSpawnDepth`},
		{"agent's timeout", of(policy.Agent{ID: "main", Subagents: policy.Subagents{Timeout: policy.Off}}), m + `.subagents.runTimeoutSeconds is "-1ns", want nothing here: it is set at agents.defaults.subagents.runTimeoutSeconds`},
		{"agent's sandbox", of(policy.Agent{ID: "main", Sandbox: 9}), m + `.sandbox.mode is "9", want inherit, off, non-main, all`},
		{"agent's tools", of(policy.Agent{ID: "main", Tools: policy.ToolPolicy{Deny: []string{"group:typo"}}}), m + `.tools.deny[0] is "group:typo", want a group that is built in or in tools.groups`},
		{"agent's sandbox tools", of(policy.Agent{ID: "main", SandboxTools: policy.ToolRules{Allow: []string{" "}}}), m + `.tools.sandbox.tools.allow[0] is " ", want the name, glob or group of a tool`},
		{
			"agent's delegable",
			of(policy.Agent{
				ID:    "main",
				Tools: policy.ToolPolicy{Delegable: &policy.ToolRules{AlsoAllow: []string{"x"}}},
			}),
			m + `.tools.delegable.alsoAllow is "x", want nothing here: there is no profile to add to`,
		},

		{
			"3.8 allow and alsoAllow",
			policy.Rules{
				SubagentTools: policy.ToolRules{Allow: []string{"a"}, AlsoAllow: []string{"b"}},
			},
			`tools.subagents.tools.alsoAllow is "b", want nothing beside allow, which lifts default denies as well`,
		},
		{
			"3.9 an empty allow",
			policy.Rules{
				SubagentTools: policy.ToolRules{Allow: []string{}, AlsoAllow: []string{"b"}},
			},
			"",
		},
		{"blank deny", policy.Rules{SubagentTools: policy.ToolRules{Deny: []string{"a", ""}}}, `tools.subagents.tools.deny[1] is "", want the name, glob or group of a tool`},
		{"default deny", policy.Rules{DefaultDeny: []string{""}}, `tools.subagents.tools.defaultDeny[0] is "", want the name, glob or group of a tool`},
		{"profile", global(policy.ToolPolicy{Profile: "codign"}), `tools.profile is "codign", want one of minimal, coding, messaging, full`},
		{"plugins without members", global(policy.ToolPolicy{Allow: []string{"group:plugins"}}), ""},
		{"delegable for every agent", global(policy.ToolPolicy{Delegable: &policy.ToolRules{}}), `tools.delegable is "set", want nothing here: it is set of an agent`},
		{"provider", global(policy.ToolPolicy{ByProvider: map[string]policy.ToolPolicy{" ": {}}}), `tools.byProvider[ ] is " ", want a provider, or a model such as provider/name`},
		{
			"provider twice", global(policy.ToolPolicy{ByProvider: map[string]policy.ToolPolicy{"A": {}, "a": {}}}),
			`tools.byProvider[a] is "a", want a provider or model other than "A"`,
		},
		{
			"provider's profile",
			global(policy.ToolPolicy{ByProvider: map[string]policy.ToolPolicy{"a": {Profile: "x"}}}),
			`tools.byProvider[a].profile is "x", want one of minimal, coding, messaging, full`,
		},
		{
			"provider in provider",
			global(policy.ToolPolicy{
				ByProvider: map[string]policy.ToolPolicy{"a": {Delegable: &policy.ToolRules{}}},
			}),
			`tools.byProvider[a] is "byProvider or delegable", want neither in an entry of byProvider`,
		},
		{"group's name", policy.Rules{Groups: map[string][]string{"mine": nil}}, `tools.groups[mine] is "mine", want a name that starts with "group:"`},
		{"group built in", policy.Rules{Groups: map[string][]string{"Group:FS": nil}}, `tools.groups[Group:FS] is "Group:FS", want a name that is not built in`},
		{"group in group", policy.Rules{Groups: map[string][]string{"group:a": {"group:fs"}}}, `tools.groups[group:a][0] is "group:fs", want the name or glob of a tool`},
		{"sandbox mode", policy.Rules{Sandbox: policy.Sandbox{Mode: 7}}, `agents.defaults.sandbox.mode is "7", want inherit, off, non-main, all`},
		{
			"sandbox tools",
			policy.Rules{Sandbox: policy.Sandbox{Tools: policy.ToolRules{AlsoAllow: []string{"x"}}}},
			`tools.sandbox.tools.alsoAllow is "x", want nothing here: there is no profile to add to`,
		},
		{"visibility", policy.Rules{Visibility: 9}, `tools.sessions.visibility is "9", want default, self, tree, agent, all`},
		{"agent to agent", policy.Rules{AgentToAgent: policy.AgentToAgent{Allow: []string{""}}}, `tools.agentToAgent.allow[0] is "", want a glob of agent ids`},
		{"chat", policy.Rules{Chats: []policy.Chat{{Channel: "x"}}}, `channels.x.groups[].peer is "", want a peer as the keys of its sessions have it, or * for every one`},
		{"chat's channel", policy.Rules{Chats: []policy.Chat{{Peer: "*"}}}, `channels..groups[*].channel is "", want one channel, as "telegram"; what holds for every channel stands in Rules.Tools (tools)`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.rules.Validate()
			if tt.want == "" {
				require.NoError(t, err)
				return
			}
			require.Error(t, err)
			require.Equal(t, "policy: "+inConfiguration(tt.want), inConfiguration(err.Error()))
			field, ok := errors.AsType[*policy.FieldError](err)
			require.True(t, ok)
			requireGoPath(t, tt.rules, field.Field)
		})
	}
}

func TestValidateReportsEverything(t *testing.T) {
	r := policy.Rules{
		Subagents:     policy.Subagents{MaxSpawnDepth: 9, MaxChildren: 99},
		Agents:        []policy.Agent{{ID: "main", Subagents: policy.Subagents{Thinking: "x"}}},
		SubagentTools: policy.ToolRules{Deny: []string{""}},
	}
	err := r.Validate()
	list, ok := errors.AsType[policy.FieldErrors](err)
	require.True(t, ok)
	var paths []string
	for _, e := range list {
		paths = append(paths, e.Path)
	}
	assert.Equal(t, []string{
		"agents.defaults.subagents.maxSpawnDepth", "agents.defaults.subagents.maxChildrenPerAgent",
		"agents.list[main].subagents.thinking", "tools.subagents.tools.deny[0]",
	}, paths)
	first, ok := errors.AsType[*policy.FieldError](err)
	require.True(t, ok)
	assert.Equal(t, policy.FieldError{
		Field: "Rules.Subagents.MaxSpawnDepth", Path: paths[0], Value: "9", Want: "1 to 5",
	}, *first)
	assert.ErrorContains(t, err, "\npolicy: ")
}
