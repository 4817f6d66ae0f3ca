package spawntest

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// What is printed of a history is read back as it was.
func TestHistoriesAreReadBack(t *testing.T) {
	hs := &Histories{Lives: 3, Callers: 2, Acts: 6}
	for seed := range uint64(200) {
		p := newPlan(seed, hs, []Command{{Name: "a"}, {Name: "b", Weight: 3}}, []string{"pay"})
		again, err := parsePlan(p.String())
		require.NoError(t, err)
		require.Equal(t, p, again)
		require.Equal(t, p, newPlan(seed, hs, []Command{{Name: "a"}, {Name: "b", Weight: 3}},
			[]string{"pay"}), "the seed decides")
		for _, s := range p.steps {
			require.False(t, s.life == p.lives && s.fault.dies(), "the last process lives")
		}
	}
	for _, bad := range []string{
		"", "life 1 caller 1 after 0s: a 1", "seed x lives 1", "seed 1 lives 1\nlife 1: a",
		"seed 1 lives 1\nlife 1 fault append 1 times 1: burns",
		"seed 1 lives 1\nlife 1 caller 1 after soon: a 1",
	} {
		_, err := parsePlan(bad)
		require.Error(t, err, bad)
	}
}

// A history is made as short as it fails with: here with one fault and two calls.
func TestHistoriesAreShrunk(t *testing.T) {
	hs := &Histories{Lives: 3, Callers: 3, Acts: 8}
	has := func(p historyPlan, want func(historyStep) bool) bool {
		return slices.ContainsFunc(p.steps, want)
	}
	for seed := range uint64(100) {
		p := newPlan(seed, hs, []Command{{Name: "a"}, {Name: "b"}}, nil)
		plays := 0
		fails := func(p historyPlan) bool {
			plays++
			return has(p, func(s historyStep) bool { return s.fault != 0 }) &&
				has(p, func(s historyStep) bool { return s.name == "a" }) &&
				has(p, func(s historyStep) bool { return s.name == "b" && s.n > 3 })
		}
		if !fails(p) {
			continue
		}
		small := shrinkPlan(p, maxShrinks, fails)
		require.True(t, fails(small))
		require.Len(t, small.steps, 3)
		if !has(small, func(s historyStep) bool { return s.fault.dies() }) {
			require.Equal(t, 1, small.lives)
		}
		require.LessOrEqual(t, plays, maxShrinks+2)
	}
}

var deskKey = session.Must(session.MainKey("main"))

// ordering is a program that spawns for each order, and whose Check is given.
func ordering(check func(h *History) error, do func(*spawn.Supervisor, context.Context)) Histories {
	return Histories{N: 50, New: func(h *History) Program {
		var sup *spawn.Supervisor
		return Program{
			Open: func(ctx context.Context, p *Process) (s Server, err error) {
				sup, err = spawn.Open(ctx, spawn.Config{Store: p.Store, Runner: &Runner{}})
				return sup, err
			},
			Commands: []Command{{Name: "order", Do: func(ctx context.Context, _ *Process, _ int) {
				do(sup, ctx)
			}}},
			Check: func() error { return check(h) },
		}
	}}
}

func order(sup *spawn.Supervisor, ctx context.Context) {
	_, _ = sup.Spawn(ctx, deskKey, deskKey, spawn.Request{Task: "x", Announce: true})
}

var errOrders = errors.New("there are orders")

// A program that is right passes, and what fails is found, made short and told: what Check returns,
// a command that panics, and a tree that is not at rest.
func TestHistoriesOfPrograms(t *testing.T) {
	never := func(*History) error { return nil }
	require.NoError(t, ordering(never, order).Find(t))

	orders := func(h *History) error {
		for f, err := range Facts(h.Entries(deskKey)) {
			if err != nil || f.Kind == "admitted" {
				return errors.Join(err, errOrders)
			}
		}
		return nil
	}
	err := ordering(orders, order).Find(t)
	require.ErrorIs(t, err, errOrders)
	found, ok := errors.AsType[*HistoryError](err)
	require.True(t, ok)
	require.Equal(t, 1, found.Steps, found.History)
	require.Contains(t, found.Error(), "admitted agent:main:subagent:")
	again := ordering(orders, order)
	again.Replay = found.History
	require.ErrorIs(t, again.Find(t), errOrders)
	again.Replay = "x"
	require.ErrorContains(t, again.Find(t), `the line "x"`)

	err = ordering(never, func(*spawn.Supervisor, context.Context) { panic("oh") }).Find(t)
	require.ErrorContains(t, err, "panic: oh")
	found, ok = errors.AsType[*HistoryError](err)
	require.True(t, ok)
	require.Equal(t, 1, found.Steps, found.History)
}
