package spawn_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
	"github.com/offshoot-sdk/offshoot/spawn/spawntest"
)

// The prefix of the package stands once in what callers are refused with, and at the beginning.
func TestRefusalsHaveThePrefixOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		journal := spawntest.NewCrashJournal(session.NewMemory().Journal)
		s := openSupervisor(
			t, spawn.Config{Store: &session.Store{Journal: journal}, Runner: instantRunner},
		)
		synctest.Wait()
		ended, err := s.Spawn(t.Context(), topKey, topKey, spawn.Request{Task: "x"})
		require.NoError(t, err)
		synctest.Wait()
		ctx := t.Context()
		unknown := session.Must(topKey.Child("main", session.NewID()))
		refused := map[error]error{
			spawn.ErrEnded:   s.Post(ctx, topKey, ended.Key, spawn.Incoming{Text: "x"}),
			spawn.ErrRunning: s.Run(ctx),
		}
		for name, err := range map[string]error{
			"find":   errorOf(s.Find(ctx, topKey, unknown)),
			"runs":   errorOf(s.Runs(ctx, topKey, unknown, true)),
			"wait":   errorOf(s.Wait(ctx, topKey, []session.Key{unknown}, spawn.JoinOptions{})),
			"root":   errorOf(s.RootOf(ctx, unknown)),
			"retry":  s.Retry(ctx, "none"),
			"cancel": s.CancelTurn(ctx, topKey, unknown),
			"stop":   s.Stop(ctx, topKey, unknown, ""),
			"steer":  s.Steer(ctx, topKey, topKey, unknown, spawn.Incoming{Text: "x"}),
		} {
			require.ErrorIs(t, err, spawn.ErrNotFound, name)
			requirePrefixOnce(t, err)
		}
		journal.At(journal.Appends()+1, spawntest.FaultFailBefore)
		other := session.Must(session.NamedKey("main", "other"))
		refused[spawn.ErrNotRecorded] = s.Post(ctx, other, other, spawn.Incoming{Text: "x"})
		for want, err := range refused {
			require.ErrorIs(t, err, want)
			requirePrefixOnce(t, err)
		}
		for _, err := range []error{
			spawn.ErrBusy, spawn.ErrBudget, spawn.ErrStale, spawn.ErrStopping,
			spawn.ErrUnconfirmed, spawn.ErrUnreadable,
		} {
			requirePrefixOnce(t, err)
		}
	})
}

// errorOf returns the error of two results.
func errorOf[T any](_ T, err error) error { return err }

func requirePrefixOnce(t *testing.T, err error) {
	t.Helper()
	require.True(t, strings.HasPrefix(err.Error(), "spawn: "), err)
	require.Equal(t, 1, strings.Count(err.Error(), "spawn: "), err)
}

// An error of the journal that has the prefix itself is shown with one prefix.
func TestJournalErrorHasThePrefixOnce(t *testing.T) {
	err := &spawn.JournalError{Root: topKey, Seq: 3, Err: errors.New("spawn: it is bad")}
	require.EqualError(t, err, `spawn: journal of "agent:main:main", entry 3: it is bad`)
}
