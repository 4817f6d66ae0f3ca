package copycommand

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/storecopy"
)

// The codes with which the command ends.
const (
	ExitOK    = 0
	ExitError = 1 // the store could not be copied, or the two are not the same
	ExitUsage = 2 // the command line is wrong
)

// A Command is the command copystore of an engine. All fields are needed, but for Flags and Locked.
type Command struct {
	Engine  string   // what has a store, in a sentence, such as "a PostgreSQL"
	Schemes []string // with which its addresses begin, such as "postgres"
	// Flags adds the flags of the engine.
	Flags func(*flag.FlagSet)
	// Open opens the store at an address, and makes it if there is none.
	Open func(ctx context.Context, url string) (*session.Store, error)
	// OpenDir opens the store in a directory, as dirstore.Open does.
	OpenDir func(dir string) (*session.Store, error)
	// Locked are the errors of stores that another process has.
	Locked []error
	// Full says what a person does about a target that has something.
	Full string
}

// options are what the command line says.
type options struct {
	from, to string
	verify   bool
}

// Run reads the command line without the name of the program, copies or compares, and returns the
// code with which the program ends.
func (c Command) Run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var o options
	flags := flag.NewFlagSet("copystore", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&o.from, "from", "", "the source: a directory, or the `URL` of "+c.Engine)
	flags.StringVar(&o.to, "to", "", "the target: a directory, or the `URL` of "+c.Engine)
	flags.BoolVar(&o.verify, "verify", false, "compare the two, and copy nothing")
	if c.Flags != nil {
		c.Flags(flags)
	}
	err := flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return ExitOK
	case err != nil:
		return ExitUsage
	case o.from == "" || o.to == "" || flags.NArg() > 0:
		fmt.Fprintln(stderr, "copystore: -from and -to are needed, and nothing else; -h has the rest")
		return ExitUsage
	}
	if err := c.do(ctx, o, stdout); err != nil {
		fmt.Fprintln(stderr, "copystore:", err)
		if advice := c.adviceOn(err); advice != "" {
			fmt.Fprintln(stderr, advice)
		}
		return ExitError
	}
	return ExitOK
}

// do opens both stores, and copies or compares them.
func (c Command) do(ctx context.Context, o options, out io.Writer) (err error) {
	from, err := c.open(ctx, o.from, true)
	if err != nil {
		return fmt.Errorf("the source: %w", err)
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	to, err := c.open(ctx, o.to, o.verify)
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

// isURL reports whether the name of a store is an address of the engine.
func (c Command) isURL(name string) bool {
	scheme, _, ok := strings.Cut(name, "://")
	return ok && slices.Contains(c.Schemes, scheme)
}

// open opens a store. A directory that must have one is not made.
func (c Command) open(ctx context.Context, name string, must bool) (*session.Store, error) {
	if c.isURL(name) {
		return c.Open(ctx, name)
	}
	if err := c.checkDir(name); err != nil {
		return nil, err
	}
	if must {
		if _, err := os.Stat(filepath.Join(name, "journal")); err != nil {
			return nil, fmt.Errorf("%s does not have a store: %w", name, err)
		}
	}
	return c.OpenDir(name)
}

// checkDir returns an error if a name is not that of a directory, but one of an engine. The error
// does not have the name, which may have a password.
func (c Command) checkDir(name string) error {
	if _, err := os.Stat(name); err == nil {
		return nil
	}
	isOther := strings.Contains(name, "://") || strings.Contains(name, ":/") ||
		strings.ContainsAny(name, "@=?")
	if !isOther {
		return nil
	}
	scheme, _, _ := strings.Cut(name, "://")
	if len(scheme) == len(name) || strings.Trim(scheme, "abcdefghijklmnopqrstuvwxyz+") != "" {
		scheme = ""
	} else {
		scheme += "://"
	}
	return fmt.Errorf("it begins with %q and is neither a directory nor an address of %s, "+
		"which begins with %s://; between two engines a store goes over a directory",
		scheme, c.Engine, strings.Join(c.Schemes, ":// or "))
}

// adviceOn returns what a person can do about an error, or "".
func (c Command) adviceOn(err error) string {
	var full *storecopy.NotEmptyError
	var other *storecopy.DifferenceError
	switch {
	case errors.As(err, &full):
		return c.Full
	case errors.As(err, &other):
		return "If the source was in use since the copy began, begin with an empty target."
	case slices.ContainsFunc(c.Locked, func(locked error) bool { return errors.Is(err, locked) }):
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
