package command_test

import (
	"context"
	"fmt"
	"log"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/command"
	"github.com/offshoot-sdk/offshoot/session"
)

// A transport gives what people say to the Handler first, and posts the rest.
func Example() {
	ctx := context.Background()
	rt, err := agent.Open(ctx, agent.Config{Runner: agent.RunnerFunc(
		func(context.Context, *agent.Turn) (agent.Result, error) {
			return agent.Result{Text: "Hello."}, nil
		},
	)})
	if err != nil {
		log.Fatal(err)
	}
	commands, err := command.New(rt, command.Options{
		Authorize: func(_ context.Context, r command.Request) error {
			if _, looks := r.Command.(command.List); !looks && r.Message.From.ID != "ann" {
				return fmt.Errorf("%q is not an operator", r.Message.From.ID)
			}
			return nil
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	chat := session.Must(session.ChannelKey("main", "irc", "ops"))
	hear := func(who, said string) {
		m := agent.Incoming{Text: said, From: session.Sender{ID: who}}
		if answer, ok := commands.Handle(ctx, chat, m); ok {
			fmt.Println(answer.Text())
			return
		}
		if _, err := rt.Session(chat).Post(ctx, m); err != nil {
			log.Print(err)
		}
		fmt.Println("posted:", said)
	}
	hear("bob", "Hello, bot!")
	hear("bob", "/kill all")
	hear("ann", "/kill")
	hear("ann", "/subagents info alpha")
	_ = rt.Shutdown(ctx)
	// Output:
	// posted: Hello, bot!
	// You may not use /kill here.
	// The target: it is missing; name a sub-agent by its number in the list, its label or its run id.
	// Usage: /kill <target|all>
	// "alpha" is not a sub-agent of this conversation. /subagents lists them.
}

func ExampleSyntax_Parse() {
	var syntax command.Syntax
	for _, said := range []string{
		"/steer #2 look left", "/session idle 90m", "please stop!!", "/killall", "/kill",
	} {
		c, ok, err := syntax.Parse(said)
		fmt.Printf("%T %v %v\n", c, ok, err)
	}
	// Output:
	// command.Steer true <nil>
	// command.Limit true <nil>
	// command.Stop true <nil>
	// <nil> false <nil>
	// <nil> true command: /kill: target: it is missing; name a sub-agent by its number in the list, its label or its run id
}
