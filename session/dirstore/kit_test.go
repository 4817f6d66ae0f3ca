package dirstore_test

import (
	"testing"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/dirstore"
	"github.com/offshoot-sdk/offshoot/session/sessiontest"
)

// The kits close what they opened: here, all of the store.
type wholeJournal struct {
	session.Journal
	store *session.Store
}

func (j wholeJournal) Close() error { return j.store.Close() }

type wholeTranscripts struct {
	session.Transcripts
	store *session.Store
}

func (t wholeTranscripts) Close() error { return t.store.Close() }

func TestJournal(t *testing.T) {
	sessiontest.TestJournal(t, func(t *testing.T) sessiontest.OpenFunc {
		dir := t.TempDir()
		return func() (session.Journal, error) {
			s, err := dirstore.Open(dir)
			if err != nil {
				return nil, err
			}
			return wholeJournal{s.Journal, s}, nil
		}
	})
}

func TestTranscripts(t *testing.T) {
	sessiontest.TestTranscripts(t, func(t *testing.T) sessiontest.TranscriptsOpenFunc {
		dir := t.TempDir()
		return func() (session.Transcripts, error) {
			s, err := dirstore.Open(dir)
			if err != nil {
				return nil, err
			}
			return wholeTranscripts{s.Transcripts, s}, nil
		}
	})
}
