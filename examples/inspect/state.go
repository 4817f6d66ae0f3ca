package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
	"github.com/offshoot-sdk/offshoot/spawn/spawntest"
)

// stateOptions are what the command line says about a directory of a Store.
type stateOptions struct {
	dir     string
	tree    session.Key
	verify  bool
	retry   string
	dismiss string
}

// wantsState reports whether the command line is about a directory of a Store.
func wantsState(args []string) bool {
	return slices.ContainsFunc(args, func(a string) bool {
		name, _, _ := strings.Cut(a, "=")
		return name == "-state" || name == "--state"
	})
}

// runState is the program for -state.
func runState(ctx context.Context, args []string, now time.Time, out, errOut io.Writer) int {
	o, usage, err := parseState(args)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(out, usage)
		return exitOK
	}
	if err != nil {
		fmt.Fprintf(errOut, "inspect: %v\ninspect -state DIR -h lists the options\n", err)
		return exitUsage
	}
	text, err := inspectState(ctx, o, now)
	fmt.Fprint(out, harmless(text))
	if err != nil {
		fmt.Fprintf(errOut, "inspect: %v\n", err)
		return exitError
	}
	return exitOK
}

func parseState(args []string) (o stateOptions, usage string, err error) {
	var b strings.Builder
	flags := flag.NewFlagSet("inspect", flag.ContinueOnError)
	flags.SetOutput(&b)
	flags.StringVar(&o.dir, "state", "", "directory of session.OpenDir")
	flags.TextVar(&o.tree, "tree", session.Key{}, "print the journal of the tree with this `root`")
	flags.BoolVar(&o.verify, "verify", false, "read every frame, entry and line, and every tree, and say what is wrong")
	flags.StringVar(&o.retry, "retry", "", "have the blocked delivery with this `key` tried again; needs the lock")
	flags.StringVar(&o.dismiss, "dismiss", "", "give up the blocked delivery with this `key`; needs the lock")
	if err := flags.Parse(args); err != nil {
		return o, b.String(), err
	}
	chosen := 0
	for _, on := range []bool{!o.tree.IsZero(), o.verify, o.retry != "", o.dismiss != ""} {
		if on {
			chosen++
		}
	}
	switch {
	case flags.NArg() > 0:
		return o, "", fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case o.dir == "":
		return o, "", errors.New("-state is empty: the directory of a Store")
	case chosen > 1:
		return o, "", errors.New("-tree, -verify, -retry and -dismiss exclude each other")
	}
	return o, "", nil
}

// inspectState does what was asked for. Only -retry and -dismiss change anything.
func inspectState(ctx context.Context, o stateOptions, now time.Time) (text string, err error) {
	if o.retry != "" || o.dismiss != "" {
		return settleBlocked(ctx, o)
	}
	store, err := session.ViewDir(o.dir)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	switch {
	case o.verify:
		return verifyState(ctx, o.dir, store)
	case !o.tree.IsZero():
		return journalText(ctx, store, o.tree)
	}
	return listState(ctx, store, now)
}

// roots returns the heads of all trees, sorted, and nothing else.
func roots(ctx context.Context, store *session.Store) ([]session.Head, error) {
	var heads []session.Head
	for h, err := range store.Journal.Roots(ctx, session.RootQuery{}) {
		if err != nil {
			return nil, err
		}
		if h.Root.IsValid() {
			heads = append(heads, h)
		}
	}
	slices.SortFunc(heads, func(a, b session.Head) int { return strings.Compare(a.Root.String(), b.Root.String()) })
	return heads, nil
}

// listState prints every tree with its runs and what waits to leave it.
func listState(ctx context.Context, store *session.Store, now time.Time) (string, error) {
	heads, err := roots(ctx, store)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d trees\n", len(heads))
	for _, h := range heads {
		report, err := spawntest.Inspect(store.Journal.Read(ctx, h.Root, 0))
		if err != nil {
			return b.String(), err
		}
		fmt.Fprintf(&b, "\n%s: %d of %d runs alive, %d turns under way, %d completions unread, %d deliveries pending, %d of them blocked, %s\n",
			h.Root, report.Live, report.Runs, report.Open, report.Unread, report.Outbox, report.Blocked, dueText(h.Due, now))
		if err := listTree(ctx, &b, store, h.Root, now); err != nil {
			return b.String(), err
		}
	}
	return b.String(), nil
}

func dueText(due, now time.Time) string {
	switch {
	case due.IsZero():
		return "idle"
	case !due.After(now):
		return "due now"
	}
	return "due in " + due.Sub(now).Round(time.Second).String()
}

// listTree prints the runs and the outbox of one tree. It opens a copy of the journal in memory: opening a tree takes it over, and this
// one may have an owner. What the taking over ends had not ended.
func listTree(ctx context.Context, b *strings.Builder, store *session.Store, root session.Key, now time.Time) (err error) {
	lists, err := copyOf(ctx, store, root)
	if err != nil {
		return err
	}
	began := time.Now()
	sup, err := spawn.Open(ctx, passive(lists))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sup.Shutdown(ctx)) }()
	runs, err := sup.Runs(ctx, root, root, true)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	for _, r := range runs {
		state := r.Status.String()
		if !r.Ended.IsZero() && !r.Ended.Before(began) {
			state = "under way"
		}
		fmt.Fprintf(w, "  %s\t%s\t%s\t%s\n", state, r.Elapsed(now).Round(time.Second), nameOf(r), r.Key)
	}
	outbox, err := sup.Outbox(ctx, root)
	if err = errors.Join(err, w.Flush()); err != nil {
		return err
	}
	for _, out := range outbox {
		if c := out.Completion; c != nil && !c.Run.Ended.Before(began) {
			continue
		}
		of, what := "a reply", fmt.Sprintf("pending, tried %d times", max(out.Attempt-1, 0))
		if out.Completion != nil {
			of = nameOf(out.Completion.Run)
		}
		if !out.Blocked.IsZero() {
			what = fmt.Sprintf("blocked since %s: %s", out.Blocked.UTC().Format(time.RFC3339), out.Error)
		}
		fmt.Fprintf(w, "  delivery %s\tof %s\tto %s\t%s\n", out.Key, of, out.To, short(what))
	}
	return w.Flush()
}

// nameOf returns what a run is called, or what it was told to do.
func nameOf(r spawn.RunInfo) string {
	if r.Label != "" {
		return short(r.Label)
	}
	return short(r.Task)
}

// copyOf returns a store in memory that has one tree of another.
func copyOf(ctx context.Context, store *session.Store, root session.Key) (*session.Store, error) {
	lists := session.NewMemory()
	var entries []session.Entry
	for e, err := range store.Journal.Read(ctx, root, 0) {
		if err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	_, err := lists.Journal.Append(ctx, root, 0, session.Batch{ID: "copy", Entries: entries})
	return lists, err
}

// passive configures a Supervisor that nobody runs: it starts no turn and delivers nothing.
func passive(store *session.Store) spawn.Config {
	return spawn.Config{
		Store: store, Runner: nobody{}, CallerRun: true, Replies: true,
		Deliver: func(context.Context, spawn.Outgoing) error { return errNobody },
	}
}

var errNobody = errors.New("inspect delivers nothing")

type nobody struct{}

func (nobody) RunTurn(context.Context, *spawn.Turn) (spawn.Outcome, error) {
	return spawn.Outcome{}, errNobody
}

// short returns the first line of a text, of 60 runes at most.
func short(s string) string {
	s, _, cut := strings.Cut(s, "\n")
	if r := []rune(s); len(r) > 60 {
		s, cut = string(r[:60]), true
	}
	if cut {
		s += "..."
	}
	return s
}

// journalText prints every entry of a tree's journal.
func journalText(ctx context.Context, store *session.Store, root session.Key) (string, error) {
	var b strings.Builder
	for e, err := range store.Journal.Read(ctx, root, 0) {
		if err != nil {
			return b.String(), err
		}
		fmt.Fprintln(&b, spawn.Describe(e))
	}
	if b.Len() == 0 {
		return "", fmt.Errorf("no journal of %q: %w", root, session.ErrNotFound)
	}
	return b.String(), nil
}

// verifyState reads everything there is.
func verifyState(ctx context.Context, dir string, store *session.Store) (string, error) {
	var b strings.Builder
	var bad []error
	files, parts := 0, 0
	for f, err := range session.VerifyDir(ctx, dir) {
		files++
		parts += f.Parts
		switch {
		case err != nil:
			fmt.Fprintf(&b, "bad   %s: %v\n", f.Path, err)
			bad = append(bad, err)
		case f.Torn > 0:
			fmt.Fprintf(&b, "torn  %s: %d bytes that a crash left and nobody was told of\n", f.Path, f.Torn)
		}
	}
	heads, err := roots(ctx, store)
	if err != nil {
		return b.String(), errors.Join(append(bad, err)...)
	}
	for _, h := range heads {
		if err := spawntest.Audit(store.Journal.Read(ctx, h.Root, 0)); err != nil {
			fmt.Fprintf(&b, "bad   %s: %v\n", h.Root, err)
			bad = append(bad, err)
		}
	}
	fmt.Fprintf(&b, "%d files with %d batches and lines, %d trees: %d bad\n", files, parts, len(heads), len(bad))
	return b.String(), errors.Join(bad...)
}

// settleBlocked retries or dismisses a delivery as the owner of the directory. The next process that runs the bot delivers.
func settleBlocked(ctx context.Context, o stateOptions) (text string, err error) {
	store, err := session.OpenDir(o.dir)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	sup, err := spawn.Open(ctx, passive(store))
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, sup.Shutdown(ctx)) }()
	if o.retry != "" {
		return "it is tried again when the bot runs\n", sup.Retry(ctx, o.retry)
	}
	return "dismissed\n", sup.Dismiss(ctx, o.dismiss)
}
