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
	"github.com/offshoot-sdk/offshoot/session/sessiontest"
	"github.com/offshoot-sdk/offshoot/spawn"
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
		say("failed: %v", err)
		return
	}
	say("begun")
	<-ctx.Done()
}

// replicas are the servers of a cluster, each a process of its own.
type replicas struct {
	t       testing.TB
	dirs    [clusterSize]string
	ports   [clusterSize]int
	routes  [clusterSize]string
	servers [clusterSize]*process
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
	r.servers[n] = startChild(r.t, func(line string) {
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

// kill kills each of the servers in turn, restarts it when the others have gone on, and waits until
// it has what they have.
func (r *replicas) kill(rounds int) {
	for round := range rounds {
		time.Sleep(time.Duration(300+170*(round%5)) * time.Millisecond)
		n := round % clusterSize
		r.servers[n].kill()
		time.Sleep(time.Duration(700*(1+round%3)) * time.Millisecond)
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
	store := r.open(t, natsstore.Options{Timeout: time.Minute})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var all [4]written
	var wg sync.WaitGroup
	for i := range all {
		w := &all[i]
		w.root = session.Must(session.NamedKey("main", fmt.Sprint("tree", i)))
		w.ref = session.Ref{Key: w.root, SessionID: "one"}
		wg.Go(func() { w.write(ctx, store) })
	}
	r.kill(rounds(3, 51))
	time.Sleep(2 * time.Second)
	cancel()
	wg.Wait()
	reader := r.open(t, natsstore.Options{})
	batches := 0
	for i := range all {
		all[i].verify(t, reader)
		batches += len(all[i].batches)
	}
	t.Logf("%d batches were acknowledged", batches)
	assert.Greater(t, batches, len(all))
}

// TestReplicasKilledUnderABot kills each server of a cluster in turn under a Runtime whose
// sub-agents work: no run is interrupted by that, each begins once and ends once, and each result
// comes under one key.
func TestReplicasKilledUnderABot(t *testing.T) {
	t.Parallel()
	r := startReplicas(t)
	b := newBot(t, time.Second)
	rt, stop := b.run("alone", r.open(t, natsstore.Options{}))
	for round := range rounds(1, 17) {
		for chat := range 4 {
			b.ask(rt, chat, fmt.Sprintf("task %d of %d", round, chat))
		}
		r.kill(clusterSize)
		b.wait()
	}
	stop()
	assert.Equal(t, b.want, b.began, "each run began once")
	for task := range b.want {
		assert.Equal(t, 1, b.keys(task, spawn.StatusOK), "%q came under one key", task)
	}
	assert.Len(t, b.results, len(b.want), "%v", b.results)
}

// TestReplicasPassKit has the Journal of a cluster pass its kit.
func TestReplicasPassKit(t *testing.T) {
	t.Parallel()
	r := startReplicas(t)
	sessiontest.TestJournal(t, func(t *testing.T) sessiontest.OpenFunc {
		o := natsstore.Options{
			Name: fmt.Sprint("kit", names.Add(1)), Replicas: clusterSize, TrustSync: true,
		}
		return part(func() (*session.Store, error) {
			return natsstore.Open(t.Context(), r.url(), o)
		}, func(s *session.Store) session.Journal { return s.Journal })
	})
}
