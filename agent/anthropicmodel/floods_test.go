package anthropicmodel_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/provider"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent/anthropicmodel"
)

// A flood is what a server sends without end: a beginning, and then the same again and again.
type flood struct {
	status      int
	begin, more string
}

// most is how many bytes a flood would have; buffered is how many may be under way to a client that
// does not read them.
const (
	most     = 300 << 20
	buffered = 16 << 20
)

// drown makes a call before a server that sends a flood, and returns how much that could send.
func drown(t *testing.T, cfg anthropicmodel.Config, f flood) (sent int64, err error) {
	var n atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.WriteHeader(f.status)
		for piece := f.begin; n.Load() < most; piece = f.more {
			wrote, err := io.WriteString(w, piece)
			if n.Add(int64(wrote)); err != nil {
				return
			}
		}
	}))
	cfg.BaseURL, cfg.HTTP = server.URL, server.Client()
	m, err := anthropicmodel.New(cfg)
	require.NoError(t, err)
	_, err = m.Generate(t.Context(), asks(says(session.MessageUser, "Hello.")))
	server.Close() // waits for the server
	require.Error(t, err)
	return n.Load(), err
}

// block returns the beginning of a block, and delta a piece of it.
func block(kind, members string) string {
	return sent("content_block_start", `"index":0,"content_block":{"type":"`+kind+`"`+members+`}`)
}

func delta(kind, member, value string) string {
	return sent("content_block_delta", fmt.Sprintf(`"index":0,"delta":{"type":%q,%q:%q}`, kind, member,
		value))
}

// sent returns an event.
func sent(kind, members string) string {
	return fmt.Sprintf("event: %s\ndata: {\"type\":%q,%s}\n\n", kind, kind, members)
}

// The bytes that are read of an answer are bounded, whatever they are.
func TestFloods(t *testing.T) {
	big := strings.Repeat("y", 64<<10)
	text, thought := block("text", `,"text":""`), block("thinking", `,"thinking":""`)
	tool := block("tool_use", `,"id":"a","name":"t","input":{}`)
	for name, test := range map[string]flood{
		"text":       {200, text, delta("text_delta", "text", big)},
		"thoughts":   {200, thought, delta("thinking_delta", "thinking", big)},
		"signatures": {200, thought, delta("signature_delta", "signature", big)},
		"arguments":  {200, tool, delta("input_json_delta", "partial_json", big)},
		"blocks":     {200, "", tool},
		"hidden thoughts": {200, "", block("redacted_thinking",
			`,"data":"`+big+`"`)},
		"of no block":          {200, "", delta("text_delta", "text", big)},
		"not known":            {200, "", sent("odd", `"x":"`+big+`"`)},
		"comments":             {200, "", ": " + big + "\n\n"},
		"pings":                {200, "", strings.Repeat(sent("ping", `"x":1`), 999)},
		"an event without end": {200, "", "data: " + big + "\n"},
		"a line without end":   {200, "data: ", big},
		"empty lines":          {200, "", strings.Repeat("\n", 64<<10)},
	} {
		t.Run(name, func(t *testing.T) {
			sent, err := drown(t, anthropicmodel.Config{MaxBytes: 1 << 20}, test)
			var size *provider.SizeError
			require.ErrorAs(t, err, &size)
			require.Equal(t, provider.SizeError{Client: "anthropicmodel", Limit: 1 << 20}, *size)
			require.False(t, agent.IsRetryable(err))
			require.Less(t, sent, int64(1<<20+buffered))
		})
	}
}

// A Config that says nothing bounds an answer as well.
func TestFloodsWithoutALimit(t *testing.T) {
	sent, err := drown(t, anthropicmodel.Config{},
		flood{200, "", ": " + strings.Repeat("y", 64<<10) + "\n\n"})
	var size *provider.SizeError
	require.ErrorAs(t, err, &size)
	require.EqualValues(t, provider.DefaultMaxBytes, size.Limit)
	require.Less(t, sent, int64(provider.DefaultMaxBytes+buffered))
	sent, err = drown(t, anthropicmodel.Config{}, flood{200, "data: ", strings.Repeat("y", 64<<10)})
	require.ErrorIs(t, err, bufio.ErrTooLong)
	require.ErrorAs(t, err, &size)
	require.Equal(t, provider.SizeError{
		Client: "anthropicmodel", Limit: provider.MaxLine, Line: true,
	}, *size)
	require.False(t, agent.IsRetryable(err))
	require.Less(t, sent, int64(provider.DefaultMaxBytes+buffered))
}

// An error without end is the error that its beginning is.
func TestErrorsThatDoNotEnd(t *testing.T) {
	for _, begin := range []string{"", `{"type":"error","error":{"type":"api_error","message":"`} {
		sent, err := drown(t, anthropicmodel.Config{},
			flood{503, begin, strings.Repeat("y", 64<<10)})
		var said *provider.Error
		require.ErrorAs(t, err, &said)
		require.Equal(t, 503, said.Status)
		require.True(t, agent.IsRetryable(err))
		require.Less(t, len(err.Error()), 1200)
		require.Less(t, sent, int64(buffered))
	}
}

// A server that sends again and again what adds nothing to an answer has gone silent, and the error
// says how much it has sent.
func TestAnswersThatDoNotGrow(t *testing.T) {
	const begun = `"message":{"model":"m","usage":{"input_tokens":1}}`
	for name, test := range map[string]struct{ begin, same string }{
		"empty text":      {block("text", `,"text":""`), delta("text_delta", "text", "")},
		"empty thoughts":  {block("thinking", ""), delta("thinking_delta", "thinking", "")},
		"empty arguments": {block("tool_use", ""), delta("input_json_delta", "partial_json", "")},
		"of no block":     {"", delta("text_delta", "text", "x")},
		"its beginning":   {"", sent("message_start", begun)},
		"usage":           {"", sent("message_delta", `"usage":{"output_tokens":5}`)},
		"the end of one":  {"", sent("content_block_stop", `"index":0`)},
		"pings":           {"", sent("ping", `"x":1`)},
		"not known":       {"", sent("odd", `"x":1`)},
		"comments":        {"", ": still here\n\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := serve(t, anthropicmodel.Config{Idle: 200 * time.Millisecond},
				func(w http.ResponseWriter, _ string) {
					w.Header().Set("Content-Type", "text/event-stream")
					next := test.begin
					for range time.Tick(5 * time.Millisecond) {
						if _, err := io.WriteString(w, next); err != nil {
							return
						}
						if http.NewResponseController(w).Flush() != nil {
							return
						}
						next = test.same
					}
				})
			_, err := m.Generate(t.Context(), asks(says(session.MessageUser, "Hello.")))
			require.True(t, agent.IsRetryable(err), err)
			require.ErrorContains(t, err, "bytes in 200ms, and nothing of an answer in them")
		})
	}
}

// The last event ends an answer: that the server stays open behind it, breaks the connection off or
// sends more changes nothing.
func TestTheLastEventEndsAnAnswer(t *testing.T) {
	for name, behind := range map[string]func(w http.ResponseWriter, r context.Context){
		"it ends":   func(http.ResponseWriter, context.Context) {},
		"it stays":  func(_ http.ResponseWriter, ctx context.Context) { <-ctx.Done() },
		"it breaks": func(http.ResponseWriter, context.Context) { panic(http.ErrAbortHandler) },
		"more": func(w http.ResponseWriter, _ context.Context) {
			fmt.Fprint(w, "event: error\ndata: {\"type\":\"error\"}\n\nno event\n\n")
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(
				func(w http.ResponseWriter, r *http.Request) {
					if _, err := io.Copy(io.Discard, r.Body); err != nil {
						return
					}
					w.Header().Set("Content-Type", "text/event-stream")
					fmt.Fprint(w, block("text", `,"text":"Noon."`), sent("message_delta",
						`"delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":7}`),
						sent("message_stop", `"x":1`))
					if http.NewResponseController(w).Flush() == nil {
						behind(w, r.Context())
					}
				}))
			t.Cleanup(server.Close)
			m, err := anthropicmodel.New(anthropicmodel.Config{
				BaseURL: server.URL, HTTP: server.Client(), Idle: time.Minute,
			})
			require.NoError(t, err)
			resp, err := m.Generate(t.Context(), asks(says(session.MessageUser, "Hello.")))
			require.NoError(t, err)
			require.Equal(t, "Noon.", resp.Text)
			require.EqualValues(t, 7, resp.Usage.Output)
		})
	}
}
