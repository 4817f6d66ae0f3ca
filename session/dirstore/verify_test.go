package dirstore_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/internal/disk"
	"github.com/offshoot-sdk/offshoot/internal/wal"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/dirstore"
)

// verifyDir returns the files that Verify yields, and their errors by path. It fails if the
// directory itself has an error.
func verifyDir(t *testing.T, dir string) (files []dirstore.File, bad map[string]error) {
	t.Helper()
	bad = make(map[string]error)
	for f, err := range dirstore.Verify(t.Context(), dir) {
		require.NotZero(t, f, err)
		files = append(files, f)
		if err != nil {
			bad[f.Path] = err
		}
	}
	return files, bad
}

// storeOnDisk opens a store with two idle trees and one transcript. It returns the paths of the
// idle logs.
func storeOnDisk(t *testing.T) (dir string, s *session.Store, idle []string) {
	t.Helper()
	dir = t.TempDir()
	s = openDir(t, dir)
	for i := range 2 {
		_, err := s.Journal.Append(t.Context(), treeKey(i), 0, batchOf(time.Time{}, false, "x", "y"))
		require.NoError(t, err)
	}
	require.NoError(t, dirstore.Compact(s))
	appendTexts(t, s, testRef("a"), 0, "one")
	idle, err := filepath.Glob(filepath.Join(dir, "journal", "idle", "*", "*.wal"))
	require.NoError(t, err)
	require.Len(t, idle, 2)
	return dir, s, idle
}

// Verify passes over files of other programs. A file that cannot be read hides no other.
func TestVerifyPassesOverOtherFiles(t *testing.T) {
	dir, s, idle := storeOnDisk(t)
	require.NoError(t, s.Close())
	for _, name := range []string{"sessions/.DS_Store", "sessions/main/notes.txt", "journal/notes.txt", "journal/idle/notes.txt"} {
		require.NoError(t,
			os.WriteFile(filepath.Join(dir, filepath.FromSlash(name)), []byte("x"), 0o600))
	}
	files, bad := verifyDir(t, dir)
	assert.Len(t, files, 5)
	assert.Empty(t, bad)

	below := filepath.Join("sessions", "main", "directory.jsonl")
	require.NoError(t, os.Mkdir(filepath.Join(dir, below), 0o700))
	require.NoError(t, os.Remove(filepath.Join(dir, "journal", "00000002.wal")))
	require.NoError(t, os.WriteFile(idle[0], []byte("rot"), 0o600))
	files, bad = verifyDir(t, dir)
	assert.Len(t, files, 6)
	assert.Len(t, bad, 3)
	require.Error(t, bad[below])
	require.Error(t, bad["journal"])
	rel, err := filepath.Rel(dir, idle[0])
	require.NoError(t, err)
	require.ErrorIs(t, bad[rel], session.ErrCorrupt)
}

// Verify reads a transcript that is archived meanwhile under its new name.
func TestVerifyFollowsArchivedTranscript(t *testing.T) {
	dir, s, _ := storeOnDisk(t)
	for _, id := range []string{"b", "c"} {
		appendTexts(t, s, testRef(id), 0, "one")
		file(t, s, testRef(id))
	}
	var transcripts []string
	for f, err := range dirstore.Verify(t.Context(), dir) {
		require.NoError(t, err)
		if !strings.HasPrefix(f.Path, "sessions") {
			continue
		}
		transcripts = append(transcripts, filepath.Base(f.Path))
		if f.Path == filepath.Join("sessions", "main", "a.jsonl") {
			_, err := s.Transcripts.Archive(t.Context(), testRef("b"), testTime)
			require.NoError(t, err)
		}
	}
	slices.Sort(transcripts)
	assert.Equal(t, []string{"a.jsonl", session.ArchiveName("b.jsonl", testTime), "c.jsonl"}, transcripts)
	require.NoError(t, s.Close())
}

// An idle log that is complete, but not what its name and its head promise, is rot for every call.
func TestIdleLogMustMatchItsNameAndHead(t *testing.T) {
	dir, s, idle := storeOnDisk(t)
	frames := make([][]wal.Record, 2)
	for i, name := range idle {
		collect := func(_ wal.Span, kind wal.Kind, payload []byte) error {
			frames[i] = append(frames[i], wal.Record{Kind: kind, Payload: slices.Clone(payload)})
			return nil
		}
		_, err := wal.ReadFile(disk.OS(), name, collect)
		require.NoError(t, err)
		require.Len(t, frames[i], 2)
	}
	mine, other := frames[0], frames[1]
	last, n := binary.Uvarint(mine[0].Payload)
	require.EqualValues(t, 2, last)
	root, err := session.ParseRoot(string(mine[0].Payload[n:]))
	require.NoError(t, err)
	further := wal.Record{
		Kind:    mine[0].Kind,
		Payload: append(binary.AppendUvarint(nil, last+1), mine[0].Payload[n:]...),
	}
	for what, records := range map[string][]wal.Record{
		"another's":       other,
		"another's batch": {mine[0], other[1]},
		"cut":             mine[:1],
		"no head":         mine[1:],
		"two heads":       {mine[0], mine[0], mine[1]},
		"nothing":         {},
		"goes further":    {further, mine[1]},
	} {
		require.NoError(t, wal.WriteFile(disk.OS(), idle[0], func(w *wal.Writer) error {
			for _, r := range records {
				if _, err := w.Append(r.Kind, r.Payload); err != nil {
					return err
				}
			}
			return nil
		}))
		files, bad := verifyDir(t, dir)
		assert.Len(t, files, 5, what)
		require.Len(t, bad, 1, what)
		for path, err := range bad {
			assert.Equal(t, idle[0], filepath.Join(dir, path), what)
			if what != "two heads" { // a newer version may have written these
				require.ErrorIs(t, err, session.ErrCorrupt, what)
			}
		}
		_, err := readLog(t.Context(), s.Journal, root)
		require.Error(t, err, what)
		for _, after := range []session.Seq{0, 2} {
			_, appendErr := s.Journal.Append(t.Context(), root, after, batchOf(testTime, false, "z"))
			readCorrupt, appendCorrupt := errors.Is(err, session.ErrCorrupt), errors.Is(appendErr,
				session.ErrCorrupt)
			require.Equal(t, readCorrupt, appendCorrupt, "%s: %v", what, appendErr)
			require.Error(t, appendErr, what)
		}
		roots, err := readRoots(t, s)
		if what == "another's" || what == "no head" || what == "nothing" {
			assert.Len(t, roots, 1, what)
			require.ErrorIs(t, err, session.ErrCorrupt, what)
		}
	}
	require.NoError(t, s.Close())
}

// A notJSONPayload encodes as text that is not JSON.
type notJSONPayload struct{}

func (notJSONPayload) AppendJSON(b []byte) ([]byte, error) { return append(b, "no json"...), nil }

// A payload that is not JSON is a mistake of the caller. Append does not check it, Verify does.
func TestVerifyFindsPayloadThatIsNotJSON(t *testing.T) {
	dir, s, _ := storeOnDisk(t)
	b := batchOf(time.Time{}, false, "x", "y")
	b.Entries[1].Payload = notJSONPayload{}
	_, err := s.Journal.Append(t.Context(), treeKey(7), 0, b)
	require.NoError(t, err)
	for _, where := range []string{"0", "idle"} { // a compaction copies the batch as it is
		_, bad := verifyDir(t, dir)
		require.Len(t, bad, 1)
		for path, err := range bad {
			require.ErrorIs(t, err, session.ErrCorrupt)
			assert.ErrorContains(t, err, fmt.Sprintf("entry 2 of %q is not JSON", treeKey(7)))
			assert.Contains(t, path, filepath.Join("journal", where))
		}
		require.NoError(t, dirstore.Compact(s))
	}
	require.NoError(t, s.Close())
}
