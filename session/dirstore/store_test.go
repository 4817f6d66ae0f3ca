package dirstore_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/internal/disk/disktest"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/dirstore"
)

func TestOpenReturnsErrorOfPath(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err := dirstore.Open(file)
	require.Error(t, err)
	assert.ErrorContains(t, err, file)
	_, err = dirstore.Open(filepath.Join(file, "below"))
	require.Error(t, err)
	_, err = dirstore.View(filepath.Join(dir, "none"))
	require.ErrorIs(t, err, fs.ErrNotExist)
	for _, err := range dirstore.Verify(t.Context(), filepath.Join(dir, "none")) {
		require.ErrorIs(t, err, fs.ErrNotExist)
	}
}

// All files are within the directory, whatever a key contains. Only the user may read them.
func TestFilesStayInDirectoryForUserAlone(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "state")
	s := openDir(t, dir)
	for i, peer := range []string{"../../../x", "..", "%2e%2e/x", `..\..\x`, "/etc/passwd", "con:nul", strings.Repeat("x", 900)} {
		k := session.Must(session.ChannelKey("main", "matrix", peer))
		_, err := s.Journal.Append(t.Context(), k, 0, batchOf(testTime, false, "x"))
		require.NoError(t, err)
		appendTexts(t, s, session.Ref{Key: k, SessionID: fmt.Sprint("id", i)}, 0, "x")
		_, err = s.Journal.Append(t.Context(), k, 1,
			batchOf(testTime.AddDate(-9999, 0, 0).AddDate(9999, 0, 0), false, "y"))
		require.NoError(t, err)
	}
	root := session.Must(session.ChannelKey("main", "matrix", "../idle"))
	_, err := s.Journal.Append(t.Context(), root, 0,
		session.Batch{Entries: batchOf(testTime, false, "z").Entries})
	require.NoError(t, err)
	require.NoError(t, dirstore.Compact(s))
	require.NoError(t, s.Close())
	entries, err := os.ReadDir(parent)
	require.NoError(t, err)
	require.Len(t, entries, 1)
	files := 0
	require.NoError(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		info, infoErr := e.Info()
		if err = errors.Join(err, infoErr); err != nil {
			return err
		}
		files++
		if runtime.GOOS != "windows" {
			want := fs.FileMode(0o600)
			if e.IsDir() {
				want = 0o700
			}
			assert.Equal(t, want, info.Mode().Perm(), path)
		}
		rel, err := filepath.Rel(dir, path)
		top, _, _ := strings.Cut(filepath.ToSlash(rel), "/")
		assert.Contains(t, []string{".", "lock", "journal", "sessions"}, top)
		return err
	}))
	assert.Greater(t, files, 10)
}

// View and Verify work beside the owner of a directory, and change nothing.
func TestViewReadsBesideOwnerAndChangesNothing(t *testing.T) {
	dir := t.TempDir()
	s := openDir(t, dir)
	m := make(journalModel)
	for i := range 6 {
		b := batchOf(testTime, false, fmt.Sprint("first of ", i), "more")
		if i%2 == 0 {
			b.Due = testTime.AddDate(0, 0, -1).AddDate(0, 0, 1)
		} else {
			b.Due = session.Batch{}.Due
		}
		_, err := s.Journal.Append(t.Context(), treeKey(i), 0, b)
		require.NoError(t, err)
		m[treeKey(i)] = m.log(treeKey(i)).after(b)
	}
	ref := session.Ref{Key: treeKey(1), SessionID: "x"}
	end := appendTexts(t, s, ref, 0, "hello")
	require.NoError(t, dirstore.Compact(s))
	v, err := dirstore.View(dir)
	require.NoError(t, err)
	_, err = s.Journal.Append(t.Context(), treeKey(0), 2, batchOf(testTime, true, "later"))
	require.NoError(t, err)
	require.NoError(t, dirstore.Compact(s))
	m.verify(t, v, "as it was")
	assert.Equal(t, []string{"hello"}, lineTexts(t, v, ref))
	assert.Equal(t, s.Transcripts.Locate(ref), v.Transcripts.Locate(ref))
	_, err = v.Journal.Append(t.Context(), treeKey(0), 2, batchOf(testTime, true, "no"))
	require.ErrorIs(t, err, session.ErrReadOnly)
	_, err = v.Transcripts.Append(t.Context(), ref, end, userMessages("no")...)
	require.ErrorIs(t, err, session.ErrReadOnly)
	_, err = v.Transcripts.Archive(t.Context(), ref, testTime)
	require.ErrorIs(t, err, session.ErrReadOnly)
	require.NoError(t, v.Close())
	for _, err := range v.Journal.Read(t.Context(), treeKey(0), 0) {
		require.ErrorIs(t, err, session.ErrClosed)
	}
	parts := 0
	for f, err := range dirstore.Verify(t.Context(), dir) {
		require.NoError(t, err, f.Path)
		assert.Zero(t, f.Torn)
		assert.NotZero(t, f.Bytes)
		parts += f.Parts
	}
	assert.Equal(t, 10, parts, "six batches, their three members that are idle, and a line")
	require.NoError(t, s.Close())
}

// After another program has removed the directory, every write returns an error.
func TestRemovedDirectoryIsAnError(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("files that are open cannot be removed")
	}
	dir := filepath.Join(t.TempDir(), "state")
	s := openDir(t, dir)
	ref := session.Ref{Key: treeKey(0), SessionID: "x"}
	_, err := s.Journal.Append(t.Context(), treeKey(0), 0, batchOf(testTime, false, "x"))
	require.NoError(t, err)
	end := appendTexts(t, s, ref, 0, "x")
	require.NoError(t, os.RemoveAll(dir))
	for range 2 {
		_, err := s.Journal.Append(t.Context(), treeKey(0), 1, batchOf(testTime, false, "lost"))
		var lost *dirstore.LostError
		require.ErrorAs(t, err, &lost)
		require.ErrorIs(t, err, session.ErrSync)
		_, err = s.Transcripts.Append(t.Context(), ref, end, userMessages("lost")...)
		require.ErrorAs(t, err, &lost)
		_, err = s.Transcripts.Append(t.Context(), session.Ref{Key: treeKey(1), SessionID: "y"}, 0,
			userMessages("lost")...)
		require.ErrorAs(t, err, &lost)
	}
	_, err = os.Lstat(dir)
	require.ErrorIs(t, err, fs.ErrNotExist, "the store does not make the directory again")
	_ = s.Close()
}

// A transcript that is not in the directory which has the name of the Store's now need not be
// missing.
func TestReadInReplacedDirectoryIsAnError(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("directories with open files cannot be renamed")
	}
	dir := filepath.Join(t.TempDir(), "state")
	s := openDir(t, dir)
	appendTexts(t, s, testRef("another"), 0, "a line") // so it knows what is archived
	require.NoError(t, os.Rename(dir, dir+" away"))
	other := openDir(t, dir)
	appendTexts(t, other, testRef("another"), 0, "a line")
	require.NoError(t, other.Close())
	var lost *dirstore.LostError
	for _, err := range s.Transcripts.Read(t.Context(), testRef("x"), session.LineQuery{}) {
		require.ErrorAs(t, err, &lost)
	}
	require.NotNil(t, lost)
	_ = s.Close()
}

// Open reads the live trees. A thousand idle trees cost nothing.
func TestOpenReadsLiveTreesOnly(t *testing.T) {
	d := disktest.New()
	s := openOn(t, d)
	for i := range 1000 {
		b := batchOf(session.Batch{}.Due, false, strings.Repeat("history ", 50))
		if i < 3 {
			b.Due = testTime
		}
		_, err := s.Journal.Append(t.Context(), treeKey(i), 0, b)
		require.NoError(t, err)
	}
	require.NoError(t, dirstore.Compact(s))
	require.NoError(t, s.Close())
	size := 0
	d.Hook(func(op disktest.Op) error {
		if op.Kind == disktest.OpRead {
			size += op.Size
		}
		return nil
	})
	s = openOn(t, d)
	assert.Less(t, size, 10_000)
	_, trees := dirstore.LogSize(s)
	assert.Equal(t, 3, trees)
	require.NoError(t, s.Close())
}

// A View has the lines of a new transcript while its owner goes on, before the file is made and
// after it, until the owner takes the transcript away.
func TestViewOfANewTranscript(t *testing.T) {
	d := disktest.New()
	s := openOn(t, d)
	ref, other := testRef("new"), testRef("other")
	end := appendTexts(t, s, ref, 0, "one")
	v, err := dirstore.ViewOn(d, "/")
	require.NoError(t, err)
	var at session.Pos
	for i := range 3 { // the log changes each time
		at = appendTexts(t, s, other, at, fmt.Sprint(i))
		require.Equal(t, []string{"one"}, lineTexts(t, v, ref))
		require.Empty(t, lineTexts(t, v, testRef("none")))
	}
	appendTexts(t, s, ref, end, "two")
	require.Equal(t, []string{"one"}, lineTexts(t, v, ref), "as it was")
	_, err = s.Transcripts.Archive(t.Context(), ref, testTime)
	require.NoError(t, err)
	_, archived := archivedTexts(t, v, ref)
	require.True(t, archived)
	require.NoError(t, s.Transcripts.Remove(t.Context(), ref))
	require.Empty(t, lineTexts(t, v, ref))
	require.NoError(t, v.Close())
	require.NoError(t, s.Close())
}
