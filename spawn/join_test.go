package spawn_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
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

// 2.7: with RestAnnounce a run is returned as ended or announced later, never both and never
// neither, also if it ends in the very instant in which the wait is over.
func TestRestOfTheSameInstant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const children = 20
		told := make(chan session.Key, 10*children)
		cfg := spawn.Config{
			CallerRun: true,
			Deliver: func(_ context.Context, d spawn.Delivery) error {
				told <- d.Completion.Run.Key
				return nil
			},
			Runner: runnerFunc(
				func(context.Context, *spawn.TurnInput) (spawn.TurnResult, error) {
					time.Sleep(time.Second)
					return sayText("on time")
				}),
			Rules: policy.Rules{
				Subagents: policy.Subagents{MaxChildren: children, MaxConcurrent: children},
			},
		}
		log := spawntest.NewRecorder(session.NewMemory().Journal)
		cfg.Store = &session.Store{Journal: log}
		s := openSupervisor(t, cfg)
		ended, announced := 0, 0
		for range 10 {
			var keys []session.Key
			for range children {
				keys = append(keys, mustSpawn(t, s, spawn.Request{Task: "x"}))
			}
			infos, err := s.Wait(t.Context(), topKey, refsOf(keys...),
				spawn.JoinOptions{Within: time.Second, Rest: spawn.RestAnnounce})
			require.NoError(t, err)
			time.Sleep(time.Minute)
			late := make(map[session.Key]bool)
			for len(told) > 0 {
				late[<-told] = true
			}
			for i, info := range infos {
				require.Equal(t, keys[i], info.Key)
				require.Equal(t, !info.Status.Terminal(), late[info.Key], "%v", info.Status)
				require.Equal(t, info.Status.Terminal(), info.Result.Text != "")
			}
			ended, announced = ended+children-len(late), announced+len(late)
		}
		require.NoError(t, spawntest.Audit(log.History(topKey)))
		t.Logf("%d were seen to have ended, %d were announced", ended, announced)
	})
}

// 2.7: what Rest says holds for a wait that is over, and not for one that is given up. It is the
// requester of a run that is told, whichever session waits.
func TestRestOfAWait(t *testing.T) {
	for _, c := range []struct {
		rest spawn.Rest
		want spawn.Status // of what is left
		told bool
	}{
		{spawn.RestKeep, spawn.StatusRunning, false},
		{spawn.RestStop, spawn.StatusCancelled, false},
		{spawn.RestAnnounce, spawn.StatusRunning, true},
	} {
		for _, givenUp := range []bool{false, true} {
			t.Run(fmt.Sprint(c.rest, ", given up: ", givenUp), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					waitWithRest(t, c.rest, c.want, c.told, givenUp)
				})
			})
		}
	}
}

func waitWithRest(t *testing.T, rest spawn.Rest, want spawn.Status, told, givenUp bool) {
	w := newClockWorld(t)
	w.runner.On("boss", spawntest.Play{
		spawntest.Spawn(spawn.Request{Task: "quick"}, spawn.Request{Task: "slow"}),
		spawntest.Delay(5 * time.Hour),
	}, spawntest.Play{spawntest.Say("heard of it")})
	w.runner.On("quick", spawntest.Play{spawntest.Delay(time.Second), spawntest.Say("quick")})
	w.runner.On("slow", spawntest.Play{spawntest.Delay(time.Hour), spawntest.Say("slow")})
	w.cfg.Rules.Subagents.MaxConcurrent = 3
	s, _ := w.process(new(clock))
	boss := mustSpawn(t, s, spawn.Request{Task: "boss"})
	synctest.Wait()
	below, err := s.Runs(t.Context(), topKey, boss, false)
	require.NoError(t, err)
	keys := []session.Key{below[0].Key, below[1].Key}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	opt := spawn.JoinOptions{AtLeast: 1, Rest: rest}
	if givenUp {
		opt.AtLeast = 2
	}
	infos, err := s.Wait(ctx, topKey, refsOf(keys...), opt)
	require.Equal(t, spawn.StatusOK, infos[0].Status)
	if givenUp {
		require.ErrorIs(t, err, context.DeadlineExceeded)
		want, told = spawn.StatusRunning, false
	} else {
		require.NoError(t, err)
	}
	require.Equal(t, want, infos[1].Status)
	time.Sleep(5*time.Hour + time.Minute)
	turns := 1
	if told {
		turns = 2
	}
	require.Equal(t, turns, mustFind(t, s, boss).Turns)
}

// A Rest that is none is refused where an error can be returned, and RestKeep where it cannot.
func TestRestThatIsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newClockWorld(t)
		opt := spawn.JoinOptions{Within: time.Minute, Rest: 99}
		w.runner.On(topKey.String(),
			spawntest.Play{spawntest.Spawn(spawn.Request{Task: "slow"}), spawntest.Yield(opt)},
			spawntest.Play{spawntest.Reply("over")})
		w.runner.On("slow", spawntest.Play{spawntest.Delay(time.Hour)})
		s, _ := w.process(new(clock))
		w.post(s, "1")
		w.answered("over", 2*time.Minute)
		_, err := s.Wait(t.Context(), topKey, nil, opt)
		input, ok := errors.AsType[*spawn.InputError](err)
		require.True(t, ok, "%v", err)
		require.Equal(t, "Rest", input.Field)
	})
}
