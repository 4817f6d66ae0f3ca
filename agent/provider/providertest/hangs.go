package providertest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/provider"
	"github.com/offshoot-sdk/offshoot/session"
)

// A program is the http.Client and the Key of a program, one part of which does not do what it
// must.
type program struct {
	where string
	does  func()
	sent  string // what is read before that
}

func (p *program) at(where string) {
	if p.where == where {
		p.does()
	}
}

// RoundTrip implements [http.RoundTripper].
func (p *program) RoundTrip(r *http.Request) (*http.Response, error) {
	p.at("RoundTrip")
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{
			"Content-Type": {"text/event-stream"}, "Set-Cookie": {"a=b"},
		},
		Body: &programBody{strings.NewReader(p.sent), p}, Request: r,
	}, nil
}

// A programBody is the body of its answers.
type programBody struct {
	text *strings.Reader
	of   *program
}

// Read reads what is sent, and then does what it must not.
func (b *programBody) Read(p []byte) (int, error) {
	if b.text.Len() == 0 {
		b.of.at("Read")
		return 0, io.ErrUnexpectedEOF
	}
	return b.text.Read(p)
}

// Close implements [io.Closer].
func (b *programBody) Close() error {
	b.of.at("Close")
	return nil
}

// SetCookies implements [http.CookieJar].
func (p *program) SetCookies(*url.URL, []*http.Cookie) { p.at("SetCookies") }

// Cookies implements [http.CookieJar].
func (p *program) Cookies(*url.URL) []*http.Cookie {
	p.at("Cookies")
	return nil
}

// config returns the Config of the client.
func (p *program) config(idle time.Duration) Config {
	return Config{
		BaseURL: "http://model.test", HTTP: &http.Client{Transport: p, Jar: p}, Idle: idle,
		Key: func(context.Context) (string, error) {
			p.at("Key")
			return "hunter2-of-a-program", nil
		},
	}
}

// places are where a program may misbehave.
var places = []string{"RoundTrip", "Read", "Close", "SetCookies", "Cookies", "Key"}

// TestHangs checks that a call ends when its ctx ends, a server has been silent for the Idle, or
// the caller wants no more, a second later at most, although code of the program ignores that.
func TestHangs(t *testing.T, f Form) {
	for _, where := range places {
		for _, how := range []string{"timeout", "cancel", "idle", "stop"} {
			if where == "Key" && how == "idle" || where != "Read" && where != "Close" && how == "stop" {
				continue // nothing is silent, or said
			}
			t.Run(where+", "+how, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { testHang(t, f, where, how) })
			})
		}
	}
}

// testHang makes a call whose code hangs in one place, and ends it in one way.
func testHang(t *testing.T, f Form, where, how string) {
	const limit = 5 * time.Second
	goOn := make(chan struct{})
	p := &program{where: where, does: func() { <-goOn }, sent: f.Begin}
	idle := time.Duration(-1)
	if how == "idle" {
		idle = limit
	}
	m := f.open(t, p.config(idle))
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	gone := errors.New("the caller has gone")
	switch how {
	case "timeout":
		defer time.AfterFunc(limit, func() { cancel(context.DeadlineExceeded) }).Stop()
	case "cancel":
		defer time.AfterFunc(limit, func() { cancel(gone) }).Stop()
	}
	began, yields := time.Now(), 0
	var failed error
	for _, err := range m.Stream(ctx, f.request()) {
		failed = err
		if yields++; how == "stop" {
			break
		}
	}
	took := time.Since(began)
	close(goOn) // and the code returns, before the bubble ends
	if took > limit+time.Second {
		t.Errorf("the call took %v", took)
	}
	hangs, ok := errors.AsType[*provider.HangError](failed)
	switch {
	case how == "stop":
		if failed != nil || yields != 1 {
			t.Errorf("it yielded %d times, and the error %v", yields, failed)
		}
	case !ok || !strings.Contains(failed.Error(), "does not return"):
		t.Errorf("the error is %v, want a HangError", failed)
	case how == "cancel" && !errors.Is(hangs, gone),
		how == "timeout" && !errors.Is(hangs, context.DeadlineExceeded),
		agent.IsRetryable(failed) != (how == "idle"):
		t.Errorf("the error is %v after the end by %s", failed, how)
	}
}

// TestHangsBehindTheEnd checks that a call whose answer is complete comes to it although the body
// hangs behind that, and that the session is named until the body has returned.
func TestHangsBehindTheEnd(t *testing.T, f Form) {
	for _, where := range []string{"Read", "Close"} {
		for name, sent := range map[string]string{
			"end": f.Begin + f.Finish, "whole": f.answer(),
		} {
			t.Run(where+", "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					goOn := make(chan struct{})
					p := &program{where: where, does: func() { <-goOn }, sent: sent}
					began := time.Now()
					resp, err := f.open(t, p.config(-1)).Generate(t.Context(), f.request())
					took := time.Since(began)
					close(goOn)
					wantAnswer(t, resp, err)
					if took > 12*time.Second {
						t.Errorf("the call took %v", took)
					}
					if name == "whole" && err == nil && resp.Usage.Output != Tokens {
						t.Errorf("it has used %+v, want %d tokens of the output", resp.Usage, Tokens)
					}
				})
			})
		}
	}
}

// TestFalls checks that a panic of code of the program is one of the call, with the stack of that
// code, and that the end of its goroutine is that of the caller's.
func TestFalls(t *testing.T, f Form) {
	for _, where := range places {
		for name, does := range map[string]func(){
			"panic": func() { panic("the line fell") }, "exit": runtime.Goexit,
		} {
			t.Run(where+", "+name, func(t *testing.T) {
				m := f.open(t, (&program{where: where, does: does, sent: f.answer()}).config(0))
				var value any
				returned := false
				done := make(chan struct{})
				go func() { // it ends with the call
					defer close(done)
					defer func() { value = recover() }()
					_, err := m.Generate(t.Context(), f.request())
					returned = err == nil || where == "Close" || where == "Read"
				}()
				<-done
				said := fmt.Sprint(value)
				if where == "Read" && returned {
					return // the answer was there
				}
				isTold := strings.Contains(said, "the line fell") &&
					strings.Contains(said, "providertest.(*program).at")
				if returned || isTold != (name == "panic") || (value == nil) == (name == "panic") {
					t.Errorf("returned %t, the panic is %s", returned, said)
				}
			})
		}
	}
}

// TestLeft checks that Stop names a session whose model calls code that does not return, until it
// has, and that its turns go on meanwhile.
func TestLeft(t *testing.T, f Form) {
	for _, where := range []string{"RoundTrip", "Read", "Close"} {
		t.Run(where, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testLeft(t, f, where) })
		})
	}
}

func testLeft(t *testing.T, f Form, where string) {
	goOn := make(chan struct{})
	p := &program{where: where, does: func() { <-goOn }, sent: f.Begin}
	rt, err := agent.Open(t.Context(), agent.Config{
		Runner: &agent.Loop{Model: f.open(t, p.config(time.Second))},
		Models: agent.Models{Model: f.Model}, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- rt.Run(ctx) }()
	chat := rt.Session(session.Must(session.DirectKey("main", "test", "1")))
	for range 2 {
		if _, err := chat.PostAndWait(ctx, agent.Incoming{Text: "When?"}); err != nil {
			t.Errorf("the turn did not come to its end: %v", err)
		}
		still, ok := errors.AsType[*agent.StillRunningError](chat.Stop(ctx))
		if !ok || len(still.Sessions) != 1 || still.Sessions[0] != chat.Key() {
			t.Errorf("Stop returned %v", still)
		}
	}
	close(goOn)
	synctest.Wait()
	if err := chat.Stop(ctx); err != nil {
		t.Errorf("Stop returned %v when all had returned", err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("Run returned %v", err)
	}
}
