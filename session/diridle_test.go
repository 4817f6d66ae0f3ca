package session_test

import (
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/internal/disk/disktest"
	"github.com/offshoot-sdk/offshoot/session"
)

// idleTrees opens a store in which n trees are idle and one is not, and returns the names of the files of those.
func idleTrees(t *testing.T, d *disktest.Disk, n int) (s *session.Store, files []string) {
	t.Helper()
	s = openOn(t, d)
	d.Hook(func(op disktest.Op) error {
		if op.Kind == disktest.OpRename && strings.HasPrefix(op.Name, "/journal/idle/") {
			files = append(files, strings.TrimSuffix(op.Name, ".tmp"))
		}
		return nil
	})
	for i := range n {
		_, err := s.Journal.Append(t.Context(), tree(i), 0, dirBatch(time.Time{}, false, "x"))
		require.NoError(t, err)
	}
	_, err := s.Journal.Append(t.Context(), tree(n), 0, dirBatch(dirNoon, false, "due"))
	require.NoError(t, err)
	require.NoError(t, session.CompactDir(s))
	d.Hook(nil)
	require.Len(t, files, n)
	slices.Sort(files)
	return s, files
}

// yielded returns which trees Roots yields, and with which error it ends.
func yielded(t *testing.T, s *session.Store) (roots []session.Key, last error) {
	t.Helper()
	for h, err := range s.Journal.Roots(t.Context(), session.RootQuery{}) {
		require.NoError(t, last, "nothing comes after an error")
		if last = err; err == nil {
			roots = append(roots, h.Root)
		}
	}
	return roots, last
}

// An idle tree that is rot, or that the disk cannot read, hides no other.
func TestRottenIdleTreeHidesNoOther(t *testing.T) {
	d := disktest.New()
	s, files := idleTrees(t, d, 20)
	writeAll(t, d, files[0], []byte("rot"))
	roots, err := yielded(t, s)
	assert.Len(t, roots, 20)
	var corrupt *session.CorruptError
	require.ErrorAs(t, err, &corrupt)
	assert.Equal(t, files[0], corrupt.File)
	assert.NotContains(t, err.Error(), "first of")

	writeAll(t, d, files[7], []byte("rot"))
	roots, err = yielded(t, s)
	assert.Len(t, roots, 19)
	require.ErrorAs(t, err, &corrupt)
	assert.Equal(t, files[0], corrupt.File)
	assert.ErrorContains(t, err, "first of 2,")

	shard := files[3][:strings.LastIndex(files[3], "/")]
	d.Hook(func(op disktest.Op) error {
		if op.Name == shard || op.Name == files[5] {
			return syscall.EIO
		}
		return nil
	})
	roots, err = yielded(t, s)
	assert.Len(t, roots, 17)
	assert.ErrorContains(t, err, "first of 4,")
	require.ErrorIs(t, err, session.ErrCorrupt)
	d.Hook(nil)
	require.NoError(t, s.Close())
}
