package agent_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/binding"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// S10: whatever a limit is set to, Open refuses it and says the least value, or everything works.
func TestEveryLimitAtItsExtremes(t *testing.T) {
	least := map[string]int{"ID": 36, "ToolArgs": 2, "CallID": 64, "Line": megabyte}
	for f := range reflect.TypeFor[agent.Limits]().Fields() {
		lowest := max(1, least[f.Name])
		for _, value := range []int{
			math.MinInt, -2, agent.NoLimit, 0, 1, lowest - 1, lowest, math.MaxInt,
		} {
			t.Run(fmt.Sprintf("%s/%d", f.Name, value), func(t *testing.T) {
				var limits agent.Limits
				reflect.ValueOf(&limits).Elem().FieldByIndex(f.Index).SetInt(int64(value))
				checkLimits(t, limits, f.Name, value, lowest)
			})
		}
	}
	for f := range reflect.TypeFor[spawn.Limits]().Fields() {
		for _, value := range []int{-2, 1, 35} {
			cfg := spawn.Config{Store: session.NewMemory(), Runner: turnFunc(answerX)}
			reflect.ValueOf(&cfg.Limits).Elem().FieldByIndex(f.Index).SetInt(int64(value))
			_, err := spawn.Open(t.Context(), cfg)
			if value < 0 || f.Name == "ID" {
				require.ErrorContains(t, err, fmt.Sprintf("Limits.%s: %d: ", f.Name, value))
			} else {
				require.NoError(t, err)
			}
		}
	}
}

// checkLimits checks a Runtime with limits of which one has a value.
func checkLimits(t *testing.T, limits agent.Limits, field string, value, least int) {
	cfg := agent.Config{Limits: limits, Tools: []agent.Tool{{
		Name: "t", Call: toolSaying("y"),
	}}}
	cfg.Runner = agent.RunnerFunc(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
		if tn.Run == "" && tn.N == 1 {
			if _, err := tn.Spawn(ctx, agent.Task{Text: "a", Key: "k"}); err != nil {
				return agent.Result{}, err
			}
		}
		loop := answers(
			&agent.ModelResponse{ToolCalls: []agent.ToolCall{
				{ID: "call_" + strings.Repeat("i", 31), Name: "t", Args: []byte("{}")},
			}},
			&agent.ModelResponse{Text: "x"},
		)
		return loop.Run(ctx, tn)
	})
	if value < agent.NoLimit || value > 0 && value < least {
		_, err := agent.Open(t.Context(), cfg)
		bad, ok := errors.AsType[*agent.ConfigError](err)
		require.True(t, ok, "%v", err)
		require.Equal(t, "Limits."+field, bad.Path)
		if value > 0 {
			require.Contains(t, bad.Message, fmt.Sprintf("%d: the least is %d", value, least))
		}
		return
	}
	agenttest.Run(t, cfg, nil, func(h *harness) {
		h.Post("p")
		h.Replied("x")
		child, err := agent.Spawn[string](h.Context(), h.Main(), agent.Task{Text: "b", Label: "l"})
		require.NoError(t, err)
		got, err := child.Wait(h.Context())
		require.NoError(t, err)
		require.Equal(t, "x", got)
		require.ErrorIs(t, child.Steer(h.Context(), "s"), agent.ErrEnded, "no limit refuses it")
	})
}

// S10: the keys that the session tools make do not count against the limit of callers.
func TestSessionToolsWorkAtTheLeastID(t *testing.T) {
	id := strings.Repeat("i", 500)
	check := func(t testing.TB, call func(task string) string, runs func() int) {
		for i, task := range []string{"one", "one", "two"} { // the same call is the same spawn
			out := call(task)
			require.Contains(t, out, "accepted")
			require.Equal(t, []int{1, 1, 2}[i], runs())
		}
	}
	cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
		if tn.Session.Key == topKey && tn.N == 1 {
			check(t, func(task string) string {
				out, err := tn.Call(ctx, agent.ToolCall{
					ID: id, Name: "sessions_spawn", Args: fmt.Appendf(nil, `{"task":%q}`, task),
				})
				require.NoError(t, err)
				return out.Text
			}, func() int {
				out, err := tn.Call(ctx, agent.ToolCall{Name: "subagents"})
				require.NoError(t, err)
				return strings.Count(out.Text, "runId")
			})
		}
		return textResult("x")
	})
	cfg.Limits = agent.Limits{ID: 36}
	agenttest.Run(t, cfg, nil, func(h *harness) {
		h.Post("go")
		synctest.Wait()
		require.Len(t, h.Runs(), 2)
	})
	agenttest.Run(t, cfg, nil, func(h *harness) {
		tools := h.Session(session.Must(session.MainKey("other"))).Tools()
		check(t, func(task string) string {
			out, err := callToolOf(h, tools, "sessions_spawn", id, fmt.Sprintf(`{"task":%q}`, task))
			require.NoError(t, err)
			return fmt.Sprint(out["status"])
		}, func() int {
			out, err := callToolOf(h, tools, "subagents", "", "")
			require.NoError(t, err)
			return len(out["subagents"].([]any))
		})
	})
}

// hostileLines are texts that a line of its own cannot have. The value is what is left.
var hostileLines = map[string]string{
	"a\nb": "a b", "a\r\nb": "a b", "a\rb": "a b", "a\u2028b": "a b", "a\u2029b": "a b",
	"a\u0085b": "a b", "a\vb": "a b", "a\tb": "a b", "a  b ": "a b",
	"a\u202eb": "ab", "a\u2066b\u2069": "ab", "a\u200bb": "ab", "a\u200db": "ab",
	"a\ufeffb": "ab", "a\u00adb": "ab", "a\x00b": "ab", "a\x1b[31mb": "a[31mb",
	"a\U000e0041b": "ab", "a\u3164b": "ab", "a\ue000b": "ab",
	" ": "", "\u200b": "", "\u3164": "", "\u2800\ufe0f": "", "\x00": "", "\n": "", "\u202e": "",
	"a\xffb": refused, "\xff": refused,
}

// cleanedLines are the fields of which the library keeps what can stand in a line. Each function
// returns what is kept of a text.
var cleanedLines = map[string]func(t *testing.T, s string) string{
	"the label of a Task": func(t *testing.T, s string) string {
		return keptOfTask(t, agent.Task{Label: s})
	},
	"the label of a tool call": keptOfToolLabel,
	"the label of a binding":   keptOfBinding,
}

// strictLines are the fields that refuse a text, or leave it out.
var strictLines = map[string]func(t *testing.T, s string) string{
	"the model of a Task": func(t *testing.T, s string) string {
		return keptOfTask(t, agent.Task{Model: "m/" + s, Strict: true})
	},
	"the agent of a Task": func(t *testing.T, s string) string {
		return keptOfTask(t, agent.Task{Agent: "a" + s})
	},
	"the thinking level of a Task": func(t *testing.T, s string) string {
		return keptOfTask(t, agent.Task{Thinking: "x" + s})
	},
	"Models.Model": func(t *testing.T, s string) string {
		return keptOfConfig(t, agent.Config{Models: agent.Models{Model: s}})
	},
	"Models.Thinking": func(t *testing.T, s string) string {
		return keptOfConfig(t, agent.Config{Models: agent.Models{Thinking: s}})
	},
	"the model of a rule": func(t *testing.T, s string) string {
		rules := policy.Rules{Subagents: policy.Subagents{Model: "m/" + s}}
		return keptOfConfig(t, agent.Config{Rules: rules})
	},
	"the id of an agent": func(t *testing.T, s string) string {
		rules := policy.Rules{Agents: []policy.Agent{{ID: "a" + s}}}
		return keptOfConfig(t, agent.Config{Rules: rules})
	},
	"the name of a tool": func(t *testing.T, s string) string {
		call := toolSaying("")
		return keptOfConfig(t, agent.Config{Tools: []agent.Tool{{Name: "t" + s, Call: call}}})
	},
	"the model of a Result": keptOfResult,
}

// S10: what is shown in a line of its own is cleaned or refused: nothing breaks the line, turns it
// round or hides in it. A text in which a reader sees nothing counts as none.
func TestHostileLines(t *testing.T) {
	for text, left := range hostileLines {
		for name, kept := range cleanedLines {
			want := left
			if left == refused && name != "the label of a Task" {
				continue // JSON has no such text, and a binding leaves it out
			}
			require.Equal(t, want, kept(t, text), "%s: %q", name, text)
		}
		for name, kept := range strictLines {
			require.Equal(t, refused, kept(t, text), "%s: %q", name, text)
		}
		// Ids of groups and threads stand in keys.
		group, _ := session.GroupKey("main", "chat", text)
		thread, _ := topKey.Thread(text)
		for _, key := range []session.Key{group, thread} {
			require.True(t, utf8.ValidString(key.String()), "%q", text)
			require.False(t, strings.ContainsFunc(key.String(), func(r rune) bool {
				return unicode.IsSpace(r) || unicode.IsControl(r) || unicode.Is(unicode.Cf, r)
			}), "%q", text)
		}
	}
	require.Equal(t, refused, strictLines["Models.Model"](t, "a b"), "no model has a space")
	require.Equal(t, "a/b", strictLines["Models.Model"](t, "a/b"))
	for _, name := range []string{"Models.Thinking", "the model of a Result"} {
		require.Equal(t, "a b", strictLines[name](t, "a b"), name)
	}
}

// keptOfTask returns the label and the model of a run.
func keptOfTask(t *testing.T, task agent.Task) string {
	kept := refused
	agenttest.Run(t, configAnswering(asText), nil, func(h *harness) {
		task.Text = "x"
		c, err := agent.Spawn[string](h.Context(), h.Main(), task)
		if err != nil {
			return
		}
		info, err := c.Info(h.Context())
		require.NoError(t, err)
		kept = info.Label + info.Model.Resolved
	})
	return kept
}

// keptOfToolLabel returns the label of a run that a model spawned. The model finds the run by the
// label that it gave.
func keptOfToolLabel(t *testing.T, label string) (kept string) {
	agenttest.Run(t, configAnswering(asText), nil, func(h *harness) {
		call := func(tool string, args map[string]string) map[string]any {
			data, err := json.Marshal(args)
			require.NoError(t, err)
			out, err := callTool(h, tool, "1", string(data))
			require.NoError(t, err)
			return out
		}
		out := call("sessions_spawn", map[string]string{"task": "x", "label": label})
		require.Equal(t, "accepted", out["status"])
		if kept = h.Runs()[0].Label; kept != "" {
			call("subagents", map[string]string{"action": "info", "target": label})
		}
	})
	return kept
}

func keptOfBinding(t *testing.T, label string) string {
	table, err := binding.Open(t.Context(), session.NewMemory().Journal)
	require.NoError(t, err)
	b, err := table.Bind(t.Context(), binding.Request{
		Conversation: session.Route{Channel: "chat", To: "1"}, Target: topKey, By: "me",
		Label: label,
	}, time.Now())
	require.NoError(t, err)
	return b.Label
}

func keptOfConfig(t *testing.T, cfg agent.Config) string {
	cfg.Runner = configAnswering(asText).Runner
	if _, err := agent.Open(t.Context(), cfg); err != nil {
		return refused
	}
	return cfg.Models.Model + cfg.Models.Thinking
}

// keptOfResult returns the model that a Runner has reported.
func keptOfResult(t *testing.T, model string) (kept string) {
	cfg := configAnswering(func(string) agent.Result {
		return agent.Result{Text: "x", Model: model}
	})
	agenttest.Run(t, cfg, nil, func(h *harness) {
		c, err := agent.Spawn[string](h.Context(), h.Main(), agent.Task{Text: "x"})
		require.NoError(t, err)
		_, err = c.Wait(h.Context())
		require.NoError(t, err)
		info, err := c.Info(h.Context())
		require.NoError(t, err)
		kept = cmp.Or(info.Result.Model, refused)
	})
	return kept
}

// S10: an argument that stands twice, or under two of its names, is refused: a reader that takes
// the first one would see other rights than the library. The names have one letter case.
func TestRepeatedArgumentsAreRefused(t *testing.T) {
	for _, c := range []struct{ tool, args, argument string }{
		{"sessions_spawn", `{"task":"a","task":"b"}`, "task"},
		{"sessions_spawn", `{"task":"a","t\u0061sk":"b"}`, "task"},
		{"sessions_spawn", `{"task":"a","task":null}`, "task"},
		{"sessions_spawn", `{"task":"a","sandbox":"require","sandbox":"inherit"}`, "sandbox"},
		{"sessions_spawn", `{"agentId":"a","task":"b","agentId":"c"}`, "agentId"},
		{"sessions_spawn", `{"task":"a","agentId":"main","agent_id":"main"}`, "agent_id"},
		{"sessions_spawn", `{"task":"a","runTimeoutSeconds":1,"timeoutSeconds":2}`, "timeoutSeconds"},
		{"sessions_spawn", `{"task":"a","attachments":[{"a":1,"a":2}]}`, "a"},
		{"sessions_spawn", `{"task":"a","Task":"b"}`, "Task"},
		{"sessions_spawn", `{"Task":"b"}`, "Task"},
		{"sessions_spawn", `{"task":"a","ta\u017fk":"b"}`, "ta\u017fk"},
		{"sessions_spawn", `{"task":"a","SANDBOX":"inherit"}`, "SANDBOX"},
		{"subagents", `{"action":"list","action":"kill","target":"all"}`, "action"},
		{"subagents", `{"action":"info","target":"1","target":"2"}`, "target"},
		{"subagents", `{"action":"info","target":"1","Target":"2"}`, "Target"},
		{"subagents", `{"action":"steer","target":"1","message":"a","message":"b"}`, "message"},
		{"sessions_yield", `{"atLeast":1,"atLeast":2}`, "atLeast"},
		{"sessions_yield", `{"atLeast":1,"at_least":2}`, "at_least"},
		{"sessions_yield", `{"withinSeconds":1,"within_seconds":2}`, "within_seconds"},
		{"sessions_yield", `{"atleast":1}`, "atleast"},
	} {
		failed := feedRunner(t, session.NewMemory(),
			func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
				_, err := tn.Call(ctx, agent.ToolCall{ID: "1", Name: c.tool, Args: []byte(c.args)})
				return agent.Result{}, err
			})
		bad, ok := errors.AsType[*agent.ArgumentError](failed)
		require.True(t, ok, "%s: %v", c.args, failed)
		require.Equal(t, c.tool, bad.Tool)
		require.Equal(t, c.argument, bad.Argument, c.args)
	}
	agenttest.Run(t, configAnswering(asText), nil, func(h *harness) {
		for _, args := range []string{
			`{"task":"a","agentId":null,"agent_id":"main"}`,
			`{"task":"b","runTimeoutSeconds":null,"timeoutSeconds":5}`,
		} {
			out, err := callTool(h, "sessions_spawn", "1", args)
			require.NoError(t, err)
			require.Equal(t, "accepted", out["status"], "%v", out)
		}
	})
}

// S10: a tool of NewTool is not called with arguments that another reader would read in another
// way.
func TestNewToolRefusesRepeatedMembers(t *testing.T) {
	type in struct {
		Path string            `json:"path"`
		Env  map[string]string `json:"env,omitempty"`
	}
	got := ""
	tool := agent.NewTool("read", "", func(_ context.Context, v in) (string, error) {
		got = v.Path
		return "", nil
	})
	for args, ok := range map[string]bool{
		`{"path":"a"}`:                               true,
		`{"path":"a","env":{"a":"1","A":"2"}}`:       true,
		`{"path":"b","path":"a"}`:                    false,
		`{"path":"b","PATH":"a"}`:                    false,
		`{"path":"b","p\u0061th":"a"}`:               false,
		`{"path":"b","env":{"a":"1","a":"2"}}`:       false,
		`{"path":"b","env":{},"Env":{"a":"1"}}`:      false,
		`{"other":[[{"x":1}],{"x":1,"y":{},"x":2}]}`: false,
	} {
		got = ""
		_, err := tool.Call(t.Context(), agent.ToolCall{Name: "read", Args: []byte(args)})
		require.Equal(t, ok, err == nil, "%s: %v", args, err)
		require.Equal(t, ok, got == "a", args)
		if !ok {
			require.Regexp(t, "is there twice|is not known", err.Error())
		}
	}
}
