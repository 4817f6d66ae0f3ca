package spawn_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
)

// The goroutine of an owner does the turn that it has started last, and that of a turn or a
// delivery decides what follows from its end. None of them may wait for the other where it takes
// its time: these tests have each part hang in its turn, and require that the rest has happened.

// holdingJournal holds the appends back for which hold says so, until it is opened.
type holdingJournal struct {
	session.Journal

	hold func(b session.Batch) bool
	held atomic.Int64
	open chan struct{}
}

func newHoldingJournal(hold func(b session.Batch) bool) *holdingJournal {
	return &holdingJournal{
		Journal: session.NewMemory().Journal, hold: hold, open: make(chan struct{}),
	}
}

func (j *holdingJournal) Append(
	ctx context.Context, root session.Key, after session.Seq, b session.Batch,
) (session.Seq, error) {
	if j.hold(b) {
		j.held.Add(1)
		<-j.open
	}
	return j.Journal.Append(ctx, root, after, b)
}

// says reports whether a batch has a fact of a kind.
func says(b session.Batch, kind tree.Kind) bool {
	for _, e := range b.Entries {
		if f, err := tree.FactOf(e.Payload); err == nil && f.Kind == kind {
			return true
		}
	}
	return false
}

// What has arrived is noted although the receiver takes its time over the next delivery.
func TestArrivalIsNotedWhileTheNextDeliveryHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		first, second := make(chan struct{}), make(chan struct{})
		s, ran := runUntil(forADay(t), t, spawn.Config{
			Runner: instantRunner, CallerRun: true,
			Deliver: func(context.Context, spawn.Delivery) error {
				if calls.Add(1) == 1 {
					<-first
				} else {
					<-second
				}
				return nil
			},
		})
		for range 2 {
			mustSpawn(t, s, spawn.Request{Task: "work", Announce: true})
		}
		synctest.Wait()
		require.EqualValues(t, 1, calls.Load())
		close(first)
		synctest.Wait()
		require.EqualValues(t, 2, calls.Load(), "the second call is under way")
		left, err := s.Outbox(t.Context(), topKey)
		require.NoError(t, err)
		require.Len(t, left, 1, "the first is noted")
		close(second)
		require.NoError(t, s.Shutdown(t.Context()))
		require.NoError(t, <-ran)
	})
}

// begunTurns counts the turns of which the Runner was told, each of which takes a minute.
func begunTurns(begun *atomic.Int64) spawn.Runner {
	return runnerFunc(func(ctx context.Context, _ *spawn.TurnInput) (spawn.TurnResult, error) {
		begun.Add(1)
		select {
		case <-time.After(time.Minute):
		case <-ctx.Done():
		}
		return sayText("done")
	})
}

// A turn begins although the journal hangs over what its owner decides next.
func TestTurnBeginsWhileTheNextAppendHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var begun, started atomic.Int64
		var s *spawn.Supervisor
		var asking sync.WaitGroup
		j := newHoldingJournal(nil)
		j.hold = func(b session.Batch) bool {
			switch {
			case says(b, tree.TurnStarted) && started.Add(1) == 2:
				asking.Go(func() { _ = s.Stop(context.Background(), topKey, topKey, "enough") })
				time.Sleep(time.Millisecond) // the call is in the queue of the owner
			case says(b, tree.StopRequested):
				return true
			}
			return false
		}
		s, ran := runUntil(forADay(t), t, spawn.Config{
			Store: &session.Store{Journal: j}, Runner: begunTurns(&begun),
			Rules: policy.Rules{Subagents: policy.Subagents{MaxConcurrent: 1}},
		})
		for range 2 {
			mustSpawn(t, s, spawn.Request{Task: "work"})
		}
		time.Sleep(time.Minute + time.Second) // the first has ended, and the second has its slot
		synctest.Wait()
		require.EqualValues(t, 1, j.held.Load())
		require.EqualValues(t, 2, begun.Load(), "the second turn waits for the journal")
		close(j.open)
		asking.Wait()
		require.NoError(t, s.Shutdown(t.Context()))
		require.NoError(t, <-ran)
	})
}

// A turn begins although the journal hangs over the snapshot that follows its start.
func TestTurnBeginsWhileACompactionHangs(t *testing.T) {
	for more := range 4 { // so that a snapshot follows each of the batches of a turn
		t.Run(fmt.Sprint(more), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var begun, started atomic.Int64
				j := newHoldingJournal(func(b session.Batch) bool {
					if says(b, tree.TurnStarted) {
						started.Add(1)
					}
					return b.Reset
				})
				s, ran := runUntil(forADay(t), t, spawn.Config{
					Store: &session.Store{Journal: j}, Runner: begunTurns(&begun),
					Rules: policy.Rules{Subagents: policy.Subagents{
						MaxConcurrent: 1, MaxChildren: policy.MaxChildren,
					}},
				})
				spawn.LiftLimits(s)
				for range 400 + more {
					mustSpawn(t, s, spawn.Request{Task: "work"})
				}
				for j.held.Load() == 0 {
					time.Sleep(time.Second)
				}
				synctest.Wait()
				require.Equal(t, started.Load(), begun.Load())
				close(j.open)
				require.NoError(t, s.Shutdown(t.Context()))
				require.NoError(t, <-ran)
			})
		})
	}
}

// A Runner or a receiver that ends its goroutine takes with it nothing of what was to follow.
func TestWhatFollowsTheEndOfAGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told atomic.Int64
		s, ran := runUntil(forADay(t), t, spawn.Config{
			Runner: runnerFunc(func(context.Context, *spawn.TurnInput) (spawn.TurnResult, error) {
				runtime.Goexit()
				return spawn.TurnResult{}, nil
			}),
			CallerRun: true,
			Deliver: func(context.Context, spawn.Delivery) error {
				if told.Add(1) == 1 {
					runtime.Goexit()
				}
				return nil
			},
		})
		run := mustSpawn(t, s, spawn.Request{Task: "work", Announce: true})
		time.Sleep(time.Hour)
		require.EqualValues(t, 2, told.Load())
		require.Equal(t, spawn.StatusFailed, mustFind(t, s, run).Status)
		left, err := s.Outbox(t.Context(), topKey)
		require.NoError(t, err)
		require.Empty(t, left)
		require.NoError(t, s.Shutdown(t.Context()))
		require.NoError(t, <-ran)
	})
}

// What a session has come to is told although Config.Rested takes its time.
func TestDeliveryBeginsWhileRestedHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told atomic.Int64
		s, ran := runUntil(forADay(t), t, spawn.Config{
			Runner: instantRunner, CallerRun: true,
			Deliver: func(context.Context, spawn.Delivery) error { told.Add(1); return nil },
			Rested:  func(session.Key, session.Key) { time.Sleep(time.Minute) },
		})
		mustSpawn(t, s, spawn.Request{Task: "work", Announce: true})
		time.Sleep(time.Second)
		require.EqualValues(t, 1, told.Load())
		time.Sleep(time.Hour)
		require.NoError(t, s.Shutdown(t.Context()))
		require.NoError(t, <-ran)
	})
}
