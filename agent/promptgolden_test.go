package agent_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	agentctx "github.com/offshoot-sdk/offshoot/context"
	"github.com/offshoot-sdk/offshoot/context/contexttest"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
)

// workshop is the configuration of a bot as people have one: a workspace with all files, tools for
// files, commands, the web and memory, and two levels of sub-agents.
func workshop() agent.Config {
	tools := []agent.Tool{
		{Name: "read", Description: "Read a file of the workspace."},
		{Name: "write", Description: "Write a file of the workspace."},
		{Name: "exec", Description: "Run a command."},
		{Name: "process", Description: "Look after commands in the background."},
		{Name: "web_search", Description: "Search the web."},
		{Name: "memory_search", Description: "Search the notes."},
		{Name: "message", Description: "Send a message to a chat."},
	}
	return agent.Config{
		Workspace: os.DirFS(filepath.Join("testdata", "workspace")),
		Tools:     tools,
		Models:    agent.Models{Model: "acme/large", Thinking: "low"},
		Prompts: agent.Prompts{
			Loader: agentctx.Loader{Memory: true},
			Input: agentctx.Input{
				Product: "Perch", HeartbeatPrompt: "Does anything need attention?",
				Env: agentctx.Env{
					Host: "bench", OS: "linux", Arch: "arm64", Dir: "/srv/workshop",
					Zone: "Europe/Stockholm",
				},
			},
		},
		Rules: policy.Rules{
			Subagents: policy.Subagents{MaxSpawnDepth: 2, Model: "acme/small"},
			Sandbox:   policy.Sandbox{},
		},
	}
}

var (
	workshopGroup = session.Must(session.Parse("agent:main:telegram:group:-100200"))
	workshopCron  = session.Must(session.Parse("agent:main:cron:due-orders"))
	workshopTasks = []agent.Task{
		{Text: "Check the open orders.", Label: "open orders"},
		{Text: "Check order 1187.", Label: "order 1187"},
	}
)

// workshopPrompts returns the prompts of the golden files, by name.
func workshopPrompts(t *testing.T) map[string]agentctx.Prompt {
	t.Helper()
	cfg := workshop()
	cfg.Threads.Channels = map[string]agent.ThreadChannel{"telegram": {}}
	child := func(from session.Key, tasks ...agent.Task) agentctx.Input {
		in, err := cfg.ChildInput(t.Context(), from, tasks...)
		require.NoError(t, err)
		return in
	}
	leaf := child(topKey, workshopTasks...)
	orchestrator := child(topKey, workshopTasks[0])
	orchestrator.Active = []agentctx.ActiveSubagent{{
		Key: leaf.Session, Label: workshopTasks[1].Label, State: "running",
		Task: workshopTasks[1].Text,
	}}
	group := inputOf(t, cfg, workshopGroup)
	group.Conversation = "The chat of the workshop: Mara, Jonas (apprentice), and you."
	none := child(topKey, agent.Task{Text: "x", Spec: agentctx.Spec{Mode: agentctx.ModeNone}})
	prompts := map[string]agentctx.Prompt{}
	forked := child(topKey, forkTask("open orders"))
	for name, in := range map[string]agentctx.Input{
		"forked": forked,
		"thread": child(topKey, agent.Task{
			Text: "x", Label: "orders", Thread: true,
			Conversation: session.Route{Channel: "telegram", To: "-100200", Thread: "7"},
		}),
		"main": inputOf(t, cfg, topKey), "group": group, "orchestrator": orchestrator, "leaf": leaf,
		"cron": inputOf(t, cfg, workshopCron), "none": none,
	} {
		in.Now = time.Date(2026, 11, 21, 23, 10, 0, 0, time.UTC)
		prompts[name] = agentctx.Assemble(in)
	}
	return prompts
}

// C2: the prompts are files, so that a change of a word is read as a model reads it.
// OFFSHOOT_UPDATE=1 accepts a change. docs/prompts.md says which test shows each promise.
func TestPromptsOfEachKindOfSession(t *testing.T) {
	for name, p := range workshopPrompts(t) {
		contexttest.Golden(t, name, p)
		contexttest.Complete(t, p)
		contexttest.Lacks(t, p, "after policy", "by itself", "in a loop", "shall contain")
	}
}

// C2: no prompt names a tool that its session lacks.
func TestPromptsNameNoOtherTool(t *testing.T) {
	known := []string{
		"exec", "gateway", "memory_get", "memory_search", "message", "process", "read", "subagents",
		"session_status", "sessions_list", "sessions_send", "sessions_spawn", "sessions_yield",
	}
	cfg := workshop()
	for _, without := range append([]string{""}, known...) {
		for _, key := range []session.Key{topKey, workshopGroup, workshopCron, leafKey(t)} {
			in := inputOf(t, cfg, key)
			var left []agentctx.Tool
			has := map[string]bool{}
			for _, tool := range in.Tools {
				if tool.Name != without {
					left = append(left, tool)
					has[tool.Name] = true
				}
			}
			in.Tools = left
			text := agentctx.Assemble(in).String()
			for _, name := range known {
				require.Equal(t, has[name], strings.Contains(text, "`"+name+"`"),
					"%s without %q: %s", key, without, name)
			}
		}
	}
}

func leafKey(t *testing.T) session.Key {
	t.Helper()
	return session.Must(topKey.Child("main", "00000000-0000-4000-8000-000000000009"))
}
