package binding_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/binding"
)

func Example() {
	ctx, noon := context.Background(), time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	table, err := binding.Open(ctx, session.NewMemory().Journal)
	if err != nil {
		fmt.Println(err)
		return
	}
	thread := session.Route{Channel: "discord", To: "general", Thread: "1234"}
	worker := session.Must(session.Must(session.MainKey("main")).Child("coder", "abc"))
	_, err = table.Bind(
		ctx,
		binding.Request{Conversation: thread, Target: worker, By: "alice", Idle: 24 * time.Hour},
		noon,
	)
	fmt.Println(err)

	_, err = table.Bind(
		ctx,
		binding.Request{
			Conversation: thread, Target: session.Must(session.MainKey("main")), By: "bob",
		},
		noon,
	)
	fmt.Println(errors.Is(err, binding.ErrBound))

	b, ok := table.Find(thread, noon.Add(23*time.Hour))
	fmt.Println(b.Target, ok)
	_, ok = table.Find(thread, noon.Add(24*time.Hour))
	fmt.Println(ok)
	// Output:
	// <nil>
	// true
	// agent:coder:subagent:abc true
	// false
}
