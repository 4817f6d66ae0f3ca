package agent_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
)

// toolbox are tools of a caller, among them some that policy does not give to sub-agents.
func toolbox(names ...string) (tools []agent.Tool) {
	for _, name := range names {
		tools = append(tools, agent.Tool{
			Name: name,
			Call: textCall(func(_ context.Context, c agent.ToolCall) (string,
				error,
			) {
				return "ran " + c.Name, nil
			}),
		})
	}
	return tools
}

func TestToolsByRole(t *testing.T) {
	var mu sync.Mutex
	seen := map[string][]string{}
	prompts := map[string]string{}
	cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
		mu.Lock()
		seen[tn.Session.Role.String()], prompts[tn.Session.Role.String()] = toolNamesOf(tn.Tools),
			tn.Prompt.String()
		mu.Unlock()
		if tn.Session.Role == session.RoleLeaf {
			return textResult("ok")
		}
		c, err := tn.Spawn(ctx, agent.Task{Text: "work"})
		if err == nil {
			_, err = c.Wait(ctx)
		}
		return agent.Result{Text: "ok"}, err
	})
	cfg.Tools = toolbox("read", "cron", "gateway", "message")
	cfg.Rules = rulesForDepth(2)
	agenttest.Run(t, cfg, nil, func(h *harness) {
		h.Post("go")
		synctest.Wait()
		require.Equal(t, map[string][]string{
			"main": {
				"read", "cron", "gateway", "message",
				"sessions_spawn", "subagents", "sessions_yield", "sessions_send",
				"agents_list", "sessions_list", "sessions_history", "session_status",
			},
			"orchestrator": {
				"read", "message", "sessions_spawn", "subagents", "sessions_yield",
				"sessions_list", "sessions_history",
			},
			"leaf": {"read", "message"},
		}, seen)
		for _, name := range []string{"gateway", "sessions_spawn"} {
			require.Contains(t, prompts["main"], name)
			require.NotContains(t, prompts["leaf"], "- "+name)
		}
	})
}

// A child has what its requester may delegate, what its spawn asks for, and what policy leaves:
// never more, at every depth.
func TestToolsOnlyGetFewer(t *testing.T) {
	var mu sync.Mutex
	seen := map[string][]string{}
	cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
		mu.Lock()
		seen[tn.Label] = toolNamesOf(tn.Tools)
		mu.Unlock()
		if tn.Label == "a" {
			c, err := tn.Spawn(ctx, agent.Task{
				Text: "work", Label: "a1",
				Tools: []string{"read", "write", "exec"},
			})
			if err == nil {
				_, err = c.Wait(ctx)
			}
			return agent.Result{Text: "ok"}, err
		}
		return textResult("ok")
	})
	cfg.Tools = toolbox("read", "write", "exec")
	cfg.Rules = rulesForDepth(2)
	cfg.Rules.SubagentTools.Deny = []string{"exec"}
	agenttest.Run(t, cfg, nil, func(h *harness) {
		for label, tools := range map[string][]string{
			"a": {"read", "sessions_spawn"}, "b": nil,
			"c": {},
		} {
			c, err := agent.Spawn[string](h.Context(), h.Main(),
				agent.Task{Text: "work", Label: label, Tools: tools})
			require.NoError(t, err)
			_, err = c.Wait(h.Context())
			require.NoError(t, err)
		}
		require.Equal(t, []string{"read", "sessions_spawn"}, seen["a"])
		require.Equal(t, []string{"read"}, seen["a1"])
		require.Equal(t, []string{
			"read", "write", "sessions_spawn", "subagents", "sessions_yield",
			"sessions_list", "sessions_history",
		}, seen["b"])
		require.Empty(t, seen["c"])
	})
}

func TestDeniedToolIsRefusedWhenCalled(t *testing.T) {
	s := script{
		"main": {startStep("leaf"), say("On it."), echo()},
		"leaf": {call("gateway", `{}`), echo()},
	}
	agenttest.Run(t, agent.Config{Tools: toolbox("read", "gateway")}, s, func(h *harness) {
		h.Post("go")
		time.Sleep(time.Second)
		require.Equal(t, `error: agent: no tool "gateway" in this session`,
			h.Child("leaf").Result.Text)
	})
}

// A bot with a loop of its own gets what policy leaves its chats; a sub-agent that may not spawn
// has none of them.
func TestToolsOfSessionsOfTheCaller(t *testing.T) {
	cfg := agent.Config{Rules: policy.Rules{Tools: policy.ToolPolicy{Deny: []string{"subagents"}}}}
	agenttest.Run(t, cfg, script{}, func(h *harness) {
		require.Equal(t, []string{
			"sessions_spawn", "sessions_send", "agents_list", "sessions_list", "sessions_history",
			"session_status",
		}, toolNamesOf(h.Main().Tools()), "yield is for sessions that Offshoot runs")
		leaf := session.Must(session.Parse("agent:main:subagent:6f1c2a52-7d1c-4f7e-9a30-0d6f5b0e3c11"))
		require.Empty(t, h.Session(leaf).Tools())
	})
}

func TestNewTool(t *testing.T) {
	type city struct {
		City string `json:"city" doc:"the city, in English"`
		Days int    `json:"days,omitempty"`
	}
	weather := agent.NewTool("weather", "Weather in a city.\nUp to ten days.",
		func(_ context.Context, in city) (string, error) {
			if in.City == "Atlantis" {
				return "", errors.New("no such city")
			}
			return "Sunny in " + in.City, nil
		})
	require.JSONEq(t, `{"type":"object","properties":{"city":{"type":"string","description":"the city, in English"},"days":{"type":"integer"}},`+
		`"required":["city"],"additionalProperties":false}`, string(weather.Schema))
	for args, want := range map[string]string{
		`{"city":"Berlin"}`:   "Sunny in Berlin",
		``:                    `error: agent: arguments of "weather": city is missing: want a string`,
		`{"city":"Atlantis"}`: "error: no such city",
		`{"city":7}`:          `error: agent: arguments of "weather"`,
		`[`:                   `error: agent: arguments of "weather"`,
	} {
		s := script{"main": {call("weather", args), echo()}}
		agenttest.Run(t, agent.Config{Tools: []agent.Tool{weather}}, s, func(h *harness) {
			h.Post("go")
			require.Len(t, h.Replies(), 1)
			require.Contains(t, h.Replies()[0].Reply.Text, want)
		})
	}
}
