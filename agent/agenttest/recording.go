package agenttest

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/session"
)

// ReplayOptions say how [Replay] finds an answer. The zero value answers from the file.
type ReplayOptions struct {
	// Record is called in place of the file, which is written anew when the test has passed. Nil:
	// the file answers. A pointer or a function in it that is nil fails the test: a variable of the
	// type agent.Model is nil where there is no model.
	Record agent.Model
	// Plain returns a text of a request as it is recorded and compared: without what differs from
	// run to run, such as the time of day, or does not belong into a file, such as an address. It
	// may be called from several goroutines at once. Nil: the text as it is. The ids of sessions
	// and of runs need none: they are compared by the order in which a request has them.
	Plain func(text string) string
	// NoWait has answers come at once. Otherwise each takes as long as it took when it was
	// recorded, so that a sub-agent ends when it ended; in the virtual time of [Run] that is free.
	NoWait bool
}

// Replay returns a Model that answers as a real one has answered once: the same test runs without a
// key, a network or a cost, and its answers are those of a model.
//
// The file has a line of JSON for each call, with the request in words that a reviewer can read and
// the answer. With [ReplayOptions].Record the calls go to that Model, and the file is written when
// the test and the cleanups that it has registered later have passed, and it was not skipped. Its
// directory has to exist. It is for one test: another that records it takes its place.
//
// Record outside of [Run] what calls a service: time stands still there while a network is waited
// for, so that no call takes any, and a connection that is kept alive keeps the bubble from its
// end. A sub-agent whose calls take no time may end in another turn when it is replayed.
//
// A request finds the answers to an equal one, one after the other, and from then on the last of
// them. A turn that is repeated after a crash is told so in its prompt, so that its requests are
// others: [EveryCrash] needs a Script. Requests are equal if they ask the same Model and Thinking
// with the same prompt, messages, tools and schema. Times, the date and the time zone that the
// prompt has, usage, and the Raw of a message count for nothing. A request that the file does not
// know fails the test, and the call, with the place where it first differs from the recorded one
// that is nearest. So does, when a test ends that has passed so far, an answer that no call has
// asked for.
//
// An answer is recorded with its Parts, its Usage and its Raw. An id in it that the request had is
// the id of today. Of an error its text is recorded, whether [agent.IsRetryable] and what
// [agent.RateLimited] says, and whether it is [agent.ErrTooLong] or [agent.ErrAccount]; a call that
// panics is recorded as one that has failed. Deltas are not: the text comes in one.
//
// The file has prompts and answers in clear: docs/record-and-replay.md says what to do about
// secrets, and when a recording is out of date. A nil request is an error. The Model may be called
// from several goroutines at once, but where equal requests are asked at once, which of them gets
// which answer is not known.
func Replay(t testing.TB, file string, o ReplayOptions) agent.Model {
	t.Helper()
	r := &recording{
		t: t, file: file, model: o.Record, plain: o.Plain, noWait: o.NoWait,
		known: make(map[string][]int),
	}
	if r.plain == nil {
		r.plain = func(text string) string { return text }
	}
	var err error
	switch {
	case r.model == nil:
		err = r.read()
	case isNilModel(r.model):
		err = fmt.Errorf("ReplayOptions.Record is a %T that is nil", r.model)
		r.model = nil // the file has nothing: each call is an error
	default:
		_, err = os.ReadDir(filepath.Dir(file)) // before calls are paid for
	}
	if err != nil {
		t.Fatalf("agenttest: Replay: %v", err)
	}
	t.Cleanup(r.end)
	return r
}

// isNilModel reports whether a model that is not nil has a value that is.
func isNilModel(m agent.Model) bool {
	switch v := reflect.ValueOf(m); v.Kind() {
	case reflect.Pointer, reflect.Func, reflect.Map, reflect.Slice, reflect.Chan:
		return v.IsNil()
	default:
		return false
	}
}

// A recording is the Model of Replay.
type recording struct {
	t     testing.TB
	file  string
	model agent.Model // nil: it answers from the file
	plain func(string) string

	noWait bool

	mu    sync.Mutex
	list  []exchange
	known map[string][]int // by request: places in list that are still to be asked for, or the last
	asked []bool           // by place in list
	over  bool             // the test has ended
}

// An exchange is a line of the file.
type exchange struct {
	Request  json.RawMessage `json:"request"`
	Response *recorded       `json:"response,omitempty"`
	Error    *recordedError  `json:"error,omitempty"`
	Took     time.Duration   `json:"took,omitempty"` // nanoseconds
}

// A recordedRequest is what of a request counts.
type recordedRequest struct {
	Model    string            `json:"model,omitempty"`
	Thinking string            `json:"thinking,omitempty"`
	Prompt   string            `json:"prompt,omitempty"`
	Messages []recordedMessage `json:"messages,omitempty"`
	Tools    []recordedTool    `json:"tools,omitempty"`
	Schema   string            `json:"schema,omitempty"`
}

type recordedMessage struct {
	Role     string         `json:"role"`
	Text     string         `json:"text,omitempty"`
	From     string         `json:"from,omitempty"`
	Internal bool           `json:"internal,omitempty"`
	Failed   bool           `json:"failed,omitempty"`
	Of       string         `json:"of,omitempty"` // the call that it is the result of
	Calls    []recordedCall `json:"calls,omitempty"`
	Parts    []string       `json:"parts,omitempty"`
}

type recordedCall struct {
	ID   string `json:"id,omitempty"`
	Name string `json:"name"`
	Args string `json:"args,omitempty"`
}

type recordedTool struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	Schema      string `json:"schema,omitempty"`
}

// A recorded is an answer. Its texts have a placeholder for each id of the request.
type recorded struct {
	Text  string         `json:"text,omitempty"`
	Calls []recordedCall `json:"calls,omitempty"`
	Parts []recordedPart `json:"parts,omitempty"`
	Usage session.Usage  `json:"usage,omitzero"`
	Model string         `json:"model,omitempty"`
	Raw   string         `json:"raw,omitempty"`
}

type recordedPart struct {
	Kind      session.PartKind `json:"kind,omitempty"`
	MediaType string           `json:"mediaType,omitempty"`
	Name      string           `json:"name,omitempty"`
	URL       string           `json:"url,omitempty"`
	Data      []byte           `json:"data,omitempty"`
}

type recordedError struct {
	Text      string        `json:"text"`
	Retryable bool          `json:"retryable,omitempty"`
	Limited   bool          `json:"limited,omitempty"`
	After     time.Duration `json:"after,omitempty"` // nanoseconds
	TooLong   bool          `json:"tooLong,omitempty"`
	Account   bool          `json:"account,omitempty"`
}

// Generate implements agent.Model.
func (r *recording) Generate(
	ctx context.Context, req *agent.ModelRequest,
) (*agent.ModelResponse, error) {
	if req == nil {
		return nil, errors.New("agenttest: Replay: the request is nil")
	}
	ids := &idNames{}
	asked, err := r.requestOf(req, ids)
	if err != nil {
		return nil, fmt.Errorf("agenttest: Replay: %w", err)
	}
	if r.model != nil {
		began, returned := time.Now(), false
		defer func() {
			if !returned { // it panics, or has ended its goroutine
				r.note(exchange{Request: asked, Error: recordedErrorOf(errNotReturned)})
			}
		}()
		res, err := r.model.Generate(ctx, req)
		returned = true
		x := exchange{Request: asked, Error: recordedErrorOf(err), Took: time.Since(began)}
		switch {
		case err != nil:
		case res == nil:
			x.Error = recordedErrorOf(agent.ErrNoResponse)
		default:
			x.Response = responseOf(res, ids)
		}
		r.note(x)
		return res, err
	}
	x, err := r.find(asked)
	if err != nil {
		return nil, err
	}
	if !r.noWait {
		select {
		case <-time.After(x.Took):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	if x.Error != nil {
		return nil, x.Error.error()
	}
	res := x.Response.response(ids)
	if res.Text != "" {
		req.Delta(res.Text)
	}
	return res, nil
}

// errNotReturned is recorded of a call that has not returned.
var errNotReturned = errors.New("agenttest: the model has panicked, or has ended its goroutine")

// note adds an exchange to the file to be.
func (r *recording) note(x exchange) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, x)
}

// find returns the next answer to a request.
func (r *recording) find(asked json.RawMessage) (exchange, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	places := r.known[string(asked)]
	if len(places) == 0 {
		err := fmt.Errorf("agenttest: %s has no answer to a call of the model: %s", r.file,
			r.difference(asked))
		if !r.over {
			r.t.Error(err)
		}
		return exchange{}, err
	}
	at := places[0]
	if len(places) > 1 {
		r.known[string(asked)] = places[1:]
	}
	r.asked[at] = true
	return r.list[at], nil
}

// shownAround is how many bytes of a difference are shown on either side of its place.
const shownAround = 60

// difference says where a request differs from the recorded one that has most of its beginning.
func (r *recording) difference(asked json.RawMessage) string {
	best, same := -1, -1
	for i := range r.list {
		n := 0
		for other := r.list[i].Request; n < min(len(asked), len(other)) && asked[n] == other[n]; {
			n++
		}
		if n > same {
			best, same = i, n
		}
	}
	if best < 0 {
		return "it is empty. Record it: see ReplayOptions.Record"
	}
	from := max(same-shownAround, 0)
	part := func(b []byte) string {
		return strings.ToValidUTF8(string(b[from:min(same+shownAround, len(b))]), "")
	}
	return fmt.Sprintf("the nearest is line %d, which has\n\t...%s...\nwhere the call has\n\t...%s...",
		best+1, part(r.list[best].Request), part(asked))
}

// read reads the file.
func (r *recording) read() error {
	data, err := os.ReadFile(r.file)
	if err != nil {
		return fmt.Errorf("%w (see ReplayOptions.Record)", err)
	}
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, len(data)+1)
	for n := 1; lines.Scan(); n++ {
		var x exchange
		err := json.Unmarshal(lines.Bytes(), &x)
		if err == nil && (x.Response == nil) == (x.Error == nil) {
			err = errors.New("a line has either a response or an error")
		}
		if err == nil && x.Took < 0 {
			err = fmt.Errorf("took is %d, below zero", x.Took)
		}
		if err != nil {
			return fmt.Errorf("%s:%d: %w", r.file, n, err)
		}
		r.known[string(x.Request)] = append(r.known[string(x.Request)], len(r.list))
		r.list = append(r.list, x)
	}
	r.asked = make([]bool, len(r.list))
	return lines.Err()
}

// end writes what was recorded, or fails the test for what no call has asked for.
func (r *recording) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
	if r.t.Failed() || r.t.Skipped() {
		return
	}
	if r.model != nil {
		if err := r.write(); err != nil {
			r.t.Errorf("agenttest: Replay: %v", err)
		}
		return
	}
	if first := slices.Index(r.asked, false); first >= 0 {
		r.t.Errorf("agenttest: of %s no call has asked for line %d, whose request is %s", r.file,
			first+1, r.list[first].Request)
	}
}

// write replaces the file.
func (r *recording) write() error {
	var b bytes.Buffer
	lines := json.NewEncoder(&b)
	lines.SetEscapeHTML(false)
	for _, x := range r.list {
		if err := lines.Encode(x); err != nil {
			return err
		}
	}
	made, err := os.CreateTemp(filepath.Dir(r.file), filepath.Base(r.file)+".*")
	if err != nil {
		return err
	}
	_, err = made.Write(b.Bytes())
	err = errors.Join(err, made.Chmod(0o644), made.Close())
	if err == nil {
		err = os.Rename(made.Name(), r.file)
	}
	if err != nil {
		return errors.Join(err, os.Remove(made.Name()))
	}
	return nil
}

// currentDate is the section of a prompt with the date and the time zone.
var currentDate = regexp.MustCompile(
	`(?m)^(## Current Date\n)(?:Date: [^\n]*\n)?(Time zone: )[^\n]*$`,
)

// undated returns a prompt without the date of today and the time zone of the machine.
func undated(prompt string) string {
	return currentDate.ReplaceAllString(prompt, "${1}Date: DATE\n${2}ZONE")
}

// requestOf returns what of a request counts, with its ids by their order.
func (r *recording) requestOf(req *agent.ModelRequest, ids *idNames) (json.RawMessage, error) {
	plain := r.plain
	asked := recordedRequest{
		Model: req.Model, Thinking: req.Thinking, Prompt: plain(undated(req.Prompt.String())),
		Schema: string(req.Schema),
	}
	for i := range req.Messages {
		m := &req.Messages[i]
		said := recordedMessage{
			Role: string(m.Role), Text: plain(m.Text), From: plain(m.From.Name),
			Internal: m.Internal, Failed: m.Failed, Of: plain(m.ToolCallID),
			Calls: callsOf(m.ToolCalls, plain),
		}
		for _, p := range m.Parts {
			said.Parts = append(said.Parts, plain(fmt.Sprint(
				p.Kind, " ", p.MediaType, " ", p.Name, " ", p.URL, " ", p.File.Hash)))
		}
		asked.Messages = append(asked.Messages, said)
	}
	for i := range req.Tools {
		asked.Tools = append(asked.Tools, recordedTool{
			Name: req.Tools[i].Name, Description: plain(req.Tools[i].Description),
			Schema: plain(string(req.Tools[i].Schema)),
		})
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(asked); err != nil {
		return nil, err
	}
	ids.learn(b.String())
	return json.RawMessage(ids.hide(strings.TrimSpace(b.String()))), nil
}

func callsOf(calls []agent.ToolCall, plain func(string) string) (list []recordedCall) {
	for _, c := range calls {
		list = append(list, recordedCall{plain(c.ID), c.Name, plain(string(c.Args))})
	}
	return list
}

// responseOf returns a response as it is recorded.
func responseOf(res *agent.ModelResponse, ids *idNames) *recorded {
	x := &recorded{
		Text: ids.hide(res.Text), Calls: callsOf(res.ToolCalls, ids.hide), Usage: res.Usage,
		Model: res.Model, Raw: ids.hide(string(res.Raw)),
	}
	for _, p := range res.Parts {
		x.Parts = append(x.Parts, recordedPart{p.Kind, p.MediaType, p.Name, p.URL, p.Data})
	}
	return x
}

// response is responseOf backwards.
func (x *recorded) response(ids *idNames) *agent.ModelResponse {
	res := &agent.ModelResponse{Text: ids.show(x.Text), Usage: x.Usage, Model: x.Model}
	if x.Raw != "" {
		res.Raw = json.RawMessage(ids.show(x.Raw))
	}
	for _, c := range x.Calls {
		res.ToolCalls = append(res.ToolCalls, agent.ToolCall{
			ID: ids.show(c.ID), Name: c.Name, Args: json.RawMessage(ids.show(c.Args)),
		})
	}
	for _, p := range x.Parts {
		res.Parts = append(res.Parts, agent.Part{
			Kind: p.Kind, MediaType: p.MediaType, Name: p.Name, URL: p.URL, Data: p.Data,
		})
	}
	return res
}

// recordedErrorOf returns an error as it is recorded.
func recordedErrorOf(err error) *recordedError {
	if err == nil {
		return nil
	}
	x := &recordedError{
		Text: err.Error(), Retryable: agent.IsRetryable(err),
		TooLong: errors.Is(err, agent.ErrTooLong), Account: errors.Is(err, agent.ErrAccount),
	}
	if limited, ok := errors.AsType[agent.RateLimited](err); ok {
		x.Limited, x.After = true, limited.After
	}
	return x
}

// error is recordedErrorOf backwards.
func (x *recordedError) error() error {
	err := replayedError{text: x.Text}
	if x.Limited {
		err.is = append(err.is, agent.RateLimited{After: x.After})
	}
	if x.TooLong {
		err.is = append(err.is, agent.ErrTooLong)
	}
	if x.Account {
		err.is = append(err.is, agent.ErrAccount)
	}
	if x.Retryable && !x.Limited {
		return agent.Retryable(err)
	}
	return err
}

// A replayedError has the text of the error that was recorded, and is what that was.
type replayedError struct {
	text string
	is   []error
}

func (e replayedError) Error() string   { return e.text }
func (e replayedError) Unwrap() []error { return e.is }

// idPattern is the form of the ids of sessions and runs, and of the marks around a completion.
var idPattern = regexp.MustCompile(
	`\b([0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{16})\b`)

// markPattern is the mark of a completion, which has no zeros at its beginning.
var markPattern = regexp.MustCompile(`completion ([0-9a-f]{8,16})>>>`)

// shortID is how many characters of an id are enough to name it.
const shortID = 8

// idNames are the ids of one request, in the order of their first places.
type idNames struct{ ids []string }

// name returns the placeholder of an id, and of its beginning.
func (*idNames) name(i int, short bool) string {
	if short {
		return fmt.Sprintf("{id %d short}", i+1)
	}
	return fmt.Sprintf("{id %d}", i+1)
}

// learn notes the ids of a text.
func (n *idNames) learn(text string) {
	places := idPattern.FindAllStringSubmatchIndex(text, -1)
	places = append(places, markPattern.FindAllStringSubmatchIndex(text, -1)...)
	slices.SortStableFunc(places, func(a, b []int) int { return cmp.Compare(a[2], b[2]) })
	for _, at := range places {
		if id := text[at[2]:at[3]]; !slices.Contains(n.ids, id) {
			n.ids = append(n.ids, id)
		}
	}
}

// hide puts placeholders for the ids that are known.
func (n *idNames) hide(text string) string {
	for i, id := range n.ids {
		text = strings.ReplaceAll(text, id, n.name(i, false))
	}
	for i, id := range n.ids {
		text = strings.ReplaceAll(text, id[:shortID], n.name(i, true))
	}
	return text
}

// show is hide backwards.
func (n *idNames) show(text string) string {
	for i, id := range n.ids {
		text = strings.ReplaceAll(text, n.name(i, false), id)
		text = strings.ReplaceAll(text, n.name(i, true), id[:shortID])
	}
	return text
}
