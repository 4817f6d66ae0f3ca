package agent_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// rulesBot opens a bot, runs it, and ends it with the test of the bubble.
func rulesBot(t *testing.T, cfg agent.Config) *agent.Runtime {
	t.Helper()
	rt, err := agent.Open(t.Context(), cfg)
	require.NoError(t, err)
	ran := make(chan error, 1)
	go func() { ran <- rt.Run(t.Context()) }()
	t.Cleanup(func() {
		require.NoError(t, rt.Shutdown(context.Background()))
		require.NoError(t, <-ran)
	})
	return rt
}

// allowsNone are rules under which main may have sub-agents of no other agent.
func allowsNone() policy.Rules {
	return policy.Rules{
		Agents:    []policy.Agent{{ID: "main"}, {ID: "a"}},
		Subagents: policy.Subagents{AllowAgents: []string{}},
	}
}

// Rules with a mistake change nothing, and every mistake is named. What depends on the rest of the
// Config is one, too.
func TestSetRulesTakesAllOrNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := agent.Config{Runners: agent.Runners{Agents: map[string]agent.Runner{
			"main": sayOK, "a": sayOK,
		}}}
		cfg.Rules = allowsNone()
		cfg.Tools = []agent.Tool{namedTool("refund")}
		cfg.Tools[0].OwnerOnly = true
		cfg.Rules.Owners = []policy.Person{}
		cfg.Prompts.Input.Aliases = map[string]string{"fast": "p/fast"}
		rt := rulesBot(t, cfg)
		good := cfg.Rules
		good.Subagents.AllowAgents = []string{"a"}
		for name, test := range map[string]struct {
			change func(r *policy.Rules)
			want   []string
		}{
			"two mistakes": {
				func(r *policy.Rules) {
					r.Subagents.MaxChildren, r.Subagents.MaxSpawnDepth = 21, -1
				},
				[]string{
					"Config.Rules.Subagents.MaxSpawnDepth (agents.defaults.subagents.maxSpawnDepth)",
					"Config.Rules.Subagents.MaxChildren (agents.defaults.subagents.maxChildrenPerAgent)",
				},
			},
			"an agent without a Runner": {
				func(r *policy.Rules) {
					r.Agents = append(slices.Clone(r.Agents), policy.Agent{ID: "b"})
				},
				[]string{`Config.Runner: it is missing, and agent "b" has none`},
			},
			"no one is known to be an owner": {
				func(r *policy.Rules) { r.Owners = nil },
				[]string{"Config.Tools[0].OwnerOnly"},
			},
			"rules for an alias": {
				func(r *policy.Rules) {
					r.Tools.ByProvider = map[string]policy.ToolPolicy{"fast": {}}
				},
				[]string{`Config.Rules.Tools.ByProvider["fast"]: it is an alias`},
			},
		} {
			bad := good
			test.change(&bad)
			err := rt.SetRules(bad)
			var all agent.ConfigErrors
			require.ErrorAs(t, err, &all, name)
			require.Len(t, all, len(test.want), "%s: %v", name, err)
			for _, want := range test.want {
				require.ErrorContains(t, err, want, name)
			}
			_, err = rt.Session(topKey).Spawn(t.Context(), agent.Task{Text: "x", Agent: "a"})
			require.ErrorIs(t, err, &policy.Refusal{Rule: policy.RuleAgents}, name)
		}
		require.NoError(t, rt.SetRules(good))
		good.Subagents.AllowAgents[0] = "main" // they were copied
		_, err := rt.Session(topKey).Spawn(t.Context(), agent.Task{Text: "x", Agent: "a"})
		require.NoError(t, err)
	})
}

// Rules are not recorded: a tree that another process opens goes by those of its Config.
func TestSetRulesEndWithTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := agent.Config{Runner: sayOK, Store: session.NewMemory(), Rules: allowsNone()}
		for range 2 {
			rt, err := agent.Open(t.Context(), cfg)
			require.NoError(t, err)
			main := rt.Session(topKey)
			_, err = main.Spawn(t.Context(), agent.Task{Text: "x", Agent: "a"})
			require.ErrorIs(t, err, &policy.Refusal{Rule: policy.RuleAgents})
			rules := allowsNone()
			rules.Subagents.AllowAgents = []string{"*"}
			require.NoError(t, rt.SetRules(rules))
			_, err = main.Spawn(t.Context(), agent.Task{Text: "x", Agent: "a"})
			require.NoError(t, err)
			require.NoError(t, rt.Shutdown(t.Context()))
			require.ErrorIs(t, rt.SetRules(rules), spawn.ErrShutdown)
		}
	})
}

// A Loop offers its model with the next call what is left, and what has come. A Runner that has
// taken a tool out does not get it back, and keeps what it has put in.
func TestLoopOffersToolsOfTheRulesOfNow(t *testing.T) {
	copied := func(list []agent.Tool) []agent.Tool { return slices.Clone(list) }
	inPlace := func(list []agent.Tool) []agent.Tool { return list }
	for name, own := range map[string]func([]agent.Tool) []agent.Tool{
		"as offered": nil, "changed by a Runner": copied, "changed in place": inPlace,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var rt *agent.Runtime
				var offered []string
				model := agent.ModelFunc(func(
					_ context.Context, req *agent.ModelRequest,
				) (*agent.ModelResponse, error) {
					var names []string
					for _, tool := range req.Tools {
						if !strings.Contains(tool.Name, "s_") { // a session tool
							names = append(names, tool.Name)
						}
					}
					offered = append(offered, strings.Join(names, " "))
					last := req.Messages[len(req.Messages)-1]
					deny := [][]string{{"a"}, {}, {"a", "b"}}[len(offered)-1]
					if len(offered) == 3 {
						return &agent.ModelResponse{Text: last.Text}, nil
					}
					rules := policy.Rules{Tools: policy.ToolPolicy{Deny: deny}}
					require.NoError(t, rt.SetRules(rules))
					calls := []agent.ToolCall{{ID: "1", Name: "a"}}
					return &agent.ModelResponse{ToolCalls: calls}, nil
				})
				cfg := agent.Config{Tools: []agent.Tool{
					{Name: "a", Call: toolSaying("called")},
					{Name: "b", Call: toolSaying("")},
					{Name: "c", Call: toolSaying("")},
				}}
				cfg.Rules.Tools.Deny = []string{"b"}
				loop := &agent.Loop{Model: model}
				cfg.Runner = agent.RunnerFunc(func(
					ctx context.Context, tn *agent.Turn,
				) (agent.Result, error) {
					if own != nil {
						tn.Tools = slices.DeleteFunc(own(tn.Tools),
							func(tool agent.Tool) bool { return tool.Name == "c" })
						tn.Tools = append(tn.Tools, namedTool("mine"))
					}
					return loop.Run(ctx, tn)
				})
				rt = rulesBot(t, cfg)
				answer, err := rt.Session(topKey).PostAndWait(t.Context(), agent.Incoming{Text: "go"})
				require.NoError(t, err)
				if own != nil {
					require.Equal(t, []string{"a mine", "mine", "mine"}, withoutSessionTools(offered))
					require.Contains(t, answer.Text, "no tool")
					return
				}
				require.Equal(t, []string{"a c", "b c", "a b c"}, withoutSessionTools(offered))
				require.Contains(t, answer.Text, `no tool "a"`, "the call before did not offer it")
			})
		})
	}
}

// withoutSessionTools leaves the words of at most four letters.
func withoutSessionTools(lists []string) (short []string) {
	for _, list := range lists {
		words := slices.DeleteFunc(strings.Fields(list), func(w string) bool { return len(w) > 4 })
		short = append(short, strings.Join(words, " "))
	}
	return short
}

// What a Runner has put around the tools of its turn, in place, stays around them under other
// rules. A tool that comes has it not.
func TestSetRulesKeepWhatIsAroundATool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rt *agent.Runtime
		denied := [][]string{{"new"}, {"new", "b"}, {"b"}, nil}
		n := 0
		model := agent.ModelFunc(func(
			_ context.Context, req *agent.ModelRequest,
		) (*agent.ModelResponse, error) {
			if n++; n == len(denied) {
				return &agent.ModelResponse{Text: "done"}, nil
			}
			rules := policy.Rules{Tools: policy.ToolPolicy{Deny: denied[n]}}
			require.NoError(t, rt.SetRules(rules))
			return &agent.ModelResponse{ToolCalls: []agent.ToolCall{
				{ID: fmt.Sprint("a", n), Name: "a"}, {ID: fmt.Sprint("n", n), Name: "new"},
			}}, nil
		})
		var called []string
		tool := func(name string) agent.Tool {
			return agent.Tool{Name: name, Call: func(
				context.Context, agent.ToolCall,
			) (agent.ToolResult, error) {
				called = append(called, name)
				return agent.ToolResult{}, nil
			}}
		}
		cfg := agent.Config{Tools: []agent.Tool{tool("a"), tool("b"), tool("new")}}
		cfg.Rules.Tools.Deny = denied[0]
		loop := &agent.Loop{Model: model}
		cfg.Runner = agent.RunnerFunc(func(
			ctx context.Context, tn *agent.Turn,
		) (agent.Result, error) {
			for i := range tn.Tools {
				tn.Tools[i].Call = func(context.Context, agent.ToolCall) (agent.ToolResult, error) {
					return agent.ToolResult{}, errors.New("the operator has not approved it")
				}
			}
			return loop.Run(ctx, tn)
		})
		rt = rulesBot(t, cfg)
		_, err := rt.Session(topKey).PostAndWait(t.Context(), agent.Incoming{Text: "go"})
		require.NoError(t, err)
		require.Equal(t, []string{"new"}, called, "it came with the third rules")
	})
}

// A hook that sets the same rules is not asked again, and one that sets others each time ends the
// spawn that asks it.
func TestSetRulesWhileTheHookIsAsked(t *testing.T) {
	for name, c := range map[string]struct {
		deny  func(n int) []string
		asked int
		err   string
	}{
		"the same": {func(int) []string { return []string{"a"} }, 2, ""},
		"others":   {func(n int) []string { return []string{fmt.Sprint("a", n%2)} }, 8, "rules have changed"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var rt *agent.Runtime
				asked := 0
				cfg := agent.Config{Runner: sayOK}
				cfg.Hooks.Spawning = func(context.Context, spawn.SpawningRun) error {
					asked++
					rules := policy.Rules{Tools: policy.ToolPolicy{Deny: c.deny(asked)}}
					return rt.SetRules(rules)
				}
				rt = rulesBot(t, cfg)
				_, err := rt.Session(topKey).Spawn(t.Context(), agent.Task{Text: "x"})
				require.Equal(t, c.asked, asked)
				if c.err == "" {
					require.NoError(t, err)
					return
				}
				var failed *spawn.CallbackError
				require.ErrorAs(t, err, &failed)
				require.ErrorContains(t, failed.Err, c.err)
			})
		})
	}
}

// The tools of a loop of the caller's obey the rules of now at each call, and say which one it is.
func TestToolsOfACallerObeyTheRulesOfNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := rulesBot(t, agent.Config{Runner: sayOK})
		tools := rt.Session(topKey).Tools()
		i := slices.IndexFunc(tools, func(tool agent.Tool) bool { return tool.Name == "agents_list" })
		call := func() error {
			_, err := tools[i].Call(t.Context(), agent.ToolCall{ID: "x", Name: "agents_list"})
			return err
		}
		require.NoError(t, call())
		rules := policy.Rules{Tools: policy.ToolPolicy{Deny: []string{"agents_list"}}}
		require.NoError(t, rt.SetRules(rules))
		err := call()
		require.ErrorIs(t, err, &policy.Refusal{Rule: policy.RuleTools, Op: "tool call"})
		require.ErrorContains(t, err, "Config.Rules.Tools.Deny (tools.deny)")
		require.NoError(t, rt.SetRules(policy.Rules{}))
		require.NoError(t, call())
	})
}

// More slots are given out at once. With fewer no turn loses its own, and none begins before as
// many are free.
func TestSetRulesSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		now, release := 0, make(chan struct{})
		add := func(n int) int {
			mu.Lock()
			defer mu.Unlock()
			now += n
			return now
		}
		cfg := configWith(func(_ context.Context, tn *agent.Turn) (agent.Result, error) {
			add(1)
			defer add(-1)
			<-release
			return textResult("ok")
		})
		slots := func(n int) policy.Rules {
			return policy.Rules{Subagents: policy.Subagents{MaxConcurrent: n, MaxChildren: 20}}
		}
		cfg.Rules = slots(2)
		rt := rulesBot(t, cfg)
		for range 10 {
			_, err := rt.Session(topKey).Spawn(t.Context(), agent.Task{Text: "x"})
			require.NoError(t, err)
		}
		check := func(want int) {
			t.Helper()
			synctest.Wait()
			require.Equal(t, want, add(0))
		}
		check(2)
		require.NoError(t, rt.SetRules(slots(5)))
		check(5)
		require.NoError(t, rt.SetRules(slots(1)))
		check(5)
		for _, want := range []int{4, 3, 2, 1, 1} {
			release <- struct{}{}
			check(want)
		}
		close(release)
	})
}

// A run that has ended is archived when the rules of now say, also if no command comes, and if
// another run has something to wait for before that.
func TestSetRulesArchive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
			if tn.Label == "stays" {
				<-ctx.Done()
			}
			return textResult("ok")
		})
		cfg.Rules.Subagents.ArchiveAfter = 100 * time.Hour
		rt := rulesBot(t, cfg)
		stays := agent.Task{Text: "x", Label: "stays", Timeout: time.Hour}
		_, err := rt.Session(topKey).Spawn(t.Context(), stays)
		require.NoError(t, err)
		c, err := rt.Session(topKey).Spawn(t.Context(), agent.Task{Text: "x"})
		require.NoError(t, err)
		_, err = c.Wait(t.Context())
		require.NoError(t, err)
		time.Sleep(5 * time.Minute)
		rules := cfg.Rules
		rules.Subagents.ArchiveAfter = 7 * time.Minute
		require.NoError(t, rt.SetRules(rules))
		there := func() bool {
			runs, err := rt.Session(topKey).Runs(t.Context())
			require.NoError(t, err)
			return len(runs) > 1
		}
		time.Sleep(time.Minute)
		require.True(t, there())
		time.Sleep(2 * time.Minute)
		require.False(t, there())
	})
}

// A budget that comes while a turn is under way holds from its next model call on.
func TestSetRulesBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rt *agent.Runtime
		calls := 0
		cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
			for range 5 {
				if err := tn.Spend(ctx, agent.Usage{Input: 100}); err != nil {
					return agent.Result{}, err
				}
				if calls++; calls == 2 {
					rules := policy.Rules{Budget: policy.Budget{Tokens: 250}}
					require.NoError(t, rt.SetRules(rules))
				}
			}
			return textResult("ok")
		})
		rt = rulesBot(t, cfg)
		_, err := rt.Session(topKey).Post(t.Context(), agent.Incoming{Text: "x"})
		require.NoError(t, err)
		require.NoError(t, rt.Session(topKey).Idle(t.Context()))
		require.Equal(t, 2, calls, "the third call exceeds it")
		_, err = rt.Session(topKey).Spawn(t.Context(), agent.Task{Text: "x"})
		require.ErrorIs(t, err, &policy.Refusal{Rule: policy.RuleBudget})
		require.NoError(t, rt.SetRules(policy.Rules{}))
		_, err = rt.Session(topKey).Spawn(t.Context(), agent.Task{Text: "x"})
		require.NoError(t, err)
	})
}

// What a Sandbox.Decide has answered counts under its own rules alone: the next ones ask theirs,
// for a spawn that waits for the answer, and for the tools of a turn that is under way.
func TestSetRulesAskTheirOwnSandbox(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		boxed := func(yes bool, before func()) policy.Rules {
			return policy.Rules{Sandbox: policy.Sandbox{
				Tools: policy.ToolRules{Allow: []string{"*"}, Deny: []string{}},
				Decide: func(string, session.Key) bool {
					if before != nil {
						before()
					}
					return yes
				},
			}}
		}
		var rt *agent.Runtime
		var boxes []bool
		cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
			if tn.Session.Key.IsSubagent() {
				return textResult("ok")
			}
			out, err := tn.Call(ctx, agent.ToolCall{ID: "x", Name: "look"})
			boxes = append(boxes, tn.Sandboxed)
			require.NoError(t, err)
			require.NoError(t, rt.SetRules(boxed(true, nil)))
			now, err := tn.Call(ctx, agent.ToolCall{ID: "y", Name: "look"})
			require.NoError(t, err)
			return textResult(out.Text + " " + now.Text)
		})
		cfg.Tools = []agent.Tool{{
			Name: "look", Call: textCall(func(ctx context.Context, _ agent.ToolCall) (string, error) {
				who, _ := agent.CallerOf(ctx)
				return fmt.Sprint(who.Sandboxed), nil
			}),
		}}
		cfg.Rules = boxed(false, nil)
		rt = rulesBot(t, cfg)
		answer, err := rt.Session(topKey).PostAndWait(t.Context(), agent.Incoming{Text: "x"})
		require.NoError(t, err)
		require.Equal(t, "false true", answer.Text)
		require.Equal(t, []bool{false}, boxes)

		flip := sync.OnceFunc(func() { require.NoError(t, rt.SetRules(boxed(true, nil))) })
		require.NoError(t, rt.SetRules(boxed(false, flip)))
		c, err := rt.Session(topKey).Spawn(t.Context(), agent.Task{Text: "x"})
		require.NoError(t, err)
		info, err := c.Info(t.Context())
		require.NoError(t, err)
		require.True(t, info.Sandboxed)
	})
}

// A hook that may refuse a spawn is asked again if other rules have come since it said yes: the run
// may be another.
func TestSetRulesAskTheHookAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rt *agent.Runtime
		var asked []int
		cfg := agent.Config{Runner: sayOK, Tools: []agent.Tool{namedTool("a"), namedTool("b")}}
		cfg.Rules.Tools.Deny = []string{"b"}
		cfg.Hooks.Spawning = func(_ context.Context, r spawn.SpawningRun) error {
			asked = append(asked, len(r.Run.Tools))
			if len(asked) == 1 {
				require.NoError(t, rt.SetRules(policy.Rules{}))
			}
			return nil
		}
		rt = rulesBot(t, cfg)
		task := agent.Task{Text: "x", Tools: []string{"a", "b"}}
		_, err := rt.Session(topKey).Spawn(t.Context(), task)
		require.NoError(t, err)
		require.Equal(t, []int{1, 2}, asked)
	})
}
