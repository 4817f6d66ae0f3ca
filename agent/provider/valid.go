package provider

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"unicode/utf8"
)

// ValidUTF8 returns a copy of h, or of [http.DefaultClient] for nil, that reads each answer as
// valid UTF-8: each run of bytes that are none is one U+FFFD. A client that keeps texts of an
// answer as they came would send such bytes back, and a provider refuses a request that has one,
// again with each call of the conversation. A character that a server splits, with the rest of an
// event between its bytes, is lost.
func ValidUTF8(h *http.Client) *http.Client {
	valid := copyOf(h)
	valid.Transport = validTransport{base: valid.Transport}
	return &valid
}

// A validTransport is the http.RoundTripper of ValidUTF8.
type validTransport struct {
	base http.RoundTripper // nil: http.DefaultTransport
}

// RoundTrip makes the request.
func (t validTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := orDefault(t.base).RoundTrip(r)
	if err == nil && resp != nil && resp.Body != nil {
		ctx := r.Context()
		resp.Body, resp.ContentLength = &validBody{
			ReadCloser: resp.Body, ended: func() error { return context.Cause(ctx) },
		}, -1
	}
	return resp, err
}

// A validBody is the body of an answer in valid UTF-8.
type validBody struct {
	io.ReadCloser

	ended func() error // why the call has ended; nil: it has not

	buf   []byte // that raw, and out where it was valid, are parts of
	raw   []byte // a character of which the end has not come
	out   []byte // what has not been read
	inRun bool   // the last byte was not UTF-8
	err   error  // what a read behind out returns
}

// readBytes is how many bytes of an answer are read at once.
const readBytes = 32 << 10

// maxEmpty is how many reads in a row may bring nothing, as package bufio has it.
const maxEmpty = 100

// Read reads what is valid. A body of the program that brings nothing, again and again, fails with
// [io.ErrNoProgress], or with why the call has ended.
func (b *validBody) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for empty := 0; len(b.out) == 0; {
		if b.err != nil {
			return 0, b.err
		}
		if b.buf == nil {
			b.buf = make([]byte, readBytes)
		}
		have := copy(b.buf, b.raw)
		n, err := b.ReadCloser.Read(b.buf[have:])
		b.take(b.buf[:have+n], err != nil)
		b.err = err
		if n > 0 || err != nil {
			empty = 0
			continue
		}
		if empty++; empty == maxEmpty {
			b.err = io.ErrNoProgress
		}
		if why := b.ended(); why != nil {
			b.err = why
		}
	}
	n := copy(p, b.out)
	b.out = b.out[n:]
	return n, nil
}

// take takes what was read. What may be the beginning of a character waits, unless it is the end.
func (b *validBody) take(in []byte, isEnd bool) {
	b.raw, b.out = nil, nil
	if utf8.Valid(in) {
		b.out, b.inRun = in, b.inRun && len(in) == 0
		return
	}
	for len(in) > 0 {
		r, size := utf8.DecodeRune(in)
		switch isBad := r == utf8.RuneError && size == 1; {
		case isBad && !isEnd && !utf8.FullRune(in):
			b.raw = in
			return
		case !isBad:
			b.out = append(b.out, in[:size]...)
		case !b.inRun:
			b.out = utf8.AppendRune(b.out, utf8.RuneError)
		}
		b.inRun = r == utf8.RuneError && size == 1
		in = in[size:]
	}
}

// ValidJSON returns a JSON value of a transcript in valid UTF-8, as a request must have it: each
// run of bytes that are none is one U+FFFD. A value that is valid is returned as it is.
func ValidJSON(value json.RawMessage) json.RawMessage {
	if utf8.Valid(value) {
		return value
	}
	return bytes.ToValidUTF8(value, []byte(string(utf8.RuneError)))
}
