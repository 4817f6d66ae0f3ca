package session_test

import (
	"testing"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/sessiontest"
)

// A process that starts again finds nothing in memory. To run the rules about that, the journal
// outlives what the kit closes.
type unclosedJournal struct{ session.Journal }

func TestMemoryJournal(t *testing.T) {
	sessiontest.TestJournal(t, func(*testing.T) sessiontest.OpenFunc {
		j := session.NewMemory().Journal
		return func() (session.Journal, error) { return unclosedJournal{j}, nil }
	})
}

type unclosedTranscripts struct{ session.Transcripts }

func TestMemoryTranscripts(t *testing.T) {
	sessiontest.TestTranscripts(t, func(*testing.T) sessiontest.TranscriptsOpenFunc {
		s := session.NewMemory().Transcripts
		return func() (session.Transcripts, error) { return unclosedTranscripts{s}, nil }
	})
}
