package enginetest

import (
	"context"
	"testing"
	"time"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/sessiontest"
)

// A Place is where a Store is: the address of a server, and a name there.
type Place struct{ URL, Name string }

// An Engine is how tests, and the children that they start, use the Stores of an engine.
type Engine struct {
	// Open opens the Store of a process of that name. An empty name is that of one without Owners.
	Open func(ctx context.Context, at Place, process string, lease time.Duration) (
		*session.Store, error)
	// Timeout is the error of a call which the server has not answered in time.
	Timeout error
	// Lease is that of the processes which a test kills: as short as the engine allows on a machine
	// that has other work.
	Lease time.Duration
	// Dense says that the sequences of a log have no gaps.
	Dense bool
}

// open opens a Store of this process, which is closed at the end of the test.
func (e Engine) open(t testing.TB, at Place, process string, lease time.Duration) *session.Store {
	t.Helper()
	store, err := e.Open(t.Context(), at, process, lease)
	must(t, "open", err)
	t.Cleanup(func() { _ = store.Close() })
	return store
}

// An OpenFunc returns a function that opens one empty Store again and again.
type OpenFunc func(t *testing.T) func() (*session.Store, error)

// partOf returns a function that opens one part of a Store.
func partOf[T any](
	t *testing.T, open OpenFunc, of func(*session.Store) T,
) func() (T, error) {
	opener := open(t)
	return func() (part T, err error) {
		store, err := opener()
		if err == nil {
			part = of(store)
		}
		return part, err
	}
}

// TestJournal tests the Journal of a Store by the kit.
func TestJournal(t *testing.T, open OpenFunc) {
	t.Helper()
	sessiontest.TestJournal(t, func(t *testing.T) sessiontest.OpenFunc {
		return partOf(t, open, func(s *session.Store) session.Journal { return s.Journal })
	})
}

// TestTranscripts tests the Transcripts of a Store by the kit.
func TestTranscripts(t *testing.T, open OpenFunc) {
	t.Helper()
	sessiontest.TestTranscripts(t, func(t *testing.T) sessiontest.TranscriptsOpenFunc {
		return partOf(t, open, func(s *session.Store) session.Transcripts { return s.Transcripts })
	})
}

// TestFiles tests the Files of a Store by the kit.
func TestFiles(t *testing.T, open OpenFunc) {
	t.Helper()
	sessiontest.TestFiles(t, func(t *testing.T) sessiontest.FilesOpenFunc {
		return partOf(t, open, func(s *session.Store) session.Files { return s.Files })
	})
}
