package agent_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
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
	"github.com/offshoot-sdk/offshoot/spawn"
)

// spawnCallOf is a call of sessions_spawn.
func spawnCallOf(id, task string) agent.ToolCall {
	args := fmt.Sprintf(`{"task":%q,"label":%q}`, task, task)
	return agent.ToolCall{ID: id, Name: "sessions_spawn", Args: []byte(args)}
}

// countLabels counts runs by label.
func countLabels(runs []agent.RunInfo) map[string]int {
	m := make(map[string]int)
	for _, r := range runs {
		m[r.Label]++
	}
	return m
}

// modelOfResponses answers the n-th call for a top-level turn with the n-th response, over
// restarts the n-th of the turn; sub-agents and later calls get the text "done".
func modelOfResponses(responses ...[]agent.ToolCall) modelFunc {
	return func(ctx context.Context, req *agent.ModelRequest) (*agent.ModelResponse, error) {
		n := 0
		for _, m := range req.Messages[len(req.Messages)-req.New:] {
			if m.Role == session.MessageAssistant {
				n++
			}
		}
		if req.Run != "" || n >= len(responses) || !strings.Contains(fmt.Sprint(req.Messages), "go") {
			return &agent.ModelResponse{Text: "done"}, pause(ctx, time.Minute)
		}
		return &agent.ModelResponse{ToolCalls: responses[n]}, nil
	}
}

// S3: providers number the calls of each response from call_0. Two spawns of one turn under one id
// are two spawns, in different responses and in one; a turn that is retried and draws the same ids
// finds the same runs.
func TestToolCallIDsOfEachResponse(t *testing.T) {
	model := modelOfResponses(
		[]agent.ToolCall{spawnCallOf("call_0", "a")},
		[]agent.ToolCall{spawnCallOf("call_0", "b"), spawnCallOf("call_0", "c")},
		[]agent.ToolCall{spawnCallOf("call_0", "b"), spawnCallOf("", "d")},
	)
	cfg := agent.Config{Runner: &agent.Loop{Model: model}, Rules: rulesForDepth(1)}
	agenttest.Run(t, cfg, nil, func(h *harness) {
		want := map[string]int{"a": 1, "b": 2, "c": 1, "d": 1}
		h.Post("go")
		time.Sleep(30 * time.Second)
		require.Equal(t, want, countLabels(h.Runs()))
		h.Crash()
		time.Sleep(30 * time.Second)
		require.Equal(t, want, countLabels(h.Runs()))
	})
}

// S3: a caller with a loop of its own gets two sub-agents for two tasks under one id, and one for a
// call that it repeats.
func TestToolCallIDsOfACaller(t *testing.T) {
	cfg := configAnswering(asText)
	cfg.Deliver = func(context.Context, agent.Delivery) error { return nil }
	agenttest.Run(t, cfg, nil, func(h *harness) {
		tool := findTool(t, h.Main().Tools(), "sessions_spawn")
		for _, task := range []string{"a", "b", "a", "b"} {
			_, err := tool.Call(h.Context(), spawnCallOf("call_0", task))
			require.NoError(t, err)
		}
		require.Equal(t, map[string]int{"a": 1, "b": 1}, countLabels(h.Runs()))
	})
}

// A keyedField is a field of a Task: a request under a Key, and the other one that differs in it.
type keyedField struct {
	first agent.Task
	files bool // with Attachments, which are read once
	other func(q *agent.Task)
}

// keyedFields are the fields of a Task that tell requests with one Key apart. A field that is added
// to a Task stands here, or among those that do not.
var keyedFields = map[string]keyedField{
	"Text":     {other: func(q *agent.Task) { q.Text = "b" }},
	"Label":    {other: func(q *agent.Task) { q.Label = "m" }},
	"Name":     {other: func(q *agent.Task) { q.Name = "other" }},
	"Agent":    {other: func(q *agent.Task) { q.Agent = "main" }},
	"Model":    {other: func(q *agent.Task) { q.Model = "x/y" }},
	"Thinking": {other: func(q *agent.Task) { q.Thinking = "high" }},
	"Timeout":  {other: func(q *agent.Task) { q.Timeout = time.Hour }},
	"Spec": {other: func(q *agent.Task) {
		q.Spec = agentctx.Spec{Files: []string{"SOUL.md"}}
	}},
	"Tools": {
		first: agent.Task{Tools: []string{"read"}}, other: func(q *agent.Task) { q.Tools = nil },
	},
	"Budget":  {other: func(q *agent.Task) { q.Budget = policy.Budget{Tokens: 10} }},
	"Dir":     {other: func(q *agent.Task) { q.Dir = "app" }},
	"Sandbox": {other: func(q *agent.Task) { q.Sandbox = true }},
	"Runtime": {other: func(q *agent.Task) { q.Runtime = "acp" }},
	"Stream": {
		first: agent.Task{Runtime: "acp"}, other: func(q *agent.Task) { q.Stream = true },
	},
	"Strict": {other: func(q *agent.Task) { q.Strict = true }},
	"Thread": {other: func(q *agent.Task) { q.Thread, q.Conversation = true, keyedPlace("a") }},
	"Mode": {
		first: agent.Task{Thread: true, Conversation: keyedPlace("a")},
		other: func(q *agent.Task) { q.Mode = agent.TaskModeRun },
	},
	"Conversation": {
		first: agent.Task{Thread: true, Conversation: keyedPlace("a")},
		other: func(q *agent.Task) { q.Conversation = keyedPlace("b") },
	},
	"Attachments": {other: func(q *agent.Task) { q.Attachments = attaching("a", "one") }},
	"AttachAs":    {files: true, other: func(q *agent.Task) { q.AttachAs = "there" }},
	"Announce":    {other: func(q *agent.Task) { q.Announce = true }},
	"Update":      {other: func(q *agent.Task) { q.Update = true }},
	"Milestones":  {other: func(q *agent.Task) { q.Milestones = true }},
	"Cleanup":     {other: func(q *agent.Task) { q.Cleanup = agent.CleanupDelete }},
}

// keyedPlace is a conversation.
func keyedPlace(to string) session.Route { return session.Route{Channel: "discord", To: to} }

// S3: one Key is one request. Another request under it is an error that names the run, until the
// window of the key is over, and nothing is spawned. That is so of every field of a Task.
func TestKeyOfAnotherRequest(t *testing.T) {
	fields := maps.Clone(keyedFields)
	for f := range reflect.TypeFor[agent.Task]().Fields() {
		if !f.IsExported() || slices.Contains([]string{"Key", "Again", "Senders"}, f.Name) {
			continue
		}
		require.Contains(t, keyedFields, f.Name, "does it tell requests with one Key apart?")
	}
	for name, first := range map[string]agent.Task{ // in each way in which a place can be missing
		"a place of a thread":  {Thread: true},
		"a place of an update": {Update: true},
		"another place of an update": {
			Update: true, Conversation: keyedPlace("b"),
		},
		"a thread of a place": {Thread: true, Conversation: session.Route{
			Channel: "discord", To: "a", Thread: "other",
		}},
	} {
		fields[name] = keyedField{first: first, other: func(q *agent.Task) {
			q.Conversation = keyedPlace("a")
		}}
	}
	cfg := withRuntime(configAnswering(asText))
	cfg.Tools, cfg.Store = toolbox("read"), session.NewMemory()
	cfg.Rules.Attachments.Enabled = true
	base := makeTree(t, "app/")
	cfg.WorkDir = func(string) string { return base }
	threadsOn(t, cfg, nil, func(b threadBot) {
		general, err := b.chat.Key(b.general)
		require.NoError(t, err)
		spawnOne := func(name string, q agent.Task) (*agent.Child[string], error) {
			q.Key, q.Text = name, cmp.Or(q.Text, "a")
			if fields[name].files {
				q.Attachments = attaching("a", "one")
			}
			return b.Session(general).Spawn(b.Context(), q)
		}
		children := make(map[string]*agent.Child[string])
		for name, f := range fields {
			children[name], err = spawnOne(name, f.first)
			require.NoError(t, err, name)
			b.Pass(time.Second)
		}
		look := func(when string) {
			for name, f := range fields {
				again, err := spawnOne(name, f.first)
				require.NoError(t, err, "%s %s", name, when)
				require.Equal(t, children[name].ID(), again.ID(), "%s %s", name, when)
				q := f.first
				f.other(&q)
				_, err = spawnOne(name, q)
				require.ErrorIs(t, err, agent.ErrKeyConflict, "%s %s", name, when)
				var conflict *spawn.KeyConflictError
				require.ErrorAs(t, err, &conflict)
				require.Equal(t, spawn.KeyConflictError{
					Requester: general, Key: name, Run: string(children[name].ID()),
					Session: children[name].Key(),
				}, *conflict)
			}
		}
		look("at once")
		b.Crash()
		look("after a crash")
		b.Pass(3 * 24 * time.Hour)
		look("after it was archived")
		b.Crash()
		look("after it was archived, and a crash")
		require.Empty(t, b.Runs())
	})
}

// A model chooses the ids of its calls, and never meets a key of the program by them, whatever form
// the key of a call takes: neither of the two is refused or is given the other's run, whichever
// comes first, also after a crash.
func TestToolKeysAreNotThoseOfTheProgram(t *testing.T) {
	loop := &agent.Loop{Model: modelOfResponses(
		[]agent.ToolCall{
			spawnCallOf("deploy", "a"), spawnCallOf("deploy", "b"), spawnCallOf("", "c"),
			spawnCallOf(strings.Repeat("x", 600), "d"),
		},
		[]agent.ToolCall{spawnCallOf("deploy", "e"), spawnCallOf("", "f")},
	)}
	run := func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
		if tn.Run != "" || !strings.HasPrefix(tn.Input(), "go") {
			return agent.Result{Text: "done"}, pause(ctx, time.Minute)
		}
		for _, task := range []string{"g", "h"} { // one id for two requests
			if _, err := tn.Call(ctx, spawnCallOf("twice", task)); err != nil {
				return agent.Result{}, err
			}
		}
		return loop.Run(ctx, tn)
	}
	for _, limit := range []int{0, 36} {
		cfg := configWith(run)
		cfg.Limits.ID, cfg.Rules = limit, rulesForDepth(1)
		var tasks []agent.Task
		learn := cfg
		learn.Store = session.NewMemory()
		agenttest.Run(t, learn, nil, func(h *harness) {
			h.Post("go")
			time.Sleep(30 * time.Second)
			tasks = keyedTasks(t, learn.Store)
			require.NoError(t, h.Main().Stop(h.Context()))
		})
		require.Len(t, tasks, 8)
		for _, programFirst := range []bool{false, true} {
			t.Run(fmt.Sprintf("limit %d program first %t", limit, programFirst), func(t *testing.T) {
				agenttest.Run(t, cfg, nil, func(h *harness) {
					ids := make(map[string]spawn.RunID)
					program := func() {
						for _, task := range tasks {
							c, err := agent.Spawn[string](h.Context(), h.Main(), task)
							require.NoError(t, err, task.Key)
							if ids[task.Key] == "" {
								ids[task.Key] = c.ID()
							}
							require.Equal(t, ids[task.Key], c.ID(), task.Key)
						}
					}
					if programFirst {
						program()
					}
					h.Post("go")
					for range 2 {
						time.Sleep(20 * time.Second)
						program()
						labels := countLabels(h.Runs())
						require.Len(t, labels, len(tasks))
						for label, n := range labels {
							require.Equal(t, 2, n, label)
						}
						h.Crash()
					}
					require.NoError(t, h.Main().Stop(h.Context()))
				})
			})
		}
	}
}

// keyedTasks returns what the runs with a key were asked for, as a program would ask for the same.
func keyedTasks(t *testing.T, store *session.Store) (tasks []agent.Task) {
	for e, err := range store.Journal.Read(t.Context(), topKey, 0) {
		require.NoError(t, err)
		data, err := e.Payload.AppendJSON(nil)
		require.NoError(t, err)
		var fact struct {
			Spec struct {
				SpawnKey, Task, Label string
				Announce              bool
			}
		}
		require.NoError(t, json.Unmarshal(data, &fact))
		if s := fact.Spec; s.SpawnKey != "" {
			tasks = append(tasks, agent.Task{
				Text: s.Task, Label: s.Label, Key: s.SpawnKey, Announce: s.Announce,
			})
		}
	}
	return tasks
}
