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

// named spawns a sub-agent with a name through the tool.
func named(h *harness, name, label string) map[string]any {
	h.T().Helper()
	out, err := callTool(h, "sessions_spawn", "s", fmt.Sprintf(
		`{"task":"work","taskName":%q,"label":%q}`, name, label))
	require.NoError(h.T(), err)
	return out
}

// Section 2 "Work": a taskName is a target of every tool, and is shown wherever sub-agents are.
func TestTaskName(t *testing.T) {
	cfg := configHanging(policy.Rules{})
	agenttest.Run(t, cfg, nil, func(h *harness) {
		t, ctx := h.T(), h.Context()
		out := named(h, "scout", "guide") // its label is the name of the other
		require.Equal(t, "accepted", out["status"])
		require.Equal(t, "scout", out["taskName"])
		other := named(h, "guide", "scout")
		require.NotContains(t, named(h, "", "x"), "taskName")

		list, err := callTool(h, "subagents", "1", `{}`)
		require.NoError(t, err)
		lines := list["subagents"].([]any)
		require.NotContains(t, lines[0], "taskName")
		require.Equal(t, "guide", lines[1].(map[string]any)["taskName"])
		require.Equal(t, "scout", lines[2].(map[string]any)["taskName"])

		info, err := callTool(h, "subagents", "1", `{"action":"info","target":" scout "}`)
		require.NoError(t, err)
		require.Equal(t, out["runId"], info["runId"], "a name goes before a label")
		require.Equal(t, "scout", info["taskName"])
		steered, err := callTool(h, "subagents", "1",
			`{"action":"steer","target":"scout","message":"left"}`)
		require.NoError(t, err)
		require.Equal(t, out["runId"], steered["runId"])
		sent, err := callTool(h, "sessions_send", "1", `{"target":"guide","message":"hello"}`)
		require.NoError(t, err)
		require.Equal(t, other["childSessionKey"], sent["sessionKey"])
		killed, err := callTool(h, "subagents", "1", `{"action":"kill","target":"scout"}`)
		require.NoError(t, err)
		require.Equal(t, []any{out["runId"]}, killed["stopped"])

		for target, want := range map[string]string{
			"Scouts": `"Scouts": it names none`, "cout": `"cout": it names none`,
		} {
			_, err := callTool(h, "subagents", "1", `{"action":"info","target":"`+target+`"}`)
			require.ErrorContains(t, err, want)
		}
		boss := h.Session(session.Must(session.NamedKey("main", "other")))
		_, err = callToolOf(h, boss.Tools(), "subagents", "1", `{"action":"info","target":"guide"}`)
		require.ErrorContains(t, err, "names none", "names are a requester's own")
		_, err = boss.Named(ctx, "guide")
		require.ErrorIs(t, err, agent.ErrNotFound)
		require.NoError(t, h.Main().Stop(ctx))
	})
}

// A name that is taken, or that is not one, leaves nothing behind, and the model is told why.
func TestTaskNameThatIsRefused(t *testing.T) {
	agenttest.Run(t, configHanging(policy.Rules{}), nil, func(h *harness) {
		t, ctx := h.T(), h.Context()
		out := named(h, "scout", "")
		for _, args := range []string{
			`{"task":"other","taskName":"scout"}`, `{"task":"other","task_name":"scout"}`,
			`{"task":"other","taskName":" scout\n"}`,
		} {
			got, err := callTool(h, "sessions_spawn", "2", args)
			require.NoError(t, err)
			require.Equal(t, "error", got["status"])
			for _, part := range []string{`"scout" has not ended`, out["runId"].(string), "sessions_send"} {
				require.Contains(t, got["error"], part)
			}
		}
		_, err := h.Main().Spawn(ctx, agent.Task{Text: "x", Name: "scout"})
		taken, ok := errors.AsType[*spawn.NameTakenError](err)
		require.True(t, ok, "%v", err)
		require.Equal(t, spawn.NameTakenError{
			Requester: topKey, Name: "scout", Run: out["runId"].(string),
			Session: session.Must(session.Parse(out["childSessionKey"].(string))),
		}, *taken)
		for name, want := range map[string]string{
			"Scout": "a letter from a to z", "2nd": "a letter from a to z", "a b": "a letter",
			"all": "not the name of one sub-agent", "last": "not the name of one sub-agent",
			strings.Repeat("a", 65): "at most 63 of", out["runId"].(string): "",
			"abcdefab-0000-4000-8000-000000000000": "form of a run id",
		} {
			_, err := callTool(h, "sessions_spawn", "3", fmt.Sprintf(`{"task":"x","taskName":%q}`, name))
			bad, ok := errors.AsType[*agent.ArgumentError](err)
			require.True(t, ok, "%s: %v", name, err)
			require.Equal(t, "taskName", bad.Argument)
			require.Contains(t, bad.Reason, want)
			_, err = h.Main().Spawn(ctx, agent.Task{Text: "x", Name: name})
			wrong, ok := errors.AsType[*agent.InputError](err)
			require.True(t, ok, "%s: %v", name, err)
			require.Equal(t, "name", wrong.Field)
		}
		_, err = callTool(h, "sessions_spawn", "4", `{"task":"x","taskName":"a","task_name":"b"}`)
		require.ErrorContains(t, err, "another name of taskName")
		require.Len(t, h.Runs(), 1)
		require.NoError(t, h.Main().Stop(ctx))
	})
}

// A name goes on naming its session when a run has ended, over restarts of the process, until
// another session is given it.
func TestTaskNamePassesOn(t *testing.T) {
	cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
		return agent.Result{Text: "done: " + tn.Input()}, pause(ctx, time.Minute)
	})
	cfg.Deliver = func(context.Context, agent.Delivery) error { return nil }
	agenttest.Run(t, cfg, nil, func(h *harness) {
		t, ctx := h.T(), h.Context()
		first := named(h, "scout", "one")
		h.Pass(time.Hour / 2)
		h.Crash()
		sent, err := callTool(h, "sessions_send", "1", `{"target":"scout","message":"go on"}`)
		require.NoError(t, err)
		require.Equal(t, first["childSessionKey"], sent["sessionKey"], "a follow-up by name")
		require.NotEqual(t, first["runId"], sent["runId"])
		require.Equal(t, "error", named(h, "scout", "two")["status"], "its second run is under way")
		info, err := h.Main().Named(ctx, "scout")
		require.NoError(t, err)
		require.Equal(t, sent["runId"], string(info.ID))
		receipt := agent.Receipt{Session: info.Key, Run: info.ID}
		child, err := agent.ChildOf[string](ctx, h.Main(), receipt)
		require.NoError(t, err)
		_, err = child.Wait(ctx)
		require.NoError(t, err)

		second := named(h, "scout", "two")
		require.Equal(t, "accepted", second["status"])
		h.Crash()
		info, err = h.Main().Named(ctx, "scout")
		require.NoError(t, err)
		require.Equal(t, second["runId"], string(info.ID))
		require.Empty(t, h.Child("one").Name)
		_, err = h.Main().Named(ctx, "")
		require.ErrorIs(t, err, agent.ErrNotFound)
		h.Pass(24 * time.Hour)
		_, err = h.Main().Named(ctx, "scout")
		require.ErrorIs(t, err, agent.ErrNotFound, "it was archived")
		require.Equal(t, "accepted", named(h, "scout", "three")["status"])
	})
}

// A turn is shown what its sub-agents are called, in the list of its prompt and with their results.
func TestTaskNameInPrompts(t *testing.T) {
	steps := script{
		agenttest.Main: {
			call("sessions_spawn", `{"task":"a","label":"fast","taskName":"hare"}`).
				And("sessions_spawn", `{"task":"b","label":"slow","taskName":"tortoise"}`),
			say("begun"), echo(), echo(),
		},
		"fast": {say("first").After(time.Minute)},
		"slow": {say("second").After(time.Hour)},
	}
	agenttest.Run(t, agent.Config{Rules: rulesForDepth(1)}, steps, func(h *harness) {
		h.Post("go")
		h.Pass(2 * time.Minute)
		h.Prompted(agenttest.Main, `name `+"`tortoise`"+`, label `+"`slow`")
		h.NotPrompted(agenttest.Main, "hare")
		h.Told(agenttest.Main, "\ntask name: hare\ntask: fast\n")
		h.Pass(2 * time.Hour)
		h.Told(agenttest.Main, "\ntask name: tortoise\ntask: slow\n")
	})
}
