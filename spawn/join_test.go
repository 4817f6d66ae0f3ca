package spawn_test

import (
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/spawn"
	"github.com/offshoot-sdk/offshoot/spawn/spawntest"
)

// 2.7: a wait for all children is one for those that are alive when it begins. Those that are
// spawned later neither end it nor prolong it, over a restart too.
func TestJoinFixesItsMembers(t *testing.T) {
	for name, opt := range map[string]spawn.JoinOptions{
		"all": {}, "two that end well": {AtLeast: 2}, "some time": {Within: 24 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newClockWorld(t)
				w.cfg.Rules.Subagents.MaxConcurrent = 8
				for task, d := range map[string]time.Duration{
					"first": time.Hour, "second": 2 * time.Hour, "quick": 0, "long": 12 * time.Hour,
				} {
					w.runner.On(task, spawntest.Play{spawntest.Delay(d)})
				}
				w.runner.On(
					topKey.String(),
					spawntest.Play{
						spawntest.Spawn(spawn.Request{Task: "first"}, spawn.Request{Task: "second"}),
						spawntest.Yield(opt),
					},
					spawntest.Play{spawntest.Reply("over")},
				)
				s, _ := w.process(new(clock))
				w.post(s, "1")
				synctest.Wait()
				for range 3 {
					mustSpawn(t, s, spawn.Request{Task: "quick"})
					synctest.Wait()
				}
				mustSpawn(t, s, spawn.Request{Task: "long"})
				time.Sleep(2*time.Hour - time.Second)
				require.Equal(t, 1, w.turns(), "both that it waits for were alive till now")
				w.answered("over", 2*time.Second)
			})
		})
	}
}

// A negative AtLeast is refused, and counted as zero where no error can be returned. A Within that
// has passed is over at once.
func TestJoinOptionsBelowZero(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := runUntil(forADay(t), t, spawn.Config{Runner: runnerFunc(workOn)})
		run := mustSpawn(t, s, spawn.Request{Task: "work"})
		for _, n := range []int{-1, math.MinInt} {
			_, err := s.Wait(t.Context(), topKey, refsOf(run), spawn.JoinOptions{AtLeast: n})
			input, ok := errors.AsType[*spawn.InputError](err)
			require.True(t, ok, "%v", err)
			require.Equal(t, "AtLeast", input.Field)
		}
		began := time.Now()
		for _, d := range []time.Duration{-1, math.MinInt64} {
			infos, err := s.Wait(t.Context(), topKey, refsOf(run),
				spawn.JoinOptions{Within: d, AtLeast: math.MaxInt})
			require.NoError(t, err)
			require.False(t, infos[0].Status.Terminal())
		}
		require.Equal(t, began, time.Now())
	})
}
