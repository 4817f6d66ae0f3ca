package dirstore_test

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
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

// rootsOf returns the trees that a member leads to.
func rootsOf(t *testing.T, s *session.Store, text string) (roots []session.Key) {
	t.Helper()
	q := session.RootQuery{Member: memberKey(text)}
	for h, err := range s.Journal.Roots(t.Context(), q) {
		require.NoError(t, err)
		roots = append(roots, h.Root)
	}
	return roots
}

// indexFiles returns the files of the index of members.
func indexFiles(t *testing.T, d *disktest.Disk) (names []string) {
	t.Helper()
	for name := range diskFiles(t, d, "/journal") {
		if path.Dir(name) == "/journal/members" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// R18: compactions merge the files of the index, so that there are few of them, and a member of an
// idle tree is found in a few reads. Opening reads none of them.
func TestMembersOfManyIdleTrees(t *testing.T) {
	d := disktest.New()
	s := openOn(t, d)
	const rounds, trees = 40, 25
	for round := range rounds {
		for i := range trees {
			n := round*trees + i
			b := batchOf(time.Time{}, false, fmt.Sprint("member ", n))
			_, err := s.Journal.Append(t.Context(), treeKey(n), 0, b)
			require.NoError(t, err)
		}
		require.NoError(t, dirstore.Compact(s))
		require.LessOrEqual(t, len(indexFiles(t, d)), 5, "after %d compactions", round+1)
	}
	require.NoError(t, s.Close())
	indexReads, reads := 0, 0
	d.Hook(func(op disktest.Op) error {
		if strings.HasPrefix(op.Name, "/journal/members") {
			indexReads++
		}
		reads++
		return nil
	})
	s = openOn(t, d)
	require.Zero(t, indexReads, "opening does not read the index")
	view, err := dirstore.ViewOn(d, "/")
	require.NoError(t, err)
	for _, s := range []*session.Store{s, view} {
		for n := range rounds * trees {
			reads = 0
			require.Equal(t, []session.Key{treeKey(n)}, rootsOf(t, s, fmt.Sprint("member ", n)))
			require.Less(t, reads, 100)
		}
		reads = 0
		require.Empty(t, rootsOf(t, s, "no member"))
		require.Less(t, reads, 100)
	}
	require.NoError(t, s.Close())
}

// A tree that becomes idle again brings its members anew. What a snapshot has dropped leaves the
// index when files are merged.
func TestMembersOfTreesThatBecomeIdleAgain(t *testing.T) {
	d := disktest.New()
	s := openOn(t, d)
	at := make(map[int]session.Seq)
	add := func(n int, due time.Time, reset bool, text string) {
		t.Helper()
		last, err := s.Journal.Append(t.Context(), treeKey(n), at[n], batchOf(due, reset, text))
		require.NoError(t, err)
		at[n] = last
	}
	add(1, time.Time{}, false, "old")
	add(1, time.Time{}, false, "kept")
	require.NoError(t, dirstore.Compact(s))
	add(1, testTime, false, "active")
	for _, text := range []string{"old", "kept", "active"} {
		require.Equal(t, []session.Key{treeKey(1)}, rootsOf(t, s, text))
	}
	require.NoError(t, dirstore.Compact(s))
	add(1, time.Time{}, true, "snapshot")
	require.NoError(t, dirstore.Compact(s))
	require.Equal(t, []session.Key{treeKey(1)}, rootsOf(t, s, "snapshot"))
	require.Empty(t, rootsOf(t, s, "old"), "the snapshot does not name it")
	require.Len(t, indexFiles(t, d), 1)
	require.NoError(t, s.Close())
	done, err := dirstore.RepairOn(t.Context(), d, "/")
	require.NoError(t, err)
	require.Zero(t, done, "nothing is damaged")
}

// A directory that an earlier version wrote has no members and no index. It opens, and its trees
// are found by the members that are named when they are opened again.
func TestMembersAreNewToADirectory(t *testing.T) {
	d := disktest.New()
	s := openOn(t, d)
	for n, due := range []time.Time{testTime, {}} {
		b := batchOf(due, false, "old")
		b.Members = nil
		_, err := s.Journal.Append(t.Context(), treeKey(n), 0, b)
		require.NoError(t, err)
	}
	require.NoError(t, dirstore.Compact(s))
	require.Empty(t, indexFiles(t, d))
	require.NoError(t, s.Close())
	s = openOn(t, d)
	require.Empty(t, rootsOf(t, s, "old"))
	for n, due := range []time.Time{testTime, {}} {
		b := batchOf(due, false, fmt.Sprint("opened ", n))
		b.Members = append(b.Members, memberKey("old"))
		_, err := s.Journal.Append(t.Context(), treeKey(n), 1, b)
		require.NoError(t, err)
	}
	require.NoError(t, dirstore.Compact(s))
	require.ElementsMatch(t, []session.Key{treeKey(0), treeKey(1)}, rootsOf(t, s, "old"))
	require.NoError(t, s.Close())
}

// Rot in the index hides no tree that is found without it, and is an error. The same holds for a
// disk that fails. A compaction goes on without what it cannot read.
func TestRotInTheIndexOfMembers(t *testing.T) {
	d := disktest.New()
	s, _ := idleTrees(t, d, 3) // each has the member x
	_, err := s.Journal.Append(t.Context(), treeKey(9), 0, batchOf(testTime, false, "x"))
	require.NoError(t, err)
	names := indexFiles(t, d)
	require.Len(t, names, 1)
	look := func() (roots []session.Key, last error) {
		for h, err := range s.Journal.Roots(t.Context(), session.RootQuery{Member: memberKey("x")}) {
			require.NoError(t, last, "nothing comes after an error")
			if last = err; err == nil {
				roots = append(roots, h.Root)
			}
		}
		return roots, last
	}
	roots, err := look()
	require.NoError(t, err)
	require.Len(t, roots, 4)
	d.Hook(func(op disktest.Op) error {
		if op.Name == names[0] {
			return syscall.EIO
		}
		return nil
	})
	roots, err = look()
	require.ErrorIs(t, err, syscall.EIO)
	require.Equal(t, []session.Key{treeKey(9)}, roots)
	d.Hook(nil)
	whole := readAll(t, d, names[0])
	for at := range whole {
		b := slices.Clone(whole)
		b[at] ^= 0x20
		writeAll(t, d, names[0], b)
		roots, err = look()
		if err != nil {
			require.True(t, errors.Is(err, session.ErrCorrupt) || errors.Is(err, session.ErrFormat),
				"byte %d: %v", at, err)
			require.Equal(t, []session.Key{treeKey(9)}, roots)
		} else {
			require.Len(t, roots, 4, "byte %d: it is not one of the frame", at)
		}
	}
	_, err = s.Journal.Append(t.Context(), treeKey(10), 0, batchOf(time.Time{}, false, "y"))
	require.NoError(t, err)
	writeAll(t, d, names[0], []byte("rot"))
	require.NoError(t, dirstore.Compact(s))
	require.NoError(t, s.Close())
	done := repair(t, d, "rot")
	require.Len(t, done.Files, 1)
	s = openOn(t, d)
	roots, err = look()
	require.NoError(t, err)
	require.Len(t, roots, 4)
	require.Equal(t, []session.Key{treeKey(10)}, rootsOf(t, s, "y"))
	require.NoError(t, s.Close())
}

// Temporary files of dead processes are removed, and files of other programs are left alone.
func TestOtherFilesBesideTheIndexOfMembers(t *testing.T) {
	d := disktest.New()
	s, _ := idleTrees(t, d, 2)
	dead, other := "/journal/members/00000009.idx.tmp", "/journal/members/9.idx"
	writeAll(t, d, dead, []byte("half"))
	writeAll(t, d, other, []byte("mine"))
	_, err := s.Journal.Append(t.Context(), treeKey(5), 0, batchOf(time.Time{}, false, "y"))
	require.NoError(t, err)
	require.NoError(t, dirstore.Compact(s))
	_, err = d.Lstat(dead)
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.True(t, fileExists(d, other))
	assert.Equal(t, []session.Key{treeKey(5)}, rootsOf(t, s, "y"))
	require.NoError(t, s.Close())
}
