package session

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
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
type Files interface { //nolint:interfacebloat // a store is one thing, and its kit tests it
	// Put reads r to its end and keeps the bytes. Once it has returned without an error, they are
	// durable, and every Open that begins later finds them. Bytes that are there already are not
	// kept twice.
	//
	// want is what the caller knows of the bytes beforehand: its Hash unless that is empty, and its
	// Size unless that is 0. Bytes of another size or hash are an error that is [ErrFileChanged],
	// and nothing is kept: so a source that was cut off is noticed. A want that no bytes can have
	// is an error that is [ErrInvalidKey].
	//
	// If r returns an error other than io.EOF, Put returns one that wraps it, and nothing is kept.
	// A Put that fails leaves no bytes under a name. ctx is looked at between two reads of r. For
	// an archived transcript Put returns [ErrArchived], also if the files are not archived yet.
	Put(ctx context.Context, ref Ref, r io.Reader, want File) (File, error)

	// Open returns the bytes with a hash, of a transcript that is archived too. The caller closes
	// them, and may read on when ctx is done. Bytes that are not there are an error that is
	// [ErrNotFound], and a hash that is not one is an error that is [ErrInvalidKey].
	//
	// Bytes that are not what was put are an error that is [ErrCorrupt], of Open or of the Read
	// that would have returned the last of them. So no reader gets all bytes and no error.
	Open(ctx context.Context, ref Ref, hash string) (io.ReadCloser, error)

	// List yields the files of a transcript, archived or not, in any order, each once. For a
	// transcript without files it yields nothing. An error is yielded once, with the zero File, and
	// ends the sequence.
	List(ctx context.Context, ref Ref) iter.Seq2[File, error]

	// Archive takes the files of a transcript out of use, as [Transcripts.Archive] does with the
	// transcript, with the same time at. Open and List still find them; Put does not take more. A
	// second call changes nothing. For a transcript without files it does nothing and returns no
	// error: the transcript may still be begun.
	Archive(ctx context.Context, ref Ref, at time.Time) error

	// Restore takes archived files of a transcript into use again: Put takes more of them, as soon
	// as the transcript is in use too. For a transcript without archived files it does nothing and
	// returns no error, so a call whose outcome is unknown is repeated.
	Restore(ctx context.Context, ref Ref) error

	// Remove removes all files of a transcript for good, archived or not, and what interrupted
	// calls of Put have left. A Put that is under way fails, or keeps its bytes as if it had begun
	// afterwards. A second call changes nothing.
	Remove(ctx context.Context, ref Ref) error
}

// ReadFile returns the bytes of a file of a transcript. It is for files that fit into memory. The
// error is [ErrNoFiles] for nil Files, one that is [ErrCorrupt] if the bytes are not as many as f
// has, or one of [Files.Open] and its reader.
func ReadFile(ctx context.Context, files Files, ref Ref, f File) ([]byte, error) {
	if files == nil {
		return nil, ErrNoFiles
	}
	r, err := files.Open(ctx, ref, f.Hash)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(r, f.Size+1))
	if err = errors.Join(err, r.Close()); err == nil && int64(len(data)) != f.Size {
		reason := fmt.Sprintf("its size is not that of its reference, which is %d", f.Size)
		err = &CorruptError{File: f.Hash, Offset: int64(len(data)), Reason: reason}
	}
	if err != nil {
		return nil, err
	}
	return data, nil
}

// A FileReader reads what [Files.Put] is given, and counts and hashes it. It is for implementations
// of Files. Make one with [NewFileReader]. It is for one goroutine.
type FileReader struct {
	ctx  context.Context //nolint:containedctx // the value lives as long as the call of Put
	r    io.Reader
	want File
	sum  hash.Hash
	size int64
}

// NewFileReader returns a reader of r, for a call of [Files.Put] with ctx and want. The error is
// [ErrInvalidKey] for a want that no bytes can have.
func NewFileReader(ctx context.Context, r io.Reader, want File) (*FileReader, error) {
	known := want
	if known.Hash == "" {
		known.Hash = hex.EncodeToString(make([]byte, sha256.Size))
	}
	if err := known.Validate(); err != nil {
		return nil, err
	}
	if r == nil {
		return nil, errNoReader
	}
	return &FileReader{ctx: ctx, r: r, want: want, sum: sha256.New()}, nil
}

// errNoReader is the error of a FileReader without a reader, as the zero FileReader is.
var errNoReader = errors.New("session: file: there is no reader")

// Read implements [io.Reader]. The error is that of ctx once ctx is done, and [ErrFileChanged] once
// there are more bytes than want has.
func (f *FileReader) Read(b []byte) (int, error) {
	if f.r == nil {
		return 0, errNoReader
	}
	if err := f.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := f.r.Read(b)
	if n < 0 || n > len(b) {
		return 0, fmt.Errorf("session: file: its reader says %d of %d bytes", n, len(b))
	}
	f.sum.Write(b[:n])
	f.size += int64(n)
	if f.want.Size > 0 && f.size > f.want.Size {
		return n, fmt.Errorf("session: file: it has more than %d bytes: %w",
			f.want.Size, ErrFileChanged)
	}
	if err != nil && err != io.EOF { //nolint:errorlint // one that wraps io.EOF is not the end
		err = fmt.Errorf("session: file: after %d bytes: %w", f.size, err)
	}
	return n, err
}

// File returns the name of the bytes that were read. The caller has read to the end. The error is
// [ErrFileChanged] if they are not those that want names.
func (f *FileReader) File() (File, error) {
	if f.r == nil {
		return File{}, errNoReader
	}
	got := File{Hash: hex.EncodeToString(f.sum.Sum(nil)), Size: f.size}
	switch {
	case f.want.Size > 0 && got.Size != f.want.Size:
		return File{}, fmt.Errorf("session: file: it has %d bytes, want %d: %w",
			got.Size, f.want.Size, ErrFileChanged)
	case f.want.Hash != "" && got.Hash != f.want.Hash:
		return File{}, fmt.Errorf("session: file: it has the hash %s, want %s: %w",
			got.Hash, f.want.Hash, ErrFileChanged)
	}
	return got, nil
}
