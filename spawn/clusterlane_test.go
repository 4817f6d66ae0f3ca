package spawn_test

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/sessiontest"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// slots counts the turns of sub-agents under way in all processes.
type slots struct {
	mu     sync.Mutex
	now    map[string]int // by process
	most   int
	done   int
	byTree map[session.Key][]time.Duration // when turns of a tree ended, from the begin on
	begun  time.Time
}

func (s *slots) count() (n int) {
	for _, k := range s.now {
		n += k
	}
	return n
}

func (s *slots) change(by string, n int, root session.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now[by] += n
	s.most = max(s.most, s.count())
	if n < 0 {
		s.done++
		s.byTree[root] = append(s.byTree[root], time.Since(s.begun))
	}
}

// openLane opens a process whose turns take a tenth of a second, and of which the cluster runs at
// most limit at a time.
func (f *fleet) openLane(name string, limit int, s *slots) *worker {
	w := &worker{fleet: f, name: name, store: f.engine.Open(name), ended: make(chan error, 1)}
	sup, err := spawn.Open(f.t.Context(), spawn.Config{
		Store: w.store, CallerRun: true, Logger: f.log,
		Rules: policy.Rules{Subagents: policy.Subagents{MaxConcurrent: limit, MaxChildren: 20}},
		Runner: runnerFunc(func(
			ctx context.Context, tn *spawn.TurnInput,
		) (spawn.TurnResult, error) {
			s.change(name, 1, tn.Session.Root)
			defer s.change(name, -1, tn.Session.Root)
			timer := time.NewTimer(100 * time.Millisecond)
			defer timer.Stop()
			select {
			case <-timer.C:
			case <-ctx.Done():
				return spawn.TurnResult{}, context.Cause(ctx)
			}
			return spawn.TurnResult{Result: spawn.Result{Text: "done"}}, nil
		}),
		Deliver: func(context.Context, spawn.Delivery) error { return nil },
	})
	require.NoError(f.t, err)
	w.Supervisor = sup
	return w
}

func newSlots() *slots {
	return &slots{
		now: make(map[string]int), byTree: make(map[session.Key][]time.Duration), begun: time.Now(),
	}
}

// The limit of turns is that of all processes: three with a limit of 8 never have 9 turns under
// way, and have 8 as long as there is work. A process that dies gives its slots to others.
func TestLimitOfACluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit, trees, each = 8, 12, 20
		f := newFleet(t, sessiontest.ClusterOptions{})
		s := newSlots()
		var all []*worker
		for _, name := range []string{"a", "b", "c"} {
			all = append(all, f.openLane(name, limit, s).run())
		}
		spawnAll := func(round int) {
			for i := range trees {
				root := session.Must(session.DirectKey("main", "irc", fmt.Sprint(i)))
				for n := range each {
					_, err := all[i%3].begin(root, fmt.Sprint(round, " ", n))
					require.NoError(t, err)
				}
			}
		}
		begun := time.Now()
		spawnAll(1)
		for s.total() < trees*each && time.Since(begun) < time.Minute {
			time.Sleep(10 * time.Millisecond)
		}
		ideal := trees * each * 100 * time.Millisecond / limit
		require.Equal(t, limit, s.highest())
		require.Less(t, time.Since(begun), ideal*11/10, "the slots are in use all the time")
		for root, ends := range s.ends() { // fair: no tree waits for all others
			require.Less(t, ends[each/2], ideal*3/4, root)
		}

		spawnAll(2)
		time.Sleep(350 * time.Millisecond)
		f.engine.Cut(all[0].store)
		s.forget("a") // what it still has under way is cancelled, and does not count for the others
		time.Sleep(3 * time.Minute)
		require.Equal(t, limit, s.highest())
		require.Zero(t, s.of("b")+s.of("c"))
		for i := range trees {
			if root := session.Must(session.DirectKey("main", "irc", fmt.Sprint(i))); i%3 > 0 {
				f.settled(root)
			}
		}
	})
}

// highest returns how many turns were under way at once at most.
func (s *slots) highest() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.most
}

// ends returns when the turns of each tree have ended.
func (s *slots) ends() map[session.Key][]time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.byTree)
}

func (s *slots) total() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.done
}

func (s *slots) of(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now[name]
}

// forget takes the turns of a process that was cut off out of the count.
func (s *slots) forget(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now[name] = -1000
}

// A pause of a provider that one process asks for is one of all.
func TestPauseOfACluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, sessiontest.ClusterOptions{})
		s := newSlots()
		a, b := f.openLane("a", 4, s).run(), f.openLane("b", 4, s).run()
		_ = a
		lane := f.outside.Owners.Lane("offshoot.subagents", 4, session.LaneUser{})
		ctx, cancel := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- f.outside.Owners.Serve(ctx, session.Member{}) }()
		lane.Pause("", 20*time.Second)
		time.Sleep(time.Second)
		_, err := b.begin(topKey, "one")
		require.NoError(t, err)
		time.Sleep(15 * time.Second)
		require.Zero(t, s.total())
		time.Sleep(10 * time.Second)
		require.Equal(t, 1, s.total())
		cancel()
		require.NoError(t, <-served)
	})
}

// A Supervisor that is opened after another one of the same process has its slots, and a limit that
// is set counts at once.
func TestLimitOfASecondSupervisor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, sessiontest.ClusterOptions{})
		s := newSlots()
		a := f.openLane("a", 2, s).run()
		for n := range 8 {
			_, err := a.begin(topKey, fmt.Sprint(n))
			require.NoError(t, err)
		}
		time.Sleep(50 * time.Millisecond)
		require.Equal(t, 2, s.of("a"))
		require.NoError(t, a.SetRules(&policy.Rules{
			Subagents: policy.Subagents{MaxConcurrent: 5, MaxChildren: 20},
		}))
		time.Sleep(20 * time.Millisecond)
		require.Equal(t, 5, s.of("a"))
		time.Sleep(time.Second)
		require.Equal(t, 8, s.total())
	})
}
