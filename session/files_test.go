package session_test

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session"
)

// A readerFunc is a function that is an io.Reader.
type readerFunc func(b []byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

// A reader that breaks the rules of io.Reader is an error, and nothing is kept of it.
func TestPutOfABrokenReader(t *testing.T) {
	files := session.NewMemory().Files
	ref := session.Ref{Key: session.Must(session.MainKey("main")), SessionID: "x"}
	for name, r := range map[string]io.Reader{
		"nil":      nil,
		"negative": readerFunc(func([]byte) (int, error) { return -1, nil }),
		"too many": readerFunc(func(b []byte) (int, error) { return len(b) + 1, io.EOF }),
	} {
		_, err := files.Put(t.Context(), ref, r, session.File{})
		require.Error(t, err, name)
	}
	for f, err := range files.List(t.Context(), ref) {
		t.Errorf("%v is kept, %v", f, err)
	}
}
