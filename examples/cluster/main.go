// Cluster is a help desk in several processes that share one PostgreSQL, or one NATS server: each
// takes questions, and when one dies the others go on with its chats. Its model is a fake, so it
// needs no key.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"time"
)

const usage = `usage: cluster -postgres URL | -nats URL [-name NAME] [-work DURATION]

Cluster is one process of a help desk. Start it twice with two names, in two terminals:

  go run . -postgres "postgres:///postgres" -name left
  go run . -postgres "postgres:///postgres" -name right

or with a server of nats-server -js:

  go run . -nats nats://127.0.0.1:4222 -name left
  go run . -nats nats://127.0.0.1:4222 -name right

Ask the left one something, and kill it (kill -9) while its clerk is at work. Within some seconds
the right one says that it took over, and answers. Ctrl-C hands over at once.

  -postgres URL    the server; the tables are in its schema offshoot_desk. Default: $DATABASE_URL
  -nats URL        the server, which has JetStream; the streams are offshoot_desk_log and others
  -monitor URL     its monitoring address, so that a server is refused that acknowledges what a loss
                   of power undoes; without it every server will do
  -name NAME       of this process, another one for each; default: desk and its process id
  -work DURATION   what a clerk takes for a question; default: 10s
`

func main() {
	flag.Usage = func() { fmt.Fprint(flag.CommandLine.Output(), usage) }
	var e engine
	flag.StringVar(&e.postgres, "postgres", os.Getenv("DATABASE_URL"), "")
	flag.StringVar(&e.nats, "nats", "", "")
	flag.StringVar(&e.monitor, "monitor", "", "")
	name := flag.String("name", fmt.Sprintf("desk%d", os.Getpid()), "")
	work := flag.Duration("work", 10*time.Second, "")
	if flag.Parse(); flag.NArg() > 0 || e.postgres == "" && e.nats == "" {
		fmt.Fprintf(os.Stderr, "cluster: want -postgres or -nats and nothing else, got %q\n%s",
			flag.Args(), usage)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	context.AfterFunc(ctx, stop) // so that a second Ctrl-C ends the program at once
	d := desk{name: *name, work: *work, out: os.Stdout}
	if err := d.run(ctx, e, os.Stdin); err != nil {
		log.Fatal(err)
	}
}
