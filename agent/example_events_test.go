package agent_test

import (
	"context"
	"fmt"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/session"
)

// A page shows what happens in a chat, remembers the Cursor of the last event that it has shown,
// and goes on behind it after a restart of the bot: it misses nothing and shows nothing twice.
func ExampleRuntime_Events() {
	ctx := context.Background()
	store := session.NewMemory() // a program that is to remember has dirstore.Open("state")
	chat := session.Must(session.DirectKey("main", "telegram", "4711"))
	var at []agent.Cursor

	for _, question := range []string{"How many files are there?", "And now?"} {
		rt, err := agent.Open(ctx, agent.Config{Store: store, Runner: agent.RunnerFunc(
			func(ctx context.Context, t *agent.Turn) (agent.Result, error) {
				counted := agent.Progress{Text: "counted them", Percent: 100, Milestone: true}
				return agent.Result{Text: "<think>Let me see.</think>42"}, t.Report(ctx, counted)
			},
		)})
		if err != nil {
			fmt.Println(err)
			return
		}
		ended := make(chan error, 1)
		go func() { ended <- rt.Run(ctx) }()
		events := rt.Events(ctx, agent.EventQuery{Root: chat, After: at})
		if _, err := rt.Session(chat).Post(ctx, agent.Incoming{Text: question}); err != nil {
			fmt.Println(err)
			return
		}
		for e, err := range events {
			if err != nil {
				fmt.Println(err)
				return
			}
			if e.Kind != agent.EventSnapshot {
				fmt.Printf("%v %q\n", e.Kind, e.Text)
			}
			if at = []agent.Cursor{e.Cursor}; e.Kind == agent.EventTurnEnded {
				break
			}
		}
		fmt.Println(rt.Shutdown(ctx), <-ended)
	}
	// Output:
	// posted "How many files are there?"
	// turn ""
	// milestone "counted them"
	// turn_ended "42"
	// <nil> <nil>
	// posted "And now?"
	// turn ""
	// milestone "counted them"
	// turn_ended "42"
	// <nil> <nil>
}
