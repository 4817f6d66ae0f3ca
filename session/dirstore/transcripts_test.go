package dirstore_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
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

func lineTexts(t *testing.T, s *session.Store, ref session.Ref) []string {
	t.Helper()
	texts := []string{}
	for line, err := range s.Transcripts.Read(t.Context(), ref, session.LineQuery{}) {
		require.NoError(t, err)
		texts = append(texts, line.Message.Text)
	}
	return texts
}

func says(texts ...string) []session.Message {
	var m []session.Message
	for _, text := range texts {
		m = append(m, session.Message{Role: session.MessageUser, Text: text})
	}
	return m
}

func say(t *testing.T, s *session.Store, ref session.Ref, after session.Pos, texts ...string) session.Pos {
	t.Helper()
	pos, err := s.Transcripts.Append(t.Context(), ref, after, says(texts...)...)
	require.NoError(t, err)
	return pos
}

// A file is what a person can read: its name, a line about whose it is, a message a line.
func TestTranscriptFile(t *testing.T) {
	dir := t.TempDir()
	s, err := dirstore.Open(dir)
	require.NoError(t, err)
	ref := session.Ref{Key: session.Must(session.MainKey("ops")), SessionID: "6f1c"}
	say(t, s, ref, 0, "hello", "world")
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

// A transcript that is cut at any byte, or ends in zeros from any byte on, keeps its whole lines
// and goes on from them.
func TestTranscriptTorn(t *testing.T) {
	d := disktest.New()
	s := openOn(t, d)
	ref := session.Ref{Key: session.Must(session.MainKey("main")), SessionID: "x"}
	first := say(t, s, ref, 0, "one", "two")
	say(t, s, ref, first, "three", "four", strings.Repeat("long ", 30))
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
			_, err := s.Transcripts.Append(t.Context(), ref, end+1, says("wrong")...)
			require.ErrorIs(t, err, session.ErrConflict)
			say(t, s, ref, end, "after")
			texts := lineTexts(t, s, ref)
			require.Len(t, texts, want+1)
			require.Equal(t, "after", texts[want])
			require.Equal(t, texts, lineTexts(t, openOn(t, d), ref), "nothing is left of what was cut off")
			_, err = d.Lstat(fmt.Sprintf("%s.torn.%d", path, end))
			require.Equal(t, zeros, err == nil, "what may have been lines is kept: %v", err)
			require.NoError(t, s.Close())
		}
	}
}

func readAll(t *testing.T, d *disktest.Disk, name string) []byte {
	t.Helper()
	f, err := d.OpenFile(name, os.O_RDONLY)
	require.NoError(t, err)
	size, err := f.Size()
	require.NoError(t, err)
	b := make([]byte, size)
	_, err = f.ReadAt(b, 0)
	require.NoError(t, err)
	return b
}

func writeAll(t *testing.T, d *disktest.Disk, name string, b []byte) {
	t.Helper()
	f, err := d.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC)
	require.NoError(t, err)
	_, err = f.WriteAt(b, 0)
	require.NoError(t, err)
}

// What is no transcript, is one of a newer version, or has a line that is no message, is an error
// with file and offset, and concerns nobody else.
func TestTranscriptCorrupt(t *testing.T) {
	d := disktest.New()
	s := openOn(t, d)
	ref := session.Ref{Key: session.Must(session.MainKey("main")), SessionID: "x"}
	other := session.Ref{Key: session.Must(session.MainKey("main")), SessionID: "y"}
	say(t, s, other, 0, "fine")
	put := func(text string) { writeAll(t, d, "/sessions/main/x.jsonl", []byte(text)) }
	for text, want := range map[string]error{
		"":                           session.ErrCorrupt,
		"{}\n":                       session.ErrCorrupt,
		"a shopping list\n":          session.ErrCorrupt,
		strings.Repeat("x", 100_000): session.ErrCorrupt,
		`{"transcript":{"version":2,"key":"agent:main:main","sessionId":"x"}}` + "\n": session.ErrFormat,
	} {
		put(text)
		_, err := s.Transcripts.Append(t.Context(), ref, 0, says("x")...)
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

// Session ids that several sessions use, that differ by case only, or that some system keeps for
// itself, are kept apart, archived or not.
func TestTranscriptNames(t *testing.T) {
	dir := t.TempDir()
	s, err := dirstore.Open(dir)
	require.NoError(t, err)
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
		ends[i] = say(t, s, ref, 0, fmt.Sprint("of ", i))
	}
	require.NoError(t, s.Close())
	s, err = dirstore.Open(dir)
	require.NoError(t, err)
	for i, ref := range refs {
		say(t, s, ref, ends[i], "more")
		assert.Equal(t, []string{fmt.Sprint("of ", i), "more"}, lineTexts(t, s, ref))
	}
	names := make(map[string]bool)
	for i, ref := range refs {
		name, err := s.Transcripts.Archive(t.Context(), ref, noon)
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
	s, err = dirstore.Open(dir)
	require.NoError(t, err)
	for _, ref := range refs {
		assert.True(t, names[s.Transcripts.Locate(ref)])
		_, err := s.Transcripts.Append(t.Context(), ref, 0, says("late")...)
		require.ErrorIs(t, err, session.ErrArchived)
	}
	require.NoError(t, s.Close())
}

// A name that is taken is not taken away from what has it.
func TestArchiveCollision(t *testing.T) {
	d := disktest.New()
	s := openOn(t, d)
	ref := session.Ref{Key: session.Must(session.MainKey("main")), SessionID: "x"}
	say(t, s, ref, 0, "mine")
	taken := "/sessions/main/x.jsonl.deleted.2026-03-04T12-00-00.000Z"
	writeAll(t, d, taken, []byte(`{"transcript":{"version":1,"key":"agent:other:main","sessionId":"x"}}`+"\n"))
	name, err := s.Transcripts.Archive(t.Context(), ref, noon)
	require.NoError(t, err)
	assert.Equal(t, "x.jsonl.deleted.2026-03-04T12-00-00.001Z", name)
	assert.Contains(t, string(readAll(t, d, taken)), "agent:other:main")
	again, err := s.Transcripts.Archive(t.Context(), ref, noon.Add(time.Hour))
	require.NoError(t, err)
	assert.Equal(t, name, again)
}

// A transcriptRun is a program that uses transcripts in every way, and knows what it was told.
type transcriptRun struct {
	texts    map[session.Ref][]string
	archived map[session.Ref]bool
	ref      session.Ref // of what is under way
	maybe    []string
	dropping bool
}

func newTranscriptRun() *transcriptRun {
	return &transcriptRun{texts: make(map[session.Ref][]string), archived: make(map[session.Ref]bool)}
}

func (r *transcriptRun) run(t *testing.T, d *disktest.Disk) error {
	for life := range 2 {
		s, err := dirstore.OpenOn(d, "/")
		if err != nil {
			return err
		}
		ends := make(map[session.Ref]session.Pos)
		for i := range 6 {
			ref := session.Ref{Key: session.Must(session.NamedKey("main", fmt.Sprint("s", i%2))), SessionID: fmt.Sprint("id", i%2)}
			if r.archived[ref] {
				continue
			}
			for line, err := range s.Transcripts.Read(t.Context(), ref, session.LineQuery{Last: 1}) {
				if err != nil {
					return err
				}
				ends[ref] = line.Pos
			}
			r.ref, r.maybe = ref, []string{fmt.Sprintf("%d-%d", life, i), strings.Repeat("long ", 300)}
			if _, err := s.Transcripts.Append(t.Context(), ref, ends[ref], says(r.maybe...)...); err != nil {
				return err
			}
			r.texts[ref] = append(r.texts[ref], r.maybe...)
			r.maybe = nil
			if life == 0 && i == 5 {
				r.dropping = true
				if _, err := s.Transcripts.Archive(t.Context(), ref, noon); err != nil {
					return err
				}
				r.dropping, r.archived[ref] = false, true
			}
		}
		if err := s.Close(); err != nil {
			return err
		}
	}
	return nil
}

func (r *transcriptRun) verify(t *testing.T, d *disktest.Disk, when string) {
	t.Helper()
	s, err := dirstore.OpenOn(d, "/")
	require.NoError(t, err, when)
	if len(r.maybe) > 0 && r.texts[r.ref] == nil {
		r.texts[r.ref] = []string{}
	}
	for ref, texts := range r.texts {
		got := lineTexts(t, s, ref)
		gone := r.archived[ref] || r.dropping && ref == r.ref && len(got) == 0
		if gone {
			require.Empty(t, got, when)
			name, err := s.Transcripts.Archive(t.Context(), ref, noon)
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
		say(t, s, ref, end, "on")
		again := openOn(t, d.Crash(func(int) bool { return false }))
		require.Equal(t, append(got, "on"), lineTexts(t, again, ref), when)
	}
}

func TestTranscriptPowerLoss(t *testing.T) {
	d := disktest.New()
	r := newTranscriptRun()
	rng := rand.New(rand.NewPCG(1, 2))
	losses := 0
	d.Hook(func(op disktest.Op) error {
		if op.Changes() {
			for keep := range d.Losses(rng, 12) {
				losses++
				apart(func() { r.verify(t, d.Crash(keep), fmt.Sprintf("loss %d, before %s %s", losses, op.Kind, op.Name)) })
				if t.Failed() {
					return errors.New("enough")
				}
			}
		}
		return nil
	})
	require.NoError(t, r.run(t, d))
	assert.Greater(t, losses, 100)
}

func TestTranscriptFaults(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, fault := range []error{syscall.EIO, fmt.Errorf("%w: %w", disktest.ErrAfter, syscall.EIO), &disktest.ShortError{Written: 99, Err: syscall.ENOSPC}} {
		for at := 1; ; at++ {
			d := disktest.New()
			r := newTranscriptRun()
			ops := 0
			var what string
			d.Hook(func(op disktest.Op) error {
				if ops++; ops != at {
					return nil
				}
				what = fmt.Sprintf("fault %v at operation %d, %s %s", fault, at, op.Kind, op.Name)
				return fault
			})
			err := r.run(t, d)
			d.Hook(nil)
			if ops < at {
				require.NoError(t, err)
				break
			}
			for keep := range d.Losses(rng, 3) {
				r.verify(t, d.Crash(keep), what)
			}
			r.verify(t, d, what)
		}
	}
}

// A disk that is full for a while makes appends fail; nothing is half there, and they go on when
// there is room.
func TestTranscriptDiskFull(t *testing.T) {
	d := disktest.New()
	s := openOn(t, d)
	ref := session.Ref{Key: session.Must(session.MainKey("main")), SessionID: "x"}
	fresh := session.Ref{Key: session.Must(session.MainKey("new")), SessionID: "y"}
	end := say(t, s, ref, 0, "before")
	d.Hook(func(op disktest.Op) error {
		if op.Kind == disktest.OpWrite {
			return &disktest.ShortError{Written: 10, Err: syscall.ENOSPC}
		}
		return nil
	})
	for range 3 {
		_, err := s.Transcripts.Append(t.Context(), ref, end, says("lost")...)
		require.ErrorIs(t, err, syscall.ENOSPC)
		_, err = s.Transcripts.Append(t.Context(), fresh, 0, says("lost")...)
		require.ErrorIs(t, err, syscall.ENOSPC)
		assert.Equal(t, []string{"before"}, lineTexts(t, s, ref))
		assert.Empty(t, lineTexts(t, s, fresh))
	}
	d.Hook(nil)
	say(t, s, ref, end, "after")
	say(t, s, fresh, 0, "first")
	assert.Equal(t, []string{"before", "after"}, lineTexts(t, s, ref))
	require.NoError(t, s.Close())
	assert.Equal(t, []string{"before", "after"}, lineTexts(t, openOn(t, d), ref))
}

// What a write has left that failed, and could not be cut off then, is cut off before the next.
func TestTranscriptRemains(t *testing.T) {
	d := disktest.New()
	s := openOn(t, d)
	ref := session.Ref{Key: session.Must(session.MainKey("main")), SessionID: "x"}
	end := say(t, s, ref, 0, "before")
	d.Hook(func(op disktest.Op) error {
		switch op.Kind {
		case disktest.OpWrite:
			return &disktest.ShortError{Written: 1000, Err: syscall.EIO}
		case disktest.OpTruncate:
			return syscall.EIO
		}
		return nil
	})
	_, err := s.Transcripts.Append(t.Context(), ref, end, says("lost", "lost", strings.Repeat("lost ", 200))...)
	require.ErrorIs(t, err, syscall.EIO)
	d.Hook(nil)
	say(t, s, ref, end, "after")
	assert.Equal(t, []string{"before", "after"}, lineTexts(t, openOn(t, d), ref))
	assert.False(t, exists(d, "/sessions/main/x.jsonl.torn."+position(end)), "nobody was told of it, so nobody wants it")
}

// That a transcript is archived is said when it is so after a loss of power too, also the second
// time.
func TestArchiveIsDurable(t *testing.T) {
	d := disktest.New()
	s := openOn(t, d)
	ref := session.Ref{Key: session.Must(session.MainKey("main")), SessionID: "x"}
	say(t, s, ref, 0, "text")
	d.Hook(func(op disktest.Op) error {
		if op.Kind == disktest.OpSyncDir {
			return syscall.EIO
		}
		return nil
	})
	for range 2 {
		_, err := s.Transcripts.Archive(t.Context(), ref, noon)
		require.ErrorIs(t, err, syscall.EIO)
	}
	d.Hook(nil)
	name, err := s.Transcripts.Archive(t.Context(), ref, noon.Add(time.Hour))
	require.NoError(t, err)
	again, err := openOn(t, d.Crash(func(int) bool { return false })).Transcripts.Archive(t.Context(), ref, noon.AddDate(1, 0, 0))
	require.NoError(t, err)
	assert.Equal(t, name, again)
}
