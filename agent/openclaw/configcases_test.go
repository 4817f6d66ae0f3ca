package openclaw_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/binding"
	"github.com/stretchr/testify/require"
)

// A configCase is a row of section 3.3 of the field's reference: what stands in a file, and what a
// bot does with it.
type configCase struct {
	id, given, expect string
	differs           string   // what of it is otherwise here, and why
	files             []string // each is tried for itself
	path              string   // of the one mistake of each file; empty: run is called with each
	run               func(t *testing.T, b configuredBot)
}

// A configuredBot is a bot that a file has configured. Its sub-agents take as long as their task
// says, and spawn another one if it says "deeper".
type configuredBot struct {
	*agenttest.Harness

	file string
	deep *error // of the last spawn of a sub-agent
}

// withFile calls f with a bot of a file.
func withFile(t *testing.T, file string, f func(t *testing.T, b configuredBot)) {
	t.Helper()
	b := configuredBot{file: file, deep: new(error)}
	cfg := agent.Config{Runner: agent.RunnerFunc(func(
		ctx context.Context, tn *agent.Turn,
	) (agent.Result, error) {
		_, task, _ := strings.Cut(tn.Messages[0].Text, "[Subagent Task]: ")
		if task == "deeper" {
			_, *b.deep = tn.Spawn(ctx, agent.Task{Text: "1s"})
			return agent.Result{}, nil
		}
		takes, err := time.ParseDuration(task)
		select {
		case <-time.After(takes):
		case <-ctx.Done():
		}
		return agent.Result{Text: "after " + task}, err
	})}
	cfg.Deliver = func(context.Context, agent.Delivery) error { return nil }
	cfg.Threads.Channels = map[string]agent.ThreadChannel{}
	for _, channel := range []string{"discord", "irc"} {
		cfg.Threads.Channels[channel] = agent.ThreadChannel{Host: agenttest.NewFakeChannel(channel)}
	}
	parse(t, file).Apply(&cfg)
	agenttest.Run(t, cfg, nil, func(h *agenttest.Harness) {
		b.Harness = h
		f(t, b)
		require.NoError(t, h.Main().Stop(h.Context()))
	})
}

// spawn calls sessions_spawn as the main session's model would, and returns the answer.
func (b configuredBot) spawn(args string) (out map[string]any) {
	b.T().Helper()
	for _, tool := range b.Main().Tools() {
		if tool.Name == "sessions_spawn" {
			said, err := tool.Call(b.Context(), agent.ToolCall{
				ID: args, Name: tool.Name, Args: json.RawMessage(args),
			})
			require.NoError(b.T(), err)
			require.NoError(b.T(), json.Unmarshal([]byte(said.Text), &out))
		}
	}
	return out
}

// accepted spawns n sub-agents, with a task and arguments behind it.
func (b configuredBot) accepted(n int, task, args string) {
	b.T().Helper()
	for i := range n {
		out := b.spawn(fmt.Sprintf(`{"task":%q,"label":"%d"%s}`, task, i, args))
		require.Equal(b.T(), "accepted", out["status"], out)
	}
	b.Pass(time.Millisecond)
}

// refused spawns a sub-agent and returns the rule that refuses it.
func (b configuredBot) refused(args string) policy.Rule {
	b.T().Helper()
	out := b.spawn(args)
	require.Equal(b.T(), "forbidden", out["status"], out)
	return policy.Rule(out["rule"].(string))
}

// bind binds a conversation to the main session. If that is refused, it returns the path of the
// setting that refuses it.
func (b configuredBot) bind(at session.Route) (made binding.Binding, path string) {
	b.T().Helper()
	if len(b.Runs()) == 0 {
		b.accepted(1, "1s", "") // the session is on record
	}
	made, err := b.Runtime().Focus(b.Context(), agent.FocusRequest{
		Conversation: at, Session: b.Main().Key(), By: "alice",
	})
	if refusal, ok := errors.AsType[*policy.Refusal](err); ok {
		return made, refusal.Path
	}
	require.NoError(b.T(), err)
	return made, ""
}

// lasts checks how long a binding in Discord lasts in which nothing is written; zero: for ever.
func lasts(d time.Duration) func(t *testing.T, b configuredBot) {
	return func(t *testing.T, b configuredBot) {
		made, path := b.bind(session.Route{Channel: "discord", To: "general"})
		require.Empty(t, path)
		require.Equal(t, d, made.Idle)
		bound := func() bool {
			list, err := b.Runtime().Bindings(b.Context())
			require.NoError(t, err)
			return len(list) == 1
		}
		if d == 0 {
			b.Pass(1000 * time.Hour)
			require.True(t, bound())
			return
		}
		b.Pass(d - time.Minute)
		require.True(t, bound())
		b.Pass(2 * time.Minute)
		require.False(t, bound())
	}
}

func inSubagents(list ...string) (files []string) {
	for _, members := range list {
		files = append(files, `{agents: {defaults: {subagents: {`+members+`}}}}`)
	}
	return files
}

func threadBindings(list ...string) (files []string) {
	for _, members := range list {
		files = append(files, `{session: {threadBindings: {`+members+`}}}`)
	}
	return files
}

const ofSubagents = "agents.defaults.subagents."

// agentsOf is a file with the agents main and a, and members of each level.
func agentsOf(defaults, ofMain string) []string {
	return []string{`{agents: {defaults: {subagents: {` + defaults + `}}, list: [` +
		`{id: "main", subagents: {` + ofMain + `}}, {id: "a"}]}}`}
}

// configCases are all rows, in their order.
var configCases = []configCase{
	{
		id: "3.1", given: "nothing", expect: "8 at once, depth 1, 5 children, 60 minutes, no timeout",
		files: []string{`{}`}, run: defaultsOfAFile,
	},
	{
		id: "3.2", given: "maxSpawnDepth 0, 6, 2.5", expect: "a mistake",
		files: inSubagents(`maxSpawnDepth: 0`, `maxSpawnDepth: 6`, `maxSpawnDepth: 2.5`),
		path:  ofSubagents + "maxSpawnDepth",
	},
	{
		id: "3.3", given: "maxChildrenPerAgent 0, 21", expect: "a mistake",
		files: inSubagents(`maxChildrenPerAgent: 0`, `maxChildrenPerAgent: 21`),
		path:  ofSubagents + "maxChildrenPerAgent",
	},
	{
		id: "3.4", given: "maxConcurrent 0", expect: "a mistake; 1 where it is used",
		files: inSubagents(`maxConcurrent: 0`, `maxConcurrent: -3`),
		path:  ofSubagents + "maxConcurrent",
	},
	{
		id: "3.5", given: "archiveAfterMinutes 0", expect: "no archive",
		files: inSubagents(`archiveAfterMinutes: 0`), run: func(t *testing.T, b configuredBot) {
			b.accepted(1, "1s", "")
			b.Pass(1000 * time.Hour)
			require.Len(t, b.Runs(), 1)
		},
	},
	{
		id: "3.6", given: "runTimeoutSeconds -1", expect: "a mistake",
		files: inSubagents(`runTimeoutSeconds: -1`), path: ofSubagents + "runTimeoutSeconds",
	},
	{
		id: "3.7", given: "an unknown member of subagents", expect: "a mistake",
		files: inSubagents(`maxDepth: 2`), path: ofSubagents + "maxDepth",
	},
	{
		id: "3.8", given: "allow and alsoAllow of sub-agents", expect: "a mistake",
		files: []string{`{tools: {subagents: {tools: {allow: ["a"], alsoAllow: ["b"]}}}}`},
		path:  "tools.subagents.tools.alsoAllow",
	},
	{
		id: "3.9", given: "an empty allow and alsoAllow", expect: "taken",
		files: []string{
			`{tools: {subagents: {tools: {allow: [], alsoAllow: ["sessions_send"]}}}}`,
		},
		run: func(t *testing.T, b configuredBot) {
			b.accepted(1, "1m", "")
			require.Contains(t, b.Runs()[0].Tools, "sessions_send")
		},
	},
	{
		id: "3.10", given: "visibility in capitals, with a space; bogus", expect: "tree",
		differs: "a word that is not known is a mistake, not tree",
		files:   []string{`{tools: {sessions: {visibility: "TREE "}}}`},
		run:     visibilityInCapitals,
	},
	{
		id: "3.11", given: "idleHours 0", expect: "no idle limit",
		files: threadBindings(`idleHours: 0`), run: lasts(0),
	},
	{
		id: "3.12", given: "idleHours 0.5", expect: "30 minutes",
		files: threadBindings(`idleHours: 0.5`), run: lasts(30 * time.Minute),
	},
	{
		id: "3.13", given: "idleHours -1", expect: "a mistake",
		differs: "no later level is asked: a file with a mistake is not taken at all",
		files:   threadBindings(`idleHours: -1`), path: "session.threadBindings.idleHours",
	},
	{
		id: "3.14", given: "ttlHours 12", expect: "idleHours 12",
		files: threadBindings(`ttlHours: 12`), run: lasts(12 * time.Hour),
	},
	{
		id: "3.15", given: "ttlHours 12, idleHours 6", expect: "6 hours",
		files: threadBindings(`ttlHours: 12, idleHours: 6`, `idleHours: 6, ttlHours: 12`),
		run:   lasts(6 * time.Hour),
	},
	{
		id: "3.16", given: "not in Discord, but of an account", expect: "of that account",
		files: []string{`{channels: {discord: {threadBindings: {enabled: false},
			accounts: {Work: {threadBindings: {enabled: true}}}}}}`},
		run: func(t *testing.T, b configuredBot) {
			for account, want := range map[string]string{
				"Work": "", "Home": "channels.discord.threadBindings.enabled",
				"": "channels.discord.threadBindings.enabled",
			} {
				_, path := b.bind(session.Route{Channel: "discord", Account: account, To: "x"})
				require.Equal(t, want, path, account)
			}
		},
	},
	{
		id: "3.17", given: "not in any session", expect: "none is bound",
		files: threadBindings(`enabled: false`), run: func(t *testing.T, b configuredBot) {
			_, path := b.bind(session.Route{Channel: "discord", To: "x"})
			require.Equal(t, "session.threadBindings.enabled", path)
		},
	},
	{
		id: "3.18", given: "spawnSubagentSessions of no channel", expect: "true",
		files: []string{`{}`, `{session: {threadBindings: {spawnSubagentSessions: false}}}`},
		run:   spawnsBindUnlessToldNotTo,
	},
	{
		id: "3.19", given: "allowAgents of the defaults, an empty one of the agent", expect: "none",
		files: agentsOf(`allowAgents: ["a"]`, `allowAgents: []`),
		run: func(t *testing.T, b configuredBot) {
			require.Equal(t, policy.RuleAgents, b.refused(`{"task":"1s","agentId":"a"}`))
		},
	},
	{
		id: "3.20", given: "requireAgentId, but not of the agent", expect: "it is not required",
		files: agentsOf(`requireAgentId: true`, `requireAgentId: false`),
		run: func(t *testing.T, b configuredBot) {
			b.accepted(1, "1s", "")
		},
	},
}

// Every row of the reference is driven from a file, in its order.
func TestConfigCases(t *testing.T) {
	for i, c := range configCases {
		require.Equal(t, fmt.Sprint("3.", i+1), c.id)
		require.NotEmpty(t, c.files, c.id)
		require.Equal(t, c.path == "", c.run != nil, c.id)
		t.Run(c.id+" "+c.given, func(t *testing.T) {
			for _, file := range c.files {
				if c.run != nil {
					withFile(t, file, c.run)
					continue
				}
				found := mistakes(t, file, nowhere())
				require.Len(t, found, 1, file)
				require.Contains(t, found[0], ": "+c.path+": ", file)
			}
		})
	}
	require.Len(t, configCases, 20)
}

func defaultsOfAFile(t *testing.T, b configuredBot) {
	b.accepted(5, "3h", "")
	require.Equal(t, policy.RuleChildren, b.refused(`{"task":"3h"}`))
	for _, r := range b.Runs() {
		require.Equal(t, agent.StatusRunning, r.Status)
		require.Zero(t, r.Deadline)
	}
	other := b.Session(session.Must(session.NamedKey("main", "other")))
	for range 4 {
		_, err := other.Spawn(b.Context(), agent.Task{Text: "1h"})
		require.NoError(t, err)
	}
	b.Pass(time.Minute)
	runs, err := other.Runs(b.Context())
	require.NoError(t, err)
	for i, r := range runs { // 5 and 3 are 8
		want := map[bool]agent.Status{true: agent.StatusRunning, false: agent.StatusQueued}[i < 3]
		require.Equal(t, want, r.Status)
	}
	b.Pass(3*time.Hour + 58*time.Minute)
	require.Len(t, b.Runs(), 5)
	b.Pass(2 * time.Minute)
	require.Empty(t, b.Runs(), "an hour after their ends")
	b.accepted(1, "deeper", "")
	refusal, ok := errors.AsType[*policy.Refusal](*b.deep)
	require.True(t, ok)
	require.Equal(t, policy.RuleDepth, refusal.Rule)
	require.NoError(t, other.Stop(b.Context()))
}

// 3.4: a rule that no Config can have counts as the least where it is used.
func TestLaneHasAPlace(t *testing.T) {
	require.Equal(t, 1, (&policy.Rules{
		Subagents: policy.Subagents{MaxConcurrent: -3},
	}).MaxConcurrent())
}

func visibilityInCapitals(t *testing.T, b configuredBot) {
	b.accepted(1, "1s", "")
	b.Pass(time.Minute)
	see := func(key session.Key) error {
		for _, tool := range b.Main().Tools() {
			if tool.Name == "sessions_history" {
				_, err := tool.Call(b.Context(), agent.ToolCall{
					ID: "1", Name: tool.Name, Args: json.RawMessage(`{"sessionKey":"` + key.String() + `"}`),
				})
				return err
			}
		}
		return errors.New("there is not such a tool")
	}
	require.NoError(t, see(b.Runs()[0].Key))
	other := b.Session(session.Must(session.NamedKey("main", "other")))
	_, err := other.Spawn(b.Context(), agent.Task{Text: "1s"})
	require.NoError(t, err)
	require.ErrorContains(t, see(other.Key()), "you can see no session")
	require.Len(t, mistakes(t, `{tools: {sessions: {visibility: "bogus"}}}`, nowhere()), 1)
}

func spawnsBindUnlessToldNotTo(t *testing.T, b configuredBot) {
	for _, channel := range []string{"discord", "irc"} {
		_, err := b.Main().Spawn(b.Context(), agent.Task{
			Text: "1s", Thread: true,
			Conversation: session.Route{Channel: channel, To: "general", Thread: "7"},
		})
		refusal, refused := errors.AsType[*policy.Refusal](err)
		require.Equal(t, b.file != "{}", refused, "%s: %v", channel, err)
		if refused {
			require.Contains(t, refusal.Path, "spawnSubagentSessions")
			continue
		}
		require.NoError(t, err)
	}
}

// 2.7: of a model with fallbacks the primary one is used.
func TestModelOfAFile(t *testing.T) {
	const file = `{agents: {defaults: {subagents: {model: {primary: " p/m ", fallbacks: ["p/n"]}}}}}`
	withFile(t, file, func(t *testing.T, b configuredBot) {
		b.accepted(1, "1m", "")
		require.Equal(t, "p/m", b.Runs()[0].Model.Resolved)
	})
}
