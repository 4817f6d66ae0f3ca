package provider

import (
	"bufio"
	"bytes"
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
// and begins as a stream is one, and one that begins as a page or a JSON value is none, whatever
// its type says. A byte order mark before either is left out, and each line of a stream ends with
// LF, where the server has ended it with CR or CRLF.
//
// An answer with any other status, but for a redirect, is an *[Error] of that with the words in it.
//
// The say gets that Error and what was read. If that is an error in the form of the provider, say
// sets its Code and Class, and returns the words. Else it returns nothing, and the words are what
// was read. The client is the package whose call it is.
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
	if err != nil || resp == nil || resp.Body == nil ||
		resp.StatusCode/100 == 3 && resp.Header.Get("Location") != "" { // of a redirect
		return resp, err
	}
	isOK := resp.StatusCode/100 == 2 && resp.StatusCode != http.StatusNoContent
	mediaType, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	isNamed := err == nil && mediaType == "text/event-stream"
	body := bufio.NewReader(resp.Body)
	skipMark(body)
	if isOK && (isNamed && !beginsText(body) || !isNamed && beginsStream(body)) {
		resp.Body = struct {
			io.Reader
			io.Closer
		}{&lineReader{from: body}, resp.Body}
		return resp, nil
	}
	text, err := io.ReadAll(io.LimitReader(body, MaxErrorBytes))
	_ = resp.Body.Close()
	switch {
	case r.Context().Err() != nil:
		return nil, context.Cause(r.Context())
	case err != nil && len(text) == 0 && resp.StatusCode/100 == 2:
		return nil, err
	}
	return nil, t.errorOf(resp, text)
}

// A lineReader reads a stream of events, in which CR and CRLF end a line as LF does, with LF alone.
// What reads it further knows LF, or LF and CRLF. No CR is in the JSON of an event.
type lineReader struct {
	from     io.Reader
	behindCR bool // an LF would be of the line that has ended
}

// Read reads lines.
func (l *lineReader) Read(p []byte) (int, error) {
	for {
		n, err := l.from.Read(p)
		kept := l.take(p[:n])
		if kept > 0 || n == 0 || err != nil {
			return kept, err
		}
	}
}

// take ends the lines in p with LF, and returns how many bytes are left.
func (l *lineReader) take(p []byte) int {
	if !l.behindCR && bytes.IndexByte(p, '\r') < 0 {
		return len(p)
	}
	kept := p[:0]
	for _, c := range p {
		if c != '\n' || !l.behindCR {
			kept = append(kept, c)
		}
		if l.behindCR = c == '\r'; l.behindCR {
			kept[len(kept)-1] = '\n'
		}
	}
	return len(kept)
}

// errorOf returns the Error of an answer that is not a stream.
func (t streamTransport) errorOf(resp *http.Response, body []byte) *Error {
	e := &Error{
		Client: t.client, Status: resp.StatusCode, After: After(resp.Header, time.Now()),
	}
	if resp.StatusCode < 400 {
		e.Class = ClassRefused
	}
	e.Message = t.say(e, body)
	if e.Message == "" {
		e.Message = strings.TrimSpace(string(body))
	}
	if resp.StatusCode >= 400 {
		return e
	}
	of := "without a type"
	if said := resp.Header.Get("Content-Type"); said != "" {
		of = fmt.Sprintf("of the type %.100q", said)
	}
	if e.Message == "" {
		e.Message = "it is empty"
	}
	e.Message = "the answer is " + of + " and not a stream of events: " + e.Message
	return e
}

// beginsText reports whether a text begins as a JSON value or a page, behind white space, which it
// takes. A line of a stream that begins so would be passed over. One that has not come is not text.
func beginsText(b *bufio.Reader) bool {
	next, ok := firstOf(b)
	return ok && strings.ContainsRune("{[<\"", rune(next))
}

// beginsStream reports whether a text begins as a stream of events, behind white space, which it
// takes.
func beginsStream(b *bufio.Reader) bool {
	switch next, ok := firstOf(b); {
	case !ok:
		return false
	case next == ':':
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

// skipMark takes the byte order mark that a text begins with: with it, the name of the first field
// of a stream would be another one, and the first event lost.
func skipMark(b *bufio.Reader) {
	const mark = "\uFEFF"
	if next, err := b.Peek(1); err != nil || next[0] != mark[0] {
		return // without waiting for more
	}
	if next, err := b.Peek(len(mark)); err == nil && string(next) == mark {
		_, _ = b.Discard(len(mark)) // of what is there
	}
}

// firstOf returns the first byte of a text that is not white space, which it takes.
func firstOf(b *bufio.Reader) (byte, bool) {
	for {
		next, err := b.Peek(1)
		if err != nil {
			return 0, false
		}
		if !strings.ContainsRune(" \t\r\n", rune(next[0])) {
			return next[0], true
		}
		if _, err := b.Discard(1); err != nil {
			return 0, false
		}
	}
}
