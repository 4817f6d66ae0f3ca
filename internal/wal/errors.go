package wal

import (
	"errors"
	"fmt"
	"io/fs"
)

var (
	// ErrClosed is returned by the methods of a Log after Close.
	ErrClosed = errors.New("wal: closed")

	// ErrSync is returned by the Append whose sync fails and by every later one. It is also
	// returned after a rewrite that failed in its last step. The content of the disk is unknown
	// until the log is opened again.
	ErrSync = errors.New("wal: a sync failed, the log must be opened again")

	// ErrTooLarge is returned for a payload of more than [MaxPayload] bytes.
	ErrTooLarge = errors.New("wal: payload is too large")
)

// fileError returns the error of doing something with a file. It names the file unless err does, as
// the errors of a file system do.
func fileError(doing, name string, err error) error {
	if _, ok := errors.AsType[*fs.PathError](err); ok {
		return fmt.Errorf("wal: %w", err)
	}
	return fmt.Errorf("wal: %s %s: %w", doing, name, err)
}

// A CorruptError says that something was acknowledged and can no longer be read as it was.
type CorruptError struct {
	File   string // path
	Offset int64  // in bytes: of the frame, or 0 for the header of the file
	Reason string
	Err    error // the error of the Replay, if that refused the frame
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("wal: %s: at byte %d: %s", e.File, e.Offset, e.Reason)
}

func (e *CorruptError) Unwrap() error { return e.Err }

// A FormatError says that a file has something in it that this version of the package, or of its
// caller, does not know.
type FormatError struct {
	File   string
	Offset int64  // in bytes
	What   string // for example "frame version 3"
}

func (e *FormatError) Error() string {
	return fmt.Sprintf("wal: %s: at byte %d: %s is not known: written by a newer version?",
		e.File, e.Offset, e.What)
}
