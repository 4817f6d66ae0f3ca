package disk_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/internal/disk"
)

func TestLookUpTellsMissingFromUnreachable(t *testing.T) {
	parent := t.TempDir()
	dir, away := filepath.Join(parent, "dir"), filepath.Join(parent, "away")
	name := filepath.Join(dir, "x")
	look := func() error {
		_, err := disk.OS().Lstat(name)
		return err
	}
	_, err := disk.LookUp(disk.OS(), dir, look)
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.NoError(t, os.Mkdir(dir, 0o700))
	found, err := disk.LookUp(disk.OS(), dir, look)
	require.NoError(t, err)
	assert.False(t, found)
	require.NoError(t, os.WriteFile(name, nil, 0o600))
	found, err = disk.LookUp(disk.OS(), dir, look)
	require.NoError(t, err)
	assert.True(t, found)
	failed := errors.New("no")
	_, err = disk.LookUp(disk.OS(), dir, func() error { return failed })
	require.ErrorIs(t, err, failed)

	require.NoError(t, os.Rename(dir, away))
	_, err = disk.LookUp(disk.OS(), dir, func() error {
		err := look()
		require.NoError(t, os.Rename(away, dir))
		return err
	})
	require.ErrorIs(t, err, fs.ErrNotExist, "dir is away, and would come back while f looks")
	if _, err = os.Lstat(dir); err != nil {
		require.NoError(t, os.Rename(away, dir))
	}
	_, err = disk.LookUp(disk.OS(), dir, func() error {
		require.NoError(t, os.Rename(dir, away))
		return look()
	})
	require.ErrorIs(t, err, fs.ErrNotExist, "dir goes away before f looks")
}
