package spawn_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// An orchestrator is a Runner. The turn of the main session splits a question into parts, has one
// sub-agent answer each of them, and replies with what they say. A real Runner calls a model.
type orchestrator struct{}

func (orchestrator) RunTurn(
	ctx context.Context, t *spawn.TurnInput,
) (spawn.TurnResult, error) {
	if t.Session.Depth > 0 { // the turn of a sub-agent
		answer := "all about " + t.Run.Task
		return spawn.TurnResult{Result: spawn.Result{Text: answer}}, nil
	}
	var children []spawn.RunRef
	for part := range strings.SplitSeq(t.Inputs[0].Text, " and ") {
		run, err := t.Spawn(ctx, spawn.Request{Task: part})
		if err != nil {
			return spawn.TurnResult{}, err
		}
		children = append(children, run.Ref())
	}
	runs, err := t.Wait(ctx, children, spawn.JoinOptions{})
	if err != nil {
		return spawn.TurnResult{}, err
	}
	var answers []string
	for _, run := range runs {
		answers = append(answers, run.Result.Text)
	}
	return spawn.TurnResult{Reply: strings.Join(answers, "; ")}, nil
}

// A Runner orchestrates sub-agents: its main session spawns them, waits for them within its turn,
// and replies. The program posts the question and takes the reply.
func Example_orchestrator() {
	ctx := context.Background()
	replies := make(chan string)
	s, err := spawn.Open(ctx, spawn.Config{
		Store: session.NewMemory(), Runner: orchestrator{}, Replies: true,
		Deliver: func(_ context.Context, out spawn.Delivery) error {
			replies <- out.Reply.Text
			return nil
		},
	})
	if err != nil {
		panic(err)
	}
	go s.Run(ctx)
	defer s.Shutdown(ctx)

	main := session.Must(session.MainKey("main"))
	if _, err := s.Post(ctx, main, main, spawn.Incoming{Text: "tea and coffee"}); err != nil {
		panic(err)
	}
	fmt.Println(<-replies)
	// Output:
	// all about tea; all about coffee
}
