package dirstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/offshoot-sdk/offshoot/internal/disk"
	"github.com/offshoot-sdk/offshoot/session"
)

// The files are [session.Files] in directories beside the transcripts, one for each transcript; see
// filesDirName. A file has its SHA-256 as its name. It gets the name when it is whole and durable.
//
// A call holds the state of the transcript while it changes names, so that none goes into a
// directory that is being archived or removed. It does not while it reads what it is given, which
// may take long.
type files struct {
	t      *transcripts
	closed atomic.Bool
	next   atomic.Int64 // number of the next temporary file

	mu    sync.Mutex
	ready map[session.Ref]bool // the directory exists durably, without leftovers of dead processes
}

func newFiles(t *transcripts) *files {
	return &files{t: t, ready: make(map[session.Ref]bool)}
}

// Close makes every later call fail with [session.ErrClosed]. The Close of the transcripts waits
// for what writes.
func (f *files) Close() error {
	f.closed.Store(true)
	return nil
}

// filesDir returns the path of the directory for the files of a transcript that is not archived.
func (t *transcripts) filesDir(ref session.Ref) string {
	return filepath.Join(t.dir, agentDir(ref.Key), filesDirName(ref))
}

// check returns [session.ErrClosed] after Close.
func (f *files) check() error {
	if f.closed.Load() {
		return session.ErrClosed
	}
	return nil
}

// wrapError adds the transcript and the operation to err, unless err is nil.
func (f *files) wrapError(ref session.Ref, doing string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("dirstore: files of transcript %q of %q: %s: %w",
		ref.SessionID, ref.Key, doing, transcriptError(err))
}

// hold calls f while no other call changes names of the transcript or of its files.
func (f *files) hold(
	ctx context.Context, ref session.Ref, call func(*transcriptState) error,
) error {
	if err := f.check(); err != nil {
		return err
	}
	return f.t.hold(ctx, ref, call)
}

// dirs returns the directories that the files of ref may be in, the one that is not archived first.
func (f *files) dirs(ref session.Ref) ([]string, error) {
	all := []string{f.t.filesDir(ref)}
	archived, err := f.archivedDir(ref)
	if archived != "" {
		all = append(all, archived)
	}
	for _, dir := range all {
		err = errors.Join(err, disk.CheckDir(f.t.fs, dir))
	}
	return all, err
}

// archivedDir returns the path of the archived directory of ref, or "" if there is none. It reads
// the names the first time. A read-only store does so each time.
func (f *files) archivedDir(ref session.Ref) (string, error) {
	a, dir := f.t.agentOf(ref)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.files == nil || f.t.readOnly {
		var entries []fs.DirEntry
		if err := f.t.lookUp(func() (err error) {
			entries, err = f.t.fs.ReadDir(dir)
			return err
		}); err != nil {
			return "", err
		}
		a.files = make(map[string]string)
		for _, e := range entries {
			if at := strings.LastIndex(e.Name(), filesSuffix+"."); at >= 0 && isFilesDir(e.Name()) {
				a.files[e.Name()[:at]+filesSuffix] = e.Name()
			}
		}
	}
	if name := a.files[filesDirName(ref)]; name != "" {
		return filepath.Join(dir, name), nil
	}
	return "", nil
}

// Open implements [session.Files].
func (f *files) Open(ctx context.Context, ref session.Ref, hash string) (io.ReadCloser, error) {
	if err := ref.Validate(); err != nil {
		return nil, err
	}
	if err := (session.File{Hash: hash}).Validate(); err != nil {
		return nil, err
	}
	found, err := f.find(ctx, ref, hash)
	if found == nil && err == nil {
		if err = f.isGone(); err == nil {
			// The owner may just have archived them, or the disk has come back.
			found, err = f.find(ctx, ref, hash)
		}
	}
	if err == nil && found == nil {
		err = fmt.Errorf("%w: %s", session.ErrNotFound, hash)
	}
	if err != nil {
		return nil, f.wrapError(ref, "open", err)
	}
	return found, nil
}

// isGone returns an error if the directory of all sessions is not there, because its disk is gone:
// then it is not known whether a file exists.
func (f *files) isGone() error {
	if f.t.readOnly {
		return nil // it may never have been made
	}
	_, err := f.t.fs.Lstat(f.t.dir)
	return logError(err)
}

// find opens a file for reading. It returns nil if there is none.
func (f *files) find(
	ctx context.Context, ref session.Ref, hash string,
) (found *storedFile, err error) {
	err = f.hold(ctx, ref, func(*transcriptState) error {
		dirs, err := f.dirs(ref)
		for _, dir := range dirs {
			if found == nil && err == nil {
				found, err = openFile(f.t.fs, filepath.Join(dir, hash))
			}
		}
		return err
	})
	return found, err
}

// List implements [session.Files].
func (f *files) List(ctx context.Context, ref session.Ref) iter.Seq2[session.File, error] {
	return func(yield func(session.File, error) bool) {
		all, err := f.list(ctx, ref)
		for _, file := range all {
			if err = ctx.Err(); err != nil {
				break
			}
			if !yield(file, nil) {
				return
			}
		}
		if err != nil {
			yield(session.File{}, f.wrapError(ref, "list", err))
		}
	}
}

// list returns the files as they are now.
func (f *files) list(ctx context.Context, ref session.Ref) (all []session.File, err error) {
	if err := ref.Validate(); err != nil {
		return nil, err
	}
	err = f.hold(ctx, ref, func(*transcriptState) error {
		dirs, err := f.dirs(ref)
		if err != nil {
			return err
		}
		for _, dir := range dirs {
			err := f.entries(dir, func(e fs.DirEntry) error {
				info, err := e.Info()
				if err == nil && isFileName(e.Name()) {
					all = append(all, session.File{Hash: e.Name(), Size: info.Size()})
				}
				return err
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil && len(all) == 0 {
		err = f.isGone()
	}
	return all, err
}

// entries calls f with each entry of a directory, which need not exist.
func (f *files) entries(dir string, each func(fs.DirEntry) error) error {
	var entries []fs.DirEntry
	err := f.t.lookUp(func() (err error) {
		entries, err = f.t.fs.ReadDir(dir)
		return err
	})
	for _, e := range entries {
		if err == nil {
			err = each(e)
		}
	}
	return err
}

// Archive implements [session.Files]. It renames the directory as the transcript is renamed. One in
// which a Put that failed has left nothing to keep is removed: without a transcript, which need not
// exist then, no purge would find it.
func (f *files) Archive(ctx context.Context, ref session.Ref, at time.Time) error {
	return f.change(ctx, ref, "archive", func() error {
		dir := f.t.filesDir(ref)
		archived, err := f.archivedDir(ref)
		if err == nil {
			err = disk.CheckDir(f.t.fs, dir)
		}
		_, lookErr := f.t.fs.Lstat(dir)
		switch {
		case err != nil:
			return err
		case archived != "":
			return f.t.fs.SyncDir(filepath.Dir(dir)) // the Archive before may not have got that far
		case errors.Is(lookErr, fs.ErrNotExist):
			return nil
		case lookErr != nil:
			return lookErr
		}
		keeps := false
		err = f.entries(dir, func(e fs.DirEntry) error {
			keeps = keeps || isFileName(e.Name())
			return nil
		})
		if err == nil && !keeps {
			if err = f.removeDir(ctx, dir); err == nil {
				err = f.t.fs.SyncDir(filepath.Dir(dir))
			}
			return err
		}
		if err != nil {
			return err
		}
		name, err := freeArchiveName(f.t.fs, dir, at)
		if err == nil {
			err = f.t.fs.Rename(dir, filepath.Join(filepath.Dir(dir), name))
		}
		if err != nil {
			return err
		}
		f.noteArchived(ref, name)
		return f.t.fs.SyncDir(filepath.Dir(dir))
	})
}

// Restore implements [session.Files]. It renames the directory back.
func (f *files) Restore(ctx context.Context, ref session.Ref) error {
	return f.change(ctx, ref, "restore", func() error {
		dir := f.t.filesDir(ref)
		archived, err := f.archivedDir(ref)
		if err == nil {
			err = disk.CheckDir(f.t.fs, dir)
		}
		if err == nil && archived != "" {
			err = f.moveBack(archived, dir)
		}
		if err != nil {
			return err
		}
		f.noteArchived(ref, "")
		if _, err := f.t.fs.Lstat(filepath.Dir(dir)); errors.Is(err, fs.ErrNotExist) {
			return nil // the agent never had a transcript
		}
		return f.t.fs.SyncDir(filepath.Dir(dir)) // also if the Restore before has not got that far
	})
}

// moveBack makes the archived directory the one of files that are in use. That there is one is not
// the work of a Store.
func (f *files) moveBack(archived, dir string) error {
	_, err := f.t.fs.Lstat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return f.t.fs.Rename(archived, dir)
	case err != nil:
		return err
	}
	return &fs.PathError{Op: "rename", Path: dir, Err: fs.ErrExist}
}

// noteArchived notes the name of the archived directory of ref; "" is for none.
func (f *files) noteArchived(ref session.Ref, name string) {
	a, _ := f.t.agentOf(ref)
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case name == "":
		delete(a.files, filesDirName(ref))
	case a.files != nil:
		a.files[filesDirName(ref)] = name
	}
}

// Remove implements [session.Files].
func (f *files) Remove(ctx context.Context, ref session.Ref) error {
	return f.change(ctx, ref, "remove", func() error {
		dirs, err := f.dirs(ref)
		if err != nil {
			return err
		}
		for _, dir := range dirs {
			if err := f.removeDir(ctx, dir); err != nil {
				return err
			}
		}
		f.noteArchived(ref, "")
		if _, err := f.t.fs.Lstat(filepath.Dir(dirs[0])); errors.Is(err, fs.ErrNotExist) {
			return nil // the agent never had a transcript
		}
		return f.t.fs.SyncDir(filepath.Dir(dirs[0]))
	})
}

// removeDir removes a directory with its files. One that does not exist is removed already.
func (f *files) removeDir(ctx context.Context, dir string) error {
	err := f.entries(dir, func(e fs.DirEntry) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		return f.t.fs.Remove(filepath.Join(dir, e.Name()))
	})
	if err != nil {
		return err // the disk may be gone, and come back with the files
	}
	if err = f.t.fs.Remove(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// change calls f, which takes the directory of ref away, while no other call changes names of the
// transcript or of its files. A transcript that cannot be read does not matter.
func (f *files) change(
	ctx context.Context, ref session.Ref, doing string, call func() error,
) error {
	if err := ref.Validate(); err != nil {
		return err
	}
	err := f.t.writing(ctx, func() error {
		return f.hold(ctx, ref, func(*transcriptState) error {
			f.mu.Lock()
			delete(f.ready, ref)
			f.mu.Unlock()
			return call()
		})
	})
	return f.wrapError(ref, doing, err)
}

// openFile opens a kept file for reading. It returns nil if there is none.
func openFile(fsys disk.FS, path string) (*storedFile, error) {
	f, err := fsys.OpenFile(path, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // a missing file is not an error
	}
	if err != nil {
		return nil, err
	}
	size, err := f.Size()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return newStoredFile(f, path, size), nil
}
