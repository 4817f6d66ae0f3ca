package natsstore

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/offshoot-sdk/offshoot/session"
)

// ErrTimeout is the error of a call that has waited for the server as long as Options.Timeout says.
// A change that was asked for may be made, or not.
var ErrTimeout = errors.New("natsstore: the server does not answer")

// ErrLocked is the error that every *[LockedError] is.
var ErrLocked = errors.New("natsstore: the streams are in use")

// A LockedError says that the streams of a Store are used in another way: by a process alone, or by
// processes that share them. A LockedError is [ErrLocked].
type LockedError struct {
	Name   string    // as in Options
	Holder string    // the process, or the host and the number of one that has the streams alone
	Until  time.Time // when it counts as gone if it is not heard of, by the clock of the server
	Member bool      // the holder shares the streams with others, by Options.Process
}

func (e *LockedError) Error() string {
	how := "has them alone"
	if e.Member {
		how = "shares them with processes that have Options.Process"
	}
	return fmt.Sprintf("natsstore: the streams %q are in use by %q until %s or longer, which %s",
		e.Name, e.Holder, e.Until.UTC().Format(time.RFC3339), how)
}

// Is reports whether target is [ErrLocked].
func (e *LockedError) Is(target error) bool { return target == ErrLocked }

// A LostError says that a Store has lost what it keeps: a stream is not the one that it opened, or
// another process has the streams. It acknowledges nothing any more. That is final: the program
// closes the Store. A LostError is [session.ErrSync].
type LostError struct {
	Stream string // the name of the stream, or of all streams as in Options
	Reason string
	Err    error // nil, or a *[LockedError]
}

func (e *LostError) Error() string {
	return fmt.Sprintf("natsstore: %s is lost to this process and must be opened again: %s",
		e.Stream, e.Reason)
}

// Is reports whether target is [session.ErrSync].
func (e *LostError) Is(target error) bool { return target == session.ErrSync }

// Unwrap returns which process has the streams, or nil.
func (e *LostError) Unwrap() error { return e.Err }

// A SettingError says that a server or a stream has a setting with which a Store would not keep its
// promises. A SettingError is [session.ErrUnsafe].
type SettingError struct {
	Where       string // the stream, or the address of the server
	Name, Value string // of the setting
	Reason      string
}

func (e *SettingError) Error() string {
	return fmt.Sprintf("natsstore: %s has %s = %s: %s", e.Where, e.Name, e.Value, e.Reason)
}

// Is reports whether target is [session.ErrUnsafe].
func (e *SettingError) Is(target error) bool { return target == session.ErrUnsafe }

// A BatchSizeError says that a batch is larger than the Journal accepts. Nothing was written. A
// BatchSizeError is [session.ErrInvalidBatch].
type BatchSizeError struct {
	ID      session.BatchID
	Entries int // the number of entries, from the first, that exceed the limit
	Size    int // of these entries as they would be written, in bytes
	Limit   int // the most bytes of a batch
}

func (e *BatchSizeError) Error() string {
	return fmt.Sprintf("natsstore: batch %q is too large: %d entries of it take %d bytes, at most %d",
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
	return fmt.Sprintf("natsstore: message %d takes a line of %d bytes, at most %d",
		e.Message, e.Size, e.Limit)
}

// Is reports whether target is [session.ErrInvalidLine].
func (e *LineSizeError) Is(target error) bool { return target == session.ErrInvalidLine }

var (
	// errReplaced is the error of a Read whose log was replaced while it was read. The caller reads
	// it again.
	errReplaced = errors.New("natsstore: the log was replaced while it was read")
	// errMoved says that a subject does not end with the message that was expected.
	errMoved = errors.New("natsstore: the subject has moved")
)

// codeOf returns the code of an error of JetStream, and its status as of HTTP, 0 of any other one.
func codeOf(err error) (code jetstream.ErrorCode, status int) {
	var api jetstream.JetStreamError
	if errors.As(err, &api) && api.APIError() != nil {
		return api.APIError().ErrorCode, api.APIError().Code
	}
	return 0, 0
}

// isMoved reports whether the server has refused a message because its subject has moved.
func isMoved(err error) bool {
	code, _ := codeOf(err)
	return code == jetstream.JSErrCodeStreamWrongLastSequence ||
		code == jetstream.JSErrCodeStreamWrongLastSequenceConstant
}

// isAbsent reports whether a request has failed because there may be no such stream.
func isAbsent(err error) bool {
	return errors.Is(err, jetstream.ErrStreamNotFound) || errors.Is(err, nats.ErrNoResponders) ||
		errors.Is(err, jetstream.ErrNoStreamResponse)
}

// finalErrors are those of the client of NATS which say that a request cannot be sent, now or
// later: it is wrong, or the connection was ended for good.
var finalErrors = []error{
	nats.ErrConnectionClosed, nats.ErrConnectionDraining, nats.ErrInvalidConnection,
	nats.ErrMaxPayload, nats.ErrHeadersNotSupported, nats.ErrBadSubject, nats.ErrInvalidMsg,
	nats.ErrInvalidArg, nats.ErrInvalidContext, nats.ErrBadSubscription, nats.ErrBadHeaderMsg,
	nats.ErrMaxSubscriptionsExceeded, nats.ErrPermissionViolation, nats.ErrAuthorization,
}

// mayPass reports whether a request that has failed with err is worth to be sent again: it was not
// answered, or the server is not ready. Every error may pass that is not known to be final, because
// a caller is told of whatever the connection says: a large message is written to it in the call,
// and a socket, TLS, a websocket and a dialer of the program have errors of their own. Such a write
// may have reached the server, in part or whole.
func mayPass(err error) bool {
	if _, status := codeOf(err); status != 0 { // the server has answered
		return status == http.StatusServiceUnavailable ||
			errors.Is(err, jetstream.ErrStreamNotFound)
	}
	if own, ok := errors.AsType[jetstream.JetStreamError](err); ok { // of the client
		return errors.Is(own, jetstream.ErrNoStreamResponse)
	}
	if errors.Is(err, errMoved) || errors.Is(err, session.ErrSync) {
		return false
	}
	for _, e := range finalErrors {
		if errors.Is(err, e) {
			return false
		}
	}
	return true
}
