package spawn_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
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
	info, err := s.Find(t.Context(), topKey, refOf(k))
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
			require.EqualError(t, q.Validate(cfg.Limits), err.Error())
		}
		for _, q := range []spawn.Request{
			{Task: "x", Name: "all"},
			{Task: "x", Session: true},
		} {
			_, err := s.Spawn(t.Context(), topKey, topKey, q)
			require.Error(t, err)
			require.EqualError(t, q.Validate(cfg.Limits), err.Error())
		}
		require.NoError(t, spawn.Request{Task: "x"}.Validate(cfg.Limits))
		message := spawn.Incoming{Text: strings.Repeat("x", 1_000_001)}
		_, err := s.Post(t.Context(), topKey, topKey, message)
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
			_, err = other.Find(t.Context(), topKey, refOf(key)) // takes the tree over
			require.NoError(t, err)
			require.NoError(t, other.Shutdown(t.Context()))
			require.ErrorIs(
				t, errorOf(s.Post(t.Context(), topKey, topKey, spawn.Incoming{ID: "1", Text: "x"})),
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
			require.ErrorAs(
				t, errorOf(s.Post(t.Context(), root, root, spawn.Incoming{Text: "x"})), &input,
			)
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
			t, errorOf(s.Post(t.Context(), topKey, topKey, spawn.Incoming{Text: "x"})),
			spawn.ErrShutdown,
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

// Rested is not told of a session that goes on: of the end of a later run, or of one with a
// conversation. It is told when either is archived.
func TestSessionsThatGoOnDoNotRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := make(chan session.Key, 99)
		takeTold := func() (list []session.Key) {
			synctest.Wait()
			for len(told) > 0 {
				if key := <-told; !key.IsZero() {
					list = append(list, key)
				}
			}
			return list
		}
		cfg := spawn.Config{
			Store: session.NewMemory(), Runner: &spawntest.Runner{},
			Rested: func(_, of session.Key) { told <- of },
		}
		cfg.Rules.Subagents.ArchiveAfter = 5 * time.Minute
		s := openSupervisor(t, cfg)
		post := func(key session.Key, m spawn.Incoming) {
			_, err := s.Post(t.Context(), topKey, key, m)
			require.NoError(t, err)
		}
		plain := mustSpawn(t, s, spawn.Request{Task: "x"})
		require.Equal(t, []session.Key{plain}, takeTold())
		talks := mustSpawn(t, s, spawn.Request{
			Task: "y", Thread: true, Bind: threadOne, Session: true,
		})
		require.Empty(t, takeTold())
		for range 3 {
			post(plain, spawn.Incoming{Text: "more"})
			post(talks, spawn.Incoming{Text: "more", Route: threadOne, Thread: true})
			require.Empty(t, takeTold())
		}
		time.Sleep(6 * time.Minute)
		require.Equal(t, []session.Key{plain}, takeTold(), "it was archived")
		require.NoError(t, s.Unbind(t.Context(), topKey, talks, threadOne, "manual"))
		require.Equal(t, []session.Key{talks}, takeTold(), "nothing holds it any more")
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
	_, err := s.Post(t.Context(), topKey, topKey, spawn.Incoming{ID: "1", Text: "go"})
	if fault == spawntest.FaultDieBefore || fault == spawntest.FaultDieAfter {
		time.Sleep(time.Minute)
		s = live(log)
		_, err = s.Post(t.Context(), topKey, topKey, spawn.Incoming{ID: "1", Text: "go"})
	}
	for errors.Is(err, spawn.ErrUnconfirmed) || errors.Is(err, spawn.ErrNotRecorded) {
		time.Sleep(time.Second)
		_, err = s.Post(t.Context(), topKey, topKey, spawn.Incoming{ID: "1", Text: "go"})
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
