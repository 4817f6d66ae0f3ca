package natsstore_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session/natsstore"
)

// A costs is what a server was asked for, and what it has written.
type costs struct {
	requests  int64
	log, docs uint64 // messages of these streams
	at        time.Time
}

// costsOf returns what a server was asked for so far, and what it has written under a name.
func costsOf(t *testing.T, s *server.Server, js jetstream.JetStream, name string) (c costs) {
	t.Helper()
	for kind, last := range map[string]*uint64{"log": &c.log, "docs": &c.docs} {
		stream, err := js.Stream(t.Context(), name+"_"+kind)
		require.NoError(t, err)
		*last = stream.CachedInfo().State.LastSeq
	}
	v, err := s.Varz(nil)
	require.NoError(t, err)
	c.requests, c.at = v.InMsgs, time.Now()
	return c
}

// TestCostOfTrees has trees that a process has and that are due, and ten times as many that are at
// rest, of which it has had half. While two processes serve, look for orphans and take part in a
// lane, the server is asked as often as without the trees, and writes one message a beat.
// OFFSHOOT_LOAD has 10,000 such trees, and 100,000 at rest.
func TestCostOfTrees(t *testing.T) {
	const lease = 3 * time.Second
	live := 100
	if os.Getenv("OFFSHOOT_LOAD") != "" {
		live = 10_000
	}
	s := ownServer(t, nil)
	o := natsstore.Options{Name: "cost", Lease: lease, TrustSync: true}
	var stores []*session.Store
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	for _, o.Process = range []string{"a", "b"} {
		store := open(t, s, o)
		stores = append(stores, store)
		store.Owners.Lane("l", 1, session.LaneUser{})
		wg.Go(func() { assert.NoError(t, store.Owners.Serve(ctx, session.Member{})) })
		wg.Go(func() {
			for root, err := range store.Owners.Orphans(ctx) {
				assert.ErrorIs(t, err, context.Canceled, "%q", root)
			}
		})
	}
	js := jetStream(t, s.ClientURL())
	measure := func(trees string) (rate float64) {
		time.Sleep(lease) // until both have seen what there is
		before := costsOf(t, s, js, o.Name)
		time.Sleep(2 * lease)
		after := costsOf(t, s, js, o.Name)
		took := after.at.Sub(before.at)
		rate = float64(after.requests-before.requests) / took.Seconds()
		beats := int(after.docs - before.docs) //nolint:gosec // few
		t.Logf("%s: %.1f requests and %.2f messages written a second", trees, rate,
			float64(beats)/took.Seconds())
		assert.Equal(t, before.log, after.log)
		assert.Positive(t, beats)
		assert.LessOrEqual(t, beats, 2*(int(took/(lease/3))+2), "one message a beat")
		return rate
	}
	without := measure("no trees")
	makeTrees(t, stores[0], live, 10*live)
	with := measure(fmt.Sprintf("%d trees that are due, %d at rest", live, 10*live))
	// A machine that has become busy asks less often.
	assert.LessOrEqual(t, with, 1.25*without, "trees cost nothing")
}

// makeTrees makes trees that are due and that the process of a Store has, and others at rest, of
// which that process has had half.
func makeTrees(t *testing.T, store *session.Store, live, idle int) {
	t.Helper()
	makeOne := func(i int) error {
		root := session.Must(session.NamedKey("main", fmt.Sprint("t", i)))
		b := session.Batch{ID: "b", Entries: []session.Entry{{Payload: session.Raw("1")}}}
		var c session.Claim
		var err error
		claims := i < live+idle/2
		if claims {
			err = patiently(func() (err error) {
				c, err = store.Owners.Claim(t.Context(), root)
				return err
			})
		}
		if i < live {
			b.Due = time.Unix(1, 0)
		}
		if err == nil {
			_, err = store.Journal.Append(t.Context(), root, 0, b)
		}
		if err == nil && claims && i >= live {
			err = patiently(func() error { return store.Owners.Release(t.Context(), c) })
		}
		return err
	}
	const writers = 8
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := w; i < live+idle; i += writers {
				if !assert.NoError(t, makeOne(i)) {
					return
				}
			}
		})
	}
	wg.Wait()
}

// patiently calls f until a server that is busy answers in time.
func patiently(f func() error) (err error) {
	for range 20 {
		if err = f(); !errors.Is(err, natsstore.ErrTimeout) {
			break
		}
	}
	return err
}
