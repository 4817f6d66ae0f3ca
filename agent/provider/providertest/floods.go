package providertest

import (
	"bufio"
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/provider"
)

// A Flood is what a server sends without end: a beginning, and then the same again and again.
type Flood struct{ Begin, More string }

const (
	// most is how many bytes a Flood would have.
	most = 300 << 20
	// buffered is how many may be under way to a client that does not read them.
	buffered = 16 << 20
)

// drown makes a call before a server that sends a Flood, and returns how much that could send.
func (f *Form) drown(t *testing.T, cfg Config, status int, flood Flood) (sent int64, err error) {
	t.Helper()
	var n atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.WriteHeader(status)
		for piece := flood.Begin; n.Load() < most; piece = flood.More {
			wrote, err := io.WriteString(w, piece)
			if n.Add(int64(wrote)); err != nil {
				return
			}
		}
	}))
	cfg.BaseURL, cfg.HTTP = server.URL, server.Client()
	_, err = f.open(t, cfg).Generate(t.Context(), f.request())
	server.Close() // waits for the server
	return n.Load(), err
}

// wantSize fails the test unless a call has ended over a limit, and was not much behind it.
func (f *Form) wantSize(t *testing.T, sent int64, err error, limit int64, isLine bool) {
	t.Helper()
	want := provider.SizeError{Client: f.Client, Limit: limit, Line: isLine}
	if size, ok := errors.AsType[*provider.SizeError](err); !ok || *size != want ||
		errors.Is(err, bufio.ErrTooLong) != isLine {
		t.Errorf("the error is %v, want %v", err, &want)
	}
	wantFinal(t, err)
	if sent > max(limit, provider.DefaultMaxBytes)+buffered {
		t.Errorf("the server could send %d bytes", sent)
	}
}

// TestFloods checks that the bytes that are read of an answer are bounded, whatever they are, with
// the MaxBytes of a Config and without, and that an error without end is the error that its
// beginning is.
func TestFloods(t *testing.T, f Form) {
	big := strings.Repeat("y", 64<<10)
	floods := map[string]Flood{
		"comments":             {"", ": " + big + "\n\n"},
		"an event without end": {"", "data: " + big + "\n"},
		"a line without end":   {"data: ", big},
		"empty lines":          {"", strings.Repeat("\n", 64<<10)},
	}
	for name, form := range f.Floods {
		floods[name] = Flood{form.Begin, strings.ReplaceAll(form.More, "$BIG", big)}
	}
	for name, flood := range floods {
		t.Run(name, func(t *testing.T) {
			sent, err := f.drown(t, Config{MaxBytes: 1 << 20}, http.StatusOK, flood)
			f.wantSize(t, sent, err, 1<<20, false)
			if sent > 1<<20+buffered {
				t.Errorf("the server could send %d bytes", sent)
			}
		})
	}
	sent, err := f.drown(t, Config{}, http.StatusOK, floods["comments"])
	f.wantSize(t, sent, err, provider.DefaultMaxBytes, false)
	sent, err = f.drown(t, Config{}, http.StatusOK, floods["a line without end"])
	f.wantSize(t, sent, err, provider.MaxLine, true)
	for _, begin := range []string{"", `{"type":"error","error":{"type":"x","message":"`} {
		sent, err := f.drown(t, Config{}, http.StatusServiceUnavailable, Flood{begin, big})
		said, ok := errors.AsType[*provider.Error](err)
		if !ok || said.Status != http.StatusServiceUnavailable || !agent.IsRetryable(err) ||
			len(err.Error()) > 1200 || sent > buffered {
			t.Errorf("the server could send %d bytes, and the error is %v", sent, err)
		}
	}
}

// TestStillness checks that a server which sends again and again what adds nothing to an answer has
// gone silent, and that the error says how much it has sent.
func TestStillness(t *testing.T, f Form) {
	still := map[string]Flood{"comments": {"", ": still here\n\n"}}
	maps.Copy(still, f.Still)
	for name, flood := range still {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := f.open(t, Config{
					BaseURL: "http://model.test", Idle: time.Minute,
					HTTP: &http.Client{Transport: streaming(func(ctx context.Context) io.Reader {
						return io.MultiReader(
							strings.NewReader(flood.Begin), &ticking{ctx, flood.More})
					})},
				})
				began := time.Now()
				resp, err := m.Generate(t.Context(), f.request())
				if took := time.Since(began); resp != nil || took > 2*time.Minute ||
					!agent.IsRetryable(err) ||
					!strings.Contains(err.Error(), "bytes in 1m0s, and nothing of an answer in them") {
					t.Errorf("after %v it came to %+v and the error %v", took, resp, err)
				}
			})
		})
	}
}

// A ticking is a body that says the same every second, until the call is over.
type ticking struct {
	ctx  context.Context //nolint:containedctx // it is that of the request whose body it is
	text string
}

// Read waits, and says it.
func (b *ticking) Read(p []byte) (int, error) {
	select {
	case <-b.ctx.Done():
		return 0, b.ctx.Err()
	case <-time.After(time.Second):
		return copy(p, b.text), nil
	}
}
