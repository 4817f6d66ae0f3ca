package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/announce"
	agentctx "github.com/offshoot-sdk/offshoot/context"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

const megabyte = 1_000_000

// S10: what a caller or a model gives that is over a limit is refused with an error that says which
// limit, and nothing is half done. At the limit it is taken.
func TestWhatIsOverALimitIsRefused(t *testing.T) {
	spawnWith := func(task agent.Task) func(h *harness) error {
		return func(h *harness) error {
			if task.Text == "" {
				task.Text = "x"
			}
			_, err := agent.Spawn[string](h.Context(), h.Main(), task)
			return err
		}
	}
	post := func(m agent.Incoming) func(h *harness) error {
		return func(h *harness) error { return errorOf(h.Main().Post(h.Context(), m)) }
	}
	of := func(n int) string { return strings.Repeat("é", n/2) + strings.Repeat("x", n%2) }
	for _, c := range []struct {
		field, path string
		limit       int
		try         func(n int) func(h *harness) error
	}{
		{"task", "Limits.Task", 200_000, func(n int) func(h *harness) error {
			return spawnWith(agent.Task{Text: of(n)})
		}},
		{"label", "Limits.Label", 200, func(n int) func(h *harness) error {
			return spawnWith(agent.Task{Label: strings.Repeat("é", n)})
		}},
		{"key", "Limits.ID", 4096, func(n int) func(h *harness) error {
			return spawnWith(agent.Task{Key: of(n)})
		}},
		{"model", "Limits.ID", 4096, func(n int) func(h *harness) error {
			return spawnWith(agent.Task{Model: of(n)})
		}},
		{"text", "Limits.Message", megabyte, func(n int) func(h *harness) error {
			return post(agent.Incoming{Text: of(n)})
		}},
		{"id", "Limits.ID", 4096, func(n int) func(h *harness) error {
			return post(agent.Incoming{Text: "x", ID: of(n)})
		}},
	} {
		t.Run(c.field, func(t *testing.T) {
			agenttest.Run(t, configAnswering(asText), nil, func(h *harness) {
				require.NoError(t, c.try(c.limit)(h))
				err := c.try(c.limit + 1)(h)
				bad, ok := errors.AsType[*agent.LimitError](err)
				require.True(t, ok, "%v", err)
				require.Equal(t, c.field, bad.Field)
				require.Equal(t, c.path, bad.Path)
				require.Equal(t, c.limit, bad.Limit)
				require.Equal(t, c.limit+1, bad.Size)
				input, ok := errors.AsType[*agent.InputError](err)
				require.True(t, ok)
				require.Equal(t, c.field, input.Field)
				require.LessOrEqual(t, len(h.Runs()), 1)
			})
		})
	}
}

// S10: each limit can be set, and switched off; a mistake is named.
func TestLimitsAreSet(t *testing.T) {
	cfg := configAnswering(asText)
	cfg.Limits = agent.Limits{Task: 3, Message: agent.NoLimit}
	agenttest.Run(t, cfg, nil, func(h *harness) {
		_, err := agent.Spawn[string](h.Context(), h.Main(), agent.Task{Text: "four"})
		require.EqualError(t, err, "spawn: task: it has 4 bytes, the limit is 3 (Limits.Task)")
		long := agent.Incoming{Text: strings.Repeat("x", 3*megabyte)}
		require.NoError(t, errorOf(h.Main().Post(h.Context(), long)))
	})
	cfg.Limits = agent.Limits{
		Task: -2, Label: -2, Message: -2, ID: -2, Reply: -2, ToolResult: -2, ToolCalls: -2,
		ToolArgs: -2,
	}
	_, err := agent.Open(t.Context(), cfg)
	for _, field := range []string{
		"Task", "Label", "Message", "ID", "Reply", "ToolResult", "ToolCalls", "ToolArgs",
	} {
		require.ErrorContains(t, err, "Limits."+field+": -2: ")
	}
}

// S10: what a reader would not see counts as empty.
func TestInvisibleTextIsBlank(t *testing.T) {
	agenttest.Run(t, configAnswering(asText), nil, func(h *harness) {
		for _, s := range []string{"", " ", "\u200b", "\u2060\ufeff\n", "\u3164", "\x00"} {
			_, err := agent.Spawn[string](h.Context(), h.Main(), agent.Task{Text: s})
			_, ok := errors.AsType[*agent.InputError](err)
			require.True(t, ok, "%q: %v", s, err)
			_, err = h.Main().Post(h.Context(), agent.Incoming{Text: s})
			_, ok = errors.AsType[*agent.InputError](err)
			require.True(t, ok, "%q: %v", s, err)
			_, err = callTool(h, "sessions_spawn", "1", fmt.Sprintf(`{"task":%q}`, "\u200b"))
			require.ErrorContains(t, err, "it is required")
		}
		require.Empty(t, h.Runs())
	})
}

// S10: each session tool refuses an argument that it does not know, and says which it knows.
func TestUnknownArgumentsAreRefused(t *testing.T) {
	unknown := []string{"tools", "colour", ""}
	for tool, known := range map[string]string{
		"sessions_spawn": "runTimeoutSeconds", "subagents": "target", "sessions_yield": "atLeast",
		"sessions_send": "message", "sessions_list": "activeMinutes", "sessions_history": "before",
		"session_status": "sessionKey", "agents_list": "takes none",
	} {
		cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
			for _, name := range unknown {
				args, err := json.Marshal(map[string]any{name: "x", "task": "x"})
				require.NoError(t, err)
				if tool != "sessions_spawn" {
					args = fmt.Appendf(nil, `{%q:null}`, name)
				}
				_, err = tn.Call(ctx, agent.ToolCall{ID: "1", Name: tool, Args: args})
				bad, ok := errors.AsType[*agent.ArgumentError](err)
				require.True(t, ok, "%s %q: %v", tool, name, err)
				require.Equal(t, name, bad.Argument)
				require.Contains(t, bad.Reason, known)
			}
			return textResult("done")
		})
		agenttest.Run(t, cfg, nil, func(h *harness) {
			h.Post("go")
			h.Replied("done")
			require.Empty(t, h.Runs())
		})
	}
}

// S10: the refusal of a steer says the rule and the limit, and not where to set what is not set
// anywhere.
func TestRefusedSteerIsPlain(t *testing.T) {
	cfg := configHanging(policy.Rules{})
	agenttest.Run(t, cfg, nil, func(h *harness) {
		c, err := agent.Spawn[string](h.Context(), h.Main(), agent.Task{Text: "work"})
		require.NoError(t, err)
		synctest.Wait()
		require.NoError(t, c.Steer(h.Context(), "left"))
		require.EqualError(t, c.Steer(h.Context(), "right"), `policy: steer refused by steerPause: `+
			`asked "a steer 0s after the last", allowed "one in 2s; wait 2s"`)
		require.NoError(t, c.Stop(h.Context()))
	})
}

// answers is a model that gives one answer after the other.
func answers(list ...*agent.ModelResponse) *agent.Loop {
	return &agent.Loop{Model: modelFunc(func(
		_ context.Context, req *agent.ModelRequest,
	) (*agent.ModelResponse, error) {
		n := 0
		for _, m := range req.Messages {
			if m.Role == session.MessageAssistant {
				n++
			}
		}
		return list[n], nil
	})}
}

// S10: what a model and its tools make is cut at the limits, and the model is told.
func TestWhatAModelMakesIsBounded(t *testing.T) {
	skipUnderRace(t)
	huge := strings.Repeat("é", 5*megabyte)
	var many []agent.ToolCall
	for i := range 30_000 {
		many = append(many, agent.ToolCall{ID: fmt.Sprint(i), Name: "huge"})
	}
	ran := 0
	store, notes := newNotebook()
	cfg := agent.Config{
		Store: store,
		Tools: []agent.Tool{{
			Name: "huge",
			Call: textCall(func(context.Context, agent.ToolCall) (string, error) {
				if ran++; ran == 64 {
					return huge, nil
				}
				return "ok", nil
			}),
		}},
		Runner: answers(
			&agent.ModelResponse{Text: huge, ToolCalls: many, Raw: json.RawMessage(`{}`)},
			&agent.ModelResponse{ToolCalls: []agent.ToolCall{
				{ID: "long", Name: "huge", Args: []byte(`{"x":"` + huge + `"}`)},
			}, Raw: json.RawMessage(`{}`)},
			&agent.ModelResponse{Text: huge},
		),
	}
	agenttest.Run(t, cfg, nil, func(h *harness) {
		h.Post("go")
		time.Sleep(time.Second)
		lines := notes.all(t, topKey)
		said, last := lines[1].Message, lines[65].Message
		require.Equal(t, 64, ran)
		require.Len(t, said.ToolCalls, 64)
		require.Nil(t, said.Raw, "it has all of it")
		require.LessOrEqual(t, len(said.Text), megabyte)
		require.Contains(t, said.Text, "cut here: it had 10000000 bytes")
		require.LessOrEqual(t, len(last.Text), megabyte)
		require.Contains(t, last.Text, "Your answer had 30000 tool calls")
		long, answer := lines[66].Message, lines[67].Message
		require.Equal(t, "{}", string(long.ToolCalls[0].Args))
		require.Nil(t, long.Raw)
		require.Contains(t, answer.Text, "the limit is 1000000 (Limits.ToolArgs)")
		require.True(t, answer.Failed)
		require.Len(t, h.Replies(), 1)
		require.LessOrEqual(t, len(h.Replies()[0].Reply.Text), megabyte)
	})
}

// S10: the result of a Runner is bounded: a text is cut, and JSON, which cannot be, fails the turn.
func TestResultsAreBounded(t *testing.T) {
	cfg := configAnswering(func(s string) agent.Result {
		if s == "json" {
			return agent.Result{JSON: []byte(`"` + strings.Repeat("x", megabyte) + `"`)}
		}
		return agent.Result{Text: strings.Repeat("x", 2*megabyte)}
	})
	agenttest.Run(t, cfg, nil, func(h *harness) {
		child, err := agent.Spawn[string](h.Context(), h.Main(), agent.Task{Text: "text"})
		require.NoError(t, err)
		got, err := child.Wait(h.Context())
		require.NoError(t, err)
		require.Len(t, got, megabyte)
		require.Contains(t, got, "cut here: it had 2000000 bytes")
		child, err = agent.Spawn[string](h.Context(), h.Main(), agent.Task{Text: "json"})
		require.NoError(t, err)
		_, err = child.Wait(h.Context())
		require.ErrorContains(t, err, "Result.JSON: it has 1000002 bytes, the limit is 1000000")
	})
}

// S10: an error repeats the beginning of a long input, not all of it.
func TestErrorsDoNotRepeatALongInput(t *testing.T) {
	huge := strings.Repeat("x", megabyte)
	var (
		status spawn.Status
		class  spawn.InputClass

		mode     agentctx.Mode
		decision announce.Decision
		source   announce.Source
		kind     session.Kind
		key      session.Key
		verb     policy.Verb
		reason   agentctx.Reason
		event    agent.EventKind
	)
	errs := map[string]error{
		"status":        status.UnmarshalText([]byte(huge)),
		"class":         class.UnmarshalText([]byte(huge)),
		"mode":          mode.UnmarshalText([]byte(huge)),
		"decision":      decision.UnmarshalText([]byte(huge)),
		"source":        source.UnmarshalText([]byte(huge)),
		"kind":          kind.UnmarshalText([]byte(huge)),
		"text of a key": key.UnmarshalText([]byte(huge)),
		"verb":          verb.UnmarshalText([]byte(huge)),
		"reason":        reason.UnmarshalText([]byte(huge)),
		"event":         event.UnmarshalText([]byte(huge)),
		"refusal":       &policy.Refusal{Rule: "x", Asked: huge, Limit: huge, Path: "x"},
		"settle":        spawn.Settle(t.Context(), session.NewMemory(), huge, spawn.SettleRetry),
		"argument":      &agent.ArgumentError{Tool: "x", Argument: huge, Reason: "x"},
	}
	_, errs["key"] = session.Parse(huge)
	cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
		call := func(name, args string) (err error) {
			_, err = tn.Call(ctx, agent.ToolCall{ID: "1", Name: name, Args: []byte(args)})
			return err
		}
		errs["tool"] = call(huge, "")
		errs["unknown argument"] = call("sessions_spawn", `{"`+huge+`":1}`)
		errs["not a string"] = call("sessions_spawn", `{"task":["`+huge+`"]}`)
		errs["not a number"] = call("sessions_yield", `{"atLeast":"`+huge+`"}`)
		errs["not a word"] = call("subagents", `{"action":"`+huge+`"}`)
		errs["no target"] = call("subagents", `{"action":"info","target":"`+huge+`"}`)
		errs["not an object"] = call("subagents", strings.Repeat("[", megabyte))
		errs["role"] = tn.Record(ctx, agent.Message{Role: session.MessageRole(huge)})
		errs["call id"] = tn.Record(ctx,
			agent.Message{Role: session.MessageTool, ToolCallID: huge})
		return textResult("done")
	})
	agenttest.Run(t, cfg, nil, func(h *harness) {
		h.Post("go")
		h.Replied("done")
		errs["delivery"] = h.Runtime().Retry(h.Context(), huge)
		for _, task := range []agent.Task{
			{Text: "x", Agent: huge},
			{Text: "x", Thinking: huge},
			{Text: huge},
			{Text: "x", Label: huge},
			{Text: "x", Key: huge},
			{Text: "x", Model: huge},
			{Text: "x", Tools: []string{huge}},
			{Text: "x", Key: "\xff" + huge[:4000]},
		} {
			_, err := agent.Spawn[string](h.Context(), h.Main(), task)
			errs[fmt.Sprintf("task %.20v", task)] = err
		}
	})
	for name, err := range errs {
		require.Error(t, err, name)
		require.Less(t, len(err.Error()), 1500, name)
	}
}

// A5: a cut has a note with the size that there was at first: of a tool's result that is cut for
// the note on calls that were not run, too, and of a reply whose bound is small.
func TestNotesOfCuts(t *testing.T) {
	for _, limit := range []int{40, 50, 300, 400, 499} {
		cfg := agent.Config{
			Limits: agent.Limits{Reply: limit, ToolResult: limit, ToolCalls: 1},
			Tools: []agent.Tool{{
				Name: "big",
				Call: textCall(func(context.Context, agent.ToolCall) (string, error) {
					return strings.Repeat("x", 500), nil
				}),
			}},
			Runner: answers(
				&agent.ModelResponse{ToolCalls: []agent.ToolCall{
					{ID: "1", Name: "big"}, {ID: "2", Name: "big"},
				}},
				&agent.ModelResponse{Text: strings.Repeat("z", 500)},
			),
		}
		var notes *notebook
		cfg.Store, notes = newNotebook()
		agenttest.Run(t, cfg, nil, func(h *harness) {
			h.Post("go")
			time.Sleep(time.Second)
			lines := notes.all(t, topKey)
			result, reply := lines[2].Message.Text, h.Replies()[0].Reply.Text
			if limit >= 200 { // else the note on the calls takes all of it
				require.Contains(t, result, " 500 bytes")
			}
			require.Contains(t, reply, " 500 bytes")
			require.LessOrEqual(t, len(reply), limit)
		})
	}
}
