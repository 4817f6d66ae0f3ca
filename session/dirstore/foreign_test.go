package dirstore_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/internal/disk/disktest"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/dirstore"
)

// Another program changes the length of a transcript in use. The next call returns an error before
// it reads or writes at a stale offset. The call after that uses the file as it is.
func TestChangedLengthOfTranscriptIsAnErrorOnce(t *testing.T) {
	path := "/sessions/main/x.jsonl"
	ref := testRef("x")
	head := len(`{"role":"note","discard":0,"transcript":{"version":1,"key":"agent:main:main","sessionId":"x"}}` + "\n")
	for name, change := range map[string]struct {
		f     func(b []byte) []byte
		texts []string
	}{
		"cut within a line": {func(b []byte) []byte { return b[:len(b)-5] }, []string{"one"}},
		"cut behind a line": {func(b []byte) []byte {
			return b[:bytes.LastIndexByte(b[:len(b)-1], '\n')+1]
		}, []string{"one"}},
		"cut behind the head":   {func(b []byte) []byte { return b[:head] }, []string{}},
		"added a line":          {func(b []byte) []byte { return append(b, `{"role":"user","text":"by hand"}`+"\n"...) }, []string{"one", "two", "by hand"}},
		"added part of a line":  {func(b []byte) []byte { return append(b, "oops"...) }, []string{"one", "two"}},
		"removed what was said": {func([]byte) []byte { return nil }, []string{}},
	} {
		for _, first := range []string{"append", "read"} {
			t.Run(name+", "+first, func(t *testing.T) {
				d := disktest.New()
				s := openOn(t, d)
				end := appendTexts(t, s, ref, 0, "one", "two")
				file(t, s, ref)
				want := session.ErrCorrupt
				if b := change.f(readAll(t, d, path)); b != nil {
					writeAll(t, d, path, b)
				} else {
					require.NoError(t, d.Remove(path))
					want = fs.ErrNotExist
				}
				var err error
				if first == "append" {
					_, err = s.Transcripts.Append(t.Context(), ref, end, userMessages("lost")...)
				} else {
					_, err = readTexts(t, s, ref, session.LineQuery{After: end})
				}
				require.ErrorIs(t, err, want)
				assert.ErrorContains(t, err, path)
				assert.Equal(t, change.texts, lineTexts(t, s, ref))
				var last session.Pos
				if len(change.texts) > 0 {
					last = lastPos(t, s, ref)
				}
				pos, err := s.Transcripts.Append(t.Context(), ref, last)
				require.NoError(t, err)
				assert.Equal(t, last, pos)
				appendTexts(t, s, ref, last, "on")
				assert.Equal(t, append(change.texts, "on"),
					lineTexts(t, openOn(t, afterCrash(d)), ref))
			})
		}
	}
}

// Another program removes a transcript just before it is archived. Archive returns an error once.
// Then the transcript does not exist, and can be created again.
func TestArchiveOfRemovedTranscriptIsAnErrorOnce(t *testing.T) {
	d := disktest.New()
	s := openOn(t, d)
	ref := testRef("x")
	appendTexts(t, s, ref, 0, "one")
	file(t, s, ref)
	require.NoError(t, d.Remove("/sessions/main/x.jsonl"))
	_, err := s.Transcripts.Archive(t.Context(), ref, testTime)
	require.ErrorIs(t, err, fs.ErrNotExist)
	name, err := s.Transcripts.Archive(t.Context(), ref, testTime)
	require.NoError(t, err)
	assert.Empty(t, name)
	appendTexts(t, s, ref, 0, "anew")
}

// The store keeps no state of transcripts that do not exist.
func TestUnknownTranscriptsAreForgotten(t *testing.T) {
	d := disktest.New()
	s := openOn(t, d)
	ref := func(i int) session.Ref {
		return testRef(fmt.Sprint("x", i))
	}
	for i := range 1000 {
		assert.Empty(t, lineTexts(t, s, ref(i)))
	}
	assert.Zero(t, dirstore.KnownTranscripts(s))
	appendTexts(t, s, ref(1), 0, "one")
	assert.Equal(t, 1, dirstore.KnownTranscripts(s))
	_, err := s.Transcripts.Archive(t.Context(), ref(1), testTime)
	require.NoError(t, err)
	assert.Zero(t, dirstore.KnownTranscripts(s))
}

// A View sees the lines that the owner writes and the transcripts that it archives meanwhile.
func TestViewSeesLaterTranscripts(t *testing.T) {
	d := disktest.New()
	s := openOn(t, d)
	a, b := testRef("a"), testRef("b")
	end := appendTexts(t, s, a, 0, "one")
	v, err := dirstore.ViewOn(d, "/")
	require.NoError(t, err)
	assert.Equal(t, []string{"one"}, lineTexts(t, v, a))
	assert.Empty(t, v.Transcripts.Locate(b))
	appendTexts(t, s, a, end, "two")
	file(t, s, a)
	assert.Equal(t, []string{"one", "two"}, lineTexts(t, v, a))
	_, err = s.Transcripts.Archive(t.Context(), a, testTime)
	require.NoError(t, err)
	assert.Equal(t, s.Transcripts.Locate(a), v.Transcripts.Locate(a))
	texts, archived := archivedTexts(t, v, a)
	assert.True(t, archived)
	assert.Equal(t, []string{"one", "two"}, texts)
	require.NoError(t, s.Transcripts.Remove(t.Context(), a))
	assert.Empty(t, lineTexts(t, v, a))
	appendTexts(t, s, b, 0, "of b")
	file(t, s, b)
	assert.Equal(t, []string{"of b"}, lineTexts(t, v, b))
}
