package spawn_test

import (
	"context"
	"fmt"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
	"github.com/offshoot-sdk/offshoot/spawn/spawntest"
)

// A dashboard draws the tree as it is, and then follows it. Later it goes on behind the cursor that
// it has kept.
func ExampleSupervisor_Events() {
	ctx := context.Background()
	s, err := spawn.Open(ctx, spawn.Config{
		Store:  session.NewMemory(),
		Runner: (&spawntest.Runner{}).On("count", spawntest.Play{spawntest.Say("42")}),
	})
	if err != nil {
		panic(err)
	}
	main := session.Must(session.MainKey("main"))
	events := s.Events(ctx, spawn.EventQuery{Root: main})
	go s.Run(ctx)
	defer s.Shutdown(ctx)

	if _, err := s.Spawn(ctx, main, main, spawn.Request{Task: "count"}); err != nil {
		panic(err)
	}
	var kept spawn.Cursor
	for e, err := range events {
		if err != nil {
			panic(err)
		}
		fmt.Println(e.Kind, e.Depth)
		if e.Kind == spawn.EventAdmitted {
			kept = e.Cursor
		}
		if e.Kind == spawn.EventEnded {
			break
		}
	}
	behind := spawn.EventQuery{Root: main, After: []spawn.Cursor{kept}}
	for e, err := range s.Events(ctx, behind) {
		if err != nil {
			panic(err)
		}
		fmt.Printf("again: %v %q\n", e.Kind, e.Text)
		if e.Kind == spawn.EventEnded {
			break
		}
	}
	// Output:
	// snapshot 0
	// admitted 1
	// turn 1
	// turn_ended 1
	// ended 1
	// again: turn ""
	// again: turn_ended "42"
	// again: ended "42"
}
