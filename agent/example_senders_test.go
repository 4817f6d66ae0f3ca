package agent_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"slices"
	"strings"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
)

// What a turn may use in a group depends on who has written what it answers, and so does what a
// sub-agent may that it spawns. The docs have the rules: docs/senders.md.
func ExampleConfig_senders() {
	ctx := context.Background()
	said, names := make(chan string, 1), []string{"cron", "exec", "read"}
	cfg := agent.Config{
		Runner: agent.RunnerFunc(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
			var mine []string
			for _, tool := range tn.Tools {
				if slices.Contains(names, tool.Name) {
					mine = append(mine, tool.Name)
				}
			}
			may := fmt.Sprint(mine)
			if tn.Session.Depth == 0 && strings.Contains(tn.Input(), "delegate") {
				child, err := agent.Spawn[string](ctx, tn, agent.Task{Text: "look"})
				if err != nil {
					return agent.Result{}, err
				}
				below, err := child.Wait(ctx)
				return agent.Result{Text: may + ", and the sub-agent " + below}, err
			}
			return agent.Result{Text: may}, nil
		}),
		Reply: func(_ context.Context, d agent.Delivery) error {
			said <- d.Reply.Text
			return nil
		},
		Logger: slog.New(slog.DiscardHandler),
	}
	for _, name := range names {
		cfg.Tools = append(cfg.Tools, agent.NewTool(name, "Do it.",
			func(context.Context, struct{}) (string, error) { return "done", nil }))
	}
	cfg.Rules.Owners = []policy.Person{{Channel: "telegram", ID: "4711"}}
	cfg.Rules.Chats = []policy.Chat{{
		Channel: "telegram", Peer: "-100",
		Senders: []policy.SenderTools{
			{Person: policy.Person{ID: "815"}},  // may use everything but what is for owners
			{Person: policy.Person{ID: "4711"}}, // what * says is not for the owner, either
			{Person: policy.Person{ID: "*"}, Tools: policy.ToolRules{Deny: []string{"exec"}}},
		},
	}}
	rt, err := agent.Open(ctx, cfg)
	if err != nil {
		log.Fatal(err)
	}
	ctx, end := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- rt.Run(ctx) }()
	group := rt.Session(session.Must(session.GroupKey("main", "telegram", "-100")))
	for _, m := range []agent.Incoming{
		{Text: "what may I?", From: session.Sender{ID: "4711", Name: "Ann"}},
		{Text: "what may I?", From: session.Sender{ID: "815", Name: "Bob"}},
		{Text: "delegate it", From: session.Sender{ID: "99", Name: "Ann"}}, // names do not count
	} {
		if _, err := group.Post(ctx, m); err != nil {
			log.Print(err)
		}
		fmt.Printf("%s: %s\n", m.From.ID, <-said)
	}
	end()
	if err := <-ended; err != nil {
		log.Print(err)
	}
	// Output:
	// 4711: [cron exec read]
	// 815: [exec read]
	// 99: [read], and the sub-agent [read]
}
