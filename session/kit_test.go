package session_test

import (
	"testing"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/sessiontest"
)

// An unclosedJournal does not have a Close. So the kit cannot close the journal in memory, and the
// rules about opening a journal again find what was appended.
type unclosedJournal struct{ session.Journal }

func TestMemoryJournal(t *testing.T) {
	sessiontest.TestJournal(t, func(*testing.T) sessiontest.OpenFunc {
		j := session.NewMemory().Journal
		return func() (session.Journal, error) { return unclosedJournal{j}, nil }
	})
}

// An unclosedTranscripts is the same for transcripts.
type unclosedTranscripts struct{ session.Transcripts }

func TestMemoryTranscripts(t *testing.T) {
	sessiontest.TestTranscripts(t, func(*testing.T) sessiontest.TranscriptsOpenFunc {
		s := session.NewMemory().Transcripts
		return func() (session.Transcripts, error) { return unclosedTranscripts{s}, nil }
	})
}

// An unclosedFiles is the same for files.
type unclosedFiles struct{ session.Files }

func TestMemoryFiles(t *testing.T) {
	sessiontest.TestFiles(t, func(*testing.T) sessiontest.FilesOpenFunc {
		s := session.NewMemory().Files
		return func() (session.Files, error) { return unclosedFiles{s}, nil }
	})
}
