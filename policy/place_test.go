package policy_test

import (
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
)

var (
	goPlace  = regexp.MustCompile(`(Rules\.[^()]*?) \(([^()]*)\)`)
	goStep   = regexp.MustCompile(`^(?:\.?([A-Za-z]+)|\[("(?:[^"\\]|\\.)*"|\d+)\])`)
	goInText = regexp.MustCompile(`^Rules[.\[]`)
)

// inConfiguration returns a text with the configuration path alone in place of both.
func inConfiguration(text string) string { return goPlace.ReplaceAllString(text, "$2") }

// C13: requireGoPath follows a Go path through the Rules. What is not in them, such as an agent
// that is not configured, ends the way there.
func requireGoPath(t *testing.T, rules policy.Rules, field string) {
	t.Helper()
	require.Regexp(t, goInText, field)
	v := reflect.ValueOf(rules)
	for rest := strings.TrimPrefix(field, "Rules"); rest != ""; {
		step := goStep.FindStringSubmatch(rest)
		require.NotNil(t, step, "%s: at %q", field, rest)
		rest = rest[len(step[0]):]
		if v.Kind() == reflect.Pointer {
			require.False(t, v.IsNil(), field)
			v = v.Elem()
		}
		switch name, index := step[1], step[2]; {
		case name != "":
			require.Equal(t, reflect.Struct, v.Kind(), "%s: %s", field, name)
			v = v.FieldByName(name)
			require.True(t, v.IsValid(), "%s: there is no field %s", field, name)
		case index[0] == '"':
			key, err := strconv.Unquote(index)
			require.NoError(t, err, field)
			v = v.MapIndex(reflect.ValueOf(key))
			require.True(t, v.IsValid(), "%s: there is no entry %s", field, key)
		default:
			i, err := strconv.Atoi(index)
			require.NoError(t, err)
			require.Less(t, i, v.Len(), field)
			v = v.Index(i)
		}
	}
}

// C13: the Go path of a refusal or a mistake leads to a field, and stands before that of the
// configuration.
func TestGoPathStandsFirst(t *testing.T) {
	rules := policy.Rules{
		Agents: []policy.Agent{
			{ID: "main"},
			{
				ID: "Ops", Sandbox: policy.SandboxOff,
				Tools: policy.ToolPolicy{
					Deny:       []string{"rm"},
					ByProvider: map[string]policy.ToolPolicy{"a.b": {Deny: []string{"cp"}}},
				},
				SandboxTools: policy.ToolRules{Deny: []string{"mv"}},
			},
		},
		Chats: []policy.Chat{
			{Channel: "irc", Peer: "#a"},
			{Channel: "irc", Peer: "*", Tools: policy.ToolRules{Deny: []string{"ln"}}},
		},
	}
	room := session.Must(session.GroupKey("ops", "irc", "#b"))
	s := policy.Subject{Key: room, Role: session.RoleLeaf, Agent: "ops", Sandboxed: true, Model: "a.b/c"}
	want := map[string]string{
		"rm":            `"rm" at Rules.Agents[1].Tools.Deny (agents.list[ops].tools.deny)`,
		"cp":            `"cp" at Rules.Agents[1].Tools.ByProvider["a.b"].Deny (agents.list[ops].tools.byProvider[a.b].deny)`,
		"mv":            `"mv" at Rules.Agents[1].SandboxTools.Deny (agents.list[ops].tools.sandbox.tools.deny)`,
		"ln":            `"ln" at Rules.Chats[1].Tools.Deny (channels.irc.groups[*].tools.deny)`,
		"grep":          `at Rules.Sandbox.Tools.Allow (tools.sandbox.tools.allow)`,
		"sessions_send": `at Rules.SubagentTools.AlsoAllow (tools.subagents.tools.alsoAllow)`,
	}
	for tool, end := range want {
		v := rules.ExplainTools(s, []string{tool})[0]
		require.True(t, strings.HasSuffix(v.String(), end), v.String())
		requireGoPath(t, rules, v.Field)
	}
	_, err := rules.Admit(policy.Caller{Key: mainKey, Children: 5}, policy.Request{})
	assert.EqualError(t, err, `policy: spawn refused by maxChildrenPerAgent: asked "6", allowed "5", `+
		`set at Rules.Subagents.MaxChildren (agents.defaults.subagents.maxChildrenPerAgent)`)
}

// C13: what is allowed is what the caller may spawn: its own agent, unless a sandbox forbids that,
// and no agent that is not configured.
func TestAllowedIsWhatMayBeSpawned(t *testing.T) {
	rules := policy.Rules{
		Agents:    configuredAgents("main", "ops", "research"),
		Subagents: policy.Subagents{AllowAgents: []string{"research", "ghost"}},
	}
	rules.Agents[2].Sandbox = policy.SandboxAll
	refusal := func(c policy.Caller, q policy.Request) *policy.Refusal {
		_, err := rules.Admit(c, q)
		require.Error(t, err)
		r, ok := err.(*policy.Refusal) //nolint:errorlint // Admit returns it as it is
		require.True(t, ok)
		return r
	}
	main := policy.Caller{Key: mainKey}
	confined := policy.Caller{Key: mainKey, Sandboxed: true}
	for _, agent := range []string{"ops", "ghost", "nobody"} {
		q := policy.Request{Agent: agent}
		require.Equal(t, "main, research", refusal(main, q).Limit, agent)
	}
	require.Equal(t, "research", refusal(confined, policy.Request{Agent: "ops"}).Limit)
	require.Equal(t, []string{"research"}, rules.Targets(confined))
	rules.Agents[2].Sandbox = policy.SandboxInherit
	require.Equal(t, "no agent", refusal(confined, policy.Request{Agent: "ops"}).Limit)
}

// C13: a sandbox refuses by the mode that was set, where it was set.
func TestSandboxRefusalNamesTheMode(t *testing.T) {
	agents := configuredAgents("main", "ops")
	for want, rules := range map[string]policy.Rules{
		"Rules.Sandbox.Mode (agents.defaults.sandbox.mode), off": {Agents: agents},
		"Rules.Agents[1].Sandbox (agents.list[ops].sandbox.mode), off": {
			Agents:  []policy.Agent{agents[0], {ID: "ops", Sandbox: policy.SandboxOff}},
			Sandbox: policy.Sandbox{Mode: policy.SandboxAll},
		},
	} {
		rules.Subagents.AllowAgents = []string{"*"}
		_, err := rules.Admit(policy.Caller{Key: mainKey},
			policy.Request{Agent: "ops", RequireSandbox: true})
		at, mode, _ := strings.Cut(want, ", ")
		require.EqualError(t, err, `policy: spawn refused by sandbox: asked "ops in a sandbox", `+
			`allowed "no sandbox: the mode is `+mode+`", set at `+at)
	}
}
