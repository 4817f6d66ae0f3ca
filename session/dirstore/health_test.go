package dirstore_test

import (
	"context"
	"fmt"
	"os"
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

// A busyLog is a tree that is worth compacting again and again.
type busyLog struct {
	s    *session.Store
	last session.Seq
}

func (b *busyLog) add(t *testing.T) {
	t.Helper()
	var err error
	b.last, err = b.s.Journal.Append(t.Context(), tree(1), b.last, batchOf(noon, true, fmt.Sprint(b.last, strings.Repeat("x", 500))))
	require.NoError(t, err)
	synctest.Wait() // for the compaction, if that was the moment for one
}

// rot changes one byte of a file, counted from its end.
func rot(t *testing.T, d *disktest.Disk, name string, fromEnd int) {
	t.Helper()
	f, err := d.OpenFile(name, os.O_RDWR)
	require.NoError(t, err)
	size, err := f.Size()
	require.NoError(t, err)
	_, err = f.WriteAt([]byte{0xee}, size-int64(fromEnd))
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

// Rot that only compaction meets stops nobody, and is said by Health, again by Close, and by the
// next Open.
func TestRotThatCompactionMeetsIsSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := disktest.New()
		s := openOn(t, d)
		dirstore.SetSlack(s, 10_000)
		_, err := s.Journal.Append(t.Context(), tree(9), 0, batchOf(noon, false, "rots"))
		require.NoError(t, err)
		rot(t, d, "/journal/00000001.wal", 3)
		b := busyLog{s: s}
		b.add(t)
		require.NoError(t, s.Health(t.Context()), "nobody has looked")
		for range 30 {
			b.add(t)
		}
		err = s.Health(t.Context())
		var corrupt *session.CorruptError
		require.ErrorAs(t, err, &corrupt)
		assert.Equal(t, "/journal/00000001.wal", corrupt.File)
		assert.ErrorContains(t, err, "compact")
		l, err := readLog(t.Context(), s.Journal, tree(1))
		require.NoError(t, err)
		assert.Equal(t, b.last, l.last())
		require.ErrorIs(t, s.Close(), session.ErrCorrupt)
		require.ErrorIs(t, s.Health(t.Context()), session.ErrClosed)
		_, err = dirstore.OpenOn(d, "/")
		require.ErrorIs(t, err, session.ErrCorrupt)
	})
}

// A compaction for which there is no room is tried again when the log has grown by as much as it
// may, not with every append, and Health says how the last one went.
func TestCompactionRestsAfterFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := disktest.New()
		s := openOn(t, d)
		dirstore.SetSlack(s, 10_000)
		tries := 0
		d.Hook(func(op disktest.Op) error {
			if op.Kind == disktest.OpCreate {
				tries++
				return syscall.ENOSPC
			}
			return nil
		})
		b := busyLog{s: s}
		for range 200 {
			b.add(t)
		}
		size, _ := dirstore.LogSize(s)
		assert.InDelta(t, size/10_000, tries, 2)
		require.ErrorIs(t, s.Health(t.Context()), syscall.ENOSPC)
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

// Close waits for a compaction that is under way: the lock is not given back while somebody writes.
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

// A sync that fails is something to say before the next append is refused.
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
	_, err := s.Journal.Append(t.Context(), tree(1), 0, batchOf(noon, false, "x"))
	require.ErrorIs(t, err, session.ErrSync)
	require.ErrorIs(t, s.Health(t.Context()), session.ErrSync)
	require.NoError(t, s.Close())
}

type unwell struct {
	session.Journal
	err error
}

func (u unwell) Health(context.Context) error { return u.err }

type unwellTranscripts struct {
	session.Transcripts
	err error
}

func (u unwellTranscripts) Health(context.Context) error { return u.err }

// Health asks what can be asked.
func TestHealth(t *testing.T) {
	s := session.NewMemory()
	require.NoError(t, s.Health(t.Context()))
	s.Journal = unwell{s.Journal, syscall.EIO}
	s.Transcripts = unwellTranscripts{s.Transcripts, syscall.ENOSPC}
	err := s.Health(t.Context())
	require.ErrorIs(t, err, syscall.EIO)
	require.ErrorIs(t, err, syscall.ENOSPC)
	v := openOn(t, disktest.New())
	require.NoError(t, v.Close())
	require.ErrorIs(t, v.Health(t.Context()), session.ErrClosed)
}
