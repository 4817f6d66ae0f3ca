package main

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"

	agentctx "github.com/offshoot-sdk/offshoot/context"
)

//go:embed workspace/*.md
var embedded embed.FS

// A workspace is where the prompts come from.
type workspace struct {
	fs.FS
	name  string
	close func() error
}

// openWorkspace opens a directory, or the workspace that is part of the program if dir is empty,
// and checks that every file in it can be read. A bot goes on without a file that it cannot read.
// Here the person at the command line has just named the directory and should hear of it.
func openWorkspace(dir string) (workspace, error) {
	if dir == "" {
		sub, err := fs.Sub(embedded, "workspace")
		return workspace{sub, "built in", func() error { return nil }}, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		if pe, ok := errors.AsType[*fs.PathError](err); ok {
			err = pe.Err
		}
		return workspace{}, fmt.Errorf("-workspace %q: %w", dir, err)
	}
	w := workspace{root.FS(), dir, root.Close}
	if err := w.check(); err != nil {
		return workspace{}, errors.Join(fmt.Errorf("-workspace %q: %w", dir, err), root.Close())
	}
	return w, nil
}

// check returns an error that names every file that is there and cannot be read.
func (w workspace) check() error {
	var errs []error
	for _, f := range agentctx.LoadWorkspace(w) {
		if f.Missing && f.Reason != agentctx.ReasonAbsent {
			errs = append(errs, fmt.Errorf("%s: %s", f.Name, f.Why))
		}
	}
	return errors.Join(errs...)
}
