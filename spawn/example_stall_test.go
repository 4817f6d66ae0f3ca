package spawn_test

import (
	"context"
	"fmt"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
	"github.com/offshoot-sdk/offshoot/spawn/spawntest"
)

// A journal fails when the end of a run is to be recorded. The Supervisor tells its watchers, tries
// again, and records the end once the journal works: nothing is lost, and nothing was to be done.
func Example_failingStore() {
	ctx := context.Background()
	store := session.NewMemory()
	journal := spawntest.NewCrashJournal(store.Journal).AtEntry("ended ok", spawntest.FaultFailBefore)
	s, err := spawn.Open(ctx, spawn.Config{
		Store:  &session.Store{Journal: journal},
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
	for e := range events {
		switch e.Kind {
		case spawn.EventStalled:
			fmt.Printf("%v: %q\n", e.Kind, e.Error)
		case spawn.EventEnded:
			fmt.Printf("%v: %v, %q\n", e.Kind, e.Status, e.Text)
			return
		}
	}
	// Output:
	// stalled: "spawntest: the journal failed"
	// stalled: ""
	// ended: ok, "42"
}
