// Package promptci is the part of a small bot that decides what its model reads. The tests of the
// package review every prompt. See the README.
package promptci

import (
	"context"
	"io/fs"

	"github.com/offshoot-sdk/offshoot/agent"
	agentctx "github.com/offshoot-sdk/offshoot/context"
	"github.com/offshoot-sdk/offshoot/session"
)

// Config returns the configuration that the bot runs with. The tests assemble their prompts from it
// too, so they see what the model gets.
func Config(workspace fs.FS) agent.Config {
	return agent.Config{
		Workspace: workspace,
		Prompts: agent.Prompts{
			Input: agentctx.Input{
				Product: "Perch",
				Limits:  agentctx.Limits{File: 4_000, Total: 12_000},
				Env:     agentctx.Env{Zone: "Africa/Nairobi"},
				// This bot answers in a terminal: there is nothing to tag or to stay silent about.
				Drop: []string{
					agentctx.SectionReplyTags, agentctx.SectionSilent, agentctx.SectionHeartbeats,
				},
				Extra: []agentctx.Section{{
					ID:   "house-rules",
					Text: "## House Rules\nQuote prices with their currency. Never give a delivery date that nobody has confirmed.",
				}},
				Order: []string{agentctx.SectionSafety, "house-rules"},
			},
			Describe: describe,
			SubagentSpecs: map[string]agentctx.Spec{
				"": agentctx.InstructionsSpec(), "writer": agentctx.PersonaSpec(),
			},
		},
		Models: agent.Models{Model: "acme/large"},
	}
}

// describe says what is special about one session.
func describe(_ context.Context, l session.Lineage, in *agentctx.Input) error {
	if l.Key.Kind() == session.KindGroup {
		in.Conversation = "The staff of the shop talk here. Answer only what is asked of you."
	}
	return nil
}
