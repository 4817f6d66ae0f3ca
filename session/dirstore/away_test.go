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

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/dirstore"
)

// A directory that is away, because somebody has moved it or its disk is gone, is not an empty one:
// what cannot be looked up is an error, and nothing begins anew. When it is back everything is as
// it was, and goes on.
func TestIsAwayForAWhile(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("files that are open cannot be moved")
	}
	dir := filepath.Join(t.TempDir(), "state")
	s, err := dirstore.Open(dir)
	require.NoError(t, err)
	r := &journalRun{m: make(journalModel)}
	idle, busy := tree(1), tree(2)
	require.NoError(t, r.append(t.Context(), s, idle, batchOf(time.Time{}, false, "long ago")))
	require.NoError(t, r.append(t.Context(), s, busy, batchOf(noon, false, "now")))
	require.NoError(t, dirstore.Compact(s))
	ref := func(id string) session.Ref {
		return session.Ref{Key: session.Must(session.MainKey("main")), SessionID: id}
	}
	end := say(t, s, ref("known"), 0, "one")
	other := say(t, s, ref("forgotten"), 0, "one")
	say(t, s, ref("old"), 0, "one")
	_, err = s.Transcripts.Archive(t.Context(), ref("old"), noon)
	require.NoError(t, err)
	require.NoError(t, s.Close())
	s, err = dirstore.Open(dir)
	require.NoError(t, err)
	assert.Equal(t, []string{"one"}, lineTexts(t, s, ref("known")))

	require.NoError(t, os.Rename(dir, dir+" elsewhere"))
	for range 2 {
		_, err := readLog(t.Context(), s.Journal, idle)
		require.ErrorIs(t, err, fs.ErrNotExist)
		assert.ErrorContains(t, err, dir)
		for _, root := range []session.Key{idle, tree(3)} {
			_, err = s.Journal.Append(t.Context(), root, 0, batchOf(noon, false, "anew"))
			require.ErrorIs(t, err, fs.ErrNotExist)
		}
		require.ErrorIs(t, roots(t, s), fs.ErrNotExist)
		require.ErrorIs(t, dirstore.Compact(s), fs.ErrNotExist)
		for _, id := range []string{"known", "forgotten", "old", "new"} {
			_, err = transcriptEnd(t, s, ref(id))
			require.ErrorIs(t, err, fs.ErrNotExist, id)
			_, err = s.Transcripts.Append(t.Context(), ref(id), 0, says("anew")...)
			require.Error(t, err)
			if id != "known" { // where that ends is known
				require.ErrorIs(t, err, fs.ErrNotExist, id)
			}
			_, err = s.Transcripts.Archive(t.Context(), ref(id), noon)
			require.ErrorIs(t, err, fs.ErrNotExist, id)
		}
		_, err = s.Transcripts.Append(t.Context(), ref("known"), end, says("lost")...)
		require.ErrorIs(t, err, fs.ErrNotExist)
	}
	require.NoError(t, os.Rename(dir+" elsewhere", dir))

	for id, end := range map[string]session.Pos{"known": end, "forgotten": other} {
		assert.Equal(t, []string{"one"}, lineTexts(t, s, ref(id)))
		say(t, s, ref(id), end, "two")
	}
	_, err = s.Transcripts.Append(t.Context(), ref("old"), 0, says("anew")...)
	require.ErrorIs(t, err, session.ErrArchived)
	r.m.verify(t, s, "back")
	require.NoError(t, r.append(t.Context(), s, idle, batchOf(noon, false, "again")))
	require.NoError(t, r.append(t.Context(), s, busy, batchOf(noon, false, "again")))
	require.NoError(t, dirstore.Compact(s))
	r.m.verify(t, s, "afterwards")
	require.NoError(t, s.Close())
}

func roots(t *testing.T, s *session.Store) error {
	for _, err := range s.Journal.Roots(t.Context(), session.RootQuery{}) {
		if err != nil {
			return err
		}
	}
	return nil
}

func transcriptEnd(t *testing.T, s *session.Store, ref session.Ref) (end session.Pos, err error) {
	for line, err := range s.Transcripts.Read(t.Context(), ref, session.LineQuery{}) {
		if err != nil {
			return 0, err
		}
		end = line.Pos
	}
	return end, nil
}

// Who only looks sees that a transcript is gone which its owner has archived meanwhile.
func TestViewOfTranscriptThatIsArchived(t *testing.T) {
	dir := t.TempDir()
	s, err := dirstore.Open(dir)
	require.NoError(t, err)
	ref := session.Ref{Key: session.Must(session.MainKey("main")), SessionID: "x"}
	say(t, s, ref, 0, "one")
	v, err := dirstore.View(dir)
	require.NoError(t, err)
	assert.Equal(t, []string{"one"}, lineTexts(t, v, ref))
	_, err = s.Transcripts.Archive(t.Context(), ref, noon)
	require.NoError(t, err)
	assert.Empty(t, lineTexts(t, v, ref))
	assert.Equal(t, s.Transcripts.Locate(ref), v.Transcripts.Locate(ref))
	require.NoError(t, v.Close())
	require.NoError(t, s.Close())
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "sessions")))
	v, err = dirstore.View(dir)
	require.NoError(t, err)
	assert.Empty(t, lineTexts(t, v, ref), "a directory that was only begun has no transcripts yet")
	require.NoError(t, v.Close())
}
