package spawn_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// R8: owners that retire while others call them lose nothing: a tree has one owner at a time, and
// every message is read once.
func TestOwnersRetireUnderLoad(t *testing.T) {
	const rounds = 300
	var read atomic.Int64
	s := openSupervisor(t, spawn.Config{
		Runner: runnerFunc(
			func(_ context.Context, tn *spawn.TurnInput) (spawn.TurnResult, error) {
				read.Add(int64(len(tn.Inputs)))
				return spawn.TurnResult{}, nil
			},
		),
	})
	var callers sync.WaitGroup
	for i := range 8 {
		callers.Go(func() {
			for j := range rounds {
				root := session.Must(session.NamedKey("main", fmt.Sprint("chat-", j%3)))
				callOnce(t, s, root, i)
			}
		})
	}
	callers.Wait()
	for i := range 3 {
		root := session.Must(session.NamedKey("main", fmt.Sprint("chat-", i)))
		require.NoError(t, s.Idle(t.Context(), root))
	}
	require.EqualValues(t, 2*rounds, read.Load(), "two of the callers post")
}

// callOnce makes the call of the Supervisor that caller i makes.
func callOnce(t *testing.T, s *spawn.Supervisor, root session.Key, i int) {
	var err error
	switch i % 4 {
	case 0:
		_, err = s.Post(t.Context(), root, root, spawn.Incoming{Text: "hello"})
	case 1:
		_, err = s.Runs(t.Context(), root, root, true)
	case 2:
		s.Rest()
	default:
		err = s.Idle(t.Context(), root)
	}
	if err != nil {
		t.Errorf("caller %d: %v", i, err)
	}
}

// R8: a tree that has runs keeps its owner, so that the way from the key of a run to its tree is
// known. It goes when the last run has been archived.
func TestOwnerOfRunsDoesNotRetire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openSupervisor(t, spawn.Config{Runner: instantRunner})
		info, err := s.Spawn(t.Context(), topKey, topKey, spawn.Request{Task: "count"})
		require.NoError(t, err)
		time.Sleep(55 * time.Minute)
		root, err := s.RootOf(t.Context(), info.Key)
		require.NoError(t, err)
		require.Equal(t, topKey, root)
		require.Equal(t, 1, s.Shells())
		time.Sleep(time.Hour)
		require.Zero(t, s.Shells())
		_, err = s.RootOf(t.Context(), info.Key)
		require.ErrorIs(t, err, spawn.ErrNotFound)
	})
}

// What waited for a reply leaves nothing behind, however the wait has ended.
func TestPostAndWaitLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openSupervisor(t, spawn.Config{
			Runner: runnerFunc(
				func(ctx context.Context, tn *spawn.TurnInput) (spawn.TurnResult, error) {
					time.Sleep(time.Minute)
					return spawn.TurnResult{Reply: tn.Inputs[0].Text}, nil
				},
			),
		})
		for i := range 100 {
			root := session.Must(session.NamedKey("main", fmt.Sprint("chat-", i)))
			within := time.Hour
			if i%2 == 0 {
				within = time.Second
			}
			ctx, cancel := context.WithTimeout(t.Context(), within)
			reply, err := s.PostAndWait(ctx, root, root, spawn.Incoming{Text: "hello"})
			cancel()
			require.Equal(t, i%2 == 0, err != nil, "%v", err)
			require.Equal(t, err == nil, reply.Text == "hello")
		}
		time.Sleep(time.Hour)
		s.Rest()
		synctest.Wait()
		require.Zero(t, s.Trees())
	})
}
