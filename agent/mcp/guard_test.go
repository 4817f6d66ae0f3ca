package mcp_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent/mcp"
)

// misdeeds are what code of a program may do in place of returning.
var misdeeds = map[string]func(){
	"panics": func() { panic("of the program") },
	"exits":  runtime.Goexit,
}

// oddHTTP is the http.RoundTripper, the body, the CookieJar and the CheckRedirect of a program, one
// of which misbehaves once it is on.
type oddHTTP struct {
	where    string
	misdeed  func()
	on       atomic.Bool
	misdeeds atomic.Int64
}

func (o *oddHTTP) at(where string) {
	if o.where == where && o.on.Load() {
		o.misdeeds.Add(1)
		o.misdeed()
	}
}

func (o *oddHTTP) RoundTrip(r *http.Request) (*http.Response, error) {
	o.at("RoundTrip")
	if o.where == "nothing" && o.on.Load() {
		o.misdeeds.Add(1)
		return nil, nil //nolint:nilnil // it is odd
	}
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err == nil {
		resp.Body = &oddBody{resp.Body, o}
	}
	return resp, err
}

type oddBody struct {
	io.ReadCloser

	of *oddHTTP
}

func (b *oddBody) Read(p []byte) (int, error) {
	b.of.at("Read")
	if b.of.where == "too much" && b.of.on.Load() {
		b.of.misdeeds.Add(1)
		return len(p) + 1, nil
	}
	return b.ReadCloser.Read(p)
}

func (b *oddBody) Close() error {
	err := b.ReadCloser.Close()
	b.of.at("Close")
	return err
}

func (o *oddHTTP) SetCookies(*url.URL, []*http.Cookie) { o.at("SetCookies") }

func (o *oddHTTP) Cookies(*url.URL) []*http.Cookie {
	o.at("Cookies")
	return nil
}

// An HTTP client of the program that misbehaves fails the calls that it makes, at the most: neither
// the process ends by it, nor does a call hang, and when it is well again calls go through.
func TestHTTPThatMisbehaves(t *testing.T) {
	for _, where := range []string{
		"RoundTrip", "nothing", "Read", "too much", "Close", "Cookies", "SetCookies", "CheckRedirect",
	} {
		for how, misdeed := range misdeeds {
			t.Run(where+" "+how, func(t *testing.T) {
				o := &oddHTTP{where: where, misdeed: misdeed}
				srv := httptest.NewServer(http.HandlerFunc(func(
					w http.ResponseWriter, r *http.Request,
				) {
					w.Header().Set("Set-Cookie", "a=b")
					if where == "CheckRedirect" && r.URL.Path == "/" {
						http.Redirect(w, r, "/there", http.StatusTemporaryRedirect)
						return
					}
					if asked, ok := received(w, r); ok {
						asked.reply(w, `{"content":[{"type":"text","text":"ok"}]}`)
					}
				}))
				t.Cleanup(srv.Close)
				c := connect(t, mcp.Config{Servers: []mcp.Server{{
					Name: "a", URL: srv.URL, CallTimeout: 20 * time.Second, HTTP: &http.Client{
						Transport: o, Jar: o,
						CheckRedirect: func(*http.Request, []*http.Request) error {
							o.at("CheckRedirect")
							return nil
						},
					},
				}}})
				require.Equal(t, "ok", mustCall(t, c, "mcp__a__t", `{}`).Text)
				o.on.Store(true)
				ctx, done := context.WithTimeout(t.Context(), 20*time.Second)
				defer done()
				_, err := c.Tools()[0].Call(ctx, agent.ToolCall{ID: "1", Name: "mcp__a__t"})
				require.Positive(t, o.misdeeds.Load())
				require.NotErrorIs(t, err, context.DeadlineExceeded)
				if where == "Cookies" || where == "SetCookies" || where == "Close" {
					require.NoError(t, err)
				} else {
					require.Error(t, err)
				}
				o.on.Store(false)
				require.Eventually(t, func() bool {
					out, err := call(t, c, "mcp__a__t", `{}`)
					return err == nil && out.Text == "ok"
				}, 20*time.Second, 10*time.Millisecond)
			})
		}
	}
}

// oddHandler is a slog.Handler that panics in one of its methods.
type oddHandler struct {
	where string
	count *atomic.Int64
}

func (h oddHandler) at(where string) {
	if h.where == where {
		h.count.Add(1)
		panic("of the program")
	}
}

func (h oddHandler) Enabled(context.Context, slog.Level) bool {
	h.at("Enabled")
	return true
}

func (h oddHandler) Handle(context.Context, slog.Record) error {
	h.at("Handle")
	return errors.New("it cannot write")
}

func (h oddHandler) WithAttrs([]slog.Attr) slog.Handler {
	h.at("WithAttrs")
	return h
}

func (h oddHandler) WithGroup(string) slog.Handler {
	h.at("WithGroup")
	return nil
}

// A Logger of the program that panics costs what it was told.
func TestLoggerThatMisbehaves(t *testing.T) {
	for _, where := range []string{"Enabled", "Handle", "WithAttrs"} {
		t.Run(where, func(t *testing.T) {
			var count atomic.Int64
			log := slog.New(oddHandler{where, &count})
			s := sdk.NewServer(&sdk.Implementation{Name: "web"}, nil)
			add(s, "t", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
				return said("ok"), nil
			})
			told := make(changes, 9)
			c := connect(t, mcp.Config{
				Servers: []mcp.Server{{Name: "web", URL: overHTTP(t, s).URL}, childServer(t, "chatty")},
				Logger:  log, Changed: func(c mcp.Change) { told <- c; panic("of the program") },
			})
			require.Equal(t, "ok", mustCall(t, c, "mcp__web__t", `{}`).Text)
			require.NotEmpty(t, mustCall(t, c, "mcp__child__pid", `{}`).Text)
			for _, name := range []string{"one", "two"} { // each is logged
				add(s, name, nil)
				require.Equal(t, []string{"mcp__web__" + name}, told.next(t).Added)
			}
			require.NoError(t, c.Close())
			require.Positive(t, count.Load())
		})
	}
}

// Credentials are masked in what a tool of a Service panics with, before it is logged, and in its
// error, before the client has it.
func TestSecretsOfAService(t *testing.T) {
	const key = "ghp_abcdefghijklmnopqrstuvwxyz0123456789"
	var log lines
	service := &mcp.Service{
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
		Tools: func(context.Context) []agent.Tool {
			return []agent.Tool{
				{Name: "panics", Call: func(
					context.Context, agent.ToolCall,
				) (agent.ToolResult, error) {
					panic("no access with " + key)
				}},
				{Name: "fails", Call: func(
					context.Context, agent.ToolCall,
				) (agent.ToolResult, error) {
					return agent.ToolResult{}, errors.New("no access with " + key)
				}},
			}
		},
	}
	srv := httptest.NewServer(service.Handler())
	t.Cleanup(srv.Close)
	c := connect(t, mcp.Config{Servers: []mcp.Server{{Name: "a", URL: srv.URL}}})
	_, err := call(t, c, "mcp__a__panics", `{}`)
	require.ErrorContains(t, err, "failed unexpectedly")
	_, err = call(t, c, "mcp__a__fails", `{}`)
	require.ErrorContains(t, err, "no access with ")
	require.NotContains(t, err.Error(), key[4:])
	require.Contains(t, log.String(), "no access with ")
	require.NotContains(t, log.String(), key[4:])
}

// A tool of a Service that misbehaves fails its call, and the service goes on, also with a Logger
// that panics.
func TestServiceThatMisbehaves(t *testing.T) {
	for how, misdeed := range misdeeds {
		var count atomic.Int64
		service := &mcp.Service{
			Logger: slog.New(oddHandler{"Handle", &count}),
			Tools: func(context.Context) []agent.Tool {
				return []agent.Tool{
					{Name: "odd", Call: func(
						context.Context, agent.ToolCall,
					) (agent.ToolResult, error) {
						misdeed()
						return agent.ToolResult{}, nil
					}},
					{Name: "t", Call: func(
						context.Context, agent.ToolCall,
					) (agent.ToolResult, error) {
						return agent.ToolResult{Text: "ok"}, nil
					}},
				}
			},
		}
		srv := httptest.NewServer(service.Handler())
		t.Cleanup(srv.Close)
		c := connect(t, mcp.Config{Servers: []mcp.Server{{Name: "a", URL: srv.URL}}})
		for range 2 {
			_, err := call(t, c, "mcp__a__odd", `{}`)
			require.ErrorContains(t, err, `the tool "odd" failed unexpectedly`, how)
			require.NotContains(t, err.Error(), "of the program")
			require.Equal(t, "ok", mustCall(t, c, "mcp__a__t", `{}`).Text)
		}
		require.EqualValues(t, 2, count.Load(), how)
		require.NoError(t, c.Close())
	}
}
