package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/dirstore"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// stateOptions are what the command line says about a directory of a Store.
type stateOptions struct {
	dir     string
	tree    session.Key
	json    bool
	verify  bool
	repair  bool
	restore bool
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
	o, err := parseState(args)
	if err != nil {
		return explain(err, out, errOut)
	}
	text, err := inspectState(ctx, o, now)
	if o.json {
		text = harmlessJSON(text)
	} else {
		text = harmless(text)
	}
	fmt.Fprint(out, text)
	if err != nil {
		printErrors(errOut, err)
		return exitError
	}
	return exitOK
}

// stateFlags returns the options of -state.
func stateFlags(o *stateOptions) *flag.FlagSet {
	flags := newFlags()
	flags.StringVar(&o.dir, "state", "", "directory of dirstore.Open")
	flags.TextVar(&o.tree, "tree", session.Key{}, "print the journal of the tree with this `root`")
	flags.BoolVar(&o.json, "json", false,
		"print JSON: a line for each tree, or with -tree for each entry")
	flags.BoolVar(&o.verify, "verify", false,
		"read every frame, entry and line, and every tree, and say what is wrong")
	flags.BoolVar(&o.repair, "repair", false,
		"put what is damaged aside and keep the rest; needs the lock")
	flags.BoolVar(&o.restore, "restored", false,
		"mark the directory as an older copy that was restored; needs the lock")
	flags.StringVar(&o.retry, "retry", "",
		"have the blocked delivery with this `key` tried again; needs the lock")
	flags.StringVar(&o.dismiss, "dismiss", "",
		"give up the blocked delivery with this `key`; needs the lock")
	return flags
}

// parseState reads the command line of -state.
func parseState(args []string) (o stateOptions, err error) {
	flags := stateFlags(&o)
	if err := flags.Parse(args); err != nil {
		return o, misplaced(err, promptFlags(new(options)),
			"is for the prompt of a session, with -workspace and -session, and not for -state")
	}
	if err := checkGiven(flags); err != nil {
		return o, err
	}
	chosen := 0
	for _, on := range []bool{
		!o.tree.IsZero(), o.verify, o.repair, o.restore, o.retry != "", o.dismiss != "",
	} {
		if on {
			chosen++
		}
	}
	switch {
	case flags.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case chosen > 1:
		return o, errors.New(
			"-tree, -verify, -repair, -restored, -retry and -dismiss exclude each other")
	case o.json && chosen > 0 && o.tree.IsZero():
		return o, errors.New("-json is for the list and for -tree")
	}
	return o, nil
}

// inspectState does what was asked for. Only -repair, -restored, -retry and -dismiss change
// anything. If the log is damaged, the list and the journals have what is intact, and the error is
// the damage.
func inspectState(ctx context.Context, o stateOptions, now time.Time) (text string, err error) {
	if o.retry != "" || o.dismiss != "" {
		return settleBlocked(ctx, o, now)
	}
	if o.repair {
		return repairState(ctx, o.dir)
	}
	store, damage, err := viewState(o.dir)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	switch {
	case o.restore:
		return markRestored(ctx, o.dir, now)
	case o.verify:
		return verifyState(ctx, o.dir, store)
	case !o.tree.IsZero():
		text, err = journalText(ctx, store, o.tree, o.json)
	default:
		text, err = listState(ctx, o, store, now)
	}
	return text, errors.Join(damage, err)
}

// viewState opens a directory for reading. It creates nothing. A path that is wrong is an error of
// one line. If the log is damaged, the Store has what is intact.
func viewState(dir string) (store *session.Store, damage, err error) {
	if err := checkDir(dir); err != nil {
		return nil, nil, err
	}
	store, damage, err = dirstore.ViewIntact(dir)
	return store, damage, explainMissing(dir, err)
}

// checkDir returns an error of one line for a path that is not a directory.
func checkDir(dir string) error {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("there is no directory %q", dir)
	case err != nil:
		return fmt.Errorf("-state: %w", err)
	case !info.IsDir():
		return fmt.Errorf("%q is not a directory", dir)
	}
	return nil
}

// explainMissing says in the words of this program that a directory has no log: because it never
// had one, or because the log was removed.
func explainMissing(dir string, err error) error {
	missing, removed := errors.AsType[*dirstore.MissingLogError](err)
	switch {
	case removed:
		return fmt.Errorf("directory %q has no log in journal, but it has %q: the log was removed, "+
			"or the first dirstore.Open was interrupted; put the log back, or -repair begins a new one",
			dir, missing.Found)
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("directory %q holds no state: dirstore.Open has never opened it", dir)
	}
	return err
}

// roots returns the heads of all trees that can be read, sorted by root. The error is about the
// others.
func roots(ctx context.Context, store *session.Store) (heads []session.Head, bad error) {
	for h, err := range store.Journal.Roots(ctx, session.RootQuery{}) {
		if err != nil {
			bad = errors.Join(bad, err)
		} else if h.Root.IsValid() {
			heads = append(heads, h)
		}
	}
	slices.SortFunc(heads, func(a, b session.Head) int {
		return strings.Compare(a.Root.String(), b.Root.String())
	})
	return heads, bad
}

// trees yields every tree as its journal has it at the moment, sorted by root. A tree that cannot
// be read is an error, and does not end the sequence. An error of the list of trees itself comes
// first.
func trees(ctx context.Context, store *session.Store) iter.Seq2[spawn.TreeView, error] {
	return func(yield func(spawn.TreeView, error) bool) {
		heads, err := roots(ctx, store)
		if err != nil && !yield(spawn.TreeView{}, err) {
			return
		}
		for _, h := range heads {
			if !yield(spawn.View(h.Root, store.Journal.Read(ctx, h.Root, 0))) {
				return
			}
		}
	}
}
