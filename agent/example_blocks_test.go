package agent_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/session"
)

// A bot with content blocks of its own, such as thoughts that a provider has signed and wants to
// see again. It records them as Raw, and each later turn has them byte for byte.
func ExampleTurn_Record() {
	const blocks = `[{"type":"thinking","thinking":"4 * 3","signature":"EqQB"},` +
		`{"type":"text","text":"12"}]`
	bot := agent.RunnerFunc(func(ctx context.Context, t *agent.Turn) (agent.Result, error) {
		for _, m := range t.Messages {
			fmt.Println("to the provider:", m.Role, cmp.Or(string(m.Raw), m.Text))
		}
		// Here the bot calls its provider, which answers with blocks.
		return agent.Result{Text: "12"}, t.Record(ctx, agent.Message{
			Role: session.MessageAssistant, Text: "12", Raw: json.RawMessage(blocks),
		})
	})
	ctx := context.Background()
	rt, err := agent.Open(ctx, agent.Config{Runner: bot})
	if err != nil {
		fmt.Println(err)
		return
	}
	ended := make(chan error, 1)
	go func() { ended <- rt.Run(ctx) }()
	chat := rt.Session(session.Must(session.MainKey("main")))
	for _, text := range []string{"What is 4 * 3?", "Why?"} {
		if _, err := chat.Post(ctx, agent.Incoming{Text: text}); err != nil {
			fmt.Println(err)
		}
		if err := chat.Idle(ctx); err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println(rt.Shutdown(ctx), <-ended)
	// Output:
	// to the provider: user What is 4 * 3?
	// to the provider: user What is 4 * 3?
	// to the provider: assistant [{"type":"thinking","thinking":"4 * 3","signature":"EqQB"},{"type":"text","text":"12"}]
	// to the provider: user Why?
	// <nil> <nil>
}
