//go:build unix

package dirstore_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/dirstore"
)

// requireUnsafe fails unless Open refuses a directory because of the file at path.
func requireUnsafe(t *testing.T, dir, path string) {
	t.Helper()
	_, err := dirstore.Open(dir)
	var refused *dirstore.UnsafeError
	require.ErrorAs(t, err, &refused)
	assert.Equal(t, path, refused.Path)
	assert.ErrorContains(t, err, "dirstore: ")
}

// S8: Open follows no link and refuses every special file, where it reads or writes. What a link
// leads to is not changed. The error names the file, and Open succeeds once it is gone.
func TestOpenRefusesWhatIsNotAFileOfItsOwn(t *testing.T) {
	for name, plant := range map[string]func(t *testing.T, path, file, dir string){
		"a link to a file": func(t *testing.T, path, file, _ string) {
			require.NoError(t, os.Symlink(file, path))
		},
		"a link to a directory": func(t *testing.T, path, _, dir string) {
			require.NoError(t, os.Symlink(dir, path))
		},
		"a link to nothing": func(t *testing.T, path, file, _ string) {
			require.NoError(t, os.Symlink(file+" none", path))
		},
		"a pipe": func(t *testing.T, path, _, _ string) {
			require.NoError(t, syscall.Mkfifo(path, 0o600))
		},
		"a hard link": func(t *testing.T, path, file, _ string) {
			require.NoError(t, os.Link(file, path))
		},
	} {
		for _, at := range []string{"lock", "journal", "sessions", "journal/00000001.wal"} {
			t.Run(name+" at "+at, func(t *testing.T) {
				home := t.TempDir()
				dir, file, other := filepath.Join(home, "state"), filepath.Join(home, "f"),
					filepath.Join(home, "d")
				require.NoError(t, os.WriteFile(file, []byte("precious"), 0o600))
				require.NoError(t, os.Mkdir(other, 0o755))
				path := filepath.Join(dir, at)
				require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
				plant(t, path, file, other)
				for range 2 {
					requireUnsafe(t, dir, path)
				}
				b, err := os.ReadFile(file)
				require.NoError(t, err)
				assert.Equal(t, "precious", string(b))
				entries, err := os.ReadDir(other)
				require.NoError(t, err)
				assert.Empty(t, entries)
				info, err := os.Stat(other)
				require.NoError(t, err)
				assert.Equal(t, fs.FileMode(0o755), info.Mode().Perm())
				_, err = os.Lstat(file + " none")
				require.ErrorIs(t, err, fs.ErrNotExist)
				require.NoError(t, os.Remove(path))
				require.NoError(t, openDir(t, dir).Close())
			})
		}
	}
}

// S8: a transcript that was replaced by a link or by a second name of another file is refused when
// it is read or written, and nothing is written to the other file.
func TestTranscriptThatIsALinkIsRefused(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	s := openDir(t, dir)
	end := appendTexts(t, s, testRef("x"), 0, "one")
	file(t, s, testRef("x"))
	path := filepath.Join(dir, "sessions", "main", "x.jsonl")
	var refused *dirstore.UnsafeError
	require.NoError(t, os.Link(path, dir+" name"))
	_, err := s.Transcripts.Append(t.Context(), testRef("x"), end, userMessages("two")...)
	require.ErrorAs(t, err, &refused)
	assert.Equal(t, path, refused.Path)
	require.NoError(t, os.Remove(path))
	require.NoError(t, os.Symlink(dir+" name", path))
	_, err = s.Transcripts.Append(t.Context(), testRef("x"), end, userMessages("two")...)
	require.ErrorAs(t, err, &refused)
	_, err = transcriptEnd(t, s, testRef("x"))
	require.ErrorAs(t, err, &refused)
	for f, err := range dirstore.Verify(t.Context(), dir) {
		if f.Path == filepath.Join("sessions", "main", "x.jsonl") {
			require.ErrorAs(t, err, &refused)
		}
	}
	require.NoError(t, os.Remove(path))
	require.NoError(t, os.Rename(dir+" name", path))
	appendTexts(t, s, testRef("x"), end, "two")
	assert.Equal(t, []string{"one", "two"}, lineTexts(t, s, testRef("x")))
	require.NoError(t, s.Close())
}

// S8: a temporary file that another program has left, or a link in its place, is removed and not
// written through.
func TestTemporaryFilesAreMadeExclusively(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	precious := dir + " precious"
	require.NoError(t, os.WriteFile(precious, []byte("precious"), 0o600))
	s := openDir(t, dir)
	r := newJournalRun()
	require.NoError(t, r.append(t.Context(), s, treeKey(1), batchOf(testTime, false, "busy")))
	appendTexts(t, s, testRef("x"), 0, "one")
	// The first file of an agent removes what dead processes have left. The second does not look.
	require.NoError(t, os.Symlink(precious, filepath.Join(dir, "journal", "00000002.wal.tmp")))
	for _, name := range dirstore.TranscriptNames(testRef("y")) {
		require.NoError(t, os.Symlink(precious, filepath.Join(dir, "sessions", "main", name+".tmp")))
	}
	require.NoError(t, dirstore.Compact(s))
	appendTexts(t, s, testRef("y"), 0, "one")
	r.m.verify(t, s, "after the compaction")
	require.NoError(t, s.Close())
	b, err := os.ReadFile(precious)
	require.NoError(t, err)
	assert.Equal(t, "precious", string(b))
}

// S8: Open takes the permissions of other users away: on the directory of a Store, on its parts, on
// the lock file and the log. It refuses a directory that holds more than a Store, and one that
// users share, so that a wrong path closes no directory of the system.
func TestOpenTakesPermissionsOfOthersAway(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	require.NoError(t, openDir(t, dir).Close())
	var paths []string
	require.NoError(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		mode := fs.FileMode(0o777)
		if !e.IsDir() {
			mode = 0o666
		}
		paths = append(paths, path)
		return os.Chmod(path, mode)
	}))
	require.Len(t, paths, 5)
	s := openDir(t, dir)
	for _, path := range paths {
		info, err := os.Lstat(path)
		require.NoError(t, err)
		assert.Zero(t, info.Mode().Perm()&0o077, path)
	}
	require.NoError(t, s.Close())

	for _, mode := range []fs.FileMode{0o755, 0o777, fs.ModeSticky | 0o777} {
		require.NoError(t, os.Chmod(dir, mode))
		if mode&fs.ModeSticky == 0 {
			require.NoError(t, os.WriteFile(filepath.Join(dir, "bot.json"), nil, 0o600))
		}
		requireUnsafe(t, dir, dir)
		info, err := os.Lstat(dir)
		require.NoError(t, err)
		assert.Equal(t, mode, info.Mode()&^fs.ModeDir, "nothing was changed")
		require.NoError(t, os.RemoveAll(filepath.Join(dir, "bot.json")))
	}
	require.NoError(t, os.Chmod(dir, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "bot.json"), nil, 0o600))
	require.NoError(t, openDir(t, dir).Close())
}

// S8: Open refuses a directory, a part of it, a lock file or a log of another user, and makes
// nothing in it.
func TestOpenRefusesFilesOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only the superuser can give files away")
	}
	for _, at := range []string{"", "lock", "journal", "sessions", "journal/00000001.wal"} {
		dir := filepath.Join(t.TempDir(), "state")
		require.NoError(t, openDir(t, dir).Close())
		path := filepath.Join(dir, at)
		require.NoError(t, os.Chown(path, 4711, 4711))
		requireUnsafe(t, dir, path)
		_, err := dirstore.Open(dir)
		assert.ErrorContains(t, err, "4711")
		require.NoError(t, os.Chown(path, 0, 0))
		require.NoError(t, openDir(t, dir).Close())
	}
	dir := t.TempDir()
	require.NoError(t, os.Chown(dir, 4711, 4711))
	requireUnsafe(t, dir, dir)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Empty(t, entries)
}

// The path of the directory itself may be a link: the caller has chosen it.
func TestDirectoryMayBeALink(t *testing.T) {
	home := t.TempDir()
	dir, link := filepath.Join(home, "disk", "state"), filepath.Join(home, "state")
	require.NoError(t, os.MkdirAll(dir, 0o700))
	require.NoError(t, os.Symlink(dir, link))
	s := openDir(t, link)
	appendTexts(t, s, testRef("x"), 0, "one")
	require.NoError(t, s.Health(t.Context()))
	_, err := dirstore.Open(dir)
	require.ErrorIs(t, err, dirstore.ErrLocked)
	require.NoError(t, os.Remove(link))
	require.ErrorContains(t, s.Health(t.Context()), link)
	require.NoError(t, s.Close())
}

// S8: a kept file that is not a file of its own is refused where it is read or put,
// and nothing is written through a link.
func TestKeptFileThatIsALinkIsRefused(t *testing.T) {
	for name, plant := range map[string]func(precious, path string) error{
		"a link":          os.Symlink,
		"a link to a dir": func(_, path string) error { return os.Symlink(filepath.Dir(path), path) },
		"a pipe":          func(_, path string) error { return syscall.Mkfifo(path, 0o600) },
		"a directory":     func(_, path string) error { return os.Mkdir(path, 0o700) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "state")
			precious := dir + " precious"
			require.NoError(t, os.WriteFile(precious, []byte("precious"), 0o600))
			s, ref := openDir(t, dir), testRef("x")
			path := keptPath(t, dir, s, ref, []byte("hello"))
			require.NoError(t, os.Remove(path))
			require.NoError(t, plant(precious, path))
			var refused *dirstore.UnsafeError
			_, err := readFile(s, ref, hashOf([]byte("hello")))
			require.ErrorAs(t, err, &refused)
			assert.Equal(t, path, refused.Path)
			_, err = s.Files.Put(t.Context(), ref, strings.NewReader("hello"), session.File{})
			require.ErrorAs(t, err, &refused)
			for f, err := range dirstore.Verify(t.Context(), dir) {
				if filepath.Join(dir, f.Path) == path {
					require.ErrorAs(t, err, &refused)
				}
			}
			require.NoError(t, os.Remove(path))
			putBytes(t, s, ref, []byte("hello"))
			require.NoError(t, s.Close())
			b, err := os.ReadFile(precious)
			require.NoError(t, err)
			assert.Equal(t, "precious", string(b))
		})
	}
}
