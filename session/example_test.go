package session_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/offshoot-sdk/offshoot/session"
)

func Example() {
	main := session.Must(session.MainKey("main"))
	child := session.Must(main.Child("research", "6f1c2a52-7d1c-4f7e-9a30-0d6f5b0e3c11"))
	top, err := session.Top(main)
	if err != nil {
		fmt.Println(err)
		return
	}
	lineage, err := top.Child(child, 2)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(child)
	fmt.Println(
		child.Display(), "is", lineage.Role, "at depth", lineage.Depth, "of",
		lineage.Root.Display(),
	)
	// Output:
	// agent:research:subagent:6f1c2a52-7d1c-4f7e-9a30-0d6f5b0e3c11
	// research:subagent:6f1c2a52 is orchestrator at depth 1 of main
}

func ExampleParse() {
	for _, s := range []string{"Agent:Main:Telegram:DM:Alice", "agent:main:subagent:", "agent:main:discord:slash:7"} {
		key, err := session.Parse(s)
		fmt.Println(key, err)
	}
	// Output:
	// agent:main:telegram:direct:Alice <nil>
	//  session: invalid key "agent:main:subagent:": at byte 20: empty segment
	//  session: invalid key "agent:main:discord:slash:7": at byte 19: unknown shape
}

func ExampleAliases_Resolve() {
	aliases := session.Aliases{Agent: "ops", Main: "work"}
	for _, s := range []string{"main", "work", "agent:ops:work", "telegram:group:-100"} {
		key, err := aliases.Resolve(s)
		fmt.Println(key, err)
	}
	// Output:
	// agent:ops:main <nil>
	// agent:ops:main <nil>
	// agent:ops:main <nil>
	// agent:ops:telegram:group:-100 <nil>
}

func ExampleRoute_Or() {
	origin := session.Route{Channel: "telegram"}
	stored := session.Route{Channel: "telegram", To: "-100", Thread: "42"}
	fmt.Printf("%+v\n", origin.Or(stored))
	fmt.Printf("%+v\n", origin.Or(session.Route{Channel: "discord", To: "general"}))
	// Output:
	// {Channel:telegram Account: To:-100 Thread:42}
	// {Channel:telegram Account: To: Thread:}
}

// A writer appends after the sequence that it knows. If the log does not end there, the writer gets
// ErrConflict, and nothing is added.
func ExampleJournal() {
	ctx, journal, root := context.Background(), session.NewMemory().Journal, session.Must(
		session.MainKey("main"),
	)
	fact := func(s string) session.Batch {
		return session.Batch{
			ID:      session.BatchID(s),
			Entries: []session.Entry{{Payload: session.Raw(`{"fact":"` + s + `"}`)}},
		}
	}
	last, err := journal.Append(ctx, root, 0, fact("first"))
	fmt.Println(last, err)
	_, err = journal.Append(ctx, root, 0, fact("late"))
	fmt.Println(errors.Is(err, session.ErrConflict))
	for e, err := range journal.Read(ctx, root, 0) {
		fmt.Println(e.Seq, e.Batch, err)
	}
	// Output:
	// 1 <nil>
	// true
	// 1 first <nil>
}

func ExampleCommitted() {
	ctx, transcripts := context.Background(), session.NewMemory().Transcripts
	ref := session.Ref{Key: session.Must(session.MainKey("main")), SessionID: session.NewID()}
	pos, _ := transcripts.Append(
		ctx, ref, 0, session.Message{Role: session.MessageUser, Text: "How is the build?"},
	)
	cut, _ := transcripts.Append(
		ctx, ref, pos, session.Message{Role: session.MessageAssistant, Text: "I will look at"},
	)
	// The process died here. The next one discards what the turn left behind, and goes on.
	_, err := transcripts.Append(
		ctx, ref, cut, session.Fence(pos, time.Now()),
		session.Message{Role: session.MessageAssistant, Text: "It is green."},
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	for line, err := range session.Committed(transcripts.Read(ctx, ref, session.LineQuery{})) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%s: %s\n", line.Message.Role, line.Message.Text)
	}
	// Output:
	// user: How is the build?
	// assistant: It is green.
}
