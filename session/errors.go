package session

import (
	"errors"
	"fmt"
)

var (
	// ErrInvalidKey is what every *[KeyError] is, and what a store method returns for a zero or
	// reserved [Key] where a session's key is needed.
	ErrInvalidKey = errors.New("session: invalid key")

	// ErrConflict is returned by [Journal.Append] and [Transcripts.Append] if the log does not end
	// where the caller thinks it does. Nothing was written, and another writer has written since:
	// the caller that gets it is no longer the log's only writer.
	ErrConflict = errors.New("session: log has moved")

	// ErrNotFound is returned where something must exist and does not: the record of a sub-agent,
	// the binding of a conversation. Reading a log that was never written is not an error.
	ErrNotFound = errors.New("session: not found")

	// ErrArchived is returned by [Transcripts.Append] for a transcript that has been archived.
	ErrArchived = errors.New("session: transcript is archived")

	// ErrClosed is returned by every method of a store that has been closed.
	ErrClosed = errors.New("session: store is closed")

	// ErrReadOnly is returned by everything that would change a Store that was opened for reading.
	ErrReadOnly = errors.New("session: store is read-only")

	// ErrCorrupt is what every *[CorruptError] is.
	ErrCorrupt = errors.New("session: stored data is corrupt")

	// ErrFormat is returned if a newer version wrote what this one does not know.
	ErrFormat = errors.New("session: stored data has an unknown format")

	// ErrSync is returned by [Journal.Append] of a Store on a disk after the system has failed to
	// bring a write to the disk. The append that meets it first may or may not be there, unless it
	// was compaction that met it before any append. Every later one changes nothing, until the
	// Store is opened again.
	ErrSync = errors.New("session: a write has not reached the disk, the directory must be opened again")
)

// A KeyError says which text cannot be a key or a part of one, where, and why. It is
// [ErrInvalidKey].
type KeyError struct {
	Key    string // the text that was parsed, whole, or the part that a key was to be made of
	Part   string // the part that Key is, such as "peer"; empty: a whole key
	Offset int    // the first byte of Key that cannot stand
	Reason string // a short phrase, such as "empty segment"
}

// maxShown bounds, in bytes, how much of a text an error message repeats.
const maxShown = 120

// Error repeats at most 120 bytes of the text.
func (e *KeyError) Error() string {
	shown, more := e.Key, ""
	if len(shown) > maxShown {
		shown, more = shown[:maxShown], "..."
	}
	what := "key"
	if e.Part != "" {
		what = e.Part + " of a key"
	}
	return fmt.Sprintf("session: invalid %s %q%s: at byte %d: %s", what, shown, more, e.Offset, e.Reason)
}

// Is reports whether target is [ErrInvalidKey].
func (e *KeyError) Is(target error) bool { return target == ErrInvalidKey }

// A CorruptError says that something that had been stored is not there any more as it was. Nothing
// was changed: what is to become of the file is for a person to decide. It is [ErrCorrupt].
type CorruptError struct {
	File   string // path
	Offset int64  // the first byte of what is broken
	Reason string
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("session: %s: at byte %d: %s", e.File, e.Offset, e.Reason)
}

// Is reports whether target is [ErrCorrupt].
func (e *CorruptError) Is(target error) bool { return target == ErrCorrupt }
