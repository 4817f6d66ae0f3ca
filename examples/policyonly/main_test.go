package main

func Example() {
	show()
	// Output:
	// research runs as orchestrator on anthropic/claude-haiku-4-5 with [read exec sessions_spawn]
	// policy: spawn refused by allowAgents: asked "ops", allowed "main, research", set at Rules.Agents[0].Subagents.AllowAgents (agents.list[main].subagents.allowAgents)
	// change Rules.Agents[0].Subagents.AllowAgents to allow it
}
