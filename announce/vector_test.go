package announce_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A difference is an answer of Offshoot that differs from that of the reference system on purpose.
type difference struct{ want, reason string }

// differences are the known differences, by the name of the row.
type differences map[string]difference

// check compares an answer with the reference. A row that is listed must differ from it, with the
// listed answer.
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
