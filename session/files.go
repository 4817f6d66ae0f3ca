package session

import (
	"context"
	"fmt"
	"io"
	"iter"
	"time"
)

// A File names bytes that a Store keeps for a transcript. It is a value, and comparable. The zero
// File names none. Two files with the same Hash are the same bytes.
type File struct {
	Hash string `json:"hash"` // SHA-256 of the bytes, in lower-case hexadecimal
	Size int64  `json:"size"` // in bytes
}

// IsZero reports whether f names no bytes.
func (f File) IsZero() bool { return f == File{} }

// hashLen is the length of a Hash.
const hashLen = 64

// Validate returns an error that wraps [ErrInvalidKey] if f does not name bytes. Every
// implementation of Files calls it where it is given the Hash of a file that must exist.
func (f File) Validate() error {
	if reason := f.fault(); reason != "" {
		return fmt.Errorf("session: file: %s: %w", reason, ErrInvalidKey)
	}
	return nil
}

// fault returns why f does not name bytes, or "".
func (f File) fault() string {
	hex := len(f.Hash) == hashLen
	for i := range len(f.Hash) {
		c := f.Hash[i]
		hex = hex && ('0' <= c && c <= '9' || 'a' <= c && c <= 'f')
	}
	switch {
	case !hex:
		return "the hash is not a SHA-256 in lower-case hexadecimal"
	case f.Size < 0:
		return fmt.Sprintf("the size %d is negative", f.Size)
	}
	return ""
}

// A Files keeps what is too large for a line of a transcript: pictures, documents, long results. It
// keeps bytes for a [Ref] under their SHA-256, each once. They share the fate of the transcript:
// they are archived with it and removed with it.
//
// A writer puts the bytes first, and then writes the line or the fact that names them. A process
// that dies in between leaves bytes that no line names. They do no harm, and go with the
// transcript.
//
// All methods may be called concurrently, for the same Ref too. A method returns early with the
// error of ctx once ctx is done. If the Files can be closed, every method that returns an error
// returns [ErrClosed] after that. Each method returns an error that is [ErrInvalidKey] for a Ref
// that [Ref.Validate] refuses.
//
// Package [github.com/offshoot-sdk/offshoot/session/sessiontest] tests an implementation against
// these rules, one by one.
type Files interface {
	// Put reads r to its end and keeps the bytes. Once it has returned without an error, they are
	// durable, and every Open that begins later finds them. Bytes that are there already are not
	// kept twice.
	//
	// want is what the caller knows of the bytes beforehand; the zero File is nothing. Bytes of
	// another size or hash are an error that is [ErrFileChanged], and nothing is kept: so a source
	// that was cut off is noticed.
	//
	// If r returns an error, Put returns it, and nothing is kept. A Put that fails leaves no bytes
	// under a name. For an archived transcript Put returns [ErrArchived].
	Put(ctx context.Context, ref Ref, r io.Reader, want File) (File, error)

	// Open returns the bytes with a hash, of a transcript that is archived too. The caller closes
	// them. Bytes that are not there are an error that is [ErrNotFound].
	//
	// Bytes that are not what was put are an error that is [ErrCorrupt], of Open or of a Read
	// before its io.EOF.
	Open(ctx context.Context, ref Ref, hash string) (io.ReadCloser, error)

	// List yields the files of a transcript, archived or not, in any order, each once. For a
	// transcript without files it yields nothing. An error is yielded once, with the zero File, and
	// ends the sequence.
	List(ctx context.Context, ref Ref) iter.Seq2[File, error]

	// Archive takes the files of a transcript out of use, as [Transcripts.Archive] does with the
	// transcript, with the same time at. Open and List still find them; Put does not take more. A
	// second call changes nothing. It is called also for transcripts without files.
	Archive(ctx context.Context, ref Ref, at time.Time) error

	// Remove removes all files of a transcript for good, archived or not, and what interrupted
	// calls of Put have left. A second call changes nothing.
	Remove(ctx context.Context, ref Ref) error
}
