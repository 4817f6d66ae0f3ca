package mcp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/offshoot-sdk/offshoot/agent/provider"
)

// maxDepth is how many levels a message of a server may be nested. The SDK takes one with more for
// what is not a message, and gives the connection up.
const maxDepth = 1000

// codeTooDeep is the code of an answer that stands for one that was nested too deeply. A server
// that sends it itself has its call fail in the same way.
const codeTooDeep = -32098

// tooDeep stands in the place of what is nested too deeply.
const tooDeep = `"offshoot: nested too deeply"`

// repaired returns a message of a server as the SDK can read it. Of a list of tools, those are left
// out that have not the form of the protocol or are nested too deeply, and the others work. Any
// other message that is nested too deeply has one in its place that costs its call alone, or none.
// A message that is sound, or is not one at all, is returned as it is.
func repaired(message []byte, log *slog.Logger) []byte {
	isDeep := depthOf(message) > maxDepth
	if !isDeep && !bytes.Contains(message, []byte(`"tools"`)) {
		return message
	}
	text := message
	if isDeep {
		text = cutDeep(message)
	}
	var whole, result map[string]json.RawMessage
	if json.Unmarshal(text, &whole) != nil {
		return message
	}
	_, isRequest := whole["method"]
	if !isRequest && json.Unmarshal(whole["result"], &result) == nil {
		tools, isList := soundTools(result["tools"], log)
		if isList && (isDeep || len(tools) < len(result["tools"])) {
			result["tools"] = tools
			return lineOf(whole, result)
		}
	}
	if !isDeep {
		return message
	}
	log.Warn("mcp: a message of a server is nested too deeply, and is left out", "limit", maxDepth)
	return standIn(string(whole["id"]), isRequest, codeTooDeep,
		fmt.Sprintf("it is nested more than %d levels deep", maxDepth))
}

// lineOf returns an answer with a result. Each member of them is JSON, and so the encoder has
// nothing to refuse.
func lineOf(whole, result map[string]json.RawMessage) []byte {
	line, err := json.Marshal(result)
	if err == nil {
		whole["result"] = line
		line, err = json.Marshal(whole)
	}
	if err != nil {
		return nil
	}
	return append(line, '\n')
}

// maxNamed is how many tools that are left out the log names.
const maxNamed = 10

// soundTools returns a list without the tools that the SDK cannot read, and the list as it is if it
// can read all of them. It reports whether it is a list at all.
func soundTools(list json.RawMessage, log *slog.Logger) (sound json.RawMessage, isList bool) {
	var all, kept []json.RawMessage
	if json.Unmarshal(list, &all) != nil {
		return nil, false
	}
	var names []string
	var why error
	for _, tool := range all {
		err := json.Unmarshal(tool, new(sdk.Tool))
		if bytes.Contains(tool, []byte(tooDeep)) {
			err = fmt.Errorf("it is nested more than %d levels deep", maxDepth)
		}
		if err == nil {
			kept = append(kept, tool)
			continue
		}
		if why == nil {
			why = err
		}
		if len(names) < maxNamed {
			var of struct {
				Name any `json:"name"`
			}
			_ = json.Unmarshal(tool, &of) // an element that is not an object has no name
			names = append(names, bounded(oneLine(fmt.Sprint(of.Name)), 100))
		}
	}
	if why == nil {
		return list, true
	}
	log.Warn("mcp: tools of a server cannot be read, and are left out",
		"left_out", len(all)-len(kept), "tools", names, "error", why)
	if sound, why = json.Marshal(kept); why != nil {
		return nil, false
	}
	return sound, true
}

// standIn returns what is read in place of a message: of an answer one with a code to the same
// call, of a request one that the SDK refuses, of a notification nothing.
func standIn(id string, isRequest bool, code int, why string) []byte {
	switch isCall := json.Valid([]byte(id)) && id != "null"; {
	case isCall && isRequest:
		return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"method":"offshoot/left_out"}`+"\n", id)
	case isCall:
		return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%q}}`+"\n",
			id, code, why)
	}
	return nil
}

// levels calls f with each byte of a JSON text that opens or closes an object or a list, and with
// the level that the byte is at, from 1.
func levels(text []byte, f func(at, level int, opens bool)) {
	level, inString, isEscaped := 0, false, false
	for at, c := range text {
		switch {
		case isEscaped:
			isEscaped = false
		case inString:
			isEscaped, inString = c == '\\', c != '"'
		case c == '"':
			inString = true
		case c == '{' || c == '[':
			level++
			f(at, level, true)
		case (c == '}' || c == ']') && level > 0:
			f(at, level, false)
			level--
		}
	}
}

// depthOf returns how many levels a JSON text is nested.
func depthOf(text []byte) int {
	deepest := 0
	levels(text, func(_, level int, _ bool) { deepest = max(deepest, level) })
	return deepest
}

// cutDeep returns a JSON text with tooDeep in the place of what is below the level maxDepth.
func cutDeep(text []byte) []byte {
	var out []byte
	behind := 0
	levels(text, func(at, level int, opens bool) {
		switch {
		case level != maxDepth+1:
		case opens:
			out = append(append(out, text[behind:at]...), tooDeep...)
			behind = len(text) // unless it ends
		default:
			behind = at + 1
		}
	})
	return append(out, text[behind:]...)
}

// repairing is an http.RoundTripper whose answers have each message repaired. In place of one that
// is too large, the answer to a call has one with codeTooLarge and ends: the SDK would give the
// connection up, with all other calls on it.
type repairing struct {
	base http.RoundTripper
	log  *slog.Logger
}

// RoundTrip makes the request.
func (t repairing) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.base.RoundTrip(r)
	if err != nil || resp.Body == nil || resp.StatusCode < 200 || resp.StatusCode > 299 {
		return resp, err
	}
	mediaType, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if isStream := mediaType == "text/event-stream"; err == nil &&
		(isStream || mediaType == "application/json") {
		resp.Body, resp.ContentLength = &repairedBody{
			ReadCloser: resp.Body, from: bufio.NewReaderSize(resp.Body, 32<<10),
			isStream: isStream, log: t.log, id: func() string { return callOf(r) },
		}, -1
	}
	return resp, nil
}

// callOf returns the id of the call that a request makes, or "" if it makes none, or more than one.
func callOf(r *http.Request) string {
	var asked struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
	}
	if r.GetBody == nil {
		return ""
	}
	body, err := r.GetBody()
	if err != nil {
		return ""
	}
	defer func() { _ = body.Close() }()
	if json.NewDecoder(body).Decode(&asked) != nil || asked.Method == "" {
		return ""
	}
	return string(asked.ID)
}

// A repairedBody is the body of an answer, which is one message or a stream of events.
type repairedBody struct {
	io.ReadCloser

	from     *bufio.Reader
	isStream bool
	log      *slog.Logger
	id       func() string // of the call that it answers; "": of none
	ready    []byte
	err      error // behind ready
}

// Read reads whole messages.
func (b *repairedBody) Read(p []byte) (int, error) {
	for len(b.ready) == 0 {
		switch {
		case b.err != nil:
			return 0, b.err
		case b.isStream:
			b.ready, b.err = b.event()
		default:
			text, err := io.ReadAll(b.from)
			if b.err = err; err == nil {
				b.ready, b.err = repaired(text, b.log), io.EOF
			}
		}
		if size, ok := errors.AsType[*provider.SizeError](b.err); ok {
			b.refuse(size)
		}
	}
	n := copy(p, b.ready)
	b.ready = b.ready[n:]
	return n, nil
}

// refuse has an answer with codeTooLarge in the place of what is too large, if there is a call that
// it can be the answer to.
func (b *repairedBody) refuse(size *provider.SizeError) {
	line := standIn(b.id(), false, codeTooLarge, size.Error())
	switch {
	case line == nil:
		return
	case b.isStream:
		line = fmt.Appendf(nil, "data: %s\n\n", bytes.TrimSpace(line))
	}
	b.log.Warn("mcp: an answer of a server is too large", "limit", size.Limit)
	b.ready, b.err = line, io.EOF
}

// event returns the next event of a stream, with the empty line behind it. One that needs no repair
// is returned as it came, and one that breaks off is left out.
func (b *repairedBody) event() ([]byte, error) {
	var whole []byte
	begin := 0 // of the line
	for {
		piece, err := b.from.ReadSlice('\n')
		whole = append(whole, piece...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && !errors.Is(err, io.EOF):
			return nil, err
		case err == nil && len(bytes.TrimRight(whole[begin:], "\r\n")) > 0:
			begin = len(whole)
			continue
		}
		return repairedEvent(whole, b.log), err
	}
}

// repairedEvent returns an event with its message repaired.
func repairedEvent(event []byte, log *slog.Logger) []byte {
	var message []byte
	for line := range bytes.Lines(event) {
		if said, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			message = append(append(message, bytes.TrimSpace(said)...), '\n')
		}
	}
	sound := repaired(message, log)
	if bytes.Equal(sound, message) {
		return event
	}
	var out []byte
	for line := range bytes.Lines(event) {
		if !bytes.HasPrefix(line, []byte("data:")) && len(bytes.TrimRight(line, "\r\n")) > 0 {
			out = append(out, line...)
		}
	}
	return fmt.Appendf(out, "data: %s\n\n", bytes.TrimSpace(sound))
}
