package agent_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
)

// The complaints of people about other systems, at the size at which they complain.

// Pain 24: a person is in the next turn, however many completions wait, and those come together.
func TestPersonAmongAThousandCompletions(t *testing.T) {
	const n = 1000
	var mu sync.Mutex
	var turns []string
	cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
		if tn.Session.Key.IsSubagent() {
			return agent.Result{Text: "found " + tn.Label}, nil
		}
		mu.Lock()
		turns = append(turns, tn.Input())
		mu.Unlock()
		if tn.N == 1 {
			return agent.Result{Text: "begun"}, pause(ctx, time.Hour)
		}
		return agent.Result{Text: "an answer"}, nil
	})
	agenttest.Run(t, cfg, nil, func(h *harness) {
		h.Post("go")
		h.Pass(time.Second)
		for i := range n {
			c, err := h.Main().Spawn(h.Context(), agent.Task{
				Text: "x", Label: fmt.Sprintf("no. %d.", i), Announce: true,
			})
			require.NoError(h.T(), err)
			_, err = c.Wait(h.Context())
			require.NoError(h.T(), err)
		}
		h.Post("are you there?")
		h.Pass(2 * time.Hour)
		h.Replied("begun", "an answer")
	})
	require.Len(t, turns, 2)
	require.Contains(t, turns[1], "are you there?")
	for i := range n {
		require.Equal(t, 1, strings.Count(turns[1], fmt.Sprintf("found no. %d.", i)), i)
	}
}

// Pain 25: a wait of an hour for ten sub-agents costs one call of the model, after it.
func TestWaitForTenCostsOneCall(t *testing.T) {
	var turns atomic.Int32
	cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
		if tn.Session.Key.IsSubagent() {
			minutes := time.Duration(tn.Label[0]-'0'+1) * 6 * time.Minute
			return agent.Result{Text: "found"}, pause(ctx, minutes)
		}
		if turns.Add(1) > 1 {
			return agent.Result{Text: fmt.Sprint(strings.Count(tn.Input(), "found"), " found")}, nil
		}
		for i := range 10 {
			_, err := tn.Spawn(ctx, agent.Task{Text: "x", Label: fmt.Sprint(i), Announce: true})
			if err != nil {
				return agent.Result{}, err
			}
		}
		tn.Yield(agent.JoinOptions{})
		return agent.Result{}, nil
	})
	cfg.Rules.Subagents.MaxChildren, cfg.Rules.Subagents.MaxConcurrent = 10, 10
	agenttest.Run(t, cfg, nil, func(h *harness) {
		h.Post("go")
		h.Pass(59 * time.Minute)
		require.EqualValues(h.T(), 1, turns.Load())
		h.Pass(time.Hour)
		require.EqualValues(h.T(), 2, turns.Load())
		h.Replied("10 found")
	})
}

// Pain 26: of fifty sub-agents each sees its own directory alone, whatever it asks for.
func TestFiftySeeTheirOwnDirectories(t *testing.T) {
	const n = 50
	work := t.TempDir()
	for i := range n {
		require.NoError(t, os.Mkdir(filepath.Join(work, fmt.Sprint("part-", i)), 0o700))
	}
	require.NoError(t, os.Symlink(t.TempDir(), filepath.Join(work, "part-0", "out")))
	var mu sync.Mutex
	seen := map[string]string{}
	cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
		file := filepath.Join(tn.Dir, "notes")
		if err := os.WriteFile(file, []byte(tn.Label), 0o600); err != nil {
			return agent.Result{}, err
		}
		mu.Lock()
		seen[tn.Label] = tn.Dir
		mu.Unlock()
		err := pause(ctx, time.Minute) // all work at once
		data, readErr := os.ReadFile(file)
		return agent.Result{Text: string(data)}, errors.Join(err, readErr)
	})
	cfg.WorkDir = func(string) string { return work }
	cfg.Rules.Subagents.MaxChildren, cfg.Rules.Subagents.MaxConcurrent = 20, n
	agenttest.Run(t, cfg, nil, func(h *harness) {
		var all []*agent.Child[string]
		for i := range n {
			// A session has 20 at most, so there are three.
			s := h.Session(session.Must(session.DirectKey("main", "irc", fmt.Sprint("ann", i%3))))
			c, err := s.Spawn(h.Context(), agent.Task{
				Text: "x", Label: fmt.Sprint("part-", i), Dir: fmt.Sprint("part-", i),
			})
			require.NoError(h.T(), err)
			all = append(all, c)
		}
		for i, c := range all {
			got, err := c.Wait(h.Context())
			require.NoError(h.T(), err)
			require.Equal(h.T(), fmt.Sprint("part-", i), got)
		}
		for _, dir := range []string{"..", "../x", "part-0/out", "/etc", "part-0/../../x"} {
			_, err := h.Main().Spawn(h.Context(), agent.Task{Text: "x", Dir: dir})
			require.ErrorAs(h.T(), err, new(*agent.DirError), dir)
		}
	})
	require.Len(t, seen, n)
	resolved, err := filepath.EvalSymlinks(work)
	require.NoError(t, err)
	for label, dir := range seen {
		require.Equal(t, filepath.Join(resolved, label), dir)
	}
}

// Pain 31: a provider that takes two calls at once refuses the others, and each of twenty
// sub-agents ends with its result nevertheless.
func TestTwentyBehindAProviderThatTakesTwo(t *testing.T) {
	var mu sync.Mutex
	inFlight, refused := 0, 0
	model := modelFunc(func(
		ctx context.Context, _ *agent.ModelRequest,
	) (*agent.ModelResponse, error) {
		mu.Lock()
		defer mu.Unlock()
		if inFlight == 2 {
			refused++
			return nil, agent.RateLimited{After: 10 * time.Second}
		}
		inFlight++
		mu.Unlock()
		err := pause(ctx, 30*time.Second)
		mu.Lock()
		inFlight--
		return &agent.ModelResponse{Text: "found"}, err
	})
	cfg := agent.Config{Runner: &agent.Loop{Model: model, Retries: 50}}
	cfg.Rules.Subagents = policy.Subagents{MaxChildren: 20, MaxConcurrent: 20}
	agenttest.Run(t, cfg, nil, func(h *harness) {
		var all []*agent.Child[string]
		for range 20 {
			c, err := h.Main().Spawn(h.Context(), agent.Task{Text: "x"})
			require.NoError(h.T(), err)
			all = append(all, c)
		}
		outcomes, err := h.Main().Wait(h.Context(), all, agent.JoinOptions{})
		require.NoError(h.T(), err)
		for _, o := range outcomes {
			require.NoError(h.T(), o.Err)
			require.Equal(h.T(), "found", o.Value)
		}
	})
	require.Positive(t, refused)
}

// Pain 32: a steer in the instant of the end never costs the result, and its answer is true: a run
// that has ended refuses it, and one that took it had not ended.
func TestSteerInTheInstantOfTheEnd(t *testing.T) {
	times := 300
	if !underRace {
		times = 2000
	}
	cfg := configWith(func(ctx context.Context, _ *agent.Turn) (agent.Result, error) {
		return agent.Result{Text: "found"}, pause(ctx, time.Second)
	})
	taken, late, missed := 0, 0, 0
	agenttest.Run(t, cfg, nil, func(h *harness) {
		for range times {
			c, err := h.Main().Spawn(h.Context(), agent.Task{Text: "x"})
			require.NoError(h.T(), err)
			time.Sleep(time.Second)
			switch err := c.Steer(h.Context(), "hurry"); {
			case err == nil:
				taken++
			default:
				require.ErrorIs(h.T(), err, agent.ErrEnded)
				late++
			}
			got, err := c.Wait(h.Context())
			require.NoError(h.T(), err)
			require.Equal(h.T(), "found", got)
			info, err := c.Info(h.Context())
			require.NoError(h.T(), err)
			require.Equal(h.T(), agent.StatusOK, info.Status)
			missed += info.Missed
		}
	})
	require.Equal(t, taken, missed, "its Runner reads none of them")
	t.Logf("%d came before the end, %d too late", taken, late)
}
