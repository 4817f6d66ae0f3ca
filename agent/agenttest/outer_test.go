package agenttest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
)

// outerUses are uses of the context of the test outside in the function that Run got.
var outerUses = map[string]func(ctx context.Context, h *Harness) error{
	"Post": func(ctx context.Context, h *Harness) error {
		return errorOf(h.Main().Post(ctx, agent.Incoming{Text: "x"}))
	},
	"Idle": func(ctx context.Context, h *Harness) error { h.Post("x"); return h.Main().Idle(ctx) },
	"Stop": func(ctx context.Context, h *Harness) error { return h.Main().Stop(ctx) },
	"Events": func(ctx context.Context, h *Harness) error {
		for _, err := range h.Main().Events(ctx) {
			if err != nil {
				return err
			}
		}
		return nil
	},
	"Spawn": func(ctx context.Context, h *Harness) error {
		_, err := agent.Spawn[string](ctx, h.Main(), agent.Task{Text: "x"})
		return err
	},
	"Wait": func(ctx context.Context, h *Harness) error {
		c, err := agent.Spawn[string](h.Context(), h.Main(), agent.Task{Text: "x"})
		if err != nil {
			return err
		}
		_, err = c.Wait(ctx)
		return err
	},
	"Steer": func(ctx context.Context, h *Harness) error {
		c, err := agent.Spawn[string](h.Context(), h.Main(), agent.Task{Text: "x"})
		if err != nil {
			return err
		}
		return c.Steer(ctx, "y")
	},
	"a tool": func(ctx context.Context, h *Harness) error {
		_, err := h.Main().Tools()[0].Call(ctx, agent.ToolCall{Args: []byte(`{"task":"x"}`)})
		return err
	},
	"Blocked": func(ctx context.Context, h *Harness) error {
		_, err := h.Runtime().Blocked(ctx)
		return err
	},
	"Retry":    func(ctx context.Context, h *Harness) error { return h.Runtime().Retry(ctx, "x") },
	"Dismiss":  func(ctx context.Context, h *Harness) error { return h.Runtime().Dismiss(ctx, "x") },
	"Shutdown": func(ctx context.Context, h *Harness) error { return h.Runtime().Shutdown(ctx) },
	"Do": func(ctx context.Context, h *Harness) error {
		return h.Do(func(rt *agent.Runtime) error {
			return rt.Session(h.mainKey()).CancelTurn(ctx)
		})
	},
}

type wrappedContext struct{ context.Context }

// derivations are the ways to make a context of another.
var derivations = map[string]func(ctx context.Context) (context.Context, context.CancelFunc){
	"itself": func(ctx context.Context) (context.Context, context.CancelFunc) {
		return ctx, func() {}
	},
	"WithCancel": context.WithCancel,
	"WithTimeout": func(ctx context.Context) (context.Context, context.CancelFunc) {
		return context.WithTimeout(ctx, time.Hour)
	},
	"WithValue": func(ctx context.Context) (context.Context, context.CancelFunc) {
		return context.WithCancel(context.WithValue(ctx, wrappedContext{}, 1))
	},
	"a struct": func(ctx context.Context) (context.Context, context.CancelFunc) {
		return wrappedContext{&wrappedContext{ctx}}, func() {}
	},
}

// A10: a call that is given the context of the test outside, or one derived from it, fails the test
// at once with a sentence that says what to use, and the binary lives.
func TestOuterContextIsNoticed(t *testing.T) {
	for name, use := range outerUses {
		for how, derive := range derivations {
			t.Run(name+" "+how, func(t *testing.T) {
				outer, cancel := derive(t.Context())
				defer cancel()
				began, reached := time.Now(), false
				s := Script{Main: {Say("x").After(time.Minute)}, "x": {Say("y")}}
				failed := failures(t, agent.Config{}, s, nil, func(h *Harness) {
					_ = use(outer, h)
					reached = true
				})
				require.False(t, reached, "the test fails at once")
				require.Contains(t, failed, "use Harness.Context")
				require.Equal(t, 1, strings.Count(failed, "use Harness.Context"))
				require.Less(t, time.Since(began), time.Minute)
			})
		}
	}
}

// A10: in another goroutine, and in a Runner, the test fails and the call returns.
func TestOuterContextElsewhere(t *testing.T) {
	outer := t.Context()
	failed := failures(t, agent.Config{}, nil, nil, func(h *Harness) {
		returned := make(chan error)
		go func() { returned <- h.Main().Idle(outer) }()
		if err := <-returned; !errors.Is(err, errOuterContext) {
			h.t.Errorf("%v", err)
		}
	})
	require.Equal(t, errOuterContext.Error(), failed)
	cfg := agent.Config{Runner: agent.RunnerFunc(
		func(_ context.Context, tn *agent.Turn) (agent.Result, error) {
			_, err := tn.Spawn(outer, agent.Task{Text: "x"})
			return agent.Result{Text: "tried"}, err
		})}
	failed = failures(t, cfg, nil, nil, func(h *Harness) { h.Post("x"); h.Pass(time.Hour) })
	require.Equal(t, errOuterContext.Error(), failed)
}

// A10: contexts of the bubble are not taken for those of the test outside.
func TestContextsOfTheBubble(t *testing.T) {
	Run(t, agent.Config{}, Script{Main: {Say("x"), Say("y")}}, func(h *Harness) {
		for _, derive := range derivations {
			ctx, cancel := derive(h.Context())
			require.NoError(t, h.Main().Idle(ctx))
			cancel()
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		require.NoError(t, errorOf(h.Main().Post(ctx, agent.Incoming{Text: "x"})))
		require.NoError(t, h.Main().Idle(context.WithoutCancel(ctx)))
		h.Replied("x")
	})
}

// A10: what the function has made of the context by itself is told before the binary dies of it.
func TestOuterContextThatIsLeftOver(t *testing.T) {
	for name, use := range map[string]func(ctx context.Context) context.CancelFunc{
		"Done": func(ctx context.Context) context.CancelFunc { ctx.Done(); return func() {} },
		"WithCancel": func(ctx context.Context) context.CancelFunc {
			_, end := context.WithCancel(ctx)
			return end
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			before := stateOf(ctx)
			require.Equal(t, contextState{}, before)
			defer use(ctx)()
			require.NotEqual(t, before, stateOf(ctx))
		})
	}
	require.Equal(t, contextState{}, stateOf(context.Background()))
	require.Equal(t, contextState{}, stateOf(wrappedContext{}))
}

// A10: a goroutine of the bubble that waits for a channel from outside is found in a stack dump,
// and one that waits for a channel of the bubble is not.
func TestStalledGoroutinesAreFound(t *testing.T) {
	outside, began := make(chan struct{}), make(chan struct{})
	var guard stallGuard
	found := make(chan string, 1)
	go func() {
		<-began
		stalled := ""
		for stalled == "" { // until it waits
			stalled = guard.stalled()
		}
		found <- stalled
		close(outside)
	}()
	synctest.Test(t, func(*testing.T) {
		guard.enter()
		inside := make(chan struct{})
		go func() { <-inside }()
		synctest.Wait()
		if stalled := guard.stalled(); stalled != "" {
			t.Error(stalled)
		}
		go func() {
			close(began)
			waitOutside(outside)
			close(inside)
		}()
	})
	require.Contains(t, <-found, "waitOutside")
}

func waitOutside(c chan struct{}) { <-c }

// A10: each expectation fails for a bot that does another thing.
func TestExpectationsThatAreNotMet(t *testing.T) {
	s := Script{Main: {Say("hello")}}
	for want, expect := range map[string]func(h *Harness){
		`the model has not been called as "child"`: func(h *Harness) { h.Prompted("child", "x") },
		`the prompt of "main" lacks "zebra"`:       func(h *Harness) { h.Prompted(Main, "zebra") },
		`the prompt of "main" has "assistant"`:     func(h *Harness) { h.NotPrompted(Main, "zebra", "assistant") },
		`offered to "main"`:                        func(h *Harness) { h.Offered(Main, "sessions_spawn") },
		`told to "main"`:                           func(h *Harness) { h.Told(Main, "hi", "hi") },
		`want ["bye"]`:                             func(h *Harness) { h.Told(Main, "bye") },
		"blocked has not happened":                 func(h *Harness) { h.Happened(agent.EventPosted, agent.EventBlocked) },
		"posted has not happened":                  func(h *Harness) { h.Happened(agent.EventTurn, agent.EventPosted) },
	} {
		failed := failures(t, agent.Config{}, s, nil, func(h *Harness) {
			h.Watch(h.mainKey())
			h.Post("hi")
			expect(h)
			h.t.Errorf("it is met")
		})
		require.Contains(t, failed, want)
		require.NotContains(t, failed, "it is met")
	}
	failed := failures(t, agent.Config{Now: time.Now}, s, nil,
		func(h *Harness) { h.SetNow(time.Now()) })
	require.Contains(t, failed, "has a Now of its own")
}

// errorOf returns the error of a call alone.
func errorOf[T any](_ T, err error) error { return err }
