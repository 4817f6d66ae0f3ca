package main

import (
	"context"
	"log"
)

func main() {
	ctx := context.Background()
	bot := &Bot{llm: dialLLM(), telegram: dialTelegram(), history: map[int64][]Msg{}}
	if err := addSubagents(ctx, bot); err != nil { // added
		log.Fatal(err)
	}
	go bot.telegram.Updates(ctx, func(chat int64, text string) {
		if err := bot.turn(ctx, chat, text); err != nil {
			log.Print(err)
		}
	})
	log.Fatal(bot.sub.Run(ctx)) // added
}
