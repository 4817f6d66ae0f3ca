package announce_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

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
