package pgstore_test

import (
	"context"
	"fmt"
	"os"

	"github.com/offshoot-sdk/offshoot/agent"

	"github.com/offshoot-sdk/offshoot/session/pgstore"
)

// A bot keeps its state in PostgreSQL: everything else is as with any other Store.
func Example() {
	ctx := context.Background()
	store, err := pgstore.Open(ctx, os.Getenv("DATABASE_URL"), pgstore.Options{Schema: "my_bot"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	rt, err := agent.Open(ctx, agent.Config{
		Store: store,
		Runner: agent.RunnerFunc(func(context.Context, *agent.Turn) (agent.Result, error) {
			return agent.Result{Text: "42"}, nil // your loop
		}),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(rt.Run(ctx))
}

// Options that cannot be used are named, before anything is asked of a server.
func ExampleOptionError() {
	_, err := pgstore.Open(context.Background(), "postgres:///bot", pgstore.Options{Schema: "My Bot"})
	fmt.Println(err)
	// Output:
	// pgstore: Options.Schema is "My Bot": it has more than lower case letters of ASCII, digits and _
}
