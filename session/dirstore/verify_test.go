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

// verified returns which files Verify yields and what is wrong with them. It fails if the directory
// itself is.
func verified(t *testing.T, dir string) (files []dirstore.File, bad map[string]error) {
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

// storeOnDisk opens a store of two idle trees and one transcript, and returns the names of the idle
// files.
func storeOnDisk(t *testing.T) (dir string, s *session.Store, idle []string) {
	t.Helper()
	dir = t.TempDir()
	s, err := dirstore.Open(dir)
	require.NoError(t, err)
	for i := range 2 {
		_, err = s.Journal.Append(t.Context(), tree(i), 0, batchOf(time.Time{}, false, "x", "y"))
		require.NoError(t, err)
	}
	require.NoError(t, dirstore.Compact(s))
	say(t, s, session.Ref{Key: session.Must(session.MainKey("main")), SessionID: "a"}, 0, "one")
	idle, err = filepath.Glob(filepath.Join(dir, "journal", "idle", "*", "*.wal"))
	require.NoError(t, err)
	require.Len(t, idle, 2)
	return dir, s, idle
}

// What people and their systems put beside the files of a store is passed over, and what cannot be
// read hides nothing.
func TestVerifyBesideOtherFiles(t *testing.T) {
	dir, s, idle := storeOnDisk(t)
	require.NoError(t, s.Close())
	for _, name := range []string{"sessions/.DS_Store", "sessions/main/notes.txt", "journal/notes.txt", "journal/idle/notes.txt"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, filepath.FromSlash(name)), []byte("x"), 0o600))
	}
	files, bad := verified(t, dir)
	assert.Len(t, files, 4)
	assert.Empty(t, bad)

	below := filepath.Join("sessions", "main", "directory.jsonl")
	require.NoError(t, os.Mkdir(filepath.Join(dir, below), 0o700))
	require.NoError(t, os.Remove(filepath.Join(dir, "journal", "00000002.wal")))
	require.NoError(t, os.WriteFile(idle[0], []byte("rot"), 0o600))
	files, bad = verified(t, dir)
	assert.Len(t, files, 5)
	assert.Len(t, bad, 3)
	require.Error(t, bad[below])
	require.Error(t, bad["journal"])
	rel, err := filepath.Rel(dir, idle[0])
	require.NoError(t, err)
	require.ErrorIs(t, bad[rel], session.ErrCorrupt)
}

// A transcript that is archived while others are verified is verified under its other name.
func TestVerifyBesideArchive(t *testing.T) {
	dir, s, _ := storeOnDisk(t)
	for _, id := range []string{"b", "c"} {
		say(t, s, session.Ref{Key: session.Must(session.MainKey("main")), SessionID: id}, 0, "one")
	}
	var transcripts []string
	for f, err := range dirstore.Verify(t.Context(), dir) {
		require.NoError(t, err)
		if !strings.HasPrefix(f.Path, "sessions") {
			continue
		}
		transcripts = append(transcripts, filepath.Base(f.Path))
		if f.Path == filepath.Join("sessions", "main", "a.jsonl") {
			_, err := s.Transcripts.Archive(t.Context(), session.Ref{Key: session.Must(session.MainKey("main")), SessionID: "b"}, noon)
			require.NoError(t, err)
		}
	}
	slices.Sort(transcripts)
	assert.Equal(t, []string{"a.jsonl", session.ArchiveName("b.jsonl", noon), "c.jsonl"}, transcripts)
	require.NoError(t, s.Close())
}

// An idle file that is whole and not what its name and its head say is rot like any other, for
// everybody.
func TestIdleFileThatIsNotWhatItSays(t *testing.T) {
	dir, s, idle := storeOnDisk(t)
	frames := make([][]wal.Record, 2)
	for i, name := range idle {
		_, err := wal.ReadFile(disk.OS(), name, func(_ wal.Span, kind wal.Kind, payload []byte) error {
			frames[i] = append(frames[i], wal.Record{Kind: kind, Payload: slices.Clone(payload)})
			return nil
		})
		require.NoError(t, err)
		require.Len(t, frames[i], 2)
	}
	mine, other := frames[0], frames[1]
	last, n := binary.Uvarint(mine[0].Payload)
	require.EqualValues(t, 2, last)
	root, err := session.ParseRoot(string(mine[0].Payload[n:]))
	require.NoError(t, err)
	further := wal.Record{Kind: mine[0].Kind, Payload: append(binary.AppendUvarint(nil, last+1), mine[0].Payload[n:]...)}
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
		files, bad := verified(t, dir)
		assert.Len(t, files, 4, what)
		require.Len(t, bad, 1, what)
		for path, err := range bad {
			assert.Equal(t, idle[0], filepath.Join(dir, path), what)
			if what != "two heads" { // as a newer version may have them
				require.ErrorIs(t, err, session.ErrCorrupt, what)
			}
		}
		_, err := readLog(t.Context(), s.Journal, root)
		require.Error(t, err, what)
		for _, after := range []session.Seq{0, 2} {
			_, appendErr := s.Journal.Append(t.Context(), root, after, batchOf(noon, false, "z"))
			require.Equal(t, errors.Is(err, session.ErrCorrupt), errors.Is(appendErr, session.ErrCorrupt), "%s: %v", what, appendErr)
			require.Error(t, appendErr, what)
		}
		roots, err := yielded(t, s)
		if what == "another's" || what == "no head" || what == "nothing" {
			assert.Len(t, roots, 1, what)
			require.ErrorIs(t, err, session.ErrCorrupt, what)
		}
	}
	require.NoError(t, s.Close())
}

type notJSON struct{}

func (notJSON) AppendJSON(b []byte) ([]byte, error) { return append(b, "no json"...), nil }

// A payload that is not JSON although it should be is its caller's mistake: Append does not read
// what it writes, Verify does.
func TestVerifyReadsPayloads(t *testing.T) {
	dir, s, _ := storeOnDisk(t)
	b := batchOf(time.Time{}, false, "x", "y")
	b.Entries[1].Payload = notJSON{}
	_, err := s.Journal.Append(t.Context(), tree(7), 0, b)
	require.NoError(t, err)
	for _, where := range []string{"0", "idle"} { // it is carried as it is
		_, bad := verified(t, dir)
		require.Len(t, bad, 1)
		for path, err := range bad {
			require.ErrorIs(t, err, session.ErrCorrupt)
			assert.ErrorContains(t, err, fmt.Sprintf("entry 2 of %q is not JSON", tree(7)))
			assert.Contains(t, path, filepath.Join("journal", where))
		}
		require.NoError(t, dirstore.Compact(s))
	}
	require.NoError(t, s.Close())
}
