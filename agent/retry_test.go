package agent_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
)

// A provider is a Model that notes when it is called for which model. It fails as long as there are
// errors for the model.
type provider struct {
	mu     sync.Mutex
	errs   map[string][]error // by model
	stream string             // shown before each answer and error
	takes  time.Duration
	calls  map[string][]time.Duration // since the start, by model
	start  time.Time
}

func newProvider(errs map[string][]error) *provider {
	return &provider{errs: errs, calls: make(map[string][]time.Duration), start: time.Now()}
}

func (p *provider) Generate(
	ctx context.Context, req *agent.ModelRequest,
) (*agent.ModelResponse, error) {
	p.mu.Lock()
	p.calls[req.Model] = append(p.calls[req.Model], time.Since(p.start))
	var err error
	if list := p.errs[req.Model]; len(list) > 0 {
		err, p.errs[req.Model] = list[0], list[1:]
	}
	p.mu.Unlock()
	req.Delta(p.stream)
	select {
	case <-time.After(p.takes):
	case <-ctx.Done():
	}
	if err != nil {
		return nil, err
	}
	return &agent.ModelResponse{Text: "answer of " + req.Model + "."}, nil
}

// called returns when a model was called.
func (p *provider) called(model string) []time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]time.Duration{}, p.calls[model]...)
}

// looking returns a Runner that is a Loop and notes the error of each turn.
func looking(l *agent.Loop, errs *[]error) agent.Runner {
	var mu sync.Mutex
	return agent.RunnerFunc(func(ctx context.Context, t *agent.Turn) (agent.Result, error) {
		res, err := l.Run(ctx, t)
		mu.Lock()
		defer mu.Unlock()
		*errs = append(*errs, err)
		return res, err
	})
}

func repeat(err error, n int) (errs []error) {
	for range n {
		errs = append(errs, err)
	}
	return errs
}

// The pause before a further try doubles from a second to thirty, and half of it is random.
func TestRetryPauses(t *testing.T) {
	for tries, seconds := range []int{1, 2, 4, 8, 16, 30, 30} {
		longest := time.Duration(seconds) * time.Second
		require.Equal(t, longest/2, agent.RetryPause(tries+1, 0))
		require.Equal(t, longest*3/4, agent.RetryPause(tries+1, 0.5))
		require.LessOrEqual(t, agent.RetryPause(tries+1, 0.999), longest)
	}
	require.Equal(t, 15*time.Second, agent.RetryPause(1000, 0))
}

// A call that fails with an error that is worth another try is made again, five times in total
// unless the Loop says otherwise, and with pauses. Every other error fails the turn at once, and so
// does the last one. A failed try is not in the transcript.
func TestModelCallsAreMadeAgain(t *testing.T) {
	overloaded := agent.Retryable(io.ErrUnexpectedEOF)
	limited := agent.RateLimited{Err: io.ErrUnexpectedEOF}
	for name, c := range map[string]struct {
		errs           []error
		retries, calls int
		fails          error
	}{
		"once":             {repeat(overloaded, 1), 0, 2, nil},
		"four times":       {repeat(overloaded, 4), 0, 5, nil},
		"five times":       {repeat(overloaded, 5), 0, 5, io.ErrUnexpectedEOF},
		"wrapped":          {[]error{fmt.Errorf("call: %w", overloaded)}, 0, 2, nil},
		"limited":          {repeat(limited, 4), 0, 5, nil},
		"limited for ever": {repeat(limited, 9), 0, 5, io.ErrUnexpectedEOF},
		"limited pointer":  {[]error{&limited}, 0, 2, nil},
		"mixed":            {[]error{limited, overloaded, limited}, 0, 4, nil},
		"two retries":      {repeat(overloaded, 9), 2, 3, io.ErrUnexpectedEOF},
		"no retries":       {repeat(overloaded, 9), -1, 1, io.ErrUnexpectedEOF},
		"not marked":       {[]error{io.EOF}, 0, 1, io.EOF},
		"context":          {[]error{context.DeadlineExceeded}, 0, 1, context.DeadlineExceeded},
		"marked context":   {[]error{agent.Retryable(context.DeadlineExceeded)}, 0, 2, nil},
		"then another":     {[]error{overloaded, io.EOF}, 0, 2, io.EOF},
	} {
		t.Run(name, func(t *testing.T) {
			var errs []error
			var p *provider
			var log bytes.Buffer
			cfg := loggingTo(&log)
			loop := &agent.Loop{Retries: c.retries}
			cfg.Runner = looking(loop, &errs)
			agenttest.Run(t, cfg, nil, func(h *harness) {
				p = newProvider(map[string][]error{"": c.errs})
				loop.Model = p
				h.Post("hello")
				h.Pass(time.Hour)
				require.Len(t, p.called(""), c.calls)
				require.Len(t, errs, 1)
				page, err := h.Main().History(h.Context(), agent.HistoryQuery{})
				require.NoError(t, err)
				if c.fails != nil {
					require.ErrorIs(t, errs[0], c.fails)
					require.Len(t, page.Lines, 1)
					_, isLimited := errors.AsType[agent.RateLimited](errs[0])
					require.Equal(t, name == "limited for ever", isLimited)
					require.True(t, h.Replies()[0].Reply.Failed)
				} else {
					require.NoError(t, errs[0])
					require.Len(t, page.Lines, 2)
					h.Replied("answer of .")
				}
				for i, at := range p.called("")[1:] {
					pause := at - p.called("")[i]
					require.GreaterOrEqual(t, pause, agent.RetryPause(i+1, 0))
					require.LessOrEqual(t, pause, agent.RetryPause(i+1, 1)*11/10)
				}
			})
		})
	}
}

// A panic of the model is not tried again, and Retries has a bound.
func TestWhatIsNotTriedAgain(t *testing.T) {
	calls := 0
	cfg := agent.Config{Runner: &agent.Loop{Model: modelFunc(
		func(context.Context, *agent.ModelRequest) (*agent.ModelResponse, error) {
			calls++
			panic(agent.Retryable(io.EOF))
		},
	)}}
	agenttest.Run(t, cfg, nil, func(h *harness) {
		h.Post("hello")
		h.Pass(time.Hour)
		require.Equal(t, 1, calls)
	})
	var errs []error
	cfg.Runner = looking(&agent.Loop{Model: newProvider(nil), Retries: 101}, &errs)
	agenttest.Run(t, cfg, nil, func(h *harness) {
		h.Post("hello")
		h.Pass(time.Second)
		require.EqualError(t, errs[0], "spawn: Loop.Retries: 101 is more than the limit of 100")
	})
}

// Those who watch are told when what they saw does not count.
func TestFailedTriesAreRetracted(t *testing.T) {
	loop := &agent.Loop{}
	agenttest.Run(t, agent.Config{Runner: loop}, nil, func(h *harness) {
		leaky := agent.Retryable(errors.New(leakyError))
		p := newProvider(map[string][]error{"": {leaky, leaky}})
		p.stream, loop.Model = "answ", p
		seen := watch(h, agent.EventQuery{Root: topKey, Deltas: agent.DeltasRaw})
		synctest.Wait()
		h.Post("hello")
		h.Pass(time.Minute)
		var deltas []string
		for _, e := range seen() {
			if e.Kind == agent.EventDelta {
				deltas = append(deltas, e.Text)
				if e.Text == "" {
					require.Contains(t, e.Error, "401")
					require.NotContains(t, e.Error, "0123456789")
				}
			}
		}
		require.Equal(t, []string{"answ", "", "answ", "", "answ"}, deltas)
		h.Replied("answer of .")
	})
}

// The end of a turn ends a pause at once, whatever ends it, and leaves no slot taken.
func TestPausesEndWithTheTurn(t *testing.T) {
	for kind, err := range map[string]error{
		"retry": agent.Retryable(io.EOF), "pause": agent.RateLimited{After: time.Hour},
	} {
		for _, how := range []string{"cancelled", "stopped", "timed out", "shut down"} {
			t.Run(kind+" "+how, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var ended time.Duration
					p := newProvider(map[string][]error{"": repeat(err, 9)})
					loop := &agent.Loop{Model: p}
					cfg := configWith(
						func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
							res, err := loop.Run(ctx, tn)
							ended = time.Since(p.start)
							return res, err
						})
					rt, err := agent.Open(t.Context(), cfg)
					require.NoError(t, err)
					done := make(chan error, 1)
					go func() { done <- rt.Run(context.WithoutCancel(t.Context())) }()
					task := agent.Task{Text: "x"}
					at := 100 * time.Millisecond
					if how == "timed out" {
						at = time.Second
						task.Timeout = at
					}
					c, err := rt.Session(topKey).Spawn(t.Context(), task)
					require.NoError(t, err)
					time.Sleep(at)
					switch how {
					case "cancelled":
						require.NoError(t, c.Session().CancelTurn(t.Context()))
					case "stopped":
						require.NoError(t, c.Session().Stop(t.Context()))
					case "shut down":
						ctx, cancel := context.WithCancel(t.Context())
						cancel()
						_ = rt.Shutdown(ctx)
					}
					synctest.Wait()
					require.Equal(t, at, ended)
					require.NoError(t, rt.Shutdown(t.Context()))
					require.NoError(t, <-done)
				})
			})
		}
	}
}

// twoProviders are rules by which the sub-agents of agent "x" and "y" run on models of these
// providers, one after the other.
func twoProviders(slots int) policy.Rules {
	return policy.Rules{
		Subagents: policy.Subagents{
			MaxConcurrent: slots, MaxChildren: 20, AllowAgents: []string{"*"},
		},
		Agents: []policy.Agent{
			{ID: "main"},
			{ID: "x", Model: "X/one"},
			{ID: "y", Model: "y/one"},
			{ID: "z", Model: "x/two"},
			{ID: "w", Model: "plain"},
		},
	}
}

// A 429 pauses the turns of its provider and no others. A turn under way gives its slot back while
// it waits, no turn of the provider starts, and those behind them in the queue go on. When the
// pause ends they call one by one, and spread.
func TestLimitedProviderPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProvider(map[string][]error{"X/one": {agent.RateLimited{After: 100 * time.Second}}})
		p.takes = time.Second
		cfg := agent.Config{
			Runner: &agent.Loop{Model: p}, Rules: twoProviders(1),
			Deliver: func(context.Context, agent.Delivery) error { return nil },
		}
		runFor(t, cfg, func(rt *agent.Runtime) {
			var all []*agent.Child[string]
			for _, id := range []string{"x", "x", "z", "y", "w", "x", "y"} {
				c, err := rt.Session(topKey).Spawn(t.Context(), agent.Task{Text: "t", Agent: id})
				require.NoError(t, err)
				all = append(all, c)
				synctest.Wait()
			}
			time.Sleep(50 * time.Second)
			var states []agent.Status
			for _, c := range all {
				info, err := c.Info(t.Context())
				require.NoError(t, err)
				states = append(states, info.Status)
			}
			queued, ok := agent.StatusQueued, agent.StatusOK
			require.Equal(t, []agent.Status{
				agent.StatusRunning, queued, queued, ok, ok, queued, ok,
			}, states)
			_, err := agent.Join(t.Context(), rt.Session(topKey), all, agent.JoinOptions{})
			require.NoError(t, err)
		})
		require.Equal(t, []time.Duration{1 * time.Second, 3 * time.Second}, p.called("y/one"))
		require.Equal(t, []time.Duration{2 * time.Second}, p.called("plain"))
		require.Len(t, p.called("X/one"), 4)
		require.Len(t, p.called("x/two"), 1)
		last := 101 * time.Second
		for _, at := range append(p.called("X/one")[1:], p.called("x/two")...) {
			require.GreaterOrEqual(t, at, last)
			require.LessOrEqual(t, at, last+14*time.Second)
		}
	})
}

// Each model without a slash has the provider "", which no other model has. A pause that is too
// long is cut, and another Runtime does not know of it.
func TestPausesHaveBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProvider(map[string][]error{"plain": {agent.RateLimited{After: 1 << 62}}})
		cfg := agent.Config{Runner: &agent.Loop{Model: p}, Rules: twoProviders(8)}
		cfg.Store = session.NewMemory()
		spawnAll := func(rt *agent.Runtime) (all []*agent.Child[string]) {
			for _, id := range []string{"w", "x"} {
				c, err := rt.Session(topKey).Spawn(t.Context(), agent.Task{Text: "t", Agent: id})
				require.NoError(t, err)
				all = append(all, c)
			}
			synctest.Wait()
			return all
		}
		runFor(t, cfg, func(rt *agent.Runtime) {
			all := spawnAll(rt)
			require.Equal(t, []time.Duration{0}, p.called("X/one"))
			_, err := all[0].Wait(t.Context())
			require.NoError(t, err)
		})
		calls := p.called("plain")
		require.Len(t, calls, 2)
		require.GreaterOrEqual(t, calls[1], 10*time.Minute)
		require.LessOrEqual(t, calls[1], 10*time.Minute+10*time.Second)

		p.errs["X/one"] = []error{agent.RateLimited{After: time.Hour}}
		rt, err := agent.Open(t.Context(), cfg)
		require.NoError(t, err)
		done := make(chan error, 1)
		go func() { done <- rt.Run(context.WithoutCancel(t.Context())) }()
		spawnAll(rt)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_ = rt.Shutdown(ctx)
		require.NoError(t, <-done)
		before := time.Since(p.start)
		runFor(t, cfg, func(rt *agent.Runtime) {
			_, err := spawnAll(rt)[1].Wait(t.Context())
			require.NoError(t, err)
		})
		calls = p.called("X/one")
		require.Equal(t, before, calls[len(calls)-1], "a restart forgets")
	})
}

// A Runner that calls models itself can do what a Loop does, from several goroutines.
func TestRunnersOfTheirOwnPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var mu sync.Mutex
		var called []time.Duration
		var late sync.WaitGroup
		var lateErr error
		cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
			if err := tn.Limited("p/x", agent.RateLimited{After: 10 * time.Second}); err != nil {
				return agent.Result{}, err
			}
			if err := tn.Limited("", agent.RateLimited{}); err != nil { // none
				return agent.Result{}, err
			}
			long := tn.Limited(strings.Repeat("p", 1025)+"/x", agent.RateLimited{After: time.Hour})
			if wrong, ok := errors.AsType[*agent.InputError](long); !ok || wrong.Field != "model" {
				return agent.Result{}, fmt.Errorf("a provider that is too long: %w", long)
			}
			most := strings.Repeat("p", 1024) // a lane takes that as well
			if err := tn.Limited(most+"/x", agent.RateLimited{After: time.Second}); err != nil {
				return agent.Result{}, err
			}
			if err := (session.Ticket{ID: "1", Provider: most}).Validate("l"); err != nil {
				return agent.Result{}, err
			}
			var wg sync.WaitGroup
			for _, model := range []string{"P/y", "q/x", ""} {
				wg.Go(func() {
					end, err := tn.BeginCall(ctx, model, agent.Usage{})
					defer end()
					if err == nil {
						mu.Lock()
						called = append(called, time.Since(start).Truncate(10*time.Second))
						mu.Unlock()
					}
				})
			}
			wg.Wait()
			short, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			if err := tn.Limited("", agent.RateLimited{After: time.Minute}); err != nil {
				return agent.Result{}, err
			}
			_, err := tn.BeginCall(short, "", agent.Usage{})
			late.Go(func() { // it is given a context that does not end with the turn
				_, lateErr = tn.BeginCall(context.WithoutCancel(ctx), "", agent.Usage{})
			})
			time.Sleep(time.Second)
			return agent.Result{Text: fmt.Sprint(err)}, nil
		})
		runFor(t, cfg, func(rt *agent.Runtime) {
			c, err := rt.Session(topKey).Spawn(t.Context(), agent.Task{Text: "t"})
			require.NoError(t, err)
			text, err := c.Wait(t.Context())
			require.NoError(t, err)
			require.Equal(t, context.DeadlineExceeded.Error(), text)
			late.Wait()
			require.ErrorIs(t, lateErr, agent.ErrStale)
			require.Less(t, time.Since(start), 20*time.Second)
		})
		require.ElementsMatch(t, []time.Duration{0, 0, 10 * time.Second}, called)
	})
}
