package openaitest_test

import (
	"encoding/json"
	"fmt"
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

	"github.com/offshoot-sdk/offshoot/agent/openaimodel/openaitest"
)

// events returns what the fake streams as an answer.
func events(t *testing.T, d dialect, a agenttest.ProviderAnswer) (list []map[string]any) {
	t.Helper()
	fake := &agenttest.Provider{}
	fake.Answer(a)
	server := httptest.NewServer(openaitest.Handler(fake))
	defer server.Close()
	resp, err := http.Post(server.URL+d.path, "application/json", strings.NewReader(d.body))
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	require.Equal(t, http.StatusOK, resp.StatusCode)
	all, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	for line := range strings.Lines(string(all)) {
		data, ok := strings.CutPrefix(strings.TrimSpace(line), "data: ")
		if !ok || data == "[DONE]" {
			continue
		}
		var event map[string]any
		require.NoError(t, json.Unmarshal([]byte(data), &event))
		list = append(list, event)
	}
	return list
}

// What the fake says of each fault that ends a call at once is what SOURCES.md says. One of the
// length comes with Chat Completions under its status, and with Responses in the stream.
func TestBodiesOfFaults(t *testing.T) {
	const tooLong = `{"message":"No.","type":"invalid_request_error","param":%q,` +
		`"code":"context_length_exceeded"}`
	for fault, want := range map[agenttest.ProviderFault]struct {
		status int
		body   string
	}{
		agenttest.FaultAccount: {401, `{"error":{"message":"No.","type":"invalid_request_error",` +
			`"param":null,"code":"invalid_api_key"},"status":401}`},
		agenttest.FaultRate: {429, `{"error":{"message":"No.","type":"requests","param":null,` +
			`"code":"rate_limit_exceeded"}}`},
		agenttest.FaultServer: {500, `{"error":{"message":"No.","type":"server_error",` +
			`"param":null,"code":null}}`},
		agenttest.FaultOverload: {503, `{"error":{"message":"No.",` +
			`"type":"service_unavailable_error","param":null,"code":"server_is_overloaded"}}`},
		agenttest.FaultTooLong: {400, fmt.Sprintf(`{"error":`+tooLong+`}`, "messages")},
	} {
		for name, d := range dialects {
			a := agenttest.ProviderAnswer{Fault: fault, Message: "No."}
			if fault == agenttest.FaultTooLong && name == "responses" {
				list := events(t, d, a)
				require.Len(t, list, 4)
				said, err := json.Marshal(list[2]["error"])
				require.NoError(t, err)
				require.Equal(t, "error", list[2]["type"])
				require.JSONEq(t, fmt.Sprintf(tooLong, "input"), string(said))
				failed := list[3]["response"].(map[string]any)
				require.Equal(t, "failed", failed["status"])
				require.Equal(t, map[string]any{
					"code": "context_length_exceeded", "message": "No.",
				}, failed["error"])
				continue
			}
			fake := &agenttest.Provider{}
			fake.Answer(a)
			server := httptest.NewServer(openaitest.Handler(fake))
			resp, err := http.Post(server.URL+d.path, "application/json", strings.NewReader(d.body))
			require.NoError(t, err)
			said, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			server.Close()
			require.Equal(t, want.status, resp.StatusCode, "%s %s", name, fault)
			require.JSONEq(t, want.body, string(said), "%s %s", name, fault)
		}
	}
}

// whole is an answer with everything in it.
var whole = agenttest.ProviderAnswer{
	Thought: "Hm.", Text: []string{"So", "."}, Refusal: "No.",
	Calls: []agent.ToolCall{{ID: "a", Name: "now", Args: json.RawMessage(`{"at":1}`)}},
	Usage: agent.Usage{Input: 1, Output: 2, CacheRead: 4, CacheWrite: 8},
}

// Each event of Responses has the members that SOURCES.md says, and no others.
func TestEventsOfResponses(t *testing.T) {
	want := map[string]string{
		"response.created":                       "response",
		"response.in_progress":                   "response",
		"response.output_item.added":             "item output_index",
		"response.content_part.added":            "content_index item_id output_index part",
		"response.output_text.delta":             "content_index delta item_id logprobs obfuscation output_index",
		"response.output_text.done":              "content_index item_id logprobs output_index text",
		"response.refusal.delta":                 "content_index delta item_id obfuscation output_index",
		"response.refusal.done":                  "content_index item_id output_index refusal",
		"response.content_part.done":             "content_index item_id output_index part",
		"response.output_item.done":              "item output_index",
		"response.completed":                     "response",
		"error":                                  "error",
		"response.failed":                        "response",
		"response.function_call_arguments.delta": "delta item_id obfuscation output_index",
		"response.function_call_arguments.done":  "arguments item_id output_index",
	}
	failed := whole
	failed.Fault = agenttest.FaultStream
	seen := make(map[string]bool)
	for _, a := range []agenttest.ProviderAnswer{whole, failed} {
		for i, event := range events(t, dialects["responses"], a) {
			kind := event["type"].(string)
			seen[kind] = true
			require.EqualValues(t, i, event["sequence_number"])
			delete(event, "type")
			delete(event, "sequence_number")
			require.Equal(t, want[kind], strings.Join(slices.Sorted(maps.Keys(event)), " "), kind)
			if kind == "response.completed" {
				usage := event["response"].(map[string]any)["usage"].(map[string]any)
				require.EqualValues(t, 13, usage["input_tokens"])
				require.EqualValues(t, 15, usage["total_tokens"])
			}
		}
	}
	require.Len(t, seen, len(want))
}

// Each chunk of Chat Completions has the members that SOURCES.md says. Usage is in the last alone,
// and an answer of calls alone has no text.
func TestChunksOfChat(t *testing.T) {
	const want = "choices created id model obfuscation object service_tier system_fingerprint usage"
	calls := whole
	calls.Thought, calls.Text, calls.Refusal = "", nil, ""
	for i, a := range []agenttest.ProviderAnswer{whole, calls} {
		list := events(t, dialects["chat"], a)
		for k, chunk := range list {
			require.Equal(t, want, strings.Join(slices.Sorted(maps.Keys(chunk)), " "))
			last := k == len(list)-1
			require.Equal(t, last, chunk["usage"] != nil)
			require.Equal(t, last, len(chunk["choices"].([]any)) == 0)
		}
		first := list[0]["choices"].([]any)[0].(map[string]any)["delta"].(map[string]any)
		require.Equal(t, []any{"", nil}[i], first["content"])
		require.Equal(t, i == 1, first["tool_calls"] != nil)
		usage := list[len(list)-1]["usage"].(map[string]any)
		require.EqualValues(t, 13, usage["prompt_tokens"])
		require.EqualValues(t, 15, usage["total_tokens"])
	}
}
