package pgstore_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/internal/enginetest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestKilledMember(t *testing.T) {
	t.Parallel()
	engine.TestKilledMember(t, ownServer(t).place())
}

func TestStoppedMember(t *testing.T) {
	t.Parallel()
	engine.TestStoppedMember(t, ownServer(t).place())
}

// TestServerKilledUnderMembers kills the server with all its processes: what was acknowledged is
// there after the restart, and so is each claim, unless another process has taken it.
func TestServerKilledUnderMembers(t *testing.T) {
	t.Parallel()
	s, schema := ownServer(t), freshSchema()
	o := memberOptions(schema, "a", engine.Lease)
	o.Timeout = 3 * time.Second
	a, network, err := s.openCut(t.Context(), o, false)
	require.NoError(t, err)
	t.Cleanup(func() { _ = a.Close() })
	o.Process = "b"
	b := s.open(t, o)
	var taken atomic.Pointer[session.Claim]
	var handled atomic.Int32
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for _, store := range []*session.Store{a, b} {
		wg.Go(func() {
			assert.NoError(t, store.Owners.Serve(ctx, session.Member{
				Handle: func(context.Context, session.Request) []byte {
					return fmt.Append(nil, handled.Add(1))
				},
				Lease: func(l session.Lease) {
					for _, c := range l.Taken {
						taken.Store(&c)
					}
				},
			}))
		})
	}
	defer wg.Wait()
	defer cancel()
	claim, err := engine.Claim(ctx, a, root)
	require.NoError(t, err)
	granted := make(chan string, 10)
	la := a.Owners.Lane("l", 1, session.LaneUser{Granted: func(id string) { granted <- "a" + id }})
	lb := b.Owners.Lane("l", 1, session.LaneUser{Granted: func(id string) { granted <- "b" + id }})
	require.NoError(t, la.Ask(session.Ticket{ID: "1"}))
	require.Equal(t, "a1", <-granted)
	var last session.Seq
	for round := range enginetest.Rounds(2, 10) {
		id := fmt.Sprint("request ", round)
		call := func() string {
			answer, err := b.Owners.Call(ctx, session.Request{ID: id, Root: root})
			require.NoError(t, err)
			return string(answer)
		}
		answer := call()
		last = appendUntilAdded(t, a, last, entries(fmt.Sprint(round), 1))
		s.killAll()
		// The second time the lease lapses.
		time.Sleep(time.Duration(round%2) * (engine.Lease + time.Second))
		require.NoError(t, s.Start())
		require.Eventually(t, func() bool { return a.Health(ctx) == nil && b.Health(ctx) == nil },
			time.Minute, 10*time.Millisecond)
		time.Sleep(time.Second) // for a beat
		again, err := engine.Claim(ctx, a, root)
		require.NoError(t, err)
		assert.Equal(t, claim, again)
		assert.Equal(t, answer, call(), "the request is known")
		assert.EqualValues(t, round+1, handled.Load())
		_, err = engine.Claim(ctx, b, root)
		require.ErrorIs(t, err, session.ErrOwned)
		assert.Equal(t, last, enginetest.EndOf(ctx, b, root))
	}
	assert.Nil(t, taken.Load())
	require.NoError(t, lb.Ask(session.Ticket{ID: "2"}))
	time.Sleep(time.Second)
	assert.Empty(t, granted, "a has the slot")

	// Now a does not see the server again before b has its tree.
	network.SetCut(true)
	s.Kill()
	require.NoError(t, s.Start())
	require.Eventually(t, func() bool {
		_, err := engine.Claim(ctx, b, root)
		return err == nil
	}, time.Minute, 50*time.Millisecond)
	assert.Equal(t, "b2", <-granted)
	network.SetCut(false)
	require.Eventually(t, func() bool { return taken.Load() != nil },
		time.Minute, 10*time.Millisecond)
	assert.Equal(t, claim, *taken.Load())
	_, err = a.Journal.Append(ctx, root, last, entries("late", 1))
	require.ErrorIs(t, err, session.ErrConflict)
}
