//go:build unix

package dirstore_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/internal/disk"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/dirstore"
)

// A lockTheft is something that is done to the file lock of a directory that is open.
type lockTheft struct {
	do     func(t *testing.T, dir, lock, other string) // other is a file beside dir
	intact bool                                        // the lock is the owner's afterwards
	unsafe bool                                        // Open refuses what is there
}

var lockThefts = map[string]lockTheft{
	"removed": {do: func(t *testing.T, _, lock, _ string) {
		require.NoError(t, os.Remove(lock))
	}},
	"removed and made again": {do: func(t *testing.T, _, lock, _ string) {
		require.NoError(t, os.Remove(lock))
		require.NoError(t, os.WriteFile(lock, nil, 0o600))
	}},
	"replaced by a copy": {do: func(t *testing.T, _, lock, _ string) {
		b, err := os.ReadFile(lock)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(lock+".copy", b, 0o600))
		require.NoError(t, os.Rename(lock+".copy", lock))
	}},
	"moved away": {do: func(t *testing.T, _, lock, _ string) {
		require.NoError(t, os.Rename(lock, lock+".old"))
	}},
	"moved away and back": {intact: true, do: func(t *testing.T, _, lock, _ string) {
		require.NoError(t, os.Rename(lock, lock+".old"))
		require.NoError(t, os.Rename(lock+".old", lock))
	}},
	"written over": {intact: true, do: func(t *testing.T, _, lock, _ string) {
		require.NoError(t, os.WriteFile(lock, []byte("nonsense"), 0o600))
	}},
	"replaced by a link": {unsafe: true, do: func(t *testing.T, _, lock, other string) {
		require.NoError(t, os.Remove(lock))
		require.NoError(t, os.Symlink(other, lock))
	}},
	"replaced by a hard link": {unsafe: true, do: func(t *testing.T, _, lock, other string) {
		require.NoError(t, os.Remove(lock))
		require.NoError(t, os.Link(other, lock))
	}},
	"replaced by a pipe": {unsafe: true, do: func(t *testing.T, _, lock, _ string) {
		require.NoError(t, os.Remove(lock))
		require.NoError(t, syscall.Mkfifo(lock, 0o600))
	}},
	"replaced by a directory": {unsafe: true, do: func(t *testing.T, _, lock, _ string) {
		require.NoError(t, os.Remove(lock))
		require.NoError(t, os.Mkdir(lock, 0o700))
	}},
	"moved into another directory": {do: func(t *testing.T, dir, lock, _ string) {
		require.NoError(t, os.Rename(lock, filepath.Join(filepath.Dir(dir), "lock")))
	}},
}

// stop stops the child until goOn is called.
func (c *childProcess) stop(t *testing.T) (goOn func()) {
	t.Helper()
	pid := c.cmd.Process.Pid
	require.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))
	var status syscall.WaitStatus
	_, err := syscall.Wait4(pid, &status, syscall.WUNTRACED, nil)
	require.NoError(t, err)
	require.True(t, status.Stopped())
	return func() { require.NoError(t, syscall.Kill(pid, syscall.SIGCONT)) }
}

// R1: whatever is done to the file lock, two processes never append to one directory. An owner
// whose lock is not intact refuses every later append, and a second process opens the directory
// once the owner is dead.
func TestLockFileThatIsStolen(t *testing.T) {
	for name, theft := range lockThefts {
		t.Run(name, func(t *testing.T) {
			t.Run("of a running owner", func(t *testing.T) { verifyTheft(t, theft, false) })
			t.Run("of a stopped owner", func(t *testing.T) { verifyTheft(t, theft, true) })
		})
	}
}

func verifyTheft(t *testing.T, theft lockTheft, stopped bool) {
	t.Helper()
	home := t.TempDir()
	dir, other := filepath.Join(home, "state"), filepath.Join(home, "other")
	require.NoError(t, os.WriteFile(other, []byte("precious"), 0o600))
	lock := filepath.Join(dir, "lock")
	owner, answer := startChild(t, dir, treeKey(1))
	require.Equal(t, answerOpen, answer)
	require.Equal(t, answerKept, owner.append(t, "before"))

	goOn := func() {}
	if stopped {
		goOn = owner.stop(t)
		owner.send(t, "while it was stopped")
	}
	theft.do(t, dir, lock, other)
	_, answer = startChild(t, dir, treeKey(2))
	assert.Equal(t, answerLocked, answer, "the owner lives")
	goOn()
	want := answerLost
	if theft.intact {
		want = answerKept
	}
	if stopped {
		require.Equal(t, want, owner.read(t))
		if theft.intact {
			owner.kept = append(owner.kept, "while it was stopped")
		}
	}
	for _, text := range []string{"after", "and again"} {
		require.Equal(t, want, owner.append(t, text))
	}
	_, answer = startChild(t, dir, treeKey(2))
	assert.Equal(t, answerLocked, answer, "the owner lives, although it is lost")
	owner.kill()

	second, answer := startChild(t, dir, treeKey(2))
	if theft.unsafe {
		assert.Contains(t, answer, answerError)
		assert.Contains(t, answer, lock)
		require.NoError(t, os.Remove(lock))
		second, answer = startChild(t, dir, treeKey(2))
	}
	require.Equal(t, answerOpen, answer, "the owner is dead")
	require.Equal(t, answerKept, second.append(t, "mine"))
	verifyKept(t, dir, owner.kept, second.kept)
	b, err := os.ReadFile(other)
	require.NoError(t, err)
	assert.Equal(t, "precious", string(b))
}

// verifyKept fails unless a directory is intact and has what its owners were told to be durable.
func verifyKept(t *testing.T, dir string, kept ...[]string) {
	t.Helper()
	for f, err := range dirstore.Verify(t.Context(), dir) {
		require.NoError(t, err, f.Path)
	}
	v, err := dirstore.View(dir)
	require.NoError(t, err)
	for i, texts := range kept {
		l, err := readLog(t.Context(), v.Journal, treeKey(i+1))
		require.NoError(t, err)
		assert.Equal(t, texts, slices.Clip(l.texts))
	}
	require.NoError(t, v.Close())
}

// A hookFS is the file system of the operating system. It calls beforeSync before every sync.
type hookFS struct {
	disk.FS
	beforeSync func(name string)
}

func (x *hookFS) OpenFile(name string, flag int) (disk.File, error) {
	f, err := x.FS.OpenFile(name, flag)
	return hookFile{f, x, name}, err
}

type hookFile struct {
	disk.File
	fs   *hookFS
	name string
}

func (f hookFile) Sync() error {
	f.fs.beforeSync(f.name)
	return f.File.Sync()
}

// R1: a lock that is removed while a group is written is found before the group is acknowledged: a
// process that took the lock meanwhile need not have read the group.
func TestLockThatIsRemovedDuringASync(t *testing.T) {
	for _, name := range []string{"journal", "transcript"} {
		dir := filepath.Join(t.TempDir(), "state")
		fsys := &hookFS{FS: disk.OS(), beforeSync: func(string) {}}
		s, err := dirstore.OpenLockedOn(fsys, dir)
		require.NoError(t, err)
		end := appendTexts(t, s, testRef("x"), 0, "one")
		fsys.beforeSync = func(string) { _ = os.Remove(filepath.Join(dir, "lock")) }
		if name == "journal" {
			_, err = s.Journal.Append(t.Context(), treeKey(1), 0, batchOf(testTime, false, "x"))
		} else {
			_, err = s.Transcripts.Append(t.Context(), testRef("x"), end, userMessages("two")...)
		}
		requireLost(t, err, dir)
		requireLost(t, s.Health(t.Context()), dir)
		require.NoError(t, s.Close())
	}
}

// R1: a copy of a directory that is open is a directory of its own. It opens beside the owner of
// the first, and neither changes the other.
func TestCopyOfOpenDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	owner, answer := startChild(t, dir, treeKey(1))
	require.Equal(t, answerOpen, answer)
	require.Equal(t, answerKept, owner.append(t, "before"))
	require.NoError(t, exec.CommandContext(t.Context(), "cp", "-r", dir, dir+" copy").Run())
	second, answer := startChild(t, dir+" copy", treeKey(1))
	require.Equal(t, answerOpen, answer)
	require.Equal(t, answerKept, second.append(t, "in the copy"))
	require.Equal(t, answerKept, owner.append(t, "after"))
	verifyKept(t, dir, []string{"before", "after"})
	verifyKept(t, dir+" copy", []string{"before", "in the copy"})
}

// R1: a copy made of hard links has the log of the owner, and is refused.
func TestCopyOfHardLinksIsRefused(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	owner, answer := startChild(t, dir, treeKey(1))
	require.Equal(t, answerOpen, answer)
	require.Equal(t, answerKept, owner.append(t, "before"))
	links := dir + " links"
	require.NoError(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		to := links + path[len(dir):]
		if err != nil || e.IsDir() {
			return os.MkdirAll(to, 0o700)
		}
		return os.Link(path, to)
	}))
	_, answer = startChild(t, links, treeKey(1))
	require.NotEqual(t, answerOpen, answer)
	require.NoError(t, os.Remove(filepath.Join(links, "lock")))
	_, answer = startChild(t, links, treeKey(1))
	require.Contains(t, answer, answerError)
	require.Contains(t, answer, filepath.Join(links, "journal", "00000001.wal"))
	require.Equal(t, answerKept, owner.append(t, "after"))
	verifyKept(t, dir, []string{"before", "after"})
}

// R1: a View and Verify take no lock. An owner opens the directory beside them, and they read it
// beside the owner, also after the lock file was removed.
func TestViewsShutNoOwnerOut(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	require.NoError(t, openDir(t, dir).Close())
	v, err := dirstore.View(dir)
	require.NoError(t, err)
	for _, err := range dirstore.Verify(t.Context(), dir) {
		require.NoError(t, err)
		owner, answer := startChild(t, dir, treeKey(1))
		require.Equal(t, answerOpen, answer)
		require.Equal(t, answerKept, owner.append(t, "x"))
		owner.kill()
		break
	}
	require.NoError(t, v.Close())
	owner, answer := startChild(t, dir, treeKey(1))
	require.Equal(t, answerOpen, answer)
	require.NoError(t, os.Remove(filepath.Join(dir, "lock")))
	verifyKept(t, dir, []string{"x"})
	require.Equal(t, answerLost, owner.append(t, "lost"))
	_, err = os.Lstat(filepath.Join(dir, "lock"))
	require.ErrorIs(t, err, fs.ErrNotExist, "a View makes nothing")
}

// R1: an earlier version of the library takes the lock of the file lock alone. It shuts out this
// version, and this version shuts it out.
func TestEarlierVersionSharesTheLock(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, openDir(t, dir).Close())
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR, 0)
	require.NoError(t, err)
	taken, err := dirstore.LockFile(f)
	require.NoError(t, err)
	require.True(t, taken)
	_, answer := startChild(t, dir, treeKey(1))
	require.Equal(t, answerLocked, answer)
	require.NoError(t, f.Close())

	_, answer = startChild(t, dir, treeKey(1))
	require.Equal(t, answerOpen, answer)
	f, err = os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR, 0)
	require.NoError(t, err)
	taken, err = dirstore.LockFile(f)
	require.NoError(t, err)
	require.False(t, taken)
	require.NoError(t, f.Close())
}

// A directory that is open is renamed, removed or replaced, or the directory of its journal is.
// Every later append fails with ErrSync at once, also to a tree that is not in memory, and Health
// says so. The directory has all that was acknowledged under its new name, and is opened there when
// its owner has closed it.
func TestDirectoryThatIsMovedWhileItIsOpen(t *testing.T) {
	for name, move := range map[string]func(t *testing.T, dir string) (now string){
		"renamed": func(t *testing.T, dir string) string {
			require.NoError(t, os.Rename(dir, dir+" elsewhere"))
			return dir + " elsewhere"
		},
		"its parent renamed": func(t *testing.T, dir string) string {
			parent := filepath.Dir(dir)
			require.NoError(t, os.Rename(parent, parent+" elsewhere"))
			return filepath.Join(parent+" elsewhere", filepath.Base(dir))
		},
		"replaced": func(t *testing.T, dir string) string {
			require.NoError(t, os.Rename(dir, dir+" elsewhere"))
			require.NoError(t, openDir(t, dir).Close())
			return dir + " elsewhere"
		},
		"replaced by a copy": func(t *testing.T, dir string) string {
			require.NoError(t, exec.CommandContext(t.Context(), "cp", "-r", dir, dir+" copy").Run())
			require.NoError(t, os.Rename(dir, dir+" elsewhere"))
			require.NoError(t, os.Rename(dir+" copy", dir))
			return dir + " elsewhere"
		},
		"removed": func(t *testing.T, dir string) string {
			require.NoError(t, os.RemoveAll(dir))
			return ""
		},
		"its journal renamed": func(t *testing.T, dir string) string {
			require.NoError(t, os.Rename(filepath.Join(dir, "journal"), filepath.Join(dir, "old")))
			return ""
		},
	} {
		for _, first := range []string{"append", "append to a new tree", "read", "health"} {
			t.Run(name+", "+first, func(t *testing.T) {
				dir := filepath.Join(t.TempDir(), "home", "state")
				s := openDir(t, dir)
				r := newJournalRun()
				b := batchOf(testTime, false, "before")
				require.NoError(t, r.append(t.Context(), s, treeKey(1), b))
				require.NoError(t, s.Health(t.Context()))
				now := move(t, dir)
				switch first {
				case "append":
					err := r.append(t.Context(), s, treeKey(1), batchOf(testTime, false, "lost"))
					requireLost(t, err, dir)
				case "append to a new tree":
					err := r.append(t.Context(), s, treeKey(2), batchOf(testTime, false, "lost"))
					requireLost(t, err, dir)
				case "read":
					_, err := readLog(t.Context(), s.Journal, treeKey(2))
					requireLost(t, err, dir)
				}
				requireLost(t, s.Health(t.Context()), dir)
				if now != "" && first == "health" { // it does not come back
					require.NoError(t, os.RemoveAll(dir))
					require.NoError(t, os.MkdirAll(filepath.Dir(dir), 0o700))
					require.NoError(t, os.Rename(now, dir))
					now = dir
				}
				for i := range 3 {
					b := batchOf(testTime, false, "lost")
					_, err := s.Journal.Append(t.Context(), treeKey(2+i), 0, b)
					requireLost(t, err, dir)
				}
				_, err := s.Transcripts.Append(t.Context(), testRef("x"), 0, userMessages("lost")...)
				requireLost(t, err, dir)
				require.NoError(t, s.Close())
				if now != "" {
					s = openDir(t, now)
					r.m.verify(t, s, name)
					require.NoError(t, s.Close())
				}
			})
		}
	}
}

// requireLost fails unless err says that the Store has lost its directory.
func requireLost(t *testing.T, err error, dir string) {
	t.Helper()
	require.ErrorIs(t, err, session.ErrSync)
	require.ErrorContains(t, err, dir)
}
