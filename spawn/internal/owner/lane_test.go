package owner

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/internal/spare"
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
			cmd := &tree.Spawn{Parent: root, ID: child, Task: "x"}
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
	t := &ticket{wait: make(chan struct{}), run: r}
	l.of(r).queue.push(r, t)
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
		l := NewLane(1, 1)
		var log laneLog
		for _, name := range []string{"a1", "a2", "a3", "a4", "b1", "b2", "c1"} {
			log.want(l, name, runs[name])
		}
		require.Zero(t, l.Used(), "a lane that is not open grants nothing")
		l.Open()
		for range 6 {
			synctest.Wait()
			l.Free(runs["a1"])
		}
		synctest.Wait()
		require.Equal(t, "a1 b1 c1 a2 b2 a3 a4", log.list())
		require.Equal(t, 1, l.Used())
		l.Free(runs["a1"])
		require.Zero(t, l.Used())
	})
}

// A requester that comes later waits for one round, not for the whole queue of another.
func TestLaneDoesNotStarve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs := laneTrees(t, 100)
		l := NewLane(1, 1)
		l.Open()
		var log laneLog
		require.True(t, l.Wait(nil, runs["a1"]))
		for i := range 99 {
			log.want(l, fmt.Sprint("a", i+2), runs[fmt.Sprint("a", i+2)])
		}
		log.want(l, "b1", runs["b1"])
		for range 2 {
			l.Free(runs["a1"])
			synctest.Wait()
		}
		require.Equal(t, "a2 b1", log.list())
		for range 98 {
			l.Free(runs["a1"])
		}
		synctest.Wait()
		l.Free(runs["a1"])
	})
}

// A lane that opens grants no more than its limit. A closed lane starts no turn; a turn under way
// gets its slot back after a wait.
func TestLaneOpensAndCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs := laneTrees(t, 6)
		l := NewLane(2, 1)
		starts := newLaneOwner(l, "a")
		for i := range 4 {
			require.False(t, l.ask(starts.owner, runs[fmt.Sprint("a", i+1)]))
		}
		l.Open()
		require.Equal(t, []*tree.Run{runs["a1"], runs["a2"]}, starts.granted())
		require.Equal(t, 2, l.Used())
		var log laneLog
		log.want(l, "a5", runs["a5"])
		l.Close()
		l.Free(runs["a1"])
		synctest.Wait()
		require.Equal(t, "a5", log.list())
		require.Empty(t, starts.granted())
		require.Equal(t, 2, l.Used())
		l.Free(runs["a2"])
		require.False(t, l.ask(starts.owner, runs["a6"]), "there is a slot, but not for a start")
		require.True(t, l.Wait(nil, runs["a6"]))
		l.Free(runs["a5"])
		l.Free(runs["a6"])
		require.Zero(t, l.Used())
	})
}

// The memory of a ticket that was granted is that of a later one, which has nothing of it. That of
// a caller of Wait is the caller's.
func TestLaneReusesTickets(t *testing.T) {
	runs := laneTrees(t, 3*spare.Max)
	l := NewLane(1, 1)
	l.Open()
	o := newLaneOwner(l, "a")
	require.True(t, l.ask(o.owner, runs["a1"]))
	for n := range 2 * spare.Max {
		require.False(t, l.ask(o.owner, runs[fmt.Sprint("a", n+2)]))
	}
	held := runs["a1"]
	for n := range 2 * spare.Max {
		l.Free(held)
		held = runs[fmt.Sprint("a", n+2)]
		require.Equal(t, []*tree.Run{held}, o.granted(), "each is told of its own slot")
	}
	kept := slices.Collect(l.spare.All)
	require.Len(t, kept, spare.Max)
	for _, x := range kept {
		require.Equal(t, ticket{}, *x, "it keeps no tree")
	}
	l.spare = spare.List[ticket]{}
	granted := make(chan struct{})
	mine := &ticket{run: runs["b1"], wait: granted}
	l.subagents.queue.push(runs["b1"], mine)
	l.Free(held)
	<-granted
	require.True(t, mine.granted)
	require.Empty(t, slices.Collect(l.spare.All), "the ticket is the caller's")
}

// laneOwner is an owner that notes the slots that it is granted.
type laneOwner struct{ owner *Owner }

func newLaneOwner(l *Lane, name string) laneOwner {
	cfg := &Config{Lane: l, Go: func(func(Goroutine)) bool { return true }}
	return laneOwner{New(cfg, session.Must(session.MainKey(name)), nil)}
}

// granted returns what the owner was granted since the last call.
func (o laneOwner) granted() (list []*tree.Run) {
	o.owner.mu.Lock()
	defer o.owner.mu.Unlock()
	for _, c := range o.owner.queue {
		list = append(list, c.slot)
	}
	o.owner.queue = nil
	return list
}

// R13: turns of top-level sessions have slots of their own. People come before completions, in the
// order in which they wrote; a tree has one place; a turn that goes on after a wait comes first.
func TestLaneOfSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opt := &tree.Options{Rules: &policy.Rules{}}
		l := NewLane(1, 1)
		var order []string
		owners, roots := map[string]laneOwner{}, map[string]*tree.Run{}
		chat := func(name, text string) {
			tr := tree.New(session.Must(session.MainKey(name)), opt)
			_, err := tr.Decide(&tree.Open{Writer: "w", SessionID: "s"}, 1)
			require.NoError(t, err)
			roots[name] = tr.Root()
			if _, ok := owners[name]; !ok {
				owners[name] = newLaneOwner(l, name)
			}
			if text != "" {
				_, err = tr.Decide(&tree.Post{To: tr.Root().Key(), Text: tree.Text(text)}, 1)
				require.NoError(t, err)
			}
			require.False(t, l.ask(owners[name].owner, tr.Root()))
		}
		served := func() {
			for _, name := range slices.Sorted(maps.Keys(owners)) {
				for range owners[name].granted() {
					order = append(order, name)
				}
			}
		}
		chat("done1", "")
		chat("early", "hello")
		chat("done2", "")
		chat("late", "hello")
		chat("late", "I said hello") // the tree was lost and read again
		chat("done1", "people write")
		l.Open()
		served()
		var log laneLog
		log.want(l, "early goes on", roots["early"])
		for range 4 {
			l.Free(roots["early"])
			synctest.Wait()
			served()
		}
		require.Equal(t, "early goes on", log.list())
		require.Equal(t, []string{"early", "late", "done1", "done2"}, order)
		require.Equal(t, 1, l.Used())
		l.Free(roots["early"])
		require.Zero(t, l.Used())
		require.True(t, l.ask(owners["late"].owner, roots["late"]))
		require.True(t, l.Wait(nil, laneTrees(t, 1)["a1"]), "the other half has slots of its own")
	})
}

// A caller that leaves while it waits holds no slot, at whatever moment it leaves.
func TestLaneWaitersThatGoAway(t *testing.T) {
	runs := laneTrees(t, 50)
	l := NewLane(2, 1)
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
					l.Free(runs["a1"])
				}
				<-ctx.Done()
			}
		})
	}
	all.Wait()
	require.LessOrEqual(t, most, 2)
	require.Zero(t, l.Used())
	require.Nil(t, l.subagents.queue.pop(func(*ticket) bool { return true }))
}

// Ten thousand queued runs cost no goroutine.
func TestLaneQueuesWithoutGoroutines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs := laneTrees(t, 3000)
		cfg := &Config{Go: func(func(Goroutine)) bool { return false }}
		o := New(cfg, session.Must(session.MainKey("a")), nil)
		l := NewLane(8, 1)
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
