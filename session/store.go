package session

import (
	"errors"
	"io"
	"reflect"
)

// A Store is where everything durable is kept. The two fields may be implemented by one engine or by two; both are needed.
type Store struct {
	Journal     Journal
	Transcripts Transcripts
}

// NewMemory returns a Store that lives and dies with the process. It is for programs that need no restart and for tests, and is as
// fast as memory allows: payloads are kept as they are given, and logs do not wait for each other.
func NewMemory() *Store {
	return &Store{Journal: newMemoryJournal(), Transcripts: newMemoryTranscripts()}
}

// Close closes the fields that can be closed, once if both are the same value, and returns their errors joined.
func (s *Store) Close() error {
	var errs []error
	journal, ok := s.Journal.(io.Closer)
	if ok {
		errs = append(errs, journal.Close())
	}
	if c, ok := s.Transcripts.(io.Closer); ok && !same(journal, c) {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// same reports whether a and b are one value. Values that cannot be compared are not.
func same(a, b io.Closer) bool {
	return a != nil && reflect.TypeOf(a).Comparable() && a == b
}
