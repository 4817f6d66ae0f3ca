package natsstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/internal/mask"
)

// The format of what is stored, in the metadata of the streams.
const (
	formatKey = "offshoot-format"
	format    = 1
)

// The least version of a server, and the greatest size of a message that it must take.
const (
	leastMajor, leastMinor = 2, 12
	leastPayload           = 64 << 10
)

// Open connects to a server and opens the Store there. It makes the streams if there are none. url
// is one address of the server, or several of a cluster with commas between them; a user, a
// password or a token stand in it. What needs more, such as credentials in a file, makes a
// connection and calls [OpenConn]. ctx is for the opening alone.
//
// The caller closes the Store. Everything that was acknowledged is safe without that. A server that
// does not answer holds that up for a few seconds; then the claims of the process end with its
// lease.
//
// The error is an *[OptionError] for Options that cannot be used, a *[LockedError] if the streams
// are in use in another way, with Options.Process or without, a *[SettingError] for a server or a
// stream with which a Store would not keep its promises, [session.ErrFormat] if a newer version
// has made the streams, or one of the driver, such as that of a server that cannot be reached. It
// names the address. No error has a user, a password or a token of url or of Options.Monitor, also
// if they do not parse.
func Open(ctx context.Context, url string, o Options) (*session.Store, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	wait := o.Timeout
	if end, ok := ctx.Deadline(); ok {
		wait = min(wait, time.Until(end))
	}
	if err := mask.Check(url); err != nil {
		return nil, fmt.Errorf("natsstore: open %q: %w", mask.Address(url), err)
	}
	const ping = 5 * time.Second
	s, refused := newSockets(min(wait, ping)), new(refusals)
	conn, err := nats.Connect(
		url, nats.Name("offshoot "+o.Process), nats.Timeout(max(wait, time.Millisecond)),
		nats.SetCustomDialer(s), nats.ErrorHandler(refused.take),
		nats.MaxReconnects(-1), nats.ReconnectWait(200*time.Millisecond),
		nats.ReconnectJitter(200*time.Millisecond, 200*time.Millisecond), nats.ReconnectBufSize(-1),
		nats.PingInterval(ping), nats.MaxPingsOutstanding(2),
		nats.FlusherTimeout(min(o.Timeout/tries, ping)), // a write that hangs holds up all others
	)
	if err != nil {
		return nil, fmt.Errorf("natsstore: open %q: %w", mask.Address(url), err)
	}
	line := newLine(conn)
	line.refused = refused
	store, err := openOn(ctx, line, s, o)
	if err != nil {
		s.cut()
		conn.Close()
		return nil, err
	}
	return store, nil
}

// OpenConn opens the Store of a connection that the program has. Closing the Store leaves the
// connection open. The connection is to reconnect for ever (nats.MaxReconnects(-1)), keep nothing
// for later meanwhile (nats.ReconnectBufSize(-1)), and notice soon that a server is gone
// (nats.PingInterval, nats.FlusherTimeout). What its user has no right to is told to the error
// handler of the connection alone (nats.ErrorHandler): a call that needs it is not answered.
func OpenConn(ctx context.Context, conn *nats.Conn, o Options) (*session.Store, error) {
	if conn == nil {
		return nil, errNoConn
	}
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	return openOn(ctx, newLine(conn), nil, o)
}

var errNoConn = errors.New("natsstore: there is no connection")

// openOn opens the Store of a connection, and ends the line if it fails. It leaves the connection
// open. The sockets are those of one that ends with the Store.
func openOn(
	ctx context.Context, line *line, own *sockets, o Options,
) (*session.Store, error) {
	js, err := jetstream.New(line.conn)
	if err != nil {
		line.end()
		return nil, fmt.Errorf("natsstore: open: %w", err)
	}
	e := &engine{
		conn: line.conn, own: own, js: js, name: o.Name, timeout: o.Timeout, line: line,
	}
	within, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	err = e.checkServer()
	if err == nil && !o.TrustSync {
		err = checkSync(within, o.Monitor)
	}
	if err == nil {
		err = e.openStreams(within, o)
	}
	store := &session.Store{Journal: journal{e}, Transcripts: transcripts{e}, Files: files{e}}
	if err == nil {
		e.presence, err = newPresence(within, e, o)
	}
	if err == nil && o.Process != "" {
		owners, failed := newOwners(within, e, o)
		if err = failed; err == nil {
			e.members, store.Owners = owners, owners
		}
	}
	if err != nil {
		e.presence.end() //nolint:contextcheck // also after the end of ctx
		e.line.end()
		return nil, openError(o.Name, err)
	}
	return store, nil
}

// openError returns the error of Open. One that names the server is whole.
func openError(name string, err error) error {
	if _, ok := errors.AsType[*SettingError](err); ok {
		return err
	}
	if _, ok := errors.AsType[*LockedError](err); ok {
		return err
	}
	return fmt.Errorf("natsstore: open %q: %w", name, err)
}

// checkServer returns a *[SettingError] if the server cannot have a Store.
func (e *engine) checkServer() error {
	version := e.conn.ConnectedServerVersion()
	if !isVersion(version, leastMajor, leastMinor) {
		return &SettingError{
			"the server", "version", version, fmt.Sprintf("at least %d.%d is needed",
				leastMajor, leastMinor),
		}
	}
	most := e.conn.MaxPayload()
	if most < leastPayload {
		return &SettingError{
			"the server", "max_payload", strconv.FormatInt(most, 10),
			fmt.Sprintf("at least %d is needed", leastPayload),
		}
	}
	// The rest is for heads, which have a key, and headers. An answer to a reader is a third longer
	// than a message, which the server does not limit.
	const rest, enough = 32 << 10, 1 << 20
	e.room = int(min(most, enough)) - rest
	return nil
}

// isVersion reports whether a version, such as 2.12.1, is at least that one.
func isVersion(version string, major, minor int) bool {
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	if len(parts) < 2 {
		return false
	}
	have, err := strconv.Atoi(parts[0])
	if err != nil || have != major {
		return err == nil && have > major
	}
	have, err = strconv.Atoi(parts[1])
	return err == nil && have >= minor
}

// openStreams makes the streams, or takes those that there are.
func (e *engine) openStreams(ctx context.Context, o Options) (err error) {
	for _, s := range []struct {
		kind   string
		stream *stream
	}{{"log", &e.log}, {"text", &e.text}, {"docs", &e.docs}} {
		if *s.stream, err = e.openStream(ctx, s.kind, o.Replicas); err != nil {
			return err
		}
	}
	return nil
}

// openStream makes a stream, or takes the one that there is.
func (e *engine) openStream(ctx context.Context, kind string, replicas int) (stream, error) {
	name := e.name + "_" + kind
	config := jetstream.StreamConfig{
		Name: name, Subjects: []string{e.name + "." + kind + ".>"}, Replicas: max(replicas, 1),
		Storage: jetstream.FileStorage, Retention: jetstream.LimitsPolicy,
		Discard: jetstream.DiscardNew, AllowMsgTTL: true, NoAck: false,
		MaxMsgsPerSubject: -1, Metadata: map[string]string{formatKey: strconv.Itoa(format)},
	}
	if kind == "docs" {
		config.MaxMsgsPerSubject, config.Discard = 1, jetstream.DiscardOld
		config.FirstSeq = e.firstDoc()
	}
	var made jetstream.Stream
	s := stream{e: e, name: e.name + "." + kind, timeout: e.timeout}
	err := s.in(paceLarge).ask(ctx, func(ctx context.Context, _ bool) (err error) {
		made, err = e.js.Stream(ctx, name)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			made, err = e.js.CreateStream(ctx, config)
		}
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // another process was faster
			made, err = e.js.Stream(ctx, name)
		}
		return err
	})
	if err != nil {
		return s, fmt.Errorf("stream %s: %w", name, err)
	}
	s.Stream = made
	s.watch = newWatch(made.CachedInfo().Created)
	return s, checkStream(made.CachedInfo().Config, config, replicas)
}

// firstDoc returns the sequence with which documents begin that are made beside a log which has
// messages: those from before are lost, and epochs and incarnations are sequences, which must not
// go back. No stream has had as many messages as microseconds have passed.
func (e *engine) firstDoc() uint64 {
	info := e.log.CachedInfo()
	if info.State.LastSeq == 0 {
		return 0
	}
	return uint64(max(info.TimeStamp.UnixMicro(), 0))
}

// maxFirstSeq is the greatest sequence with which a stream may begin: positions have it and the
// number of an item, and must not run out.
const maxFirstSeq = 1 << 40

// checkStream returns an error if a stream is not as this package needs it.
func checkStream(have, want jetstream.StreamConfig, replicas int) error {
	version, err := strconv.Atoi(have.Metadata[formatKey])
	if err != nil || version > format {
		return fmt.Errorf("%w: stream %s has format %.20q, this package knows %d",
			session.ErrFormat, have.Name, have.Metadata[formatKey], format)
	}
	where := "stream " + have.Name
	for _, s := range []struct {
		name   string
		value  any
		bad    bool
		reason string
	}{
		{"storage", have.Storage, have.Storage != want.Storage, "it must be file"},
		{"allow_direct", have.AllowDirect, have.AllowDirect, "a reader would be told what was"},
		{
			"allow_msg_ttl", have.AllowMsgTTL, !have.AllowMsgTTL,
			"what is of no more use would stay",
		},
		{"retention", have.Retention, have.Retention != want.Retention, "it must be limits"},
		{"max_age", have.MaxAge, have.MaxAge > 0, "what was acknowledged would be removed"},
		{
			"max_msgs", have.MaxMsgs, have.MaxMsgs > 0 && have.Discard == jetstream.DiscardOld,
			"what was acknowledged would be removed",
		},
		{
			"max_bytes", have.MaxBytes, have.MaxBytes > 0 && have.Discard == jetstream.DiscardOld,
			"what was acknowledged would be removed",
		},
		{
			"max_msgs_per_subject", have.MaxMsgsPerSubject,
			have.MaxMsgsPerSubject != want.MaxMsgsPerSubject,
			fmt.Sprintf("it must be %d", want.MaxMsgsPerSubject),
		},
		{
			"persist_mode", have.PersistMode, have.PersistMode != want.PersistMode,
			"the server would acknowledge before it writes",
		},
		{
			"num_replicas", have.Replicas, replicas > 0 && have.Replicas != replicas,
			fmt.Sprintf("Options.Replicas is %d", replicas),
		},
		{"subjects", have.Subjects, !slices.Contains(have.Subjects, want.Subjects[0]), fmt.Sprintf(
			"it must have %s", want.Subjects[0])},
		{
			"subject_transform", have.SubjectTransform, have.SubjectTransform != nil,
			"nothing would be found again",
		},
		{"no_ack", have.NoAck, have.NoAck, "the server would acknowledge nothing"},
		{"sealed", have.Sealed, have.Sealed, "the stream would take nothing"},
		{"mirror", have.Mirror, have.Mirror != nil, "the stream would take nothing"},
		{
			"sources", len(have.Sources), len(have.Sources) > 0,
			"other programs would write to the stream",
		},
		{
			"discard_new_per_subject", have.DiscardNewPerSubject, have.DiscardNewPerSubject,
			"a subject would take nothing that follows",
		},
		{
			"first_seq", have.FirstSeq,
			// Documents have no positions.
			have.FirstSeq > maxFirstSeq && want.MaxMsgsPerSubject != 1,
			fmt.Sprintf("it may be %d", maxFirstSeq),
		},
		{"deny_purge", have.DenyPurge, have.DenyPurge, "nothing could be removed"},
		{"deny_delete", have.DenyDelete, have.DenyDelete, "nothing could be removed"},
	} {
		if s.bad {
			return &SettingError{where, s.name, fmt.Sprint(s.value), s.reason}
		}
	}
	return nil
}

// closePatience is how long a Store that is closed waits for a server to take that it has ended.
// Without that it is known when its lease ends.
const closePatience = 3 * time.Second

// close ends the Store. A server that does not answer has the time of closePatience: then the
// connection is cut, because its client waits for a server under its lock.
func (e *engine) close() {
	if e.closed.Swap(true) {
		return
	}
	if e.own != nil {
		defer time.AfterFunc(closePatience, e.own.cut).Stop()
	}
	if e.members != nil {
		within, cancel := context.WithTimeout(context.Background(), closePatience)
		e.members.End(within)
		cancel()
	}
	e.presence.end()
	e.ended.Store(true)
	e.line.end()
	if e.own != nil {
		e.conn.Close()
	}
}
