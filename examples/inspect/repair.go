package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/offshoot-sdk/offshoot/session/dirstore"
)

// repairState repairs a directory and returns what was damaged, where that is now, and what is lost
// of each tree.
func repairState(ctx context.Context, dir string) (string, error) {
	done, err := dirstore.Repair(ctx, dir)
	var b strings.Builder
	for _, f := range done.Files {
		where := "it was missing"
		if len(f.Aside) > 0 {
			where = fmt.Sprintf("%d bytes, put aside in %s", f.Bytes, strings.Join(f.Aside, ", "))
		}
		fmt.Fprintf(&b, "damaged  %s: %s: %v\n", f.Path, where, f.Err)
	}
	for _, t := range done.Trees {
		fmt.Fprintf(&b, "lost     %s: entries %d to %d\n", t.Root, t.Kept+1, t.Lost)
	}
	switch {
	case err != nil:
	case len(done.Files) == 0:
		b.WriteString("nothing is damaged\n")
	default:
		files, trees := count(len(done.Files), "damaged file"), count(len(done.Trees), "tree")
		fmt.Fprintf(&b, "%s repaired, entries of %s are known to be lost\n", files, trees)
	}
	return b.String(), err
}
