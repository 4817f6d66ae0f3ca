package wal

import (
	"errors"
	"fmt"
)

var (
	// ErrClosed is returned by every method of a Log that was closed.
	ErrClosed = errors.New("wal: closed")

	// ErrSync is returned, from then on, by every Append after a sync failed or a rewrite broke off at its last step: what is on the disk
	// is unknown until the log is opened again.
	ErrSync = errors.New("wal: a sync failed, the log must be opened again")

	// ErrTooLarge is returned for a payload of more than [MaxPayload] bytes.
	ErrTooLarge = errors.New("wal: payload is too large")
)

// A CorruptError says that what was acknowledged is not there any more.
type CorruptError struct {
	File   string // path
	Offset int64  // of the first byte of the frame, or of the file's header
	Reason string
	Err    error // what replay said, if it was replay
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("wal: %s: at byte %d: %s", e.File, e.Offset, e.Reason)
}

func (e *CorruptError) Unwrap() error { return e.Err }

// A FormatError says that a file was written by a version that this one does not know.
type FormatError struct {
	File   string
	Offset int64
	What   string // "frame version 3"
}

func (e *FormatError) Error() string {
	return fmt.Sprintf("wal: %s: at byte %d: %s is not known: written by a newer version?", e.File, e.Offset, e.What)
}
