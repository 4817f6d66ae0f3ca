package agent_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/offshoot-sdk/offshoot/agent"
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
