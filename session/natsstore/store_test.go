package natsstore_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
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

var root = session.Must(session.MainKey("main"))

// entries returns a batch of n entries.
func entries(id string, n int) session.Batch {
	b := session.Batch{ID: session.BatchID(id)}
	for i := range n {
		text := fmt.Sprintf("%q", fmt.Sprint(id, "/", i))
		b.Entries = append(b.Entries, session.Entry{Payload: session.Raw(text)})
	}
	return b
}

// add appends to the log of root.
func add(t *testing.T, s *session.Store, after session.Seq, b session.Batch) session.Seq {
	t.Helper()
	last, err := s.Journal.Append(t.Context(), root, after, b)
	require.NoError(t, err)
	return last
}

func TestOptions(t *testing.T) {
	for field, all := range map[string][]natsstore.Options{
		"Name": {
			{Name: strings.Repeat("a", 33)}, {Name: "a.b"}, {Name: "A"}, {Name: "a b"}, {Name: "a*"},
		},
		"Timeout":  {{Timeout: time.Millisecond}, {Timeout: -1}},
		"Replicas": {{Replicas: -1}, {Replicas: 2}, {Replicas: 7}},
		"Monitor":  {{}, {Process: "a"}},
		"Process": {
			{Process: strings.Repeat("a", 201), TrustSync: true},
			{Process: "a\x00", TrustSync: true},
			{Process: "\xff", TrustSync: true},
			{Process: " ", TrustSync: true},
		},
		"Lease": {
			{Lease: time.Minute, TrustSync: true},
			{Process: "a", Lease: time.Millisecond, TrustSync: true},
			{Process: "a", Lease: natsstore.MaxLease + 1, TrustSync: true},
		},
	} {
		for _, o := range all {
			_, err := natsstore.Open(t.Context(), "nats://127.0.0.1:1", o)
			var bad *natsstore.OptionError
			require.ErrorAs(t, err, &bad, "%+v", o)
			assert.Equal(t, field, bad.Field)
		}
	}
	_, err := natsstore.OpenConn(t.Context(), nil, natsstore.Options{TrustSync: true})
	require.Error(t, err)
	_, err = natsstore.Open(t.Context(), "nats://127.0.0.1:1", natsstore.Options{TrustSync: true})
	require.ErrorIs(t, err, nats.ErrNoServers)
}

// TestSyncIsAsked opens Stores of servers that bring to their disks what they acknowledge, or not.
func TestSyncIsAsked(t *testing.T) {
	monitored := func(always bool) *server.Server {
		return ownServer(t, func(o *server.Options) {
			o.HTTPHost, o.HTTPPort, o.SyncAlways = "127.0.0.1", server.RANDOM_PORT, always
		})
	}
	address := func(s *server.Server) string { return "http://" + s.MonitorAddr().String() }
	good, bad := monitored(true), monitored(false)
	store := open(t, good, natsstore.Options{Monitor: []string{address(good)}})
	require.NoError(t, store.Health(t.Context()))
	var setting *natsstore.SettingError
	_, err := natsstore.Open(t.Context(), good.ClientURL(), natsstore.Options{
		Monitor: []string{address(good), address(bad) + "/"},
	})
	require.ErrorAs(t, err, &setting)
	assert.Equal(t, "sync_interval", setting.Name)
	require.ErrorIs(t, err, session.ErrUnsafe)
	open(t, bad, natsstore.Options{Monitor: []string{address(bad)}, TrustSync: true})

	for name, handler := range map[string]http.HandlerFunc{
		"another page": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte("hello"))
		},
		"an error": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusForbidden)
		},
		"without JetStream": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"version":"2.15.2","jetstream":{}}`))
		},
	} {
		page := httptest.NewServer(handler)
		o := natsstore.Options{Monitor: []string{page.URL}}
		_, err = natsstore.Open(t.Context(), good.ClientURL(), o)
		require.ErrorContains(t, err, page.URL, name)
		page.Close()
	}
}

// TestStreamsAreChecked opens a Store whose streams are not as they must be.
func TestStreamsAreChecked(t *testing.T) {
	s := theServer(t)
	js := jetStream(t, s.ClientURL())
	for name, change := range map[string]func(c *jetstream.StreamConfig){
		"allow_direct": func(c *jetstream.StreamConfig) { c.AllowDirect = true },
		"max_age":      func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour },
		"max_msgs": func(c *jetstream.StreamConfig) {
			c.MaxMsgs, c.Discard = 9, jetstream.DiscardOld
		},
		"max_bytes": func(c *jetstream.StreamConfig) {
			c.MaxBytes, c.Discard = 1<<30, jetstream.DiscardOld
		},
		"max_msgs_per_subject": func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = 1 },
		"subjects":             func(c *jetstream.StreamConfig) { c.Subjects = []string{c.Name + ".other"} },
		"subject_transform": func(c *jetstream.StreamConfig) {
			c.SubjectTransform = &jetstream.SubjectTransformConfig{
				Source: c.Subjects[0], Destination: "to." + c.Subjects[0],
			}
		},
		"first_seq": func(c *jetstream.StreamConfig) { c.FirstSeq = 1 << 50 },
		"no_ack":    func(c *jetstream.StreamConfig) { c.NoAck = true },
		"sources": func(c *jetstream.StreamConfig) {
			c.Sources = []*jetstream.StreamSource{{Name: "other"}}
		},
		"format": func(c *jetstream.StreamConfig) { c.Metadata["offshoot-format"] = "2" },
		"none":   func(c *jetstream.StreamConfig) { c.Metadata = nil },
	} {
		o := natsstore.Options{Name: freshName(), TrustSync: true}
		require.NoError(t, open(t, s, o).Close())
		stream, err := js.Stream(t.Context(), o.Name+"_log")
		require.NoError(t, err)
		config := stream.CachedInfo().Config
		change(&config)
		if name == "first_seq" {
			require.NoError(t, js.DeleteStream(t.Context(), config.Name))
			_, err = js.CreateStream(t.Context(), config)
		} else {
			_, err = js.UpdateStream(t.Context(), config)
		}
		require.NoError(t, err, name)
		_, err = natsstore.Open(t.Context(), s.ClientURL(), o)
		if name == "format" || name == "none" {
			require.ErrorIs(t, err, session.ErrFormat, name)
			continue
		}
		var setting *natsstore.SettingError
		require.ErrorAs(t, err, &setting, name)
		assert.Equal(t, name, setting.Name)
	}
	o := natsstore.Options{Name: freshName(), TrustSync: true}
	require.NoError(t, open(t, s, o).Close())
	o.Replicas = 3
	_, err := natsstore.Open(t.Context(), s.ClientURL(), o)
	require.ErrorIs(t, err, session.ErrUnsafe)
}

// A deafConn loses the next answer of the server, and is cut off then.
type deafConn struct {
	net.Conn
	deaf *atomic.Int32 // 1: the next answer after a publication is lost
}

func (c deafConn) Write(b []byte) (int, error) {
	if strings.Contains(string(b), "Nats-Expected-Last-Subject-Sequence") {
		c.deaf.CompareAndSwap(1, 2)
	}
	return c.Conn.Write(b)
}

func (c deafConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err == nil && c.deaf.CompareAndSwap(2, 0) {
		_ = c.Conn.Close()
		return 0, net.ErrClosed
	}
	return n, err
}

type deafDialer struct{ deaf *atomic.Int32 }

func (d deafDialer) Dial(kind, addr string) (net.Conn, error) {
	conn, err := net.Dial(kind, addr)
	return deafConn{conn, d.deaf}, err
}

// TestLostAcknowledgement loses the acknowledgement of every kind of change that compares: each is
// made once, and its caller is told so.
func TestLostAcknowledgement(t *testing.T) {
	s := theServer(t)
	var deaf atomic.Int32
	conn, err := nats.Connect(s.ClientURL(), nats.SetCustomDialer(deafDialer{&deaf}),
		nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond), nats.ReconnectBufSize(-1))
	require.NoError(t, err)
	defer conn.Close()
	o := natsstore.Options{Name: freshName(), TrustSync: true, Process: "a"}
	store, err := natsstore.OpenConn(t.Context(), conn, o)
	require.NoError(t, err)
	defer func() { require.NoError(t, store.Close()) }()
	last := add(t, store, 0, entries("first", 1))
	ref := session.Ref{Key: root, SessionID: "one"}
	m := session.Message{Role: session.MessageUser, Text: "x"}
	var pos session.Pos
	for name, change := range map[string]func() error{
		"entry": func() (err error) {
			last, err = store.Journal.Append(t.Context(), root, last, entries("second", 1))
			return err
		},
		"line": func() (err error) {
			pos, err = store.Transcripts.Append(t.Context(), ref, pos, m)
			return err
		},
		"file": func() error {
			_, err := store.Files.Put(t.Context(), ref, strings.NewReader("x"), session.File{})
			return err
		},
		"claim": func() error {
			_, err := store.Owners.Claim(t.Context(), root)
			return err
		},
	} {
		deaf.Store(1)
		require.NoError(t, change(), name)
		require.Zero(t, deaf.Load(), "%s: no answer was lost", name)
	}
	n := 0
	for e, err := range store.Journal.Read(t.Context(), root, 0) {
		require.NoError(t, err)
		n++
		assert.Less(t, e.Seq, last+1)
	}
	assert.Equal(t, 2, n)
	// A conflict is one, although its answer is lost.
	other := open(t, s, natsstore.Options{Name: o.Name, Process: "b", TrustSync: true})
	add(t, other, last, entries("other", 1))
	deaf.Store(1)
	_, err = store.Journal.Append(t.Context(), root, last, entries("late", 1))
	require.ErrorIs(t, err, session.ErrConflict)
	require.Zero(t, deaf.Load())
}

// TestTimeout has a server that says nothing any more: a call ends in time, and with an error that
// passes.
func TestTimeout(t *testing.T) {
	t.Parallel()
	s := theServer(t)
	o := natsstore.Options{Name: freshName(), TrustSync: true, Timeout: time.Second}
	store, n, err := openCut(t.Context(), s, o, true)
	require.NoError(t, err)
	last := add(t, store, 0, entries("first", 1))
	n.SetCut(true)
	_, err = store.Journal.Append(t.Context(), root, last, entries("second", 1))
	require.ErrorIs(t, err, natsstore.ErrTimeout)
	assert.False(t, session.IsPermanent(err))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, store.Health(ctx), context.Canceled)
	n.SetCut(false)
	require.Eventually(t, func() bool { return store.Health(t.Context()) == nil }, time.Minute,
		10*time.Millisecond)
	require.NoError(t, store.Close())
}

// TestDamage removes and changes messages beside a Store: a reader is told, and never gets a log
// with a gap.
func TestDamage(t *testing.T) {
	s := theServer(t)
	js := jetStream(t, s.ClientURL())
	for name, damage := range map[string]func(s jetstream.Stream, subject string, second uint64){
		"a message is gone": func(stream jetstream.Stream, _ string, second uint64) {
			require.NoError(t, stream.DeleteMsg(t.Context(), second))
		},
		"the last is not JSON": func(_ jetstream.Stream, subject string, _ uint64) {
			_, err := js.Publish(t.Context(), subject, []byte("hello"))
			require.NoError(t, err)
		},
		"the last is of another log": func(_ jetstream.Stream, subject string, _ uint64) {
			_, err := js.Publish(t.Context(), subject, []byte(`{"name":"agent:main:other"}`))
			require.NoError(t, err)
		},
		"parts are gone": func(stream jetstream.Stream, _ string, _ uint64) {
			require.NoError(t, stream.Purge(t.Context(), jetstream.WithPurgeSubject("*.log.p.>")))
		},
	} {
		o := natsstore.Options{Name: freshName(), TrustSync: true}
		store := open(t, s, o)
		large := entries("large", 1)
		large.Entries[0].Payload = session.Raw(fmt.Sprintf("%q", strings.Repeat("x", 3<<20)))
		last := add(t, store, 0, entries("first", 1))
		last = add(t, store, last, entries("second", 1))
		second := uint64(last) >> 22
		last = add(t, store, last, large)
		add(t, store, last, entries("fourth", 1))
		other := session.Must(session.NamedKey("main", "intact"))
		_, err := store.Journal.Append(t.Context(), other, 0, entries("intact", 1))
		require.NoError(t, err)
		stream, err := js.Stream(t.Context(), o.Name+"_log")
		require.NoError(t, err)
		m, err := stream.GetMsg(t.Context(), second)
		require.NoError(t, err)
		damage(stream, m.Subject, second)
		var failed error
		for _, err := range store.Journal.Read(t.Context(), root, 0) {
			failed = err
		}
		require.ErrorIs(t, failed, session.ErrCorrupt, name)
		var corrupt *session.CorruptError
		require.ErrorAs(t, failed, &corrupt)
		intact := false
		for h, err := range store.Journal.Roots(t.Context(), session.RootQuery{}) {
			intact = intact || err == nil && h.Root == other
		}
		assert.True(t, intact, "%s: another log is hidden", name)
		require.NoError(t, store.Close())
	}
}

// TestSnapshotsLeaveLittle appends snapshot after snapshot: what they replace goes, and so do the
// parts and the members, and what led to due times.
func TestSnapshotsLeaveLittle(t *testing.T) {
	s := theServer(t)
	o := natsstore.Options{Name: freshName(), TrustSync: true}
	store := open(t, s, o)
	var last session.Seq
	for i := range 30 {
		b := entries(fmt.Sprint(i), 2)
		b.Due = time.Unix(int64(i), 0)
		b.Members = []session.Key{session.Must(root.Child("main", fmt.Sprint(i)))}
		if b.Reset = i%5 == 4; b.Reset {
			b.Entries[0].Payload = session.Raw(fmt.Sprintf("%q", strings.Repeat("x", 2<<20)))
		}
		last = add(t, store, last, b)
	}
	js := jetStream(t, s.ClientURL())
	stream, err := js.Stream(t.Context(), o.Name+"_log")
	require.NoError(t, err)
	info, err := stream.Info(t.Context(), jetstream.WithSubjectFilter(o.Name+".log.>"))
	require.NoError(t, err)
	kinds := map[string]uint64{}
	for subject, n := range info.State.Subjects {
		kinds[strings.Split(subject, ".")[2]] += n
	}
	// Two snapshots, with what is between them, of three parts each.
	assert.Equal(t, map[string]uint64{"e": 6, "p": 6, "d": 1, "m": 1}, kinds)
}

// TestLimits refuses what is too large, with the limit, and changes nothing.
func TestLimits(t *testing.T) {
	s := theServer(t)
	store := open(t, s, natsstore.Options{Name: freshName(), TrustSync: true})
	batch := entries("large", 1)
	batch.Entries[0].Payload = endless(4*session.BatchLimit + 1)
	_, err := store.Journal.Append(t.Context(), root, 0, batch)
	var size *natsstore.BatchSizeError
	require.ErrorAs(t, err, &size)
	require.ErrorIs(t, err, session.ErrInvalidBatch)
	_, err = store.Journal.Append(t.Context(), root, math.MaxUint64, entries("ahead", 1))
	require.ErrorIs(t, err, session.ErrConflict)
	ref := session.Ref{Key: root, SessionID: "one"}
	_, err = store.Transcripts.Append(t.Context(), ref, 0, session.Message{
		Role: session.MessageUser, Text: strings.Repeat("x", 65<<20),
	})
	var line *natsstore.LineSizeError
	require.ErrorAs(t, err, &line)
	require.ErrorIs(t, err, session.ErrInvalidLine)
}

// An endless is a payload of so many bytes.
type endless int

func (n endless) AppendJSON(b []byte) ([]byte, error) {
	return append(append(append(b, '"'), strings.Repeat("x", int(n)-2)...), '"'), nil
}

// TestSmallMessages has a server whose messages are small: batches, lines, files, requests and
// answers are larger than them.
func TestSmallMessages(t *testing.T) {
	s := ownServer(t, func(o *server.Options) { o.MaxPayload = 64 << 10 })
	store := open(t, s, natsstore.Options{TrustSync: true, Process: "a"})
	big := strings.Repeat("x", 1<<20)
	b := entries("big", 1)
	b.Entries[0].Payload = session.Raw(fmt.Sprintf("%q", big))
	add(t, store, 0, b)
	for e, err := range store.Journal.Read(t.Context(), root, 0) {
		require.NoError(t, err)
		assert.Len(t, e.Payload.(session.Raw), len(big)+2)
	}
	ref := session.Ref{Key: root, SessionID: "one"}
	file, err := store.Files.Put(t.Context(), ref, strings.NewReader(big), session.File{})
	require.NoError(t, err)
	got, err := session.ReadFile(t.Context(), store.Files, ref, file)
	require.NoError(t, err)
	assert.Equal(t, big, string(got))
	ctx, cancel := context.WithCancel(t.Context())
	var serving sync.WaitGroup
	serving.Go(func() {
		assert.NoError(t, store.Owners.Serve(ctx, session.Member{
			Handle: func(_ context.Context, r session.Request) []byte { return r.Body },
		}))
	})
	_, err = store.Owners.Claim(ctx, root)
	require.NoError(t, err)
	answer, err := store.Owners.Call(ctx, session.Request{ID: "1", Root: root, Body: []byte(big)})
	require.NoError(t, err)
	assert.Equal(t, big, string(answer))
	cancel()
	serving.Wait()
	js := jetStream(t, s.ClientURL())
	docs, err := js.Stream(t.Context(), natsstore.DefaultName+"_docs")
	require.NoError(t, err)
	info, err := docs.Info(t.Context())
	require.NoError(t, err)
	assert.Less(t, info.State.Bytes, uint64(len(big)*3/2), "of the request nothing is left")

	small := ownServer(t, func(o *server.Options) { o.MaxPayload = 32 << 10 })
	_, err = natsstore.Open(t.Context(), small.ClientURL(), natsstore.Options{TrustSync: true})
	require.ErrorIs(t, err, session.ErrUnsafe)
}

// TestWritesThatFail has every write of every kind of change fail, in every way: nothing is seen of
// it but a delay.
func TestWritesThatFail(t *testing.T) {
	t.Parallel()
	s := theServer(t)
	faults := new(enginetest.Faults)
	conn, err := nats.Connect(s.ClientURL(), nats.SetCustomDialer(dialer{faults}),
		nats.MaxReconnects(-1), nats.ReconnectWait(time.Millisecond), nats.ReconnectJitter(0, 0),
		nats.ReconnectBufSize(-1),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	require.NoError(t, err)
	defer conn.Close()
	o := natsstore.Options{Name: freshName(), TrustSync: true, Process: "a"}
	store, err := natsstore.OpenConn(t.Context(), conn, o)
	require.NoError(t, err)
	defer func() { require.NoError(t, store.Close()) }()
	enginetest.TestWritesThatFail(t, faults, store, true)
}

// TestErrorsThatMayPass decides on errors of a request: those that say that it is wrong, or that
// the connection was ended for good, are final, and whatever else a connection says may pass.
func TestErrorsThatMayPass(t *testing.T) {
	api := func(status int) error {
		return &jetstream.APIError{Code: status, ErrorCode: 1, Description: "no"}
	}
	for _, err := range []error{
		&net.OpError{Op: "write", Net: "tcp", Err: os.NewSyscallError("write", syscall.ECONNRESET)},
		&net.OpError{Op: "write", Net: "tcp", Err: tls.AlertError(40)},
		tls.RecordHeaderError{Msg: "x"},
		net.ErrClosed, io.EOF, io.ErrUnexpectedEOF, io.ErrClosedPipe, io.ErrShortWrite,
		os.ErrDeadlineExceeded, context.DeadlineExceeded, context.Canceled, errors.New("of a dialer"),
		nats.ErrTimeout, nats.ErrDisconnected, nats.ErrConnectionReconnecting, nats.ErrNoServers,
		nats.ErrReconnectBufExceeded, nats.ErrStaleConnection, nats.ErrNoResponders, nats.ErrTLS,
		jetstream.ErrNoStreamResponse, jetstream.ErrStreamNotFound,
		api(http.StatusServiceUnavailable),
	} {
		assert.True(t, natsstore.MayPass(fmt.Errorf("publish: %w", err)), "%v", err)
	}
	for _, err := range []error{
		nats.ErrConnectionClosed, nats.ErrConnectionDraining, nats.ErrInvalidConnection,
		nats.ErrMaxPayload, nats.ErrHeadersNotSupported, nats.ErrBadSubject,
		nats.ErrPermissionViolation, jetstream.ErrInvalidJSAck, jetstream.ErrMsgNotFound,
		jetstream.ErrMsgIteratorClosed, api(http.StatusBadRequest),
		api(http.StatusInternalServerError),
		&natsstore.LostError{},
	} {
		assert.False(t, natsstore.MayPass(fmt.Errorf("publish: %w", err)), "%v", err)
	}
}

// TestConnectionThatIsEnded ends the connection that a program has made: calls do not wait for it.
func TestConnectionThatIsEnded(t *testing.T) {
	s := theServer(t)
	conn, err := nats.Connect(s.ClientURL())
	require.NoError(t, err)
	o := natsstore.Options{Name: freshName(), TrustSync: true, Timeout: time.Hour}
	store, err := natsstore.OpenConn(t.Context(), conn, o)
	require.NoError(t, err)
	conn.Close()
	_, err = store.Journal.Append(t.Context(), root, 0, entries("late", 1))
	require.ErrorIs(t, err, nats.ErrConnectionClosed)
	require.NoError(t, store.Close())
}
