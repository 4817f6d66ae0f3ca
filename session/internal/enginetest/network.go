package enginetest

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/sessiontest"
)

// A Network is the way of one process to the server, which can be cut off.
type Network struct {
	hangs bool
	cut   atomic.Bool
	mu    sync.Mutex
	conns map[*cutConn]bool
}

var errCut = errors.New("enginetest: the process is cut off")

// NewNetwork returns a Network. While it is cut it hangs, or else fails at once.
func NewNetwork(hangs bool) *Network {
	return &Network{hangs: hangs, conns: make(map[*cutConn]bool)}
}

// DialContext connects as that of a net.Dialer does.
func (n *Network) DialContext(ctx context.Context, kind, addr string) (net.Conn, error) {
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

// SetCut cuts the network, or ends that.
func (n *Network) SetCut(cut bool) {
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

// A cutConn is a connection of a Network.
type cutConn struct {
	net.Conn
	n           *Network
	closed      atomic.Bool
	read, write atomic.Pointer[time.Time] // deadlines
}

// pass waits until bytes can pass.
func (c *cutConn) pass(deadline *atomic.Pointer[time.Time]) error {
	for c.n.cut.Load() {
		if d := deadline.Load(); d != nil && !d.IsZero() && time.Now().After(*d) {
			return os.ErrDeadlineExceeded
		}
		if c.closed.Load() || !c.n.hangs {
			return net.ErrClosed
		}
		pause(2 * time.Millisecond)
	}
	return nil
}

func (c *cutConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err2 := c.pass(&c.read); err2 != nil {
		return 0, err2
	}
	return n, err
}

func (c *cutConn) Write(b []byte) (int, error) {
	if err := c.pass(&c.write); err != nil {
		return 0, err
	}
	return c.Conn.Write(b)
}

func (c *cutConn) Close() error {
	c.closed.Store(true)
	return c.Conn.Close()
}

func (c *cutConn) SetDeadline(t time.Time) error {
	c.read.Store(&t)
	c.write.Store(&t)
	return c.Conn.SetDeadline(t)
}

func (c *cutConn) SetReadDeadline(t time.Time) error {
	c.read.Store(&t)
	return c.Conn.SetReadDeadline(t)
}

func (c *cutConn) SetWriteDeadline(t time.Time) error {
	c.write.Store(&t)
	return c.Conn.SetWriteDeadline(t)
}

// CloseWith has a Store end with a connection that it was opened on.
func CloseWith(store *session.Store, end func()) *session.Store {
	store.Files = closing{store.Files, end}
	return store
}

// A closing is a part of a Store that closes a connection behind it.
type closing struct {
	session.Files
	end func()
}

// Close closes the Store. Each of its parts may be closed.
func (c closing) Close() error {
	err := c.Files.(interface{ Close() error }).Close()
	c.end()
	return err
}

// An OpenCutFunc opens the Store of a process whose network can be cut.
type OpenCutFunc func(process string) (*session.Store, *Network, error)

// TestOwners tests the Owners of an engine by the kit, with its lease. fresh returns what opens the
// Stores of an empty one. The rules run beside each other.
func TestOwners(t *testing.T, lease time.Duration, fresh func(t *testing.T) OpenCutFunc) {
	t.Helper()
	sessiontest.TestOwners(t, sessiontest.OwnersEngine{
		Lease: lease, Parallel: true,
		Fresh: func(t *testing.T) sessiontest.OwnersFixture { return fixture(fresh(t)) },
	})
}

func fixture(open OpenCutFunc) sessiontest.OwnersFixture {
	networks := make(map[*session.Store]*Network)
	var mu sync.Mutex
	return sessiontest.OwnersFixture{
		Open: func(name string) (*session.Store, error) {
			store, n, err := open(name)
			mu.Lock()
			defer mu.Unlock()
			networks[store] = n
			return store, err
		},
		Cut: func(s *session.Store, cut bool) {
			mu.Lock()
			defer mu.Unlock()
			networks[s].SetCut(cut)
		},
	}
}
