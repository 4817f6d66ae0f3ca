package disk

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// The permissions of what is made: nobody but the user reads conversations.
const (
	FilePerm fs.FileMode = 0o600
	DirPerm  fs.FileMode = 0o700
)

// A File is an open file. Its methods may be called from many goroutines at once.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	// Truncate cuts the file, or fills it up with zeros.
	Truncate(size int64) error
	// Sync returns once what was written would survive a power failure, as far as the hardware tells the truth.
	Sync() error
	// Size returns the length in bytes.
	Size() (int64, error)
}

// An FS is a file system. Errors are those of package os: errors.Is with fs.ErrNotExist and fs.ErrExist works.
type FS interface {
	// OpenFile is that of package os, with [FilePerm] for a file that is made.
	OpenFile(name string, flag int) (File, error)
	// Mkdir makes one directory, with [DirPerm].
	Mkdir(name string) error
	// Rename puts a file in the place of another, or of none.
	Rename(from, to string) error
	// Remove removes a file or an empty directory.
	Remove(name string) error
	// ReadDir returns the names in a directory, sorted.
	ReadDir(name string) ([]fs.DirEntry, error)
	// Lstat describes what has a name.
	Lstat(name string) (fs.FileInfo, error)
	// SyncDir returns once the names in a directory would survive a power failure.
	SyncDir(name string) error
}

// OS returns the file system of the operating system.
func OS() FS { return system{} }

type system struct{}

func (system) OpenFile(name string, flag int) (File, error) {
	f, err := os.OpenFile(name, flag, FilePerm)
	if err != nil {
		return nil, err
	}
	return file{f}, nil
}

func (system) Mkdir(name string) error                    { return os.Mkdir(name, DirPerm) }
func (system) Rename(from, to string) error               { return os.Rename(from, to) }
func (system) Remove(name string) error                   { return os.Remove(name) }
func (system) ReadDir(name string) ([]fs.DirEntry, error) { return os.ReadDir(name) }
func (system) Lstat(name string) (fs.FileInfo, error)     { return os.Lstat(name) }
func (system) SyncDir(name string) error                  { return syncDir(name) }

type file struct{ *os.File }

// Sync is as strong as that of package os, which on macOS asks the drive too. A file that somebody has removed survives nothing.
func (f file) Sync() error {
	if err := syncFile(f.File); err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil && unlinked(info) {
		err = &fs.PathError{Op: "sync", Path: f.Name(), Err: fs.ErrNotExist}
	}
	return err
}

func (f file) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// MakeDir makes a directory unless it is there, and makes its name durable either way: who made it may have died before.
func MakeDir(f FS, parent, name string) error {
	if err := f.Mkdir(name); err != nil {
		if info, statErr := f.Lstat(name); statErr != nil || !info.IsDir() {
			return err
		}
	}
	return f.SyncDir(parent)
}

// MakeAll makes a directory, and those above it that are missing, and makes their names durable, as well as the name of the lowest that
// was there: a MakeAll that died may have made it.
func MakeAll(f FS, dir string) error {
	parent := filepath.Dir(dir)
	info, err := f.Lstat(dir)
	switch {
	case err == nil && info.Mode().IsRegular():
		return &fs.PathError{Op: "mkdir", Path: dir, Err: fs.ErrExist}
	case err == nil:
		if err = f.SyncDir(parent); errors.Is(err, fs.ErrPermission) { // then it was somebody else who made it
			return nil
		}
		return err
	case !errors.Is(err, fs.ErrNotExist) || parent == dir:
		return err
	}
	if err := MakeAll(f, parent); err != nil {
		return err
	}
	return MakeDir(f, parent, dir)
}
