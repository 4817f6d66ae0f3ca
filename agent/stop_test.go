package agent_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// configForest makes every session spawn width children down to a depth, and then work until it is
// cancelled.
func configForest(levels, width int, calls, working *atomic.Int32) agent.Config {
	cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
		calls.Add(1)
		working.Add(1)
		defer working.Add(-1)
		for i := range width {
			if tn.Session.Depth == levels {
				break
			}
			if _, err := tn.Spawn(ctx,
				agent.Task{
					Text: "work", Label: fmt.Sprint(tn.Label, ".", i),
					Announce: true,
				}); err != nil {
				return agent.Result{}, err
			}
		}
		<-ctx.Done()
		return agent.Result{Text: "so far"}, context.Cause(ctx)
	})
	cfg.Rules = rulesForDepth(levels)
	return cfg
}

func TestStopEndsTheWholeTree(t *testing.T) {
	for _, lane := range []int{2, 200} { // most runs queued, and none
		t.Run(fmt.Sprint("lane ", lane), func(t *testing.T) {
			var calls, working atomic.Int32
			cfg := configForest(3, 4, &calls, &working)
			cfg.Rules.Subagents.MaxConcurrent = lane
			agenttest.Run(t, cfg, nil, func(h *harness) {
				h.Post("go")
				synctest.Wait()
				before := time.Now()
				require.NoError(t, h.Main().Stop(h.Context()))
				require.Zero(t, working.Load(), "a turn is under way after Stop")
				require.Zero(t, time.Since(before),
					"Runners that return at once are not waited for")
				n := calls.Load()
				if lane == 200 {
					require.EqualValues(t, 1+4+16+64, n)
				}
				time.Sleep(24 * time.Hour)
				require.Equal(t, n, calls.Load(), "a model call after Stop")
				require.Empty(t, h.Replies())
				for _, r := range h.Runs() {
					require.Equal(t, spawn.StatusCancelled, r.Status, r.Label)
				}
			})
		})
	}
}

// A stopped session is usable again, and what it was told before the stop by sub-agents is gone
// with it.
func TestSessionGoesOnAfterStop(t *testing.T) {
	s := script{"main": {startStep("one"), say("On it."), echo()}, "one": {agenttest.Hang()}}
	agenttest.Run(t, agent.Config{}, s, func(h *harness) {
		h.Post("go")
		time.Sleep(time.Minute)
		require.NoError(t, h.Main().Stop(h.Context()))
		require.Equal(t, spawn.StatusCancelled, h.Child("one").Status)
		h.Post("still there?")
		h.Replied("On it.", "still there?")
		require.NoError(t, h.Main().Stop(h.Context()), "there is nothing to stop")
		require.NoError(t, h.Session(session.Must(session.MainKey("other"))).Stop(h.Context()),
			"there never was anything")
	})
}

// Stopping one run ends what is below it and tells its requester once.
func TestStopOfOneRun(t *testing.T) {
	s := script{
		"main": {andStart(startStep("a"), "b"), say("On it."), echo()},
		"a":    {startStep("a1"), yieldStep(), echo()},
		"a1":   {agenttest.Hang()},
		"b":    {say("b is done").After(time.Hour)},
	}
	agenttest.Run(t, agent.Config{Rules: rulesForDepth(2)}, s, func(h *harness) {
		h.Post("go")
		time.Sleep(time.Minute)
		require.NoError(t, h.Session(h.Child("a").Key).Stop(h.Context()))
		require.Equal(t, map[string]spawn.Status{
			"a":  spawn.StatusCancelled,
			"a1": spawn.StatusCancelled, "b": spawn.StatusRunning,
		}, statuses(h.Runs()))
		h.Replied("On it.", "a: cancelled")
		time.Sleep(2 * time.Hour)
		h.Replied("On it.", "a: cancelled", "b is done")
		require.Equal(t, 2, h.Calls("a"), "a stopped orchestrator is not woken")
	})
}

func TestStopGivesUpARunnerThatHangs(t *testing.T) {
	cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
		if tn.Label == "deaf" {
			time.Sleep(time.Hour)
			return textResult("too late")
		}
		<-ctx.Done()
		return agent.Result{}, ctx.Err()
	})
	cfg.Grace = 3 * time.Second
	agenttest.Run(t, cfg, nil, func(h *harness) {
		for _, label := range []string{"deaf", "good"} {
			_, err := agent.Spawn[string](h.Context(), h.Main(),
				agent.Task{Text: "work", Label: label})
			require.NoError(t, err)
		}
		synctest.Wait()
		began := time.Now()
		err := h.Main().Stop(h.Context())
		still, ok := errors.AsType[*agent.StillRunningError](err)
		require.True(t, ok, "%v", err)
		require.Equal(t, []session.Key{h.Child("deaf").Key}, still.Sessions)
		require.Equal(t, 3*time.Second, time.Since(began))
		require.Equal(t, map[string]spawn.Status{
			"deaf": spawn.StatusCancelled,
			"good": spawn.StatusCancelled,
		}, statuses(h.Runs()))
		time.Sleep(50 * time.Minute) // what was given up comes back, and changes nothing
		require.Empty(t, h.Child("deaf").Result.Text)
		time.Sleep(time.Hour)
	})
}

func TestCancelTurnLeavesChildrenAlone(t *testing.T) {
	s := script{
		"main": {startStep("one"), agenttest.Hang(), echo()},
		"one":  {say("done").After(time.Hour)},
	}
	agenttest.Run(t, agent.Config{}, s, func(h *harness) {
		require.NoError(t, h.Main().CancelTurn(h.Context()), "there is no turn")
		h.Post("go")
		time.Sleep(time.Minute)
		require.NoError(t, h.Main().CancelTurn(h.Context()))
		synctest.Wait()
		require.Equal(t, spawn.StatusRunning, h.Child("one").Status)
		require.Empty(t, h.Replies(), "a cancelled turn says nothing")
		time.Sleep(time.Hour)
		h.Replied("done")
	})
}

func TestCancelTurnOfASubagentEndsItsRun(t *testing.T) {
	s := script{"main": {startStep("one"), say("On it."), echo()}, "one": {agenttest.Hang()}}
	agenttest.Run(t, agent.Config{}, s, func(h *harness) {
		h.Post("go")
		time.Sleep(time.Minute)
		require.NoError(t, h.Session(h.Child("one").Key).CancelTurn(h.Context()))
		h.Replied("On it.", "one: cancelled")
	})
}

func TestCancelTurnIsTheCauseOfTheContext(t *testing.T) {
	var cause error
	cfg := configWith(func(ctx context.Context, _ *agent.Turn) (agent.Result, error) {
		<-ctx.Done()
		cause = context.Cause(ctx)
		return agent.Result{}, cause
	})
	agenttest.Run(t, cfg, nil, func(h *harness) {
		h.Post("go")
		synctest.Wait()
		require.NoError(t, h.Main().CancelTurn(h.Context()))
		synctest.Wait()
		require.ErrorIs(t, cause, agent.ErrTurnCancelled)
	})
}

func TestTimeoutKeepsWhatThereIs(t *testing.T) {
	cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
		<-ctx.Done()
		return agent.Result{Text: "half of it, " + context.Cause(ctx).Error()}, context.Cause(ctx)
	})
	cfg.Rules.Subagents.Timeout = time.Hour
	agenttest.Run(t, cfg, nil, func(h *harness) {
		for _, c := range []struct {
			timeout, want time.Duration
		}{{0, time.Hour}, {time.Minute, time.Minute}} {
			child, err := agent.Spawn[string](h.Context(), h.Main(),
				agent.Task{Text: "work", Timeout: c.timeout})
			require.NoError(t, err)
			began := time.Now()
			_, err = child.Wait(h.Context())
			run, ok := errors.AsType[*agent.RunError](err)
			require.True(t, ok, "%v", err)
			require.Equal(t, spawn.StatusTimedOut, run.Run.Status)
			require.Equal(t, "half of it, "+spawn.ErrTimedOut.Error(), run.Run.Result.Text)
			require.Equal(t, c.want, time.Since(began))
		}
		child, err := agent.Spawn[string](h.Context(), h.Main(),
			agent.Task{Text: "work", Timeout: policy.Off})
		require.NoError(t, err)
		time.Sleep(100 * time.Hour)
		info, err := child.Info(h.Context())
		require.NoError(t, err)
		require.Equal(t, spawn.StatusRunning, info.Status)
		require.Zero(t, info.Deadline)
		err = child.Stop(h.Context())
		require.NoError(t, err)
	})
}

// R13: an acknowledged message is never lost, whenever its turn is cancelled or its session is
// stopped. A turn that has not begun does not begin, and the next one reads what that was to read,
// in the next life as well.
func TestCancelBeforeATurnBeginsLosesNothing(t *testing.T) {
	chat := session.Must(session.DirectKey("main", "chat", "1"))
	cancels := map[string]func(s *agent.Session, ctx context.Context) error{
		"cancel": (*agent.Session).CancelTurn,
		"stop":   (*agent.Session).Stop,
	}
	for name, cancel := range cancels {
		for _, when := range []string{"before Run", "without a slot", "while shutting down"} {
			t.Run(name+" "+when, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { cancelEarly(t, chat, when, cancel) })
			})
		}
	}
}

func cancelEarly(
	t *testing.T, chat session.Key, when string,
	cancel func(s *agent.Session, ctx context.Context) error,
) {
	ctx := t.Context()
	var read []string
	cfg := configWith(func(_ context.Context, tn *agent.Turn) (agent.Result, error) {
		if tn.Session.Key != chat {
			time.Sleep(time.Minute) // holds the slot
			return textResult("done")
		}
		for _, m := range tn.Messages {
			read = append(read, m.Text)
		}
		return textResult("answer")
	})
	cfg.Rules.MaxSessions = 1
	cfg.Store = session.NewMemory()
	open := func() (*agent.Runtime, chan error) {
		rt, err := agent.Open(ctx, cfg)
		require.NoError(t, err)
		return rt, make(chan error, 1)
	}
	post := func(rt *agent.Runtime, key session.Key, text string) {
		require.NoError(t, errorOf(rt.Session(key).Post(ctx, agent.Incoming{Text: text})))
		synctest.Wait()
	}
	rt, ran := open()
	run := func() { go func() { ran <- rt.Run(ctx) }(); synctest.Wait() }
	if when != "before Run" {
		run()
		post(rt, topKey, "hold")
	}
	stopped := make(chan error, 1)
	if when == "while shutting down" {
		go func() { stopped <- rt.Shutdown(ctx) }()
		synctest.Wait()
	}
	post(rt, chat, "important")
	require.NoError(t, cancel(rt.Session(chat), ctx))
	if when == "while shutting down" {
		require.NoError(t, <-stopped)
		require.NoError(t, <-ran)
		rt, ran = open()
	}
	if when != "without a slot" {
		run()
	}
	time.Sleep(time.Hour)
	require.NoError(t, rt.Session(chat).Idle(ctx))
	require.Empty(t, read, "the turn does not begin")
	post(rt, chat, "next")
	require.NoError(t, rt.Session(chat).Idle(ctx))
	require.Equal(t, []string{"important", "next"}, read)
	require.NoError(t, rt.Shutdown(ctx))
	require.NoError(t, <-ran)
}
