package pgstore_test

import (
	"testing"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/storecopy/storecopytest"
)

// A Store in PostgreSQL is the source and the target of copies.
func TestCopies(t *testing.T) {
	s := theServer(t)
	empty := func(t *testing.T) *session.Store {
		return s.open(t, memberOptions(freshSchema(), "a", 0))
	}
	t.Run("histories", func(t *testing.T) { storecopytest.TestHistories(t, empty) })
	t.Run("cut off", func(t *testing.T) { storecopytest.TestCutOff(t, 25, empty) })
	t.Run("not empty", func(t *testing.T) { storecopytest.TestNotEmpty(t, empty) })
}
