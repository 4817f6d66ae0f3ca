package session_test

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

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
			return session.Ref{Key: session.Named("main", fmt.Sprint("s", i)), SessionID: "same"}
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

// Of many that begin one transcript at the same time, while others fail at it, one wins.
func TestBeginOnce(t *testing.T) {
	for n := range 200 {
		d := disktest.New()
		s := openOn(t, d)
		d.Hook(func(disktest.Op) error {
			for range n % 7 {
				runtime.Gosched()
			}
			return nil
		})
		ref := session.Ref{Key: session.Main("main"), SessionID: "x"}
		var wg sync.WaitGroup
		var won atomic.Int32
		for i := range 8 {
			wg.Go(func() {
				if _, err := s.Transcripts.Append(t.Context(), ref, session.Pos(5*(i%2)), says(fmt.Sprint(i))...); err == nil {
					won.Add(1)
				}
			})
		}
		wg.Wait()
		d.Hook(nil)
		require.EqualValues(t, 1, won.Load())
		require.Len(t, lineTexts(t, openOn(t, d), ref), 1)
	}
}

// A directory of an agent that somebody has removed is made again.
func TestBeginInRemovedDirectory(t *testing.T) {
	d := disktest.New()
	s := openOn(t, d)
	ref := func(id string) session.Ref { return session.Ref{Key: session.Main("main"), SessionID: id} }
	say(t, s, ref("x"), 0, "one")
	require.NoError(t, d.Remove("/sessions/main/x.jsonl"))
	require.NoError(t, d.Remove("/sessions/main"))
	say(t, s, ref("y"), 0, "two")
	assert.Equal(t, []string{"two"}, lineTexts(t, openOn(t, d.Crash(func(int) bool { return false })), ref("y")))
}
