package owner

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
)

// laneTrees returns sessions of several trees, by name: "a" to "c" are top-level sessions, "a1" is
// a child of a, and so on.
func laneTrees(t testing.TB, children int) map[string]*tree.Run {
	t.Helper()
	opt := &tree.Options{Rules: &policy.Rules{Subagents: policy.Subagents{MaxChildren: 1 << 20}}}
	runs := make(map[string]*tree.Run)
	for _, name := range []string{"a", "b", "c"} {
		root := session.Must(session.MainKey(name))
		tr := tree.New(root, opt)
		runs[name] = tr.Root()
		_, err := tr.Decide(&tree.Open{Writer: "w", SessionID: "s"}, 1)
		require.NoError(t, err)
		for i := range children {
			child := fmt.Sprint(name, i+1)
			cmd := &tree.Spawn{Parent: root, ID: child, SessionID: "s", Task: "x"}
			reply, err := tr.Decide(cmd, 1)
			require.NoError(t, err)
			runs[child] = reply.Run
		}
	}
	return runs
}

// laneLog keeps the names that were granted a slot, in order.
type laneLog struct {
	mu  sync.Mutex
	got []string
}

// want queues a ticket and notes its grant under a name.
func (g *laneLog) want(l *Lane, name string, r *tree.Run) *sync.WaitGroup {
	var done sync.WaitGroup
	l.mu.Lock()
	t := &ticket{wait: make(chan struct{})}
	l.push(r.Parent, t)
	l.mu.Unlock()
	done.Go(func() {
		<-t.wait
		g.mu.Lock()
		g.got = append(g.got, name)
		g.mu.Unlock()
	})
	return &done
}

func (g *laneLog) list() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return strings.Join(g.got, " ")
}

// A lane serves in order of arrival within a requester and round robin over the requesters of all
// trees.
func TestLaneIsFair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs := laneTrees(t, 4)
		l := NewLane(1)
		var log laneLog
		for _, name := range []string{"a1", "a2", "a3", "a4", "b1", "b2", "c1"} {
			log.want(l, name, runs[name])
		}
		require.Zero(t, l.Used(), "a lane that is not open grants nothing")
		l.Open()
		for range 6 {
			synctest.Wait()
			l.Free()
		}
		synctest.Wait()
		require.Equal(t, "a1 b1 c1 a2 b2 a3 a4", log.list())
		require.Equal(t, 1, l.Used())
		l.Free()
		require.Zero(t, l.Used())
	})
}

// A requester that comes later waits for one round, not for the whole queue of another.
func TestLaneDoesNotStarve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs := laneTrees(t, 100)
		l := NewLane(1)
		l.Open()
		var log laneLog
		require.True(t, l.Wait(nil, runs["a1"]))
		for i := range 99 {
			log.want(l, fmt.Sprint("a", i+2), runs[fmt.Sprint("a", i+2)])
		}
		log.want(l, "b1", runs["b1"])
		for range 2 {
			l.Free()
			synctest.Wait()
		}
		require.Equal(t, "a2 b1", log.list())
		for range 98 {
			l.Free()
		}
		synctest.Wait()
		l.Free()
	})
}

// A closed lane grants no slot, and a lane that opens grants no more than its limit.
func TestLaneOpensAndCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs := laneTrees(t, 5)
		l := NewLane(2)
		var log laneLog
		for i := range 5 {
			log.want(l, fmt.Sprint(i), runs[fmt.Sprint("a", i+1)])
		}
		l.Open()
		synctest.Wait()
		require.Equal(t, 2, l.Used())
		l.Close()
		l.Free()
		synctest.Wait()
		require.Equal(t, 1, l.Used(), "a closed lane grants nothing")
		l.Open()
		for range 4 {
			synctest.Wait()
			l.Free()
		}
		synctest.Wait()
		require.ElementsMatch(t, []string{"0", "1", "2", "3", "4"}, log.got)
		l.Free()
	})
}

// A caller that leaves while it waits holds no slot, at whatever moment it leaves.
func TestLaneWaitersThatGoAway(t *testing.T) {
	runs := laneTrees(t, 50)
	l := NewLane(2)
	l.Open()
	var all sync.WaitGroup
	var mu sync.Mutex
	used, most := 0, 0
	hold := func(by int) {
		mu.Lock()
		defer mu.Unlock()
		used += by
		most = max(most, used)
	}
	for i := range 50 {
		all.Go(func() {
			r := rand.New(rand.NewPCG(uint64(i), 1))
			for range 200 {
				ctx, cancel := context.WithCancel(t.Context())
				go func() {
					for range r.IntN(20) {
						runtime.Gosched()
					}
					cancel()
				}()
				if l.Wait(ctx.Done(), runs[fmt.Sprint("a", i+1)]) {
					hold(1)
					runtime.Gosched()
					hold(-1)
					l.Free()
				}
				<-ctx.Done()
			}
		})
	}
	all.Wait()
	require.LessOrEqual(t, most, 2)
	require.Zero(t, l.Used())
	require.Nil(t, l.ring)
	require.Empty(t, l.queues)
}

// Ten thousand queued runs cost no goroutine.
func TestLaneQueuesWithoutGoroutines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs := laneTrees(t, 3000)
		cfg := &Config{Go: func(func()) bool { return false }}
		o := New(cfg, session.Must(session.MainKey("a")), nil)
		l := NewLane(8)
		o.cfg.Lane = l
		before := runtime.NumGoroutine()
		names := make([]string, 0, len(runs))
		for name := range runs {
			names = append(names, name)
		}
		slices.Sort(names)
		for _, name := range names {
			require.False(t, l.ask(o, runs[name]))
		}
		require.Equal(t, before, runtime.NumGoroutine())
		l.Close()
		require.Zero(t, l.Used())
	})
}

// Turns of top-level sessions take no slot. Before the lane opens they wait like all others.
func TestLaneMainsTakeNoSlot(t *testing.T) {
	runs := laneTrees(t, 1)
	l := NewLane(1)
	granted := make(chan *tree.Run, 3)
	cfg := &Config{Lane: l, Go: func(func()) bool { return true }}
	o := New(cfg, session.Must(session.MainKey("a")), nil)
	require.False(t, l.ask(o, runs["a"]))
	l.Open()
	o.mu.Lock()
	for _, c := range o.queue {
		granted <- c.slot
	}
	o.mu.Unlock()
	require.Same(t, runs["a"], <-granted)
	require.Zero(t, l.Used())
	require.True(t, l.ask(o, runs["a"]))
	require.True(t, l.ask(o, runs["a1"]))
	require.Equal(t, 1, l.Used())
	require.True(t, l.ask(o, runs["b"]))
	require.False(t, l.Wait(closed(), runs["b1"]))
}

func closed() <-chan struct{} {
	done := make(chan struct{})
	time.AfterFunc(time.Millisecond, func() { close(done) })
	return done
}
