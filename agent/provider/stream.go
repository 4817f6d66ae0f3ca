package provider

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"
)

// Streamed returns a copy of h, or of [http.DefaultClient] for nil, that takes an answer with a
// status of success only as a stream of events. Another one, such as a page, a JSON object or
// nothing, is an *[Error] of its status with the type of its content and the words in it, of which
// [MaxErrorBytes] are read. It is not worth another try. An answer that has another type, or none,
// and begins as a stream is one.
//
// The say gets that Error and what was read. If that is an error in the form of the provider, say
// sets its Code and Class, and returns the words. Else it returns nothing. The client is the
// package whose call it is.
func Streamed(
	h *http.Client, client string, say func(e *Error, body []byte) (words string),
) *http.Client {
	streamed := copyOf(h)
	streamed.Transport = streamTransport{base: streamed.Transport, client: client, say: say}
	return &streamed
}

// A streamTransport is the http.RoundTripper of Streamed.
type streamTransport struct {
	base   http.RoundTripper // nil: http.DefaultTransport
	client string
	say    func(e *Error, body []byte) string
}

// RoundTrip makes the request.
func (t streamTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := orDefault(t.base).RoundTrip(r)
	if err != nil || resp.StatusCode < 200 || resp.StatusCode >= 400 ||
		resp.StatusCode >= 300 && resp.Header.Get("Location") != "" { // of a redirect
		return resp, err
	}
	isOK := resp.StatusCode < 300 && resp.StatusCode != http.StatusNoContent
	said := resp.Header.Get("Content-Type")
	if mediaType, _, err := mime.ParseMediaType(said); isOK && err == nil &&
		mediaType == "text/event-stream" {
		return resp, nil
	}
	body := bufio.NewReader(resp.Body)
	if isOK && beginsStream(body) {
		resp.Body = struct {
			io.Reader
			io.Closer
		}{body, resp.Body}
		return resp, nil
	}
	text, err := io.ReadAll(io.LimitReader(body, MaxErrorBytes))
	_ = resp.Body.Close()
	switch {
	case r.Context().Err() != nil:
		return nil, context.Cause(r.Context())
	case err != nil && len(text) == 0:
		return nil, err
	}
	return nil, t.errorOf(resp, said, text)
}

// errorOf returns the Error of an answer that is not a stream.
func (t streamTransport) errorOf(resp *http.Response, mediaType string, body []byte) *Error {
	e := &Error{
		Client: t.client, Status: resp.StatusCode, After: After(resp.Header, time.Now()),
		Class: ClassRefused,
	}
	words := t.say(e, body)
	if words == "" {
		words = strings.TrimSpace(string(body))
	}
	of := "without a type"
	if mediaType != "" {
		of = fmt.Sprintf("of the type %.100q", mediaType)
	}
	e.Message = "the answer is " + of + " and not a stream of events"
	if words == "" {
		e.Message += ": it is empty"
	} else {
		e.Message += ": " + words
	}
	return e
}

// beginsStream reports whether a text begins as a stream of events, behind white space, which it
// takes.
func beginsStream(b *bufio.Reader) bool {
	for {
		next, err := b.Peek(1)
		if err != nil {
			return false
		}
		if !strings.ContainsRune(" \t\r\n", rune(next[0])) {
			break
		}
		if _, err := b.Discard(1); err != nil {
			return false
		}
	}
	if next, _ := b.Peek(1); string(next) == ":" {
		return true
	}
	for _, field := range []string{"id:", "data:", "event:", "retry:"} {
		next, err := b.Peek(len(field))
		if string(next) == field {
			return true
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return false
		}
	}
	return false
}
