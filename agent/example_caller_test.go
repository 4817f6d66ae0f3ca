package agent_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/announce"
	"github.com/offshoot-sdk/offshoot/session"
)

// A bot with a loop of its own gives its model the tools of Session.Tools, and is handed each
// completion when it comes.
func ExampleSession_Tools() {
	ctx := context.Background()
	delivered := make(chan agent.Delivery, 1)
	rt, err := agent.Open(ctx, agent.Config{
		Runner: agent.RunnerFunc(func(context.Context, *agent.Turn) (agent.Result, error) {
			return agent.Result{Text: "42"}, nil // your loop, for the turns of sub-agents
		}),
		Deliver: func(_ context.Context, d agent.Delivery) error {
			// Your loop again: a turn of the chat d.To over NewEvent(d.Completion).ForModel().
			delivered <- d
			return nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ended := make(chan error, 1)
	go func() { ended <- rt.Run(ctx) }()

	tools := rt.Session(session.Must(session.DirectKey("main", "telegram", "4711"))).Tools()
	for _, tool := range tools {
		fmt.Println(tool.Name)
	}
	call := agent.ToolCall{
		ID: "call_0", Name: tools[0].Name, Args: json.RawMessage(`{"task":"Count the files."}`),
	}
	if _, err := tools[0].Call(ctx, call); err != nil {
		fmt.Println(err)
		return
	}
	d := <-delivered
	fmt.Println(d.To, "gets", announce.NewEvent(d.Completion).ForPerson())
	fmt.Println(rt.Shutdown(ctx), <-ended)
	// Output:
	// sessions_spawn
	// subagents
	// sessions_send
	// agents_list
	// sessions_list
	// sessions_history
	// session_status
	// agent:main:telegram:direct:4711 gets 42
	// <nil> <nil>
}
