package spawn_test

import (
	"context"
	"fmt"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// A poll is a Runner whose even voters answer at once, and whose odd voters never do.
type poll struct{}

func (poll) RunTurn(ctx context.Context, t *spawn.TurnInput) (spawn.TurnResult, error) {
	if t.Run.Label == "odd" {
		<-ctx.Done()
		return spawn.TurnResult{}, context.Cause(ctx)
	}
	return spawn.TurnResult{Result: spawn.Result{Text: "yes"}}, nil
}

// A program spawns five sub-agents, waits until any three of them have ended well, and stops the
// other two.
func ExampleSupervisor_Wait_atLeast() {
	ctx := context.Background()
	s, err := spawn.Open(ctx, spawn.Config{Store: session.NewMemory(), Runner: poll{}})
	if err != nil {
		panic(err)
	}
	go s.Run(ctx)
	defer s.Shutdown(ctx)

	main := session.Must(session.MainKey("main"))
	var voters []spawn.RunRef
	for i := range 5 {
		label := []string{"even", "odd"}[i%2]
		run, err := s.Spawn(ctx, main, main, spawn.Request{Label: label, Task: "Vote."})
		if err != nil {
			panic(err)
		}
		voters = append(voters, run.Ref())
	}
	opt := spawn.JoinOptions{AtLeast: 3, Rest: spawn.RestStop}
	runs, err := s.Wait(ctx, main, voters, opt)
	if err != nil {
		panic(err)
	}
	for _, run := range runs {
		fmt.Printf("%s: %v %q\n", run.Label, run.Status, run.Result.Text)
	}
	// Output:
	// even: ok "yes"
	// odd: cancelled ""
	// even: ok "yes"
	// odd: cancelled ""
	// even: ok "yes"
}
