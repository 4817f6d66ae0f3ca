package providertest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/provider"
)

// TestEnds checks how an answer ends: whatever the connection does behind its end changes nothing,
// whether what it has used has come or not. Before its end, each of these costs a try, and so does
// what the provider reports as an error.
func TestEnds(t *testing.T, f Form) {
	again := func(text string) func(context.Context, io.Writer) {
		return func(ctx context.Context, w io.Writer) {
			for ctx.Err() == nil {
				if _, err := io.WriteString(w, text); err != nil {
					return
				}
				time.Sleep(time.Millisecond)
			}
		}
	}
	for name, behind := range map[string]func(ctx context.Context, w io.Writer){
		"it ends":    func(context.Context, io.Writer) {},
		"it stays":   func(ctx context.Context, _ io.Writer) { <-ctx.Done() },
		"it breaks":  func(context.Context, io.Writer) { panic(http.ErrAbortHandler) },
		"no event":   func(_ context.Context, w io.Writer) { fmt.Fprint(w, "no event\n\n") },
		"half a one": func(_ context.Context, w io.Writer) { fmt.Fprint(w, `data: {"type":`) },
		"no JSON": func(_ context.Context, w io.Writer) {
			fmt.Fprint(w, "event: odd\ndata: {\"type\":\n\n")
		},
		"comments":      again(": still here\n\n"),
		"its end":       again(f.Finish),
		"it has failed": func(_ context.Context, w io.Writer) { fmt.Fprint(w, f.Fault) },
	} {
		for at, sent := range map[string]string{
			"nothing": "", "before": f.Begin, "behind": f.Begin + f.Finish, "rest": f.answer(),
		} {
			isComplete := strings.HasPrefix(sent, f.Begin+f.Finish)
			isFault := name == "it has failed" && (at != "rest" && f.Rest != "" || !isComplete)
			if name == "its end" && !isComplete {
				continue
			}
			t.Run(name+", "+at, func(t *testing.T) {
				t.Parallel()
				m := f.serve(t, Config{Idle: 300 * time.Millisecond},
					func(ctx context.Context, w io.Writer) {
						if _, err := io.WriteString(w, sent); err == nil {
							behind(ctx, w)
						}
					})
				resp, err := m.Generate(t.Context(), f.request())
				f.saysOnce(t, err)
				_, isReported := errors.AsType[*provider.Error](err)
				switch {
				case !isComplete || isFault:
					if resp != nil || !agent.IsRetryable(err) || isFault != isReported {
						t.Errorf("it came to %+v and the error %v", resp, err)
					}
				default:
					wantAnswer(t, resp, err)
					if at == "rest" && resp != nil && resp.Usage.Output != Tokens {
						t.Errorf("it has used %+v", resp.Usage)
					}
				}
			})
		}
	}
}

// TestSilence checks how long a server is waited for that stays open and says nothing more: behind
// the end of an answer ten seconds, whatever the Idle of the Config is, and then the answer counts.
func TestSilence(t *testing.T, f Form) {
	for sent, isComplete := range map[string]bool{f.Begin: false, f.Begin + f.Finish: true} {
		for _, idle := range []time.Duration{-1, time.Hour, time.Second} {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Hour)
				defer cancel()
				m := f.open(t, Config{BaseURL: "http://model.test", Idle: idle, HTTP: &http.Client{
					Transport: streaming(func(ctx context.Context) io.Reader {
						return io.MultiReader(strings.NewReader(sent), silence{ctx})
					}),
				}})
				began := time.Now()
				resp, err := m.Generate(ctx, f.request())
				took := time.Since(began)
				if !isComplete {
					if err == nil || idle > 0 && (took != idle || !agent.IsRetryable(err)) {
						t.Errorf("Idle %v: after %v it came to %+v and the error %v", idle, took, resp, err)
					}
					return
				}
				wantAnswer(t, resp, err)
				if took > 10*time.Second {
					t.Errorf("Idle %v: the answer came after %v", idle, took)
				}
			})
		}
	}
}

// silence is a body that says nothing until the call is over.
type silence struct {
	ctx context.Context //nolint:containedctx // it is that of the request whose body it is
}

// Read waits for the end of the call.
func (s silence) Read([]byte) (int, error) {
	<-s.ctx.Done()
	return 0, s.ctx.Err()
}

// TestLines checks that the lines of a stream may end with LF, CRLF or CR, and that an event may
// lack the line with its name. An error of the provider is found in each of these.
func TestLines(t *testing.T, f Form) {
	nameless := func(text string) string {
		var out strings.Builder
		for line := range strings.Lines(text) {
			if !strings.HasPrefix(line, "event:") {
				out.WriteString(line)
			}
		}
		return out.String()
	}
	for name, form := range map[string]func(string) string{
		"LF":       func(s string) string { return s },
		"CRLF":     func(s string) string { return strings.ReplaceAll(s, "\n", "\r\n") },
		"CR":       func(s string) string { return strings.ReplaceAll(s, "\n", "\r") },
		"mixed":    func(s string) string { return strings.ReplaceAll(s, "\n\n", "\r\r\n") },
		"nameless": nameless,
		"ids": func(s string) string {
			return ": hello\n\nid: 1\n\n" + strings.ReplaceAll(nameless(s), "data:", "id: 2\ndata:")
		},
		"messages": func(s string) string { return "\uFEFF" + named(nameless(s)) },
		"behind":   func(s string) string { return strings.ReplaceAll(s, "\n\n", "\nretry: 5\n\n") },
	} {
		for _, isFault := range []bool{false, true} {
			text := f.answer()
			if isFault {
				text = f.Begin + f.Fault
			}
			text = form(text)
			for size, pieces := range map[string]func(io.Reader) io.Reader{
				"whole":     func(r io.Reader) io.Reader { return r },
				"by byte":   iotest.OneByteReader,
				"by halves": iotest.HalfReader,
			} {
				m := f.open(t, Config{BaseURL: "http://model.test", HTTP: &http.Client{
					Transport: streaming(func(context.Context) io.Reader {
						return pieces(strings.NewReader(text))
					}),
				}})
				t.Run(fmt.Sprintf("%s, %s, fault %t", name, size, isFault), func(t *testing.T) {
					resp, err := m.Generate(t.Context(), f.request())
					if !isFault {
						wantAnswer(t, resp, err)
						if resp != nil && resp.Usage.Output != Tokens {
							t.Errorf("it has used %+v", resp.Usage)
						}
						return
					}
					said, ok := errors.AsType[*provider.Error](err)
					if !ok || !agent.IsRetryable(err) || !strings.Contains(said.Message, "verload") {
						t.Errorf("it came to %+v and the error %v", resp, err)
					}
				})
			}
		}
	}
}

// named gives each event the name that events have which have none.
func named(text string) string { return strings.ReplaceAll(text, "data:", "event: message\ndata:") }

// streaming is an [http.RoundTripper] whose answers are streams.
type streaming func(ctx context.Context) io.Reader

// RoundTrip returns the next answer.
func (s streaming) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}},
		Body: io.NopCloser(s(r.Context())), Request: r,
	}, nil
}
