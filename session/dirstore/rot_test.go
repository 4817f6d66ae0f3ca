package dirstore_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/internal/disk/disktest"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/dirstore"
)

// readTexts returns the texts of the lines, and the error at the end.
func readTexts(
	t *testing.T, s *session.Store, ref session.Ref, q session.LineQuery,
) (texts []string, err error) {
	t.Helper()
	for line, err := range s.Transcripts.Read(t.Context(), ref, q) {
		if err != nil {
			return texts, err
		}
		texts = append(texts, line.Message.Text)
	}
	return texts, nil
}

// A zero in a line before a later write is rot and not the remains of a crash. Reads and appends
// return the error, and nothing is cut off.
func TestZeroBeforeLaterWriteIsRot(t *testing.T) {
	d := disktest.New()
	s := openOn(t, d)
	ref := testRef("x")
	texts := []string{"one", "two", "three", "four", "last"}
	end := appendTexts(t, s, ref, 0, texts[:2]...)
	later := appendTexts(t, s, ref, end, texts[2:4]...)
	end = appendTexts(t, s, ref, later, texts[4])
	require.NoError(t, s.Close())
	path := "/sessions/main/x.jsonl"
	good := readAll(t, d, path)
	head := bytes.IndexByte(good, '\n') + 1
	for at := head; at < int(later)-1; at++ { // without this newline, the rest may be one write
		rotten := bytes.Clone(good)
		rotten[at] = 0
		whole := bytes.LastIndexByte(rotten[:at], '\n') + 1
		before := texts[:bytes.Count(good[head:whole], []byte("\n"))]
		d := d.Crash(func(int) bool { return true })
		writeAll(t, d, path, rotten)
		s := openOn(t, d)
		for range 2 {
			_, err := s.Transcripts.Append(t.Context(), ref, end, userMessages("lost")...)
			var corrupt *session.CorruptError
			require.ErrorAs(t, err, &corrupt)
			require.Equal(t, path, corrupt.File)
			require.Equal(t, int64(whole), corrupt.Offset)
			got, err := readTexts(t, s, ref, session.LineQuery{})
			require.ErrorIs(t, err, session.ErrCorrupt)
			require.ElementsMatch(t, before, got, "the lines before the rot")
			for _, w := range []session.LineQuery{{After: end}, {After: end + 1000}, {Last: 1}} {
				got, err = readTexts(t, s, ref, w)
				require.ErrorIs(t, err, session.ErrCorrupt)
				require.Empty(t, got)
			}
		}
		require.Equal(t, rotten, readAll(t, d, path))
		writeAll(t, d, path, good)
		require.Equal(t, texts, lineTexts(t, s, ref), "mended by a person")
		appendTexts(t, s, ref, end, "more")
		require.NoError(t, s.Close())
	}
}

// Archive renames a rotten transcript as it is, so that the session may begin anew.
func TestRottenTranscriptCanBeArchived(t *testing.T) {
	d := disktest.New()
	s := openOn(t, d)
	ref := testRef("x")
	appendTexts(t, s, ref, appendTexts(t, s, ref, 0, "one"), "two")
	require.NoError(t, s.Close())
	path := "/sessions/main/x.jsonl"
	rotten := bytes.Replace(readAll(t, d, path), []byte("one"), []byte("o\x00e"), 1)
	writeAll(t, d, path, rotten)
	s = openOn(t, d)
	name, err := s.Transcripts.Archive(t.Context(), ref, testTime)
	require.NoError(t, err)
	assert.Equal(t, rotten, readAll(t, d, "/sessions/main/"+name))
}

// Verify returns the offset of the rotten line.
func TestVerifyFindsRotOfTranscript(t *testing.T) {
	dir := t.TempDir()
	s := openDir(t, dir)
	ref := testRef("x")
	appendTexts(t, s, ref, appendTexts(t, s, ref, 0, "one"), "two")
	path := s.Transcripts.Locate(ref)
	require.NoError(t, s.Close())
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	at := bytes.Index(b, []byte("one"))
	b[at] = 0
	require.NoError(t, os.WriteFile(path, b, 0o600))
	var corrupt *session.CorruptError
	for f, err := range dirstore.Verify(t.Context(), dir) {
		if strings.HasSuffix(f.Path, "x.jsonl") {
			require.ErrorAs(t, err, &corrupt)
		}
	}
	require.NotNil(t, corrupt)
	assert.Equal(t, int64(bytes.IndexByte(b, '\n')+1), corrupt.Offset)
}

// A write of many lines is torn in any way. The remains are never taken for rot.
func TestTornWriteIsNeverRot(t *testing.T) {
	d := disktest.New()
	s := openOn(t, d)
	dirstore.WriteLinesAtOnce(s)
	ref := testRef("x")
	end := appendTexts(t, s, ref, 0, "before", "as well")
	end = appendTexts(t, s, ref, end, "and")
	texts := []string{"before", "as well", "and"}
	var many []string
	for i := range 6 {
		many = append(many, fmt.Sprint(i, strings.Repeat(" long", 50)))
	}
	losses := 0
	d.Hook(func(op disktest.Op) error {
		if op.Kind != disktest.OpSync {
			return nil
		}
		for keep := range d.Losses(rand.New(rand.NewPCG(5, 6)), 400) {
			losses++
			runApart(func() {
				s := openOn(t, d.Crash(keep))
				got := lineTexts(t, s, ref)
				require.Equal(t, append(texts, many...)[:len(got)], got)
				require.GreaterOrEqual(t, len(got), len(texts))
				last := end
				if len(got) > 0 {
					last = lastPos(t, s, ref)
				}
				appendTexts(t, s, ref, last, "on")
			})
		}
		return nil
	})
	appendTexts(t, s, ref, end, many...)
	assert.Equal(t, 32, losses, "each choice of four sectors and the length")
}

// The lines that a repair saves are durable before the file is cut. The next repair does not
// replace them.
func TestRepairSavesTornLines(t *testing.T) {
	d := disktest.New()
	s := openOn(t, d)
	ref := testRef("x")
	end := appendTexts(t, s, ref, 0, "one")
	require.NoError(t, s.Close())
	path := "/sessions/main/x.jsonl"
	whole := readAll(t, d, path)
	kept := []string{path + ".torn." + posText(end), path + ".torn." + posText(end) + ".1"}
	var torn []string
	for n, name := range kept {
		line := fmt.Sprintf(`{"text":"half of line %d"}`, n)
		more := strings.Repeat("and more ", 10_000)
		torn = append(torn, strings.Repeat("\x00", 128<<10)+line+"\n"+more+"\n")
		writeAll(t, d, path, append(bytes.Clone(whole), torn[n]...))
		s := openOn(t, d)
		cut := false
		d.Hook(func(op disktest.Op) error {
			if op.Kind == disktest.OpTruncate {
				cut = true
				after := afterCrash(d)
				assert.Equal(t, torn[n], string(readAll(t, after, name)))
			}
			return nil
		})
		appendTexts(t, s, ref, end, "two")
		d.Hook(nil)
		assert.True(t, cut)
		require.NoError(t, s.Close())
	}
	for n, name := range kept {
		assert.Equal(t, torn[n], string(readAll(t, d, name)))
	}
}

// The file is not cut while the lines cannot be saved, and no part of a copy stays.
func TestRepairDoesNotCutWhatItCannotSave(t *testing.T) {
	d := disktest.New()
	s := openOn(t, d)
	ref := testRef("x")
	end := appendTexts(t, s, ref, 0, "one")
	require.NoError(t, s.Close())
	path := "/sessions/main/x.jsonl"
	appendBytes(t, d, path, tornLines)
	before := readAll(t, d, path)
	s = openOn(t, d)
	for _, kind := range []disktest.OpKind{disktest.OpCreate, disktest.OpWrite, disktest.OpSync} {
		d.Hook(func(op disktest.Op) error {
			if op.Kind == kind && strings.Contains(op.Name, ".torn.") {
				return &disktest.ShortError{Written: 5, Err: os.ErrInvalid}
			}
			return nil
		})
		_, err := s.Transcripts.Append(t.Context(), ref, end, userMessages("lost")...)
		require.ErrorIs(t, err, os.ErrInvalid)
		assert.Equal(t, before, readAll(t, d, path))
		assert.False(t, fileExists(d, path+".torn."+posText(end)))
	}
	d.Hook(nil)
	appendTexts(t, s, ref, end, "two")
	assert.Equal(t, tornLines, string(readAll(t, d, path+".torn."+posText(end))))
}
