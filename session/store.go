package session

import (
	"errors"
	"io"
)

// A Store is where everything durable is kept. The two fields may be views of one engine or have nothing to do
// with each other; both are needed.
type Store struct {
	Journal     Journal
	Transcripts Transcripts
}

// NewMemory returns a Store that lives and dies with the process. It is for programs that need no restart and for tests, and is as
// fast as memory allows: payloads are kept as they are given, and logs do not wait for each other.
func NewMemory() *Store {
	return &Store{Journal: newMemoryJournal(), Transcripts: newMemoryTranscripts()}
}

// Close closes the fields that are an [io.Closer] and returns their errors joined. Two that share an engine agree on when it goes.
func (s *Store) Close() error {
	var errs []error
	for _, part := range []any{s.Journal, s.Transcripts} {
		if c, ok := part.(io.Closer); ok {
			errs = append(errs, c.Close())
		}
	}
	return errors.Join(errs...)
}
