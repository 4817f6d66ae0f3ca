package spawn_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// A process that is gone may have left an archive under way that the store does late. A session
// that has been brought back and asked again meanwhile is archived as it is then, and comes back as
// that.
func TestLateArchiveOfAFormerProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := session.NewMemory()
		cfg := spawn.Config{
			Store: store, CallerRun: true,
			Deliver: func(context.Context, spawn.Delivery) error { return nil },
			Runner: runnerFunc(func(
				ctx context.Context, in *spawn.TurnInput,
			) (res spawn.TurnResult, err error) {
				for _, m := range in.Inputs {
					res.Result.Text = "heard " + m.Text
				}
				return res, nil
			}),
		}
		s := openSupervisor(t, cfg)
		info, err := s.Spawn(t.Context(), topKey, topKey, spawn.Request{Task: "x"})
		require.NoError(t, err)
		time.Sleep(24 * time.Hour)
		_, err = s.Find(t.Context(), topKey, refOf(info.Key))
		require.ErrorIs(t, err, spawn.ErrNotFound)

		ref := session.Ref{Key: info.Key, SessionID: info.Key.ID()}
		first := lastOf(t, store, ref, true)
		require.NoError(t, s.Revive(t.Context(), info.Key))
		_, err = s.Post(t.Context(), topKey, info.Key, spawn.Incoming{ID: "1", Text: "more"})
		require.NoError(t, err)
		synctest.Wait()

		last := lastOf(t, store, ref, false)
		_, err = store.Transcripts.Append(t.Context(), ref, last.Pos, first.Message)
		require.NoError(t, err)
		for range 2 { // by two attempts
			_, err = store.Transcripts.Archive(t.Context(), ref, time.Now())
			require.NoError(t, err)
			require.NoError(t, store.Files.Archive(t.Context(), ref, time.Now()))
		}
		time.Sleep(24 * time.Hour)
		_, err = s.Find(t.Context(), topKey, refOf(info.Key))
		require.ErrorIs(t, err, spawn.ErrNotFound)

		require.NoError(t, s.Revive(t.Context(), info.Key))
		run, err := s.Find(t.Context(), topKey, refOf(info.Key))
		require.NoError(t, err)
		require.Equal(t, "heard more", run.Result.Text)
	})
}

// lastOf returns the last line of a transcript.
func lastOf(t *testing.T, store *session.Store, ref session.Ref, archived bool) session.Line {
	t.Helper()
	var last session.Line
	q := session.LineQuery{Last: 1, Archived: archived}
	for line, err := range store.Transcripts.Read(t.Context(), ref, q) {
		require.NoError(t, err)
		last = line
	}
	return last
}
