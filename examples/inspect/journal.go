package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/dirstore"
	"github.com/offshoot-sdk/offshoot/spawn"
	"github.com/offshoot-sdk/offshoot/spawn/spawntest"
)

// journalText returns every entry of a tree's journal, one on each line.
func journalText(
	ctx context.Context, store *session.Store, root session.Key, asJSON bool,
) (string, error) {
	var b strings.Builder
	for e, err := range store.Journal.Read(ctx, root, 0) {
		if err != nil {
			return b.String(), err
		}
		if !asJSON {
			fmt.Fprintln(&b, spawn.Describe(e))
			continue
		}
		if err := json.NewEncoder(&b).Encode(e); err != nil {
			return b.String(), err
		}
	}
	if b.Len() == 0 {
		return "", fmt.Errorf("no journal of %q: %w", root, session.ErrNotFound)
	}
	return b.String(), nil
}

// verifyState reads every file and every tree. It returns a line for each that is not intact, and
// the figures.
func verifyState(ctx context.Context, dir string, store *session.Store) (string, error) {
	var b strings.Builder
	var bad []error
	files, parts := 0, 0
	for f, err := range dirstore.Verify(ctx, dir) {
		files++
		parts += f.Parts
		switch {
		case err != nil:
			fmt.Fprintf(&b, "bad   %s: %s\n", plain(f.Path), plain(err.Error()))
			bad = append(bad, err)
		case f.Torn > 0:
			fmt.Fprintf(&b, "torn  %s: %d bytes that a crash left and that were never acknowledged\n",
				plain(f.Path), f.Torn)
		}
	}
	heads, err := roots(ctx, store)
	if err != nil && len(bad) == 0 { // otherwise Verify has reported it
		fmt.Fprintf(&b, "bad   %s\n", plain(err.Error()))
		bad = append(bad, err)
	}
	for _, h := range heads {
		if err := spawntest.Audit(store.Journal.Read(ctx, h.Root, 0)); err != nil {
			fmt.Fprintf(&b, "bad   %s: %s\n", h.Root, plain(err.Error()))
			bad = append(bad, err)
		}
	}
	fmt.Fprintf(&b, "%d files with %d batches and lines, %d trees: %d bad\n", files, parts, len(heads), len(bad))
	return b.String(), errors.Join(bad...)
}
