package natsstore

import (
	"errors"
	"net"
	"sync"
	"time"
)

// sockets makes the sockets of a connection, and ends them when the connection must not wait any
// more for a server: its client does that under a lock that its Close takes, too. It implements
// nats.CustomDialer.
type sockets struct {
	dialer net.Dialer

	mu   sync.Mutex
	done bool
	open map[*socket]bool
}

var errEnded = errors.New("natsstore: the Store is closed")

func newSockets(timeout time.Duration) *sockets {
	return &sockets{dialer: net.Dialer{Timeout: timeout}, open: make(map[*socket]bool)}
}

// Dial implements nats.CustomDialer.
func (s *sockets) Dial(network, address string) (net.Conn, error) {
	s.mu.Lock()
	done := s.done
	s.mu.Unlock()
	if done {
		return nil, errEnded
	}
	conn, err := s.dialer.Dial(network, address)
	if err != nil {
		return nil, err //nolint:wrapcheck // as of the dialer in whose place it stands
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done {
		_ = conn.Close()
		return nil, errEnded
	}
	c := &socket{Conn: conn, of: s}
	s.open[c] = true
	return c, nil
}

// cut ends all sockets, and lets no other be made.
func (s *sockets) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done = true
	for c := range s.open {
		_ = c.Conn.Close()
	}
	clear(s.open)
}

// A socket is one of sockets.
type socket struct {
	net.Conn
	of *sockets
}

// Close implements net.Conn.
func (c *socket) Close() error {
	c.of.mu.Lock()
	delete(c.of.open, c)
	c.of.mu.Unlock()
	return c.Conn.Close() //nolint:wrapcheck // as of the connection that it is
}
