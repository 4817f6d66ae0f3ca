package dirstore_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
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

// The power is lost before every operation of the first Open of a path of which nothing is there.
// What the next one acknowledges is found after another loss.
func TestOpenMakesItsNamesDurable(t *testing.T) {
	const dir = "/some/where/deep"
	d := disktest.New()
	rng := rand.New(rand.NewPCG(1, 2))
	losses := 0
	d.Hook(func(op disktest.Op) error {
		if !op.Changes() {
			return nil
		}
		for keep := range d.Losses(rng, 16) {
			losses++
			apart(func() {
				verifyOpens(t, d.Crash(keep), dir, fmt.Sprintf("loss %d, before %s %s", losses, op.Kind, op.Name))
			})
			if t.Failed() {
				return errors.New("enough")
			}
		}
		return nil
	})
	_, err := dirstore.OpenOn(d, dir)
	require.NoError(t, err)
	d.Hook(nil)
	assert.Greater(t, losses, 10)
	verifyOpens(t, d, dir, "at the end")
}

// The first Open of a path dies before any of its operations, and the power is lost after the next
// one has acknowledged something.
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

// verifyOpens fails unless a directory can be opened and keeps what is said there.
func verifyOpens(t *testing.T, d *disktest.Disk, dir, when string) {
	t.Helper()
	s, err := dirstore.OpenOn(d, dir)
	require.NoError(t, err, when)
	_, err = s.Journal.Append(t.Context(), tree(1), 0, batchOf(noon, false, "kept"))
	require.NoError(t, err, when)
	ref := session.Ref{Key: tree(1), SessionID: "x"}
	say(t, s, ref, 0, "kept")
	s, err = dirstore.OpenOn(d.Crash(func(int) bool { return false }), dir)
	require.NoError(t, err, when)
	l, err := readLog(t.Context(), s.Journal, tree(1))
	require.NoError(t, err, when)
	require.Equal(t, []string{"kept"}, l.texts, when)
	require.Equal(t, []string{"kept"}, lineTexts(t, s, ref), when)
}

// A relative path is that of when the directory was opened, wherever the program goes then.
func TestOpenThenChdir(t *testing.T) {
	home, away := t.TempDir(), t.TempDir()
	t.Chdir(home)
	s, err := dirstore.Open("state")
	require.NoError(t, err)
	_, err = s.Journal.Append(t.Context(), tree(1), 0, batchOf(session.Batch{}.Due, false, "x"))
	require.NoError(t, err)
	ref := session.Ref{Key: tree(1), SessionID: "x"}
	end := say(t, s, ref, 0, "one")
	v, err := dirstore.View("state")
	require.NoError(t, err)
	for f, err := range dirstore.Verify(t.Context(), "state") {
		t.Chdir(away)
		require.NoError(t, err)
		assert.False(t, filepath.IsAbs(f.Path))
	}
	require.NoError(t, dirstore.Compact(s))
	say(t, s, ref, end, "two")
	say(t, s, session.Ref{Key: tree(1), SessionID: "y"}, 0, "one")
	_, err = readLog(t.Context(), v.Journal, tree(1))
	require.NoError(t, err)
	assert.Equal(t, []string{"one", "two"}, lineTexts(t, v, ref))
	require.NoError(t, v.Close())
	require.NoError(t, s.Close())
	entries, err := os.ReadDir(away)
	require.NoError(t, err)
	assert.Empty(t, entries)
}
