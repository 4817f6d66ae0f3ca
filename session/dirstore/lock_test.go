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

func TestLock(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "some", "where")
	s, err := dirstore.Open(dir)
	require.NoError(t, err)
	_, err = dirstore.Open(dir)
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
	require.NoError(t, err, "what the file says is no lock")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "lock"), []byte("nonsense"), 0o600))
	_, err = dirstore.Open(dir)
	require.ErrorIs(t, err, dirstore.ErrLocked)
	assert.ErrorContains(t, err, "another process")
	require.NoError(t, s.Close())
	require.NoError(t, s.Close(), "closing again")
}

// The lock is given back when both parts are closed.
func TestLockIsOfBothParts(t *testing.T) {
	dir := t.TempDir()
	s, err := dirstore.Open(dir)
	require.NoError(t, err)
	parts := []any{s.Journal, s.Transcripts}
	for i, part := range parts {
		_, err = dirstore.Open(dir)
		require.ErrorIs(t, err, dirstore.ErrLocked, "part %d", i)
		for range 2 {
			require.NoError(t, part.(io.Closer).Close())
		}
	}
	s, err = dirstore.Open(dir)
	require.NoError(t, err)
	require.NoError(t, s.Close())
}

// A holder that has not said yet who it is is not taken for the one before, if that has closed the
// directory.
func TestLockBeforeHolderSays(t *testing.T) {
	dir := t.TempDir()
	s, err := dirstore.Open(dir)
	require.NoError(t, err)
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
	assert.Contains(t, string(text), fmt.Sprint(`"pid":`, os.Getpid()), "who was the last to have it")

	long := fmt.Sprintf(`{"pid":1,"host":%q}`, make([]byte, 200))
	_, err = f.WriteAt([]byte(long), 0)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	s, err = dirstore.Open(dir)
	require.NoError(t, err)
	_, err = dirstore.Open(dir)
	require.ErrorAs(t, err, &locked)
	assert.Equal(t, os.Getpid(), locked.PID, "who has it writes over what was there")
	require.NoError(t, s.Close())
	text, err = os.ReadFile(filepath.Join(dir, "lock"))
	require.NoError(t, err)
	assert.True(t, json.Valid(text))
}

// A disk on which there is no room for who has the directory open has room for the directory.
func TestLockOnFullDisk(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("no device that is always full")
	}
	dir := t.TempDir()
	require.NoError(t, os.Symlink("/dev/full", filepath.Join(dir, "lock")))
	s, err := dirstore.Open(dir)
	require.NoError(t, err)
	_, err = dirstore.Open(dir)
	var locked *dirstore.LockedError
	require.ErrorAs(t, err, &locked)
	assert.Zero(t, locked.PID)
	require.NoError(t, s.Close())
}
