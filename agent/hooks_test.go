package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

var errQuota = errors.New("the quota of\nthis chat is spent, key=sk-abcdefghijklmnopqrstuvwxyz")

// hookLog is what hooks were told.
type hookLog struct {
	mu    sync.Mutex
	asked []agent.SpawningHook
	ended []agent.EndedHook
}

func (l *hookLog) ask(h agent.SpawningHook) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked = append(l.asked, h)
}

func (l *hookLog) end(h agent.EndedHook) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = append(l.ended, h)
}

func (l *hookLog) asks() []agent.SpawningHook {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.asked)
}

func (l *hookLog) ends() []agent.EndedHook {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.ended)
}

// hooks returns hooks that note what they are told; refuse may be nil.
func (l *hookLog) hooks(refuse func(agent.SpawningHook) error) agent.Hooks {
	return agent.Hooks{
		Spawning: func(_ context.Context, h agent.SpawningHook) error {
			l.ask(h)
			if refuse == nil {
				return nil
			}
			return refuse(h)
		},
		Ended: func(_ context.Context, h agent.EndedHook) error {
			l.end(h)
			return nil
		},
	}
}

// Spawning is asked of what the rules admit, and may refuse it: a program gets its error, and
// nothing exists. It is not asked for what a key names already, nor for what a rule refuses.
func TestSpawningVeto(t *testing.T) {
	log := &hookLog{}
	cfg := configAnswering(asText)
	cfg.Models.Model = "p/m"
	cfg.Hooks = log.hooks(func(h agent.SpawningHook) error {
		if h.Run.Label == "bad" {
			return errQuota
		}
		return nil
	})
	agenttest.Run(t, cfg, nil, func(h *harness) {
		ctx := h.Context()
		_, err := agent.Spawn[string](ctx, h.Main(), agent.Task{Text: "x", Label: "bad", Key: "k"})
		veto, ok := errors.AsType[*agent.VetoError](err)
		require.True(t, ok, "%v", err)
		require.ErrorIs(t, err, errQuota)
		require.Contains(t, veto.Reason, "the quota of this chat is spent")
		require.NotContains(t, err.Error(), "mnopqrstuvw")
		require.Empty(t, h.Runs(), "nothing exists")
		good := agent.Task{Text: "x", Label: "good", Key: "k"}
		c, err := agent.Spawn[string](ctx, h.Main(), good)
		require.NoError(t, err)
		again, err := agent.Spawn[string](ctx, h.Main(), good)
		require.NoError(t, err)
		require.Equal(t, c.Key(), again.Key())
		_, err = agent.Spawn[string](ctx, h.Main(), agent.Task{Text: "x", Agent: "unknown agent"})
		_, ok = errors.AsType[*policy.Refusal](err)
		require.True(t, ok, "%v", err)
		require.Len(t, log.asks(), 2)
		asked := log.asks()[1]
		require.Equal(t, c.Key(), asked.Run.Key)
		require.Equal(t, c.ID(), asked.Run.ID)
		require.Equal(t, topKey, asked.Run.Parent)
		require.Equal(t, topKey, asked.Run.Root)
		require.Equal(t, "main", asked.Run.Agent)
		require.Equal(t, "x", asked.Run.Task)
		require.Equal(t, "p/m", asked.Run.Model.Resolved)
		require.Equal(t, spawn.StatusQueued, asked.Run.Status)
		require.False(t, asked.ByModel)
		_, err = c.Wait(ctx)
		require.NoError(t, err)
		_, err = c.Post(ctx, agent.Incoming{Text: "more"})
		require.NoError(t, err)
		time.Sleep(time.Second)
		require.Len(t, log.asks(), 2, "a later run is not a spawn")
		require.Len(t, log.ends(), 2)
	})
}

// A model is told of a refusal in one sentence, and its turn goes on.
func TestSpawningVetoIsTold(t *testing.T) {
	log := &hookLog{}
	s := script{"main": {startStep("a"), echo()}}
	cfg := agent.Config{Hooks: log.hooks(func(agent.SpawningHook) error { return errQuota })}
	agenttest.Run(t, cfg, s, func(h *harness) {
		h.Post("go")
		require.Len(t, h.Replies(), 1)
		require.Len(t, log.asks(), 1)
		require.True(t, log.asks()[0].ByModel)
		var told struct{ Status, Error string }
		require.NoError(t, json.Unmarshal([]byte(h.Replies()[0].Reply.Text), &told))
		require.Equal(t, "forbidden", told.Status)
		require.Contains(t, told.Error, "the program refuses this sub-agent: the quota of this chat")
		require.Empty(t, h.Runs())
	})
}

// A Spawning that panics, ends its goroutine or hangs refuses that spawn with a reason and stops
// nothing else.
func TestSpawningThatMisbehaves(t *testing.T) {
	var release chan struct{}
	for name, c := range map[string]struct {
		do   func(ctx context.Context) error
		want error
		took time.Duration
	}{
		"panic":  {func(context.Context) error { panic("ouch") }, nil, 0},
		"goexit": {func(context.Context) error { runtime.Goexit(); return nil }, nil, 0},
		"hangs": {
			func(context.Context) error { <-release; return nil }, context.DeadlineExceeded,
			spawn.HookTimeout,
		},
		"heeds its context": {
			func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
			context.DeadlineExceeded, spawn.HookTimeout,
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := configAnswering(asText)
			cfg.Hooks.Spawning = func(ctx context.Context, h agent.SpawningHook) error {
				if h.Run.Label == "good" {
					return nil
				}
				return c.do(ctx)
			}
			agenttest.Run(t, cfg, nil, func(h *harness) {
				release = make(chan struct{})
				began := time.Now()
				refused := make(chan error, 1)
				go func() {
					_, err := agent.Spawn[string](h.Context(), h.Main(), agent.Task{Text: "x"})
					refused <- err
				}()
				time.Sleep(time.Millisecond)
				good, err := agent.Spawn[string](h.Context(), h.Main(),
					agent.Task{Text: "y", Label: "good"})
				require.NoError(t, err, "another spawn does not wait")
				_, err = good.Wait(h.Context())
				require.NoError(t, err)
				err = <-refused
				require.Equal(t, c.took, time.Since(began).Truncate(time.Second))
				if c.want != nil {
					require.ErrorIs(t, err, c.want)
				}
				failed, ok := errors.AsType[*spawn.CallbackError](err)
				_, veto := errors.AsType[*agent.VetoError](err)
				require.NotEqual(t, veto, ok, "%v", err)
				require.True(t, veto || failed.Callback == "Hooks.Spawning")
				require.NotContains(t, err.Error(), "ouch")
				require.Len(t, h.Runs(), 1)
				close(release)
			})
		})
	}
}

// A spawn whose ctx ends while Spawning is asked has not happened.
func TestSpawningOfASpawnThatGivesUp(t *testing.T) {
	cfg := configAnswering(asText)
	cfg.Hooks.Spawning = func(ctx context.Context, _ agent.SpawningHook) error {
		<-ctx.Done()
		return ctx.Err()
	}
	agenttest.Run(t, cfg, nil, func(h *harness) {
		ctx, cancel := context.WithTimeout(h.Context(), time.Second)
		defer cancel()
		_, err := agent.Spawn[string](ctx, h.Main(), agent.Task{Text: "x"})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		time.Sleep(time.Minute)
		require.Empty(t, h.Runs())
	})
}

// Hooks call the Runtime: they spawn, post and stop.
func TestHooksCallBack(t *testing.T) {
	log := &hookLog{}
	var h *harness
	cfg := configAnswering(asText)
	cfg.Hooks = log.hooks(func(x agent.SpawningHook) error {
		if x.Run.Label != "outer" {
			return nil
		}
		_, err := agent.Spawn[string](h.Context(), h.Main(), agent.Task{Text: "x", Label: "inner"})
		return err
	})
	note := cfg.Hooks.Ended
	cfg.Hooks.Ended = func(ctx context.Context, x agent.EndedHook) error {
		if x.Run.Label != "outer" {
			return note(ctx, x)
		}
		if _, err := h.Main().Post(ctx, agent.Incoming{ID: x.Key, Text: "it ended"}); err != nil {
			return err
		}
		_, err := agent.Spawn[string](ctx, h.Main(), agent.Task{Text: "x", Label: "after", Key: x.Key})
		if err != nil {
			return err
		}
		if err := h.Main().Stop(ctx); err != nil {
			return err
		}
		return note(ctx, x)
	}
	agenttest.Run(t, cfg, nil, func(in *harness) {
		h = in
		_, err := agent.Spawn[string](h.Context(), h.Main(), agent.Task{Text: "x", Label: "outer"})
		require.NoError(t, err)
		time.Sleep(time.Minute)
		require.Len(t, h.Runs(), 3)
		require.Len(t, log.ends(), 3)
	})
}

// A hook that shuts the Runtime down does not hang: Ended under its own ctx at once, and Spawning,
// for which its spawn waits, when its time is up.
func TestHooksShutDown(t *testing.T) {
	for name, cfg := range map[string]func(h **harness, errs chan error) agent.Hooks{
		"Ended": func(h **harness, errs chan error) agent.Hooks {
			return agent.Hooks{Ended: func(ctx context.Context, _ agent.EndedHook) error {
				errs <- (*h).Runtime().Shutdown(ctx)
				return nil
			}}
		},
		"Spawning": func(h **harness, errs chan error) agent.Hooks {
			return agent.Hooks{Spawning: func(ctx context.Context, _ agent.SpawningHook) error {
				errs <- (*h).Runtime().Shutdown(ctx)
				return nil
			}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			var h *harness
			errs := make(chan error, 2)
			c := configAnswering(asText)
			c.Hooks = cfg(&h, errs)
			agenttest.Run(t, c, nil, func(in *harness) {
				h = in
				began := time.Now()
				_, _ = agent.Spawn[string](h.Context(), h.Main(), agent.Task{Text: "x"})
				if err := <-errs; err != nil {
					var left *agent.StillRunningError // the hook itself
					require.ErrorAs(t, err, &left)
				}
				require.LessOrEqual(t, time.Since(began), 2*spawn.HookTimeout+spawn.DefaultGrace)
			})
		})
	}
}

// Ended is told of every end: of runs that ended well, failed, were out of time or stopped, whose
// process died, that nothing announces, and of later runs.
func TestEndedHook(t *testing.T) {
	log := &hookLog{}
	cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
		switch tn.Label {
		case "fails":
			return agent.Result{}, errors.New("no model")
		case "slow", "stopped", "dies":
			return agent.Result{Text: "half"}, pause(ctx, time.Hour)
		}
		return agent.Result{Text: "done", Usage: agent.Usage{Input: 3}}, nil
	})
	cfg.Hooks = log.hooks(nil)
	agenttest.Run(t, cfg, nil, func(h *harness) {
		ctx := h.Context()
		start := func(label string, timeout time.Duration) *agent.Child[string] {
			c, err := agent.Spawn[string](ctx, h.Main(),
				agent.Task{Text: "x", Label: label, Timeout: timeout})
			require.NoError(t, err)
			time.Sleep(time.Second)
			return c
		}
		well := start("well", 0)
		start("fails", 0)
		start("slow", time.Minute)
		require.NoError(t, start("stopped", 0).Stop(ctx))
		_, err := well.Post(ctx, agent.Incoming{Text: "more"})
		require.NoError(t, err)
		time.Sleep(2 * time.Minute)
		start("dies", 0)
		h.Crash()
		time.Sleep(time.Second)
		want := []struct{ label, outcome, reason string }{
			{"well", "ok", ""},
			{"fails", "error", "no model"},
			{"stopped", "killed", "stopped by the caller"},
			{"well", "ok", ""},
			{"slow", "timeout", "its time is up"},
			{"dies", "interrupted", "the process that ran its turn is gone"},
		}
		require.Len(t, log.ends(), len(want))
		keys, runs := map[string]bool{}, map[agent.RunID]bool{}
		for i, w := range want {
			got := log.ends()[i]
			require.Equal(t, w.label, got.Run.Label)
			require.Equal(t, w.outcome, got.Outcome(), w.label)
			require.Contains(t, got.Run.Error, w.reason)
			require.Equal(t, topKey, got.Requester)
			require.Equal(t, session.Ref{Key: got.Run.Key, SessionID: got.Run.SessionID},
				got.Transcript)
			require.NotZero(t, got.Run.Ended)
			require.Equal(t, 1, got.Attempt)
			keys[got.Key], runs[got.Run.ID] = true, true
		}
		require.Len(t, keys, len(want), "each end has a key of its own")
		require.Len(t, runs, len(want))
		require.EqualValues(t, 3, log.ends()[0].Run.Result.Usage.Input)
		require.Equal(t, "half", log.ends()[4].Run.Result.Text)
	})
}

// An Ended that fails, panics or ends its goroutine is called again under the same key, and is
// blocked after half an hour. Completions do not wait for it, and the archive does.
func TestEndedHookThatFails(t *testing.T) {
	for name, fail := range map[string]func(ctx context.Context) error{
		"error":  func(context.Context) error { return errors.New("down") },
		"panic":  func(context.Context) error { panic("ouch") },
		"goexit": func(context.Context) error { runtime.Goexit(); return nil },
		"busy":   func(context.Context) error { return agent.ErrBusy },
		"slow":   func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) },
	} {
		t.Run(name, func(t *testing.T) {
			log := &hookLog{}
			var up atomic.Bool
			cfg := configAnswering(asText)
			cfg.Rules.Subagents.ArchiveAfter = time.Minute
			cfg.Deliver = func(context.Context, agent.Delivery) error { return nil }
			cfg.Hooks.Ended = func(ctx context.Context, x agent.EndedHook) error {
				log.end(x)
				if up.Load() {
					return nil
				}
				return fail(ctx)
			}
			agenttest.Run(t, cfg, nil, func(h *harness) {
				for _, label := range []string{"a", "b"} {
					c, err := agent.Spawn[string](h.Context(), h.Main(),
						agent.Task{Text: label, Label: label, Announce: true})
					require.NoError(t, err)
					_, err = c.Wait(h.Context())
					require.NoError(t, err)
				}
				time.Sleep(time.Second)
				require.Len(t, h.Deliveries(), 2, "completions do not wait")
				time.Sleep(time.Hour)
				require.Len(t, h.Runs(), 2, "the archive waits")
				blocked, err := h.Runtime().Blocked(h.Context())
				require.NoError(t, err)
				require.Len(t, blocked, 2)
				require.Equal(t, "a", blocked[0].Ended.Run.Label)
				first := log.ends()[0]
				require.Greater(t, len(log.ends()), 5)
				require.Equal(t, first.Key, log.ends()[1].Key)
				require.Equal(t, 2, log.ends()[1].Attempt)
				up.Store(true)
				for _, d := range blocked {
					require.NoError(t, h.Runtime().Retry(h.Context(), d.Key))
				}
				time.Sleep(2 * time.Minute)
				require.Empty(t, h.Runs())
				last := log.ends()[len(log.ends())-1]
				require.Equal(t, "b", last.Run.Label)
			})
		})
	}
}

// An Ended that hangs is not called again before it has returned, and stops nothing but itself.
func TestEndedHookThatHangs(t *testing.T) {
	log := &hookLog{}
	var release chan struct{}
	cfg := configAnswering(asText)
	cfg.Deliver = func(context.Context, agent.Delivery) error { return nil }
	cfg.Hooks.Ended = func(_ context.Context, x agent.EndedHook) error {
		log.end(x)
		if len(log.ends()) == 1 {
			<-release
		}
		return nil
	}
	agenttest.Run(t, cfg, nil, func(h *harness) {
		release = make(chan struct{})
		for _, label := range []string{"a", "b"} {
			c, err := agent.Spawn[string](h.Context(), h.Main(),
				agent.Task{Text: label, Label: label, Announce: true})
			require.NoError(t, err)
			_, err = c.Wait(h.Context())
			require.NoError(t, err)
		}
		time.Sleep(time.Minute)
		require.Len(t, h.Deliveries(), 2)
		require.Len(t, log.ends(), 1)
		close(release)
		time.Sleep(time.Minute)
		require.Len(t, log.ends(), 2, "what returned late has arrived")
		require.Equal(t, "b", log.ends()[1].Run.Label)
	})
}

// Wherever the process dies, Ended hears of each run at least once, under one key, as it ended.
// What Spawning refuses never exists.
func TestHooksOverEveryCrash(t *testing.T) {
	log := &hookLog{}
	rules := rulesForDepth(2)
	rules.Subagents.ArchiveAfter = time.Hour
	s := script{
		"main": {andStart(startStep("a"), "bad"), say("On it."), echo()},
		"a":    {startStep("b"), yieldStep(), echo()},
		"b":    {agenttest.Fail(errors.New("boom")).After(time.Second)},
	}
	cfg := agent.Config{Rules: rules, Hooks: log.hooks(func(h agent.SpawningHook) error {
		if h.Run.Label == "bad" {
			return errQuota
		}
		return nil
	})}
	agenttest.EveryCrash(t, cfg, s, func(h *harness) {
		log.mu.Lock()
		log.ended = nil
		log.mu.Unlock()
		h.Post("go")
		h.Pass(20 * time.Minute)
		told := map[agent.RunID]string{}
		status := map[agent.RunID]spawn.Status{}
		for _, x := range log.ends() {
			if key, ok := told[x.Run.ID]; ok {
				require.Equal(t, key, x.Key)
			}
			told[x.Run.ID], status[x.Run.ID] = x.Key, x.Run.Status
		}
		for _, run := range h.Runs() {
			require.NotEqual(t, "bad", run.Label)
			require.True(t, run.Status.Terminal())
			require.Equal(t, run.Status, status[run.ID], "%s", run.Label)
		}
		keys := map[string]bool{}
		for _, key := range told {
			keys[key] = true
		}
		require.Len(t, keys, len(told))
	})
}

// Spawning is asked once for a sub-agent with a thread, before the thread is created, and under the
// key that the sub-agent gets.
func TestSpawningOfAThread(t *testing.T) {
	log := &hookLog{}
	cfg := configAnswering(asText)
	refuse := true
	cfg.Hooks = log.hooks(func(agent.SpawningHook) error {
		if refuse {
			return errQuota
		}
		return nil
	})
	threadsOn(t, cfg, nil, func(b threadBot) {
		b.write(b.general, "hello")
		key, err := b.chat.Key(b.general)
		require.NoError(t, err)
		before := len(b.chat.Threads())
		_, err = b.Session(key).Spawn(b.Context(), agent.Task{Text: "x", Thread: true})
		require.ErrorIs(t, err, errQuota)
		require.Len(t, b.chat.Threads(), before)
		refuse = false
		c, _ := b.spawnThread(agent.Task{Text: "x"})
		require.Len(t, b.chat.Threads(), before+1)
		require.Len(t, log.asks(), 2)
		require.Equal(t, c.Key(), log.asks()[1].Run.Key)
		require.True(t, log.asks()[1].Thread)
	})
}

// A steer ends no run, and is not told.
func TestEndedHookOfASteer(t *testing.T) {
	log := &hookLog{}
	cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
		if err := pause(ctx, time.Minute); err != nil {
			return agent.Result{}, err
		}
		_, err := tn.Inbox(ctx)
		return agent.Result{Text: "done"}, err
	})
	cfg.Hooks = log.hooks(nil)
	agenttest.Run(t, cfg, nil, func(h *harness) {
		c, err := agent.Spawn[string](h.Context(), h.Main(), agent.Task{Text: "x"})
		require.NoError(t, err)
		time.Sleep(time.Second)
		require.NoError(t, c.Steer(h.Context(), "faster"))
		_, err = c.Wait(h.Context())
		require.NoError(t, err)
		time.Sleep(time.Second)
		require.Len(t, log.ends(), 1)
	})
}

// A sub-agent that is deleted while it works was killed. A reset is refused while one is alive.
func TestEndedHookOfWhatIsDeleted(t *testing.T) {
	log := &hookLog{}
	cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
		return agent.Result{Text: "half"}, pause(ctx, time.Hour)
	})
	cfg.Hooks = log.hooks(nil)
	agenttest.Run(t, cfg, nil, func(h *harness) {
		c, err := agent.Spawn[string](h.Context(), h.Main(), agent.Task{Text: "x"})
		require.NoError(t, err)
		time.Sleep(time.Second)
		err = h.Main().Reset(h.Context())
		_, ok := errors.AsType[*agent.ChildrenError](err)
		require.True(t, ok, "%v", err)
		require.Empty(t, log.ends())
		require.NoError(t, h.Runtime().DeleteSession(h.Context(), c.Key()))
		time.Sleep(time.Second)
		require.Len(t, log.ends(), 1)
		require.Equal(t, "killed", log.ends()[0].Outcome())
		require.Contains(t, log.ends()[0].Run.Error, "deleted")
	})
}

// 9.2: the hook is asked once, and told of the run that the spawn makes, however it is asked for.
func TestSpawningKnowsTheRun(t *testing.T) {
	base := makeTree(t, "main/app/AGENTS.md")
	for name, task := range map[string]agent.Task{
		"plain":            {},
		"key":              {Key: "k"},
		"again":            {Key: "k", Again: true},
		"directory":        {Dir: "app"},
		"keyed directory":  {Dir: "app", Key: "k"},
		"runtime":          {Runtime: "ext"},
		"attachment":       {Attachments: attaching("a.txt", "x")},
		"keyed attachment": {Attachments: attaching("a.txt", "x"), Key: "k"},
		"all": {
			Attachments: attaching("a.txt", "x"), Dir: "app", Runtime: "ext", Key: "k",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var asked []agent.RunInfo
			say := agent.RunnerFunc(func(context.Context, *agent.Turn) (agent.Result, error) {
				return agent.Result{Text: "done"}, nil
			})
			cfg := agent.Config{
				Store:  session.NewMemory(),
				Runner: say,
				Runners: agent.Runners{
					Runtimes: map[string]agent.ExternalRuntime{"ext": {Runner: say}},
				},
				WorkDir: func(id string) string { return filepath.Join(base, id) },
				Hooks: agent.Hooks{Spawning: func(_ context.Context, h agent.SpawningHook) error {
					asked = append(asked, h.Run)
					return nil
				}},
			}
			agenttest.Run(t, cfg, nil, func(h *harness) {
				task.Text = "x"
				c, err := agent.Spawn[string](h.Context(), h.Main(), task)
				require.NoError(h.T(), err)
				_, err = c.Wait(h.Context())
				require.NoError(h.T(), err)
				require.Len(h.T(), asked, 1)
				require.Equal(h.T(), c.Key(), asked[0].Key)
				require.Equal(h.T(), c.ID(), asked[0].ID)
			})
		})
	}
}
