package session_test

import (
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session"
)

// What is zero or nil is an error, or nothing, and not a panic.
func TestWhatIsNil(t *testing.T) {
	var reader session.FileReader
	_, err := reader.Read(make([]byte, 1))
	require.ErrorContains(t, err, "no reader")
	require.NotErrorIs(t, err, io.EOF)
	_, err = reader.File()
	require.ErrorContains(t, err, "no reader")

	_, err = session.LastRepair(t.Context(), nil)
	require.ErrorContains(t, err, "the journal is nil")
	_, err = session.MarkRepaired(t.Context(), nil, time.Now())
	require.ErrorContains(t, err, "the journal is nil")
	_, err = session.Trace(session.Must(session.MainKey("main")), nil)
	var bad *session.LineageError
	require.ErrorAs(t, err, &bad)

	for _, err := range session.Committed(nil) {
		t.Error("a line of nothing", err)
	}
	for _, err := range session.View(nil) {
		t.Error("a line of nothing", err)
	}
}
