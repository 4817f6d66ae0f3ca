package natsstore_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session/natsstore"
)

// A copiedServer is a server whose files a test changes while it is down.
type copiedServer struct {
	*server.Server
	t    *testing.T
	dir  string
	port int // 0: any
}

func newCopiedServer(t *testing.T) *copiedServer {
	s := &copiedServer{t: t, dir: t.TempDir()}
	s.start()
	t.Cleanup(s.stop)
	return s
}

func (s *copiedServer) start() {
	s.t.Helper()
	var err error
	s.Server, err = newServer(s.dir, func(o *server.Options) {
		if s.port > 0 {
			o.Port = s.port
		}
	})
	require.NoError(s.t, err)
	s.port = s.Addr().(*net.TCPAddr).Port
}

func (s *copiedServer) stop() {
	s.Shutdown()
	s.WaitForShutdown()
}

// stream returns where a stream is kept.
func (s *copiedServer) stream(name string) string {
	s.t.Helper()
	found, err := filepath.Glob(filepath.Join(s.dir, "jetstream", "*", "streams", name))
	require.NoError(s.t, err)
	require.Len(s.t, found, 1)
	return found[0]
}

// lostDocs are the ways in which documents are lost: backup is called when there are few of them,
// and lose while the server is down.
var lostDocs = map[string]struct {
	backup, lose func(t *testing.T, s *copiedServer, backup string)
}{
	"removed": {
		backup: func(*testing.T, *copiedServer, string) {},
		lose: func(t *testing.T, s *copiedServer, _ string) {
			require.NoError(t, os.RemoveAll(s.stream("offshoot_docs")))
		},
	},
	"older": {
		backup: func(t *testing.T, s *copiedServer, backup string) {
			s.stop()
			require.NoError(t, os.CopyFS(backup, os.DirFS(s.stream("offshoot_docs"))))
			s.start()
		},
		lose: func(t *testing.T, s *copiedServer, backup string) {
			dir := s.stream("offshoot_docs")
			require.NoError(t, os.RemoveAll(dir))
			require.NoError(t, os.CopyFS(dir, os.DirFS(backup)))
		},
	},
	"empty": { // made anew by an operator, and not by this package
		backup: func(*testing.T, *copiedServer, string) {},
		lose: func(t *testing.T, s *copiedServer, _ string) {
			s.start()
			js := connect(t, s.ClientURL())
			stream, err := js.Stream(t.Context(), "offshoot_docs")
			require.NoError(t, err)
			config := stream.CachedInfo().Config
			config.FirstSeq = 0
			require.NoError(t, js.DeleteStream(t.Context(), "offshoot_docs"))
			_, err = js.CreateStream(t.Context(), config)
			require.NoError(t, err)
			s.stop()
		},
	},
}

// forgetClaims removes the claims that were released, as the server does after a day.
func forgetClaims(t *testing.T, s *server.Server) {
	t.Helper()
	stream, err := connect(t, s.ClientURL()).Stream(t.Context(), "offshoot_docs")
	require.NoError(t, err)
	require.NoError(t, stream.Purge(t.Context(), jetstream.WithPurgeSubject("offshoot.docs.o.*")))
}

// unmarkedTree has no log.
var unmarkedTree = session.Must(session.NamedKey("main", "other"))

// manyClaims has the documents move on, and returns the epoch of unmarkedTree.
func manyClaims(t *testing.T, s *session.Store) (epoch uint64) {
	t.Helper()
	for range 50 {
		c, err := engine.Claim(t.Context(), s, unmarkedTree)
		require.NoError(t, err)
		require.NoError(t, s.Owners.Release(t.Context(), c))
		epoch = c.Epoch
	}
	return epoch
}

// TestLostDocuments loses the documents of a cluster, or has an older copy of them, while the log
// of a tree names an epoch: each claim from then on has a higher one, and the tree takes entries.
func TestLostDocuments(t *testing.T) {
	t.Parallel()
	for name, how := range lostDocs {
		t.Run(name, func(t *testing.T) {
			s, backup := newCopiedServer(t), t.TempDir()
			o := natsstore.Options{TrustSync: true, Lease: time.Second, Process: "a"}
			require.NoError(t, open(t, s.Server, o).Close())
			how.backup(t, s, backup)
			a := open(t, s.Server, o)
			unmarked := manyClaims(t, a)
			_, err := engine.Claim(t.Context(), a, root)
			require.NoError(t, err)
			last := add(t, a, 0, entries("a", 1))
			time.Sleep(o.Lease) // a does not serve
			o.Process = "b"
			b := open(t, s.Server, o)
			before, err := engine.Claim(t.Context(), b, root) // marks the log
			require.NoError(t, err)
			last = add(t, b, last, entries("b", 1))
			require.NoError(t, a.Close())
			require.NoError(t, b.Close())
			s.stop()
			how.lose(t, s, backup)
			s.start()
			epoch := before.Epoch
			for _, o.Process = range []string{"a", "b", "c", "c"} {
				server := s.Server
				s := open(t, server, o)
				if name == "removed" {
					other, err := engine.Claim(t.Context(), s, unmarkedTree)
					require.NoError(t, err)
					assert.Greater(t, other.Epoch, unmarked)
				}
				for range 3 { // claimed again, and once more while it is had
					claim, err := engine.Claim(t.Context(), s, root)
					require.NoError(t, err)
					assert.Greater(t, claim.Epoch, epoch)
					epoch = claim.Epoch
					again, err := engine.Claim(t.Context(), s, root)
					require.NoError(t, err)
					assert.Equal(t, claim, again)
					last = add(t, s, last, entries(o.Process, 1))
					require.NoError(t, s.Owners.Release(t.Context(), claim))
					forgetClaims(t, server)
				}
				claim, err := engine.Claim(t.Context(), s, root)
				require.NoError(t, err)
				assert.Greater(t, claim.Epoch, epoch)
				epoch = claim.Epoch
				last = add(t, s, last, entries(o.Process, 1))
				require.NoError(t, s.Close()) // with the claim
			}
		})
	}
}

// TestBotAfterLostDocuments has a bot answer whose documents are lost, with epochs that grow.
func TestBotAfterLostDocuments(t *testing.T) {
	t.Parallel()
	for name, how := range lostDocs {
		t.Run(name, func(t *testing.T) {
			s, backup := newCopiedServer(t), t.TempDir()
			o := natsstore.Options{TrustSync: true, Lease: time.Second, Process: "z"}
			require.NoError(t, open(t, s.Server, o).Close())
			how.backup(t, s, backup)
			z := open(t, s.Server, o)
			manyClaims(t, z)
			require.NoError(t, z.Close())
			var epochs []uint64
			for i, post := range []string{"a", "b", "c", "d"} {
				if i == 2 {
					s.stop()
					how.lose(t, s, backup)
					s.start()
				}
				o.Process = post
				epochs = append(epochs, answerOnce(t, open(t, s.Server, o), post, i == 0))
			}
			assert.IsIncreasing(t, epochs)
		})
	}
}

// answerOnce has a bot answer a message, and returns the epoch of the reply. If it dies, its claims
// are left to lapse.
func answerOnce(t *testing.T, store *session.Store, text string, dies bool) uint64 {
	t.Helper()
	chat := session.Must(session.DirectKey("main", "term", "one"))
	var mu sync.Mutex
	var epoch uint64
	rt, err := agent.Open(t.Context(), agent.Config{
		Store: store,
		Runner: agent.RunnerFunc(func(context.Context, *agent.Turn) (agent.Result, error) {
			return agent.Result{Text: "hi"}, nil
		}),
		Reply: func(_ context.Context, d agent.Delivery) error {
			mu.Lock()
			defer mu.Unlock()
			epoch = d.Epoch
			return nil
		},
	})
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() { ended <- rt.Run(t.Context()) }()
	within, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	_, err = rt.Session(chat).PostAndWait(within, agent.Incoming{ID: text, Text: text})
	require.NoError(t, err)
	require.NoError(t, rt.Session(chat).Idle(within))
	if dies {
		require.NoError(t, store.Close())
		t.Log(<-ended)
	} else {
		require.NoError(t, rt.Shutdown(t.Context()))
		require.NoError(t, <-ended)
		require.NoError(t, store.Close())
	}
	mu.Lock()
	defer mu.Unlock()
	return epoch
}
