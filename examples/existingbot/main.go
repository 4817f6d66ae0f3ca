package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
)

const usage = `usage: existingbot

Existingbot has a sub-agent count files for a question in a chat, and waits for the next one.
Ctrl-C ends it.
`

func main() {
	flag.Usage = func() { fmt.Fprint(flag.CommandLine.Output(), usage) }
	if flag.Parse(); flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "existingbot: unexpected argument %q\n%s", flag.Arg(0), usage)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	context.AfterFunc(ctx, stop) // so that a second Ctrl-C ends the program at once
	if err := run(ctx, newBot(dialLLM(), dialTelegram())); err != nil {
		log.Fatal(err)
	}
}

// run is the bot until Ctrl-C, which ends ctx.
func run(ctx context.Context, bot *Bot) error {
	if err := addSubagents(ctx, bot); err != nil { // added
		return err // added
	} // added
	go bot.telegram.Updates(ctx, func(chat int64, text string) {
		if err := bot.turn(ctx, chat, text); err != nil {
			log.Print(err)
		}
	})
	return bot.sub.Run(ctx) // changed
}
