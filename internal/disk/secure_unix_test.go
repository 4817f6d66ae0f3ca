//go:build unix

package disk_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/internal/disk"
)

// S8: a file is opened only if it is a regular one; for writing, only if it has one name.
func TestOpenFileRefusesOtherKinds(t *testing.T) {
	dir := t.TempDir()
	file, path := filepath.Join(dir, "file"), filepath.Join(dir, "path")
	require.NoError(t, os.WriteFile(file, []byte("precious"), 0o600))
	for name, plant := range map[string]func() error{
		"a symbolic link": func() error { return os.Symlink(file, path) },
		"a named pipe":    func() error { return syscall.Mkfifo(path, 0o600) },
		"a directory":     func() error { return os.Mkdir(path, 0o700) },
		"2 names":         func() error { return os.Link(file, path) },
	} {
		require.NoError(t, plant())
		for _, flag := range []int{os.O_RDONLY, os.O_RDWR, os.O_RDWR | os.O_CREATE} {
			f, err := disk.OS().OpenFile(path, flag)
			if name == "2 names" && flag == os.O_RDONLY {
				require.NoError(t, err, "a reader does no harm")
				require.NoError(t, f.Close())
				continue
			}
			var refused *disk.UnsafeError
			require.ErrorAs(t, err, &refused, name)
			assert.Equal(t, path, refused.Path)
			assert.ErrorContains(t, err, name)
		}
		require.NoError(t, os.Remove(path))
	}
}

// S8: Create replaces a file or a link under its name, and does not write through it.
func TestCreateMakesANewFile(t *testing.T) {
	dir := t.TempDir()
	file, path := filepath.Join(dir, "file"), filepath.Join(dir, "path")
	require.NoError(t, os.WriteFile(file, []byte("precious"), 0o600))
	for _, plant := range []func() error{
		func() error { return nil },
		func() error { return os.Symlink(file, path) },
		func() error { return os.Link(file, path) },
		func() error { return syscall.Mkfifo(path, 0o600) },
	} {
		require.NoError(t, plant())
		f, err := disk.Create(disk.OS(), path)
		require.NoError(t, err)
		_, err = f.WriteAt([]byte("new"), 0)
		require.NoError(t, err)
		require.NoError(t, f.Close())
		b, err := os.ReadFile(file)
		require.NoError(t, err)
		assert.Equal(t, "precious", string(b))
		require.NoError(t, os.Remove(path))
	}
	_, err := disk.Create(disk.OS(), filepath.Join(dir, "none", "x"))
	require.ErrorIs(t, err, fs.ErrNotExist)
}

// S8: the permissions of other users are taken away where a file or directory is opened.
func TestPermissionsOfOthersAreTakenAway(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	require.NoError(t, os.Chmod(file, 0o640))
	require.NoError(t, os.Chmod(dir, 0o777|fs.ModeSetgid))
	f, err := disk.OS().OpenFile(file, os.O_RDWR)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	d, err := disk.OpenDir(dir)
	require.NoError(t, err)
	require.NoError(t, d.Close())
	for path, mode := range map[string]fs.FileMode{
		file: 0o600, dir: 0o700 | fs.ModeDir | fs.ModeSetgid,
	} {
		info, err := os.Lstat(path)
		require.NoError(t, err)
		assert.Equal(t, mode, info.Mode())
	}
}
