package natsstore_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/internal/enginetest"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session/natsstore"
)

// newServer starts a server in this process.
func newServer(dir string, configure func(*server.Options)) (*server.Server, error) {
	o := &server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: dir,
		NoLog: true, NoSigs: true,
	}
	if configure != nil {
		configure(o)
	}
	s, err := server.NewServer(o)
	if err != nil {
		return nil, err
	}
	s.Start()
	if !s.ReadyForConnections(30 * time.Second) {
		return nil, fmt.Errorf("the server does not start")
	}
	return s, nil
}

var shared struct {
	sync.Once
	dir string
	s   *server.Server
	err error
}

// engine is how tests of several processes use a server.
var engine = enginetest.Engine{
	Open: func(
		ctx context.Context, at enginetest.Place, process string, lease time.Duration,
	) (*session.Store, error) {
		return natsstore.Open(ctx, at.URL, natsstore.Options{
			Name: at.Name, Process: process, Lease: lease, TrustSync: true,
		})
	},
	Timeout: natsstore.ErrTimeout, Lease: 2 * time.Second,
}

func TestMain(m *testing.M) {
	roles := map[string]enginetest.Role{
		"server": serverChild, "replica": replicaChild, "load": loadChild,
	}
	//nolint:forbidigo // that of a test
	os.Exit(enginetest.Main(context.Background(), m, engine, roles, func() {
		if shared.s != nil {
			shared.s.Shutdown()
			shared.s.WaitForShutdown()
		}
		_ = os.RemoveAll(shared.dir)
	}))
}

// theServer returns the server that tests share. It does not bring to its disk what it
// acknowledges. A test that stops or kills one has its own.
func theServer(t testing.TB) *server.Server {
	t.Helper()
	shared.Do(func() {
		shared.dir, shared.err = os.MkdirTemp("", "natsstore") //nolint:usetesting // of all tests
		if shared.err == nil {
			shared.s, shared.err = newServer(shared.dir, nil)
		}
	})
	require.NoError(t, shared.err)
	return shared.s
}

// ownServer returns a server for one test.
func ownServer(t testing.TB, configure func(*server.Options)) *server.Server {
	t.Helper()
	s, err := newServer(t.TempDir(), configure)
	require.NoError(t, err)
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	return s
}

var names atomic.Int64

// freshName returns a name that no other test has. Its streams go with the server: to remove them
// while other tests make theirs has nats-server 2.15.2 fail now and then.
func freshName() string { return fmt.Sprintf("t%d", names.Add(1)) }

// open opens a Store, which is closed at the end of the test.
func open(t testing.TB, s *server.Server, o natsstore.Options) *session.Store {
	t.Helper()
	store, err := natsstore.Open(t.Context(), s.ClientURL(), o)
	for range 20 { // it has more than one try of the time that the Options give a call
		if !errors.Is(err, natsstore.ErrTimeout) {
			break
		}
		store, err = natsstore.Open(t.Context(), s.ClientURL(), o)
	}
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	return store
}

// jetStream returns the JetStream of a server, beside every Store.
func jetStream(t testing.TB, url string) jetstream.JetStream {
	t.Helper()
	conn, err := nats.Connect(url)
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	require.NoError(t, err)
	return js
}
