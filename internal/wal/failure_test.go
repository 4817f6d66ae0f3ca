package wal_test

import (
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/internal/disk/disktest"
	"github.com/offshoot-sdk/offshoot/internal/wal"
)

// A failed write leaves nothing in the log, whatever part of it was written. The next write
// succeeds.
func TestFailedWriteLeavesNothing(t *testing.T) {
	full := func(written int) error {
		return &disktest.ShortError{Written: written, Err: syscall.ENOSPC}
	}
	for _, written := range []int{0, 1, 39, 40, 60} {
		for _, cutFails := range []bool{false, true} {
			d := disktest.New()
			l, _ := mustOpen(t, d, "/")
			appendTexts(t, l, "before")
			d.Hook(func(op disktest.Op) error {
				switch {
				case op.Kind == disktest.OpWrite:
					return full(written)
				case op.Kind == disktest.OpTruncate && cutFails:
					return syscall.EIO
				}
				return nil
			})
			for range 3 {
				err := l.Append(t.Context(), textRecords("lost "+strings.Repeat("x", 100)), ignoreResult)
				require.Error(t, err)
				require.NotErrorIs(t, err, wal.ErrSync)
			}
			_, texts := mustOpen(t, d.Crash(func(int) bool { return true }), "/")
			assert.Equal(t, []string{"before"}, texts)
			d.Hook(nil)
			appendTexts(t, l, "after")
			require.NoError(t, l.Err())
			_, texts = mustOpen(t, d.Crash(func(int) bool { return false }), "/")
			assert.Equal(t, []string{"before", "after"}, texts)
			require.NoError(t, l.Close())
		}
	}
}

// After a failed sync, the Log acknowledges nothing more, although the next sync would succeed.
func TestFailedSyncEndsAppends(t *testing.T) {
	d := disktest.New()
	l, _ := mustOpen(t, d, "/")
	appendTexts(t, l, "before")
	failSync(t, d, l)
	for range 3 {
		require.ErrorIs(t, l.Append(t.Context(), textRecords("refused"), ignoreResult), wal.ErrSync)
	}
	require.ErrorIs(t, l.Rewrite(wal.Rewriter{Begin: func() {}}), wal.ErrSync)
	require.ErrorIs(t, l.Err(), wal.ErrSync)
	require.NoError(t, l.Close())

	// Reads show bytes that the disk does not have. Open must write them again.
	l, texts := mustOpen(t, d, "/")
	assert.Equal(t, []string{"before", "unknown"}, texts)
	appendTexts(t, l, "after")
	_, texts = mustOpen(t, d.Crash(func(int) bool { return false }), "/")
	assert.Equal(t, []string{"before", "unknown", "after"}, texts)
	require.NoError(t, l.Close())
}

// The Log treats a failed sync of a cut like any failed sync.
func TestFailedCutEndsAppends(t *testing.T) {
	d := disktest.New()
	l, _ := mustOpen(t, d, "/")
	d.Hook(func(op disktest.Op) error {
		switch op.Kind {
		case disktest.OpWrite:
			return &disktest.ShortError{Written: 3, Err: syscall.ENOSPC}
		case disktest.OpSync:
			return syscall.EIO
		}
		return nil
	})
	require.ErrorIs(t, l.Append(t.Context(), textRecords("x"), ignoreResult), syscall.ENOSPC)
	require.ErrorIs(t, l.Append(t.Context(), textRecords("x"), ignoreResult), wal.ErrSync)
	require.NoError(t, l.Close())
}

// A write fails after it has written two frames. The next append has the length of the first one.
// The second frame is not replayed behind it.
func TestAppendAfterFailedWriteHidesItsFrames(t *testing.T) {
	d, l := withRemains(t, "lost1", "lost2")
	appendTexts(t, l, "after")
	_, texts := mustOpen(t, d.Crash(func(int) bool { return true }), "/")
	assert.Equal(t, []string{"before", "after"}, texts)
}

// A write fails after it has written two frames. The seal of Close has the length of the first one.
// The second frame is not replayed behind it.
func TestSealAfterFailedWriteHidesItsFrames(t *testing.T) {
	d, l := withRemains(t, "", "lost")
	require.NoError(t, l.Close())
	_, texts := mustOpen(t, d, "/")
	assert.Equal(t, []string{"before"}, texts)
}

// An append that waits while a sync fails is not written.
func TestFailedSyncRefusesWaitingAppends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := disktest.New()
		l, _ := mustOpen(t, d, "/")
		hang := make(chan error)
		d.Hook(hangingSync(hang))
		answers := make(chan error, 2)
		go func() { answers <- l.Append(t.Context(), textRecords("unknown"), ignoreResult) }()
		synctest.Wait()
		go func() { answers <- l.Append(t.Context(), textRecords("waits"), ignoreResult) }()
		synctest.Wait()
		hang <- syscall.EIO
		close(hang)
		for range 2 {
			require.ErrorIs(t, <-answers, wal.ErrSync)
		}
		require.NoError(t, l.Close())
	})
}

// The frames that Open replays are durable when it returns.
func TestOpenReturnsDurableFrames(t *testing.T) {
	d := disktest.New()
	l, _ := mustOpen(t, d, "/")
	appendTexts(t, l, "before")
	failSync(t, d, l)
	_, texts := mustOpen(t, d, "/")
	_, again := mustOpen(t, d.Crash(func(int) bool { return false }), "/")
	assert.Equal(t, texts, again)
}
