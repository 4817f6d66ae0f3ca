package provider

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
)

// answers is an [http.RoundTripper] that gives one answer.
type answers struct {
	status int
	header http.Header
	body   io.Reader
}

func (a answers) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: a.status, Header: a.header, Body: io.NopCloser(a.body),
	}, nil
}

// endless is a body without end that counts what was read of it.
type endless struct{ read int }

func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	e.read += len(p)
	return len(p), nil
}

// fetch returns what is read of an answer through a Transport.
func fetch(t *testing.T, tr *Transport) ([]byte, error) {
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://x.test", nil)
	require.NoError(t, err)
	resp, err := tr.RoundTrip(req)
	require.NoError(t, err)
	return io.ReadAll(resp.Body)
}

// The bytes up to the limit are read, whatever the sizes of the reads are, and no more are taken
// from the server than fit into one read.
func TestTransportBoundsAnAnswer(t *testing.T) {
	stream := http.Header{"Content-Type": {"text/event-stream; charset=utf-8"}}
	event := func(n int) string { return "data: " + strings.Repeat("x", n-8) + "\n\n" }
	for name, test := range map[string]struct {
		max      int64
		perEvent bool
		header   http.Header
		body     string
		want     int // bytes; -1: all of them, without an error
	}{
		"less":                     {10, false, nil, "123456789", -1},
		"as much":                  {10, false, nil, "1234567890", -1},
		"one more":                 {10, false, nil, "12345678901", 10},
		"nothing":                  {10, false, nil, "", -1},
		"the default":              {0, false, nil, strings.Repeat("x", 1<<20), -1},
		"a stream as a whole":      {50, false, stream, strings.Repeat(event(20), 3), 50},
		"each event":               {20, true, stream, strings.Repeat(event(20), 300), -1},
		"an event that is large":   {20, true, stream, event(20) + event(21), 20 + 20},
		"with carriage returns":    {24, true, stream, strings.Repeat("data: xxxxx\r\n\r\n", 99), -1},
		"lines without an end":     {24, true, stream, strings.Repeat("data: xx\n", 99), 24},
		"comments without an end":  {24, true, stream, strings.Repeat(": x\n", 99), 24},
		"carriage returns alone":   {24, true, stream, strings.Repeat("data: xxxxx\r\r", 99), -1},
		"one line of them":         {24, true, stream, strings.Repeat("data: xx\r", 99), 24},
		"JSON beside events":       {24, true, http.Header{"Content-Type": {"application/json"}}, strings.Repeat("[\n\n", 9), 24},
		"a type that is not valid": {24, true, http.Header{"Content-Type": {"text/event-stream; ="}}, strings.Repeat("[\n\n", 9), 24},
	} {
		for _, one := range []bool{false, true} {
			var body io.Reader = strings.NewReader(test.body)
			if one {
				body = iotest.OneByteReader(body)
			}
			want := test.body
			if test.perEvent {
				want = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(want)
			}
			got, err := fetch(t, &Transport{
				Base: answers{200, test.header, body}, Client: "c", MaxBytes: test.max,
				PerEvent: test.perEvent,
			})
			if test.want < 0 {
				require.NoError(t, err, name)
				require.Equal(t, want, string(got), name)
				continue
			}
			var size *SizeError
			require.ErrorAs(t, err, &size, name)
			require.Equal(t, SizeError{Client: "c", Limit: test.max}, *size, name)
			require.Equal(t, want[:test.want], string(got), name)
		}
	}
}

// A body is not read on behind the limit, and each further read fails.
func TestTransportStopsReading(t *testing.T) {
	for _, perEvent := range []bool{false, true} {
		body := &endless{}
		tr := &Transport{
			Base:     answers{200, http.Header{"Content-Type": {"text/event-stream"}}, body},
			MaxBytes: 1 << 16, PerEvent: perEvent,
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://x.test", nil)
		require.NoError(t, err)
		resp, err := tr.RoundTrip(req)
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, resp.Body)
		var size *SizeError
		require.ErrorAs(t, err, &size)
		read := body.read
		require.LessOrEqual(t, read, 1<<17)
		n, err := resp.Body.Read(make([]byte, 9))
		require.Zero(t, n)
		require.ErrorAs(t, err, &size)
		require.Equal(t, read, body.read)
	}
}

// Of an answer that is not one of success the beginning is read, and that is all of it.
func TestTransportCutsErrors(t *testing.T) {
	for _, status := range []int{199, 301, 400, 404, 500, 599} {
		body := &endless{}
		got, err := fetch(t, &Transport{Base: answers{status, nil, body}, MaxBytes: 1 << 30})
		require.NoError(t, err)
		require.Len(t, got, MaxErrorBytes)
		require.LessOrEqual(t, body.read, 2*MaxErrorBytes)
	}
}

// What has to do with the connection stays as it is.
func TestTransportPassesFailures(t *testing.T) {
	broken := errors.New("the line is cut")
	got, err := fetch(t, &Transport{Base: answers{200, nil, io.MultiReader(
		strings.NewReader("abc"), iotest.ErrReader(broken))}})
	require.Equal(t, "abc", string(got))
	require.ErrorIs(t, err, broken)

	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1:1", nil)
	require.NoError(t, err)
	resp, err := (&Transport{}).RoundTrip(req) //nolint:bodyclose // there is none
	require.Error(t, err)
	require.Nil(t, resp)
}

// A Bounded client has all else of the one that was given, which does not change.
func TestBounded(t *testing.T) {
	base := answers{200, nil, bytes.NewReader(make([]byte, 100))}
	given := &http.Client{Transport: base, Timeout: time.Minute}
	bounded := Bounded(given, "c", 10)
	require.Equal(t, time.Minute, bounded.Timeout)
	require.Equal(t, base, given.Transport)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://x.test", nil)
	require.NoError(t, err)
	resp, err := bounded.Do(req)
	require.NoError(t, err)
	_, err = io.ReadAll(resp.Body)
	require.NoError(t, resp.Body.Close())
	require.EqualError(t, err, "c: the server has sent more than 10 bytes, which is the limit")

	err = Broken(t.Context(), "c", fmt.Errorf("reading: %w", err))
	var size *SizeError
	require.ErrorAs(t, err, &size)
	require.False(t, agent.IsRetryable(err))
	require.NotNil(t, Bounded(nil, "c", 0).Transport)
	require.Nil(t, http.DefaultClient.Transport)
}

// A provider that sends what is not of an answer is told of with the bytes that it has sent since
// it last said something.
func TestWatchCountsBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, w := Begin(t.Context(), "c", time.Minute)
		defer w.End()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://x.test", nil)
		require.NoError(t, err)
		tr := &Transport{Base: answers{200, nil, &endless{}}}
		resp, err := tr.RoundTrip(req)
		require.NoError(t, err)
		_, err = io.CopyN(io.Discard, resp.Body, 1000)
		require.NoError(t, err)
		w.Heard()
		time.Sleep(30 * time.Second)
		_, err = io.ReadFull(resp.Body, make([]byte, 77))
		require.NoError(t, err)
		time.Sleep(31 * time.Second)
		require.True(t, agent.IsRetryable(context.Cause(ctx)))
		require.EqualError(t, context.Cause(ctx),
			"provider: c has got 77 bytes in 1m0s, and nothing of an answer in them")
	})
}

// A redirect of any kind is an error before a second request is made: to the same server, to
// another one, around in circles, or to an address that cannot be read.
func TestOneRequestFollowsNothing(t *testing.T) {
	for _, status := range []int{301, 302, 303, 307, 308} {
		for name, to := range map[string]string{
			"the same server": "/elsewhere", "a loop": "/", "another server": "http://other.test/",
			"no server": "http://", "not an address": "http://[",
		} {
			asked := 0
			server := httptest.NewServer(http.HandlerFunc(
				func(w http.ResponseWriter, _ *http.Request) {
					asked++
					w.Header().Set("Location", to)
					w.WriteHeader(status)
				}))
			followed := false
			given := server.Client()
			given.CheckRedirect = func(*http.Request, []*http.Request) error {
				followed = true
				return nil
			}
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL,
				strings.NewReader("my private words"))
			require.NoError(t, err)
			resp, err := OneRequest(given, "c").Do(req)
			if err == nil {
				require.NoError(t, resp.Body.Close())
			}
			server.Close()
			require.Error(t, err, name)
			require.False(t, followed, name)
			require.Equal(t, 1, asked, name)
			if name == "not an address" {
				continue // package http says that it cannot be read
			}
			var said *Error
			require.ErrorAs(t, err, &said, name)
			require.Equal(t, status, said.Status)
			require.False(t, agent.IsRetryable(err))
			require.ErrorContains(t, err, "which is not followed")
		}
	}
}

// A body that brings nothing, again and again, is told of to whatever reads it whole; one that does
// so for a while is read.
func TestTransportOfNothing(t *testing.T) {
	stream := http.Header{"Content-Type": {"text/event-stream"}}
	for _, status := range []int{200, 500} {
		for _, header := range []http.Header{nil, stream} {
			for _, perEvent := range []bool{false, true} {
				for _, nothing := range []int{maxEmpty - 1, maxEmpty} {
					body := &haltingReader{Reader: strings.NewReader("a\n"), nothing: nothing}
					got, err := fetch(t, &Transport{
						Base: answers{status, header, body}, Client: "c", PerEvent: perEvent,
					})
					if nothing == maxEmpty {
						require.ErrorIs(t, err, io.ErrNoProgress)
						continue
					}
					require.NoError(t, err)
					require.Equal(t, "a\n", string(got))
				}
			}
		}
	}
}
