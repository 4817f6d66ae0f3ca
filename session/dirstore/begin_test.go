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

// Sessions that create transcripts with one session id at the same time get a file each.
func TestConcurrentTranscriptsOfOneIDGetOwnFiles(t *testing.T) {
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
			k := session.Must(session.NamedKey("main", fmt.Sprint("s", i)))
			return session.Ref{Key: k, SessionID: "same"}
		}
		var wg sync.WaitGroup
		for i := range 4 {
			wg.Go(func() {
				_, err := s.Transcripts.Append(t.Context(), ref(i), 0,
					userMessages(fmt.Sprint("of ", i))...)
				assert.NoError(t, err)
			})
		}
		wg.Wait()
		d.Hook(nil)
		again := openOn(t, afterCrash(d))
		for i := range 4 {
			require.Equal(t, []string{fmt.Sprint("of ", i)}, lineTexts(t, again, ref(i)))
		}
	}
}

// One of several concurrent appends creates a transcript, and the others get ErrConflict. That is
// so although a failed append forgets the transcript meanwhile.
func TestOneOfConcurrentAppendsCreatesTranscript(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := disktest.New()
		s := openOn(t, d)
		ref := testRef("x")
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
			_, err := s.Transcripts.Append(t.Context(), ref, after, userMessages(text)...)
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

// An append makes the directory of an agent again after another program has removed it.
func TestRemovedAgentDirectoryIsMadeAgain(t *testing.T) {
	d := disktest.New()
	s := openOn(t, d)
	appendTexts(t, s, testRef("x"), 0, "one")
	file(t, s, testRef("x"))
	require.NoError(t, d.Remove("/sessions/main/x.jsonl"))
	require.NoError(t, d.Remove("/sessions/main"))
	appendTexts(t, s, testRef("y"), 0, "two")
	assert.Equal(t, []string{"two"}, lineTexts(t, openOn(t, afterCrash(d)), testRef("y")))
}
