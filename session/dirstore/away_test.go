package dirstore_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/internal/disk"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/dirstore"
)

// A directory is out of reach for a while, because its disk is gone. Meanwhile a lookup is an
// error, and nothing begins anew. When the directory is back, everything is as it was, and the
// store goes on. The store does not have a lock here, which would take a moved directory for one
// that is lost.
func TestStoreGoesOnWhenDirectoryIsBack(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("files that are open cannot be moved")
	}
	dir := filepath.Join(t.TempDir(), "state")
	s := openDir(t, dir)
	r := newJournalRun()
	idle, busy := treeKey(1), treeKey(2)
	require.NoError(t, r.append(t.Context(), s, idle, batchOf(time.Time{}, false, "long ago")))
	require.NoError(t, r.append(t.Context(), s, busy, batchOf(testTime, false, "now")))
	require.NoError(t, dirstore.Compact(s))
	end := appendTexts(t, s, testRef("known"), 0, "one")
	other := appendTexts(t, s, testRef("forgotten"), 0, "one")
	appendTexts(t, s, testRef("old"), 0, "one")
	_, err := s.Transcripts.Archive(t.Context(), testRef("old"), testTime)
	require.NoError(t, err)
	require.NoError(t, s.Close())
	s, err = dirstore.OpenOn(disk.OS(), dir)
	require.NoError(t, err)
	assert.Equal(t, []string{"one"}, lineTexts(t, s, testRef("known")))

	require.NoError(t, os.Rename(dir, dir+" elsewhere"))
	for range 2 {
		_, err := readLog(t.Context(), s.Journal, idle)
		require.ErrorIs(t, err, fs.ErrNotExist)
		assert.ErrorContains(t, err, dir)
		for _, root := range []session.Key{idle, treeKey(3)} {
			_, err = s.Journal.Append(t.Context(), root, 0, batchOf(testTime, false, "anew"))
			require.ErrorIs(t, err, fs.ErrNotExist)
		}
		require.ErrorIs(t, rootsError(t, s), fs.ErrNotExist)
		require.ErrorIs(t, dirstore.Compact(s), fs.ErrNotExist)
		for _, id := range []string{"known", "forgotten", "old", "new"} {
			_, err = transcriptEnd(t, s, testRef(id))
			require.ErrorIs(t, err, fs.ErrNotExist, id)
			_, err = s.Transcripts.Append(t.Context(), testRef(id), 0, userMessages("anew")...)
			require.Error(t, err)
			if id != "known" { // the store knows the end of that one
				require.ErrorIs(t, err, fs.ErrNotExist, id)
			}
			_, err = s.Transcripts.Archive(t.Context(), testRef(id), testTime)
			require.ErrorIs(t, err, fs.ErrNotExist, id)
		}
		_, err = s.Transcripts.Append(t.Context(), testRef("known"), end, userMessages("lost")...)
		require.ErrorIs(t, err, fs.ErrNotExist)
		require.ErrorIs(t, s.Files.Remove(t.Context(), testRef("known")), fs.ErrNotExist)
	}
	require.NoError(t, os.Rename(dir+" elsewhere", dir))

	for id, end := range map[string]session.Pos{"known": end, "forgotten": other} {
		assert.Equal(t, []string{"one"}, lineTexts(t, s, testRef(id)))
		appendTexts(t, s, testRef(id), end, "two")
	}
	_, err = s.Transcripts.Append(t.Context(), testRef("old"), 0, userMessages("anew")...)
	require.ErrorIs(t, err, session.ErrArchived)
	r.m.verify(t, s, "back")
	require.NoError(t, r.append(t.Context(), s, idle, batchOf(testTime, false, "again")))
	require.NoError(t, r.append(t.Context(), s, busy, batchOf(testTime, false, "again")))
	require.NoError(t, dirstore.Compact(s))
	r.m.verify(t, s, "afterwards")
	require.NoError(t, s.Close())
}

// rootsError returns the error of Roots.
func rootsError(t *testing.T, s *session.Store) error {
	for _, err := range s.Journal.Roots(t.Context(), session.RootQuery{}) {
		if err != nil {
			return err
		}
	}
	return nil
}

// transcriptEnd returns the position of the last line of a transcript.
func transcriptEnd(t *testing.T, s *session.Store, ref session.Ref) (end session.Pos, err error) {
	for line, err := range s.Transcripts.Read(t.Context(), ref, session.LineQuery{}) {
		if err != nil {
			return 0, err
		}
		end = line.Pos
	}
	return end, nil
}

// A View sees that a transcript is gone after its owner has archived it.
func TestViewSeesThatTranscriptIsArchived(t *testing.T) {
	dir := t.TempDir()
	s := openDir(t, dir)
	ref := testRef("x")
	appendTexts(t, s, ref, 0, "one")
	v, err := dirstore.View(dir)
	require.NoError(t, err)
	assert.Equal(t, []string{"one"}, lineTexts(t, v, ref))
	_, err = s.Transcripts.Archive(t.Context(), ref, testTime)
	require.NoError(t, err)
	texts, archived := archivedTexts(t, v, ref)
	assert.True(t, archived)
	assert.Equal(t, []string{"one"}, texts)
	require.ErrorIs(t, v.Transcripts.Remove(t.Context(), ref), session.ErrReadOnly)
	assert.Equal(t, s.Transcripts.Locate(ref), v.Transcripts.Locate(ref))
	require.NoError(t, v.Close())
	require.NoError(t, s.Close())
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "sessions")))
	v, err = dirstore.View(dir)
	require.NoError(t, err)
	assert.Empty(t, lineTexts(t, v, ref), "a directory that was only begun has no transcripts yet")
	require.NoError(t, v.Close())
}
