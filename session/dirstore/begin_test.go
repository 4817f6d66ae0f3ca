package dirstore_test

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/internal/disk/disktest"
	"github.com/offshoot-sdk/offshoot/session"
)

// Two sessions that begin transcripts with the same id at the same time each get one of their own.
func TestBeginSameIDAtOnce(t *testing.T) {
	for n := range 100 {
		d := disktest.New()
		s := openOn(t, d)
		d.Hook(func(disktest.Op) error {
			for range n % 7 {
				runtime.Gosched()
			}
			return nil
		})
		ref := func(i int) session.Ref {
			return session.Ref{Key: session.Must(session.NamedKey("main", fmt.Sprint("s", i))), SessionID: "same"}
		}
		var wg sync.WaitGroup
		for i := range 4 {
			wg.Go(func() {
				_, err := s.Transcripts.Append(t.Context(), ref(i), 0, says(fmt.Sprint("of ", i))...)
				assert.NoError(t, err)
			})
		}
		wg.Wait()
		d.Hook(nil)
		again := openOn(t, d.Crash(func(int) bool { return false }))
		for i := range 4 {
			require.Equal(t, []string{fmt.Sprint("of ", i)}, lineTexts(t, again, ref(i)))
		}
	}
}

// Of many that begin one transcript one wins, also if one that fails at it forgets it meanwhile.
func TestBeginOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := disktest.New()
		s := openOn(t, d)
		ref := session.Ref{Key: session.Must(session.MainKey("main")), SessionID: "x"}
		looks, begins := make(chan struct{}), make(chan struct{})
		var looked, began atomic.Bool
		d.Hook(func(op disktest.Op) error {
			if op.Kind == disktest.OpReadDir && !looked.Swap(true) {
				<-looks
			}
			if op.Kind == disktest.OpSync && !began.Swap(true) {
				<-begins
			}
			return nil
		})
		answers := make(chan error, 3)
		add := func(after session.Pos, text string) {
			_, err := s.Transcripts.Append(t.Context(), ref, after, says(text)...)
			answers <- err
		}
		go add(5, "forgets it")
		synctest.Wait()
		go add(0, "waits for that")
		synctest.Wait()
		close(looks)
		require.ErrorIs(t, <-answers, session.ErrConflict)
		synctest.Wait()
		go add(0, "comes later")
		synctest.Wait()
		assert.Empty(t, answers)
		close(begins)
		require.NoError(t, <-answers)
		require.ErrorIs(t, <-answers, session.ErrConflict)
		d.Hook(nil)
		assert.Equal(t, []string{"waits for that"}, lineTexts(t, openOn(t, d), ref))
	})
}

// A directory of an agent that somebody has removed is made again.
func TestBeginInRemovedDirectory(t *testing.T) {
	d := disktest.New()
	s := openOn(t, d)
	ref := func(id string) session.Ref {
		return session.Ref{Key: session.Must(session.MainKey("main")), SessionID: id}
	}
	say(t, s, ref("x"), 0, "one")
	require.NoError(t, d.Remove("/sessions/main/x.jsonl"))
	require.NoError(t, d.Remove("/sessions/main"))
	say(t, s, ref("y"), 0, "two")
	assert.Equal(t, []string{"two"}, lineTexts(t, openOn(t, d.Crash(func(int) bool { return false })), ref("y")))
}
