package agent_test

import (
	"context"
	"errors"
	"io/fs"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	agentctx "github.com/offshoot-sdk/offshoot/context"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

func TestConfigMistakesAreAllReported(t *testing.T) {
	ok := toolSaying("")
	for _, c := range []struct {
		name string
		cfg  agent.Config
		want []string // paths
	}{
		{"nothing", agent.Config{}, []string{"Runner"}},
		{"a loop without a model", agent.Config{Runner: &agent.Loop{}}, []string{"Runner"}},
		{
			"a loop with a negative number of steps",
			agent.Config{Runner: &agent.Loop{Model: modelFunc(nil), MaxSteps: -1}},
			[]string{"Runner.MaxSteps"},
		},
		{"no loop at all", agent.Config{Runner: (*agent.Loop)(nil)}, []string{"Runner"}},
		{"runners of agents", agent.Config{
			Runner: idleRunner{},
			Rules:  policy.Rules{Agents: []policy.Agent{{ID: "main"}, {ID: "coder"}}},
			Runners: agent.Runners{Agents: map[string]agent.Runner{
				"": idleRunner{}, "CODER": &agent.Loop{}, "coder": agent.RunnerFunc(nil),
				"corder": idleRunner{}, "main": nil,
			}},
		}, []string{
			`Runners.Agents[""]`, `Runners.Agents["coder"]`, `Runners.Agents["corder"]`,
			`Runners.Agents["CODER"]`, `Runners.Agents["coder"]`, `Runners.Agents["main"]`,
		}},
		{"an agent without a runner", agent.Config{
			Rules: policy.Rules{Agents: []policy.Agent{{ID: "main"}, {ID: "coder"}}},
			Runners: agent.Runners{Agents: map[string]agent.Runner{
				"coder": &agent.Loop{Model: modelFunc(nil), MaxSteps: -1},
			}},
		}, []string{`Runners.Agents["coder"].MaxSteps`, "Runner"}},
		{"any agent without a runner", agent.Config{
			Runners: agent.Runners{Agents: map[string]agent.Runner{"main": idleRunner{}}},
		}, []string{"Runner"}},
		{"half a store", agent.Config{
			Runner: idleRunner{},
			Store:  &session.Store{Journal: session.NewMemory().Journal},
		}, []string{"Store"}},
		{"tools", agent.Config{Runner: idleRunner{}, Tools: []agent.Tool{
			{Name: "ok", Call: ok},
			{Name: "", Call: ok},
			{Name: "has space", Call: ok},
			{Name: "ok", Call: ok},
			{Name: "sessions_spawn", Call: ok},
			{Name: "-x", Call: ok},
			{Name: strings.Repeat("x", 65), Call: ok},
			{Name: "empty"},
		}}, []string{
			"Tools[1].Name", "Tools[2].Name", "Tools[3].Name", "Tools[4].Name",
			"Tools[5].Name", "Tools[6].Name", "Tools[7].Call",
		}},
		{
			"a negative grace",
			agent.Config{Runner: idleRunner{}, Grace: -time.Second},
			[]string{"Grace"},
		},
		{ // C4
			"a zone that is not one",
			agent.Config{Runner: idleRunner{}, Prompts: agent.Prompts{
				Input: agentctx.Input{Env: agentctx.Env{Zone: "Asia/\nTokyo"}},
			}},
			[]string{"Prompts.Input.Env.Zone"},
		},
		{
			"a negative limit of a delivery",
			agent.Config{Runner: idleRunner{}, DeliverTimeout: -1, Drain: -1},
			[]string{"DeliverTimeout", "Drain"},
		},
		{
			"a spec",
			agent.Config{
				Runner:  idleRunner{},
				Prompts: agent.Prompts{SubagentSpecs: map[string]agentctx.Spec{"ops": {Mode: 99}}},
			},
			[]string{`Prompts.SubagentSpecs["ops"].Mode`},
		},
		{
			"a workspace of no valid agent",
			agent.Config{
				Runner:  idleRunner{},
				Prompts: agent.Prompts{Workspaces: map[string]fs.FS{"no body": nil}},
			},
			[]string{`Prompts.Workspaces["no body"]`},
		},
		{
			"rules",
			agent.Config{
				Runner: idleRunner{},
				Rules: policy.Rules{
					Subagents: policy.Subagents{MaxSpawnDepth: 7, MaxChildren: -1},
				},
			},
			[]string{"Rules.Subagents.MaxSpawnDepth", "Rules.Subagents.MaxChildren"},
		},
		{
			"prices",
			agent.Config{
				Runner: idleRunner{},
				Prompts: agent.Prompts{
					Input: agentctx.Input{Aliases: map[string]string{"fast": "p/fast"}},
				},
				Models: agent.Models{Prices: map[string]agent.Price{
					"p/x":    {Input: -1, CacheRead: math.NaN(), CacheWrite: math.Inf(1)},
					"p/y":    {Output: math.Inf(-1), Input: 3},
					"p/Z":    {},
					"p/z":    {Output: 1},
					"FAST":   {Input: 1},
					"p/fast": {Input: 1},
					"":       {},
					"p/\n":   {},
				}},
			},
			[]string{
				`Models.Prices[""]`, `Models.Prices["p/\n"]`, `Models.Prices["p/fast"]`,
				`Models.Prices["p/x"].Input`, `Models.Prices["p/x"].CacheRead`,
				`Models.Prices["p/x"].CacheWrite`, `Models.Prices["p/y"].Output`,
				`Models.Prices["p/z"]`,
			},
		},
		{
			"several",
			agent.Config{Grace: -1, Tools: []agent.Tool{{}}},
			[]string{"Runner", "Tools[0].Name", "Tools[0].Call", "Grace"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			rt, err := agent.Open(t.Context(), c.cfg)
			require.Nil(t, rt)
			list, ok := errors.AsType[agent.ConfigErrors](err)
			require.True(t, ok, "%v", err)
			var paths []string
			for _, e := range list {
				paths = append(paths, e.Path)
				require.NotEmpty(t, e.Message)
				require.ErrorContains(t, err, e.Error())
			}
			require.Equal(t, c.want, paths)
			one, ok := errors.AsType[*agent.ConfigError](err)
			require.True(t, ok)
			require.Equal(t, list[0], one)
		})
	}
}

func TestOpenLeavesTheConfigAsItIs(t *testing.T) {
	cfg := agent.Config{
		Runner: idleRunner{},
		Tools: []agent.Tool{{
			Name: "x",
			Call: textCall(func(context.Context, agent.ToolCall) (string, error) {
				panic("the caller's own")
			}),
		}},
		Prompts: agent.Prompts{
			Workspaces:    map[string]fs.FS{},
			SubagentSpecs: map[string]agentctx.Spec{},
		},
	}
	_, err := agent.Open(t.Context(), cfg)
	require.NoError(t, err)
	require.Nil(t, cfg.Store)
	require.Nil(t, cfg.Logger)
	require.Nil(t, cfg.Now)
	require.Nil(t, cfg.Prompts.Loader.Cache)
	require.Panics(t, func() { _, _ = cfg.Tools[0].Call(t.Context(), agent.ToolCall{}) })
}

type idleRunner struct{}

func (idleRunner) Run(context.Context, *agent.Turn) (agent.Result, error) {
	return agent.Result{}, nil
}

// Bad input gets a typed error, and nothing is half done.
func TestBadCalls(t *testing.T) {
	cfg := configAnswering(asText)
	cfg.Rules.Agents = []policy.Agent{{
		ID:        "main",
		Subagents: policy.Subagents{AllowAgents: []string{"*"}},
	}}
	agenttest.Run(t, cfg, nil, func(h *harness) {
		ctx := h.Context()
		var input *spawn.InputError
		var refusal *policy.Refusal
		unknown := session.Must(session.Parse("agent:main:subagent:6f1c2a52-7d1c-4f7e-9a30-0d6f5b0e3c11"))
		task := func(s *agent.Session, t agent.Task) error {
			_, err := agent.Spawn[string](ctx, s, t)
			return err
		}

		for name, err := range map[string]error{
			"post to no key":    errorOf(h.Session(session.Key{}).Post(ctx, agent.Incoming{Text: "x"})),
			"post nothing":      errorOf(h.Main().Post(ctx, agent.Incoming{ID: "1", Text: " \n"})),
			"spawn from no key": task(h.Session(session.Key{}), agent.Task{Text: "x"}),
			"spawn nothing":     task(h.Main(), agent.Task{Text: "  "}),
		} {
			require.ErrorAs(t, err, &input, name)
		}
		for name, err := range map[string]error{
			"post to a sub-agent that is not": errorOf(h.Session(unknown).Post(ctx,
				agent.Incoming{Text: "x"})),
			"stop a sub-agent that is not":       h.Session(unknown).Stop(ctx),
			"cancel a turn of one that is not":   h.Session(unknown).CancelTurn(ctx),
			"spawn from a sub-agent that is not": task(h.Session(unknown), agent.Task{Text: "x"}),
			"runs of a sub-agent that is not": func() error {
				_, err := h.Session(unknown).Runs(ctx)
				return err
			}(),
		} {
			require.ErrorIs(t, err, agent.ErrNotFound, name)
		}
		for name, q := range map[string]agent.Task{
			"unknown agent":          {Text: "x", Agent: "ghost"},
			"malformed agent":        {Text: "x", Agent: "../../etc"},
			"unknown thinking":       {Text: "x", Thinking: "banana"},
			"negative timeout":       {Text: "x", Timeout: -5 * time.Second},
			"a sandbox, unsandboxed": {Text: "x", Sandbox: true},
			"tools it cannot have":   {Text: "x", Tools: []string{"rm"}},
		} {
			err := task(h.Main(), q)
			require.ErrorAs(t, err, &refusal, name)
			require.NotEmpty(t, refusal.Rule, name)
			require.NotEmpty(t, refusal.Asked, name)
			require.NotEmpty(t, refusal.Limit, name)
		}
		require.Error(t, task(h.Main(), agent.Task{Text: "x", Spec: agentctx.Spec{Mode: 99}}))
		for _, err := range h.Session(unknown).Events(ctx) {
			require.ErrorIs(t, err, agent.ErrNotFound)
		}
		ended, cancel := context.WithCancelCause(ctx)
		cancel(errors.New("enough"))
		require.ErrorContains(t, errorOf(h.Main().Post(ended, agent.Incoming{Text: "x"})), "enough")
		synctest.Wait()
		require.Empty(t, h.Runs())
		require.Empty(t, h.Replies())
		_, err := session.Parse("agent:main:subagent:")
		require.ErrorIs(t, err, session.ErrInvalidKey)
	})
}

func TestRuntimeAfterShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt, err := agent.Open(t.Context(),
			configWith(func(context.Context, *agent.Turn) (agent.Result, error) {
				return textResult("x")
			}))
		require.NoError(t, err)
		done := make(chan error, 1)
		go func() { done <- rt.Run(t.Context()) }()
		synctest.Wait()
		require.ErrorIs(t, rt.Run(t.Context()), spawn.ErrRunning)
		require.NoError(t, rt.Shutdown(t.Context()))
		require.NoError(t, <-done)
		require.NoError(t, rt.Shutdown(t.Context()), "again")
		require.NoError(t, rt.Run(t.Context()),
			"too late is no error: a Shutdown may overtake the goroutine that calls Run")
		require.ErrorIs(t, errorOf(rt.Session(topKey).Post(t.Context(), agent.Incoming{Text: "x"})),
			spawn.ErrShutdown)
	})
}

// Every call under a ctx that has ended returns its cause, and after a shutdown ErrShutdown.
func TestCallsThatComeTooLate(t *testing.T) {
	enough := errors.New("enough")
	agenttest.Run(t, agent.Config{}, script{"main": {say("Hello.")}}, func(h *harness) {
		h.Post("hello")
		time.Sleep(time.Second)
		rt, s := h.Runtime(), h.Main()
		calls := map[string]func(ctx context.Context) error{
			"Blocked": func(ctx context.Context) error { _, err := rt.Blocked(ctx); return err },
			"Retry":   func(ctx context.Context) error { return rt.Retry(ctx, "x") },
			"Dismiss": func(ctx context.Context) error { return rt.Dismiss(ctx, "x") },
			"Post": func(ctx context.Context) error {
				return errorOf(s.Post(ctx, agent.Incoming{Text: "x"}))
			},
			"Stop":       s.Stop,
			"CancelTurn": s.CancelTurn,
			"Idle":       s.Idle,
			"Runs":       func(ctx context.Context) error { _, err := s.Runs(ctx); return err },
			"Tree":       func(ctx context.Context) error { _, err := s.Tree(ctx); return err },
			"Spawn": func(ctx context.Context) error {
				_, err := agent.Spawn[string](ctx, s, agent.Task{Text: "x"})
				return err
			},
		}
		ended, cancel := context.WithCancelCause(h.Context())
		cancel(enough)
		for name, call := range calls {
			require.ErrorIs(t, call(ended), enough, name)
		}
		require.NoError(t, rt.Shutdown(h.Context()))
		for name, call := range calls {
			require.ErrorIs(t, call(h.Context()), agent.ErrShutdown, name)
		}
	})
}

// What is not there to spawn from is an error, as a Runner that is nil.
func TestNothingToSpawnFrom(t *testing.T) {
	for _, from := range []agent.Requester{nil, (*agent.Session)(nil), (*agent.Turn)(nil)} {
		_, err := agent.Spawn[string](t.Context(), from, agent.Task{Text: "x"})
		var bad *agent.InputError
		require.ErrorAs(t, err, &bad)
		require.Equal(t, "from", bad.Field)
	}
	require.Empty(t, new(agent.Session).Tools())
	_, err := agent.Open(t.Context(), agent.Config{Runner: agent.RunnerFunc(nil)})
	var bad agent.ConfigErrors
	require.ErrorAs(t, err, &bad)
	require.Equal(t, "Runner", bad[0].Path)
}

// Before Run everything is accepted and durable; nothing starts.
func TestBeforeRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var turns atomic.Int32
		rt, err := agent.Open(t.Context(),
			configWith(func(context.Context, *agent.Turn) (agent.Result, error) {
				turns.Add(1)
				return textResult("x")
			}))
		require.NoError(t, err)
		require.NoError(t, errorOf(rt.Session(topKey).Post(t.Context(), agent.Incoming{Text: "x"})))
		c, err := agent.Spawn[string](t.Context(), rt.Session(topKey), agent.Task{Text: "x"})
		require.NoError(t, err)
		time.Sleep(time.Hour)
		require.Zero(t, turns.Load())
		done := make(chan error, 1)
		go func() { done <- rt.Run(t.Context()) }()
		_, err = c.Wait(t.Context())
		require.NoError(t, err)
		synctest.Wait()
		require.EqualValues(t, 2, turns.Load())
		require.NoError(t, rt.Shutdown(t.Context()))
		require.NoError(t, <-done)
	})
}

// When the context of Run ends, turns are cancelled, and those that do not return are named.
func TestRunEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
			if tn.Label == "deaf" {
				time.Sleep(time.Hour)
			}
			<-ctx.Done()
			return agent.Result{}, ctx.Err()
		})
		rt, err := agent.Open(t.Context(), cfg)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- rt.Run(ctx) }()
		var deaf session.Key
		for _, label := range []string{"deaf", "good"} {
			c, err := agent.Spawn[string](t.Context(), rt.Session(topKey),
				agent.Task{Text: "x", Label: label})
			require.NoError(t, err)
			if label == "deaf" {
				deaf = c.Key()
			}
		}
		synctest.Wait()
		cancel()
		still, ok := errors.AsType[*agent.StillRunningError](<-done)
		require.True(t, ok)
		require.Equal(t, []session.Key{deaf}, still.Sessions)
		time.Sleep(2 * time.Hour)
	})
}

// When the context of Run ends, turns under way have the Drain to finish, and what they say is
// delivered. Those that take longer are cancelled.
func TestRunDrains(t *testing.T) {
	for _, c := range []struct {
		takes time.Duration // a turn, also once it is cancelled
		deaf  bool          // the turn does not return when it is cancelled
		ends  time.Duration // Run, after its context has ended
		reply bool
	}{
		{takes: 2 * time.Second, ends: 2 * time.Second, reply: true},
		{takes: time.Minute, ends: 5 * time.Second},
		{takes: time.Minute, deaf: true, ends: 15 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			cfg := configWith(func(ctx context.Context, _ *agent.Turn) (agent.Result, error) {
				if c.deaf {
					time.Sleep(c.takes)
				} else if err := pause(ctx, c.takes); err != nil {
					return agent.Result{}, err
				}
				return textResult("done")
			})
			cfg.Drain = 5 * time.Second
			var replies atomic.Int64
			cfg.Reply = func(context.Context, agent.Delivery) error { replies.Add(1); return nil }
			rt, err := agent.Open(t.Context(), cfg)
			require.NoError(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			done := make(chan error, 1)
			go func() { done <- rt.Run(ctx) }()
			require.NoError(t, errorOf(rt.Session(topKey).Post(ctx, agent.Incoming{Text: "go"})))
			synctest.Wait()
			require.ErrorIs(t, rt.Run(ctx), spawn.ErrRunning)
			began := time.Now()
			cancel()
			err = <-done
			_, still := errors.AsType[*agent.StillRunningError](err)
			require.Equal(t, c.deaf, still, "%v", err)
			require.Equal(t, c.ends, time.Since(began))
			require.Equal(t, c.reply, replies.Load() == 1)
			time.Sleep(2 * time.Hour)
		})
	}
}

// A context that has ended before Run drains nothing.
func TestRunDrainsNothingAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := configWith(func(context.Context, *agent.Turn) (agent.Result, error) {
			return textResult("done")
		})
		cfg.Drain = time.Hour
		rt, err := agent.Open(t.Context(), cfg)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		began := time.Now()
		require.NoError(t, rt.Run(ctx))
		require.Zero(t, time.Since(began))
	})
}

// A Loop whose numbers no turn would take is told when the Runtime is opened.
func TestNumbersOfALoop(t *testing.T) {
	for field, l := range map[string]agent.Loop{
		"Runner.MaxSteps": {MaxSteps: -1}, "Runner.Parallel": {Parallel: -1},
		"Runner.Retries": {Retries: 101},
		"":               {Parallel: 1, Retries: 100}, " ": {Retries: -1},
	} {
		l.Model = stubModel{}
		cfg := agent.Config{
			Runner: &l, Reply: func(context.Context, agent.Delivery) error { return nil },
		}
		err := cfg.Validate()
		if strings.TrimSpace(field) == "" {
			require.NoError(t, err)
			continue
		}
		bad, ok := errors.AsType[*agent.ConfigError](err)
		require.True(t, ok, "%s: %v", field, err)
		require.Equal(t, field, bad.Path)
	}
}

type stubModel struct{ agent.Model }
