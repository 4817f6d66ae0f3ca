package openclaw_test

import (
	"fmt"
	"io/fs"
	"testing/fstest"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/openclaw"
)

// A file becomes a part of the Config of a bot, and says what of it has no effect.
func Example() {
	const text = `{
  gateway: { port: 18789 },
  agents: {
    defaults: { subagents: { maxSpawnDepth: 2, runTimeoutSeconds: 900 } }, // 15 minutes
    list: [
      { id: "main", subagents: { allowAgents: ["research", "ops"] } },
      { id: "research", model: "anthropic/claude-haiku-4-5" },
    ],
  },
}`
	r, err := openclaw.Parse([]byte(text), openclaw.Options{
		Home:    "/home/me",
		OpenDir: func(string) (fs.FS, error) { return fstest.MapFS{}, nil },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	cfg := agent.Config{ /* Runner, Store, Tools, Reply */ }
	r.Apply(&cfg)
	fmt.Println(cfg.Rules.Subagents.MaxSpawnDepth, cfg.Rules.Subagents.Timeout)
	fmt.Println(cfg.Rules.Agents[1].ID, cfg.Rules.Agents[1].Model)
	for _, n := range append(r.Doubts, r.Untaken...) {
		fmt.Println(n)
	}
	// Output:
	// 2 15m0s
	// research anthropic/claude-haiku-4-5
	// 6:60: agents.list[0].subagents.allowAgents[1]: it is passed over: agents.list has no "ops", and only an agent there can be spawned
	// 2:3: gateway: the program is the gateway
}

// All mistakes come at once, each with its place.
func ExampleParse_mistakes() {
	_, err := openclaw.Parse([]byte(`{
  agents: { defaults: { subagents: { maxSpawnDepth: 9, maxChildren: 3 } } },
  tools: { sessions: { visibility: "everything" } },
}`), openclaw.Options{Home: "/home/me"})
	fmt.Println(err)
	// Output:
	// openclaw: 2:53: agents.defaults.subagents.maxSpawnDepth: it is 9, want an integer from 1 to 5
	// openclaw: 2:56: agents.defaults.subagents.maxChildren: it is not known
	// openclaw: 3:36: tools.sessions.visibility: it is "everything", want self, tree, agent, all
}
