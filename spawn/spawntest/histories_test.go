package spawntest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// What is printed of a history is read back as it was.
func TestHistoriesAreReadBack(t *testing.T) {
	hs := Histories{Overlap: true}.filled()
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
	hs := Histories{Callers: 3, Acts: 8, Overlap: true}.filled()
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

// A process ends in one of four ways: it dies, is shut down, or is dead or alive beside its
// successor. The plan of a seed may have all of them, and the last process is none of the last two.
func TestHistoriesEndProcesses(t *testing.T) {
	for _, overlap := range []bool{false, true} {
		hs := Histories{Overlap: overlap}.filled()
		ends := make(map[string]int)
		for seed := range uint64(300) {
			p := newPlan(seed, hs, []Command{{Name: "a"}}, nil)
			for life := 1; life <= p.lives; life++ {
				how := ""
				for _, s := range p.steps {
					switch {
					case s.life != life:
					case s.name == stepEnd:
						how += fmt.Sprint("late ", s.late)
					case s.fault.dies():
						how += "dies "
					}
				}
				ends[fmt.Sprintf("last %v %s", life == p.lives, how)]++
			}
		}
		want := []string{
			"last false dies ", "last false late false", "last false dies late false",
			"last true ", "last true late false",
		}
		if overlap {
			want = append(want, "last false late true", "last false dies late true")
		}
		require.ElementsMatch(t, want, slices.Collect(maps.Keys(ends)), ends)
	}
}

// The store has the faults that are asked for, and no outage is longer than that.
func TestHistoriesHaveFaults(t *testing.T) {
	hs := Histories{Faults: []Fault{FaultPanicAfter}, Outage: 5}.filled()
	none := Histories{Faults: []Fault{}}.filled()
	had := 0
	for seed := range uint64(300) {
		for _, s := range newPlan(seed, hs, nil, nil).steps {
			require.True(t, s.name == stepEnd || s.fault.dies() || s.fault == FaultPanicAfter)
			require.LessOrEqual(t, s.times, 5)
			had = max(had, s.times)
		}
		for _, s := range newPlan(seed, none, nil, nil).steps {
			require.True(t, s.name == stepEnd || s.fault.dies(), s)
		}
	}
	require.Equal(t, 5, had)
	for _, f := range []Fault{0, FaultDieAfter, FaultExitAfter + 1} {
		bad := Histories{
			Faults: []Fault{FaultLoseAck, f}, New: func(*History) Program { return Program{} },
		}
		require.ErrorContains(t, bad.Find(t), "Histories.Faults[1]")
	}
}

// A process that goes on beside its successor has its store, unless it has died, and is shut down
// when the callers of the successor are done.
func TestHistoriesOverlap(t *testing.T) {
	withoutEnv(t)
	beside, shut := 0, 0
	hs := Histories{N: 60, Overlap: true, New: func(*History) Program {
		open := make(map[int]bool)
		var mu sync.Mutex
		return Program{
			Commands: idle,
			Open: func(ctx context.Context, p *Process) (Server, error) {
				sup, err := spawn.Open(ctx, spawn.Config{Store: p.Store, Runner: &Runner{}})
				mu.Lock()
				defer mu.Unlock()
				if open[p.Life-1] {
					beside++
				}
				open[p.Life] = true
				return closing{sup, func() {
					mu.Lock()
					defer mu.Unlock()
					if open[p.Life+1] {
						shut++
					}
					delete(open, p.Life)
				}}, err
			},
			Check: func() error {
				mu.Lock()
				defer mu.Unlock()
				if len(open) != 1 {
					return fmt.Errorf("%d processes are there at rest", len(open))
				}
				return nil
			},
		}
	}}
	hs.Run(t)
	require.NotZero(t, beside)
	require.Equal(t, beside, shut)
	hs.Overlap, beside = false, 0
	hs.Run(t)
	require.Zero(t, beside)
}

// closing is a Server that tells that it is shut down.
type closing struct {
	*spawn.Supervisor
	closed func()
}

func (c closing) Shutdown(ctx context.Context) error {
	defer c.closed()
	return c.Supervisor.Shutdown(ctx)
}

// Roll depends on the seed and on what is decided, and takes every value.
func TestHistoriesRoll(t *testing.T) {
	a, b := &History{plan: historyPlan{seed: 1}}, &History{plan: historyPlan{seed: 2}}
	seen, same := make(map[int]bool), 0
	for i := range 200 {
		x := a.Roll(7, "x", i)
		require.Equal(t, x, a.Roll(7, "x", i))
		require.True(t, 0 <= x && x < 7)
		seen[x] = true
		if x == b.Roll(7, "x", i) {
			same++
		}
	}
	require.Len(t, seen, 7)
	require.Less(t, same, 100)
	require.Panics(t, func() { a.Roll(0) })
	require.Panics(t, func() { a.Roll(-1) })
	require.EqualValues(t, 2, b.Seed())
}

// A History is what assertions take. One that fails ends the command, Check or Over that it is in.
func TestHistoriesAssert(t *testing.T) {
	withoutEnv(t)
	never := func(*History) error { return nil }
	for what, set := range map[string]func(h *History, p *Program){
		"command": func(h *History, p *Program) {
			p.Commands[0].Do = func(context.Context, *Process, int) { require.Fail(h, "oh") }
		},
		"check": func(h *History, p *Program) {
			p.Check = func() error { require.Fail(h, "oh"); return nil }
		},
		"over": func(h *History, p *Program) {
			p.Over = func() error { require.True(h, h.Failed(), "oh"); return nil }
		},
		"nothing said":   func(h *History, p *Program) { p.Over = func() error { h.FailNow(); return nil } },
		"panic at rest":  func(_ *History, p *Program) { p.Check = func() error { panic("oh") } },
		"what Over says": func(_ *History, p *Program) { p.Over = func() error { return errors.New("oh") } },
	} {
		hs := ordering(never, order)
		inner := hs.New
		hs.New = func(h *History) Program {
			p := inner(h)
			set(h, &p)
			return p
		}
		err := hs.Find(t)
		require.Error(t, err, what)
	}
}

// The trees of a program are audited under its rules: here turns reserve more than those allow.
func TestHistoriesAreAuditedUnderRules(t *testing.T) {
	withoutEnv(t)
	budget := func(tokens int64) policy.Rules {
		return policy.Rules{Budget: policy.Budget{Tokens: tokens}}
	}
	audited := budget(1)
	hs := Histories{N: 30, New: func(*History) Program {
		var sup *spawn.Supervisor
		return Program{
			Rules: &audited,
			Open: func(ctx context.Context, p *Process) (_ Server, err error) {
				runner := new(Runner).On("", Play{Spend(session.Usage{Input: 10})})
				sup, err = spawn.Open(ctx, spawn.Config{
					Store: p.Store, Runner: runner, Rules: budget(1000),
				})
				return sup, err
			},
			Commands: []Command{{Name: "order", Do: func(ctx context.Context, _ *Process, _ int) {
				order(sup, ctx)
			}}},
		}
	}}
	require.ErrorContains(t, hs.Find(t), "budget")
	audited = budget(1000)
	hs.Run(t)
}

// A program may bring its store, and a command the numbers that it takes.
func TestHistoriesTakeAStoreAndNumbers(t *testing.T) {
	withoutEnv(t)
	store, numbers := (*session.Store)(nil), make(map[int]bool)
	hs := Histories{N: 30, Callers: 1, New: func(*History) Program {
		store = session.NewMemory()
		var sup *spawn.Supervisor
		return Program{
			Store: store,
			Open: func(ctx context.Context, p *Process) (_ Server, err error) {
				sup, err = spawn.Open(ctx, spawn.Config{Store: p.Store, Runner: &Runner{}})
				return sup, err
			},
			Commands: []Command{{Name: "order", Span: 3, Do: func(
				ctx context.Context, _ *Process, n int,
			) {
				numbers[n] = true
				order(sup, ctx)
			}}},
			Rules: &policy.Rules{},
		}
	}}
	hs.Run(t)
	require.Equal(t, map[int]bool{0: true, 1: true, 2: true}, numbers)
	require.NotNil(t, store)
}

// withoutEnv has a test play what it says, also where the histories of programs are many.
func withoutEnv(t *testing.T) {
	t.Setenv("OFFSHOOT_FUZZ", "")
	t.Setenv("OFFSHOOT_SEED", "")
}

// OFFSHOOT_FUZZ and OFFSHOOT_SEED come first.
func TestHistoriesOfTheEnvironment(t *testing.T) {
	var seeds []uint64
	hs := Histories{N: 3, Seed: 7, New: func(h *History) Program {
		seeds = append(seeds, h.Seed())
		return Program{Commands: idle, Open: openNothing}
	}}
	withoutEnv(t)
	hs.Run(t)
	require.Equal(t, []uint64{7, 8, 9}, seeds)
	t.Setenv("OFFSHOOT_FUZZ", "2")
	seeds = nil
	hs.Run(t)
	require.Equal(t, []uint64{7, 8}, seeds)
	t.Setenv("OFFSHOOT_SEED", "5")
	seeds = nil
	hs.Run(t)
	require.Equal(t, []uint64{5, 5}, seeds)
	t.Setenv("OFFSHOOT_FUZZ", "")
	seeds = nil
	hs.Run(t)
	require.Equal(t, slices.Repeat([]uint64{5}, 20), seeds)
}

// idle are the commands of a program whose callers do nothing.
var idle = []Command{{Name: "wait", Do: func(context.Context, *Process, int) {}}}

// openNothing opens a process that has nothing to do.
func openNothing(ctx context.Context, p *Process) (Server, error) {
	return spawn.Open(ctx, spawn.Config{Store: p.Store, Runner: &Runner{}})
}

// A Histories that cannot be meant is refused before it is played, by the name of the field.
func TestHistoriesThatAreRefused(t *testing.T) {
	withoutEnv(t)
	program := func(set func(p *Program)) func(hs *Histories) {
		return func(hs *Histories) {
			hs.New = func(*History) Program {
				p := Program{Commands: slices.Clone(idle), Sites: []string{"pay"}, Open: openNothing}
				set(&p)
				return p
			}
		}
	}
	replay := func(line string) func(hs *Histories) {
		return func(hs *Histories) {
			program(func(*Program) {})(hs)
			hs.Replay = "seed 1 lives 1\n" + line
		}
	}
	for field, set := range map[string]func(hs *Histories){
		"Histories.New":       func(hs *Histories) { hs.New = nil },
		"Histories.N":         func(hs *Histories) { hs.N = -1 },
		"Histories.Lives":     func(hs *Histories) { hs.Lives = -1 },
		"Histories.Callers":   func(hs *Histories) { hs.Callers = -2 },
		"Histories.Acts":      func(hs *Histories) { hs.Acts = -1 },
		"Histories.Outage":    func(hs *Histories) { hs.Outage = -1 },
		"Histories.Rest":      func(hs *Histories) { hs.Rest = -time.Second },
		"Program.Open is nil": program(func(p *Program) { p.Open = nil }),
		"Program.Open has returned neither": program(func(p *Program) {
			p.Open = func(context.Context, *Process) (Server, error) { return nil, nil }
		}),
		"Program.Commands is empty": program(func(p *Program) { p.Commands = nil }),
		"Program.Commands[0].Name":  program(func(p *Program) { p.Commands[0].Name = "" }),
		`Name is "a b"`:             program(func(p *Program) { p.Commands[0].Name = "a b" }),
		`Name is "a\u00a0b"`:        program(func(p *Program) { p.Commands[0].Name = "a\u00a0b" }),
		`Name is "a:"`:              program(func(p *Program) { p.Commands[0].Name = "a:" }),
		"Program.Commands[1].Name": program(func(p *Program) {
			p.Commands = append(p.Commands, p.Commands[0])
		}),
		"Commands[0].Weight": program(func(p *Program) { p.Commands[0].Weight = -1 }),
		"Commands[0].Span":   program(func(p *Program) { p.Commands[0].Span = -1 }),
		"Commands[0].Do":     program(func(p *Program) { p.Commands[0].Do = nil }),
		"Program.Sites[0]":   program(func(p *Program) { p.Sites[0] = "append" }),
		`Sites[0] is "end"`:  program(func(p *Program) { p.Sites[0] = "end" }),
		`Sites[0] is "a\n"`:  program(func(p *Program) { p.Sites[0] = "a\n" }),
		"Program.Sites[1]":   program(func(p *Program) { p.Sites = []string{"pay", "pay"} }),
		"Program.Store":      program(func(p *Program) { p.Store = &session.Store{} }),
		`the site "post" is not in Program.Sites, ["pay"]`: program(func(p *Program) {
			p.Commands[0].Do = func(_ context.Context, p *Process, _ int) {
				_ = p.Call("post", func() error { return nil })
			}
		}),
		"there are 1 lives":    replay("life 2 caller 1 after 0s: wait 1"),
		"has not that command": replay("life 1 caller 1 after 0s: walk 1"),
		"is not in Program":    replay("life 1 fault post 1 times 1: fail before"),
		"counted from 1":       replay("life 1 fault pay 0 times 1: fail before"),
		"time is negative":     replay("life 1 caller 1 after -1s: wait 1"),
		"numbers begin with 0": replay("life 1 caller 1 after 0s: wait -1"),
	} {
		hs := Histories{N: 20}
		program(func(*Program) {})(&hs)
		set(&hs)
		require.ErrorContains(t, hs.Find(t), field)
	}
	hs := Histories{N: 20}
	program(func(*Program) {})(&hs)
	require.NoError(t, hs.Find(t))
	for name, values := range map[string][]string{
		"OFFSHOOT_SEED": {"zzz", "-1", "1.5", "18446744073709551616"},
		"OFFSHOOT_FUZZ": {"abc", "0", "-3", "1e3"},
	} {
		for _, value := range values {
			withoutEnv(t)
			t.Setenv(name, value)
			require.ErrorContains(t, hs.Find(t), fmt.Sprintf("%s is %q", name, value))
		}
	}
}

// A history is made as short as a mistake needs, also if the fault of that is behind calls that it
// does not need: here the third append of the second kind of call.
func TestHistoriesAreShrunkBeforeAFault(t *testing.T) {
	hs := Histories{Callers: 1, Acts: 12}.filled()
	appends := map[string]int{"order": 4, "cancel": 1, "refund": 3}
	found := 0
	for seed := range uint64(2000) {
		p := newPlan(seed, hs, []Command{{Name: "order"}, {Name: "cancel"}, {Name: "refund"}}, nil)
		fails := func(p historyPlan) bool {
			for life := 1; life <= p.lives; life++ {
				at, wanted := 0, make(map[int]bool)
				for _, s := range p.steps {
					if s.life == life && s.caller > 0 {
						wanted[at+3] = s.name == "refund"
						at += appends[s.name]
					}
				}
				for _, s := range p.steps {
					if s.life == life && s.fault == FaultLoseAck && wanted[s.n] {
						return true
					}
				}
			}
			return false
		}
		if !fails(p) {
			continue
		}
		found++
		small := shrinkPlan(p, maxShrinks, fails)
		require.True(t, fails(small))
		require.Len(t, small.steps, 2, "seed %d:\n%s", seed, small)
	}
	require.Greater(t, found, 50)
}

// The planted bug of a program is found with the one call and the one fault that it needs: a parcel
// is lost if the carrier fails, and letters that went before it do not matter.
func TestHistoriesFindTheFewestCalls(t *testing.T) {
	withoutEnv(t)
	for seed := range uint64(2) {
		hs := Histories{Seed: 1 + 1000*seed, N: 300, Callers: 1, New: func(h *History) Program {
			send := func(what string) func(context.Context, *Process, int) {
				return func(_ context.Context, p *Process, _ int) {
					err := p.Call("carrier", func() error { return nil })
					if errors.Is(err, ErrFault) && what == "parcel" {
						h.Errorf("a parcel is lost")
					}
				}
			}
			return Program{
				Open: openNothing, Sites: []string{"carrier"},
				Commands: []Command{
					{Name: "letter", Weight: 9, Do: send("letter")},
					{Name: "parcel", Do: send("parcel")},
				},
			}
		}}
		found, ok := errors.AsType[*HistoryError](hs.Find(t))
		require.True(t, ok)
		require.Equal(t, 2, found.Steps, found.History)
		require.NotContains(t, found.History, "letter")
		require.Contains(t, found.History, "fault carrier 1 times 1")
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
	withoutEnv(t)
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
