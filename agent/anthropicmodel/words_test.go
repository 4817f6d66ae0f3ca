package anthropicmodel_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/provider"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent/anthropicmodel"
)

// answers writes an answer with a type and a status.
func answers(w http.ResponseWriter, mediaType string, status int, body string) {
	w.Header().Set("Content-Type", mediaType)
	w.WriteHeader(status)
	fmt.Fprint(w, body)
}

// hello returns the least request.
func hello() *agent.ModelRequest { return asks(says(session.MessageUser, "Hello.")) }

// The words of what a server answers instead are in the error, on one line, once and without the
// key. Its status, or the error that it has in another form, says what it is.
func TestWordsOfErrors(t *testing.T) {
	const notStream = `the answer is of the type "text/event-stream" and not a stream of events: `
	for _, test := range []struct {
		mediaType string
		status    int
		body      string
		want      string
		class     provider.Class
	}{
		{
			"text/html", 500, "<html>\n <h1>Bad\r\n gateway</h1> " + secret + "</html>\n",
			" 500 Internal Server Error: <html> <h1>Bad gateway</h1> ***</html>",
			provider.ClassRetryable,
		},
		{"text/html", 502, "Bad Gateway\n", " 502 Bad Gateway", provider.ClassRetryable},
		{"application/json", 500, "", " 500 Internal Server Error", provider.ClassRetryable},
		{
			"application/json", 401, `{"error":"Who are you?"}`,
			` 401 Unauthorized: {"error":"Who are you?"}`, provider.ClassAccount,
		},
		{
			"application/json", 500, `{"error":{"type":"overloaded_error","message":"Overloaded_error"}}`,
			" 500 Internal Server Error (overloaded_error)", provider.ClassRetryable,
		},
		{
			"application/json", 429, `{"error":{"type":"rate_limit_error","message":"a\nb"}}`,
			" 429 Too Many Requests (rate_limit_error): a b", provider.ClassRate,
		},
		{
			"text/event-stream", 200, ` {"error":{"type":"invalid_request_error","message":"Not that."}}`,
			" 200 OK (invalid_request_error): " + notStream + "Not that.", provider.ClassRefused,
		},
		{
			"text/event-stream", 200, `{"error":{"type":"overloaded_error","message":"Busy."}}`,
			" 200 OK (overloaded_error): " + notStream + "Busy.", provider.ClassRetryable,
		},
		{
			"text/event-stream", 200, "\n<html>Sign in</html>",
			" 200 OK: " + notStream + "<html>Sign in</html>", provider.ClassRefused,
		},
		{
			"text/event-stream", 200,
			"event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"api_error\",\"message\":\"No.\"}}\n\n",
			" (api_error): No.", provider.ClassRetryable,
		},
	} {
		m := serve(t, anthropicmodel.Config{Key: keyed}, func(w http.ResponseWriter, _ string) {
			answers(w, test.mediaType, test.status, test.body)
		})
		_, err := m.Generate(t.Context(), hello())
		require.EqualError(t, err, "anthropicmodel: the provider answers"+test.want)
		isRate := test.class == provider.ClassRate
		require.Equal(t, isRate || test.class == provider.ClassRetryable,
			agent.IsRetryable(err), test.want)
		require.Equal(t, test.class == provider.ClassAccount,
			errors.Is(err, agent.ErrAccount), test.want)
	}
}

// Each thinking level is the provider's word for it, or the tokens of its budget; none is left out,
// and one that is not known is an error that another try does not mend, before a request is made.
func TestThinkingLevels(t *testing.T) {
	words := map[string]string{
		"": "", "off": "disabled", "adaptive": "adaptive", "minimal": "adaptive low",
		"low": "adaptive low", "medium": "adaptive medium", "high": "adaptive high",
		"xhigh": "adaptive xhigh", "Think-Harder": "adaptive medium",
	}
	budgets := map[string]string{"medium": "enabled 2048", "Think-Harder": "enabled 2048"}
	for _, level := range policy.ThinkingLevels() {
		require.Contains(t, words, level)
	}
	for _, cfg := range []anthropicmodel.Config{{}, {Budgets: map[string]int64{"medium": 2048}}} {
		var sent string
		m := serve(t, cfg, func(w http.ResponseWriter, body string) {
			sent = body
			answers(w, "text/plain", 500, "")
		})
		for level, word := range words {
			if cfg.Budgets != nil {
				word = budgets[level]
			}
			req := hello()
			req.Thinking = level
			_, err := m.Generate(t.Context(), req)
			require.Error(t, err)
			var body struct {
				Thinking struct {
					Type   string
					Budget int `json:"budget_tokens"`
				}
				Output struct{ Effort string } `json:"output_config"`
			}
			require.NoError(t, json.Unmarshal([]byte(sent), &body))
			got := body.Thinking.Type + " " + body.Output.Effort
			if body.Thinking.Budget > 0 {
				got += fmt.Sprint(body.Thinking.Budget)
			}
			require.Equal(t, word, strings.TrimSpace(got), level)
		}
		sent = ""
		req := hello()
		req.Thinking = "turbo"
		_, err := m.Generate(t.Context(), req)
		var bad *spawn.InputError
		require.ErrorAs(t, err, &bad)
		require.Equal(t, "ModelRequest.Thinking", bad.Field)
		require.False(t, agent.IsRetryable(err))
		require.Empty(t, sent)
	}
}

// A server that counts what cannot be, or names what cannot be a model, gives neither a budget back
// nor a line to the log.
func TestUsageAndNamesThatCannotBe(t *testing.T) {
	for said, want := range map[string]int64{
		"-5": 0, "-9223372036854775808": 0, "9223372036854775807": provider.MaxTokens,
		"1e3": 1000, "null": 0, "7": 7,
	} {
		usage := strings.ReplaceAll(`{"input_tokens":N,"output_tokens":N,`+
			`"cache_read_input_tokens":N,"cache_creation_input_tokens":N}`, "N", said)
		stream := ""
		for _, event := range []string{
			`{"type":"message_start","message":{"model":"m\nx","usage":` + usage + `}}`,
			`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"x"}}`,
			`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":` + usage + `}`,
			`{"type":"message_stop"}`,
		} {
			name, _, _ := strings.Cut(strings.TrimPrefix(event, `{"type":"`), `"`)
			stream += "event: " + name + "\ndata: " + event + "\n\n"
		}
		m := serve(t, anthropicmodel.Config{}, func(w http.ResponseWriter, _ string) {
			answers(w, "text/event-stream", 200, stream)
		})
		resp, err := m.Generate(t.Context(), hello())
		require.NoError(t, err)
		require.Equal(t, agent.Usage{Input: want, Output: want, CacheRead: want, CacheWrite: want},
			resp.Usage, said)
		require.Equal(t, "anthropic/m", resp.Model)
	}
}
