package openaimodel_test

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
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent/openaimodel"
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
func drown(t *testing.T, cfg openaimodel.Config, f flood) (sent int64, err error) {
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
	m, err := openaimodel.New(cfg)
	require.NoError(t, err)
	_, err = m.Generate(t.Context(), ask())
	server.Close() // waits for the server
	require.Error(t, err)
	return n.Load(), err
}

// chunk returns a chunk of Chat Completions.
func chunk(delta string) string {
	return fmt.Sprintf("data: {\"id\":\"1\",\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":%s}]}\n\n",
		delta)
}

// event returns an event of Responses.
func event(kind, members string) string {
	return fmt.Sprintf("event: %s\ndata: {\"type\":%q,%s}\n\n", kind, kind, members)
}

// The bytes that are read of an answer are bounded, whatever they are.
func TestFloods(t *testing.T) {
	big := strings.Repeat("y", 64<<10)
	chat := openaimodel.Config{API: openaimodel.APIChat}
	for name, test := range map[string]struct {
		cfg   openaimodel.Config
		flood flood
	}{
		"chat: text":     {chat, flood{200, "", chunk(`{"content":"` + big + `"}`)}},
		"chat: thoughts": {chat, flood{200, "", chunk(`{"reasoning_content":"` + big + `"}`)}},
		"chat: a list":   {chat, flood{200, "", chunk(`{"reasoning_details":["` + big + `"]}`)}},
		"chat: arguments": {chat, flood{200, "", chunk(`{"tool_calls":[{"index":0,"id":"a",` +
			`"function":{"name":"t","arguments":"` + big + `"}}]}`)}},
		"chat: names": {chat, flood{200, "", chunk(`{"tool_calls":[{"index":0,"id":"a",` +
			`"function":{"name":"` + big + `"}}]}`)}},
		"chat: not known": {chat, flood{200, "", chunk(`{"x":"` + big + `"}`)}},
		"text": {flood: flood{200, "", event("response.output_text.delta",
			`"item_id":"m","delta":"`+big+`"`)}},
		"thoughts": {flood: flood{200, "", event("response.reasoning_summary_text.delta",
			`"item_id":"m","delta":"`+big+`"`)}},
		"arguments": {flood: flood{200, "", event("response.function_call_arguments.delta",
			`"item_id":"m","delta":"`+big+`"`)}},
		"items": {flood: flood{200, "", event("response.output_item.done",
			`"item":{"type":"reasoning","encrypted_content":"`+big+`"}`)}},
		"not known":            {flood: flood{200, "", event("response.odd", `"x":"`+big+`"`)}},
		"comments":             {flood: flood{200, "", ": " + big + "\n\n"}},
		"an event without end": {flood: flood{200, "", "data: " + big + "\n"}},
		"a line without end":   {flood: flood{200, "data: ", big}},
		"empty lines":          {flood: flood{200, "", strings.Repeat("\n", 64<<10)}},
	} {
		t.Run(name, func(t *testing.T) {
			test.cfg.MaxBytes = 1 << 20
			sent, err := drown(t, test.cfg, test.flood)
			var size *provider.SizeError
			require.ErrorAs(t, err, &size)
			require.Equal(t, provider.SizeError{Client: "openaimodel", Limit: 1 << 20}, *size)
			require.False(t, agent.IsRetryable(err))
			require.Less(t, sent, int64(1<<20+buffered))
		})
	}
}

// A Config that says nothing bounds an answer as well.
func TestFloodsWithoutALimit(t *testing.T) {
	sent, err := drown(t, openaimodel.Config{},
		flood{200, "", ": " + strings.Repeat("y", 64<<10) + "\n\n"})
	var size *provider.SizeError
	require.ErrorAs(t, err, &size)
	require.EqualValues(t, provider.DefaultMaxBytes, size.Limit)
	require.Less(t, sent, int64(provider.DefaultMaxBytes+buffered))
	sent, err = drown(t, openaimodel.Config{}, flood{200, "data: ", strings.Repeat("y", 64<<10)})
	require.ErrorIs(t, err, bufio.ErrTooLong)
	require.ErrorAs(t, err, &size)
	require.Equal(t, provider.SizeError{
		Client: "openaimodel", Limit: provider.MaxLine, Line: true,
	}, *size)
	require.False(t, agent.IsRetryable(err))
	require.Less(t, sent, int64(provider.DefaultMaxBytes+buffered))
}

// An error without end is the error that its beginning is.
func TestErrorsThatDoNotEnd(t *testing.T) {
	for _, begin := range []string{"", `{"error":{"message":"`} {
		for _, api := range []openaimodel.API{openaimodel.APIChat, openaimodel.APIResponses} {
			sent, err := drown(t, openaimodel.Config{API: api},
				flood{503, begin, strings.Repeat("y", 64<<10)})
			var said *provider.Error
			require.ErrorAs(t, err, &said)
			require.Equal(t, 503, said.Status)
			require.True(t, agent.IsRetryable(err))
			require.Less(t, len(err.Error()), 1200)
			require.Less(t, sent, int64(buffered))
		}
	}
}

// A server that sends again and again what adds nothing to an answer has gone silent, and the error
// says how much it has sent.
func TestAnswersThatDoNotGrow(t *testing.T) {
	chat, own := openaimodel.APIChat, openaimodel.APIResponses
	for name, test := range map[string]struct {
		api  openaimodel.API
		same string
	}{
		"chat: empty text":      {chat, chunk(`{"role":"assistant","content":""}`)},
		"chat: empty thoughts":  {chat, chunk(`{"reasoning_content":"","reasoning_details":[]}`)},
		"chat: a number":        {chat, chunk(`{"reasoning":7}`)},
		"chat: empty arguments": {chat, chunk(`{"tool_calls":[{"index":0,"id":"a","function":{}}]}`)},
		"chat: no choice":       {chat, "data: {\"id\":\"1\",\"choices\":[]}\n\n"},
		"chat: another choice": {chat, "data: {\"choices\":[{\"index\":1,\"delta\":{\"content\":" +
			"\"x\"}}]}\n\n"},
		"chat: usage":     {chat, "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":5}}\n\n"},
		"empty text":      {own, event("response.output_text.delta", `"item_id":"m","delta":""`)},
		"empty arguments": {own, event("response.function_call_arguments.delta", `"delta":""`)},
		"two empty texts": {own, event("response.output_text.delta", `"item_id":"a","delta":""`) +
			event("response.output_text.delta", `"item_id":"b","delta":""`)},
		"its beginning": {own, event("response.created", `"response":{"model":"m"}`)},
		"a sign of life": {own, event("keepalive", `"sequence_number":1`) +
			event("response.in_progress", `"response":{}`)},
		"comments": {own, ": still here\n\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := openaimodel.Config{API: test.api, Idle: 200 * time.Millisecond}
			m := serve(t, cfg, func(w http.ResponseWriter, _ string) {
				w.Header().Set("Content-Type", "text/event-stream")
				for range time.Tick(5 * time.Millisecond) {
					if _, err := io.WriteString(w, test.same); err != nil {
						return
					}
					if http.NewResponseController(w).Flush() != nil {
						return
					}
				}
			})
			_, err := m.Generate(t.Context(), ask())
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
					fmt.Fprint(w,
						event("response.output_text.delta", `"item_id":"m","delta":"Noon."`),
						event("response.completed",
							`"response":{"model":"m","usage":{"output_tokens":7}}`))
					if http.NewResponseController(w).Flush() == nil {
						behind(w, r.Context())
					}
				}))
			t.Cleanup(server.Close)
			m, err := openaimodel.New(openaimodel.Config{
				BaseURL: server.URL, HTTP: server.Client(), Idle: time.Minute,
			})
			require.NoError(t, err)
			resp, err := m.Generate(t.Context(), ask())
			require.NoError(t, err)
			require.Equal(t, "Noon.", resp.Text)
			require.EqualValues(t, 7, resp.Usage.Output)
		})
	}
}
