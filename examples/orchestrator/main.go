// Orchestrator starts ten typed sub-agents from Go. Seven are enough, within two minutes; what is there is used.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"time"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
)

// Finding is what a sub-agent is asked for.
type Finding struct {
	Claim      string   `json:"claim" doc:"one sentence"`
	Confidence float64  `json:"confidence" doc:"0 to 1"`
	Sources    []string `json:"sources" doc:"URLs"`
}

func main() {
	ctx := context.Background()
	rt, err := agent.Open(ctx, config(dialModel()))
	if err != nil {
		log.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- rt.Run(ctx) }()
	err = research(ctx, os.Stdout, rt.Session(session.Must(session.NamedKey("main", "survey-42"))), topics())
	if err := errors.Join(err, rt.Shutdown(ctx), <-ended); err != nil {
		log.Fatal(err)
	}
}

func config(m agent.Model) agent.Config {
	return agent.Config{
		Runner: &agent.Loop{Model: m},
		Rules:  policy.Rules{Subagents: policy.Subagents{MaxChildren: 10, MaxConcurrent: 10}},
	}
}

func research(ctx context.Context, out io.Writer, survey *agent.Session, topics []string) error {
	var children []*agent.Child[Finding]
	for _, topic := range topics {
		c, err := agent.Spawn[Finding](ctx, survey, agent.Task{Text: "Research: " + topic, Label: topic, Key: topic})
		if err != nil {
			return err
		}
		children = append(children, c)
	}
	outcomes, err := agent.Join(ctx, children, agent.JoinOptions{AtLeast: 7, Within: 2 * time.Minute, StopRest: true})
	for _, o := range outcomes {
		if o.Err != nil {
			fmt.Fprintf(out, "%s: %v; so far: %q\n", o.Run.Label, o.Run.Status, o.Run.Result.Text)
			continue
		}
		fmt.Fprintf(out, "%s: %s (%.0f %%)\n", o.Run.Label, o.Value.Claim, 100*o.Value.Confidence)
	}
	return err // nil, or "agent: 5 of 7 sub-agents ended well"
}
