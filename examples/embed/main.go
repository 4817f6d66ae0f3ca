// Embed is a bot in the terminal. A line that is typed goes to the agent, and its reply is printed.
// To make a bot of your own, put your model client behind Generate and your transport in the place
// of the terminal.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/offshoot-sdk/offshoot/agent"
	agentctx "github.com/offshoot-sdk/offshoot/context"
	"github.com/offshoot-sdk/offshoot/session"
)

// model is where your model client goes. This one has no model to call.
type model struct{}

func (model) Generate(_ context.Context, req *agent.ModelRequest) (*agent.ModelResponse, error) {
	var said []string
	for _, m := range req.Messages[len(req.Messages)-req.New:] {
		said = append(said, m.Text)
	}
	text := fmt.Sprintf("You said %q. I have %d tools.", strings.Join(said, " "), len(req.Tools))
	return &agent.ModelResponse{Text: text}, nil
}

// place is what the model passes to the tool weather.
type place struct {
	City string `json:"city" doc:"the city, in English"`
}

func weather(_ context.Context, in place) (string, error) { return "Sunny in " + in.City + ".", nil }

const usage = `usage: embed

Embed is a bot in the terminal: type a line, and the agent answers. Ctrl-C ends it.
`

func main() {
	flag.Usage = func() { fmt.Fprint(flag.CommandLine.Output(), usage) }
	if flag.Parse(); flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "embed: unexpected argument %q\n%s", flag.Arg(0), usage)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	context.AfterFunc(ctx, stop) // so that a second Ctrl-C ends the program at once
	if err := run(ctx, os.Stdin, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, in io.Reader, out io.Writer) error {
	rt, err := agent.Open(ctx, agent.Config{
		Runner:    &agent.Loop{Model: model{}},
		Workspace: agentctx.Templates(), // or os.DirFS("workspace")
		Tools:     []agent.Tool{agent.NewTool("weather", "Weather in a city.", weather)},
		Reply: func(_ context.Context, d agent.Delivery) error {
			_, err := fmt.Fprintln(out, d.Reply.Text)
			return err
		},
	})
	if err != nil {
		return err
	}
	chat := rt.Session(session.Must(session.DirectKey("main", "terminal", "me")))
	running := make(chan error, 1)
	go func() { running <- rt.Run(context.WithoutCancel(ctx)) }()
	typed := make(chan error, 1)
	go func() {
		lines := bufio.NewScanner(in)
		lines.Buffer(nil, 1<<20) // room for a message of 1,000,000 bytes
		for lines.Scan() {
			if err := chat.Post(ctx, agent.Incoming{Text: lines.Text()}); err != nil {
				log.Print(err)
			}
		}
		typed <- lines.Err() // a line that is too long, or an input that cannot be read
	}()
	select {
	case err = <-typed: // the end of the input
		err = errors.Join(err, chat.Idle(ctx))
	case <-ctx.Done(): // Ctrl-C
	}
	soon, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel() // until then turns under way may finish
	return errors.Join(err, rt.Shutdown(soon), <-running)
}
