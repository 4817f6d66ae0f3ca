package tree

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session"
)

// What names a run may be asked from any goroutine while a reset replaces its specification: a turn
// that has ended, the lane and a caller that waits do. That nothing is written which they read is
// for -race to see. It holds for a tree that was read from an image, too.
func TestKeyDuringAReset(t *testing.T) {
	born := New(top, &Options{})
	require.NoError(t, born.Apply(&Fact{Kind: Opened, At: 1, Num: 1, FactMore: &FactMore{ID: "first"}}))
	image := &Fact{Kind: Snapshot, At: 2, FactMore: &FactMore{Image: born.Image()}}
	restored := New(top, &Options{})
	require.NoError(t, restored.Apply(image))
	for _, tr := range []*Tree{born, restored} {
		root, asked := tr.Root(), make(chan session.Key)
		go func() {
			if root.IsRoot() {
				asked <- root.Key()
			}
			close(asked)
		}()
		f := reset(3, root, "second", "")
		require.NoError(t, tr.Apply(&f))
		require.Equal(t, top, <-asked)
		require.Equal(t, "second", root.Spec.SessionID)
	}
}
