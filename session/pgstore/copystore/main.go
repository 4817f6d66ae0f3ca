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
	"flag"
	"io"
	"os"
	"os/signal"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/dirstore"
	"github.com/offshoot-sdk/offshoot/session/storecopy/copycommand"

	"github.com/offshoot-sdk/offshoot/session/pgstore"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	context.AfterFunc(ctx, stop) // so that a second Ctrl-C ends the program at once
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code) //nolint:forbidigo // a program ends its own process
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var o pgstore.Options
	return copycommand.Command{
		Engine: "a PostgreSQL", Schemes: []string{"postgres", "postgresql"},
		Flags: func(flags *flag.FlagSet) {
			flags.StringVar(&o.Schema, "schema", "", "the `schema` in the database; empty: offshoot")
			flags.BoolVar(&o.TrustSync, "trust-sync", false,
				"take a server that acknowledges before it writes, see Options.TrustSync")
		},
		Open: func(ctx context.Context, url string) (*session.Store, error) {
			return pgstore.Open(ctx, url, o)
		},
		OpenDir: dirstore.Open,
		Locked:  []error{dirstore.ErrLocked, pgstore.ErrLocked},
		Full:    "Name another -schema, a database without one, or a new directory.",
	}.Run(ctx, args, stdout, stderr)
}
