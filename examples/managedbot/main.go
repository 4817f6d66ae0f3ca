// Managedbot is a bot whose chats are run by Offshoot too. What the bot itself has is a transport,
// a model client and its tools.
package main

import (
	"context"
	"log"
	"os"
	"os/signal"
	"strconv"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/session"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	telegram := dialTelegram()
	rt, err := agent.Open(ctx, config(telegram, dialLLM()))
	if err != nil {
		log.Fatal(err)
	}
	go telegram.Updates(ctx, func(chat int64, id, text string) {
		if err := post(ctx, rt, chat, id, text); err != nil {
			log.Print(err)
		}
	})
	if err := rt.Run(ctx); err != nil {
		log.Fatal(err)
	}
}

// post gives a message of the transport to the session of its chat. The id keeps a message that
// comes twice from being answered twice.
func post(ctx context.Context, rt *agent.Runtime, chat int64, id, text string) error {
	key, err := session.DirectKey("main", "telegram", strconv.FormatInt(chat, 10))
	if err != nil {
		return err
	}
	return rt.Session(key).Post(ctx, agent.Message{ID: id, Text: text})
}

// config returns all that the bot is made of.
func config(telegram Telegram, llm LLM) agent.Config {
	return agent.Config{
		Store:     session.NewMemory(),
		Workspace: os.DirFS("workspace"),
		Tools:     []agent.Tool{agent.NewTool("weather", "Weather in a city.", weather)},
		Runner:    &agent.Loop{Model: model{llm}},
		Reply: func(ctx context.Context, d agent.Delivery) error {
			chat, err := strconv.ParseInt(d.To.Peer(), 10, 64)
			if err != nil {
				return err
			}
			return telegram.Send(ctx, chat, d.Reply.Text)
		},
	}
}

// city is what the model passes to the tool weather.
type city struct {
	City string `json:"city" doc:"the city, in English"`
}

func weather(_ context.Context, in city) (string, error) {
	return "Sunny in " + in.City + ".", nil
}
