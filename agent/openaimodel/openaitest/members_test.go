package openaitest_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent/openaimodel/openaitest"
)

// chatBody is a request of Chat Completions with every member that the fake knows.
const chatBody = `{
	"model": "m", "stream": true, "stream_options": {"include_usage": true},
	"max_completion_tokens": 9, "reasoning_effort": "low",
	"response_format": {"type": "json_schema", "json_schema": {
		"name": "answer", "strict": true, "schema": {"type": "object"}}},
	"tools": [{"type": "function", "function": {
		"name": "now", "description": "The time.", "parameters": {"type": "object"}}}],
	"messages": [
		{"role": "system", "content": "Be kind."},
		{"role": "user", "name": "me", "content": [
			{"type": "text", "text": "Look."},
			{"type": "image_url", "image_url": {"url": "https://example.com/a.png"}},
			{"type": "file", "file": {
				"filename": "a.pdf", "file_data": "data:application/pdf;base64,AA=="}},
			{"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}}]},
		{"role": "assistant", "content": "So.", "reasoning_content": "Hm.", "tool_calls": [
			{"id": "a", "type": "function", "function": {"name": "now", "arguments": "{}"}}]},
		{"role": "tool", "tool_call_id": "a", "content": "Noon."}]
}`

// itemBody is a request of Responses with every member that the fake knows.
const itemBody = `{
	"model": "m", "instructions": "Be kind.", "store": false, "stream": true,
	"include": ["reasoning.encrypted_content"], "max_output_tokens": 9,
	"reasoning": {"effort": "low"},
	"text": {"format": {
		"type": "json_schema", "name": "answer", "strict": true, "schema": {"type": "object"}}},
	"tools": [{"type": "function", "name": "now", "description": "The time.", "strict": false,
		"parameters": {"type": "object"}}],
	"input": [
		{"type": "message", "role": "user", "content": [
			{"type": "input_text", "text": "Look."},
			{"type": "input_image", "image_url": "https://example.com/a.png", "detail": "auto"},
			{"type": "input_file", "filename": "a.pdf",
				"file_data": "data:application/pdf;base64,AA=="}]},
		{"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "AA=="},
		{"type": "message", "role": "assistant", "id": "msg_1", "status": "completed", "content": [
			{"type": "output_text", "text": "So.", "annotations": [], "logprobs": []},
			{"type": "refusal", "refusal": "No."}]},
		{"type": "function_call", "id": "fc_1", "status": "completed", "call_id": "a",
			"name": "now", "arguments": "{}"},
		{"type": "function_call_output", "call_id": "a", "output": "Noon."},
		{"role": "user", "content": "Go on."}]
}`

// A dialect is one of the two forms, with what it wants of a request.
type dialect struct {
	path, body string
	// needed are the members without which the provider refuses the request, and own are those
	// without which the fake does, though the provider would take it.
	needed, own []string
	said        string // the first message of a user
}

var dialects = map[string]dialect{
	"chat": {
		path: "/v1/chat/completions", body: chatBody, said: "messages[1]",
		needed: []string{
			"model", "messages", "messages[0].role", "messages[0].content", "messages[1].role",
			"messages[1].content", "messages[1].content[0].type", "messages[1].content[0].text",
			"messages[1].content[1].type", "messages[1].content[1].image_url",
			"messages[1].content[1].image_url.url", "messages[1].content[2].type",
			"messages[1].content[2].file", "messages[1].content[3].type",
			"messages[1].content[3].input_audio", "messages[1].content[3].input_audio.data",
			"messages[1].content[3].input_audio.format", "messages[2].role",
			"messages[2].tool_calls[0].id", "messages[2].tool_calls[0].type",
			"messages[2].tool_calls[0].function", "messages[2].tool_calls[0].function.name",
			"messages[2].tool_calls[0].function.arguments", "messages[3].role",
			"messages[3].content", "messages[3].tool_call_id", "response_format.type",
			"response_format.json_schema", "response_format.json_schema.name", "tools[0].type",
			"tools[0].function", "tools[0].function.name",
		},
		own: []string{
			"stream", "stream_options", "stream_options.include_usage",
			"messages[1].content[2].file.filename", "messages[1].content[2].file.file_data",
			"messages[2].tool_calls", "response_format.json_schema.strict",
			"response_format.json_schema.schema", "response_format.json_schema.schema.type",
		},
	},
	"responses": {
		path: "/v1/responses", body: itemBody, said: "input[0]",
		needed: []string{
			"model", "input", "input[0].role", "input[0].content", "input[0].content[0].type",
			"input[0].content[0].text", "input[0].content[1].type", "input[0].content[2].type",
			"input[1].id", "input[1].summary", "input[2].role", "input[2].content",
			"input[2].content[0].type", "input[2].content[0].text", "input[2].content[1].type",
			"input[2].content[1].refusal", "input[3].call_id", "input[3].name",
			"input[3].arguments", "input[4].call_id", "input[4].output", "input[5].role",
			"input[5].content", "text.format.type", "text.format.name", "text.format.schema",
			"tools[0].type", "tools[0].name", "tools[0].strict", "tools[0].parameters",
		},
		own: []string{
			"stream", "store", "include", "text.format.strict", "text.format.schema.type",
			"input[0].content[1].image_url", "input[0].content[2].file_data",
			"input[0].content[2].filename", "input[1].type", "input[1].encrypted_content",
			"input[3].type", "input[4].type",
		},
	},
}

// An answer is what the fake answers to a request.
type answer struct {
	status int
	Error  struct {
		Message, Type string
		Param, Code   *string
	}
}

// post sends a request to a fake.
func post(t *testing.T, url string, body []byte) (a answer) {
	t.Helper()
	resp, err := http.Post(url, "application/json", strings.NewReader(string(body)))
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	said, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	if a.status = resp.StatusCode; a.status != http.StatusOK {
		require.NoError(t, json.Unmarshal(said, &a))
	}
	return a
}

// A request without a member that the provider needs is refused as the provider does it, and so is
// one with a member that the provider does not know. All others may be left out.
func TestMembersOfRequests(t *testing.T) {
	for name, d := range dialects {
		t.Run(name, func(t *testing.T) {
			fake := &agenttest.Provider{
				Play: func(agenttest.ProviderCall) agenttest.ProviderAnswer {
					return agenttest.ProviderAnswer{Text: []string{"Yes."}}
				},
			}
			server := httptest.NewServer(openaitest.Handler(fake))
			defer server.Close()
			require.Equal(t, http.StatusOK, post(t, server.URL+d.path, []byte(d.body)).status)
			require.NoError(t, fake.Err())
			seen := make(map[string]bool)
			for path, without := range agenttest.EachMember([]byte(d.body)) {
				seen[path] = true
				a := post(t, server.URL+d.path, without)
				switch {
				case slices.Contains(d.needed, path):
					a.refused(t, "missing_required_parameter", path)
				case slices.Contains(d.own, path):
					require.Equal(t, http.StatusBadRequest, a.status, path)
				default:
					require.Equal(t, http.StatusOK, a.status, "%s: %s", path, a.Error.Message)
				}
			}
			for _, path := range slices.Concat(d.needed, d.own) {
				require.True(t, seen[path], path)
			}
			odd := strings.Replace(d.body, `{`, `{"temprature": 1, `, 1)
			post(t, server.URL+d.path, []byte(odd)).refused(t, "unknown_parameter", "temprature")
			odd = strings.Replace(d.body, `"user", `, `"user", "mood": 1, `, 1)
			post(t, server.URL+d.path, []byte(odd)).refused(t, "unknown_parameter", d.said+".mood")
		})
	}
}

// refused checks that an answer is a refusal of a member.
func (a answer) refused(t *testing.T, code, path string) {
	t.Helper()
	require.Equal(t, http.StatusBadRequest, a.status, path)
	require.Equal(t, "invalid_request_error", a.Error.Type, path)
	require.NotNil(t, a.Error.Code, path)
	require.Equal(t, code, *a.Error.Code, path)
	require.NotNil(t, a.Error.Param, path)
	require.Equal(t, path, *a.Error.Param)
}
