package agent_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/offshoot-sdk/offshoot/agent"
	agentctx "github.com/offshoot-sdk/offshoot/context"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
)

// runnerSaying returns a Runner that gives one answer, whatever is asked.
func runnerSaying(text string) agent.Runner {
	return agent.RunnerFunc(func(context.Context, *agent.Turn) (agent.Result, error) {
		return agent.Result{Text: text}, nil
	})
}

// What was said in a chat, for a page that people read: thoughts are left out, and credentials are
// masked.
func ExampleSession_History() {
	ctx := context.Background()
	rt, err := agent.Open(ctx, agent.Config{
		Runner: runnerSaying("<think>Which one?</think>I use sk-4711abcdefghijklmnop for that."),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ended := make(chan error, 1)
	go func() { ended <- rt.Run(ctx) }()

	chat := rt.Session(session.Must(session.DirectKey("main", "telegram", "4711")))
	if _, err := chat.Post(ctx, agent.Incoming{Text: "Which key do you use?"}); err != nil {
		fmt.Println(err)
		return
	}
	if err := chat.Idle(ctx); err != nil {
		fmt.Println(err)
		return
	}
	page, err := chat.History(ctx, agent.HistoryQuery{Last: 20})
	for _, line := range page.Lines {
		fmt.Printf("%s: %s\n", line.Message.Role, line.Message.Text)
	}
	fmt.Println(err, rt.Shutdown(ctx), <-ended)
	// Output:
	// user: Which key do you use?
	// assistant: I use sk-471…mnop for that.
	// <nil> <nil> <nil>
}

// What is special about one chat, such as the group that it is, is told by a function of the
// session. A test looks at the prompt that it makes.
func ExamplePrompts() {
	topics := map[session.Key]string{
		session.Must(session.GroupKey("main", "telegram", "-100")): "The crew of the night train.",
	}
	cfg := agent.Config{
		Runner: runnerSaying("ok"),
		Prompts: agent.Prompts{
			Input: agentctx.Input{Product: "Perch"},
			Describe: func(_ context.Context, l session.Lineage, in *agentctx.Input) error {
				in.Conversation = topics[l.Key]
				if l.Key.Channel() == "telegram" {
					in.Env.Capabilities = []string{"inlineButtons"}
				}
				return nil
			},
		},
	}
	for _, key := range []session.Key{
		session.Must(session.MainKey("main")),
		session.Must(session.GroupKey("main", "telegram", "-100")),
	} {
		in, err := cfg.Input(context.Background(), key)
		prompt := agentctx.Assemble(in).String()
		fmt.Println(strings.Contains(prompt, "night train"),
			strings.Contains(prompt, "capabilities=inlinebuttons"), err)
	}
	// Output:
	// false false <nil>
	// true true <nil>
}

// One agent has a Runner of its own, such as another program. The others share one.
func ExampleRunners() {
	ctx := context.Background()
	rt, err := agent.Open(ctx, agent.Config{
		Runner: runnerSaying("Here is the plan."),
		Runners: agent.Runners{Agents: map[string]agent.Runner{
			"coder": runnerSaying("Here is the code."),
		}},
		Rules: policy.Rules{Agents: []policy.Agent{
			{ID: "main", Subagents: policy.Subagents{AllowAgents: []string{"coder"}}},
			{ID: "coder"},
		}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ended := make(chan error, 1)
	go func() { ended <- rt.Run(ctx) }()

	main := rt.Session(session.Must(session.MainKey("main")))
	for _, id := range []string{"main", "coder"} {
		child, err := main.Spawn(ctx, agent.Task{Text: "Build a bridge.", Agent: id})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(child.Wait(ctx))
	}
	fmt.Println(rt.Shutdown(ctx), <-ended)
	// Output:
	// Here is the plan. <nil>
	// Here is the code. <nil>
	// <nil> <nil>
}
