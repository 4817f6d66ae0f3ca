package agent_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	agentctx "github.com/offshoot-sdk/offshoot/context"
	"github.com/offshoot-sdk/offshoot/policy"
)

// aliasPlaces are the places where a model is named for a sub-agent, and last for a top-level
// session.
var aliasPlaces = map[string]func(cfg *agent.Config, task *agent.Task, model string){
	"Task.Model": func(_ *agent.Config, task *agent.Task, model string) { task.Model = model },
	"Rules.Subagents.Model": func(cfg *agent.Config, _ *agent.Task, model string) {
		cfg.Rules.Subagents.Model = model
	},
	"Rules.Agents.Subagents.Model": func(cfg *agent.Config, _ *agent.Task, model string) {
		cfg.Rules.Agents[0].Subagents.Model = model
	},
	"Rules.Agents.Model": func(cfg *agent.Config, _ *agent.Task, model string) {
		cfg.Rules.Agents[0].Model = model
	},
	"Models.Model": func(cfg *agent.Config, _ *agent.Task, model string) {
		cfg.Models.Model = model
	},
}

// C2: an alias that a prompt tells of names the model wherever one is named. The Runner, Valid,
// the rules by provider and the inputs of a test see the full name.
func TestAliasesNameModels(t *testing.T) {
	for place, set := range aliasPlaces {
		for _, name := range []string{"acme/small", "fast", "FAST"} {
			cfg := agent.Config{
				Tools: toolbox("exec", "read"),
				Rules: policy.Rules{Agents: []policy.Agent{{ID: "main"}}},
			}
			cfg.Rules.Tools.ByProvider = map[string]policy.ToolPolicy{
				"acme": {Deny: []string{"exec"}},
			}
			cfg.Prompts.Input.Aliases = map[string]string{"Fast": "acme/small"}
			var asked []string
			cfg.Models.Valid = func(model string) bool {
				asked = append(asked, model)
				return model == "acme/small"
			}
			task := agent.Task{Text: "work", Label: "o", Strict: true}
			set(&cfg, &task, name)
			agents := slices.Clone(cfg.Rules.Agents)
			in, err := cfg.ChildInput(t.Context(), topKey, task)
			require.NoError(t, err, place)
			requireSmall(t, in)
			s := script{"main": {say("ok")}, "o": {say("done")}}
			agenttest.Run(t, cfg, s, func(h *harness) {
				h.Post("go")
				_, err := agent.Spawn[string](h.Context(), h.Main(), task)
				require.NoError(t, err)
				h.Pass(time.Minute)
				got := h.Requests("o")[0]
				require.Equal(t, "acme/small", got.Model, "%s %q", place, name)
				h.Offered("o", "read")
				require.Equal(t, "acme/small", h.Child("o").Model.Resolved)
				if place == "Models.Model" || place == "Rules.Agents.Model" {
					h.Offered("main", "read", "sessions_spawn", "subagents", "sessions_yield",
						"sessions_send", "agents_list", "sessions_list", "sessions_history",
						"session_status")
					require.Equal(t, "acme/small", h.Requests("main")[0].Model)
					requireSmall(t, inputOf(t, cfg, topKey))
				}
			})
			require.Equal(t, agents, cfg.Rules.Agents, "the caller's Config stays")
			for _, model := range asked {
				require.Equal(t, "acme/small", model, place)
			}
		}
	}
}

func requireSmall(t *testing.T, in agentctx.Input) {
	t.Helper()
	require.Equal(t, "acme/small", in.Env.Model)
	for _, tool := range in.Tools {
		require.NotEqual(t, "exec", tool.Name)
	}
}

// C2: a model that follows its prompt and asks for the short name gets the model, and not more
// tools than under the full one. So it is in a turn of a program's own.
func TestAliasAsAnArgument(t *testing.T) {
	for _, name := range []string{"acme/small", "fast", "Fast"} {
		cfg := agent.Config{Tools: toolbox("exec", "read"), Models: agent.Models{Model: "big/large"}}
		cfg.Rules.Tools.ByProvider = map[string]policy.ToolPolicy{
			"acme/small": {Deny: []string{"exec"}},
		}
		cfg.Prompts.Input.Aliases = map[string]string{"fast": "acme/small"}
		s := script{
			"main": {
				call("sessions_spawn", `{"task":"work","label":"o","model":"`+name+`"}`), say("ok"),
				echo(),
			},
			"o": {say("done").After(time.Minute)},
		}
		agenttest.Run(t, cfg, s, func(h *harness) {
			h.Post("go")
			h.Pass(time.Hour)
			h.Prompted("main", "- `fast`: `acme/small`")
			require.Equal(t, "acme/small", h.Requests("o")[0].Model)
			h.Offered("o", "read")
			answer := h.Requests("main")[1].Messages[2].Text
			require.Contains(t, answer, `"model":"acme/small","modelApplied":true`)
			require.NotContains(t, answer, "warnings")
		})
	}
}

// C2: Open refuses an alias that can mean two things, or nothing.
func TestAliasesThatAreRefused(t *testing.T) {
	for want, aliases := range map[string]map[string]string{
		"an alias is empty":         {"": "acme/small"},
		"one word without a slash":  {"acme/fast": "acme/small"},
		"one word without a slash,": {"fa st": "acme/small"},
		"letter case does not":      {"fast": "acme/small", "FAST": "acme/large"},
		"want a model such as":      {"fast": ""},
		`want a model such`:         {"fast": "acme/"},
		"which is an alias, too":    {"fast": "Quick", "quick": "acme/small"},
		"which is an alias, too;":   {"fast": "fast"},
	} {
		cfg := agent.Config{Runner: agent.RunnerFunc(
			func(context.Context, *agent.Turn) (res agent.Result, err error) { return res, nil },
		)}
		cfg.Prompts.Input.Aliases = aliases
		_, err := agent.Open(t.Context(), cfg)
		require.ErrorContains(t, err, want, "%v", aliases)
		require.ErrorContains(t, err, "Config.Prompts.Input.Aliases[")
	}
	cfg := configWith(nil)
	cfg.Prompts.Input.Aliases = map[string]string{"fast": "acme/small", "acme": "acme/large"}
	byProvider := map[string]policy.ToolPolicy{"acme": {}, "Fast": {}}
	cfg.Rules.Tools.ByProvider = byProvider
	cfg.Rules.Agents = []policy.Agent{{ID: "main", Tools: policy.ToolPolicy{ByProvider: byProvider}}}
	_, err := agent.Open(t.Context(), cfg)
	require.ErrorContains(t, err, `Config.Rules.Tools.ByProvider["Fast"]: it is an alias`)
	require.ErrorContains(t, err, `Config.Rules.Agents[0].Tools.ByProvider["Fast"]: it is an alias`)
	require.NotContains(t, err.Error(), `"acme"]: it is an alias`)
}

// C2: an alias raises no doubt where a model is named, in whichever letter case it is written.
func TestAliasesAreNotDoubtful(t *testing.T) {
	for _, name := range []string{"fast", "FAST", "fAsT"} {
		cfg := agent.Config{Models: agent.Models{Model: name}, Rules: policy.Rules{
			Subagents: policy.Subagents{Model: name}, Agents: []policy.Agent{{ID: "main", Model: name}},
		}}
		cfg.Prompts.Input.Aliases = map[string]string{"Fast": "acme/small"}
		require.Empty(t, warningsOf(t, cfg), name)
	}
}
