package agent_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
)

// openCities opens and runs a Runtime whose sub-agents are about cities. The function it returns
// shuts it down.
func openCities(ctx context.Context) (*agent.Runtime, func()) {
	rt, err := agent.Open(ctx, agent.Config{
		Runner: agent.RunnerFunc(func(ctx context.Context, t *agent.Turn) (agent.Result, error) {
			if strings.Contains(t.Input(), "Atlantis") {
				<-ctx.Done() // still looking
				return agent.Result{Text: "nothing yet"}, ctx.Err()
			}
			return agent.Result{Text: `{"name":"` + t.Label + `","people":545923}`}, nil
		}),
	})
	if err != nil {
		panic(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- rt.Run(ctx) }()
	return rt, func() {
		if err := errors.Join(rt.Shutdown(ctx), <-ended); err != nil {
			panic(err)
		}
	}
}

// City is what a sub-agent is asked for.
type City struct {
	Name   string `json:"name"`
	People int    `json:"people" doc:"inhabitants"`
}

// A typed sub-agent, started from Go and waited for. The Runner finds the schema of City in
// Turn.Schema.
func ExampleSpawn() {
	ctx := context.Background()
	rt, shutdown := openCities(ctx)
	defer shutdown()

	child, err := agent.Spawn[City](ctx,
		rt.Session(session.Must(session.NamedKey("main", "atlas"))),
		agent.Task{Text: "Describe Lisbon.", Label: "Lisbon"})
	if err != nil {
		fmt.Println(err)
		return
	}
	city, err := child.Wait(ctx)
	fmt.Println(city.Name, city.People, err)
	// Output:
	// Lisbon 545923 <nil>
}

// Whatever is there in time is used; the rest is stopped, and what it had is kept.
func ExampleJoin() {
	ctx := context.Background()
	rt, shutdown := openCities(ctx)
	defer shutdown()

	atlas := rt.Session(session.Must(session.NamedKey("main", "atlas")))
	var children []*agent.Child[City]
	for _, name := range []string{"Lisbon", "Atlantis"} {
		c, err := agent.Spawn[City](ctx, atlas,
			agent.Task{Text: "Describe " + name, Label: name})
		if err != nil {
			fmt.Println(err)
			return
		}
		children = append(children, c)
	}
	outcomes, err := agent.Join(ctx, atlas, children,
		agent.JoinOptions{Within: 100 * time.Millisecond, Rest: agent.RestStop})
	fmt.Println(err)
	for _, o := range outcomes {
		fmt.Println(o.Run.Label, o.Run.Status, o.Value.People, o.Run.Result.Text)
	}
	// Output:
	// agent: 1 of 2 sub-agents ended well
	// Lisbon ok 545923 {"name":"Lisbon","people":545923}
	// Atlantis cancelled 0 nothing yet
}

// A refusal says which rule refused, what was asked, what is allowed, and where that is set.
func ExampleSpawn_refused() {
	ctx := context.Background()
	run := func(context.Context, *agent.Turn) (agent.Result, error) { return agent.Result{}, nil }
	rt, err := agent.Open(ctx, agent.Config{Runner: agent.RunnerFunc(run)})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = agent.Spawn[string](ctx, rt.Session(session.Must(session.MainKey("main"))),
		agent.Task{Text: "Describe Lisbon.", Agent: "cartographer"})
	if r, ok := errors.AsType[*policy.Refusal](err); ok {
		fmt.Println(r.Rule, r.Asked)
		fmt.Println(r.Path)
	}
	// Output:
	// agents.list cartographer
	// agents.list
}
