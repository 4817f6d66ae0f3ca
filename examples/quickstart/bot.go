package main

import (
	"io/fs"
	"log/slog"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
)

// The agents of the bot. bookings is configured, but no rule lets another agent ask it.
const (
	mainAgent     = "main"
	routesAgent   = "routes"
	placesAgent   = "places"
	bookingsAgent = "bookings"
)

// chatKey is the conversation with the person.
var chatKey = session.Must(session.MainKey(mainAgent))

// rulesFor are the rules of the bot: who may ask whom, how deep, how many at a time, and who has
// which tools.
func rulesFor(depth int) policy.Rules {
	orchestration := []string{"sessions_spawn", "sessions_yield", "subagents"}
	return policy.Rules{
		Subagents: policy.Subagents{
			MaxSpawnDepth: depth, MaxConcurrent: maxRunningTurns, Model: "script/clerk",
		},
		Agents: []policy.Agent{
			{
				ID: mainAgent, // hands its tools on and has no use for them itself
				Tools: policy.ToolPolicy{
					Allow: orchestration, Delegable: &policy.ToolRules{Allow: []string{"*"}},
				},
				Subagents: policy.Subagents{AllowAgents: []string{routesAgent, placesAgent}},
			},
			{ID: routesAgent, Tools: policy.ToolPolicy{Allow: []string{"timetable"}}},
			{
				ID:    placesAgent,
				Tools: policy.ToolPolicy{Allow: append([]string{"guidebook"}, orchestration...)},
			},
			{ID: bookingsAgent},
		},
	}
}

// maxRunningTurns is how many turns of sub-agents are under way at a time.
const maxRunningTurns = 2

// newConfig is the whole bot: what a program that embeds Offshoot writes.
func newConfig(runner agent.Runner, tools []agent.Tool, workspace fs.FS, depth int) agent.Config {
	cfg := agent.Config{
		Runner:    runner,
		Tools:     tools,
		Rules:     rulesFor(depth),
		Workspace: workspace,
		Models:    agent.Models{Model: "script/counter"},
		Logger:    slog.New(slog.DiscardHandler), // the crash is part of the story
	}
	cfg.Prompts.Input.Product = "Halte"
	cfg.Prompts.Input.Env.Zone = "Europe/Berlin"
	return cfg
}
