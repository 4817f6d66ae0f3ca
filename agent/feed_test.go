package agent_test

import (
	"context"
	"errors"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/binding"
	"github.com/offshoot-sdk/offshoot/spawn"
)

func feedConfig(t *testing.T, _ *session.Store, v reflect.Value) error {
	cfg := v.Interface().(agent.Config)
	cfg.Runner = configAnswering(asText).Runner
	_, err := agent.Open(t.Context(), cfg)
	return err
}

func feedSpawnConfig(t *testing.T, store *session.Store, v reflect.Value) error {
	cfg := v.Interface().(spawn.Config)
	cfg.Store, cfg.Runner = store, turnFunc(nil)
	_, err := spawn.Open(t.Context(), cfg)
	return err
}

func feedTask(t *testing.T, store *session.Store, v reflect.Value) (err error) {
	cfg := configAnswering(asText)
	cfg.Store = store
	agenttest.Run(t, cfg, nil, func(h *harness) {
		_, err = agent.Spawn[string](h.Context(), h.Main(), v.Interface().(agent.Task))
		synctest.Wait()
	})
	return err
}

// turnFunc is a function that is a Runner of package spawn.
type turnFunc func() spawn.TurnResult

func (f turnFunc) RunTurn(context.Context, *spawn.TurnInput) (spawn.TurnResult, error) {
	return f(), nil
}

// runTree runs f beside a Supervisor.
func runTree(
	t *testing.T, store *session.Store, r turnFunc,
	f func(ctx context.Context, s *spawn.Supervisor),
) {
	synctest.Test(t, func(t *testing.T) {
		s, err := spawn.Open(t.Context(), spawn.Config{
			Store: store, Runner: r, Replies: true,
			Deliver: func(context.Context, spawn.Delivery) error { return nil },
		})
		require.NoError(t, err)
		done := make(chan error, 1)
		go func() { done <- s.Run(t.Context()) }()
		f(t.Context(), s)
		synctest.Wait()
		require.NoError(t, s.Shutdown(t.Context()))
		require.NoError(t, <-done)
	})
}

func answerX() spawn.TurnResult { return spawn.TurnResult{Result: spawn.Result{Text: "x"}} }

func feedRequest(t *testing.T, store *session.Store, v reflect.Value) (err error) {
	runTree(t, store, answerX, func(ctx context.Context, s *spawn.Supervisor) {
		_, err = s.Spawn(ctx, topKey, topKey, v.Interface().(spawn.Request))
	})
	return err
}

func feedIncoming(t *testing.T, store *session.Store, v reflect.Value) (err error) {
	m := v.Interface().(spawn.Incoming)
	runTree(t, store, answerX, func(ctx context.Context, s *spawn.Supervisor) {
		_, err = s.Post(ctx, topKey, topKey, m)
	})
	return err
}

func feedEvent(t *testing.T, store *session.Store, v reflect.Value) (err error) {
	runTree(t, store, answerX, func(ctx context.Context, s *spawn.Supervisor) {
		_, err = s.Announce(ctx, topKey, v.Interface().(spawn.Event))
	})
	return err
}

// feedSend has the main session send a message to a run that has ended.
func feedSend(t *testing.T, store *session.Store, v reflect.Value) (err error) {
	opt := v.Interface().(spawn.SendOptions)
	runTree(t, store, answerX, func(ctx context.Context, s *spawn.Supervisor) {
		info, failed := s.Spawn(ctx, topKey, topKey, spawn.Request{Task: "x"})
		require.NoError(t, failed)
		synctest.Wait()
		_, err = s.Send(ctx, topKey, topKey, info.Key, spawn.Incoming{Text: "x"}, opt)
	})
	return err
}

func feedBinding(t *testing.T, store *session.Store, v reflect.Value) error {
	table, err := binding.Open(t.Context(), store.Journal)
	require.NoError(t, err)
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	_, err = table.Bind(t.Context(), v.Interface().(binding.Request), now)
	return err
}

// feedFocus binds a conversation of a channel that has threads.
func feedFocus(t *testing.T, store *session.Store, v reflect.Value) error {
	rt, err := agent.Open(t.Context(), agent.Config{
		Store: store, Runner: answers(), Logger: slog.New(slog.DiscardHandler),
		Threads: agent.Threads{Channels: map[string]agent.ThreadChannel{"chat": {}}},
	})
	require.NoError(t, err)
	_, err = rt.Focus(t.Context(), v.Interface().(agent.FocusRequest))
	return err
}

// feedSay has a turn of the main session say something before it ends.
func feedSay(t *testing.T, store *session.Store, v reflect.Value) (err error) {
	return feedTurn(t, store, func(ctx context.Context, tn *spawn.TurnInput) error {
		return tn.Say(ctx, v.Interface().(spawn.Saying))
	})
}

// feedProgress has a turn of the main session report.
func feedProgress(t *testing.T, store *session.Store, v reflect.Value) (err error) {
	return feedTurn(t, store, func(ctx context.Context, tn *spawn.TurnInput) error {
		return tn.Report(ctx, v.Interface().(spawn.Progress))
	})
}

// feedTurn has a turn of the main session call f, and returns its error.
func feedTurn(
	t *testing.T, store *session.Store, f func(context.Context, *spawn.TurnInput) error,
) (err error) {
	synctest.Test(t, func(t *testing.T) {
		s, failed := spawn.Open(t.Context(), spawn.Config{
			Store: store, Replies: true,
			Deliver: func(context.Context, spawn.Delivery) error { return nil },
			Runner: runFunc(func(ctx context.Context, tn *spawn.TurnInput) {
				err = f(ctx, tn)
			}),
		})
		require.NoError(t, failed)
		require.NoError(t, errorOf(s.Post(t.Context(), topKey, topKey, spawn.Incoming{Text: "x"})))
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Minute, cancel)
		require.NoError(t, s.Run(ctx))
	})
	return err
}

// runFunc is a function that is a Runner of package spawn, and answers nothing.
type runFunc func(ctx context.Context, t *spawn.TurnInput)

func (f runFunc) RunTurn(
	ctx context.Context, t *spawn.TurnInput,
) (spawn.TurnResult, error) {
	f(ctx, t)
	return spawn.TurnResult{}, nil
}

// feedRunner has a turn of the main session call f, and returns how the turn failed.
func feedRunner(
	t *testing.T, store *session.Store,
	f func(ctx context.Context, tn *agent.Turn) (agent.Result, error),
) (err error) {
	cfg := configWith(func(ctx context.Context, tn *agent.Turn) (res agent.Result, failed error) {
		if tn.N > 1 || tn.Run != "" {
			return textResult("x")
		}
		res, err = f(ctx, tn)
		return res, err
	})
	cfg.Store = store
	agenttest.Run(t, cfg, nil, func(h *harness) {
		h.Post("go")
		synctest.Wait()
	})
	return err
}

func feedResponse(t *testing.T, store *session.Store, v reflect.Value) error {
	resp := v.Interface().(agent.ModelResponse)
	return feedRunner(t, store, answers(&resp, &agent.ModelResponse{Text: "x"}).Run)
}

func feedMessage(t *testing.T, store *session.Store, v reflect.Value) error {
	return feedRunner(t, store, func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
		return agent.Result{}, tn.Record(ctx, v.Interface().(session.Message))
	})
}

func feedPost(t *testing.T, store *session.Store, v reflect.Value) (err error) {
	cfg := configAnswering(asText)
	cfg.Store = store
	agenttest.Run(t, cfg, nil, func(h *harness) {
		_, err = h.Main().Post(h.Context(), v.Interface().(agent.Incoming))
		synctest.Wait()
	})
	return err
}

// feedCall calls a session tool in a turn, and as a loop of the caller's own does.
func feedCall(t *testing.T, store *session.Store, v reflect.Value) error {
	c := v.Interface().(session.ToolCall)
	first := feedRunner(t, store, func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
		_, err := tn.Call(ctx, c)
		return agent.Result{}, err
	})
	var second error
	cfg := configAnswering(asText)
	other, weighed := weighedStore()
	cfg.Store = other
	agenttest.Run(t, cfg, nil, func(h *harness) {
		tool := findTool(h.T(), h.Main().Tools(), "sessions_spawn")
		if len(c.Name) < 100 {
			_, second = tool.Call(h.Context(), c)
		}
	})
	if len(c.Name) < 100 {
		require.Equal(t, first == nil, second == nil, "%v", second)
	}
	if len(c.Args) > megabyte {
		require.ErrorContains(t, second, "(Limits.ToolArgs)")
	}
	weighed.check(t, leftOut)
	return first
}

// feedResult has a Runner return a result, of a sub-agent and of the main session.
func feedResult(t *testing.T, store *session.Store, v reflect.Value) (err error) {
	cfg := configWith(func(context.Context, *agent.Turn) (agent.Result, error) {
		res := v.Interface().(agent.Result)
		if len(res.JSON) > 0 {
			res.Text = "" // the transcript has the JSON in its place
		}
		return res, nil
	})
	cfg.Store = store
	agenttest.Run(t, cfg, nil, func(h *harness) {
		child, failed := agent.Spawn[string](h.Context(), h.Main(), agent.Task{Text: "x"})
		require.NoError(h.T(), failed)
		_, err = child.Wait(h.Context())
	})
	return err
}

// feedTurnResult has a Runner of package spawn return what a turn came to.
func feedTurnResult(t *testing.T, store *session.Store, v reflect.Value) (err error) {
	r := turnFunc(func() spawn.TurnResult { return v.Interface().(spawn.TurnResult) })
	runTree(t, store, r, func(ctx context.Context, s *spawn.Supervisor) {
		info, failed := s.Spawn(ctx, topKey, topKey, spawn.Request{Task: "x"})
		require.NoError(t, failed)
		synctest.Wait()
		info, failed = s.Find(ctx, topKey, info.Ref())
		require.NoError(t, failed)
		if info.Error != "" && info.Refused == "" {
			err = errors.New(info.Error)
		}
	})
	return err
}

// S10: what enters by an argument or a return value is bounded, too.
func TestTextsOfCallsAreBounded(t *testing.T) {
	big := strings.Repeat("x", 5*megabyte)
	turn := func(
		want string, f func(ctx context.Context, tn *agent.Turn) (agent.Result, error),
	) func(t *testing.T) {
		return func(t *testing.T) {
			store, weighed := weighedStore()
			_ = feedRunner(t, store, f)
			weighed.check(t, want)
		}
	}
	for name, test := range map[string]func(t *testing.T){
		"the error of a Runner": turn(cut,
			func(context.Context, *agent.Turn) (agent.Result, error) {
				return agent.Result{}, errors.New(big)
			}),
		"a panic of a Runner": turn(cut,
			func(context.Context, *agent.Turn) (agent.Result, error) { panic(big) }),
		"a steer": turn(refused,
			func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
				child, err := tn.Spawn(ctx, agent.Task{Text: "x"})
				if err == nil {
					err = child.Steer(ctx, big)
				}
				return agent.Result{}, err
			}),
		"a delta":             func(t *testing.T) { deltaOver(t, big) },
		"what a tool returns": func(t *testing.T) { toolOver(t, big, nil) },
		"the error of a tool": func(t *testing.T) { toolOver(t, "", errors.New(big)) },
		"the error of Reply": func(t *testing.T) {
			store, weighed := weighedStore()
			cfg := configWith(func(context.Context, *agent.Turn) (agent.Result, error) {
				return textResult("x")
			})
			cfg.Store = store
			failed := false
			cfg.Reply = func(context.Context, agent.Delivery) error {
				if failed {
					return nil
				}
				failed = true
				return errors.New(big)
			}
			agenttest.Run(t, cfg, nil, func(h *harness) {
				h.Post("go")
				time.Sleep(time.Minute)
			})
			weighed.check(t, cut)
		},
		"the reason of a stop": func(t *testing.T) {
			store, weighed := weighedStore()
			slow := func() spawn.TurnResult {
				time.Sleep(time.Second)
				return answerX()
			}
			runTree(t, store, slow, func(ctx context.Context, s *spawn.Supervisor) {
				info, err := s.Spawn(ctx, topKey, topKey, spawn.Request{Task: "x"})
				require.NoError(t, err)
				synctest.Wait()
				require.NoError(t, s.Stop(ctx, topKey, info.Key, big))
			})
			weighed.check(t, cut)
		},
	} {
		t.Run(name, test)
	}
}

// feedToolResult has a tool return a result.
func feedToolResult(t *testing.T, store *session.Store, v reflect.Value) error {
	tool := agent.Tool{
		Name: "tool", Call: func(context.Context, agent.ToolCall) (agent.ToolResult, error) {
			return v.Interface().(agent.ToolResult), nil
		},
	}
	cfg := agent.Config{Store: store, Tools: []agent.Tool{tool}, Runner: answers(
		&agent.ModelResponse{ToolCalls: []agent.ToolCall{{ID: "1", Name: "tool"}}},
		&agent.ModelResponse{Text: "x"},
	)}
	agenttest.Run(t, cfg, nil, func(h *harness) {
		h.Post("go")
		h.Replied("x")
	})
	return nil
}

// toolOver has a model call a tool that returns something.
func toolOver(t *testing.T, out string, err error) {
	store, weighed := weighedStore()
	cfg := agent.Config{
		Store: store,
		Tools: []agent.Tool{{
			Name: "tool",
			Call: textCall(func(context.Context, agent.ToolCall) (string, error) {
				return out, err
			}),
		}},
		Runner: answers(
			&agent.ModelResponse{ToolCalls: []agent.ToolCall{{ID: "1", Name: "tool"}}},
			&agent.ModelResponse{Text: "x"},
		),
	}
	agenttest.Run(t, cfg, nil, func(h *harness) {
		h.Post("go")
		h.Replied("x")
	})
	weighed.check(t, cut)
}

// deltaOver has a Runner show a text, which watchers get in part.
func deltaOver(t *testing.T, big string) {
	store, weighed := weighedStore()
	cfg := configWith(func(_ context.Context, tn *agent.Turn) (agent.Result, error) {
		tn.Delta(big)
		return textResult("x")
	})
	cfg.Store = store
	agenttest.Run(t, cfg, nil, func(h *harness) {
		shown := make(chan string, 1)
		go func() {
			for e, err := range h.Main().Events(h.Context()) {
				if err != nil {
					t.Error(err)
				}
				if e.Kind == agent.EventDelta {
					shown <- e.Text
					return
				}
			}
		}()
		synctest.Wait()
		h.Post("go")
		got := <-shown
		require.LessOrEqual(t, len(got), megabyte)
		require.Contains(t, got, "cut here: it had")
	})
	weighed.check(t, leftOut)
}

// S10: the id of a tool call, which a provider matches, fails the turn if it is too long, and is
// never cut.
func TestIDsOfToolCallsAreNotCut(t *testing.T) {
	for _, c := range []struct {
		bytes int
		field string
		m     func(id string) agent.Message
	}{
		{65_536, "Message.ToolCalls[0].ID", func(id string) agent.Message {
			return agent.Message{
				Role: session.MessageAssistant, ToolCalls: []agent.ToolCall{{ID: id, Name: "x"}},
			}
		}},
		{65_536, "Message.ToolCallID", func(id string) agent.Message {
			return agent.Message{Role: session.MessageUser, Text: "x", ToolCallID: id}
		}},
		{4_096, "Message.ID", func(id string) agent.Message {
			return agent.Message{Role: session.MessageUser, Text: "x", ID: id}
		}},
	} {
		var atLimit, over error
		err := feedRunner(t, session.NewMemory(),
			func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
				atLimit = tn.Record(ctx, c.m(strings.Repeat("x", c.bytes)))
				over = tn.Record(ctx, c.m(strings.Repeat("x", c.bytes+1)))
				return textResult("x")
			})
		require.NoError(t, err)
		require.NoError(t, atLimit)
		bad, ok := errors.AsType[*agent.LimitError](over)
		require.True(t, ok, "%v", over)
		require.Equal(t, c.field, bad.Field)
		require.Equal(t, []int{c.bytes + 1, c.bytes}, []int{bad.Size, bad.Limit})
	}
	long := &agent.ModelResponse{ToolCalls: []agent.ToolCall{
		{ID: strings.Repeat("x", 65_537), Name: "x"},
	}}
	err := feedRunner(t, session.NewMemory(), answers(long).Run)
	require.ErrorContains(t, err, "it has 65537 bytes, the limit is 65536 (Limits.CallID)")
}

// S10: the provider's form counts with its message: it is kept at the limit, and left out above.
func TestProviderFormCountsWithItsMessage(t *testing.T) {
	for over, kept := range map[int]bool{0: true, 1: false} {
		store, notes := newNotebook()
		raw := `"` + strings.Repeat("r", 4*megabyte-2-4+over) + `"`
		cfg := agent.Config{Store: store, Runner: answers(
			&agent.ModelResponse{Text: "text", Raw: []byte(raw)},
		)}
		agenttest.Run(t, cfg, nil, func(h *harness) {
			h.Post("go")
			h.Replied("text")
			require.Equal(t, kept, notes.all(t, topKey)[1].Message.Raw != nil)
		})
	}
	calls := make([]agent.ToolCall, 5)
	for i := range calls {
		calls[i] = agent.ToolCall{Name: "x", Args: []byte(strings.Repeat("x", 900_000))}
	}
	store := session.NewMemory()
	store.Files = nil
	err := feedRunner(t, store, answers(&agent.ModelResponse{ToolCalls: calls}).Run)
	require.ErrorContains(t, err, "the limit is 4000000 (Limits.Line)")
}
