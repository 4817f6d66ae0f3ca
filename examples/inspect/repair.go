package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/dirstore"
)

// repairState repairs a directory and returns what was damaged, where that is now, what is lost of
// each tree and transcript, and of what that is not known.
func repairState(ctx context.Context, dir string) (string, error) {
	if err := checkDir(dir); err != nil {
		return "", err
	}
	done, err := dirstore.Repair(ctx, dir)
	return repairText(done, err == nil), explainMissing(dir, err)
}

// markRestored marks a directory as one that was restored from an older copy.
func markRestored(ctx context.Context, dir string, now time.Time) (text string, err error) {
	store, err := dirstore.Open(dir)
	if err != nil {
		return "", unchanged(err)
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	mark, err := session.MarkRepaired(ctx, store.Journal, now)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("what is delivered from now on has %q in its key\n", mark.ID), nil
}

// repairText says what a repair has done. The repair may have ended before it was complete.
func repairText(done dirstore.Repaired, complete bool) string {
	var b strings.Builder
	for _, f := range done.Files {
		where := "it was missing"
		if len(f.Aside) > 0 {
			where = count(int(f.Bytes), "byte") + ", put aside in " + plain(strings.Join(f.Aside, ", "))
		}
		fmt.Fprintf(&b, "damaged  %s: %s: %s\n", plain(f.Path), where, plain(fmt.Sprint(f.Err)))
	}
	lines, cut, whole := 0, 0, 0
	for _, t := range done.Trees {
		fmt.Fprintf(&b, "lost     %s: %s\n", t.Root, lostEntries(t))
	}
	for _, f := range done.Files {
		switch {
		case f.Whole:
			whole++
			fmt.Fprintf(&b, "lost     %s: the whole transcript\n", plain(f.Path))
		case f.Lines > 0:
			lines += f.Lines
			cut++
			fmt.Fprintf(&b, "lost     %s: %s\n", plain(f.Path), count(f.Lines, "line"))
		}
	}
	switch {
	case !complete:
		return b.String()
	case len(done.Files) == 0:
		return "nothing is damaged\n"
	}
	fmt.Fprintf(&b, "%s repaired\n", count(len(done.Files), "damaged file"))
	fmt.Fprintf(&b, "known to be lost: entries of %s; %s of %s; %s as a whole\n",
		count(len(done.Trees), "tree"), count(lines, "line"), count(cut, "transcript"),
		count(whole, "transcript"))
	if len(done.Unknown) > 0 {
		fmt.Fprintf(&b, "not known: what else was in %s, such as the last entries of any tree\n",
			plain(strings.Join(done.Unknown, ", ")))
	}
	return b.String()
}

// lostEntries names the entries that a tree has lost.
func lostEntries(t dirstore.LostTree) string {
	first, all := t.Kept+1, ""
	if t.Kept == 0 {
		all = ", nothing is left"
	}
	if first == t.Lost {
		return fmt.Sprintf("entry %d%s", first, all)
	}
	return fmt.Sprintf("entries %d to %d%s", first, t.Lost, all)
}
