package agent_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// controlCases are the rows of what is done to a run, behind those of lifeCases.
var controlCases = []lifeCase{
	{
		id: "5.20", given: "kill, three levels", expect: "all end, none is told",
		differs: "who spawned the uppermost is told once, and none of those that were killed",
		run:     killOfThreeLevels,
	},
	{
		id: "5.21", given: "kill of an ended parent, a live child", expect: "the child is killed",
		differs: "no parent has ended whose child lives: one that has answered waits, and is killed " +
			"with its child",
		run: killOfAParentThatAnswered,
	},
	{id: "5.22", given: "kill all, none runs", expect: "none is killed", run: killOfNone},
	{id: "5.23", given: "a steer of 4,001 characters", expect: "an error", run: steerTooLong},
	{id: "5.24", given: "two steers in a second", expect: "the second is refused", run: steerTwice},
	{
		id: "5.25", given: "a steer", expect: "a new run, one end is told",
		differs: "the run goes on and reads the message: a restart would lose what it knows",
		run:     steerIsRead,
	},
	{
		id: "5.26", given: "a steer, the run has ended", expect: "its end is told",
		differs: "a steer starts nothing, so that nothing can fail to start",
		run:     steerComesTooLate,
	},
	{id: "5.27", given: "a leaf steers its sibling", expect: "refused", run: leafControlsSibling},
	{id: "5.28", given: "A kills what B spawned", expect: "refused", run: nephewIsKilled},
	{id: "5.29", given: "recentMinutes 0, 99999", expect: "30, 1440", run: recentMinutes},
	{
		id: "5.30", given: "tree, a child of another agent", expect: "a decision",
		differs: "it is seen, as all is that a session has spawned",
		run:     childOfAnotherAgentIsSeen,
	},
}

// killed has a turn of the main session kill a target, after a minute, and returns the answer.
func killed(h *harness, target string) map[string]any {
	h.T().Helper()
	h.Pass(time.Minute)
	out, err := callTool(h, "subagents", "kill", `{"action":"kill","target":"`+target+`"}`)
	require.NoError(h.T(), err)
	h.Pass(time.Hour / 2)
	return out
}

func killOfThreeLevels(t *testing.T) {
	s := script{
		"main": {startStep("a"), say("On it."), echo()}, "a": {startStep("b"), yieldStep()},
		"b": {startStep("c"), yieldStep()}, "c": {agenttest.Hang()},
	}
	log := &hookLog{}
	cfg := agent.Config{Rules: rulesForDepth(3), Hooks: log.hooks(nil)}
	agenttest.Run(t, cfg, s, func(h *harness) {
		h.Post("go")
		id := string(h.Child("a").ID)
		require.Equal(t, []any{id}, killed(h, id)["stopped"])
		require.Equal(t, map[string]spawn.Status{
			"a": spawn.StatusCancelled, "b": spawn.StatusCancelled, "c": spawn.StatusCancelled,
		}, statuses(h.Runs()))
		require.Len(t, log.ends(), 3)
		require.Equal(t, []int{2, 2, 1}, []int{h.Calls("a"), h.Calls("b"), h.Calls("c")},
			"none of them is woken")
		h.Replied("On it.", "a: cancelled")
	})
}

func killOfAParentThatAnswered(t *testing.T) {
	s := script{
		"main": {startStep("a"), say("On it."), echo()}, "a": {startStep("b"), say("so far so good")},
		"b": {agenttest.Hang()},
	}
	agenttest.Run(t, agent.Config{Rules: rulesForDepth(2)}, s, func(h *harness) {
		h.Post("go")
		h.Pass(time.Second)
		require.Equal(t, agent.StatusWaiting, h.Child("a").Status)
		require.Equal(t, []any{string(h.Child("a").ID)}, killed(h, "a")["stopped"])
		require.Equal(t, spawn.StatusCancelled, h.Child("b").Status)
		require.Equal(t, spawn.StatusCancelled, h.Child("a").Status)
		require.Equal(t, "so far so good", h.Child("a").Result.Text)
		h.Replied("On it.", "a: cancelled")
	})
}

func killOfNone(t *testing.T) {
	cfg := configTimed()
	agenttest.Run(t, cfg, nil, func(h *harness) {
		for _, tasks := range [][]string{nil, {"1s", "2s"}} { // none, and ended ones
			startAll(h, tasks...)
			out := killed(h, "all")
			require.Equal(t, "ok", out["status"])
			require.Empty(t, out["stopped"])
		}
		require.Equal(t, map[string]spawn.Status{"1s": spawn.StatusOK, "2s": spawn.StatusOK},
			statuses(h.Runs()))
	})
}

// steered calls the action steer of a program's own session.
func steered(h *harness, target, message string) error {
	h.T().Helper()
	_, err := callTool(h, "subagents", message,
		fmt.Sprintf(`{"action":"steer","target":%q,"message":%q}`, target, message))
	return err
}

func steerTooLong(t *testing.T) {
	agenttest.Run(t, configTimed(), nil, func(h *harness) {
		child := startAll(h, "1m")[0]
		h.Pass(time.Second)
		long := strings.Repeat("ä", 4001)
		require.ErrorContains(t, steered(h, "1m", long), "4001 characters, the limit is 4000")
		require.NoError(t, steered(h, "1m", long[2:]), "a refusal is not counted")
		said, err := child.Wait(h.Context())
		require.NoError(t, err)
		require.Equal(t, "after 1m", said)
		require.Equal(t, 1, h.Child("1m").Turns)
	})
}

func steerTwice(t *testing.T) {
	agenttest.Run(t, configTimed(), nil, func(h *harness) {
		startAll(h, "1m", "2m")
		require.NoError(t, steered(h, "1m", "left"))
		h.Pass(time.Second)
		refusal, ok := errors.AsType[*policy.Refusal](steered(h, "1m", "right"))
		require.True(t, ok)
		require.Contains(t, refusal.Limit, "one in 2s")
		require.NoError(t, steered(h, "2m", "right"), "another one has a pause of its own")
		h.Pass(time.Second)
		require.NoError(t, steered(h, "1m", "right"))
	})
}

func steerIsRead(t *testing.T) {
	s := script{
		"main": {
			startStep("a"), say("On it."),
			call("subagents", `{"action":"steer","target":"a","message":"the other file"}`),
			say("Told it."), echo(),
		},
		"a": {call("ls", `{}`).After(time.Minute), say("a is done").After(time.Minute)},
	}
	agenttest.Run(t, agent.Config{Tools: toolbox("ls")}, s, func(h *harness) {
		h.Post("go")
		h.Pass(time.Second)
		before := h.Child("a")
		h.Post("it is the other file")
		h.Pass(time.Hour / 2)
		h.Told("a", "ran ls", "the other file")
		after := h.Child("a")
		require.Equal(t, before.ID, after.ID)
		require.Equal(t, before.Key, after.Key)
		require.Equal(t, 1, after.Turns)
		h.Replied("On it.", "Told it.", "a is done")
	})
}

func steerComesTooLate(t *testing.T) {
	cfg := configTimed()
	cfg.Deliver = func(context.Context, agent.Delivery) error { return nil }
	agenttest.Run(t, cfg, nil, func(h *harness) {
		_, err := callTool(h, "sessions_spawn", "1", `{"task":"1m","label":"a"}`)
		require.NoError(t, err)
		h.Pass(time.Minute - time.Second)
		require.NoError(t, steered(h, "a", "hurry"), "its turn does not read it any more")
		h.Pass(time.Minute)
		require.ErrorIs(t, steered(h, "a", "too late"), agent.ErrEnded)
		h.Pass(10 * time.Minute)
		require.Len(t, h.Runs(), 1)
		h.Delivered("after 1m")
	})
}

// controlled calls an action of subagents with a session as its target.
func controlled(h *harness, by session.Key, action string, target session.Key) error {
	h.T().Helper()
	_, err := callToolOf(h, h.Session(by).Tools(), "subagents", action,
		fmt.Sprintf(`{"action":%q,"target":%q,"message":"x"}`, action, target))
	return err
}

func leafControlsSibling(t *testing.T) {
	cfg := configTimed()
	cfg.Rules.SubagentTools.AlsoAllow = []string{"subagents"} // which a leaf has not by default
	agenttest.Run(t, cfg, nil, func(h *harness) {
		leaf, sibling := startAll(h, "1m", "2m")[0], h.Child("2m")
		for _, action := range []string{"steer", "kill", "info", "log", "send"} {
			err := controlled(h, leaf.Key(), action, sibling.Key)
			require.ErrorContains(t, err, "it names none of this session's sub-agents", action)
		}
		h.Pass(time.Second)
		require.Equal(t, spawn.StatusRunning, h.Child("2m").Status)
	})
}

func nephewIsKilled(t *testing.T) {
	cfg := configTimed()
	cfg.Rules = rulesForDepth(2)
	agenttest.Run(t, cfg, nil, func(h *harness) {
		a, b := startAll(h, "1m", "2m")[0], h.Child("2m")
		nephew, err := h.Session(b.Key).Spawn(h.Context(), agent.Task{Text: "90s", Label: "90s"})
		require.NoError(t, err)
		for _, action := range []string{"kill", "steer"} {
			err := controlled(h, a.Key(), action, nephew.Key())
			require.ErrorContains(t, err, "it names none of this session's sub-agents", action)
		}
		h.Pass(time.Second)
		require.Equal(t, spawn.StatusRunning, h.Child("90s").Status)
		require.NoError(t, controlled(h, b.Key, "kill", nephew.Key()))
		require.Equal(t, spawn.StatusCancelled, h.Child("90s").Status)
	})
}

func recentMinutes(t *testing.T) {
	cfg := configTimed()
	cfg.Rules.Subagents.ArchiveAfter = policy.Off
	agenttest.Run(t, cfg, nil, func(h *harness) {
		startAll(h, "1m", "90m", "24h")
		shown := func(minutes string) (labels []string) {
			out, err := callTool(h, "subagents", "1", `{"recentMinutes":`+minutes+`}`)
			require.NoError(t, err)
			for _, x := range out["subagents"].([]any) {
				labels = append(labels, x.(map[string]any)["label"].(string))
			}
			return labels
		}
		h.Pass(2 * time.Hour) // ended: 119 and 30 minutes ago
		require.Equal(t, []string{"24h", "90m"}, shown("0"))
		require.Equal(t, []string{"24h", "90m", "1m"}, shown("119"))
		h.Pass(time.Minute)
		require.Equal(t, []string{"24h"}, shown("0"))
		require.Equal(t, []string{"24h", "90m"}, shown("31"))
		require.Equal(t, []string{"24h", "90m", "1m"}, shown("99999"))
		h.Pass(22*time.Hour + time.Minute) // 24 hours and a minute since the first one ended
		require.Equal(t, []string{"24h", "90m"}, shown("99999"))
	})
}

func childOfAnotherAgentIsSeen(t *testing.T) {
	cfg := configTimed()
	cfg.Rules = allowing([]string{"*"}, "other")
	cfg.Deliver = func(context.Context, agent.Delivery) error { return nil }
	agenttest.Run(t, cfg, nil, func(h *harness) {
		out, err := callTool(h, "sessions_spawn", "1", `{"task":"1m","agentId":"other"}`)
		require.NoError(t, err)
		key := out["childSessionKey"].(string)
		require.Contains(t, key, "agent:other:")
		h.Pass(time.Second)
		list, err := callTool(h, "sessions_list", "1", `{}`)
		require.NoError(t, err)
		require.Contains(t, fmt.Sprint(list), key)
		h.Pass(2 * time.Minute)
		page, err := callTool(h, "sessions_history", "1", `{"sessionKey":"`+key+`"}`)
		require.NoError(t, err)
		require.Contains(t, fmt.Sprint(page), "after 1m")
	})
}
