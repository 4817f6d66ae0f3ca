package dirstore_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/internal/disk/disktest"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/dirstore"
)

// A busyLog appends to one tree, so that the log must be compacted again and again.
type busyLog struct {
	s    *session.Store
	last session.Seq
}

func (b *busyLog) add(t *testing.T) {
	t.Helper()
	var err error
	b.last, err = b.s.Journal.Append(t.Context(), treeKey(1), b.last,
		batchOf(testTime, true, fmt.Sprint(b.last, strings.Repeat("x", 500))))
	require.NoError(t, err)
	synctest.Wait() // for the compaction that the append may have started
}

// rotByte changes one byte of a file, counted from its end.
func rotByte(t *testing.T, d *disktest.Disk, name string, fromEnd int) {
	t.Helper()
	f, err := d.OpenFile(name, os.O_RDWR)
	require.NoError(t, err)
	b := make([]byte, 1<<20)
	n, err := f.ReadAt(b, 0)
	require.ErrorIs(t, err, io.EOF)
	end := len(bytes.TrimRight(b[:n], "\x00")) // without the room of a log
	_, err = f.WriteAt([]byte{0xee}, int64(end-fromEnd))
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

// A compaction finds rot. Appends go on. Health, Close and the next Open return the error.
func TestHealthAndCloseReturnRotOfCompaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := disktest.New()
		s := openOn(t, d)
		dirstore.SetSlack(s, 10_000)
		_, err := s.Journal.Append(t.Context(), treeKey(9), 0, batchOf(testTime, false, "rots"))
		require.NoError(t, err)
		rotByte(t, d, "/journal/00000001.wal", 3)
		b := busyLog{s: s}
		b.add(t)
		require.NoError(t, s.Health(t.Context()), "no compaction has read the log yet")
		for range 30 {
			b.add(t)
		}
		err = s.Health(t.Context())
		var corrupt *session.CorruptError
		require.ErrorAs(t, err, &corrupt)
		assert.Equal(t, "/journal/00000001.wal", corrupt.File)
		assert.ErrorContains(t, err, "compact")
		l, err := readLog(t.Context(), s.Journal, treeKey(1))
		require.NoError(t, err)
		assert.Equal(t, b.last, l.last())
		require.ErrorIs(t, s.Close(), session.ErrCorrupt)
		require.ErrorIs(t, s.Health(t.Context()), session.ErrClosed)
		_, err = dirstore.OpenOn(d, "/")
		require.ErrorIs(t, err, session.ErrCorrupt)
	})
}

// A failed compaction is tried again when the log has grown by slack, and not with every append.
// Health returns the error of the last one.
func TestFailedCompactionWaitsForGrowth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := disktest.New()
		s := openOn(t, d)
		dirstore.SetSlack(s, 10_000)
		tries := 0
		d.Hook(func(op disktest.Op) error {
			if op.Kind == disktest.OpCreate {
				tries++
				return errDiskFull
			}
			return nil
		})
		b := busyLog{s: s}
		for range 200 {
			b.add(t)
		}
		size, _ := dirstore.LogSize(s)
		assert.InDelta(t, size/10_000, tries, 2)
		require.ErrorIs(t, s.Health(t.Context()), errDiskFull)
		d.Hook(nil)
		for range 20 {
			b.add(t)
		}
		require.NoError(t, s.Health(t.Context()))
		size, _ = dirstore.LogSize(s)
		assert.Less(t, size, int64(30_000))
		require.NoError(t, s.Close())
	})
}

// Close waits for a compaction that is under way. The lock is not released while the store writes.
func TestCloseWaitsForCompaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := disktest.New()
		s := openOn(t, d)
		dirstore.SetSlack(s, 1000)
		hang := make(chan struct{})
		var over atomic.Bool
		d.Hook(func(op disktest.Op) error {
			if op.Kind == disktest.OpCreate {
				<-hang
			}
			if over.Load() && op.Changes() {
				t.Error("after Close:", op)
			}
			return nil
		})
		b := busyLog{s: s}
		for range 5 {
			b.add(t)
		}
		closed := make(chan error, 1)
		go func() {
			err := s.Close()
			over.Store(true)
			closed <- err
		}()
		synctest.Wait()
		assert.Empty(t, closed)
		close(hang)
		require.NoError(t, <-closed)
		synctest.Wait()
	})
}

// Health returns a failed sync before the next append is refused.
func TestHealthAfterFailedSync(t *testing.T) {
	d := disktest.New()
	s := openOn(t, d)
	require.NoError(t, s.Health(t.Context()))
	d.Hook(func(op disktest.Op) error {
		if op.Kind == disktest.OpSync {
			return syscall.EIO
		}
		return nil
	})
	_, err := s.Journal.Append(t.Context(), treeKey(1), 0, batchOf(testTime, false, "x"))
	require.ErrorIs(t, err, session.ErrSync)
	require.ErrorIs(t, s.Health(t.Context()), session.ErrSync)
	require.NoError(t, s.Close())
}

// An unwellJournal is a Journal whose Health returns err.
type unwellJournal struct {
	session.Journal
	err error
}

func (u unwellJournal) Health(context.Context) error { return u.err }

// An unwellTranscripts is a Transcripts whose Health returns err.
type unwellTranscripts struct {
	session.Transcripts
	err error
}

func (u unwellTranscripts) Health(context.Context) error { return u.err }

// Health returns the errors of both parts, and nil for a part without the method.
func TestHealthJoinsErrorsOfParts(t *testing.T) {
	s := session.NewMemory()
	require.NoError(t, s.Health(t.Context()))
	s.Journal = unwellJournal{s.Journal, syscall.EIO}
	s.Transcripts = unwellTranscripts{s.Transcripts, errDiskFull}
	err := s.Health(t.Context())
	require.ErrorIs(t, err, syscall.EIO)
	require.ErrorIs(t, err, errDiskFull)
	v := openOn(t, disktest.New())
	require.NoError(t, v.Close())
	require.ErrorIs(t, v.Health(t.Context()), session.ErrClosed)
}

// Health says that the directory of the transcripts is gone, for which every turn waits, and
// nothing more once it is back.
func TestHealthWithoutTranscripts(t *testing.T) {
	dir := t.TempDir()
	s, err := dirstore.Open(dir)
	require.NoError(t, err)
	ref := session.Ref{Key: session.Must(session.MainKey("main")), SessionID: "s"}
	message := session.Message{Role: session.MessageUser, Text: "hello"}
	end, err := s.Transcripts.Append(t.Context(), ref, 0, message)
	require.NoError(t, err)
	dirstore.WriteLinesAtOnce(s)
	sessions, away := filepath.Join(dir, "sessions"), filepath.Join(dir, "away")
	require.NoError(t, os.Rename(sessions, away))
	_, err = s.Transcripts.Append(t.Context(), ref, end, message)
	require.ErrorIs(t, err, fs.ErrNotExist)
	err = s.Health(t.Context())
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorContains(t, err, sessions)
	require.NoError(t, os.Rename(away, sessions))
	require.NoError(t, s.Health(t.Context()))
	require.NoError(t, s.Close())
}
