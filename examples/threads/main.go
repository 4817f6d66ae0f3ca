// Threads is a bot with a thread for each sub-agent, in the terminal: what people write in a thread
// goes to the sub-agent, which answers there. Its model and its channel are fakes, so it needs no
// key and no network.
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

const usage = `usage: threads

Threads is a bot on a channel with rooms and threads. Type a room, a colon and a message:

  general: paint the door      the bot gives the work to a sub-agent in a thread, general/1
  general/1: make it red       goes to that sub-agent, which answers in its thread
  general/1: /unfocus          sends it away; the thread is the bot's own again
  general: /focus general/1    the room speaks to what the thread is bound to

Ctrl-C, or the end of the input, ends it.
`

func main() {
	flag.Usage = func() { fmt.Fprint(flag.CommandLine.Output(), usage) }
	if flag.Parse(); flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "threads: unexpected argument %q\n%s", flag.Arg(0), usage)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	context.AfterFunc(ctx, stop) // so that a second Ctrl-C ends the program at once
	if err := run(ctx, os.Stdin, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// run is the bot until its input ends, or ctx does.
func run(ctx context.Context, in io.Reader, out io.Writer) error {
	screen := newScreen(out)
	rt, err := agent.Open(ctx, agent.Config{
		Runner:    &agent.Loop{Model: painter{}},
		Workspace: agentctx.Templates(),
		Reply: func(_ context.Context, d agent.Delivery) error {
			return screen.show(d.Reply.Route, d.Reply.Text)
		},
		Threads: agent.Threads{Channels: map[string]agent.ThreadChannel{channel: {Host: screen}}},
		Drain:   5 * time.Second, // for turns under way at the end
	})
	if err != nil {
		return err
	}
	ctx, end := context.WithCancel(ctx)
	go func() {
		defer end()
		lines := bufio.NewScanner(in)
		lines.Buffer(nil, 1<<20) // room for a message of 1,000,000 bytes
		for lines.Scan() {
			if err := hear(ctx, rt, lines.Text()); err != nil {
				_ = screen.show(session.Route{}, err.Error())
			}
		}
		if lines.Err() != nil {
			log.Print(lines.Err())
		}
	}()
	return rt.Run(ctx)
}

// hear takes a line that a person has typed.
func hear(ctx context.Context, rt *agent.Runtime, line string) error {
	where, text, ok := strings.Cut(line, ":")
	text = strings.TrimSpace(text)
	if !ok || text == "" {
		return errors.New("type a room, a colon and a message")
	}
	at := route(where)
	command, of, _ := strings.Cut(text, " ")
	switch command {
	case "/focus":
		return focus(ctx, rt, at, route(of))
	case "/unfocus":
		_, err := rt.Unfocus(ctx, agent.UnfocusRequest{Conversation: at, By: person})
		return err
	}
	own, err := ownSession(at)
	if err != nil {
		return err
	}
	// The Runtime finds out whether a sub-agent is bound there. A line that was typed has no ID: a
	// transport that may post it again gives it one, which is unique among all its conversations.
	_, err = rt.Session(own).Post(ctx, agent.Incoming{
		Text: text, Route: at, From: session.Sender{ID: person},
	})
	return err
}

// focus has a conversation speak to the session that another one is bound to.
func focus(ctx context.Context, rt *agent.Runtime, at, of session.Route) error {
	bound, err := rt.Bindings(ctx)
	if err != nil {
		return err
	}
	for _, b := range bound {
		if b.Conversation == of {
			_, err := rt.Focus(ctx, agent.FocusRequest{
				Conversation: at, Session: b.Target, By: person, Label: b.Label,
			})
			return err
		}
	}
	return fmt.Errorf("no sub-agent is in the thread %q", of.Thread)
}
