// Copystore moves a store of an Offshoot bot: from a directory of dirstore.Open into a PostgreSQL
// database, from a database into a directory, or between two of a kind. It compares everything
// after that.
//
//	go run ./copystore -from DIR -to postgres://bot@db.example/bot
//	go run ./copystore -from postgres://bot@db.example/bot -to DIR
//	go run ./copystore -from DIR -to postgres://bot@db.example/bot -verify
//	    compares two stores, and copies nothing
//
// No bot runs with either store meanwhile: both are locked. The target is an empty schema or a new
// directory. A copy that was cut off goes on when the same command is given again; until it has
// ended, no bot runs with the target. The source stays as it is: move it away when the bot runs
// with the copy, so that it is not started by mistake.
//
// The exit code is 0, or 1 if the store could not be copied or the two are not the same, or 2 if
// the command line is wrong.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/dirstore"
	"github.com/offshoot-sdk/offshoot/session/storecopy"

	"github.com/offshoot-sdk/offshoot/session/pgstore"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	context.AfterFunc(ctx, stop) // so that a second Ctrl-C ends the program at once
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code) //nolint:forbidigo // a program ends its own process
}

// The codes with which the program ends.
const (
	exitOK    = 0
	exitError = 1 // the store could not be copied, or the two are not the same
	exitUsage = 2 // the command line is wrong
)

// options are what the command line says.
type options struct {
	from, to string
	schema   string
	verify   bool
	trust    bool
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var o options
	flags := flag.NewFlagSet("copystore", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&o.from, "from", "", "the source: a directory, or the `URL` of a PostgreSQL")
	flags.StringVar(&o.to, "to", "", "the target: a directory, or the `URL` of a PostgreSQL")
	flags.StringVar(&o.schema, "schema", "", "the `schema` in the database; empty: offshoot")
	flags.BoolVar(&o.verify, "verify", false, "compare the two, and copy nothing")
	flags.BoolVar(&o.trust, "trust-sync", false,
		"take a server that acknowledges before it writes, see Options.TrustSync")
	err := flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err != nil:
		return exitUsage
	case o.from == "" || o.to == "" || flags.NArg() > 0:
		fmt.Fprintln(stderr, "copystore: -from and -to are needed, and nothing else; -h has the rest")
		return exitUsage
	}
	if err := o.do(ctx, stdout); err != nil {
		fmt.Fprintln(stderr, "copystore:", err)
		if advice := adviceOn(err); advice != "" {
			fmt.Fprintln(stderr, advice)
		}
		return exitError
	}
	return exitOK
}

// do opens both stores, and copies or compares them.
func (o *options) do(ctx context.Context, out io.Writer) (err error) {
	from, err := o.open(ctx, o.from, !isURL(o.from))
	if err != nil {
		return fmt.Errorf("the source: %w", err)
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	to, err := o.open(ctx, o.to, o.verify && !isURL(o.to))
	if err != nil {
		return fmt.Errorf("the target: %w", err)
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	p := printer{out: out}
	do := storecopy.Copy
	if o.verify {
		do = storecopy.Verify
	}
	report, err := do(ctx, from, to, storecopy.Options{Progress: p.show})
	if err != nil {
		return err //nolint:wrapcheck // its text is whole
	}
	fmt.Fprintf(out, "everything is the same: %s\n", textOf(&report))
	for _, ref := range report.Unknown {
		fmt.Fprintf(out, "not copied, since no session is known to have them: files of %s\n",
			ref.SessionID)
	}
	return nil
}

// isURL reports whether the name of a store is that of a database.
func isURL(name string) bool {
	return strings.HasPrefix(name, "postgres://") || strings.HasPrefix(name, "postgresql://")
}

// open opens a store. One that must be there is not made.
func (o *options) open(ctx context.Context, name string, must bool) (*session.Store, error) {
	if isURL(name) {
		return pgstore.Open(ctx, name, pgstore.Options{Schema: o.schema, TrustSync: o.trust})
	}
	if must {
		if _, err := os.Stat(filepath.Join(name, "journal")); err != nil {
			return nil, fmt.Errorf("%s does not have a store: %w", name, err)
		}
	}
	return dirstore.Open(name)
}

// adviceOn returns what a person can do about an error, or "".
func adviceOn(err error) string {
	var full *storecopy.NotEmptyError
	var other *storecopy.DifferenceError
	switch {
	case errors.As(err, &full):
		return "Name another -schema, a database without one, or a new directory."
	case errors.As(err, &other):
		return "If the source was in use since the copy began, begin with an empty target."
	case errors.Is(err, dirstore.ErrLocked), errors.Is(err, pgstore.ErrLocked):
		return "End the bot that has it, and then give the command again."
	case errors.Is(err, session.ErrUnfinishedCopy):
		return "Finish the copy into it first: give the command again that began it."
	case errors.Is(err, session.ErrCorrupt):
		return "docs/when-a-store-does-not-open.md says how a directory is repaired. " +
			"Nothing of it was left out: give the command again after that."
	case errors.Is(err, context.Canceled):
		return "Give the command again to go on."
	}
	return ""
}

// A printer says once in a while how far the work has come.
type printer struct {
	out  io.Writer
	last time.Time
}

func (p *printer) show(at storecopy.Progress) {
	if time.Since(p.last) < time.Second {
		return
	}
	p.last = time.Now()
	doing := "copying"
	if at.Verifying {
		doing = "comparing"
	}
	fmt.Fprintf(p.out, "%s: %s\n", doing, textOf(&at.Report))
}

// textOf returns a report in words.
func textOf(r *storecopy.Report) string {
	text := fmt.Sprintf("%d logs with %d entries, %d transcripts with %d lines (%d archived), "+
		"%d files of %d bytes", r.Logs, r.Entries, r.Transcripts, r.Lines, r.Archived, r.Files, r.Bytes)
	if r.Renumbered > 0 {
		text += fmt.Sprintf(", %d logs with other sequences", r.Renumbered)
	}
	return text
}
