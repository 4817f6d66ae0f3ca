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

const testKind = wal.FirstKind

// A replayedFrames collects the frames of a replay.
type replayedFrames struct {
	texts []string
	spans []wal.Span
}

func (r *replayedFrames) frame(at wal.Span, _ wal.Kind, payload []byte) error {
	r.texts = append(r.texts, string(payload))
	r.spans = append(r.spans, at)
	return nil
}

// openLog opens a log and returns the payloads that it replayed.
func openLog(fsys disk.FS, dir string) (*wal.Log, []string, error) {
	var r replayedFrames
	l, _, err := wal.Open(fsys, dir, r.frame)
	if err == nil {
		l.SetRoom(500, 1500) // so that it ends, and is made, between many frames
	}
	return l, r.texts, err
}

func mustOpen(t *testing.T, fsys disk.FS, dir string) (*wal.Log, []string) {
	t.Helper()
	l, texts, err := openLog(fsys, dir)
	require.NoError(t, err)
	return l, texts
}

func ignoreResult([]wal.Span, error) {}

func appendTexts(t *testing.T, l *wal.Log, texts ...string) {
	t.Helper()
	require.NoError(t, l.Append(t.Context(), textRecords(texts...), ignoreResult))
}

func textRecords(texts ...string) []wal.Record {
	var r []wal.Record
	for _, text := range texts {
		r = append(r, wal.Record{Kind: testKind, Payload: []byte(text)})
	}
	return r
}

func numberedTexts(n int) []string {
	var texts []string
	for i := range n {
		texts = append(texts, fmt.Sprintf("payload %d %s", i, strings.Repeat("x", i*7)))
	}
	return texts
}

func TestOpenReplaysWhatWasAppended(t *testing.T) {
	d := disktest.New()
	l, texts := mustOpen(t, d, "/")
	assert.Empty(t, texts)
	appendTexts(t, l, "a")
	appendTexts(t, l, "b", "", "c")
	require.NoError(t, l.Close())
	require.NoError(t, l.Close())

	l, texts = mustOpen(t, d, "/")
	assert.Equal(t, []string{"a", "b", "", "c"}, texts)
	appendTexts(t, l, "d")
	// Without a Close, as after a crash that loses nothing.
	l, texts = mustOpen(t, d, "/")
	assert.Equal(t, []string{"a", "b", "", "c", "d"}, texts)
	require.NoError(t, l.Close())
	require.ErrorIs(t, l.Append(t.Context(), textRecords("late"), ignoreResult), wal.ErrClosed)
	_, err := l.View()
	require.ErrorIs(t, err, wal.ErrClosed)
}

func TestAppendNotifiesPlaces(t *testing.T) {
	l, _ := mustOpen(t, disktest.New(), "/")
	var spans []wal.Span
	for _, text := range numberedTexts(10) {
		r := textRecords(text, "and "+text)
		require.NoError(t, l.Append(t.Context(), r, func(at []wal.Span, err error) {
			assert.NoError(t, err)
			spans = append(spans, at...)
		}))
	}
	v, err := l.View()
	require.NoError(t, err)
	for i, text := range numberedTexts(10) {
		for n, want := range []string{text, "and " + text} {
			k, payload, err := v.Read(spans[2*i+n])
			require.NoError(t, err)
			assert.Equal(t, want, string(payload))
			assert.Equal(t, testKind, k)
		}
	}
	_, _, err = v.Read(wal.Span{Off: spans[3].Off + 1, Len: spans[3].Len})
	var corrupt *wal.CorruptError
	require.ErrorAs(t, err, &corrupt)
	require.NoError(t, v.Close())
	require.NoError(t, l.Close())
}

// A hundred goroutines that append at the same time share syncs. Each append returns after the sync
// that has its payload.
func TestConcurrentAppendsShareSyncs(t *testing.T) {
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
				err := l.Append(t.Context(), textRecords(fmt.Sprintf("%d/%d", w, i)), ignoreResult)
				if !assert.NoError(t, err) {
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

// View.Read refuses a frame that has rotted while the log is open.
func TestViewReadChecksEveryBit(t *testing.T) {
	d := disktest.New()
	l, _ := mustOpen(t, d, "/")
	var at wal.Span
	keep := func(s []wal.Span, _ error) { at = s[0] }
	require.NoError(t, l.Append(t.Context(), textRecords("payload"), keep))
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

func TestCancelledAppendIsWithdrawnUnlessBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := disktest.New()
		l, _ := mustOpen(t, d, "/")
		hang := make(chan error)
		d.Hook(hangingSync(hang))
		ctx, cancel := context.WithCancel(t.Context())
		first, second, notified := make(chan error, 1), make(chan error, 1), make(chan error, 2)
		notify := func(_ []wal.Span, err error) { notified <- err }
		go func() { first <- l.Append(ctx, textRecords("under way"), notify) }()
		synctest.Wait()
		go func() { second <- l.Append(ctx, textRecords("waiting"), notify) }()
		synctest.Wait()
		cancel()
		require.ErrorIs(t, <-first, context.Canceled)
		require.ErrorIs(t, <-second, context.Canceled)
		require.ErrorIs(t, <-notified, context.Canceled, "a waiting append is not written")
		close(hang)
		require.NoError(t, <-notified, "the append that was under way goes on")
		require.NoError(t, l.Close())
		_, texts := mustOpen(t, d, "/")
		assert.Equal(t, []string{"under way"}, texts)
	})
}

// Each operation of Open may fail. Open then returns an error, and the next Open replays
// everything.
func TestFailedOpenLosesNothing(t *testing.T) {
	d := disktest.New()
	l, _ := mustOpen(t, d, "/")
	appendTexts(t, l, numberedTexts(5)...)
	appendTexts(t, l, "torn")
	size := l.Size() // the process dies without a Close
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
		l, texts, err := openLog(after, "/")
		after.Hook(nil)
		if err == nil {
			assert.Equal(t, numberedTexts(5), texts)
			require.NoError(t, l.Close())
			assert.Greater(t, n, 5)
			return
		}
		require.ErrorIs(t, err, syscall.EIO)
		l, texts = mustOpen(t, after, "/")
		assert.Equal(t, numberedTexts(5), texts)
		require.NoError(t, l.Close())
	}
}

// A payload that is too large is refused before anything is written, with all records of its
// append.
func TestTooLargePayloadRefusesWholeAppend(t *testing.T) {
	d := disktest.New()
	l, _ := mustOpen(t, d, "/")
	l.SetLimit(10)
	appendTexts(t, l, "0123456789")
	size := l.Size()
	notified := 0
	notify := func(at []wal.Span, err error) {
		notified++
		assert.Empty(t, at)
		assert.ErrorIs(t, err, wal.ErrTooLarge)
	}
	err := l.Append(t.Context(), textRecords("fits", "0123456789a", "fits"), notify)
	require.ErrorIs(t, err, wal.ErrTooLarge)
	assert.ErrorContains(t, err, "11 bytes, at most 10")
	assert.Equal(t, 1, notified)
	assert.Equal(t, size, l.Size())
	require.NoError(t, l.Err())
	r := keepTexts("kept")
	r.Copy = func(_ *wal.View, w *wal.Writer) error {
		w.SetLimit(3)
		_, err := w.Append(testKind, []byte("kept"))
		return err
	}
	require.ErrorIs(t, l.Rewrite(r), wal.ErrTooLarge)
	appendTexts(t, l, "goes on")
	require.NoError(t, l.Close())
	_, texts := mustOpen(t, d, "/")
	assert.Equal(t, []string{"0123456789", "goes on"}, texts)
}

// Open removes the temporary file of a rewrite that died and the log before a finished rewrite. It
// leaves other files alone.
func TestOpenRemovesRemainsOfRewrites(t *testing.T) {
	d := disktest.New()
	l, _ := mustOpen(t, d, "/")
	appendTexts(t, l, "old")
	require.NoError(t, l.Close())
	old := readFile(t, d, "/00000001.wal")
	l, _ = mustOpen(t, d, "/")
	require.NoError(t, l.Rewrite(keepTexts("new")))
	require.NoError(t, l.Close())
	writeFile(t, d, "/00000001.wal", old)
	writeFile(t, d, "/00000003.wal.tmp", []byte("half"))
	writeFile(t, d, "/notes.txt", []byte("of a person"))
	writeFile(t, d, "/7.wal", []byte("no name of a log"))
	l, texts := mustOpen(t, d, "/")
	assert.Equal(t, []string{"new"}, texts)
	require.NoError(t, l.Close())
	entries, err := d.ReadDir("/")
	require.NoError(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	assert.Equal(t, []string{"00000002.wal", "7.wal", "closed.wal", "notes.txt"}, names)
}

// readLog returns the bytes of a log without the room behind it.
func readLog(t *testing.T, fsys disk.FS, l *wal.Log) []byte {
	t.Helper()
	return readFile(t, fsys, logName)[:l.Size()]
}

func readFile(t *testing.T, fsys disk.FS, name string) []byte {
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

func writeFile(t *testing.T, fsys disk.FS, name string, b []byte) {
	t.Helper()
	f, err := fsys.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC)
	require.NoError(t, err)
	_, err = f.WriteAt(b, 0)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

// On a real disk, the log is one file with the permissions 0600, beside the mark of its end.
func TestOnlyTheUserMayReadTheLog(t *testing.T) {
	dir := t.TempDir()
	l, _ := mustOpen(t, disk.OS(), dir)
	appendTexts(t, l, "x")
	require.NoError(t, l.Rewrite(keepTexts("y")))
	appendTexts(t, l, "z")
	require.NoError(t, l.Close())
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 2)
	for _, e := range entries {
		info, err := e.Info()
		require.NoError(t, err)
		assert.Equal(t, fs.FileMode(0o600), info.Mode().Perm())
	}
	l, texts := mustOpen(t, disk.OS(), dir)
	assert.Equal(t, []string{"y", "z"}, texts)
	require.NoError(t, l.Close())

	_, _, err = openLog(disk.OS(), filepath.Join(dir, "none"))
	require.ErrorIs(t, err, fs.ErrNotExist)
}
