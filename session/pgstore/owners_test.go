package pgstore_test

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/sessiontest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session/pgstore"
)

// A network is the way of one process to the server, which can be cut off.
type network struct {
	hangs bool // while it is cut, instead of failing at once
	cut   atomic.Bool
	mu    sync.Mutex
	conns map[*cutConn]bool
}

var errCut = errors.New("the process is cut off")

func (n *network) dial(ctx context.Context, kind, addr string) (net.Conn, error) {
	for n.cut.Load() {
		if !n.hangs {
			return nil, errCut
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
	conn, err := new(net.Dialer).DialContext(ctx, kind, addr)
	if err != nil {
		return nil, err
	}
	c := &cutConn{Conn: conn, n: n}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.conns[c] = true
	return c, nil
}

// setCut cuts the network, or ends that.
func (n *network) setCut(cut bool) {
	n.cut.Store(cut)
	if !cut || n.hangs {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for c := range n.conns {
		_ = c.Conn.Close()
	}
	clear(n.conns)
}

// A cutConn is a connection of a network.
type cutConn struct {
	net.Conn
	n        *network
	closed   atomic.Bool
	deadline atomic.Pointer[time.Time]
}

// pass waits until bytes can pass.
func (c *cutConn) pass() error {
	for c.n.cut.Load() {
		if d := c.deadline.Load(); d != nil && !d.IsZero() && time.Now().After(*d) {
			return os.ErrDeadlineExceeded
		}
		if c.closed.Load() || !c.n.hangs {
			return net.ErrClosed
		}
		time.Sleep(2 * time.Millisecond)
	}
	return nil
}

func (c *cutConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err2 := c.pass(); err2 != nil {
		return 0, err2
	}
	return n, err
}

func (c *cutConn) Write(b []byte) (int, error) {
	if err := c.pass(); err != nil {
		return 0, err
	}
	return c.Conn.Write(b)
}

func (c *cutConn) Close() error {
	c.closed.Store(true)
	return c.Conn.Close()
}

func (c *cutConn) SetDeadline(t time.Time) error {
	c.deadline.Store(&t)
	return c.Conn.SetDeadline(t)
}

// openCut opens the Store of a process whose network can be cut.
func (s *server) openCut(
	ctx context.Context, o pgstore.Options, hangs bool,
) (*session.Store, *network, error) {
	n := &network{hangs: hangs, conns: make(map[*cutConn]bool)}
	config, err := pgxpool.ParseConfig(s.DSN())
	if err != nil {
		return nil, nil, err
	}
	config.ConnConfig.DialFunc = n.dial
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, nil, err
	}
	store, err := pgstore.OpenPool(ctx, pool, o)
	if err != nil {
		pool.Close()
		return nil, nil, err
	}
	store.Files = closing{store.Files, pool}
	return store, n, nil
}

// A closing is a part of a Store that closes the pool of the Store.
type closing struct {
	session.Files
	pool *pgxpool.Pool
}

func (c closing) Close() error {
	err := c.Files.(interface{ Close() error }).Close()
	c.pool.Close()
	return err
}

// engine returns an engine for the kit, whose processes hang or fail while they are cut off.
func engine(
	t *testing.T, lease time.Duration, o pgstore.Options, hangs bool,
) sessiontest.OwnersEngine {
	s := theServer(t)
	fresh := func(t *testing.T) sessiontest.OwnersFixture {
		o := o
		o.Schema, o.TrustSync, o.Lease = freshSchema(), true, lease
		t.Cleanup(func() { s.query(t, `drop schema if exists `+o.Schema+` cascade`) })
		networks := make(map[*session.Store]*network)
		var mu sync.Mutex
		return sessiontest.OwnersFixture{
			Open: func(name string) (*session.Store, error) {
				o := o
				o.Process = name
				store, n, err := s.openCut(t.Context(), o, hangs)
				mu.Lock()
				defer mu.Unlock()
				networks[store] = n
				return store, err
			},
			Cut: func(s *session.Store, cut bool) {
				mu.Lock()
				defer mu.Unlock()
				networks[s].setCut(cut)
			},
		}
	}
	return sessiontest.OwnersEngine{Lease: lease, Fresh: fresh}
}

func TestOwnersPassKit(t *testing.T) {
	t.Parallel() // with the other one: both mostly wait
	sessiontest.TestOwners(t, engine(t, 2*time.Second, pgstore.Options{}, false))
}

// TestOwnersThatHangPassKit cuts processes off by a network that says nothing any more.
func TestOwnersThatHangPassKit(t *testing.T) {
	t.Parallel()
	sessiontest.TestOwners(t, engine(t, 2*time.Second, pgstore.Options{}, true))
}

// What carries a body may take Options.Timeout, however short the lease is: a Call outlasts a
// network that hangs for longer than a beat may take. A Claim, which has none, does not.
func TestCallHasTheWholeTimeout(t *testing.T) {
	s := theServer(t)
	o := pgstore.Options{
		Schema: freshSchema(), TrustSync: true, Process: "a", Lease: 3 * time.Second,
	}
	t.Cleanup(func() { s.query(t, `drop schema if exists `+o.Schema+` cascade`) })
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
	n.setCut(true)
	serving.Go(func() {
		_, err := store.Owners.Claim(ctx, root)
		assert.ErrorIs(t, err, pgstore.ErrTimeout)
		time.AfterFunc(time.Second, func() { n.setCut(false) })
	})
	answer, err := store.Owners.Call(ctx, session.Request{ID: "1", Root: root, Body: []byte("x")})
	require.NoError(t, err)
	require.Equal(t, "x", string(answer))
}
