package announce_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// vectors reads one file of reference vectors, or skips the test where there are none.
func vectors[T any](t *testing.T, name string) []T {
	t.Helper()
	dir := os.Getenv("OFFSHOOT_VECTORS")
	if dir == "" {
		t.Skip("OFFSHOOT_VECTORS is not set")
	}
	data, err := os.ReadFile(filepath.Join(dir, name))
	require.NoError(t, err)
	var rows []T
	require.NoError(t, json.Unmarshal(data, &rows))
	require.NotEmpty(t, rows)
	return rows
}

// A difference is where we knowingly give another answer than the reference.
type difference struct{ want, reason string }

// differences makes sure that every listed difference still is one.
type differences map[string]difference

func (d differences) check(t *testing.T, name, reference, got string) {
	t.Helper()
	want, ok := d[name]
	if !ok {
		require.Equal(t, reference, got, "row %q", name)
		return
	}
	require.NotEqual(t, reference, got, "row %q agrees; take it off the list", name)
	require.Equal(t, want.want, got, "row %q: %s", name, want.reason)
}
