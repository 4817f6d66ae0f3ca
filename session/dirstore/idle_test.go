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

// idleTrees opens a store with n idle trees and one that is due. It returns the paths of the idle
// logs.
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
		_, err := s.Journal.Append(t.Context(), treeKey(i), 0, batchOf(time.Time{}, false, "x"))
		require.NoError(t, err)
	}
	_, err := s.Journal.Append(t.Context(), treeKey(n), 0, batchOf(testTime, false, "due"))
	require.NoError(t, err)
	require.NoError(t, dirstore.Compact(s))
	d.Hook(nil)
	require.Len(t, files, n)
	slices.Sort(files)
	return s, files
}

// readRoots returns the trees that Roots yields, and the error at the end.
func readRoots(t *testing.T, s *session.Store) (roots []session.Key, last error) {
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

// Roots yields the other trees if an idle log has rotted or cannot be read.
func TestRottenIdleTreeHidesNoOther(t *testing.T) {
	d := disktest.New()
	s, files := idleTrees(t, d, 20)
	writeAll(t, d, files[0], []byte("rot"))
	roots, err := readRoots(t, s)
	assert.Len(t, roots, 20)
	var corrupt *session.CorruptError
	require.ErrorAs(t, err, &corrupt)
	assert.Equal(t, files[0], corrupt.File)
	assert.NotContains(t, err.Error(), "first of")

	writeAll(t, d, files[7], []byte("rot"))
	roots, err = readRoots(t, s)
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
	roots, err = readRoots(t, s)
	assert.Len(t, roots, 17)
	assert.ErrorContains(t, err, "first of 4,")
	require.ErrorIs(t, err, session.ErrCorrupt)
	d.Hook(nil)
	require.NoError(t, s.Close())
}

// A file with the name of one tree and the content of another is not read as either.
func TestIdleLogOfAnotherTreeIsRefused(t *testing.T) {
	d := disktest.New()
	s, files := idleTrees(t, d, 2)
	writeAll(t, d, files[1], readAll(t, d, files[0]))
	var errs error
	for i := range 2 {
		l, err := readLog(t.Context(), s.Journal, treeKey(i))
		if err == nil {
			_, err = s.Journal.Append(t.Context(), treeKey(i), l.last(),
				batchOf(testTime, false, "y"))
			require.NoError(t, err)
			continue
		}
		errs = errors.Join(errs, err)
		_, err = s.Journal.Append(t.Context(), treeKey(i), 1, batchOf(testTime, false, "y"))
		require.ErrorIs(t, err, session.ErrCorrupt)
	}
	require.ErrorIs(t, errs, session.ErrCorrupt)
	assert.ErrorContains(t, errs, files[1])
	require.NoError(t, s.Close())
}

// The next compaction that writes to a directory of idle logs removes the temporary files of dead
// processes there.
func TestTemporaryIdleLogsAreRemoved(t *testing.T) {
	d := disktest.New()
	s, files := idleTrees(t, d, 1)
	remains := files[0][:strings.LastIndex(files[0], "/")+1] + "0123.wal.tmp"
	writeAll(t, d, remains, []byte("half"))
	require.NoError(t, s.Close())
	s = openOn(t, d)
	_, err := s.Journal.Append(t.Context(), treeKey(0), 1, batchOf(time.Time{}, false, "y"))
	require.NoError(t, err)
	_, err = d.Lstat(remains)
	require.NoError(t, err, "no compaction has run yet")
	require.NoError(t, dirstore.Compact(s))
	_, err = d.Lstat(remains)
	require.ErrorIs(t, err, fs.ErrNotExist)
	l, err := readLog(t.Context(), s.Journal, treeKey(0))
	require.NoError(t, err)
	assert.Equal(t, []string{"x", "y"}, l.texts)
	require.NoError(t, s.Close())
}
