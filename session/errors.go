package session

import (
	"errors"
	"fmt"
)

var (
	// ErrInvalidKey is what errors.Is finds in every *[KeyError]. The methods of a store return it
	// for the zero [Key], and for a reserved root where the key of a session is needed.
	ErrInvalidKey = errors.New("session: invalid key")

	// ErrConflict is returned by [Journal.Append] and [Transcripts.Append] if the log does not end
	// where the caller expects it to. Nothing was added. Another writer has appended since, so the
	// caller is not the only writer of the log any longer.
	ErrConflict = errors.New("session: log has moved")

	// ErrNotFound is returned where something is required and does not exist, such as the record of
	// a sub-agent or the binding of a conversation. Reading a log that does not exist is not an
	// error.
	ErrNotFound = errors.New("session: not found")

	// ErrInvalidLine is returned by [Transcripts.Append] for a message that no transcript will ever
	// take, because it has no JSON form: [Message.Validate] refuses it. A store also returns it for
	// a message that is longer than it can keep. Nothing was added.
	ErrInvalidLine = errors.New("session: invalid line of a transcript")

	// ErrInvalidPart is what errors.Is finds in every *[PartError].
	ErrInvalidPart = errors.New("session: invalid part of a message")

	// ErrNoFiles is returned where a [Store] without Files would have to keep or find one.
	ErrNoFiles = errors.New("session: the store does not keep files")

	// ErrFileChanged is returned by [Files.Put] for bytes that are not those that the caller
	// expected. Nothing was kept.
	ErrFileChanged = errors.New("session: the bytes of a file are not those expected")

	// ErrArchived is returned by [Transcripts.Append] for a transcript that has been archived, and
	// by [Transcripts.Read] unless the [LineQuery] asks for archived lines.
	ErrArchived = errors.New("session: transcript is archived")

	// ErrNotArchived is returned by [Transcripts.Remove] for a transcript that is in use. Nothing
	// was removed.
	ErrNotArchived = errors.New("session: transcript is not archived")

	// ErrClosed is returned by every method of a store that has been closed.
	ErrClosed = errors.New("session: store is closed")

	// ErrReadOnly is returned by every method that would change a Store which was opened for
	// reading.
	ErrReadOnly = errors.New("session: store is read-only")

	// ErrCorrupt is what errors.Is finds in every *[CorruptError].
	ErrCorrupt = errors.New("session: stored data is corrupt")

	// ErrFormat is returned for stored data of a format that this version does not know, such as
	// data that a newer version wrote.
	ErrFormat = errors.New("session: stored data has an unknown format")

	// ErrUnsafe is returned for a file of a Store that is not used, because it need not be what its
	// name says, because another user controls it, or because this process may not use it. It stays
	// until a person removes the cause. The next call works then.
	ErrUnsafe = errors.New("session: stored data is refused")

	// ErrSync is returned by [Journal.Append] of a Store on a disk after the operating system has
	// failed to bring a write to the disk. The append that meets the failure first may or may not
	// be stored, unless a compaction met it before. Every later append changes nothing, until the
	// Store is opened again. It is also the error of a Store that does not have its directory any
	// more, because that was moved or its lock was removed.
	ErrSync = errors.New(
		"session: a write has not reached the disk, the directory must be opened again",
	)
)

// IsPermanent reports whether an error of a store stays however often the call is repeated. Any
// other one may pass, such as that of a disk which is full or out of reach.
func IsPermanent(err error) bool {
	for _, e := range []error{
		ErrConflict, ErrArchived, ErrClosed, ErrReadOnly, ErrInvalidKey, ErrNotFound, ErrCorrupt,
		ErrFormat, ErrInvalidLine, ErrUnsafe, ErrSync, ErrNoFiles, ErrFileChanged,
		ErrUnfinishedCopy,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// A KeyError says which text cannot be a key or a part of one, at which byte, and why. errors.Is
// finds [ErrInvalidKey] in it.
type KeyError struct {
	Key    string // the whole text that was parsed, or the part that a constructor got
	Part   string // which part Key is, such as "peer"; empty: a whole key
	Offset int    // index of the first byte of Key that is wrong
	Reason string // a short phrase, such as "empty segment"
}

// maxShown is the greatest number of bytes of a text that an error message repeats.
const maxShown = 120

// Error repeats at most 120 bytes of Key.
func (e *KeyError) Error() string {
	shown, more := e.Key, ""
	if len(shown) > maxShown {
		shown, more = shown[:maxShown], "..."
	}
	what := "key"
	if e.Part != "" {
		what = e.Part + " of a key"
	}
	return fmt.Sprintf(
		"session: invalid %s %q%s: at byte %d: %s", what, shown, more, e.Offset, e.Reason,
	)
}

// Is reports whether target is [ErrInvalidKey].
func (e *KeyError) Is(target error) bool { return target == ErrInvalidKey }

// A CorruptError says that stored data is damaged or missing. Nothing was changed: a person decides
// what becomes of the file, or a [Mender] puts the damage aside. errors.Is finds [ErrCorrupt] in
// it.
type CorruptError struct {
	File   string // path of the file
	Offset int64  // index of the first damaged byte
	Reason string // a short phrase
}

// Error names the file, the byte and the reason.
func (e *CorruptError) Error() string {
	return fmt.Sprintf("session: %s: at byte %d: %s", e.File, e.Offset, e.Reason)
}

// Is reports whether target is [ErrCorrupt].
func (e *CorruptError) Is(target error) bool { return target == ErrCorrupt }
