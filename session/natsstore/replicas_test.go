package natsstore_test

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/internal/enginetest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session/natsstore"
)

// clusterSize is how many servers a cluster of a test has, and how many replicas its streams.
const clusterSize = 3

// replicaOptions are those of a server of a cluster: the n-th, with the ports of its clients and of
// the others.
func replicaOptions(o *server.Options, n, port int, routes []string) {
	o.ServerName, o.Port = fmt.Sprint("server", n), port
	for i, r := range routes {
		u, _ := url.Parse(r)
		if i == n {
			at, _ := strconv.Atoi(u.Port())
			o.Cluster = server.ClusterOpts{Name: "test", Host: "127.0.0.1", Port: at}
		} else {
			o.Routes = append(o.Routes, u)
		}
	}
}

// replicaChild is a server of a cluster. It does not bring to its disk what it acknowledges: the
// other ones have it.
func replicaChild(ctx context.Context, args []string) {
	n, _ := strconv.Atoi(args[1])
	port, _ := strconv.Atoi(args[2])
	_, err := newServer(args[0], func(o *server.Options) {
		replicaOptions(o, n, port, strings.Split(args[3], ","))
	})
	if err != nil {
		enginetest.Say("failed: %v", err)
		return
	}
	enginetest.Say("begun")
	<-ctx.Done()
}

// replicas are the servers of a cluster, each a process of its own.
type replicas struct {
	t       testing.TB
	dirs    [clusterSize]string
	ports   [clusterSize]int
	routes  [clusterSize]string
	servers [clusterSize]*enginetest.Process
}

// startReplicas starts a cluster, and waits until it makes a stream of as many replicas.
func startReplicas(t testing.TB) *replicas {
	t.Helper()
	r := &replicas{t: t}
	var taken []net.Listener
	port := func() int {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		taken = append(taken, l)
		return l.Addr().(*net.TCPAddr).Port
	}
	for i := range r.servers {
		r.dirs[i], r.ports[i] = t.TempDir(), port()
		r.routes[i] = fmt.Sprintf("nats://127.0.0.1:%d", port())
	}
	for _, l := range taken {
		require.NoError(t, l.Close())
	}
	var all sync.WaitGroup
	for i := range r.servers {
		all.Go(func() { r.start(i) })
	}
	all.Wait()
	require.Eventually(t, func() bool {
		o := natsstore.Options{Name: "ready", Replicas: clusterSize, TrustSync: true}
		store, err := natsstore.Open(t.Context(), r.url(), o)
		if err == nil {
			_ = store.Close()
		}
		return err == nil
	}, time.Minute, 200*time.Millisecond, "the cluster does not begin")
	return r
}

// start starts a server, again after a kill.
func (r *replicas) start(n int) {
	begun := make(chan string, 1)
	r.servers[n] = enginetest.Start(r.t, func(line string) {
		select {
		case begun <- line:
		default:
		}
	}, "replica", r.dirs[n], strconv.Itoa(n), strconv.Itoa(r.ports[n]),
		strings.Join(r.routes[:], ","))
	select {
	case line := <-begun:
		assert.Equal(r.t, "begun", line)
	case <-time.After(time.Minute):
		assert.Fail(r.t, "a server does not begin")
	}
}

// url returns the addresses of the servers.
func (r *replicas) url() string {
	var all []string
	for _, p := range r.ports {
		all = append(all, fmt.Sprintf("nats://127.0.0.1:%d", p))
	}
	return strings.Join(all, ",")
}

// open opens a Store of as many replicas, which is closed at the end of the test.
func (r *replicas) open(t testing.TB, o natsstore.Options) *session.Store {
	t.Helper()
	o.TrustSync, o.Replicas = true, clusterSize
	store, err := natsstore.Open(t.Context(), r.url(), o)
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	return store
}

// awaitAll waits until each server has all of each stream: of three that have died one after the
// other, two may know less than was acknowledged.
func (r *replicas) awaitAll() {
	r.t.Helper()
	conn, err := nats.Connect(r.url(), nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1))
	require.NoError(r.t, err)
	defer conn.Close()
	js, err := jetstream.New(conn, jetstream.WithDefaultTimeout(time.Second))
	require.NoError(r.t, err)
	current := func(kind string) bool {
		stream, err := js.Stream(r.t.Context(), natsstore.DefaultName+"_"+kind)
		if err != nil {
			return false
		}
		c := stream.CachedInfo().Cluster
		return c.Leader != "" && len(c.Replicas) == clusterSize-1 &&
			!slices.ContainsFunc(c.Replicas, func(p *jetstream.PeerInfo) bool {
				return p.Offline || !p.Current
			})
	}
	require.Eventually(r.t, func() bool {
		return current("log") && current("text") && current("docs")
	}, time.Minute, 100*time.Millisecond, "a server does not come back")
}

// inTurn returns a function that kills one server after the other, and one that restarts the last
// one that was killed and waits until it has what the others have.
func (r *replicas) inTurn() (kill, start func()) {
	n := clusterSize - 1
	return func() {
			n = (n + 1) % clusterSize
			r.servers[n].Kill()
		}, func() {
			r.start(n)
			r.awaitAll()
		}
}

// TestKilledReplicas kills each server of a cluster in turn with SIGKILL under writers, and
// restarts it: no writer sees more than a delay, and what was acknowledged is there, once and in
// order.
func TestKilledReplicas(t *testing.T) {
	t.Parallel()
	r := startReplicas(t)
	kill, start := r.inTurn()
	underWriters(t, r.open, func() {
		for round := range enginetest.Rounds(clusterSize, 17*clusterSize) {
			time.Sleep(time.Duration(300+170*(round%5)) * time.Millisecond)
			kill()
			time.Sleep(time.Duration(700*(1+round%3)) * time.Millisecond)
			start()
		}
		time.Sleep(2 * time.Second)
	})
}

// TestReplicasKilledUnderABot kills each server of a cluster in turn under a Runtime.
func TestReplicasKilledUnderABot(t *testing.T) {
	t.Parallel()
	r := startReplicas(t)
	kill, start := r.inTurn()
	enginetest.TestServerKilledUnderABot(t, r.open(t, natsstore.Options{}),
		enginetest.Rounds(clusterSize, 17*clusterSize), kill, start)
}

// TestReplicasPassKit has the Journal of a cluster pass its kit.
func TestReplicasPassKit(t *testing.T) {
	t.Parallel()
	r := startReplicas(t)
	enginetest.TestJournal(t, func(t *testing.T) func() (*session.Store, error) {
		o := natsstore.Options{
			Name: fmt.Sprint("kit", names.Add(1)), Replicas: clusterSize, TrustSync: true,
		}
		return func() (*session.Store, error) { return natsstore.Open(t.Context(), r.url(), o) }
	})
}
