package spawn_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
	"github.com/offshoot-sdk/offshoot/spawn/spawntest"
)

// untouchedRunner is a Runner that works for a minute, does what do says before, and is untouched
// when a shutdown cuts it.
func untouchedRunner(
	turns *atomic.Int32, do func(ctx context.Context, tn *spawn.TurnInput) error,
) spawn.Runner {
	return runnerFunc(func(
		ctx context.Context, tn *spawn.TurnInput,
	) (out spawn.TurnResult, err error) {
		turns.Add(1)
		if tn.Retry && tn.Session.Depth > 0 {
			return out, errors.New("a run does not repeat a turn")
		}
		if do != nil {
			if err := do(ctx, tn); err != nil {
				return out, err
			}
		}
		select {
		case <-time.After(time.Minute):
			return sayText("done")
		case <-ctx.Done():
			return out, fmt.Errorf("cut: %w: %w", spawn.ErrUntouched, context.Cause(ctx))
		}
	})
}

// cutShort ends a Supervisor at once, as the end of the ctx of Run does.
func cutShort(t *testing.T, s *spawn.Supervisor) {
	t.Helper()
	now, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, s.Shutdown(now))
}

// auditOf audits the journal of the tree of topKey.
func auditOf(t *testing.T, log *spawntest.Recorder) spawntest.Report {
	t.Helper()
	report, err := spawntest.Inspect(log.History(topKey))
	require.NoError(t, err)
	return report
}

// A3: a run that a shutdown cut before it did anything is queued again: the next process runs it to
// its end, under the time and the budget that it had, however often that happens.
func TestUntouchedRunIsQueuedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var turns atomic.Int32
		log := spawntest.NewRecorder(session.NewMemory().Journal)
		cfg := spawn.Config{
			Store: &session.Store{Journal: log}, Runner: untouchedRunner(&turns, nil),
			Rules: policy.Rules{Budget: policy.Budget{Tokens: 3000, Turns: 2}},
		}
		var key session.Key
		for i := range 3 {
			s, ran := runUntil(context.WithoutCancel(t.Context()), t, cfg)
			if i == 0 {
				key = mustSpawn(t, s, spawn.Request{
					Task: "work", Announce: true,
					Policy: policy.Request{
						Timeout: 90 * time.Second,
						Budget:  policy.Budget{Tokens: 1000, Turns: 1},
					},
				})
			}
			time.Sleep(45 * time.Second)
			require.Equal(t, spawn.StatusRunning, mustFind(t, s, key).Status)
			cutShort(t, s)
			require.NoError(t, <-ran)
			time.Sleep(time.Hour)
			auditOf(t, log)
		}
		s := openSupervisor(t, cfg)
		time.Sleep(2 * time.Minute)
		info := mustFind(t, s, key)
		require.Equal(t, spawn.StatusOK, info.Status, info.Error)
		require.Equal(t, "done", info.Result.Text)
		require.EqualValues(t, 5, turns.Load(), "four, and one over the end")
		auditOf(t, log)
	})
}

// A3: a run whose Runner was never called is queued again, whatever the Runner would have said: the
// turn before it has not returned, or no goroutine could be started for it.
func TestRunThatNeverBeganIsQueuedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := spawntest.NewRecorder(session.NewMemory().Journal)
		var calls atomic.Int32
		cfg := spawn.Config{
			Store: &session.Store{Journal: laggingJournal{log}}, Runner: runnerFunc(
				func(context.Context, *spawn.TurnInput) (spawn.TurnResult, error) {
					calls.Add(1)
					return sayText("done")
				},
			),
		}
		s, ran := runUntil(context.WithoutCancel(t.Context()), t, cfg)
		spawned := make(chan session.Key, 1)
		go func() {
			info, err := s.Spawn(t.Context(), topKey, topKey, spawn.Request{Task: "work"})
			if err != nil {
				t.Errorf("spawning: %v", err)
			}
			spawned <- info.Key
		}()
		// The start of the turn is durable after a second, in the middle of the shutdown.
		time.Sleep(time.Second / 2)
		cutShort(t, s)
		require.NoError(t, <-ran)
		key := <-spawned
		require.Equal(t, 1, auditOf(t, log).Turns)
		require.Zero(t, calls.Load())
		next := openSupervisor(t, cfg)
		time.Sleep(time.Minute)
		require.Equal(t, spawn.StatusOK, mustFind(t, next, key).Status)
		require.EqualValues(t, 1, calls.Load())
		require.Equal(t, 2, auditOf(t, log).Turns)
	})
}

// A3: so is a run whose turn waits for the one before it to return.
func TestTurnBehindAnotherIsQueuedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := spawntest.NewRecorder(session.NewMemory().Journal)
		var calls atomic.Int32
		cfg := spawn.Config{
			Store: &session.Store{Journal: log}, Grace: time.Minute, Runner: runnerFunc(
				func(ctx context.Context, tn *spawn.TurnInput) (spawn.TurnResult, error) {
					if calls.Add(1) == 1 {
						<-ctx.Done()
						time.Sleep(10 * time.Minute)
					}
					return sayText("done")
				},
			),
		}
		s, ran := runUntil(context.WithoutCancel(t.Context()), t, cfg)
		parent := mustSpawn(t, s, spawn.Request{Task: "work"})
		require.NoError(t, errorOf(s.Post(t.Context(), topKey, parent, spawn.Incoming{Text: "and this"})))
		synctest.Wait()
		require.NoError(t, s.CancelTurn(t.Context(), topKey, parent))
		time.Sleep(2 * time.Minute) // the turn is given up; the next one waits for its Runner
		require.Equal(t, spawn.StatusRunning, mustFind(t, s, parent).Status)
		now, cancel := context.WithCancel(t.Context())
		cancel()
		var still *spawn.StillRunningError
		require.ErrorAs(t, s.Shutdown(now), &still)
		require.NoError(t, <-ran)
		require.EqualValues(t, 1, calls.Load())
		next := openSupervisor(t, cfg)
		time.Sleep(10 * time.Minute)
		require.Equal(t, spawn.StatusOK, mustFind(t, next, parent).Status)
		require.EqualValues(t, 2, calls.Load())
		auditOf(t, log)
	})
}

// A turn that has done something is interrupted, whatever its Runner says, and without a shutdown
// ErrUntouched is an error like every other.
func TestClaimToBeUntouched(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(ctx context.Context, tn *spawn.TurnInput) error
		want spawn.Status
	}{
		"did nothing": {nil, spawn.StatusOK},
		"has spawned": {func(ctx context.Context, tn *spawn.TurnInput) error {
			if tn.Session.Depth > 1 {
				return nil
			}
			_, err := tn.Spawn(ctx, spawn.Request{Task: "more"})
			return err
		}, spawn.StatusInterrupted},
		"has reported": {func(ctx context.Context, tn *spawn.TurnInput) error {
			return tn.Report(ctx, spawn.Progress{Text: "half", Milestone: true})
		}, spawn.StatusInterrupted},
		"has told of progress": {func(ctx context.Context, tn *spawn.TurnInput) error {
			return tn.Report(ctx, spawn.Progress{Text: "half"})
		}, spawn.StatusOK},
		"has spent": {func(ctx context.Context, tn *spawn.TurnInput) error {
			return tn.Spend(ctx, session.Usage{Input: 1})
		}, spawn.StatusInterrupted},
		"without a shutdown": {func(context.Context, *spawn.TurnInput) error {
			return spawn.ErrUntouched
		}, spawn.StatusFailed},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var turns atomic.Int32
				log := spawntest.NewRecorder(session.NewMemory().Journal)
				cfg := spawn.Config{
					Store: &session.Store{Journal: log}, Runner: untouchedRunner(&turns, c.do),
					Rules: policy.Rules{Subagents: policy.Subagents{MaxSpawnDepth: 2}},
				}
				s, ran := runUntil(context.WithoutCancel(t.Context()), t, cfg)
				key := mustSpawn(t, s, spawn.Request{Task: "work"})
				time.Sleep(time.Second)
				cutShort(t, s)
				require.NoError(t, <-ran)
				next := openSupervisor(t, cfg)
				time.Sleep(5 * time.Minute)
				require.Equal(t, c.want, mustFind(t, next, key).Status)
				auditOf(t, log)
			})
		})
	}
}

// A top-level session repeats its turn either way, as after a crash, and a process that dies before
// the end of an untouched turn is on record leaves an interrupted run.
func TestUntouchedAtTheTopAndInACrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := session.NewMemory()
		journal := spawntest.NewCrashJournal(memory.Journal)
		var turns atomic.Int32
		var retried atomic.Bool
		cfg := spawn.Config{Store: &session.Store{Journal: journal}, Runner: untouchedRunner(
			&turns, func(_ context.Context, tn *spawn.TurnInput) error {
				retried.Store(retried.Load() || tn.Retry)
				return nil
			},
		)}
		s, ran := runUntil(context.WithoutCancel(t.Context()), t, cfg)
		require.NoError(t, errorOf(s.Post(t.Context(), topKey, topKey, spawn.Incoming{Text: "hi"})))
		key := mustSpawn(t, s, spawn.Request{Task: "work"})
		synctest.Wait()
		journal.At(journal.Appends()+1, spawntest.FaultDieBefore)
		cutShort(t, s)
		require.NoError(t, <-ran)
		cfg.Store = memory
		next := openSupervisor(t, cfg)
		time.Sleep(5 * time.Minute)
		require.Equal(t, spawn.StatusInterrupted, mustFind(t, next, key).Status)
		require.True(t, retried.Load())
	})
}
