package pgstore_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/internal/enginetest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session/pgstore"
)

// openCut opens the Store of a process whose network can be cut.
func (s *server) openCut(
	ctx context.Context, o pgstore.Options, hangs bool,
) (*session.Store, *enginetest.Network, error) {
	n := enginetest.NewNetwork(hangs)
	config, err := pgxpool.ParseConfig(s.DSN())
	if err != nil {
		return nil, nil, err
	}
	config.ConnConfig.DialFunc = n.DialContext
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, nil, err
	}
	store, err := pgstore.OpenPool(ctx, pool, o)
	if err != nil {
		pool.Close()
		return nil, nil, err
	}
	return enginetest.CloseWith(store, pool.Close), n, nil
}

// cutOpener returns what opens the Stores of processes, which hang or fail while they are cut off.
func (s *server) cutOpener(t *testing.T, o pgstore.Options, hangs bool) enginetest.OpenCutFunc {
	o.Schema, o.TrustSync = s.schema(t), true
	return func(process string) (*session.Store, *enginetest.Network, error) {
		o := o
		o.Process = process
		return s.openCut(t.Context(), o, hangs)
	}
}

func testOwners(t *testing.T, hangs bool) {
	t.Parallel()
	s := theServer(t)
	o := pgstore.Options{Lease: 3 * time.Second}
	enginetest.TestOwners(t, o.Lease, func(t *testing.T) enginetest.OpenCutFunc {
		return s.cutOpener(t, o, hangs)
	})
}

func TestOwnersPassKit(t *testing.T) { testOwners(t, false) }

// TestOwnersThatHangPassKit cuts processes off by a network that says nothing any more.
func TestOwnersThatHangPassKit(t *testing.T) { testOwners(t, true) }

// What carries a body may take Options.Timeout, however short the lease is: a Call outlasts a
// network that hangs for longer than a beat may take. A Claim, which has none, does not.
func TestCallHasTheWholeTimeout(t *testing.T) {
	t.Parallel()
	s := theServer(t)
	o := pgstore.Options{
		Schema: s.schema(t), TrustSync: true, Process: "a", Lease: 3 * time.Second,
	}
	store, n, err := s.openCut(t.Context(), o, true)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var serving sync.WaitGroup
	serving.Go(func() {
		assert.NoError(t, store.Owners.Serve(ctx, session.Member{
			Handle: func(_ context.Context, r session.Request) []byte { return r.Body },
		}))
	})
	defer func() {
		cancel()
		serving.Wait()
		assert.NoError(t, store.Close())
	}()
	root := session.Must(session.MainKey("main"))
	_, err = store.Owners.Claim(ctx, root)
	require.NoError(t, err)
	n.SetCut(true)
	serving.Go(func() {
		_, err := store.Owners.Claim(ctx, root)
		assert.ErrorIs(t, err, pgstore.ErrTimeout)
		time.AfterFunc(time.Second, func() { n.SetCut(false) })
	})
	answer, err := store.Owners.Call(ctx, session.Request{ID: "1", Root: root, Body: []byte("x")})
	require.NoError(t, err)
	require.Equal(t, "x", string(answer))
}
