// Managedbot is a bot whose chats are run by Offshoot too. What the bot itself has is a transport,
// a model client and its tools.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strconv"
	"time"

	"github.com/offshoot-sdk/offshoot/agent"
	agentctx "github.com/offshoot-sdk/offshoot/context"
	"github.com/offshoot-sdk/offshoot/session"
)

const usage = `usage: managedbot

Managedbot answers a question about the weather in a chat, and waits for the next one.
Ctrl-C ends it.
`

func main() {
	flag.Usage = func() { fmt.Fprint(flag.CommandLine.Output(), usage) }
	if flag.Parse(); flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "managedbot: unexpected argument %q\n%s", flag.Arg(0), usage)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	context.AfterFunc(ctx, stop) // so that a second Ctrl-C ends the program at once
	if err := run(ctx, dialTelegram(), dialLLM()); err != nil {
		log.Fatal(err)
	}
}

// run is the bot until Ctrl-C, which ends ctx. Then turns under way may finish, and what they say
// is sent.
func run(ctx context.Context, telegram Telegram, llm LLM) error {
	rt, err := agent.Open(ctx, config(telegram, llm))
	if err != nil {
		return err
	}
	go telegram.Updates(ctx, func(chat int64, id, text string) {
		if err := post(ctx, rt, chat, id, text); err != nil {
			log.Print(err)
		}
	})
	return rt.Run(ctx)
}

// post gives a message of the transport to the session of its chat. The id keeps a message that
// comes twice from being answered twice.
func post(ctx context.Context, rt *agent.Runtime, chat int64, id, text string) error {
	key, err := session.DirectKey("main", "telegram", strconv.FormatInt(chat, 10))
	if err != nil {
		return err
	}
	_, err = rt.Session(key).Post(ctx, agent.Incoming{ID: id, Text: text})
	return err
}

// config returns all that the bot is made of.
func config(telegram Telegram, llm LLM) agent.Config {
	return agent.Config{
		Store:     session.NewMemory(),
		Workspace: agentctx.Templates(), // or os.DirFS("workspace")
		Tools:     []agent.Tool{agent.NewTool("weather", "Weather in a city.", weather)},
		Runner:    &agent.Loop{Model: model{llm}},
		Reply: func(ctx context.Context, d agent.Delivery) error {
			chat, err := strconv.ParseInt(d.To.Peer(), 10, 64)
			if err != nil {
				return err
			}
			return telegram.Send(ctx, chat, d.Reply.Text)
		},
		Drain: 5 * time.Second,
	}
}

// city is what the model passes to the tool weather.
type city struct {
	City string `json:"city" doc:"the city, in English"`
}

func weather(_ context.Context, in city) (string, error) {
	return "Sunny in " + in.City + ".", nil
}
