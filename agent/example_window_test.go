package agent_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/session"
)

// A model with a small context chats on for as long as people like: what was said first becomes a
// summary, which the same model writes.
func ExampleSummarize() {
	model := agent.ModelFunc(func(
		_ context.Context, req *agent.ModelRequest,
	) (*agent.ModelResponse, error) {
		if _, ok := req.Prompt.Section("summary"); ok {
			return &agent.ModelResponse{Text: "They count sheep."}, nil
		}
		first := req.Messages[0]
		if first.Internal && strings.Contains(first.Text, "| They count sheep.") {
			return &agent.ModelResponse{Text: "I know what we said before."}, nil
		}
		return &agent.ModelResponse{Text: strings.Repeat("One more sheep. ", 50)}, nil
	})
	cfg := agent.Config{Runner: &agent.Loop{Model: model}}
	cfg.Models.Window = func(string) agent.Window {
		return agent.Window{Tokens: 4_000, Compact: agent.Summarize(model)}
	}
	ctx := context.Background()
	rt, err := agent.Open(ctx, cfg)
	if err != nil {
		fmt.Println(err)
		return
	}
	ended := make(chan error, 1)
	go func() { ended <- rt.Run(ctx) }()
	chat := rt.Session(session.Must(session.DirectKey("main", "terminal", "me")))
	for answer, n := "", 1; answer != "I know what we said before." && n < 100; n++ {
		reply, err := chat.PostAndWait(ctx, agent.Incoming{Text: fmt.Sprint("Sheep ", n)})
		if err != nil {
			fmt.Println(err)
			return
		}
		answer = reply.Text
	}
	page, err := chat.History(ctx, agent.HistoryQuery{})
	fmt.Println(page.Lines[0].Message.Text, err)
	fmt.Println(page.Lines[len(page.Lines)-1].Message.Text)
	fmt.Println(rt.Shutdown(ctx), <-ended)
	// Output:
	// Sheep 1 <nil>
	// I know what we said before.
	// <nil> <nil>
}
