package dirstore_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/internal/disk/disktest"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/dirstore"
)

// The power is lost before every operation of the first Open of a path that does not exist. What a
// second Open acknowledges survives another loss.
func TestOpenMakesItsNamesDurable(t *testing.T) {
	const dir = "/some/where/deep"
	d := disktest.New()
	losses := verifyLosses(t, d, 16, func(after *disktest.Disk, when string) {
		verifyOpens(t, after, dir, when)
	})
	_, err := dirstore.OpenOn(d, dir)
	require.NoError(t, err)
	d.Hook(nil)
	assert.Greater(t, *losses, 10)
	verifyOpens(t, d, dir, "at the end")
}

// The first Open of a path dies before any of its operations. What the next Open acknowledges
// survives a loss of power.
func TestOpenMakesNamesOfTheDeadDurable(t *testing.T) {
	const dir = "/some/where/deep"
	for at := 1; ; at++ {
		d := disktest.New()
		ops := 0
		d.Hook(func(disktest.Op) error {
			if ops++; ops >= at {
				return syscall.EIO
			}
			return nil
		})
		_, err := dirstore.OpenOn(d, dir)
		d.Hook(nil)
		if err == nil {
			assert.Greater(t, at, 10)
			return
		}
		verifyOpens(t, d, dir, fmt.Sprint("operation ", at))
	}
}

// verifyOpens fails unless a directory can be opened, and keeps what is appended then.
func verifyOpens(t *testing.T, d *disktest.Disk, dir, when string) {
	t.Helper()
	s, err := dirstore.OpenOn(d, dir)
	require.NoError(t, err, when)
	_, err = s.Journal.Append(t.Context(), treeKey(1), 0, batchOf(testTime, false, "kept"))
	require.NoError(t, err, when)
	ref := session.Ref{Key: treeKey(1), SessionID: "x"}
	appendTexts(t, s, ref, 0, "kept")
	s, err = dirstore.OpenOn(afterCrash(d), dir)
	require.NoError(t, err, when)
	l, err := readLog(t.Context(), s.Journal, treeKey(1))
	require.NoError(t, err, when)
	require.Equal(t, []string{"kept"}, l.texts, when)
	require.Equal(t, []string{"kept"}, lineTexts(t, s, ref), when)
}

// A relative path is resolved when the directory is opened. The program may change its working
// directory later.
func TestRelativePathIsResolvedOnce(t *testing.T) {
	home, away := t.TempDir(), t.TempDir()
	t.Chdir(home)
	s, err := dirstore.Open("state")
	require.NoError(t, err)
	_, err = s.Journal.Append(t.Context(), treeKey(1), 0, batchOf(session.Batch{}.Due, false, "x"))
	require.NoError(t, err)
	ref := session.Ref{Key: treeKey(1), SessionID: "x"}
	end := appendTexts(t, s, ref, 0, "one")
	v, err := dirstore.View("state")
	require.NoError(t, err)
	for f, err := range dirstore.Verify(t.Context(), "state") {
		t.Chdir(away)
		require.NoError(t, err)
		assert.False(t, filepath.IsAbs(f.Path))
	}
	require.NoError(t, dirstore.Compact(s))
	appendTexts(t, s, ref, end, "two")
	file(t, s, ref)
	appendTexts(t, s, session.Ref{Key: treeKey(1), SessionID: "y"}, 0, "one")
	_, err = readLog(t.Context(), v.Journal, treeKey(1))
	require.NoError(t, err)
	assert.Equal(t, []string{"one", "two"}, lineTexts(t, v, ref))
	require.NoError(t, v.Close())
	require.NoError(t, s.Close())
	entries, err := os.ReadDir(away)
	require.NoError(t, err)
	assert.Empty(t, entries)
}

// C15: an empty path is refused, and nothing is made in the working directory.
func TestEmptyPathIsRefused(t *testing.T) {
	home := t.TempDir()
	t.Chdir(home)
	for name, open := range map[string]func(string) (*session.Store, error){
		"Open": dirstore.Open, "View": dirstore.View,
	} {
		_, err := open("")
		require.ErrorIs(t, err, fs.ErrInvalid, name)
		require.ErrorContains(t, err, "path is empty", name)
	}
	for f, err := range dirstore.Verify(t.Context(), "") {
		require.ErrorIs(t, err, fs.ErrInvalid)
		assert.Zero(t, f)
	}
	entries, err := os.ReadDir(home)
	require.NoError(t, err)
	assert.Empty(t, entries)
}
