package anthropicmodel

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"github.com/offshoot-sdk/offshoot/agent/provider"
)

// named returns a copy of h whose streams name each of their events. A server, or what stands
// before it, may leave the line with the name out: the data says it again, and the official client
// passes an event without one over, an error, too.
func named(h *http.Client) *http.Client {
	c := *h
	c.Transport = namingTransport{c.Transport}
	return &c
}

// A namingTransport is the http.RoundTripper of named.
type namingTransport struct{ base http.RoundTripper }

// RoundTrip makes the request.
func (t namingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.base.RoundTrip(r)
	if err == nil && resp != nil && resp.Body != nil {
		resp.Body = &namedBody{
			ReadCloser: resp.Body, from: bufio.NewReaderSize(resp.Body, 32<<10), isBegin: true,
		}
	}
	return resp, err
}

// A namedBody is a stream in which each event has a name, if its data has one.
type namedBody struct {
	io.ReadCloser

	from    *bufio.Reader
	isBegin bool   // what is read next begins a line
	inEvent bool   // the event that has begun has a name, or can have none
	held    []byte // of an event that has begun without one
	ready   []byte
	err     error // behind ready
}

// Read reads lines.
func (b *namedBody) Read(p []byte) (int, error) {
	for len(b.ready) == 0 {
		if b.err != nil {
			return 0, b.err
		}
		piece, err := b.from.ReadSlice('\n')
		b.take(piece)
		if b.isBegin = err == nil; err == nil || errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		b.ready, b.held, b.err = append(b.ready, b.held...), nil, err // it has broken off
	}
	n := copy(p, b.ready)
	b.ready = b.ready[n:]
	return n, nil
}

// take takes a line, or a piece of a long one. Of an event without a name, lines are held back
// until it ends or has one.
func (b *namedBody) take(piece []byte) {
	isEmpty := b.isBegin && string(piece) == "\n"
	isName := b.isBegin && bytes.HasPrefix(piece, []byte("event:"))
	switch {
	case isEmpty:
		b.ready = append(withName(b.held), piece...)
		b.held, b.inEvent = nil, false
	case isName, b.inEvent, len(b.held)+len(piece) > provider.MaxLine:
		b.ready = append(b.held, piece...)
		b.held, b.inEvent = nil, true
	default:
		b.held = append(b.held, piece...)
	}
}

// withName returns the lines of an event behind its name, which is the type in its data. What is an
// error and does not say so is one, too.
func withName(lines []byte) []byte {
	var data []byte
	for line := range bytes.Lines(lines) {
		if said, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			data = append(data, said...)
		}
	}
	var of struct {
		Type  string
		Error json.RawMessage
	}
	if json.Unmarshal(data, &of) != nil {
		return lines
	}
	if of.Type == "" && len(of.Error) > 0 && string(of.Error) != "null" {
		of.Type = "error"
	}
	if of.Type == "" || bytes.ContainsAny([]byte(of.Type), "\r\n") {
		return lines
	}
	return append([]byte("event: "+of.Type+"\n"), lines...)
}
