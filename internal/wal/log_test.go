package wal_test

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/internal/disk"
	"github.com/offshoot-sdk/offshoot/internal/disk/disktest"
	"github.com/offshoot-sdk/offshoot/internal/wal"
)

const kind = wal.FirstKind

// replayed collects what a log says.
type replayed struct {
	texts []string
	spans []wal.Span
}

func (r *replayed) frame(at wal.Span, _ wal.Kind, payload []byte) error {
	r.texts = append(r.texts, string(payload))
	r.spans = append(r.spans, at)
	return nil
}

// open opens a log and returns what it said.
func open(fsys disk.FS, dir string) (*wal.Log, []string, error) {
	var r replayed
	l, _, err := wal.Open(fsys, dir, r.frame)
	return l, r.texts, err
}

func mustOpen(t *testing.T, fsys disk.FS, dir string) (*wal.Log, []string) {
	t.Helper()
	l, texts, err := open(fsys, dir)
	require.NoError(t, err)
	return l, texts
}

func ignore([]wal.Span, error) {}

func add(t *testing.T, l *wal.Log, texts ...string) {
	t.Helper()
	require.NoError(t, l.Append(t.Context(), records(texts...), ignore))
}

func records(texts ...string) []wal.Record {
	var r []wal.Record
	for _, text := range texts {
		r = append(r, wal.Record{Kind: kind, Payload: []byte(text)})
	}
	return r
}

func numbered(n int) []string {
	var texts []string
	for i := range n {
		texts = append(texts, fmt.Sprintf("payload %d %s", i, strings.Repeat("x", i*7)))
	}
	return texts
}

func TestAppendAndOpenAgain(t *testing.T) {
	d := disktest.New()
	l, texts := mustOpen(t, d, "/")
	assert.Empty(t, texts)
	add(t, l, "a")
	add(t, l, "b", "", "c")
	require.NoError(t, l.Close())
	require.NoError(t, l.Close())

	l, texts = mustOpen(t, d, "/")
	assert.Equal(t, []string{"a", "b", "", "c"}, texts)
	add(t, l, "d")
	// Without a Close, as after a crash that loses nothing.
	l, texts = mustOpen(t, d, "/")
	assert.Equal(t, []string{"a", "b", "", "c", "d"}, texts)
	require.NoError(t, l.Close())
	require.ErrorIs(t, l.Append(t.Context(), records("late"), ignore), wal.ErrClosed)
	_, err := l.View()
	require.ErrorIs(t, err, wal.ErrClosed)
}

func TestSpans(t *testing.T) {
	l, _ := mustOpen(t, disktest.New(), "/")
	var spans []wal.Span
	for _, text := range numbered(10) {
		require.NoError(t, l.Append(t.Context(), records(text, "and "+text), func(at []wal.Span, err error) {
			assert.NoError(t, err)
			spans = append(spans, at...)
		}))
	}
	v, err := l.View()
	require.NoError(t, err)
	for i, text := range numbered(10) {
		for n, want := range []string{text, "and " + text} {
			k, payload, err := v.Read(spans[2*i+n])
			require.NoError(t, err)
			assert.Equal(t, want, string(payload))
			assert.Equal(t, kind, k)
		}
	}
	_, _, err = v.Read(wal.Span{Off: spans[3].Off + 1, Len: spans[3].Len})
	var corrupt *wal.CorruptError
	require.ErrorAs(t, err, &corrupt)
	require.NoError(t, v.Close())
	require.NoError(t, l.Close())
}

// A hundred goroutines that append at the same time share syncs, and everybody gets an answer after the sync that has their payload.
func TestGroupCommit(t *testing.T) {
	d := disktest.New()
	l, _ := mustOpen(t, d, "/")
	var syncs atomic.Int32
	d.Hook(func(op disktest.Op) error {
		if op.Kind == disktest.OpSync {
			syncs.Add(1)
		}
		return nil
	})
	const writers, each = 100, 20
	var wg sync.WaitGroup
	var unsynced atomic.Int32
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				before := syncs.Load()
				if !assert.NoError(t, l.Append(t.Context(), records(fmt.Sprintf("%d/%d", w, i)), ignore)) {
					return
				}
				if syncs.Load() == before {
					unsynced.Add(1)
				}
			}
		})
	}
	wg.Wait()
	assert.Zero(t, unsynced.Load(), "appends that were acknowledged without a sync since they began")
	assert.Less(t, int(syncs.Load()), writers*each/2)
	d.Hook(nil)
	_, texts := mustOpen(t, d.Crash(func(int) bool { return false }), "/")
	assert.Len(t, texts, writers*each)
	next := make(map[string]int)
	for _, text := range texts {
		w, i, _ := strings.Cut(text, "/")
		assert.Equal(t, fmt.Sprint(next[w]), i, "the appends of one writer are in order")
		next[w]++
	}
	require.NoError(t, l.Close())
}

// Rot that comes while the log is open is not read as if it were what was written.
func TestReadChecksEveryBit(t *testing.T) {
	d := disktest.New()
	l, _ := mustOpen(t, d, "/")
	var at wal.Span
	require.NoError(t, l.Append(t.Context(), records("payload"), func(s []wal.Span, _ error) { at = s[0] }))
	v, err := l.View()
	require.NoError(t, err)
	f, err := d.OpenFile(logName, os.O_RDWR)
	require.NoError(t, err)
	_, err = f.WriteAt([]byte("P"), at.Off+40)
	require.NoError(t, err)
	_, _, err = v.Read(at)
	var corrupt *wal.CorruptError
	require.ErrorAs(t, err, &corrupt)
	require.NoError(t, v.Close())
}

func TestContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := disktest.New()
		l, _ := mustOpen(t, d, "/")
		hang := make(chan error)
		d.Hook(hangingSync(hang))
		ctx, cancel := context.WithCancel(t.Context())
		first, second, settled := make(chan error, 1), make(chan error, 1), make(chan error, 2)
		go func() {
			first <- l.Append(ctx, records("under way"), func(_ []wal.Span, err error) { settled <- err })
		}()
		synctest.Wait()
		go func() {
			second <- l.Append(ctx, records("waiting"), func(_ []wal.Span, err error) { settled <- err })
		}()
		synctest.Wait()
		cancel()
		require.ErrorIs(t, <-first, context.Canceled)
		require.ErrorIs(t, <-second, context.Canceled)
		require.ErrorIs(t, <-settled, context.Canceled, "what nobody has begun with is not written")
		close(hang)
		require.NoError(t, <-settled, "what was under way goes on")
		require.NoError(t, l.Close())
		_, texts := mustOpen(t, d, "/")
		assert.Equal(t, []string{"under way"}, texts)
	})
}

// Every operation of an Open may fail. Then it returns an error, and the next one finds everything.
func TestOpenWithFaults(t *testing.T) {
	d := disktest.New()
	l, _ := mustOpen(t, d, "/")
	add(t, l, numbered(5)...)
	add(t, l, "torn")
	size := l.Size()
	require.NoError(t, l.Close())
	f, err := d.OpenFile("/00000001.wal", os.O_RDWR)
	require.NoError(t, err)
	require.NoError(t, f.Truncate(size-1))
	for n := 0; ; n++ {
		after := d.Crash(func(int) bool { return true })
		ops := 0
		after.Hook(func(disktest.Op) error {
			if ops++; ops == n+1 {
				return syscall.EIO
			}
			return nil
		})
		l, texts, err := open(after, "/")
		after.Hook(nil)
		if err == nil {
			assert.Equal(t, numbered(5), texts)
			require.NoError(t, l.Close())
			assert.Greater(t, n, 5)
			return
		}
		require.ErrorIs(t, err, syscall.EIO)
		l, texts = mustOpen(t, after, "/")
		assert.Equal(t, numbered(5), texts)
		require.NoError(t, l.Close())
	}
}

// A payload that is too large is refused before anything is written, with everything that was to stand beside it.
func TestPayloadTooLarge(t *testing.T) {
	d := disktest.New()
	l, _ := mustOpen(t, d, "/")
	l.SetLimit(10)
	add(t, l, "0123456789")
	size := l.Size()
	settled := 0
	err := l.Append(t.Context(), records("fits", "0123456789a", "fits"), func(at []wal.Span, err error) {
		settled++
		assert.Empty(t, at)
		assert.ErrorIs(t, err, wal.ErrTooLarge)
	})
	require.ErrorIs(t, err, wal.ErrTooLarge)
	assert.ErrorContains(t, err, "11 bytes, at most 10")
	assert.Equal(t, 1, settled)
	assert.Equal(t, size, l.Size())
	require.NoError(t, l.Err())
	r := keeping("kept")
	r.Copy = func(_ *wal.View, w *wal.Writer) error {
		w.SetLimit(3)
		_, err := w.Append(kind, []byte("kept"))
		return err
	}
	require.ErrorIs(t, l.Rewrite(r), wal.ErrTooLarge)
	add(t, l, "goes on")
	require.NoError(t, l.Close())
	_, texts := mustOpen(t, d, "/")
	assert.Equal(t, []string{"0123456789", "goes on"}, texts)
}

// What a rewrite that died has left, and the log before it, are in nobody's way.
func TestRemains(t *testing.T) {
	d := disktest.New()
	l, _ := mustOpen(t, d, "/")
	add(t, l, "old")
	require.NoError(t, l.Close())
	old := contents(t, d, "/00000001.wal")
	l, _ = mustOpen(t, d, "/")
	require.NoError(t, l.Rewrite(keeping("new")))
	require.NoError(t, l.Close())
	put(t, d, "/00000001.wal", old)
	put(t, d, "/00000003.wal.tmp", []byte("half"))
	put(t, d, "/notes.txt", []byte("of a person"))
	put(t, d, "/7.wal", []byte("no name of a log"))
	l, texts := mustOpen(t, d, "/")
	assert.Equal(t, []string{"new"}, texts)
	require.NoError(t, l.Close())
	entries, err := d.ReadDir("/")
	require.NoError(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	assert.Equal(t, []string{"00000002.wal", "7.wal", "notes.txt"}, names)
}

func contents(t *testing.T, fsys disk.FS, name string) []byte {
	t.Helper()
	f, err := fsys.OpenFile(name, os.O_RDONLY)
	require.NoError(t, err)
	size, err := f.Size()
	require.NoError(t, err)
	b := make([]byte, size)
	_, err = f.ReadAt(b, 0)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	return b
}

func put(t *testing.T, fsys disk.FS, name string, b []byte) {
	t.Helper()
	f, err := fsys.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC)
	require.NoError(t, err)
	_, err = f.WriteAt(b, 0)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

// On a real disk: what is there, with which permissions.
func TestFiles(t *testing.T) {
	dir := t.TempDir()
	l, _ := mustOpen(t, disk.OS(), dir)
	add(t, l, "x")
	require.NoError(t, l.Rewrite(keeping("y")))
	add(t, l, "z")
	require.NoError(t, l.Close())
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1)
	info, err := entries[0].Info()
	require.NoError(t, err)
	assert.Equal(t, fs.FileMode(0o600), info.Mode().Perm())
	l, texts := mustOpen(t, disk.OS(), dir)
	assert.Equal(t, []string{"y", "z"}, texts)
	require.NoError(t, l.Close())

	_, _, err = open(disk.OS(), filepath.Join(dir, "none"))
	require.ErrorIs(t, err, fs.ErrNotExist)
}
