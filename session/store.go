package session

import (
	"context"
	"errors"
	"io"
)

// A Store is where everything durable is kept. The two fields may be views of one engine or have
// nothing to do with each other; both are needed.
type Store struct {
	Journal     Journal
	Transcripts Transcripts
}

// NewMemory returns a Store that lives and dies with the process. Package
// [github.com/offshoot-sdk/offshoot/session/dirstore] has one that outlives it. It is for programs
// that need no restart and for tests, and is as fast as memory allows: payloads are kept as they
// are given, and logs do not wait for each other.
func NewMemory() *Store {
	return &Store{Journal: newMemoryJournal(), Transcripts: newMemoryTranscripts()}
}

// Close closes each field that is an [io.Closer] and returns their errors joined. Where both are
// views of one engine, Close is called on both, and it is theirs to see that the engine is closed
// once.
func (s *Store) Close() error {
	var errs []error
	for _, part := range []any{s.Journal, s.Transcripts} {
		if c, ok := part.(io.Closer); ok {
			errs = append(errs, c.Close())
		}
	}
	return errors.Join(errs...)
}

// Health returns what is wrong that no call may have said, since everything that was asked for
// could still be done: work that a field does by itself and that fails, or that it takes nothing
// more until it is opened again. Nil means that nothing is known to be wrong. It asks each field
// that has a method of this name and signature, and joins their errors.
//
// A Journal in a directory says here why its log could not be compacted the last time it tried, for
// example with a *[CorruptError] that no reader has met; opening the directory again would meet it,
// and it is best looked at while the process still runs. There the question costs nothing, so a
// program may ask every minute and log what is new. On a field that lives somewhere else it may be
// a question to a server, and ends with ctx.
func (s *Store) Health(ctx context.Context) error {
	var errs []error
	for _, part := range []any{s.Journal, s.Transcripts} {
		if h, ok := part.(interface {
			Health(ctx context.Context) error
		}); ok {
			errs = append(errs, h.Health(ctx))
		}
	}
	return errors.Join(errs...)
}
