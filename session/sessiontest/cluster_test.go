package sessiontest

import (
	"context"
	"errors"
	"iter"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session"
)

// clusterEngine is the engine in memory, with a clock that is off by a time.
func clusterEngine(off time.Duration) OwnersEngine { return clusterOfLease(3*time.Second, off) }

func clusterOfLease(lease, off time.Duration) OwnersEngine {
	return OwnersEngine{Lease: lease, Virtual: true, Fresh: func(*testing.T) OwnersFixture {
		c := NewCluster(ClusterOptions{
			Lease: lease,
			Clock: func() time.Time { return time.Now().Add(off) },
		})
		return OwnersFixture{
			Open: func(name string) (*session.Store, error) { return c.Open(name), nil },
			Cut: func(s *session.Store, cut bool) {
				if cut {
					c.Cut(s)
				} else {
					c.Heal(s)
				}
			},
		}
	}}
}

func TestClusterOwners(t *testing.T) { TestOwners(t, clusterEngine(0)) }

// The rules hold with the lease of a real engine, of which some rules wait for several.
func TestClusterOwnersOfALongLease(t *testing.T) {
	TestOwners(t, clusterOfLease(session.DefaultLease, 0))
}

// The rules hold whatever the clock of the engine says, since no process compares it with its own.
// Only when a tree becomes due is a time of the one clock that the other one reads.
func TestClusterOwnersWithClocksThatDiffer(t *testing.T) {
	for _, off := range []time.Duration{40 * time.Second, -40 * time.Second, 1000 * time.Hour} {
		for _, r := range ownersRules {
			if r.name == "orphans" && off != 40*time.Second {
				continue
			}
			assert.NoError(t, tryOwners(t, r, clusterEngine(off)), "%s, off by %v", r.name, off)
		}
	}
}

// What becomes of a process that serves and cannot reach its engine for a time.
func TestOutagesOfOneProcess(t *testing.T) {
	for _, test := range []struct {
		outage   time.Duration
		refused  bool // another process is refused the tree during the outage
		attempts int  // of the request that was under way, in the end
	}{
		{time.Second, true, 1},
		{19 * time.Second, true, 1}, // the last beat was at most 10 s before
		{31 * time.Second, false, 2},
		{10 * time.Minute, false, 2},
	} {
		t.Run(test.outage.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				outageOf(t, test.outage, test.refused, test.attempts)
			})
		})
	}
}

// outageOf cuts a process off while it handles a request, and looks after both from another one.
func outageOf(t *testing.T, outage time.Duration, refused bool, attempts int) {
	c, root := NewCluster(ClusterOptions{}), treeKey("one")
	a, b := c.Open("a"), c.Open("b")
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	var mu sync.Mutex
	var handled []int
	var until atomic.Pointer[time.Time] // of the lease of a
	serve := func(s *session.Store, lease func(session.Lease)) {
		wg.Go(func() {
			assert.NoError(t, s.Owners.Serve(ctx, session.Member{
				Lease: lease,
				Handle: func(_ context.Context, r session.Request) []byte {
					mu.Lock()
					handled = append(handled, r.Attempt)
					mu.Unlock()
					time.Sleep(3 * time.Second)
					return []byte(s.Owners.(*member).self.Name)
				},
			}))
		})
	}
	serve(a, func(l session.Lease) { until.Store(&l.Until) })
	serve(b, nil)
	synctest.Wait()
	claim, err := a.Owners.Claim(ctx, root)
	require.NoError(t, err)
	time.Sleep(time.Minute + 9*time.Second)
	require.True(t, until.Load().After(time.Now()))
	wg.Go(func() {
		answer, err := b.Owners.Call(ctx, request("1", root))
		for errors.Is(err, session.ErrUnanswered) { // as a caller does that then has the tree
			_, err = b.Owners.Claim(ctx, root)
			assert.NoError(t, err)
			answer, err = b.Owners.Call(ctx, request("1", root))
		}
		assert.NoError(t, err)
		assert.Equal(t, map[int]string{1: "a", 2: "b"}[attempts], string(answer))
	})
	synctest.Wait()
	c.Cut(a)
	time.Sleep(outage)
	_, err = b.Owners.Claim(ctx, root)
	assert.Equal(t, refused, errors.Is(err, session.ErrOwned), "%v", err)
	assert.Equal(t, !refused, until.Load().Before(time.Now()), "a knows that it has lapsed")
	c.Heal(a)
	time.Sleep(10 * time.Second)
	now, err := a.Owners.Claim(ctx, root)
	if refused {
		assert.NoError(t, err)
		assert.Equal(t, claim, now)
	} else {
		assert.ErrorIs(t, err, session.ErrOwned)
	}
	cancel()
	wg.Wait()
	assert.Len(t, handled, attempts)
}

// The calls of a process that is cut off fail after a while, and change nothing.
func TestStoreOfAProcessThatIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, root := NewCluster(ClusterOptions{}), treeKey("one")
		a, b := c.Open("a"), c.Open("b")
		batch := session.Batch{Entries: []session.Entry{{Payload: session.Raw("1")}}}
		ref := session.Ref{Key: root, SessionID: "s"}
		calls := map[string]func(s *session.Store) error{
			"Append": func(s *session.Store) error {
				_, err := s.Journal.Append(t.Context(), root, 0, batch)
				return err
			},
			"Read": func(s *session.Store) error {
				return lastError(s.Journal.Read(t.Context(), root, 0))
			},
			"Roots": func(s *session.Store) error {
				return lastError(s.Journal.Roots(t.Context(), session.RootQuery{}))
			},
			"Transcripts.Append": func(s *session.Store) error {
				_, err := s.Transcripts.Append(t.Context(), ref, 0)
				return err
			},
			"Transcripts.Read": func(s *session.Store) error {
				return lastError(s.Transcripts.Read(t.Context(), ref, session.LineQuery{}))
			},
			"Files.List": func(s *session.Store) error { return lastError(s.Files.List(t.Context(), ref)) },
			"Claim": func(s *session.Store) error {
				_, err := s.Owners.Claim(t.Context(), root)
				return err
			},
			"Call": func(s *session.Store) error {
				_, err := s.Owners.Call(t.Context(), request("1", root))
				return err
			},
		}
		c.Cut(a)
		for name, call := range calls {
			begun := time.Now()
			assert.ErrorIs(t, call(a), ErrUnreachable, name)
			assert.Equal(t, 15*time.Second, time.Since(begun), name)
		}
		assert.NoError(t, calls["Append"](b), "the append of a was not made")
		healed := time.Now().Add(5 * time.Second)
		time.AfterFunc(5*time.Second, func() { c.Heal(a) })
		assert.NoError(t, calls["Read"](a))
		assert.Equal(t, healed, time.Now())
		require.NoError(t, a.Close())
		assert.ErrorIs(t, calls["Read"](a), session.ErrClosed)
		assert.NoError(t, calls["Read"](b))
		assert.Panics(t, func() { c.Cut(session.NewMemory()) })
	})
}

// lastError returns the error that a sequence ends with.
func lastError[E any](seq iter.Seq2[E, error]) (last error) {
	for _, err := range seq {
		last = err
	}
	return last
}
