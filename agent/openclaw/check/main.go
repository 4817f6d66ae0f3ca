// Check says what is wrong with an openclaw.json, and what of it has no effect with Offshoot.
//
//	go run ./check ~/.openclaw/openclaw.json
//	go run ./check -since old.json new.json
//	go run ./check -schema > openclaw.schema.json
//
// Its status is 0 if the file can be used, 1 if it has mistakes, 2 for a mistake in the command.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/offshoot-sdk/offshoot/agent/openclaw"
)

func main() {
	status := run(context.Background(), os.Args[1:], os.Stdout, os.Stderr)
	os.Exit(status) //nolint:forbidigo // a program
}

// run runs the command and returns its status.
func run(ctx context.Context, args []string, out, errs io.Writer) int {
	flags := flag.NewFlagSet("check", flag.ContinueOnError)
	flags.SetOutput(errs)
	flags.Usage = func() {
		say(errs, "Usage: go run ./check [-strict] [-since OLD] [FILE]\n       go run ./check -schema\n\n"+
			"It says what is wrong with a file, and what of it has no effect.\nWithout FILE it "+
			"looks at the file that OpenClaw would use.\n\n")
		flags.PrintDefaults()
	}
	strict := flags.Bool("strict", false, "members that are not known are mistakes everywhere")
	since := flags.String("since", "", "also say what changes for a bot that runs with this `file`")
	schema := flags.Bool("schema", false, "print the JSON Schema of what is understood")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	case *schema && flags.NArg() == 0:
		say(out, "%s", openclaw.Schema())
		return 0
	case *schema || flags.NArg() > 1:
		flags.Usage()
		return 2
	}
	r, err := openclaw.Load(ctx, flags.Arg(0), openclaw.Options{Strict: *strict})
	if err != nil {
		return fail(errs, err)
	}
	var changes []openclaw.Change
	if *since != "" {
		old, err := openclaw.Load(ctx, *since, openclaw.Options{})
		if err != nil {
			return fail(errs, err)
		}
		changes = old.Changes(r)
	}
	for _, part := range []struct {
		title string
		notes []openclaw.Note
	}{
		{"Of an earlier version:", r.Migrated}, {"Doubtful:", r.Doubts}, {"Without effect:", r.Untaken},
	} {
		for i, n := range part.notes {
			if i == 0 {
				say(out, "%s\n", part.title)
			}
			say(out, "  %v\n", n)
		}
	}
	for i, c := range changes {
		if i == 0 {
			say(out, "Changed since %s:\n", *since)
		}
		say(out, "  %v\n", c)
	}
	for _, a := range r.Agents {
		say(out, "Agent %s: files in %s, credentials in %s\n", a.ID, a.Workspace, a.AgentDir)
	}
	say(out, "The file can be used.\n")
	return 0
}

// fail says every mistake and returns the status for that.
func fail(errs io.Writer, err error) int {
	all, ok := errors.AsType[openclaw.FieldErrors](err)
	if !ok {
		say(errs, "%v\n", err)
		return 1
	}
	for _, e := range all {
		say(errs, "%v\n", e)
	}
	say(errs, "Mistakes: %d\n", len(all))
	return 1
}

// say writes a text. Where nothing can be written, nothing can be said of that either.
func say(w io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(w, format, args...) }
