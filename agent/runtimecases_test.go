package agent_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
)

// A runtimeCase is a row of section 8.4 of the field's reference: what is given, and what is
// expected of external runtimes.
type runtimeCase struct {
	id, given, expect string
	change            func(*agent.Config)
	run               func(b runtimeBot)
}

// A runtimeBot is a bot with the external runtime acp for the agents main, coder and picked, on a
// channel. Its native Runner works for an hour.
type runtimeBot struct {
	threadBot

	program *foreignProgram
}

// A foreignProgram keeps conversations by ids of its own, of which the state of a session has one.
// What it is told it answers with all that it was told before.
type foreignProgram struct {
	fails  error
	spawns bool // each turn spawns another program

	mu      sync.Mutex
	known   map[string][]string
	files   string // of the last turn
	cancels int
	turns   []*agent.Turn
}

// Run implements agent.Runner.
func (p *foreignProgram) Run(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
	input := tn.Input()
	if _, task, ok := strings.Cut(input, "[Subagent Task]: "); ok {
		input = task
	}
	id := string(tn.State())
	if id == "" {
		id = "conversation of " + tn.Session.Key.String()
		if err := tn.SetState(ctx, []byte(id)); err != nil {
			return agent.Result{}, err
		}
	}
	p.mu.Lock()
	p.turns, p.files = append(p.turns, tn), listFiles(tn.Files)
	if p.known == nil {
		p.known = make(map[string][]string)
	}
	p.known[id] = append(p.known[id], input)
	answer := "told " + strings.Join(p.known[id], " | ")
	p.mu.Unlock()
	if input == "hang" {
		tn.Delta("So far. ")
		<-ctx.Done()
		p.mu.Lock()
		p.cancels++
		p.mu.Unlock()
		return agent.Result{Text: "So far."}, context.Cause(ctx)
	}
	if p.spawns {
		_, err := tn.Spawn(ctx, agent.Task{Text: "deeper", Runtime: "acp"})
		return agent.Result{}, err
	}
	tn.Delta("I work.\n\n")
	return agent.Result{Text: answer}, errors.Join(p.fails, pause(ctx, time.Second))
}

// refused has a spawn refused by a rule before anything exists.
func (b runtimeBot) refused(task agent.Task, rule policy.Rule, wants ...string) {
	b.T().Helper()
	before := len(b.Runs())
	task.Text = "work"
	_, err := b.Main().Spawn(b.Context(), task)
	require.ErrorIs(b.T(), err, &policy.Refusal{Rule: rule})
	for _, want := range wants {
		require.ErrorContains(b.T(), err, want)
	}
	require.Len(b.T(), b.Runs(), before)
	require.Empty(b.T(), b.bindings())
	require.Empty(b.T(), b.program.turns)
}

// ended spawns a sub-agent of the runtime, waits for its end, and returns that.
func (b runtimeBot) ended(task agent.Task) agent.RunInfo {
	b.T().Helper()
	task.Text, task.Runtime, task.Announce = "work", "acp", true
	child, err := b.Main().Spawn(b.Context(), task)
	require.NoError(b.T(), err)
	_, _ = child.Wait(b.Context())
	info, err := child.Info(b.Context())
	require.NoError(b.T(), err)
	b.Pass(time.Minute)
	return info
}

// told returns the last message that the main session was told.
func (b runtimeBot) told() string {
	b.T().Helper()
	history, err := b.Main().History(b.Context(), agent.HistoryQuery{Raw: true})
	require.NoError(b.T(), err)
	text := ""
	for _, line := range history.Lines {
		if line.Message.Role == session.MessageUser {
			text = line.Message.Text
		}
	}
	return text
}

// argument has a call of sessions_spawn refused for an argument.
func (b runtimeBot) argument(args, name string) {
	b.T().Helper()
	_, err := callTool(b.Harness, "sessions_spawn", "1", args)
	bad, ok := errors.AsType[*agent.ArgumentError](err)
	require.True(b.T(), ok, "%v", err)
	require.Equal(b.T(), name, bad.Argument)
	require.Empty(b.T(), b.Runs())
}

// runtimeCases are all rows, in their order.
var runtimeCases = []runtimeCase{
	{id: "8.1", given: "not enabled", expect: "forbidden", run: func(b runtimeBot) {
		b.refused(agent.Task{Runtime: "codex"}, policy.RuleRuntime, `"codex"`, `"subagent, acp"`,
			"Config.Runners.Runtimes")
	}},
	{id: "8.2", given: "no agent", expect: "that of the requester", run: func(b runtimeBot) {
		require.Equal(b.T(), "main", b.ended(agent.Task{}).Agent)
	}},
	{
		id: "8.3", given: "the agent is not allowed", expect: "forbidden",
		change: func(c *agent.Config) {
			c.Rules.Agents[0].Subagents.AllowAgents = []string{"coder", "other"}
		},
		run: func(b runtimeBot) {
			b.refused(agent.Task{Runtime: "acp", Agent: "picked"}, policy.RuleAgents, "coder")
			b.refused(agent.Task{Runtime: "acp", Agent: "other"}, policy.RuleRuntime,
				`Runners.Runtimes["acp"].Agents`, "main, coder, picked")
		},
	},
	{
		id: "8.4", given: "a requester in a sandbox", expect: "forbidden, native is not",
		change: func(c *agent.Config) { c.Rules.Sandbox.Mode = policy.SandboxAll },
		run: func(b runtimeBot) {
			b.refused(agent.Task{Runtime: "acp", Agent: "coder"}, policy.RuleRuntime,
				"acp in a sandbox")
			_, err := b.Main().Spawn(b.Context(), agent.Task{Text: "native", Agent: "coder"})
			require.NoError(b.T(), err)
		},
	},
	{id: "8.5", given: "sandbox require", expect: "forbidden", run: func(b runtimeBot) {
		b.refused(agent.Task{Runtime: "acp", Agent: "coder", Sandbox: true}, policy.RuleSandbox)
		b.refused(agent.Task{Runtime: "acp", Agent: "boxed"}, policy.RuleRuntime)
	}},
	{id: "8.6", given: "streamTo without a runtime", expect: "error", run: func(b runtimeBot) {
		b.argument(`{"task":"x","streamTo":"parent"}`, "streamTo")
		b.argument(`{"task":"x","streamTo":"parent","runtime":"subagent"}`, "streamTo")
		_, err := b.Main().Spawn(b.Context(), agent.Task{Text: "x", Stream: true})
		bad, ok := errors.AsType[*agent.InputError](err)
		require.True(b.T(), ok, "%v", err)
		require.Equal(b.T(), "Task.Stream", bad.Field)
	}},
	{id: "8.7", given: "streamTo", expect: "a requester that is told", run: func(b runtimeBot) {
		b.Post("hello") // the session exists
		b.Pass(2 * time.Hour)
		require.Equal(b.T(), topKey, b.ended(agent.Task{Stream: true}).Parent)
		b.Post("and?")
		b.Pass(time.Second)
		history, err := b.Main().History(b.Context(), agent.HistoryQuery{Raw: true})
		require.NoError(b.T(), err)
		require.Contains(b.T(), fmt.Sprint(history.Lines), "I work.")
	}},
	{
		id: "8.8", given: "attachments", expect: "as for every sub-agent",
		run: func(b runtimeBot) {
			b.argumentless(`{"task":"x","runtime":"acp","attachments":[{"name":"a","content":""}]}`,
				policy.RuleAttachments)
			b.ended(agent.Task{Attachments: attaching("a.png", "one")})
			require.Equal(b.T(), "a.png=one", b.program.files)
		},
	},
	{id: "8.9", given: "a session without a thread", expect: "error", run: func(b runtimeBot) {
		b.argument(`{"task":"x","runtime":"acp","mode":"session"}`, "mode")
	}},
	{id: "8.10", given: "the program does not begin", expect: "failed", run: runtimeThatFails},
	{id: "8.11", given: "bind fails", expect: "nothing exists", run: func(b runtimeBot) {
		b.chat.Intercept(func(_ context.Context, c agenttest.FakeCall) error {
			return map[bool]error{true: errors.New("not ready")}[c.Op == "create"]
		})
		_, err := b.Main().Spawn(b.Context(), agent.Task{
			Text: "x", Runtime: "acp", Thread: true, Conversation: b.general,
		})
		require.ErrorContains(b.T(), err, "not ready")
		require.Empty(b.T(), b.Runs())
		require.Empty(b.T(), b.bindings())
		require.Empty(b.T(), b.program.turns)
	}},
	{id: "8.12", given: "dispatch fails", expect: "failed, not started", run: runtimeThatFails},
	{id: "8.13", given: "accepted", expect: "a sub-agent's key", run: func(b runtimeBot) {
		run := b.ended(agent.Task{Agent: "coder"})
		require.Equal(b.T(), agent.StatusOK, run.Status)
		require.True(b.T(), run.Key.IsSubagent())
		require.Contains(b.T(), run.Key.String(), "agent:coder:subagent:")
		require.Equal(b.T(), "acp", b.program.turns[0].Runtime)
		require.Equal(b.T(), "told work", run.Result.Text)
	}},
	{id: "8.14", given: "thread", expect: "it answers there", run: runtimeInAThread},
	{id: "8.15", given: "stream relay", expect: "progress", run: func(b runtimeBot) {
		require.Equal(b.T(), []string{"I work."}, b.milestones(func() {
			b.ended(agent.Task{Stream: true})
		}))
	}},
	{id: "8.16", given: "relay > 6 h", expect: "a notice", run: func(b runtimeBot) {
		told := b.milestones(func() {
			_, err := b.Main().Spawn(b.Context(), agent.Task{
				Text: "hang", Runtime: "acp", Stream: true,
			})
			require.NoError(b.T(), err)
			b.Pass(7 * time.Hour)
		})
		require.Len(b.T(), told, 3)
		require.Equal(b.T(), "So far.", told[0])
		require.Contains(b.T(), told[1], "nothing for a minute")
		require.Contains(b.T(), told[2], "six hours")
	}},
	{id: "8.17", given: "the program is not healthy", expect: "its error", run: runtimeThatFails},
	{id: "8.18", given: "the program is not there", expect: "its error", run: runtimeThatFails},
	{id: "8.19", given: "cancel during a turn", expect: "cancelled once", run: func(b runtimeBot) {
		child, err := b.Main().Spawn(b.Context(), agent.Task{Text: "hang", Runtime: "acp"})
		require.NoError(b.T(), err)
		b.Pass(time.Second)
		require.NoError(b.T(), child.Stop(b.Context()))
		require.NoError(b.T(), child.Stop(b.Context()), "again")
		info, err := child.Info(b.Context())
		require.NoError(b.T(), err)
		require.Equal(b.T(), agent.StatusCancelled, info.Status)
		require.Equal(b.T(), "So far.", info.Result.Text)
		require.Equal(b.T(), 1, b.program.cancels)
	}},
	{
		id: "8.20", given: "limits", expect: "enforced",
		change: func(c *agent.Config) { c.Rules.Subagents.MaxChildren = 1 },
		run: func(b runtimeBot) {
			b.program.spawns = true
			require.Contains(b.T(), b.ended(agent.Task{}).Error, "maxSpawnDepth")
			b.program.turns = nil
			spawnedOver(b.Harness, topKey, agent.Task{Text: "native"})
			b.refused(agent.Task{Runtime: "acp"}, policy.RuleChildren)
		},
	},
}

// argumentless has a call of sessions_spawn refused by a rule.
func (b runtimeBot) argumentless(args string, rule policy.Rule) {
	b.T().Helper()
	out, err := callTool(b.Harness, "sessions_spawn", "1", args)
	require.NoError(b.T(), err)
	require.Equal(b.T(), "forbidden", out["status"], out)
	require.Equal(b.T(), string(rule), out["rule"], out)
	require.Empty(b.T(), b.Runs())
}

// milestones returns what the requester is told while f runs.
func (b runtimeBot) milestones(f func()) (told []string) {
	b.T().Helper()
	b.Post("hello") // the tree exists
	b.Pass(2 * time.Hour)
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		q := agent.EventQuery{Root: topKey, Kinds: []agent.EventKind{agent.EventMilestone}}
		for e, err := range b.Runtime().Events(ctx, q) {
			if err == nil && e.Kind == agent.EventMilestone {
				told = append(told, e.Text)
			}
		}
	}()
	synctest.Wait()
	f()
	cancel()
	<-ended
	return told
}

// runtimeThatFails: the run exists and fails with what the Runner says, its requester is
// told, and the slot is free for the next one.
func runtimeThatFails(b runtimeBot) {
	b.program.fails = fmt.Errorf("starting the program: %w", os.ErrNotExist)
	run := b.ended(agent.Task{})
	require.Equal(b.T(), agent.StatusFailed, run.Status)
	require.Contains(b.T(), run.Error, "starting the program: file does not exist")
	require.Contains(b.T(), b.told(), "starting the program")
	b.program.fails = nil
	require.Equal(b.T(), agent.StatusOK, b.ended(agent.Task{}).Status)
}

// runtimeInAThread: what people write in the thread goes to the program, under the id that it gave
// to the conversation, over later runs and processes, and it answers there.
func runtimeInAThread(b runtimeBot) {
	child, thread := b.spawnThread(agent.Task{
		Text: "paint", Label: "painter", Runtime: "acp", Mode: agent.TaskModeSession,
	})
	got, err := child.Wait(b.Context())
	require.NoError(b.T(), err)
	require.Equal(b.T(), "told paint", got)
	require.Empty(b.T(), b.chat.Said(thread), "the first result goes to the requester")
	for i, text := range []string{"red", "green", "blue"} {
		receipt := b.write(thread, text)
		require.Equal(b.T(), child.Key(), receipt.Session)
		b.Pass(time.Hour)
		said := b.chat.Said(thread)
		require.Len(b.T(), said, i+1)
		require.Regexp(b.T(), `(?s)^told paint \| .*red`, said[i])
		require.Contains(b.T(), said[i], text)
		b.Crash()
	}
	require.Len(b.T(), b.program.known, 1, "one conversation")
	for _, tn := range b.program.turns {
		require.Equal(b.T(), "acp", tn.Runtime)
	}
}

// Every row of the reference is driven against the public API, in the order of docs/runtimes.md.
func TestRuntimeCases(t *testing.T) {
	for i, c := range runtimeCases {
		require.Equal(t, fmt.Sprint("8.", i+1), c.id)
		t.Run(c.id+" "+c.given, func(t *testing.T) {
			program := new(foreignProgram)
			cfg := saying(func(ctx context.Context, tn *agent.Turn) (string, error) {
				if tn.Run == "" {
					return "ok", nil
				}
				return "", pause(ctx, time.Hour)
			})
			cfg.Runners.Runtimes = map[string]agent.ExternalRuntime{
				"acp": {Runner: program, Agents: []string{"main", "coder", "picked", "boxed"}},
			}
			cfg.Rules.Agents = append(agentsAllowing([]string{"*"}, "coder", "picked", "other"),
				policy.Agent{ID: "boxed", Sandbox: policy.SandboxAll})
			if c.change != nil {
				c.change(&cfg)
			}
			threadsOn(t, cfg, nil, func(b threadBot) { c.run(runtimeBot{b, program}) })
		})
	}
	require.Len(t, runtimeCases, 20)
	page, err := os.ReadFile("../docs/runtimes.md")
	require.NoError(t, err)
	_, table, _ := strings.Cut(string(page), "## Against the reference")
	var ids []string
	for _, row := range regexp.MustCompile(`(?m)^\| 8[^|]*`).FindAllString(table, -1) {
		ids = append(ids, regexp.MustCompile(`8\.\d+`).FindAllString(row, -1)...)
	}
	for _, c := range runtimeCases {
		require.Contains(t, ids, c.id, "docs/runtimes.md has no such row")
	}
	require.Len(t, ids, len(runtimeCases))
}
