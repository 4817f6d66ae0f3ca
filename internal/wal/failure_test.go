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

// A write that fails leaves nothing, whatever part of it was written, and the next one succeeds.
func TestFailedWrite(t *testing.T) {
	full := func(written int) error { return &disktest.ShortError{Written: written, Err: syscall.ENOSPC} }
	for _, written := range []int{0, 1, 39, 40, 60} {
		for _, cutFails := range []bool{false, true} {
			d := disktest.New()
			l, _ := mustOpen(t, d, "/")
			add(t, l, "before")
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
				err := l.Append(t.Context(), records("lost "+strings.Repeat("x", 100)), ignore)
				require.Error(t, err)
				require.NotErrorIs(t, err, wal.ErrSync)
			}
			_, texts := mustOpen(t, d.Crash(func(int) bool { return true }), "/")
			assert.Equal(t, []string{"before"}, texts)
			d.Hook(nil)
			add(t, l, "after")
			require.NoError(t, l.Err())
			_, texts = mustOpen(t, d.Crash(func(int) bool { return false }), "/")
			assert.Equal(t, []string{"before", "after"}, texts)
			require.NoError(t, l.Close())
		}
	}
}

// After a sync that failed nothing is acknowledged any more, although the next sync would say that all is well.
func TestFailedSync(t *testing.T) {
	d := disktest.New()
	l, _ := mustOpen(t, d, "/")
	add(t, l, "before")
	failSync(t, d, l)
	for range 3 {
		require.ErrorIs(t, l.Append(t.Context(), records("refused"), ignore), wal.ErrSync)
	}
	require.ErrorIs(t, l.Rewrite(wal.Rewriter{Begin: func() {}}), wal.ErrSync)
	require.ErrorIs(t, l.Err(), wal.ErrSync)
	require.NoError(t, l.Close())

	// The system shows what the disk does not have. Opening must not believe it.
	l, texts := mustOpen(t, d, "/")
	assert.Equal(t, []string{"before", "unknown"}, texts)
	add(t, l, "after")
	_, texts = mustOpen(t, d.Crash(func(int) bool { return false }), "/")
	assert.Equal(t, []string{"before", "unknown", "after"}, texts)
	require.NoError(t, l.Close())
}

// A failed write whose remains cannot be made to disappear durably is as bad as a failed sync.
func TestFailedCut(t *testing.T) {
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
	require.ErrorIs(t, l.Append(t.Context(), records("x"), ignore), syscall.ENOSPC)
	require.ErrorIs(t, l.Append(t.Context(), records("x"), ignore), wal.ErrSync)
	require.NoError(t, l.Close())
}

// Frames that a write has left which failed after all of it was written do not come back behind the next append, which has the length
// of the first of them.
func TestRemainsOfFailedWriteDoNotComeBack(t *testing.T) {
	d, l := withRemains(t, "lost1", "lost2")
	add(t, l, "after")
	_, texts := mustOpen(t, d.Crash(func(int) bool { return true }), "/")
	assert.Equal(t, []string{"before", "after"}, texts)
}

// Nor do they behind the seal of a Close.
func TestRemainsOfFailedWriteDoNotComeBackBehindSeal(t *testing.T) {
	d, l := withRemains(t, "", "lost")
	require.NoError(t, l.Close())
	_, texts := mustOpen(t, d, "/")
	assert.Equal(t, []string{"before"}, texts)
}

// Who waits while a sync fails is not written after it.
func TestFailedSyncRefusesThoseWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := disktest.New()
		l, _ := mustOpen(t, d, "/")
		hang := make(chan error)
		d.Hook(hangingSync(hang))
		answers := make(chan error, 2)
		go func() { answers <- l.Append(t.Context(), records("unknown"), ignore) }()
		synctest.Wait()
		go func() { answers <- l.Append(t.Context(), records("waits"), ignore) }()
		synctest.Wait()
		hang <- syscall.EIO
		close(hang)
		for range 2 {
			require.ErrorIs(t, <-answers, wal.ErrSync)
		}
		require.NoError(t, l.Close())
	})
}

// What an Open has said is there after a loss of power right then.
func TestOpenIsDurable(t *testing.T) {
	d := disktest.New()
	l, _ := mustOpen(t, d, "/")
	add(t, l, "before")
	failSync(t, d, l)
	_, texts := mustOpen(t, d, "/")
	_, again := mustOpen(t, d.Crash(func(int) bool { return false }), "/")
	assert.Equal(t, texts, again)
}
