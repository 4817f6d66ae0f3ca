package agent_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// A pause between tries ends with the turn.
func TestPauseOfAToolEndsWithTheTurn(t *testing.T) {
	cfg := agent.Config{Tools: []agent.Tool{{
		Name: "x", Effect: agent.EffectReadOnly,
		Call: textCall(func(context.Context, agent.ToolCall) (string, error) {
			return "", agent.RateLimited{After: time.Minute}
		}),
	}}}
	agenttest.Run(t, cfg, script{"main": {call("x", `{}`)}}, func(h *harness) {
		h.Post("go")
		time.Sleep(time.Second)
		began := time.Now()
		require.NoError(t, h.Main().CancelTurn(h.Context()))
		require.NoError(t, h.Main().Idle(h.Context()))
		require.Zero(t, time.Since(began))
	})
}

// What a model is told of a call that takes longer than the Timeout of its tool, when, and what its
// turn comes to.
func TestToolTimeouts(t *testing.T) {
	const told = `error: agent: the tool "x" has not answered within 1m0s, which is its timeout`
	for name, c := range map[string]struct {
		call  func(ctx context.Context) (string, error)
		told  string
		takes time.Duration
	}{
		"in time": {func(ctx context.Context) (string, error) {
			return "ok", pause(ctx, time.Minute-1)
		}, "ok", time.Minute - 1},
		"obeys": {func(ctx context.Context) (string, error) {
			return "ok", pause(ctx, time.Hour)
		}, told, time.Minute},
		"fails late": {func(context.Context) (string, error) {
			time.Sleep(time.Minute + time.Second/2)
			return "", errBad
		}, told, time.Minute + time.Second/2},
		"answers late": {func(context.Context) (string, error) {
			time.Sleep(time.Minute + time.Second/2)
			return "half", nil
		}, "half", time.Minute + time.Second/2},
		"fails in time": {func(context.Context) (string, error) {
			return "", errBad
		}, "error: bad", 0},
		"does not return": {func(context.Context) (string, error) {
			time.Sleep(10 * time.Minute)
			return "late", nil
		}, told + ", and it may still be at work", time.Minute + time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := agent.Config{Tools: []agent.Tool{{
				Name: "x", Timeout: time.Minute,
				Call: textCall(func(ctx context.Context, _ agent.ToolCall) (string, error) {
					return c.call(ctx)
				}),
			}}}
			s := script{"main": {call("x", `{}`), echo(), echo()}}
			agenttest.Run(t, cfg, s, func(h *harness) {
				began := time.Now()
				h.Post("go")
				require.NoError(t, h.Main().Idle(h.Context()))
				require.Equal(t, c.takes, time.Since(began))
				h.Replied(c.told)
				time.Sleep(time.Hour)
				h.Replied(c.told)
			})
		})
	}
	err := error(&agent.ToolTimeoutError{Tool: "x", Timeout: time.Minute, Err: errBad})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorIs(t, err, errBad)
	requireMistake(t, "Config.Tools[0].Timeout: -1s is negative", agent.Tool{
		Name: "x", Call: toolSaying(""), Timeout: -time.Second,
	})
}

// A call that a turn has left behind belongs to the tree: Stop of its session and of those above
// names it until it has returned, and so does Shutdown. Turns go on meanwhile.
func TestCallsLeftBehindAreNamed(t *testing.T) {
	release := make(chan struct{})
	cfg := agent.Config{
		Rules: rulesForDepth(1), Grace: 5 * time.Second,
		Tools: []agent.Tool{{
			Name: "hang", Timeout: time.Minute,
			Call: textCall(func(context.Context, agent.ToolCall) (string, error) {
				<-release
				return "late", nil
			}),
		}},
	}
	s := script{
		"main":  {say("hello")},
		"child": {call("hang", `{}`), call("hang", `{}`), say("I go on.")},
	}
	synctestRelease := func(h *harness) { close(release); synctest.Wait() }
	agenttest.Run(t, cfg, s, func(h *harness) {
		release = make(chan struct{})
		child, err := agent.Spawn[string](h.Context(), h.Main(), agent.Task{Text: "x", Label: "child"})
		require.NoError(t, err)
		got, err := child.Wait(h.Context())
		require.NoError(t, err)
		require.Equal(t, "I go on.", got)
		h.Post("hi")
		h.Replied("hello")
		for range 2 {
			err = h.Main().Stop(h.Context())
			still, ok := errors.AsType[*agent.StillRunningError](err)
			require.True(t, ok, "%v", err)
			require.Equal(t, []session.Key{child.Key()}, still.Sessions)
		}
		synctestRelease(h)
		require.NoError(t, h.Main().Stop(h.Context()))
	})
	agenttest.Run(t, cfg, s, func(h *harness) {
		release = make(chan struct{})
		child, err := agent.Spawn[string](h.Context(), h.Main(), agent.Task{Text: "x", Label: "child"})
		require.NoError(t, err)
		_, err = child.Wait(h.Context())
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(h.Context(), time.Hour)
		defer cancel()
		began := time.Now()
		err = h.Runtime().Shutdown(ctx)
		require.Equal(t, cfg.Grace, time.Since(began), "it is waited for as for a Runner")
		still, ok := errors.AsType[*spawn.StillRunningError](err)
		require.True(t, ok, "%v", err)
		require.Equal(t, []session.Key{child.Key()}, still.Sessions)
		synctestRelease(h)
		h.Crash()
	})
}

// What a Model has left behind belongs to the tree as a call of a tool does: Stop names the session
// until it has returned, and turns go on meanwhile. A request without a turn is not left to one.
func TestModelCallsLeftBehindAreNamed(t *testing.T) {
	release, isLeft := make(chan struct{}), false
	m := agent.ModelFunc(func(
		_ context.Context, req *agent.ModelRequest,
	) (*agent.ModelResponse, error) {
		isLeft = req.Leave(release)
		return &agent.ModelResponse{Text: "I go on."}, nil
	})
	synctest.Test(t, func(t *testing.T) {
		release = make(chan struct{})
		rt, err := agent.Open(t.Context(), agent.Config{
			Runner: &agent.Loop{Model: m}, Logger: slog.New(slog.DiscardHandler),
		})
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- rt.Run(ctx) }()
		chat := rt.Session(session.Must(session.DirectKey("main", "test", "1")))
		for range 2 {
			answer, err := chat.PostAndWait(ctx, agent.Incoming{Text: "hi"})
			require.NoError(t, err)
			require.Equal(t, "I go on.", answer.Text)
			require.True(t, isLeft)
			err = chat.Stop(ctx)
			still, ok := errors.AsType[*agent.StillRunningError](err)
			require.True(t, ok, "%v", err)
			require.Equal(t, []session.Key{chat.Key()}, still.Sessions)
		}
		close(release)
		synctest.Wait()
		require.NoError(t, chat.Stop(ctx))
		stop()
		require.NoError(t, <-ended)
	})
	require.False(t, (&agent.ModelRequest{}).Leave(make(chan struct{})))
}

// A call that its Timeout has ended is not tried again, also if its error is worth it and its
// Effect allows it.
func TestCallThatTimedOutIsNotTriedAgain(t *testing.T) {
	var calls atomic.Int64
	tool := agent.Tool{
		Name: "slow", Effect: agent.EffectReadOnly, Timeout: time.Second,
		Call: func(ctx context.Context, _ agent.ToolCall) (agent.ToolResult, error) {
			calls.Add(1)
			<-ctx.Done()
			return agent.ToolResult{}, agent.Retryable(ctx.Err())
		},
	}
	cfg := agent.Config{Tools: []agent.Tool{tool}}
	cfg.Runner = agent.RunnerFunc(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
		_, err := tn.Call(ctx, agent.ToolCall{ID: "1", Name: "slow"})
		late, ok := errors.AsType[*agent.ToolTimeoutError](err)
		return agent.Result{Text: fmt.Sprint(ok && !late.Running)}, nil
	})
	agenttest.Run(t, cfg, nil, func(h *harness) {
		h.Post("go")
		h.Pass(time.Minute)
		h.Replied("true")
		require.EqualValues(t, 1, calls.Load())
	})
}
