package dirstore

import (
	"errors"
	"fmt"
	"time"

	"github.com/offshoot-sdk/offshoot/internal/wal"
	"github.com/offshoot-sdk/offshoot/session"
)

// ErrLocked is the error that every *[LockedError] is.
var ErrLocked = errors.New("dirstore: directory is locked")

// A LockedError says which process has a directory open. It has what the holder of the lock has
// written into the file lock. A new holder takes the lock a moment before it writes that. In that
// moment, the file may still name a process that has died. A LockedError is [ErrLocked].
type LockedError struct {
	Dir   string
	PID   int       // 0 if the file does not name the holder
	Host  string    // the host name of the holder's system
	Since time.Time // when the holder opened the directory
}

func (e *LockedError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("dirstore: directory %q is locked by another process", e.Dir)
	}
	return fmt.Sprintf("dirstore: directory %q is locked by process %d on %q since %s",
		e.Dir, e.PID, e.Host, e.Since.Format(time.RFC3339))
}

// Is reports whether target is [ErrLocked].
func (e *LockedError) Is(target error) bool { return target == ErrLocked }

// A BatchSizeError says that a batch is larger than the Journal of [Open] accepts. Nothing was
// written. A BatchSizeError is [session.ErrInvalidBatch].
type BatchSizeError struct {
	ID      session.BatchID
	Entries int // the number of entries, from the first, that exceed the limit
	Size    int // of these entries as they would be written, in bytes
	Limit   int // the most bytes of a batch
}

func (e *BatchSizeError) Error() string {
	return fmt.Sprintf("dirstore: batch %q is too large: %d entries of it take %d bytes, at most %d",
		e.ID, e.Entries, e.Size, e.Limit)
}

// Is reports whether target is [session.ErrInvalidBatch].
func (e *BatchSizeError) Is(target error) bool { return target == session.ErrInvalidBatch }

// logError returns the error of this package or of session for an error of the write-ahead log.
func logError(err error) error {
	var corrupt *wal.CorruptError
	var format *wal.FormatError
	switch {
	case errors.As(err, &corrupt):
		return &session.CorruptError{
			File: corrupt.File, Offset: corrupt.Offset, Reason: corrupt.Reason,
		}
	case errors.As(err, &format):
		return fmt.Errorf("%w: %w", session.ErrFormat, err)
	case errors.Is(err, wal.ErrSync):
		return fmt.Errorf("%w: %w", session.ErrSync, err)
	case errors.Is(err, wal.ErrClosed):
		return session.ErrClosed
	}
	return err
}
