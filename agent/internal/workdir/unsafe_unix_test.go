//go:build unix

package workdir_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent/internal/workdir"
)

// Nothing is written below a directory that another user has, or may write to. Each part of the
// path is looked at, and the error names it. One that others may read is good enough.
func TestDirectoriesOfOthersAreNotUsed(t *testing.T) {
	for name, c := range map[string]struct {
		mode fs.FileMode
		uid  int
		want string
	}{
		"of the group":     {mode: 0o770, want: "other users may write to it: its mode is 0770, want 0750"},
		"of all":           {mode: 0o707, want: "other users may write to it: its mode is 0707, want 0705"},
		"readable":         {mode: 0o755},
		"private":          {mode: 0o700},
		"of another user":  {mode: 0o700, uid: 4711, want: "it belongs to user 4711"},
		"of another, open": {mode: 0o777, uid: 4711, want: "it belongs to user 4711"},
	} {
		if c.uid != 0 && os.Geteuid() != 0 {
			continue // to give a directory away takes root
		}
		for _, at := range []string{".x", ".x/files"} {
			t.Run(name+" "+at, func(t *testing.T) {
				base, root := openBase(t)
				path := filepath.Join(base, at)
				require.NoError(t, os.MkdirAll(path, 0o700))
				require.NoError(t, os.Chmod(path, c.mode))
				if c.uid != 0 {
					require.NoError(t, os.Chown(path, c.uid, -1))
				}
				err := workdir.Write(root, dir, contents("a", "1"), mark, []byte("done"))
				if c.want == "" {
					require.NoError(t, err)
					return
				}
				bad, ok := errors.AsType[*workdir.UnsafeError](err)
				require.True(t, ok, "%v", err)
				require.Equal(t, at, bad.Dir)
				require.ErrorContains(t, err, `"`+at+`"`)
				require.ErrorContains(t, err, c.want)
				left, err := os.ReadDir(path)
				require.NoError(t, err)
				require.Empty(t, left)
			})
		}
	}
}

// A directory of the files that others may change does not count as written, whatever is in it.
func TestFilesInADirectoryOfOthersAreWrittenAnew(t *testing.T) {
	base, root := openBase(t)
	write := func() error {
		return workdir.Write(root, dir, contents("a", "1"), mark, []byte("done"))
	}
	require.NoError(t, write())
	own := filepath.Join(base, dir)
	require.NoError(t, os.WriteFile(filepath.Join(own, "a"), []byte("other"), 0o600))
	require.NoError(t, os.Chmod(own, 0o770))
	require.NoError(t, write())
	data, err := os.ReadFile(filepath.Join(own, "a"))
	require.NoError(t, err)
	require.Equal(t, "1", string(data))
	info, err := os.Stat(own)
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o700), info.Mode().Perm())
}

// What was written is removed from a directory, also where others may write to it by now.
func TestRemoveFromADirectoryOfOthers(t *testing.T) {
	base, root := openBase(t)
	require.NoError(t, workdir.Write(root, dir, contents("a", "1"), mark, []byte("done")))
	require.NoError(t, os.Chmod(filepath.Join(base, ".x"), 0o777))
	require.NoError(t, workdir.Remove(root, dir))
	_, err := os.Stat(filepath.Join(base, ".x"))
	require.ErrorIs(t, err, fs.ErrNotExist)
}
