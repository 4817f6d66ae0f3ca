package dirstore_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/internal/disk/disktest"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/dirstore"
)

// lineTexts returns the texts of a transcript.
func lineTexts(t *testing.T, s *session.Store, ref session.Ref) []string {
	t.Helper()
	texts := []string{}
	for line, err := range s.Transcripts.Read(t.Context(), ref, session.LineQuery{}) {
		require.NoError(t, err)
		texts = append(texts, line.Message.Text)
	}
	return texts
}

// archivedTexts returns the texts of a transcript, and whether it is archived.
func archivedTexts(
	t *testing.T, s *session.Store, ref session.Ref,
) (texts []string, archived bool) {
	t.Helper()
	texts = []string{}
	for _, err := range s.Transcripts.Read(t.Context(), ref, session.LineQuery{}) {
		archived = archived || errors.Is(err, session.ErrArchived)
	}
	q := session.LineQuery{Archived: true}
	for line, err := range s.Transcripts.Read(t.Context(), ref, q) {
		require.NoError(t, err)
		texts = append(texts, line.Message.Text)
	}
	return texts, archived
}

// userMessages returns a message with each text.
func userMessages(texts ...string) []session.Message {
	var m []session.Message
	for _, text := range texts {
		m = append(m, session.Message{Role: session.MessageUser, Text: text})
	}
	return m
}

// appendTexts appends a message with each text, and returns the position of the last one.
func appendTexts(
	t *testing.T, s *session.Store, ref session.Ref, after session.Pos, texts ...string,
) session.Pos {
	t.Helper()
	pos, err := s.Transcripts.Append(t.Context(), ref, after, userMessages(texts...)...)
	require.NoError(t, err)
	return pos
}

// The file of a transcript has a line that says whose it is, and a line for each message.
func TestTranscriptIsReadableText(t *testing.T) {
	dir := t.TempDir()
	s := openDir(t, dir)
	ref := session.Ref{Key: session.Must(session.MainKey("ops")), SessionID: "6f1c"}
	appendTexts(t, s, ref, 0, "hello", "world")
	path := filepath.Join(dir, "sessions", "ops", "6f1c.jsonl")
	assert.Equal(t, path, s.Transcripts.Locate(ref))
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, `{"role":"note","discard":0,"transcript":{"version":1,"key":"agent:ops:main","sessionId":"6f1c"}}
{"role":"user","text":"hello"}
{"role":"user","text":"world"}
`, string(b))
	require.NoError(t, s.Close())
}

// A transcript is cut at any byte, or ends in zeros from any byte on. It keeps its complete lines
// and goes on behind them.
func TestTornTranscriptKeepsCompleteLines(t *testing.T) {
	d := disktest.New()
	s := openOn(t, d)
	ref := testRef("x")
	first := appendTexts(t, s, ref, 0, "one", "two")
	appendTexts(t, s, ref, first, "three", "four", strings.Repeat("long ", 30))
	require.NoError(t, s.Close())
	path := "/sessions/main/x.jsonl"
	whole := readAll(t, d, path)
	for cut := int(first); cut <= len(whole); cut++ {
		for _, zeros := range []bool{false, true} {
			b := slices.Clone(whole[:cut])
			if zeros {
				b = append(b, make([]byte, len(whole)-cut+1)...)
				b = append(b, strings.Repeat("and some line ", 10)+"\n"...)
			}
			d := d.Crash(func(int) bool { return true })
			writeAll(t, d, path, b)
			s := openOn(t, d)
			want := 2 + bytes.Count(whole[first:cut], []byte("\n"))
			require.Len(t, lineTexts(t, s, ref), want, "cut at %d", cut)
			end := session.Pos(bytes.LastIndexByte(whole[:cut], '\n') + 1)
			_, err := s.Transcripts.Append(t.Context(), ref, end+1, userMessages("wrong")...)
			require.ErrorIs(t, err, session.ErrConflict)
			appendTexts(t, s, ref, end, "after")
			texts := lineTexts(t, s, ref)
			require.Len(t, texts, want+1)
			require.Equal(t, "after", texts[want])
			require.Equal(t, texts, lineTexts(t, openOn(t, d), ref), "the torn part is cut off")
			_, err = d.Lstat(fmt.Sprintf("%s.torn.%d", path, end))
			require.Equal(t, zeros, err == nil, "possible lines are saved: %v", err)
			require.NoError(t, s.Close())
		}
	}
}

// A file is not a transcript, is one of a newer version, or has a line that is not a message. That
// is an error with file and offset. Other transcripts work.
func TestCorruptTranscriptConcernsNoOther(t *testing.T) {
	d := disktest.New()
	s := openOn(t, d)
	ref := testRef("x")
	other := testRef("y")
	appendTexts(t, s, other, 0, "fine")
	put := func(text string) { writeAll(t, d, "/sessions/main/x.jsonl", []byte(text)) }
	for text, want := range map[string]error{
		"":                           session.ErrCorrupt,
		"{}\n":                       session.ErrCorrupt,
		"a shopping list\n":          session.ErrCorrupt,
		strings.Repeat("x", 100_000): session.ErrCorrupt,
		`{"transcript":{"version":3,"key":"agent:main:main","sessionId":"x"}}` + "\n": session.ErrFormat,
	} {
		put(text)
		_, err := s.Transcripts.Append(t.Context(), ref, 0, userMessages("x")...)
		require.ErrorIs(t, err, want)
		assert.ErrorContains(t, err, "x.jsonl")
	}
	put(`{"transcript":{"version":1,"key":"agent:main:main","sessionId":"x"}}` + "\n{\"text\":\"a\"}\nnot json\n")
	var errs []error
	n := 0
	for _, err := range s.Transcripts.Read(t.Context(), ref, session.LineQuery{}) {
		n++
		errs = append(errs, err)
	}
	require.Len(t, errs, 2)
	var corrupt *session.CorruptError
	require.ErrorAs(t, errs[1], &corrupt)
	assert.Equal(t, int64(82), corrupt.Offset)
	assert.Equal(t, []string{"fine"}, lineTexts(t, s, other))
	for _, err := range s.Transcripts.Read(t.Context(), ref, session.LineQuery{After: 3}) {
		assert.ErrorContains(t, err, "position 3")
	}
}

// The store keeps session ids apart that several sessions use, that differ by case alone, or that
// are reserved on some system. That holds for archived transcripts too.
func TestSimilarSessionIDsAreKeptApart(t *testing.T) {
	dir := t.TempDir()
	s := openDir(t, dir)
	refs := []session.Ref{
		{Key: session.Must(session.MainKey("main")), SessionID: "same"},
		{Key: session.Must(session.NamedKey("main", "other")), SessionID: "same"},
		{Key: session.Must(session.NamedKey("main", "third")), SessionID: "same"},
		{Key: session.Must(session.MainKey("main")), SessionID: "Case"},
		{Key: session.Must(session.MainKey("main")), SessionID: "case"},
		{Key: session.Must(session.MainKey("main")), SessionID: "nul"},
		{Key: session.Must(session.MainKey("main")), SessionID: "con.x"},
		{Key: session.Must(session.MainKey("com1")), SessionID: "COM9"},
		{Key: session.GlobalKey(), SessionID: "g"},
		{Key: session.Must(session.MainKey("global")), SessionID: "g"},
		{Key: session.Must(session.MainKey("main")), SessionID: "a.jsonl.deleted.x"},
		{Key: session.Must(session.MainKey("main")), SessionID: strings.Repeat("a", 128)},
	}
	ends := make([]session.Pos, len(refs))
	for i, ref := range refs {
		ends[i] = appendTexts(t, s, ref, 0, fmt.Sprint("of ", i))
	}
	require.NoError(t, s.Close())
	s = openDir(t, dir)
	for i, ref := range refs {
		appendTexts(t, s, ref, ends[i], "more")
		assert.Equal(t, []string{fmt.Sprint("of ", i), "more"}, lineTexts(t, s, ref))
	}
	names := make(map[string]bool)
	for i, ref := range refs {
		name, err := s.Transcripts.Archive(t.Context(), ref, testTime)
		require.NoError(t, err)
		assert.True(t, strings.HasSuffix(name, ".deleted.2026-03-04T12-00-00.000Z"), name)
		place := s.Transcripts.Locate(ref)
		assert.False(t, names[place], place)
		names[place] = true
		text, err := os.ReadFile(place)
		require.NoError(t, err)
		assert.Contains(t, string(text), fmt.Sprintf("of %d\"", i))
		for _, later := range refs[i+1:] {
			assert.Len(t, lineTexts(t, s, later), 2)
		}
	}
	require.NoError(t, s.Close())
	s = openDir(t, dir)
	for _, ref := range refs {
		assert.True(t, names[s.Transcripts.Locate(ref)])
		_, err := s.Transcripts.Append(t.Context(), ref, 0, userMessages("late")...)
		require.ErrorIs(t, err, session.ErrArchived)
	}
	require.NoError(t, s.Close())
}

// Archive chooses another name if a file has the name already.
func TestArchiveDoesNotReplaceFile(t *testing.T) {
	d := disktest.New()
	s := openOn(t, d)
	ref := testRef("x")
	appendTexts(t, s, ref, 0, "mine")
	taken := "/sessions/main/x.jsonl.deleted.2026-03-04T12-00-00.000Z"
	writeAll(t, d, taken, []byte(`{"transcript":{"version":1,"key":"agent:other:main","sessionId":"x"}}`+"\n"))
	name, err := s.Transcripts.Archive(t.Context(), ref, testTime)
	require.NoError(t, err)
	assert.Equal(t, "x.jsonl.deleted.2026-03-04T12-00-00.001Z", name)
	assert.Contains(t, string(readAll(t, d, taken)), "agent:other:main")
	again, err := s.Transcripts.Archive(t.Context(), ref, testTime.Add(time.Hour))
	require.NoError(t, err)
	assert.Equal(t, name, again)
}

// A transcriptRun is a program that uses transcripts in every way, and records what was
// acknowledged.
type transcriptRun struct {
	texts     map[session.Ref][]string
	archived  map[session.Ref]bool
	ref       session.Ref // the transcript of the call under way
	maybe     []string    // the texts that it appends
	archiving bool        // it archives the transcript
	restoring bool        // it restores the transcript
	removing  bool        // it removes the transcript
	removed   bool        // the archived transcript was removed
}

func newTranscriptRun() *transcriptRun {
	return &transcriptRun{
		texts: make(map[session.Ref][]string), archived: make(map[session.Ref]bool),
	}
}

func (r *transcriptRun) run(t *testing.T, d *disktest.Disk) error {
	for life := range 2 {
		s, err := dirstore.OpenOn(d, "/")
		if err != nil {
			return err
		}
		ends := make(map[session.Ref]session.Pos)
		for i := range 6 {
			k := session.Must(session.NamedKey("main", fmt.Sprint("s", i%2)))
			ref := session.Ref{Key: k, SessionID: fmt.Sprint("id", i%2)}
			if r.archived[ref] && i == 1 {
				r.ref, r.restoring = ref, true
				if err := s.Transcripts.Restore(t.Context(), ref); err != nil {
					return err
				}
				r.restoring, r.archived[ref] = false, false
			}
			if r.archived[ref] {
				r.ref, r.removing = ref, true
				if err := s.Transcripts.Remove(t.Context(), ref); err != nil {
					return err
				}
				r.removing, r.removed = false, true
				continue
			}
			q := session.LineQuery{Last: 1}
			for line, err := range s.Transcripts.Read(t.Context(), ref, q) {
				if err != nil {
					return err
				}
				ends[ref] = line.Pos
			}
			r.ref, r.maybe = ref, []string{fmt.Sprintf("%d-%d", life, i), strings.Repeat("long ", 300)}
			messages := userMessages(r.maybe...)
			_, err := s.Transcripts.Append(t.Context(), ref, ends[ref], messages...)
			if err != nil {
				return err
			}
			r.texts[ref] = append(r.texts[ref], r.maybe...)
			r.maybe = nil
			if life == 0 && i == 5 || life == 1 && i == 3 {
				r.archiving = true
				at := testTime.Add(time.Duration(life) * time.Hour)
				if _, err := s.Transcripts.Archive(t.Context(), ref, at); err != nil {
					return err
				}
				r.archiving, r.archived[ref] = false, true
			}
		}
		if err := s.Close(); err != nil {
			return err
		}
	}
	return nil
}

// verify fails unless a disk has all acknowledged lines, and perhaps those of the call under way.
func (r *transcriptRun) verify(t *testing.T, d *disktest.Disk, when string) {
	t.Helper()
	s, err := dirstore.OpenOn(d, "/")
	require.NoError(t, err, when)
	if len(r.maybe) > 0 && r.texts[r.ref] == nil {
		r.texts[r.ref] = []string{}
	}
	for ref, texts := range r.texts {
		got, archived := archivedTexts(t, s, ref)
		if r.restoring && ref == r.ref && !archived {
			r.archived[ref] = false
		}
		if r.archived[ref] {
			removed := r.removed || r.removing && len(got) == 0
			require.Equal(t, !removed, archived, when)
			if removed {
				require.Empty(t, got, when)
				continue
			}
		}
		if archived {
			require.True(t, r.archived[ref] || r.archiving && ref == r.ref, when)
			require.Equal(t, texts, got, when)
			name, err := s.Transcripts.Archive(t.Context(), ref, testTime)
			require.NoError(t, err, when)
			require.NotEmpty(t, name, when)
			continue
		}
		require.GreaterOrEqual(t, len(got), len(texts), when)
		require.Equal(t, texts, got[:len(texts)], when)
		if extra := got[len(texts):]; len(extra) > 0 {
			require.Equal(t, r.ref, ref, when)
			require.LessOrEqual(t, len(extra), len(r.maybe), when)
			require.Equal(t, r.maybe[:len(extra)], extra, when)
		}
		var end session.Pos
		for line, err := range s.Transcripts.Read(t.Context(), ref, session.LineQuery{Last: 1}) {
			require.NoError(t, err, when)
			end = line.Pos
		}
		appendTexts(t, s, ref, end, "on")
		again := openOn(t, afterCrash(d))
		require.Equal(t, append(got, "on"), lineTexts(t, again, ref), when)
	}
}

// What transcripts have acknowledged survives a loss of power before any operation.
func TestTranscriptPowerLossKeepsAcknowledgedLines(t *testing.T) {
	d := disktest.New()
	r := newTranscriptRun()
	losses := verifyLosses(t, d, 12,
		func(after *disktest.Disk, when string) { r.verify(t, after, when) })
	require.NoError(t, r.run(t, d))
	assert.Greater(t, *losses, 100)
}

// What transcripts have acknowledged survives a failure of any operation.
func TestTranscriptFaultKeepsAcknowledgedLines(t *testing.T) {
	verifyFaults(t, func() faultRun { return newTranscriptRun() })
}

// Appends fail while the disk is full, and leave nothing. They succeed when there is room.
func TestTranscriptsGoOnWhenDiskHasRoomAgain(t *testing.T) {
	d := disktest.New()
	s := openOn(t, d)
	ref := testRef("x")
	fresh := session.Ref{Key: session.Must(session.MainKey("new")), SessionID: "y"}
	end := appendTexts(t, s, ref, 0, "before")
	d.Hook(func(op disktest.Op) error {
		if op.Kind == disktest.OpWrite {
			return &disktest.ShortError{Written: 10, Err: errDiskFull}
		}
		return nil
	})
	for range 3 {
		_, err := s.Transcripts.Append(t.Context(), ref, end, userMessages("lost")...)
		require.ErrorIs(t, err, errDiskFull)
		_, err = s.Transcripts.Append(t.Context(), fresh, 0, userMessages("lost")...)
		require.ErrorIs(t, err, errDiskFull)
		assert.Equal(t, []string{"before"}, lineTexts(t, s, ref))
		assert.Empty(t, lineTexts(t, s, fresh))
	}
	d.Hook(nil)
	appendTexts(t, s, ref, end, "after")
	appendTexts(t, s, fresh, 0, "first")
	assert.Equal(t, []string{"before", "after"}, lineTexts(t, s, ref))
	require.NoError(t, s.Close())
	assert.Equal(t, []string{"before", "after"}, lineTexts(t, openOn(t, d), ref))
}

// An append cuts off what a failed write has left, if that could not be cut off before.
func TestAppendCutsOffFailedWrite(t *testing.T) {
	d := disktest.New()
	s := openOn(t, d)
	ref := testRef("x")
	end := appendTexts(t, s, ref, 0, "before")
	d.Hook(func(op disktest.Op) error {
		switch op.Kind {
		case disktest.OpWrite:
			return &disktest.ShortError{Written: 1000, Err: syscall.EIO}
		case disktest.OpTruncate:
			return syscall.EIO
		}
		return nil
	})
	_, err := s.Transcripts.Append(t.Context(), ref, end,
		userMessages("lost", "lost", strings.Repeat("lost ", 200))...)
	require.ErrorIs(t, err, syscall.EIO)
	d.Hook(nil)
	appendTexts(t, s, ref, end, "after")
	assert.Equal(t, []string{"before", "after"}, lineTexts(t, openOn(t, d), ref))
	assert.False(t, fileExists(d, "/sessions/main/x.jsonl.torn."+posText(end)), "lines that were never acknowledged are not saved")
}

// Archive succeeds once the new name is durable, also when it is called for the second time.
func TestArchiveReturnsOnceNameIsDurable(t *testing.T) {
	d := disktest.New()
	s := openOn(t, d)
	ref := testRef("x")
	appendTexts(t, s, ref, 0, "text")
	d.Hook(func(op disktest.Op) error {
		if op.Kind == disktest.OpSyncDir {
			return syscall.EIO
		}
		return nil
	})
	for range 2 {
		_, err := s.Transcripts.Archive(t.Context(), ref, testTime)
		require.ErrorIs(t, err, syscall.EIO)
	}
	d.Hook(nil)
	name, err := s.Transcripts.Archive(t.Context(), ref, testTime.Add(time.Hour))
	require.NoError(t, err)
	again, err := openOn(t, afterCrash(d)).Transcripts.Archive(t.Context(), ref,
		testTime.AddDate(1, 0, 0))
	require.NoError(t, err)
	assert.Equal(t, name, again)
}
