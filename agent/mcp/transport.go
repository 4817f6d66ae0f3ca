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

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/offshoot-sdk/offshoot/agent/provider"
)

// dial returns how the server is reached, and what is to be done when the connection has ended.
func (s *Server) dial(stderr *tail) (sdk.Transport, func()) {
	if s.URL != "" {
		return s.dialHTTP(stderr.log)
	}
	cmd := exec.Command(s.Command[0], s.Command[1:]...)
	cmd.Dir, cmd.Env, cmd.Stderr = s.Dir, environment(os.Environ(), s.Env), stderr
	cmd.WaitDelay = patience
	return &command{cmd: cmd, log: stderr.log}, func() {
		if cmd.Process != nil && cmd.ProcessState == nil { // the handshake has failed half-way
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
		stderr.flush()
	}
}

func (s *Server) dialHTTP(log *slog.Logger) (sdk.Transport, func()) {
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
	client.Transport = &headers{base: repairing{base, log}, of: s}
	client.CheckRedirect = s.checkRedirect(client.CheckRedirect)
	return &sdk.StreamableClientTransport{
		Endpoint: s.URL, HTTPClient: &client, MaxEventSize: MaxMessage,
	}, done
}

// checkRedirect returns what decides on redirects: those to another origin are not followed, since
// they would take what a model has written, and the id of the session, along. On the others the
// HTTP of the server decides, and without one there are at most ten.
func (s *Server) checkRedirect(
	own func(*http.Request, []*http.Request) error,
) func(*http.Request, []*http.Request) error {
	return func(next *http.Request, before []*http.Request) (err error) {
		switch to := next.URL.Scheme + "://" + next.URL.Host; {
		case !isWithin(to, s.URL):
			return &RedirectError{Server: s.Name, To: to}
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

// cutKey is the key under which a context has what ends a call whose answer is too large.
type cutKey struct{}

// cutShort returns a context for requests of a server that ends when an answer to one of them is
// too large, and no answer could be put in its place. Its cause is then a *provider.SizeError. The
// SDK loses that error, or waits for the rest of the answer.
func cutShort(ctx context.Context) (context.Context, context.CancelCauseFunc) {
	ctx, stop := context.WithCancelCause(ctx)
	return context.WithValue(ctx, cutKey{}, stop), stop
}

// A cutBody is the body of an answer, which ends its call if a read fails since it is too large.
type cutBody struct {
	io.ReadCloser

	stop context.CancelCauseFunc
}

// Read reads the body.
func (b *cutBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if size, ok := errors.AsType[*provider.SizeError](err); ok {
		b.stop(size)
	}
	return n, err
}

// headers adds the Header of a server to the requests for its host, and to no other. An
// answer that is too large, and cannot be repaired, ends the call that asked for it.
type headers struct {
	base http.RoundTripper
	of   *Server
}

// RoundTrip makes the request.
func (h *headers) RoundTrip(r *http.Request) (*http.Response, error) {
	if len(h.of.Header) > 0 && isWithin(r.URL.Scheme+"://"+r.URL.Host, h.of.URL) {
		r = r.Clone(r.Context())
		for name, values := range h.of.Header {
			r.Header[http.CanonicalHeaderKey(name)] = slices.Clone(values)
		}
	}
	resp, err := h.base.RoundTrip(r)
	if stop, ok := r.Context().Value(cutKey{}).(context.CancelCauseFunc); ok && err == nil {
		resp.Body = &cutBody{resp.Body, stop}
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
	maxLine = 1000 // of a line, in the log
	maxTail = 2000 // of the end, in a StartError
)

// A tail logs what a child process writes to stderr, line by line, and keeps the end of it.
type tail struct {
	log  *slog.Logger
	mu   sync.Mutex
	line []byte
	end  []byte
}

// Write takes a piece of it.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.end = append(t.end, p...)
	t.end = t.end[max(0, len(t.end)-maxTail):]
	for _, c := range p {
		switch {
		case c == '\n':
			t.put()
		case len(t.line) < maxLine:
			t.line = append(t.line, c)
		}
	}
	return len(p), nil
}

// put logs the line. t.mu is held.
func (t *tail) put() {
	if line := strings.TrimSpace(clean(string(t.line))); line != "" {
		t.log.Debug("mcp: a server says", "stderr", line)
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
	return strings.TrimSpace(clean(string(t.end)))
}
