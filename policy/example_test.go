package policy_test

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
)

func Example() {
	rules := policy.Rules{
		Subagents: policy.Subagents{MaxSpawnDepth: 2, Model: "anthropic/claude-haiku-4-5"},
		Agents: []policy.Agent{
			{ID: "main", Subagents: policy.Subagents{AllowAgents: []string{"research"}}},
			{ID: "research"},
			{ID: "ops"},
		},
	}
	caller := policy.Caller{Key: session.Must(session.MainKey("main")), Delegable: []string{"read", "exec", "sessions_spawn"}}
	fmt.Println("targets:", rules.Targets(caller))

	grant, err := rules.Admit(caller, policy.Request{Agent: "research"})
	fmt.Println(grant, err)

	_, err = rules.Admit(caller, policy.Request{Agent: "ops"})
	fmt.Println(err)
	fmt.Println(errors.Is(err, &policy.Refusal{Rule: policy.RuleAgents}))
	// Output:
	// targets: [main research]
	// research as orchestrator at depth 1, model "anthropic/claude-haiku-4-5" from agents.defaults.subagents, with tools ["read" "exec" "sessions_spawn"] <nil>
	// policy: spawn refused by allowAgents: asked "ops", allowed "main, research", set at Rules.Agents[0].Subagents.AllowAgents (agents.list[main].subagents.allowAgents)
	// true
}

func ExampleRules_Validate() {
	rules := policy.Rules{
		Subagents:     policy.Subagents{MaxSpawnDepth: 7},
		SubagentTools: policy.ToolRules{Deny: []string{"group:runtme"}},
	}
	fmt.Println(rules.Validate())
	// Output:
	// policy: Rules.Subagents.MaxSpawnDepth (agents.defaults.subagents.maxSpawnDepth) is "7", want 1 to 5
	// policy: Rules.SubagentTools.Deny[0] (tools.subagents.tools.deny[0]) is "group:runtme", want a group that is built in or in tools.groups
}

func ExampleRules_ExplainTools() {
	rules := policy.Rules{SubagentTools: policy.ToolRules{Deny: []string{"web_*"}}}
	leaf := policy.Subject{Agent: "main", Role: session.RoleLeaf}
	for _, v := range rules.ExplainTools(leaf, []string{"read", "web_fetch", "cron"}) {
		fmt.Println(v)
	}
	// Output:
	// tool "read" is allowed
	// tool "web_fetch" is removed by "web_*" at Rules.SubagentTools.Deny (tools.subagents.tools.deny)
	// tool "cron" is denied to sub-agents unless named at Rules.SubagentTools.AlsoAllow (tools.subagents.tools.alsoAllow)
}

func ExampleRules_Authorize() {
	var rules policy.Rules
	top := session.Must(session.MainKey("main"))
	mine := policy.Target{Key: session.Must(session.Parse("agent:main:subagent:a")), Ancestors: []session.Key{top}}
	other := policy.Target{Key: session.Must(session.NamedKey("main", "survey"))}

	fmt.Println(rules.Authorize(policy.Caller{Key: top}, policy.VerbStop, mine))
	fmt.Println(rules.Authorize(policy.Caller{Key: top}, policy.VerbHistory, other))
	// Output:
	// <nil>
	// policy: history refused by visibility: asked "agent:main:survey", allowed "tree", set at Rules.Visibility (tools.sessions.visibility)
}

// What a child was given is stored with it, and is the ceiling for every later turn. What is denied
// later, to the child or to a session above it, is gone.
func ExampleRules_Effective() {
	top := session.Must(session.GroupKey("main", "telegram", "42"))
	names := []string{"read", "write", "exec"}
	var rules policy.Rules
	grant, _ := rules.Admit(
		policy.Caller{Key: top, Delegable: rules.TopAuthority(top, "", names).Delegable},
		policy.Request{},
	)
	stored, _ := json.Marshal(grant.Authority())

	rules.SubagentTools.Deny = []string{"exec"} // since then
	rules.Chats = []policy.Chat{
		{Channel: "telegram", Peer: "*", Tools: policy.ToolRules{Deny: []string{"write"}}},
	}

	var given policy.Authority
	if err := json.Unmarshal(stored, &given); err != nil {
		fmt.Println(err) // and given gives nothing
	}
	child := policy.Descendant{Key: session.Must(top.Child("main", "a")), Given: given}
	fmt.Println(given.Tools)
	fmt.Println(rules.Effective(rules.TopAuthority(top, "", names), child).Tools)
	// Output:
	// [read write exec]
	// [read]
}

// An agent that must not run commands itself can have workers that do.
func ExampleToolPolicy() {
	rules := policy.Rules{
		Subagents: policy.Subagents{MaxSpawnDepth: 2, AllowAgents: []string{"*"}},
		Agents: []policy.Agent{
			{ID: "boss", Tools: policy.ToolPolicy{Deny: []string{"exec"}, Delegable: &policy.ToolRules{}}},
			{ID: "worker"},
		},
	}
	key := session.Must(session.MainKey("boss"))
	boss := rules.TopAuthority(key, "", []string{"read", "exec", "sessions_spawn"})
	worker, _ := rules.Admit(policy.Caller{Key: key, Delegable: boss.Delegable},
		policy.Request{Agent: "worker", Tools: []string{"exec"}})
	fmt.Println(boss.Tools, worker.Tools)
	// Output:
	// [read sessions_spawn] [exec]
}
