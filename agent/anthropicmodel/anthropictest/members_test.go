package anthropictest_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent/anthropicmodel/anthropictest"
)

// body is a request with every member that the fake knows. The signature is that of the thought.
const body = `{
	"model": "m", "max_tokens": 4096, "stream": true,
	"system": [{"type": "text", "text": "Be kind.", "cache_control": {"type": "ephemeral"}}],
	"thinking": {"type": "enabled", "budget_tokens": 1024},
	"output_config": {"effort": "low", "format": {"type": "json_schema", "schema": {
		"type": "object", "additionalProperties": false}}},
	"tools": [{"name": "now", "description": "The time.", "input_schema": {"type": "object"}}],
	"messages": [
		{"role": "user", "content": [
			{"type": "text", "text": "Look."},
			{"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}},
			{"type": "document", "title": "a.pdf", "source": {
				"type": "base64", "media_type": "application/pdf", "data": "AA=="}}]},
		{"role": "assistant", "content": [
			{"type": "thinking", "thinking": "Hm.",
				"signature": "dD07vhnAEz+io6SQxjngn300pmS3/ltY5Jo0vdzSRhE="},
			{"type": "redacted_thinking", "data": "EmwKAhgBEgy+3/=="},
			{"type": "tool_use", "id": "a", "name": "now", "input": {}}]},
		{"role": "user", "content": [
			{"type": "tool_result", "tool_use_id": "a", "is_error": true, "content": [
				{"type": "text", "text": "Noon."}]}]}]
}`

// needed are the members without which the provider refuses the request, and own are those without
// which the fake does, though the provider would take it.
var needed, own = []string{
	"model", "max_tokens", "messages", "messages[0].role", "messages[0].content",
	"messages[0].content[0].type", "messages[0].content[0].text", "messages[0].content[1].type",
	"messages[0].content[1].source", "messages[0].content[1].source.type",
	"messages[0].content[1].source.url", "messages[0].content[2].type",
	"messages[0].content[2].source", "messages[0].content[2].source.type",
	"messages[0].content[2].source.media_type", "messages[0].content[2].source.data",
	"messages[1].role", "messages[1].content", "messages[1].content[0].type",
	"messages[1].content[0].thinking", "messages[1].content[0].signature",
	"messages[1].content[1].type", "messages[1].content[1].data", "messages[1].content[2].type",
	"messages[1].content[2].id", "messages[1].content[2].name", "messages[1].content[2].input",
	"messages[2].role", "messages[2].content", "messages[2].content[0].type",
	"messages[2].content[0].tool_use_id", "messages[2].content[0].content[0].type",
	"messages[2].content[0].content[0].text", "output_config.format.type",
	"output_config.format.schema", "system[0].type", "system[0].text",
	"system[0].cache_control.type", "thinking.type", "thinking.budget_tokens", "tools[0].name",
	"tools[0].input_schema",
}, []string{
	"stream", "messages[2].content[0].content", "output_config.format.schema.type",
	"output_config.format.schema.additionalProperties", "tools[0].input_schema.type",
}

// An answer is what the fake answers to a request.
type answer struct {
	status    int
	Type      string
	RequestID string `json:"request_id"`
	Error     struct{ Type, Message string }
}

// post sends a request to a fake, with headers but for one.
func post(t *testing.T, url string, body []byte, without string) (a answer) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v1/messages",
		strings.NewReader(string(body)))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Anthropic-Version", "2023-06-01")
	req.Header.Del(without)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	require.NotEmpty(t, resp.Header.Get("Request-Id"))
	said, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	if a.status = resp.StatusCode; a.status != http.StatusOK {
		require.NoError(t, json.Unmarshal(said, &a))
		require.Equal(t, "error", a.Type)
		require.NotEmpty(t, a.RequestID)
	}
	return a
}

// A request without a member that the provider needs is refused as the provider does it, and so is
// one with a member that the provider does not know. All others may be left out.
func TestMembersOfRequests(t *testing.T) {
	fake := &agenttest.Provider{
		Play: func(agenttest.ProviderCall) agenttest.ProviderAnswer {
			return agenttest.ProviderAnswer{Text: []string{"Yes."}}
		},
	}
	server := httptest.NewServer(anthropictest.Handler(fake))
	defer server.Close()
	a := post(t, server.URL, []byte(body), "")
	require.Equal(t, http.StatusOK, a.status, a.Error.Message)
	require.NoError(t, fake.Err())
	seen := make(map[string]bool)
	for path, without := range agenttest.EachMember([]byte(body)) {
		seen[path] = true
		a := post(t, server.URL, without, "")
		switch {
		case slices.Contains(needed, path):
			a.refused(t, path)
		case slices.Contains(own, path):
			require.Equal(t, http.StatusBadRequest, a.status, path)
		default:
			require.Equal(t, http.StatusOK, a.status, "%s: %s", path, a.Error.Message)
		}
	}
	for _, path := range slices.Concat(needed, own) {
		require.True(t, seen[path], path)
	}
	odd := strings.Replace(body, `{`, `{"max_tokns": 1, `, 1)
	post(t, server.URL, []byte(odd), "").refused(t, "max_tokns")
	odd = strings.Replace(body, `"Look."`, `"Look.", "mood": 1`, 1)
	post(t, server.URL, []byte(odd), "").refused(t, "messages[0].content[0].mood")
	const said = `{"role": "%s", "content": [{"type": "text", "text": "So."}]}`
	for roles, status := range map[string]int{
		"user": http.StatusOK, "user,assistant,user": http.StatusOK,
		"user,assistant": http.StatusBadRequest, "assistant,user": http.StatusBadRequest,
	} {
		var messages []string
		for role := range strings.SplitSeq(roles, ",") {
			messages = append(messages, fmt.Sprintf(said, role))
		}
		a := post(t, server.URL, fmt.Appendf(nil,
			`{"model": "m", "max_tokens": 1, "stream": true, "messages": [%s]}`,
			strings.Join(messages, ",")), "")
		require.Equal(t, status, a.status, roles)
	}
	for _, header := range []string{"Content-Type", "Anthropic-Version"} {
		a := post(t, server.URL, []byte(body), header)
		require.Equal(t, http.StatusBadRequest, a.status, header)
	}
}

// refused checks that an answer is a refusal that begins with the path of a member.
func (a answer) refused(t *testing.T, path string) {
	t.Helper()
	require.Equal(t, http.StatusBadRequest, a.status, path)
	require.Equal(t, "invalid_request_error", a.Error.Type, path)
	path = strings.NewReplacer("[", ".", "]", "").Replace(path)
	require.True(t, strings.HasPrefix(a.Error.Message, path+": "), "%s: %s", path, a.Error.Message)
}
