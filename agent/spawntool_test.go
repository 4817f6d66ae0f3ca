package agent_test

import (
	"context"
	"encoding/json"
	"errors"
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

// configHanging is a Config whose sub-agents work until they are stopped.
func configHanging(rules policy.Rules) agent.Config {
	cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
		<-ctx.Done()
		return agent.Result{}, ctx.Err()
	})
	cfg.Rules = rules
	cfg.Deliver = func(context.Context, agent.Delivery) error { return nil }
	return cfg
}

func agentsAllowing(allow []string, ids ...string) []policy.Agent {
	list := []policy.Agent{{ID: "main", Subagents: policy.Subagents{AllowAgents: allow}}}
	for _, id := range ids {
		list = append(list, policy.Agent{ID: id})
	}
	return list
}

func TestSpawnArguments(t *testing.T) {
	long := strings.Repeat("a", 65)
	for _, c := range []struct {
		id, name, args string
		rules          policy.Rules
		err            string            // the tool fails, naming the argument
		out            map[string]string // what it answers
		check          func(t *testing.T, r agent.RunInfo)
	}{
		{id: "1.1", name: "where to deliver", args: `{"task":"x","to":"u"}`, err: `argument "to"`},
		{
			id: "1.2", name: "in a fixed order", args: `{"task":"x","thread_id":null,"target":"y"}`,
			err: `argument "target"`,
		},
		{
			id: "1.2", name: "even before the task", args: `{"replyTo":""}`,
			err: `argument "replyTo"`,
		},
		{
			id: "1.3", name: "blank task", args: `{"task":"   "}`,
			err: `argument "task": it is required`,
		},
		{id: "1.3", name: "no task", args: ``, err: `argument "task": it is required`},
		{
			id: "1.3", name: "task of another type", args: `{"task":7}`,
			err: `argument "task": it is 7, not a string`,
		},
		{id: "", name: "no object", args: `["x"]`, err: `not a JSON object`},
		{id: "", name: "no JSON", args: `{"task"`, err: `not a JSON object`},
		{
			id: "1.4", name: "an agent that is an error message",
			args: `{"task":"x","agentId":"Agent not found: xyz"}`,
			out:  map[string]string{"status": "error", "rule": "agentId"},
		},
		{
			id: "1.5", name: "an agent of 65 characters",
			args: `{"task":"x","agentId":"` + long + `"}`,
			out:  map[string]string{"status": "error", "rule": "agentId"},
		},
		{
			id: "1.5", name: "an agent that is a path", args: `{"task":"x","agentId":"../x"}`,
			out: map[string]string{"status": "error", "rule": "agentId"},
		},
		{
			id: "1.6", name: "case of an agent",
			args: `{"task":"x","agentId":"My-Research_Agent01"}`,
			rules: policy.Rules{Agents: agentsAllowing([]string{"*"},
				"my-research_agent01")},
			check: func(t *testing.T, r agent.RunInfo) {
				require.True(t, strings.HasPrefix(r.Key.String(),
					"agent:my-research_agent01:subagent:"), r.Key)
			},
		},
		{
			id: "1.7", name: "a session without a thread", args: `{"task":"x","mode":"session"}`,
			err: `argument "mode"`,
		},
		{
			id: "1.8", name: "a thread without a channel", args: `{"task":"x","thread":true}`,
			out: map[string]string{"status": "forbidden", "rule": "threadBindings"},
		},
		{
			id: "1.18", name: "space around an allowed agent",
			args:  `{"task":"x","agent_id":"research"}`,
			rules: policy.Rules{Agents: agentsAllowing([]string{" Research "}, "research")},
		},
		{
			id: "1.19", name: "an agent that is not allowed", args: `{"task":"x","agentId":"beta"}`,
			rules: policy.Rules{Agents: agentsAllowing(nil, "beta")},
			out: map[string]string{
				"status": "forbidden", "rule": "allowAgents", "asked": "beta",
				"path": "agents.list[main].subagents.allowAgents",
			},
		},
		{
			id: "", name: "an agent that is not configured", args: `{"task":"x","agentId":"ghost"}`,
			rules: policy.Rules{Agents: agentsAllowing([]string{"*"})},
			out:   map[string]string{"status": "forbidden", "asked": "ghost"},
		},
		{
			id: "1.21", name: "a sandbox that is not there",
			args: `{"task":"x","sandbox":"require"}`,
			out:  map[string]string{"status": "forbidden", "rule": "sandbox"},
		},
		{
			id: "", name: "a sandbox of another sort", args: `{"task":"x","sandbox":"maybe"}`,
			err: `argument "sandbox"`,
		},
		{
			id: "1.22", name: "thinking", args: `{"task":"x","thinking":"banana"}`,
			out: map[string]string{"status": "error", "rule": "thinking", "asked": "banana"},
		},
		{
			id: "1.23", name: "attachments", args: `{"task":"x","attachments":[{"name":"a"}]}`,
			err: `argument "attachments[0]": its content is missing`,
		},
		{id: "1.23", name: "no attachments", args: `{"task":"x","attachments":[]}`},
		{
			id: "8.1", name: "an external runtime", args: `{"task":"x","runtime":"acp"}`,
			out: map[string]string{"status": "forbidden", "rule": "runtime"},
		},
		{
			id: "", name: "space around a label", args: `{"task":"x","label":" a "}`,
			check: func(t *testing.T, r agent.RunInfo) { require.Equal(t, "a", r.Label) },
		},
		{
			id: "S10", name: "part of a second", args: `{"task":"x","runTimeoutSeconds":0.4}`,
			check: func(t *testing.T, r agent.RunInfo) {
				require.Equal(t, time.Second, r.Deadline.Sub(r.Started))
			},
		},
		{
			id: "1.26", name: "a broken second", args: `{"task":"x","runTimeoutSeconds":2.9}`,
			check: func(t *testing.T, r agent.RunInfo) {
				require.Equal(t, 2*time.Second,
					r.Deadline.Sub(r.Started))
			},
		},
		{
			id: "1.26", name: "no timeout", args: `{"task":"x","runTimeoutSeconds":-0}`,
			rules: policy.Rules{Subagents: policy.Subagents{Timeout: time.Hour}},
			check: func(t *testing.T, r agent.RunInfo) { require.Zero(t, r.Deadline) },
		},
		{
			id: "1.26", name: "the older name of the timeout",
			args: `{"task":"x","timeoutSeconds":60}`,
			check: func(t *testing.T, r agent.RunInfo) {
				require.Equal(t, time.Minute,
					r.Deadline.Sub(r.Started))
			},
		},
		{
			id: "1.26", name: "the configured timeout", args: `{"task":"x"}`,
			rules: policy.Rules{Subagents: policy.Subagents{Timeout: 900 * time.Second}},
			check: func(t *testing.T, r agent.RunInfo) {
				require.Equal(t, 900*time.Second,
					r.Deadline.Sub(r.Started))
			},
		},
		{
			id: "1.26", name: "a timeout that is none",
			args: `{"task":"x","runTimeoutSeconds":"soon"}`, err: `argument "runTimeoutSeconds"`,
		},
		{
			id: "1.26", name: "a negative timeout", args: `{"task":"x","runTimeoutSeconds":-5}`,
			err: `argument "runTimeoutSeconds"`,
		},
		{
			id: "", name: "an invalid model", args: `{"task":"x","model":"no such model!"}`,
			check: func(t *testing.T, r agent.RunInfo) {
				require.Equal(t, spawn.ModelInfo{
					Requested: "no such model!",
					Resolved:  "vendor/default",
				}, r.Model)
				require.NotEmpty(t, r.Warnings)
			},
		},
	} {
		t.Run(strings.TrimSpace(c.id+" "+c.name), func(t *testing.T) {
			cfg := configHanging(c.rules)
			cfg.Models.Model = "vendor/default"
			agenttest.Run(t, cfg, nil, func(h *harness) {
				out, err := callTool(h, "sessions_spawn", "1", c.args)
				if c.err != "" {
					bad, ok := errors.AsType[*agent.ArgumentError](err)
					require.True(t, ok, "%v %v", out, err)
					require.Equal(t, "sessions_spawn", bad.Tool)
					require.ErrorContains(t, err, c.err)
					require.Empty(t, h.Runs(), "nothing is half done")
					return
				}
				require.NoError(t, err)
				for k, v := range c.out {
					require.Equal(t, v, out[k], "%v", out)
				}
				if c.out != nil {
					require.NotEmpty(t, out["error"])
					require.Empty(t, h.Runs(), "nothing is half done")
					return
				}
				require.Equal(t, "accepted", out["status"], "%v", out)
				require.Equal(t, "run", out["mode"])
				require.Contains(t, out["note"], "do not poll")
				runs := h.Runs()
				require.Len(t, runs, 1)
				require.Equal(t, out["childSessionKey"], runs[0].Key.String())
				require.Equal(t, out["runId"], string(runs[0].ID))
				if runs[0].Model.Requested != "" {
					require.Equal(t, false, out["modelApplied"])
					require.NotEmpty(t, out["warnings"])
				}
				if c.check != nil {
					c.check(t, runs[0])
				}
				require.NoError(t, h.Main().Stop(h.Context()))
			})
		})
	}
}

// 1.10 to 1.12 and 1.17: a tree is as deep as the rules say, and depth is looked at first.
func TestSpawnDepth(t *testing.T) {
	for levels := 1; levels <= 3; levels++ {
		answers := map[int]string{}
		cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
			c, err := tn.Spawn(ctx, agent.Task{
				Text:  "deeper",
				Agent: map[bool]string{true: "nobody"}[tn.Session.Depth == levels],
			})
			if err != nil {
				refusal, ok := errors.AsType[*policy.Refusal](err)
				if !ok {
					return agent.Result{}, err
				}
				answers[tn.Session.Depth] = strings.Join([]string{
					string(refusal.Rule), refusal.Asked, refusal.Limit, refusal.Path,
				}, " ")
				return textResult("no deeper")
			}
			_, err = c.Wait(ctx)
			return agent.Result{}, err
		})
		cfg.Rules.Subagents.MaxSpawnDepth = levels
		agenttest.Run(t, cfg, nil, func(h *harness) {
			h.Post("go")
			runs := h.Runs()
			require.Len(t, runs, levels)
			require.Len(t, answers, 1)
			require.Contains(t, answers[levels], "maxSpawnDepth")
			require.Contains(t, answers[levels], "agents.defaults.subagents.maxSpawnDepth")
			for i, r := range runs {
				require.Equal(t, i+1, r.Depth)
				if i > 0 {
					require.Equal(t, runs[i-1].Key, r.Parent)
				}
			}
		})
	}
}

// 1.15 and 1.16: active children are limited, ended ones do not count, and those that wait for the
// lane are admitted.
func TestSpawnCounts(t *testing.T) {
	rules := policy.Rules{Subagents: policy.Subagents{MaxChildren: 2, MaxConcurrent: 1}}
	agenttest.Run(t, configHanging(rules), nil, func(h *harness) {
		for _, label := range []string{"a", "b"} {
			out, err := callTool(h, "sessions_spawn", "1", `{"task":"x","label":"`+label+`"}`)
			require.NoError(t, err)
			require.Equal(t, "accepted", out["status"],
				"another set of tools: the same call id is another call")
		}
		require.Equal(t, map[string]spawn.Status{"a": spawn.StatusRunning, "b": spawn.StatusQueued},
			statuses(h.Runs()))
		out, err := callTool(h, "sessions_spawn", "3", `{"task":"x"}`)
		require.NoError(t, err)
		require.Equal(t, "forbidden", out["status"])
		require.Equal(t, "maxChildrenPerAgent", out["rule"])
		require.Equal(t, "2", out["limit"])
		require.NoError(t, h.Session(h.Child("b").Key).Stop(h.Context()))
		out, err = callTool(h, "sessions_spawn", "4", `{"task":"x"}`)
		require.NoError(t, err)
		require.Equal(t, "accepted", out["status"])
		require.NoError(t, h.Main().Stop(h.Context()))
		h.Deliveries()
	})
}

// A thousand children one after the other never meet the limit of one.
func TestSpawnCountsOnlyWhatIsActive(t *testing.T) {
	cfg := configAnswering(asText)
	cfg.Rules.Subagents.MaxChildren = 1
	agenttest.Run(t, cfg, nil, func(h *harness) {
		for range 1000 {
			c, err := agent.Spawn[string](h.Context(), h.Main(), agent.Task{Text: "x"})
			require.NoError(t, err)
			_, err = c.Wait(h.Context())
			require.NoError(t, err)
		}
	})
}

// 1.27: a cron turn must wait for its sub-agents, so it is not told that they come by themselves.
func TestSpawnFromCron(t *testing.T) {
	agenttest.Run(t, configHanging(policy.Rules{}), nil, func(h *harness) {
		cron := session.Must(session.Parse("agent:main:cron:nightly"))
		out, err := callToolOf(h, h.Session(cron).Tools(), "sessions_spawn", "1", `{"task":"x"}`)
		require.NoError(t, err)
		require.Equal(t, "accepted", out["status"])
		require.NotContains(t, out, "note")
		require.NoError(t, h.Session(cron).Stop(h.Context()))
	})
}

// The same call gives the same sub-agent; another set of tools, which is another turn, another one.
func TestSpawnCallThatIsRepeated(t *testing.T) {
	agenttest.Run(t, configHanging(policy.Rules{}), nil, func(h *harness) {
		tools := h.Main().Tools()
		var ids []any
		for range 3 {
			out, err := callToolOf(h, tools, "sessions_spawn", "call_0", `{"task":"x"}`)
			require.NoError(t, err)
			ids = append(ids, out["runId"])
		}
		require.Equal(t, []any{ids[0], ids[0], ids[0]}, ids)
		other, err := callToolOf(h, tools, "sessions_spawn", "call_1", `{"task":"x"}`)
		require.NoError(t, err)
		require.NotEqual(t, ids[0], other["runId"])
		next, err := callTool(h, "sessions_spawn", "call_0", `{"task":"x"}`)
		require.NoError(t, err)
		require.NotEqual(t, ids[0], next["runId"])
		for range 2 { // without an id nothing can be recognised
			_, err := callToolOf(h, tools, "sessions_spawn", "", `{"task":"x"}`)
			require.NoError(t, err)
		}
		require.Len(t, h.Runs(), 5)
		require.NoError(t, h.Main().Stop(h.Context()))
	})
}

func TestSpawnKey(t *testing.T) {
	cfg := configAnswering(asText)
	agenttest.Run(t, cfg, nil, func(h *harness) {
		spawnIt := func(key, task string) *agent.Child[string] {
			c, err := agent.Spawn[string](h.Context(), h.Main(), agent.Task{Text: task, Key: key})
			require.NoError(t, err)
			return c
		}
		first := spawnIt("job", "a")
		require.Equal(t, first.ID(), spawnIt("job", "a").ID())
		require.NotEqual(t, first.ID(), spawnIt("other", "a").ID())
		got, err := spawnIt("job", "a").Wait(h.Context())
		require.NoError(t, err)
		require.Equal(t, "a", got)
		h.Crash()
		require.Equal(t, first.ID(), spawnIt("job", "a").ID(), "after a crash")
		time.Sleep(3 * 24 * time.Hour)
		again := spawnIt("job", "a")
		require.Equal(t, first.ID(), again.ID(), "after it was archived")
		got, err = again.Wait(h.Context())
		require.NoError(t, err)
		require.Equal(t, "a", got)
		other, err := agent.Spawn[string](h.Context(),
			h.Session(session.Must(session.NamedKey("main", "job"))),
			agent.Task{Text: "a", Key: "job"})
		require.NoError(t, err)
		require.NotEqual(t, first.ID(), other.ID(), "keys are a requester's own")
		time.Sleep(5 * 24 * time.Hour)
		require.NotEqual(t, first.ID(), spawnIt("job", "a").ID(), "after a week it is another one")
	})
}

func TestSpawnSchemasAreJSON(t *testing.T) {
	agenttest.Run(t, agent.Config{Rules: rulesForDepth(2)}, script{}, func(h *harness) {
		for _, tool := range h.Main().Tools() {
			var schema map[string]any
			require.NoError(t, json.Unmarshal(tool.Schema, &schema), tool.Name)
			require.Equal(t, "object", schema["type"])
			require.NotEmpty(t, tool.Description)
		}
	})
}
