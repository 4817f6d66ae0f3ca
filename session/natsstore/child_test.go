package natsstore_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/internal/enginetest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session/natsstore"
)

// serverChild is a nats-server that brings to its disk what it acknowledges.
func serverChild(ctx context.Context, args []string) {
	port, _ := strconv.Atoi(args[1])
	_, err := newServer(args[0], func(o *server.Options) { o.Port, o.SyncAlways = port, true })
	if err != nil {
		enginetest.Say("failed: %v", err)
		return
	}
	enginetest.Say("begun")
	<-ctx.Done()
}

// A realServer is a nats-server in a process of its own.
type realServer struct {
	t    testing.TB
	dir  string
	port int
	*enginetest.Process
}

// startServer starts a server for one test.
func startServer(t testing.TB) *realServer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &realServer{t: t, dir: t.TempDir(), port: l.Addr().(*net.TCPAddr).Port}
	require.NoError(t, l.Close())
	s.start()
	return s
}

// start starts the server, again after a kill.
func (s *realServer) start() {
	s.t.Helper()
	begun := make(chan string, 1)
	s.Process = enginetest.Start(s.t, func(line string) {
		select {
		case begun <- line:
		default:
		}
	}, "server", s.dir, strconv.Itoa(s.port))
	select {
	case line := <-begun:
		require.Equal(s.t, "begun", line)
	case <-time.After(time.Minute):
		require.Fail(s.t, "the server does not begin")
	}
}

// kill kills the server, and waits until it is gone.
func (s *realServer) kill() { s.Kill() }

// place returns the streams of a bot.
func (s *realServer) place() enginetest.Place {
	return enginetest.Place{URL: s.url(), Name: natsstore.DefaultName}
}

// url returns the address of the server.
func (s *realServer) url() string { return fmt.Sprintf("nats://127.0.0.1:%d", s.port) }

// open opens a Store, which is closed at the end of the test.
func (s *realServer) open(t testing.TB, o natsstore.Options) *session.Store {
	t.Helper()
	o.TrustSync = true
	store, err := natsstore.Open(t.Context(), s.url(), o)
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	return store
}

// A written is what one writer has had acknowledged.
type written struct {
	root    session.Key
	ref     session.Ref
	batches []session.BatchID
	kept    int // the number of the batch with which the log begins
	lines   int
	files   []session.File
	err     error
}

// write appends to a log and a transcript, and puts files, until ctx ends.
func (w *written) write(ctx context.Context, store *session.Store) {
	var last session.Seq
	var pos session.Pos
	for n := 0; ctx.Err() == nil && w.err == nil; n++ {
		b := session.Batch{ID: session.BatchID(fmt.Sprint(n)), Reset: n%25 == 24}
		b.Entries = []session.Entry{
			{Payload: session.Raw(fmt.Sprint(n))}, {Payload: session.Raw(`"second"`)},
		}
		b.Due = time.Unix(int64(n%3), 0) // each time another one
		if last, w.err = store.Journal.Append(ctx, w.root, last, b); w.err != nil {
			break
		}
		w.batches = append(w.batches, b.ID)
		if b.Reset {
			w.kept = n
		}
		m := session.Message{Role: session.MessageUser, Text: fmt.Sprint(n)}
		if pos, w.err = store.Transcripts.Append(ctx, w.ref, pos, m); w.err != nil {
			break
		}
		w.lines++
		if n%10 == 0 {
			var file session.File
			file, w.err = store.Files.Put(ctx, w.ref,
				strings.NewReader(strings.Repeat(fmt.Sprint(n, " "), 300_000)), session.File{})
			if w.err == nil {
				w.files = append(w.files, file)
			}
		}
	}
	if errors.Is(w.err, context.Canceled) {
		w.err = nil
	}
}

// verify fails the test unless the Store has what was acknowledged, each once and in order. The
// last step of the writer may be there without that.
func (w *written) verify(t *testing.T, store *session.Store) {
	t.Helper()
	require.NoError(t, w.err, "a restart is not seen by a writer")
	n, first := w.kept, true
	for e, err := range store.Journal.Read(t.Context(), w.root, 0) {
		require.NoError(t, err)
		if string(e.Payload.(session.Raw)) == `"second"` {
			require.Equal(t, session.BatchID(fmt.Sprint(n-1)), e.Batch)
			continue
		}
		text := string(e.Payload.(session.Raw))
		if first && text == fmt.Sprint(len(w.batches)) {
			n = len(w.batches) // a snapshot that was not acknowledged
		}
		require.Equal(t, fmt.Sprint(n), text)
		n, first = n+1, false
	}
	require.GreaterOrEqual(t, n, len(w.batches), "an acknowledged entry is lost")
	require.LessOrEqual(t, n, len(w.batches)+1)
	lines := 0
	for line, err := range store.Transcripts.Read(t.Context(), w.ref, session.LineQuery{}) {
		require.NoError(t, err)
		require.Equal(t, fmt.Sprint(lines), line.Message.Text)
		lines++
	}
	require.GreaterOrEqual(t, lines, w.lines, "an acknowledged line is lost")
	for _, file := range w.files {
		_, err := session.ReadFile(t.Context(), store.Files, w.ref, file)
		require.NoError(t, err, "an acknowledged file is lost")
	}
	heads := 0
	for h, err := range store.Journal.Roots(t.Context(),
		session.RootQuery{DueBefore: time.Unix(9, 0)}) {
		require.NoError(t, err)
		if h.Root == w.root {
			heads++
		}
	}
	require.Equal(t, 1, heads, "a log is found that is due")
}

// underWriters has writers write while a server is disturbed, and fails the test unless a Store
// that is opened afterwards has what they had acknowledged.
func underWriters(
	t *testing.T, open func(testing.TB, natsstore.Options) *session.Store, disturb func(),
) {
	t.Helper()
	store := open(t, natsstore.Options{Timeout: time.Minute})
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
	disturb()
	cancel()
	wg.Wait()
	reader := open(t, natsstore.Options{})
	batches := 0
	for i := range all {
		all[i].verify(t, reader)
		batches += len(all[i].batches)
	}
	t.Logf("%d batches were acknowledged", batches)
	assert.Greater(t, batches, len(all))
}

// TestKilledServer kills the server with SIGKILL under writers, and restarts it: no writer sees
// more than a delay, and what was acknowledged is there, once and in order.
func TestKilledServer(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	underWriters(t, s.open, func() {
		for round := range enginetest.Rounds(4, 50) {
			time.Sleep(time.Duration(300+170*(round%5)) * time.Millisecond)
			s.kill()
			time.Sleep(time.Duration(100*(round%3)) * time.Millisecond)
			s.start()
		}
		time.Sleep(time.Second)
		s.kill()
		s.start()
	})
}
