package disk

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// The permissions of new files and directories. Only the user may read conversations.
const (
	FilePerm fs.FileMode = 0o600
	DirPerm  fs.FileMode = 0o700
)

// A File is an open file. Its methods may be called from several goroutines at once.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	// Truncate sets the length of the file to size bytes. It cuts the file, or fills it up with
	// zeros.
	Truncate(size int64) error
	// Sync returns once everything written would survive a power failure, as far as the hardware
	// reports that truthfully.
	Sync() error
	// Size returns the length of the file in bytes.
	Size() (int64, error)
}

// An FS is a file system. Its errors are those of package os: errors.Is works with fs.ErrNotExist
// and fs.ErrExist.
type FS interface {
	// OpenFile is os.OpenFile for regular files. It follows no link; see the function [OpenFile]. A
	// new file gets [FilePerm].
	OpenFile(name string, flag int) (File, error)
	// Mkdir makes one directory with [DirPerm].
	Mkdir(name string) error
	// Rename renames a file. It replaces a file that has the new name.
	Rename(from, to string) error
	// Remove removes a file or an empty directory.
	Remove(name string) error
	// ReadDir returns the entries of a directory, sorted by name.
	ReadDir(name string) ([]fs.DirEntry, error)
	// Lstat describes a file or directory without following a symbolic link.
	Lstat(name string) (fs.FileInfo, error)
	// SyncDir returns once the names in a directory would survive a power failure.
	SyncDir(name string) error
}

// OS returns the file system of the operating system.
func OS() FS { return system{} }

type system struct{}

func (system) OpenFile(name string, flag int) (File, error) {
	f, err := OpenFile(name, flag)
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

// Sync is as strong as that of package os, which also asks the drive on macOS. The error is
// fs.ErrNotExist if the file has been removed: its content is lost when it is closed.
func (f file) Sync() error {
	if err := syncFile(f.File); err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil && links(info) == 0 {
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

// MakeDir makes the directory name in parent unless it exists. It makes the name durable in both
// cases, because the process that made the directory may have died before it did. The error is an
// *[UnsafeError] if something else has the name, such as a link.
func MakeDir(f FS, parent, name string) error {
	if err := f.Mkdir(name); err != nil {
		info, statErr := f.Lstat(name)
		switch {
		case statErr != nil:
			return err
		case !info.IsDir():
			reason := kindReason(info.Mode(), "directory")
			return &UnsafeError{Path: name, Reason: reason, Err: err}
		}
	}
	return f.SyncDir(parent)
}

// MakeAll makes a directory and the missing directories above it, and makes their names durable. It
// also makes the name of the lowest existing directory durable, because a MakeAll that died may
// have made that one. The error is fs.ErrExist if dir is a file.
func MakeAll(f FS, dir string) error {
	parent := filepath.Dir(dir)
	info, err := f.Lstat(dir)
	switch {
	case err == nil && info.Mode().IsRegular():
		return &fs.PathError{Op: "mkdir", Path: dir, Err: fs.ErrExist}
	case err == nil:
		// Another user has made a directory whose parent this user may not read.
		if err = f.SyncDir(parent); errors.Is(err, fs.ErrPermission) {
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
