package agent_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// An orchestrator that waits holds no slot, so a lane of one is enough for any depth: by yielding
// ...
func TestNestedOrchestratorsYieldInALaneOfOne(t *testing.T) {
	for _, levels := range []int{2, 5} {
		t.Run(fmt.Sprint(levels), func(t *testing.T) {
			rules := rulesForDepth(levels)
			rules.Subagents.MaxConcurrent = 1
			s := script{"main": {startStep("l1"), say("On it."), echo()}}
			for i := 1; i < levels; i++ {
				s[fmt.Sprintf("l%d", i)] = []agenttest.Step{
					startStep(fmt.Sprintf("l%d", i+1)),
					yieldStep(), echo(),
				}
			}
			s[fmt.Sprintf("l%d", levels)] = []agenttest.Step{say("from the deep").After(time.Minute)}
			agenttest.Run(t, agent.Config{Rules: rules}, s, func(h *harness) {
				h.Post("go")
				time.Sleep(2 * time.Minute)
				h.Replied("On it.", "from the deep")
				runs := h.Runs()
				require.Len(t, runs, levels)
				for i, r := range runs {
					require.Equal(t, spawn.StatusOK, r.Status)
					require.Equal(t, i+1, r.Depth)
					require.Equal(t, "from the deep", r.Result.Text)
				}
				require.Equal(t, 3, h.Calls("l1"), "waiting calls no model")
			})
		})
	}
}

// ... or by waiting within the turn.
func TestNestedOrchestratorsWaitInALaneOfOne(t *testing.T) {
	const levels, width = 5, 2
	rules := rulesForDepth(levels)
	rules.Subagents.MaxConcurrent = 1
	var mu sync.Mutex
	working := 0
	cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
		work := func() {
			mu.Lock()
			working++
			require.Equal(t, 1, working, "turns that work at once")
			mu.Unlock()
			time.Sleep(time.Second)
			mu.Lock()
			working--
			mu.Unlock()
		}
		work()
		if tn.Session.Depth == levels {
			return textResult("1")
		}
		var children []*agent.Child[string]
		for i := range width {
			c, err := tn.Spawn(ctx, agent.Task{Text: fmt.Sprint("part ", i)})
			if err != nil {
				return agent.Result{}, err
			}
			children = append(children, c)
		}
		outcomes, err := tn.Wait(ctx, children, agent.JoinOptions{})
		if err != nil {
			return agent.Result{}, err
		}
		work()
		sum := ""
		for _, o := range outcomes {
			sum += o.Value
		}
		return textResult(sum)
	})
	cfg.Rules = rules
	agenttest.Run(t, cfg, nil, func(h *harness) {
		c, err := agent.Spawn[string](h.Context(),
			h.Session(session.Must(session.NamedKey("main", "job"))), agent.Task{Text: "all of it"})
		require.NoError(t, err)
		got, err := c.Wait(h.Context())
		require.NoError(t, err)
		require.Equal(t, "1111111111111111", got)
		require.Len(t, h.Runs(), 1+2+4+8+16)
	})
}

// Queued runs are taken first come first served, and round robin over requesters.
func TestLaneIsFair(t *testing.T) {
	var mu sync.Mutex
	var order []string
	cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
		mu.Lock()
		order = append(order, tn.Label)
		mu.Unlock()
		time.Sleep(time.Second)
		return textResult("ok")
	})
	cfg.Rules.Subagents.MaxConcurrent = 1
	agenttest.Run(t, cfg, nil, func(h *harness) {
		for _, label := range []string{"a1", "a2", "a3", "b1", "b2", "c1"} {
			s := h.Session(session.Must(session.NamedKey("main", label[:1])))
			_, err := agent.Spawn[string](h.Context(), s, agent.Task{Text: "work", Label: label})
			require.NoError(t, err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, []string{"a1", "a2", "b1", "c1", "a3", "b2"}, order)
	})
}

func TestRefusalsAtTheDepthLimit(t *testing.T) {
	s := script{
		"main": {startStep("l1"), say("ok"), echo()},
		"l1":   {call("sessions_spawn", `{"task":"no"}`), echo()},
	}
	agenttest.Run(t, agent.Config{}, s, func(h *harness) {
		h.Post("go")
		time.Sleep(time.Minute)
		require.Len(t, h.Runs(), 1)
		require.Contains(t, h.Child("l1").Result.Text, "sessions_spawn",
			"a leaf does not have the tool")
	})
}
