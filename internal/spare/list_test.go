package spare_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/internal/spare"
)

func TestList(t *testing.T) {
	t.Parallel()
	type piece struct{ text string }
	var l spare.List[piece]
	require.Equal(t, &piece{}, l.Take())
	old := &piece{"old"}
	l.Keep(old)
	require.Equal(t, "old", old.text, "it stays until it is taken")
	require.Equal(t, []*piece{old}, slices.Collect(l.All))
	require.Same(t, old, l.Take())
	require.Empty(t, old.text)
	for range 2 * spare.Max {
		l.Keep(new(piece))
	}
	require.Len(t, slices.Collect(l.All), spare.Max)
	for range l.All {
		break // one that has enough
	}
}
