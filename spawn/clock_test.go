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

// A clock is a wall clock that a test sets. The time of a bubble itself passes like a monotonic
// clock.
type clock struct{ ahead atomic.Int64 }

func (c *clock) now() time.Time        { return time.Now().Add(time.Duration(c.ahead.Load())) }
func (c *clock) set(by time.Duration)  { c.ahead.Store(int64(by)) }
func (c *clock) move(by time.Duration) { c.ahead.Add(int64(by)) }

// jumps are how far a clock may be off.
var jumps = []time.Duration{
	time.Second, time.Minute, time.Hour, 24 * time.Hour, 10 * 365 * 24 * time.Hour,
}

// bothWays calls f in a bubble for each jump, and for each jump back. Under the race detector it
// does for some of them.
func bothWays(t *testing.T, f func(t *testing.T, by time.Duration)) {
	t.Helper()
	for _, by := range jumps {
		for _, by := range []time.Duration{by, -by} {
			if !playsOneOf(4) {
				continue
			}
			t.Run(by.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { f(t, by) })
			})
		}
	}
}

// clockWorld is a store over several processes whose clocks differ.
type clockWorld struct {
	t      *testing.T
	runner *spawntest.Runner
	log    *spawntest.Recorder
	store  *session.Store
	cfg    spawn.Config
	fails  atomic.Bool // Deliver returns an error
	hangs  atomic.Bool // Deliver does not return before its context ends
	got    chan string
}

func newClockWorld(t *testing.T) *clockWorld {
	w := &clockWorld{t: t, runner: &spawntest.Runner{}, got: make(chan string, 100)}
	w.store = session.NewMemory()
	w.log = spawntest.NewRecorder(w.store.Journal)
	w.cfg = spawn.Config{
		Runner: w.runner, Replies: true,
		Rules: policy.Rules{Subagents: policy.Subagents{MaxSpawnDepth: 2, MaxConcurrent: 2}},
		Deliver: func(ctx context.Context, d spawn.Delivery) error {
			if w.hangs.Load() {
				<-ctx.Done()
				return context.Cause(ctx)
			}
			if w.fails.Load() {
				return errors.New("down")
			}
			w.got <- d.Reply.Text
			return nil
		},
	}
	t.Cleanup(func() {
		require.NoError(t, spawntest.Audit(w.log.History(topKey)))
	})
	return w
}

// configOver returns the configuration of a process over a journal.
func (w *clockWorld) configOver(j session.Journal) spawn.Config {
	cfg := w.cfg
	cfg.Store = &session.Store{Journal: j, Transcripts: w.store.Transcripts}
	return cfg
}

// process runs a Supervisor with a clock. kill ends it as kill -9 does: nothing that it still does
// is recorded.
func (w *clockWorld) process(c *clock) (s *spawn.Supervisor, kill func()) {
	j := spawntest.NewCrashJournal(w.log)
	s, err := spawn.Open(w.t.Context(), w.configOver(j))
	require.NoError(w.t, err)
	s.SetClock(c.now)
	ran := make(chan error, 1)
	go func() { ran <- s.Run(context.WithoutCancel(w.t.Context())) }()
	ended := false
	end := func() {
		if ended {
			return
		}
		ended = true
		now, cancel := context.WithCancel(context.Background())
		cancel()
		_ = s.Shutdown(now)
		require.NoError(w.t, ignoreStill(<-ran))
	}
	w.t.Cleanup(func() {
		end()
		time.Sleep(time.Hour) // what lingers comes to its end
	})
	return s, func() {
		synctest.Wait()
		j.Die()
		end()
	}
}

// ignoreStill returns err unless it names turns that have not returned.
func ignoreStill(err error) error {
	if _, ok := errors.AsType[*spawn.StillRunningError](err); ok {
		return nil
	}
	return err
}

func (w *clockWorld) post(s *spawn.Supervisor, id string) {
	w.t.Helper()
	require.NoError(
		w.t, errorOf(s.Post(w.t.Context(), topKey, topKey, spawn.Incoming{ID: id, Text: id})),
	)
}

// answered fails the test unless a reply comes within a time.
func (w *clockWorld) answered(want string, within time.Duration) {
	w.t.Helper()
	select {
	case got := <-w.got:
		require.Equal(w.t, want, got)
	case <-time.After(within):
		for e, err := range w.log.History(topKey) {
			w.t.Log(spawn.Describe(e), err)
		}
		w.t.Fatalf("%q has not come within %v", want, within)
	}
}

// R3: a process whose clock was off has crashed with work in hand; the next one, whose clock is
// right, takes all of it up at once.
func TestClockWasOffBeforeARestart(t *testing.T) {
	for name, c := range map[string]struct {
		before func(w *clockWorld, s *spawn.Supervisor)
		after  func(w *clockWorld, s *spawn.Supervisor)
	}{
		"a message": {
			before: func(w *clockWorld, s *spawn.Supervisor) {
				slow := spawntest.Play{spawntest.Delay(time.Minute), spawntest.Reply("re 1")}
				w.runner.On("", slow)
				w.post(s, "1")
			},
			after: func(w *clockWorld, _ *spawn.Supervisor) {
				w.answered("re 1", time.Minute+time.Second)
			},
		},
		"a run that waits for a slot": {
			before: func(w *clockWorld, s *spawn.Supervisor) {
				w.runner.On("slow", spawntest.Play{spawntest.Delay(time.Hour)})
				for range 2 {
					mustSpawn(w.t, s, spawn.Request{Task: "slow"})
				}
				mustSpawn(w.t, s, spawn.Request{Task: "quick", Announce: true})
				w.runner.On(topKey.String(), spawntest.Play{spawntest.Reply("told")})
			},
			after: func(w *clockWorld, _ *spawn.Supervisor) { w.answered("told", 2*time.Second) },
		},
		"a reply under way": {
			before: func(w *clockWorld, s *spawn.Supervisor) {
				w.hangs.Store(true)
				w.runner.On("", spawntest.Play{spawntest.Reply("re 1")})
				w.post(s, "1")
				synctest.Wait()
			},
			after: func(w *clockWorld, _ *spawn.Supervisor) { w.answered("re 1", 2*time.Second) },
		},
		"a reply that failed": {
			before: func(w *clockWorld, s *spawn.Supervisor) {
				w.fails.Store(true)
				w.runner.On("", spawntest.Play{spawntest.Reply("re 1")})
				w.post(s, "1")
				time.Sleep(3 * time.Minute)
			},
			after: func(w *clockWorld, _ *spawn.Supervisor) {
				w.answered("re 1", 5*time.Minute+time.Second)
			},
		},
		"a run to be archived": {
			before: func(w *clockWorld, s *spawn.Supervisor) {
				mustSpawn(w.t, s, spawn.Request{Task: "x"})
			},
			after: func(w *clockWorld, s *spawn.Supervisor) {
				time.Sleep(2*time.Hour + 2*time.Minute)
				require.Empty(w.t, mustRuns(w.t, s))
			},
		},
		"a spawn key": {
			before: func(w *clockWorld, s *spawn.Supervisor) {
				mustSpawn(w.t, s, spawn.Request{Task: "x", Key: "k"})
				time.Sleep(2 * time.Hour) // it has been archived
			},
			after: func(w *clockWorld, s *spawn.Supervisor) {
				mustSpawn(w.t, s, spawn.Request{Task: "x", Key: "k"})
				time.Sleep(8 * 24 * time.Hour)
				w.runner.On("x", spawntest.Play{spawntest.Delay(time.Minute)})
				mustSpawn(w.t, s, spawn.Request{Task: "x", Key: "k"})
				require.Len(w.t, mustRuns(w.t, s), 1, "the window of the key has passed")
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			bothWays(t, func(t *testing.T, by time.Duration) {
				w, off := newClockWorld(t), new(clock)
				off.set(by)
				s, kill := w.process(off)
				c.before(w, s)
				kill()
				w.hangs.Store(false)
				w.fails.Store(false)
				s, _ = w.process(new(clock))
				c.after(w, s)
			})
		})
	}
}

func mustRuns(t *testing.T, s *spawn.Supervisor) []spawn.RunInfo {
	t.Helper()
	runs, err := s.Runs(t.Context(), topKey, topKey, true)
	require.NoError(t, err)
	return runs
}

// jumpCases are what a clock that jumps may meet: first runs and their waits, then all else. Each
// calls jump once or twice.
var jumpCases = []map[string]func(w *clockWorld, s *spawn.Supervisor, jump func()){
	{
		"a message": func(w *clockWorld, s *spawn.Supervisor, jump func()) {
			w.runner.On("", spawntest.Play{spawntest.Delay(time.Minute), spawntest.Reply("re")})
			w.post(s, "1")
			jump()
			w.post(s, "2")
			w.answered("re", time.Minute+time.Second)
			jump()
			w.answered("re", time.Minute+time.Second)
		},
		"a timeout": func(w *clockWorld, s *spawn.Supervisor, jump func()) {
			w.runner.On("slow", spawntest.Play{spawntest.Delay(24 * time.Hour)})
			q := spawn.Request{Task: "slow", Policy: policy.Request{Timeout: 10 * time.Minute}}
			key := mustSpawn(w.t, s, q)
			time.Sleep(time.Minute)
			jump()
			time.Sleep(20 * time.Minute)
			require.Equal(w.t, spawn.StatusTimedOut, mustFind(w.t, s, key).Status)
		},
		"a grace period": func(w *clockWorld, s *spawn.Supervisor, jump func()) {
			w.runner.On("slow", spawntest.Play{spawntest.Linger(time.Hour)})
			key := mustSpawn(w.t, s, spawn.Request{Task: "slow"})
			synctest.Wait()
			require.NoError(w.t, s.CancelTurn(w.t.Context(), topKey, key))
			time.Sleep(time.Second)
			jump()
			time.Sleep(2 * spawn.DefaultGrace)
			require.Equal(w.t, spawn.StatusCancelled, mustFind(w.t, s, key).Status)
		},
		"a wait": func(w *clockWorld, s *spawn.Supervisor, jump func()) {
			w.runner.On("slow", spawntest.Play{spawntest.Delay(24 * time.Hour)})
			w.runner.On(
				topKey.String(),
				spawntest.Play{
					spawntest.Spawn(spawn.Request{Task: "slow"}),
					spawntest.Yield(spawn.JoinOptions{Within: 10 * time.Minute}),
				},
				spawntest.Play{spawntest.Reply("over")},
			)
			w.post(s, "1")
			time.Sleep(time.Minute)
			jump()
			w.answered("over", 20*time.Minute)
			require.NoError(w.t, s.Stop(w.t.Context(), topKey, topKey, "enough"))
		},
	},
	{
		"a silent end in the turn that waits for it": func(
			w *clockWorld, s *spawn.Supervisor, jump func(),
		) {
			w.runner.On("quiet", spawntest.Play{spawntest.Delay(time.Minute), spawntest.Silent()})
			w.runner.On(
				topKey.String(),
				spawntest.Play{
					spawntest.Spawn(spawn.Request{Task: "quiet", Announce: true}),
					spawntest.Yield(spawn.JoinOptions{}), spawntest.Delay(2 * time.Minute),
				},
				spawntest.Play{spawntest.Reply("over")},
			)
			w.post(s, "1")
			time.Sleep(time.Second)
			jump()
			w.answered("over", 2*time.Minute)
		},
		"a reply that failed": func(w *clockWorld, s *spawn.Supervisor, jump func()) {
			w.fails.Store(true)
			w.runner.On("", spawntest.Play{spawntest.Reply("re")})
			w.post(s, "1")
			time.Sleep(time.Minute)
			w.fails.Store(false)
			jump()
			w.answered("re", 10*time.Minute)
		},
		"a steer": func(w *clockWorld, s *spawn.Supervisor, jump func()) {
			w.runner.On("slow", spawntest.Play{spawntest.Delay(time.Minute)})
			key := mustSpawn(w.t, s, spawn.Request{Task: "slow"})
			m := spawn.Incoming{Text: "this way"}
			require.NoError(
				w.t, s.Steer(w.t.Context(), topKey, topKey, refOf(key), m),
			)
			jump()
			time.Sleep(2 * time.Second)
			// It may be one pause after the jump.
			_ = s.Steer(w.t.Context(), topKey, topKey, refOf(key), m)
			time.Sleep(2 * time.Second)
			require.NoError(
				w.t, s.Steer(w.t.Context(), topKey, topKey, refOf(key), m),
			)
		},
		"an archive": func(w *clockWorld, s *spawn.Supervisor, jump func()) {
			mustSpawn(w.t, s, spawn.Request{Task: "x"})
			time.Sleep(time.Minute)
			jump()
			time.Sleep(2*time.Hour + time.Minute)
			require.Empty(w.t, mustRuns(w.t, s))
		},
		"an archive of a tree that has left memory": func(
			w *clockWorld, s *spawn.Supervisor, jump func(),
		) {
			mustSpawn(w.t, s, spawn.Request{Task: "x"})
			time.Sleep(30 * time.Minute)
			jump()
			time.Sleep(2*time.Hour + 2*time.Minute)
			require.Contains(w.t, fmt.Sprint(kindsOf(w.log)), "archived")
		},
	},
}

// R3: a clock that jumps in a living process, forward or back, makes nothing wait for longer than
// twice its time.
func TestClockJumpsInALivingProcess(t *testing.T) {
	for _, cases := range jumpCases {
		for name, f := range cases {
			t.Run(name, func(t *testing.T) {
				bothWays(t, func(t *testing.T, by time.Duration) {
					w, c := newClockWorld(t), new(clock)
					s, _ := w.process(c)
					f(w, s, func() {
						synctest.Wait()
						c.move(by)
					})
				})
			})
		}
	}
}

// kindsOf returns the words of all facts of a journal.
func kindsOf(log *spawntest.Recorder) (words []string) {
	for f, err := range spawntest.Facts(log.History(topKey)) {
		if err == nil {
			words = append(words, f.Kind)
		}
	}
	return words
}
