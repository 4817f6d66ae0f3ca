package spawn_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/spawn"
	"github.com/offshoot-sdk/offshoot/spawn/spawntest"
)

// A wait within a turn that ends by its own context does not go on without a slot.
func TestWaitWithinATurnKeepsTheLane(t *testing.T) {
	cfg := spawn.Config{
		Rules: policy.Rules{Subagents: policy.Subagents{MaxConcurrent: 1, MaxSpawnDepth: 2}},
	}
	inBubble(t, cfg, func(t *testing.T, s *spawn.Supervisor, r *spawntest.Runner) {
		var mu sync.Mutex
		working, most := 0, 0
		work := func(by int) {
			mu.Lock()
			defer mu.Unlock()
			working += by
			most = max(most, working)
		}
		r.On("child", spawntest.Play{spawntest.Do(func(context.Context, *spawn.TurnInput) error {
			work(1)
			defer work(-1)
			time.Sleep(time.Minute)
			return nil
		})})
		r.On(
			"parent",
			spawntest.Play{spawntest.Do(func(ctx context.Context, tn *spawn.TurnInput) error {
				work(1)
				defer work(-1)
				child, err := tn.Spawn(ctx, spawn.Request{Task: "child"})
				if err != nil {
					return err
				}
				var waits sync.WaitGroup
				work(-1)
				for i := range 3 { // several at once too
					waits.Go(func() {
						short, cancel := context.WithTimeout(ctx, time.Duration(i+1)*time.Second)
						defer cancel()
						_, _ = tn.Wait(short, refsOf(child.Key), spawn.JoinOptions{})
					})
				}
				waits.Wait()
				work(1)
				return nil
			})},
		)
		mustSpawn(t, s, spawn.Request{Task: "parent"})
		time.Sleep(time.Hour)
		mu.Lock()
		defer mu.Unlock()
		require.Equal(t, 1, most)
		require.Zero(t, s.SlotsUsed())
	})
}

// Five levels that wait for each other pass through a lane of one slot.
func TestLaneOfOneWithFiveLevels(t *testing.T) {
	cfg := spawn.Config{
		Rules: policy.Rules{Subagents: policy.Subagents{MaxConcurrent: 1, MaxSpawnDepth: 5}},
	}
	for name, wait := range map[string]func(q spawn.Request) spawntest.Play{
		"within the turn": func(q spawn.Request) spawntest.Play {
			return spawntest.Play{spawntest.Await(spawn.JoinOptions{}, q, q), spawntest.Say("ok")}
		},
		"between turns": func(q spawn.Request) spawntest.Play {
			return spawntest.Play{spawntest.Spawn(q, q), spawntest.Yield(spawn.JoinOptions{})}
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, cfg, func(t *testing.T, s *spawn.Supervisor, r *spawntest.Runner) {
				for level := 1; level < 5; level++ {
					q := spawn.Request{Task: fmt.Sprint(level + 1), Announce: true}
					r.On(fmt.Sprint(level), wait(q), spawntest.Play{spawntest.Say("ok")})
				}
				key := mustSpawn(t, s, spawn.Request{Task: "1"})
				infos, err := s.Wait(forADay(t), topKey, refsOf(key), spawn.JoinOptions{})
				require.NoError(t, err)
				require.Equal(t, spawn.StatusOK, infos[0].Status)
				all, err := s.Runs(t.Context(), topKey, topKey, true)
				require.NoError(t, err)
				require.Len(t, all, 31)
			})
		})
	}
}

// A run that was archived while its place in the lane was still there does not keep the slot that
// it is granted.
func TestSlotOfWhatHasLeft(t *testing.T) {
	cfg := spawn.Config{
		Rules: policy.Rules{
			Subagents: policy.Subagents{MaxConcurrent: 1, ArchiveAfter: time.Minute},
		},
	}
	inBubble(t, cfg, func(t *testing.T, s *spawn.Supervisor, r *spawntest.Runner) {
		release := make(chan struct{})
		r.On("first", spawntest.Play{spawntest.Block(release)})
		first := mustSpawn(t, s, spawn.Request{Task: "first"})
		queued := mustSpawn(t, s, spawn.Request{Task: "queued"})
		require.NoError(t, s.Stop(t.Context(), topKey, queued, "no"))
		time.Sleep(2 * time.Minute)
		_, err := s.Find(t.Context(), topKey, refOf(queued))
		require.ErrorIs(t, err, spawn.ErrNotFound)
		close(release)
		last := mustSpawn(t, s, spawn.Request{Task: "last"})
		infos, err := s.Wait(
			t.Context(), topKey, refsOf(first, last), spawn.JoinOptions{Within: time.Minute},
		)
		require.NoError(t, err)
		require.Equal(t, spawn.StatusOK, infos[1].Status)
		require.Zero(t, s.SlotsUsed())
	})
}

// Two turns of a session never overlap, also if the first was given up and the second cancelled.
func TestTurnsOfASessionNeverOverlap(t *testing.T) {
	inBubble(t, spawn.Config{}, func(t *testing.T, s *spawn.Supervisor, r *spawntest.Runner) {
		release := make(chan struct{})
		r.On(
			topKey.String(), spawntest.Play{spawntest.Ignore(release)},
			spawntest.Play{spawntest.Say("ok")},
		)
		post := func(text string) {
			require.NoError(
				t, errorOf(s.Post(t.Context(), topKey, topKey, spawn.Incoming{Text: text})),
			)
		}
		post("1")
		synctest.Wait()
		require.NoError(t, s.CancelTurn(t.Context(), topKey, topKey))
		time.Sleep(spawn.DefaultGrace + time.Second) // it is given up
		post("2")
		synctest.Wait()
		// The second turn waits for the first.
		require.NoError(t, s.CancelTurn(t.Context(), topKey, topKey))
		synctest.Wait()
		post("3")
		time.Sleep(time.Minute)
		require.Len(t, r.Calls(), 1, "the first turn is still running")
		close(release)
		time.Sleep(time.Minute)
		calls := r.Calls()
		require.Len(t, calls, 2)
		require.False(t, calls[1].Started.Before(calls[0].Ended))
		require.Equal(t, "3", calls[1].Inputs[0].Text)
	})
}
