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
	fmt.Println(answer, err)
	// Output:
	// {"type":"object","properties":{"city":{"type":"string","description":"the city, in English"}},"required":["city"],"additionalProperties":false}
	// Sunny in Lisbon. <nil>
}

// A tool that asks for whom it is called, and does not leave the sandbox.
func ExampleCallerOf() {
	run := agent.Tool{
		Name: "exec", Description: "Run a command.",
		Call: func(ctx context.Context, c agent.ToolCall) (string, error) {
			caller, ok := agent.CallerOf(ctx)
			if !ok || caller.Sandboxed {
				return "ran in the container", nil
			}
			return "ran on the host", nil
		},
	}
	fmt.Println(run.Call(context.Background(), agent.ToolCall{ID: "1", Name: "exec"}))
	// Output:
	// ran in the container <nil>
}
