package policy_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/policy"
)

// C5, C11: what can be meant is not refused, and is said.
func TestDoubts(t *testing.T) {
	tools := toolList("search Fetch exec sessions_spawn")
	typo := func(at string) []string {
		return []string{at + `: there is no tool "serach"; the nearest is "search"`}
	}
	one := []string{"serach"}
	both := []string{"search", "serach"}
	of := func(a policy.Agent) policy.Rules {
		a.ID = "Ops"
		return policy.Rules{Agents: []policy.Agent{a}}
	}
	boss := policy.ToolPolicy{Deny: []string{"exec"}}
	team := func(p policy.ToolPolicy) policy.Rules {
		return policy.Rules{
			Agents:    []policy.Agent{{ID: "main", Tools: p}, {ID: "coder"}},
			Subagents: policy.Subagents{AllowAgents: []string{"*"}},
		}
	}
	narrow := team(boss)
	narrow.Agents[1].Tools.Allow = []string{"search"}
	stated := boss
	stated.Delegable = &policy.ToolRules{}
	for name, c := range map[string]struct {
		rules policy.Rules
		want  []string
	}{
		"nothing": {},
		"what is known": {rules: policy.Rules{
			Tools: policy.ToolPolicy{
				Deny: toolList("FETCH bash browser sessions_* group:fs group:mine"),
			},
			Groups: map[string][]string{"group:mine": {"fet*"}},
		}},
		"deny":  {policy.Rules{Tools: policy.ToolPolicy{Deny: one}}, typo("Rules.Tools.Deny[0] (tools.deny[0])")},
		"allow": {policy.Rules{Tools: policy.ToolPolicy{Allow: both}}, typo("Rules.Tools.Allow[1] (tools.allow[1])")},
		"also":  {policy.Rules{Tools: policy.ToolPolicy{Profile: "minimal", AlsoAllow: one}}, typo("Rules.Tools.AlsoAllow[0] (tools.alsoAllow[0])")},
		"provider": {
			policy.Rules{Tools: policy.ToolPolicy{
				ByProvider: map[string]policy.ToolPolicy{"a": {Deny: one}},
			}},
			typo(`Rules.Tools.ByProvider["a"].Deny[0] (tools.byProvider[a].deny[0])`),
		},
		"agent": {of(policy.Agent{Tools: policy.ToolPolicy{Deny: one}}), typo("Rules.Agents[0].Tools.Deny[0] (agents.list[ops].tools.deny[0])")},
		"delegable": {of(policy.Agent{
			Tools: policy.ToolPolicy{Delegable: &policy.ToolRules{Deny: one}},
		}), typo("Rules.Agents[0].Tools.Delegable.Deny[0] (agents.list[ops].tools.delegable.deny[0])")},
		"sandbox":   {of(policy.Agent{SandboxTools: policy.ToolRules{Deny: one}}), typo("Rules.Agents[0].SandboxTools.Deny[0] (agents.list[ops].tools.sandbox.tools.deny[0])")},
		"sandboxes": {policy.Rules{Sandbox: policy.Sandbox{Tools: policy.ToolRules{Deny: one}}}, typo("Rules.Sandbox.Tools.Deny[0] (tools.sandbox.tools.deny[0])")},
		"sub-agents": {
			policy.Rules{SubagentTools: policy.ToolRules{Deny: one}},
			typo("Rules.SubagentTools.Deny[0] (tools.subagents.tools.deny[0])"),
		},
		"by default": {policy.Rules{DefaultDeny: one}, typo("Rules.DefaultDeny[0] (tools.subagents.tools.defaultDeny[0])")},
		"group":      {policy.Rules{Groups: map[string][]string{"group:a": one}}, typo(`Rules.Groups["group:a"][0] (tools.groups[group:a][0])`)},
		"chat": {
			policy.Rules{Chats: []policy.Chat{
				{Channel: "irc", Peer: "*", Tools: policy.ToolRules{Deny: one}},
			}},
			typo("Rules.Chats[0].Tools.Deny[0] (channels.irc.groups[*].tools.deny[0])"),
		},
		"nothing near": {
			policy.Rules{Tools: policy.ToolPolicy{Deny: []string{"lobster"}}},
			[]string{`Rules.Tools.Deny[0] (tools.deny[0]): there is no tool "lobster"`},
		},
		"nothing is left": {
			policy.Rules{Tools: policy.ToolPolicy{Allow: []string{"lobster"}}},
			[]string{
				`Rules.Tools.Allow[0] (tools.allow[0]): there is no tool "lobster"`,
				"Rules.Tools.Allow (tools.allow): it names no tool of the program, so that none is left",
			},
		},
		"agents": {
			policy.Rules{AgentToAgent: policy.AgentToAgent{Allow: []string{"ma*", "ops"}}},
			[]string{`Rules.AgentToAgent.Allow[1] (tools.agentToAgent.allow[1]): there is no agent "ops" in Rules.Agents (agents.list)`},
		},
		"specialists": {team(boss), []string{
			`Rules.Agents[0].Tools.Delegable (agents.list[main].tools.delegable): agent "main" may not use exec, ` +
				`and so may not the sub-agents that it spawns of coder, which have it otherwise; ` +
				`set this to say what it hands down, &policy.ToolRules{} for all`,
		}},
		"specialists that do not want it": {rules: narrow},
		"it is said what is handed down":  {rules: team(stated)},
		"every agent is denied it":        {rules: policy.Rules{Tools: boss, Agents: team(stated).Agents}},
	} {
		require.NoError(t, c.rules.Validate(), name)
		var got []string
		for _, d := range c.rules.Doubts(tools) {
			got = append(got, d.String())
			requireGoPath(t, c.rules, d.Field)
		}
		require.Equal(t, c.want, got, name)
	}
}
