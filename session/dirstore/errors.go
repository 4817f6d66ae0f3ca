package dirstore

import (
	"errors"
	"fmt"
	"time"

	"github.com/offshoot-sdk/offshoot/internal/wal"
	"github.com/offshoot-sdk/offshoot/session"
)

// ErrLocked is what every *[LockedError] is.
var ErrLocked = errors.New("dirstore: directory is locked")

// A LockedError says who has a directory open, by what the holder has written into the file lock.
// In the moment between taking the lock and writing that, the file may still name one that has
// died. It is [ErrLocked].
type LockedError struct {
	Dir   string
	PID   int       // 0 if the holder has not said, or could not
	Host  string    // as its system calls itself
	Since time.Time // since when
}

func (e *LockedError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("dirstore: directory %q is locked by another process", e.Dir)
	}
	return fmt.Sprintf("dirstore: directory %q is locked by process %d on %q since %s", e.Dir, e.PID, e.Host, e.Since.Format(time.RFC3339))
}

// Is reports whether target is [ErrLocked].
func (e *LockedError) Is(target error) bool { return target == ErrLocked }

// A BatchSizeError says that a batch is larger than a Journal of [Open] takes. Nothing was written.
// It is [session.ErrInvalidBatch].
type BatchSizeError struct {
	ID      session.BatchID
	Entries int // how many of the batch, from the first, are already too many
	Size    int // of these, in bytes, as they would be written
	Limit   int // of a batch, in bytes
}

func (e *BatchSizeError) Error() string {
	return fmt.Sprintf("dirstore: batch %q is too large: %d entries of it take %d bytes, at most %d", e.ID, e.Entries, e.Size, e.Limit)
}

// Is reports whether target is [session.ErrInvalidBatch].
func (e *BatchSizeError) Is(target error) bool { return target == session.ErrInvalidBatch }

// logError says what an error of the write-ahead log is to the caller of this package.
func logError(err error) error {
	var corrupt *wal.CorruptError
	var format *wal.FormatError
	switch {
	case errors.As(err, &corrupt):
		return &session.CorruptError{File: corrupt.File, Offset: corrupt.Offset, Reason: corrupt.Reason}
	case errors.As(err, &format):
		return fmt.Errorf("%w: %w", session.ErrFormat, err)
	case errors.Is(err, wal.ErrSync):
		return fmt.Errorf("%w: %w", session.ErrSync, err)
	case errors.Is(err, wal.ErrClosed):
		return session.ErrClosed
	}
	return err
}
