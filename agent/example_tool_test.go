package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"log/slog"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
)

// A tool made of a function. Its schema is that of the argument.
func ExampleNewTool() {
	type query struct {
		City string `json:"city" doc:"the city, in English"`
	}
	weather := func(_ context.Context, q query) (string, error) {
		return "Sunny in " + q.City + ".", nil
	}
	tool := agent.NewTool("weather", "Weather in a city.", weather)
	fmt.Println(string(tool.Schema))
	call := agent.ToolCall{ID: "1", Name: "weather", Args: json.RawMessage(`{"city":"Lisbon"}`)}
	answer, err := tool.Call(context.Background(), call)
	fmt.Println(answer.Text, err)
	// Output:
	// {"type":"object","properties":{"city":{"type":"string","description":"the city, in English"}},"required":["city"],"additionalProperties":false}
	// Sunny in Lisbon. <nil>
}

// turnKey is where the Turn of a call stands in its context.
type turnKey struct{}

// A tool that needs its Turn, under a Loop. It shows the model what another person has written, and
// so has the turn work for that one, too.
func ExampleTool() {
	read := agent.NewTool("read_mail", "Read the last letter.",
		func(ctx context.Context, _ struct{}) (string, error) {
			turn, ok := ctx.Value(turnKey{}).(*agent.Turn)
			if !ok {
				return "", errors.New("the call is not one of a turn")
			}
			by := policy.Sender{Channel: "mail", ID: "ann@example.com"}
			if err := turn.Hear(ctx, by); err != nil {
				return "", err // the model does not see the letter
			}
			return "Lunch at noon? Ann", nil
		})
	loop := &agent.Loop{Model: agent.ModelFunc(
		func(_ context.Context, req *agent.ModelRequest) (*agent.ModelResponse, error) {
			if last := req.Messages[len(req.Messages)-1]; last.ToolCallID != "" {
				return &agent.ModelResponse{Text: "It says: " + last.Text}, nil
			}
			return &agent.ModelResponse{ToolCalls: []agent.ToolCall{
				{ID: "1", Name: "read_mail", Args: json.RawMessage(`{}`)},
			}}, nil
		})}
	cfg := agent.Config{
		Runner: agent.RunnerFunc(func(ctx context.Context, t *agent.Turn) (agent.Result, error) {
			out, err := loop.Run(context.WithValue(ctx, turnKey{}, t), t)
			for _, by := range t.Senders() {
				fmt.Println("for", by.ID)
			}
			return out, err
		}),
		Tools: []agent.Tool{read},
		Reply: func(_ context.Context, d agent.Delivery) error {
			fmt.Println(d.Reply.Text)
			return nil
		},
		Logger: slog.New(slog.DiscardHandler),
	}
	ctx, end := context.WithCancel(context.Background())
	rt, err := agent.Open(ctx, cfg)
	if err != nil {
		log.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- rt.Run(ctx) }()
	chat := rt.Session(session.Must(session.DirectKey("main", "telegram", "4711")))
	if _, err := chat.Post(ctx, agent.Incoming{
		Text: "Any mail?", From: session.Sender{ID: "4711"},
	}); err != nil {
		log.Print(err)
	}
	if err := chat.Idle(ctx); err != nil {
		log.Print(err)
	}
	end()
	if err := <-ended; err != nil {
		log.Print(err)
	}
	// Output:
	// for 4711
	// for ann@example.com
	// It says: Lunch at noon? Ann
}

// A tool that asks for whom it is called, and does not leave the sandbox.
func ExampleCallerOf() {
	run := agent.Tool{
		Name: "exec", Description: "Run a command.",
		Call: func(ctx context.Context, c agent.ToolCall) (agent.ToolResult, error) {
			caller, ok := agent.CallerOf(ctx)
			if !ok || caller.Sandboxed {
				return agent.ToolResult{Text: "ran in the container"}, nil
			}
			return agent.ToolResult{Text: "ran on the host"}, nil
		},
	}
	answer, err := run.Call(context.Background(), agent.ToolCall{ID: "1", Name: "exec"})
	fmt.Println(answer.Text, err)
	// Output:
	// ran in the container <nil>
}

// A tool that takes a picture. The model gets text and picture, and the bytes are in Store.Files.
func ExampleToolResult() {
	type camera struct {
		Camera string `json:"camera"`
	}
	tool := agent.NewTool("photo", "Take a picture.",
		func(_ context.Context, in camera) (agent.ToolResult, error) {
			return agent.ToolResult{
				Text: "The picture of camera " + in.Camera + ".",
				Parts: []agent.Part{{
					Kind: agent.PartImage, MediaType: "image/png", Name: "photo.png",
					Data: []byte("\x89PNG\r\n\x1a\n"),
				}},
			}, nil
		})
	answer, err := tool.Call(context.Background(), agent.ToolCall{
		ID: "1", Name: "photo", Args: json.RawMessage(`{"camera":"door"}`),
	})
	fmt.Println(answer.Text, len(answer.Parts), err)
	// Output:
	// The picture of camera door. 1 <nil>
}
