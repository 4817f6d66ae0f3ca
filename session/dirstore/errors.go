package dirstore

import (
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"time"

	"github.com/offshoot-sdk/offshoot/internal/disk"
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

// A LostError says that a Store has lost its directory: the directory, its file lock or its journal
// was removed, renamed or replaced while the Store was open. The Store acknowledges nothing any
// more, because another process may have the directory, or because the next Open of the path would
// not find it. That is final: the program closes the Store and opens the directory again, under its
// new name if it has one. A LostError is [session.ErrSync].
type LostError struct {
	Dir    string // as it was opened
	Reason string // what has happened, for people
}

func (e *LostError) Error() string {
	return fmt.Sprintf("dirstore: directory %q is lost to this process and must be opened again: %s",
		e.Dir, e.Reason)
}

// Is reports whether target is [session.ErrSync].
func (e *LostError) Is(target error) bool { return target == session.ErrSync }

// A MissingLogError says that a directory has something of a Store, but no write-ahead log: a
// person or a program has removed journal/*.wal, or the first Open was interrupted. [Open] takes
// such a directory for a new one. [View], [ViewIntact] and [Verify] return the error. [Repair]
// begins a log that has a [session.RepairMark]. If there is an idle log, the error is a
// *[session.CorruptError] instead, also that of Open. A MissingLogError is [fs.ErrNotExist].
type MissingLogError struct {
	Dir   string
	Found string // a file that there is, relative to the directory
}

func (e *MissingLogError) Error() string {
	return fmt.Sprintf("dirstore: directory %q has no write-ahead log in journal, but it has %q: "+
		"the log was removed, or the first Open was interrupted; put the log back, "+
		"or have Repair begin a new one", e.Dir, e.Found)
}

// Is reports whether target is [fs.ErrNotExist].
func (e *MissingLogError) Is(target error) bool { return target == fs.ErrNotExist }

// An UnsafeError says that a file or directory of a Store is refused, because it need not be what
// its name says or because another user may control it: a symbolic link, a pipe or another special
// file, a file with several names, one of another user, or one with permissions for other users
// that cannot be taken away. A transcript is also refused if this process may not use it. Nothing
// was written to it. A person looks at it and removes the cause. An UnsafeError is
// [session.ErrUnsafe].
type UnsafeError struct {
	Path   string
	Reason string // for people
	Err    error  // of the system, or nil
}

func (e *UnsafeError) Error() string {
	return fmt.Sprintf("dirstore: %q is refused: %s", e.Path, e.Reason)
}

// Is reports whether target is [session.ErrUnsafe].
func (e *UnsafeError) Is(target error) bool { return target == session.ErrUnsafe }

// Unwrap returns the error of the system.
func (e *UnsafeError) Unwrap() error { return e.Err }

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

// A LineSizeError says that a message is longer than a line of a transcript may be. Nothing was
// added. A LineSizeError is [session.ErrInvalidLine].
type LineSizeError struct {
	Message int // its index among the messages of the append
	Size    int // of its line, in bytes
	Limit   int // the most bytes of a line
}

func (e *LineSizeError) Error() string {
	return fmt.Sprintf("dirstore: message %d takes a line of %d bytes, at most %d",
		e.Message, e.Size, e.Limit)
}

// Is reports whether target is [session.ErrInvalidLine].
func (e *LineSizeError) Is(target error) bool { return target == session.ErrInvalidLine }

// dirError returns the error of doing something with a directory, for an error of any package. It
// names the directory unless err does, as a LockedError, a LostError and a
// MissingLogError do.
func dirError(doing, dir string, err error) error {
	var locked *LockedError
	var lost *LostError
	var missing *MissingLogError
	if errors.As(err, &locked) || errors.As(err, &lost) || errors.As(err, &missing) {
		return err
	}
	err = logError(err)
	pathErr, ok := errors.AsType[*fs.PathError](err)
	unsafe, refused := errors.AsType[*UnsafeError](err)
	if ok && pathErr.Path == dir || refused && unsafe.Path == dir {
		return fmt.Errorf("dirstore: %s directory: %w", doing, err)
	}
	return fmt.Errorf("dirstore: %s directory %q: %w", doing, dir, err)
}

// transcriptError returns the error of a transcript for one of the disk: like logError, and an
// *[UnsafeError] if this process may not use the file, which stays until a person changes that.
// Windows says the same of a file that another program uses for a moment.
func transcriptError(err error) error {
	if err == nil { // of every call that succeeds
		return nil
	}
	err = logError(err)
	pathErr, ok := errors.AsType[*fs.PathError](err)
	if !ok || !errors.Is(err, fs.ErrPermission) || errors.Is(err, session.ErrUnsafe) ||
		runtime.GOOS == "windows" {
		return err
	}
	reason := fmt.Sprintf("this process may not %s it: %v", pathErr.Op, pathErr.Err)
	return &UnsafeError{Path: pathErr.Path, Reason: reason, Err: err}
}

// logError returns the error of this package or of session for an error of the disk or of the
// write-ahead log.
func logError(err error) error {
	var corrupt *wal.CorruptError
	var format *wal.FormatError
	var unsafe *disk.UnsafeError
	switch {
	case errors.As(err, &unsafe):
		return &UnsafeError{Path: unsafe.Path, Reason: unsafe.Reason, Err: unsafe.Err}
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
