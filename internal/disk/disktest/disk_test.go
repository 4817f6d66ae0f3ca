package disktest_test

import (
	"errors"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/internal/disk"
	"github.com/offshoot-sdk/offshoot/internal/disk/disktest"
)

func content(t *testing.T, d *disktest.Disk, name string) string {
	t.Helper()
	f, err := d.OpenFile(name, os.O_RDONLY)
	if err != nil {
		return "none"
	}
	size, err := f.Size()
	require.NoError(t, err)
	b := make([]byte, size)
	if size > 0 {
		_, err = f.ReadAt(b, 0)
		require.NoError(t, err)
	}
	return string(b)
}

func create(t *testing.T, d *disktest.Disk, name string) disk.File {
	t.Helper()
	f, err := d.OpenFile(name, os.O_RDWR|os.O_CREATE)
	require.NoError(t, err)
	return f
}

// A loss of power leaves every mixture of what was not synced, and all of what was.
func TestCrash(t *testing.T) {
	d := disktest.New()
	f := create(t, d, "/x")
	_, _ = f.WriteAt([]byte("synced"), 0)
	assert.Equal(t, "none", content(t, d.Crash(func(int) bool { return false }), "/x"), "without a name there is no file")
	require.NoError(t, f.Sync())
	require.NoError(t, d.SyncDir("/"))
	assert.Equal(t, "synced", content(t, d.Crash(func(int) bool { return false }), "/x"))
	_, _ = f.WriteAt([]byte("SYN"), 0)
	_, _ = f.WriteAt([]byte("ced"), 6)
	require.NoError(t, d.Rename("/x", "/y"))
	seen := make(map[string]bool)
	for keep := range d.Losses(rand.New(rand.NewPCG(1, 1)), 100) {
		after := d.Crash(keep)
		seen[content(t, after, "/x")+"|"+content(t, after, "/y")] = true
	}
	want := make(map[string]bool)
	for _, text := range []string{"synced", "SYNced", "synced\x00\x00\x00", "SYNced\x00\x00\x00", "syncedced", "SYNcedced"} {
		want[text+"|none"], want["none|"+text] = true, true
	}
	assert.Equal(t, want, seen)
}

// What a failed sync should have written is shown, and never written.
func TestFailedSync(t *testing.T) {
	d := disktest.New()
	f := create(t, d, "/x")
	require.NoError(t, d.SyncDir("/"))
	_, _ = f.WriteAt([]byte("lost"), 0)
	failed := errors.New("no")
	d.Hook(func(op disktest.Op) error {
		if op.Kind == disktest.OpSync {
			return failed
		}
		return nil
	})
	require.ErrorIs(t, f.Sync(), failed)
	d.Hook(nil)
	require.NoError(t, f.Sync())
	assert.Equal(t, "lost", content(t, d, "/x"))
	assert.Empty(t, content(t, d.Crash(func(int) bool { return true }), "/x"))
}

func TestPowerOff(t *testing.T) {
	d := disktest.New()
	f, err := d.OpenFile("/x", os.O_RDWR|os.O_CREATE)
	require.NoError(t, err)
	require.NoError(t, d.SyncDir("/"))
	_, err = f.WriteAt([]byte("synced"), 0)
	require.NoError(t, err)
	require.NoError(t, f.Sync())
	_, err = f.WriteAt([]byte("lost"), 0)
	require.NoError(t, err)
	later := d.PowerOff(func(int) bool { return false })
	_, err = f.WriteAt([]byte("x"), 0)
	require.ErrorIs(t, err, disktest.ErrOff)
	require.ErrorIs(t, f.Sync(), disktest.ErrOff)
	_, err = d.ReadDir("/")
	require.ErrorIs(t, err, disktest.ErrOff)
	require.Equal(t, "synced", content(t, later, "/x"))
}
