// Chat is a bot in the terminal that streams its answers, sees pictures, and keeps a chat for
// months. Its model is a fake, so it needs no key and no network.
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
	"time"

	"github.com/offshoot-sdk/offshoot/agent"
	agentctx "github.com/offshoot-sdk/offshoot/context"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/dirstore"
)

const usage = `usage: chat [-state DIR]

Chat is a bot in the terminal: type a line, and the agent answers while you watch. Ctrl-C, or the
end of the input, ends it. Lines that begin with a slash are commands:

  /image PATH   shows the agent a picture
  /compact      has the conversation so far summed up
  /reset        begins a new conversation
  /help         shows these

  -state DIR    keeps the chat in DIR; kill -9 the program at any moment, run it again, and it
                goes on. Without -state it is forgotten at the end.
`

func main() {
	flag.Usage = func() { fmt.Fprint(flag.CommandLine.Output(), usage) }
	state := flag.String("state", "", "")
	if flag.Parse(); flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "chat: unexpected argument %q\n%s", flag.Arg(0), usage)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	context.AfterFunc(ctx, stop) // so that a second Ctrl-C ends the program at once
	if err := run(ctx, *state, os.Stdin, os.Stdout, 30*time.Millisecond); err != nil {
		log.Fatal(err)
	}
}

// run is the bot until its input ends, or ctx does. The model takes a pause for each word.
func run(
	ctx context.Context, state string, in io.Reader, out io.Writer, pause time.Duration,
) (err error) {
	store := session.NewMemory()
	if state != "" {
		if store, err = dirstore.Open(state); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, store.Close()) }()
	}
	screen := &terminal{out: out}
	model := parrot{pause: pause}
	rt, err := agent.Open(ctx, agent.Config{
		Store:     store,
		Runner:    &agent.Loop{Model: model},
		Workspace: agentctx.Templates(), // or os.DirFS("workspace")
		Reply: func(_ context.Context, d agent.Delivery) error {
			return screen.reply(d)
		},
		Models: agent.Models{Model: "fake/parrot", Window: func(string) agent.Window {
			return agent.Window{Tokens: 8_000, Compact: agent.Summarize(model)}
		}},
		Drain: 5 * time.Second, // for turns under way at the end
	})
	if err != nil {
		return err
	}
	chat := rt.Session(session.Must(session.DirectKey("main", "terminal", "me")))
	ctx, end := context.WithCancel(ctx)
	defer end()
	go screen.watch(chat.Events(ctx))
	go func() {
		defer end()
		if err := read(ctx, chat, screen, in); err != nil {
			screen.note("%v", err)
		}
	}()
	return rt.Run(ctx)
}

// read gives the chat what is typed, until the input ends and the last answer is out.
func read(ctx context.Context, chat *agent.Session, screen *terminal, in io.Reader) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20) // room for a message of 1,000,000 bytes
	for lines.Scan() {
		if err := obey(ctx, chat, screen, lines.Text()); err != nil {
			screen.note("%v", err)
		}
	}
	_ = chat.Idle(ctx) // its error is the end of ctx
	return lines.Err()
}
