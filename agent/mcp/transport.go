package mcp

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/offshoot-sdk/offshoot/agent/provider"
)

// A dialed is a way to a server.
type dialed struct {
	transport sdk.Transport
	cleanUp   func()        // what is to be done when the connection has ended
	giveUp    func()        // has one end at once that has not come about; may be called meanwhile
	exited    func() string // behind cleanUp: how a child has ended by itself in failure, or ""
}

// broken returns why a connection has ended, of the error that the SDK has for it: the end of a
// child process, if it has ended by itself in failure, since the SDK says just that nothing comes.
func (d *dialed) broken(err error) error {
	if how := d.exited(); how != "" {
		return &toldError{"the program has ended: " + how, err}
	}
	return err
}

// exitOf returns how a process has ended by itself in failure, or "". A signal with which it is
// ended by its connection does not count.
func exitOf(p *os.ProcessState) string {
	if p == nil || p.Success() {
		return ""
	}
	how := p.String()
	for _, own := range []os.Signal{os.Kill, syscall.SIGTERM} {
		if strings.HasPrefix(how, "signal: "+own.String()) {
			return ""
		}
	}
	return how
}

// dial returns the way to the server.
func (s *Server) dial(stderr *tail) dialed {
	if s.URL != "" {
		return s.dialHTTP(stderr.log)
	}
	cmd := exec.Command(s.Command[0], s.Command[1:]...)
	cmd.Dir, cmd.Env, cmd.Stderr = s.Dir, environment(os.Environ(), s.Env), stderr
	cmd.WaitDelay = patience
	child := &command{cmd: cmd, log: stderr.log, ended: make(chan struct{})}
	return dialed{
		transport: child, giveUp: child.kill, exited: child.exited, cleanUp: func() {
			child.end() // the handshake may have failed half-way
			stderr.flush()
		},
	}
}

func (s *Server) dialHTTP(log *slog.Logger) dialed {
	var base http.RoundTripper
	client := http.Client{}
	if s.HTTP != nil {
		client = *s.HTTP
	}
	done := func() {}
	switch {
	case client.Transport != nil:
		base = guardedTransport{client.Transport}
	default:
		own := http.DefaultTransport.(*http.Transport).Clone()
		base, done = own, own.CloseIdleConnections
	}
	if client.Jar != nil {
		client.Jar = guardedJar{client.Jar, log}
	}
	base = &provider.Transport{Base: base, Client: "mcp", MaxBytes: MaxMessage, PerEvent: true}
	way := &headers{base: repairing{base, log}, of: s, givenUp: make(chan struct{})}
	client.Transport = way
	client.CheckRedirect = s.checkRedirect(client.CheckRedirect)
	return dialed{
		transport: &sdk.StreamableClientTransport{
			Endpoint: s.URL, HTTPClient: &client, MaxEventSize: MaxMessage,
		},
		cleanUp: done, exited: func() string { return "" },
		giveUp: sync.OnceFunc(func() { close(way.givenUp) }),
	}
}

// checkRedirect returns what decides on redirects: those to another origin are not followed, since
// they would take what a model has written, and the id of the session, along. On the others the
// HTTP of the server decides, and without one there are at most ten.
func (s *Server) checkRedirect(
	own func(*http.Request, []*http.Request) error,
) func(*http.Request, []*http.Request) error {
	return func(next *http.Request, before []*http.Request) (err error) {
		defer func() {
			x, ok := next.Context().Value(exchangeKey{}).(*exchange)
			if ok && !errors.Is(err, http.ErrUseLastResponse) {
				x.failed.Store(nil) // the status is not the answer
			}
		}()
		switch to := next.URL.Scheme + "://" + next.URL.Host; {
		case !isWithin(to, s.URL):
			return &RedirectError{Server: s.Name, To: to}
		case next.Method != before[0].Method: // it would not bring the call there
			return http.ErrUseLastResponse
		case own != nil:
			if fell := contained("Server.HTTP", func() { err = own(next, before) }); fell != nil {
				return fell
			}
			return err
		case len(before) >= 10:
			return errors.New("mcp: there are more than ten redirects")
		}
		return nil
	}
}

// A cutBody is the body of an answer, which ends its call if a read fails since it is too large.
type cutBody struct {
	io.ReadCloser

	cut context.CancelCauseFunc
}

// Read reads the body.
func (b *cutBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if size, ok := errors.AsType[*provider.SizeError](err); ok {
		b.cut(size)
	}
	return n, err
}

// headers adds the Header of a server to the requests for its host, and to no other. What the
// answers say beyond the protocol is noted in the exchange of the request.
type headers struct {
	base    http.RoundTripper
	of      *Server
	givenUp chan struct{} // closed: the start is over, and the end of its session takes no time
}

// RoundTrip makes the request.
func (h *headers) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodDelete {
		return h.endSession(r)
	}
	return h.send(r)
}

// endSession tells the server that its session is over, unless the start is given up. The answer
// has no body.
func (h *headers) endSession(r *http.Request) (*http.Response, error) {
	select {
	case <-h.givenUp:
		return nil, errors.New("mcp: the server has not started in time")
	default:
	}
	ctx, done := context.WithCancel(r.Context())
	watched := make(chan struct{})
	defer func() { done(); <-watched }()
	go func() { // the deferred function waits for it
		defer close(watched)
		select {
		case <-h.givenUp:
			done()
		case <-ctx.Done():
		}
	}()
	resp, err := h.send(r.WithContext(ctx))
	if err != nil {
		return nil, err
	}
	err = resp.Body.Close()
	resp.Body = http.NoBody
	return resp, err
}

func (h *headers) send(r *http.Request) (*http.Response, error) {
	if len(h.of.Header) > 0 && isWithin(r.URL.Scheme+"://"+r.URL.Host, h.of.URL) {
		r = r.Clone(r.Context())
		for name, values := range h.of.Header {
			r.Header[http.CanonicalHeaderKey(name)] = slices.Clone(values)
		}
	}
	resp, err := h.base.RoundTrip(r)
	if x, ok := r.Context().Value(exchangeKey{}).(*exchange); ok && err == nil {
		resp.Body = &cutBody{resp.Body, x.cut}
		x.note(r, resp, h.of)
	}
	return resp, err
}

// isWithin reports whether an address is that of an origin.
func isWithin(origin, address string) bool {
	rest, ok := strings.CutPrefix(strings.ToLower(address), strings.ToLower(origin))
	return ok && (rest == "" || strings.ContainsRune("/?#", rune(rest[0])))
}

// harmless are the variables that programs need to run at all.
var harmless = []string{
	"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "TZ", "TMPDIR", "TMP", "TEMP",
	// Windows
	"SYSTEMROOT", "SYSTEMDRIVE", "USERPROFILE", "USERNAME", "APPDATA", "LOCALAPPDATA", "PATHEXT",
	"PROGRAMFILES", "COMSPEC", "HOMEDRIVE", "HOMEPATH",
}

// environment returns what a child process is given of the environment of the bot, and what is set
// for it, which comes last and so counts.
func environment(all, set []string) []string {
	env := []string{}
	for _, v := range all {
		name, _, _ := strings.Cut(v, "=")
		if name = strings.ToUpper(name); slices.Contains(harmless, name) ||
			strings.HasPrefix(name, "LC_") {
			env = append(env, v)
		}
	}
	return append(env, set...)
}

// Bounds of what is kept of stderr.
const (
	maxLine   = 1000 // of a line, in the log
	maxTail   = 2000 // of the end, in a StartError
	maxSecret = 4096 // of what is kept beside them: a secret is masked as a whole, and then cut
)

// A tail logs what a child process writes to stderr, line by line, and keeps the end of it.
type tail struct {
	log  *slog.Logger
	mask func(string) string // of secrets
	mu   sync.Mutex
	line []byte
	end  []byte
}

// Write takes a piece of it.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.end = append(t.end, p...)
	t.end = t.end[max(0, len(t.end)-maxTail-maxSecret):]
	for _, c := range p {
		switch {
		case c == '\n':
			t.put()
		case len(t.line) < maxLine+maxSecret:
			t.line = append(t.line, c)
		}
	}
	return len(p), nil
}

// put logs the line. t.mu is held.
func (t *tail) put() {
	if line := strings.TrimSpace(t.mask(clean(string(t.line)))); line != "" {
		t.log.Debug("mcp: a server says", "stderr", line[:min(len(line), maxLine)])
	}
	t.line = t.line[:0]
}

// flush logs a line that is not complete.
func (t *tail) flush() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.put()
}

func (t *tail) reset() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.line, t.end = nil, nil
}

// last returns the end of what was written.
func (t *tail) last() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	said := t.mask(clean(string(t.end)))
	return strings.TrimSpace(strings.ToValidUTF8(said[max(0, len(said)-maxTail):], ""))
}
