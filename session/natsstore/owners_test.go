package natsstore_test

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/sessiontest"

	"github.com/offshoot-sdk/offshoot/session/natsstore"
)

// A network is the way of one process to the server, which can be cut off.
type network struct {
	hangs bool // while it is cut, instead of failing at once
	cut   atomic.Bool
	mu    sync.Mutex
	conns map[*cutConn]bool
}

var errCut = errors.New("the process is cut off")

// Dial implements nats.CustomDialer.
func (n *network) Dial(kind, addr string) (net.Conn, error) {
	if n.cut.Load() {
		return nil, errCut
	}
	conn, err := net.Dial(kind, addr)
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
	deadline atomic.Pointer[time.Time] // of writes
}

// pass waits until bytes can pass.
func (c *cutConn) pass(deadline *time.Time) error {
	for c.n.cut.Load() {
		switch {
		case deadline != nil && !deadline.IsZero() && time.Now().After(*deadline):
			return os.ErrDeadlineExceeded
		case c.closed.Load() || !c.n.hangs:
			return net.ErrClosed
		}
		time.Sleep(2 * time.Millisecond)
	}
	return nil
}

func (c *cutConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err2 := c.pass(nil); err2 != nil {
		return 0, err2
	}
	return n, err
}

func (c *cutConn) Write(b []byte) (int, error) {
	if err := c.pass(c.deadline.Load()); err != nil {
		return 0, err
	}
	return c.Conn.Write(b)
}

func (c *cutConn) Close() error {
	c.closed.Store(true)
	return c.Conn.Close()
}

func (c *cutConn) SetWriteDeadline(t time.Time) error {
	c.deadline.Store(&t)
	return c.Conn.SetWriteDeadline(t)
}

// openCut opens the Store of a process whose network can be cut.
func openCut(
	ctx context.Context, s *server.Server, o natsstore.Options, hangs bool,
) (*session.Store, *network, error) {
	n := &network{hangs: hangs, conns: make(map[*cutConn]bool)}
	conn, err := nats.Connect(s.ClientURL(), nats.SetCustomDialer(n), nats.MaxReconnects(-1),
		nats.ReconnectWait(20*time.Millisecond), nats.ReconnectBufSize(-1),
		nats.FlusherTimeout(time.Second),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	if err != nil {
		return nil, nil, err
	}
	store, err := natsstore.OpenConn(ctx, conn, o)
	if err != nil {
		conn.Close()
		return nil, nil, err
	}
	store.Files = closing{store.Files, conn}
	return store, n, nil
}

// A closing is a part of a Store that closes the connection of the Store.
type closing struct {
	session.Files
	conn *nats.Conn
}

func (c closing) Close() error {
	err := c.Files.(interface{ Close() error }).Close()
	c.conn.Close()
	return err
}

// engine returns an engine for the kit, whose processes hang or fail while they are cut off.
func engine(t *testing.T, lease time.Duration, hangs bool) sessiontest.OwnersEngine {
	s := theServer(t)
	fresh := func(t *testing.T) sessiontest.OwnersFixture {
		o := natsstore.Options{Name: freshName(t, s), TrustSync: true, Lease: lease}
		networks := make(map[*session.Store]*network)
		var mu sync.Mutex
		return sessiontest.OwnersFixture{
			Open: func(name string) (*session.Store, error) {
				o := o
				o.Process = name
				store, n, err := openCut(t.Context(), s, o, hangs)
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
	return sessiontest.OwnersEngine{Lease: lease, Parallel: true, Fresh: fresh}
}

func TestOwnersPassKit(t *testing.T) {
	sessiontest.TestOwners(t, engine(t, 2*time.Second, false))
}

// TestOwnersThatHangPassKit cuts processes off by a network that says nothing any more.
func TestOwnersThatHangPassKit(t *testing.T) {
	if os.Getenv("OFFSHOOT_KILLS") == "" {
		t.Skip("it waits for two minutes: OFFSHOOT_KILLS=1 has it run")
	}
	sessiontest.TestOwners(t, engine(t, 2*time.Second, true))
}
