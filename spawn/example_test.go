package spawn_test

import (
	"context"
	"fmt"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// A shouter answers what it is asked in a loud voice. A real Runner calls a model.
type shouter struct{}

func (shouter) RunTurn(_ context.Context, t *spawn.TurnInput) (spawn.TurnResult, error) {
	return spawn.TurnResult{Result: spawn.Result{Text: t.Inputs[0].Text + "!"}}, nil
}

// A program that runs its main session itself spawns two sub-agents and waits for both.
func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s, err := spawn.Open(ctx, spawn.Config{Store: session.NewMemory(), Runner: shouter{}})
	if err != nil {
		panic(err)
	}
	go s.Run(ctx)
	defer s.Shutdown(ctx)

	main := session.Must(session.MainKey("main"))
	var started []spawn.RunRef
	for _, task := range []string{"hello", "world"} {
		run, err := s.Spawn(ctx, main, main, spawn.Request{Task: task})
		if err != nil {
			panic(err)
		}
		started = append(started, run.Ref())
	}
	runs, err := s.Wait(ctx, main, started, spawn.JoinOptions{})
	if err != nil {
		panic(err)
	}
	for _, run := range runs {
		fmt.Println(run.Status, run.Result.Text)
	}
	// Output:
	// ok hello!
	// ok world!
}
