package agent_test

import (
	"context"
	"encoding/json"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// sessionCalls are calls of every session tool that a session of a caller has.
var sessionCalls = map[string]string{
	"sessions_spawn":   `{"task":"work"}`,
	"subagents":        `{}`,
	"subagents list":   `{"action":"list"}`,
	"subagents info":   `{"action":"info","target":"last"}`,
	"subagents kill":   `{"action":"kill","target":"all"}`,
	"subagents steer":  `{"action":"steer","target":"last","message":"x"}`,
	"sessions_spawn 2": `{"task":"work","model":"a/b"}`,
	"subagents log":    `{"action":"log","target":"last"}`,
	"subagents send":   `{"action":"send","target":"last","message":"x"}`,
	"agents_list":      `{}`,
	"sessions_list":    `{}`,
	"sessions_history": `{}`,
	"session_status":   `{}`,
}

// callAll calls every session tool of a list and returns the errors by the name of the call.
func callAll(ctx context.Context, tools []agent.Tool, but ...string) map[string]error {
	errs := make(map[string]error)
	for name, args := range sessionCalls {
		if slices.Contains(but, name) {
			continue
		}
		for _, tool := range tools {
			if tool.Name == name || len(name) > len(tool.Name) &&
				name[:len(tool.Name)+1] == tool.Name+" " {
				call := agent.ToolCall{ID: name, Name: tool.Name, Args: json.RawMessage(args)}
				out, err := tool.Call(ctx, call)
				if err == nil && out.Text == "" {
					err = context.Canceled // neither an answer nor an error
				}
				errs[name] = err
			}
		}
	}
	return errs
}

// A session tool works before Run and in the soft phase of a shutdown. After the shutdown every
// call returns ErrShutdown, and not an answer for the model: no model can do anything about it.
func TestSessionToolsAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := agent.Config{
			Rules: policy.Rules{
				Subagents: policy.Subagents{MaxSpawnDepth: 3, MaxChildren: 20},
			},
			Models:  agent.Models{Valid: func(string) bool { return true }},
			Deliver: func(context.Context, agent.Delivery) error { return nil },
		}
		cfg.Runner = agent.RunnerFunc(
			func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
				if tn.Label == "last" {
					time.Sleep(time.Minute)
				} else {
					<-ctx.Done()
				}
				return agent.Result{}, ctx.Err()
			},
		)
		rt, err := agent.Open(t.Context(), cfg)
		require.NoError(t, err)
		main := rt.Session(topKey)
		child, err := agent.Spawn[string](t.Context(), main, agent.Task{Text: "x", Label: "last"})
		require.NoError(t, err)
		below := rt.Session(child.Key())
		_, err = agent.Spawn[string](t.Context(), below, agent.Task{Text: "x"})
		require.NoError(t, err)

		sets := map[string][]agent.Tool{"main": main.Tools(), "below": below.Tools()}
		require.NotEmpty(t, sets["main"])
		works := func(when string) {
			for call, err := range callAll(t.Context(), sets["main"], "subagents kill") {
				require.NoError(t, err, "%s: %s", when, call)
			}
		}
		works("before Run")
		ran := make(chan error, 1)
		go func() { ran <- rt.Run(context.WithoutCancel(t.Context())) }()
		synctest.Wait()
		time.Sleep(time.Minute / 2) // until the next steer is allowed
		soft, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		down := make(chan error, 1)
		go func() { down <- rt.Shutdown(soft) }()
		synctest.Wait()
		works("in the soft phase")
		require.NoError(t, <-down)
		require.NoError(t, <-ran)
		for name, tools := range sets {
			for call, err := range callAll(t.Context(), tools) {
				require.ErrorIs(t, err, spawn.ErrShutdown, "%s of %s", call, name)
			}
		}
	})
}
