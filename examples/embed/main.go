// Embed is a bot in the terminal. To make it yours, change generate, weather and the terminal.
package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"time"

	"github.com/offshoot-sdk/offshoot/agent"
	agentctx "github.com/offshoot-sdk/offshoot/context"
	"github.com/offshoot-sdk/offshoot/session"
)

// generate is where your model client goes. This one has no model to call.
func generate(_ context.Context, req *agent.ModelRequest) (*agent.ModelResponse, error) {
	text := fmt.Sprintf("You said %q. I have %d tools.", req.Input(), len(req.Tools))
	return &agent.ModelResponse{Text: text}, nil
}

func weather(_ context.Context, in struct{ City string }) (string, error) {
	return "Sunny in " + in.City + ".", nil
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	context.AfterFunc(ctx, stop) // so that a second Ctrl-C ends the program at once
	if err := run(ctx, os.Stdin, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, in io.Reader, out io.Writer) error {
	rt, err := agent.Open(ctx, agent.Config{
		Runner:    &agent.Loop{Model: agent.ModelFunc(generate)},
		Workspace: agentctx.Templates(), // or os.DirFS("workspace")
		Tools:     []agent.Tool{agent.NewTool("weather", "Weather in a city.", weather)},
		Reply: func(_ context.Context, d agent.Delivery) error {
			_, err := fmt.Fprintln(out, d.Reply.Text)
			return err
		},
		Drain: 5 * time.Second, // for turns under way at the end
	})
	if err != nil {
		return err
	}
	chat := rt.Session(session.Must(session.DirectKey("main", "terminal", "me")))
	ctx, end := context.WithCancel(ctx)
	go func() {
		defer end()
		lines := bufio.NewScanner(in)
		lines.Buffer(nil, 1<<20) // room for a message of 1,000,000 bytes
		for lines.Scan() {
			if _, err := chat.Post(ctx, agent.Incoming{Text: lines.Text()}); err != nil {
				log.Print(err)
			}
		}
		_ = chat.Idle(ctx) // until the last answer is out
		if lines.Err() != nil {
			log.Print(lines.Err())
		}
	}()
	return rt.Run(ctx)
}
