package pgstore_test

import (
	"testing"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/internal/enginetest"

	"github.com/offshoot-sdk/offshoot/session/pgstore"
)

// opener returns a function that opens one Store again and again.
func opener(t *testing.T) func() (*session.Store, error) {
	s := theServer(t)
	o := pgstore.Options{Schema: s.schema(t), TrustSync: true}
	return func() (*session.Store, error) { return pgstore.Open(t.Context(), s.DSN(), o) }
}

func TestJournalPassesKit(t *testing.T) { enginetest.TestJournal(t, opener) }

func TestTranscriptsPassKit(t *testing.T) { enginetest.TestTranscripts(t, opener) }

func TestFilesPassKit(t *testing.T) { enginetest.TestFiles(t, opener) }
