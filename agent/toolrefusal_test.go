package agent_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
)

// C5: the refusal of a tool that a spawn asks for says that there is none of that name, with the
// nearest, or which rule keeps the requester from handing it down. ChildInput says the same.
func TestRefusalOfAToolSaysWhy(t *testing.T) {
	agents := func(tools policy.ToolPolicy) policy.Rules {
		return policy.Rules{Agents: []policy.Agent{{ID: "main", Tools: tools}}}
	}
	for want, c := range map[string]struct {
		rules policy.Rules
		tools []string
	}{
		`allowed "exec, read"; there is no tool "exce"; the nearest is "exec"`: {
			tools: []string{"exce"},
		},
		`there is no tool "zzz"; there is no tool "group:web"`: {tools: []string{"zzz", "group:web"}},
		`set at Config.Rules.Agents[0].Tools.Deny (agents.list[main].tools.deny); tool "exec" is not among what the caller may hand down, Config.Rules.Agents[0].Tools.Deny (agents.list[main].tools.deny)`: {
			agents(policy.ToolPolicy{Deny: []string{"exec"}}), []string{"exec"},
		},
		`set at Config.Rules.Agents[0].Tools.Delegable.Allow (agents.list[main].tools.delegable.allow)`: {
			agents(policy.ToolPolicy{Delegable: &policy.ToolRules{Allow: []string{"read"}}}),
			[]string{"exec"},
		},
		`set at Config.Rules.Tools.Allow (tools.allow)`: {
			policy.Rules{Tools: policy.ToolPolicy{Allow: []string{"read"}}}, []string{"exec"},
		},
	} {
		cfg := configAnswering(asText)
		cfg.Rules, cfg.Tools = c.rules, []agent.Tool{namedTool("exec"), namedTool("read")}
		task := agent.Task{Text: "x", Tools: c.tools}
		_, preview := cfg.ChildInput(t.Context(), topKey, task)
		agenttest.Run(t, cfg, nil, func(h *harness) {
			_, err := agent.Spawn[string](h.Context(), h.Main(), task)
			for _, err := range []error{err, preview} {
				require.ErrorIs(t, err, &policy.Refusal{Rule: policy.RuleTools})
				require.ErrorContains(t, err, want)
				require.NotContains(t, err.Error(), "Caller.Delegable")
			}
			// What is granted beside it has the same sentence as a warning.
			task.Tools = append([]string{"read"}, c.tools...)
			child, err := agent.Spawn[string](h.Context(), h.Main(), task)
			require.NoError(t, err)
			h.Pass(time.Second)
			info, err := child.Info(h.Context())
			require.NoError(t, err)
			require.Equal(t, []string{"read"}, info.Tools)
		})
	}
}

// A call that is refused amid a turn because a session above may not hand the tool down any more
// names that rule and where it is set, whichever it is, and no session but the caller's own.
func TestRefusalAmidATurnNamesTheRuleAbove(t *testing.T) {
	agents := func(main, mid policy.ToolPolicy) policy.Rules {
		return policy.Rules{
			Subagents: policy.Subagents{MaxSpawnDepth: 2, AllowAgents: []string{"*"}},
			Agents: []policy.Agent{
				{ID: "main", Tools: main}, {ID: "mid", Tools: mid}, {ID: "leaf"},
			},
		}
	}
	deny := policy.ToolPolicy{Deny: []string{"exec"}}
	hand := policy.ToolPolicy{Delegable: &policy.ToolRules{Allow: []string{"read"}}}
	var none policy.ToolPolicy
	chat := agents(none, none)
	chat.Chats = []policy.Chat{{
		Channel: "irc", Peer: "room", Tools: policy.ToolRules{Deny: []string{"exec"}},
	}}
	allowing := func(id string) policy.Rules {
		r := agents(none, none)
		r.Subagents.AllowAgents = []string{id}
		return r
	}
	midAllows := agents(none, none)
	midAllows.Agents[1].Subagents.AllowAgents = []string{"other"}
	midAllows.Agents = append(midAllows.Agents, policy.Agent{ID: "other"})
	without := func(id string) policy.Rules {
		r := agents(none, none)
		r.Agents = slices.DeleteFunc(r.Agents, func(a policy.Agent) bool { return a.ID == id })
		return r
	}
	for want, rules := range map[string]policy.Rules{
		`tool "exec" is removed by "exec" at Config.Rules.Agents[0].Tools.Deny (agents.list[main].tools.deny)`: agents(deny, none),
		`tool "exec" is removed by "exec" at Config.Rules.Agents[1].Tools.Deny (agents.list[mid].tools.deny)`:  agents(none, deny),
		`Config.Rules.Agents[0].Tools.Delegable.Allow (agents.list[main].tools.delegable.allow)`:               agents(hand, none),
		`Config.Rules.Agents[1].Tools.Delegable.Allow (agents.list[mid].tools.delegable.allow)`:                agents(none, hand),
		`Config.Rules.Agents[0].Tools.Deny (agents.list[main].tools.deny)`:                                     agents(deny, deny),
		`Config.Rules.Chats`: chat,
		`tool "exec" is removed because agent "mid" is not named at Config.Rules.Subagents.AllowAgents (agents.defaults.subagents.allowAgents) any more`:             allowing("leaf"),
		`tool "exec" is removed because agent "leaf" is not named at Config.Rules.Subagents.AllowAgents (agents.defaults.subagents.allowAgents) any more`:            allowing("mid"),
		`tool "exec" is removed because agent "leaf" is not named at Config.Rules.Agents[1].Subagents.AllowAgents (agents.list[mid].subagents.allowAgents) any more`: midAllows,
		`tool "exec" is removed because agent "mid" is not configured at Config.Rules.Agents (agents.list)`:                                                          without("mid"),
		`tool "exec" is removed because agent "leaf" is not configured at Config.Rules.Agents (agents.list)`:                                                         without("leaf"),
	} {
		top := session.Must(session.GroupKey("main", "irc", "room"))
		var refused error
		var above session.Key
		ready, changed := make(chan struct{}), make(chan struct{})
		cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
			switch tn.Session.Depth {
			case 1:
				above = tn.Session.Key
				_, err := tn.Spawn(ctx, agent.Task{Text: "x", Agent: "leaf"})
				return agent.Result{Text: "done"}, err
			case 2:
				close(ready)
				<-changed
				_, refused = tn.Call(ctx, agent.ToolCall{ID: "1", Name: "exec", Args: []byte("{}")})
			}
			return agent.Result{Text: "done"}, nil
		})
		cfg.Rules, cfg.Tools = agents(none, none), []agent.Tool{namedTool("exec"), namedTool("read")}
		agenttest.Run(t, cfg, nil, func(h *harness) {
			_, err := h.Session(top).Spawn(h.Context(), agent.Task{Text: "x", Agent: "mid"})
			require.NoError(t, err)
			<-ready
			require.NoError(t, h.Runtime().SetRules(rules))
			close(changed)
			h.Pass(time.Minute)
			require.ErrorIs(t, refused, &policy.Refusal{Rule: policy.RuleTools, Op: "tool call"})
			require.ErrorContains(t, refused, want)
			_, why, _ := strings.Cut(refused.Error(), "; ") // behind its own key
			require.NotContains(t, why, above.ID())
			require.NotContains(t, why, "subagent:")
		})
	}
}
