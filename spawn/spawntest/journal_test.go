package spawntest_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/sessiontest"
	"github.com/offshoot-sdk/offshoot/spawn/spawntest"
)

// A journal to which nothing happens is a journal.
func TestJournalsAreJournals(t *testing.T) {
	sessiontest.TestJournal(t, func(*testing.T) sessiontest.OpenFunc {
		store := session.NewMemory()
		return func() (session.Journal, error) {
			return struct{ session.Journal }{
				spawntest.NewCrashJournal(spawntest.NewRecorder(store.Journal)),
			}, nil
		}
	})
}

func textBatch(text string) session.Batch {
	return session.Batch{
		ID:      session.BatchID(text),
		Entries: []session.Entry{{Payload: session.Raw(text)}},
	}
}

func TestFaultsDoWhatTheirNamesSay(t *testing.T) {
	for fault, want := range map[spawntest.Fault]struct {
		added, lives bool
		err          error
	}{
		spawntest.FaultDieBefore:   {false, false, spawntest.ErrDead},
		spawntest.FaultDieAfter:    {true, false, spawntest.ErrDead},
		spawntest.FaultFailBefore:  {false, true, spawntest.ErrFault},
		spawntest.FaultLoseAck:     {true, true, spawntest.ErrFault},
		spawntest.FaultPanicBefore: {false, true, nil},
		spawntest.FaultPanicAfter:  {true, true, nil},
		spawntest.FaultHang:        {false, true, spawntest.ErrFault},
		spawntest.FaultExitBefore:  {false, true, nil},
		spawntest.FaultExitAfter:   {true, true, nil},
	} {
		t.Run(fault.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := spawntest.NewRecorder(session.NewMemory().Journal)
				j := spawntest.NewCrashJournal(log).At(2, fault)
				_, err := j.Append(t.Context(), topKey, 0, textBatch("1"))
				require.NoError(t, err)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				try := func() { _, err = j.Append(ctx, topKey, 1, textBatch("2")) }
				switch {
				case fault >= spawntest.FaultExitBefore:
					err = nil
					var all sync.WaitGroup
					returned := false
					all.Go(func() { try(); returned = true })
					all.Wait()
					require.False(t, returned)
				case want.err == nil:
					require.PanicsWithError(t, spawntest.ErrFault.Error(), try)
				default:
					try()
					require.ErrorIs(t, err, want.err)
				}
				n := 0
				for _, err := range log.History(topKey) {
					require.NoError(t, err)
					n++
				}
				require.Equal(t, want.added, n == 2)
				require.Equal(t, 2, j.Appends())
				for _, err := range j.Read(t.Context(), topKey, 0) {
					require.Equal(t, want.lives, err == nil)
				}
				for _, err := range j.Roots(t.Context(), session.RootQuery{}) {
					require.Equal(t, want.lives, err == nil)
				}
				select {
				case <-j.Died():
					require.False(t, want.lives)
				default:
					require.True(t, want.lives)
				}
			})
		})
	}
	require.Equal(t, "Fault(99)", spawntest.Fault(99).String())
}
