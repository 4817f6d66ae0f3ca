package wal_test

import (
	"fmt"
	"slices"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/internal/disk/disktest"
	"github.com/offshoot-sdk/offshoot/internal/wal"
)

// failOps returns a hook that makes the operations of these kinds return err.
func failOps(err error, kinds ...disktest.OpKind) func(disktest.Op) error {
	return func(op disktest.Op) error {
		if slices.Contains(kinds, op.Kind) {
			return err
		}
		return nil
	}
}

// hangingSync returns a hook that holds up every sync until hang is closed, or yields the error of
// the sync.
func hangingSync(hang <-chan error) func(disktest.Op) error {
	return func(op disktest.Op) error {
		if op.Kind == disktest.OpSync {
			return <-hang
		}
		return nil
	}
}

// withRemains returns a log with the record "before". Behind its end stand all frames of the texts:
// their write failed after it was done, and they could not be cut off.
func withRemains(t *testing.T, texts ...string) (*disktest.Disk, *wal.Log) {
	t.Helper()
	d := disktest.New()
	l, _ := mustOpen(t, d, "/")
	appendTexts(t, l, "before")
	d.Hook(func(op disktest.Op) error {
		switch op.Kind {
		case disktest.OpWrite:
			return fmt.Errorf("%w: %w", disktest.ErrAfter, syscall.EIO)
		case disktest.OpTruncate:
			return syscall.EIO
		}
		return nil
	})
	require.ErrorIs(t, l.Append(t.Context(), textRecords(texts...), ignoreResult), syscall.EIO)
	d.Hook(nil)
	return d, l
}

// failSync appends a record while syncs fail, so that the durability of the record is unknown.
func failSync(t *testing.T, d *disktest.Disk, l *wal.Log) {
	t.Helper()
	d.Hook(failOps(syscall.EIO, disktest.OpSync))
	err := l.Append(t.Context(), textRecords("unknown"), ignoreResult)
	require.ErrorIs(t, err, wal.ErrSync)
	require.ErrorIs(t, err, syscall.EIO)
	d.Hook(nil)
}
