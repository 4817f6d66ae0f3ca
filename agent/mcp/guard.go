package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"runtime/debug"
	"sync/atomic"

	"github.com/offshoot-sdk/offshoot/announce"
)

// A fallError is what code of the program has done in the place of returning.
type fallError struct {
	name  string // of the code
	value string // what it panicked with
	stack []byte // nil: it has ended its goroutine
}

func (e *fallError) Error() string {
	if e.stack == nil {
		return "mcp: " + e.name + " ended its goroutine"
	}
	return "mcp: " + e.name + " panicked: " + e.value
}

// log tells of it, with credentials masked.
func (e *fallError) log(to *slog.Logger, args ...any) {
	if e.stack == nil {
		to.Error("mcp: "+e.name+" ended its goroutine", args...)
		return
	}
	to.Error("mcp: "+e.name+" panicked",
		append(args, "value", announce.Redact(e.value), "stack", announce.Redact(string(e.stack)))...)
}

// contained calls f, which is code of the program, in a goroutine of its own and waits for it. The
// SDK calls such code where a panic would end the process, and the end of the goroutine would hold
// up the connection. It returns nil if f returns.
func contained(name string, f func()) *fallError {
	done := make(chan *fallError, 1)
	go func() {
		fell := &fallError{name: name} // unless f returns
		defer func() { done <- fell }()
		defer func() {
			if value := recover(); value != nil {
				fell.value, fell.stack = fmt.Sprint(value), debug.Stack()
			}
		}()
		f()
		fell = nil
	}()
	return <-done
}

// A guardedTransport is the http.RoundTripper of a program. If it does not return, or returns
// nothing, the request has failed.
type guardedTransport struct{ base http.RoundTripper }

// RoundTrip makes the request.
func (t guardedTransport) RoundTrip(r *http.Request) (resp *http.Response, err error) {
	fell := contained("Server.HTTP", func() { resp, err = t.base.RoundTrip(r) })
	switch {
	case fell != nil:
		return nil, fell
	case err != nil:
		return nil, err
	case resp == nil:
		return nil, errors.New("mcp: Server.HTTP has returned neither an answer nor an error")
	}
	if resp.Body != nil {
		resp.Body = guardedBody{resp.Body}
	}
	return resp, nil
}

// A guardedBody is the body of an answer of a guardedTransport.
type guardedBody struct{ base io.ReadCloser }

// Read reads the body.
func (b guardedBody) Read(p []byte) (n int, err error) {
	fell := contained("Server.HTTP", func() { n, err = b.base.Read(p) })
	switch {
	case fell != nil:
		return 0, fell
	case n < 0 || n > len(p):
		return 0, errors.New("mcp: Server.HTTP has read more than there was room for")
	}
	return n, err
}

// Close closes the body.
func (b guardedBody) Close() (err error) {
	if fell := contained("Server.HTTP", func() { err = b.base.Close() }); fell != nil {
		return fell
	}
	return err
}

// A guardedJar is the http.CookieJar of a program. One that does not return has no cookies.
type guardedJar struct {
	base http.CookieJar
	log  *slog.Logger
}

// SetCookies keeps the cookies of an answer.
func (j guardedJar) SetCookies(u *url.URL, cookies []*http.Cookie) {
	if fell := contained("Server.HTTP", func() { j.base.SetCookies(u, cookies) }); fell != nil {
		fell.log(j.log)
	}
}

// Cookies returns the cookies of a request.
func (j guardedJar) Cookies(u *url.URL) (cookies []*http.Cookie) {
	if fell := contained("Server.HTTP", func() { cookies = j.base.Cookies(u) }); fell != nil {
		fell.log(j.log)
		return nil
	}
	return cookies
}

// guarded returns a Logger that writes to another one, whose panics cost the record alone. The Go
// language has no way to stop a Handler that ends the goroutine.
func guarded(log *slog.Logger) *slog.Logger { return slog.New(guardedHandler{log.Handler()}) }

// A guardedHandler is the slog.Handler of a program. One that panics is not enabled, or used
// without attributes.
type guardedHandler struct{ base slog.Handler }

// Enabled implements slog.Handler.
func (h guardedHandler) Enabled(ctx context.Context, level slog.Level) (is bool) {
	defer func() { _ = recover() }()
	return h.base.Enabled(ctx, level)
}

// Handle implements slog.Handler.
func (h guardedHandler) Handle(ctx context.Context, r slog.Record) error {
	defer func() { _ = recover() }()
	return h.base.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h guardedHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return h.or(func() slog.Handler { return h.base.WithAttrs(attrs) })
}

// WithGroup implements slog.Handler.
func (h guardedHandler) WithGroup(name string) slog.Handler {
	return h.or(func() slog.Handler { return h.base.WithGroup(name) })
}

func (h guardedHandler) or(f func() slog.Handler) (with slog.Handler) {
	with = h
	defer func() { _ = recover() }()
	if base := f(); base != nil {
		with = guardedHandler{base}
	}
	return with
}

// maxSDKErrors is how many errors of the SDK are logged for one connection.
const maxSDKErrors = 20

// fewErrors returns a Logger for the SDK, which logs an error for each tool that it leaves out of
// a list, with all that the server calls it. Of those the first maxSDKErrors are logged, bounded.
func fewErrors(log *slog.Logger) *slog.Logger {
	return slog.New(&fewHandler{Handler: log.Handler()})
}

// A fewHandler is the slog.Handler of fewErrors.
type fewHandler struct {
	slog.Handler

	count atomic.Int64
}

// Enabled implements slog.Handler.
func (h *fewHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelError && h.Handler.Enabled(ctx, level)
}

// Handle implements slog.Handler.
func (h *fewHandler) Handle(ctx context.Context, r slog.Record) error {
	if h.count.Add(1) > maxSDKErrors {
		return nil
	}
	short := slog.NewRecord(r.Time, slog.LevelWarn, "mcp: the SDK says: "+said(r.Message), r.PC)
	r.Attrs(func(a slog.Attr) bool {
		short.AddAttrs(slog.String(a.Key, said(a.Value.String())))
		return true
	})
	return h.Handler.Handle(ctx, short)
}

// said returns what a server says, or the SDK of it, for the log.
func said(text string) string { return bounded(oneLine(text), 200) }
