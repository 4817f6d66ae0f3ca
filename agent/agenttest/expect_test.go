package agenttest_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
)

// A10: what the model was given can be expected: prompts, tools and messages; the clock of the
// prompts can be set; events are collected over crashes.
func TestExpectations(t *testing.T) {
	ls := agent.Tool{
		Name: "ls",
		Call: listFiles,
	}
	s := agenttest.Script{
		agenttest.Main: {
			agenttest.Call("ls", `{}`),
			agenttest.Call("sessions_spawn", `{"task":"count","label":"counter"}`),
			agenttest.Say("I am on it."), agenttest.Say("12."),
		},
		"counter": {agenttest.Say("There are 12.").After(time.Minute)},
	}
	agenttest.Run(t, agent.Config{Tools: []agent.Tool{ls}}, s, func(h *agenttest.Harness) {
		h.Watch(h.Main().Key())
		h.Watch(h.Main().Key())
		h.SetNow(time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC))
		h.Post("How many are there?")
		h.Replied("I am on it.")
		h.Prompted(agenttest.Main, "4 March 2026", "`ls`")
		h.NotPrompted(agenttest.Main, "January 2000")
		h.Offered(agenttest.Main, "ls", "sessions_spawn", "subagents", "sessions_yield",
			"sessions_send", "agents_list", "sessions_list", "sessions_history", "session_status")
		h.Offered("counter", "ls")
		h.Told("counter", "count")
		all := h.Requests(agenttest.Main)
		require.Len(t, all, 3)
		require.Len(t, all[0].Messages, 1)
		require.Equal(t, "a.txt", all[1].Messages[2].Text)
		h.Crash()
		h.Pass(time.Hour)
		h.Replied("I am on it.", "12.")
		h.Told(agenttest.Main, "")
		require.Equal(t, time.Date(2026, 3, 4, 6, 6, 7, 0, time.UTC), h.Now().UTC())
		h.Happened(agent.EventPosted, agent.EventTurn, agent.EventAdmitted, agent.EventTurnEnded,
			agent.EventEnded, agent.EventTurn, agent.EventDelivered)
	})
}

// What a process has written, and was killed before it told of it, its successor tells of.
func TestWatchOverEveryCrash(t *testing.T) {
	s := agenttest.Script{
		"main": {
			agenttest.Call("sessions_spawn", `{"task":"count","label":"quick"}`),
			agenttest.Say("begun"), agenttest.Echo(),
		},
		"quick": {agenttest.Say("done")},
	}
	agenttest.EveryCrash(t, agent.Config{}, s, func(h *agenttest.Harness) {
		h.Watch(h.Main().Key())
		h.Post("go")
		h.Pass(time.Minute)
		if len(h.Runs()) == 0 {
			return // the turn was cut before it had spawned
		}
		h.Happened(agent.EventPosted, agent.EventAdmitted, agent.EventEnded)
		ends := map[agent.RunID]int{}
		for _, e := range h.Events() {
			if e.Kind == agent.EventEnded {
				ends[e.Run]++
			}
		}
		require.Len(h.T(), ends, len(h.Runs()))
		for run, n := range ends {
			require.Equal(h.T(), 1, n, "%s", run)
		}
	})
}

// A10: a Runner of the Config is watched like a model.
func TestExpectationsOfARunner(t *testing.T) {
	cfg := agent.Config{Runner: agent.RunnerFunc(
		func(context.Context, *agent.Turn) (agent.Result, error) {
			return agent.Result{Text: "hello"}, nil
		})}
	agenttest.Run(t, cfg, nil, func(h *agenttest.Harness) {
		h.Post("one")
		h.Replied("hello")
		h.Post("two")
		h.Told(agenttest.Main, "two")
		h.Prompted(agenttest.Main, "1 January 2000")
	})
}
