package agent_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/offshoot-sdk/offshoot/agent"
	agentctx "github.com/offshoot-sdk/offshoot/context"
	"github.com/offshoot-sdk/offshoot/session"
)

// A sub-agent that begins with what was said so far, so that its task need not repeat it.
func ExampleTask_fork() {
	ctx := context.Background()
	rt, err := agent.Open(ctx, agent.Config{
		Runner: agent.RunnerFunc(func(_ context.Context, t *agent.Turn) (agent.Result, error) {
			if t.Run == "" {
				return agent.Result{Text: "Noted: " + t.Input()}, nil
			}
			for _, m := range t.Messages {
				if m.Copied {
					fmt.Printf("%s: %s\n", m.Role, m.Text)
				}
			}
			return agent.Result{Text: "Two seats, by the window."}, nil
		}),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ended := make(chan error, 1)
	go func() { ended <- rt.Run(ctx) }()

	chat := rt.Session(session.Must(session.DirectKey("main", "telegram", "42")))
	_, err = chat.PostAndWait(ctx, agent.Incoming{ID: "1", Text: "We are two, and like the view."})
	if err == nil {
		var child *agent.Child[string]
		child, err = chat.Spawn(ctx, agent.Task{
			Text: "Book the seats.", Spec: agentctx.Spec{History: agentctx.HistoryFork},
		})
		if err == nil {
			fmt.Println(child.Wait(ctx))
		}
	}
	if err = errors.Join(err, rt.Shutdown(ctx), <-ended); err != nil {
		fmt.Println(err)
	}
	// Output:
	// user: We are two, and like the view.
	// assistant: Noted: We are two, and like the view.
	// Two seats, by the window. <nil>
}
