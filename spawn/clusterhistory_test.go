package spawn_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/sessiontest"
	"github.com/offshoot-sdk/offshoot/spawn"
	"github.com/offshoot-sdk/offshoot/spawn/spawntest"
)

// TestClusterHistories has people ask random processes of a cluster for runs, again under the
// same keys, post and stop, while processes are killed, cut off for a while, shut down at once or
// with a drain, and others begin. In the end every journal follows the rules of the audit and has
// nothing left to do, and the world has seen what it says: each run began once, each key names one
// run, each delivery came under one key, and none came from a former owner after its successor's.
//
// OFFSHOOT_FUZZ sets how many histories are played, and OFFSHOOT_SEED which one.
func TestClusterHistories(t *testing.T) {
	first, n := rand.Uint64(), 60 //nolint:gosec // any will do
	if underRace {
		n = 10
	}
	if more, err := strconv.Atoi(os.Getenv("OFFSHOOT_FUZZ")); err == nil && more > 0 {
		n = max(more/10, 1)
	}
	if seed, err := strconv.ParseUint(os.Getenv("OFFSHOOT_SEED"), 10, 64); err == nil {
		first, n = seed, 1
	}
	happened := make(map[string]int)
	for seed := first; seed != first+uint64(n); seed++ {
		ok := t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { playCluster(t, seed, happened) })
		})
		if !ok {
			t.Fatalf("OFFSHOOT_SEED=%d fails", seed)
		}
	}
	t.Logf("%v", happened)
	if n >= 60 {
		for _, what := range []string{
			"spawned", "known", "kill", "cut", "drain", "shutdown", "stop", "other owner", "cancelled",
		} {
			require.Positive(t, happened[what], what)
		}
	}
}

// A clusterHistory is what happens to a fleet, and what its people were told.
type clusterHistory struct {
	*fleet
	r        *rand.Rand
	happened map[string]int
	roots    []session.Key
	people   sync.WaitGroup
	workers  []*worker // those that were neither killed nor shut down
	opened   int

	mu   sync.Mutex
	runs map[string]spawn.RunInfo // by key: what a caller was told of
	cuts map[string][]cut         // by process
}

// A cut is a time for which a process could not reach the engine. It has no end if it was killed.
type cut struct{ from, to time.Time }

// forbids reports whether the process must not act at a time: its lease is over, and it has not
// been heard since.
func (c cut) forbids(at time.Time) bool {
	return at.After(c.from.Add(session.DefaultLease)) && (c.to.IsZero() || at.Before(c.to))
}

// playCluster plays one history.
func playCluster(t *testing.T, seed uint64, happened map[string]int) {
	h := &clusterHistory{
		fleet: newFleet(t, sessiontest.ClusterOptions{}), happened: happened,
		r:     rand.New(rand.NewPCG(seed, 0)), //nolint:gosec // any will do
		roots: []session.Key{topKey, restingKey, longKey}, runs: make(map[string]spawn.RunInfo),
		cuts: make(map[string][]cut),
	}
	h.begin()
	h.begin()
	for range 25 {
		h.act()
		time.Sleep(time.Duration(h.r.Int64N(int64(time.Minute))))
	}
	h.people.Wait()
	for _, w := range h.workers {
		h.heal(w)
	}
	time.Sleep(time.Hour)
	h.check()
}

// begin has another process begin.
func (h *clusterHistory) begin() {
	h.opened++
	h.workers = append(h.workers, h.open(fmt.Sprint("w", h.opened)).run())
}

// outages are for how long a process is cut off: its turns go on, or are lost, or all of it is.
var outages = []time.Duration{time.Second, 19 * time.Second, 31 * time.Second, 11 * time.Minute}

// act does one thing: what people do mostly, and sometimes what becomes of a process.
func (h *clusterHistory) act() {
	i := h.r.IntN(len(h.workers))
	w, root, n := h.workers[i], h.roots[h.r.IntN(len(h.roots))], h.r.IntN(12)
	d := outages[h.r.IntN(len(outages))]
	switch x := h.r.IntN(16); {
	case x < 6:
		h.ask(func(ctx context.Context) { h.spawn(ctx, w, root, n) })
	case x < 8:
		h.ask(func(ctx context.Context) {
			_, _ = w.Post(ctx, root, root, spawn.Incoming{Text: "hello", ID: fmt.Sprint("m", n)})
		})
	case x < 9:
		h.count("stop")
		h.ask(func(ctx context.Context) { h.stop(ctx, w, n) })
	case x < 10 && n < 3:
		h.ask(func(ctx context.Context) { _ = w.CancelTurn(ctx, root, root) })
	case x < 13:
		h.count("cut")
		h.cut(w, false)
		time.AfterFunc(d, func() { h.heal(w) })
	case x < 14:
		h.count("kill")
		h.cut(w, true)
		h.replace(i)
	default:
		what := []string{"drain", "shutdown"}[n%2]
		h.count(what)
		h.ask(func(ctx context.Context) {
			ctx, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			if what == "shutdown" {
				cancel()
			}
			_ = w.Shutdown(ctx)
		})
		h.replace(i)
	}
}

// replace has another process take the place of the i-th one.
func (h *clusterHistory) replace(i int) {
	h.workers = append(h.workers[:i:i], h.workers[i+1:]...)
	h.begin()
}

// cut cuts a process off, for good if it is killed.
func (h *clusterHistory) cut(w *worker, killed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	w.killed = w.killed || killed
	h.engine.Cut(w.store)
	if list := h.cuts[w.name]; len(list) == 0 || !list[len(list)-1].to.IsZero() {
		h.cuts[w.name] = append(list, cut{from: time.Now()})
	}
}

// heal ends the cut of a process, unless it was killed.
func (h *clusterHistory) heal(w *worker) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if list := h.cuts[w.name]; !w.killed && len(list) > 0 && list[len(list)-1].to.IsZero() {
		list[len(list)-1].to = time.Now()
		h.engine.Heal(w.store)
	}
}

// count counts what has happened.
func (h *clusterHistory) count(what string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.happened[what]++
}

// ask has a person do something, who does not wait for longer than five minutes.
func (h *clusterHistory) ask(f func(ctx context.Context)) {
	h.people.Go(func() {
		ctx, cancel := context.WithTimeout(h.t.Context(), 5*time.Minute)
		defer cancel()
		f(ctx)
	})
}

// spawn asks for the n-th run of a tree, which has one key.
func (h *clusterHistory) spawn(ctx context.Context, w *worker, root session.Key, n int) {
	key := fmt.Sprint(root, " ", n)
	run, err := w.Spawn(ctx, root, root, spawn.Request{Task: key, Key: key, Announce: true})
	if err != nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	known, ok := h.runs[key]
	if ok {
		h.happened["known"]++
		require.Equal(h.t, known.Key, run.Key, "%s names one run", key)
	}
	h.happened["spawned"]++
	h.runs[key] = run
}

// stop stops a run that a caller was told of.
func (h *clusterHistory) stop(ctx context.Context, w *worker, n int) {
	h.mu.Lock()
	run, ok := h.runs[fmt.Sprint(h.roots[n%len(h.roots)], " ", n)]
	h.mu.Unlock()
	if ok {
		_ = w.Stop(ctx, run.Root, run.Key, "a person asked")
	}
}

// check compares what the journals say with what has happened.
func (h *clusterHistory) check() {
	t, last := h.t, h.workers[len(h.workers)-1]
	for key, run := range h.runs {
		info, err := last.Find(t.Context(), run.Root, run.Ref())
		require.NoError(t, err, key)
		require.True(t, info.Status.Terminal(), "%s is %v", key, info.Status)
	}
	newest, keys := make(map[session.Key]uint64), make(map[session.Key]map[string]bool)
	owners := make(map[session.Key]map[string]bool)
	acts := func(by, what string, at time.Time) {
		for _, c := range h.cuts[by] {
			require.False(t, c.forbids(at), "%s has no lease, and %s at %v: %v", by, what, at, c)
		}
	}
	for _, d := range h.made() {
		acts(d.by, "delivers "+d.key, d.at)
		require.GreaterOrEqual(t, d.epoch, newest[d.to], "a former owner of %s acts no more", d.to)
		newest[d.to] = d.epoch
		if keys[d.to] == nil {
			keys[d.to], owners[d.to] = make(map[string]bool), make(map[string]bool)
		}
		keys[d.to][d.key], owners[d.to][d.by] = true, true
	}
	for _, root := range h.roots {
		if len(owners[root]) > 1 {
			h.happened["other owner"]++
		}
		report, err := spawntest.Inspect(h.entries(root))
		require.NoError(t, err)
		require.NoError(t, report.AtRest())
		require.Len(t, keys[root], report.Delivered, "deliveries of %s", root)
	}
	begun := make(map[string]string)
	h.fleet.mu.Lock()
	defer h.fleet.mu.Unlock()
	for _, ran := range h.ran {
		acts(ran.by, "begins "+ran.task, ran.at)
		if ran.cause != nil {
			h.happened["cancelled"]++
		}
		if strings.HasPrefix(ran.task, "agent:") {
			require.Empty(t, begun[ran.task], "%s began again in %s", ran.task, ran.by)
			begun[ran.task] = ran.by
		}
	}
}
