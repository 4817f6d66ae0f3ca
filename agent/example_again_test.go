package agent_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/session"
)

// summaries has three files summed up, and returns what it has when ctx ends. It is one process: it
// may be called again with the same store.
func summaries(ctx context.Context, store *session.Store, model agent.Model) (err error) {
	rt, err := agent.Open(ctx, agent.Config{Store: store, Runner: &agent.Loop{Model: model}})
	if err != nil {
		return err
	}
	running := make(chan error, 1)
	go func() { running <- rt.Run(ctx) }()
	defer func() { err = errors.Join(err, rt.Shutdown(context.WithoutCancel(ctx)), <-running) }()

	night := rt.Session(session.Must(session.NamedKey("main", "night")))
	var children []*agent.Child[string]
	for _, name := range []string{"a.txt", "b.txt", "c.txt"} {
		child, err := night.Spawn(ctx, agent.Task{
			Text: "Sum up " + name, Label: name,
			Key:   "sum up " + name, // one sub-agent, however often the program starts
			Again: true,             // another one where that was cut short: it reads files only
		})
		if ctx.Err() != nil {
			return nil // the next process has the rest
		} else if err != nil {
			return err
		}
		children = append(children, child)
	}
	for _, child := range children {
		text, err := child.Wait(ctx)
		if ctx.Err() != nil {
			return nil
		}
		fmt.Println(text, err)
	}
	return nil
}

// A program that survives Ctrl-C and kill -9: it spawns with a Key and with Again, and waits. The
// process that is started next has what was ready, goes on with what had not begun, and begins
// again what was cut short. With dirstore.Open in the place of NewMemory and signal.NotifyContext
// in the place of WithCancel it is a whole program.
func ExampleTask_again() {
	store := session.NewMemory()
	ctx, pressCtrlC := context.WithCancel(context.Background())
	slow := agent.ModelFunc(func(
		ctx context.Context, req *agent.ModelRequest,
	) (*agent.ModelResponse, error) {
		pressCtrlC()
		<-ctx.Done()
		return nil, ctx.Err()
	})
	fmt.Println("first process:", summaries(ctx, store, slow))

	quick := agent.ModelFunc(func(
		_ context.Context, req *agent.ModelRequest,
	) (*agent.ModelResponse, error) {
		return &agent.ModelResponse{Text: "short"}, nil
	})
	fmt.Println("second process:", summaries(context.Background(), store, quick))
	// Output:
	// first process: <nil>
	// short <nil>
	// short <nil>
	// short <nil>
	// second process: <nil>
}
