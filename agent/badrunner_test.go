package agent_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// Whatever a Runner does, its run reaches a terminal state. Who waits for it is told, and so is the
// person in front.
func TestRunnersThatMisbehave(t *testing.T) {
	boom := errors.New("boom")
	for _, c := range []struct {
		name   string
		run    func(ctx context.Context) (agent.Result, error)
		status spawn.Status
		text   string // what is kept
		reason string
		within time.Duration
	}{
		{
			"fails", func(context.Context) (agent.Result, error) { return agent.Result{}, boom },
			spawn.StatusFailed, "", "boom", 0,
		},
		{"fails with a part", func(context.Context) (agent.Result, error) {
			return agent.Result{Text: "half"}, boom
		}, spawn.StatusFailed, "half", "boom", 0},
		{"fails without words", func(context.Context) (agent.Result, error) {
			return agent.Result{}, silentError{}
		}, spawn.StatusFailed, "", "agent_test.silentError", 0},
		{
			"panics", func(context.Context) (agent.Result, error) { panic("oh no") },
			spawn.StatusFailed, "", "oh no", 0,
		},
		{
			"panics with an error", func(context.Context) (agent.Result, error) { panic(boom) },
			spawn.StatusFailed, "", "boom", 0,
		},
		{"ends its goroutine", func(context.Context) (agent.Result, error) {
			runtime.Goexit()
			return agent.Result{}, nil
		}, spawn.StatusFailed, "", "ended its goroutine", 0},
		{"never returns", func(ctx context.Context) (agent.Result, error) {
			<-ctx.Done()
			return agent.Result{Text: "half"}, ctx.Err()
		}, spawn.StatusTimedOut, "half", "time is up", time.Hour},
		{"ignores cancellation", func(context.Context) (agent.Result, error) {
			time.Sleep(5 * time.Hour)
			return textResult("late")
		}, spawn.StatusTimedOut, "", "time is up", time.Hour + spawn.DefaultGrace},
		{
			"calls a cancellation success",
			func(ctx context.Context) (agent.Result, error) {
				<-ctx.Done()
				return textResult("all of it")
			}, spawn.StatusTimedOut, "all of it", "time is up", time.Hour,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
				if tn.Run == "" {
					require.Contains(t, tn.Input(), "bad")
					return textResult("I hear of bad.")
				}
				return c.run(ctx)
			})
			cfg.Rules.Subagents.Timeout = time.Hour
			agenttest.Run(t, cfg, nil, func(h *harness) {
				child, err := agent.Spawn[string](h.Context(), h.Main(),
					agent.Task{Text: "work", Label: "bad", Announce: true})
				require.NoError(t, err)
				began := time.Now()
				_, err = child.Wait(h.Context())
				require.Equal(t, c.within, time.Since(began))
				e, ok := errors.AsType[*agent.RunError](err)
				require.True(t, ok, "%v", err)
				require.Equal(t, c.status, e.Run.Status)
				require.Equal(t, c.text, e.Run.Result.Text)
				require.Contains(t, e.Run.Error, c.reason)
				require.Contains(t, e.Error(), c.status.String())
				synctest.Wait()
				require.Len(t, h.Replies(), 1, "its requester is told once")
				require.Equal(t, "I hear of bad.", h.Replies()[0].Reply.Text)
				time.Sleep(6 * time.Hour) // until the last of them is back
				require.Len(t, h.Replies(), 1, "what comes late changes nothing")
			})
		})
	}
}

type silentError struct{}

func (silentError) Error() string { return "" }

// A main turn that fails tells the person so, without the reason, and the session goes on.
func TestMainTurnsThatFail(t *testing.T) {
	for name, step := range map[string]agenttest.Step{
		"fails":  agenttest.Fail(errors.New("password: hunter2")),
		"panics": agenttest.Panic("password: hunter2"),
	} {
		t.Run(name, func(t *testing.T) {
			agenttest.Run(t, agent.Config{}, script{"main": {step, echo()}}, func(h *harness) {
				h.Post("hello")
				synctest.Wait()
				replies := h.Replies()
				require.Len(t, replies, 1)
				require.True(t, replies[0].Reply.Failed)
				require.NotContains(t, replies[0].Reply.Text, "hunter2")
				h.Post("and now?")
				h.Replied(replies[0].Reply.Text, "hello\nand now?")
			})
		})
	}
}

// R7: a Runner that ends its goroutine, or a tool that does, as t.FailNow in a user's test, has
// failed like any other. The person gets the apology, and the message stays in the conversation.
func TestMainTurnsWhoseGoroutineEnds(t *testing.T) {
	begin := func(context.Context, *agent.Turn) error { return nil }
	exit := textCall(func(context.Context, agent.ToolCall) (string, error) {
		runtime.Goexit()
		return "", nil
	})
	for name, bad := range map[string]func(ctx context.Context, tn *agent.Turn) error{
		"the Runner": func(context.Context, *agent.Turn) error { runtime.Goexit(); return nil },
		"a tool": func(ctx context.Context, tn *agent.Turn) error {
			_, err := tn.Call(ctx, agent.ToolCall{ID: "1", Name: "exit"})
			return err
		},
		"before the Runner": begin,
		"after a record": func(ctx context.Context, tn *agent.Turn) error {
			said := agent.Message{Role: session.MessageAssistant, Text: "I begin."}
			require.NoError(t, tn.Record(ctx, said))
			runtime.Goexit()
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
				if tn.N == 1 {
					return agent.Result{}, bad(ctx, tn)
				}
				return textResult(conversation(tn))
			})
			cfg.Tools = []agent.Tool{{Name: "exit", Call: exit}}
			clock := 0
			cfg.Now = func() time.Time {
				if clock++; clock == 1 && name == "before the Runner" {
					runtime.Goexit()
				}
				return time.Now()
			}
			agenttest.Run(t, cfg, nil, func(h *harness) {
				h.Post("hello")
				synctest.Wait()
				replies := h.Replies()
				require.Len(t, replies, 1)
				require.True(t, replies[0].Reply.Failed)
				require.Contains(t, replies[0].Reply.Text, "Sorry")
				h.Post("and now?")
				synctest.Wait()
				answer := h.Replies()[1].Reply
				require.False(t, answer.Failed)
				require.Contains(t, answer.Text, "hello")
				require.Contains(t, answer.Text, "and now?")
				require.Equal(t, name == "after a record", strings.Contains(answer.Text, "I begin."))
			})
		})
	}
}

// conversation is all that a turn was told.
func conversation(tn *agent.Turn) string {
	texts := make([]string, len(tn.Messages))
	for i, m := range tn.Messages {
		texts[i] = m.Text
	}
	return strings.Join(texts, "\n")
}

// S10: the model is told a plain sentence of a tool that panicked, and the log has the rest.
func TestToolThatPanics(t *testing.T) {
	var log bytes.Buffer
	cfg := agent.Config{
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
		Tools: []agent.Tool{{
			Name: "bad",
			Call: textCall(func(context.Context, agent.ToolCall) (string, error) { panic("hunter2") }),
		}},
	}
	agenttest.Run(t, cfg, script{"main": {call("bad", `{}`), echo()}}, func(h *harness) {
		h.Post("go")
		h.Replied(`error: agent: the tool "bad" failed unexpectedly`)
		require.Contains(t, log.String(), "hunter2")
		require.Contains(t, log.String(), "TestToolThatPanics", "the stack")
	})
}

// A loop that gets no end from its model comes to one.
// A tool that a Runner adds under a name that another tool has does not reach the model: the turn
// fails, and the error names both.
func TestTwoToolsOfOneName(t *testing.T) {
	for name, c := range map[string]struct {
		add  []string
		want string // "": the model is called
	}{
		"other names":      {[]string{"a", "Look"}, ""},
		"one of its own":   {[]string{"a", "b", "a"}, `have the same name, "a"`},
		"of the Config":    {[]string{"look"}, `Tools[0] and Tools[`},
		"a session tool's": {[]string{"sessions_spawn"}, `have the same name, "sessions_spawn"`},
	} {
		t.Run(name, func(t *testing.T) {
			var err error
			model, calls := modelOf(t, agent.ModelResponse{Text: "hello"})
			cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
				for _, tool := range c.add {
					tn.Tools = append(tn.Tools, agent.Tool{Name: tool, Call: toolSaying("mine")})
				}
				var res agent.Result
				res, err = (&agent.Loop{Model: model}).Run(ctx, tn)
				return res, err
			})
			cfg.Tools = []agent.Tool{{Name: "look", Call: toolSaying("theirs")}}
			agenttest.Run(t, cfg, nil, func(h *harness) {
				h.Post("go")
				h.Pass(time.Minute)
				require.Len(t, h.Replies(), 1)
				require.Equal(t, c.want != "", h.Replies()[0].Reply.Failed)
				if c.want == "" {
					require.NoError(t, err)
					require.Equal(t, 1, *calls)
					return
				}
				require.Zero(t, *calls)
				bad, ok := errors.AsType[*agent.InputError](err)
				require.True(t, ok, "%v", err)
				require.Equal(t, "Turn.Tools", bad.Field)
				require.ErrorContains(t, err, c.want)
			})
		})
	}
}

func TestLoopThatNeverEnds(t *testing.T) {
	s := script{"main": {say("x")}, "endless": nil}
	for range 10 {
		s["endless"] = append(s["endless"], call("subagents", `{}`))
	}
	cfg := agent.Config{
		Runner: &agent.Loop{MaxSteps: 5, Model: modelFunc(nil)},
		Rules:  rulesForDepth(2),
	}
	agenttest.Run(t, cfg, s, func(h *harness) {
		c, err := agent.Spawn[string](h.Context(), h.Main(),
			agent.Task{Text: "go", Label: "endless"})
		require.NoError(t, err)
		_, err = c.Wait(h.Context())
		require.ErrorContains(t, err, agent.ErrSteps.Error())
		require.Equal(t, 5, h.Calls("endless"))
	})
}

// With a budget of turns spent, what there is counts, and it is not taken for the whole.
func TestBudgetEndsARun(t *testing.T) {
	s := script{"poor": {
		call("subagents", `{}`).Spending(agent.Usage{Input: 900, Output: 200}),
		say("unreachable"),
	}}
	agenttest.Run(t, agent.Config{Rules: rulesForDepth(2)}, s, func(h *harness) {
		task := agent.Task{Text: "go", Label: "poor"}
		task.Budget.Tokens = 1000
		c, err := agent.Spawn[string](h.Context(), h.Main(), task)
		require.NoError(t, err)
		_, err = c.Wait(h.Context())
		e, ok := errors.AsType[*agent.RunError](err)
		require.True(t, ok, "%v", err)
		require.Equal(t, spawn.StatusIncomplete, e.Run.Status)
		require.Equal(t, int64(1100), e.Run.Result.Usage.Total())
		require.Equal(t, 1, h.Calls("poor"))
	})
}

// R6: a Models.Valid that panics refuses the spawn that asks it. The error names the field, and
// neither the model nor a person reads what it panicked with.
func TestModelsValidThatPanics(t *testing.T) {
	cfg := agent.Config{Models: agent.Models{
		Valid: func(string) bool { panic("password: hunter2") },
	}}
	s := script{"main": {
		call("sessions_spawn", `{"task":"work","model":"a/b"}`), echo(),
	}, "x": {echo()}}
	agenttest.Run(t, cfg, s, func(h *harness) {
		_, err := agent.Spawn[string](h.Context(), h.Main(), agent.Task{Text: "x", Model: "a/b"})
		failed, ok := errors.AsType[*spawn.CallbackError](err)
		require.True(t, ok, "%v", err)
		require.Equal(t, "Models.Valid", failed.Callback)
		h.Post("go")
		reply := h.Replies()[0].Reply
		require.False(t, reply.Failed)
		require.Contains(t, reply.Text, "Models.Valid")
		require.NotContains(t, reply.Text, "hunter2")
		_, err = agent.Spawn[string](h.Context(), h.Main(), agent.Task{Text: "x"})
		require.NoError(t, err, "no model is asked for")
	})
}
