package providertest

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/session"
)

// A Config is what the tests set in the Config of a client.
type Config struct {
	BaseURL  string
	HTTP     *http.Client
	Key      func(ctx context.Context) (string, error)
	Idle     time.Duration
	MaxBytes int64
}

// A Form is a client and the form of its provider. The answer in it has the Text and has used the
// Tokens.
type Form struct {
	// Client is the package of the client.
	Client string
	// New makes a Model of the client.
	New func(cfg Config) (agent.StreamModel, error)
	// Model is the name of one that the client takes.
	Model string
	// Begin are the events of the answer up to the one that says its end.
	Begin string
	// Finish says the end of the answer. Rest is what comes behind it.
	Finish, Rest string
	// Fault is the event with which the provider says that it has too much to do.
	Fault string
	// Floods are what a server of the provider may send without end, $BIG a large text in them.
	// Still is what adds nothing to an answer.
	Floods, Still map[string]Flood
	// TwoCalls is the Raw of an answer with two calls of the tool now that have the id a, and the
	// arguments {"n":1} and {"n":2}. Empty: there is none.
	TwoCalls string
}

// What the answer of a Form is.
const (
	Text   = "Noon."
	Tokens = 7 // of the output
)

// answer returns the whole answer.
func (f *Form) answer() string { return f.Begin + f.Finish + f.Rest }

// request returns what a model is asked.
func (f *Form) request() *agent.ModelRequest {
	return &agent.ModelRequest{
		Model: f.Model, Messages: []agent.Message{{Role: session.MessageUser, Text: "When?"}},
	}
}

// open returns a Model of a Config.
func (f *Form) open(t *testing.T, cfg Config) agent.StreamModel {
	t.Helper()
	m, err := f.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// serve returns a Model before a server that answers with a stream, which f writes.
func (f *Form) serve(
	t *testing.T, cfg Config, write func(ctx context.Context, w io.Writer),
) agent.StreamModel {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			if _, err := io.Copy(io.Discard, r.Body); err != nil {
				return
			}
			w.Header().Set("Content-Type", "text/event-stream")
			write(r.Context(), flushing{w})
		}))
	t.Cleanup(server.Close)
	cfg.BaseURL, cfg.HTTP = server.URL, server.Client()
	return f.open(t, cfg)
}

// flushing sends each piece at once.
type flushing struct{ http.ResponseWriter }

// Write sends a piece.
func (w flushing) Write(p []byte) (int, error) {
	n, err := w.ResponseWriter.Write(p)
	if err == nil {
		err = http.NewResponseController(w.ResponseWriter).Flush()
	}
	return n, err
}

// saysOnce fails the test if an error names the client more than once.
func (f *Form) saysOnce(t *testing.T, err error) {
	t.Helper()
	if err != nil && strings.Count(err.Error(), f.Client) > 1 {
		t.Errorf("the error names the client more than once: %v", err)
	}
}

// wantAnswer fails the test unless a call has come to the answer of a Form.
func wantAnswer(t *testing.T, resp *agent.ModelResponse, err error) {
	t.Helper()
	if err != nil {
		t.Errorf("the call failed: %v", err)
	} else if resp == nil || resp.Text != Text {
		t.Errorf("the answer is %+v, want the text %q", resp, Text)
	}
}
