package agent_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/session"
)

// callsOf makes calls of tools by their names, each under an id of its own.
func callsOf(names ...string) []agent.ToolCall {
	calls := make([]agent.ToolCall, len(names))
	for i, name := range names {
		calls[i] = agent.ToolCall{ID: fmt.Sprintf("call_%d", i), Name: name}
	}
	return calls
}

// callsOnce answers a turn that has no result of a tool with calls, and any other with the results.
func callsOnce(t testing.TB, calls []agent.ToolCall) modelFunc {
	return func(_ context.Context, req *agent.ModelRequest) (*agent.ModelResponse, error) {
		if err := agenttest.CheckConversation(req.Messages); err != nil {
			t.Errorf("what the model was told: %v", err)
		}
		var results []string
		for _, m := range req.Messages[len(req.Messages)-req.New:] {
			if m.Role == session.MessageTool {
				results = append(results, m.Text)
			}
		}
		if len(results) == 0 {
			return &agent.ModelResponse{ToolCalls: calls}, nil
		}
		return &agent.ModelResponse{Text: strings.Join(results, "; ")}, nil
	}
}

// A stopwatch has tools that take their time, and notes when each call began and ended. Those
// with another name than "alone" are Concurrent.
type stopwatch struct {
	mu       sync.Mutex
	began    map[string][2]time.Duration // by the result, since the start
	start    time.Time
	now, top int // how many calls run, and ran at most
}

// tool returns a tool that takes so long. Its result is its name and how many calls of it there
// were.
func (w *stopwatch) tool(name string, takes time.Duration) agent.Tool {
	calls := 0
	return agent.Tool{
		Name: name, Concurrent: strings.HasPrefix(name, "c"),
		Call: textCall(func(ctx context.Context, _ agent.ToolCall) (string, error) {
			w.mu.Lock()
			if w.start.IsZero() {
				w.start, w.began = time.Now(), make(map[string][2]time.Duration)
			}
			calls++
			result := name + strconv.Itoa(calls)
			began := time.Since(w.start)
			w.now++
			w.top = max(w.top, w.now)
			w.mu.Unlock()
			err := pause(ctx, takes)
			w.mu.Lock()
			defer w.mu.Unlock()
			w.now--
			w.began[result] = [2]time.Duration{began, time.Since(w.start)}
			return result, err
		}),
	}
}

// Calls of Concurrent tools that stand together run together, another call runs alone in its place,
// and the results stand in the order of the calls.
func TestConcurrentToolsRunTogether(t *testing.T) {
	for parallel, want := range map[int]map[string][2]time.Duration{
		0: {
			"cslow1": {0, 3}, "cfast1": {0, 1}, "alone1": {3, 5}, "cfast2": {5, 6}, "alone2": {6, 8},
			"alone3": {8, 10}, "cslow2": {10, 13}, "cfast3": {10, 11},
		},
		1: {
			"cslow1": {0, 3}, "cfast1": {3, 4}, "alone1": {4, 6}, "cfast2": {6, 7}, "alone2": {7, 9},
			"alone3": {9, 11}, "cslow2": {11, 14}, "cfast3": {14, 15},
		},
	} {
		t.Run(fmt.Sprint(parallel), func(t *testing.T) {
			var w stopwatch
			cfg := agent.Config{
				Tools: []agent.Tool{
					w.tool("cslow", 3*time.Second), w.tool("cfast", time.Second),
					w.tool("alone", 2*time.Second),
				},
				Runner: &agent.Loop{Parallel: parallel, Model: callsOnce(t, callsOf(
					"cslow", "cfast", "alone", "cfast", "alone", "alone", "cslow", "cfast"))},
			}
			agenttest.Run(t, cfg, nil, func(h *harness) {
				h.Post("go")
				time.Sleep(time.Hour)
				h.Replied("cslow1; cfast1; alone1; cfast2; alone2; alone3; cslow2; cfast3")
				got := make(map[string][2]time.Duration)
				for name, at := range w.began {
					got[name] = [2]time.Duration{at[0] / time.Second, at[1] / time.Second}
				}
				require.Equal(t, want, got)
			})
		})
	}
}

// At most Loop.Parallel calls run at once.
func TestParallelIsBounded(t *testing.T) {
	for parallel, want := range map[int]int{
		0: agent.DefaultParallel, 1: 1, 3: 3, agent.DefaultParallel: 8, 1000: 40,
	} {
		var w stopwatch
		names := make([]string, 40)
		for i := range names {
			names[i] = "c"
		}
		cfg := agent.Config{
			Tools:  []agent.Tool{w.tool("c", time.Second)},
			Runner: &agent.Loop{Parallel: parallel, Model: callsOnce(t, callsOf(names...))},
		}
		agenttest.Run(t, cfg, nil, func(h *harness) {
			h.Post("go")
			time.Sleep(time.Hour)
			require.Len(t, h.Replies(), 1)
			require.Equal(t, want, w.top)
		})
	}
	bad := agent.Config{Runner: &agent.Loop{Parallel: -1, Model: modelFunc(nil)}}
	agenttest.Run(t, bad, nil, func(h *harness) {
		h.Post("go")
		synctest.Wait()
		require.Contains(t, h.Replies()[0].Reply.Err, "Loop.Parallel")
	})
}

// A call that panics, ends its goroutine, fails or runs out of time disturbs no other, whether the
// tools are Concurrent or not, and also in a tool that the Runner has put in.
func TestOneCallDisturbsNoOther(t *testing.T) {
	for name, bad := range map[string]struct {
		call func() error
		told string
	}{
		"panic": {func() error { panic("hunter2") }, `error: agent: the tool "cbad" failed unexpectedly`},
		"exit": {
			func() error { runtime.Goexit(); return nil },
			`error: agent: the tool "cbad" failed unexpectedly`,
		},
		"error": {func() error { return errBad }, "error: bad"},
		"late": {
			func() error { time.Sleep(time.Minute); return nil },
			`error: agent: the tool "cbad" has not answered within 30s, which is its timeout, ` +
				`and it may still be at work`,
		},
	} {
		for i := range 4 {
			own, concurrent := i&1 > 0, i&2 > 0
			if name == "late" && own {
				continue // the Runner's own tools have no Timeout
			}
			t.Run(fmt.Sprintf("%s, own %v, concurrent %v", name, own, concurrent), func(t *testing.T) {
				disturb(t, bad.call, own, concurrent, "c1; "+bad.told+"; d1")
			})
		}
	}
}

// disturb makes a call that misbehaves between two others, of a tool that is Concurrent or not, and
// of the Config or the Runner's own. It checks what the model is told.
func disturb(t *testing.T, misbehave func() error, own, concurrent bool, want string) {
	var w stopwatch
	tools := []agent.Tool{w.tool("c", time.Second), w.tool("d", time.Second)}
	bad := agent.Tool{
		Name: "cbad", Concurrent: concurrent, Timeout: 30 * time.Second,
		Call: textCall(func(context.Context, agent.ToolCall) (string, error) {
			return "never", misbehave()
		}),
	}
	loop := &agent.Loop{Model: callsOnce(t, callsOf("c", "cbad", "d"))}
	cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
		if own {
			tn.Tools = append(tn.Tools, bad)
		}
		return loop.Run(ctx, tn)
	})
	if cfg.Tools = tools; !own {
		cfg.Tools = append(cfg.Tools, bad)
	}
	agenttest.Run(t, cfg, nil, func(h *harness) {
		h.Post("go")
		time.Sleep(time.Hour)
		h.Replied(want)
	})
}

// A result is in the transcript as soon as all before it are, so that a crash keeps what it can.
func TestResultsAreRecordedAsTheyCome(t *testing.T) {
	var w stopwatch
	store := session.NewMemory()
	cfg := agent.Config{
		Store: store,
		Tools: []agent.Tool{
			w.tool("c1s", time.Second), w.tool("c2s", 2*time.Second), w.tool("c4s", 4*time.Second),
		},
		Runner: &agent.Loop{Model: callsOnce(t, callsOf("c2s", "c1s", "c4s", "c1s"))},
	}
	agenttest.Run(t, cfg, nil, func(h *harness) {
		h.Post("go")
		synctest.Wait()
		for _, want := range []int{2, 4, 4, 7} { // with the question, the calls and the answer
			time.Sleep(time.Second)
			synctest.Wait()
			require.Len(t, linesOf(t, store), want)
		}
	})
}

// A turn that is cancelled waits for all of its calls, within its grace period, and keeps what has
// come of those that have succeeded. The session goes on with a conversation that providers accept.
func TestCancelledTurnKeepsItsResults(t *testing.T) {
	store := session.NewMemory()
	tool := func(name string, takes time.Duration, stubborn bool) agent.Tool {
		return agent.Tool{
			Name: name, Concurrent: true,
			Call: textCall(func(ctx context.Context, _ agent.ToolCall) (string, error) {
				if stubborn {
					time.Sleep(takes)
					return name, nil
				}
				return name, pause(ctx, takes)
			}),
		}
	}
	cfg := agent.Config{
		Store: store, Grace: 10 * time.Second,
		Tools: []agent.Tool{
			tool("polite", time.Hour, false), tool("quick", time.Second, false),
			tool("stubborn", 8*time.Second, true),
		},
		Runner: &agent.Loop{Model: modelFunc(func(
			_ context.Context, req *agent.ModelRequest,
		) (*agent.ModelResponse, error) {
			if len(req.Messages) == 1 {
				calls := callsOf("polite", "quick", "polite", "stubborn", "polite")
				return &agent.ModelResponse{ToolCalls: calls}, nil
			}
			return &agent.ModelResponse{Text: "done"}, agenttest.CheckConversation(req.Messages)
		})},
	}
	agenttest.Run(t, cfg, nil, func(h *harness) {
		h.Post("go")
		time.Sleep(5 * time.Second)
		began := time.Now()
		require.NoError(t, h.Main().CancelTurn(h.Context()))
		require.NoError(t, h.Main().Idle(h.Context()))
		require.Equal(t, 3*time.Second, time.Since(began), "it has waited")
		h.Post("and now?")
		h.Replied("done")
		var got []string
		for _, line := range linesOf(t, store) {
			if m := line.Message; m.Role == session.MessageTool {
				got = append(got, m.ToolCallID+" "+m.Text)
				require.Equal(t, m.Failed, m.Synthetic)
			}
		}
		const none = " no result: the turn ended"
		require.Equal(t, []string{
			"call_0" + none, "call_1 quick", "call_2" + none, "call_3 stubborn", "call_4" + none,
		}, got)
	})
}

// Calls in parallel over every crash: the conversation stays one that providers accept, each call
// has its own result in its place, and a call is never made before its line is durable.
func TestParallelCallsOverEveryCrash(t *testing.T) {
	var mu sync.Mutex
	var made map[agent.CallID]string
	tool := func(name string, takes time.Duration) agent.Tool {
		return agent.Tool{
			Name: name, Concurrent: name != "alone",
			Call: textCall(func(ctx context.Context, c agent.ToolCall) (string, error) {
				caller, _ := agent.CallerOf(ctx)
				mu.Lock()
				defer mu.Unlock()
				if made[caller.Call] != "" || caller.Call.IsZero() {
					return "", fmt.Errorf("%v is not the id of one call", caller.Call)
				}
				made[caller.Call] = name
				mu.Unlock()
				err := pause(ctx, takes)
				mu.Lock()
				return name + " of " + caller.Call.String(), err
			}),
		}
	}
	cfg := agent.Config{Tools: []agent.Tool{
		tool("slow", 3*time.Second), tool("fast", time.Second), tool("alone", time.Second),
	}}
	s := script{"main": {
		call("slow", `{}`).And("fast", `{}`).And("alone", `{}`).And("fast", `{}`).And("slow", `{}`),
		echo(),
	}}
	agenttest.EveryCrash(t, cfg, s, func(h *harness) {
		mu.Lock()
		made = make(map[agent.CallID]string)
		mu.Unlock()
		h.Post("go")
		time.Sleep(time.Minute)
		require.Len(t, h.Replies(), 1)
		var page agent.HistoryPage
		require.NoError(t, h.Do(func(rt *agent.Runtime) (err error) {
			page, err = rt.Session(topKey).History(h.Context(), agent.HistoryQuery{Raw: true})
			return err
		}))
		requireResultsOfTheirCalls(t, page, made)
	})
}

// requireResultsOfTheirCalls checks that each result tells the id of its call, under which the call
// was made, and which says where the line of the call is.
func requireResultsOfTheirCalls(
	t *testing.T, page agent.HistoryPage, made map[agent.CallID]string,
) {
	t.Helper()
	calls, n := agent.HistoryLine{}, 0
	for _, line := range page.Lines {
		switch m := line.Message; {
		case len(m.ToolCalls) > 0:
			calls, n = line, 0
		case m.Role == session.MessageTool:
			call := calls.Message.ToolCalls[n]
			require.Equal(t, call.ID, m.ToolCallID)
			name, id, _ := strings.Cut(m.Text, " of ")
			require.Equal(t, call.Name, name)
			require.True(t, strings.HasSuffix(id, fmt.Sprintf("/%d.%d", calls.Pos, n)),
				"%s is call %d of line %d", id, n, calls.Pos)
			found := false
			for of, name := range made {
				found = found || of.String() == id && name == call.Name
			}
			require.True(t, found, id)
			n++
		}
	}
	require.Positive(t, n)
}

// Whatever ids a model gives its calls, of whatever tools, and however many there are: each call
// has its own result behind it, in its place.
func TestResultsStandUnderTheirCalls(t *testing.T) {
	skipUnderRace(t)
	ids := []string{"", "a", "b", "call_0", "a_2", "call_0", strings.Repeat("x", 70)}
	for seed := range uint64(30) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 1))
			answers := 0
			model := modelFunc(func(
				_ context.Context, req *agent.ModelRequest,
			) (*agent.ModelResponse, error) {
				if err := agenttest.CheckConversation(req.Messages); err != nil {
					t.Error(err)
				}
				checkEchoes(t, req.Messages)
				if answers++; answers > 4 {
					return &agent.ModelResponse{Text: "done"}, nil
				}
				calls := make([]agent.ToolCall, 1+rnd.IntN(80))
				for i := range calls {
					calls[i] = agent.ToolCall{
						ID: ids[rnd.IntN(len(ids))], Name: []string{"c", "alone", "none"}[rnd.IntN(3)],
						Args: fmt.Appendf(nil, `{"n":%d}`, 1000*answers+i),
					}
				}
				return &agent.ModelResponse{ToolCalls: calls}, nil
			})
			tool := func(name string, concurrent bool) agent.Tool {
				return agent.Tool{
					Name: name, Concurrent: concurrent,
					Call: textCall(func(ctx context.Context, c agent.ToolCall) (string, error) {
						n, _ := strconv.Atoi(strings.Trim(string(c.Args), `{}"n:`))
						return string(c.Args), pause(ctx, time.Duration(n*7919%13)*time.Second)
					}),
				}
			}
			agenttest.Run(t, agent.Config{
				Runner: &agent.Loop{Model: model},
				Tools:  []agent.Tool{tool("c", true), tool("alone", false)},
			}, nil, func(h *harness) {
				h.Post("go")
				time.Sleep(24 * time.Hour)
				h.Replied("done")
			})
		})
	}
}

// checkEchoes checks that each result repeats the arguments of the call in its place, or says that
// there is no such tool, and that no more than 64 calls were run.
func checkEchoes(t *testing.T, messages []agent.Message) {
	var calls []agent.ToolCall
	for _, m := range messages {
		if m.Role != session.MessageTool {
			require.Empty(t, calls, "each call has its result")
			require.LessOrEqual(t, len(m.ToolCalls), 64)
			calls = m.ToolCalls
			continue
		}
		require.Equal(t, calls[0].ID, m.ToolCallID)
		if calls[0].Name == "none" {
			require.Contains(t, m.Text, "no tool")
		} else {
			require.True(t, strings.HasPrefix(m.Text, string(calls[0].Args)), m.Text)
		}
		calls = calls[1:]
	}
}

// A call of a tool has one id, which says where its line stands, in every kind of Runner.
func TestCallIDsOfARunner(t *testing.T) {
	store := session.NewMemory()
	var got []agent.CallID
	tool := agent.Tool{Name: "x", Call: textCall(func(
		ctx context.Context, _ agent.ToolCall,
	) (string, error) {
		caller, ok := agent.CallerOf(ctx)
		require.True(t, ok)
		got = append(got, caller.Call)
		return "ok", nil
	})}
	cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
		calls := []agent.ToolCall{{ID: "a", Name: "x"}, {ID: "b", Name: "x"}, {ID: "a", Name: "x"}}
		_, err := tn.Call(ctx, calls[0]) // before the line
		require.NoError(t, err)
		said := agent.Message{Role: session.MessageAssistant, ToolCalls: calls}
		require.NoError(t, tn.Record(ctx, said))
		for _, c := range calls {
			_, err := tn.Call(ctx, c)
			require.NoError(t, err)
			require.NoError(t, tn.Record(ctx, agent.Message{
				Role: session.MessageTool, ToolCallID: c.ID, Text: "ok",
			}))
		}
		_, err = tn.Call(ctx, calls[0]) // behind the result
		require.NoError(t, err)
		return textResult("done")
	})
	cfg.Store, cfg.Tools = store, []agent.Tool{tool}
	agenttest.Run(t, cfg, nil, func(h *harness) {
		h.Post("go")
		h.Replied("done")
		lines := linesOf(t, store)
		id := agent.CallID{SessionID: sessionIDOf(t, store, topKey), Line: lines[1].Pos}
		second, third := id, id
		second.Index, third.Index = 1, 2
		require.Equal(t, []agent.CallID{{}, id, second, third, {}}, got)
		require.Empty(t, got[0].String())
		require.Equal(t, fmt.Sprintf("%s/%d.1", id.SessionID, id.Line), second.String())
	})
}

// No tool of Offshoot is Concurrent: children are admitted in the order of the calls, so that a
// repeated turn finds the same ones, and a call costs a moment.
func TestSessionToolsRunInOrder(t *testing.T) {
	cfg := configWith(func(_ context.Context, tn *agent.Turn) (agent.Result, error) {
		for _, tool := range tn.Tools {
			require.False(t, tool.Concurrent, tool.Name)
		}
		return textResult(strings.Join(toolNamesOf(tn.Tools), " "))
	})
	cfg.Rules = rulesForDepth(2)
	agenttest.Run(t, cfg, nil, func(h *harness) {
		h.Post("go")
		h.Replied("sessions_spawn subagents sessions_yield sessions_send agents_list " +
			"sessions_list sessions_history session_status")
	})
}

// Tools that wait for sub-agents beside each other give their slot back together.
func TestConcurrentToolsThatJoin(t *testing.T) {
	var cfg agent.Config
	inner := &agent.Loop{Model: modelFunc(func(
		ctx context.Context, req *agent.ModelRequest,
	) (*agent.ModelResponse, error) {
		if req.Run == "" {
			return callsOnce(t, callsOf("delegate", "delegate", "delegate"))(ctx, req)
		}
		return &agent.ModelResponse{Text: "found"}, pause(ctx, time.Minute)
	})}
	type turnKey struct{}
	cfg = configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
		return inner.Run(context.WithValue(ctx, turnKey{}, tn), tn)
	})
	cfg.Tools = []agent.Tool{{Name: "delegate", Concurrent: true, Call: textCall(func(
		ctx context.Context, _ agent.ToolCall,
	) (string, error) {
		tn, ok := ctx.Value(turnKey{}).(*agent.Turn)
		require.True(t, ok)
		child, err := tn.Spawn(ctx, agent.Task{Text: "find"})
		if err != nil {
			return "", err
		}
		got, err := agent.Join(ctx, tn, []*agent.Child[string]{child}, agent.JoinOptions{})
		if err != nil {
			return "", err
		}
		return got[0].Value, nil
	})}}
	cfg.Rules.Subagents.MaxConcurrent = 1
	agenttest.Run(t, cfg, nil, func(h *harness) {
		h.Post("go")
		time.Sleep(time.Hour)
		h.Replied("found; found; found")
	})
}

// errors that a tool returns.
var errAgain = agent.Retryable(errors.New("busy"))

// A call of a tool that changes nothing twice is tried again, up to two times, if its error says
// that.
func TestEffectDecidesAboutAnotherTry(t *testing.T) {
	limited := func(d time.Duration) error { return &agent.RateLimited{After: d} }
	for _, c := range []struct {
		effect agent.Effect
		errs   []error
		tries  int
		takes  time.Duration
	}{
		{agent.EffectReadOnly, []error{errAgain}, 2, 500 * time.Millisecond},
		{agent.EffectIdempotent, []error{errAgain}, 2, 500 * time.Millisecond},
		{agent.EffectReadOnly, []error{errAgain, errAgain}, 3, 1500 * time.Millisecond},
		{agent.EffectReadOnly, []error{errAgain, errAgain, errAgain}, 3, 1500 * time.Millisecond},
		{agent.EffectReadOnly, []error{errAgain, errBad}, 2, 500 * time.Millisecond},
		{agent.EffectReadOnly, []error{errBad}, 1, 0},
		{agent.EffectReadOnly, []error{limited(time.Minute)}, 2, time.Minute},
		{agent.EffectReadOnly, []error{limited(time.Minute + 1)}, 1, 0},
		{agent.EffectUnknown, []error{errAgain}, 1, 0},
		{agent.EffectEffectful, []error{errAgain}, 1, 0},
		{agent.EffectReadOnly, []error{context.DeadlineExceeded}, 1, time.Hour},
	} {
		t.Run(fmt.Sprint(c.effect, c.errs), func(t *testing.T) {
			ids, tries := make(map[agent.CallID]bool), 0
			cfg := agent.Config{Tools: []agent.Tool{{
				Name: "x", Effect: c.effect, Timeout: time.Hour,
				Call: textCall(func(ctx context.Context, _ agent.ToolCall) (string, error) {
					caller, _ := agent.CallerOf(ctx)
					ids[caller.Call] = true
					if tries++; tries > len(c.errs) {
						return "ok", nil
					}
					err := c.errs[tries-1]
					if errors.Is(err, context.DeadlineExceeded) {
						<-ctx.Done()
						err = agent.Retryable(ctx.Err())
					}
					return "", err
				}),
			}}}
			agenttest.Run(t, cfg, script{"main": {call("x", `{}`), echo()}}, func(h *harness) {
				began := time.Now()
				h.Post("go")
				require.NoError(t, h.Main().Idle(h.Context()))
				require.Equal(t, c.takes, time.Since(began))
				require.Equal(t, c.tries, tries)
				require.Len(t, ids, 1, "all tries are one call")
				require.Equal(t, tries <= len(c.errs),
					strings.HasPrefix(h.Replies()[0].Reply.Text, "error: "))
			})
		})
	}
	var e agent.Effect
	require.NoError(t, e.UnmarshalText([]byte("Read_Only")))
	require.Equal(t, agent.EffectReadOnly, e)
	require.Equal(t, "idempotent effectful", fmt.Sprint(agent.EffectIdempotent, " ",
		agent.EffectEffectful))
	requireMistake(t, "Config.Tools[0].Effect: it is Effect(9)", agent.Tool{
		Name: "x", Call: toolSaying(""), Effect: 9,
	})
}
