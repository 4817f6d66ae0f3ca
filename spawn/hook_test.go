package spawn_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
	"github.com/offshoot-sdk/offshoot/spawn/spawntest"
)

// hookConfig is a Config whose sub-agents say something, and its journal.
func hookConfig() (spawn.Config, *spawntest.Recorder) {
	log := spawntest.NewRecorder(session.NewMemory().Journal)
	return spawn.Config{
		Store: &session.Store{Journal: log},
		Runner: runnerFunc(func(context.Context, *spawn.TurnInput) (spawn.TurnResult, error) {
			return sayText("done")
		}),
	}, log
}

// Spawning is asked once for a spawn: not for one whose Key is known, and not again after a Dry
// call that has asked.
func TestSpawningIsAskedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg, _ := hookConfig()
		asked := 0
		cfg.Spawning = func(context.Context, spawn.SpawningRun) error {
			if asked++; asked > 5 {
				return errors.New("it is asked without end")
			}
			return nil
		}
		cfg.ValidModel = func(string) bool { return true }
		s := openSupervisor(t, cfg)
		q := spawn.Request{Task: "x", Key: "k", ID: spawn.RunID(session.NewID())}
		q.Policy.Model = "a/b"
		q.Dry = true
		_, err := s.Spawn(t.Context(), topKey, topKey, q)
		require.NoError(t, err)
		require.Equal(t, 1, asked)
		q.Dry, q.Asked = false, true
		_, err = s.Spawn(t.Context(), topKey, topKey, q)
		require.NoError(t, err)
		q.Asked = false
		_, err = s.Spawn(t.Context(), topKey, topKey, q)
		require.NoError(t, err)
		require.Equal(t, 1, asked)
	})
}

// A Spawning that hangs refuses that spawn after HookTimeout. A shutdown does not wait for it in
// its soft phase.
func TestSpawningThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg, log := hookConfig()
		release := make(chan struct{})
		cfg.Spawning = func(context.Context, spawn.SpawningRun) error {
			<-release
			return nil
		}
		s := openSupervisor(t, cfg)
		began := time.Now()
		_, err := s.Spawn(t.Context(), topKey, topKey, spawn.Request{Task: "x"})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "Spawning did not answer in time")
		require.Equal(t, spawn.HookTimeout, time.Since(began))
		close(release)
		time.Sleep(time.Second)
		require.Zero(t, auditOf(t, log).Runs, "what it says too late counts for nothing")
	})
}

// Ended has HookTimeout for a call, whatever the DeliverTimeout is, and what it returns is never
// that it is busy: it is tried again like any other failure.
func TestEndedIsNotBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg, log := hookConfig()
		cfg.DeliverTimeout = time.Hour
		var attempts []int
		cfg.Ended = func(ctx context.Context, out spawn.Delivery) error {
			at, ok := ctx.Deadline()
			require.True(t, ok)
			require.Equal(t, spawn.HookTimeout, time.Until(at))
			require.Nil(t, out.Completion)
			require.Equal(t, topKey, out.Ended.Requester)
			if attempts = append(attempts, out.Attempt); len(attempts) < 3 {
				return errors.Join(spawn.ErrBusy)
			}
			return nil
		}
		s := openSupervisor(t, cfg)
		mustSpawn(t, s, spawn.Request{Task: "x"})
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		require.Equal(t, []int{1, 2, 3}, attempts)
		auditOf(t, log)
	})
}
