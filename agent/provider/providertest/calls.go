package providertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/provider"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// hushed begins every secret of these tests.
const hushed = "hunter2"

// A taken is what a server was sent.
type taken struct {
	header http.Header
	body   string
}

// answered returns a Model before a server that answers with what write writes, and what the server
// is sent.
func (f *Form) answered(
	t *testing.T, cfg Config, write func(w http.ResponseWriter),
) (agent.StreamModel, func() []taken) {
	t.Helper()
	var all []taken
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		all = append(all, taken{r.Header, string(body)})
		write(w)
	}))
	t.Cleanup(server.Close)
	cfg.BaseURL, cfg.HTTP = server.URL, server.Client()
	return f.open(t, cfg), func() []taken { return all }
}

// wantFinal fails the test unless an error is not worth another try, and has no secret.
func wantFinal(t *testing.T, err error) {
	t.Helper()
	if err == nil || agent.IsRetryable(err) || strings.Contains(err.Error(), hushed) {
		t.Errorf("the error is %v, want one that is final and tells no secret", err)
	}
}

// wantInput fails the test unless an error is a final *spawn.InputError of a field.
func wantInput(t *testing.T, err error, field string) {
	t.Helper()
	wantFinal(t, err)
	if bad, ok := errors.AsType[*spawn.InputError](err); !ok || bad.Field != field && field != "" {
		t.Errorf("the error is %v, want an InputError of %q", err, field)
	}
}

// TestKeys checks the key of a call: the end of its line is not a part of it, and one with a line
// break fails the call for good, before a request is made. An error of the Key fails it, too, and
// neither that nor what the HTTP of the program panics with tells the key.
func TestKeys(t *testing.T, f Form) {
	const plain = hushed + "-key"
	for key, isKey := range map[string]bool{plain + "\r\n": true, hushed + "\nkey": false} {
		m, asked := f.answered(t, Config{
			Key: func(context.Context) (string, error) { return key, nil },
		}, func(http.ResponseWriter) {})
		_, err := m.Generate(t.Context(), f.request())
		wantFinal(t, err)
		isSent := len(asked()) == 1 && strings.Contains(fmt.Sprint(asked()[0].header), plain+"]")
		switch {
		case isSent != isKey || !isKey && len(asked()) > 0:
			t.Errorf("the key %q: the server was sent %v", key, asked())
		case !isKey && !strings.Contains(err.Error(), "the key has a line break"):
			t.Errorf("the key %q: the error is %v", key, err)
		}
	}
	locked := errors.New("the safe is locked")
	for _, failed := range []error{locked, errors.New(plain + ": the safe is locked")} {
		m := f.open(t, Config{Key: func(context.Context) (string, error) { return plain, failed }})
		_, err := m.Generate(t.Context(), f.request())
		wantFinal(t, err)
		if !strings.Contains(err.Error(), locked.Error()) ||
			errors.Is(err, locked) != errors.Is(failed, locked) {
			t.Errorf("the error is %v, want that of the Key", err)
		}
	}
	m := f.open(t, Config{
		HTTP: &http.Client{Transport: fallen{}},
		Key:  func(context.Context) (string, error) { return plain, nil },
	})
	defer func() {
		value := fmt.Sprint(recover())
		if !strings.Contains(value, "the line fell") || strings.Contains(value, hushed) {
			t.Errorf("the panic is %s", value)
		}
	}()
	_, _ = m.Generate(t.Context(), f.request())
}

// A fallen is an [http.RoundTripper] that panics with the headers of each request.
type fallen struct{}

// RoundTrip panics.
func (fallen) RoundTrip(r *http.Request) (*http.Response, error) {
	panic(fmt.Sprint("the line fell ", r.Header))
}

// TestAddresses checks that an address to which no path can be added is refused, and that its
// secrets are not told.
func TestAddresses(t *testing.T, f Form) {
	for _, address := range []string{
		"localhost:80", "http://x.test:99999/v1", "http://x.test/v1?key=" + hushed,
		"http://x.test/v1#" + hushed, "http://user:" + hushed + "@x.test/v1",
		"http://user:" + hushed + "@[bad",
	} {
		_, err := f.New(Config{BaseURL: address})
		wantInput(t, err, f.Client+".Config.BaseURL")
	}
}

// TestNames checks that the name of a model that cannot be one fails the call, before a request is
// made.
func TestNames(t *testing.T, f Form) {
	m, asked := f.answered(t, Config{}, func(http.ResponseWriter) {})
	of, _, _ := strings.Cut(f.Model, "/")
	for _, name := range []string{of + "/a\nb", "a\x00", "\u202ea", strings.Repeat("a", 9999)} {
		req := f.request()
		req.Model = name
		_, err := m.Generate(t.Context(), req)
		wantInput(t, err, "ModelRequest.Model")
		if strings.Contains(err.Error(), "\n") {
			t.Errorf("the error has a line break: %v", err)
		}
	}
	if len(asked()) > 0 {
		t.Errorf("the server was sent %v", asked())
	}
}

// TestRedirects checks that a call is one request: a redirect, to the same server or to another
// one, fails it, and the other one gets neither the key nor the conversation.
func TestRedirects(t *testing.T, f Form) {
	for _, status := range []int{301, 302, 303, 307, 308} {
		for _, isElsewhere := range []bool{false, true} {
			other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
				t.Error("the other server was asked")
			}))
			t.Cleanup(other.Close)
			m, asked := f.answered(t, Config{}, func(w http.ResponseWriter) {
				to := "/elsewhere"
				if isElsewhere {
					to = strings.Replace(other.URL, "127.0.0.1", "localhost", 1) + to
				}
				w.Header().Set("Location", to)
				w.WriteHeader(status)
			})
			_, err := m.Generate(t.Context(), f.request())
			wantFinal(t, err)
			said, ok := errors.AsType[*provider.Error](err)
			if !ok || said.Status != status || len(asked()) != 1 ||
				!strings.Contains(err.Error(), "which is not followed") {
				t.Errorf("%d: after %d requests the error is %v", status, len(asked()), err)
			}
		}
	}
}

// TestSchemas checks that a tool whose schema is not an object fails the call for good, before
// anything is sent, with an error that names the tool.
func TestSchemas(t *testing.T, f Form) {
	nested := func(n int) string {
		return strings.Repeat(`{"a":`, n) + "1" + strings.Repeat("}", n)
	}
	ask := func(schema string) ([]taken, error) {
		m, asked := f.answered(t, Config{}, func(http.ResponseWriter) {})
		req := f.request()
		req.Tools = []agent.Tool{{Name: "now", Schema: json.RawMessage(schema)}}
		_, err := m.Generate(t.Context(), req)
		return asked(), err
	}
	for _, schema := range []string{
		"true", "false", "null", "[]", `"x"`, `{"bad":`, nested(9995),
	} {
		asked, err := ask(schema)
		wantInput(t, err, "")
		if !strings.Contains(err.Error(), `the tool "now"`) || len(asked) > 0 ||
			strings.Contains(err.Error(), "did not arrive") {
			t.Errorf("%.20s: after %d requests the error is %v", schema, len(asked), err)
		}
	}
	if asked, _ := ask(nested(9000)); len(asked) != 1 ||
		!strings.Contains(asked[0].body, nested(9000)) {
		t.Errorf("a schema of 9,000 levels was not sent")
	}
}

// TestIDs checks that two calls of one message that have the same id are sent with two, and that
// each has its own result, whether the Raw of the message is there or not.
func TestIDs(t *testing.T, f Form) {
	said := agent.Message{Role: session.MessageAssistant, ToolCalls: []agent.ToolCall{
		{ID: "a", Name: "now", Args: json.RawMessage(`{"n":1}`)},
		{ID: "a", Name: "now", Args: json.RawMessage(`{"n":2}`)},
	}}
	result := func(text string) agent.Message {
		return agent.Message{Role: session.MessageTool, ToolCallID: "a", Text: text}
	}
	for _, raw := range []string{"", f.TwoCalls} {
		m, asked := f.answered(t, Config{}, func(http.ResponseWriter) {})
		said.Raw = json.RawMessage(raw)
		req := f.request()
		req.Messages = append(req.Messages, said, result("one"), result("two"))
		if _, err := m.Generate(t.Context(), req); err == nil || len(asked()) != 1 {
			t.Fatalf("after %d requests the error is %v", len(asked()), err) // the server says nothing
		}
		sent := asked()[0].body
		first, last := strings.Index(sent, `"a"`), strings.LastIndex(sent, `"a"`)
		second, end := strings.Index(sent, `"a_2"`), strings.LastIndex(sent, `"a_2"`)
		if strings.Count(sent, `"a"`) != 2 || strings.Count(sent, `"a_2"`) != 2 ||
			first > second || last > end || second > last {
			t.Errorf("it was sent %s", sent)
		}
	}
}
