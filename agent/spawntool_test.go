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
	for _, c := range []struct {
		id, name, args string
		rules          policy.Rules
		err            string            // the tool fails, naming the argument
		out            map[string]string // what it answers
		check          func(t *testing.T, r agent.RunInfo)
	}{
		{id: "", name: "no object", args: `["x"]`, err: `want a JSON object`},
		{id: "", name: "no JSON", args: `{"task"`, err: `want a JSON object`},
		{
			id: "", name: "a thread without a channel", args: `{"task":"x","thread":true}`,
			out: map[string]string{"status": "forbidden", "rule": "threadBindings"},
		},
		{
			id: "", name: "an agent that is not configured", args: `{"task":"x","agentId":"ghost"}`,
			rules: policy.Rules{Agents: agentsAllowing([]string{"*"})},
			out:   map[string]string{"status": "forbidden", "asked": "ghost"},
		},
		{
			id: "", name: "a sandbox of another sort", args: `{"task":"x","sandbox":"maybe"}`,
			err: `argument "sandbox"`,
		},
		{
			id: "", name: "attachments without content", args: `{"task":"x","attachments":[{"name":"a"}]}`,
			err: `argument "attachments[0]": its content is missing`,
		},
		{id: "", name: "no attachments", args: `{"task":"x","attachments":[]}`},
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

// A tree is as deep as the rules say, and depth is looked at first.
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

// Active children are limited, ended ones do not count, and those that wait for the lane are
// admitted.
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

// A call that a turn repeats which was cut off says what has become of what it had spawned: that
// was told before, and nothing works on it now.
func TestRepeatedSpawnCallOfARunThatHasEnded(t *testing.T) {
	for name, c := range map[string]struct {
		task, want string
		cut        bool
	}{
		"ok":          {task: "quick", want: "ended: ok."},
		"failed":      {task: "fail", want: "ended: failed (it fails)"},
		"interrupted": {task: "slow", want: "ended: interrupted (the process", cut: true},
	} {
		t.Run(name, func(t *testing.T) {
			var said []string
			cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
				sub := tn.Session.Key.IsSubagent()
				switch {
				case sub && c.task == "slow":
					return agent.Result{}, pause(ctx, time.Hour)
				case sub && c.task == "fail":
					return agent.Result{}, errors.New("it fails")
				case sub, !strings.Contains(tn.Input(), "go"):
					return textResult("x")
				}
				res, err := tn.Call(ctx, agent.ToolCall{
					ID: "call_0", Name: "sessions_spawn", Args: []byte(`{"task":"` + c.task + `"}`),
				})
				if err != nil {
					return agent.Result{}, err
				}
				said = append(said, res.Text)
				if len(said) == 1 {
					return agent.Result{}, pause(ctx, time.Hour)
				}
				return textResult("x")
			})
			agenttest.Run(t, cfg, nil, func(h *harness) {
				h.Post("go")
				h.Pass(time.Second)
				h.Crash()
				h.Pass(time.Minute)
				require.Len(t, said, 2)
				require.Contains(t, said[0], "It works on its own now.")
				require.Contains(t, said[1], c.want)
				require.NotContains(t, said[1], "It works on its own now.")
				require.Len(t, h.Runs(), 1)
			})
		})
	}
}
