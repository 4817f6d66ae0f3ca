package mcp

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/provider"
)

// A DownError says that a server was not reached in time for a call. It is agent.Retryable: nothing
// was done.
type DownError struct {
	Server string
	Err    error // why
}

func (e *DownError) Error() string {
	return fmt.Sprintf("mcp: the server %q is not there: %v", e.Server, e.Err)
}

// Unwrap returns Err.
func (e *DownError) Unwrap() error { return e.Err }

// A LostError says that the connection broke while a tool was at work: it is not known whether the
// server has done what it was asked. It is agent.Retryable.
type LostError struct {
	Server, Tool string
	Err          error
}

func (e *LostError) Error() string {
	return fmt.Sprintf("mcp: the connection to the server %q broke during the call of %q: "+
		"it is not known whether it was done", e.Server, e.Tool)
}

// Unwrap returns Err.
func (e *LostError) Unwrap() error { return e.Err }

// A SizeError says that a server has answered a call with more than [MaxMessage] bytes. Another try
// would come to the same. The server may have done what it was asked.
//
// Over stdio, calls that were under way beside it fail with it, too, when the message did not end
// or did not say which call it is the answer to.
type SizeError struct {
	Server, Tool string
	Limit        int64 // in bytes
}

func (e *SizeError) Error() string {
	return fmt.Sprintf("mcp: the answer of the server %q to the call of %q has more than %d bytes, "+
		"which is the limit", e.Server, e.Tool, e.Limit)
}

// A FormError says that a server has answered a call with what has not the form of the protocol,
// such as a content of an unknown type, or with what is nested more than 1,000 levels. Another try
// would come to the same. The server may have done what it was asked. The connection goes on, with
// all other calls on it.
type FormError struct {
	Server, Tool string
	Reason       string // what is wrong with the answer
}

func (e *FormError) Error() string {
	return fmt.Sprintf("mcp: the answer of the server %q to the call of %q has not the form of the "+
		"protocol: %s", e.Server, e.Tool, e.Reason)
}

// A RedirectError says that a server over HTTP has sent a request on to another origin, which is
// not followed: the request would take what a model has written along, and what the server knows
// the bot by. Another try would come to the same. The caller sets [Server].URL to the address that
// the server is at.
type RedirectError struct {
	Server string
	To     string // such as "https://example.com:8443"
}

func (e *RedirectError) Error() string {
	return fmt.Sprintf("mcp: the server %q redirects to %q, which is another origin and is not "+
		"followed: set Server.URL to where it is", e.Server, e.To)
}

// A link keeps one server connected.
type link struct {
	cfg     Server
	name    string // of the program
	version string
	log     *slog.Logger
	changed func(Change)
	dial    func(stderr *tail) dialed
	stderr  tail
	tokens  progress
	stale   chan struct{} // has room for one: the list of the tools has changed

	mu     sync.Mutex
	conn   *conn         // nil: the server is down
	turn   chan struct{} // closed, and made anew, whenever conn changes
	err    error         // why it is down, or was last
	starts int
	said   string // instructions
	list   []definition
	done   bool

	left chan struct{} // a call of changed that has not returned in time; of the goroutine of tell
}

// A conn is one connection. It has ended when ended is closed, and is of no use any more when
// broken is: a call may see that before Wait returns.
type conn struct {
	*sdk.ClientSession
	began   time.Time
	broken  chan struct{}
	once    sync.Once // closes broken
	ended   chan struct{}
	way     *dialed
	waitErr error  // set when ended is closed
	news    Change // in the list of the tools, since the connection before
}

func newLink(cfg *Config, s Server) *link {
	l := &link{
		cfg: s.orDefault(), name: cmp.Or(cfg.Name, "offshoot"),
		version: cmp.Or(cfg.Version, "0"), changed: cfg.Changed,
		log:   guarded(cfg.Logger).With("server", s.Name),
		stale: make(chan struct{}, 1), turn: make(chan struct{}),
	}
	l.stderr.log, l.stderr.mask = l.log, l.cfg.masked
	l.tokens.mask = l.cfg.masked
	l.dial = l.cfg.dial
	return l
}

// begin reaches the server for the first time. The error is a *StartError of a server that is not
// Optional.
func (l *link) begin(ctx context.Context) error {
	c, err := l.connect(ctx)
	if err != nil {
		l.down(err)
		if !l.cfg.Optional || ctx.Err() != nil {
			return err
		}
		l.log.Warn("mcp: an optional server does not start", "error", err)
		return nil
	}
	l.publish(c)
	return nil
}

// keep has the server connected until ctx ends, and ends the connection then.
func (l *link) keep(ctx context.Context) {
	defer l.end()
	failures := 0
	for {
		l.mu.Lock()
		c := l.conn
		l.mu.Unlock()
		if c != nil {
			l.attend(ctx, c)
			lasted := time.Since(c.began)
			l.close(c)
			if ctx.Err() != nil {
				return
			}
			why := cmp.Or(l.cfg.told(c.way.broken(c.waitErr)), errors.New("the connection has ended"))
			l.down(why)
			l.log.Warn("mcp: a server has ended, and is started anew", "after", lasted, "error", why)
			if lasted > stable {
				failures = 0
			}
		}
		if !sleep(ctx, pause(failures)) {
			return
		}
		failures++
		c, err := l.connect(ctx)
		if ctx.Err() != nil {
			l.close(c)
			return
		}
		if err != nil {
			l.down(err)
			l.log.Warn("mcp: a server does not start", "attempt", failures, "error", err)
			continue
		}
		l.publish(c)
		l.tell(ctx, c.news)
	}
}

// stable is how long a connection has lasted that makes the next attempt the first one again.
const stable = time.Minute

// Pauses between attempts.
const (
	firstPause = 250 * time.Millisecond
	maxPause   = 30 * time.Second
)

// pause returns how long to wait before an attempt that so many have preceded.
func pause(attempts int) time.Duration {
	switch {
	case attempts <= 0:
		return 0
	case attempts > 7: // 250 ms << 7 is more than maxPause
		return maxPause
	}
	return firstPause << (attempts - 1)
}

// sleep waits, and reports whether ctx has not ended.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// attend reads the list again whenever it has changed, until the connection or ctx ends.
func (l *link) attend(ctx context.Context, c *conn) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.ended:
			return
		case <-c.broken:
			return
		case <-l.stale:
		}
		ask, done := context.WithTimeout(ctx, l.cfg.StartTimeout)
		list, err := l.definitions(ask, c.ClientSession)
		done()
		if err != nil {
			l.log.Warn("mcp: a list of tools that has changed cannot be read",
				"error", l.cfg.told(err))
			continue
		}
		l.tell(ctx, l.relist(list))
	}
}

// connect reaches the server and reads its list of tools. The error is a *StartError.
func (l *link) connect(ctx context.Context) (*conn, error) {
	ctx, done := context.WithTimeout(ctx, l.cfg.StartTimeout)
	defer done()
	ctx, x := exchanging(ctx)
	defer x.cut(nil)
	l.stderr.reset()
	way := l.dial(&l.stderr)
	defer context.AfterFunc(ctx, way.giveUp)()
	client := sdk.NewClient(&sdk.Implementation{Name: l.name, Version: l.version},
		&sdk.ClientOptions{
			Logger:       fewErrors(l.log),          // of tools that it leaves out
			Capabilities: &sdk.ClientCapabilities{}, // no roots, no sampling, no questions
			// The SDK would make a call again for each such question, and fail in the end.
			MultiRoundTrip: &sdk.MultiRoundTripOptions{Disabled: true},
			ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) {
				select {
				case l.stale <- struct{}{}:
				default: // it is to be read already
				}
			},
			ProgressNotificationHandler: func(
				_ context.Context, r *sdk.ProgressNotificationClientRequest,
			) {
				l.tokens.tell(r.Params)
			},
		})
	session, err := client.Connect(ctx, way.transport, nil)
	if err != nil {
		way.cleanUp()
		return nil, l.startError(ctx, x, &way, err)
	}
	c := &conn{
		ClientSession: session, began: time.Now(), broken: make(chan struct{}),
		ended: make(chan struct{}), way: &way,
	}
	go func() { // close waits for it
		defer close(c.ended)
		c.waitErr = session.Wait()
	}()
	list, err := l.definitions(ctx, session)
	if err != nil {
		if ctx.Err() != nil {
			way.giveUp() // the function that ctx calls may not have begun
		}
		l.close(c)
		return nil, l.startError(ctx, x, &way, err)
	}
	l.mu.Lock()
	l.starts++
	if r := session.InitializeResult(); r != nil {
		l.said = bounded(l.cfg.masked(clean(r.Instructions)), MaxDescription)
	}
	l.mu.Unlock()
	c.news = l.relist(list)
	return c, nil
}

func (l *link) startError(ctx context.Context, x *exchange, way *dialed, err error) error {
	size, status := tooLarge(ctx, err), x.statusOf("")
	away, isAway := errors.AsType[*RedirectError](err)
	switch {
	case isAway:
		err = away
	case size != nil:
		err = size
	case status != nil && ctx.Err() == nil:
		err = status
	case ctx.Err() == nil && !isAnswer(err):
		err = way.broken(err)
	}
	return &StartError{Server: l.cfg.Name, Stderr: l.stderr.last(), Err: l.cfg.told(err)}
}

// close ends a connection and waits for it. It may be nil.
func (l *link) close(c *conn) {
	if c == nil {
		return
	}
	_ = c.Close() // a child that was killed has a status that is not news
	<-c.ended
	c.way.cleanUp()
}

// publish lets calls use a connection.
func (l *link) publish(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conn = c
	l.wake()
}

// down has calls wait for another connection.
func (l *link) down(why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conn, l.err = nil, why
	l.wake()
}

// end lets no call wait any more, and closes what is open.
func (l *link) end() {
	l.mu.Lock()
	c := l.conn
	l.conn, l.err, l.done = nil, ErrClosed, true
	l.wake()
	l.mu.Unlock()
	if c != nil {
		select {
		case <-c.ended: // keep has closed it
		default:
			l.close(c)
		}
	}
}

// wake lets those look again that wait for a connection. l.mu is held.
func (l *link) wake() {
	close(l.turn)
	l.turn = make(chan struct{})
}

// session returns a connection that has not ended. It waits for up to the StartTimeout.
func (l *link) session(ctx context.Context) (*conn, error) {
	limit := time.NewTimer(l.cfg.StartTimeout)
	defer limit.Stop()
	for {
		l.mu.Lock()
		c, turn, why, done := l.conn, l.turn, l.err, l.done
		l.mu.Unlock()
		if done {
			return nil, ErrClosed
		}
		if c != nil && !c.hasEnded() {
			return c, nil
		}
		select {
		case <-turn:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-limit.C:
			why = cmp.Or(why, errors.New("it does not answer"))
			return nil, agent.Retryable(&DownError{Server: l.cfg.Name, Err: why})
		}
	}
}

func (c *conn) hasEnded() bool {
	select {
	case <-c.ended:
		return true
	case <-c.broken:
		return true
	default:
		return false
	}
}

// ask makes one request of the server, again if the server does not know the session any more: then
// it has not looked at the request. What is not an answer of the server is a *DownError, a
// *LostError, a *SizeError, a *FormError, a *StatusError, a *RedirectError or the cause of ctx.
func ask[T any](
	ctx context.Context, l *link, tool string,
	f func(context.Context, *sdk.ClientSession) (T, error),
) (T, error) {
	var none T
	c, err := l.session(ctx)
	if err != nil {
		return none, err
	}
	ctx, x := exchanging(ctx)
	defer x.cut(nil)
	out, err := f(ctx, c.ClientSession)
	unreached := isUnreached(err)
	if ctx.Err() == nil && (unreached || isBroken(err)) {
		c.once.Do(func() { close(c.broken) })
	}
	if errors.Is(err, sdk.ErrSessionMissing) {
		if c, err = l.session(ctx); err != nil {
			return none, err
		}
		out, err = f(ctx, c.ClientSession)
	}
	size, odd, status := tooLarge(ctx, err), wrongForm(err), x.statusOf(tool)
	away, isAway := errors.AsType[*RedirectError](err)
	switch {
	case err == nil:
		return out, nil
	case isAway:
		return none, away
	case size != nil:
		return none, &SizeError{Server: l.cfg.Name, Tool: tool, Limit: size.Limit}
	case ctx.Err() != nil:
		return none, context.Cause(ctx)
	case odd != "":
		reason := bounded(l.cfg.masked(oneLine(odd)), 200)
		return none, &FormError{Server: l.cfg.Name, Tool: tool, Reason: reason}
	case status != nil:
		return none, status.tried()
	case isAnswer(err):
		return none, err
	case unreached:
		return none, agent.Retryable(&DownError{Server: l.cfg.Name, Err: l.cfg.told(err)})
	}
	return none, agent.Retryable(&LostError{Server: l.cfg.Name, Tool: tool, Err: l.cfg.told(err)})
}

// tooLarge returns why a request has failed whose answer is too large, or came when the connection
// broke over a message that is; nil: it is for another reason.
func tooLarge(ctx context.Context, err error) *provider.SizeError {
	if size, ok := errors.AsType[*provider.SizeError](context.Cause(ctx)); ok { // over HTTP
		return size
	}
	if size, ok := errors.AsType[*provider.SizeError](err); ok {
		return size
	}
	if answer, ok := errors.AsType[*jsonrpc.Error](err); ok && answer.Code == codeTooLarge {
		return &provider.SizeError{Client: "mcp", Limit: MaxMessage}
	}
	return nil
}

// oddContents are the words with which the SDK refuses a content of a result.
var oddContents = []string{
	"nil content", "invalid content type ", "unrecognized content type ",
	"tool_result nested content",
}

// wrongForm returns what is wrong with the form of the answer to a request that has failed, or "".
// The SDK has an answer then that is a message, and could not read the result in it. It says so
// right behind the name of the request: the error of a connection may have another one in it.
func wrongForm(err error) string {
	err = errors.Unwrap(err)
	switch odd := err.(type) { //nolint:errorlint // what is deeper is of a connection
	case nil:
		return ""
	case *jsonrpc.Error:
		if odd.Code == codeTooDeep {
			return odd.Message
		}
		return ""
	case *json.UnmarshalTypeError:
		return fmt.Sprintf("a member %q is of another type", odd.Field)
	case base64.CorruptInputError:
		return odd.Error()
	}
	said := err.Error()
	if slices.ContainsFunc(oddContents, func(words string) bool {
		return strings.HasPrefix(said, words)
	}) {
		return said
	}
	return ""
}

// isUnreached reports whether an error says that no connection to the host of a server came about,
// so that it cannot have got the request.
func isUnreached(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}

// isBroken reports whether an error says that its connection is of no use any more: it is neither
// an answer nor one request that did not get through.
func isBroken(err error) bool {
	if err == nil || isAnswer(err) || wrongForm(err) != "" {
		return false
	}
	refusal, ok := errors.AsType[*jsonrpc.Error](err)
	return !ok || refusal.Code != notSent || errors.Is(err, sdk.ErrSessionMissing)
}

// relist takes a list of the server and returns what has changed. The first list of a server that
// Connect has reached is not a change.
func (l *link) relist(list []definition) Change {
	l.mu.Lock()
	change := diff(l.list, list)
	first := l.starts == 1 && l.list == nil && l.conn == nil && l.err == nil
	l.list = list
	l.mu.Unlock()
	if first {
		return Change{}
	}
	change.Server = l.cfg.Name
	return change
}

// changedLimit is how long Config.Changed may take.
const changedLimit = 10 * time.Second

// tell tells the program of a change, if there is one, and waits: for up to changedLimit, and when
// ctx has ended for as long as a child process gets to end. A call that takes longer is left
// behind, and until it returns the program is told of no other change. A panic there, or the end of
// its goroutine, is logged: neither the bot ends by it nor the connection.
func (l *link) tell(ctx context.Context, change Change) {
	if change.isEmpty() {
		return
	}
	l.log.Info("mcp: the tools of a server have changed", "added", change.Added,
		"removed", change.Removed, "modified", change.Modified)
	if l.changed == nil {
		return
	}
	if l.left != nil {
		select {
		case <-l.left:
			l.left = nil
		default:
			l.log.Warn("mcp: a change of tools is not told, since Config.Changed does not return")
			return
		}
	}
	returned := make(chan struct{})
	go func() { // left behind if the program does not return
		defer close(returned)
		if fell := contained("Config.Changed", func() { l.changed(change) }); fell != nil {
			fell.log(l.log)
		}
	}()
	limit := time.NewTimer(changedLimit)
	defer limit.Stop()
	select {
	case <-returned:
		return
	case <-limit.C:
	case <-ctx.Done():
		limit.Reset(patience)
		select {
		case <-returned:
			return
		case <-limit.C:
		}
	}
	l.left = returned
	l.log.Warn("mcp: Config.Changed does not return, and is left behind")
}

func (c *Change) isEmpty() bool {
	return len(c.Added)+len(c.Removed)+len(c.Modified) == 0
}

// diff returns what differs between two lists, which are sorted by name.
func diff(before, after []definition) Change {
	var c Change
	for _, d := range after {
		switch i := find(before, d.name); {
		case i < 0:
			c.Added = append(c.Added, d.name)
		case !before[i].equal(d):
			c.Modified = append(c.Modified, d.name)
		}
	}
	for _, d := range before {
		if find(after, d.name) < 0 {
			c.Removed = append(c.Removed, d.name)
		}
	}
	return c
}

// find returns the index of a name in a list that is sorted by name, or -1.
func find(list []definition, name string) int {
	i, ok := slices.BinarySearchFunc(list, name, func(d definition, name string) int {
		return strings.Compare(d.name, name)
	})
	if !ok {
		return -1
	}
	return i
}

// current returns the definition of a tool in the present list.
func (l *link) current(name string) (definition, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := find(l.list, name); i >= 0 {
		return l.list[i], true
	}
	return definition{}, false
}

func (l *link) status() Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	return Status{
		Server: l.cfg.Name, Up: l.conn != nil && !l.conn.hasEnded(), Err: l.err, Starts: l.starts,
		Tools: len(l.list), Instructions: l.said,
	}
}
