package natsstore_test

import (
	"context"
	"fmt"
	"os"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/offshoot-sdk/offshoot/session"

	"github.com/offshoot-sdk/offshoot/session/natsstore"
)

// A program keeps its state in JetStream: everything else is as with any other Store. The server of
// this example stands in the same process.
func Example() {
	dir, _ := os.MkdirTemp("", "example")
	defer os.RemoveAll(dir)
	s, err := newServer(dir, func(o *server.Options) {
		o.HTTPHost, o.HTTPPort, o.SyncAlways = "127.0.0.1", server.RANDOM_PORT, true
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Shutdown()

	ctx := context.Background()
	store, err := natsstore.Open(ctx, s.ClientURL(), natsstore.Options{
		Name: "my_bot", Monitor: []string{"http://" + s.MonitorAddr().String()},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	tree := session.Must(session.MainKey("main"))
	_, err = store.Journal.Append(ctx, tree, 0, session.Batch{
		Entries: []session.Entry{{Payload: session.Raw(`{"said":"hello"}`)}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for e, err := range store.Journal.Read(ctx, tree, 0) {
		fmt.Printf("%s %v\n", e.Payload, err)
	}
	// Output: {"said":"hello"} <nil>
}

// Options that cannot be used are named, before anything is asked of a server.
func ExampleOptionError() {
	_, err := natsstore.Open(context.Background(), "nats://bot", natsstore.Options{Name: "My Bot"})
	fmt.Println(err)
	// Output:
	// natsstore: Options.Name is "My Bot": it has more than lower case letters of ASCII, digits, _ and -
}
