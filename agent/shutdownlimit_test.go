package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// A limitedQuit is a function of a Config that calls Shutdown, and has a limit itself, while a turn
// works for an hour.
type limitedQuit struct {
	at     string
	with   string // what ctx
	deaf   bool   // the other turn ignores its cancellation
	rt     *agent.Runtime
	began  time.Time
	err    chan error
	took   time.Duration
	turned chan error // how the other turn ended
}

const (
	quitLimit    = 30 * time.Second // of the function
	quittersOwn  = 10 * time.Second // that the function sets
	workDuration = time.Hour
)

func (q *limitedQuit) in(ctx context.Context, at string) {
	if q.at != at {
		return
	}
	switch q.with {
	case "derived":
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		defer cancel()
	case "shorter":
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, quittersOwn)
		defer cancel()
	}
	err := q.rt.Shutdown(ctx)
	q.took = time.Since(q.began)
	q.err <- err
}

// config returns a Config whose functions call Shutdown.
func (q *limitedQuit) config() agent.Config {
	cfg := agent.Config{
		DeliverTimeout: quitLimit,
		Tools: []agent.Tool{{
			Name: "quit", Call: textCall(func(ctx context.Context, _ agent.ToolCall) (string, error) {
				q.in(ctx, "tool")
				return "", nil
			}),
		}},
		Runner: agent.RunnerFunc(q.run),
		Reply:  func(ctx context.Context, _ agent.Delivery) error { q.in(ctx, "Reply"); return nil },
	}
	if q.at == "Deliver" {
		cfg.Deliver = func(ctx context.Context, _ agent.Delivery) error {
			q.in(ctx, "Deliver")
			return nil
		}
	}
	return cfg
}

func (q *limitedQuit) run(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
	if tn.Label != "work" {
		q.in(ctx, "Runner")
		_, err := tn.Call(ctx, agent.ToolCall{Name: "quit", Args: json.RawMessage("{}")})
		return agent.Result{Text: "hi"}, err
	}
	ends := ctx.Done()
	if q.deaf {
		ends = nil
	}
	select {
	case <-time.After(workDuration):
		q.turned <- nil
		return agent.Result{Text: "done"}, nil
	case <-ends:
		q.turned <- context.Cause(ctx)
		return agent.Result{}, ctx.Err()
	}
}

// A function of a Config that quits has a limit of its own: a turn its Timeout, Reply and Deliver
// the DeliverTimeout. When that passes, the others still have their time, unless the function has
// set a limit itself. What still runs in the end is told.
func TestQuitUntilALimitPasses(t *testing.T) {
	for _, at := range []string{"Runner", "tool", "Reply", "Deliver"} {
		for _, with := range []string{"its ctx", "derived", "shorter"} {
			for deaf, name := range map[bool]string{false: "heard", true: "deaf"} {
				t.Run(at+"/"+with+"/"+name, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						testQuitUntil(t, &limitedQuit{at: at, with: with, deaf: deaf})
					})
				})
			}
		}
	}
}

func testQuitUntil(t *testing.T, q *limitedQuit) {
	t.Helper()
	q.err, q.turned = make(chan error, 1), make(chan error, 1)
	rt, err := agent.Open(t.Context(), q.config())
	require.NoError(t, err)
	q.rt = rt
	ran := make(chan error, 1)
	go func() { ran <- rt.Run(context.WithoutCancel(t.Context())) }()
	main := rt.Session(topKey)
	_, err = agent.Spawn[string](t.Context(), main, agent.Task{Text: "work", Label: "work"})
	require.NoError(t, err)
	synctest.Wait()
	q.began = time.Now()
	if q.at == "Reply" {
		require.NoError(t, errorOf(main.Post(t.Context(), agent.Incoming{Text: "hello"})))
	} else {
		_, err = agent.Spawn[string](t.Context(), main, agent.Task{
			Text: "quit", Timeout: quitLimit, Announce: q.at == "Deliver",
		})
		require.NoError(t, err)
	}
	require.ErrorIs(t, <-q.err, spawn.ErrShuttingDown)
	runErr := <-ran
	still, isStill := errors.AsType[*spawn.StillRunningError](runErr)
	switch {
	case q.with != "shorter":
		require.Equal(t, quitLimit, q.took)
		require.NoError(t, runErr)
		require.NoError(t, <-q.turned)
	case q.deaf:
		require.Equal(t, quittersOwn, q.took)
		require.True(t, isStill, "%v", runErr)
		require.Len(t, still.Sessions, 1)
		require.NoError(t, <-q.turned)
	default:
		require.Equal(t, quittersOwn, q.took)
		require.NoError(t, runErr)
		require.ErrorIs(t, <-q.turned, spawn.ErrShutdown)
	}
}

// What a turn says that finishes while Shutdown waits reaches people, with a store in memory, too.
func TestShutdownHandsRepliesOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []string
		rt, err := agent.Open(t.Context(), agent.Config{
			Runner: agent.RunnerFunc(func(context.Context, *agent.Turn) (agent.Result, error) {
				time.Sleep(time.Minute)
				return agent.Result{Text: "done"}, nil
			}),
			Reply: func(_ context.Context, d agent.Delivery) error {
				got = append(got, d.Reply.Text)
				return nil
			},
		})
		require.NoError(t, err)
		ran := make(chan error, 1)
		go func() { ran <- rt.Run(context.WithoutCancel(t.Context())) }()
		require.NoError(t, errorOf(rt.Session(topKey).Post(t.Context(), agent.Incoming{Text: "hello"})))
		synctest.Wait()
		require.NoError(t, rt.Shutdown(t.Context()))
		require.Equal(t, []string{"done"}, got)
		require.NoError(t, <-ran)
	})
}

// A tool that quits the program under its own ctx: what its turn says afterwards reaches people.
func TestQuitSaysGoodbye(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []string
		var rt *agent.Runtime
		cfg := agent.Config{
			Runner: agent.RunnerFunc(
				func(ctx context.Context, _ *agent.Turn) (agent.Result, error) {
					return agent.Result{Text: "bye"}, rt.Shutdown(ctx)
				},
			),
			Reply: func(_ context.Context, d agent.Delivery) error {
				got = append(got, d.Reply.Text)
				return nil
			},
		}
		var err error
		rt, err = agent.Open(t.Context(), cfg)
		require.NoError(t, err)
		require.NoError(t, errorOf(rt.Session(topKey).Post(t.Context(), agent.Incoming{Text: "/quit"})))
		require.NoError(t, rt.Run(context.WithoutCancel(t.Context())))
		require.Equal(t, []string{"bye"}, got)
	})
}
