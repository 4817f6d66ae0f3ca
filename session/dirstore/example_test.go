package dirstore_test

import (
	"context"
	"fmt"
	"os"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/dirstore"
)

// What was appended is there when the directory is opened again.
func Example() {
	ctx, root := context.Background(), session.Must(session.MainKey("main"))
	dir, err := os.MkdirTemp("", "state")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)

	store, err := dirstore.Open(dir)
	if err != nil {
		fmt.Println(err)
		return
	}
	batch := session.Batch{ID: "first", Entries: []session.Entry{{Payload: session.Raw(`{"fact":1}`)}}}
	if _, err := store.Journal.Append(ctx, root, 0, batch); err != nil {
		fmt.Println(err)
	}
	fmt.Println(store.Close())

	store, err = dirstore.Open(dir)
	if err != nil {
		fmt.Println(err)
		return
	}
	for e, err := range store.Journal.Read(ctx, root, 0) {
		fmt.Println(e.Seq, e.Batch, err)
	}
	fmt.Println(store.Close())
	// Output:
	// <nil>
	// 1 first <nil>
	// <nil>
}

// A tool looks at every file, beside the process that has the directory open.
func ExampleVerify() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "state")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)

	store, err := dirstore.Open(dir)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	ref := testRef("6f1c2a52")
	message := session.Message{Role: session.MessageUser, Text: "hello"}
	if _, err := store.Transcripts.Append(ctx, ref, 0, message); err != nil {
		fmt.Println(err)
	}
	for file, err := range dirstore.Verify(ctx, dir) {
		fmt.Println(file.Path, file.Parts, err)
	}
	// Output:
	// journal/00000001.wal 0 <nil>
	// sessions/main/6f1c2a52.jsonl 1 <nil>
}
