// Managedbot is a bot whose chats Offshoot runs too: what remains of the bot is a transport and a model client.
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
		key := session.Must(session.DirectKey("main", "telegram", strconv.FormatInt(chat, 10)))
		if err := rt.Session(key).Post(ctx, agent.Message{ID: id, Text: text}); err != nil {
			log.Print(err)
		}
	})
	if err := rt.Run(ctx); err != nil {
		log.Fatal(err)
	}
}

// config is the whole bot.
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

type city struct {
	City string `json:"city" doc:"the city, in English"`
}

func weather(_ context.Context, in city) (string, error) {
	return "Sunny in " + in.City + ".", nil
}
