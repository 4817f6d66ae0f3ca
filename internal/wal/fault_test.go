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

// failing returns a hook that fails operations of these kinds with err.
func failing(err error, kinds ...disktest.OpKind) func(disktest.Op) error {
	return func(op disktest.Op) error {
		if slices.Contains(kinds, op.Kind) {
			return err
		}
		return nil
	}
}

// hangingSync returns a hook that holds up every sync until hang yields what the sync returns, or
// is closed.
func hangingSync(hang <-chan error) func(disktest.Op) error {
	return func(op disktest.Op) error {
		if op.Kind == disktest.OpSync {
			return <-hang
		}
		return nil
	}
}

// withRemains returns a log with the record "before" and, behind its end, all frames of the texts:
// the write of them failed after it was done, and they could not be cut off.
func withRemains(t *testing.T, texts ...string) (*disktest.Disk, *wal.Log) {
	t.Helper()
	d := disktest.New()
	l, _ := mustOpen(t, d, "/")
	add(t, l, "before")
	d.Hook(func(op disktest.Op) error {
		switch op.Kind {
		case disktest.OpWrite:
			return fmt.Errorf("%w: %w", disktest.ErrAfter, syscall.EIO)
		case disktest.OpTruncate:
			return syscall.EIO
		}
		return nil
	})
	require.ErrorIs(t, l.Append(t.Context(), records(texts...), ignore), syscall.EIO)
	d.Hook(nil)
	return d, l
}

// failSync appends a record while syncs fail, so that it is not known whether the record is
// durable.
func failSync(t *testing.T, d *disktest.Disk, l *wal.Log) {
	t.Helper()
	d.Hook(failing(syscall.EIO, disktest.OpSync))
	err := l.Append(t.Context(), records("unknown"), ignore)
	require.ErrorIs(t, err, wal.ErrSync)
	require.ErrorIs(t, err, syscall.EIO)
	d.Hook(nil)
}
