package natsstore_test

import (
	"context"
	"net"
	"os"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/internal/enginetest"

	"github.com/offshoot-sdk/offshoot/session/natsstore"
)

// A dialer is a nats.CustomDialer.
type dialer struct{ dialerOfTest }

type dialerOfTest interface {
	DialContext(ctx context.Context, kind, addr string) (net.Conn, error)
}

func (d dialer) Dial(kind, addr string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return d.DialContext(ctx, kind, addr)
}

// openCut opens the Store of a process whose network can be cut.
func openCut(
	ctx context.Context, s *server.Server, o natsstore.Options, hangs bool,
) (*session.Store, *enginetest.Network, error) {
	n := enginetest.NewNetwork(hangs)
	conn, err := nats.Connect(s.ClientURL(), nats.SetCustomDialer(dialer{n}),
		nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond),
		nats.ReconnectBufSize(-1), nats.FlusherTimeout(time.Second),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	if err != nil {
		return nil, nil, err
	}
	store, err := natsstore.OpenConn(ctx, conn, o)
	if err != nil {
		conn.Close()
		return nil, nil, err
	}
	return enginetest.CloseWith(store, conn.Close), n, nil
}

// cutOpener returns what opens the Stores of processes, which hang or fail while they are cut off.
func cutOpener(t *testing.T, o natsstore.Options, hangs bool) enginetest.OpenCutFunc {
	s := theServer(t)
	o.Name, o.TrustSync = freshName(), true
	return func(process string) (*session.Store, *enginetest.Network, error) {
		o := o
		o.Process = process
		return openCut(t.Context(), s, o, hangs)
	}
}

func testOwners(t *testing.T, hangs bool) {
	t.Parallel()
	o := natsstore.Options{Lease: 3 * time.Second}
	enginetest.TestOwners(t, o.Lease, func(t *testing.T) enginetest.OpenCutFunc {
		return cutOpener(t, o, hangs)
	})
}

func TestOwnersPassKit(t *testing.T) { testOwners(t, false) }

// TestOwnersThatHangPassKit cuts processes off by a network that says nothing any more.
func TestOwnersThatHangPassKit(t *testing.T) {
	if os.Getenv("OFFSHOOT_KILLS") == "" {
		t.Skip("it waits for two minutes: OFFSHOOT_KILLS=1 has it run")
	}
	testOwners(t, true)
}
