package spawn_test

import (
	"context"
	"reflect"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
	"github.com/offshoot-sdk/offshoot/spawn/spawntest"
)

// turnActs are the methods of a TurnInput, by name: nil for those without an error.
var turnActs = map[string]func(ctx context.Context, tn *spawn.TurnInput) error{
	"Err":  func(_ context.Context, tn *spawn.TurnInput) error { return tn.Err() },
	"Over": func(_ context.Context, tn *spawn.TurnInput) error { return tn.Over() },
	"Take": func(ctx context.Context, tn *spawn.TurnInput) error { _, err := tn.Take(ctx); return err },
	"Runs": func(ctx context.Context, tn *spawn.TurnInput) error { _, err := tn.Runs(ctx); return err },
	"Find": func(ctx context.Context, tn *spawn.TurnInput) error {
		_, err := tn.Find(ctx, refOf(topKey))
		return err
	},
	"Spawn": func(ctx context.Context, tn *spawn.TurnInput) error {
		_, err := tn.Spawn(ctx, spawn.Request{Task: "x"})
		return err
	},
	"Steer": func(ctx context.Context, tn *spawn.TurnInput) error {
		return tn.Steer(ctx, refOf(topKey), spawn.Incoming{Text: "x"})
	},
	"Send": func(ctx context.Context, tn *spawn.TurnInput) error {
		return errorOf(tn.Send(ctx, topKey, spawn.Incoming{Text: "x"}, spawn.SendOptions{}))
	},
	"SendAndWait": func(ctx context.Context, tn *spawn.TurnInput) error {
		_, _, err := tn.SendAndWait(ctx, topKey, spawn.Incoming{Text: "x"}, spawn.SendOptions{})
		return err
	},
	"SendOut": func(ctx context.Context, tn *spawn.TurnInput) error {
		_, _, err := tn.SendOut(ctx, otherTree, spawn.Incoming{Text: "x"}, time.Second)
		return err
	},
	"Stop": func(ctx context.Context, tn *spawn.TurnInput) error {
		return tn.Stop(ctx, refOf(topKey), "x")
	},
	"Wait": func(ctx context.Context, tn *spawn.TurnInput) error {
		_, err := tn.Wait(ctx, nil, spawn.JoinOptions{})
		return err
	},
	"Spend": func(ctx context.Context, tn *spawn.TurnInput) error {
		return tn.Spend(ctx, session.Usage{Input: 1})
	},
	"SpendOn": func(ctx context.Context, tn *spawn.TurnInput) error {
		return tn.SpendOn(ctx, "p/x", session.Usage{Input: 1})
	},
	"Within": func(ctx context.Context, tn *spawn.TurnInput) error {
		ctx, done := tn.Within(ctx)
		defer done()
		<-ctx.Done()
		return context.Cause(ctx)
	},
	"YieldByModel": func(ctx context.Context, tn *spawn.TurnInput) error {
		_, err := tn.YieldByModel(ctx, spawn.JoinOptions{Within: time.Second})
		return err
	},
	"KeepSkills": func(_ context.Context, tn *spawn.TurnInput) error {
		return tn.KeepSkills(spawn.SkillSet{})
	},
	"SetState": func(ctx context.Context, tn *spawn.TurnInput) error {
		return tn.SetState(ctx, []byte("x"))
	},
	"Say": func(ctx context.Context, tn *spawn.TurnInput) error {
		return tn.Say(ctx, spawn.Saying{Text: "x"})
	},
	"Report": func(ctx context.Context, tn *spawn.TurnInput) error {
		return tn.Report(ctx, spawn.Progress{Text: "x", Milestone: true})
	},
	"Deposit": func(ctx context.Context, tn *spawn.TurnInput) error {
		return tn.Deposit(ctx, spawn.Request{Task: "x"}, func(spawn.Deposit) error { return nil })
	},
	"BeginAnswer": nil, "ShowDelta": nil, "ShowTool": nil, "Watched": nil,
	"Limited": func(_ context.Context, tn *spawn.TurnInput) error {
		return tn.Limited("p/x", time.Second)
	},
	"AwaitProvider": func(ctx context.Context, tn *spawn.TurnInput) error {
		return tn.AwaitProvider(ctx, "p/x")
	},
	"Reserve": func(ctx context.Context, tn *spawn.TurnInput) error {
		done, err := tn.Reserve(ctx, session.Usage{Input: 1})
		done()
		return err
	},
	"Hear": func(ctx context.Context, tn *spawn.TurnInput) error {
		return tn.Hear(ctx, policy.Sender{ID: "late"})
	},
	"MayAct":   nil, // without Owners it has none; TestFormerOwnerDoesNothing of agenttest has them
	"Budgeted": nil, "Leave": nil, "CancelledAt": nil,
	"Yield": nil, "Delta": nil, "Spent": nil, "SpentBy": nil, "ExitWith": nil, "InStore": nil,
	"Reached": nil, "Rights": nil, "RemovedAbove": nil, "Senders": nil, "Withheld": nil,
}

// A turn tells since when it is cancelled, and the first time is the one that counts.
func TestCancelledAt(t *testing.T) {
	inBubble(t, spawn.Config{}, func(t *testing.T, s *spawn.Supervisor, r *spawntest.Runner) {
		begun, release := make(chan *spawn.TurnInput), make(chan struct{})
		r.On("", spawntest.Play{spawntest.Do(func(_ context.Context, tn *spawn.TurnInput) error {
			begun <- tn
			<-release
			return nil
		})})
		require.NoError(t, errorOf(s.Post(t.Context(), topKey, topKey, spawn.Incoming{Text: "x"})))
		tn := <-begun
		require.Zero(t, tn.CancelledAt())
		time.Sleep(time.Second)
		at := time.Now()
		require.NoError(t, s.CancelTurn(t.Context(), topKey, topKey))
		synctest.Wait()
		require.Equal(t, at, tn.CancelledAt())
		time.Sleep(time.Second)
		close(release)
		synctest.Wait()
		require.Equal(t, at, tn.CancelledAt())
	})
}

// R5: a turn that is over cannot act for its session any more, in whatever goroutine. Every method
// of a TurnInput is in the table.
func TestTurnThatIsOver(t *testing.T) {
	for m := range reflect.TypeFor[*spawn.TurnInput]().Methods() {
		require.Contains(t, turnActs, m.Name)
	}
	for _, how := range []string{"returned", "stopped", "given up", "shut down"} {
		inBubble(t, spawn.Config{}, func(t *testing.T, s *spawn.Supervisor, r *spawntest.Runner) {
			var old *spawn.TurnInput
			keep := spawntest.Do(
				func(_ context.Context, tn *spawn.TurnInput) error { old = tn; return nil })
			release := make(chan struct{})
			defer close(release)
			play := map[string]spawntest.Play{
				"returned": {keep}, "stopped": {keep, spawntest.Block(nil)},
				"given up":  {keep, spawntest.Ignore(release)},
				"shut down": {keep, spawntest.Block(nil)},
			}
			r.On("", play[how])
			require.NoError(
				t, errorOf(s.Post(t.Context(), topKey, topKey, spawn.Incoming{Text: "x"})),
			)
			synctest.Wait()
			switch how {
			case "stopped", "given up":
				_ = s.Stop(t.Context(), topKey, topKey, "enough")
			case "shut down":
				now, cancel := context.WithCancel(t.Context())
				cancel()
				require.NoError(t, s.Shutdown(now))
			}
			old.Delta("late")
			old.Yield(spawn.JoinOptions{})
			for name, act := range turnActs {
				if act != nil {
					require.ErrorIs(t, act(t.Context(), old), spawn.ErrStale, "%s, %s", how, name)
				}
			}
			require.Zero(t, old.Spent(), "nothing was spent in time")
		})
	}
}

// Goroutines that outlive their turn act while their session is reset. They are refused, and under
// -race they read nothing that the reset writes.
func TestTurnThatIsOverMeetsAReset(t *testing.T) {
	inBubble(t, spawn.Config{}, func(t *testing.T, s *spawn.Supervisor, r *spawntest.Runner) {
		var old *spawn.TurnInput
		r.On("", spawntest.Play{spawntest.Do(
			func(_ context.Context, tn *spawn.TurnInput) error { old = tn; return nil })})
		require.NoError(t, errorOf(s.Post(t.Context(), topKey, topKey, spawn.Incoming{Text: "x"})))
		synctest.Wait()
		errs := map[string]error{}
		var mu sync.Mutex
		var acting sync.WaitGroup
		for name, act := range turnActs {
			if act == nil {
				continue
			}
			acting.Go(func() {
				err := act(t.Context(), old)
				mu.Lock()
				defer mu.Unlock()
				errs[name] = err
			})
		}
		require.NoError(t, s.Reset(t.Context(), topKey, topKey))
		acting.Wait()
		for name, err := range errs {
			require.ErrorIs(t, err, spawn.ErrStale, name)
		}
	})
}

// Two processes share a store. The one that lost the tree changes nothing, and everything is told
// once.
func TestZombie(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := spawntest.NewRecorder(session.NewMemory().Journal)
		store := &session.Store{Journal: log}
		release := make(chan struct{})
		r := (&spawntest.Runner{}).On(
			"slow", spawntest.Play{spawntest.Block(release), spawntest.Say("from the dead")},
		)
		zombie := openSupervisor(t, spawn.Config{Store: store, Runner: r})
		key := mustSpawn(t, zombie, spawn.Request{Task: "slow", Announce: true})
		synctest.Wait()
		s := openSupervisor(t, spawn.Config{Store: store, Runner: &spawntest.Runner{}})
		synctest.Wait()
		require.Equal(t, spawn.StatusInterrupted, mustFind(t, s, key).Status)
		close(release)
		time.Sleep(30 * time.Second)
		require.Equal(t, spawn.StatusInterrupted, mustFind(t, s, key).Status)
		report, err := spawntest.Inspect(log.History(topKey))
		require.NoError(t, err)
		require.Equal(t, 1, report.Consumed)
		require.EqualValues(t, 2, report.Epoch)
		require.NoError(t, report.AtRest())
	})
}

// A turn whose tree another owner has taken is told so. The text of ErrUnconfirmed is for the
// sender of a command.
func TestCauseOfATurnWhoseTreeIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := session.NewMemory()
		var cause error
		first := openSupervisor(t, spawn.Config{Store: store, Runner: runnerFunc(
			func(ctx context.Context, _ *spawn.TurnInput) (spawn.TurnResult, error) {
				<-ctx.Done()
				cause = context.Cause(ctx)
				return spawn.TurnResult{}, cause
			})})
		key := mustSpawn(t, first, spawn.Request{Task: "slow"})
		synctest.Wait()
		openSupervisor(t, spawn.Config{Store: store, Runner: &spawntest.Runner{}})
		synctest.Wait()
		_ = first.CancelTurn(t.Context(), topKey, key) // the first one notices at its next append
		synctest.Wait()
		require.ErrorIs(t, cause, spawn.ErrUnconfirmed)
		require.ErrorContains(t, cause, "the tree was lost")
		require.NotContains(t, cause.Error(), "send it again")
	})
}
