// Copystore moves a store of an Offshoot bot: from a directory of dirstore.Open into NATS
// JetStream, from there into a directory, or between two of a kind. It compares everything after
// that.
//
//	go run ./copystore -from DIR -to nats://bot@nats.example -monitor http://nats.example:8222
//	go run ./copystore -from nats://bot@nats.example -to DIR -monitor http://nats.example:8222
//	    with -verify it compares the two, and copies nothing
//
// No bot runs with either store meanwhile. A directory is locked; NATS has no lock, so the operator
// sees to it. The target has streams without a message, which are made if there are none, or is a
// new directory. A copy that was cut off goes on when the same command is given again; until it has
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
	"strings"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/dirstore"
	"github.com/offshoot-sdk/offshoot/session/storecopy/copycommand"

	"github.com/offshoot-sdk/offshoot/session/natsstore"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	context.AfterFunc(ctx, stop) // so that a second Ctrl-C ends the program at once
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code) //nolint:forbidigo // a program ends its own process
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var o natsstore.Options
	return copycommand.Command{
		Engine: "a NATS", Schemes: []string{"nats", "tls", "ws", "wss"},
		Flags: func(flags *flag.FlagSet) {
			flags.StringVar(&o.Name, "name", "", "the `name` of the streams; empty: offshoot")
			flags.IntVar(&o.Replicas, "replicas", 0, "see Options.Replicas")
			flags.Func("monitor", "the monitoring `addresses` of the servers, with commas between",
				func(text string) error {
					o.Monitor = append(o.Monitor, strings.Split(text, ",")...)
					return nil
				})
			flags.BoolVar(&o.TrustSync, "trust-sync", false,
				"take servers without asking for their settings, see Options.TrustSync")
		},
		Open: func(ctx context.Context, url string) (*session.Store, error) {
			return natsstore.Open(ctx, url, o)
		},
		OpenDir: dirstore.Open,
		Locked:  []error{dirstore.ErrLocked},
		Full:    "Name another -name, remove the streams, or name a new directory.",
	}.Run(ctx, args, stdout, stderr)
}
