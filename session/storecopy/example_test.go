package storecopy_test

import (
	"context"
	"fmt"
	"log"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/storecopy"
)

// What a Store has goes into an empty one, and both are compared.
func Example() {
	ctx := context.Background()
	from, to := session.NewMemory(), session.NewMemory()
	ref := session.Ref{Key: session.Must(session.MainKey("main")), SessionID: session.NewID()}
	_, err := from.Transcripts.Append(ctx, ref, 0,
		session.Message{Role: session.MessageUser, Text: "hello"})
	if err != nil {
		log.Fatal(err)
	}
	report, err := storecopy.Copy(ctx, from, to, storecopy.Options{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(report.Transcripts, "transcript with", report.Lines, "line")

	_, err = storecopy.Copy(ctx, from, to, storecopy.Options{})
	fmt.Println("again:", err != nil)
	// Output:
	// 1 transcript with 1 line
	// again: true
}
