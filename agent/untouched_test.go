package agent_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	agentctx "github.com/offshoot-sdk/offshoot/context"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// interruptNow ends the process of h as Ctrl-C does, and starts the next one.
func interruptNow(h *harness) {
	h.T().Helper()
	now, cancel := context.WithCancel(h.Context())
	cancel()
	require.NoError(h.T(), h.Runtime().Shutdown(now))
	h.Crash()
}

// toolsOfEffects are tools of each Effect, which take a minute.
func toolsOfEffects() (tools []agent.Tool) {
	for _, e := range []agent.Effect{
		agent.EffectUnknown, agent.EffectReadOnly, agent.EffectIdempotent, agent.EffectEffectful,
	} {
		tools = append(tools, agent.Tool{
			Name: e.String(), Effect: e,
			Call: textCall(func(ctx context.Context, _ agent.ToolCall) (string, error) {
				return "done", pause(ctx, time.Minute)
			}),
		})
	}
	return tools
}

// A3: a sub-agent of a Loop that a shutdown meets while the model is asked for its first answer is
// queued again, and is told of nothing. Once the model has answered it is interrupted.
func TestLoopThatAShutdownCuts(t *testing.T) {
	s := script{
		"first": {say("first is done").After(time.Minute)},
		"read": {
			agenttest.Call("read_only", "{}"), say("read is done"),
		},
		"write": {agenttest.Call("effectful", "{}"), say("write is done")},
		"second": {
			agenttest.Call("agents_list", "{}"), say("second is done").After(time.Minute),
		},
		"ended": {say("ended is done")},
	}
	agenttest.Run(t, agent.Config{Tools: toolsOfEffects()}, s, func(h *harness) {
		children := startAll(h, "first", "read", "write", "second", "ended")
		time.Sleep(time.Second)
		interruptNow(h)
		time.Sleep(5 * time.Minute)
		require.Equal(t, map[string]spawn.Status{
			"first": spawn.StatusOK, "read": spawn.StatusInterrupted,
			"write": spawn.StatusInterrupted, "second": spawn.StatusInterrupted,
			"ended": spawn.StatusOK,
		}, statuses(h.Runs()))
		require.Equal(t, 2, h.Calls("first"))
		h.NotPrompted("first", "Interrupted Turn")
		messages, err := h.Session(children[0].Key()).History(h.Context(), agent.HistoryQuery{})
		require.NoError(t, err)
		require.Len(t, messages.Lines, 2, "the task once, and the answer")
	})
}

// What a Runner of the caller's did decides whether its ErrUntouched counts.
func TestRunnerThatClaimsToBeUntouched(t *testing.T) {
	call := func(tool string) func(context.Context, *agent.Turn) error {
		return func(ctx context.Context, tn *agent.Turn) error {
			_, err := tn.Call(ctx, agent.ToolCall{ID: "1", Name: tool, Args: json.RawMessage("{}")})
			return err
		}
	}
	own := func(e agent.Effect) func(context.Context, *agent.Turn) error {
		return func(ctx context.Context, tn *agent.Turn) error {
			tn.Tools = append(tn.Tools, agent.Tool{Name: "own", Effect: e, Call: toolSaying("x")})
			return call("own")(ctx, tn)
		}
	}
	for name, c := range map[string]struct {
		do   func(ctx context.Context, tn *agent.Turn) error
		res  agent.Result
		want spawn.Status
	}{
		"nothing":             {want: spawn.StatusOK},
		"unknown":             {do: call("unknown"), want: spawn.StatusInterrupted},
		"read only":           {do: call("read_only"), want: spawn.StatusOK},
		"idempotent":          {do: call("idempotent"), want: spawn.StatusOK},
		"effectful":           {do: call("effectful"), want: spawn.StatusInterrupted},
		"its own, idempotent": {do: own(agent.EffectIdempotent), want: spawn.StatusOK},
		"its own, not known":  {do: own(agent.EffectUnknown), want: spawn.StatusInterrupted},
		"recorded": {do: func(ctx context.Context, tn *agent.Turn) error {
			return tn.Record(ctx, agent.Message{Role: session.MessageAssistant, Text: "hm"})
		}, want: spawn.StatusInterrupted},
		"took the inbox": {do: func(ctx context.Context, tn *agent.Turn) error {
			_, err := tn.Inbox(ctx)
			return err
		}, want: spawn.StatusOK},
		"spent": {do: func(ctx context.Context, tn *agent.Turn) error {
			return tn.Spend(ctx, agent.Usage{Input: 1})
		}, want: spawn.StatusInterrupted},
		"returned a text":  {res: agent.Result{Text: "half"}, want: spawn.StatusInterrupted},
		"returned a usage": {res: agent.Result{Usage: agent.Usage{Output: 1}}, want: spawn.StatusInterrupted},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
				if c.do != nil {
					if err := c.do(ctx, tn); err != nil && ctx.Err() == nil {
						return agent.Result{}, err
					}
				}
				if err := pause(ctx, 2*time.Minute); err != nil {
					return c.res, fmt.Errorf("cut short: %w", agent.ErrUntouched)
				}
				return textResult("done")
			})
			cfg.Tools = toolsOfEffects()
			cfg.Rules = rulesForDepth(2)
			agenttest.Run(t, cfg, nil, func(h *harness) {
				startAll(h, "work")
				time.Sleep(time.Second)
				interruptNow(h)
				time.Sleep(10 * time.Minute)
				require.Equal(t, c.want, h.Child("work").Status)
			})
		})
	}
}

// A shutdown that comes before the Runner is called leaves the turn untouched, whatever the Runner
// would have said.
func TestShutdownBeforeTheRunner(t *testing.T) {
	var calls atomic.Int32
	cfg := configWith(func(context.Context, *agent.Turn) (agent.Result, error) {
		calls.Add(1)
		return textResult("done")
	})
	cfg.Prompts.Describe = func(ctx context.Context, _ session.Lineage, _ *agentctx.Input) error {
		return pause(ctx, time.Minute)
	}
	agenttest.Run(t, cfg, nil, func(h *harness) {
		startAll(h, "work")
		time.Sleep(time.Second)
		interruptNow(h)
		require.Zero(t, calls.Load())
		time.Sleep(5 * time.Minute)
		require.Equal(t, spawn.StatusOK, h.Child("work").Status)
		require.EqualValues(t, 1, calls.Load())
	})
}

// A3: wherever the process dies around a shutdown, a run is either queued again or interrupted, and
// the next process brings it to an end.
func TestShutdownOverEveryCrash(t *testing.T) {
	s := script{
		"main": {startStep("a"), say("On it."), echo()},
		"a":    {say("a is done").After(time.Minute)},
	}
	agenttest.EveryCrash(t, agent.Config{}, s, func(h *harness) {
		h.Post("go")
		time.Sleep(time.Second)
		now, cancel := context.WithCancel(h.Context())
		cancel()
		_ = h.Runtime().Shutdown(now) // of a process that may have died
		h.Crash()
		time.Sleep(10 * time.Minute)
		for _, r := range h.Runs() {
			require.Contains(h.T(), []spawn.Status{spawn.StatusOK, spawn.StatusInterrupted},
				r.Status)
		}
	})
}

// Where a turn of TestRetryIsSaidOfWhatWasEntered is when its process ends.
const (
	early     = "before the Runner"
	untouched = "in the Runner, which did nothing"
	entered   = "in the Runner"
)

// Turn.Retry says that a turn before has met the Runner and was cut: not that one was begun which a
// shutdown has ended before the Runner was called, or before that did anything, in however many
// processes. A crash leaves nothing that says so, and is told of as long as what it has cut is not
// read.
func TestRetryIsSaidOfWhatWasEntered(t *testing.T) {
	type end struct {
		where string
		kill  bool
	}
	for _, c := range []struct {
		ends []end // of the processes
		want bool  // the turn that is not cut repeats one
	}{
		{nil, false},
		{[]end{{early, false}}, false},
		{[]end{{untouched, false}}, false},
		{[]end{{early, false}, {early, false}, {untouched, false}, {early, false}}, false},
		{[]end{{entered, false}}, true},
		{[]end{{entered, true}}, true},
		{[]end{{early, true}}, true}, // nothing tells it from one that the Runner has seen
		{[]end{{early, false}, {entered, true}}, true},
		{[]end{{entered, true}, {early, false}}, true},
		{[]end{{entered, false}, {untouched, false}, {early, false}}, true},
	} {
		for _, of := range []string{"a chat", "a chat with two messages", "a follow-up"} {
			t.Run(fmt.Sprint(of, c.ends), func(t *testing.T) {
				var where atomic.Value // of the turn that begins next
				where.Store("")
				var retries []bool
				cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
					switch where.Load() {
					case untouched:
						<-ctx.Done()
						return agent.Result{}, agent.ErrUntouched
					case entered:
						<-ctx.Done()
						return agent.Result{}, ctx.Err()
					}
					retries = append(retries, tn.Retry)
					return textResult("done")
				})
				cfg.Prompts.Describe = func(
					ctx context.Context, _ session.Lineage, _ *agentctx.Input,
				) (err error) {
					if where.Load() == early {
						err = pause(ctx, time.Hour)
					}
					return err
				}
				agenttest.Run(t, cfg, nil, func(h *harness) {
					key := topKey
					if of == "a follow-up" { // of a run that a crash has interrupted
						where.Store(entered)
						startAll(h, "work")
						time.Sleep(time.Second)
						h.Crash()
						key = h.Child("work").Key
						time.Sleep(time.Minute)
					}
					ends := append(slices.Clip(c.ends), end{})
					where.Store(ends[0].where)
					h.PostTo(key, "go")
					for i, e := range c.ends {
						time.Sleep(time.Second)
						if of == "a chat with two messages" && i == 0 {
							h.PostTo(key, "and?")
						}
						where.Store(ends[i+1].where)
						if e.kill {
							h.Crash()
						} else {
							interruptNow(h)
						}
					}
					time.Sleep(10 * time.Minute)
					synctest.Wait()
					want := c.want
					if of == "a follow-up" {
						cut := func(e end) bool { return e.kill || e.where == entered }
						if slices.ContainsFunc(c.ends, cut) {
							return // its run is interrupted
						}
						want = true // for the run before it
					}
					require.NotEmpty(t, retries)
					require.Equal(t, want, retries[0])
					require.NotContains(t, retries[1:], true)
					h.PostTo(key, "so?")
					time.Sleep(time.Minute)
					synctest.Wait()
					require.False(t, retries[len(retries)-1])
				})
			})
		}
	}
}
