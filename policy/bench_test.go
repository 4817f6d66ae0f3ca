package policy_test

import (
	"fmt"
	"testing"

	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
)

func BenchmarkAdmit(b *testing.B) {
	tools := []string{"read", "write", "exec", "web_search", "sessions_spawn"}
	caller := policy.Caller{Key: session.Must(session.MainKey("main")), Model: "a/b", Delegable: tools}
	many := make([]policy.Agent, 100)
	for i := range many {
		many[i].ID = fmt.Sprintf("agent-%02d", i)
	}
	many[0].ID = "main"
	for _, bm := range []struct {
		name  string
		rules policy.Rules
		req   policy.Request
	}{
		{name: "leaf"},
		{name: "orchestrator", rules: policy.Rules{Subagents: policy.Subagents{MaxSpawnDepth: 2}}},
		{name: "100 agents", rules: policy.Rules{
			Agents: many, Subagents: policy.Subagents{MaxSpawnDepth: 2, AllowAgents: []string{"*"}},
		}, req: policy.Request{Agent: "agent-99"}},
		{name: "every stage", rules: policy.Rules{
			Subagents: policy.Subagents{MaxSpawnDepth: 2, Model: "a/b"},
			Tools: policy.ToolPolicy{
				Profile: "coding", AlsoAllow: []string{"web_*"}, Deny: []string{"gateway"},
			},
			Agents: []policy.Agent{
				{ID: "main", Tools: policy.ToolPolicy{Allow: []string{"group:fs", "group:runtime", "web_*", "sessions_*"}}},
			},
			SubagentTools: policy.ToolRules{Deny: []string{"message"}},
			Sandbox:       policy.Sandbox{Mode: policy.SandboxAll},
		}},
	} {
		b.Run(bm.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := bm.rules.Admit(caller, bm.req); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkFilterTools(b *testing.B) {
	var rules policy.Rules
	tools := []string{"read", "write", "edit", "exec", "process", "web_search", "web_fetch", "message"}
	for _, role := range []session.Role{
		session.RoleMain, session.RoleOrchestrator, session.RoleLeaf,
	} {
		b.Run(role.String(), func(b *testing.B) {
			b.ReportAllocs()
			s := policy.Subject{Agent: "main", Role: role}
			for b.Loop() {
				if got := rules.FilterTools(s, tools); len(got) != len(tools) {
					b.Fatal(got)
				}
			}
		})
	}
}
