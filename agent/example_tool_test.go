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
