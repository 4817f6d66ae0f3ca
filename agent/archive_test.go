package agent_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/session"
)

// stuckTranscripts cannot be archived at first.
type stuckTranscripts struct {
	session.Transcripts
	tries, failing atomic.Int32
}

func (s *stuckTranscripts) Archive(
	ctx context.Context, ref session.Ref, at time.Time,
) (string, error) {
	if s.tries.Add(1) <= s.failing.Load() {
		return "", errDisk
	}
	return s.Transcripts.Archive(ctx, ref, at)
}

// What cannot be archived is archived later, and no call waits for it.
func TestArchiveIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := session.NewMemory()
		stuck := &stuckTranscripts{Transcripts: store.Transcripts}
		stuck.failing.Store(3)
		cfg := configWith(func(context.Context, *agent.Turn) (agent.Result, error) {
			return textResult("x")
		})
		cfg.Store = &session.Store{Journal: store.Journal, Transcripts: stuck}
		rt, err := agent.Open(t.Context(), cfg)
		require.NoError(t, err)
		done := make(chan error, 1)
		go func() { done <- rt.Run(context.WithoutCancel(t.Context())) }()
		s := rt.Session(topKey)
		child, err := agent.Spawn[string](t.Context(), s, agent.Task{Text: "x"})
		require.NoError(t, err)
		_, err = child.Wait(t.Context())
		require.NoError(t, err)
		time.Sleep(time.Hour + time.Second)
		require.EqualValues(t, 1, stuck.tries.Load())
		idle, cancel := context.WithTimeout(t.Context(), time.Second)
		require.NoError(t, s.Idle(idle))
		cancel()
		time.Sleep(10 * time.Minute)
		require.EqualValues(t, 4, stuck.tries.Load(), "after 15 seconds, 30, and a minute")
		runs, err := s.Runs(t.Context())
		require.NoError(t, err)
		require.Empty(t, runs)
		for head, err := range store.Journal.Roots(t.Context(),
			session.RootQuery{DueBefore: time.Now().AddDate(1, 0, 0)}) {
			require.NoError(t, err)
			t.Errorf("%s is due %s", head.Root, head.Due)
		}
		require.NoError(t, rt.Shutdown(t.Context()))
		require.NoError(t, <-done)
	})
}
