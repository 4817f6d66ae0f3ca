package sessiontest_test

import (
	"testing"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/sessiontest"
)

// In your module these are what your adapter exports.
var (
	openJournal     func(dir string) (session.Journal, error)
	openTranscripts func(dir string) (session.Transcripts, error)
	openFiles       func(dir string) (session.Files, error)
)

// The test of a journal: the outer function makes an empty place for one rule, the inner one opens
// that place as often as the rule has the process start.
func ExampleTestJournal() {
	_ = func(t *testing.T) { // func TestJournal(t *testing.T)
		sessiontest.TestJournal(t, func(t *testing.T) sessiontest.OpenFunc {
			dir := t.TempDir()
			return func() (session.Journal, error) { return openJournal(dir) }
		})
	}
}

// The test of a store of transcripts has the same form.
func ExampleTestTranscripts() {
	_ = func(t *testing.T) { // func TestTranscripts(t *testing.T)
		sessiontest.TestTranscripts(t, func(t *testing.T) sessiontest.TranscriptsOpenFunc {
			dir := t.TempDir()
			return func() (session.Transcripts, error) { return openTranscripts(dir) }
		})
	}
}

// And so has the test of a store of files.
func ExampleTestFiles() {
	_ = func(t *testing.T) { // func TestFiles(t *testing.T)
		sessiontest.TestFiles(t, func(t *testing.T) sessiontest.FilesOpenFunc {
			dir := t.TempDir()
			return func() (session.Files, error) { return openFiles(dir) }
		})
	}
}
