package thread

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/sessiontest"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// sharers are two processes of one engine.
type sharers struct {
	engine *sessiontest.Cluster
	stores []*session.Store
	lives  []context.CancelFunc
	all    []*Sharing
}

func newSharers(t *testing.T) *sharers {
	s := &sharers{engine: sessiontest.NewCluster(sessiontest.ClusterOptions{})}
	for _, name := range []string{"a", "b"} {
		life, end := context.WithCancel(t.Context())
		t.Cleanup(end)
		store := s.engine.Open(name)
		s.stores, s.lives = append(s.stores, store), append(s.lives, end)
		s.all = append(s.all, NewSharing(life, store.Owners))
		go func() { _ = store.Owners.Serve(life, session.Member{}) }()
	}
	synctest.Wait()
	return s
}

// place is a conversation.
func place(to string) session.Route { return session.Route{Channel: "c", To: to} }

// The lock of a conversation is held by one caller of all processes. Another conversation has
// another lock. What a caller leaves that waits for it is given back.
func TestLockOfAllProcesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSharers(t)
		unlock, err := s.all[0].Lock(t.Context(), place("1"), nil)
		require.NoError(t, err)
		other, err := s.all[1].Lock(t.Context(), place("2"), nil)
		require.NoError(t, err)
		other()
		for _, of := range s.all { // also the process that has it
			short, cancel := context.WithTimeout(t.Context(), time.Second)
			_, err = of.Lock(short, place("1"), nil)
			cancel()
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}
		got := make(chan func())
		for _, of := range s.all {
			go func() {
				next, err := of.Lock(t.Context(), place("1"), func() { panic("it was held") })
				assert.NoError(t, err)
				got <- next
			}()
		}
		time.Sleep(5 * session.DefaultLease)
		select {
		case <-got:
			require.Fail(t, "two have the lock")
		default:
		}
		unlock()
		unlock()
		(<-got)()
		(<-got)()
		synctest.Wait()
		require.Empty(t, s.all[0].Left(t.Context(), false))
	})
}

// A lock ends with the lease of its process, and the process that had it is told. When life has
// ended there are no locks.
func TestLockThatIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSharers(t)
		var lost atomic.Int32
		unlock, err := s.all[0].Lock(t.Context(), place("1"), func() { lost.Add(1) })
		require.NoError(t, err)
		s.engine.Cut(s.stores[0])
		next, err := s.all[1].Lock(t.Context(), place("1"), nil)
		require.NoError(t, err)
		s.engine.Heal(s.stores[0])
		unlock()
		time.Sleep(time.Second)
		require.EqualValues(t, 1, lost.Load())
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = s.all[0].Lock(short, place("1"), nil)
		require.ErrorIs(t, err, context.DeadlineExceeded, "it is that of the other process still")
		next()
		s.lives[0]()
		_, err = s.all[0].Lock(t.Context(), place("1"), nil)
		require.ErrorIs(t, err, spawn.ErrShutdown)
		again, err := s.all[1].Lock(t.Context(), place("1"), nil)
		require.NoError(t, err)
		again()
		synctest.Wait()
	})
}

// One process is on duty, until it leaves or dies. Each that comes on duty is told once.
func TestDuty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSharers(t)
		a, b := s.all[0], s.all[1]
		require.True(t, a.OnDuty())
		require.False(t, b.OnDuty())
		require.True(t, a.OnDuty())
		require.True(t, a.BeginsDuty())
		require.False(t, a.BeginsDuty())
		require.False(t, b.BeginsDuty())
		a.LeaveDuty()
		synctest.Wait()
		require.True(t, b.OnDuty())
		require.True(t, b.BeginsDuty())
		require.False(t, a.OnDuty())
		s.engine.Cut(s.stores[1])
		time.Sleep(session.DefaultLease)
		require.True(t, a.OnDuty())
		require.True(t, a.BeginsDuty())
		require.False(t, b.OnDuty())
		s.engine.Heal(s.stores[1])
		require.False(t, b.OnDuty())
		require.Less(t, a.Every(true, time.Hour), b.Every(false, time.Hour))
		alone := NewSharing(t.Context(), nil)
		require.True(t, alone.OnDuty())
		require.Equal(t, time.Hour, alone.Every(true, time.Hour))
	})
}
