package main

func Example() {
	show()
	// Output:
	// research runs as orchestrator on anthropic/claude-haiku-4-5 with [read exec sessions_spawn]
	// policy: spawn refused by allowAgents: asked "ops", allowed "research", set at agents.list[main].subagents.allowAgents
	// change agents.list[main].subagents.allowAgents to allow it
}
