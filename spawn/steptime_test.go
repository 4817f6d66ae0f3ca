package spawn_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/spawn"
	"github.com/offshoot-sdk/offshoot/spawn/spawntest"
)

// A run that is to announce in a turn of its own is not done while a child of it is alive (5.5,
// 5.21): its time runs out as that of any other, and the child is stopped with it, of which its
// requester is not told (5.20).
func TestTimeOfAStepWithAChildAlive(t *testing.T) {
	cfg := spawn.Config{Rules: policy.Rules{Subagents: policy.Subagents{
		Announce: policy.AnnounceTurn, MaxSpawnDepth: 2,
	}}}
	inBubble(t, cfg, func(t *testing.T, s *spawn.Supervisor, r *spawntest.Runner) {
		r.On("parent", spawntest.Play{
			spawntest.Spawn(spawn.Request{Task: "child", Key: "k", Announce: true}),
			spawntest.Say("it goes on"),
		})
		r.On("child", spawntest.Play{spawntest.Delay(2 * time.Hour), spawntest.Say("late")})
		key := mustSpawn(t, s, spawn.Request{
			Task: "parent", Announce: true, Policy: policy.Request{Timeout: time.Minute},
		})
		time.Sleep(30 * time.Second)
		require.Equal(t, spawn.StatusWaiting, mustFind(t, s, key).Status)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		runs, err := s.Runs(t.Context(), topKey, topKey, true)
		require.NoError(t, err)
		require.Len(t, runs, 2)
		for _, run := range runs {
			if run.Key == key {
				require.Equal(t, spawn.StatusTimedOut, run.Status)
				continue
			}
			require.Equal(t, spawn.StatusCancelled, run.Status)
		}
	})
}
