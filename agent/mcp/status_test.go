package mcp_test

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent/mcp"
)

// hushed is what the header of a server has that no error tells.
const hushed = "hunter2-84719-of-a-server"

// refusing is a server over HTTP that answers one method with a status and some words.
type refusing struct {
	method string
	status atomic.Int64 // 0: it answers as others do
	kind   string
	words  string // $ID is the id of the request
}

func (s *refusing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	asked, ok := received(w, r)
	status := int(s.status.Load())
	switch {
	case !ok:
	case status == 0 || s.method != "" && asked.Method != s.method:
		asked.reply(w, `{"content":[{"type":"text","text":"Noon."}]}`)
	default:
		w.Header().Set("Content-Type", s.kind)
		w.Header().Set("WWW-Authenticate", `Bearer realm="here"`)
		if status == http.StatusServiceUnavailable {
			w.Header().Set("Retry-After", "7")
		}
		w.WriteHeader(status)
		fmt.Fprint(w, strings.ReplaceAll(s.words, "$ID", string(asked.ID)))
	}
}

// refusals are the forms of a refusal, and what an error tells of it.
var refusals = []struct{ kind, words, told string }{
	{"text/html", "<html>\n<h1>Not " + hushed + "</h1>\x1b[31m", "<html> <h1>Not ***</h1>[31m"},
	{"application/json", `{"error":"` + hushed + ` has expired."}`, "*** has expired."},
	{"application/json", "", `Bearer realm="here"`},
	{"", strings.Repeat("x", 10_000), strings.Repeat("x", 900)},
}

// statuses are those that are worth another try, and those that are not.
var statuses = map[int]bool{
	300: false, 301: false, 302: false, 303: false, 304: false, 307: false, 308: false, 409: false,
	400: false, 401: false, 402: false, 403: false, 404: false, 405: false, 406: false, 410: false,
	415: false, 422: false, 408: true, 425: true, 429: true, 500: true, 501: true, 502: true,
	503: true, 504: true, 529: true,
}

func withHeader(url string) mcp.Server {
	return mcp.Server{
		Name: "web", URL: url, Header: http.Header{"Authorization": {"Bearer " + hushed}},
	}
}

// A call that is answered with a status says which, and with what words. It is worth another try
// where the status says so, and the connection goes on with the other calls on it.
func TestStatusOfACall(t *testing.T) {
	for _, form := range refusals {
		s := &refusing{method: "tools/call", kind: form.kind, words: form.words}
		web := httptest.NewServer(s)
		c := connect(t, mcp.Config{Servers: []mcp.Server{withHeader(web.URL)}})
		t.Cleanup(web.Close)
		for status, again := range statuses {
			s.status.Store(int64(status))
			starts := c.Servers()[0].Starts
			_, err := call(t, c, "mcp__web__t", `{}`)
			said, ok := errors.AsType[*mcp.StatusError](err)
			require.True(t, ok, "%d: %v", status, err)
			require.Equal(t, "web mcp__web__t", said.Server+" "+said.Tool)
			require.Equal(t, status, said.Status)
			require.Contains(t, err.Error(), strings.TrimSpace(
				fmt.Sprintf("%d %s", status, http.StatusText(status))))
			told := form.told
			if status == http.StatusNotModified { // which has no words
				told = `Bearer realm="here"`
			}
			require.Contains(t, err.Error(), told)
			require.NotContains(t, err.Error(), hushed)
			require.Less(t, len(err.Error()), 1300)
			require.Equal(t, again, agent.IsRetryable(err), err)
			require.Equal(t, !again, strings.Contains(err.Error(), "another try comes to the same"))
			var limited agent.RateLimited
			require.Equal(t, status == 503, errors.As(err, &limited), err)
			require.Equal(t, status == 503, limited.After == 7*time.Second)

			s.status.Store(0)
			require.Equal(t, "Noon.", mustCall(t, c, "mcp__web__t", `{}`).Text)
			if status != http.StatusNotFound { // which may be the end of a session
				require.Equal(t, starts, c.Servers()[0].Starts, status)
			}
		}
	}
}

// What is an error of the protocol is an answer, unless the status says that another try is worth
// it.
func TestStatusOfAnAnswer(t *testing.T) {
	s := &refusing{
		method: "tools/call", kind: "application/json",
		words: `{"jsonrpc":"2.0","id":$ID,"error":{"code":7,"message":"Not today. Bearer ` +
			hushed + `"}}`,
	}
	web := httptest.NewServer(s)
	t.Cleanup(web.Close)
	c := connect(t, mcp.Config{Servers: []mcp.Server{withHeader(web.URL)}})
	for status, again := range statuses {
		if status == http.StatusNotFound || status == http.StatusNotModified {
			continue // it may be the end of a session, or has no words
		}
		s.status.Store(int64(status))
		_, err := call(t, c, "mcp__web__t", `{}`)
		require.ErrorContains(t, err, "Not today.")
		require.NotContains(t, err.Error(), "jsonrpc")
		require.NotContains(t, fmt.Sprintf("%+v %#v", err, err), hushed)
		require.Equal(t, again, agent.IsRetryable(err), "%d: %v", status, err)
		_, isAnswer := errors.AsType[*mcp.ToolError](err)
		require.Equal(t, !again, isAnswer, "%d: %v", status, err)
	}
	require.Equal(t, 1, c.Servers()[0].Starts)
}

// A redirect that the HTTP of the program does not follow is the answer, and costs its call alone.
func TestStatusOfARedirect(t *testing.T) {
	for _, status := range redirects {
		d, srv := redirecting(t)
		srv.HTTP = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		}}
		d.to = srv.URL + "/further"
		c := connect(t, mcp.Config{Servers: []mcp.Server{srv}})
		d.status.Store(int64(status))
		_, err := call(t, c, "mcp__s__a", `{}`)
		said, ok := errors.AsType[*mcp.StatusError](err)
		require.True(t, ok, "%d: %v", status, err)
		require.Equal(t, status, said.Status)
		require.False(t, agent.IsRetryable(err))
		d.status.Store(0)
		mustCall(t, c, "mcp__s__a", `{}`)
		require.Equal(t, 1, c.Servers()[0].Starts)
	}
}

// A redirect that would make another request of the call, without what the model has written, is
// not followed, and is the answer.
func TestRedirectThatDropsTheCall(t *testing.T) {
	for _, status := range []int{301, 302, 303} {
		d, srv := redirecting(t)
		d.to = srv.URL + "/further"
		c := connect(t, mcp.Config{Servers: []mcp.Server{srv}})
		d.status.Store(int64(status))
		_, err := call(t, c, "mcp__s__a", `{}`)
		said, ok := errors.AsType[*mcp.StatusError](err)
		require.True(t, ok, "%d: %v", status, err)
		require.Equal(t, status, said.Status)
		require.False(t, agent.IsRetryable(err))
		d.status.Store(0)
		mustCall(t, c, "mcp__s__a", `{}`)
		require.Equal(t, 1, c.Servers()[0].Starts)
	}
}

// A server that refuses at its start says why, in words of its own.
func TestStatusOfAStart(t *testing.T) {
	for _, method := range []string{"", "initialize", "tools/list"} {
		for _, form := range refusals {
			for _, status := range []int{400, 401, 403, 404, 429, 500, 503} {
				s := &refusing{method: method, kind: form.kind, words: form.words}
				s.status.Store(int64(status))
				web := httptest.NewServer(s)
				_, err := mcp.Connect(t.Context(), mcp.Config{
					Servers: []mcp.Server{withHeader(web.URL)},
					Logger:  slog.New(slog.DiscardHandler),
				})
				web.Close()
				var start *mcp.StartError
				require.ErrorAs(t, err, &start)
				said, ok := errors.AsType[*mcp.StatusError](err)
				require.True(t, ok, "%s %d: %v", method, status, err)
				require.Equal(t, status, said.Status)
				require.Contains(t, err.Error(), form.told)
				require.NotContains(t, err.Error(), hushed)
				require.NotContains(t, err.Error(), "discover")
			}
		}
	}
}

// What a server sends at its start that is not of the protocol is told without the ways of the SDK.
func TestWordsOfAStart(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<html>Sign in</html>")
	}))
	t.Cleanup(web.Close)
	_, err := mcp.Connect(t.Context(), mcp.Config{
		Servers: []mcp.Server{{Name: "web", URL: web.URL}}, Logger: slog.New(slog.DiscardHandler),
	})
	require.ErrorContains(t, err, `unsupported content type "text/html"`)
	require.NotContains(t, err.Error(), "discover")
}

// What a child writes to stderr is told, and logged, without secrets: those that it was given, and
// what looks like one.
func TestSecretsOfAChild(t *testing.T) {
	var log lines
	s := childServer(t, "secrets")
	s.Env = append(s.Env, "SERVICE_TOKEN="+hushed, "COLOUR=blue-green")
	_, err := mcp.Connect(t.Context(), mcp.Config{
		Servers: []mcp.Server{s},
		Logger:  slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	failed, ok := errors.AsType[*mcp.StartError](err)
	require.True(t, ok, "%v", err)
	for _, text := range []string{err.Error(), failed.Stderr, log.String()} {
		require.NotContains(t, text, hushed[:5])
		require.NotContains(t, text, childKey)
		require.Contains(t, text, "no licence with ***")
	}
	require.Contains(t, failed.Stderr, "colour blue-green")
}

// A child process that ends by itself in failure, before its start, in the middle of it or behind
// it, is told with how it has ended.
func TestEndsOfAChild(t *testing.T) {
	const what = `{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"what?"}}`
	const hello = `{"jsonrpc":"2.0","id":2,"result":{"protocolVersion":"2025-06-18",` +
		`"capabilities":{"tools":{}},"serverInfo":{"name":"x","version":"1"}}}`
	for script, want := range map[string]string{
		"exit 3":            "exit status 3",
		"read line; exit 4": "exit status 4",
		"exec >&-; exit 5":  "exit status 5",
		"kill -USR1 $$":     "signal: user defined signal 1",
		"read a; echo '" + what + "'; read b; echo '" + hello + "'; read c; exit 6": "exit status 6",
		"exit 0":                   "",
		"exec >&-; cat >/dev/null": "",
	} {
		_, err := mcp.Connect(t.Context(), mcp.Config{
			Servers: []mcp.Server{{Name: "a", Command: []string{"sh", "-c", script}}},
			Logger:  slog.New(slog.DiscardHandler),
		})
		failed, ok := errors.AsType[*mcp.StartError](err)
		require.True(t, ok, "%s: %v", script, err)
		if want == "" {
			require.NotContains(t, err.Error(), "the program has ended", script)
			continue
		}
		require.EqualError(t, failed.Err, "the program has ended: "+want, script)
	}
	server := childServer(t, "plain")
	server.StartTimeout = time.Minute
	var log lines
	c := connect(t, mcp.Config{
		Servers: []mcp.Server{server}, Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	_, err := call(t, c, "mcp__child__quit", `{}`)
	require.Error(t, err)
	mustCall(t, c, "mcp__child__pid", `{}`)
	require.ErrorContains(t, c.Servers()[0].Err, "exit status 7")
	require.Contains(t, log.String(), "exit status 7")
}

// A child process that ends is gone, although a process that it has left behind holds its stdout
// and stderr: at its start, and with a call under way, and it is started anew.
func TestChildThatLeavesAProcess(t *testing.T) {
	began := time.Now()
	_, err := mcp.Connect(t.Context(), mcp.Config{
		Servers: []mcp.Server{{Name: "a", Command: []string{"sh", "-c", "sleep 30 & exit 3"}}},
		Logger:  slog.New(slog.DiscardHandler),
	})
	require.ErrorContains(t, err, "exit status 3")
	require.Less(t, time.Since(began), 20*time.Second)
	server := childServer(t, "plain")
	server.StartTimeout = time.Minute
	server.Command = []string{"sh", "-c", `sleep 30 & exec "$0"`, server.Command[0]}
	c := connect(t, mcp.Config{
		Servers: []mcp.Server{server}, Logger: slog.New(slog.DiscardHandler),
	})
	began = time.Now()
	_, err = call(t, c, "mcp__child__quit", `{}`)
	_, ok := errors.AsType[*mcp.LostError](err)
	require.True(t, ok, "%v", err)
	require.Less(t, time.Since(began), 20*time.Second)
	mustCall(t, c, "mcp__child__pid", `{}`)
	require.ErrorContains(t, c.Servers()[0].Err, "exit status 7")
	require.NoError(t, c.Close())
	require.Less(t, time.Since(began), 25*time.Second)
}

// The start of a server lasts as long as it may, also of a child that does not end by itself, and
// of a server over HTTP that does not answer when its session is to end.
func TestStartTimeout(t *testing.T) {
	const limit = time.Second
	hang := func(methods ...string) mcp.Server {
		web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodDelete {
				<-r.Context().Done()
				return
			}
			asked, ok := received(w, r)
			if !ok {
				return
			}
			if slices.Contains(methods, asked.Method) {
				_, _ = io.Copy(io.Discard, r.Body)
				<-r.Context().Done()
				return
			}
			w.Header().Set("Mcp-Session-Id", "1")
			if len(methods) == 0 && asked.Method == "tools/list" {
				asked.Method = "no such method"
			}
			asked.reply(w, `{}`)
		}))
		t.Cleanup(func() { web.CloseClientConnections(); web.Close() })
		return mcp.Server{URL: web.URL}
	}
	const late = "deadline"
	for name, c := range map[string]struct {
		server mcp.Server
		says   string
		end    time.Duration // less than an end may take
	}{
		"a child that says nothing":  {childServer(t, "silent"), late, 1900 * time.Millisecond},
		"a child without a list":     {childServer(t, "listless"), late, 1900 * time.Millisecond},
		"nothing over HTTP":          {hang("server/discover", "initialize"), late, 4 * time.Second},
		"no list over HTTP":          {hang("tools/list"), late, 4 * time.Second},
		"a list refused, and no end": {hang(), "what?", 4 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			leaks(t)
			s := c.server
			s.Name, s.StartTimeout = "slow", limit
			began := time.Now()
			_, err := mcp.Connect(t.Context(), mcp.Config{
				Servers: []mcp.Server{s}, Logger: slog.New(slog.DiscardHandler),
			})
			took := time.Since(began)
			require.ErrorContains(t, err, c.says)
			require.Less(t, took, limit+c.end, "without the time of an end")
		})
	}
}

// A body that brings nothing, again and again, fails its call.
func TestBodyOfNothing(t *testing.T) {
	for _, kind := range []string{"application/json", "text/event-stream"} {
		var result atomic.Value
		server, _ := answering(t, &result)
		way := &nothingHTTP{kind: kind}
		server.HTTP = &http.Client{Transport: way}
		c := connect(t, mcp.Config{Servers: []mcp.Server{server}})
		way.on.Store(true)
		done := make(chan error, 1)
		go func() {
			_, err := call(t, c, "mcp__a__t", `{}`)
			done <- err
		}()
		select {
		case err := <-done:
			require.Error(t, err)
		case <-time.After(30 * time.Second):
			t.Fatal("the call hangs")
		}
		way.on.Store(false)
	}
}

// A nothingHTTP is a Transport whose bodies bring nothing while it is on.
type nothingHTTP struct {
	kind string
	on   atomic.Bool
}

func (h *nothingHTTP) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err == nil && h.on.Load() && r.Method == http.MethodPost {
		resp.Header.Set("Content-Type", h.kind)
		resp.Body = nothingBody{resp.Body}
	}
	return resp, err
}

type nothingBody struct{ io.Closer }

func (nothingBody) Read([]byte) (int, error) { return 0, nil }

// The lines of a stream may end with CR, CRLF or LF.
func TestLinesOfAStream(t *testing.T) {
	for _, end := range []string{"\n", "\r\n", "\r"} {
		web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked, ok := received(w, r)
			if !ok {
				return
			}
			told := httptest.NewRecorder()
			asked.reply(told, `{"content":[{"type":"text","text":"Noon."}]}`)
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, "event: message", end, "data: ", told.Body.String(), end, end)
		}))
		t.Cleanup(web.Close)
		c := connect(t, mcp.Config{Servers: []mcp.Server{{Name: "web", URL: web.URL}}})
		require.Equal(t, "Noon.", mustCall(t, c, "mcp__web__t", `{}`).Text)
		require.NoError(t, c.Close())
	}
}

// A server over HTTP that is gone is not up, and a call that no connection came about for has done
// nothing. When the server is there again, so are its tools.
func TestServerThatIsGone(t *testing.T) {
	var lines net.ListenConfig
	l, err := lines.Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := telling("nothing")
	h := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, nil)
	serve := func(l net.Listener) *httptest.Server {
		web := &httptest.Server{Listener: l, Config: &http.Server{Handler: h}}
		web.Start()
		return web
	}
	web := serve(l)
	c := connect(t, mcp.Config{Servers: []mcp.Server{
		{Name: "a", URL: web.URL, StartTimeout: time.Second},
	}})
	mustCall(t, c, "mcp__a__text", `{}`)
	for ss := range s.Sessions() {
		_ = ss.Close()
	}
	web.CloseClientConnections()
	web.Close()
	// Calls may still go to a connection whose end the client has not seen.
	require.Eventually(t, func() bool {
		_, err := call(t, c, "mcp__a__text", `{}`)
		assert.True(t, agent.IsRetryable(err), "%v", err)
		_, isDown := errors.AsType[*mcp.DownError](err)
		return isDown
	}, 30*time.Second, time.Millisecond)
	for range 2 {
		_, err = call(t, c, "mcp__a__text", `{}`)
		down, ok := errors.AsType[*mcp.DownError](err)
		require.True(t, ok, "%v", err)
		require.Equal(t, "a", down.Server)
		require.True(t, agent.IsRetryable(err))
		require.False(t, c.Servers()[0].Up)
	}
	again, err := lines.Listen(t.Context(), "tcp", l.Addr().String())
	require.NoError(t, err)
	web = serve(again)
	t.Cleanup(func() {
		for ss := range s.Sessions() {
			_ = ss.Close()
		}
		web.CloseClientConnections()
		web.Close()
	})
	require.Eventually(t, func() bool {
		_, err := call(t, c, "mcp__a__text", `{}`)
		return err == nil
	}, 30*time.Second, 10*time.Millisecond)
	require.True(t, c.Servers()[0].Up)
}
