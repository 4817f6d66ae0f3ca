package agent_test

import (
	"context"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	agentctx "github.com/offshoot-sdk/offshoot/context"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
)

// refusedTasks are tasks of a chat that a spawn refuses whatever is on record, by the field of Task
// that is wrong. A field with no task is never refused.
var refusedTasks = map[string][]agent.Task{
	"Text":  {{}, {Text: " \n"}, {Text: "\u200b"}, {Text: strings.Repeat("x", 200_001)}},
	"Label": {{Label: strings.Repeat("ä", 300)}, {Label: "a\xff"}},
	"Name":  {{Name: "Scout"}, {Name: "all"}, {Name: strings.Repeat("a", 65)}, {Name: "a b"}},
	"Key":   {{Key: strings.Repeat("k", 5000)}, {Key: "\xff"}},
	"Again": nil,
	"Agent": {{Agent: "stranger"}, {Agent: "no/id"}, {Agent: strings.Repeat("a", 5000)}},
	"Model": {{Model: strings.Repeat("m", 5000)}, {Model: "acme/no", Strict: true}},
	"Thinking": {
		{Thinking: "very much"}, {Thinking: strings.Repeat("t", 5000)},
	},
	"Timeout": {{Timeout: math.MinInt64, Strict: true}},
	"Spec": {
		{Spec: agentctx.Spec{Mode: 99}},
		{Spec: agentctx.Spec{History: agentctx.HistoryFork}, Agent: "coder"},
		{Spec: agentctx.Spec{Files: []string{strings.Repeat("f", 200_000)}}},
	},
	"Tools": {
		{Tools: []string{"no_such_tool"}},
		{Tools: []string{strings.Repeat("t", 200_000)}},
		{Tools: []string{""}},
	},
	"Budget": {
		{Budget: policy.Budget{Tokens: -1}},
		{Budget: policy.Budget{Cost: math.NaN()}},
		{Budget: policy.Budget{Turns: -1}},
	},
	"Sandbox": {{Sandbox: true}},
	"Dir": {
		{Dir: ".."},
		{Dir: "absent"},
		{Dir: "file"},
		{Dir: "out"},
		{Dir: "/"},
		{Dir: "a\nb"},
		{Dir: "x", Agent: "none"},
	},
	"Runtime": {
		{Runtime: "unheard"}, {Runtime: "acp", Agent: "coder"}, {Runtime: strings.Repeat("r", 5000)},
	},
	"Stream": {{Stream: true}, {Stream: true, Runtime: "subagent"}},
	"Strict": nil, // see Model
	"Thread": {{Thread: true, Conversation: session.Route{Channel: "irc", To: "x"}}},
	"Mode":   {{Mode: 9}, {Mode: agent.TaskModeSession}},
	"Conversation": {
		{Conversation: session.Route{Channel: "chat", To: "x"}},
		{Thread: true, Conversation: session.Route{Channel: "chat"}},
		{Thread: true, Conversation: session.Route{To: "x"}},
		{Thread: true, Conversation: session.Route{Channel: "chat", To: strings.Repeat("x", 5000)}},
		{Thread: true, Conversation: session.Route{Channel: "chat", To: "\xff"}},
		{Thread: true, Conversation: session.Route{Channel: "chat", To: "no thread"}},
	},
	"Attachments": {
		{Attachments: attaching("a/b", "one")},
		{Attachments: attaching("", "one")},
		{Attachments: attaching("a", "one", "a", "two")},
		{Attachments: attaching("a", "one", "A", "two")},
		{Attachments: attaching(".manifest.json", "one")},
		{Attachments: []agent.Attachment{{Name: "a"}}},
		{Attachments: []agent.Attachment{{Name: "a", MediaType: "a\nb"}}},
		{Attachments: make([]agent.Attachment, 51)},
		{Attachments: attaching("a", strings.Repeat("x", 1<<20+1))},
	},
	"AttachAs":   {{AttachAs: "in"}, {AttachAs: "../up", Attachments: attaching("a", "one")}},
	"Announce":   nil,
	"Update":     {{Update: true, Announce: true}},
	"Milestones": nil,
	"Senders":    {{Senders: []policy.Sender{{ID: "\xff"}}}},
	"Cleanup":    {{Cleanup: 7}},
}

// previewConfig is one in which each of refusedTasks meets a rule.
func previewConfig(base string) agent.Config {
	cfg := dirsConfig(base)
	cfg.Reply = func(context.Context, agent.Delivery) error { return nil }
	cfg.Tools = toolbox("read")
	cfg.Models = agent.Models{
		Model: "acme/large", Valid: func(model string) bool { return model != "acme/no" },
	}
	cfg.Rules.Budget = policy.Budget{Tokens: 1_000_000, Turns: 50}
	cfg.Rules.RequestBudget = policy.Budget{Tokens: 100_000}
	cfg.Runners.Runtimes = map[string]agent.ExternalRuntime{
		"acp": {Runner: cfg.Runner, Agents: []string{"main"}},
	}
	cfg.Threads.Channels = map[string]agent.ThreadChannel{"chat": {}}
	return cfg
}

// rereadable returns the task with Readers of their own, since a spawn may go on with one that it
// has refused.
func rereadable(task agent.Task) agent.Task {
	task.Attachments = slices.Clone(task.Attachments)
	for i, a := range task.Attachments {
		if r, ok := a.Reader.(io.ReaderAt); ok {
			task.Attachments[i].Reader = io.NewSectionReader(r, 0, math.MaxInt64)
		}
	}
	return task
}

// What a spawn refuses of a task, whatever is on record, the preview of the prompt refuses with the
// same words. Each field of Task has its rows, so that a new one cannot be forgotten.
func TestChildInputRefusesWhatSpawnRefuses(t *testing.T) {
	base := makeTree(t, "main/sub/", "main/file", "main/out -> ../elsewhere", "coder/", "elsewhere/")
	chat := session.Must(session.DirectKey("main", "telegram", "4711"))
	cfg := previewConfig(base)
	agenttest.Run(t, cfg, nil, func(h *harness) {
		h.PostTo(chat, "hello") // there is a conversation to fork
		h.Pass(time.Minute)
		fields := 0
		for _, field := range reflect.VisibleFields(reflect.TypeFor[agent.Task]()) {
			if !field.IsExported() {
				continue
			}
			fields++
			tasks, ok := refusedTasks[field.Name]
			require.True(h.T(), ok, "no row for Task.%s", field.Name)
			for i, task := range tasks {
				if field.Name != "Text" {
					task.Text = "x"
				}
				_, spawned := agent.Spawn[string](h.Context(), h.Session(chat), rereadable(task))
				require.Error(h.T(), spawned, "%s %d", field.Name, i)
				_, shown := cfg.ChildInput(h.Context(), chat, rereadable(task))
				require.EqualError(h.T(), shown, spawned.Error(), "%s %d", field.Name, i)
				require.Equal(h.T(), fmt.Sprintf("%T", spawned), fmt.Sprintf("%T", shown))
			}
		}
		require.Len(h.T(), refusedTasks, fields)
		require.Empty(h.T(), h.Runs())
	})
}

// What a spawn takes, the preview takes: also where budgets and the runs of a tree are limited.
func TestChildInputTakesWhatSpawnTakes(t *testing.T) {
	base := makeTree(t, "main/sub/", "coder/")
	chat := session.Must(session.DirectKey("main", "telegram", "4711"))
	cfg := previewConfig(base)
	cfg.Rules.Subagents.MaxChildren = 20
	cfg.Rules.Subagents.MaxTreeRuns = 1000
	room := session.Route{Channel: "Chat ", To: "room"}
	agenttest.Run(t, cfg, nil, func(h *harness) {
		for i, task := range []agent.Task{
			{},
			{Label: strings.Repeat("ä", 200)},
			{Name: "scout"},
			{Key: strings.Repeat("k", 4096)},
			{Model: "acme/no"},
			{Timeout: policy.Off},
			{Timeout: time.Minute},
			{Tools: []string{}},
			{Budget: policy.Budget{Tokens: 5}},
			{Dir: "sub"},
			{Runtime: "ACP", Stream: true},
			{Thread: true, Conversation: session.Route{Channel: room.Channel, To: "room", Thread: "1"}},
			{Attachments: attaching("a", "one"), AttachAs: "in"},
			{Cleanup: agent.CleanupDelete},
			{Agent: "Coder"},
			{Agent: "none"},
		} {
			task.Text = "x"
			_, err := agent.Spawn[string](h.Context(), h.Session(chat), rereadable(task))
			require.NoError(h.T(), err, i)
			_, err = cfg.ChildInput(h.Context(), chat, rereadable(task))
			require.NoError(h.T(), err, i)
		}
		h.Pass(time.Minute)
	})
}

// What a spawn refuses because of the Config, and not of the task, the preview refuses too.
func TestChildInputRefusesWhatTheConfigRefuses(t *testing.T) {
	chat := session.Must(session.DirectKey("main", "telegram", "4711"))
	fork := agent.Task{Text: "x", Spec: agentctx.Spec{History: agentctx.HistoryFork}}
	for name, c := range map[string]struct {
		task agent.Task
		set  func(c *agent.Config)
		from session.Key // zero: the chat
	}{
		"a thread of a session without a channel": {
			task: agent.Task{Text: "x", Thread: true}, set: func(c *agent.Config) {
				c.Threads.Channels = map[string]agent.ThreadChannel{"telegram": {}}
			}, from: topKey,
		},
		"a thread without channels": {task: agent.Task{Text: "x", Thread: true}, set: func(*agent.Config) {}},
		"a thread on another channel": {task: agent.Task{Text: "x", Thread: true}, set: func(c *agent.Config) {
			c.Threads.Channels = map[string]agent.ThreadChannel{"irc": {}}
		}},
		"a thread that no host creates": {
			task: agent.Task{Text: "x", Thread: true}, set: func(c *agent.Config) {
				c.Threads.Channels = map[string]agent.ThreadChannel{"telegram": {}}
			},
		},
		"a fork of what the program runs": {task: fork, set: func(c *agent.Config) {
			c.Deliver = func(context.Context, agent.Delivery) error { return nil }
		}},
		"a Models.Valid that panics": {task: agent.Task{Text: "x", Model: "acme/x"}, set: func(c *agent.Config) {
			c.Models.Valid = func(string) bool { panic("oh") }
		}},
		"a Decide that panics": {task: agent.Task{Text: "x"}, set: func(c *agent.Config) {
			c.Rules.Sandbox.Decide = func(string, session.Key) bool { panic("oh") }
		}},
		"a store without files": {
			task: agent.Task{Text: "x", Attachments: attaching("a", "")},
			set: func(c *agent.Config) {
				c.Store = &session.Store{
					Journal:     session.NewMemory().Journal,
					Transcripts: session.NewMemory().Transcripts,
				}
			},
		},
		"a label too long": {task: agent.Task{Text: "x", Label: "abc"}, set: func(c *agent.Config) {
			c.Limits.Label = 2
		}},
		"an agent that must be named": {task: agent.Task{Text: "x"}, set: func(c *agent.Config) {
			yes := true
			c.Rules.Subagents.RequireAgentID = &yes
		}},
	} {
		cfg := agent.Config{Runner: &dirBot{}}
		c.set(&cfg)
		from := chat
		if c.from.IsValid() {
			from = c.from
		}
		agenttest.Run(t, cfg, nil, func(h *harness) {
			_, spawned := agent.Spawn[string](h.Context(), h.Session(from), rereadable(c.task))
			require.Error(h.T(), spawned, name)
			_, shown := cfg.ChildInput(h.Context(), from, rereadable(c.task))
			require.EqualError(h.T(), shown, spawned.Error(), name)
			require.Equal(h.T(), fmt.Sprintf("%T", spawned), fmt.Sprintf("%T", shown))
		})
	}
}
