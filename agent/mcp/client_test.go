package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
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

// png is the smallest picture.
var png = []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06" +
	"\x00\x00\x00\x1f\x15\xc4\x89\x00\x00\x00\rIDATx\x9cc\xf8\xcf\xc0\xf0\x1f\x00\x05\x00\x01\xff" +
	"\xa7\xd3\xb5\xfd\x00\x00\x00\x00IEND\xaeB`\x82")

// A model calls the tools of a server under their policy names, and gets pictures as Parts whose
// bytes the Store has.
func TestToolsInATurn(t *testing.T) {
	s := sdk.NewServer(&sdk.Implementation{Name: "shapes"}, nil)
	sdk.AddTool(s, &sdk.Tool{Name: "draw", Description: "Draws a shape.\nMore words."},
		func(_ context.Context, _ *sdk.CallToolRequest, in struct {
			Shape string `json:"shape"`
		},
		) (*sdk.CallToolResult, any, error) {
			return &sdk.CallToolResult{Content: []sdk.Content{
				&sdk.TextContent{Text: "a " + in.Shape},
				&sdk.ImageContent{MIMEType: "image/png", Data: png},
			}}, nil, nil
		})
	c := connect(t, mcp.Config{Servers: []mcp.Server{{Name: "shapes", URL: overHTTP(t, s).URL}}})
	require.Equal(t, []string{"mcp__shapes__draw"}, names(c.Tools()))

	inTurn(t, c.Tools(), policy.Rules{}, func(ctx context.Context, turn *agent.Turn) error {
		assert.Contains(t, turn.Prompt.String(), "`mcp__shapes__draw`: Draws a shape.\n")
		use := agent.ToolCall{ID: "1", Name: "mcp__shapes__draw", Args: json.RawMessage(`{"shape":"disc"}`)}
		if err := record(ctx, turn, use); err != nil {
			return err
		}
		out, err := turn.Call(ctx, use)
		if err != nil {
			return err
		}
		assert.Equal(t, "a disc", out.Text)
		require.Len(t, out.Parts, 1)
		assert.Equal(t, session.PartImage, out.Parts[0].Kind)
		f, err := turn.OpenFile(ctx, out.Parts[0].File)
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }()
		data, err := io.ReadAll(f)
		assert.Equal(t, png, data)

		use.ID, use.Args = "2", json.RawMessage(`{"shape":7}`)
		_, bad := turn.Call(ctx, use)
		assert.ErrorContains(t, bad, "shape") // the Runtime has checked it
		return err
	})

	deny := policy.Rules{Tools: policy.ToolPolicy{Deny: []string{"mcp__shapes__*"}}}
	inTurn(t, c.Tools(), deny, func(_ context.Context, turn *agent.Turn) error {
		assert.NotContains(t, names(turn.Tools), "mcp__shapes__draw")
		return nil
	})
}

// A child process that was killed is started anew, and the next call goes to the new one.
func TestChildThatIsKilled(t *testing.T) {
	srv := childServer(t, "plain")
	srv.Trusted = true
	c := connect(t, mcp.Config{Servers: []mcp.Server{srv}})
	first := mustCall(t, c, "mcp__child__pid", "").Text
	for n := 2; n <= 4; n++ {
		pid, err := strconv.Atoi(mustCall(t, c, "mcp__child__pid", "").Text)
		require.NoError(t, err)
		p, err := os.FindProcess(pid)
		require.NoError(t, err)
		require.NoError(t, p.Kill())
		require.Eventually(t, func() bool {
			st := c.Servers()[0]
			return st.Up && st.Starts == n && st.Err != nil
		}, 20*time.Second, 5*time.Millisecond)
		next := mustCall(t, c, "mcp__child__pid", "").Text
		assert.NotEqual(t, strconv.Itoa(pid), next)
		assert.NotEqual(t, first, next)
	}
}

// A call that is under way when its server dies fails with a LostError. The Runtime makes it again
// if the tool says that it changes nothing and its server is trusted, and else does not.
func TestCallThatIsCutOff(t *testing.T) {
	for _, trusted := range []bool{true, false} {
		t.Run(fmt.Sprint("trusted ", trusted), func(t *testing.T) {
			srv := childServer(t, "plain")
			srv.Trusted = trusted
			c := connect(t, mcp.Config{Servers: []mcp.Server{srv}})
			mark, err := json.Marshal(filepath.Join(t.TempDir(), "mark"))
			require.NoError(t, err)
			use := agent.ToolCall{
				ID: "1", Name: "mcp__child__die_once", Args: json.RawMessage(`{"Mark":` + string(mark) + `}`),
			}
			inTurn(t, c.Tools(), policy.Rules{}, func(ctx context.Context, turn *agent.Turn) error {
				if err := record(ctx, turn, use); err != nil {
					return err
				}
				out, err := turn.Call(ctx, use)
				if trusted {
					assert.Equal(t, "alive", out.Text)
					return err
				}
				lost, ok := errors.AsType[*mcp.LostError](err)
				require.True(t, ok, "%v", err)
				assert.Equal(t, "child", lost.Server)
				assert.True(t, agent.IsRetryable(err))
				assert.ErrorContains(t, err, "it is not known whether it was done")
				return nil
			})
			assert.Equal(t, "alive", mustCall(t, c, "mcp__child__die_once", string(use.Args)).Text)
		})
	}
}

// A child process is not given the keys of the bot.
func TestEnvironmentOfAChild(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "sk-secret")
	srv := childServer(t, "plain")
	srv.Env = append(srv.Env, "COLOUR=blue")
	c := connect(t, mcp.Config{Servers: []mcp.Server{srv}})
	env := mustCall(t, c, "mcp__child__env", "").Text
	assert.NotContains(t, env, "sk-secret")
	assert.Contains(t, env, "COLOUR=blue")
	assert.Contains(t, env, "PATH=")
}

// A server that does not start is an error that has its last words, and nothing is left running. An
// optional one holds nothing up.
func TestServerThatDoesNotStart(t *testing.T) {
	leaks(t)
	good, bad := childServer(t, "plain"), childServer(t, "broken")
	bad.Name = "bad"
	cfg := mcp.Config{Servers: []mcp.Server{good, bad}, Logger: slog.New(slog.DiscardHandler)}
	_, err := mcp.Connect(t.Context(), cfg)
	failed, ok := errors.AsType[*mcp.StartError](err)
	require.True(t, ok, "%v", err)
	assert.Equal(t, "bad", failed.Server)
	assert.Equal(t, "no licence for this machine", failed.Stderr)

	cfg.Servers[1].Command = []string{filepath.Join(t.TempDir(), "no-such-program")}
	_, err = mcp.Connect(t.Context(), cfg)
	assert.ErrorIs(t, err, os.ErrNotExist)

	cfg.Servers[1].Optional = true
	c := connect(t, cfg)
	assert.NotEmpty(t, c.Tools())
	st := c.Servers()
	assert.True(t, st[0].Up)
	assert.False(t, st[1].Up)
	assert.Error(t, st[1].Err)
}

// Connect ends with its ctx.
func TestConnectEndsWithItsContext(t *testing.T) {
	leaks(t)
	hang := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}))
	t.Cleanup(func() { hang.CloseClientConnections(); hang.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := mcp.Connect(ctx, mcp.Config{Servers: []mcp.Server{
		{Name: "hang", URL: hang.URL, Optional: true},
	}})
	assert.ErrorIs(t, err, context.DeadlineExceeded)

	// So does the start of a server when its time is over.
	_, err = mcp.Connect(t.Context(), mcp.Config{Servers: []mcp.Server{
		{Name: "hang", URL: hang.URL, StartTimeout: 50 * time.Millisecond},
	}})
	failed, ok := errors.AsType[*mcp.StartError](err)
	require.True(t, ok, "%v", err)
	assert.Equal(t, "hang", failed.Server)
	assert.ErrorIs(t, err, context.DeadlineExceeded)
}

// A call that takes too long ends, the model is told so, and the server is told that it is over.
func TestCallThatTakesTooLong(t *testing.T) {
	ended := make(chan struct{})
	s := sdk.NewServer(&sdk.Implementation{Name: "slow"}, nil)
	add(s, "wait", func(ctx context.Context, _ *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		<-ctx.Done()
		close(ended)
		return nil, ctx.Err()
	})
	c := connect(t, mcp.Config{Servers: []mcp.Server{
		{Name: "slow", URL: overHTTP(t, s).URL, CallTimeout: 100 * time.Millisecond},
	}})
	use := agent.ToolCall{ID: "1", Name: "mcp__slow__wait"}
	inTurn(t, c.Tools(), policy.Rules{}, func(ctx context.Context, turn *agent.Turn) error {
		if err := record(ctx, turn, use); err != nil {
			return err
		}
		_, err := turn.Call(ctx, use)
		late, ok := errors.AsType[*agent.ToolTimeoutError](err)
		require.True(t, ok, "%v", err)
		assert.False(t, late.Running)
		return nil
	})
	select {
	case <-ended:
	case <-time.After(20 * time.Second):
		t.Fatal("the server was not told that the call is over")
	}
}

// A list that changes is told, a tool that is gone says so, and one that is back works.
func TestListThatChanges(t *testing.T) {
	s := sdk.NewServer(&sdk.Implementation{Name: "s"}, nil)
	hello := func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return said("hello"), nil
	}
	add(s, "a", hello)
	add(s, "b", hello)
	told := make(changes, 10)
	c := connect(t, mcp.Config{
		Servers: []mcp.Server{{Name: "s", URL: overHTTP(t, s).URL}},
		Changed: func(c mcp.Change) { told <- c },
	})
	before := c.Tools()
	s.RemoveTools("b")
	assert.Equal(t, mcp.Change{Server: "s", Removed: []string{"mcp__s__b"}}, told.next(t))
	_, err := before[1].Call(t.Context(), agent.ToolCall{Name: "mcp__s__b"})
	gone, ok := errors.AsType[*mcp.GoneError](err)
	require.True(t, ok, "%v", err)
	assert.Equal(t, mcp.GoneError{Server: "s", Tool: "mcp__s__b"}, *gone)
	assert.Equal(t, []string{"mcp__s__a"}, names(c.Tools()))

	add(s, "b", hello)
	assert.Equal(t, mcp.Change{Server: "s", Added: []string{"mcp__s__b"}}, told.next(t))
	out, err := before[1].Call(t.Context(), agent.ToolCall{Name: "mcp__s__b"})
	require.NoError(t, err)
	assert.Equal(t, "hello", out.Text)

	s.AddTool(&sdk.Tool{Name: "a", Description: "other words", InputSchema: object}, hello)
	assert.Equal(t, mcp.Change{Server: "s", Modified: []string{"mcp__s__a"}}, told.next(t))
}

// A web server that was started anew does not know its sessions any more. The next call gets a new
// one, whether the tool says that it may be repeated or not: nothing was done.
func TestWebServerThatIsStartedAnew(t *testing.T) {
	build := func(name string) http.Handler {
		s := sdk.NewServer(&sdk.Implementation{Name: "s"}, &sdk.ServerOptions{
			// The version in which servers have sessions.
			SupportedProtocolVersions: []string{"2025-11-25"},
		})
		add(s, "who", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return said(name), nil
		})
		add(s, name, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return said(name), nil
		})
		return sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, nil)
	}
	var now atomic.Pointer[http.Handler]
	set := func(h http.Handler) { now.Store(&h) }
	set(build("one"))
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		(*now.Load()).ServeHTTP(w, r)
	}))
	t.Cleanup(func() { web.CloseClientConnections(); web.Close() })
	told := make(changes, 10)
	c := connect(t, mcp.Config{
		Servers: []mcp.Server{{Name: "s", URL: web.URL}},
		Changed: func(c mcp.Change) { told <- c },
	})
	assert.Equal(t, "one", mustCall(t, c, "mcp__s__who", "").Text)
	set(build("two"))
	assert.Equal(t, "two", mustCall(t, c, "mcp__s__who", "").Text)
	assert.Equal(t, mcp.Change{
		Server: "s", Added: []string{"mcp__s__two"}, Removed: []string{"mcp__s__one"},
	}, told.next(t))
}

// A server that is down when the bot starts, and optional, is there when it has come up, and can be
// called when that is told. A call that comes while a server is down waits for it, and says after a
// while that it is not there.
func TestServerThatComesLater(t *testing.T) {
	s := sdk.NewServer(&sdk.Implementation{Name: "s"}, nil)
	add(s, "a", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return said("here"), nil
	})
	h := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, nil)
	var up atomic.Bool
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !up.Load() {
			http.Error(w, "come back later", http.StatusServiceUnavailable)
			return
		}
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(func() { web.CloseClientConnections(); web.Close() })
	told := make(changes, 10)
	connected := make(chan *mcp.Client, 1)
	c := connect(t, mcp.Config{
		Servers: []mcp.Server{
			{Name: "s", URL: web.URL, Optional: true, StartTimeout: 5 * time.Second},
		},
		Changed: func(change mcp.Change) {
			c := <-connected
			if len(c.Tools()) == 1 && c.Servers()[0].Up {
				out, err := c.Tools()[0].Call(t.Context(), agent.ToolCall{Name: "mcp__s__a"})
				if assert.NoError(t, err) && out.Text == "here" {
					told <- change
				}
			}
		},
	})
	assert.Empty(t, c.Tools())
	connected <- c
	up.Store(true)
	assert.Equal(t, []string{"mcp__s__a"}, told.next(t).Added)
	assert.Equal(t, "here", mustCall(t, c, "mcp__s__a", "").Text)
	up.Store(false)
	_, err := call(t, c, "mcp__s__a", "")
	assert.True(t, agent.IsRetryable(err), "%v", err)
}

// After Close nothing is called any more.
func TestClosedClient(t *testing.T) {
	c := connect(t, mcp.Config{Servers: []mcp.Server{childServer(t, "plain")}})
	tool := c.Tools()[0]
	require.NoError(t, c.Close())
	require.NoError(t, c.Close())
	_, err := tool.Call(t.Context(), agent.ToolCall{Name: tool.Name})
	assert.ErrorIs(t, err, mcp.ErrClosed)
	assert.False(t, c.Servers()[0].Up)
}

// Resources are listed and read, texts as texts and bytes as Parts.
func TestResources(t *testing.T) {
	s := sdk.NewServer(&sdk.Implementation{Name: "notes"}, nil)
	read := func(_ context.Context, r *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
		if strings.HasSuffix(r.Params.URI, ".png") {
			return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{
				{URI: r.Params.URI, MIMEType: "image/png", Blob: png},
			}}, nil
		}
		return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{
			{URI: r.Params.URI, MIMEType: "text/plain", Text: "milk"},
		}}, nil
	}
	s.AddResource(&sdk.Resource{
		URI: "note:///list.txt", Name: "list", MIMEType: "text/plain", Description: "What to\nbuy",
	}, read)
	s.AddResource(&sdk.Resource{URI: "note:///a/map.png", Name: "map"}, read)
	s.AddResourceTemplate(&sdk.ResourceTemplate{URITemplate: "note:///{day}", Name: "day"}, read)
	c := connect(t, mcp.Config{Servers: []mcp.Server{{Name: "notes", URL: overHTTP(t, s).URL}}})
	require.Equal(t, []string{"mcp__notes__list_resources", "mcp__notes__read_resource"},
		names(c.Tools()))
	assert.Equal(t, "note:///a/map.png — map\nnote:///list.txt — list (text/plain): What to buy\n"+
		"Template note:///{day} — day", mustCall(t, c, "mcp__notes__list_resources", "").Text)
	assert.Equal(t, "note:///a/map.png — map",
		mustCall(t, c, "mcp__notes__list_resources", `{"contains":"MAP"}`).Text)
	assert.Equal(t, "(No resource fits.)",
		mustCall(t, c, "mcp__notes__list_resources", `{"contains":"sea"}`).Text)
	assert.Equal(t, "Resource note:///list.txt:\nmilk",
		mustCall(t, c, "mcp__notes__read_resource", `{"uri":"note:///list.txt"}`).Text)
	out := mustCall(t, c, "mcp__notes__read_resource", `{"uri":"note:///a/map.png"}`)
	assert.Equal(t, []agent.Part{
		{Kind: session.PartImage, MediaType: "image/png", Name: "map.png", Data: png},
	}, out.Parts)
	_, err := call(t, c, "mcp__notes__read_resource", `{"uri":"note:///a/b/c"}`)
	_, ok := errors.AsType[*mcp.ToolError](err)
	assert.True(t, ok, "%v", err)
	inTurn(t, c.Tools(), policy.Rules{}, func(context.Context, *agent.Turn) error { return nil })

	hidden := connect(t, mcp.Config{Servers: []mcp.Server{
		{Name: "notes", URL: overHTTP(t, s).URL, HideResources: true},
	}})
	assert.Empty(t, hidden.Tools())
}

// What a server answers to a call is told as it is: failures, refusals, and contents of each kind.
func TestAnswers(t *testing.T) {
	s := sdk.NewServer(&sdk.Implementation{Name: "s"}, nil)
	for name, res := range map[string]*sdk.CallToolResult{
		"fails": {IsError: true, Content: []sdk.Content{&sdk.TextContent{Text: "disk full"}}},
		"mute":  {IsError: true},
		"none":  {},
		"data":  {StructuredContent: map[string]any{"n": 1}},
		"both": {
			StructuredContent: map[string]any{"n": 1},
			Content:           []sdk.Content{&sdk.TextContent{Text: "one"}},
		},
		"link": {Content: []sdk.Content{&sdk.ResourceLink{
			URI: "note:///x", Name: "x", MIMEType: "text/plain",
		}}},
		"sound": {Content: []sdk.Content{&sdk.AudioContent{MIMEType: "audio/wav", Data: []byte("RIFF")}}},
		"inside": {Content: []sdk.Content{
			&sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: "note:///x", Text: "milk"}},
			&sdk.EmbeddedResource{Resource: &sdk.ResourceContents{
				URI: "file:///a/..%2f/b.pdf?x", MIMEType: "application/pdf", Blob: []byte("%PDF"),
			}},
		}},
		"empty": {Content: []sdk.Content{&sdk.ImageContent{MIMEType: "image/png"}}},
	} {
		add(s, name, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return res, nil
		})
	}
	add(s, "refuses", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return nil, errors.New("not on a Sunday")
	})
	c := connect(t, mcp.Config{Servers: []mcp.Server{{Name: "s", URL: overHTTP(t, s).URL}}})
	for _, tt := range []struct {
		tool, text, fails string
		parts             []agent.Part
	}{
		{tool: "fails", fails: "disk full"},
		{tool: "mute", fails: "The tool failed and did not say why."},
		{tool: "refuses", fails: "The server refuses the call: not on a Sunday"},
		{tool: "none", text: "(The tool returned nothing.)"},
		{tool: "data", text: `{"n":1}`},
		{tool: "both", text: "one"},
		{tool: "link", text: "Resource note:///x — x (text/plain)"},
		{tool: "empty", text: "(An empty image is left out.)"},
		{tool: "sound", parts: []agent.Part{
			{Kind: session.PartAudio, MediaType: "audio/wav", Data: []byte("RIFF")},
		}},
		{tool: "inside", text: "Resource note:///x:\nmilk", parts: []agent.Part{
			{Kind: session.PartFile, MediaType: "application/pdf", Name: "b.pdf", Data: []byte("%PDF")},
		}},
	} {
		t.Run(tt.tool, func(t *testing.T) {
			out, err := call(t, c, "mcp__s__"+tt.tool, "{}")
			if tt.fails != "" {
				failed, ok := errors.AsType[*mcp.ToolError](err)
				require.True(t, ok, "%v", err)
				assert.Equal(t, tt.fails, failed.Error())
				assert.False(t, agent.IsRetryable(err))
				return
			}
			require.NoError(t, err)
			assert.Equal(t, tt.text, out.Text)
			assert.Equal(t, tt.parts, out.Parts)
		})
	}
}

// A server cannot keep a bot from opening, whatever its tools are called and ask for.
func TestToolsThatABotWouldRefuse(t *testing.T) {
	s := sdk.NewServer(&sdk.Implementation{Name: "s"}, nil)
	h := func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return said("ok"), nil
	}
	for _, name := range []string{
		"a.b", "a_b", "A_B", strings.Repeat("x", 100), strings.Repeat("x", 101), "list", "...",
	} {
		add(s, name, h)
	}
	s.AddTool(&sdk.Tool{
		Name: "odd", Description: "Odd\x1b[31m words" + strings.Repeat(".", 20_000),
		InputSchema: json.RawMessage(`{"type":"object","properties":{"n":{"type":"nonsense"}}}`),
	}, h)
	s.AddTool(&sdk.Tool{
		Name: "far", Description: "Far.", InputSchema: json.RawMessage(
			`{"type":"object","properties":{"n":{"$ref":"https://example.com/schema"}}}`),
	}, h)
	s.AddTool(&sdk.Tool{Name: "endless", InputSchema: json.RawMessage(
		`{"type":"object","properties":{"n":{"$ref":"#/properties/n"}}}`)}, h)
	c := connect(t, mcp.Config{Servers: []mcp.Server{{Name: "s", URL: overHTTP(t, s).URL}}})
	tools := c.Tools()
	require.Len(t, tools, 10)
	seen := map[string]bool{}
	for _, tool := range tools {
		assert.LessOrEqual(t, len(tool.Name), 64)
		assert.True(t, strings.HasPrefix(tool.Name, "mcp__s__"), tool.Name)
		assert.False(t, seen[strings.ToLower(tool.Name)], tool.Name)
		seen[strings.ToLower(tool.Name)] = true
		assert.LessOrEqual(t, len(tool.Description), 2*mcp.MaxDescription)
		assert.NotContains(t, tool.Description, "\x1b")
	}
	assert.True(t, seen["mcp__s__list"])
	for _, tool := range tools { // what is not checked here is told
		isOdd := slices.Contains([]string{"mcp__s__far", "mcp__s__endless"}, tool.Name)
		assert.Equal(t, isOdd, strings.Contains(tool.Description, `"$ref"`), tool.Name)
		if isOdd {
			assert.JSONEq(t, `{"type":"object"}`, string(tool.Schema))
		}
	}
	inTurn(t, tools, policy.Rules{}, func(ctx context.Context, turn *agent.Turn) error {
		for i, tool := range turn.Tools {
			if !strings.HasPrefix(tool.Name, "mcp__") {
				continue
			}
			use := agent.ToolCall{ID: strconv.Itoa(i), Name: tool.Name}
			if err := record(ctx, turn, use); err != nil {
				return err
			}
			out, err := turn.Call(ctx, use)
			if err != nil {
				return err
			}
			assert.Equal(t, "ok", out.Text)
		}
		return nil
	})
}

// Hints count if the server is trusted, and only then.
func TestHints(t *testing.T) {
	s := sdk.NewServer(&sdk.Implementation{Name: "s"}, nil)
	for name, a := range map[string]*sdk.ToolAnnotations{
		"reads": {ReadOnlyHint: true}, "sets": {IdempotentHint: true}, "writes": nil,
	} {
		s.AddTool(&sdk.Tool{Name: name, InputSchema: object, Annotations: a}, nil)
	}
	web := overHTTP(t, s)
	for _, trusted := range []bool{true, false} {
		c := connect(t, mcp.Config{Servers: []mcp.Server{
			{Name: "s", URL: web.URL, Trusted: trusted},
		}})
		tools := c.Tools()
		want := []agent.Effect{agent.EffectUnknown, agent.EffectUnknown, agent.EffectUnknown}
		if trusted {
			want = []agent.Effect{agent.EffectReadOnly, agent.EffectIdempotent, agent.EffectUnknown}
		}
		for i, tool := range tools {
			assert.Equal(t, want[i], tool.Effect, tool.Name)
			assert.Equal(t, want[i] == agent.EffectReadOnly, tool.Concurrent, tool.Name)
			assert.Equal(t, mcp.DefaultCallTimeout, tool.Timeout)
		}
	}
}

// A redirector is a server over HTTP that sends requests on: by a status, from its root.
type redirector struct {
	next   http.Handler
	status atomic.Int64 // 0: it answers itself
	to     string
	keys   sync.Map // what requests authorised themselves with
}

// ServeHTTP answers.
func (d *redirector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d.keys.Store(r.Header.Get("Authorization"), true)
	if status := d.status.Load(); status != 0 && r.URL.Path == "/" {
		http.Redirect(w, r, d.to, int(status))
		return
	}
	d.next.ServeHTTP(w, r)
}

// redirecting serves a redirector before a server with the tool "a".
func redirecting(t *testing.T) (*redirector, mcp.Server) {
	t.Helper()
	s := sdk.NewServer(&sdk.Implementation{Name: "s"}, nil)
	add(s, "a", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return said("ok"), nil
	})
	d := &redirector{
		next: sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, nil),
	}
	web := httptest.NewServer(d)
	t.Cleanup(func() { web.CloseClientConnections(); web.Close() })
	return d, mcp.Server{
		Name: "s", URL: web.URL, Header: http.Header{"authorization": {"Bearer x"}},
		StartTimeout: 10 * time.Second, Trusted: true,
	}
}

// redirects are the statuses by which a request is sent on, with its body or without.
var redirects = []int{
	http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther,
	http.StatusTemporaryRedirect, http.StatusPermanentRedirect,
}

// A redirect to another host is not followed: that host sees no request, and so no key, no session
// and nothing of what a model has written. The error says where the server is, and another try is
// not made.
func TestRedirectToAnotherHost(t *testing.T) {
	var strays counter
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		strays.Add(1)
	}))
	defer other.Close()
	requireAway := func(err error) {
		t.Helper()
		var away *mcp.RedirectError
		require.ErrorAs(t, err, &away)
		require.Equal(t, mcp.RedirectError{Server: "s", To: other.URL}, *away)
		require.False(t, agent.IsRetryable(err))
	}
	for _, status := range redirects {
		d, srv := redirecting(t)
		d.to = other.URL + "/mcp"
		c := connect(t, mcp.Config{Servers: []mcp.Server{srv}})
		require.Equal(t, "ok", mustCall(t, c, "mcp__s__a", "").Text)
		d.status.Store(int64(status))
		_, err := call(t, c, "mcp__s__a", `{"secret":"x"}`)
		requireAway(err)
		_, err = mcp.Connect(t.Context(), mcp.Config{Servers: []mcp.Server{srv}})
		requireAway(err)
		require.NoError(t, c.Close())
		_, none := d.keys.Load("")
		require.False(t, none, "a request of the server has no key")
	}
	require.Zero(t, strays.Load())
}

// A redirect within the server is followed with the key and the body, by the statuses that keep the
// body. The HTTP of the server may refuse it.
func TestRedirectWithinAServer(t *testing.T) {
	for _, status := range []int{http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
		d, srv := redirecting(t)
		d.to = "/mcp/"
		d.status.Store(int64(status))
		c := connect(t, mcp.Config{Servers: []mcp.Server{srv}})
		require.Equal(t, "ok", mustCall(t, c, "mcp__s__a", "").Text)
		_, none := d.keys.Load("")
		require.False(t, none)
		srv.HTTP = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error {
			return errors.New("not here")
		}}
		_, err := mcp.Connect(t.Context(), mcp.Config{Servers: []mcp.Server{srv}})
		require.ErrorContains(t, err, "not here")
		srv.HTTP, d.to = nil, "/" // in a circle
		_, err = mcp.Connect(t.Context(), mcp.Config{Servers: []mcp.Server{srv}})
		require.ErrorContains(t, err, "more than ten redirects")
	}
}

// What a server of an older protocol asks of its client in the middle of a call is refused, and it
// is told so: no model is called for it, no person is asked, and it learns of no directory.
func TestServersThatAsk(t *testing.T) {
	c := connect(t, mcp.Config{Servers: []mcp.Server{childServer(t, "raw")}})
	for method, told := range map[string]string{
		"sampling/createMessage": "client does not support CreateMessage",
		"elicitation/create":     "client does not support elicitation",
		"roots/list":             "roots:[]",
		"tasks/get":              "method not found",
	} {
		require.Contains(t, mustCall(t, c, "mcp__child__t", `{"how":"`+method+`"}`).Text, told, method)
	}
	require.Equal(t, 1, c.Servers()[0].Starts)
}

// A server that asks for something before it answers does not get it. The model is told what it
// asks for, the server is called once, and a server that is only busy is worth another try.
func TestAnswersThatAsk(t *testing.T) {
	sampling := &sdk.CreateMessageParams{ //nolint:staticcheck // it is deprecated, and may be asked
		MaxTokens: 9,
		Messages:  []*sdk.SamplingMessage{}, //nolint:staticcheck // as above
	}
	roots := &sdk.ListRootsParams{} //nolint:staticcheck // as above
	for name, tt := range map[string]struct {
		asks sdk.InputRequestMap
		says string
	}{
		"a person":    {sdk.InputRequestMap{"1": &sdk.ElicitParams{Message: "who?"}}, "a person before"},
		"a model":     {sdk.InputRequestMap{"1": sampling}, "a model before"},
		"directories": {sdk.InputRequestMap{"1": roots}, "the directories of the bot before"},
		"several": {sdk.InputRequestMap{
			"1": roots, "2": &sdk.ElicitParams{Message: "who?"},
			"3": &sdk.ElicitParams{Message: "and who?"},
		}, "a person and the directories of the bot before"},
		"nothing": {sdk.InputRequestMap{}, "is busy"},
	} {
		t.Run(name, func(t *testing.T) {
			s := sdk.NewServer(&sdk.Implementation{Name: "s"}, nil)
			var calls counter
			add(s, "ask", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
				calls.Add(1)
				return &sdk.CallToolResult{InputRequests: tt.asks}, nil
			})
			s.AddResource(&sdk.Resource{URI: "x:1", Name: "1"}, func(
				context.Context, *sdk.ReadResourceRequest,
			) (*sdk.ReadResourceResult, error) {
				calls.Add(1)
				return &sdk.ReadResourceResult{InputRequests: tt.asks}, nil
			})
			of := func(*http.Request) *sdk.Server { return s }
			web := httptest.NewServer(sdk.NewStreamableHTTPHandler(
				of, &sdk.StreamableHTTPOptions{Stateless: true}))
			t.Cleanup(func() { web.CloseClientConnections(); web.Close() })
			c := connect(t, mcp.Config{Servers: []mcp.Server{{Name: "s", URL: web.URL}}})
			for tool, args := range map[string]string{
				"mcp__s__ask": "", "mcp__s__read_resource": `{"uri":"x:1"}`,
			} {
				calls.Store(0)
				_, err := call(t, c, tool, args)
				var asked *mcp.ToolError
				require.ErrorAs(t, err, &asked)
				require.Contains(t, asked.Text, tt.says)
				require.Equal(t, len(tt.asks) == 0, agent.IsRetryable(err))
				require.EqualValues(t, 1, calls.Load())
			}
			require.Equal(t, 1, c.Servers()[0].Starts)
		})
	}
}

// What a server says of how far it is reaches those who watch the Runtime.
func TestProgress(t *testing.T) {
	shown := make(chan struct{})
	s := sdk.NewServer(&sdk.Implementation{Name: "s"}, nil)
	add(s, "work", func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		for { // it may be early for who watches
			err := r.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{
				ProgressToken: r.Params.GetProgressToken(), Message: "half way", Progress: 2, Total: 4,
			})
			select {
			case <-shown:
				return said("ok"), err
			case <-time.After(20 * time.Millisecond):
			}
		}
	})
	c := connect(t, mcp.Config{Servers: []mcp.Server{{Name: "s", URL: overHTTP(t, s).URL}}})
	seen := make(chan agent.TreeEvent, 1)
	rt := open(t, agent.Config{Tools: c.Tools(), Runner: agent.RunnerFunc(
		func(ctx context.Context, turn *agent.Turn) (agent.Result, error) {
			use := agent.ToolCall{ID: "1", Name: "mcp__s__work"}
			if err := record(ctx, turn, use); err != nil {
				return agent.Result{}, err
			}
			_, err := turn.Call(ctx, use)
			return agent.Result{Text: "done"}, err
		})})
	chat := rt.Session(session.Must(session.DirectKey("main", "test", "me")))
	watch, stop := context.WithCancel(t.Context())
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		for e, err := range rt.Events(watch, agent.EventQuery{Root: chat.Key()}) {
			if err != nil || e.Kind != agent.EventProgress {
				continue
			}
			select {
			case seen <- e:
			default: // there is one
			}
		}
	}()
	defer func() { stop(); <-watched }()
	_, err := chat.Post(t.Context(), agent.Incoming{Text: "go"})
	require.NoError(t, err)
	select {
	case e := <-seen:
		assert.Equal(t, "half way", e.Text)
		assert.Equal(t, 50, e.Percent)
	case <-time.After(20 * time.Second):
		t.Error("no progress came")
	}
	close(shown)
	require.NoError(t, chat.Idle(t.Context()))
}

func TestConfigThatIsRefused(t *testing.T) {
	const url = "http://localhost:1/mcp"
	for _, tt := range []struct {
		name, field string
		servers     []mcp.Server
	}{
		{"no name", "Servers[0].Name", []mcp.Server{{URL: url}}},
		{"a name with two lines below", "Servers[0].Name", []mcp.Server{{Name: "a__b", URL: url}}},
		{"a name in capitals", "Servers[0].Name", []mcp.Server{{Name: "Files", URL: url}}},
		{"a name that ends in a line", "Servers[0].Name", []mcp.Server{{Name: "a_", URL: url}}},
		{"a long name", "Servers[0].Name", []mcp.Server{{Name: strings.Repeat("a", 33), URL: url}}},
		{"a name twice", "Servers[1].Name", []mcp.Server{{Name: "a", URL: url}, {Name: "a", URL: url}}},
		{"neither", "Servers[0].Command", []mcp.Server{{Name: "a"}}},
		{"both", "Servers[0].URL", []mcp.Server{{Name: "a", URL: url, Command: []string{"x"}}}},
		{"an empty program", "Servers[0].Command[0]", []mcp.Server{{Name: "a", Command: []string{""}}}},
		{"another scheme", "Servers[0].URL", []mcp.Server{{Name: "a", URL: "ftp://localhost"}}},
		{"a user", "Servers[0].URL", []mcp.Server{{Name: "a", URL: "http://me:pw@localhost"}}},
		{"a variable without a value", "Servers[0].Env[0]", []mcp.Server{
			{Name: "a", Command: []string{"x"}, Env: []string{"X"}},
		}},
		{"a header for a program", "Servers[0].Header", []mcp.Server{
			{Name: "a", Command: []string{"x"}, Header: http.Header{"A": {"b"}}},
		}},
		{"a directory for a URL", "Servers[0].Dir", []mcp.Server{{Name: "a", URL: url, Dir: "/"}}},
		{"a client with a timeout", "Servers[0].HTTP", []mcp.Server{
			{Name: "a", URL: url, HTTP: &http.Client{Timeout: 1}},
		}},
		{"a negative start", "Servers[0].StartTimeout", []mcp.Server{{Name: "a", URL: url, StartTimeout: -1}}},
		{"a negative call", "Servers[0].CallTimeout", []mcp.Server{{Name: "a", URL: url, CallTimeout: -1}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := mcp.Connect(t.Context(), mcp.Config{Servers: tt.servers})
			bad, ok := errors.AsType[*mcp.ConfigError](err)
			require.True(t, ok, "%v", err)
			assert.Equal(t, tt.field, bad.Field)
			assert.NotEmpty(t, bad.Reason)
		})
	}
	t.Run("a password is not in the error", func(t *testing.T) {
		_, err := mcp.Connect(t.Context(), mcp.Config{Servers: []mcp.Server{
			{Name: "a", URL: "http://me:pw@localhost"},
		}})
		assert.NotContains(t, err.Error(), "pw")
	})
}
