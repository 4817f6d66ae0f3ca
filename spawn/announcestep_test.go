package spawn_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
	"github.com/offshoot-sdk/offshoot/spawn/spawntest"
)

// TestAnnounceStep: an orchestrator of its own has runs announce in a turn. The words are beside
// the result, and a run whose step says nothing has none.
func TestAnnounceStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := spawntest.NewRecorder(session.NewMemory().Journal)
		told := make(map[string]spawn.Completion)
		cfg := spawn.Config{
			Store: &session.Store{Journal: log}, CallerRun: true, AnnounceTimeout: time.Minute,
			Rules: policy.Rules{Subagents: policy.Subagents{Announce: policy.AnnounceTurn}},
			Deliver: func(_ context.Context, d spawn.Delivery) error {
				told[d.Completion.Run.Task] = *d.Completion
				return nil
			},
			Runner: runnerFunc(func(
				ctx context.Context, tn *spawn.TurnInput,
			) (out spawn.TurnResult, err error) {
				if !tn.Announces {
					out.Result.Text = "answer"
					return out, nil
				}
				require.Empty(t, tn.Inputs)
				require.Equal(t, time.Minute, time.Until(tn.Deadline))
				_, err = tn.Spawn(ctx, spawn.Request{Task: "more"})
				require.ErrorIs(t, err, spawn.ErrAnnouncing)
				out.Result.Text = tn.Run.Task
				switch tn.Run.Task {
				case "fails":
					return out, errors.New("broken")
				case "hangs":
					<-ctx.Done()
					require.ErrorIs(t, context.Cause(ctx), spawn.ErrTimedOut)
				case "silent":
					out.Silent = true
				case "long":
					out.Result.Text = strings.Repeat("x", 1<<20)
				}
				return out, nil
			}),
		}
		s := openSupervisor(t, cfg)
		for _, task := range []string{"words", "fails", "hangs", "silent", "long"} {
			key := mustSpawn(t, s, spawn.Request{Task: task, Announce: true})
			infos, err := s.Wait(t.Context(), topKey, []spawn.RunRef{{Session: key}},
				spawn.JoinOptions{})
			require.NoError(t, err)
			require.Equal(t, spawn.StatusOK, infos[0].Status)
			require.Equal(t, "answer", infos[0].Result.Text)
		}
		synctest.Wait()
		require.Equal(t, "words", told["words"].Run.Announcement)
		require.Empty(t, told["fails"].Run.Announcement)
		require.Empty(t, told["hangs"].Run.Announcement)
		require.NotContains(t, told, "silent")
		require.Len(t, told["long"].Run.Announcement, 64<<10)
	})
}

// TestAnnounceStepIsTakenBack: what a step has said counts for the run as it was: once a message
// has come, and the run is stopped before it reads that, its result is announced.
func TestAnnounceStepIsTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := session.NewMemory()
		hold := make(chan struct{})
		s := openSupervisor(t, spawn.Config{
			Store: store,
			Rules: policy.Rules{Subagents: policy.Subagents{
				Announce: policy.AnnounceTurn, MaxConcurrent: 1,
			}},
			Runner: runnerFunc(func(
				ctx context.Context, tn *spawn.TurnInput,
			) (out spawn.TurnResult, err error) {
				out.Result.Text = "answer"
				switch {
				case tn.Announces:
					out.Result.Text = "words"
					time.Sleep(time.Minute)
				case tn.Run.Task == "other":
					<-hold
				}
				return out, nil
			}),
		})
		key := mustSpawn(t, s, spawn.Request{Task: "work", Announce: true})
		time.Sleep(time.Second)
		mustSpawn(t, s, spawn.Request{Task: "other"}) // has the slot after the step
		_, err := s.Post(t.Context(), topKey, key, spawn.Incoming{Text: "more"})
		require.NoError(t, err)
		time.Sleep(2 * time.Minute)
		info, err := s.Find(t.Context(), topKey, spawn.RunRef{Session: key})
		require.NoError(t, err)
		require.Equal(t, "words", info.Announcement)
		require.NoError(t, s.StopRun(t.Context(), topKey, spawn.RunRef{Session: key}, "enough"))
		info, err = s.Find(t.Context(), topKey, spawn.RunRef{Session: key})
		require.NoError(t, err)
		require.Equal(t, spawn.StatusCancelled, info.Status)
		require.Equal(t, "answer", info.Result.Text)
		require.Empty(t, info.Announcement)
		close(hold)
		time.Sleep(time.Minute)
	})
}
