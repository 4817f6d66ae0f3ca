package agent_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing/fstest"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/session"
)

// countingModel is a model client: it has files counted by a sub-agent, and passes on what that
// found.
type countingModel struct{ slow chan struct{} }

func (m countingModel) Generate(
	_ context.Context, req *agent.ModelRequest,
) (*agent.ModelResponse, error) {
	last := req.Messages[len(req.Messages)-1]
	switch {
	case last.Role == session.MessageTool:
		return &agent.ModelResponse{Text: "I am having them counted."}, nil
	case last.Internal: // the completion
		return &agent.ModelResponse{Text: "There are 42 files."}, nil
	case len(req.Tools) == 0: // the sub-agent, which takes its time
		<-m.slow
		return &agent.ModelResponse{Text: "42"}, nil
	}
	args := json.RawMessage(`{"task":"Count the files.","label":"count"}`)
	call := agent.ToolCall{ID: "1", Name: "sessions_spawn", Args: args}
	return &agent.ModelResponse{ToolCalls: []agent.ToolCall{call}}, nil
}

// Offshoot runs the chat: Post puts in what people say, Reply takes out what the agent says, now
// and later.
func Example() {
	ctx := context.Background()
	replies, slow := make(chan string), make(chan struct{})
	rt, err := agent.Open(ctx, agent.Config{
		Runner:    &agent.Loop{Model: countingModel{slow}},
		Workspace: fstest.MapFS{"AGENTS.md": {Data: []byte("Be exact.")}},
		Reply: func(_ context.Context, d agent.Delivery) error {
			replies <- d.Reply.Text
			return nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ended := make(chan error, 1)
	go func() { ended <- rt.Run(ctx) }()

	chat := rt.Session(session.Must(session.DirectKey("main", "telegram", "4711")))
	question := agent.Incoming{ID: "1", Text: "How many files are there?"}
	if _, err := chat.Post(ctx, question); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(<-replies)
	close(slow)
	fmt.Println(<-replies)
	fmt.Println(rt.Shutdown(ctx), <-ended)
	// Output:
	// I am having them counted.
	// There are 42 files.
	// <nil> <nil>
}
