package dirstore_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/internal/disk/disktest"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/dirstore"
)

// The parts of a directory that may be missing, each with the beginning of the paths of its files.
var storeParts = []string{
	"/journal/00000002.wal", "/journal/00000001.wal", "/journal/closed.wal", "/journal/idle",
	"/lock", "/sessions/", "/journal/members",
}

// newStoreParts returns a disk with all storeParts: two trees of three batches, of which the second
// is idle, a transcript, and an older log with two batches of each tree.
func newStoreParts(t *testing.T) *disktest.Disk {
	t.Helper()
	d := disktest.New()
	s := openOn(t, d)
	var old []byte
	for n := range session.Seq(3) {
		for i, due := range []time.Time{testTime, {}} {
			b := batchOf(due, false, "fact")
			_, err := s.Journal.Append(t.Context(), treeKey(i), n, b)
			require.NoError(t, err)
		}
		if n == 1 {
			old = readAll(t, d, "/journal/00000001.wal")
		}
	}
	appendTexts(t, s, testRef("x"), 0, "one")
	require.NoError(t, dirstore.Compact(s))
	require.NoError(t, s.Close())
	writeAll(t, d, "/journal/00000001.wal", old)
	writeAll(t, d, "/lock", []byte("{}\n"))
	return d
}

// lenOfTrees returns how many entries the two trees of newStoreParts have.
func lenOfTrees(t *testing.T, s *session.Store, what string) (n [2]int) {
	t.Helper()
	for i := range n {
		log, err := readLog(t.Context(), s.Journal, treeKey(i))
		require.NoError(t, err, what)
		n[i] = len(log.texts)
	}
	return n
}

// R16: whatever was removed from a directory, Repair makes a Store of the rest that opens and has
// the idle trees, or says that there is nothing of a Store. A repair that changes the journal
// leaves a mark. A tool that looks is not told that there is no Store if there is something of one.
func TestRepairOfMissingFiles(t *testing.T) {
	whole := newStoreParts(t)
	for set := range 1 << len(storeParts) {
		d := whole.Crash(func(int) bool { return true })
		has := func(part int) bool { return set>>part&1 == 1 }
		var removed []string
		for name := range diskFiles(t, whole, "/") {
			part := slices.IndexFunc(storeParts, func(p string) bool {
				return strings.HasPrefix(name, p)
			})
			require.GreaterOrEqual(t, part, 0, name)
			if !has(part) {
				require.NoError(t, d.Remove(name))
				removed = append(removed, name)
			}
		}
		slices.Sort(removed)
		log, old, mark, idle, members := has(0), has(1), has(2), has(3), has(6)
		what := fmt.Sprint("without ", removed)
		before := diskFiles(t, d, "/")
		_, damage, err := dirstore.ViewIntactOn(d, "/")
		if set == 0 {
			require.ErrorIs(t, err, fs.ErrNotExist)
			_, missing := errors.AsType[*dirstore.MissingLogError](err)
			require.False(t, missing)
			_, err = dirstore.RepairOn(t.Context(), d, "/")
			require.ErrorIs(t, err, fs.ErrNotExist)
			require.Empty(t, diskFiles(t, d, "/"), "nothing was made")
			continue
		}
		opens := log || old && !mark
		switch {
		case opens:
			require.NoError(t, damage, what)
			require.NoError(t, err, what)
		case mark || idle:
			require.NoError(t, err, what)
			require.ErrorIs(t, damage, session.ErrCorrupt, what)
			_, openErr := dirstore.OpenOn(d, "/")
			require.ErrorIs(t, openErr, session.ErrCorrupt, what)
		default:
			var missing *dirstore.MissingLogError
			require.ErrorAs(t, err, &missing, what)
			require.Contains(t, before, "/"+missing.Found, what)
			require.ErrorContains(t, err, "put the log back, or have Repair", what)
		}
		require.Equal(t, before, diskFiles(t, d, "/"), what)
		done := repair(t, d, what)
		indexed := members || !idle || !log // the older log has the tree
		require.Equal(t, opens && indexed, len(done.Files) == 0, what)
		require.Equal(t, opens, len(done.Unknown) == 0, what)
		s := openOn(t, d)
		repaired, err := session.LastRepair(t.Context(), s.Journal)
		require.NoError(t, err, what)
		require.Equal(t, opens, repaired.ID == "", what)
		want := [2]int{}
		switch {
		case log:
			want = [2]int{3, 0}
		case old:
			want = [2]int{2, 2}
		}
		if idle && (log || mark || !old) { // nothing tells that the log is an old one
			want[1] = 3
		}
		require.Equal(t, want, lenOfTrees(t, s, what), what)
		require.NoError(t, s.Close())
	}
}

// The directory of the journal itself was removed. Repair makes it again, under the lock.
func TestRepairMakesMissingJournal(t *testing.T) {
	dir := t.TempDir()
	s := openDir(t, dir)
	appendTexts(t, s, testRef("x"), 0, "one")
	require.NoError(t, s.Close())
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "journal")))
	var missing *dirstore.MissingLogError
	for _, err := range dirstore.Verify(t.Context(), dir) {
		require.ErrorAs(t, err, &missing)
	}
	require.Equal(t, filepath.Join("sessions", "main", "x.jsonl"), missing.Found)
	done, err := dirstore.Repair(t.Context(), dir)
	require.NoError(t, err)
	require.Len(t, done.Files, 1)
	done, err = dirstore.Repair(t.Context(), dir)
	require.NoError(t, err)
	require.Zero(t, done)
	s = openDir(t, dir)
	require.Equal(t, []string{"one"}, lineTexts(t, s, testRef("x")))
	require.NoError(t, s.Close())
}

// A log of another Store has the name of the one that was closed. Repair puts it aside and takes no
// tree from it, whether its header is intact or not.
func TestRepairTakesNoForeignLog(t *testing.T) {
	other := readAll(t, newStoreParts(t), "/journal/00000002.wal")
	for _, broken := range []bool{false, true} {
		d := newStoreParts(t)
		b := slices.Clone(other)
		if broken {
			b[0] ^= 1
		}
		writeAll(t, d, "/journal/00000002.wal", b)
		done := repair(t, d, "foreign")
		require.Len(t, done.Files, 1)
		require.Equal(t, b, readAll(t, d, "/"+done.Files[0].Aside[0]))
		if !broken {
			require.ErrorContains(t, done.Files[0].Err, "not the log that was closed")
		}
		s := openOn(t, d)
		require.Equal(t, [2]int{0, 3}, lenOfTrees(t, s, "foreign"))
		require.NoError(t, s.Close())
	}
}
