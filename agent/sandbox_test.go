package agent_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	agentctx "github.com/offshoot-sdk/offshoot/context"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
)

// S5: the Runner, the tools, the hooks, the prompt and the RunInfo of a session are told whether it
// is in a sandbox, of a top-level session and of a sub-agent, whatever Prompts.Input says.
func TestSandboxIsTold(t *testing.T) {
	group := session.Must(session.GroupKey("main", "telegram", "42"))
	for _, mode := range []policy.SandboxMode{
		policy.SandboxOff, policy.SandboxNonMain, policy.SandboxAll,
	} {
		for _, key := range []session.Key{topKey, group} {
			var mu sync.Mutex
			told := map[string][]bool{}
			note := func(who string, sandboxed bool) {
				mu.Lock()
				defer mu.Unlock()
				told[who] = append(told[who], sandboxed)
			}
			cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
				who := tn.Session.Role.String()
				note(who, tn.Sandboxed)
				note(who, strings.Contains(tn.Prompt.String(), "## Sandbox\n"))
				note(who, strings.Contains(tn.Prompt.String(), "/inside"))
				_, err := tn.Call(ctx, agent.ToolCall{Name: "exec"})
				if err != nil || tn.Session.Depth > 0 {
					return agent.Result{Text: "ok"}, err
				}
				c, err := tn.Spawn(ctx, agent.Task{Text: "work"})
				if err != nil {
					return agent.Result{}, err
				}
				info, err := c.Info(ctx)
				note("leaf", info.Sandboxed)
				return agent.Result{Text: "ok"}, err
			})
			cfg.Tools = []agent.Tool{{
				Name: "exec",
				Call: textCall(func(ctx context.Context, _ agent.ToolCall) (string, error) {
					who, ok := agent.CallerOf(ctx)
					require.True(t, ok)
					note(who.Session.Role.String(), who.Sandboxed)
					return "", nil
				}),
			}}
			cfg.Rules.Sandbox.Mode = mode
			cfg.Prompts.Input.Sandbox = agentctx.Sandbox{Enabled: true, Dir: "/inside"}
			hook := func(
				r agentctx.LoadRequest, files []agentctx.WorkspaceFile,
			) []agentctx.WorkspaceFile {
				who := "main"
				if r.Session.IsSubagent() {
					who = "leaf"
				}
				note(who, r.Sandboxed)
				return files
			}
			cfg.Prompts.Loader.Hooks = []agentctx.Hook{hook}
			agenttest.Run(t, cfg, nil, func(h *harness) {
				h.PostTo(key, "go")
				synctest.Wait()
				main := mode == policy.SandboxAll || mode == policy.SandboxNonMain && key == group
				leaf := mode != policy.SandboxOff
				require.Equal(t, map[string][]bool{
					"main": {main, main, main, main, main},
					"leaf": {leaf, leaf, leaf, leaf, leaf, leaf},
				}, told, "%v %v", mode, key)
			})
		}
	}
	_, ok := agent.CallerOf(t.Context())
	require.False(t, ok, "not the context of a tool's call")
}

// Sandbox.Decide is asked at a spawn and at the begin of a turn, and not at each call of a tool:
// only where the rules have changed since.
func TestSandboxIsDecidedForTurnsAndNotForCalls(t *testing.T) {
	asked := func(calls int, change bool) int {
		var n atomic.Int32
		decide := func(string, session.Key) bool { n.Add(1); return false }
		var rt *agent.Runtime
		before, during := int32(0), int32(0)
		cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
			before = n.Load()
			if change {
				require.NoError(t, rt.SetRules(policy.Rules{
					Sandbox: policy.Sandbox{Decide: decide}, MaxSessions: 9,
				}))
			}
			for range calls {
				_, err := tn.Call(ctx, agent.ToolCall{ID: "1", Name: "look", Args: []byte("{}")})
				require.NoError(t, err)
			}
			during = n.Load() - before
			return textResult("done")
		})
		cfg.Tools, cfg.Rules.Sandbox.Decide = toolbox("look"), decide
		agenttest.Run(t, cfg, nil, func(h *harness) {
			rt = h.Runtime()
			h.Post("go")
			h.Pass(time.Minute)
		})
		require.Positive(t, before)
		return int(during)
	}
	require.Zero(t, asked(5, false))
	require.Equal(t, asked(1, true), asked(5, true))
	require.Positive(t, asked(1, true))
}
