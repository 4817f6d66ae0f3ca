package pgstore_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session/pgstore"
)

// A told is what the processes of a bot have done together.
type told struct {
	mu      sync.Mutex
	began   map[string]int             // turns, by task
	results map[string]map[string]bool // the keys of deliveries, by what they say
	by      map[string]int             // turns, by process
}

// open opens a Runtime of the bot. Each of its sub-agents works for a moment.
func (d *told) open(t *testing.T, name string, store *session.Store) *agent.Runtime {
	rt, err := agent.Open(t.Context(), agent.Config{
		Store: store, Grace: time.Second,
		Runner: agent.RunnerFunc(func(ctx context.Context, turn *agent.Turn) (agent.Result, error) {
			_, task, _ := strings.Cut(turn.Messages[0].Text, "[Subagent Task]: ")
			d.mu.Lock()
			d.began[task]++
			d.by[name]++
			d.mu.Unlock()
			select {
			case <-time.After(2 * time.Second):
			case <-ctx.Done():
			}
			return agent.Result{Text: "did " + task}, ctx.Err()
		}),
		Deliver: func(_ context.Context, delivery agent.Delivery) error {
			d.mu.Lock()
			defer d.mu.Unlock()
			run := delivery.Completion.Run
			if d.results[run.Task] == nil {
				d.results[run.Task] = map[string]bool{}
			}
			d.results[run.Task][delivery.Key] = true
			return nil
		},
	})
	require.NoError(t, err)
	return rt
}

// Two Runtimes on one schema: each is asked for the trees of both, and one is cut off for good. The
// other one goes on with its trees, every run begins once, and each of them ends once, under one
// key.
func TestTwoRuntimes(t *testing.T) {
	s := theServer(t)
	o := pgstore.Options{
		Schema: freshSchema(), TrustSync: true, Lease: 3 * time.Second, Timeout: 2 * time.Second,
	}
	t.Cleanup(func() { s.query(t, `drop schema if exists `+o.Schema+` cascade`) })
	d := &told{
		began: map[string]int{}, by: map[string]int{}, results: map[string]map[string]bool{},
	}
	var both []*agent.Runtime
	var networks []*network
	var ended []chan error
	for _, name := range []string{"a", "b"} {
		o.Process = name
		store, n, err := s.openCut(t.Context(), o, false)
		require.NoError(t, err)
		t.Cleanup(func() { _ = store.Close() })
		rt, done := d.open(t, name, store), make(chan error, 1)
		go func() {
			defer close(done)
			done <- rt.Run(t.Context())
		}()
		t.Cleanup(func() {
			for range done {
			}
		})
		both, networks, ended = append(both, rt), append(networks, n), append(ended, done)
	}
	want := map[string]int{}
	ask := func(rt *agent.Runtime, chat int, task string) {
		key := session.Must(session.DirectKey("main", "term", fmt.Sprint(chat)))
		_, err := rt.Session(key).Spawn(t.Context(), agent.Task{Text: task, Announce: true})
		require.NoError(t, err, task)
		want[task] = 1
	}
	for i := range 4 { // each chat is asked of one process, and then of the one that has it not
		ask(both[i%2], i, fmt.Sprintf("task %d", i))
		ask(both[(i+1)%2], i, fmt.Sprintf("other %d", i))
	}
	networks[0].setCut(true)
	for i := range 4 {
		ask(both[1], i, fmt.Sprintf("late %d", i))
	}
	require.Eventually(t, func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		return len(d.results) == len(want)
	}, time.Minute, 20*time.Millisecond, "%v", &d.results)
	require.NoError(t, both[1].Shutdown(t.Context()))
	require.NoError(t, <-ended[1])
	d.mu.Lock()
	defer d.mu.Unlock()
	for task, n := range d.began {
		assert.Equal(t, 1, n, "%q began once", task)
	}
	for task := range want {
		assert.Len(t, d.results[task], 1, "%q came under one key", task)
	}
	assert.NotZero(t, d.by["a"])
	assert.NotZero(t, d.by["b"])
}
