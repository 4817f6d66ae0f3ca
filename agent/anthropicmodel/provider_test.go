package anthropicmodel_test

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
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/agent/provider"
	agentctx "github.com/offshoot-sdk/offshoot/context"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent/anthropicmodel"
)

// says returns a message of a role.
func says(role session.MessageRole, text string) agent.Message {
	return agent.Message{Role: role, Text: text}
}

// asks returns a request with a prompt that has all classes of sections.
func asks(messages ...agent.Message) *agent.ModelRequest {
	key := session.Must(session.DirectKey("main", "test", "1"))
	return &agent.ModelRequest{
		Model: "anthropic/m", Messages: messages,
		Prompt: agentctx.Assemble(agentctx.Input{
			Session: key,
			Env:     agentctx.Env{Model: "anthropic/m", Channel: "test"},
		}),
	}
}

// The provider keeps the stable prefix, the part of the session, and the conversation so far.
func TestWhatIsCached(t *testing.T) {
	m := open(t, anthropicmodel.Config{})
	defer m.Close()
	call := agent.ToolCall{ID: "a", Name: "now", Args: json.RawMessage(`{}`)}
	for end, messages := range map[string][]agent.Message{
		"user text Hello.": {says(session.MessageUser, "Hello.")},
		"user text Again.": {
			says(session.MessageUser, "Hello."), says(session.MessageAssistant, "Yes."),
			says(session.MessageUser, "Again."),
		},
		"user tool_result Noon.": {
			says(session.MessageUser, "Hello."),
			{Role: session.MessageAssistant, ToolCalls: []agent.ToolCall{call}},
			{Role: session.MessageTool, ToolCallID: "a", Text: "Noon."},
		},
	} {
		m.Provider.Answer(agenttest.ProviderAnswer{Text: []string{"Yes."}})
		req := asks(messages...)
		_, err := m.Model.Generate(t.Context(), req)
		require.NoError(t, err)
		calls := m.Provider.Calls()
		marks := calls[len(calls)-1].Breakpoints
		require.Equal(t, req.Prompt.StablePrefix(), marks[0])
		require.Equal(t, end, marks[len(marks)-1])
		if kept := req.Prompt.SessionPrefix(); kept != req.Prompt.StablePrefix() {
			require.Equal(t, kept, marks[1])
		}
		require.Equal(t, req.Prompt.String(), calls[len(calls)-1].System)
	}
	require.NoError(t, m.Provider.Err())
}

// serve returns a Model before a server that answers with what f writes.
func serve(
	t *testing.T, cfg anthropicmodel.Config, f func(w http.ResponseWriter, body string),
) *anthropicmodel.Model {
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
	m, err := anthropicmodel.New(cfg)
	require.NoError(t, err)
	return m
}

// event writes one event.
func event(w io.Writer, kind, data string) {
	fmt.Fprintf(w, "event: %s\ndata: %s\n\n", kind, data)
}

// What the provider has hidden of a thought comes back as it was, between the other blocks, in
// their order.
func TestHiddenThoughtsComeBack(t *testing.T) {
	const hidden = `{"type":"redacted_thinking","data":"EmwKAhgBEgy+3/=="}`
	var bodies []string
	m := serve(t, anthropicmodel.Config{}, func(w http.ResponseWriter, body string) {
		bodies = append(bodies, body)
		w.Header().Set("Content-Type", "text/event-stream")
		event(w, "message_start", `{"type":"message_start","message":{"model":"m-20261127"}}`)
		for i, block := range []string{
			`{"type":"text","text":"First."}`, hidden, `{"type":"text","text":"Then."}`,
			`{"type":"tool_use","id":"a","name":"now","input":{}}`,
		} {
			event(w, "content_block_start", fmt.Sprintf(
				`{"type":"content_block_start","index":%d,"content_block":%s}`, i, block))
		}
		event(w, "message_delta", `{"type":"message_delta","delta":{"stop_reason":"tool_use"},`+
			`"usage":{"output_tokens":7}}`)
		event(w, "message_stop", `{"type":"message_stop"}`)
	})
	resp, err := m.Generate(t.Context(), asks(says(session.MessageUser, "Hello.")))
	require.NoError(t, err)
	require.Equal(t, "anthropic/m", resp.Model)
	require.Equal(t, "First.\n\nThen.", resp.Text)
	require.Equal(t, `{}`, string(resp.ToolCalls[0].Args))
	require.Equal(t, int64(7), resp.Usage.Output)
	said := agent.Message{
		Role: session.MessageAssistant, Text: resp.Text, ToolCalls: resp.ToolCalls, Raw: resp.Raw,
	}
	noon := agent.Message{Role: session.MessageTool, ToolCallID: "a", Text: "Noon."}
	_, err = m.Generate(t.Context(),
		asks(says(session.MessageUser, "Hello."), said, noon, said, noon))
	require.NoError(t, err)
	require.Equal(t, 2, strings.Count(bodies[1], `{"type":"text","text":"First."},`+hidden+
		`,{"type":"text","text":"Then."}`))
	require.Equal(t, 1, strings.Count(bodies[1], `"id":"a"`))
	require.Equal(t, 1, strings.Count(bodies[1], `"id":"a_2"`))
}

// A provider that wants a thought before calls is asked for none where that is lost.
func TestBudgetWithoutTheThoughtBefore(t *testing.T) {
	m := open(t, anthropicmodel.Config{Budgets: map[string]int64{"high": 4096}, MaxTokens: 1000})
	defer m.Close()
	call := agent.ToolCall{ID: "a", Name: "now", Args: json.RawMessage(`{}`)}
	told := []agent.Message{
		says(session.MessageUser, "Hello."),
		{Role: session.MessageAssistant, ToolCalls: []agent.ToolCall{call}},
		{Role: session.MessageTool, ToolCallID: "a", Text: "Noon."},
	}
	for i, messages := range [][]agent.Message{told[:1], told} {
		m.Provider.Answer(agenttest.ProviderAnswer{Text: []string{"Yes."}})
		req := asks(messages...)
		req.Thinking = "high"
		_, err := m.Model.Generate(t.Context(), req)
		require.NoError(t, err)
		require.Equal(t, []string{"4096", ""}[i], m.Provider.Calls()[i].Thinking)
	}
}

// What the provider means by its types goes before the status.
func TestTypesOfErrors(t *testing.T) {
	const regain = "You will regain access."
	for _, test := range []struct {
		status           int
		kind, code, text string
		is               error
		retry            bool
	}{
		{400, "invalid_request_error", "", "Your credit balance is too low.", agent.ErrAccount, false},
		{
			400, "invalid_request_error", "",
			"You have reached your specified API usage limits. " + regain, agent.ErrAccount, false,
		},
		{
			400, "invalid_request_error", "",
			"You have reached your specified workspace API usage limits. " + regain,
			agent.ErrAccount, false,
		},
		{400, "invalid_request_error", "", "prompt is too long: 9 tokens", agent.ErrTooLong, false},
		{
			400, "invalid_request_error", "", "input length and `max_tokens` exceed context limit: " +
				"7 + 2 > 8", agent.ErrTooLong, false,
		},
		{400, "invalid_request_error", "", "messages.1: odd", nil, false},
		{402, "billing_error", "", "Pay.", agent.ErrAccount, false},
		{404, "not_found_error", "", "model: m", agent.ErrAccount, false},
		{409, "conflict_error", "", "Again.", nil, true},
		{413, "request_too_large", "", "Too large.", agent.ErrTooLong, false},
		{429, "rate_limit_error", "", "Slower.", nil, true},
		{429, "rate_limit_error", "enforced_spend_limit_reached", regain, agent.ErrAccount, false},
		{504, "timeout_error", "", "Slow.", nil, true},
		{529, "overloaded_error", "", "Busy.", nil, true},
	} {
		m := serve(t, anthropicmodel.Config{}, func(w http.ResponseWriter, _ string) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Retry-After", "40")
			w.WriteHeader(test.status)
			fmt.Fprintf(w, `{"type":"error","error":{"type":%q,"message":%q,`+
				`"details":{"error_code":%q}},"request_id":"req_1"}`, test.kind, test.text, test.code)
		})
		_, err := m.Generate(t.Context(), asks(says(session.MessageUser, "Hello.")))
		if test.is != nil {
			require.ErrorIs(t, err, test.is, test.text)
		}
		require.Equal(t, test.retry, agent.IsRetryable(err), test.text)
		var limited agent.RateLimited // what is worth another try is so when it is time
		require.Equal(t, test.retry, errors.As(err, &limited), test.text)
		require.Equal(t, test.retry, limited.After == 40*time.Second, test.text)
		var said *provider.Error
		require.ErrorAs(t, err, &said)
		require.Equal(t, test.status, said.Status)
		require.Contains(t, err.Error(), test.text)
	}
}

// A gateway may answer with a page, or with nothing.
func TestAnswersThatAreNotTheProviders(t *testing.T) {
	for body, status := range map[string]int{
		"<html>Bad gateway</html>": 502, "": 503, "{": 500, "event: x\ndata: x\n\n": 200,
	} {
		m := serve(t, anthropicmodel.Config{}, func(w http.ResponseWriter, _ string) {
			w.WriteHeader(status)
			fmt.Fprint(w, body)
		})
		resp, err := m.Generate(t.Context(), asks(says(session.MessageUser, "Hello.")))
		require.Error(t, err, body)
		require.Nil(t, resp)
		require.True(t, agent.IsRetryable(err), "%q: %v", body, err)
	}
}

// A piece of a block that did not begin breaks the answer: a call would run without its arguments.
// Those of a call that come with its beginning are its arguments.
func TestPiecesOfBlocks(t *testing.T) {
	begins := func(input string) [2]string {
		return [2]string{"content_block_start", `{"type":"content_block_start","index":0,` +
			`"content_block":{"type":"tool_use","id":"a","name":"now"` + input + `}}`}
	}
	piece := [2]string{"content_block_delta", `{"type":"content_block_delta","index":0,` +
		`"delta":{"type":"input_json_delta","partial_json":"{\"a\":1}"}}`}
	for _, test := range []struct {
		events [][2]string
		args   string // empty: the answer is broken
	}{
		{[][2]string{begins(`,"input":{}`), piece}, `{"a":1}`},
		{[][2]string{begins(``), piece}, `{"a":1}`},
		{[][2]string{begins(`,"input":{}`)}, `{}`},
		{[][2]string{begins(``)}, `{}`},
		{[][2]string{begins(`,"input":null`)}, `{}`},
		{[][2]string{begins(`,"input":{"b":[2]}`)}, `{"b":[2]}`},
		{[][2]string{begins(`,"input":{"b":[2]}`), piece}, `{"a":1}`},
		{[][2]string{piece, begins(`,"input":{}`)}, ""},
		{[][2]string{piece}, ""},
	} {
		m := serve(t, anthropicmodel.Config{}, func(w http.ResponseWriter, _ string) {
			w.Header().Set("Content-Type", "text/event-stream")
			for _, e := range test.events {
				event(w, e[0], e[1])
			}
			event(w, "message_stop", `{"type":"message_stop"}`)
		})
		resp, err := m.Generate(t.Context(), asks(says(session.MessageUser, "Hello.")))
		if test.args == "" {
			require.ErrorContains(t, err, "did not begin")
			require.True(t, agent.IsRetryable(err))
			continue
		}
		require.NoError(t, err)
		require.JSONEq(t, test.args, string(resp.ToolCalls[0].Args))
	}
}

// An answer with nothing in it says why, if the provider does.
func TestWithheldAnswer(t *testing.T) {
	for reason, want := range map[string]error{
		"refusal": nil, "max_tokens": nil, "model_context_window_exceeded": agent.ErrTooLong,
	} {
		m := serve(t, anthropicmodel.Config{}, func(w http.ResponseWriter, _ string) {
			w.Header().Set("Content-Type", "text/event-stream")
			event(w, "message_delta", fmt.Sprintf(
				`{"type":"message_delta","delta":{"stop_reason":%q,"stop_details":`+
					`{"type":"refusal","category":null,"explanation":"Not this."}}}`, reason))
			event(w, "message_stop", `{"type":"message_stop"}`)
		})
		_, err := m.Generate(t.Context(), asks(says(session.MessageUser, "Hello.")))
		require.ErrorContains(t, err, "("+reason+"): the answer ended before it had begun: Not this.")
		require.False(t, agent.IsRetryable(err))
		if want != nil {
			require.ErrorIs(t, err, want)
		}
	}
}

// A Config without a Key sends none, whatever the environment has.
func TestNothingIsReadFromTheEnvironment(t *testing.T) {
	for _, name := range []string{"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_PROFILE"} {
		t.Setenv(name, "from-the-environment")
	}
	t.Setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:1")
	t.Setenv("ANTHROPIC_CUSTOM_HEADERS", "X-Custom: from-the-environment")
	var header http.Header
	server := httptest.NewServer(http.HandlerFunc(
		func(_ http.ResponseWriter, r *http.Request) { header = r.Header }))
	defer server.Close()
	m, err := anthropicmodel.New(anthropicmodel.Config{BaseURL: server.URL})
	require.NoError(t, err)
	_, err = m.Generate(t.Context(), asks(says(session.MessageUser, "Hello.")))
	require.Error(t, err)
	require.NotNil(t, header)
	require.NotContains(t, fmt.Sprint(header), "from-the-environment")
	require.Empty(t, header.Values("X-Api-Key"))
}

func TestConfigThatIsNotValid(t *testing.T) {
	for field, cfg := range map[string]anthropicmodel.Config{
		"BaseURL":         {BaseURL: "localhost:80"},
		"Provider":        {Provider: "a/b"},
		"MaxTokens":       {MaxTokens: -1},
		"MaxBytes":        {MaxBytes: -1},
		"Model":           {Model: "other/m"},
		`Budgets["loud"]`: {Budgets: map[string]int64{"loud": 2000}},
		`Budgets["low"]`:  {Budgets: map[string]int64{"low": 1023}},
	} {
		_, err := anthropicmodel.New(cfg)
		var bad *spawn.InputError
		require.ErrorAs(t, err, &bad, field)
		require.Equal(t, "anthropicmodel.Config."+field, bad.Field)
	}
}

// An answer with a status of success in place of a stream is final, unless it is an error that has
// another class.
func TestAnswersInsteadOfAStream(t *testing.T) {
	const fault = `{"type":"error","error":{"type":%q,"message":"Not now."}}`
	for _, test := range []struct {
		status           int
		kind, body, says string
		class            provider.Class
	}{
		{200, "text/html", "<html>Sign in</html>", "<html>Sign in</html>", provider.ClassRefused},
		{200, "application/json", `{"content":[]}`, `{"content":[]}`, provider.ClassRefused},
		{200, "application/json", "", "it is empty", provider.ClassRefused},
		{204, "", "", "it is empty", provider.ClassRefused},
		{
			200, "application/json", fmt.Sprintf(fault, "overloaded_error"), "Not now.",
			provider.ClassRetryable,
		},
		{
			200, "application/json", fmt.Sprintf(fault, "rate_limit_error"), "Not now.",
			provider.ClassRate,
		},
		{
			200, "application/json", fmt.Sprintf(fault, "billing_error"), "Not now.",
			provider.ClassAccount,
		},
		{
			200, "application/json", fmt.Sprintf(fault, "invalid_request_error"), "Not now.",
			provider.ClassStatus,
		},
	} {
		m := serve(t, anthropicmodel.Config{}, func(w http.ResponseWriter, _ string) {
			w.Header().Set("Content-Type", test.kind)
			w.WriteHeader(test.status)
			fmt.Fprint(w, test.body)
		})
		resp, err := m.Generate(t.Context(), asks(says(session.MessageUser, "Hello.")))
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
