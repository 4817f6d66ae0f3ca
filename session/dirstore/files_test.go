package dirstore_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/internal/disk"
	"github.com/offshoot-sdk/offshoot/internal/disk/disktest"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/dirstore"
)

// testBytes returns n bytes that say the id.
func testBytes(id string, n int) []byte { return bytes.Repeat([]byte(id), n/len(id)+1)[:n] }

func hashOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// putBytes keeps bytes, and returns their File.
func putBytes(t *testing.T, s *session.Store, ref session.Ref, b []byte) session.File {
	t.Helper()
	file, err := s.Files.Put(t.Context(), ref, bytes.NewReader(b), session.File{})
	require.NoError(t, err)
	require.Equal(t, session.File{Hash: hashOf(b), Size: int64(len(b))}, file)
	return file
}

// readFile returns the bytes of a kept file.
func readFile(s *session.Store, ref session.Ref, hash string) ([]byte, error) {
	r, err := s.Files.Open(context.Background(), ref, hash)
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(r)
	return b, errors.Join(err, r.Close())
}

// listFiles returns the hashes of the files of ref.
func listFiles(t *testing.T, s *session.Store, ref session.Ref) (hashes []string) {
	t.Helper()
	for file, err := range s.Files.List(t.Context(), ref) {
		require.NoError(t, err)
		hashes = append(hashes, file.Hash)
	}
	return hashes
}

// filesDirs returns the directories of files below a directory, archived ones too.
func filesDirs(t *testing.T, dir string) (found []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() && strings.Contains(e.Name(), ".files") {
			found = append(found, path)
		}
		return err
	}))
	return found
}

// keptPath puts bytes for a transcript and returns where the directory has them.
func keptPath(t *testing.T, dir string, s *session.Store, ref session.Ref, b []byte) string {
	t.Helper()
	putBytes(t, s, ref, b)
	return filepath.Join(dir, "sessions", "main", dirstore.FilesDirName(ref), hashOf(b))
}

// A kept file lies beside the transcript under its hash, for the user alone.
func TestFilesLayout(t *testing.T) {
	dir, ref := t.TempDir(), testRef("x")
	s := openDir(t, dir)
	path := keptPath(t, dir, s, ref, []byte("hello"))
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, "hello", string(b))
	assert.True(t, strings.HasPrefix(filepath.Base(filepath.Dir(path)), "x~"))
	for name, want := range map[string]fs.FileMode{path: 0o600, filepath.Dir(path): 0o700} {
		info, err := os.Lstat(name)
		require.NoError(t, err)
		if runtime.GOOS != "windows" {
			assert.Equal(t, want, info.Mode().Perm(), name)
		}
	}
	require.NoError(t, s.Files.Archive(t.Context(), ref, testTime))
	archived := session.ArchiveName(filepath.Dir(path), testTime)
	assert.Equal(t, []string{archived}, filesDirs(t, dir))
	require.NoError(t, s.Files.Remove(t.Context(), ref))
	assert.Empty(t, filesDirs(t, dir))
	require.NoError(t, s.Close())
}

// damages change a kept file of "hello".
var damages = map[string]func(t *testing.T, path string){
	"other bytes": func(t *testing.T, path string) {
		require.NoError(t, os.WriteFile(path, []byte("hellO"), 0o600))
	},
	"short": func(t *testing.T, path string) { require.NoError(t, os.Truncate(path, 4)) },
	"empty": func(t *testing.T, path string) { require.NoError(t, os.Truncate(path, 0)) },
	"long": func(t *testing.T, path string) {
		require.NoError(t, os.WriteFile(path, []byte("hello hello"), 0o600))
	},
}

// Bytes that have changed are a CorruptError that names the path, of a reader that reads to the
// last byte and no further too. Verify finds them, Repair puts them aside, and a Put of the right
// bytes heals them.
func TestDamagedFileIsNoticedAndHealed(t *testing.T) {
	for name, damage := range damages {
		t.Run(name, func(t *testing.T) {
			dir, ref := t.TempDir(), testRef("x")
			s := openDir(t, dir)
			path := keptPath(t, dir, s, ref, []byte("hello"))
			damage(t, path)

			_, err := readFile(s, ref, hashOf([]byte("hello")))
			var corrupt *session.CorruptError
			require.ErrorAs(t, err, &corrupt)
			assert.Equal(t, path, corrupt.File)
			r, err := s.Files.Open(t.Context(), ref, hashOf([]byte("hello")))
			require.NoError(t, err)
			b := make([]byte, 11)
			n, err := io.ReadFull(r, b)
			require.ErrorIs(t, err, session.ErrCorrupt, "%d bytes", n)
			_, err = r.Read(b)
			require.ErrorIs(t, err, session.ErrCorrupt, "the error stays")
			require.NoError(t, r.Close())

			putBytes(t, s, ref, []byte("hello"))
			b, err = readFile(s, ref, hashOf([]byte("hello")))
			require.NoError(t, err)
			assert.Equal(t, "hello", string(b))

			damage(t, path)
			require.NoError(t, s.Close())
			bad := map[string]error{}
			for f, err := range dirstore.Verify(t.Context(), dir) {
				if err != nil {
					bad[filepath.Join(dir, f.Path)] = err
				}
			}
			require.Len(t, bad, 1)
			require.ErrorIs(t, bad[path], session.ErrCorrupt)
			done, err := dirstore.Repair(t.Context(), dir)
			require.NoError(t, err)
			require.Len(t, done.Files, 1)
			assert.Equal(t, path, filepath.Join(dir, done.Files[0].Path))
			assert.Len(t, done.Files[0].Aside, 1)
			assert.FileExists(t, filepath.Join(dir, done.Files[0].Aside[0]))
			assert.Empty(t, done.Unknown, "the journal lost nothing")
			s = openDir(t, dir)
			assert.Empty(t, listFiles(t, s, ref))
			_, err = readFile(s, ref, hashOf([]byte("hello")))
			require.ErrorIs(t, err, session.ErrNotFound)
			require.NoError(t, s.Files.Remove(t.Context(), ref), "what was put aside goes too")
			assert.Empty(t, filesDirs(t, dir))
			require.NoError(t, s.Close())
		})
	}
}

// Verify reads the files of archived transcripts, and passes over what an interrupted Put left.
func TestVerifyReadsFiles(t *testing.T) {
	dir, ref := t.TempDir(), testRef("x")
	s := openDir(t, dir)
	path := keptPath(t, dir, s, ref, []byte("hello"))
	require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(path), "put-9.tmp"), nil, 0o600))
	require.NoError(t, s.Files.Archive(t.Context(), ref, testTime))
	require.NoError(t, s.Close())
	var seen []string
	for f, err := range dirstore.Verify(t.Context(), dir) {
		require.NoError(t, err, f.Path)
		if strings.Contains(f.Path, ".files") {
			seen = append(seen, filepath.Base(f.Path))
			assert.EqualValues(t, 5, f.Bytes)
		}
	}
	assert.Equal(t, []string{hashOf([]byte("hello"))}, seen)
}

// What an interrupted Put has left goes when a later process puts a file there, or with Remove.
func TestLeftoversOfPut(t *testing.T) {
	dir, ref := t.TempDir(), testRef("x")
	s := openDir(t, dir)
	path := keptPath(t, dir, s, ref, []byte("hello"))
	left := filepath.Join(filepath.Dir(path), "put-9.tmp")
	require.NoError(t, s.Close())
	require.NoError(t, os.WriteFile(left, []byte("half"), 0o600))
	s = openDir(t, dir)
	assert.Equal(t, []string{hashOf([]byte("hello"))}, listFiles(t, s, ref))
	putBytes(t, s, ref, []byte("more"))
	assert.NoFileExists(t, left)
	require.NoError(t, os.WriteFile(left, []byte("half"), 0o600))
	require.NoError(t, s.Files.Remove(t.Context(), ref))
	assert.Empty(t, filesDirs(t, dir))
	require.NoError(t, s.Close())
}

// A Put for a transcript of which only the lines are archived so far is refused, also by a later
// process, and also one that was reading meanwhile. It leaves nothing.
func TestPutForArchivedTranscript(t *testing.T) {
	dir, ref := t.TempDir(), testRef("x")
	s := openDir(t, dir)
	appendTexts(t, s, ref, 0, "hello")
	putBytes(t, s, ref, []byte("before"))
	archive := iotest.ErrReader(io.EOF)
	_, err := s.Files.Put(t.Context(), ref, io.MultiReader(
		strings.NewReader("meanwhile"), readerFunc(func(b []byte) (int, error) {
			_, err := s.Transcripts.Archive(t.Context(), ref, testTime)
			require.NoError(t, err)
			return archive.Read(b)
		})), session.File{})
	require.ErrorIs(t, err, session.ErrArchived)
	for range 2 {
		_, err := s.Files.Put(t.Context(), ref, strings.NewReader("late"), session.File{})
		require.ErrorIs(t, err, session.ErrArchived)
		assert.Equal(t, []string{hashOf([]byte("before"))}, listFiles(t, s, ref))
		require.NoError(t, s.Close())
		s = openDir(t, dir)
	}
	require.NoError(t, s.Files.Archive(t.Context(), ref, testTime))
	entries, err := os.ReadDir(filesDirs(t, dir)[0])
	require.NoError(t, err)
	assert.Len(t, entries, 1, "no leftover")
	require.NoError(t, s.Close())
}

// readerFunc is an [io.Reader].
type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

// Files archived or removed while a Put is reading make it fail, and it leaves nothing.
func TestFilesTakenAwayDuringPut(t *testing.T) {
	for _, name := range []string{"archive", "remove"} {
		t.Run(name, func(t *testing.T) {
			dir, ref := t.TempDir(), testRef("x")
			s := openDir(t, dir)
			putBytes(t, s, ref, []byte("before"))
			_, err := s.Files.Put(t.Context(), ref, io.MultiReader(
				bytes.NewReader(testBytes("x", 100_000)), readerFunc(func([]byte) (int, error) {
					if name == "archive" {
						require.NoError(t, s.Files.Archive(t.Context(), ref, testTime))
					} else {
						require.NoError(t, s.Files.Remove(t.Context(), ref))
					}
					return 0, io.EOF
				})), session.File{})
			want := map[string]error{"archive": session.ErrArchived, "remove": fs.ErrNotExist}
			require.ErrorIs(t, err, want[name])
			left := 0
			for _, dir := range filesDirs(t, dir) {
				entries, err := os.ReadDir(dir)
				require.NoError(t, err)
				left += len(entries)
			}
			assert.Equal(t, map[string]int{"archive": 1, "remove": 0}[name], left)
			require.NoError(t, s.Close())
		})
	}
}

// A View and a ViewIntact open and list files, and change nothing.
func TestFilesOfView(t *testing.T) {
	dir, ref, old := t.TempDir(), testRef("x"), testRef("old")
	s := openDir(t, dir)
	putBytes(t, s, ref, []byte("hello"))
	putBytes(t, s, old, []byte("archived"))
	require.NoError(t, s.Files.Archive(t.Context(), old, testTime))
	view, err := dirstore.View(dir)
	require.NoError(t, err)
	intact, _, err := dirstore.ViewIntact(dir)
	require.NoError(t, err)
	for _, v := range []*session.Store{view, intact} {
		for ref, want := range map[session.Ref]string{ref: "hello", old: "archived"} {
			b, err := readFile(v, ref, hashOf([]byte(want)))
			require.NoError(t, err)
			assert.Equal(t, want, string(b))
			assert.Len(t, listFiles(t, v, ref), 1)
		}
		_, err := v.Files.Put(t.Context(), ref, strings.NewReader("x"), session.File{})
		require.ErrorIs(t, err, session.ErrReadOnly)
		require.ErrorIs(t, v.Files.Archive(t.Context(), ref, testTime), session.ErrReadOnly)
		require.ErrorIs(t, v.Files.Remove(t.Context(), ref), session.ErrReadOnly)
		require.NoError(t, v.Close())
		_, err = readFile(v, ref, hashOf([]byte("hello")))
		require.ErrorIs(t, err, session.ErrClosed)
	}
	require.NoError(t, s.Close())
}

// Close waits for what writes, and not for what Put reads: that Put fails afterwards.
func TestCloseDuringPut(t *testing.T) {
	dir, ref := t.TempDir(), testRef("x")
	s := openDir(t, dir)
	_, err := s.Files.Put(t.Context(), ref, io.MultiReader(
		bytes.NewReader(testBytes("x", 100_000)), readerFunc(func([]byte) (int, error) {
			require.NoError(t, s.Close())
			return 0, io.EOF
		})), session.File{})
	require.ErrorIs(t, err, session.ErrClosed)
	s = openDir(t, dir)
	assert.Empty(t, listFiles(t, s, ref))
	require.NoError(t, s.Files.Remove(t.Context(), ref))
	assert.Empty(t, filesDirs(t, dir))
	require.NoError(t, s.Close())
}

// The error of what Put reads is not one of the Store, whatever it says.
func TestErrorOfSourceIsNotOfStore(t *testing.T) {
	s := openDir(t, t.TempDir())
	_, err := s.Files.Put(t.Context(), testRef("x"), iotest.ErrReader(
		&fs.PathError{Op: "open", Path: "/source", Err: fs.ErrPermission}), session.File{})
	require.ErrorIs(t, err, fs.ErrPermission)
	require.NotErrorIs(t, err, session.ErrUnsafe)
	require.NoError(t, s.Close())
}

// A fileRun puts, archives and removes files, and remembers what was acknowledged.
type fileRun struct {
	kept  map[session.Ref]map[string]bool // true: acknowledged, false: tried
	taken map[session.Ref]bool            // its Remove has begun
	ended map[session.Ref]bool            // its Archive was acknowledged
}

func newFileRun() *fileRun {
	return &fileRun{
		kept: make(map[session.Ref]map[string]bool), taken: make(map[session.Ref]bool),
		ended: make(map[session.Ref]bool),
	}
}

func (r *fileRun) put(t *testing.T, s *session.Store, ref session.Ref, b []byte) error {
	if r.kept[ref] == nil {
		r.kept[ref] = make(map[string]bool)
	}
	hash := hashOf(b)
	if _, tried := r.kept[ref][hash]; !tried {
		r.kept[ref][hash] = false
	}
	_, err := s.Files.Put(t.Context(), ref, bytes.NewReader(b), session.File{})
	if err == nil {
		r.kept[ref][hash] = true
	}
	return err
}

func (r *fileRun) run(t *testing.T, d *disktest.Disk) error {
	s, err := dirstore.OpenOn(d, "/")
	if err != nil {
		return err
	}
	a, b := testRef("a"), testRef("b")
	var errs []error
	for _, x := range []struct {
		ref session.Ref
		b   []byte
	}{
		{a, testBytes("one", 700)},
		{a, testBytes("two", 70_000)},
		{b, testBytes("one", 700)},
		{a, testBytes("one", 700)},
		{a, nil},
		{b, testBytes("three", 2000)},
	} {
		errs = append(errs, r.put(t, s, x.ref, x.b))
	}
	err = s.Files.Archive(t.Context(), a, testTime)
	r.ended[a] = err == nil
	if err == nil {
		delete(r.ended, a) // either of them from here on
		if err = s.Files.Restore(t.Context(), a); err == nil {
			errs = append(errs, r.put(t, s, a, testBytes("four", 900)))
			err = s.Files.Archive(t.Context(), a, testTime.Add(time.Hour))
			r.ended[a] = err == nil
		}
	}
	r.taken[b] = true
	return errors.Join(append(errs, err, s.Files.Remove(t.Context(), b), s.Close())...)
}

func (r *fileRun) verify(t *testing.T, d *disktest.Disk, when string) {
	s := openOn(t, d)
	for ref, files := range r.kept {
		listed := make(map[string]bool)
		for _, hash := range listFiles(t, s, ref) {
			listed[hash] = true
			b, err := readFile(s, ref, hash)
			require.NoError(t, err, when)
			require.Equal(t, hash, hashOf(b), when)
			require.Contains(t, files, hash, when)
		}
		for hash, acknowledged := range files {
			require.True(t, listed[hash] || !acknowledged || r.taken[ref], when)
		}
		if r.ended[ref] {
			_, err := s.Files.Put(t.Context(), ref, strings.NewReader("x"), session.File{})
			require.ErrorIs(t, err, session.ErrArchived, when)
		}
	}
	for f, err := range dirstore.VerifyOn(t.Context(), d, "/") {
		require.NoError(t, err, "%s: %s", when, f.Path)
	}
	other := testRef("other")
	putBytes(t, s, other, testBytes("one", 700))
	again := openOn(t, afterCrash(d))
	require.Len(t, listFiles(t, again, other), 1, when)
	for ref := range r.kept {
		require.NoError(t, s.Files.Remove(t.Context(), ref), when)
	}
	require.NoError(t, s.Files.Remove(t.Context(), other), when)
	entries, err := afterCrash(d).ReadDir("/sessions/main")
	require.NoError(t, err)
	require.Empty(t, entries, "%s: an orphan is left", when)
}

// What Put has acknowledged survives a loss of power before any operation, and nothing under a name
// is ever not whole.
func TestFilePowerLossKeepsAcknowledgedFiles(t *testing.T) {
	d := disktest.New()
	r := newFileRun()
	losses := verifyLosses(t, d, 12,
		func(after *disktest.Disk, when string) { r.verify(t, after, when) })
	require.NoError(t, r.run(t, d))
	assert.Greater(t, *losses, 100)
}

// The same holds for a failure of any operation, such as a disk that is full in the middle.
func TestFileFaultKeepsAcknowledgedFiles(t *testing.T) {
	verifyFaults(t, func() faultRun { return newFileRun() })
}

// A Put fails while the disk is full, names the path and leaves nothing. It succeeds when there is
// room.
func TestPutGoesOnWhenDiskHasRoomAgain(t *testing.T) {
	d := disktest.New()
	s, ref := openOn(t, d), testRef("x")
	putBytes(t, s, ref, []byte("before"))
	for after := range 3 {
		writes := 0
		d.Hook(func(op disktest.Op) error {
			if op.Kind == disktest.OpWrite {
				if writes++; writes > after {
					return &disktest.ShortError{Written: 10, Err: errDiskFull}
				}
			}
			return nil
		})
		_, err := s.Files.Put(t.Context(), ref, bytes.NewReader(testBytes("x", 200_000)),
			session.File{})
		require.ErrorIs(t, err, errDiskFull)
		require.ErrorContains(t, err, "x~")
		d.Hook(nil)
		entries, err := d.ReadDir("/sessions/main/" + dirstore.FilesDirName(ref))
		require.NoError(t, err)
		require.Len(t, entries, 1, "nothing is left of the Put")
	}
	putBytes(t, s, ref, testBytes("x", 200_000))
	require.NoError(t, s.Close())
}

// Session ids that look like names of the store keep their files apart from its own names.
func TestFilesOfStrangeSessionIDs(t *testing.T) {
	dir := t.TempDir()
	s := openDir(t, dir)
	ids := []string{
		"a", "a.files", "a.jsonl", "a.jsonl.deleted.b", "a.files.deleted.b", "con", "A",
		"a.files.deleted.2026-03-04T12-00-00.000Z",
	}
	for _, id := range ids {
		appendTexts(t, s, testRef(id), 0, "line of "+id)
		putBytes(t, s, testRef(id), []byte(id))
	}
	for range 2 {
		for i, id := range ids {
			if i%2 == 0 {
				require.NoError(t, s.Files.Archive(t.Context(), testRef(id), testTime))
				_, err := s.Transcripts.Archive(t.Context(), testRef(id), testTime.Add(time.Hour))
				require.NoError(t, err)
			}
		}
		for i, id := range ids {
			assert.Equal(t, []string{hashOf([]byte(id))}, listFiles(t, s, testRef(id)), id)
			if i%2 == 1 {
				assert.Equal(t, []string{"line of " + id}, lineTexts(t, s, testRef(id)), id)
			}
		}
		require.NoError(t, s.Close())
		for f, err := range dirstore.Verify(t.Context(), dir) {
			require.NoError(t, err, f.Path)
		}
		s = openDir(t, dir)
	}
	require.NoError(t, s.Close())
}

// A directory in which nothing is kept does not become an archive, which no purge would find: it
// goes, with what a Put has left there that failed or died.
func TestArchiveRemovesADirectoryWithoutFiles(t *testing.T) {
	dir := t.TempDir()
	s, err := dirstore.Open(dir)
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	ref := session.Ref{Key: session.Must(session.MainKey("main")), SessionID: "x"}
	_, err = s.Files.Put(t.Context(), ref, iotest.ErrReader(io.ErrUnexpectedEOF), session.File{})
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	agentDir := filepath.Join(dir, "sessions", "main")
	left, err := os.ReadDir(agentDir)
	require.NoError(t, err)
	require.Len(t, left, 1)
	require.NoError(t, os.WriteFile(filepath.Join(agentDir, left[0].Name(), "put-1.tmp"), nil, 0o600))
	for range 2 {
		require.NoError(t, s.Files.Archive(t.Context(), ref, time.Now()))
		left, err = os.ReadDir(agentDir)
		require.NoError(t, err)
		require.Empty(t, left)
	}
	putBytes(t, s, ref, []byte("the transcript may still be begun"))
}

// Restored files are listed and read as before. A directory that a person has made in their place
// is not replaced.
func TestFilesAreRestored(t *testing.T) {
	d := disktest.New()
	s := openOn(t, d)
	ref := testRef("a")
	x := testBytes("x", 700)
	putBytes(t, s, ref, x)
	require.NoError(t, s.Files.Archive(t.Context(), ref, testTime))
	archived, err := d.ReadDir("/sessions/main")
	require.NoError(t, err)
	require.Len(t, archived, 1)
	name, _, _ := strings.Cut(archived[0].Name(), ".deleted.")
	require.NoError(t, d.Mkdir("/sessions/main/"+name))
	require.ErrorIs(t, s.Files.Restore(t.Context(), ref), fs.ErrExist)
	require.NoError(t, d.Remove("/sessions/main/"+name))
	for range 2 {
		require.NoError(t, s.Files.Restore(t.Context(), ref))
		entries, err := afterCrash(d).ReadDir("/sessions/main")
		require.NoError(t, err)
		require.Len(t, entries, 1)
		require.Equal(t, name, entries[0].Name())
		b, err := readFile(s, ref, hashOf(x))
		require.NoError(t, err)
		require.Equal(t, x, b)
	}
	require.Len(t, listFiles(t, s, ref), 1)
}

// A file of a store whose directory is gone, as that of a disk that was taken away, is not said to
// be missing. The store does not have a lock here, which would notice before that the directory has
// moved, and not that of a disk.
func TestFilesOfADiskThatIsGone(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("files that are open cannot be moved")
	}
	dir := filepath.Join(t.TempDir(), "state")
	require.NoError(t, openDir(t, dir).Close()) // makes it
	s, err := dirstore.OpenOn(disk.OS(), dir)
	require.NoError(t, err)
	ref := session.Ref{Key: session.Must(session.MainKey("main")), SessionID: "x"}
	f, err := s.Files.Put(t.Context(), ref, strings.NewReader("kept"), session.File{})
	require.NoError(t, err)
	require.NoError(t, os.Rename(dir, dir+".gone"))
	_, err = s.Files.Open(t.Context(), ref, f.Hash)
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.NotErrorIs(t, err, session.ErrNotFound)
	require.ErrorContains(t, err, dir)
	var listed error
	for _, err := range s.Files.List(t.Context(), ref) {
		listed = err
	}
	require.ErrorIs(t, listed, fs.ErrNotExist)
	require.NotErrorIs(t, listed, session.ErrNotFound)
	require.NoError(t, os.Rename(dir+".gone", dir))
	r, err := s.Files.Open(t.Context(), ref, f.Hash)
	require.NoError(t, err)
	require.NoError(t, r.Close())
	require.NoError(t, s.Close())
}
