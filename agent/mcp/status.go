package mcp

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/provider"
)

// A StatusError says that a server over HTTP has answered with a status that is not one of success,
// and not with an error of the protocol.
//
// A status of the server itself, such as 500 or 503, is agent.Retryable, and an agent.RateLimited
// if the server says when it takes calls again. Any other is final: after a 401 or 403 the caller
// sets [Server].Header or [Server].HTTP to what the server takes.
type StatusError struct {
	Server, Tool string // Tool is empty at the start of the server
	Status       int
	Text         string        // the words of the answer, on one line, masked and bounded
	After        time.Duration // until the server takes calls again; 0: it does not say
}

func (e *StatusError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "mcp: the server %q answers", e.Server)
	if e.Tool != "" {
		fmt.Fprintf(&b, " the call of %q with", e.Tool)
	}
	fmt.Fprintf(&b, " %d", e.Status)
	if text := http.StatusText(e.Status); text != "" {
		b.WriteString(" " + text)
	}
	if e.Text != "" {
		b.WriteString(": " + e.Text)
	}
	switch {
	case provider.ClassOf(e.Status, "") == provider.ClassAccount:
		b.WriteString(" (another try comes to the same: Server.Header has not what it takes)")
	case !e.isRetryable():
		b.WriteString(" (another try comes to the same)")
	case e.Tool != "" && e.Status >= http.StatusInternalServerError:
		b.WriteString(" (it is not known whether the call was done)")
	}
	return b.String()
}

// isRetryable reports whether another try may come to something else. A conflict, which a provider
// of models may have with itself, is one with what the server holds.
func (e *StatusError) isRetryable() bool {
	if e.Status == http.StatusConflict {
		return false
	}
	class := provider.ClassOf(e.Status, "")
	return class == provider.ClassRate || class == provider.ClassRetryable
}

// tried returns the error as the Runtime wants it.
func (e *StatusError) tried() error {
	switch {
	case !e.isRetryable():
		return e
	case e.After > 0:
		return agent.RateLimited{After: e.After, Err: e}
	}
	return agent.Retryable(e)
}

// maxWords is how many bytes of the words of an answer a StatusError has.
const maxWords = 1000

// An exchange is what a call, or the start of a server, learns of its requests over HTTP: the SDK
// loses it, or waits for the rest of an answer.
type exchange struct {
	cut    context.CancelCauseFunc     // ends it
	failed atomic.Pointer[StatusError] // what the last POST was answered with; nil: with success
}

// exchangeKey is the key under which a context has its exchange.
type exchangeKey struct{}

// exchanging returns a context for requests of a server with what is learned of them. It ends when
// an answer to one of them is too large, and no answer could be put in its place. Its cause is then
// a *provider.SizeError.
func exchanging(ctx context.Context) (context.Context, *exchange) {
	ctx, stop := context.WithCancelCause(ctx)
	x := &exchange{cut: stop}
	return context.WithValue(ctx, exchangeKey{}, x), x
}

// codeRefused is the code of an answer that stands for a status and words that are not one. The SDK
// would take them for the end of the connection, with all other calls on it. A server that sends it
// itself refuses its call.
const codeRefused = -32096

// note takes the answer to a POST. The body of one without success is read. An error of the
// protocol stays what it is, unless another try may come to something else. In the place of all
// else one is put, but for a 404: that may be the end of a session.
func (x *exchange) note(r *http.Request, resp *http.Response, of *Server) {
	if r.Method != http.MethodPost {
		return // whether a server has a stream of its own is not what was asked
	}
	x.failed.Store(nil)
	if resp.StatusCode < 300 {
		return
	}
	body, _ := io.ReadAll(resp.Body) // it is bounded; what there is counts
	_ = resp.Body.Close()
	e := &StatusError{
		Server: of.Name, Status: resp.StatusCode, After: provider.After(resp.Header, time.Now()),
	}
	words := string(body)
	if refusal := refusalOf(body); refusal != nil {
		if !e.isRetryable() {
			resp.Body = io.NopCloser(bytes.NewReader(body))
			return
		}
		words = refusal.Error()
	}
	words = cmp.Or(oneLine(words), oneLine(resp.Header.Get("WWW-Authenticate")))
	if !strings.EqualFold(words, http.StatusText(resp.StatusCode)) {
		e.Text = bounded(of.masked(words), maxWords)
	}
	x.failed.Store(e)
	if id := callOf(r); id != "" && resp.StatusCode != http.StatusNotFound {
		body = standIn(id, false, codeRefused, e.Error())
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
}

// refusalOf returns the error of the protocol that a body is, or nil.
func refusalOf(body []byte) error {
	m, err := jsonrpc.DecodeMessage(body)
	if answer, ok := m.(*jsonrpc.Response); err == nil && ok {
		return answer.Error
	}
	return nil
}

// statusOf returns why a request has failed that was answered with a status, or nil.
func (x *exchange) statusOf(tool string) *StatusError {
	said := x.failed.Load()
	if said == nil {
		return nil
	}
	e := *said
	e.Tool = tool
	return &e
}

// A toldError is an error in words that say nothing of the ways of the SDK, or of a secret.
type toldError struct {
	text string
	is   error // nil: its text has a secret
}

func (e *toldError) Error() string { return e.text }

// Unwrap returns the error that is told, unless its text has a secret.
func (e *toldError) Unwrap() error { return e.is }

// ways are words of the SDK on what is behind a call: first a request that only newer servers know.
var ways = strings.NewReplacer(`sending "server/discover": `, "", `calling "server/discover": `, "",
	"rejected by transport: ", "")

// told returns an error of the SDK as the program is told it.
func (s *Server) told(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	plain := ways.Replace(text)
	switch clean := s.masked(plain); {
	case clean != plain:
		return &toldError{clean, sentinel(err)}
	case plain != text:
		return &toldError{plain, err}
	}
	return err
}

// sentinel returns what callers look for in an error, without its text.
func sentinel(err error) error {
	for _, known := range []error{context.DeadlineExceeded, context.Canceled, ErrClosed} {
		if errors.Is(err, known) {
			return known
		}
	}
	return nil
}
