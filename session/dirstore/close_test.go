package dirstore_test

import (
	"context"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/internal/disk/disktest"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/dirstore"
)

// Closing one part of a Store does not release the lock. Closing the Store does.
func TestCloseAfterClosedPartReleasesLock(t *testing.T) {
	dir := t.TempDir()
	for i := range 2 {
		s := openDir(t, dir)
		require.NoError(t, []any{s.Journal, s.Transcripts}[i].(io.Closer).Close())
		_, err := dirstore.Open(dir)
		require.ErrorIs(t, err, dirstore.ErrLocked)
		require.NoError(t, s.Close())
	}
	s := openDir(t, dir)
	require.NoError(t, s.Close())
}

// Close waits for the write to a transcript that is under way. Calls that wait for the transcript
// meanwhile write nothing after Close.
func TestCloseWaitsForTranscriptWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := disktest.New()
		s := openOn(t, d)
		ref := testRef("x")
		end := appendTexts(t, s, ref, 0, "before")
		hang := make(chan struct{})
		var closed atomic.Bool
		d.Hook(func(op disktest.Op) error {
			if op.Kind == disktest.OpWrite {
				<-hang
			}
			if op.Changes() && closed.Load() {
				t.Error("after Close:", op)
			}
			return nil
		})
		answers := make(chan error, 4)
		add := func(text string) {
			_, err := s.Transcripts.Append(context.WithoutCancel(t.Context()), ref, end,
				userMessages(text)...)
			answers <- err
		}
		go add("first")
		synctest.Wait()
		go add("waits for its turn")
		go func() {
			_, err := s.Transcripts.Archive(context.WithoutCancel(t.Context()), ref, testTime)
			answers <- err
		}()
		synctest.Wait()
		done := make(chan struct{}, 1)
		go func() {
			assert.NoError(t, s.Close())
			closed.Store(true)
			done <- struct{}{}
		}()
		synctest.Wait()
		assert.Empty(t, done, "an append has not returned")
		go add("after Close was called")
		synctest.Wait()
		assert.ErrorIs(t, <-answers, session.ErrClosed)
		close(hang)
		<-done
		synctest.Wait()
		failed := 0
		for range 3 {
			if err := <-answers; err != nil {
				assert.ErrorIs(t, err, session.ErrClosed)
				failed++
			}
		}
		assert.Equal(t, 2, failed)
		d.Hook(nil)
		assert.Equal(t, []string{"before", "first"}, lineTexts(t, openOn(t, d), ref))
	})
}

// A loop over lines ends with ErrClosed when the store is closed within it. Close does not wait for
// the loop.
func TestCloseEndsLoopOverLines(t *testing.T) {
	s := openOn(t, disktest.New())
	ref := testRef("x")
	appendTexts(t, s, ref, 0, "one", "two", "three")
	n := 0
	for _, err := range s.Transcripts.Read(t.Context(), ref, session.LineQuery{}) {
		if n++; n == 2 {
			assert.ErrorIs(t, err, session.ErrClosed)
			break
		}
		require.NoError(t, err)
		require.NoError(t, s.Close())
	}
	assert.Equal(t, 2, n)
}

// Locate of a closed Store removes nothing of the next owner.
func TestLocateAfterCloseDoesNotDisturbNextOwner(t *testing.T) {
	d := disktest.New()
	s, next := openOn(t, d), openOn(t, d)
	require.NoError(t, s.Close())
	ref := testRef("x")
	dirstore.WriteLinesAtOnce(next)
	looked := false
	d.Hook(func(op disktest.Op) error {
		if op.Kind == disktest.OpSync && strings.HasSuffix(op.Name, ".tmp") {
			looked = true
			assert.Empty(t, s.Transcripts.Locate(ref))
		}
		return nil
	})
	appendTexts(t, next, ref, 0, "one")
	assert.True(t, looked)
}
