package natsstore_test

import (
	"testing"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/internal/enginetest"

	"github.com/offshoot-sdk/offshoot/session/natsstore"
)

// opener returns a function that opens one Store again and again.
func opener(t *testing.T) func() (*session.Store, error) {
	s := theServer(t)
	o := natsstore.Options{Name: freshName(), TrustSync: true}
	return func() (*session.Store, error) { return natsstore.Open(t.Context(), s.ClientURL(), o) }
}

func TestJournalPassesKit(t *testing.T) { enginetest.TestJournal(t, opener) }

func TestTranscriptsPassKit(t *testing.T) { enginetest.TestTranscripts(t, opener) }

func TestFilesPassKit(t *testing.T) { enginetest.TestFiles(t, opener) }
