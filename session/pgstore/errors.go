package pgstore

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/offshoot-sdk/offshoot/session"
)

// ErrLocked is the error that every *[LockedError] is.
var ErrLocked = errors.New("pgstore: schema is locked")

// A LockedError says which process has a schema open. The fields are what the server knows of the
// holder's connection. A LockedError is [ErrLocked].
type LockedError struct {
	Schema string
	PID    int       // of the connection's process at the server; 0: the holder has just gone
	Name   string    // application_name of the holder: "offshoot", its host and process
	Addr   string    // where the holder has connected from; empty: a socket of the server's machine
	Since  time.Time // when the holder has connected
	Member bool      // the holder shares the schema with others, by Options.Process
}

func (e *LockedError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("pgstore: schema %q is locked by another process", e.Schema)
	}
	from := ""
	if e.Addr != "" {
		from = " from " + e.Addr
	}
	member := "has it alone"
	if e.Member {
		member = "shares it with processes that have Options.Process"
	}
	return fmt.Sprintf("pgstore: schema %q is locked by %q%s since %s, "+
		"which is process %d of the server and %s",
		e.Schema, e.Name, from, e.Since.Format(time.RFC3339), e.PID, member)
}

// Is reports whether target is [ErrLocked].
func (e *LockedError) Is(target error) bool { return target == ErrLocked }

// A LostError says that a Store has lost its schema to another process, after a restart of the
// server or a loss of the connection. It acknowledges nothing any more. That is final: the program
// closes the Store. A LostError is [session.ErrSync], and the *[LockedError] that it wraps says who
// has the schema.
type LostError struct {
	Schema string
	Err    error
}

func (e *LostError) Error() string {
	return fmt.Sprintf("pgstore: schema %q is lost to this process and must be opened again: %v",
		e.Schema, e.Err)
}

// Is reports whether target is [session.ErrSync].
func (e *LostError) Is(target error) bool { return target == session.ErrSync }

// Unwrap returns why the schema is lost.
func (e *LostError) Unwrap() error { return e.Err }

// A SettingError says that a server has a setting with which a Store would not keep its promises. A
// SettingError is [session.ErrUnsafe].
type SettingError struct {
	Name, Value string // of the setting
	Reason      string
}

func (e *SettingError) Error() string {
	return fmt.Sprintf("pgstore: the server has %s = %s: %s", e.Name, e.Value, e.Reason)
}

// Is reports whether target is [session.ErrUnsafe].
func (e *SettingError) Is(target error) bool { return target == session.ErrUnsafe }

// ErrTimeout is the error of a call that has waited for the server as long as Options.Timeout says.
// A change that was asked for may be made, or not.
var ErrTimeout = errors.New("pgstore: the server does not answer")

// A BatchSizeError says that a batch is larger than the Journal accepts. Nothing was written. A
// BatchSizeError is [session.ErrInvalidBatch].
type BatchSizeError struct {
	ID      session.BatchID
	Entries int // the number of entries, from the first, that exceed the limit
	Size    int // of these entries as they would be written, in bytes
	Limit   int // the most bytes of a batch
}

func (e *BatchSizeError) Error() string {
	return fmt.Sprintf("pgstore: batch %q is too large: %d entries of it take %d bytes, at most %d",
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
	return fmt.Sprintf("pgstore: message %d takes a line of %d bytes, at most %d",
		e.Message, e.Size, e.Limit)
}

// Is reports whether target is [session.ErrInvalidLine].
func (e *LineSizeError) Is(target error) bool { return target == session.ErrInvalidLine }

// errReplaced is the error of a Read whose log was replaced twice while it was read. The caller
// reads it again.
var errReplaced = errors.New("pgstore: the log was replaced while it was read")

// The codes of PostgreSQL that this package knows.
const (
	codeSerialization = "40001"
	codeDeadlock      = "40P01"
	codeDataCorrupted = "XX001"
	codeIndexCorrupt  = "XX002"
)

// serverCode returns the code of an error of the server, "" of any other error.
func serverCode(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code
	}
	return ""
}

// wasUndone reports whether err says that the server has undone a transaction which may be tried
// again at once.
func wasUndone(err error) bool {
	code := serverCode(err)
	return code == codeSerialization || code == codeDeadlock
}

// isConnection reports whether err is one of the connection, and no answer of the server: an
// advisory lock may be gone then. The class 57 says that the server ends connections, and 08 that
// what stands before the server has lost its own.
func isConnection(err error) bool {
	code := serverCode(err)
	return code == "" || strings.HasPrefix(code, "57") || strings.HasPrefix(code, "08")
}

// storedError returns the error of this package or of session for one of the server.
func storedError(err error) error {
	switch serverCode(err) {
	case codeDataCorrupted, codeIndexCorrupt:
		return fmt.Errorf("%w: %w", session.ErrCorrupt, err)
	}
	return err
}
