// Quickstart shows Offshoot at work, without a key, a network or any set-up: which files of a
// workspace a bot and its sub-agents are shown, how the bot spawns sub-agents under rules, and how
// their results come back. With -all it shows every section and event as well, how a tree of
// sub-agents is stopped, and what a crash leaves.
//
// A script takes the place of the language model. Everything else is what a program that embeds
// Offshoot gets.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	context.AfterFunc(ctx, stop) // so that a second Ctrl-C ends the program at once
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

const usage = `Quickstart shows Offshoot at work. It needs no key, no network and no set-up.

  go run ./examples/quickstart [flags]

`

// defaultTask is what the person asks first.
const defaultTask = "Plan a weekend in Ghent for two: the train, a place to sleep, food, sights and something for the rain."

// options are what the command line says.
type options struct {
	workspace string
	task      string
	state     string
	depth     int
	all       bool
	json      bool
}

// run is the program. It returns the exit status: 2 if the command line is wrong, 1 if the story
// could not be told to its end.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parse(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		return fail(stderr, err, 2)
	}
	w, err := openWorkspace(o.workspace)
	if err != nil {
		return fail(stderr, err, 2)
	}
	act := tellStory
	if o.state != "" {
		act = answerDurably
	}
	err = act(ctx, o, w, stdout)
	if err = errors.Join(err, w.close()); err != nil {
		return fail(stderr, err, 1)
	}
	return 0
}

func fail(stderr io.Writer, err error, code int) int {
	fmt.Fprintf(stderr, "quickstart: %v\n", err)
	return code
}

func parse(args []string, stderr io.Writer) (o options, err error) {
	f := flag.NewFlagSet("quickstart", flag.ContinueOnError)
	f.SetOutput(io.Discard) // errors are reported once, by run
	f.StringVar(
		&o.workspace, "workspace", "",
		"a `directory` with AGENTS.md and its friends in place of the built-in one",
	)
	f.StringVar(&o.task, "task", defaultTask, "what the person asks first, a `text`")
	f.StringVar(
		&o.state, "state", "",
		"answer only the first task, and keep everything in this `directory`: kill it at any moment, run it again",
	)
	f.IntVar(&o.depth, "depth", 2, "how deep a tree of sub-agents may be, 1 to 5 `levels`")
	f.BoolVar(
		&o.all, "all", false,
		"show everything: all sections and events, then a stop, a crash and a restart",
	)
	f.BoolVar(
		&o.json, "json", false,
		"write the events of -all as JSON lines, and nothing else",
	)
	if err = f.Parse(args); errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(stderr, usage)
		f.SetOutput(stderr)
		f.PrintDefaults()
		return o, err
	}
	switch {
	case err != nil:
	case f.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q; every option begins with -, see -h", f.Arg(0))
	case o.depth < 1 || o.depth > 5:
		err = fmt.Errorf("-depth %d: it must be 1 to 5", o.depth)
	case o.json && o.state != "":
		err = errors.New("-json and -state exclude each other")
	case o.all && o.state != "":
		err = errors.New("-all and -state exclude each other")
	case strings.TrimSpace(o.task) == "":
		err = errors.New("-task: the text is empty")
	}
	return o, err
}
