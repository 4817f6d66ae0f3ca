package spawn_test

import (
	"context"
	"fmt"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// blockedStore returns the store that a bot leaves whose chat service was down for so long that the
// delivery of a reply is blocked. The journal is written here because a bot gives up only after
// half an hour.
func blockedStore(ctx context.Context, root session.Key) *session.Store {
	store := session.NewMemory()
	of := `"run":"` + root.String() + `"`
	var b session.Batch
	for _, fact := range []string{
		`{"v":1,"kind":"opened","at":1,"num":1,"id":"s"}`,
		`{"v":1,"kind":"posted","at":1,` + of + `,"class":1,"ord":1,"text":"Are you there?"}`,
		`{"v":1,"kind":"turn_started","at":1,` + of + `,"n":1,"ord":1}`,
		`{"v":1,"kind":"turn_ended","at":1,` + of +
			`,"state":5,"flags":64,"n":1,"answer":{"reply":"I am here."}}`,
		`{"v":1,"kind":"blocked","at":1,"ord":1,"text":"the chat service is down"}`,
	} {
		b.Entries = append(b.Entries, session.Entry{Payload: session.Raw(fact)})
	}
	if _, err := store.Journal.Append(ctx, root, 0, b); err != nil {
		panic(err)
	}
	return store
}

// A tool retries the blocked deliveries of a store while its bot is not running. The next start of
// the bot delivers them.
func ExampleSettle() {
	ctx := context.Background()
	main := session.Must(session.MainKey("main"))
	store := blockedStore(ctx, main)

	v, err := spawn.View(main, store.Journal.Read(ctx, main, 0))
	if err != nil {
		panic(err)
	}
	for _, out := range v.Outbox {
		if out.Blocked.IsZero() {
			continue
		}
		fmt.Printf("%q is blocked: %s\n", out.Reply.Text, out.Error)
		if err := spawn.Settle(ctx, store, out.Key, spawn.SettleRetry); err != nil {
			panic(err)
		}
	}

	delivered := make(chan string)
	bot, err := spawn.Open(ctx, spawn.Config{
		Store: store, Runner: shouter{}, Replies: true,
		Deliver: func(_ context.Context, out spawn.Delivery) error {
			delivered <- out.Reply.Text
			return nil
		},
	})
	if err != nil {
		panic(err)
	}
	go bot.Run(ctx)
	defer bot.Shutdown(ctx)
	fmt.Printf("%q is delivered\n", <-delivered)
	// Output:
	// "I am here." is blocked: the chat service is down
	// "I am here." is delivered
}
