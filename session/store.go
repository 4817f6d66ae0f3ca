package session

import (
	"context"
	"errors"
	"io"
)

// A Store is the durable storage of Offshoot. Journal and Transcripts must be set. The fields may
// be views of one engine, or independent of each other.
type Store struct {
	Journal     Journal
	Transcripts Transcripts
	// Files keeps what is too large for a line. With nil, what needs a file is refused with
	// [ErrNoFiles], and everything else works.
	Files Files
	// Owners is set if several processes may share the engine. With nil, this process has every
	// tree. It is experimental.
	Owners Owners
}

// NewMemory returns a Store in memory, whose contents end with the process. It is for tests and for
// programs that do not outlive their work. Package
// [github.com/offshoot-sdk/offshoot/session/dirstore] has a Store whose contents survive.
//
// The Journal keeps payloads as they are given. It encodes each of them once, only to refuse what a
// Store on a disk would refuse. Appends to different logs
// do not wait for each other. The Transcripts keep the latest 16,384 archived transcripts, and of
// their lines the latest 64 MiB: an older one is [ErrArchived] with LineQuery.Archived too.
// All methods may be called concurrently.
func NewMemory() *Store {
	t := newMemoryTranscripts()
	return &Store{Journal: newMemoryJournal(), Transcripts: t, Files: newMemoryFiles(t.isArchived)}
}

// Close closes each field that implements [io.Closer], and returns their errors joined. Close is
// called on each field even if they are views of one engine; the engine must then accept the later
// calls.
func (s *Store) Close() error {
	var errs []error
	for _, part := range []any{s.Owners, s.Files, s.Transcripts, s.Journal} {
		if c, ok := part.(io.Closer); ok {
			errs = append(errs, c.Close())
		}
	}
	return errors.Join(errs...)
}

// Health reports trouble that no call has returned, because what the caller asked for could still
// be done. Examples are background work that fails, and a field that accepts nothing more until it
// is opened again. Nil means that no trouble is known. Health calls the method of this name and
// signature on each field that has it, and returns their errors joined.
//
// The Journal of a directory reports why the last compaction of its log failed, for example with a
// *[CorruptError] at a place that no reader has reached. Opening the directory again would meet the
// same error, so an operator should look at it while the process still runs. For a directory the
// call is cheap: a program may call Health every minute and log what is new. A field that lives on
// a server may ask the server, and returns when ctx is done.
func (s *Store) Health(ctx context.Context) error {
	var errs []error
	for _, part := range []any{s.Journal, s.Transcripts, s.Files, s.Owners} {
		if h, ok := part.(interface {
			Health(ctx context.Context) error
		}); ok {
			errs = append(errs, h.Health(ctx))
		}
	}
	return errors.Join(errs...)
}
