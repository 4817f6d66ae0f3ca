package openaimodel_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/provider"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/spawn"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent/openaimodel"
)

// both are the APIs.
var both = []openaimodel.API{openaimodel.APIChat, openaimodel.APIResponses}

// says writes an answer with a type and a status.
func says(w http.ResponseWriter, mediaType string, status int, body string) {
	w.Header().Set("Content-Type", mediaType)
	w.WriteHeader(status)
	fmt.Fprint(w, body)
}

// The words of what a server answers instead are in the error, on one line, once and without the
// key. Its status, or the error that it has in another form, says what it is.
func TestWordsOfErrors(t *testing.T) {
	const key = "hunter2hunter2"
	for _, test := range []struct {
		mediaType string
		status    int
		body      string
		want      string
		class     provider.Class
	}{
		{
			"text/html", 500, "<html>\n <h1>Bad\r\n gateway</h1> " + key + "</html>\n",
			"500 Internal Server Error: <html> <h1>Bad gateway</h1> ***</html>",
			provider.ClassRetryable,
		},
		{"text/html", 502, "Bad Gateway\n", "502 Bad Gateway", provider.ClassRetryable},
		{
			"text/plain", 503, "503 Service Unavailable",
			"503 Service Unavailable", provider.ClassRetryable,
		},
		{
			"text/plain", 404, "no such\x00\x1b[31m page",
			"404 Not Found: no such [31m page", provider.ClassRefused,
		},
		{"application/json", 500, "", "500 Internal Server Error", provider.ClassRetryable},
		{
			"application/json", 500, "{\"detail\":\"x\"}",
			`500 Internal Server Error: {"detail":"x"}`, provider.ClassRetryable,
		},
		{
			"application/json", 401, `{"error":"Who are you?"}`,
			"401 Unauthorized: Who are you?", provider.ClassAccount,
		},
		{
			"application/json", 404, `{"error":"no model m"}`,
			"404 Not Found: no model m", provider.ClassRefused,
		},
		{
			"application/json", 400, `{"error":"prompt is too long"}`,
			"400 Bad Request: prompt is too long", provider.ClassTooLong,
		},
		{
			"application/json", 503, `{"error":{"code":503,"message":"Busy."}}`,
			"503 Service Unavailable (503): Busy.", provider.ClassRate,
		},
		{
			"application/json", 503, `{"error":{"code":"overloaded","message":"Overloaded"}}`,
			"503 Service Unavailable (overloaded)", provider.ClassRetryable,
		},
		{
			"text/event-stream", 200, ` {"error":{"message":"Not that."}}`,
			`200 OK: the answer is of the type "text/event-stream" and not a stream of events: Not that.`,
			provider.ClassRefused,
		},
		{
			"text/event-stream; charset=utf-8", 200, `{"choices":[]}`, "200 OK: the answer is of the type " +
				`"text/event-stream; charset=utf-8" and not a stream of events: {"choices":[]}`,
			provider.ClassRefused,
		},
		{
			"text/event-stream", 200, "\n<html>Sign in</html>", "200 OK: the answer is of the type " +
				`"text/event-stream" and not a stream of events: <html>Sign in</html>`,
			provider.ClassRefused,
		},
		{
			"text/event-stream", 200, `{"error":{"code":"rate_limit_exceeded","message":"Slow."}}`,
			`200 OK (rate_limit_exceeded): the answer is of the type "text/event-stream" and not a ` +
				"stream of events: Slow.",
			provider.ClassRate,
		},
	} {
		for _, api := range both {
			m := serve(t, openaimodel.Config{
				API: api, Key: func(context.Context) (string, error) { return key, nil },
			}, func(w http.ResponseWriter, _ string) {
				if strings.Contains(test.body, "Busy.") {
					w.Header().Set("Retry-After", "7")
				}
				says(w, test.mediaType, test.status, test.body)
			})
			_, err := m.Generate(t.Context(), ask())
			require.EqualError(t, err, "openaimodel: the provider answers "+test.want)
			isRate := test.class == provider.ClassRate
			require.Equal(t, isRate || test.class == provider.ClassRetryable,
				agent.IsRetryable(err), test.want)
			require.Equal(t, test.class == provider.ClassAccount,
				errors.Is(err, agent.ErrAccount), test.want)
			require.Equal(t, test.class == provider.ClassTooLong,
				errors.Is(err, agent.ErrTooLong), test.want)
		}
	}
}

// Each thinking level is the provider's word for it, none is left out, and one that is not known is
// an error that another try does not mend, before a request is made.
func TestThinkingLevels(t *testing.T) {
	words := map[string]string{
		"": "", "adaptive": "", "off": "none", "minimal": "minimal", "low": "low",
		"medium": "medium", "high": "high", "xhigh": "xhigh", "Think-Harder": "medium",
	}
	for _, level := range policy.ThinkingLevels() {
		require.Contains(t, words, level)
	}
	for _, api := range both {
		var sent string
		m := serve(t, openaimodel.Config{API: api}, func(w http.ResponseWriter, body string) {
			sent = body
			says(w, "text/plain", 500, "")
		})
		for level, word := range words {
			req := ask()
			req.Thinking = level
			_, err := m.Generate(t.Context(), req)
			require.Error(t, err)
			var body struct {
				Effort    string `json:"reasoning_effort"`
				Reasoning struct{ Effort string }
			}
			require.NoError(t, json.Unmarshal([]byte(sent), &body))
			require.Equal(t, word, body.Effort+body.Reasoning.Effort, level)
		}
		sent = ""
		req := ask()
		req.Thinking = "turbo"
		_, err := m.Generate(t.Context(), req)
		var bad *spawn.InputError
		require.ErrorAs(t, err, &bad)
		require.Equal(t, "ModelRequest.Thinking", bad.Field)
		require.False(t, agent.IsRetryable(err))
		require.Empty(t, sent)
	}
}

// oddNumbers are what a server may say that a call has used, and what is taken for it.
var oddNumbers = map[string]int64{
	"-5": 0, "-9223372036854775808": 0, "9223372036854775807": provider.MaxTokens,
	"1e3": 1000, "null": 0, "7": 7,
}

// A server that counts what cannot be, or names what cannot be a model, gives neither a budget back
// nor a line to the log.
func TestUsageAndNamesThatCannotBe(t *testing.T) {
	for said, want := range oddNumbers {
		for api, stream := range map[openaimodel.API]string{
			openaimodel.APIChat: `data: {"model":"m\nx","choices":[{"index":0,"delta":{"content":"x"},` +
				`"finish_reason":"stop"}],"usage":{"prompt_tokens":0,"total_tokens":1,` +
				`"completion_tokens":N,"prompt_tokens_details":{"cached_tokens":N,` +
				`"cache_write_tokens":N}}}`,
			openaimodel.APIResponses: `data: {"type":"response.output_text.delta","delta":"x"}` + "\n\n" +
				`data: {"type":"response.completed","response":{"model":"m\nx","usage":{` +
				`"input_tokens":0,"output_tokens":N,"input_tokens_details":{"cached_tokens":N,` +
				`"cache_write_tokens":N}}}}`,
		} {
			m := serve(t, openaimodel.Config{API: api}, func(w http.ResponseWriter, _ string) {
				says(w, "text/event-stream", 200, strings.ReplaceAll(stream, "N", said)+"\n\n")
			})
			resp, err := m.Generate(t.Context(), ask())
			require.NoError(t, err)
			require.Equal(t,
				agent.Usage{Output: want, CacheRead: want, CacheWrite: want}, resp.Usage, said)
			require.Equal(t, "openai/m", resp.Model)
		}
	}
}
