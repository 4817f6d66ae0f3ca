package pgstore_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session/pgstore"
)

// TestServerKilledUnderABot kills the server again and again under a Runtime whose sub-agents work,
// and restarts it: no run is interrupted by that, each begins once and ends once, and each result
// comes under one key.
func TestServerKilledUnderABot(t *testing.T) {
	s, schema := ownServer(t), freshSchema()
	store := s.open(t, pgstore.Options{Schema: schema, Timeout: 2 * time.Second})
	var mu sync.Mutex
	began, results := map[string]int{}, map[string]map[string]bool{}
	rt, err := agent.Open(t.Context(), agent.Config{
		Store: store,
		Runner: agent.RunnerFunc(func(ctx context.Context, turn *agent.Turn) (agent.Result, error) {
			_, task, _ := strings.Cut(turn.Messages[0].Text, "[Subagent Task]: ")
			mu.Lock()
			began[task]++
			mu.Unlock()
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
			}
			return agent.Result{Text: "did " + task}, ctx.Err()
		}),
		Deliver: func(_ context.Context, d agent.Delivery) error {
			mu.Lock()
			defer mu.Unlock()
			run := d.Completion.Run
			text := run.Status.String() + ": " + run.Result.Text + run.Error
			if results[text] == nil {
				results[text] = map[string]bool{}
			}
			results[text][d.Key] = true
			return nil
		},
	})
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() { ended <- rt.Run(t.Context()) }()
	const requesters = 4
	want := map[string]int{}
	for round := range rounds(2, 20) {
		for i := range requesters {
			chat := rt.Session(session.Must(session.DirectKey("main", "term", fmt.Sprint(i))))
			task := fmt.Sprintf("task %d of %d", round, i)
			_, err := chat.Spawn(t.Context(), agent.Task{Text: task, Announce: true})
			require.NoError(t, err)
			want[task] = 1
		}
		time.Sleep(time.Duration(100+300*(round%4)) * time.Millisecond)
		for _, pid := range s.PIDs() {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		<-s.Exited()
		time.Sleep(500 * time.Millisecond)
		require.NoError(t, s.Start())
		require.Eventually(t, func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(results) == len(want)
		}, time.Minute, 20*time.Millisecond, "round %d: %v %v", round, &results, &began)
	}
	require.NoError(t, rt.Shutdown(t.Context()))
	require.NoError(t, <-ended)
	assert.Equal(t, want, began, "each run began once")
	for task := range want {
		keys := results[spawn.StatusOK.String()+": did "+task]
		assert.Len(t, keys, 1, "%q came under one key", task)
	}
	assert.Len(t, results, len(want), "%v", results)
}
