package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent/mcp"
)

// echo is a bot that says what it is told, with secrets and silences.
func echo() agent.Runner {
	return agent.RunnerFunc(func(ctx context.Context, t *agent.Turn) (agent.Result, error) {
		switch {
		case t.Session.Key.IsSubagent():
			return agent.Result{Text: "found: token ghp_0123456789abcdefghijklmnopqrstuvwxyz"}, nil
		case t.Input() == "hush":
			return agent.Result{Text: "NO_REPLY"}, nil
		case t.Input() == "fail":
			return agent.Result{}, errors.New("the model is away")
		case strings.HasPrefix(t.Input(), "look"):
			_, err := t.Spawn(ctx, agent.Task{Text: "look around", Label: "scout"})
			return agent.Result{Text: "I have sent one."}, err
		}
		return agent.Result{Text: "You said " + t.Input()}, nil
	})
}

// served returns a client of a Service over HTTP.
func served(t *testing.T, s *mcp.Service) *mcp.Client {
	t.Helper()
	web := httptest.NewServer(s.Handler())
	t.Cleanup(func() { web.CloseClientConnections(); web.Close() })
	return connect(t, mcp.Config{Servers: []mcp.Server{{Name: "bot", URL: web.URL, Trusted: true}}})
}

// A Runtime is asked over the protocol, remembers its chats, and shows what it does.
func TestRuntimeAsAServer(t *testing.T) {
	rt := open(t, agent.Config{Runner: echo()})
	c := served(t, &mcp.Service{
		Tools: mcp.RuntimeTools(rt, mcp.Chats{}), Instructions: "Ask the bot.",
	})
	assert.Equal(t, []string{
		"mcp__bot__ask", "mcp__bot__cancel", "mcp__bot__history", "mcp__bot__subagents",
	}, names(c.Tools()))
	assert.Equal(t, "Ask the bot.", c.Servers()[0].Instructions)
	assert.Equal(t, agent.EffectReadOnly, c.Tools()[2].Effect)

	ask := func(args string) string { return mustCall(t, c, "mcp__bot__ask", args).Text }
	assert.Equal(t, "You said hello", ask(`{"text":"hello","id":"m1"}`))
	assert.Equal(t, "(It was answered before; see history.)", ask(`{"text":"hello","id":"m1"}`))
	assert.Equal(t, "(The bot has read it and says nothing.)", ask(`{"text":"hush"}`))
	assert.Equal(t, "user: hello\nassistant: You said hello",
		strings.Split(mustCall(t, c, "mcp__bot__history", `{}`).Text, "\nuser: hush")[0])
	assert.Equal(t, "(Nothing was said.)",
		mustCall(t, c, "mcp__bot__history", `{"chat":"other"}`).Text)
	assert.Equal(t, "[]", mustCall(t, c, "mcp__bot__subagents", `{"chat":"other"}`).Text)
	assert.Equal(t, "Done.", mustCall(t, c, "mcp__bot__cancel", `{}`).Text)

	_, err := call(t, c, "mcp__bot__ask", `{"text":"fail"}`)
	_, ok := errors.AsType[*mcp.ToolError](err)
	assert.True(t, ok, "%v", err)
	_, err = call(t, c, "mcp__bot__ask", `{"words":"hello"}`)
	assert.ErrorContains(t, err, "words")

	assert.Equal(t, "I have sent one.", ask(`{"text":"look","chat":"two"}`))
	two := rt.Session(session.Must(session.DirectKey("main", "mcp", "two")))
	require.NoError(t, two.Idle(t.Context()))
	var runs []struct{ Status, Label, Task, Result string }
	list := mustCall(t, c, "mcp__bot__subagents", `{"chat":"two"}`).Text
	require.NoError(t, json.Unmarshal([]byte(list), &runs))
	require.Len(t, runs, 1)
	assert.Equal(t, "scout", runs[0].Label)
	assert.Equal(t, "look around", runs[0].Task)
	assert.NotContains(t, list, "ghp_0123456789abcdefghijklmnopqrstuvwxyz")
}

// A loop that runs elsewhere gives out work in the name of a session, and the result comes to
// Deliver.
func TestSessionToolsAsAServer(t *testing.T) {
	came := make(chan agent.Delivery, 1)
	rt := open(t, agent.Config{
		Runner: echo(),
		Deliver: func(_ context.Context, d agent.Delivery) error {
			came <- d
			return nil
		},
	})
	chat := rt.Session(session.Must(session.DirectKey("main", "cli", "me")))
	c := served(t, &mcp.Service{Tools: mcp.SessionTools(chat)})
	require.Contains(t, names(c.Tools()), "mcp__bot__sessions_spawn")
	out := mustCall(t, c, "mcp__bot__sessions_spawn", `{"task":"look around"}`)
	assert.Contains(t, out.Text, "accepted")
	d := <-came
	assert.Contains(t, d.Completion.Run.Result.Text, "found")
}

// A call over HTTP ends with its request, also in versions of the protocol for which the SDK lets
// it go on.
func TestCallsEndWithTheirRequests(t *testing.T) {
	began, over := make(chan bool), make(chan error, 1)
	s := &mcp.Service{Tools: func(context.Context) []agent.Tool {
		return []agent.Tool{agent.NewTool("wait", "", func(
			ctx context.Context, _ struct{},
		) (string, error) {
			began <- true
			select {
			case <-ctx.Done():
				over <- ctx.Err()
			case <-time.After(20 * time.Second):
				over <- errors.New("it goes on")
			}
			return "", nil
		})}
	}}
	web := httptest.NewServer(s.Handler())
	t.Cleanup(web.Close)
	for _, version := range []string{"2025-03-26", "2025-06-18", "2025-11-25"} {
		ctx, leave := context.WithCancel(t.Context())
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, web.URL, strings.NewReader(
			`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"wait","arguments":{}}}`))
		require.NoError(t, err)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		r.Header.Set("Mcp-Protocol-Version", version)
		left := make(chan error, 1)
		go func() {
			resp, err := web.Client().Do(r)
			if err == nil {
				_, err = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			}
			left <- err
		}()
		<-began
		leave()
		require.Error(t, <-left)
		require.ErrorIs(t, <-over, context.Canceled, version)
	}
	cs := served(t, s) // of the newest version
	ctx, leave := context.WithCancel(t.Context())
	go func() { <-began; leave() }()
	_, err := cs.Tools()[0].Call(ctx, agent.ToolCall{Name: "mcp__bot__wait"})
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, <-over, context.Canceled)
}

// Over stdio a Service ends when its client says farewell, or with its ctx.
func TestServe(t *testing.T) {
	s := &mcp.Service{
		Name: "parts", Logger: slog.New(slog.DiscardHandler),
		Tools: func(context.Context) []agent.Tool {
			return []agent.Tool{
				agent.NewTool("draw", "", func(context.Context, struct{}) (agent.ToolResult, error) {
					return agent.ToolResult{Text: "here", Parts: []agent.Part{
						{Kind: session.PartImage, MediaType: "image/png", Data: png},
						{Kind: session.PartAudio, MediaType: "audio/wav", Data: []byte("RIFF")},
						{Kind: session.PartFile, MediaType: "text/csv", Name: "a.csv", Data: []byte("a")},
						{Kind: session.PartFile, URL: "https://example.com/x"},
						{Kind: session.PartFile, Name: "kept.bin"},
					}}, nil
				}),
				{Name: "panics", Call: func(context.Context, agent.ToolCall) (agent.ToolResult, error) {
					panic("a secret")
				}},
			}
		},
	}
	begin := func(ctx context.Context) (*sdk.ClientSession, func() error) {
		theirs, toUs := io.Pipe()
		ours, toThem := io.Pipe()
		ended := make(chan error, 1)
		go func() { ended <- s.Serve(ctx, theirs, toThem) }()
		client := sdk.NewClient(&sdk.Implementation{Name: "c"}, nil)
		cs, err := client.Connect(t.Context(), &sdk.IOTransport{Reader: ours, Writer: toUs}, nil)
		require.NoError(t, err)
		return cs, func() error {
			err := <-ended
			_ = toThem.Close()
			return err
		}
	}
	cs, wait := begin(t.Context())
	res, err := cs.CallTool(t.Context(), &sdk.CallToolParams{Name: "draw"})
	require.NoError(t, err)
	require.Len(t, res.Content, 6)
	assert.Equal(t, "here", res.Content[0].(*sdk.TextContent).Text)
	assert.Equal(t, png, res.Content[1].(*sdk.ImageContent).Data)
	assert.Equal(t, "audio/wav", res.Content[2].(*sdk.AudioContent).MIMEType)
	assert.Equal(t, []byte("a"), res.Content[3].(*sdk.EmbeddedResource).Resource.Blob)
	assert.Equal(t, "https://example.com/x", res.Content[4].(*sdk.ResourceLink).URI)
	assert.Equal(t, "(file kept.bin is left out.)", res.Content[5].(*sdk.TextContent).Text)
	res, err = cs.CallTool(t.Context(), &sdk.CallToolParams{Name: "panics"})
	require.NoError(t, err)
	assert.True(t, res.IsError)
	assert.Equal(t, `mcp: the tool "panics" failed unexpectedly`, res.Content[0].(*sdk.TextContent).Text)
	require.NoError(t, cs.Close())
	require.NoError(t, wait())

	ctx, cancel := context.WithCancelCause(t.Context())
	cs, wait = begin(ctx)
	stop := errors.New("enough")
	cancel(stop)
	require.ErrorIs(t, wait(), stop)
	_ = cs.Close()
}
