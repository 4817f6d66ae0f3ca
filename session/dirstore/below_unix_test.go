//go:build unix

package dirstore_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/internal/disk"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/dirstore"
)

// belowRef is a transcript of one of two agents.
func belowRef(agent, id string) session.Ref {
	return session.Ref{Key: session.Must(session.MainKey(agent)), SessionID: id}
}

// deepStore makes a directory with every kind of file on every level: two agents with a transcript
// and a kept file each, idle logs, and a tree that is due. It returns the paths below the
// directory.
func deepStore(t *testing.T) (dir string, paths []string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "state")
	s := openDir(t, dir)
	for _, agent := range []string{"main", "other"} {
		appendTexts(t, s, belowRef(agent, "x"), 0, "one")
		putBytes(t, s, belowRef(agent, "x"), []byte("kept"))
	}
	for i := range 3 {
		_, err := s.Journal.Append(t.Context(), treeKey(i), 0, batchOf(time.Time{}, false, "x"))
		require.NoError(t, err)
	}
	_, err := s.Journal.Append(t.Context(), treeKey(3), 0, batchOf(testTime, false, "due"))
	require.NoError(t, err)
	require.NoError(t, dirstore.Compact(s))
	require.NoError(t, s.Close())
	require.NoError(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if path != dir {
			paths = append(paths, path)
		}
		return err
	}))
	require.Greater(t, len(paths), 12)
	return dir, paths
}

// findMembers looks for the tree of each member of a deepStore, and returns the first error.
func findMembers(t *testing.T, s *session.Store) error {
	for _, text := range []string{"x", "due"} {
		q := session.RootQuery{Member: memberKey(text)}
		found := 0
		for _, err := range s.Journal.Roots(t.Context(), q) {
			if err != nil {
				return err
			}
			found++
		}
		require.Positive(t, found)
	}
	return nil
}

// deepUses are what uses everything in such a directory, each for itself. They return the first
// error.
var deepUses = map[string]func(t *testing.T, s *session.Store) error{
	"reads": func(t *testing.T, s *session.Store) error {
		for i := range 4 {
			for _, err := range s.Journal.Read(t.Context(), treeKey(i), 0) {
				if err != nil {
					return err
				}
			}
		}
		for _, agent := range []string{"main", "other"} {
			ref := belowRef(agent, "x")
			for _, err := range s.Transcripts.Read(t.Context(), ref, session.LineQuery{}) {
				if err != nil {
					return err
				}
			}
			if _, err := readFile(s, ref, hashOf([]byte("kept"))); err != nil {
				return err
			}
		}
		return findMembers(t, s)
	},
	"lists and writes": func(t *testing.T, s *session.Store) error {
		for _, err := range s.Journal.Roots(t.Context(), session.RootQuery{}) {
			if err != nil {
				return err
			}
		}
		for _, agent := range []string{"main", "other"} {
			ref, end := belowRef(agent, "x"), session.Pos(0)
			for line, err := range s.Transcripts.Read(t.Context(), ref, session.LineQuery{}) {
				if end = line.Pos; err != nil {
					return err
				}
			}
			_, err := s.Transcripts.Append(t.Context(), ref, end, userMessages("two")...)
			if err != nil {
				return err
			}
			_, err = s.Files.Put(t.Context(), ref, strings.NewReader("kept"), session.File{})
			if err != nil {
				return err
			}
		}
		if err := findMembers(t, s); err != nil {
			return err
		}
		return dirstore.Compact(s)
	},
}

// useDeep opens a directory and uses it, and returns the first error.
func useDeep(t *testing.T, dir string, use func(*testing.T, *session.Store) error) error {
	t.Helper()
	s, err := dirstore.Open(dir)
	if err != nil {
		return err
	}
	defer func() { require.NoError(t, s.Close()) }()
	return use(t, s)
}

// S8: a Store takes the permissions of other users away from every directory and file that it uses,
// on every level, before it uses it, also if they come while it is open.
func TestPermissionsOfOthersOnEveryLevel(t *testing.T) {
	for name, use := range deepUses {
		for _, late := range []bool{false, true} {
			dir, paths := deepStore(t)
			widen := func() {
				for _, path := range paths {
					require.NoError(t, os.Chmod(path, 0o777))
				}
			}
			if !late {
				widen()
			}
			s := openDir(t, dir)
			if late {
				widen()
			}
			require.NoError(t, use(t, s), name)
			require.NoError(t, s.Close())
			require.NoError(t, openDir(t, dir).Close())
			for _, path := range paths {
				info, err := os.Lstat(path)
				if errors.Is(err, fs.ErrNotExist) {
					continue // a log that was compacted
				}
				require.NoError(t, err)
				require.Zero(t, info.Mode().Perm()&0o077, "%s: %s", name, path)
			}
		}
	}
}

// S8: what another user owns on any level is refused where it is used, and what leads elsewhere in
// the place of a directory. The rest works, and all of it once the cause is gone.
func TestForeignPathsOnEveryLevel(t *testing.T) {
	dir, paths := deepStore(t)
	for _, path := range paths {
		info, err := os.Lstat(path)
		require.NoError(t, err)
		spoil := map[string][2]func() error{}
		if os.Geteuid() == 0 {
			spoil["of another user"] = [2]func() error{
				func() error { return os.Chown(path, 4711, 4711) },
				func() error { return os.Chown(path, 0, 0) },
			}
		}
		if info.IsDir() {
			spoil["a link"] = [2]func() error{
				func() error {
					if err := os.Rename(path, dir+" aside"); err != nil {
						return err
					}
					return os.Symlink(dir+" aside", path)
				},
				func() error {
					if err := os.Remove(path); err != nil {
						return err
					}
					return os.Rename(dir+" aside", path)
				},
			}
		}
		for how, f := range spoil {
			require.NoError(t, f[0]())
			refused := 0
			for _, use := range deepUses {
				err := useDeep(t, dir, use)
				var unsafe *dirstore.UnsafeError
				if err != nil {
					require.ErrorAs(t, err, &unsafe, "%s: %s", path, how)
					require.Equal(t, path, unsafe.Path, how)
					require.ErrorIs(t, err, session.ErrUnsafe)
					refused++
				}
			}
			require.Positive(t, refused, "%s is used: %s", path, how)
			require.NoError(t, f[1]())
			require.NoError(t, useDeep(t, dir, deepUses["reads"]))
		}
	}
}

// A View changes nothing, whatever the permissions are.
func TestViewLeavesPermissionsAsTheyAre(t *testing.T) {
	dir, paths := deepStore(t)
	for _, path := range paths {
		require.NoError(t, os.Chmod(path, 0o777))
	}
	v, err := dirstore.View(dir)
	require.NoError(t, err)
	require.NoError(t, deepUses["reads"](t, v))
	for _, err := range dirstore.Verify(t.Context(), dir) {
		require.NoError(t, err)
	}
	require.NoError(t, v.Close())
	for _, path := range paths {
		info, err := os.Lstat(path)
		require.NoError(t, err)
		require.Equal(t, fs.FileMode(0o777), info.Mode().Perm(), path)
	}
}

// A lookingFS notes the permissions of the directory in which it makes a file.
type lookingFS struct {
	disk.FS
	saw *fs.FileMode
}

func (x lookingFS) OpenFile(name string, flag int) (disk.File, error) {
	if flag&os.O_EXCL != 0 {
		info, err := os.Stat(filepath.Dir(name))
		if err != nil {
			return nil, err
		}
		*x.saw = info.Mode().Perm()
	}
	return x.FS.OpenFile(name, flag)
}

// The directory of an agent is closed to others before a file is made in it.
func TestDirectoryOfANewFileIsClosedToOthers(t *testing.T) {
	var saw fs.FileMode
	dir := filepath.Join(t.TempDir(), "state")
	s, err := dirstore.OpenLockedOn(lookingFS{disk.OS(), &saw}, dir)
	require.NoError(t, err)
	appendTexts(t, s, testRef("one"), 0, "a line")
	file(t, s, testRef("one"))
	require.NoError(t, os.Chmod(filepath.Join(dir, "sessions", "main"), 0o755))
	appendTexts(t, s, testRef("two"), 0, "a line")
	saw = 0
	file(t, s, testRef("two"))
	require.Equal(t, fs.FileMode(0o700), saw)
	require.NoError(t, s.Close())
}
