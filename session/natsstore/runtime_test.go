package natsstore_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session/natsstore"
)

// A bot is what the Runtimes of a bot have done together. Its sub-agents work for a moment.
type bot struct {
	t     *testing.T
	works time.Duration

	mu      sync.Mutex
	began   map[string]int             // turns, by task
	results map[string]map[string]bool // the keys of deliveries, by how a run has ended
	by      map[string]int             // turns, by process
	want    map[string]int             // the tasks that were asked for, once each
}

func newBot(t *testing.T, works time.Duration) *bot {
	return &bot{
		t: t, works: works, began: map[string]int{}, results: map[string]map[string]bool{},
		by: map[string]int{}, want: map[string]int{},
	}
}

// run opens a Runtime and runs it until stop is called, or to the end of the test.
func (b *bot) run(name string, store *session.Store) (rt *agent.Runtime, stop func()) {
	b.t.Helper()
	rt, err := agent.Open(b.t.Context(), agent.Config{
		Store: store, Grace: time.Second, Deliver: b.deliver,
		Runner: agent.RunnerFunc(func(ctx context.Context, turn *agent.Turn) (agent.Result, error) {
			return b.work(ctx, name, turn)
		}),
	})
	require.NoError(b.t, err)
	ended := make(chan error, 1)
	go func() { ended <- rt.Run(b.t.Context()) }()
	var once sync.Once
	wait := func() (err error) {
		once.Do(func() { err = <-ended })
		return err
	}
	b.t.Cleanup(func() { _ = wait() })
	return rt, func() {
		require.NoError(b.t, rt.Shutdown(b.t.Context()))
		require.NoError(b.t, wait())
	}
}

func (b *bot) work(ctx context.Context, name string, turn *agent.Turn) (agent.Result, error) {
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

func (b *bot) deliver(_ context.Context, d agent.Delivery) error {
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
func (b *bot) ask(rt *agent.Runtime, chat int, task string) {
	b.t.Helper()
	key := session.Must(session.DirectKey("main", "term", fmt.Sprint(chat)))
	_, err := rt.Session(key).Spawn(b.t.Context(), agent.Task{Text: task, Announce: true})
	require.NoError(b.t, err, task)
	b.want[task] = 1
}

// wait waits until all tasks have ended.
func (b *bot) wait() {
	b.t.Helper()
	require.Eventually(b.t, func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return len(b.results) >= len(b.want)
	}, time.Minute, 20*time.Millisecond, "%v", &b.results)
}

// keys returns how many keys the deliveries of a task had that ended in a way.
func (b *bot) keys(task string, status spawn.Status) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for how, keys := range b.results {
		if strings.HasPrefix(how, task+" is "+status.String()) {
			n += len(keys)
		}
	}
	return n
}

// Two Runtimes on one name: each is asked for the trees of both, and one is cut off for good. The
// other one goes on with its trees, every run begins once, and each of them ends once, under one
// key.
func TestTwoRuntimes(t *testing.T) {
	t.Parallel()
	s := theServer(t)
	o := natsstore.Options{
		Name: freshName(t, s), TrustSync: true, Lease: 3 * time.Second, Timeout: 2 * time.Second,
	}
	b := newBot(t, 2*time.Second)
	var both []*agent.Runtime
	var stops []func()
	var networks []*network
	for _, name := range []string{"a", "b"} {
		o.Process = name
		store, n, err := openCut(t.Context(), s, o, false)
		require.NoError(t, err)
		t.Cleanup(func() { _ = store.Close() })
		rt, stop := b.run(name, store)
		both, stops, networks = append(both, rt), append(stops, stop), append(networks, n)
	}
	for i := range 4 { // each chat is asked of one process, and then of the one that has it not
		b.ask(both[i%2], i, fmt.Sprintf("task %d", i))
		b.ask(both[(i+1)%2], i, fmt.Sprintf("other %d", i))
	}
	networks[0].setCut(true)
	for i := range 4 {
		b.ask(both[1], i, fmt.Sprintf("late %d", i))
	}
	b.wait()
	stops[1]()
	b.mu.Lock()
	assert.NotZero(t, b.by["a"])
	assert.NotZero(t, b.by["b"])
	for task, n := range b.began {
		assert.Equal(t, 1, n, "%q began once", task)
	}
	b.mu.Unlock()
	for task := range b.want {
		ends := b.keys(task, spawn.StatusOK) + b.keys(task, spawn.StatusInterrupted)
		assert.Equal(t, 1, ends, "%q ended once, under one key", task)
	}
}

// TestServerKilledUnderABot kills the server again and again under a Runtime whose sub-agents work,
// and restarts it: no run is interrupted by that, each begins once and ends once, and each result
// comes under one key.
func TestServerKilledUnderABot(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	b := newBot(t, time.Second)
	rt, stop := b.run("alone", s.open(t, natsstore.Options{Timeout: 2 * time.Second}))
	for round := range rounds(2, 50) {
		for chat := range 4 {
			b.ask(rt, chat, fmt.Sprintf("task %d of %d", round, chat))
		}
		time.Sleep(time.Duration(100+300*(round%4)) * time.Millisecond)
		s.kill()
		time.Sleep(500 * time.Millisecond)
		s.start()
		b.wait()
	}
	stop()
	assert.Equal(t, b.want, b.began, "each run began once")
	for task := range b.want {
		assert.Equal(t, 1, b.keys(task, spawn.StatusOK), "%q came under one key", task)
	}
	assert.Len(t, b.results, len(b.want), "%v", b.results)
}
