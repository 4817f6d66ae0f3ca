package agent_test

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/announce"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/dirstore"
	"github.com/offshoot-sdk/offshoot/spawn/spawntest"
)

// usedBy returns the Usage of every line that the model said in a transcript.
func usedBy(t *testing.T, store *session.Store, r agent.RunInfo) (used []session.Usage) {
	t.Helper()
	ref := session.Ref{Key: r.Key, SessionID: r.SessionID}
	lines := store.Transcripts.Read(t.Context(), ref, session.LineQuery{})
	for line, err := range session.Committed(lines) {
		require.NoError(t, err)
		if line.Message.Role == session.MessageAssistant {
			used = append(used, line.Message.Usage)
		}
	}
	return used
}

// The Loop records what each call took with its line, the run has the sum, and both survive a
// restart.
func TestLoopKeepsTheTokensOfCaches(t *testing.T) {
	first := agent.Usage{Input: 10, Output: 2, CacheRead: 300, CacheWrite: 40, Cost: 0.5}
	second := agent.Usage{Input: 1, CacheRead: 350, Cost: math.NaN()}
	kept := []session.Usage{first, {Input: 1, CacheRead: 350}}
	generate := func(_ context.Context, req *agent.ModelRequest) (*agent.ModelResponse, error) {
		if lastMessage(req).Role == session.MessageTool {
			return &agent.ModelResponse{Text: "42", Usage: second}, nil
		}
		calls := []agent.ToolCall{{ID: "1", Name: "ls", Args: []byte(`{}`)}}
		return &agent.ModelResponse{ToolCalls: calls, Usage: first}, nil
	}
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		for n := range 3 {
			store, err := dirstore.Open(dir)
			require.NoError(t, err)
			runner := &agent.Loop{Model: modelFunc(generate)}
			cfg := agent.Config{Runner: runner, Tools: toolbox("ls"), Store: store}
			runFor(t, cfg, func(rt *agent.Runtime) {
				if n == 0 {
					c, err := agent.Spawn[string](t.Context(), rt.Session(topKey),
						agent.Task{Text: "count"})
					require.NoError(t, err)
					_, err = c.Wait(t.Context())
					require.NoError(t, err)
				}
				runs, err := rt.Session(topKey).Runs(t.Context())
				require.NoError(t, err)
				require.Len(t, runs, 1)
				want := agent.Usage{Input: 11, Output: 2, CacheRead: 650, CacheWrite: 40, Cost: 0.5}
				require.Equal(t, want, runs[0].Result.Usage)
				require.Equal(t, kept, usedBy(t, store, runs[0]))
			})
			require.NoError(t, store.Close())
		}
	})
}

// R11: amounts that a Runner reports are added without wrapping around: a budget that was exceeded
// stays exhausted, in the turn, in the run and after a restart.
func TestHugeUsageDoesNotGiveABudgetBack(t *testing.T) {
	huge := agent.Usage{
		Input: math.MaxInt64, Output: math.MaxInt64, CacheRead: math.MaxInt64,
		CacheWrite: math.MaxInt64, Cost: math.MaxFloat64,
	}
	cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
		if tn.Run == "" {
			return textResult("x")
		}
		for i := range 8194 {
			if err := tn.Spend(ctx, huge); !errors.Is(err, agent.ErrBudget) {
				t.Errorf("spend %d: %v", i, err)
			}
		}
		return textResult("done")
	})
	cfg.Rules = rulesForDepth(2)
	agenttest.Run(t, cfg, nil, func(h *harness) {
		task := agent.Task{Text: "go", Label: "rich"}
		task.Budget.Tokens = 1000
		task.Budget.Cost = 1
		_, err := agent.Spawn[string](h.Context(), h.Main(), task)
		require.NoError(t, err)
		for range 2 {
			u := h.Child("rich").Result.Usage
			require.Positive(t, u.Input)
			require.Positive(t, u.Total())
			require.GreaterOrEqual(t, u.Total(), u.Input)
			h.Crash()
		}
	})
}

// prices are those of the tests; a million tokens of each kind cost another power of ten.
var prices = map[string]agent.Price{
	"P/Main": {Input: 1, Output: 10, CacheRead: 100, CacheWrite: 1000},
	"fast":   {Input: 2},
	"q/free": {},
}

// pricedConfig is a Config with prices. Its model answers with one call of a tool and then a text.
func pricedConfig(first, second agent.ModelResponse) agent.Config {
	cfg := agent.Config{
		Tools: toolbox("ls"),
		Runner: &agent.Loop{Model: modelFunc(func(
			_ context.Context, req *agent.ModelRequest,
		) (*agent.ModelResponse, error) {
			answer := second
			if lastMessage(req).Role != session.MessageTool {
				answer = first
				answer.ToolCalls = []agent.ToolCall{{ID: "1", Name: "ls", Args: []byte(`{}`)}}
			} else {
				answer.Text = "42"
			}
			return &answer, nil
		})},
		Models: agent.Models{Model: "p/main", Prices: prices},
	}
	cfg.Prompts.Input.Aliases = map[string]string{"Fast": "p/fast"}
	return cfg
}

// A call without a cost has the one that the price of its model gives: in the transcript, in the
// run, and in the report by models. A cost that the model gives stands, and a model without a price
// has none.
func TestCallsHaveTheCostOfTheirModel(t *testing.T) {
	const million = 1_000_000
	for name, c := range map[string]struct {
		model string
		usage agent.Usage
		want  float64
	}{
		"the model of the turn": {"", agent.Usage{Input: million, Output: million}, 11},
		"tokens of caches": {
			"p/main", agent.Usage{CacheRead: million, CacheWrite: million / 10}, 200,
		},
		"in another case":           {"P/MAIN", agent.Usage{Input: million / 2}, 0.5},
		"without a provider":        {"main", agent.Usage{Input: million}, 1},
		"by an alias":               {"FAST", agent.Usage{Input: million, Output: million}, 2},
		"the full name of an alias": {"p/fast", agent.Usage{Input: million}, 2},
		"without a price":           {"p/other", agent.Usage{Input: million}, 0},
		"of another provider":       {"q/main", agent.Usage{Input: million}, 0},
		"free":                      {"q/free", agent.Usage{Input: million}, 0},
		"a cost that stands":        {"p/main", agent.Usage{Input: million, Cost: 7}, 7},
		"not a number":              {"p/main", agent.Usage{Input: million, Cost: math.NaN()}, 1},
		"negative":                  {"p/main", agent.Usage{Input: million, Cost: -3}, 1},
		"negative tokens":           {"p/main", agent.Usage{Input: -million, Output: million}, 10},
		"nothing used":              {"p/main", agent.Usage{}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := session.NewMemory()
				cfg := pricedConfig(
					agent.ModelResponse{Model: c.model, Usage: c.usage},
					agent.ModelResponse{Model: "p/main", Usage: agent.Usage{Input: million}},
				)
				cfg.Store = store
				runFor(t, cfg, func(rt *agent.Runtime) {
					child, err := agent.Spawn[string](t.Context(), rt.Session(topKey),
						agent.Task{Text: "count"})
					require.NoError(t, err)
					_, err = child.Wait(t.Context())
					require.NoError(t, err)
					runs, err := rt.Session(topKey).Runs(t.Context())
					require.NoError(t, err)
					require.InDelta(t, c.want+1, runs[0].Result.Usage.Cost, 1e-9)
					require.InDelta(t, c.want, usedBy(t, store, runs[0])[0].Cost, 1e-9)
					got, err := rt.Usage(t.Context(), agent.UsageQuery{
						By: []agent.UsageBy{agent.UsageByModel},
					})
					require.NoError(t, err)
					require.InDelta(t, c.want+1, got.Total.Cost, 1e-9)
					if named := c.model; named == "p/other" || named == "q/main" {
						require.Len(t, got.Rows, 2)
						require.InDelta(t, 1, got.Rows[0].Usage.Cost, 1e-9)
						require.Equal(t, named, got.Rows[1].Model)
					}
				})
			})
		})
	}
}

// What a Runner reports itself, in its Result or with Spend, has a cost, too, and what it has spent
// on several models is told apart.
func TestRunnersOfTheirOwnHaveCosts(t *testing.T) {
	million := agent.Usage{Input: 1_000_000}
	for name, c := range map[string]struct {
		run  agent.RunnerFunc
		want map[string]float64 // cost by model
	}{
		"a result": {func(context.Context, *agent.Turn) (agent.Result, error) {
			return agent.Result{Usage: million}, nil
		}, map[string]float64{"p/main": 1}},
		"a result of a model": {func(context.Context, *agent.Turn) (agent.Result, error) {
			return agent.Result{Usage: million, Model: "p/fast"}, nil
		}, map[string]float64{"p/fast": 2}},
		"spent": {func(ctx context.Context, t *agent.Turn) (agent.Result, error) {
			return agent.Result{}, t.Spend(ctx, million)
		}, map[string]float64{"p/main": 1}},
		"spent on several": {func(ctx context.Context, t *agent.Turn) (agent.Result, error) {
			return agent.Result{Model: "p/main"}, errors.Join(t.Spend(ctx, million),
				t.SpendOn(ctx, "fast", million), t.SpendOn(ctx, "p/other", million),
				t.SpendOn(ctx, "p/main", million))
		}, map[string]float64{"p/main": 2, "p/fast": 2, "p/other": 0}},
		"spent by a turn that fails": {func(
			ctx context.Context, t *agent.Turn,
		) (agent.Result, error) {
			_ = t.SpendOn(ctx, "fast", million)
			return agent.Result{}, errors.New("broken")
		}, map[string]float64{"p/fast": 2}},
		"spent by a turn that panics": {func(
			ctx context.Context, t *agent.Turn,
		) (agent.Result, error) {
			_ = t.SpendOn(ctx, "fast", million)
			panic("broken")
		}, map[string]float64{"p/fast": 2}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := pricedConfig(agent.ModelResponse{}, agent.ModelResponse{})
			cfg.Runner = c.run
			agenttest.Run(t, cfg, nil, func(h *harness) {
				h.Post("go")
				require.NoError(h.T(), h.Main().Idle(h.Context()))
				got, err := h.Runtime().Usage(h.Context(), agent.UsageQuery{
					Session: topKey, By: []agent.UsageBy{agent.UsageByModel},
				})
				require.NoError(h.T(), err)
				costs := make(map[string]float64)
				for _, row := range got.Rows {
					costs[row.Model] = row.Usage.Cost
				}
				require.Equal(h.T(), c.want, costs)
			})
		})
	}
}

// A cost that a price gives counts against budgets, and stands in the line of a completion.
func TestPricesCountAgainstBudgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []string
		used := agent.Usage{Input: 1_000_000}
		cfg := pricedConfig(agent.ModelResponse{Usage: used}, agent.ModelResponse{Usage: used})
		cfg.Deliver = func(_ context.Context, d agent.Delivery) error {
			told = append(told, announce.NewEvent(d.Completion).ForModel())
			return nil
		}
		runFor(t, cfg, func(rt *agent.Runtime) {
			for _, budget := range []float64{0.5, 5} {
				task := agent.Task{Text: "count", Announce: true}
				task.Budget.Cost = budget
				_, err := agent.Spawn[string](t.Context(), rt.Session(topKey), task)
				require.NoError(t, err)
				require.NoError(t, rt.Session(topKey).Idle(t.Context()))
			}
			runs, err := rt.Session(topKey).Runs(t.Context())
			require.NoError(t, err)
			require.Equal(t, agent.StatusIncomplete, runs[0].Status)
			require.Equal(t, agent.StatusOK, runs[1].Status)
		})
		require.Len(t, told, 2)
		require.Contains(t, told[0], "est $1.00")
		require.Contains(t, told[1], "est $2.00")
	})
}

// Usage and Sessions say the same after archives, a snapshot and restarts.
func TestUsageAfterArchiveSnapshotAndRestart(t *testing.T) {
	skipUnderRace(t)
	memory := session.NewMemory()
	for name, c := range map[string]struct {
		rounds int
		open   func(dir string) (*session.Store, error)
		close  func(*session.Store) error
	}{
		"in memory": { // enough for snapshots
			110, func(string) (*session.Store, error) { return memory, nil },
			func(*session.Store) error { return nil },
		},
		"in a directory": {10, dirstore.Open, (*session.Store).Close},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir := t.TempDir()
				var before usageFigures
				for n := range 3 {
					store, err := c.open(dir)
					require.NoError(t, err)
					cfg := pricedConfig(agent.ModelResponse{Model: "p/main", Usage: someUsage},
						agent.ModelResponse{Model: "p/fast", Usage: someUsage})
					cfg.Store = store
					runFor(t, cfg, func(rt *agent.Runtime) {
						if n == 0 {
							useMuch(t, rt.Session(topKey), c.rounds)
							before = figuresOf(t, rt)
						}
						require.Equal(t, before, figuresOf(t, rt))
					})
					if begins := beginsWith(t, store); n > 0 && c.rounds > 100 {
						require.Equal(t, "snapshot", begins)
					}
					require.NoError(t, c.close(store))
				}
			})
		})
	}
}

var someUsage = agent.Usage{Input: 100, CacheRead: 7}

// useMuch has a session and sub-agents of it take turns, and waits until these are archived.
func useMuch(t *testing.T, s *agent.Session, rounds int) {
	t.Helper()
	for range rounds {
		require.NoError(t, errorOf(s.Post(t.Context(), agent.Incoming{Text: "go"})))
		_, err := agent.Spawn[string](t.Context(), s, agent.Task{Text: "count", Announce: true})
		require.NoError(t, err)
		require.NoError(t, s.Idle(t.Context()))
		time.Sleep(time.Hour)
	}
	time.Sleep(3 * time.Hour)
	runs, err := s.Runs(t.Context())
	require.NoError(t, err)
	require.Empty(t, runs)
}

// usageFigures is what a Runtime says of what was used, and of its sessions.
type usageFigures struct {
	all, fast agent.UsageReport
	sessions  []agent.SessionInfo
}

func figuresOf(t *testing.T, rt *agent.Runtime) (f usageFigures) {
	t.Helper()
	by := []agent.UsageBy{agent.UsageByDay, agent.UsageByTree, agent.UsageByModel}
	var err error
	f.all, err = rt.Usage(t.Context(), agent.UsageQuery{By: by})
	require.NoError(t, err)
	require.Positive(t, f.all.Total.Cost)
	f.fast, err = rt.Usage(t.Context(), agent.UsageQuery{Model: "FAST", By: by}) // an alias
	require.NoError(t, err)
	fast := slices.DeleteFunc(slices.Clone(f.all.Rows), func(r agent.UsageRow) bool {
		return r.Model != "p/fast"
	})
	require.Equal(t, fast, f.fast.Rows)
	f.sessions, err = rt.Sessions(t.Context(), agent.SessionQuery{})
	require.NoError(t, err)
	require.Len(t, f.sessions, 1)
	return f
}

// beginsWith returns what the first entry of the journal of the main session records.
func beginsWith(t *testing.T, store *session.Store) string {
	t.Helper()
	for f, err := range spawntest.Facts(store.Journal.Read(t.Context(), topKey, 0)) {
		require.NoError(t, err)
		return f.Kind
	}
	return ""
}

// A price that cannot be that of a model is doubtful.
func TestPricesOfNoModel(t *testing.T) {
	var log strings.Builder
	cfg := agent.Config{
		Runner: idleRunner{}, Logger: slog.New(slog.NewTextHandler(&log, nil)),
		Models: agent.Models{Prices: map[string]agent.Price{"gpt": {Input: 1}, "p/x": {}}},
	}
	_, err := agent.Open(t.Context(), cfg)
	require.NoError(t, err)
	require.Contains(t, log.String(), `Config.Models.Prices[\"gpt\"]`)
	require.NotContains(t, log.String(), `p/x`)
}
