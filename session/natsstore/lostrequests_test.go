package natsstore_test

import (
	"bytes"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session/natsstore"
)

// A lossyConn loses the next publications: the writer is told that they were written. So does a
// server of a cluster that sends them on to one that has just died.
type lossyConn struct {
	net.Conn
	lose *atomic.Int32 // how many
}

func (c lossyConn) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte("PUB ")) && c.lose.Load() > 0 {
		c.lose.Add(-1)
		return len(b), nil
	}
	return c.Conn.Write(b)
}

type lossyDialer struct{ lose *atomic.Int32 }

func (d lossyDialer) Dial(kind, addr string) (net.Conn, error) {
	conn, err := net.Dial(kind, addr)
	return lossyConn{conn, d.lose}, err
}

// TestLostRequests loses requests on their way, while the connection stays: they are sent again so
// soon that a claim, which has a third of the lease, outlasts the death of a leader.
func TestLostRequests(t *testing.T) {
	t.Parallel()
	s := theServer(t)
	name := freshName()
	for process, lost := range map[string]int32{"claim": 4, "entry": 3} {
		t.Run(process, func(t *testing.T) {
			t.Parallel()
			var lose atomic.Int32
			conn, err := nats.Connect(s.ClientURL(), nats.SetCustomDialer(lossyDialer{&lose}),
				nats.MaxReconnects(-1), nats.ReconnectBufSize(-1))
			require.NoError(t, err)
			defer conn.Close()
			store, err := natsstore.OpenConn(t.Context(), conn, natsstore.Options{
				Name: name, TrustSync: true, Process: process,
			})
			require.NoError(t, err)
			defer func() { require.NoError(t, store.Close()) }()
			lose.Store(lost)
			if process == "claim" {
				_, err = store.Owners.Claim(t.Context(), root)
			} else {
				_, err = store.Journal.Append(t.Context(), root, 0, entries("one", 1))
			}
			require.NoError(t, err)
			assert.Zero(t, lose.Load())
		})
	}
}

// TestPaces checks how long each attempt of a request is waited for.
func TestPaces(t *testing.T) {
	seconds := func(brief, large bool, timeout time.Duration) (all []float64) {
		for n := range 4 {
			all = append(all, natsstore.Attempt(brief, large, n, timeout).Seconds())
		}
		return all
	}
	const usual, claim = natsstore.DefaultTimeout, 10 * time.Second
	assert.Equal(t, []float64{1, 2, 4, 5}, seconds(false, false, usual))
	assert.Equal(t, []float64{5, 5, 5, 5}, seconds(false, true, usual))
	assert.Equal(t, []float64{1, 2, 2, 2}, seconds(true, false, claim))
	assert.Equal(t, []float64{0.5, 0.5, 0.5, 0.5}, seconds(true, false, 1500*time.Millisecond))
	assert.Equal(t, 5*time.Second, natsstore.Attempt(false, false, 1000, usual))
}
