package disk_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/internal/disk"
)

// plainFS is the disk of the operating system, and no Looker.
type plainFS struct{ disk.FS }

// A Look says what Lstat does, of every kind of name.
func TestLookSaysWhatLstatSays(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	names := []string{dir, file, filepath.Join(dir, "none"), filepath.Join(file, "below"), "\x00"}
	if runtime.GOOS != "windows" {
		link := filepath.Join(dir, "link")
		require.NoError(t, os.Symlink(dir, link))
		names = append(names, link)
	}
	for _, name := range names {
		kind, there, err := disk.Look(disk.OS(), name)
		wantKind, wantThere, wantErr := disk.Look(plainFS{disk.OS()}, name)
		assert.Equal(t, wantKind, kind, name)
		assert.Equal(t, wantThere, there, name)
		assert.Equal(t, wantErr, err, name)
	}
}

func TestIsSameTellsWhatHasTakenAName(t *testing.T) {
	dir := t.TempDir()
	name, other := filepath.Join(dir, "x"), filepath.Join(dir, "y")
	require.NoError(t, os.WriteFile(name, nil, 0o600))
	info, err := os.Lstat(name)
	require.NoError(t, err)
	assert.True(t, disk.IsSame(name, info))
	assert.False(t, disk.IsSame(name, strangeInfo{info}), "it is not of package os")
	require.NoError(t, os.WriteFile(other, nil, 0o600))
	assert.False(t, disk.IsSame(other, info))
	require.NoError(t, os.Rename(other, name))
	assert.False(t, disk.IsSame(name, info), "another file has the name")
	require.NoError(t, os.Remove(name))
	assert.False(t, disk.IsSame(name, info))
}

// A strangeInfo does not have what package os knows.
type strangeInfo struct{ fs.FileInfo }

func (strangeInfo) Sys() any { return nil }
