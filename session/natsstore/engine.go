package natsstore

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/internal/cluster"
	"github.com/offshoot-sdk/offshoot/session/internal/mask"
)

// An engine is what the parts of a Store share. All methods may be called concurrently.
type engine struct {
	conn    *nats.Conn
	own     *sockets // of a connection that ends with the Store; nil: the program closes it
	js      jetstream.JetStream
	name    string
	timeout time.Duration
	closed  atomic.Bool // the parts of the Store answer no more
	ended   atomic.Bool // nothing is asked of the server any more
	line    *line
	tips    tips
	room    int // how many bytes of content a message has at most

	lost atomic.Pointer[LostError] // nil: the streams are those that were opened

	log, text, docs stream
	members         *cluster.Owners // nil: this process has every tree
	presence        *presence       // nil: it is being opened
}

// A stream is one of the streams of a Store.
type stream struct {
	jetstream.Stream
	e    *engine
	name string // the beginning of its subjects
	// timeout is how long a request is waited for.
	timeout time.Duration
	pace    pace
	*watch  // nil: it is being opened
}

// within returns the stream with another timeout.
func (s stream) within(timeout time.Duration) stream {
	s.timeout = timeout
	return s
}

// in returns the stream with another pace.
func (s stream) in(p pace) stream {
	s.pace = p
	return s
}

// subject returns the subject that has these tokens.
func (s stream) subject(tokens ...string) string {
	return s.name + "." + strings.Join(tokens, ".")
}

// token returns the token of a subject that stands for a text, which may have any character.
func token(text string) string {
	const bytes = 20
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:bytes])
}

// A message is a message of a stream.
type message struct {
	seq     uint64
	subject string
	id      string // of the publication; see publish
	after   string // the sequence that its writer had the server compare, "" for none
	time    time.Time
	data    []byte
}

// A line is the state of a connection. Its goroutine ends with end. The connection itself is not
// asked: it answers nothing while it waits for a server that accepts it and then is silent.
type line struct {
	conn    *nats.Conn
	servers string    // their addresses, for errors
	refused *refusals // nil: the program hears of them
	changes chan nats.Status
	wg      sync.WaitGroup
	cuts    atomic.Int64 // how often the connection was cut off
	up      atomic.Bool  // the connection is there
	closed  atomic.Bool  // it was ended for good

	mu     sync.Mutex
	during map[*func()]bool // what is to be called when the connection is cut off
}

var errCut = errors.New("natsstore: the connection is cut off")

func newLine(conn *nats.Conn) *line {
	l := &line{
		conn: conn, servers: mask.Address(strings.Join(conn.Servers(), ",")),
		changes: conn.StatusChanged(
			nats.CONNECTED, nats.CONNECTING, nats.RECONNECTING, nats.DISCONNECTED, nats.CLOSED),
		during: make(map[*func()]bool),
	}
	l.up.Store(conn.IsConnected())
	l.closed.Store(conn.IsClosed())
	l.wg.Go(func() {
		for status := range l.changes {
			l.up.Store(status == nats.CONNECTED)
			l.closed.Store(status == nats.CLOSED)
			if status == nats.RECONNECTING || status == nats.CLOSED {
				l.cut()
			}
		}
	})
	return l
}

// cut ends the requests that are under way.
func (l *line) cut() {
	l.cuts.Add(1)
	l.mu.Lock()
	defer l.mu.Unlock()
	for end := range l.during {
		(*end)()
	}
}

func (l *line) end() {
	l.conn.RemoveStatusListener(l.changes)
	l.wg.Wait()
}

// use calls f with a context that ends when the connection is cut off: what was sent over it is not
// answered any more. The error is errCut if f was not called, and [nats.ErrConnectionClosed] if the
// connection was ended for good, by its program or because the server does not let it in any more.
func (l *line) use(ctx context.Context, f func(ctx context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	end := func() { cancel() }
	l.note(&end, true)
	defer l.note(&end, false)
	if l.closed.Load() {
		return nats.ErrConnectionClosed
	}
	if !l.up.Load() { // what is sent now would wait in memory, and be sent late
		return errCut
	}
	return f(ctx)
}

// note has end be called when the connection is cut off, or not any more.
func (l *line) note(end *func(), use bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if use {
		l.during[end] = true
		return
	}
	delete(l.during, end)
}

// check returns ErrClosed if the Store is closed, a *[LostError] if it has lost its streams, else
// the error of ctx.
func (e *engine) check(ctx context.Context) error {
	if e.closed.Load() {
		return session.ErrClosed
	}
	if lost := e.lost.Load(); lost != nil {
		return lost
	}
	return ctx.Err()
}

// The pause before a request is sent again, the first and the longest.
const firstPause, longestPause = 5 * time.Millisecond, 250 * time.Millisecond

// tries is how often a request is sent, at least, to a server that does not answer.
const tries = 3

// A pace says when a request that is not answered is sent again: it may have been lost with a
// server of a cluster that has died, or have reached one that did not lead. All that is asked may
// be asked again.
type pace int

// The paces of requests.
const (
	paceUsual pace = iota // soon, and then twice as late each time
	paceBrief             // soon and often: neither the request nor its answer has a body
	paceLarge             // late: the body, or the work, needs time, and repeating it takes more
)

// The time of the first attempt of a request, and of all others of a brief one.
const firstAttempt, briefAttempt = time.Second, 2 * time.Second

// attempt returns how long a request is waited for of which n attempts were not answered.
func (p pace) attempt(n int, timeout time.Duration) time.Duration {
	const mostDoublings = 20
	most := timeout / tries
	switch p {
	case paceBrief:
		most = min(most, briefAttempt)
	case paceLarge:
		return most
	case paceUsual:
	}
	return min(most, firstAttempt<<min(n, mostDoublings))
}

// ask calls f, which sends one request, until it succeeds or fails for good, at most as long as the
// timeout of the stream. f is told whether an earlier call may have had its effect. The error is
// [session.ErrClosed], that of ctx, [ErrTimeout], or one of f.
func (s stream) ask(ctx context.Context, f func(ctx context.Context, again bool) error) error {
	if s.e.ended.Load() {
		return session.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	begun := time.Now()
	within, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	var err error
	sent, late := false, 0
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		last := err
		err = s.e.line.use(within, func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, s.pace.attempt(late, s.timeout))
			defer cancel()
			if err := s.verify(ctx, false); err != nil {
				return err
			}
			again := sent
			sent = true
			return f(ctx, again)
		})
		if errors.Is(err, context.DeadlineExceeded) {
			late++
			if within.Err() != nil && last != nil { // this attempt was cut short, and says nothing
				err = last
			}
		}
		if isAbsent(err) {
			s.doubt()
		}
		if err == nil || !mayPass(err) || s.e.ended.Load() || sleep(within, pause) != nil {
			break
		}
	}
	switch {
	case err == nil:
		return nil
	case s.e.ended.Load():
		return session.ErrClosed
	case ctx.Err() != nil:
		return fmt.Errorf("%w: %s: %v", ctx.Err(), s.e.line.where(begun), err) //nolint:errorlint // one cause
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return fmt.Errorf("the stream of %s is not there, not in %v: %w", s.name, s.timeout, err)
	case mayPass(err): // not wrapped: the caller's ctx is not done
		where := s.e.line.where(begun)
		return fmt.Errorf("%w: %s, not in %v: %v", ErrTimeout, where, s.timeout, err) //nolint:errorlint // see above
	}
	return err
}

// where returns the addresses of the servers, for the error of a request that began at a time.
func (l *line) where(begun time.Time) string {
	if refused := l.refused.since(begun); refused != "" {
		return l.servers + ", " + refused
	}
	if l.up.Load() {
		return l.servers
	}
	return l.servers + ", no connection"
}

// sleep waits for a time, or until ctx is done.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return ctx.Err()
}
