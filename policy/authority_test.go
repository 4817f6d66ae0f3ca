package policy_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
)

func grantedAuthority(t *testing.T, rules *policy.Rules) policy.Authority {
	t.Helper()
	g, err := rules.Admit(policy.Caller{Key: mainKey, Delegable: toolCatalog, Model: "a/b"},
		policy.Request{})
	require.NoError(t, err)
	return g.Authority()
}

// effective is what a child of a main session that may hand everything down has today.
func effective(rules *policy.Rules, given policy.Authority, key session.Key) policy.Authority {
	main := policy.Authority{
		Agent: "main", Role: roleMain, Tools: toolCatalog, Delegable: toolCatalog,
	}
	return rules.Effective(main, policy.Descendant{Key: key, Given: given})
}

func TestAuthorityRoundTrip(t *testing.T) {
	rules := policy.Rules{Subagents: maxDepth(2)}
	want := grantedAuthority(t, &rules)
	data, err := json.Marshal(want)
	require.NoError(t, err)
	var got policy.Authority
	require.NoError(t, json.Unmarshal(data, &got))
	assert.Equal(t, want, got)

	data, err = json.Marshal(policy.Authority{Agent: "main", Role: roleMain})
	require.NoError(t, err)
	assert.JSONEq(t, `{"version":1,"agent":"main","role":"main","depth":0,"sandboxed":false,"model":"","tools":[],"delegable":[]}`, string(data))
}

func TestCorruptAuthorityGivesNothing(t *testing.T) { // 4.22
	const good = `{"version":1,"agent":"main","role":"leaf","depth":1,"sandboxed":true,"model":"","tools":["read"],"delegable":["read"]}`
	var whole policy.Authority
	require.NoError(t, json.Unmarshal([]byte(good), &whole))
	for _, bad := range []string{
		`{}`, `[]`, `"x"`, `7`,
		strings.Replace(good, `"version":1`, `"version":2`, 1),
		strings.Replace(good, `"version":1,`, ``, 1),
		strings.Replace(good, `"main"`, `""`, 1),
		strings.Replace(good, `"leaf"`, `"main"`, 1),
		strings.Replace(good, `"leaf"`, `"unknown"`, 1),
		strings.Replace(good, `"leaf"`, `"boss"`, 1),
		strings.Replace(good, `"leaf"`, `"LEAF"`, 1),
		strings.Replace(good, `"leaf"`, `"le\u0061f"`, 1),
		strings.Replace(good, `"depth":1`, `"depth":0`, 1),
		strings.Replace(good, `"depth":1`, `"depth":-1`, 1),
		strings.Replace(good, `"sandboxed":true,`, ``, 1),
		strings.Replace(good, `"sandboxed":true`, `"sandboxed":null`, 1),
		strings.Replace(good, `"tools":["read"]`, `"tools":"*"`, 1),
		strings.Replace(good, `"tools":["read"]`, `"tools":null`, 1),
		strings.Replace(good, `"tools":["read"]`, `"tools":[""]`, 1),
		strings.Replace(good, `"tools":`, `"Tools":`, 1),
		strings.Replace(good, `,"delegable":["read"]`, ``, 1),
		strings.Replace(good, `{`, `{"allow":["*"],`, 1),
	} {
		a := whole
		err := json.Unmarshal([]byte(bad), &a)
		require.ErrorIs(t, err, policy.ErrCorruptAuthority, bad)
		require.Equal(t, policy.Authority{Sandboxed: true}, a, bad)
		rules := policy.Rules{Subagents: maxDepth(5)}
		now := effective(&rules, a, childKey)
		assert.Empty(t, now.Tools)
		assert.Empty(t, now.Delegable)
		assert.Equal(t, session.RoleUnknown, now.Role)
	}
}

func TestEffective(t *testing.T) {
	rules := policy.Rules{Subagents: maxDepth(2)}
	stored := grantedAuthority(t, &rules)
	assert.Equal(t, roleOrchestrator, stored.Role)
	assert.Equal(t, stored, effective(&rules, stored, childKey), "under the same rules nothing changes")

	t.Run("a lower limit demotes", func(t *testing.T) {
		rules := policy.Rules{}
		now := effective(&rules, stored, childKey)
		assert.Equal(t, roleLeaf, now.Role)
		assert.NotContains(t, now.Tools, "sessions_spawn")
		assert.Contains(t, now.Tools, "read")
	})
	t.Run("4.20 a higher limit does not promote", func(t *testing.T) {
		leaf := grantedAuthority(t, &policy.Rules{})
		rules := policy.Rules{Subagents: maxDepth(3)}
		now := effective(&rules, leaf, childKey)
		assert.Equal(t, roleLeaf, now.Role)
		assert.NotContains(t, now.Tools, "sessions_spawn")
	})
	t.Run("4.21 the key is a floor for the depth", func(t *testing.T) {
		now := effective(&rules, stored, nestedKey)
		assert.Equal(t, roleLeaf, now.Role)
		assert.Equal(t, 2, now.Depth)
	})
	t.Run("what is denied later is gone", func(t *testing.T) {
		rules := policy.Rules{
			Subagents: maxDepth(2), SubagentTools: policy.ToolRules{Deny: []string{"exec"}},
		}
		assert.NotContains(t, effective(&rules, stored, childKey).Tools, "exec")
		assert.NotContains(t, effective(&rules, stored, childKey).Delegable, "exec")
	})
	t.Run("what is allowed later does not come back", func(t *testing.T) {
		rules := policy.Rules{Subagents: maxDepth(2), DefaultDeny: []string{}}
		assert.NotContains(t, effective(&rules, stored, childKey).Tools, "cron")
	})
	t.Run("a sandbox can be added and never leaves", func(t *testing.T) {
		boxed := policy.Rules{
			Subagents: maxDepth(2), Sandbox: policy.Sandbox{Mode: policy.SandboxNonMain},
		}
		now := effective(&boxed, stored, childKey)
		assert.True(t, now.Sandboxed)
		assert.NotContains(t, now.Tools, "web_search")
		assert.True(t, effective(&rules, grantedAuthority(t, &boxed), childKey).Sandboxed)
	})
	t.Run("records that contradict the key", func(t *testing.T) {
		for _, bad := range []policy.Authority{
			{},
			{Agent: "main", Role: roleMain, Tools: toolCatalog},
			{Agent: "other", Role: roleLeaf, Depth: 1, Tools: toolCatalog},
		} {
			assert.Equal(t, policy.Authority{Sandboxed: true}, effective(&rules, bad, childKey))
		}
		assert.Equal(t, policy.Authority{Sandboxed: true}, effective(&rules, stored, session.Key{}))
	})
}

func TestTopAuthority(t *testing.T) {
	rules := policy.Rules{Sandbox: policy.Sandbox{Mode: policy.SandboxNonMain}}
	a := rules.TopAuthority(mainKey, "a/b", toolCatalog)
	assert.Equal(t,
		policy.Authority{
			Agent: "main", Role: roleMain, Model: "a/b", Tools: toolCatalog, Delegable: toolCatalog,
		},
		a)
	assert.Equal(t, a, rules.Effective(a))
	a = rules.TopAuthority(session.Must(session.GroupKey("main", "telegram", "1")), "", toolCatalog)
	assert.True(t, a.Sandboxed)
	assert.NotContains(t, a.Tools, "web_search")
	assert.Equal(t, policy.Authority{Sandboxed: true},
		rules.TopAuthority(childKey, "", toolCatalog))
	assert.Equal(t, policy.Authority{Sandboxed: true},
		rules.TopAuthority(session.Key{}, "", toolCatalog))
}

func TestSandboxed(t *testing.T) {
	group := session.Must(session.GroupKey("main", "telegram", "1"))
	for mode, want := range map[policy.SandboxMode][3]bool{
		policy.SandboxInherit: {}, policy.SandboxOff: {},
		policy.SandboxNonMain: {false, true, true},
		policy.SandboxAll:     {true, true, true},
		99:                    {true, true, true},
	} {
		everywhere := policy.Rules{Sandbox: policy.Sandbox{Mode: mode}}
		atAgent := policy.Rules{
			Sandbox: policy.Sandbox{Mode: policy.SandboxOff},
			Agents:  []policy.Agent{{ID: "main", Sandbox: mode}},
		}
		for i, key := range []session.Key{mainKey, group, childKey} {
			assert.Equal(t, want[i], everywhere.Sandboxed(key), "%s %s", mode, key)
			assert.Equal(t, want[i], atAgent.Sandboxed(key), "%s %s", mode, key)
		}
		assert.False(t, atAgent.Sandboxed(session.Must(session.GroupKey("other", "telegram", "1"))))
	}
	decide := policy.Rules{
		Sandbox: policy.Sandbox{
			Decide: func(agent string, key session.Key) bool { return agent == "main" && key == group },
		},
	}
	assert.True(t, decide.Sandboxed(group))
	assert.False(t, decide.Sandboxed(mainKey))

	asked := session.Key{}
	decide.Sandbox.Decide = func(_ string, key session.Key) bool { asked = key; return true }
	g, err := decide.Admit(policy.Caller{Key: mainKey},
		policy.Request{Child: childKey, RequireSandbox: true})
	require.NoError(t, err)
	assert.True(t, g.Sandboxed)
	assert.Equal(t, childKey, asked)
}

// S4: what is denied to a session today is denied to everything below it, however deep.
func TestEffectiveFoldsTheLineage(t *testing.T) {
	group := session.Must(session.GroupKey("boss", "telegram", "1"))
	then := policy.Rules{
		Subagents: maxDepth(3),
		Agents: []policy.Agent{
			{ID: "boss", Subagents: policy.Subagents{AllowAgents: []string{"worker"}}},
			{ID: "worker"},
		},
	}
	names := []string{"read", "exec", "web_search", "sessions_spawn"}
	var lineage []policy.Descendant
	above, key := then.TopAuthority(group, "", names), group
	for i, agent := range []string{"boss", "worker", "worker"} {
		g, err := then.Admit(policy.Caller{
			Key: key, Role: above.Role, Depth: above.Depth, Delegable: above.Delegable,
		}, policy.Request{Agent: agent})
		require.NoError(t, err)
		key, err = key.Child(agent, fmt.Sprint("n", i))
		require.NoError(t, err)
		lineage = append(lineage, policy.Descendant{Key: key, Given: g.Authority()})
		above = g.Authority()
	}
	last := lineage[2].Given
	require.Equal(t, []string{"read", "exec", "web_search"}, last.Tools)
	fold := func(change func(*policy.Rules)) policy.Authority {
		now := then
		now.Agents = slices.Clone(then.Agents)
		change(&now)
		return now.Effective(now.TopAuthority(group, "", names), lineage...)
	}
	require.Equal(t, last, fold(func(*policy.Rules) {}), "the same rules")
	for what, tt := range map[string]struct {
		change  func(*policy.Rules)
		tools   []string
		sandbox bool
	}{
		"a tool of the top-level session's agent": {
			func(r *policy.Rules) { r.Agents[0].Tools.Deny = []string{"exec"} },
			[]string{"read", "web_search"},
			false,
		},
		"a tool of the chat": {
			func(r *policy.Rules) {
				r.Chats = []policy.Chat{
					{Channel: "telegram", Peer: "*", Tools: policy.ToolRules{Deny: []string{"web_*"}}},
				}
			}, []string{"read", "exec"}, false,
		},
		"what the agent may hand down": {
			func(r *policy.Rules) {
				r.Agents[0].Tools.Delegable = &policy.ToolRules{Deny: []string{"read"}}
			}, []string{"exec", "web_search"}, false,
		},
		"a sandbox of the agent above": {
			func(r *policy.Rules) { r.Agents[0].Sandbox = policy.SandboxAll },
			[]string{"read", "exec"},
			true,
		},
		"a model of the sessions above": {
			func(r *policy.Rules) {
				none := policy.ToolPolicy{Deny: []string{"*"}}
				r.Agents[0].Tools.ByProvider = map[string]policy.ToolPolicy{"x": none}
			}, []string{"read", "exec", "web_search"}, false,
		},
		"a tree that is not so deep": {
			func(r *policy.Rules) { r.Subagents = maxDepth(1) },
			[]string{"read", "exec", "web_search"},
			false,
		},
		"an agent that may no longer be spawned": {
			func(r *policy.Rules) { r.Agents[0].Subagents.AllowAgents = nil }, nil, true,
		},
		"an agent that is gone": {
			func(r *policy.Rules) { r.Agents = r.Agents[:1] }, nil, true,
		},
	} {
		now := fold(tt.change)
		require.Equal(t, tt.tools, now.Tools, what)
		require.Equal(t, tt.sandbox, now.Sandboxed, what)
	}
	top := then.TopAuthority(group, "", names)
	nothing := policy.Authority{Sandboxed: true}
	require.Equal(t, nothing, then.Effective(top, lineage[0], lineage[2]), "a gap")
	require.Equal(t, nothing, then.Effective(top, lineage[1], lineage[0]), "another order")
	everyAgent := then
	everyAgent.Agents = []policy.Agent{{ID: "boss"}, {ID: "worker"}}
	everyAgent.Subagents.AllowAgents = []string{"*"}
	require.Equal(t, nothing, everyAgent.Effective(policy.Authority{}, lineage[0]),
		"no record above")
	require.Equal(t, then.Effective(top, lineage...),
		then.Effective(then.Effective(top, lineage[:2]...), lineage[2]), "step by step")
}

// A tree of random sessions under random rules, down to depth 5: whatever a session may
// use or hand down, its parent could hand down; no sandbox is left; and neither storing the
// authority nor today's rules, be they what they may, add anything to what the session was given,
// or to what the session above may hand down today.
func TestAuthorityOnlyShrinks(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	sessions, refused := 0, 0
	for range 150 {
		rules, later := randomRules(rng), randomRules(rng)
		names := pickSome(rng, toolCatalog, 0.8)
		top := authorityNode{key: mainKey, Authority: rules.TopAuthority(mainKey, "p/m", names)}
		top.later = later.TopAuthority(mainKey, "p/m", names)
		checkWithin(t, top.Tools, toolCatalog)
		frontier := []authorityNode{top}
		for len(frontier) > 0 {
			above := frontier[0]
			frontier = frontier[1:]
			for i := range 2 {
				a, err := randomChild(rng, &rules, above)
				if err != nil {
					refused++
					continue
				}
				sessions++
				key, err := above.key.Child(a.Agent, fmt.Sprintf("n%d-%d", sessions, i))
				require.NoError(t, err)
				below := authorityNode{key: key, Authority: a}
				below.later = checkChild(t, &rules, &later, above, below)
				frontier = append(frontier, below)
			}
		}
	}
	assert.Greater(t, sessions, 500)
	assert.Positive(t, refused)
}

type authorityNode struct {
	key session.Key
	policy.Authority
	later policy.Authority // what is left of it under other rules
}

func randomChild(
	rng *rand.Rand, rules *policy.Rules, above authorityNode,
) (policy.Authority, error) {
	q := policy.Request{Agent: pickOne(rng, "", "main", "a", "b"), RequireSandbox: rng.IntN(8) == 0}
	if rng.IntN(3) == 0 {
		q.Tools = pickSome(rng, toolEntries, 0.3)
	}
	g, err := rules.Admit(policy.Caller{
		Key: above.key, Role: above.Role, Depth: above.Depth, Sandboxed: above.Sandboxed,
		Delegable: above.Delegable,
		Model:     above.Model,
	}, q)
	return g.Authority(), err
}

// checkChild checks what a child has at its spawn and under other rules, and returns the latter.
func checkChild(
	t *testing.T, rules, later *policy.Rules, above, below authorityNode,
) policy.Authority {
	t.Helper()
	checkWithin(t, below.Tools, above.Delegable)
	checkWithin(t, below.Delegable, above.Delegable)
	require.False(t, above.Sandboxed && !below.Sandboxed)
	require.Equal(t, above.Depth+1, below.Depth)
	require.LessOrEqual(t, below.Depth, rules.MaxSpawnDepth())

	data, err := json.Marshal(below.Authority)
	require.NoError(t, err)
	var stored policy.Authority
	require.NoError(t, json.Unmarshal(data, &stored))
	again := rules.Effective(above.Authority, policy.Descendant{Key: below.key, Given: stored})
	require.ElementsMatch(t, below.Tools, again.Tools)
	require.ElementsMatch(t, below.Delegable, again.Delegable)
	require.Equal(t, below.Role, again.Role)
	require.Equal(t, below.Sandboxed, again.Sandboxed)

	now := later.Effective(above.later, policy.Descendant{Key: below.key, Given: stored})
	checkWithin(t, now.Tools, below.Tools)
	checkWithin(t, now.Delegable, below.Delegable)
	checkWithin(t, now.Tools, above.later.Delegable)
	checkWithin(t, now.Delegable, above.later.Delegable)
	require.False(t, (below.Sandboxed || above.later.Sandboxed) && !now.Sandboxed)
	require.False(t, now.Role.MaySpawn() && !below.Role.MaySpawn())
	return now
}

func checkWithin(t *testing.T, inner, outer []string) {
	t.Helper()
	for _, name := range inner {
		require.Contains(t, outer, name)
	}
}

// toolEntries are what lists are made of.
var toolEntries = slices.Concat(toolCatalog, []string{"*", "web_*", "*s*", "sessions_*", "group:fs", "group:sessions", "group:openclaw", "BASH", "group:mine"})

func pickSome(rng *rand.Rand, from []string, share float64) []string {
	var out []string
	for _, s := range from {
		if rng.Float64() < share {
			out = append(out, s)
		}
	}
	return out
}

func pickOne[T any](rng *rand.Rand, from ...T) T { return from[rng.IntN(len(from))] }

func randomToolRules(rng *rand.Rand) (r policy.ToolRules) {
	if rng.IntN(3) == 0 {
		r.Allow = pickSome(rng, toolEntries, 0.5)
	}
	if rng.IntN(3) == 0 {
		r.Deny = pickSome(rng, toolEntries[:len(toolCatalog)], 0.1)
	}
	return r
}

func randomToolPolicy(rng *rand.Rand) policy.ToolPolicy {
	r := randomToolRules(rng)
	return policy.ToolPolicy{
		Profile: pickOne(rng, "", "", "", "coding", "full", "messaging"), AlsoAllow: pickSome(rng, toolEntries, 0.1),
		Allow: r.Allow,
		Deny:  r.Deny,
	}
}

func randomRules(rng *rand.Rand) policy.Rules {
	mode := func() policy.SandboxMode {
		return pickOne(rng, policy.SandboxInherit, policy.SandboxInherit, policy.SandboxOff,
			policy.SandboxNonMain, policy.SandboxAll)
	}
	r := policy.Rules{
		Subagents:     policy.Subagents{MaxSpawnDepth: 1 + rng.IntN(5), AllowAgents: []string{"*"}},
		Groups:        map[string][]string{"group:mine": {"my_*", "grep"}},
		Tools:         randomToolPolicy(rng),
		SubagentTools: randomToolRules(rng),
		Sandbox:       policy.Sandbox{Mode: mode()},
	}
	for _, id := range []string{"main", "a", "b"} {
		a := policy.Agent{ID: id, Tools: randomToolPolicy(rng), Sandbox: mode()}
		if rng.IntN(2) == 0 {
			d := randomToolRules(rng)
			a.Tools.Delegable = &d
		}
		if rng.IntN(3) == 0 {
			a.Tools.ByProvider = map[string]policy.ToolPolicy{"p": randomToolPolicy(rng)}
		}
		if rng.IntN(4) == 0 {
			a.SandboxTools = randomToolRules(rng)
		}
		r.Agents = append(r.Agents, a)
	}
	return r
}

// S4: with a list of agents, one that is not in it has no rights, whatever is asked and in any
// case. Without a list every agent has those of the defaults.
func TestAgentsThatAreNotListed(t *testing.T) {
	names := []string{"read", "sessions_spawn"}
	listed := policy.Rules{Agents: []policy.Agent{{ID: "Main"}, {ID: "ops"}}}
	rest := policy.Rules{}
	for _, tt := range []struct {
		name  string
		rules policy.Rules
		key   session.Key
		ok    bool
	}{
		{"the first", listed, session.Must(session.MainKey("main")), true},
		{"another", listed, session.Must(session.DirectKey("ops", "chat", "1")), true},
		{"in another case", listed, session.Must(session.MainKey("OPS")), true},
		{"the global session", listed, session.GlobalKey(), true},
		{"a typo", listed, session.Must(session.MainKey("mian")), false},
		{"a chat", listed, session.Must(session.DirectKey("writer", "chat", "1")), false},
		{"no list", rest, session.Must(session.MainKey("mian")), true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var want []string
			if tt.ok {
				want = names
			}
			s := policy.Subject{Key: tt.key, Role: session.RoleMain}
			assert.ElementsMatch(t, want, tt.rules.FilterTools(s, names))
			top := tt.rules.TopAuthority(tt.key, "", names)
			assert.ElementsMatch(t, want, top.Tools)
			assert.ElementsMatch(t, want, top.Delegable)
			for _, v := range tt.rules.ExplainTools(s, names) {
				assert.Equal(t, tt.ok, v.Allowed)
				if !tt.ok {
					assert.Equal(t, policy.ToolAgent, v.Rule)
					assert.Contains(t, v.String(), "is not configured at Rules.Agents (agents.list)")
				}
			}
			err := tt.rules.CheckAgent(tt.key)
			caller := policy.Caller{Key: tt.key, Delegable: names}
			_, admits := tt.rules.Admit(caller, policy.Request{})
			targets := tt.rules.Targets(policy.Caller{Key: tt.key})
			if !tt.ok {
				require.ErrorIs(t, err, &policy.Refusal{Rule: policy.RuleTarget, Op: "session"})
				require.ErrorIs(t, admits, &policy.Refusal{Rule: policy.RuleTarget})
				assert.Empty(t, targets)
				return
			}
			require.NoError(t, err)
			require.NoError(t, admits)
			assert.NotEmpty(t, targets)
		})
	}
	// What an agent had spawned that has left the list since has nothing.
	mian := session.Must(session.MainKey("mian"))
	given := policy.Authority{
		Agent: "mian", Role: session.RoleLeaf, Depth: 1, Tools: names[:1], Delegable: names[:1],
	}
	child := policy.Descendant{Key: session.Must(mian.Child("mian", "x")), Given: given}
	above := rest.TopAuthority(mian, "", names)
	require.NotEmpty(t, rest.Effective(above, child).Tools)
	require.Empty(t, listed.Effective(above, child).Tools)
}
