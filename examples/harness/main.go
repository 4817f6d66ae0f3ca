// Harness is a bot in the terminal whose turns are run by another program, over stdio. That program
// remembers the conversation by itself. Kill the bot in the middle of a turn, start it again on the
// same directory, and the conversation goes on. To make it yours, change the command of the Runner.
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
	"path/filepath"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/dirstore"
)

func main() {
	state := flag.String("state", filepath.Join(os.TempDir(), "offshoot-harness"),
		"keep everything in this directory")
	foreign := flag.String("foreign", "", "be the other program, which remembers in this directory")
	flag.Usage = func() {
		fmt.Fprint(flag.CommandLine.Output(), "Harness is a bot in the terminal whose turns are "+
			"run by another program. Type lines; \"slow\" takes a while. Ctrl-C ends it.\n")
		flag.PrintDefaults()
	}
	if flag.Parse(); flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "harness: unexpected argument %q\n", flag.Arg(0))
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	context.AfterFunc(ctx, stop)
	var err error
	if *foreign != "" {
		err = serve(ctx, *foreign, think, os.Stdin, os.Stdout)
	} else {
		err = run(ctx, *state, os.Args[0], os.Stdin, os.Stdout)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// run is the bot, on a directory, with the other program in the file program.
func run(ctx context.Context, state, program string, in io.Reader, out io.Writer) error {
	store, err := dirstore.Open(filepath.Join(state, "bot"))
	if err != nil {
		return err
	}
	runner := &Runner{Command: []string{program, "-foreign", filepath.Join(state, "foreign")}}
	cfg := agent.Config{
		Runner: runner, // here also of the chat itself; else a Loop with your model
		Store:  store,
		Reply: func(_ context.Context, d agent.Delivery) error {
			_, err := fmt.Fprintln(out, d.Reply.Text)
			return err
		},
	}
	cfg.Runners.Runtimes = map[string]agent.ExternalRuntime{
		"acp": {Runner: runner, Guidance: "remembers what it is told"},
	}
	rt, err := agent.Open(ctx, cfg)
	if err != nil {
		return errors.Join(err, store.Close())
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
		if err := lines.Err(); err != nil {
			log.Print(err)
		}
		_ = chat.Idle(ctx)
	}()
	return errors.Join(rt.Run(ctx), store.Close())
}
