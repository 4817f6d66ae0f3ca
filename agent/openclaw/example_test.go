package openclaw_test

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing/fstest"
	"time"

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

// What may change while the bot runs is applied, and of the rest it is told why not.
func ExampleLive_Update() {
	o := openclaw.Options{
		Home:    "/home/me",
		OpenDir: func(string) (fs.FS, error) { return fstest.MapFS{}, nil },
	}
	r, err := openclaw.Parse([]byte(`{
  agents: { defaults: { models: { "p/small": {} }, subagents: { maxSpawnDepth: 1 } } },
}`), o)
	if err != nil {
		fmt.Println(err)
		return
	}
	live := r.Live()
	cfg := agent.Config{Runner: agent.RunnerFunc( /* Store, Tools, Reply */
		func(context.Context, *agent.Turn) (agent.Result, error) { return agent.Result{}, nil },
	)}
	live.Apply(&cfg)
	rt, err := agent.Open(context.Background(), cfg)
	if err != nil {
		fmt.Println(err)
		return
	}
	live.Follow(rt, nil)
	fmt.Println(cfg.Models.Valid("p/large"))

	next, err := openclaw.Parse([]byte(`{
  agents: { defaults: { models: { "p/small": {}, "p/large": {} },
    subagents: { maxSpawnDepth: 2 }, userTimezone: "UTC" } },
}`), o)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, c := range live.Update(next) {
		fmt.Println(c)
	}
	fmt.Println(cfg.Models.Valid("p/large"))
	// Output:
	// false
	// 2:61: agents.defaults.models["p/large"]: live: whether it may be asked for, from the next spawn on
	// 3:33: agents.defaults.subagents.maxSpawnDepth: live: the Runtime is given Config.Rules.Subagents anew; what is asked from now on goes by it
	// 3:52: agents.defaults.userTimezone: needs a restart: the Runtime has Config.Prompts.Input.Env.Zone from when it was opened; session_status has the zone from there, and would tell another time than prompts
	// true
}

// Watch looks at the file until its ctx ends. Here that is after the first change.
func ExampleLive_Watch() {
	dir, err := os.MkdirTemp("", "openclaw")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	name := filepath.Join(dir, "openclaw.json")
	write := func(text string) {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			fmt.Println(err)
		}
	}
	write(`{ auth: { order: { anthropic: ["mine"] } } }`)
	ctx, end := context.WithTimeout(context.Background(), time.Minute)
	defer end()
	r, err := openclaw.Load(ctx, name, openclaw.Options{Home: dir})
	if err != nil {
		fmt.Println(err)
		return
	}
	write(`{ auth: { order: { anthropic: ["ours", "mine"] } } }`)
	err = r.Live().Watch(ctx, time.Second, func(x openclaw.Reading) {
		for _, c := range x.Changes {
			fmt.Println(c.Path, c.Effect)
		}
		end()
	})
	fmt.Println(err)
	// Output:
	// auth.order live
	// <nil>
}
