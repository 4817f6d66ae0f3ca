package otel

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// A State keeps what an [Exporter] has to know after a restart: the spans that are open, and up to
// where the backend has everything. It has ids, keys of sessions and times, and no content. The
// calls of one Exporter do not overlap. The first Save comes right after Load; while it has not
// returned nothing is exported.
//
// The ctx of a call ends after 30 seconds for Load and 10 seconds for Save. What has not returned a
// second later is left behind: the call has failed with [ErrHangs], and so do all others until it
// has returned.
type State interface {
	// Load returns what was saved last; nil: nothing was.
	Load(ctx context.Context) ([]byte, error)
	// Save keeps it, in place of what was saved before.
	Save(ctx context.Context, state []byte) error
}

// File returns a State in a file, which is replaced as a whole, with the permissions 0600.
func File(path string) State { return file(path) }

type file string

func (f file) Load(context.Context) ([]byte, error) {
	data, err := os.ReadFile(string(f))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return data, err
}

func (f file) Save(_ context.Context, state []byte) error {
	tmp, err := os.CreateTemp(filepath.Dir(string(f)), filepath.Base(string(f))+".*.tmp")
	if err != nil {
		return err
	}
	_, err = tmp.Write(state)
	if err = errors.Join(err, tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), string(f))
	}
	if err != nil {
		return errors.Join(err, os.Remove(tmp.Name()))
	}
	return nil
}
