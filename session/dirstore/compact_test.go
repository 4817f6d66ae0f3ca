package dirstore_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/internal/disk/disktest"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/dirstore"
)

// A tree whose idle log, or the directory of it, cannot be written stays in the log. The others
// leave it.
func TestTreeWhoseIdleLogCannotBeWrittenStays(t *testing.T) {
	for _, kind := range []disktest.OpKind{disktest.OpSync, disktest.OpMkdir} {
		t.Run(string(kind), func(t *testing.T) {
			d := disktest.New()
			s := openOn(t, d)
			m := make(journalModel)
			for i := range 3 {
				b := batchOf(time.Time{}, false, "x")
				_, err := s.Journal.Append(t.Context(), treeKey(i), 0, b)
				require.NoError(t, err)
				m[treeKey(i)] = m.log(treeKey(i)).after(b)
			}
			failed := false
			d.Hook(func(op disktest.Op) error {
				below := strings.HasPrefix(op.Name, "/journal/idle/")
				if below && op.Kind == kind && !failed {
					failed = true
					return errDiskFull
				}
				return nil
			})
			require.ErrorIs(t, dirstore.MoveIdleTrees(s), errDiskFull)
			d.Hook(nil)
			_, trees := dirstore.LogSize(s)
			require.Equal(t, 1, trees)
			m.verify(t, s, "after")
		})
	}
}

// A tree that gets a batch while it moves to the idle logs stays in the log. Its idle log is out of
// date already.
func TestAppendDuringCompactionKeepsTreeInLog(t *testing.T) {
	d := disktest.New()
	s := openOn(t, d)
	r := newJournalRun()
	require.NoError(t, r.append(t.Context(), s, treeKey(1), batchOf(time.Time{}, false, "first")))
	onIdleLog(d, func() {
		assert.NoError(t,
			r.append(t.Context(), s, treeKey(1), batchOf(time.Time{}, false, "second")))
	})
	require.NoError(t, dirstore.Compact(s))
	verifyPutAway(t, s, d, r.m)
}

// A tree stays in the log too if the append has not ended when the tree has moved.
func TestAppendUnderWayDuringCompactionKeepsTreeInLog(t *testing.T) {
	d := disktest.New()
	s := openOn(t, d)
	r := newJournalRun()
	require.NoError(t, r.append(t.Context(), s, treeKey(1), batchOf(time.Time{}, false, "first")))
	writing, goOn, appended := make(chan struct{}), make(chan struct{}), make(chan error)
	onIdleLog(d, func() {
		d.Hook(func(op disktest.Op) error {
			if op.Kind == disktest.OpWrite {
				close(writing)
				<-goOn
			}
			return nil
		})
		go func() {
			appended <- r.append(t.Context(), s, treeKey(1),
				batchOf(time.Time{}, false, "second"))
		}()
		<-writing
	})
	require.NoError(t, dirstore.MoveIdleTrees(s))
	d.Hook(nil)
	close(goOn)
	require.NoError(t, <-appended)
	verifyPutAway(t, s, d, r.m)
}

// onIdleLog calls f once, right before the first idle log gets its name.
func onIdleLog(d *disktest.Disk, f func()) {
	d.Hook(func(op disktest.Op) error {
		if op.Kind == disktest.OpRename && strings.Contains(op.Name, "/idle/") {
			d.Hook(nil)
			f()
		}
		return nil
	})
}

// verifyPutAway fails unless all trees are complete, and the next compaction moves them to the idle
// logs.
func verifyPutAway(t *testing.T, s *session.Store, d *disktest.Disk, m journalModel) {
	t.Helper()
	m.verify(t, s, "after")
	m.verify(t, openOn(t, afterCrash(d)), "after a crash")
	require.NoError(t, dirstore.Compact(s))
	_, trees := dirstore.LogSize(s)
	assert.Zero(t, trees)
	m.verify(t, s, "put away")
	require.NoError(t, s.Close())
}

// A tree moves to the idle logs, the rewrite of the log fails, and an append copies the tree back.
// The log has it twice then, and only the second copy counts.
func TestTreeThatIsTwiceInTheLogCountsOnce(t *testing.T) {
	for _, reset := range []bool{false, true} {
		d := disktest.New()
		s := openOn(t, d)
		r := newJournalRun()
		require.NoError(t, r.append(t.Context(), s, treeKey(1), batchOf(testTime, false, "first", "second")))
		require.NoError(t, r.append(t.Context(), s, treeKey(1), batchOf(time.Time{}, false, "third")))
		d.Hook(func(op disktest.Op) error {
			if op.Kind == disktest.OpCreate && strings.HasPrefix(op.Name, "/journal/0") {
				return errDiskFull
			}
			return nil
		})
		require.ErrorIs(t, dirstore.Compact(s), errDiskFull)
		d.Hook(nil)
		_, trees := dirstore.LogSize(s)
		require.Zero(t, trees)
		require.NoError(t, r.append(t.Context(), s, treeKey(1), batchOf(testTime, reset, "fourth")))
		r.m.verify(t, s, "thawed")
		r.m.verify(t, openOn(t, afterCrash(d)), "after a crash")
		require.NoError(t, s.Close())
		r.m.verify(t, openOn(t, d), "opened again")
	}
}

// While an append reads an idle tree, other calls see the tree as it was.
func TestReadDuringAppendToIdleTree(t *testing.T) {
	d := disktest.New()
	s, files := idleTrees(t, d, 1)
	looking, looked := false, 0
	d.Hook(func(op disktest.Op) error {
		if looking || op.Name != files[0] || op.Kind != disktest.OpOpen {
			return nil
		}
		looking = true
		looked++
		l, err := readLog(t.Context(), s.Journal, treeKey(0))
		assert.NoError(t, err)
		assert.Equal(t, []string{"x"}, l.texts)
		roots, err := readRoots(t, s)
		assert.NoError(t, err)
		assert.ElementsMatch(t, []session.Key{treeKey(0), treeKey(1)}, roots)
		assert.NoError(t, dirstore.Compact(s))
		looking = false
		return nil
	})
	_, err := s.Journal.Append(t.Context(), treeKey(0), 1, batchOf(time.Time{}, false, "y"))
	require.NoError(t, err)
	assert.Equal(t, 1, looked)
	require.NoError(t, s.Close())
}
