package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
)

// A spawnCase is a row of section 1.8 of the field's reference: what is given to sessions_spawn,
// and what is expected.
type spawnCase struct {
	id, given, expect string
	also              string // its number among the rows of section 6.5
	differs           string // why there is no such case here, or what of it is otherwise here
	rules             policy.Rules
	run               func(b spawnBot) // nil: there is no such case
}

// A spawnBot is a bot on a channel. What a session is told to do, its turn does: "spawn" with a
// JSON object calls sessions_spawn, "deeper" spawns from Go, "end" ends, and all else hangs.
type spawnBot struct {
	threadBot

	dir  string // of the work directories
	turn *spawnTurn
}

// A spawnTurn runs the turns, and keeps what the last calls of the chat and of a sub-agent came to.
type spawnTurn struct {
	mu   sync.Mutex
	out  map[string]any
	err  error
	deep error
}

func (s *spawnTurn) Run(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
	words := tn.Input()
	switch _, args, spawns := strings.Cut(words, "spawn {"); {
	case spawns:
		out, err := tn.Call(ctx, agent.ToolCall{
			ID: "1", Name: "sessions_spawn", Args: json.RawMessage("{" + args),
		})
		var said map[string]any
		if err == nil {
			err = json.Unmarshal([]byte(out.Text), &said)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.out, s.err = said, err
	case strings.HasSuffix(words, "deeper"):
		_, err := tn.Spawn(ctx, agent.Task{Text: "deeper"})
		s.noteDeep(err)
	case strings.HasSuffix(words, "deeper, as ghost"):
		_, err := tn.Spawn(ctx, agent.Task{Text: "x", Agent: "ghost"})
		s.noteDeep(err)
	case strings.HasSuffix(words, "end") && tn.Run != "":
		data, err := fs.ReadFile(tn.Files, "a")
		hinted := strings.Contains(tn.Prompt.String(), "/in/data")
		return agent.Result{Text: fmt.Sprintf("in %s, a is %q %v, hinted %v",
			filepath.Base(tn.Dir), data, err == nil, hinted)}, nil
	case tn.Run != "":
		return agent.Result{}, pause(ctx, 100*time.Hour)
	}
	return textResult("NO_REPLY")
}

func (s *spawnTurn) noteDeep(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil { // the session above is told of its own spawn, which is not refused
		s.deep = err
	}
}

// inSpawnBot runs f with a bot under rules, with all that a spawn can ask for unless off takes it
// away.
func inSpawnBot(t *testing.T, rules policy.Rules, off func(*agent.Config), f func(b spawnBot)) {
	t.Helper()
	bot := spawnBot{dir: makeTree(t, "main/app/"), turn: new(spawnTurn)}
	cfg := withRuntime(agent.Config{
		Runner: bot.turn, Rules: rules, Tools: []agent.Tool{namedTool("read")},
		WorkDir: func(id string) string {
			return map[bool]string{true: filepath.Join(bot.dir, id)}[id == "main"]
		},
	})
	cfg.Models.Model = "vendor/default"
	if off != nil {
		off(&cfg)
	}
	threadsOn(t, cfg, nil, func(b threadBot) {
		bot.threadBot = b
		b.write(b.general, "end") // its session is on record
		f(bot)
	})
}

// chatting is the session of the conversation that people talk to the bot in.
func (b spawnBot) chatting() *agent.Session {
	b.T().Helper()
	key, err := b.chat.Key(b.general)
	require.NoError(b.T(), err)
	return b.Session(key)
}

// spawn has a turn of the chat call sessions_spawn.
func (b spawnBot) spawn(args string) (map[string]any, error) {
	b.T().Helper()
	b.turn.out, b.turn.err = nil, errors.New("there was no turn")
	b.write(b.general, "spawn "+args)
	b.Pass(time.Second)
	b.turn.mu.Lock()
	defer b.turn.mu.Unlock()
	return b.turn.out, b.turn.err
}

func (b spawnBot) runs() []agent.RunInfo {
	b.T().Helper()
	runs, err := b.chatting().Tree(b.Context())
	require.NoError(b.T(), err)
	return runs
}

// fails checks that a call is refused for one argument, and leaves nothing.
func (b spawnBot) fails(args, argument, reason string) {
	b.T().Helper()
	before := len(b.runs())
	out, err := b.spawn(args)
	bad, ok := errors.AsType[*agent.ArgumentError](err)
	require.True(b.T(), ok, "%v %v", out, err)
	require.Equal(b.T(), argument, bad.Argument)
	require.Contains(b.T(), bad.Reason, reason)
	b.leavesNothing(before)
}

// refused checks that policy refuses a call, and that it leaves nothing.
func (b spawnBot) refused(args, status string, rule policy.Rule) map[string]any {
	b.T().Helper()
	before := len(b.runs())
	out, err := b.spawn(args)
	require.NoError(b.T(), err)
	require.Equal(b.T(), status, out["status"], out)
	require.Equal(b.T(), string(rule), out["rule"], out)
	require.NotContains(b.T(), out, "childSessionKey")
	b.leavesNothing(before)
	return out
}

func (b spawnBot) leavesNothing(runs int) {
	b.T().Helper()
	require.Len(b.T(), b.runs(), runs)
	require.Empty(b.T(), b.bindings())
	_, err := os.Stat(filepath.Join(b.dir, "main", ".offshoot"))
	require.ErrorIs(b.T(), err, os.ErrNotExist)
}

// accepted returns the answer to a call, and the sub-agent.
func (b spawnBot) accepted(args string) (map[string]any, agent.RunInfo) {
	b.T().Helper()
	out, err := b.spawn(args)
	require.NoError(b.T(), err)
	require.Equal(b.T(), "accepted", out["status"], out)
	key := session.Must(session.Parse(out["childSessionKey"].(string)))
	run, err := b.Session(key).FindRun(b.Context(), agent.RunID(out["runId"].(string)))
	require.NoError(b.T(), err)
	return out, run
}

// tooDeep has a sub-agent do what its task says, and checks that it was refused for its depth.
func (b spawnBot) tooDeep(task, limit string) {
	b.T().Helper()
	b.accepted(`{"task":"` + task + `"}`)
	synctest.Wait() // until the sub-agents have done it
	b.turn.mu.Lock()
	defer b.turn.mu.Unlock()
	refusal, ok := errors.AsType[*policy.Refusal](b.turn.deep)
	require.True(b.T(), ok, "%v", b.turn.deep)
	require.Equal(b.T(), policy.RuleDepth, refusal.Rule)
	require.Equal(b.T(), limit, refusal.Limit)
}

// deep are rules with so many levels and children.
func deep(levels, children int) policy.Rules {
	return policy.Rules{
		Subagents: policy.Subagents{MaxSpawnDepth: levels, MaxChildren: children},
	}
}

// allowing are rules under which main may spawn agents of other ids, all of which are configured.
func allowing(allow []string, ids ...string) policy.Rules {
	return policy.Rules{Agents: agentsAllowing(allow, ids...)}
}

// boxed are rules under which main and an agent may each run in a sandbox.
func boxed(main, other policy.SandboxMode) policy.Rules {
	rules := allowing([]string{"*"}, "other")
	rules.Agents[0].Sandbox, rules.Agents[1].Sandbox = main, other
	return rules
}

func attachRules() policy.Rules {
	return policy.Rules{Attachments: policy.Attachments{Enabled: true}}
}

// spawnCases are all rows, in their order.
var spawnCases = []spawnCase{
	{id: "1.1", given: "to", expect: "an input error that names it", run: func(b spawnBot) {
		b.fails(`{"task":"x","to":"u"}`, "to", "does not take where to deliver")
	}},
	{id: "1.2", given: "thread_id null, target", expect: "names target", run: func(b spawnBot) {
		b.fails(`{"task":"x","thread_id":null,"target":"y"}`, "target", "where to deliver")
		b.fails(`{"replyTo":""}`, "replyTo", "where to deliver") // even before the task
	}},
	{id: "1.3", also: "SA6", given: "a blank task", expect: "task required", run: func(b spawnBot) {
		for _, args := range []string{`{"task":"   "}`, `{}`, `{"task":null}`} {
			b.fails(args, "task", "it is required")
		}
		b.fails(`{"task":7}`, "task", "it is 7, want a string")
	}},
	{id: "1.4", also: "SA12", given: "an error as an agent", expect: "error", run: func(b spawnBot) {
		out := b.refused(`{"task":"x","agentId":"Agent not found: xyz"}`, "error", policy.RuleAgentID)
		require.Equal(b.T(), "Agent not found: xyz", out["asked"])
	}},
	{id: "1.5", given: "an agent of 65 characters, a path", expect: "error", run: func(b spawnBot) {
		for _, id := range []string{strings.Repeat("a", 65), "../x"} {
			b.refused(`{"task":"x","agentId":"`+id+`"}`, "error", policy.RuleAgentID)
		}
	}},
	{
		id: "1.6", also: "SA11", given: "capitals of an agent, allow *", expect: "a key in small letters",
		rules: allowing([]string{"*"}, "my-research_agent01"), run: func(b spawnBot) {
			_, run := b.accepted(`{"task":"x","agentId":"My-Research_Agent01"}`)
			require.Contains(b.T(), run.Key.String(), ":my-research_agent01:subagent:")
		},
	},
	{id: "1.7", given: "mode session, no thread", expect: "error", run: func(b spawnBot) {
		b.fails(`{"task":"x","mode":"session"}`, "mode", "set thread to true")
	}},
	{id: "1.8", given: "thread, no mode", expect: "mode session, keep", run: func(b spawnBot) {
		out, run := b.accepted(`{"task":"end","thread":true,"cleanup":"delete"}`)
		require.Equal(b.T(), "session", out["mode"])
		require.Contains(b.T(), out["note"], "thread of its own")
		require.True(b.T(), run.Persistent)
		b.Pass(3 * time.Hour)
		require.Len(b.T(), b.bindings(), 1)
		require.Len(b.T(), b.runs(), 1, "it is kept")
	}},
	{id: "1.9", given: "thread, mode run", expect: "mode run, bound", run: func(b spawnBot) {
		out, run := b.accepted(`{"task":"x","thread":true,"mode":"run"}`)
		require.Equal(b.T(), "run", out["mode"])
		require.False(b.T(), run.Persistent)
		require.Len(b.T(), b.bindings(), 1)
	}},
	{
		id: "1.10", also: "SA13", given: "depth 1 of 1", expect: "forbidden, depth 1, max 1",
		rules: deep(1, 5), run: func(b spawnBot) {
			b.tooDeep("deeper", "1")
			require.Len(b.T(), b.runs(), 1)
		},
	},
	{
		id: "1.11", given: "depth 1 of 2", expect: "accepted, at depth 2", rules: deep(2, 5),
		run: func(b spawnBot) {
			_, err := b.spawn(`{"task":"deeper"}`)
			require.NoError(b.T(), err)
			runs := b.runs()
			require.Len(b.T(), runs, 2)
			require.Equal(b.T(), 2, runs[1].Depth)
			require.Equal(b.T(), runs[0].Key, runs[1].Parent)
		},
	},
	{
		id: "1.12", given: "depth 2 of 2", expect: "forbidden, depth 2, max 2", rules: deep(2, 5),
		run: func(b spawnBot) {
			b.tooDeep("deeper", "2")
			require.Len(b.T(), b.runs(), 2)
		},
	},
	{
		id: "1.13", given: "a caller named by a session id", expect: "forbidden",
		differs: "what spawns is a Session or a Turn, with its own key and the depth on record; no " +
			"caller is named by a text",
	},
	{
		id: "1.14", given: "a cycle of parents", expect: "terminates",
		differs: "a parent is on record before its child and never changes, so that there is no " +
			"cycle; a journal that says otherwise is corrupt",
	},
	{
		id: "1.15", also: "SA14", given: "one child of one",
		expect: "forbidden, 1 of 1; an ended one is none",
		rules:  deep(1, 1), run: func(b spawnBot) {
			_, first := b.accepted(`{"task":"x"}`)
			out := b.refused(`{"task":"y"}`, "forbidden", policy.RuleChildren)
			require.Equal(b.T(), "1", out["limit"])
			require.NoError(b.T(), b.Session(first.Key).Stop(b.Context()))
			b.accepted(`{"task":"y"}`) // the first one is not archived
		},
	},
	{
		id: "1.16", given: "one slot, five children", expect: "accepted, queued",
		rules: policy.Rules{Subagents: policy.Subagents{MaxConcurrent: 1, MaxChildren: 5}},
		run: func(b spawnBot) {
			b.accepted(`{"task":"x"}`)
			_, second := b.accepted(`{"task":"y"}`)
			require.Equal(b.T(), agent.StatusQueued, second.Status)
		},
	},
	{
		id: "1.17", given: "too deep and not allowed", expect: "the depth wins", rules: deep(1, 5),
		run: func(b spawnBot) {
			b.tooDeep("deeper, as ghost", "1")
		},
	},
	{
		id: "1.18", given: "spaces around what is allowed", expect: "accepted",
		rules: allowing([]string{" Research "}, "research"), run: func(b spawnBot) {
			b.accepted(`{"task":"x","agentId":"research"}`)
			b.accepted(`{"task":"x","agent_id":" research "}`)
		},
	},
	{
		id: "1.19", given: "allow unset", expect: "forbidden",
		differs: "the list of who is allowed names the agent itself, which always is",
		rules:   allowing(nil, "beta"), run: func(b spawnBot) {
			out := b.refused(`{"task":"x","agentId":"beta"}`, "forbidden", policy.RuleAgents)
			require.Equal(b.T(), "beta", out["asked"])
			require.Contains(b.T(), out["limit"], "main")
		},
	},
	{
		id: "1.20", also: "SA15", given: "requester in a sandbox, target not", expect: "forbidden",
		rules: boxed(policy.SandboxAll, policy.SandboxOff), run: func(b spawnBot) {
			out := b.refused(`{"task":"x","agentId":"other","sandbox":"inherit"}`, "forbidden",
				policy.RuleSandbox)
			require.Contains(b.T(), out["limit"], "as the caller's")
		},
	},
	{
		id: "1.21", given: "sandbox require, target not in one", expect: "forbidden",
		rules: boxed(policy.SandboxOff, policy.SandboxOff), run: func(b spawnBot) {
			b.refused(`{"task":"x","agentId":"other","sandbox":"require"}`, "forbidden",
				policy.RuleSandbox)
			b.accepted(`{"task":"x","agentId":"other","sandbox":"inherit"}`)
		},
	},
	{id: "1.22", given: "thinking banana", expect: "error, nothing done", run: func(b spawnBot) {
		out := b.refused(`{"task":"x","thinking":"banana"}`, "error", policy.RuleThinking)
		require.Equal(b.T(), "banana", out["asked"])
	}},
	{id: "1.23", given: "attachments, disabled", expect: "forbidden, no key", run: func(b spawnBot) {
		b.refused(`{"task":"x","attachments":[{"name":"a","content":"x"}]}`, "forbidden",
			policy.RuleAttachments)
	}},
	{
		id: "1.24", given: "empty base64, empty utf8", expect: "an error; 0 bytes",
		rules: attachRules(), run: func(b spawnBot) {
			b.fails(`{"task":"x","attachments":[{"name":"a","content":"","encoding":"base64"}]}`,
				"attachments[0]", "base64")
			out, _ := b.accepted(`{"task":"x","attachments":[{"name":"a","content":""}]}`)
			sum := out["attachments"].(map[string]any)
			require.EqualValues(b.T(), 0, sum["totalBytes"])
			require.EqualValues(b.T(), 1, sum["count"])
		},
	},
	{
		id: "1.25", given: "A.txt and a.txt, a.txt twice", expect: "accepted; duplicate, no directory",
		differs: "names that are one file on some systems are refused, too, on every system",
		rules:   attachRules(), run: func(b spawnBot) {
			files := func(a, b string) string {
				return fmt.Sprintf(`{"task":"x","attachments":[{"name":%q,"content":"1"},`+
					`{"name":%q,"content":"2"}]}`, a, b)
			}
			b.fails(files("a.txt", "a.txt"), "attachments[1].name", "there twice")
			b.fails(files("A.txt", "a.txt"), "attachments[1].name", "the same file")
			b.accepted(files("A.txt", "b.txt"))
		},
	},
	{
		id: "1.26", given: "2.9, -0, NaN; 900 configured", expect: "2, 0, 900",
		differs: "JSON has no NaN; what is not a number is refused, and 0.4 is a second, not never",
		rules:   policy.Rules{Subagents: policy.Subagents{Timeout: 900 * time.Second}},
		run: func(b spawnBot) {
			for args, want := range map[string]time.Duration{
				`"runTimeoutSeconds":2.9`: 2 * time.Second, `"timeoutSeconds":60`: time.Minute,
				`"runTimeoutSeconds":0.4`: time.Second, `"label":"a"`: 900 * time.Second,
			} {
				_, run := b.accepted(`{"task":"x",` + args + `}`)
				require.Equal(b.T(), want, run.Deadline.Sub(run.Started), args)
			}
			_, run := b.accepted(`{"task":"x","runTimeoutSeconds":-0}`)
			require.Zero(b.T(), run.Deadline)
			for _, bad := range []string{`"NaN"`, `"soon"`, `-5`} {
				b.fails(`{"task":"x","runTimeoutSeconds":`+bad+`}`, "runTimeoutSeconds", "want a number, 0 or more")
			}
		},
	},
	{id: "1.27", also: "SA16", given: "a cron job", expect: "no note", run: func(b spawnBot) {
		out, _ := b.accepted(`{"task":"x"}`)
		require.Contains(b.T(), out["note"], "do not poll")
		cron := session.Must(session.Parse("agent:main:cron:nightly"))
		out, err := callToolOf(b.Harness, b.Session(cron).Tools(), "sessions_spawn", "1",
			`{"task":"end"}`)
		require.NoError(b.T(), err)
		require.Equal(b.T(), "accepted", out["status"])
		require.NotContains(b.T(), out, "note")
	}},
}

// Every row of the reference is driven against the public API, or is named with why it differs.
func TestSpawnCases(t *testing.T) {
	for i, c := range spawnCases {
		require.Equal(t, fmt.Sprint("1.", i+1), c.id)
		require.True(t, c.run != nil || c.differs != "", c.id)
		t.Run(strings.TrimSpace(c.also+" "+c.id)+" "+c.given, func(t *testing.T) {
			if c.run == nil {
				t.Skip("differs: " + c.differs)
			}
			inSpawnBot(t, c.rules, nil, func(b spawnBot) {
				c.run(b)
				require.NoError(b.T(), b.chatting().Stop(b.Context()))
			})
		})
	}
	require.Len(t, spawnCases, 27)
}

// C12: in a bot that has set all that a spawn can ask for, each parameter of sessions_spawn does
// what it says. Refused are the ones that the design keeps from models: where to deliver, which
// session of a program to resume, and what the sub-agent sees.
func TestNoParameterOfASpawnIsLeftOut(t *testing.T) {
	rules := boxed(policy.SandboxOff, policy.SandboxAll)
	rules.Attachments.Enabled = true
	for param := range agent.SpawnParams() {
		t.Run(param, func(t *testing.T) {
			inSpawnBot(t, rules, nil, func(b spawnBot) {
				defer func() { require.NoError(b.T(), b.chatting().Stop(b.Context())) }()
				if why, ok := keptFromModels[param]; ok {
					b.fails(`{"task":"end","`+param+`":"x"}`, param, why)
					_, err := b.spawn(`{"task":"end","` + param + `":""}`)
					require.Equal(b.T(), why == deliveryIsKept, err != nil, "%v", err)
					return
				}
				c, ok := parametersAtWork[param]
				require.True(b.T(), ok, "%s has no row", param)
				out, err := b.spawn(strings.TrimSuffix(`{"task":"end",`+c.args, ",") + `}`)
				require.NoError(b.T(), err)
				require.Equal(b.T(), "accepted", out["status"], out)
				b.Pass(time.Minute)
				var run agent.RunInfo // zero after the archive
				if runs := b.runs(); len(runs) > 0 {
					run = runs[0]
				}
				require.Equal(b.T(), c.want, c.of(out, run))
			})
		})
	}
	require.Len(t, agent.SpawnParams(), len(parametersAtWork)+len(keptFromModels))
}

const deliveryIsKept = "where to deliver"

// keptFromModels are the parameters that are refused, with a part of the reason.
var keptFromModels = map[string]string{
	"resumeSessionId": "not yours to name", "resume_session_id": "not yours to name",
	"lightContext": "set by its owner", "light_context": "set by its owner",
	"target": deliveryIsKept, "transport": deliveryIsKept, "channel": deliveryIsKept,
	"to": deliveryIsKept, "threadId": deliveryIsKept, "thread_id": deliveryIsKept,
	"replyTo": deliveryIsKept, "reply_to": deliveryIsKept,
}

// A parameterAtWork is a parameter with the arguments that have it, and what it brings about.
type parameterAtWork struct {
	args string
	want any
	of   func(out map[string]any, run agent.RunInfo) any
}

var parametersAtWork = func() map[string]parameterAtWork {
	of := func(f func(agent.RunInfo) any) func(map[string]any, agent.RunInfo) any {
		return func(_ map[string]any, run agent.RunInfo) any { return f(run) }
	}
	says := func(part string) func(map[string]any, agent.RunInfo) any {
		return of(func(r agent.RunInfo) any { return strings.Contains(r.Result.Text, part) })
	}
	timeout := of(func(r agent.RunInfo) any { return r.Deadline.Sub(r.Started) })
	name := of(func(r agent.RunInfo) any { return r.Name })
	agentOf := of(func(r agent.RunInfo) any { return r.Agent })
	bound := of(func(r agent.RunInfo) any { return len(r.Conversations) })
	const file = `"attachments":[{"name":"a","content":"x"}]`
	return map[string]parameterAtWork{
		"task":      {"", "end", of(func(r agent.RunInfo) any { return r.Task })},
		"label":     {`"label":"l"`, "l", of(func(r agent.RunInfo) any { return r.Label })},
		"taskName":  {`"taskName":"scout"`, "scout", name},
		"task_name": {`"task_name":"scout"`, "scout", name},
		"agentId":   {`"agentId":"other"`, "other", agentOf},
		"agent_id":  {`"agent_id":"other"`, "other", agentOf},
		"runtime":   {`"runtime":"acp"`, true, says("acp runs")},
		"streamTo":  {`"runtime":"acp","streamTo":"parent"`, true, says("acp runs")},
		"model": {
			`"model":"a/b"`, "a/b", of(func(r agent.RunInfo) any { return r.Model.Resolved }),
		},
		"thinking": {
			`"thinking":"high"`, "high", of(func(r agent.RunInfo) any { return r.Thinking }),
		},
		"runTimeoutSeconds": {`"runTimeoutSeconds":2`, 2 * time.Second, timeout},
		"timeoutSeconds":    {`"timeoutSeconds":2`, 2 * time.Second, timeout},
		"thread":            {`"thread":true`, 1, bound},
		"mode":              {`"thread":true,"mode":"run"`, 0, bound}, // the run has ended
		"cleanup": {
			`"cleanup":"delete"`, true, of(func(r agent.RunInfo) any { return r.ID == "" }),
		},
		"sandbox": {
			`"agentId":"other","sandbox":"require"`, true,
			of(func(r agent.RunInfo) any { return r.Sandboxed }),
		},
		"context": {
			`"context":"fork"`, "fork",
			func(out map[string]any, _ agent.RunInfo) any { return out["context"] },
		},
		"cwd":         {`"cwd":"app"`, true, says("in app,")},
		"attachments": {file, true, says(`a is "x" true`)},
		"attachAs":    {file + `,"attachAs":{"mountPath":"/in/data"}`, true, says("hinted true")},
		"attach_as":   {file + `,"attach_as":"/in/data"`, true, says("hinted true")},
	}
}()

// docs/spawning.md names every parameter, and every field of a Task.
func TestPageOfSpawningIsComplete(t *testing.T) {
	page, err := os.ReadFile("../docs/spawning.md")
	require.NoError(t, err)
	for param := range agent.SpawnParams() {
		require.Contains(t, string(page), "`"+param+"`")
	}
	for field := range exported[agent.Task]() {
		require.Regexp(t, "`(Spec\\.)?"+field+"`|`"+field+"\\.", string(page))
	}
}
