package agent_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/session"
)

// Each agent has its own credentials over those of agent main. A Runner asks its ctx for them.
func ExampleCredentialFor() {
	ctx := context.Background()
	answered := make(chan string, 1)
	rt, err := agent.Open(ctx, agent.Config{
		Runner: agent.RunnerFunc(func(ctx context.Context, _ *agent.Turn) (agent.Result, error) {
			login, err := agent.CredentialFor(ctx, "anthropic")
			if err != nil {
				return agent.Result{}, err // a *agent.MissingCredentialError
			}
			_, err = agent.CredentialFor(ctx, "openai")
			text := fmt.Sprintf("%s is %v with %d bytes.\n%v\n%v", login.ID, login.Secret,
				len(login.Secret.Reveal()), err, errors.Is(err, agent.ErrAccount))
			return agent.Result{Text: text}, nil
		}),
		Models: agent.Models{Credentials: func(context.Context, string) (agent.Profiles, error) {
			return agent.Profiles{ByID: map[string]agent.Profile{
				"anthropic:default": {Provider: "anthropic", Secret: agent.NewSecret("sk-1234")},
			}}, nil
		}},
		Reply: func(_ context.Context, d agent.Delivery) error {
			answered <- d.Reply.Text
			return nil
		},
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		log.Fatal(err)
	}
	ctx, end := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- rt.Run(ctx) }()
	chat := rt.Session(session.Must(session.DirectKey("main", "terminal", "me")))
	if _, err := chat.Post(ctx, agent.Incoming{Text: "hello"}); err != nil {
		log.Print(err)
	}
	fmt.Println(<-answered)
	end()
	if err := <-ended; err != nil {
		log.Print(err)
	}
	// Output:
	// anthropic:default is *** with 7 bytes.
	// agent: agent "main" has no credential for provider "openai"; it has some for anthropic
	// true
}
