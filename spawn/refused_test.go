package spawn_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
	"github.com/offshoot-sdk/offshoot/spawn/spawntest"
)

// An orchestrator of its own refuses answers: the session answers again, at most twice, over an
// input that says why. Then the run has failed with the text, and a wait counts it as failed.
func TestRefusedAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := spawntest.NewRecorder(session.NewMemory().Journal)
		var inputs []spawn.Input
		cfg := spawn.Config{
			Store: &session.Store{Journal: log},
			Runner: runnerFunc(func(
				ctx context.Context, tn *spawn.TurnInput,
			) (out spawn.TurnResult, err error) {
				inputs = append(inputs, tn.Inputs...)
				answers := strings.Split(tn.Run.Task, ",")
				out.Result.Text = answers[min(tn.N, len(answers))-1]
				if out.Result.Text != "good" {
					out.Refused = "it is " + out.Result.Text + ", and key=sk-abcdefghijklmnopqrstuvwx"
				}
				if out.Result.Text == "broken" {
					err = errors.New("no model")
				}
				return out, err
			}),
		}
		s := openSupervisor(t, cfg)
		for _, c := range []struct {
			task   string
			status spawn.Status
			text   string
			turns  int
		}{
			{"good", spawn.StatusOK, "good", 1},
			{"bad,good", spawn.StatusOK, "good", 2},
			{"bad,worse,good", spawn.StatusOK, "good", 3},
			{"bad,worse,worst,good", spawn.StatusFailed, "worst", 3},
			{"broken", spawn.StatusFailed, "broken", 1},
			{"bad,broken", spawn.StatusFailed, "broken", 2},
		} {
			inputs = nil
			key := mustSpawn(t, s, spawn.Request{Task: c.task})
			infos, err := s.Wait(t.Context(), topKey, []spawn.RunRef{{Session: key}},
				spawn.JoinOptions{AtLeast: 1})
			require.NoError(t, err, c.task)
			info := infos[0]
			require.Equal(t, c.status, info.Status, c.task)
			require.Equal(t, c.text, info.Result.Text, c.task)
			require.Equal(t, c.turns, info.Turns, c.task)
			refused := slices.DeleteFunc(inputs, func(in spawn.Input) bool { return !in.Repair })
			require.Len(t, refused, c.turns-1, c.task)
			for _, in := range refused {
				require.Equal(t, spawn.InputSteer, in.Class)
				require.Contains(t, in.Text, "it is ")
				require.NotContains(t, in.Text, "abcdefghijkl")
				require.Zero(t, in.From)
			}
			failed := c.text == "worst"
			require.Equal(t, failed, info.Refused != "", c.task)
			require.Equal(t, failed, strings.HasPrefix(info.Error, "its answer was refused"), c.task)
		}
		time.Sleep(time.Second)
		auditOf(t, log)
	})
}

// A top-level session has no end: what it says is not refused.
func TestTopLevelSessionsAreNotRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := spawntest.NewRecorder(session.NewMemory().Journal)
		s := openSupervisor(t, spawn.Config{
			Store: &session.Store{Journal: log},
			Runner: runnerFunc(func(
				context.Context, *spawn.TurnInput,
			) (out spawn.TurnResult, err error) {
				out.Result.Text, out.Refused = "x", "bad"
				return out, nil
			}),
		})
		_, err := s.Post(t.Context(), topKey, topKey, spawn.Incoming{Text: "hi"})
		require.NoError(t, err)
		time.Sleep(time.Minute)
		require.Equal(t, 1, auditOf(t, log).Turns)
	})
}
