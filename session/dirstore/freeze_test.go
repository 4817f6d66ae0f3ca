package dirstore_test

import (
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

// A tree to which somebody appends while it is being put away stays in the log: the idle log is
// already out of date.
func TestAppendWhileTreeIsPutAway(t *testing.T) {
	d := disktest.New()
	s := openOn(t, d)
	r := &journalRun{m: make(journalModel)}
	require.NoError(t, r.append(t.Context(), s, tree(1), batchOf(time.Time{}, false, "first")))
	onIdleLog(d, func() { assert.NoError(t, r.append(t.Context(), s, tree(1), batchOf(time.Time{}, false, "second"))) })
	require.NoError(t, dirstore.Compact(s))
	verifyPutAway(t, s, d, r.m)
}

// It does not matter whether the append has ended by then.
func TestAppendUnderWayWhileTreeIsPutAway(t *testing.T) {
	d := disktest.New()
	s := openOn(t, d)
	r := &journalRun{m: make(journalModel)}
	require.NoError(t, r.append(t.Context(), s, tree(1), batchOf(time.Time{}, false, "first")))
	writing, goOn, appended := make(chan struct{}), make(chan struct{}), make(chan error)
	onIdleLog(d, func() {
		d.Hook(func(op disktest.Op) error {
			if op.Kind == disktest.OpWrite {
				close(writing)
				<-goOn
			}
			return nil
		})
		go func() { appended <- r.append(t.Context(), s, tree(1), batchOf(time.Time{}, false, "second")) }()
		<-writing
	})
	require.NoError(t, dirstore.Freeze(s))
	d.Hook(nil)
	close(goOn)
	require.NoError(t, <-appended)
	verifyPutAway(t, s, d, r.m)
}

// onIdleLog calls f once, when the first idle log has been written and is about to get its name.
func onIdleLog(d *disktest.Disk, f func()) {
	d.Hook(func(op disktest.Op) error {
		if op.Kind == disktest.OpRename && strings.Contains(op.Name, "/idle/") {
			d.Hook(nil)
			f()
		}
		return nil
	})
}

// verifyPutAway fails unless everything is there, and is put away the next time.
func verifyPutAway(t *testing.T, s *session.Store, d *disktest.Disk, m journalModel) {
	t.Helper()
	m.verify(t, s, "after")
	m.verify(t, openOn(t, d.Crash(func(int) bool { return false })), "after a crash")
	require.NoError(t, dirstore.Compact(s))
	_, trees := dirstore.LogSize(s)
	assert.Zero(t, trees)
	m.verify(t, s, "put away")
	require.NoError(t, s.Close())
}

// A tree that was put aside although the log could not be rewritten, and comes back, is in the log
// twice. Only the second counts.
func TestThawBesideOldFrames(t *testing.T) {
	for _, reset := range []bool{false, true} {
		d := disktest.New()
		s := openOn(t, d)
		r := &journalRun{m: make(journalModel)}
		require.NoError(t, r.append(t.Context(), s, tree(1), batchOf(noon, false, "first", "second")))
		require.NoError(t, r.append(t.Context(), s, tree(1), batchOf(time.Time{}, false, "third")))
		d.Hook(func(op disktest.Op) error {
			if op.Kind == disktest.OpCreate && strings.HasPrefix(op.Name, "/journal/0") {
				return syscall.ENOSPC
			}
			return nil
		})
		require.ErrorIs(t, dirstore.Compact(s), syscall.ENOSPC)
		d.Hook(nil)
		_, trees := dirstore.LogSize(s)
		require.Zero(t, trees)
		require.NoError(t, r.append(t.Context(), s, tree(1), batchOf(noon, reset, "fourth")))
		r.m.verify(t, s, "thawed")
		r.m.verify(t, openOn(t, d.Crash(func(int) bool { return false })), "after a crash")
		require.NoError(t, s.Close())
		r.m.verify(t, openOn(t, d), "opened again")
	}
}

// While an idle tree is being read for an append, everybody else sees it as it was.
func TestReadWhileThawing(t *testing.T) {
	d := disktest.New()
	s, files := idleTrees(t, d, 1)
	looking, looked := false, 0
	d.Hook(func(op disktest.Op) error {
		if looking || op.Name != files[0] || op.Kind != disktest.OpOpen {
			return nil
		}
		looking = true
		looked++
		l, err := readLog(t.Context(), s.Journal, tree(0))
		assert.NoError(t, err)
		assert.Equal(t, []string{"x"}, l.texts)
		roots, err := yielded(t, s)
		assert.NoError(t, err)
		assert.ElementsMatch(t, []session.Key{tree(0), tree(1)}, roots)
		assert.NoError(t, dirstore.Compact(s))
		looking = false
		return nil
	})
	_, err := s.Journal.Append(t.Context(), tree(0), 1, batchOf(time.Time{}, false, "y"))
	require.NoError(t, err)
	assert.Equal(t, 1, looked)
	require.NoError(t, s.Close())
}
