package agent_test

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/announce"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// playsEveryCrash reports whether agenttest.EveryCrash leaves none out. A test that counts what its
// crashes have met counts only then.
func playsEveryCrash() bool {
	n := os.Getenv(everyCrash)
	return n == "" || n == "1"
}

// plays reports whether a test has its n-th world, of which it has many: one in 17 where the
// environment says one crash in 16, so that what comes by turns is not left out by turns.
func plays(n int) bool {
	of, err := strconv.Atoi(os.Getenv(everyCrash))
	return err != nil || of < 2 || n%(of|1) == 0
}

func TestRestartInTheMiddle(t *testing.T) {
	s := script{
		"main": {
			andStart(andStart(startStep("slow"), "quick"), "queued"), say("On it."),
			echo(),
		},
		"slow":    {say("never said").After(time.Hour)},
		"quick":   {say("quick is done").After(time.Minute)},
		"queued":  {startStep("helper"), yieldStep(), echo()},
		"helper":  {say("helper is done").After(time.Hour)},
		"another": {say("x")},
	}
	rules := rulesForDepth(2)
	rules.Subagents.MaxConcurrent = 2
	agenttest.Run(t, agent.Config{Rules: rules}, s, func(h *harness) {
		h.Post("go")
		time.Sleep(30 * time.Second) // slow and quick are at work, queued waits for the lane
		require.Equal(t, map[string]spawn.Status{
			"slow":  spawn.StatusRunning,
			"quick": spawn.StatusRunning, "queued": spawn.StatusQueued,
		}, statuses(h.Runs()))
		h.Crash()
		require.Equal(t, spawn.StatusInterrupted, h.Child("slow").Status)
		require.Equal(t, spawn.StatusInterrupted, h.Child("quick").Status)
		require.Equal(t, spawn.StatusWaiting, h.Child("queued").Status,
			"a run that had not started is started now")
		time.Sleep(10 * time.Minute)
		require.Equal(t, 1, h.Calls("slow"), "what was interrupted is not run again")
		h.Crash()
		time.Sleep(2 * time.Hour)
		for _, d := range h.Replies() {
			require.NotContains(t, d.Reply.Text, "never said")
		}
	})
}

// A process that stops in good order lets turns finish, and starts no further ones; the next one
// goes on.
func TestShutdownAndStartAgain(t *testing.T) {
	cfg := configAnswering(asText)
	store := session.NewMemory()
	cfg.Store = store
	cfg.Rules.Subagents.MaxConcurrent = 1
	inner := cfg.Runner
	cfg.Runner = agent.RunnerFunc(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
		time.Sleep(time.Minute)
		return inner.Run(ctx, tn)
	})
	agenttest.Run(t, cfg, nil, func(h *harness) {
		children := startAll(h, "1", "2")
		time.Sleep(time.Second)
		ctx, cancel := context.WithTimeout(h.Context(), time.Hour)
		defer cancel()
		began := time.Now()
		require.NoError(t, h.Runtime().Shutdown(ctx))
		require.Equal(t, 59*time.Second, time.Since(began))
		_, err := children[0].Info(h.Context())
		require.Error(t, err, "it is shut down")
		h.Crash() // the next process
		time.Sleep(time.Hour / 2)
		require.Equal(t, map[string]spawn.Status{"1": spawn.StatusOK, "2": spawn.StatusOK},
			statuses(h.Runs()))
	})
}

// spawnForCaller spawns the run "a", whose end goes to the caller, over every crash.
func spawnForCaller(h *harness) {
	err := h.Do(func(rt *agent.Runtime) error {
		task := agent.Task{Text: "x", Label: "a", Key: "k", Announce: true}
		_, err := agent.Spawn[string](h.Context(), rt.Session(topKey), task)
		return err
	})
	require.NoError(h.T(), err)
}

// Scenarios that must hold wherever the process dies: nothing is lost, nothing comes twice, nothing
// waits for ever. What the harness itself checks at the end of each run is the test.
func TestEveryCrash(t *testing.T) {
	rules := rulesForDepth(3)
	rules.Subagents.MaxConcurrent = 2
	for name, c := range map[string]struct {
		script script
		cfg    agent.Config
		f      func(h *harness)
	}{
		"two children": {
			script: script{
				"main": {andStart(startStep("a"), "b"), say("On it."), echo()},
				"a":    {say("a is done").After(time.Second)},
				"b":    {say("b is done").After(time.Second)},
			},
			f: func(h *harness) { h.Post("go") },
		},
		"nested, with yields": {
			script: script{
				"main": {startStep("a"), yieldStep(), echo()},
				"a":    {andStart(startStep("b"), "c"), yieldStep(), echo()},
				"b":    {say("b is done").After(time.Minute)},
				"c":    {startStep("d"), yieldStep(), echo()},
				"d":    {say("d is done").After(time.Second)},
			},
			f: func(h *harness) { h.Post("go") },
		},
		"silent child": {
			script: script{
				"main": {startStep("a"), yieldStep(), say("done")},
				"a":    {say(announce.AnnounceSkip).After(time.Second)},
			},
			f: func(h *harness) { h.Post("go") },
		},
		"failing child": {
			script: script{
				"main": {startStep("a"), say("On it."), echo()},
				"a":    {agenttest.Fail(fmt.Errorf("boom")).After(time.Second)},
			},
			f: func(h *harness) { h.Post("go") },
		},
		"people who go on talking": {
			script: script{
				"main": {startStep("a"), say("On it."), echo()},
				"a":    {say("a is done").After(time.Minute)},
			},
			f: func(h *harness) {
				h.Post("go")
				time.Sleep(59 * time.Second)
				h.Post("hello?")
				time.Sleep(time.Second)
				h.Post("hello again")
			},
		},
		"a session of the caller's": {
			script: script{
				"a": {startStep("b"), yieldStep(), echo()},
				"b": {say("b is done").After(time.Second)},
			},
			cfg: agent.Config{Deliver: func(context.Context, agent.Delivery) error {
				return nil
			}},
			f: spawnForCaller,
		},
		// the end of the lower one goes up, past the upper one, which ends without reading it
		"two at work for the caller": {
			script: script{
				"a": {startStep("b"), say("a is done").After(time.Hour)},
				"b": {say("b is done").After(time.Hour)},
			},
			cfg: agent.Config{Deliver: func(context.Context, agent.Delivery) error {
				return nil
			}},
			f: func(h *harness) {
				spawnForCaller(h)
				time.Sleep(time.Second)
				h.Crash()
			},
		},
		"archive": {
			script: script{
				"main": {startStep("a"), say("On it."), echo()},
				"a":    {say("a is done")},
			},
			f: func(h *harness) { h.Post("go"); time.Sleep(2 * time.Hour); h.Post("hello?") },
		},
		"stop": {
			script: script{
				"main": {startStep("a"), say("On it."), echo()},
				"a":    {startStep("b"), yieldStep(), echo()}, "b": {agenttest.Hang()},
			},
			f: func(h *harness) {
				h.Post("go")
				time.Sleep(time.Minute)
				err := h.Do(func(rt *agent.Runtime) error {
					return rt.Session(topKey).Stop(h.Context())
				})
				require.NoError(h.T(), err)
				for _, r := range h.Runs() {
					require.True(h.T(), r.Status.Terminal(), "%s is %v after Stop", r.Label,
						r.Status)
				}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := c.cfg
			cfg.Rules = rules
			agenttest.EveryCrash(t, cfg, c.script, c.f)
		})
	}
}

// A spawn call of a turn that a crash interrupted is not repeated: the retried turn gets the
// sub-agent that there is.
func TestRetriedTurnSpawnsOnce(t *testing.T) {
	var mu sync.Mutex
	var admitted []string
	retried := false
	cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
		if tn.Run != "" {
			return agent.Result{Text: "42"}, pause(ctx, time.Hour)
		}
		if tn.N == 1 || tn.Retry {
			out, err := tn.Call(ctx, agent.ToolCall{
				ID: "call_0", Name: "sessions_spawn",
				Args: []byte(`{"task":"x","label":"a"}`),
			})
			if err != nil {
				return agent.Result{}, err
			}
			mu.Lock()
			id, _, _ := strings.Cut(out.Text, `,"mode"`) // behind it is what has become of it
			admitted = append(admitted, id)
			retried = retried || tn.Retry
			mu.Unlock()
			return agent.Result{Text: "On it."}, pause(ctx, time.Minute)
		}
		return textResult("done")
	})
	agenttest.Run(t, cfg, nil, func(h *harness) {
		h.Post("go")
		time.Sleep(time.Second)
		h.Crash()
		time.Sleep(2 * time.Minute)
		mu.Lock()
		defer mu.Unlock()
		require.True(t, retried)
		require.Len(t, admitted, 2)
		require.Equal(t, admitted[0], admitted[1])
		require.Len(t, h.Runs(), 1)
	})
}
