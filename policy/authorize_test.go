package policy_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
)

// A family is one tree with three levels of sub-agents, of which the caller is the middle one, and
// what is outside it.
//
//	top - parent - caller - child - grandchild
//	             \ sibling - nephew
var (
	familyTop        = mainKey
	familyParent     = session.Must(session.Parse("agent:main:subagent:p"))
	familySibling    = session.Must(session.Parse("agent:main:subagent:p:subagent:s"))
	familyNephew     = session.Must(session.Parse("agent:main:subagent:p:subagent:s:subagent:n"))
	familyCaller     = session.Must(session.Parse("agent:main:subagent:p:subagent:c"))
	familyChild      = session.Must(session.Parse("agent:research:subagent:p:subagent:c:subagent:d")) // runs as another agent
	familyGrandchild = session.Must(session.Parse("agent:main:subagent:p:subagent:c:subagent:d:subagent:e"))
)

var familyTargets = map[string]policy.Target{
	"self":  {Key: familyCaller, Ancestors: []session.Key{familyParent, familyTop}},
	"child": {Key: familyChild, Ancestors: []session.Key{familyCaller, familyParent, familyTop}},
	"grandchild": {
		Key:       familyGrandchild,
		Ancestors: []session.Key{familyChild, familyCaller, familyParent, familyTop},
	},
	"sibling":   {Key: familySibling, Ancestors: []session.Key{familyParent, familyTop}},
	"nephew":    {Key: familyNephew, Ancestors: []session.Key{familySibling, familyParent, familyTop}},
	"parent":    {Key: familyParent, Ancestors: []session.Key{familyTop}},
	"top":       {Key: familyTop},
	"stranger":  {Key: session.Must(session.NamedKey("main", "survey"))},
	"foreigner": {Key: session.Must(session.MainKey("research"))},
	"strange child": {
		Key:       session.Must(session.Parse("agent:main:subagent:x")),
		Ancestors: []session.Key{session.Must(session.NamedKey("main", "survey"))},
	},
	"foreign child": {
		Key:       session.Must(session.Parse("agent:research:subagent:x")),
		Ancestors: []session.Key{session.Must(session.MainKey("research"))},
	},
	"without record": {Key: session.Must(session.Parse("agent:main:subagent:p:subagent:c:subagent:ghost"))},
}

var (
	relationsBelow   = []string{"child", "grandchild"}
	relationsInTree  = append([]string{"self"}, relationsBelow...)
	relationsOfAgent = append([]string{"sibling", "nephew", "parent", "top", "stranger", "strange child", "without record"}, relationsInTree...)
	relationsAll     = append([]string{"foreigner", "foreign child"}, relationsOfAgent...)
)

// Every verb, of a sub-agent that may have sub-agents, under every visibility, against all
// sessions. A verb without a row fails.
func TestAuthorizeMatrix(t *testing.T) {
	sight := map[policy.Visibility][]string{
		policy.VisibilityDefault: relationsInTree, policy.VisibilitySelf: {"self"},
		policy.VisibilityTree:  relationsInTree,
		policy.VisibilityAgent: slices.Concat(relationsOfAgent, relationsBelow),
		policy.VisibilityAll:   relationsAll,
	}
	message := map[policy.Visibility][]string{
		policy.VisibilityDefault: relationsBelow, policy.VisibilitySelf: nil,
		policy.VisibilityTree:  relationsBelow,
		policy.VisibilityAgent: append([]string{"top", "stranger"}, relationsBelow...),
		policy.VisibilityAll:   append([]string{"top", "stranger", "foreigner"}, relationsBelow...),
	}
	control := map[policy.Visibility][]string{
		policy.VisibilityDefault: relationsBelow, policy.VisibilitySelf: relationsBelow,
		policy.VisibilityTree:  relationsBelow,
		policy.VisibilityAgent: relationsBelow, policy.VisibilityAll: relationsBelow,
	}
	rows := map[string]map[policy.Visibility][]string{
		"list": sight, "status": sight, "history": sight, "send": message,
		"steer": control, "stop": control, "bind": control, "delete": control,
	}
	var verbs int
	for v := policy.Verb(1); v.String() != fmt.Sprintf("Verb(%d)", v); v++ {
		verbs++
		row, ok := rows[v.String()]
		require.True(t, ok, "verb %s has no row", v)
		for visibility, allowed := range row {
			rules := policy.Rules{
				Subagents: maxDepth(5), Visibility: visibility,
				AgentToAgent: policy.AgentToAgent{Enabled: true},
			}
			c := policy.Caller{Key: familyCaller, Role: roleOrchestrator, Depth: 2}
			for name, target := range familyTargets {
				err := rules.Authorize(c, v, target)
				assert.Equal(t, slices.Contains(allowed, name), err == nil, "%s %s under %s: %v", v, name, visibility,
					err)
				assertExplained(t, err, v, target)
			}
		}
	}
	assert.Len(t, rows, verbs)
}

// assertExplained fails unless a refusal says everything.
func assertExplained(t *testing.T, err error, v policy.Verb, target policy.Target) {
	t.Helper()
	if err == nil {
		return
	}
	r, ok := errors.AsType[*policy.Refusal](err)
	require.True(t, ok)
	assert.Equal(t, v.String(), r.Op)
	assert.Equal(t, target.Key.String(), r.Asked)
	assert.NotEmpty(t, r.Limit)
	assert.Equal(t, r.Rule != policy.RuleControl, r.Path != "", "who is above whom is not set")
	assertRefused(t, err, r.Rule)
	assert.ErrorIs(t, err, &policy.Refusal{Op: v.String(), Rule: r.Rule})
}

func TestAuthorize(t *testing.T) {
	orchestrator := policy.Caller{Key: familyCaller, Role: roleOrchestrator, Depth: 2}
	leaf := policy.Caller{Key: familyCaller, Role: roleLeaf, Depth: 2}
	boxed := orchestrator
	boxed.Sandboxed = true
	all := policy.AgentToAgent{Enabled: true}
	tests := []struct {
		name   string
		rules  policy.Rules
		c      policy.Caller
		v      policy.Verb
		target string
		want   policy.Rule // "" if allowed
		path   string
	}{
		{
			"5.27 a leaf steers its sibling",
			policy.Rules{
				Subagents: maxDepth(5), Visibility: policy.VisibilityAll, AgentToAgent: all,
			},
			leaf, policy.VerbSteer, "sibling", policy.RuleControl, "",
		},
		{
			"5.28 the child of another orchestrator",
			policy.Rules{Subagents: maxDepth(5)},
			orchestrator, policy.VerbStop, "nephew",
			policy.RuleControl, "",
		},
		{"5.30 a child of another agent is in the tree", policy.Rules{Subagents: maxDepth(5)}, orchestrator, policy.VerbHistory, "child", "", ""},
		{"a leaf stops what it once spawned", policy.Rules{Subagents: maxDepth(5)}, leaf, policy.VerbStop, "child", policy.RuleRole, "agents.defaults.subagents.maxSpawnDepth"},
		{
			"an orchestrator that the limit demoted",
			policy.Rules{Subagents: maxDepth(2)},
			orchestrator, policy.VerbStop, "child",
			policy.RuleRole, "agents.defaults.subagents.maxSpawnDepth",
		},
		{
			"a caller without a record",
			policy.Rules{Subagents: maxDepth(5)},
			policy.Caller{Key: familyCaller},
			policy.VerbList,
			"self",
			policy.RuleCaller, "Caller.Role",
		},
		{
			"no verb",
			policy.Rules{Subagents: maxDepth(5)},
			orchestrator, policy.VerbInvalid, "child",
			policy.RuleControl, "",
		},
		{"the top stops its great-grandchild", policy.Rules{}, policy.Caller{Key: familyTop}, policy.VerbStop, "grandchild", "", ""},
		{
			"the top of another tree",
			policy.Rules{Visibility: policy.VisibilityAll, AgentToAgent: all},
			policy.Caller{Key: session.Must(session.NamedKey("main", "survey"))},
			policy.VerbStop, "child",
			policy.RuleControl, "",
		},

		{
			"a sandbox narrows what is seen",
			policy.Rules{
				Subagents: maxDepth(5), Visibility: policy.VisibilityAll, AgentToAgent: all,
			},
			boxed, policy.VerbList, "sibling", policy.RuleVisibility, "agents.defaults.sandbox.sessionToolsVisibility",
		},
		{
			"but not below the tree",
			policy.Rules{Subagents: maxDepth(5), Visibility: policy.VisibilityAll},
			boxed,
			policy.VerbList, "grandchild", "", "",
		},
		{
			"and never widens",
			policy.Rules{Subagents: maxDepth(5), Visibility: policy.VisibilitySelf},
			boxed,
			policy.VerbList, "child", policy.RuleVisibility, "tools.sessions.visibility",
		},
		{
			"unless it is told not to",
			policy.Rules{
				Subagents: maxDepth(5), Visibility: policy.VisibilityAgent,
				Sandbox: policy.Sandbox{SeeAll: true},
			},
			boxed, policy.VerbList, "sibling", "", "",
		},

		{
			"across agents",
			policy.Rules{Subagents: maxDepth(5), Visibility: policy.VisibilityAll},
			orchestrator,
			policy.VerbList, "foreigner", policy.RuleVisibility, "tools.agentToAgent.enabled",
		},
		{
			"across other agents",
			policy.Rules{
				Subagents: maxDepth(5), Visibility: policy.VisibilityAll,
				AgentToAgent: policy.AgentToAgent{Enabled: true, Allow: []string{"main", "ops"}},
			},
			orchestrator, policy.VerbList, "foreigner", policy.RuleVisibility, "tools.agentToAgent.allow",
		},
		{
			"across agents, but not from here",
			policy.Rules{
				Subagents: maxDepth(5), Visibility: policy.VisibilityAll,
				AgentToAgent: policy.AgentToAgent{Enabled: true, Allow: []string{"research"}},
			},
			orchestrator, policy.VerbList, "foreigner", policy.RuleVisibility, "tools.agentToAgent.allow",
		},
		{
			"a message to oneself",
			policy.Rules{},
			policy.Caller{Key: familyTop},
			policy.VerbSend, "top",
			policy.RuleControl, "",
		},
		{
			"across agents by pattern",
			policy.Rules{
				Subagents: maxDepth(5), Visibility: policy.VisibilityAll,
				AgentToAgent: policy.AgentToAgent{Enabled: true, Allow: []string{" MAIN", "Res*"}},
			},
			orchestrator, policy.VerbList, "foreigner", "", "",
		},
		{
			"no such visibility",
			policy.Rules{Subagents: maxDepth(5), Visibility: 99},
			orchestrator, policy.VerbList,
			"child", policy.RuleVisibility, "tools.sessions.visibility",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			target := familyTargets[tt.target]
			err := tt.rules.Authorize(tt.c, tt.v, target)
			if tt.want == "" {
				require.NoError(t, err)
				return
			}
			assertExplained(t, err, tt.v, target)
			r, _ := errors.AsType[*policy.Refusal](err)
			assert.Equal(t, tt.want, r.Rule)
			assert.Equal(t, tt.path, r.Path)
			assert.NotEqual(t, policy.VisibilityAll.String(), r.Limit,
				"nothing is refused where all is allowed")
		})
	}
	across := policy.Rules{Subagents: maxDepth(5), Visibility: policy.VisibilityAll}
	assert.EqualError(t, across.Authorize(orchestrator, policy.VerbSend, familyTargets["foreigner"]),
		fmt.Sprintf(`policy: send refused by visibility: asked %q, allowed "agent", set at `+
			`Rules.AgentToAgent.Enabled (tools.agentToAgent.enabled)`,
			familyTargets["foreigner"].Key))
	across.AgentToAgent = policy.AgentToAgent{Enabled: true, Allow: []string{"main", "ops"}}
	assert.ErrorContains(t,
		across.Authorize(orchestrator, policy.VerbSend, familyTargets["foreigner"]),
		`allowed "all between main, ops"`)
	var rules policy.Rules
	assertRefused(t, rules.Authorize(policy.Caller{Key: familyTop}, policy.VerbList,
		policy.Target{}),
		policy.RuleControl)
	assert.EqualError(t, rules.Authorize(policy.Caller{Key: familyTop}, policy.VerbHistory,
		familyTargets["stranger"]),
		`policy: history refused by visibility: asked "agent:main:survey", allowed "tree", set at Rules.Visibility (tools.sessions.visibility)`)
}

func BenchmarkAuthorize(b *testing.B) {
	b.ReportAllocs()
	rules := policy.Rules{Subagents: maxDepth(5)}
	c := policy.Caller{Key: familyCaller, Role: roleOrchestrator, Depth: 2}
	for b.Loop() {
		if err := rules.Authorize(c, policy.VerbSteer, familyTargets["grandchild"]); err != nil {
			b.Fatal(err)
		}
	}
}
