package filejournal_test

import (
	"testing"

	filejournal "github.com/offshoot-sdk/offshoot/examples/customjournal"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/sessiontest"
)

func TestJournal(t *testing.T) {
	sessiontest.TestJournal(t, func(t *testing.T) sessiontest.OpenFunc {
		dir := t.TempDir()
		return func() (session.Journal, error) { return &filejournal.Journal{Dir: dir}, nil }
	})
}
