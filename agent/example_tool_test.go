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
	tool := agent.NewTool("weather", "Weather in a city.", func(_ context.Context, q query) (string, error) {
		return "Sunny in " + q.City + ".", nil
	})
	fmt.Println(string(tool.Schema))
	answer, err := tool.Call(context.Background(), agent.ToolCall{ID: "1", Name: "weather", Args: json.RawMessage(`{"city":"Lisbon"}`)})
	fmt.Println(answer, err)
	// Output:
	// {"type":"object","properties":{"city":{"type":"string","description":"the city, in English"}},"required":["city"],"additionalProperties":false}
	// Sunny in Lisbon. <nil>
}
