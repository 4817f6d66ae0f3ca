package agent_test

import (
	"context"
	"fmt"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/session"
)

// A follow-up to a sub-agent that has ended begins another run of its session, which knows what was
// said before. Each handle is one on its own run.
func ExampleChild_Post() {
	ctx := context.Background()
	rt, shutdown := openRuntime(ctx, func(t *agent.Turn) string {
		return fmt.Sprintf("answer %d, to %q", t.N, t.Messages[len(t.Messages)-1].Text)
	})
	defer shutdown()

	atlas := rt.Session(session.Must(session.NamedKey("main", "atlas")))
	child, err := atlas.Spawn(ctx, agent.Task{Text: "Describe Lisbon."})
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err = child.Wait(ctx); err != nil {
		fmt.Println(err)
		return
	}
	more, err := child.Post(ctx, agent.Incoming{Text: "And Porto?"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(more.Wait(ctx))
	runs, err := child.Session().OwnRuns(ctx)
	fmt.Println(len(runs), runs[0].ID == child.ID(), runs[1].ID == more.ID(), err)
	// Output:
	// answer 2, to "And Porto?" <nil>
	// 2 true true <nil>
}

// openRuntime opens and runs a Runtime whose turns answer with a text. The function that it returns
// shuts it down.
func openRuntime(
	ctx context.Context, answer func(t *agent.Turn) string,
) (*agent.Runtime, func()) {
	rt, err := agent.Open(ctx, agent.Config{
		Runner: agent.RunnerFunc(func(_ context.Context, t *agent.Turn) (agent.Result, error) {
			return agent.Result{Text: answer(t)}, nil
		}),
	})
	if err != nil {
		panic(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- rt.Run(ctx) }()
	return rt, func() {
		_ = rt.Shutdown(ctx)
		<-ended
	}
}
