package agent_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

var topKey = session.Must(session.MainKey("main"))

// Short names for scripts.
type (
	script  = agenttest.Script
	harness = agenttest.Harness
)

var (
	say  = agenttest.Say
	call = agenttest.Call
	echo = agenttest.Echo
)

// startStep is a call of sessions_spawn.
func startStep(label string) agenttest.Step {
	return call("sessions_spawn", fmt.Sprintf(`{"task":"do %s","label":%q}`, label, label))
}

// andStart is another one in the same answer.
func andStart(s agenttest.Step, label string) agenttest.Step {
	return s.And("sessions_spawn", fmt.Sprintf(`{"task":"do %s","label":%q}`, label, label))
}

func yieldStep() agenttest.Step { return call("sessions_yield", `{}`) }

// rulesForDepth are rules under which trees have so many levels.
func rulesForDepth(levels int) policy.Rules {
	return policy.Rules{Subagents: policy.Subagents{MaxSpawnDepth: levels, MaxChildren: 20}}
}

// configWith is a Config with a Runner of one function.
func configWith(f func(ctx context.Context, t *agent.Turn) (agent.Result, error)) agent.Config {
	return agent.Config{Runner: agent.RunnerFunc(f)}
}

// textCall makes the Call of a tool of a function that returns a text.
func textCall(
	f func(ctx context.Context, c agent.ToolCall) (string, error),
) func(context.Context, agent.ToolCall) (agent.ToolResult, error) {
	return func(ctx context.Context, c agent.ToolCall) (agent.ToolResult, error) {
		out, err := f(ctx, c)
		return agent.ToolResult{Text: out}, err
	}
}

// toolSaying makes the Call of a tool that always answers the same.
func toolSaying(s string) func(context.Context, agent.ToolCall) (agent.ToolResult, error) {
	return textCall(func(context.Context, agent.ToolCall) (string, error) { return s, nil })
}

// textResult is what a Runner returns that has an answer.
func textResult(s string) (agent.Result, error) { return agent.Result{Text: s}, nil }

// pause lets time pass until ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// findTool returns a tool of a list.
func findTool(t testing.TB, tools []agent.Tool, name string) agent.Tool {
	t.Helper()
	for _, x := range tools {
		if x.Name == name {
			return x
		}
	}
	require.Fail(t, "no tool "+name)
	return agent.Tool{}
}

// toolNamesOf returns the names of tools.
func toolNamesOf(tools []agent.Tool) []string {
	list := make([]string, len(tools))
	for i, t := range tools {
		list[i] = t.Name
	}
	return list
}

// callTool calls a session tool of the main session as a caller's own loop would.
func callTool(h *harness, name, id, args string) (map[string]any, error) {
	return callToolOf(h, h.Main().Tools(), name, id, args)
}

func callToolOf(
	h *harness, tools []agent.Tool, name, id, args string,
) (out map[string]any, err error) {
	h.T().Helper()
	answer, err := findTool(h.T(), tools, name).Call(h.Context(),
		agent.ToolCall{ID: id, Name: name, Args: json.RawMessage(args)})
	if err == nil {
		require.NoError(h.T(), json.Unmarshal([]byte(answer.Text), &out), answer.Text)
	}
	return out, err
}

// statuses returns the statuses of runs by label.
func statuses(runs []agent.RunInfo) map[string]spawn.Status {
	m := make(map[string]spawn.Status, len(runs))
	for _, r := range runs {
		m[r.Label] = r.Status
	}
	return m
}
