package spawn_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"reflect"
	"runtime"
	"slices"
	"strings"
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

// inBubble runs a test in a synctest bubble with a Supervisor that plays a script.
func inBubble(
	t *testing.T, cfg spawn.Config, f func(t *testing.T, s *spawn.Supervisor, r *spawntest.Runner),
) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &spawntest.Runner{}
		cfg.Runner = r
		f(t, openSupervisor(t, cfg), r)
	})
}

func mustSpawn(t *testing.T, s *spawn.Supervisor, q spawn.Request) session.Key {
	t.Helper()
	info, err := s.Spawn(t.Context(), topKey, topKey, q)
	require.NoError(t, err)
	return info.Key
}

func mustFind(t *testing.T, s *spawn.Supervisor, k session.Key) spawn.RunInfo {
	t.Helper()
	info, err := s.Find(t.Context(), topKey, k)
	require.NoError(t, err)
	return info
}

func TestRunnerThatGoes(t *testing.T) {
	inBubble(t, spawn.Config{}, func(t *testing.T, s *spawn.Supervisor, r *spawntest.Runner) {
		r.On(
			"goexit",
			spawntest.Play{
				spawntest.Do(
					func(context.Context, *spawn.TurnInput) error { runtime.Goexit(); return nil },
				),
			},
		)
		r.On("panic", spawntest.Play{spawntest.Say("half"), spawntest.Panic("ouch")})
		r.On(
			"json",
			spawntest.Play{
				func(_ context.Context, _ *spawn.TurnInput, out *spawn.TurnResult) error {
					out.Result = spawn.Result{Text: "half", JSON: []byte("{")}
					return nil
				},
			},
		)
		for task, want := range map[string]string{"goexit": "ended its goroutine", "panic": "panic: ouch", "json": "1 byte that is not JSON"} {
			key := mustSpawn(t, s, spawn.Request{Task: task})
			synctest.Wait()
			info := mustFind(t, s, key)
			require.Equal(t, spawn.StatusFailed, info.Status, task)
			require.Contains(t, info.Error, want)
		}
	})
}

// R12: a Runner whose goroutine ends can say what the turn came to; the last word counts.
func TestRunnerThatGoesSaysWhatItLeaves(t *testing.T) {
	inBubble(t, spawn.Config{}, func(t *testing.T, s *spawn.Supervisor, r *spawntest.Runner) {
		r.On("exit", spawntest.Play{
			spawntest.Do(func(_ context.Context, tn *spawn.TurnInput) error {
				defer tn.ExitWith(spawn.TurnResult{Result: spawn.Result{Text: "half"}}, errors.New("why"))
				tn.ExitWith(spawn.TurnResult{}, nil)
				runtime.Goexit()
				return nil
			}),
		})
		r.On("return", spawntest.Play{
			spawntest.Do(func(_ context.Context, tn *spawn.TurnInput) error {
				tn.ExitWith(spawn.TurnResult{}, errors.New("why"))
				return nil
			}),
			spawntest.Say("whole"),
		})
		exited := mustSpawn(t, s, spawn.Request{Task: "exit"})
		returned := mustSpawn(t, s, spawn.Request{Task: "return"})
		synctest.Wait()
		info := mustFind(t, s, exited)
		require.Equal(t, spawn.StatusFailed, info.Status)
		require.Equal(t, "half", info.Result.Text)
		require.Equal(t, "why", info.Error)
		require.Equal(t, "whole", mustFind(t, s, returned).Result.Text)
	})
}

// S10: a caller that uses package spawn alone has the same limits.
func TestLimits(t *testing.T) {
	cfg := spawn.Config{Limits: spawn.Limits{Task: 3, Result: 100}}
	inBubble(t, cfg, func(t *testing.T, s *spawn.Supervisor, r *spawntest.Runner) {
		r.On("", spawntest.Play{spawntest.Say(strings.Repeat("x", 1000))})
		for field, q := range map[string]spawn.Request{
			"task":  {Task: "four"},
			"label": {Task: "x", Label: strings.Repeat("x", 201)},
			"key":   {Task: "x", Key: strings.Repeat("x", 4097)},
		} {
			_, err := s.Spawn(t.Context(), topKey, topKey, q)
			bad, ok := errors.AsType[*spawn.LimitError](err)
			require.True(t, ok, "%v", err)
			require.Equal(t, field, bad.Field)
		}
		message := spawn.Incoming{Text: strings.Repeat("x", 1_000_001)}
		err := s.Post(t.Context(), topKey, topKey, message)
		_, ok := errors.AsType[*spawn.LimitError](err)
		require.True(t, ok, "%v", err)
		key := mustSpawn(t, s, spawn.Request{Task: "one"})
		synctest.Wait()
		require.Len(t, mustFind(t, s, key).Result.Text, 100)
		require.Contains(t, mustFind(t, s, key).Result.Text, "[cut from 1000 bytes]")
	})
	bad := spawn.Config{
		Store: session.NewMemory(), Runner: &spawntest.Runner{}, Limits: spawn.Limits{ID: -2},
	}
	_, err := spawn.Open(t.Context(), bad)
	require.ErrorContains(t, err, "Limits.ID: -2")
}

// What a Runner says that it used cannot give a budget back, nor break the journal.
func TestRunnerThatMiscountsGivesNoBudgetBack(t *testing.T) {
	inBubble(t, spawn.Config{}, func(t *testing.T, s *spawn.Supervisor, r *spawntest.Runner) {
		r.On(
			"",
			spawntest.Play{
				func(ctx context.Context, tn *spawn.TurnInput, out *spawn.TurnResult) error {
					out.Result.Usage = session.Usage{
						Input:     -5,
						Output:    7,
						CacheRead: -9,
						Cost:      math.NaN(),
					}
					return tn.Spend(ctx, session.Usage{Input: -1 << 40, Cost: math.Inf(-1)})
				},
			},
		)
		key := mustSpawn(t, s, spawn.Request{Task: "x"})
		synctest.Wait()
		require.Equal(t, session.Usage{Output: 7}, mustFind(t, s, key).Result.Usage)
	})
}

// One model call that costs more than was reserved counts in full. The next one is refused.
func TestSpendBeyondTheReservation(t *testing.T) {
	inBubble(
		t,
		spawn.Config{Rules: policy.Rules{Budget: policy.Budget{Tokens: 1000}}},
		func(t *testing.T, s *spawn.Supervisor, r *spawntest.Runner) {
			calls := 0
			r.On(
				"",
				spawntest.Play{spawntest.Do(func(ctx context.Context, tn *spawn.TurnInput) error {
					for {
						calls++
						if err := tn.Spend(ctx, session.Usage{Input: 600}); err != nil {
							return err
						}
					}
				})},
			)
			key := mustSpawn(t, s, spawn.Request{Task: "x"})
			synctest.Wait()
			require.Equal(t, spawn.StatusIncomplete, mustFind(t, s, key).Status)
			require.Equal(t, 2, calls)
		},
	)
}

// The last turn that a budget of turns allows may spend as much as the other limits let it.
func TestLastTurnMaySpendUpToTheOtherLimits(t *testing.T) {
	inBubble(t, spawn.Config{}, func(t *testing.T, s *spawn.Supervisor, r *spawntest.Runner) {
		r.On("", spawntest.Play{
			spawntest.Spend(session.Usage{Input: 30_000}),
			spawntest.Spend(session.Usage{Input: 30_000}),
			spawntest.Say("done"),
		})
		key := mustSpawn(
			t, s, spawn.Request{Task: "x", Policy: policy.Request{Budget: policy.Budget{Turns: 1}}},
		)
		synctest.Wait()
		require.Equal(t, spawn.StatusOK, mustFind(t, s, key).Status)
	})
}

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
						_, _ = tn.Wait(short, []session.Key{child.Key}, spawn.JoinOptions{})
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
				infos, err := s.Wait(t.Context(), topKey, []session.Key{key}, spawn.JoinOptions{})
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
		_, err := s.Find(t.Context(), topKey, queued)
		require.ErrorIs(t, err, spawn.ErrNotFound)
		close(release)
		last := mustSpawn(t, s, spawn.Request{Task: "last"})
		infos, err := s.Wait(
			t.Context(), topKey, []session.Key{first, last}, spawn.JoinOptions{Within: time.Minute},
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
			require.NoError(t, s.Post(t.Context(), topKey, topKey, spawn.Incoming{Text: text}))
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

// A tree that was lost has turns whose end it will not record. Stop does not say that nothing runs
// while they do.
func TestStopAfterTheTreeWasLost(t *testing.T) {
	for _, late := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			cfg := spawn.Config{Store: session.NewMemory()}
			release := make(chan struct{})
			cfg.Runner = (&spawntest.Runner{}).On("", spawntest.Play{spawntest.Ignore(release)})
			s := openSupervisor(t, cfg)
			key := mustSpawn(t, s, spawn.Request{Task: "x"})
			synctest.Wait()
			other, err := spawn.Open(t.Context(), cfg)
			require.NoError(t, err)
			_, err = other.Find(t.Context(), topKey, key) // takes the tree over
			require.NoError(t, err)
			require.NoError(t, other.Shutdown(t.Context()))
			require.ErrorIs(
				t, s.Post(t.Context(), topKey, topKey, spawn.Incoming{ID: "1", Text: "x"}),
				spawn.ErrNotRecorded,
			)
			time.Sleep(time.Second)
			require.Equal(t, spawn.StatusInterrupted, mustFind(t, s, key).Status)
			if !late {
				time.AfterFunc(5*time.Second, func() { close(release) })
				require.NoError(t, s.Stop(t.Context(), topKey, key, "enough"))
				return
			}
			var still *spawn.StillRunningError
			require.ErrorAs(t, s.Stop(t.Context(), topKey, topKey, "enough"), &still)
			require.Equal(t, []session.Key{key}, still.Sessions)
			close(release)
			synctest.Wait()
			require.NoError(t, s.Stop(t.Context(), topKey, topKey, "enough"))
		})
	}
}

// A key that is not that of a top-level session has no tree. Neither the clock nor a question makes
// one.
func TestNoTreeOfNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := spawntest.NewRecorder(session.NewMemory().Journal)
		s := openSupervisor(
			t, spawn.Config{Store: &session.Store{Journal: log}, Runner: &spawntest.Runner{}},
		)
		for _, root := range []session.Key{
			{}, session.Must(topKey.Child("main", "x")), session.BindingsRoot(),
		} {
			var input *spawn.InputError
			require.ErrorAs(t, s.Post(t.Context(), root, root, spawn.Incoming{Text: "x"}), &input)
			require.Equal(t, "root", input.Field)
		}
		_, err := s.Runs(
			t.Context(), session.Must(session.MainKey("asked")),
			session.Must(session.MainKey("asked")), true,
		)
		require.NoError(t, err)
		time.Sleep(time.Hour)
		require.Empty(t, log.RootKeys())
	})
}

// Logs that are not of trees are left alone.
func TestOtherLogsAreLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := session.NewMemory()
		_, err := store.Journal.Append(t.Context(), session.BindingsRoot(), 0, session.Batch{
			ID:      "b",
			Entries: []session.Entry{{Payload: session.Raw(`{"bound":1}`)}},
			Due:     time.Now(),
		})
		require.NoError(t, err)
		s := openSupervisor(t, spawn.Config{Store: store, Runner: &spawntest.Runner{}})
		time.Sleep(time.Hour)
		blocked, err := s.Blocked(t.Context())
		require.NoError(t, err)
		require.Empty(t, blocked)
		require.ErrorIs(t, s.Retry(t.Context(), "none"), spawn.ErrNotFound)
	})
}

func TestNothingIsTakenAfterShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := spawn.Open(
			t.Context(), spawn.Config{Store: session.NewMemory(), Runner: &spawntest.Runner{}},
		)
		require.NoError(t, err)
		require.NoError(t, s.Shutdown(t.Context()))
		require.NoError(t, s.Shutdown(t.Context()))
		require.ErrorIs(
			t, s.Post(t.Context(), topKey, topKey, spawn.Incoming{Text: "x"}), spawn.ErrShutdown,
		)
		_, err = s.Wait(t.Context(), topKey, nil, spawn.JoinOptions{})
		require.ErrorIs(t, err, spawn.ErrShutdown)
		require.NoError(t, s.Run(t.Context()), "there is nothing to run any more")
	})
}

// A caller that goes away while the journal hangs is not written to later.
func TestCallerThatGoesAwayIsNotAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		journal := spawntest.NewCrashJournal(session.NewMemory().Journal).At(1, spawntest.FaultHang)
		s := openSupervisor(
			t, spawn.Config{Store: &session.Store{Journal: journal}, Runner: &spawntest.Runner{}},
		)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := s.Spawn(ctx, topKey, topKey, spawn.Request{Task: "x", Key: "k"})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, s.Stop(ctx, topKey, topKey, ""), context.DeadlineExceeded)
		journal.Release()
		time.Sleep(time.Minute)
		info, err := s.Spawn(t.Context(), topKey, topKey, spawn.Request{Task: "x", Key: "k"})
		require.NoError(t, err)
		require.NotEmpty(t, info.ID)
	})
}

// turnActs are the methods of a TurnInput, by name: nil for those without an error.
var turnActs = map[string]func(ctx context.Context, tn *spawn.TurnInput) error{
	"Err":  func(_ context.Context, tn *spawn.TurnInput) error { return tn.Err() },
	"Over": func(_ context.Context, tn *spawn.TurnInput) error { return tn.Over() },
	"Take": func(ctx context.Context, tn *spawn.TurnInput) error { _, err := tn.Take(ctx); return err },
	"Runs": func(ctx context.Context, tn *spawn.TurnInput) error { _, err := tn.Runs(ctx); return err },
	"Find": func(ctx context.Context, tn *spawn.TurnInput) error {
		_, err := tn.Find(ctx, topKey)
		return err
	},
	"Spawn": func(ctx context.Context, tn *spawn.TurnInput) error {
		_, err := tn.Spawn(ctx, spawn.Request{Task: "x"})
		return err
	},
	"Steer": func(ctx context.Context, tn *spawn.TurnInput) error {
		return tn.Steer(ctx, topKey, spawn.Incoming{Text: "x"})
	},
	"Stop": func(ctx context.Context, tn *spawn.TurnInput) error { return tn.Stop(ctx, topKey, "x") },
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
	"Say": func(ctx context.Context, tn *spawn.TurnInput) error {
		return tn.Say(ctx, spawn.Saying{Text: "x"})
	},
	"Report": func(ctx context.Context, tn *spawn.TurnInput) error {
		return tn.Report(ctx, spawn.Progress{Text: "x", Milestone: true})
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
	"Budgeted": nil, "Leave": nil,
	"Yield": nil, "Delta": nil, "Spent": nil, "SpentBy": nil, "ExitWith": nil, "InStore": nil,
	"Reached": nil,
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
			require.NoError(t, s.Post(t.Context(), topKey, topKey, spawn.Incoming{Text: "x"}))
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
		require.NoError(t, s.Post(t.Context(), topKey, topKey, spawn.Incoming{Text: "x"}))
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

// Decision 1.8: Rested is told of a run that has ended, of a tree that has had nothing to do for
// ten minutes, and of one that was lost. A panic of it is logged and changes nothing.
func TestRested(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var log bytes.Buffer
		var told []string
		store := session.NewMemory()
		cfg := spawn.Config{
			Store: store, Runner: &spawntest.Runner{},
			Logger: slog.New(slog.NewTextHandler(&log, nil)),
			Rested: func(root, of session.Key) {
				mu.Lock()
				defer mu.Unlock()
				told = append(told, strings.TrimSpace(root.String()+" "+of.String()))
				panic("oh no")
			},
		}
		takeTold := func() (list []string) {
			mu.Lock()
			defer mu.Unlock()
			list, told = told, nil
			return list
		}
		first := openSupervisor(t, cfg)
		key := mustSpawn(t, first, spawn.Request{Task: "x"})
		time.Sleep(time.Minute)
		require.Equal(t, []string{topKey.String() + " " + key.String()}, takeTold())
		time.Sleep(7 * time.Minute)
		require.Empty(t, takeTold())
		time.Sleep(4 * time.Minute)
		require.Equal(t, []string{topKey.String()}, slices.Compact(takeTold()))
		mustSpawn(t, first, spawn.Request{Task: "y"})
		synctest.Wait()
		takeTold()
		second := openSupervisor(t, spawn.Config{Store: store, Runner: &spawntest.Runner{}})
		mustSpawn(t, second, spawn.Request{Task: "z"})
		synctest.Wait()
		_ = first.CancelTurn(t.Context(), topKey, topKey) // it notices at its next append
		_, _ = first.Spawn(t.Context(), topKey, topKey, spawn.Request{Task: "lost"})
		synctest.Wait()
		require.Contains(t, takeTold(), topKey.String())
		require.Contains(t, log.String(), "Config.Rested panicked")
	})
}

// The journal fails at each append of a life, in one way or another. The child's end is consumed
// once, and the tree comes to rest.
func TestEveryFaultAtEveryAppend(t *testing.T) {
	for _, fault := range []spawntest.Fault{
		spawntest.FaultFailBefore, spawntest.FaultLoseAck,
		spawntest.FaultPanicBefore, spawntest.FaultPanicAfter,
		spawntest.FaultExitBefore, spawntest.FaultExitAfter,
		spawntest.FaultDieBefore, spawntest.FaultDieAfter,
	} {
		for n := 1; n <= 9; n++ {
			t.Run(
				fmt.Sprintf("%v/%d", fault, n),
				func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { oneFault(t, fault, n) })
				},
			)
		}
	}
}

func oneFault(t *testing.T, fault spawntest.Fault, n int) {
	log := spawntest.NewRecorder(session.NewMemory().Journal)
	r := (&spawntest.Runner{}).
		On("work", spawntest.Play{spawntest.Delay(time.Second), spawntest.Say("42")}).
		On(topKey.String(), spawntest.Play{
			spawntest.Spawn(spawn.Request{Task: "work", Key: "k", Announce: true}),
			spawntest.Yield(spawn.JoinOptions{}),
		}, spawntest.Play{spawntest.Say("done")})
	live := func(j session.Journal) *spawn.Supervisor {
		return openSupervisor(t, spawn.Config{Store: &session.Store{Journal: j}, Runner: r})
	}
	s := live(spawntest.NewCrashJournal(log).At(n, fault))
	err := s.Post(t.Context(), topKey, topKey, spawn.Incoming{ID: "1", Text: "go"})
	if fault == spawntest.FaultDieBefore || fault == spawntest.FaultDieAfter {
		time.Sleep(time.Minute)
		s = live(log)
		err = s.Post(t.Context(), topKey, topKey, spawn.Incoming{ID: "1", Text: "go"})
	}
	for errors.Is(err, spawn.ErrUnconfirmed) || errors.Is(err, spawn.ErrNotRecorded) {
		time.Sleep(time.Second)
		err = s.Post(t.Context(), topKey, topKey, spawn.Incoming{ID: "1", Text: "go"})
	}
	require.NoError(t, err)
	time.Sleep(time.Minute)
	report, err := spawntest.Inspect(log.History(topKey))
	require.NoError(t, err)
	require.NoError(t, report.AtRest())
	require.Equal(t, 1, report.Runs, "the spawn key gives one run")
	require.Equal(t, 1, report.Consumed, "its end is consumed once")
}

// What was asked for, what was chosen, and what really ran are three things. Nothing is replaced
// silently.
func TestModelsAreRecorded(t *testing.T) {
	cfg := spawn.Config{
		Model:      "a/main",
		ValidModel: func(m string) bool { return m == "a/good" || m == "a/main" },
	}
	inBubble(t, cfg, func(t *testing.T, s *spawn.Supervisor, r *spawntest.Runner) {
		r.On(
			"",
			spawntest.Play{
				func(_ context.Context, _ *spawn.TurnInput, out *spawn.TurnResult) error {
					out.Result.Model = "a/real"
					return nil
				},
			},
		)
		good := mustSpawn(
			t, s, spawn.Request{Task: "good", Policy: policy.Request{Model: "a/good"}},
		)
		bad := mustSpawn(t, s, spawn.Request{Task: "bad", Policy: policy.Request{Model: "a/bad"}})
		synctest.Wait()
		require.Equal(
			t, spawn.ModelInfo{Requested: "a/good", Resolved: "a/good", Actual: "a/real"},
			mustFind(t, s, good).Model,
		)
		require.Empty(t, mustFind(t, s, good).Warnings)
		require.Equal(
			t, spawn.ModelInfo{Requested: "a/bad", Resolved: "a/main", Actual: "a/real"},
			mustFind(t, s, bad).Model,
		)
		require.NotEmpty(t, mustFind(t, s, bad).Warnings)
	})
}

// A shutdown names what it could not end, and returns all the same.
func TestShutdownNamesWhatHangs(t *testing.T) {
	for what, want := range map[string]string{
		"runner": "1 session has code that has not", "deliver": "1 delivery has not",
		"journal": "the store has not",
	} {
		synctest.Test(t, func(t *testing.T) {
			release := make(chan struct{})
			r := &spawntest.Runner{}
			journal := spawntest.NewCrashJournal(
				deafJournal{session.NewMemory().Journal, release, what == "journal"},
			)
			s, err := spawn.Open(t.Context(), spawn.Config{
				Store: &session.Store{Journal: journal}, Runner: r, CallerRun: true,
				Deliver: func(context.Context, spawn.Delivery) error { <-release; return nil },
			})
			require.NoError(t, err)
			ran := make(chan error, 1)
			go func() { ran <- s.Run(context.WithoutCancel(t.Context())) }()
			if what == "runner" {
				r.On("", spawntest.Play{spawntest.Ignore(release)})
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, _ = s.Spawn(ctx, topKey, topKey, spawn.Request{Task: "x", Announce: true})
			synctest.Wait()
			start := time.Now()
			err = s.Shutdown(ctx)
			var still *spawn.StillRunningError
			require.ErrorAs(t, err, &still, what)
			require.Contains(t, err.Error(), want)
			require.LessOrEqual(t, time.Since(start), time.Second+spawn.DefaultGrace)
			close(release)
			require.NoError(t, <-ran)
		})
	}
}

// deafJournal is a journal that hangs and does not look at its context.
type deafJournal struct {
	session.Journal
	release <-chan struct{}
	hangs   bool
}

func (j deafJournal) Append(
	ctx context.Context, root session.Key, after session.Seq, b session.Batch,
) (session.Seq, error) {
	if j.hangs {
		<-j.release
	}
	return j.Journal.Append(ctx, root, after, b)
}
