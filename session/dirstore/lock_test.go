package dirstore_test

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session/dirstore"
)

func TestLockedErrorNamesHolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "some", "where")
	s := openDir(t, dir)
	_, err := dirstore.Open(dir)
	require.ErrorIs(t, err, dirstore.ErrLocked)
	var locked *dirstore.LockedError
	require.ErrorAs(t, err, &locked)
	host, err := os.Hostname()
	require.NoError(t, err)
	assert.Equal(t, os.Getpid(), locked.PID)
	assert.Equal(t, host, locked.Host)
	assert.Equal(t, dir, locked.Dir)
	assert.False(t, locked.Since.IsZero())
	assert.ErrorContains(t, locked, fmt.Sprint("process ", os.Getpid()))
	require.NoError(t, s.Close())

	require.NoError(t, os.WriteFile(filepath.Join(dir, "lock"), []byte(`{"pid":1,"host":"gone"}`), 0o600))
	s, err = dirstore.Open(dir)
	require.NoError(t, err, "the content of the file is not a lock")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "lock"), []byte("nonsense"), 0o600))
	_, err = dirstore.Open(dir)
	require.ErrorIs(t, err, dirstore.ErrLocked)
	assert.ErrorContains(t, err, "another process")
	require.NoError(t, s.Close())
	require.NoError(t, s.Close(), "closing again")
}

// CheckFree tells whether a Store has the directory open, and writes nothing.
func TestCheckFree(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	require.ErrorIs(t, dirstore.CheckFree(dir), os.ErrNotExist)
	require.ErrorIs(t, dirstore.CheckFree(""), os.ErrInvalid)
	s := openDir(t, dir)
	for range 2 {
		var locked *dirstore.LockedError
		require.ErrorAs(t, dirstore.CheckFree(dir), &locked)
		require.Equal(t, os.Getpid(), locked.PID)
	}
	require.NoError(t, s.Close())
	lock := filepath.Join(dir, "lock")
	before, err := os.ReadFile(lock)
	require.NoError(t, err)
	require.NoError(t, dirstore.CheckFree(dir))
	after, err := os.ReadFile(lock)
	require.NoError(t, err)
	require.Equal(t, before, after)
	require.NoError(t, os.Remove(lock))
	require.NoError(t, dirstore.CheckFree(dir))
	require.NoFileExists(t, lock)
	require.NoError(t, os.Mkdir(lock, 0o700))
	var unsafe *dirstore.UnsafeError
	require.ErrorAs(t, dirstore.CheckFree(dir), &unsafe)
	require.NoError(t, os.Remove(lock))
	require.NoError(t, openDir(t, dir).Close(), "the locks were given back")
}

// The lock is released once both parts are closed, however often each is closed.
func TestClosingBothPartsReleasesLock(t *testing.T) {
	dir := t.TempDir()
	s := openDir(t, dir)
	parts := []any{s.Journal, s.Transcripts}
	for i, part := range parts {
		_, err := dirstore.Open(dir)
		require.ErrorIs(t, err, dirstore.ErrLocked, "part %d", i)
		for range 2 {
			require.NoError(t, part.(io.Closer).Close())
		}
	}
	s = openDir(t, dir)
	require.NoError(t, s.Close())
}

// A holder has the lock and has not written its name yet. The LockedError does not name the holder
// before, which has closed the directory.
func TestLockedErrorDoesNotNameFormerHolder(t *testing.T) {
	dir := t.TempDir()
	s := openDir(t, dir)
	require.NoError(t, s.Close())
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR, 0)
	require.NoError(t, err)
	taken, err := dirstore.LockFile(f)
	require.NoError(t, err)
	require.True(t, taken)
	_, err = dirstore.Open(dir)
	var locked *dirstore.LockedError
	require.ErrorAs(t, err, &locked)
	assert.Equal(t, dirstore.LockedError{Dir: dir}, *locked)

	text, err := os.ReadFile(filepath.Join(dir, "lock"))
	require.NoError(t, err)
	assert.Contains(t, string(text), fmt.Sprint(`"pid":`, os.Getpid()), "the file names the last holder")

	long := fmt.Sprintf(`{"pid":1,"host":%q}`, make([]byte, 200))
	_, err = f.WriteAt([]byte(long), 0)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	s = openDir(t, dir)
	_, err = dirstore.Open(dir)
	require.ErrorAs(t, err, &locked)
	assert.Equal(t, os.Getpid(), locked.PID, "the holder writes over the content before")
	require.NoError(t, s.Close())
	text, err = os.ReadFile(filepath.Join(dir, "lock"))
	require.NoError(t, err)
	assert.True(t, json.Valid(text))
}

// A disk that has no room for the name of the holder leaves the lock file empty.
func TestFullDiskDoesNotNameHolder(t *testing.T) {
	f, err := os.OpenFile("/dev/full", os.O_RDWR, 0)
	if err != nil {
		t.Skip("there is no device that is always full")
	}
	dirstore.WriteHolder(f)
	require.NoError(t, f.Close())
	dir := t.TempDir()
	s := openDir(t, dir)
	require.NoError(t, os.Truncate(filepath.Join(dir, "lock"), 0))
	_, err = dirstore.Open(dir)
	var locked *dirstore.LockedError
	require.ErrorAs(t, err, &locked)
	assert.Zero(t, locked.PID)
	require.NoError(t, s.Close())
}
