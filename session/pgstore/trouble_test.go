package pgstore_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session/pgstore"
)

// TestTroubleOfLanes takes the table of the lanes away for a time.
func TestTroubleOfLanes(t *testing.T) {
	t.Parallel()
	s := theServer(t)
	at := s.place()
	engine.TestTrouble(t, at,
		func() { s.query(t, "alter table "+at.Name+".lanes rename to away") },
		func() { s.query(t, "alter table "+at.Name+".away rename to lanes") })
}

// TestRowsOfAnotherProgram writes rows by hand that no process writes: each process goes on beside
// them, and none is taken for a lease, a claim or a request.
func TestRowsOfAnotherProgram(t *testing.T) {
	t.Parallel()
	s := theServer(t)
	schema := freshSchema()
	in := func(sql string, args ...any) {
		t.Helper()
		s.query(t, strings.ReplaceAll(sql, "{}", schema), args...)
	}
	store := s.open(t, pgstore.Options{
		Schema: schema, TrustSync: true, Process: "a", Lease: 6 * time.Second,
	})
	claim, err := store.Owners.Claim(t.Context(), root)
	require.NoError(t, err)
	self := int64(claim.Owner.Incarnation) //nolint:gosec // it counts processes
	in("insert into {}.processes values ('x', -5, now() + interval '1 hour')")
	in("insert into {}.taken values ($1, 1, 'no key')", self)
	in("insert into {}.requests (id, root, body, asked) values ('small', $1, 'body', now())",
		root.String())
	in("insert into {}.requests (id, root, body, asked) "+
		"select 'huge', $1, convert_to(repeat('x', $2), 'UTF8'), now()",
		root.String(), session.RequestLimit+1)

	ctx, cancel := context.WithCancel(t.Context())
	var mu sync.Mutex
	var handled []string
	granted := make(chan string, 1)
	leases := make(chan session.Lease, 100)
	var wg sync.WaitGroup
	wg.Go(func() {
		assert.NoError(t, store.Owners.Serve(ctx, session.Member{
			Handle: func(_ context.Context, r session.Request) []byte {
				mu.Lock()
				defer mu.Unlock()
				handled = append(handled, r.ID)
				return nil
			},
			Lease: func(l session.Lease) {
				assert.Empty(t, l.Taken)
				leases <- l
			},
			Trouble: func(work string, err error) { assert.NoError(t, err, work) },
		}))
	})
	lane := store.Owners.Lane("l", 1, session.LaneUser{Granted: func(id string) { granted <- id }})
	<-leases
	require.NoError(t, lane.Ask(session.Ticket{ID: "1"}))
	require.Equal(t, "1", <-granted)
	for range 3 { // a lease; none is told if a beat fails
		<-leases
	}
	cancel()
	wg.Wait()
	assert.Equal(t, []string{"small"}, handled)
}
