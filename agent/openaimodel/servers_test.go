package openaimodel_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/provider"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent/openaimodel"
)

// serve returns a Model before a server that answers with what f writes. What it was sent comes
// with it.
func serve(
	t *testing.T, cfg openaimodel.Config, f func(w http.ResponseWriter, body string),
) *openaimodel.Model {
	server := httptest.NewServer(http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return
			}
			f(w, string(body))
		}))
	t.Cleanup(server.Close)
	cfg.BaseURL, cfg.HTTP = server.URL, server.Client()
	m, err := openaimodel.New(cfg)
	require.NoError(t, err)
	return m
}

// ask returns a request with a conversation.
func ask(messages ...agent.Message) *agent.ModelRequest {
	return &agent.ModelRequest{
		Model: "openai/m", Messages: append([]agent.Message{{
			Role: session.MessageUser, Text: "Hello.",
		}}, messages...),
	}
}

// lines writes the events of an answer of Chat Completions.
func lines(w http.ResponseWriter, deltas ...string) {
	w.Header().Set("Content-Type", "text/event-stream")
	for _, d := range deltas {
		fmt.Fprintf(w, "data: {\"id\":\"1\",\"model\":\"m\",\"choices\":[%s]}\n\n", d)
	}
}

const endOfCalls = `{"index":0,"delta":{},"finish_reason":"tool_calls"}`

// Some servers give each call whole, with the index 0, and end without [DONE] and usage.
func TestServerThatDoesNotCountCalls(t *testing.T) {
	m := serve(t, openaimodel.Config{API: openaimodel.APIChat},
		func(w http.ResponseWriter, _ string) {
			lines(w,
				`{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","type":"function",`+
					`"function":{"name":"now","arguments":"{}"}}]}}`,
				`{"index":0,"delta":{"tool_calls":[{"index":0,"id":"b","type":"function",`+
					`"function":{"name":"then","arguments":"{\"x\":1}"}}]}}`, endOfCalls)
		})
	resp, err := m.Generate(t.Context(), ask())
	require.NoError(t, err)
	require.Equal(t, []agent.ToolCall{
		{ID: "a", Name: "now", Args: json.RawMessage(`{}`)},
		{ID: "b", Name: "then", Args: json.RawMessage(`{"x":1}`)},
	}, resp.ToolCalls)
	require.Equal(t, "openai/m", resp.Model)
	require.True(t, resp.Usage.IsZero())
	require.Nil(t, resp.Raw)
}

// What a server says of a call beside its arguments comes back to it with the call.
func TestMembersOfCallsComeBack(t *testing.T) {
	const extra = `"extra_content":{"google":{"thought_signature":"a+b/c="}}`
	var bodies []string
	m := serve(t, openaimodel.Config{API: openaimodel.APIChat},
		func(w http.ResponseWriter, body string) {
			bodies = append(bodies, body)
			lines(w, `{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","type":"function",`+
				extra+`,"function":{"name":"now","arguments":"{}"}}]}}`, endOfCalls)
		})
	resp, err := m.Generate(t.Context(), ask())
	require.NoError(t, err)
	said := agent.Message{
		Role: session.MessageAssistant, ToolCalls: resp.ToolCalls, Raw: resp.Raw,
	}
	result := agent.Message{Role: session.MessageTool, ToolCallID: "a", Text: "Noon."}
	_, err = m.Generate(t.Context(), ask(said, result))
	require.NoError(t, err)
	require.Contains(t, bodies[1], extra)

	// Another provider does not get it.
	other := serve(t, openaimodel.Config{API: openaimodel.APIChat, Provider: "other"},
		func(w http.ResponseWriter, body string) {
			bodies = append(bodies, body)
			lines(w, endOfCalls)
		})
	req := ask(said, result)
	req.Model = "other/m"
	_, err = other.Generate(t.Context(), req)
	require.NoError(t, err)
	require.NotContains(t, bodies[2], "thought_signature")
}

// What OpenAI means by its codes goes before the status, and by its types, where the code does not
// say it.
func TestCodes(t *testing.T) {
	for _, test := range []struct {
		status           int
		kind, code, text string
		is               error
		retry            bool
	}{
		{429, "x", "insufficient_quota", "You exceeded your quota.", agent.ErrAccount, false},
		{429, "insufficient_quota", "", "You exceeded it.", agent.ErrAccount, false},
		{429, "insufficient_quota", "credit_balance_exhausted", "None.", agent.ErrAccount, false},
		{429, "insufficient_quota", "some_limit_of_tomorrow", "None.", agent.ErrAccount, false},
		{429, "x", "organization_spend_limit_exceeded", "None.", agent.ErrAccount, false},
		{429, "x", "project_spend_limit_exceeded", "None.", agent.ErrAccount, false},
		{429, "x", "organization_usage_limit_exceeded", "None.", agent.ErrAccount, false},
		{429, "rate_limit_error", "slow_down", "Slower.", nil, true},
		{429, "tokens", "rate_limit_exceeded", "Slower.", nil, true},
		{503, "service_unavailable_error", "server_is_overloaded", "Busy.", nil, true},
		{404, "x", "model_not_found", "It does not exist.", agent.ErrAccount, false},
		{400, "x", "context_length_exceeded", "Too much.", agent.ErrTooLong, false},
		{
			400, "x", "", "This model's maximum context length is 10 tokens.", agent.ErrTooLong,
			false,
		},
		{400, "x", "invalid_value", "Not a number.", nil, false},
		{409, "x", "", "Again.", nil, true},
		{504, "x", "", "Slow.", nil, true},
	} {
		m := serve(t, openaimodel.Config{}, func(w http.ResponseWriter, _ string) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Retry-After", "40")
			w.WriteHeader(test.status)
			fmt.Fprintf(w, `{"error":{"message":%q,"type":%q,"param":null,"code":%q}}`, test.text,
				test.kind, test.code)
		})
		_, err := m.Generate(t.Context(), ask())
		require.Error(t, err)
		if test.is != nil {
			require.ErrorIs(t, err, test.is, test.code)
		}
		require.Equal(t, test.retry, agent.IsRetryable(err), test.code)
		var limited agent.RateLimited // what is worth another try is so when it is time
		require.Equal(t, test.retry, errors.As(err, &limited), test.text)
		require.Equal(t, test.retry, limited.After == 40*time.Second, test.text)
		var said *provider.Error
		require.ErrorAs(t, err, &said)
		require.Equal(t, test.status, said.Status)
		require.Contains(t, err.Error(), test.text)
	}
}

// An error in the middle of an answer is found in each form that OpenAI gives it: that of its
// reference, the one that its service sends, and that of an answer that has failed.
func TestErrorsInTheMiddle(t *testing.T) {
	const flat = `{"type":"error","code":%s,"message":"Not now.","param":null,"sequence_number":1}`
	const nested = `{"type":"error","error":{"type":%q,"code":%s,"message":"Not now.",` +
		`"param":null},"sequence_number":1}`
	const failed = `{"type":"response.failed","response":{"status":"failed","error":{"code":%s,` +
		`"message":"Not now."}},"sequence_number":1}`
	for data, want := range map[string]provider.Class{
		fmt.Sprintf(flat, `"server_error"`):                             provider.ClassRetryable,
		fmt.Sprintf(flat, `"rate_limit_exceeded"`):                      provider.ClassRate,
		fmt.Sprintf(flat, `"invalid_prompt"`):                           provider.ClassRefused,
		fmt.Sprintf(failed, `"server_error"`):                           provider.ClassRetryable,
		fmt.Sprintf(failed, `"rate_limit_exceeded"`):                    provider.ClassRate,
		fmt.Sprintf(failed, `"credit_balance_exhausted"`):               provider.ClassAccount,
		fmt.Sprintf(nested, "service_unavailable_error", "null"):        provider.ClassRetryable,
		fmt.Sprintf(nested, "too_many_requests", `"too_many_requests"`): provider.ClassRate,
		fmt.Sprintf(nested, "tokens", `"rate_limit_exceeded"`):          provider.ClassRate,
		fmt.Sprintf(nested, "insufficient_quota", `"credit_balance_exhausted"`): provider.
			ClassAccount,
		fmt.Sprintf(nested, "invalid_request_error", `"context_length_exceeded"`): provider.
			ClassTooLong,
	} {
		m := serve(t, openaimodel.Config{}, func(w http.ResponseWriter, _ string) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "event: x\ndata: %s\n\n", data)
		})
		_, err := m.Generate(t.Context(), ask())
		var said *provider.Error
		require.ErrorAs(t, err, &said, data)
		require.Equal(t, want, said.Class, data)
		require.Equal(t, "Not now.", said.Message, data)
		require.Zero(t, said.Status, data)
	}
}

// A gateway may answer with a page, or with nothing.
func TestAnswersThatAreNotTheProviders(t *testing.T) {
	for body, status := range map[string]int{
		"<html>Bad gateway</html>": 502, "": 503, "{": 500, "data: x\n\n": 200,
		"data: {\"choices\":7}\n\n": 200,
	} {
		for _, api := range []openaimodel.API{openaimodel.APIChat, openaimodel.APIResponses} {
			m := serve(t, openaimodel.Config{API: api}, func(w http.ResponseWriter, _ string) {
				w.WriteHeader(status)
				fmt.Fprint(w, body)
			})
			resp, err := m.Generate(t.Context(), ask())
			require.Error(t, err, body)
			require.Nil(t, resp)
			require.True(t, agent.IsRetryable(err), "%q: %v", body, err)
		}
	}
}

// An answer of which nothing is left says why. Another try comes to the same.
func TestWithheldAnswer(t *testing.T) {
	m := serve(t, openaimodel.Config{API: openaimodel.APIChat},
		func(w http.ResponseWriter, _ string) {
			lines(w, `{"index":0,"delta":{"content":""},"finish_reason":"content_filter"}`)
		})
	_, err := m.Generate(t.Context(), ask())
	require.ErrorContains(t, err, "(content_filter): the answer ended before it had begun")
	require.False(t, agent.IsRetryable(err))
	m = serve(t, openaimodel.Config{}, func(w http.ResponseWriter, _ string) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "event: response.incomplete\ndata: {\"type\":\"response.incomplete\","+
			"\"response\":{\"incomplete_details\":{\"reason\":\"max_output_tokens\"}}}\n\n")
	})
	_, err = m.Generate(t.Context(), ask())
	require.ErrorContains(t, err, "(max_output_tokens): the answer ended before it had begun")
}

// A call that has come again under the same id is sent under another, also within Raw.
func TestIDsThatComeAgainInRaw(t *testing.T) {
	item := `{"type":"function_call","id":"fc_1","call_id":"a","name":"now","arguments":"{}"}`
	thought := `{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"<x>"}`
	raw := json.RawMessage(`{"api":"responses","provider":"openai","items":[` + thought + `,` +
		item + `]}`)
	said := agent.Message{
		Role: session.MessageAssistant, Raw: raw,
		ToolCalls: []agent.ToolCall{{ID: "a", Name: "now", Args: json.RawMessage(`{}`)}},
	}
	result := agent.Message{Role: session.MessageTool, ToolCallID: "a", Text: "Noon."}
	var sent string
	m := serve(t, openaimodel.Config{}, func(_ http.ResponseWriter, body string) {
		sent = body
	})
	_, err := m.Generate(t.Context(), ask(said, result, said, result))
	require.Error(t, err)
	require.Equal(t, 2, strings.Count(sent, thought))
	require.Equal(t, 1, strings.Count(sent, item))
	require.Equal(t, 2, strings.Count(sent, `"call_id":"a"`))
	require.Equal(t, 2, strings.Count(sent, `"call_id":"a_2"`))
}

// A Config without a Key sends none, whatever the environment has.
func TestNothingIsReadFromTheEnvironment(t *testing.T) {
	for _, name := range []string{"OPENAI_API_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"} {
		t.Setenv(name, "from-the-environment")
	}
	t.Setenv("OPENAI_BASE_URL", "http://127.0.0.1:1")
	t.Setenv("OPENAI_CUSTOM_HEADERS", "X-Custom: from-the-environment")
	for _, api := range []openaimodel.API{openaimodel.APIChat, openaimodel.APIResponses} {
		var header http.Header
		server := httptest.NewServer(http.HandlerFunc(
			func(_ http.ResponseWriter, r *http.Request) { header = r.Header }))
		t.Cleanup(server.Close)
		m, err := openaimodel.New(openaimodel.Config{BaseURL: server.URL, API: api})
		require.NoError(t, err)
		_, err = m.Generate(t.Context(), ask())
		require.Error(t, err)
		require.NotNil(t, header)
		require.Empty(t, header.Values("Authorization"))
		require.NotContains(t, fmt.Sprint(header), "from-the-environment")
	}
}

func TestConfigThatIsNotValid(t *testing.T) {
	for field, cfg := range map[string]openaimodel.Config{
		"BaseURL":   {BaseURL: "localhost:80"},
		"Provider":  {Provider: "a/b"},
		"API":       {API: "completions"},
		"MaxTokens": {MaxTokens: -1},
		"MaxBytes":  {MaxBytes: -1},
		"Model":     {Model: "other/m"},
	} {
		_, err := openaimodel.New(cfg)
		var bad *spawn.InputError
		require.ErrorAs(t, err, &bad, field)
		require.Equal(t, "openaimodel.Config."+field, bad.Field)
	}
	_, err := openaimodel.New(openaimodel.Config{BaseURL: "http://user:secret@[bad"})
	require.NotContains(t, err.Error(), "secret")
}

// What a server answers with a status of success instead of a stream is final, unless it is an
// error that has another class.
func TestAnswersInsteadOfAStream(t *testing.T) {
	for _, test := range []struct {
		status           int
		kind, body, says string
		class            provider.Class
	}{
		{200, "text/html", "<html>Sign in</html>", "<html>Sign in</html>", provider.ClassRefused},
		{200, "application/json", `{"choices":[]}`, `{"choices":[]}`, provider.ClassRefused},
		{200, "application/json", "", "it is empty", provider.ClassRefused},
		{204, "", "", "it is empty", provider.ClassRefused},
		{200, "application/json", `{"error":"No such thing."}`, "No such thing.", provider.ClassStatus},
		{
			200, "application/json", `{"error":{"message":"Slower.","code":"slow_down"}}`, "Slower.",
			provider.ClassRate,
		},
		{
			200, "application/json", `{"error":{"message":"Busy.","code":502}}`, "Busy.",
			provider.ClassRetryable,
		},
		{
			200, "application/json", `{"error":{"message":"No key.","code":401}}`, "No key.",
			provider.ClassAccount,
		},
		{
			200, "application/json", `{"error":{"message":"Odd.","type":"invalid_request_error"}}`,
			"Odd.", provider.ClassStatus,
		},
		{
			200, "application/json", `{"error":{"message":"Long.","code":"context_length_exceeded"}}`,
			"Long.", provider.ClassTooLong,
		},
	} {
		for _, api := range []openaimodel.API{openaimodel.APIChat, openaimodel.APIResponses} {
			m := serve(t, openaimodel.Config{API: api}, func(w http.ResponseWriter, _ string) {
				w.Header().Set("Content-Type", test.kind)
				w.WriteHeader(test.status)
				fmt.Fprint(w, test.body)
			})
			resp, err := m.Generate(t.Context(), ask())
			require.Nil(t, resp)
			var said *provider.Error
			require.ErrorAs(t, err, &said, test.body)
			require.Equal(t, test.status, said.Status)
			require.Equal(t, test.class, said.Class, test.body)
			require.ErrorContains(t, err, test.says)
			require.ErrorContains(t, err, test.kind)
			again := test.class == provider.ClassRate || test.class == provider.ClassRetryable
			require.Equal(t, again, agent.IsRetryable(err), "%q: %v", test.body, err)
		}
	}
}

// A call of which only the last event of an answer tells is one, and a call of which its own event
// has told is not another one.
func TestCallsOfTheLastEvent(t *testing.T) {
	const a = `{"type":"function_call","id":"fa","call_id":"a","name":"now","arguments":"{}"}`
	const b = `{"type":"function_call","id":"fb","call_id":"b","name":"then","arguments":"{\"x\":1}"}`
	m := serve(t, openaimodel.Config{}, func(w http.ResponseWriter, _ string) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, event("response.output_item.done", `"output_index":0,"item":`+a),
			event("response.completed", `"response":{"model":"m","output":[`+a+`,`+b+`]}`))
	})
	resp, err := m.Generate(t.Context(), ask())
	require.NoError(t, err)
	require.Equal(t, []agent.ToolCall{
		{ID: "a", Name: "now", Args: json.RawMessage(`{}`)},
		{ID: "b", Name: "then", Args: json.RawMessage(`{"x":1}`)},
	}, resp.ToolCalls)
}

// A number in place of a code, in the middle of an answer, is the status that it stands for.
func TestStatusInPlaceOfACode(t *testing.T) {
	for code, is := range map[string]error{"401": agent.ErrAccount, "413": agent.ErrTooLong, "502": nil} {
		m := serve(t, openaimodel.Config{API: openaimodel.APIChat},
			func(w http.ResponseWriter, _ string) {
				lines(w, `{"index":0,"delta":{"content":"No"}}`)
				fmt.Fprintf(w, "data: {\"error\":{\"message\":\"Not now.\",\"code\":%s}}\n\n", code)
			})
		_, err := m.Generate(t.Context(), ask())
		require.ErrorContains(t, err, "Not now.")
		if require.Equal(t, is == nil, agent.IsRetryable(err), code); is != nil {
			require.ErrorIs(t, err, is)
		}
	}
}
