package anthropicmodel_test

import (
	"context"
	"fmt"
	"net/http/httptest"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/session"

	"github.com/offshoot-sdk/offshoot/agent/anthropicmodel"
	"github.com/offshoot-sdk/offshoot/agent/anthropicmodel/anthropictest"
)

// A program asks the model without a Loop, for example for a summary. Here the provider is a fake.
func Example() {
	fake := &agenttest.Provider{}
	fake.Answer(agenttest.ProviderAnswer{Text: []string{"It is ", "noon."}})
	server := httptest.NewServer(anthropictest.Handler(fake))
	defer server.Close()

	model, err := anthropicmodel.New(anthropicmodel.Config{
		BaseURL: server.URL, Model: "large-2",
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	resp, err := model.Generate(context.Background(), &agent.ModelRequest{
		Messages: []agent.Message{{Role: session.MessageUser, Text: "What time is it?"}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(resp.Model+":", resp.Text)
	// Output:
	// anthropic/large-2: It is noon.
}
