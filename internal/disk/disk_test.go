package disk_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/internal/disk"
	"github.com/offshoot-sdk/offshoot/internal/disk/disktest"
)

func TestFileReadsWritesAndReportsItsRemoval(t *testing.T) {
	fsys, dir := disk.OS(), t.TempDir()
	name := filepath.Join(dir, "x")
	_, err := fsys.OpenFile(name, os.O_RDONLY)
	require.ErrorIs(t, err, fs.ErrNotExist)
	f, err := fsys.OpenFile(name, os.O_RDWR|os.O_CREATE)
	require.NoError(t, err)
	_, err = f.WriteAt([]byte("hello"), 3)
	require.NoError(t, err)
	require.NoError(t, f.Sync())
	require.NoError(t, f.Truncate(5))
	size, err := f.Size()
	require.NoError(t, err)
	assert.EqualValues(t, 5, size)
	info, err := fsys.Lstat(name)
	require.NoError(t, err)
	if runtime.GOOS != "windows" {
		assert.Equal(t, disk.FilePerm, info.Mode().Perm())
		require.NoError(t, fsys.Remove(name))
		require.ErrorIs(t, f.Sync(), fs.ErrNotExist, "the content is lost with the last name")
	}
	require.NoError(t, f.Close())
	require.Error(t, f.Sync())
}

func TestMakeDirAcceptsExistingDirectory(t *testing.T) {
	fsys, dir := disk.OS(), t.TempDir()
	name := filepath.Join(dir, "x")
	for range 2 {
		require.NoError(t, disk.MakeDir(fsys, dir, name))
	}
	info, err := fsys.Lstat(name)
	require.NoError(t, err)
	assert.True(t, info.IsDir())
	require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	require.ErrorIs(t, disk.MakeDir(fsys, dir, filepath.Join(dir, "file")), fs.ErrExist)
	none := filepath.Join(dir, "none")
	require.ErrorIs(t, disk.MakeDir(fsys, none, filepath.Join(none, "x")), fs.ErrNotExist)
	require.ErrorIs(t, fsys.SyncDir(none), fs.ErrNotExist)
}

func TestMakeAllMakesMissingParents(t *testing.T) {
	fsys, dir := disk.OS(), t.TempDir()
	for range 2 {
		require.NoError(t, disk.MakeAll(fsys, filepath.Join(dir, "x", "y", "z")))
	}
	info, err := fsys.Lstat(filepath.Join(dir, "x", "y", "z"))
	require.NoError(t, err)
	assert.True(t, info.IsDir())
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	require.ErrorIs(t, disk.MakeAll(fsys, file), fs.ErrExist)
	require.ErrorContains(t, disk.MakeAll(fsys, filepath.Join(file, "x")), file)
	if runtime.GOOS != "windows" {
		require.NoError(t, os.Symlink(filepath.Join(dir, "x"), filepath.Join(dir, "link")))
		require.NoError(t, disk.MakeAll(fsys, filepath.Join(dir, "link")))
		require.NoError(t, disk.MakeAll(fsys, filepath.Join(dir, "link", "w")))
		_, err = fsys.Lstat(filepath.Join(dir, "x", "w"))
		require.NoError(t, err)
	}
}

// A user may enter a directory that the user may not read. MakeAll accepts an existing directory
// below such a one, and fails only if it must make one there.
func TestMakeAllBelowUnreadableDirectory(t *testing.T) {
	d := disktest.New()
	require.NoError(t, d.Mkdir("/home"))
	require.NoError(t, d.Mkdir("/home/me"))
	d.Hook(func(op disktest.Op) error {
		if op.Kind == disktest.OpSyncDir && op.Name == "/home" {
			return fs.ErrPermission
		}
		return nil
	})
	require.NoError(t, disk.MakeAll(d, "/home/me/state"))
	require.ErrorIs(t, disk.MakeAll(d, "/home/you"), fs.ErrPermission)
	d.Hook(func(op disktest.Op) error {
		if op.Kind == disktest.OpSyncDir {
			return syscall.EIO
		}
		return nil
	})
	require.ErrorIs(t, disk.MakeAll(d, "/home/me"), syscall.EIO)
}

// A namedFS is an FS with an identity of its own.
type namedFS struct{ disk.FS }

func TestAtReturnsInnermostMount(t *testing.T) {
	a, b := &namedFS{disk.OS()}, &namedFS{disk.OS()}
	require.Equal(t, disk.OS(), disk.At("/x/y"))
	unmount := disk.Mount("/x/", a)
	defer disk.Mount("/x/y", b)()
	require.Same(t, a, disk.At("/x"))
	require.Same(t, a, disk.At("/x/z/../w"))
	require.Same(t, b, disk.At("/x/y"))
	require.Same(t, b, disk.At("/x/y/z"))
	require.Same(t, a, disk.At("/x/yz"))
	require.Equal(t, disk.OS(), disk.At("/xy"))
	unmount()
	require.Equal(t, disk.OS(), disk.At("/x"))
}
