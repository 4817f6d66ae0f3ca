package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http/httptest"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/session"

	"github.com/offshoot-sdk/offshoot/agent/mcp"
)

// weather is a model that calls the tool of a server and says what that answers.
func weather(_ context.Context, req *agent.ModelRequest) (*agent.ModelResponse, error) {
	last := req.Messages[len(req.Messages)-1]
	if last.Role == session.MessageTool {
		return &agent.ModelResponse{Text: "It will be " + last.Text}, nil
	}
	return &agent.ModelResponse{ToolCalls: []agent.ToolCall{{
		ID: "1", Name: "mcp__weather__forecast", Args: json.RawMessage(`{"city":"Lagos"}`),
	}}}, nil
}

// A bot calls the tools of a server. Here the server is a Service in the same program; most often
// it is a program of its own, named by Server.Command or Server.URL.
func Example() {
	service := &mcp.Service{Tools: func(context.Context) []agent.Tool {
		return []agent.Tool{agent.NewTool("forecast", "The weather of tomorrow.",
			func(_ context.Context, in struct {
				City string `json:"city"`
			},
			) (string, error) {
				return "sunny in " + in.City + ".", nil
			})}
	}}
	web := httptest.NewServer(service.Handler())
	defer web.Close()

	ctx, stop := context.WithCancel(context.Background())
	servers, err := mcp.Connect(ctx, mcp.Config{Servers: []mcp.Server{
		{Name: "weather", URL: web.URL},
	}})
	if err != nil {
		log.Fatal(err)
	}
	defer servers.Close()

	rt, err := agent.Open(ctx, agent.Config{
		Runner: &agent.Loop{Model: agent.ModelFunc(weather)},
		Tools:  servers.Tools(),
	})
	if err != nil {
		log.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- rt.Run(ctx) }()
	chat := rt.Session(session.Must(session.DirectKey("main", "terminal", "me")))
	reply, err := chat.PostAndWait(ctx, agent.Incoming{Text: "How will it be in Lagos?"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(reply.Text)
	stop()
	if err := <-ended; err != nil {
		log.Fatal(err)
	}
	// Output: It will be sunny in Lagos.
}

// A bot is a server for other programs, here over HTTP. Over stdio it is
// service.Serve(ctx, os.Stdin, os.Stdout).
func ExampleService() {
	ctx, stop := context.WithCancel(context.Background())
	rt, err := agent.Open(ctx, agent.Config{
		Runner: agent.RunnerFunc(func(_ context.Context, t *agent.Turn) (agent.Result, error) {
			return agent.Result{Text: "You said " + t.Input()}, nil
		}),
	})
	if err != nil {
		log.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- rt.Run(ctx) }()
	service := &mcp.Service{Tools: mcp.RuntimeTools(rt, mcp.Chats{Channel: "editor"})}
	web := httptest.NewServer(service.Handler())
	defer web.Close()

	// What another program does:
	other, err := mcp.Connect(ctx, mcp.Config{Servers: []mcp.Server{{Name: "bot", URL: web.URL}}})
	if err != nil {
		log.Fatal(err)
	}
	defer other.Close()
	for _, t := range other.Tools() {
		fmt.Println(t.Name)
	}
	out, err := other.Tools()[0].Call(ctx, agent.ToolCall{
		Name: "mcp__bot__ask", Args: json.RawMessage(`{"text":"hello"}`),
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(out.Text)
	stop()
	if err := <-ended; err != nil {
		log.Fatal(err)
	}
	// Output:
	// mcp__bot__ask
	// mcp__bot__cancel
	// mcp__bot__history
	// mcp__bot__subagents
	// You said hello
}
