package mcp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent/mcp"
)

// asChild makes this program a server over stdio; its value says of which kind.
const asChild = "OFFSHOOT_MCP_CHILD"

// childKey is what a child of the kind "secrets" tells of.
const childKey = "sk-abcdefghijklmnopqrstuvwxyz123456"

// asOdd names a file with the oddAnswers of a child of the kind raw.
const asOdd = "OFFSHOOT_MCP_ODD"

func TestMain(m *testing.M) {
	if kind := os.Getenv(asChild); kind != "" {
		child(kind)
		return
	}
	m.Run()
}

// child is the server that runs as a child process.
func child(kind string) {
	if kind == "broken" {
		fmt.Fprintln(os.Stderr, "no licence for this machine")
		os.Exit(3) //nolint:forbidigo // this is the child process
	}
	switch kind {
	case "secrets":
		fmt.Fprintf(os.Stderr, "%s: no licence with %s, colour %s\n%s", strings.Repeat("x", 960),
			os.Getenv("SERVICE_TOKEN"), os.Getenv("COLOUR"), "token="+childKey)
		os.Exit(3) //nolint:forbidigo // this is the child process
	case "silent":
		select {}
	}
	if kind == "raw" {
		raw := &rawChild{in: bufio.NewScanner(os.Stdin), out: os.Stdout}
		if file, err := os.ReadFile(os.Getenv(asOdd)); err == nil {
			_ = json.Unmarshal(file, &raw.odd)
		}
		raw.serve()
		return
	}
	if kind == "listless" {
		in := bufio.NewScanner(os.Stdin)
		for in.Scan() {
			var asked webRequest
			if json.Unmarshal(in.Bytes(), &asked) == nil && asked.Method == "initialize" {
				told := httptest.NewRecorder()
				asked.reply(told, "")
				fmt.Println(told.Body.String()) //nolint:forbidigo // it is the protocol
			}
		}
		select {}
	}
	if kind == "chatty" {
		fmt.Fprintln(os.Stderr, "a line")
	}
	s := sdk.NewServer(&sdk.Implementation{Name: "child"}, nil)
	if kind == "telling" {
		s = telling(os.Getenv("SERVICE_TOKEN"))
	}
	add(s, "pid", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return said(fmt.Sprint(os.Getpid())), nil
	})
	add(s, "quit", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		os.Exit(7) //nolint:forbidigo // this is the child process
		return nil, errors.New("it goes on")
	})
	add(s, "env", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return said(strings.Join(os.Environ(), "\n")), nil
	})
	die := &sdk.Tool{Name: "die_once", InputSchema: object, Annotations: &sdk.ToolAnnotations{
		ReadOnlyHint: true,
	}}
	s.AddTool(die, func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		var in struct{ Mark string }
		if err := json.Unmarshal(r.Params.Arguments, &in); err != nil {
			return nil, err
		}
		if _, err := os.Stat(in.Mark); err != nil {
			f, _ := os.Create(in.Mark)
			_ = f.Close()
			p, _ := os.FindProcess(os.Getpid())
			_ = p.Kill()
			select {}
		}
		return said("alive"), nil
	})
	if err := s.Run(context.Background(), &sdk.StdioTransport{}); err != nil {
		os.Exit(1) //nolint:forbidigo // this is the child process
	}
}

var object = json.RawMessage(`{"type":"object"}`)

func add(s *sdk.Server, name string, h sdk.ToolHandler) {
	s.AddTool(&sdk.Tool{Name: name, Description: "About " + name, InputSchema: object}, h)
}

func said(text string) *sdk.CallToolResult {
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}}
}

// childServer is a Server that is this program as a child process.
func childServer(t *testing.T, kind string) mcp.Server {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	return mcp.Server{
		Name: "child", Command: []string{exe},
		// Under the race detector a process sleeps for a second before it ends.
		Env: []string{asChild + "=" + kind, "GORACE=atexit_sleep_ms=0"},
	}
}

// overHTTP serves a server of the SDK in this process.
func overHTTP(t *testing.T, s *sdk.Server) *httptest.Server {
	t.Helper()
	h := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, nil)
	web := httptest.NewServer(h)
	t.Cleanup(func() {
		for ss := range s.Sessions() {
			_ = ss.Close()
		}
		web.CloseClientConnections()
		web.Close()
	})
	return web
}

// connect connects, and checks at the end of the test that nothing is left over.
func connect(t *testing.T, cfg mcp.Config) *mcp.Client {
	t.Helper()
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	leaks(t)
	c, err := mcp.Connect(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// checked are the tests that look for goroutines at their end.
var checked sync.Map

// leaks checks, when all else of the test is cleaned up, that no goroutine of the package is left.
// Tests of this package do not run at the same time.
func leaks(t *testing.T) {
	t.Helper()
	if _, twice := checked.LoadOrStore(t.Name(), true); twice {
		return
	}
	t.Cleanup(func() {
		var left string
		assert.Eventually(t, func() bool {
			left = ours()
			return left == ""
		}, 10*time.Second, 10*time.Millisecond)
		assert.Empty(t, left)
	})
}

// ours returns the stacks of goroutines that a link has begun.
func ours() string {
	buf := make([]byte, 1<<20)
	buf = buf[:runtime.Stack(buf, true)]
	var left []string
	for g := range strings.SplitSeq(string(buf), "\n\n") {
		if strings.Contains(g, "mcp.(*link)") || strings.Contains(g, "mcp.(*Client)") &&
			!strings.Contains(g, "mcp.(*Client).Close") {
			left = append(left, g)
		}
	}
	return strings.Join(left, "\n\n")
}

// call calls a tool outside of a turn.
func call(t *testing.T, c *mcp.Client, name, args string) (agent.ToolResult, error) {
	t.Helper()
	for _, tool := range c.Tools() {
		if tool.Name == name {
			return tool.Call(t.Context(), agent.ToolCall{
				ID: "1", Name: name, Args: json.RawMessage(args),
			})
		}
	}
	return agent.ToolResult{}, errors.New("no such tool: " + name)
}

func mustCall(t *testing.T, c *mcp.Client, name, args string) agent.ToolResult {
	t.Helper()
	out, err := call(t, c, name, args)
	require.NoError(t, err)
	return out
}

// inTurn runs f in a turn of a Runtime that has the tools.
func inTurn(
	t *testing.T, tools []agent.Tool, rules policy.Rules,
	f func(ctx context.Context, turn *agent.Turn) error,
) {
	t.Helper()
	rt := open(t, agent.Config{
		Tools: tools, Rules: rules,
		Runner: agent.RunnerFunc(func(ctx context.Context, turn *agent.Turn) (agent.Result, error) {
			if err := f(ctx, turn); err != nil {
				return agent.Result{}, err
			}
			return agent.Result{Text: "done"}, nil
		}),
	})
	chat := rt.Session(session.Must(session.DirectKey("main", "test", "me")))
	reply, err := chat.PostAndWait(t.Context(), agent.Incoming{Text: "go"})
	require.NoError(t, err)
	require.Empty(t, reply.Err)
	require.Equal(t, "done", reply.Text)
}

// open opens a Runtime that runs until the end of the test.
func open(t *testing.T, cfg agent.Config) *agent.Runtime {
	t.Helper()
	cfg.Logger = slog.New(slog.DiscardHandler)
	rt, err := agent.Open(t.Context(), cfg)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- rt.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-ended)
	})
	return rt
}

// record records a message of the model with calls, as a Loop does.
func record(ctx context.Context, turn *agent.Turn, calls ...agent.ToolCall) error {
	return turn.Record(ctx, agent.Message{Role: session.MessageAssistant, ToolCalls: calls})
}

func names(tools []agent.Tool) []string {
	var list []string
	for _, t := range tools {
		list = append(list, t.Name)
	}
	return list
}

// changes gathers what Config.Changed is told.
type changes chan mcp.Change

func (c changes) next(t *testing.T) mcp.Change {
	t.Helper()
	select {
	case got := <-c:
		return got
	case <-time.After(20 * time.Second):
		t.Fatal("no change came")
		return mcp.Change{}
	}
}

// counter counts.
type counter struct{ atomic.Int64 }
