package natsstore_test

import (
	"testing"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/sessiontest"

	"github.com/offshoot-sdk/offshoot/session/natsstore"
)

// opener returns a function that opens one Store again and again.
func opener(t *testing.T) func() (*session.Store, error) {
	s := theServer(t)
	o := natsstore.Options{Name: freshName(t, s), TrustSync: true}
	return func() (*session.Store, error) { return natsstore.Open(t.Context(), s.ClientURL(), o) }
}

// part returns a function that opens one part of a Store.
func part[T any](open func() (*session.Store, error), of func(*session.Store) T) func() (T, error) {
	return func() (part T, err error) {
		store, err := open()
		if err == nil {
			part = of(store)
		}
		return part, err
	}
}

func TestJournalPassesKit(t *testing.T) {
	sessiontest.TestJournal(t, func(t *testing.T) sessiontest.OpenFunc {
		return part(opener(t), func(s *session.Store) session.Journal { return s.Journal })
	})
}

func TestTranscriptsPassKit(t *testing.T) {
	sessiontest.TestTranscripts(t, func(t *testing.T) sessiontest.TranscriptsOpenFunc {
		return part(opener(t), func(s *session.Store) session.Transcripts { return s.Transcripts })
	})
}

func TestFilesPassKit(t *testing.T) {
	sessiontest.TestFiles(t, func(t *testing.T) sessiontest.FilesOpenFunc {
		return part(opener(t), func(s *session.Store) session.Files { return s.Files })
	})
}
