package dirstore_test

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/internal/disk/disktest"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/dirstore"
)

// idleTrees opens a store in which n trees are idle and one is not, and returns the names of the
// files of those.
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
		_, err := s.Journal.Append(t.Context(), tree(i), 0, batchOf(time.Time{}, false, "x"))
		require.NoError(t, err)
	}
	_, err := s.Journal.Append(t.Context(), tree(n), 0, batchOf(noon, false, "due"))
	require.NoError(t, err)
	require.NoError(t, dirstore.Compact(s))
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
			require.NotZero(t, h.Last)
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

// An idle file that is another tree's is not read as this one's.
func TestIdleFileOfAnotherTree(t *testing.T) {
	d := disktest.New()
	s, files := idleTrees(t, d, 2)
	writeAll(t, d, files[1], readAll(t, d, files[0]))
	var errs error
	for i := range 2 {
		l, err := readLog(t.Context(), s.Journal, tree(i))
		if err == nil {
			_, err = s.Journal.Append(t.Context(), tree(i), l.last(), batchOf(noon, false, "y"))
			require.NoError(t, err)
			continue
		}
		errs = errors.Join(errs, err)
		_, err = s.Journal.Append(t.Context(), tree(i), 1, batchOf(noon, false, "y"))
		require.ErrorIs(t, err, session.ErrCorrupt)
	}
	require.ErrorIs(t, errs, session.ErrCorrupt)
	assert.ErrorContains(t, errs, files[1])
	require.NoError(t, s.Close())
}

// What a process has left that died while it put a tree away is removed when another tree is put
// there.
func TestIdleRemainsAreRemoved(t *testing.T) {
	d := disktest.New()
	s, files := idleTrees(t, d, 1)
	remains := files[0][:strings.LastIndex(files[0], "/")+1] + "0123.wal.tmp"
	writeAll(t, d, remains, []byte("half"))
	require.NoError(t, s.Close())
	s = openOn(t, d)
	_, err := s.Journal.Append(t.Context(), tree(0), 1, batchOf(time.Time{}, false, "y"))
	require.NoError(t, err)
	_, err = d.Lstat(remains)
	require.NoError(t, err, "nobody has looked")
	require.NoError(t, dirstore.Compact(s))
	_, err = d.Lstat(remains)
	require.ErrorIs(t, err, fs.ErrNotExist)
	l, err := readLog(t.Context(), s.Journal, tree(0))
	require.NoError(t, err)
	assert.Equal(t, []string{"x", "y"}, l.texts)
	require.NoError(t, s.Close())
}
