package dirstore_test

import (
	"testing"

	"github.com/offshoot-sdk/offshoot/internal/disk/disktest"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/dirstore"
	"github.com/offshoot-sdk/offshoot/session/sessiontest"
)

// A wholeJournal closes the whole Store. The kit closes only the Journal that it has opened.
type wholeJournal struct {
	session.Journal
	store *session.Store
}

func (j wholeJournal) Close() error { return j.store.Close() }

// A wholeTranscripts closes the whole Store, like wholeJournal.
type wholeTranscripts struct {
	session.Transcripts
	store *session.Store
}

func (t wholeTranscripts) Close() error { return t.store.Close() }

// A wholeFiles closes the whole Store, like wholeJournal.
type wholeFiles struct {
	session.Files
	store *session.Store
}

func (f wholeFiles) Close() error { return f.store.Close() }

func TestFilesPassKit(t *testing.T) {
	sessiontest.TestFiles(t, func(t *testing.T) sessiontest.FilesOpenFunc {
		dir := t.TempDir()
		return func() (session.Files, error) {
			s, err := dirstore.Open(dir)
			if err != nil {
				return nil, err
			}
			return wholeFiles{s.Files, s}, nil
		}
	})
}

func TestJournalPassesKit(t *testing.T) {
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

func TestTranscriptsPassKit(t *testing.T) {
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

func TestCarrierPassesKit(t *testing.T) {
	sessiontest.TestCarrier(t, func(*testing.T) sessiontest.Crashing {
		d := disktest.New()
		return sessiontest.Crashing{
			Open:  func() (*session.Store, error) { return dirstore.OpenOn(d, "/") },
			Crash: func() { d = afterCrash(d) },
		}
	})
}
