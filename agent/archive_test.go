package agent_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
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

// endedRun returns a sub-agent that has ended and was archived, and the words of its history.
func endedRun(t *testing.T, h *harness) (c *agent.Child[string], words []string) {
	t.Helper()
	c, err := h.Main().Spawn(h.Context(), agent.Task{Text: "work", Label: "ended"})
	require.NoError(t, err)
	_, err = c.Wait(h.Context())
	require.NoError(t, err)
	page, err := c.Session().History(h.Context(), agent.HistoryQuery{})
	require.NoError(t, err)
	require.False(t, page.Archived)
	time.Sleep(3 * time.Hour)
	_, err = c.Info(h.Context())
	require.ErrorIs(t, err, agent.ErrNotFound)
	return c, textsOfPage(page)
}

// R19: the history of an archived session is read, by its key, and after a restart. What writes to
// it says that it is archived, and stays ErrNotFound for callers of before.
func TestHistoryOfAnArchivedSession(t *testing.T) {
	answer := func(context.Context, *agent.Turn) (agent.Result, error) { return textResult("done") }
	agenttest.Run(t, configWith(answer), nil, func(h *harness) {
		c, words := endedRun(t, h)
		require.Len(t, words, 2)
		require.ErrorIs(t, c.Steer(h.Context(), "x"), agent.ErrArchived)
		checkArchived(t, h, c.Key(), words)
		h.Crash()
		synctest.Wait()
		checkArchived(t, h, c.Key(), words)
	})
}

// checkArchived checks what an archived session answers, and one that never was.
func checkArchived(t *testing.T, h *harness, key session.Key, words []string) {
	t.Helper()
	ctx, s := h.Context(), h.Session(key)
	for _, raw := range []bool{false, true} {
		page, err := s.History(ctx, agent.HistoryQuery{Raw: raw})
		require.NoError(t, err)
		require.True(t, page.Archived)
		require.Equal(t, words, textsOfPage(page))
		page, err = s.History(ctx, agent.HistoryQuery{Raw: raw, Last: 1})
		require.NoError(t, err)
		require.Equal(t, words[1:], textsOfPage(page))
		page, err = s.History(ctx, agent.HistoryQuery{Raw: raw, Before: page.Earlier})
		require.NoError(t, err)
		require.Equal(t, words[:1], textsOfPage(page))
	}
	for name, write := range map[string]func(s *agent.Session) error{
		"Post": func(s *agent.Session) error { return errorOf(s.Post(ctx, agent.Incoming{Text: "x"})) },
		"Spawn": func(s *agent.Session) error {
			_, err := s.Spawn(ctx, agent.Task{Text: "x"})
			return err
		},
		"Steer": func(s *agent.Session) error { return h.Main().Steer(ctx, s.Key(), "x") },
	} {
		err := write(s)
		require.ErrorIs(t, err, agent.ErrArchived, name)
		require.ErrorIs(t, err, agent.ErrNotFound, name)
		err = write(h.Session(childKeyOf(t, topKey)))
		require.ErrorIs(t, err, agent.ErrNotFound, name)
		require.NotErrorIs(t, err, agent.ErrArchived, name)
	}
}

// The time of a run ends the run. Its session is archived when the rules say so, and not before.
func TestTimeoutDoesNotArchive(t *testing.T) {
	s := script{"main": {
		agenttest.Call("sessions_spawn", `{"task":"x","label":"slow","runTimeoutSeconds":60}`),
		say("on it"), say("too slow"),
	}, "slow": {agenttest.Hang()}}
	agenttest.Run(t, agent.Config{}, s, func(h *harness) {
		h.Post("go")
		h.Pass(59 * time.Second)
		require.Equal(h.T(), agent.StatusRunning, h.Child("slow").Status)
		h.Pass(59 * time.Minute)
		child := h.Child("slow")
		require.Equal(h.T(), agent.StatusTimedOut, child.Status)
		h.Replied("on it", "too slow")
		_, err := h.Session(child.Key).Status(h.Context())
		require.NoError(h.T(), err)
		h.Pass(5 * time.Minute)
		_, err = h.Session(child.Key).Post(h.Context(), agent.Incoming{Text: "x"})
		require.ErrorIs(h.T(), err, agent.ErrArchived)
	})
}
