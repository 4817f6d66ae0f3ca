package agent_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// restTasks are what the sub-agents of these tests do: how long it takes and what they say. That of
// "hush" asks for silence.
var restTasks = map[string]time.Duration{
	"quick": time.Second, "slow": time.Hour, "hush": 2 * time.Hour, "broken": 3 * time.Hour,
}

// restConfig has a chat that spawns all restTasks in its first turn and then does what first says.
// Later turns answer what they are told of.
func restConfig(
	first func(ctx context.Context, tn *agent.Turn, all []*agent.Child[string]) (string, error),
) agent.Config {
	cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
		if d, ok := restTasks[tn.Label]; ok {
			if err := pause(ctx, d); err != nil {
				return agent.Result{Text: "part"}, err
			}
			switch tn.Label {
			case "hush":
				return textResult("NO_REPLY")
			case "broken":
				return agent.Result{}, errors.New("out of luck")
			}
			return textResult("result of " + tn.Label)
		}
		if tn.N > 1 {
			told := []string{"told of"}
			for label := range restTasks {
				if strings.Contains(tn.Messages[len(tn.Messages)-1].Text, label) {
					told = append(told, label)
				}
			}
			return textResult(strings.Join(told, " "))
		}
		var all []*agent.Child[string]
		for _, label := range []string{"quick", "slow", "hush", "broken"} {
			c, err := agent.Spawn[string](ctx, tn, agent.Task{Text: label, Label: label})
			if err != nil {
				return agent.Result{}, err
			}
			all = append(all, c)
		}
		said, err := first(ctx, tn, all)
		return agent.Result{Text: said}, err
	})
	cfg.Rules = rulesForDepth(1)
	return cfg
}

// 2.7: a chat whose turn waits for some of its sub-agents is told of the others when they end, with
// RestAnnounce alone, however it waits. A sub-agent that says nothing, or fails, is told of as one
// that was spawned with Task.Announce.
func TestRestOfAJoin(t *testing.T) {
	waits := map[string]func(ctx context.Context, tn *agent.Turn, all []*agent.Child[string],
		opt agent.JoinOptions) ([]agent.Outcome[string], error){
		"Join": func(ctx context.Context, tn *agent.Turn, all []*agent.Child[string],
			opt agent.JoinOptions,
		) ([]agent.Outcome[string], error) {
			return agent.Join(ctx, tn, all, opt)
		},
		"Turn.Wait": func(ctx context.Context, tn *agent.Turn, all []*agent.Child[string],
			opt agent.JoinOptions,
		) ([]agent.Outcome[string], error) {
			return tn.Wait(ctx, all, opt)
		},
	}
	for name, wait := range waits {
		for _, rest := range []agent.Rest{agent.RestKeep, agent.RestStop, agent.RestAnnounce} {
			t.Run(fmt.Sprint(name, ", ", rest), func(t *testing.T) {
				want := []string{"ok running running running"}
				switch rest {
				case agent.RestStop:
					want = []string{"ok cancelled cancelled cancelled"}
				case agent.RestAnnounce:
					want = append(want, "told of slow", "told of broken")
				}
				cfg := restConfig(func(ctx context.Context, tn *agent.Turn,
					all []*agent.Child[string],
				) (string, error) {
					outcomes, err := wait(ctx, tn, all,
						agent.JoinOptions{Within: time.Minute, Rest: rest})
					if _, few := errors.AsType[*agent.JoinError](err); !few {
						return "", fmt.Errorf("want a *JoinError: %w", err)
					}
					var words []string
					for _, o := range outcomes {
						words = append(words, o.Run.Status.String())
					}
					return strings.Join(words, " "), nil
				})
				agenttest.Run(t, cfg, nil, func(h *harness) {
					h.Post("go")
					time.Sleep(4 * time.Hour)
					h.Replied(want...)
				})
			})
		}
	}
}

// 2.7: what a Yield leaves over is announced, or stopped, when the turn begins that it leads to.
func TestRestOfAYield(t *testing.T) {
	for rest, want := range map[agent.Rest][]string{
		agent.RestKeep:     {"later", "told of"},
		agent.RestStop:     {"later", "told of"},
		agent.RestAnnounce: {"later", "told of", "told of slow", "told of broken"},
	} {
		t.Run(rest.String(), func(t *testing.T) {
			cfg := restConfig(func(_ context.Context, tn *agent.Turn,
				_ []*agent.Child[string],
			) (string, error) {
				tn.Yield(agent.JoinOptions{AtLeast: 1, Rest: rest})
				return "later", nil
			})
			agenttest.Run(t, cfg, nil, func(h *harness) {
				h.Post("go")
				time.Sleep(time.Minute)
				ended := rest == agent.RestStop
				for label := range restTasks {
					require.Equal(t, ended || label == "quick", h.Child(label).Status.Terminal(), label)
				}
				time.Sleep(4 * time.Hour)
				h.Replied(want...)
			})
		})
	}
}

// 2.7: a session that the program runs is told by Deliver. A wait from there that is given up
// leaves all as it is.
func TestRestOfASessionOfTheProgram(t *testing.T) {
	cfg := restConfig(nil)
	cfg.Deliver = func(context.Context, agent.Delivery) error { return nil }
	agenttest.Run(t, cfg, nil, func(h *harness) {
		all := startAll(h, "quick", "slow", "broken")
		opt := agent.JoinOptions{AtLeast: 2, Rest: agent.RestAnnounce}
		ctx, cancel := context.WithTimeout(h.Context(), time.Minute)
		defer cancel()
		outcomes, err := h.Main().Wait(ctx, all, opt)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, spawn.StatusRunning, outcomes[1].Run.Status)
		opt.AtLeast = 1
		outcomes, err = h.Main().Wait(h.Context(), all, opt)
		require.NoError(t, err)
		require.Equal(t, "result of quick", outcomes[0].Value)
		left, ok := errors.AsType[*agent.RunError](outcomes[1].Err)
		require.True(t, ok, "%v", outcomes[1].Err)
		require.Equal(t, spawn.StatusRunning, left.Run.Status)
		time.Sleep(4 * time.Hour)
		require.Len(t, h.Deliveries(), 2)
		require.Equal(t, "slow", h.Deliveries()[0].Completion.Run.Label)
		require.Equal(t, "broken", h.Deliveries()[1].Completion.Run.Label)
	})
	_, err := agent.Join[string](t.Context(), new(agent.Session), nil, agent.JoinOptions{Rest: 7})
	input, ok := errors.AsType[*agent.InputError](err)
	require.True(t, ok, "%v", err)
	require.Equal(t, "Rest", input.Field)
}

// 2.7: a join is over runs, not sessions: a later run of a session that it waits for neither ends
// nor prolongs it, and is not announced for it.
func TestJoinAndLaterRuns(t *testing.T) {
	told := make(chan spawn.RunID, 10)
	cfg := restConfig(nil)
	cfg.Deliver = func(_ context.Context, d agent.Delivery) error {
		told <- d.Completion.Run.ID
		return nil
	}
	agenttest.Run(t, cfg, nil, func(h *harness) {
		all := startAll(h, "quick", "slow", "broken")
		time.Sleep(time.Minute)
		later, err := h.Session(all[0].Key()).Post(h.Context(), agent.Incoming{Text: "again"})
		require.NoError(t, err)
		require.NotEqual(t, all[0].ID(), later.Run)
		began := time.Now()
		opt := agent.JoinOptions{AtLeast: 2, Rest: agent.RestAnnounce}
		outcomes, err := h.Main().Wait(h.Context(), all, opt)
		require.NoError(t, err)
		require.Equal(t, time.Hour-time.Minute, time.Since(began), "two runs of one child are one")
		require.Equal(t, all[0].ID(), outcomes[0].Run.ID)
		require.Equal(t, "result of quick", outcomes[0].Value)
		require.Equal(t, "result of slow", outcomes[1].Value)

		_, err = h.Session(all[0].Key()).Post(h.Context(), agent.Incoming{Text: "once more"})
		require.NoError(t, err)
		opt.AtLeast = 0
		opt.Within = time.Millisecond
		outcomes, err = h.Main().Wait(h.Context(), all[:1], opt)
		require.NoError(t, err)
		require.Equal(t, spawn.StatusOK, outcomes[0].Run.Status, "of the run that was waited for")
		time.Sleep(3 * time.Hour)
		require.Len(t, told, 1, "the later runs are announced to no session")
		require.Equal(t, all[2].ID(), <-told)
	})
}
