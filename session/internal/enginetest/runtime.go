package enginetest

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// A tally is what the Runtimes of a bot have done together. Its sub-agents work for a moment.
type tally struct {
	t     *testing.T
	works time.Duration

	mu      sync.Mutex
	began   map[string]int             // turns, by task
	results map[string]map[string]bool // the keys of deliveries, by how a run has ended
	by      map[string]int             // turns, by process
	want    map[string]int             // the tasks that were asked for, once each
}

func newTally(t *testing.T, works time.Duration) *tally {
	return &tally{
		t: t, works: works, began: map[string]int{}, results: map[string]map[string]bool{},
		by: map[string]int{}, want: map[string]int{},
	}
}

// run opens a Runtime and runs it until stop is called, or to the end of the test.
func (b *tally) run(name string, store *session.Store) (rt *agent.Runtime, stop func()) {
	b.t.Helper()
	rt, err := agent.Open(b.t.Context(), agent.Config{
		Store: store, Grace: time.Second, Deliver: b.deliver,
		Runner: agent.RunnerFunc(func(ctx context.Context, turn *agent.Turn) (agent.Result, error) {
			return b.work(ctx, name, turn)
		}),
	})
	must(b.t, "open a Runtime", err)
	ended := make(chan error, 1)
	go func() { ended <- rt.Run(b.t.Context()) }()
	end := sync.OnceValue(func() error { return <-ended })
	b.t.Cleanup(func() { _ = end() })
	return rt, func() {
		must(b.t, "shutdown", rt.Shutdown(b.t.Context()))
		must(b.t, "run", end())
	}
}

func (b *tally) work(ctx context.Context, name string, turn *agent.Turn) (agent.Result, error) {
	_, task, _ := strings.Cut(turn.Messages[0].Text, "[Subagent Task]: ")
	b.mu.Lock()
	b.began[task]++
	b.by[name]++
	b.mu.Unlock()
	select {
	case <-time.After(b.works):
	case <-ctx.Done():
	}
	return agent.Result{Text: "did " + task}, ctx.Err()
}

func (b *tally) deliver(_ context.Context, d agent.Delivery) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	run := d.Completion.Run
	how := run.Task + " is " + run.Status.String() + ": " + run.Result.Text + run.Error
	if b.results[how] == nil {
		b.results[how] = map[string]bool{}
	}
	b.results[how][d.Key] = true
	return nil
}

// ask has a sub-agent of a chat do a task.
func (b *tally) ask(rt *agent.Runtime, chat int, task string) {
	b.t.Helper()
	_, err := rt.Session(ChatKey(chat)).Spawn(b.t.Context(), agent.Task{Text: task, Announce: true})
	must(b.t, task, err)
	b.want[task] = 1
}

// wait waits until all tasks have ended.
func (b *tally) wait() {
	b.t.Helper()
	wait(b.t, "all tasks have ended", func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return len(b.results) >= len(b.want)
	}, &b.results)
}

// keys returns how many keys the deliveries of a task had that ended in a way.
func (b *tally) keys(task string, status spawn.Status) (n int) {
	for how, keys := range b.results {
		if strings.HasPrefix(how, task+" is "+status.String()) {
			n += len(keys)
		}
	}
	return n
}

// ChatKey returns the key of a chat.
func ChatKey(chat int) session.Key {
	return session.Must(session.DirectKey("main", "term", fmt.Sprint(chat)))
}

// TestTwoRuntimes has two Runtimes share a Store: each is asked for the trees of both, and one is
// cut off for good. The other one goes on with its trees, every run begins once, and each of them
// ends once, under one key.
func TestTwoRuntimes(t *testing.T, open OpenCutFunc) {
	t.Helper()
	b := newTally(t, 2*time.Second)
	var both []*agent.Runtime
	var stops []func()
	var networks []*Network
	for _, name := range []string{"a", "b"} {
		store, n, err := open(name)
		must(t, "open", err)
		t.Cleanup(func() { _ = store.Close() })
		rt, stop := b.run(name, store)
		both, stops, networks = append(both, rt), append(stops, stop), append(networks, n)
	}
	for i := range 4 { // each chat is asked of one process, and then of the one that has it not
		b.ask(both[i%2], i, fmt.Sprintf("task %d", i))
		b.ask(both[(i+1)%2], i, fmt.Sprintf("other %d", i))
	}
	networks[0].SetCut(true)
	for i := range 4 {
		b.ask(both[1], i, fmt.Sprintf("late %d", i))
	}
	b.wait()
	stops[1]()
	b.mu.Lock()
	defer b.mu.Unlock()
	check(t, b.by["a"] > 0 && b.by["b"] > 0, "turns by process: %v", b.by)
	for task, n := range b.began {
		check(t, n == 1, "%q began %d times", task, n)
	}
	for task := range b.want {
		ends := b.keys(task, spawn.StatusOK) + b.keys(task, spawn.StatusInterrupted)
		check(t, ends == 1, "%q ended under %d keys", task, ends)
	}
}

// TestServerKilledUnderABot kills the server again and again under a Runtime whose sub-agents work,
// and restarts it: no run is interrupted by that, each begins once and ends once, and each result
// comes under one key.
func TestServerKilledUnderABot(t *testing.T, store *session.Store, rounds int, kill, start func()) {
	t.Helper()
	b := newTally(t, time.Second)
	rt, stop := b.run("alone", store)
	for round := range rounds {
		for chat := range 4 {
			b.ask(rt, chat, fmt.Sprintf("task %d of %d", round, chat))
		}
		pause(time.Duration(100+300*(round%4)) * time.Millisecond)
		kill()
		pause(500 * time.Millisecond)
		start()
		b.wait()
	}
	stop()
	b.mu.Lock()
	defer b.mu.Unlock()
	check(t, maps.Equal(b.want, b.began), "began %v, want each of %v once", b.began, b.want)
	for task := range b.want {
		n := b.keys(task, spawn.StatusOK)
		check(t, n == 1, "%q came under %d keys", task, n)
	}
	check(t, len(b.results) == len(b.want), "results: %v", b.results)
}
