// Orchestrator starts ten sub-agents from Go, each of which returns a value of a Go type. It waits
// until seven of them have ended well, for two minutes at most, and prints what there is by then.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"time"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
)

// Finding is what each sub-agent returns. Its JSON schema stands in the prompt of the sub-agent.
type Finding struct {
	Claim      string   `json:"claim" doc:"one sentence"`
	Confidence float64  `json:"confidence" doc:"0 to 1"`
	Sources    []string `json:"sources" doc:"URLs"`
}

const usage = `usage: orchestrator

Orchestrator has ten sub-agents research a topic each, and prints what the seven quickest find.
Ctrl-C stops them.
`

func main() {
	flag.Usage = func() { fmt.Fprint(flag.CommandLine.Output(), usage) }
	if flag.Parse(); flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "orchestrator: unexpected argument %q\n%s", flag.Arg(0), usage)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	context.AfterFunc(ctx, stop) // so that a second Ctrl-C ends the program at once
	if err := run(ctx, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// run stops all sub-agents when ctx ends, and prints what there is by then.
func run(ctx context.Context, out io.Writer) error {
	rt, err := agent.Open(ctx, config(dialModel()))
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- rt.Run(ctx) }()
	log.Print("ten sub-agents are at work; Ctrl-C stops them")
	survey := rt.Session(session.Must(session.NamedKey("main", "survey-42")))
	err = research(ctx, out, survey, topics())
	return errors.Join(err, rt.Shutdown(ctx), <-ended)
}

// config lets a session have ten sub-agents that run at the same time.
func config(m agent.Model) agent.Config {
	return agent.Config{
		Runner: &agent.Loop{Model: m},
		Rules:  policy.Rules{Subagents: policy.Subagents{MaxChildren: 10, MaxConcurrent: 10}},
	}
}

// research starts a sub-agent for each topic and prints what they have found.
func research(ctx context.Context, out io.Writer, survey *agent.Session, topics []string) error {
	var children []*agent.Child[Finding]
	for _, topic := range topics {
		task := agent.Task{Text: "Research: " + topic, Label: topic, Key: topic}
		c, err := agent.Spawn[Finding](ctx, survey, task)
		if err != nil {
			return err
		}
		children = append(children, c)
	}
	enough := agent.JoinOptions{AtLeast: 7, Within: 2 * time.Minute, Rest: agent.RestStop}
	outcomes, err := agent.Join(ctx, survey, children, enough)
	for _, o := range outcomes {
		if o.Err != nil {
			fmt.Fprintf(out, "%s: %v; so far: %q\n", o.Run.Label, o.Run.Status, o.Run.Result.Text)
			continue
		}
		fmt.Fprintf(out, "%s: %s (%.0f %%)\n", o.Run.Label, o.Value.Claim, 100*o.Value.Confidence)
	}
	return err // nil, or "agent: 5 of 7 sub-agents ended well"
}
