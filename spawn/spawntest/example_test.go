package spawntest_test

import (
	"context"
	"fmt"
	"time"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
	"github.com/offshoot-sdk/offshoot/spawn/spawntest"
)

// A process dies right after it has recorded the end of a sub-agent, before the requester is told.
// The next process tells the requester, once.
func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	main := session.Must(session.MainKey("main"))
	log := spawntest.NewRecorder(session.NewMemory().Journal)
	told := make(chan string)
	runner := (&spawntest.Runner{}).
		On("count", spawntest.Play{spawntest.Say("42")}).
		On(main.String(), spawntest.Play{spawntest.Do(
			func(_ context.Context, t *spawn.TurnInput) error {
				told <- t.Inputs[0].Completion.Run.Result.Text
				return nil
			},
		)})

	journal := spawntest.NewCrashJournal(log).
		AtEntry("ended ok, its requester", spawntest.FaultDieAfter)
	first, _ := spawn.Open(
		ctx, spawn.Config{Store: &session.Store{Journal: journal}, Runner: runner},
	)
	go first.Run(ctx)
	_, _ = first.Spawn(ctx, main, main, spawn.Request{Task: "count", Announce: true})
	<-journal.Died()

	second, _ := spawn.Open(ctx, spawn.Config{Store: &session.Store{Journal: log}, Runner: runner})
	go second.Run(ctx)
	fmt.Println("told:", <-told)

	soon, enough := context.WithTimeout(ctx, time.Second)
	defer enough()
	_ = second.Shutdown(soon)
	report, err := spawntest.Inspect(log.History(main))
	fmt.Println(report.Consumed, "consumed,", err)
	// Output:
	// told: 42
	// 1 consumed, <nil>
}
