package dirstore_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/dirstore"
)

const (
	maxLine = 64 << 20 // docs/limits.md
	hugeGap = 1 << 30  // takes no disk
)

// endless are the ways in which a transcript gets longer than any append has left it, and whether a
// line is too long then. The file has two lines before.
var endless = map[string]struct {
	damage func(t *testing.T, f *os.File, size, hole int64)
	long   bool
}{
	"zeros in front": {func(t *testing.T, f *os.File, size, hole int64) {
		insertHole(t, f, 0, size, hole)
	}, false},
	"zeros in the middle": {func(t *testing.T, f *os.File, size, hole int64) {
		insertHole(t, f, size-5, size, hole)
	}, true},
	"zeros between lines": {func(t *testing.T, f *os.File, size, hole int64) {
		insertHole(t, f, size, size, hole)
		_, err := f.WriteAt([]byte("\n{\"role\":\"user\",\"text\":\"x\"}\n"), size+hole)
		require.NoError(t, err)
	}, true},
	"zeros at the end": {func(t *testing.T, f *os.File, size, hole int64) {
		require.NoError(t, f.Truncate(size+hole))
	}, true},
	"a line without an end": {func(t *testing.T, f *os.File, size, _ int64) {
		writeText(t, f, size, strings.Repeat("x", 1<<20), 70)
	}, true},
	"a line that is too long": {func(t *testing.T, f *os.File, size, _ int64) {
		writeText(t, f, size, strings.Repeat("x", 1<<20), 64)
		writeText(t, f, size+maxLine, "xx\n", 1)
	}, true},
	"many lines": {func(t *testing.T, f *os.File, size, _ int64) {
		writeText(t, f, size, strings.Repeat("x\n", 1<<19), 2)
	}, false},
}

// insertHole moves the bytes from an offset on behind a hole.
func insertHole(t *testing.T, f *os.File, at, size, hole int64) {
	t.Helper()
	b := make([]byte, size-at)
	if len(b) > 0 {
		_, err := f.ReadAt(b, at)
		require.NoError(t, err)
	}
	require.NoError(t, f.Truncate(at))
	require.NoError(t, f.Truncate(at+hole))
	_, err := f.WriteAt(b, at+hole)
	require.NoError(t, err)
}

// writeText writes a text n times from an offset on.
func writeText(t *testing.T, f *os.File, at int64, text string, n int) {
	t.Helper()
	for range n {
		_, err := f.WriteAt([]byte(text), at)
		require.NoError(t, err)
		at += int64(len(text))
	}
}

// newEndless returns a directory with a transcript of two lines that is damaged, and its path.
func newEndless(
	t *testing.T, damage func(t *testing.T, f *os.File, size, hole int64), hole int64,
) (dir, path string, last session.Pos) {
	t.Helper()
	dir = t.TempDir()
	s := openDir(t, dir)
	last = appendTexts(t, s, testRef("x"), 0, "one")
	last = appendTexts(t, s, testRef("x"), last, "two")
	require.NoError(t, s.Close())
	path = filepath.Join(dir, "sessions", "main", "x.jsonl")
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	damage(t, f, int64(last), hole)
	require.NoError(t, f.Close())
	return dir, path, last
}

// A limitedCtx ends after some looks at it, and counts those that follow.
type limitedCtx struct {
	context.Context
	looks, after int
}

func (c *limitedCtx) Err() error {
	if c.looks--; c.looks >= 0 {
		return nil
	}
	c.after++
	return context.Canceled
}

// readers are the calls that read a transcript.
var readers = map[string]func(ctx context.Context, s *session.Store, last session.Pos) error{
	"read": func(ctx context.Context, s *session.Store, _ session.Pos) error {
		return readLines(ctx, s, session.LineQuery{})
	},
	"read the last": func(ctx context.Context, s *session.Store, _ session.Pos) error {
		return readLines(ctx, s, session.LineQuery{Last: 1})
	},
	"read after": func(ctx context.Context, s *session.Store, last session.Pos) error {
		return readLines(ctx, s, session.LineQuery{After: last})
	},
	"append": func(ctx context.Context, s *session.Store, last session.Pos) error {
		_, err := s.Transcripts.Append(ctx, testRef("x"), last,
			session.Message{Role: session.MessageUser, Text: "three"})
		return err
	},
	"archive": func(ctx context.Context, s *session.Store, _ session.Pos) error {
		_, err := s.Transcripts.Archive(ctx, testRef("x"), testTime)
		return err
	},
}

func readLines(ctx context.Context, s *session.Store, q session.LineQuery) (err error) {
	for _, err = range s.Transcripts.Read(ctx, testRef("x"), q) {
		if err != nil {
			return err
		}
	}
	return nil
}

// firstDamage returns the first error of Verify.
func firstDamage(ctx context.Context, dir string) error {
	for _, err := range dirstore.Verify(ctx, dir) {
		if err != nil {
			return err
		}
	}
	return nil
}

// Damage that is longer than any append may leave is found without reading through it, with little
// memory, and says where it is.
func TestEndlessTranscriptIsDamage(t *testing.T) {
	skipUnderRace(t)
	for name, test := range endless {
		dir, path, last := newEndless(t, test.damage, hugeGap)
		check := func(what string, read func() error) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err := read()
			runtime.ReadMemStats(&after)
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(100<<20), "%s, %s", name, what)
			if test.long {
				corrupt, ok := errors.AsType[*session.CorruptError](err)
				require.True(t, ok, "%s, %s: %v", name, what, err)
				require.Equal(t, filepath.Base(path), filepath.Base(corrupt.File), name)
				require.LessOrEqual(t, corrupt.Offset, int64(last), name)
				require.Positive(t, corrupt.Offset, name)
			}
		}
		check("verify", func() error { return firstDamage(t.Context(), dir) })
		for what, read := range readers {
			if what == "archive" {
				continue // a person may archive what is damaged
			}
			s := openDir(t, dir)
			check(what, func() error { return read(t.Context(), s, last) })
			require.NoError(t, s.Close())
		}
	}
}

// Every call that reads a transcript ends soon after its context.
func TestEndlessTranscriptEndsWithContext(t *testing.T) {
	skipUnderRace(t)
	for name, test := range endless {
		looks := 30
		dir, _, last := newEndless(t, test.damage, hugeGap)
		check := func(what string, read func(context.Context) error) {
			ctx := &limitedCtx{Context: t.Context(), looks: looks}
			err := read(ctx)
			switch {
			case ctx.after > 0:
				require.ErrorIs(t, err, context.Canceled, "%s, %s", name, what)
			case what != "mend" && what != "repair":
				require.ErrorIs(t, err, session.ErrCorrupt, "%s, %s", name, what)
			}
			require.Less(t, ctx.after, 10, "%s, %s", name, what)
			if test.long {
				require.Positive(t, ctx.after, "%s, %s: %v", name, what, err)
			}
		}
		check("verify", func(ctx context.Context) error { return firstDamage(ctx, dir) })
		for what, read := range readers {
			s := openDir(t, dir)
			check(what, func(ctx context.Context) error { return read(ctx, s, last) })
			require.NoError(t, s.Close())
		}
		s := openDir(t, dir)
		check("mend", func(ctx context.Context) error {
			_, err := s.Transcripts.(session.Mender).Mend(ctx, testRef("x"))
			return err
		})
		require.NoError(t, s.Close())
		for _, looks = range []int{30, 1100} {
			dir, _, _ = newEndless(t, test.damage, hugeGap)
			check("repair", func(ctx context.Context) error {
				_, err := dirstore.Repair(ctx, dir)
				return err
			})
		}
	}
}

// Mend puts what is too long aside with little memory. Afterwards the transcript is intact, has the
// lines around the damage and takes more.
func TestMendEndlessTranscript(t *testing.T) {
	skipUnderRace(t)
	const gap = 2*maxLine + 1000
	for name, test := range endless {
		dir, path, _ := newEndless(t, test.damage, gap)
		info, err := os.Stat(path)
		require.NoError(t, err)
		s := openDir(t, dir)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		done, err := s.Transcripts.(session.Mender).Mend(t.Context(), testRef("x"))
		runtime.ReadMemStats(&after)
		require.NoError(t, err, name)
		require.NotEmpty(t, done.Aside, name)
		if test.long { // package json allocates for each line that it cannot read
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(200<<20), name)
		}
		require.NoError(t, firstDamage(t.Context(), dir), name)
		texts := lineTexts(t, s, testRef("x"))
		if name != "zeros in front" {
			require.Contains(t, texts, "one", name)
			require.Equal(t, name != "zeros in the middle", slices.Contains(texts, "two"), name)
			saved, err := os.ReadFile(done.Aside[0])
			require.NoError(t, err)
			require.Len(t, saved, int(done.Bytes), name)
			now, err := os.Stat(path)
			require.NoError(t, err)
			open := name == "zeros at the end" || name == "a line without an end"
			require.Equal(t, !open, now.Size() == info.Size(), name)
		}
		require.Equal(t, name == "zeros between lines", slices.Contains(texts, "x"), name)
		var last session.Pos
		if len(texts) > 0 {
			last = lastPos(t, s, testRef("x"))
		}
		appendTexts(t, s, testRef("x"), last, "three")
		require.Equal(t, append(texts, "three"), lineTexts(t, s, testRef("x")), name)
		require.NoError(t, s.Close())
	}
}

// A message that no line has room for is refused, and nothing of its append is written. Many that
// have room are written, however long they are together.
func TestAppendOfLongLines(t *testing.T) {
	skipUnderRace(t)
	s := openDir(t, t.TempDir())
	ref := testRef("x")
	last := appendTexts(t, s, ref, 0, "one")
	frame, err := session.Message{Role: session.MessageUser, Text: "x"}.AppendJSON(nil)
	require.NoError(t, err)
	longest := maxLine - 1 - len(frame)
	message := func(n int) session.Message {
		return session.Message{Role: session.MessageUser, Text: strings.Repeat("x", n)}
	}
	_, err = s.Transcripts.Append(t.Context(), ref, last, message(1), message(longest+1))
	size, ok := errors.AsType[*dirstore.LineSizeError](err)
	require.True(t, ok, "%v", err)
	require.ErrorIs(t, err, session.ErrInvalidLine)
	want := dirstore.LineSizeError{Message: 1, Size: maxLine - 1, Limit: maxLine - 2}
	require.Equal(t, want, *size)
	require.Equal(t, []string{"one"}, lineTexts(t, s, ref))
	all := []session.Message{message(1), message(longest), message(2)}
	_, err = s.Transcripts.Append(t.Context(), ref, last, all...)
	require.NoError(t, err)
	n := 0
	for line, err := range s.Transcripts.Read(t.Context(), ref, session.LineQuery{}) {
		require.NoError(t, err)
		n += len(line.Message.Text)
	}
	require.Equal(t, len("one")+1+longest+2, n)
	require.NoError(t, s.Close())
}

// Reading an idle log ends soon after its context.
func TestEndlessIdleLogEndsWithContext(t *testing.T) {
	dir := t.TempDir()
	s := openDir(t, dir)
	_, err := s.Journal.Append(t.Context(), treeKey(1), 0, batchOf(time.Time{}, false, "fact"))
	require.NoError(t, err)
	require.NoError(t, dirstore.Compact(s))
	names, err := filepath.Glob(filepath.Join(dir, "journal", "idle", "*", "*.wal"))
	require.NoError(t, err)
	require.Len(t, names, 1)
	require.NoError(t, os.Truncate(names[0], hugeGap))
	require.NoError(t, s.Close())
	for what, read := range map[string]func(context.Context) error{
		"read": func(ctx context.Context) error {
			_, err := readLog(ctx, s.Journal, treeKey(1))
			return err
		},
		"append": func(ctx context.Context) error {
			b := batchOf(time.Time{}, false, "fact")
			_, err := s.Journal.Append(ctx, treeKey(1), 1, b)
			return err
		},
		"verify": func(ctx context.Context) error { return firstDamage(ctx, dir) },
	} {
		s = openDir(t, dir)
		ctx := &limitedCtx{Context: t.Context(), looks: 30}
		require.ErrorIs(t, read(ctx), context.Canceled, what)
		require.Less(t, ctx.after, 10, what)
		require.NoError(t, s.Close())
	}
}

// skipUnderRace skips a test over lines of the greatest size, which has one goroutine.
func skipUnderRace(t *testing.T) {
	t.Helper()
	if underRace {
		t.Skip("it takes a minute under the race detector; the step large of .ci/run has it")
	}
}
