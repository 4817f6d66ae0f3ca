package openaimodel_test

import (
	"context"
	"fmt"
	"net/http/httptest"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/session"

	"github.com/offshoot-sdk/offshoot/agent/openaimodel"
	"github.com/offshoot-sdk/offshoot/agent/openaimodel/openaitest"
)

// A bot whose model is that of a server which speaks like OpenAI. Here it is a fake.
func Example() {
	fake := &agenttest.Provider{}
	fake.Answer(agenttest.ProviderAnswer{Text: []string{"It is ", "noon."}})
	server := httptest.NewServer(openaitest.Handler(fake))
	defer server.Close()

	model, err := openaimodel.New(openaimodel.Config{
		BaseURL: server.URL + "/v1", Provider: "local", API: openaimodel.APIChat,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	rt, err := agent.Open(ctx, agent.Config{
		Runner: &agent.Loop{Model: model},
		Models: agent.Models{Model: "local/large-2"},
		Reply: func(_ context.Context, d agent.Delivery) error {
			fmt.Println(d.Reply.Text)
			return nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ran := make(chan error, 1)
	go func() { ran <- rt.Run(ctx) }()
	chat := rt.Session(session.Must(session.DirectKey("main", "terminal", "me")))
	_, _ = chat.Post(ctx, agent.Incoming{Text: "What time is it?"})
	_ = chat.Idle(ctx)
	cancel()
	<-ran
	fmt.Println(fake.Calls()[0].Model)
	// Output:
	// It is noon.
	// large-2
}
