package anthropictest_test

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent/anthropicmodel/anthropictest"
)

// The events of an answer come in the order, and with the members, that SOURCES.md says.
func TestEvents(t *testing.T) {
	want := map[string]string{
		"message_start":       "message",
		"content_block_start": "content_block index",
		"content_block_delta": "delta index",
		"content_block_stop":  "index",
		"ping":                "",
		"message_delta":       "delta usage",
		"message_stop":        "",
		"error":               "error",
	}
	whole := agenttest.ProviderAnswer{
		Thought: "Hm.", Text: []string{"So", "."},
		Calls: []agent.ToolCall{{ID: "a", Name: "now", Args: json.RawMessage(`{"at":1}`)}},
		Usage: agent.Usage{Input: 1, Output: 2, CacheRead: 4, CacheWrite: 8},
	}
	failed := whole
	failed.Fault = agenttest.FaultStream
	fake := &agenttest.Provider{}
	fake.Answer(whole, failed)
	server := httptest.NewServer(anthropictest.Handler(fake))
	defer server.Close()
	block := "content_block_start content_block_delta content_block_delta content_block_stop "
	ends := []string{"message_delta message_stop", "error"}
	for i := range 2 {
		var order []string
		for _, event := range streamed(t, server.URL) {
			kind := event["type"].(string)
			order = append(order, kind)
			delete(event, "type")
			require.Equal(t, want[kind], strings.Join(slices.Sorted(maps.Keys(event)), " "), kind)
			if kind == "message_delta" {
				require.Equal(t, map[string]any{
					"input_tokens": 1.0, "output_tokens": 2.0, "cache_read_input_tokens": 4.0,
					"cache_creation_input_tokens": 8.0,
					"output_tokens_details":       map[string]any{"thinking_tokens": 0.0},
				}, event["usage"])
			}
		}
		require.Equal(t, "message_start content_block_start ping content_block_delta "+
			"content_block_delta content_block_delta content_block_stop "+block+
			"content_block_start content_block_delta content_block_delta content_block_delta "+
			"content_block_stop "+ends[i], strings.Join(order, " "))
	}
}

// streamed returns the events of the next answer of a fake.
func streamed(t *testing.T, url string) (list []map[string]any) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v1/messages",
		strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Anthropic-Version", "2023-06-01")
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	require.Equal(t, http.StatusOK, resp.StatusCode)
	all, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	named := ""
	for line := range strings.Lines(string(all)) {
		if name, ok := strings.CutPrefix(line, "event: "); ok {
			named = strings.TrimSpace(name)
		}
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok {
			continue
		}
		var event map[string]any
		require.NoError(t, json.Unmarshal([]byte(data), &event))
		require.Equal(t, named, event["type"])
		list = append(list, event)
	}
	return list
}

// What the fake says of each fault that ends a call at once is what SOURCES.md says.
func TestBodiesOfFaults(t *testing.T) {
	for fault, want := range map[agenttest.ProviderFault]struct {
		status     int
		kind, text string
	}{
		agenttest.FaultAccount:  {401, "authentication_error", "No."},
		agenttest.FaultRate:     {429, "rate_limit_error", "No."},
		agenttest.FaultServer:   {500, "api_error", "No."},
		agenttest.FaultOverload: {529, "overloaded_error", "No."},
		agenttest.FaultTooLong: {
			400, "invalid_request_error", "prompt is too long: 200001 tokens > 200000 maximum",
		},
	} {
		fake := &agenttest.Provider{}
		fake.Answer(agenttest.ProviderAnswer{Fault: fault, Message: "No."})
		server := httptest.NewServer(anthropictest.Handler(fake))
		a := post(t, server.URL, []byte(body), "")
		server.Close()
		require.Equal(t, want.status, a.status, fault)
		require.Equal(t, want.kind, a.Error.Type, fault)
		require.Equal(t, want.text, a.Error.Message, fault)
	}
}
