package agent_test

import (
	"cmp"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/policy"
)

// A modelCase is a row of section 2.5 of the field's reference: what a spawn says of its model, its
// thinking level and its time, and what the rules say, and with what it runs.
type modelCase struct {
	id, given string
	differs   string // what of it is otherwise here, and why
	args      string // of sessions_spawn, beside the task
	want      string // model, thinking level and time of the run
	rules     policy.Rules
	off       func(*agent.Config)
	also      func(b spawnBot, out map[string]any) // what else holds
}

// researching are rules with an agent whose sub-agents have a model and a level of their own.
func researching() policy.Rules {
	rules := allowing([]string{"*"}, "research")
	rules.Subagents.Model, rules.Subagents.Thinking = "minimax/M", "low"
	rules.Agents[1].Subagents.Model = "opencode/claude"
	rules.Agents[1].Subagents.Thinking = "medium"
	return rules
}

// owning are rules with agents that have models of their own, and no word on those of sub-agents.
func owning() policy.Rules {
	rules := allowing([]string{"*"}, "other")
	rules.Agents[0].Model, rules.Agents[1].Model = "own/main", "own/other"
	return rules
}

func ofDefaults(s policy.Subagents) policy.Rules { return policy.Rules{Subagents: s} }

// noneValid has a program know no model.
func noneValid(c *agent.Config) { c.Models.Valid = func(string) bool { return false } }

func modelApplied(want any) func(b spawnBot, out map[string]any) {
	return func(b spawnBot, out map[string]any) {
		b.T().Helper()
		require.Equal(b.T(), want, out["modelApplied"], out)
	}
}

const minutes15 = 900 * time.Second

// modelCases are all rows, in their order.
var modelCases = []modelCase{
	{
		id: "2.1", given: "a model", args: `"model":"claude-haiku-4-5"`,
		want: "claude-haiku-4-5 - 0s", also: modelApplied(true),
	},
	{id: "2.2", given: "one of the defaults", rules: researching(), want: "minimax/M low 0s"},
	{
		id: "2.3", given: "one of the agent, too", rules: researching(),
		args: `"agentId":"research"`, want: "opencode/claude medium 0s",
	},
	{
		id: "2.4", given: "the agent's own", rules: owning(), args: `"agentId":"other"`,
		differs: "without a word on sub-agents the caller's model stands, as the documents that " +
			"asked for the library have it",
		want: "own/main - 0s",
	},
	{
		id: "2.5", given: "nothing", want: " - 0s",
		differs: "it is the Runner that has a default, so that the name stays empty",
		off:     func(c *agent.Config) { c.Models.Model = "" },
	},
	{id: "2.6", given: "blanks", args: `"model":"  "`, want: "vendor/default - 0s"},
	{
		id: "2.7", given: "a model with fallbacks",
		differs: "a model is a name; what a file says is read by openclaw.TestModelOfAFile",
		want:    "vendor/default - 0s",
	},
	{
		id: "2.8", given: "a model that is not valid", args: `"model":"no/such"`, off: noneValid,
		rules: ofDefaults(policy.Subagents{Model: "minimax/M"}), want: "minimax/M - 0s",
		also: func(b spawnBot, out map[string]any) {
			modelApplied(false)(b, out)
			require.Contains(b.T(), fmt.Sprint(out["warnings"]), `"no/such" is not valid`)
		},
	},
	{
		id: "2.9", given: "one that is refused", off: noneValid, want: "vendor/default - 0s",
		also: func(b spawnBot, _ map[string]any) {
			before := len(b.runs())
			_, err := b.chatting().Spawn(b.Context(), agent.Task{
				Text: "x", Model: "no/such", Strict: true,
			})
			require.ErrorIs(b.T(), err, &policy.Refusal{Rule: policy.RuleModel})
			b.leavesNothing(before)
		},
	},
	{
		id: "2.10", given: "a configured one that is not valid", off: noneValid,
		rules: ofDefaults(policy.Subagents{Model: "minimax/M"}),
		args:  `"model":"minimax/M"`, want: "minimax/M - 0s", also: modelApplied(true),
	},
	{
		id: "2.11", given: "a level", args: `"thinking":"high"`, want: "vendor/default high 0s",
		rules: ofDefaults(policy.Subagents{Thinking: "low"}),
	},
	{
		id: "2.12", given: "levels of agent and defaults", args: `"agentId":"research"`,
		rules: researching(), want: "opencode/claude medium 0s",
	},
	{
		id: "2.13", given: "another word", args: `"thinking":"THINK-HARDER"`,
		want: "vendor/default medium 0s",
	},
	{
		id: "2.14", given: "off", args: `"thinking":"off"`, want: "vendor/default off 0s",
		rules: ofDefaults(policy.Subagents{Thinking: "low"}),
	},
	{
		id: "2.15", given: "a level that a model may not have", args: `"thinking":"extra high"`,
		differs: "which levels a model has is its Runner's to know, which is given the level",
		want:    "vendor/default xhigh 0s",
	},
	{
		id: "2.16", given: "a configured level that is none", want: "vendor/default - 0s",
		differs: "it is found when the program starts, not at every spawn",
		also: func(b spawnBot, _ map[string]any) {
			_, err := agent.Open(b.Context(), agent.Config{
				Runner: sayOK, Rules: ofDefaults(policy.Subagents{Thinking: "banana"}),
			})
			found := agent.ConfigErrors{}
			require.ErrorAs(b.T(), err, &found)
			require.Equal(b.T(), "agents.defaults.subagents.thinking", found[0].Setting)
		},
	},
	{
		id: "2.17", given: "a configured time", want: "vendor/default - 15m0s",
		rules: ofDefaults(policy.Subagents{Timeout: minutes15}),
	},
	{
		id: "2.18", given: "0", args: `"runTimeoutSeconds":0`, want: "vendor/default - 0s",
		rules: ofDefaults(policy.Subagents{Timeout: minutes15}),
	},
	{
		id: "2.19", given: "the other name of the time", want: "vendor/default - 2s",
		differs: "both names in one call are refused: two spellings of one thing are a mistake",
		args:    `"timeoutSeconds":2`,
		also: func(b spawnBot, _ map[string]any) {
			before := len(b.runs())
			_, err := b.spawn(`{"task":"x","timeoutSeconds":2,"runTimeoutSeconds":3}`)
			bad, ok := errors.AsType[*agent.ArgumentError](err)
			require.True(b.T(), ok, "%v", err)
			require.Equal(b.T(), "timeoutSeconds", bad.Argument)
			b.leavesNothing(before)
		},
	},
	{
		id: "2.20", given: "a name with two slashes", args: `"model":"openrouter/anthropic/claude"`,
		want: "openrouter/anthropic/claude - 0s",
	},
}

// ranWith returns the model, the thinking level and the time of a run; no level is "-".
func ranWith(r agent.RunInfo) string {
	var takes time.Duration
	if !r.Deadline.IsZero() {
		takes = r.Deadline.Sub(r.Started)
	}
	return fmt.Sprint(r.Model.Resolved, " ", cmp.Or(r.Thinking, "-"), " ", takes)
}

// Every row of the reference is driven against the public API, in its order.
func TestModelCases(t *testing.T) {
	for i, c := range modelCases {
		require.Equal(t, fmt.Sprint("2.", i+1), c.id)
		t.Run(c.id+" "+c.given, func(t *testing.T) {
			inSpawnBot(t, c.rules, c.off, func(b spawnBot) {
				args := `{"task":"x"`
				if c.args != "" {
					args += "," + c.args
				}
				out, run := b.accepted(args + "}")
				require.Equal(b.T(), c.want, ranWith(run))
				if c.also != nil {
					c.also(b, out)
				}
				require.NoError(b.T(), b.chatting().Stop(b.Context()))
			})
		})
	}
	require.Len(t, modelCases, 20)
}
