package mcp_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent/mcp"
)

// pager answers the n-th request for a page, from 1, that has a cursor.
type pager func(n int, cursor string) (names []string, next string)

// lists has a server answer each request of a method with what a pager says.
func lists(
	s *sdk.Server, method string, result func(names []string, next string) sdk.Result, p pager,
) {
	var n atomic.Int64
	s.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, m string, r sdk.Request) (sdk.Result, error) {
			if m != method {
				return next(ctx, m, r)
			}
			var asked struct{ Cursor string }
			raw, err := json.Marshal(r.GetParams())
			if err == nil {
				err = json.Unmarshal(raw, &asked)
			}
			if err != nil {
				return nil, err
			}
			return result(p(int(n.Add(1)), asked.Cursor)), nil
		}
	})
}

// toolPage is a page of tools, each of which says in its description where it stands.
func toolPage(names []string, next string) sdk.Result {
	page := &sdk.ListToolsResult{Tools: []*sdk.Tool{}, NextCursor: next}
	for i, name := range names {
		page.Tools = append(page.Tools, &sdk.Tool{
			Name: name, Description: strconv.Itoa(i), InputSchema: object,
		})
	}
	return page
}

// count returns names with a number behind them.
func count(name string, from, to int) []string {
	var all []string
	for i := from; i < to; i++ {
		all = append(all, name+strconv.Itoa(i))
	}
	return all
}

// marked returns what a tool is called for models whose own name is not unique.
func marked(name string) string {
	sum := sha256.Sum256([]byte(name))
	return strings.Map(func(r rune) rune {
		if r == '.' || r == '/' {
			return '_'
		}
		return r
	}, name) + "_" + hex.EncodeToString(sum[:4])
}

// hostile are lists with which a server could keep a bot from opening.
var hostile = map[string]struct {
	pages pager
	want  int    // how many tools there are
	log   string // what the log says
}{
	"one tool twice": {
		func(int, string) ([]string, string) { return []string{"t", "u", "t", "t"}, "" },
		2, "more than once",
	},
	"twice on two pages": {
		func(_ int, at string) ([]string, string) {
			if at == "" {
				return []string{"t", "u"}, "2"
			}
			return []string{"u", "t", "v"}, ""
		},
		3, "more than once",
	},
	"a page that comes back": {
		func(int, string) ([]string, string) { return []string{"t"}, "same" },
		1, "comes back to a page",
	},
	"pages in a circle": {
		func(_ int, at string) ([]string, string) {
			return []string{"t" + at}, map[string]string{"": "1", "1": "2", "2": "3", "3": "1"}[at]
		},
		4, "comes back to a page",
	},
	"pages without an end": {
		func(n int, _ string) ([]string, string) { return count("t", n, n+1), strconv.Itoa(n) },
		mcp.MaxPages, "too many pages",
	},
	"empty pages without an end": {
		func(n int, _ string) ([]string, string) { return nil, strconv.Itoa(n) },
		0, "too many pages",
	},
	"the same on pages without an end": {
		func(n int, _ string) ([]string, string) { return []string{"t"}, strconv.Itoa(n) },
		1, "too many pages",
	},
	"too many tools": {
		func(int, string) ([]string, string) { return count("t", 0, mcp.MaxTools+7), "" },
		mcp.MaxTools, "too many tools",
	},
	"as many as count": {
		func(int, string) ([]string, string) { return count("t", 0, mcp.MaxTools), "" },
		mcp.MaxTools, "",
	},
	"a name that is made to be that of another": {
		func(int, string) ([]string, string) {
			return []string{"a.b", "a/b", marked("a.b"), strings.ToUpper(marked("a/b"))}, ""
		},
		4, "",
	},
	"names that differ in nothing that counts": {
		func(int, string) ([]string, string) { return []string{"t", "T", "t", "T"}, "" },
		2, "more than once",
	},
}

// requireTools checks that a bot opens with tools, so many of them, and that each has a name of its
// own.
func requireTools(t *testing.T, tools []agent.Tool, want int) {
	t.Helper()
	require.Len(t, tools, want)
	seen := map[string]bool{}
	for _, tool := range tools {
		name := strings.ToLower(tool.Name)
		require.False(t, seen[name], name)
		seen[name] = true
		require.True(t, strings.HasPrefix(name, "mcp__web__"), name)
	}
	open(t, agent.Config{Tools: tools, Runner: agent.RunnerFunc(
		func(context.Context, *agent.Turn) (agent.Result, error) { return agent.Result{}, nil })})
}

// A list of tools that repeats itself, or does not end, neither keeps a bot from opening nor costs
// it the tools that there are. The log says which server it is.
func TestHostileLists(t *testing.T) {
	for name, test := range hostile {
		t.Run(name, func(t *testing.T) {
			s := sdk.NewServer(&sdk.Implementation{Name: "web"}, nil)
			add(s, "t", nil)
			lists(s, "tools/list", toolPage, test.pages)
			var log lines
			c := connect(t, mcp.Config{
				Servers: []mcp.Server{{Name: "web", URL: overHTTP(t, s).URL}},
				Logger:  slog.New(slog.NewTextHandler(&log, nil)),
			})
			requireTools(t, c.Tools(), test.want)
			require.Contains(t, log.String(), test.log)
			if test.log == "" {
				require.Empty(t, log.String())
			} else {
				require.Contains(t, log.String(), "server=web")
			}
		})
	}
}

// A list that becomes such a one is a change like any other.
func TestListsThatBecomeHostile(t *testing.T) {
	for name, test := range hostile {
		t.Run(name, func(t *testing.T) {
			s := sdk.NewServer(&sdk.Implementation{Name: "web"}, nil)
			add(s, "before", nil)
			var turned atomic.Bool
			lists(s, "tools/list", toolPage, func(n int, at string) ([]string, string) {
				if !turned.Load() {
					return []string{"before"}, ""
				}
				return test.pages(n, at)
			})
			told := make(changes, 9)
			c := connect(t, mcp.Config{
				Servers: []mcp.Server{{Name: "web", URL: overHTTP(t, s).URL}},
				Changed: func(c mcp.Change) { told <- c },
			})
			requireTools(t, c.Tools(), 1)
			turned.Store(true)
			add(s, "after", nil) // the SDK tells of a change
			change := told.next(t)
			require.Equal(t, []string{"mcp__web__before"}, change.Removed)
			require.Len(t, change.Added, test.want)
			requireTools(t, c.Tools(), test.want)
		})
	}
}

// The description of a tool that is listed twice is the first, and a name does not depend on the
// order of the list.
func TestFirstOfTwoToolsCounts(t *testing.T) {
	known := map[string]string{}
	for _, order := range [][]string{{"a.b", "a/b", "t", "t"}, {"t", "a/b", "t", "a.b"}} {
		s := sdk.NewServer(&sdk.Implementation{Name: "web"}, nil)
		add(s, "t", nil)
		lists(s, "tools/list", toolPage, func(int, string) ([]string, string) { return order, "" })
		c := connect(t, mcp.Config{Servers: []mcp.Server{{Name: "web", URL: overHTTP(t, s).URL}}})
		require.Len(t, c.Tools(), 3)
		for _, tool := range c.Tools() {
			if tool.Name == "mcp__web__t" {
				at, err := strconv.Atoi(tool.Description)
				require.NoError(t, err)
				require.Equal(t, "t", order[at])
				require.NotContains(t, order[:at], "t")
			}
			known[tool.Name] = tool.Name
		}
	}
	require.Len(t, known, 3)
}

// A list of resources that repeats itself, or does not end, comes to an end, and each line stands
// there once.
func TestHostileResources(t *testing.T) {
	for name, test := range hostile {
		t.Run(name, func(t *testing.T) {
			s := sdk.NewServer(&sdk.Implementation{Name: "web"}, nil)
			s.AddResource(&sdk.Resource{URI: "x:0", Name: "0"}, nil)
			lists(s, "resources/list", func(names []string, next string) sdk.Result {
				page := &sdk.ListResourcesResult{Resources: []*sdk.Resource{}, NextCursor: next}
				for _, name := range names {
					page.Resources = append(page.Resources, &sdk.Resource{URI: "x:" + name})
				}
				return page
			}, test.pages)
			lists(s, "resources/templates/list", func(_ []string, next string) sdk.Result {
				return &sdk.ListResourceTemplatesResult{
					ResourceTemplates: []*sdk.ResourceTemplate{}, NextCursor: next,
				}
			}, test.pages)
			c := connect(t, mcp.Config{Servers: []mcp.Server{{Name: "web", URL: overHTTP(t, s).URL}}})
			text := mustCall(t, c, "mcp__web__list_resources", `{}`).Text
			seen := map[string]bool{}
			for line := range strings.Lines(text) {
				require.False(t, seen[line], line)
				seen[line] = true
			}
		})
	}
}

// lines is a log that goroutines write.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// A webFlood is a server over HTTP that answers one method with bytes without end.
type webFlood struct {
	method      string
	status      int
	contentType string
	begin, more string
	sent        atomic.Int64
	over        atomic.Bool // it answers as all others do
	// hold, if it is not nil, is closed when the first call is answered, as all others are.
	hold  chan struct{}
	calls atomic.Int64 // while there is a hold
}

const (
	most     = 300 << 20 // how many bytes a flood would have
	buffered = 16 << 20  // how many may be under way to a client that does not read them
)

// A webRequest is a request of the protocol.
type webRequest struct {
	ID     json.RawMessage
	Method string
}

// received returns the request that a server got, or false if it has answered it already: it is not
// one of the protocol, or wants no answer.
func received(w http.ResponseWriter, r *http.Request) (asked webRequest, ok bool) {
	switch {
	case r.Method != http.MethodPost || json.NewDecoder(r.Body).Decode(&asked) != nil:
		w.WriteHeader(http.StatusMethodNotAllowed)
	case asked.ID == nil:
		w.WriteHeader(http.StatusAccepted)
	default:
		return asked, true
	}
	return asked, false
}

// reply answers a request as every server with one tool does. Its calls have a result.
func (q webRequest) reply(w http.ResponseWriter, result string) {
	result, ok := map[string]string{
		"initialize": `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},` +
			`"serverInfo":{"name":"x","version":"1"}}`,
		"tools/list": `{"tools":[{"name":"t","inputSchema":{"type":"object"},` +
			`"annotations":{"readOnlyHint":true}}]}`,
		"tools/call": result,
	}[q.Method]
	w.Header().Set("Content-Type", "application/json")
	if !ok {
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"what?"}}`, q.ID)
		return
	}
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, q.ID, result)
}

// ServeHTTP answers.
func (f *webFlood) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	asked, ok := received(w, r)
	if !ok {
		return
	}
	if f.hold != nil && asked.Method == f.method && f.calls.Add(1) == 1 {
		<-f.hold
		asked.reply(w, `{"content":[{"type":"text","text":"late"}]}`)
		return
	}
	if asked.Method == f.method && !f.over.Load() {
		w.Header().Set("Content-Type", f.contentType)
		w.WriteHeader(f.status)
		for piece := f.begin; f.sent.Load() < most; piece = f.more {
			n, err := io.WriteString(w, strings.ReplaceAll(piece, "$ID", string(asked.ID)))
			if f.sent.Add(int64(n)); err != nil {
				return
			}
		}
		return
	}
	asked.reply(w, `{"content":[{"type":"text","text":"ok"}]}`)
}

// floods are answers without end: of JSON, of an event of one line, of one with many lines, of
// lines that are not an event yet, and of an error.
func floods(method string) map[string]*webFlood {
	big := strings.Repeat("y", 64<<10)
	const begin = `{"jsonrpc":"2.0","id":$ID,"result":{"content":[{"type":"text","text":"`
	const stream = "text/event-stream"
	all := map[string]*webFlood{}
	for name, f := range map[string][3]string{
		"JSON":     {"application/json", begin, big},
		"blanks":   {"application/json", " ", strings.Repeat("\n", 64<<10)},
		"a line":   {stream, "data: " + begin, big},
		"an event": {stream, "data: " + begin + "\n", "data: " + big + "\n"},
		"comments": {stream, ": \n", ": " + big + "\n"},
	} {
		all[name] = &webFlood{
			method: method, status: 200, contentType: f[0], begin: f[1], more: f[2],
		}
	}
	return all
}

// An answer to a call that is too large costs the call, and not the memory of the bot. The
// connection goes on, with the call that is under way beside it.
func TestAnswersThatAreTooLarge(t *testing.T) {
	for name, f := range floods("tools/call") {
		t.Run(name, func(t *testing.T) {
			f.hold = make(chan struct{})
			web := httptest.NewServer(f)
			c := connect(t, mcp.Config{
				Servers: []mcp.Server{{Name: "web", URL: web.URL, Trusted: true}},
			})
			tool := c.Tools()[0]
			late := make(chan string, 1)
			go func() {
				out, err := tool.Call(t.Context(), agent.ToolCall{ID: "1", Name: tool.Name})
				late <- fmt.Sprint(out.Text, err)
			}()
			require.Eventually(t, func() bool { return f.calls.Load() == 1 }, 20*time.Second,
				time.Millisecond)
			begun := time.Now()
			_, err := call(t, c, "mcp__web__t", `{}`)
			var size *mcp.SizeError
			require.ErrorAs(t, err, &size)
			require.Equal(t, mcp.SizeError{
				Server: "web", Tool: "mcp__web__t", Limit: mcp.MaxMessage,
			}, *size)
			require.False(t, agent.IsRetryable(err))
			require.Less(t, time.Since(begun), mcp.DefaultCallTimeout/2)

			f.over.Store(true)
			require.Equal(t, "ok", mustCall(t, c, "mcp__web__t", `{}`).Text)
			close(f.hold)
			require.Equal(t, "late<nil>", <-late)
			require.Equal(t, 1, c.Servers()[0].Starts)
			require.NoError(t, c.Close())
			web.Close() // waits for the server
			require.Less(t, f.sent.Load(), int64(mcp.MaxMessage+buffered))
		})
	}
}

// A server whose beginning is too large does not start, and the error says why.
func TestServersThatSayTooMuch(t *testing.T) {
	for _, method := range []string{"initialize", "tools/list"} {
		for name, f := range floods(method) {
			t.Run(method+": "+name, func(t *testing.T) {
				web := httptest.NewServer(f)
				_, err := mcp.Connect(t.Context(), mcp.Config{
					Servers: []mcp.Server{{Name: "web", URL: web.URL}},
					Logger:  slog.New(slog.DiscardHandler),
				})
				web.Close()
				var start *mcp.StartError
				require.ErrorAs(t, err, &start)
				require.Equal(t, "web", start.Server)
				require.ErrorContains(t, err, "has sent more than 16777216 bytes")
				require.Less(t, f.sent.Load(), int64(mcp.MaxMessage+buffered))
			})
		}
	}
}

// Of the body of an error the beginning is read.
func TestErrorsThatAreTooLarge(t *testing.T) {
	for _, status := range []int{400, 401, 404, 500, 503} {
		f := &webFlood{
			method: "tools/call", status: status, contentType: "application/json",
			begin: `{"jsonrpc":"2.0","id":$ID,"error":{"code":1,"message":"`,
			more:  strings.Repeat("y", 64<<10),
		}
		web := httptest.NewServer(f)
		c := connect(t, mcp.Config{Servers: []mcp.Server{{Name: "web", URL: web.URL}}})
		_, err := call(t, c, "mcp__web__t", `{}`)
		require.Error(t, err)
		require.NoError(t, c.Close())
		web.Close()
		require.Less(t, f.sent.Load(), int64(buffered), status)
	}
}

// answering returns a server over HTTP whose one tool is answered with what it is to be.
func answering(t *testing.T, result *atomic.Value) (mcp.Server, *atomic.Int64) {
	var calls atomic.Int64
	result.Store(`{}`)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked, ok := received(w, r); ok {
			if asked.Method == "tools/call" {
				calls.Add(1)
			}
			asked.reply(w, result.Load().(string))
		}
	}))
	t.Cleanup(srv.Close)
	return mcp.Server{Name: "a", URL: srv.URL, Trusted: true}, &calls
}

// An answer that has not the form of the protocol fails its call for good, also of a tool that may
// be called again, and nothing else: the connection goes on.
func TestAnswersOfAnotherForm(t *testing.T) {
	var result atomic.Value
	server, calls := answering(t, &result)
	c := connect(t, mcp.Config{Servers: []mcp.Server{server}})
	for odd, why := range map[string]string{
		`{"content":7}`:                          `"content" is of another type`,
		`{"content":[{"type":"text","text":5}]}`: "is of another type",
		`{"content":[],"isError":"yes"}`:         `"isError" is of another type`,
		`[]`:                                     "is of another type",
		`"done"`:                                 "is of another type",
		`{"content":[null]}`:                     "nil content",
		`{"content":[{"type":"smell"}]}`:         `unrecognized content type "smell"`,
		`{"content":[{"type":"image","data":"%"}]}`: "illegal base64",
	} {
		result.Store(odd)
		before := calls.Load()
		use := agent.ToolCall{ID: "1", Name: "mcp__a__t", Args: json.RawMessage(`{}`)}
		inTurn(t, c.Tools(), policy.Rules{}, func(ctx context.Context, turn *agent.Turn) error {
			if err := record(ctx, turn, use); err != nil {
				return err
			}
			_, err := turn.Call(ctx, use)
			bad, ok := errors.AsType[*mcp.FormError](err)
			require.True(t, ok, "%s: %v", odd, err)
			require.Equal(t, "a", bad.Server)
			require.Contains(t, bad.Tool, "t")
			require.Contains(t, bad.Reason, why)
			require.False(t, agent.IsRetryable(err), odd)
			return nil
		})
		require.Equal(t, before+1, calls.Load(), odd)
	}
	result.Store(`null`)
	require.Equal(t, "(The tool returned nothing.)", mustCall(t, c, "mcp__a__t", `{}`).Text)
	result.Store(`{"content":[{"type":"text","text":"Noon."}]}`)
	require.Equal(t, "Noon.", mustCall(t, c, "mcp__a__t", `{}`).Text)
	require.Equal(t, 1, c.Servers()[0].Starts)
}
