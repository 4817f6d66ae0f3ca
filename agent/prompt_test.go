package agent_test

import (
	"context"
	"io/fs"
	"sync"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	agentctx "github.com/offshoot-sdk/offshoot/context"
	"github.com/offshoot-sdk/offshoot/context/contexttest"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
)

var workspaceNames = []string{
	"AGENTS.md", "SOUL.md", "TOOLS.md", "IDENTITY.md", "USER.md",
	"HEARTBEAT.md", "BOOTSTRAP.md", "MEMORY.md",
}

func workspace(says string) fstest.MapFS {
	fsys := fstest.MapFS{}
	for _, name := range workspaceNames {
		fsys[name] = &fstest.MapFile{Data: []byte(says + " " + name)}
	}
	return fsys
}

// promptsOf runs cfg and returns the prompts of the turns by label; "" is the main session's.
func promptsOf(t *testing.T, cfg agent.Config, tasks ...agent.Task) map[string]agentctx.Prompt {
	t.Helper()
	var mu sync.Mutex
	seen := map[string]agentctx.Prompt{}
	cfg.Runner = agent.RunnerFunc(func(_ context.Context, tn *agent.Turn) (agent.Result, error) {
		mu.Lock()
		defer mu.Unlock()
		seen[tn.Label] = tn.Prompt
		return textResult("ok")
	})
	agenttest.Run(t, cfg, nil, func(h *harness) {
		h.Post("hello")
		synctest.Wait()
		for _, task := range tasks {
			_, err := agent.Spawn[string](h.Context(), h.Main(), task)
			require.NoError(t, err)
			synctest.Wait()
		}
	})
	return seen
}

func TestFilesThatSessionsSee(t *testing.T) {
	cfg := agent.Config{
		Workspace: workspace("common"),
		Prompts: agent.Prompts{
			Workspaces:    map[string]fs.FS{"research": workspace("own")},
			SubagentSpecs: map[string]agentctx.Spec{"research": agentctx.PersonaSpec()},
		},
		Rules: policy.Rules{Agents: []policy.Agent{
			{ID: "main", Subagents: policy.Subagents{AllowAgents: []string{"research"}}},
			{ID: "research"},
		}},
	}
	seen := promptsOf(
		t, cfg,
		agent.Task{Text: "work", Label: "worker"},
		agent.Task{Text: "work", Label: "researcher", Agent: "research"},
		agent.Task{
			Text: "work", Label: "instructed", Agent: "research",
			Spec: agentctx.InstructionsSpec(),
		},
	)
	contexttest.SeesOnly(t, seen[""], workspaceNames...)
	contexttest.SeesOnly(t, seen["worker"], "AGENTS.md", "TOOLS.md")
	contexttest.SeesOnly(t, seen["researcher"], "AGENTS.md", "TOOLS.md", "SOUL.md", "IDENTITY.md")
	contexttest.SeesOnly(t, seen["instructed"], "AGENTS.md")
	require.Contains(t, seen["worker"].String(), "common AGENTS.md")
	require.Contains(t, seen["researcher"].String(), "own SOUL.md")
	require.NotContains(t, seen["researcher"].String(), "common")
}

// The prompt that a test gets from Config.Input is the one that is sent.
func TestInputGivesTheProductionPrompt(t *testing.T) {
	cfg := agent.Config{
		Workspace: workspace("common"), Tools: toolbox("read", "gateway"),
		Models: agent.Models{Model: "anthropic/claude-sonnet-4-5", Thinking: "low"},
		Prompts: agent.Prompts{
			Input: agentctx.Input{
				Product: "Acme", Docs: "https://example.com/docs",
				Notes: []string{"be brief"},
			},
		},
		Now: func() time.Time { return time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC) },
	}
	for _, levels := range []int{1, 2} {
		cfg.Rules = rulesForDepth(levels)
		var key session.Key
		var task string
		seen := map[string]agentctx.Prompt{}
		cfg.Runner = agent.RunnerFunc(func(
			_ context.Context, tn *agent.Turn,
		) (agent.Result, error) {
			seen[tn.Label] = tn.Prompt
			if tn.Run != "" {
				key, task = tn.Session.Key, tn.Messages[0].Text
			}
			return textResult("ok")
		})
		agenttest.Run(t, cfg, nil, func(h *harness) {
			h.Post("hello")
			synctest.Wait()
			_, err := agent.Spawn[string](h.Context(), h.Main(),
				agent.Task{Text: "work hard", Label: "worker"})
			require.NoError(t, err)
			synctest.Wait()
			for label, k := range map[string]session.Key{"": topKey, "worker": key} {
				in := inputOf(t, cfg, k)
				in.Now = cfg.Now()
				if label != "" {
					// what only the spawn knows
					in.Subagent.Label, in.Subagent.Requester = label, topKey
				}
				got := agentctx.Assemble(in)
				require.Equal(t, got.String(), seen[label].String(),
					contexttest.Diff(got.String(), seen[label].String()))
			}
			require.Contains(t, task, "[Subagent Context]")
			require.Contains(t, task, "[Subagent Task]: work hard")
			require.NotContains(t, seen["worker"].String(), "work hard",
				"the task is in the first message only")
		})
	}
}

func TestActiveSubagentsAreInThePrompt(t *testing.T) {
	var last string
	cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
		if tn.Run != "" {
			<-ctx.Done()
			return agent.Result{}, ctx.Err()
		}
		last = tn.Prompt.String()
		return textResult("ok")
	})
	agenttest.Run(t, cfg, nil, func(h *harness) {
		h.Post("hello")
		synctest.Wait()
		require.NotContains(t, last, "counting")
		_, err := agent.Spawn[string](h.Context(), h.Main(),
			agent.Task{Text: "count everything", Label: "counting"})
		require.NoError(t, err)
		h.Post("hello again")
		synctest.Wait()
		require.Contains(t, last, "counting")
		require.Contains(t, last, "running")
		require.NoError(t, h.Main().Stop(h.Context()))
		h.Post("and now?")
		synctest.Wait()
		require.NotContains(t, last, "counting")
	})
}

// A workspace that cannot be read leaves markers, and the turn goes on.
func TestWorkspaceThatCannotBeRead(t *testing.T) {
	seen := promptsOf(t, agent.Config{Workspace: unreadable{}},
		agent.Task{Text: "work", Label: "worker"})
	for _, p := range seen {
		require.NoError(t, p.Err())
		for _, f := range p.Files {
			require.NotEmpty(t, f.Why, f.Name)
		}
	}
	require.Contains(t, seen[""].String(), "AGENTS.md")
}

type unreadable struct{}

func (unreadable) Open(name string) (fs.File, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
}
