package spawn_test

import (
	"context"
	"fmt"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// A scribe writes until it is told that it is enough.
type scribe struct{ begun, enough chan struct{} }

func (s scribe) RunTurn(context.Context, *spawn.TurnInput) (spawn.TurnResult, error) {
	s.begun <- struct{}{}
	<-s.enough
	return spawn.TurnResult{Result: spawn.Result{Text: "three chapters"}}, nil
}

// A dashboard shows what goes on in every tree of a store, beside the bot that runs the trees. It
// does not open them. The store of a bot in another process is that of dirstore.View.
func ExampleView() {
	ctx := context.Background()
	store := session.NewMemory()
	show := func() {
		for head, err := range store.Journal.Roots(ctx, session.RootQuery{}) {
			if err != nil || !head.Root.IsValid() { // a store also has logs that are of no tree
				continue
			}
			v, err := spawn.View(head.Root, store.Journal.Read(ctx, head.Root, 0))
			if err != nil {
				fmt.Println(err)
				continue
			}
			for _, run := range v.Runs {
				fmt.Printf("%s: %s is %v, said %q\n", v.Root, run.Label, run.Status, run.Result.Text)
			}
			for _, out := range v.Outbox {
				fmt.Printf("%s waits for attempt %d\n", out.To, out.Attempt)
			}
		}
	}

	runner := scribe{begun: make(chan struct{}), enough: make(chan struct{})}
	bot, _ := spawn.Open(ctx, spawn.Config{Store: store, Runner: runner})
	go bot.Run(ctx)
	defer bot.Shutdown(ctx)
	main := session.Must(session.MainKey("main"))
	run, _ := bot.Spawn(ctx, main, main, spawn.Request{Label: "scribe", Task: "Write a book."})
	<-runner.begun
	show()
	close(runner.enough)
	_, _ = bot.Wait(ctx, main, []spawn.RunRef{{Session: run.Key}}, spawn.JoinOptions{})
	show()
	// Output:
	// agent:main:main: scribe is running, said ""
	// agent:main:main: scribe is ok, said "three chapters"
}
