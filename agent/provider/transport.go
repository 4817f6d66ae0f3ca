package provider

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"io"
	"mime"
	"net/http"
)

// DefaultMaxBytes is how many bytes of an answer are read, unless a client says otherwise. A piece
// of a stream has a frame of about 300 bytes around it, so that this is some 200,000 tokens.
const DefaultMaxBytes = 64 << 20

// MaxErrorBytes is how many bytes are read of an answer whose status is not one of success. What is
// behind them is left out, and the status counts.
const MaxErrorBytes = 64 << 10

// A SizeError says that a server has sent more than is read. It is not worth another try, which
// would come to the same.
type SizeError struct {
	Client string // the package of the client
	Limit  int64  // in bytes
	Line   bool   // it is one line that has more: the error is a bufio.ErrTooLong, too
}

// MaxLine is how many bytes a line of an answer has at most: so many the official clients read.
const MaxLine = 32 << 20

// Error says how much is read.
func (e *SizeError) Error() string {
	if e.Line {
		return fmt.Sprintf("%s: the server has sent a line of more than %d bytes, which is the limit",
			e.Client, e.Limit)
	}
	return fmt.Sprintf("%s: the server has sent more than %d bytes, which is the limit", e.Client,
		e.Limit)
}

// Unwrap returns [bufio.ErrTooLong] for a line, or nil.
func (e *SizeError) Unwrap() error {
	if e.Line {
		return bufio.ErrTooLong
	}
	return nil
}

// A Transport is an [http.RoundTripper] that bounds what is read of each answer, as it is without
// its compression. So a server decides neither how much memory a call takes, nor that it never
// ends. The zero Transport reads DefaultMaxBytes through [http.DefaultTransport]. It starts
// nothing, and may be used by several goroutines at once if its Base may.
//
// A read behind the limit fails with a *[SizeError], and all that follow do. An answer whose status
// is not 2xx ends after [MaxErrorBytes] as if nothing was behind them. A body that brings nothing,
// 100 times in a row, fails with [io.ErrNoProgress]. The bytes of a call that has a [Watch] are
// counted by it.
type Transport struct {
	Base     http.RoundTripper // nil: http.DefaultTransport
	Client   string            // the package of the client, for the SizeError
	MaxBytes int64             // from 1; 0: DefaultMaxBytes
	// PerEvent says that MaxBytes bounds each event of an answer of the type text/event-stream, and
	// not all of it: for a stream that is open for as long as the connection. Each line of such an
	// answer ends with LF, where the server has ended it with CR or CRLF.
	PerEvent bool
}

// RoundTrip makes the request.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := orDefault(t.Base).RoundTrip(r)
	if err != nil || resp == nil || resp.Body == nil { // package http tells of one that is nil
		return resp, err
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		resp.Body = &boundedBody{
			ReadCloser: resp.Body, limit: MaxErrorBytes, over: io.EOF, watch: watchOf(r.Context()),
		}
		return resp, nil
	}
	limit := cmp.Or(t.MaxBytes, DefaultMaxBytes)
	mediaType, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	body := &boundedBody{
		ReadCloser: resp.Body, limit: limit, over: &SizeError{Client: t.Client, Limit: limit},
		perEvent: t.PerEvent && err == nil && mediaType == "text/event-stream",
		watch:    watchOf(r.Context()),
	}
	if body.perEvent {
		body.ReadCloser = struct {
			io.Reader
			io.Closer
		}{&lineReader{from: resp.Body}, resp.Body}
	}
	resp.Body = body
	return resp, nil
}

// A boundedBody is the body of an answer of which a limited number of bytes is read.
type boundedBody struct {
	io.ReadCloser

	limit    int64
	over     error // what a read behind the limit returns
	perEvent bool
	watch    *Watch // may be nil

	count  int64 // bytes of the body, or of the event that has begun
	inLine bool  // the line that has begun is not empty
	empty  int   // reads in a row that brought nothing
	ended  bool
}

// Read reads up to the limit.
func (b *boundedBody) Read(p []byte) (int, error) {
	if b.ended {
		return 0, b.over
	}
	n, err := b.ReadCloser.Read(p)
	if b.watch != nil {
		b.watch.bytes.Add(int64(n))
	}
	if within := b.take(p[:n]); within < n {
		b.ended = true
		return within, b.over
	}
	switch {
	case n > 0 || err != nil || len(p) == 0:
		b.empty = 0
	default:
		if b.empty++; b.empty >= maxEmpty {
			err = io.ErrNoProgress
		}
	}
	return n, err
}

// take counts bytes, and returns how many of them are within the limit.
func (b *boundedBody) take(p []byte) int {
	for at := 0; at < len(p); {
		line := len(p) - at // up to the end of a line, or of what there is
		whole := false
		if b.perEvent {
			if i := bytes.IndexByte(p[at:], '\n'); i >= 0 {
				line, whole = i+1, true
			}
		}
		if left := b.limit - b.count; int64(line) > left {
			return at + int(left)
		}
		b.count += int64(line)
		b.inLine = b.inLine || len(bytes.Trim(p[at:at+line], "\r\n")) > 0
		if whole {
			if !b.inLine {
				b.count = 0 // an empty line ends an event
			}
			b.inLine = false
		}
		at += line
	}
	return len(p)
}

// copyOf returns a copy of h, or of [http.DefaultClient] for nil.
func copyOf(h *http.Client) http.Client {
	if h == nil {
		h = http.DefaultClient
	}
	return *h
}

// orDefault returns base, or [http.DefaultTransport] for nil.
func orDefault(base http.RoundTripper) http.RoundTripper {
	if base == nil {
		return http.DefaultTransport
	}
	return base
}
