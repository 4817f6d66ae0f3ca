package policy_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
)

func TestAdmitGrants(t *testing.T) {
	tests := []struct {
		name  string
		rules policy.Rules
		c     policy.Caller
		q     policy.Request
		agent string
		depth int
		role  session.Role
	}{
		{
			"the zero value",
			policy.Rules{},
			policy.Caller{Key: mainKey},
			policy.Request{},
			"main", 1,
			session.RoleLeaf,
		},
		{
			"1.6 id in any case",
			policy.Rules{
				Agents:    configuredAgents("main", "My-Research_Agent01"),
				Subagents: policy.Subagents{AllowAgents: []string{"*"}},
			},
			policy.Caller{Key: mainKey},
			policy.Request{Agent: "MY-Research_Agent01"},
			"my-research_agent01", 1, session.RoleLeaf,
		},
		{
			"1.11 depth 2",
			policy.Rules{Subagents: maxDepth(2)},
			policy.Caller{Key: childKey, Role: session.RoleOrchestrator, Depth: 1},
			policy.Request{},
			"main", 2, session.RoleLeaf,
		},
		{
			"1.16 the lane does not limit",
			policy.Rules{Subagents: policy.Subagents{MaxConcurrent: 1}},
			policy.Caller{Key: mainKey, Children: 1},
			policy.Request{},
			"main", 1, session.RoleLeaf,
		},
		{
			"1.18 entries are trimmed", policy.Rules{Agents: []policy.Agent{
				{ID: "main", Subagents: policy.Subagents{AllowAgents: []string{" Research "}}}, {ID: "research"},
			}}, policy.Caller{Key: mainKey}, policy.Request{Agent: "research"}, "research", 1, session.RoleLeaf,
		},
		{
			"3.20 the agent need not be named after all", policy.Rules{
				Subagents: policy.Subagents{RequireAgentID: new(true)},
				Agents: []policy.Agent{
					{ID: "main", Subagents: policy.Subagents{RequireAgentID: new(false)}},
				},
			}, policy.Caller{Key: mainKey}, policy.Request{}, "main", 1, session.RoleLeaf,
		},
		{
			"oneself by name, not in one's own list", policy.Rules{Agents: []policy.Agent{
				{ID: "main", Subagents: policy.Subagents{AllowAgents: []string{"a"}}}, {ID: "a"},
			}}, policy.Caller{Key: mainKey}, policy.Request{Agent: "Main"}, "main", 1, session.RoleLeaf,
		},
		{
			"the own conversation",
			policy.Rules{Agents: configuredAgents("main")},
			policy.Caller{Key: mainKey},
			policy.Request{Agent: "Main", Fork: true},
			"main", 1, session.RoleLeaf,
		},
		{
			"the conversation for another agent",
			policy.Rules{
				Subagents: policy.Subagents{AllowAgents: []string{"*"}},
				Agents:    []policy.Agent{{ID: "MAIN", ShareHistory: true}, {ID: "coder"}},
			},
			policy.Caller{Key: mainKey},
			policy.Request{Agent: "coder", Fork: true},
			"coder", 1, session.RoleLeaf,
		},
		{
			"the global session is the default agent's",
			policy.Rules{Agents: configuredAgents("Ops", "main")},
			policy.Caller{Key: session.GlobalKey()},
			policy.Request{},
			"ops", 1, session.RoleLeaf,
		},
		{
			"the top level is exempt from the lifetime",
			policy.Rules{Subagents: policy.Subagents{MaxSpawns: 1}},
			policy.Caller{Key: mainKey, Spawned: 9},
			policy.Request{},
			"main", 1, session.RoleLeaf,
		},
		{
			"4.4 an orchestrator at depth 2 of 3",
			policy.Rules{Subagents: maxDepth(3)},
			policy.Caller{Key: childKey, Role: session.RoleOrchestrator, Depth: 1},
			policy.Request{},
			"main", 2, session.RoleOrchestrator,
		},
		{
			"4.3 a leaf at depth 2 of 2",
			policy.Rules{Subagents: maxDepth(2)},
			policy.Caller{Key: childKey, Role: session.RoleOrchestrator, Depth: 1},
			policy.Request{},
			"main", 2, session.RoleLeaf,
		},
		{
			"an external harness with a record",
			policy.Rules{Subagents: maxDepth(2)},
			policy.Caller{
				Key: session.Must(session.ACPKey("main", "x")), Role: session.RoleOrchestrator, Depth: 1,
			},
			policy.Request{},
			"main", 2, session.RoleLeaf,
		},
		{
			"a cron session is a top-level one",
			policy.Rules{},
			policy.Caller{Key: session.Must(session.CronKey("main", "daily"))},
			policy.Request{},
			"main", 1, session.RoleLeaf,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g, err := tt.rules.Admit(tt.c, tt.q)
			require.NoError(t, err)
			assert.Equal(t, tt.agent, g.Agent)
			assert.Equal(t, tt.depth, g.Depth)
			assert.Equal(t, tt.role, g.Role)
			assert.Empty(t, g.Warnings)
			assert.Equal(t, policy.AnnounceReply, g.Announce)
		})
	}
}

func TestAdmitBudget(t *testing.T) {
	rules := policy.Rules{Subagents: policy.Subagents{Budget: policy.Budget{Tokens: 100, Turns: 4}}}
	g, err := rules.Admit(policy.Caller{Key: mainKey},
		policy.Request{Budget: policy.Budget{Tokens: 200, Cost: 1, Turns: 3}})
	require.NoError(t, err)
	assert.Equal(t, policy.Budget{Tokens: 100, Cost: 1, Turns: 3}, g.Budget)
}

func TestAdmitAnnounce(t *testing.T) {
	rules := policy.Rules{
		Subagents: policy.Subagents{Announce: policy.AnnounceTurn, AllowAgents: []string{"*"}},
		Agents: []policy.Agent{
			{ID: "main"}, {ID: "a", Subagents: policy.Subagents{Announce: policy.AnnounceReply}},
		},
	}
	for _, tt := range []struct {
		q    policy.Request
		want policy.AnnounceStep
	}{
		{policy.Request{}, policy.AnnounceTurn},
		{policy.Request{Agent: "a"}, policy.AnnounceReply},
		{policy.Request{Agent: "a", Announce: policy.AnnounceTurn}, policy.AnnounceTurn},
	} {
		g, err := rules.Admit(policy.Caller{Key: mainKey}, tt.q)
		require.NoError(t, err)
		assert.Equal(t, tt.want, g.Announce)
	}
}

func TestGrantString(t *testing.T) {
	rules := policy.Rules{
		Subagents: policy.Subagents{Model: "a/b", Timeout: time.Minute},
		Sandbox:   policy.Sandbox{Mode: policy.SandboxAll},
	}
	g, err := rules.Admit(policy.Caller{Key: mainKey, Delegable: []string{"read"}, Thinking: "low"},
		policy.Request{})
	require.NoError(t, err)
	assert.Equal(t, `main as leaf at depth 1, model "a/b" from agents.defaults.subagents, thinking "low" from caller, `+
		`timeout 1m0s from agents.defaults.subagents, in a sandbox, with tools ["read"]`, g.String())
}
