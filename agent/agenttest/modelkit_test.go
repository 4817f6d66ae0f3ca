package agenttest

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/session"
)

// plainDialect is a provider whose requests are ProviderCalls, and whose answers are lines of
// plainEvents.
type plainDialect struct{}

// A plainEvent is one line of an answer.
type plainEvent struct {
	Text    string
	Refusal string
	Thought string
	Calls   []plainCall
	Usage   agent.Usage
	Model   string
	Error   string
	Done    bool
	IsCut   bool // with Done: at the limit of its length
}

// A plainCall is a call whose arguments may not be JSON.
type plainCall struct{ ID, Name, Args string }

// A plainRequest is a ProviderCall whose calls have arguments that may not be JSON.
type plainRequest struct {
	ProviderCall
	Args []string
}

// Decode implements ProviderDialect.
func (plainDialect) Decode(r *http.Request, body []byte) (c ProviderCall, err error) {
	var in plainRequest
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		return c, err
	}
	for i := range in.Messages {
		for k := range in.Messages[i].Calls {
			in.Messages[i].Calls[k].Args = json.RawMessage(in.Args[0])
			in.Args = in.Args[1:]
		}
	}
	in.Key = r.Header.Get("Authorization")
	return in.ProviderCall, nil
}

// plainStatuses are those of the faults.
var plainStatuses = map[ProviderFault]int{
	FaultRate: http.StatusTooManyRequests, FaultServer: http.StatusInternalServerError,
	FaultOverload: http.StatusServiceUnavailable, FaultTooLong: http.StatusRequestEntityTooLarge,
	FaultAccount: http.StatusUnauthorized, FaultRequest: http.StatusBadRequest,
}

// Encode implements ProviderDialect.
func (plainDialect) Encode(c ProviderCall, a ProviderAnswer) ProviderReply {
	reply := ProviderReply{Header: http.Header{}, Last: 1}
	if status := plainStatuses[a.Fault]; status != 0 {
		if a.After > 0 {
			reply.Header.Set("Retry-After", fmt.Sprint(int(a.After.Seconds())))
		}
		reply.Status, reply.Events = status, [][]byte{[]byte(a.Message)}
		return reply
	}
	add := func(e plainEvent) {
		line, err := json.Marshal(e)
		if err != nil {
			panic(err)
		}
		reply.Events = append(reply.Events, append(line, '\n'))
	}
	for _, piece := range a.Text {
		add(plainEvent{Text: piece})
	}
	if a.Refusal != "" {
		add(plainEvent{Refusal: a.Refusal})
	}
	end := plainEvent{
		Thought: a.Thought, Usage: a.Usage, Model: cmp.Or(a.Model, c.Model), Done: true,
		IsCut: a.Fault == FaultLength,
	}
	for _, call := range a.Calls {
		end.Calls = append(end.Calls, plainCall{call.ID, call.Name, string(call.Args)})
	}
	if a.Fault == FaultStream {
		end = plainEvent{Error: a.Message}
	}
	add(end)
	return reply
}

// A plainModel is a Model that keeps the contract, and breaks it in one way.
type plainModel struct {
	broken  string
	url     string
	key     string
	client  *http.Client
	release <-chan struct{} // closed when the test is over
	open    atomic.Int64    // calls under way
}

// isBroken reports whether the Model breaks the contract in this way.
func (m *plainModel) isBroken(how string) bool { return m.broken == how }

// Generate implements agent.Model.
func (m *plainModel) Generate(
	ctx context.Context, req *agent.ModelRequest,
) (resp *agent.ModelResponse, err error) {
	text := ""
	m.Stream(ctx, req)(func(c agent.ModelChunk, failed error) bool {
		if resp == nil {
			resp, err = c.Response, failed
			text += c.Text
		}
		return resp == nil && err == nil
	})
	if resp != nil && !m.isBroken("Generate has no text") {
		resp.Text = cmp.Or(resp.Text, text)
	}
	return resp, err
}

// Stream implements agent.StreamModel.
func (m *plainModel) Stream(
	ctx context.Context, req *agent.ModelRequest,
) iter.Seq2[agent.ModelChunk, error] {
	return func(yield func(agent.ModelChunk, error) bool) {
		m.open.Add(1)
		defer m.open.Add(-1)
		given, ctx := ctx, ctx
		if m.isBroken("outlives its context") {
			ctx = context.WithoutCancel(given)
		}
		if m.isBroken("does not stop") || m.isBroken("leaves goroutines") {
			go func() { <-m.release }()
		}
		resp, err := m.send(ctx, m.requestOf(ctx, req))
		if m.isBroken("tries again") && err == nil && resp.StatusCode >= 500 {
			resp, err = m.send(ctx, m.requestOf(ctx, req))
		}
		if err == nil {
			err = m.read(given, resp, req, yield)
		}
		if err != nil && !errors.Is(err, errPlainOver) {
			yield(agent.ModelChunk{}, m.errorOf(ctx, err))
		}
	}
}

// errPlainOver says that nothing more is to be yielded.
var errPlainOver = errors.New("over")

// errorOf returns the error of a call.
func (m *plainModel) errorOf(ctx context.Context, err error) error {
	if ctx.Err() != nil && !m.isBroken("retries a cancelled call") {
		return context.Cause(ctx)
	}
	if !m.isBroken("passes the words on") {
		err = m.masked(err)
	}
	if m.isBroken("names the key") {
		err = fmt.Errorf("with the key %s: %w", m.key, err)
	}
	if _, ok := errors.AsType[*plainError](err); ok {
		return err
	}
	return agent.Retryable(err)
}

// masked returns an error without the key.
func (m *plainModel) masked(err error) error {
	said := strings.ReplaceAll(err.Error(), m.key, "***")
	if e, ok := errors.AsType[*plainError](err); ok {
		return &plainError{said: said, is: e.is}
	}
	if said != err.Error() {
		return errors.New(said)
	}
	return err
}

// A plainError is what a provider answered.
type plainError struct {
	said string
	is   error
}

func (e *plainError) Error() string { return e.said }

// Unwrap returns what the error is.
func (e *plainError) Unwrap() error { return e.is }

// refusalOf returns the error of an answer that has another status than 200.
func (m *plainModel) refusalOf(resp *http.Response) error {
	said, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	e := &plainError{said: string(said)}
	if m.isBroken("hides the words") {
		e.said = resp.Status
	}
	switch status := resp.StatusCode; {
	case m.isBroken("retries everything"):
		e.is = agent.Retryable(errors.New("again"))
	case m.isBroken("knows no reasons"):
	case status == http.StatusTooManyRequests:
		after, err := time.ParseDuration(cmp.Or(resp.Header.Get("Retry-After"), "0") + "s")
		e.is = agent.RateLimited{After: after, Err: err}
		if m.isBroken("does not say when") {
			e.is = agent.RateLimited{}
		}
	case status >= 500:
		e.is = agent.Retryable(errors.New("again"))
	case status == http.StatusRequestEntityTooLarge:
		e.is = agent.ErrTooLong
	case status == http.StatusUnauthorized:
		e.is = agent.ErrAccount
	}
	return e
}

// requestOf returns what the provider is sent.
func (m *plainModel) requestOf(ctx context.Context, req *agent.ModelRequest) plainRequest {
	_, name, _ := strings.Cut(req.Model, "/")
	out := plainRequest{ProviderCall: ProviderCall{
		Model: name, Thinking: req.Thinking, System: req.Prompt.String(), Schema: req.Schema,
	}}
	if m.isBroken("sends the whole name") {
		out.Model = req.Model
	}
	if m.isBroken("has no prompt") {
		out.System = "You are a bot."
	}
	if m.isBroken("changes the request") && len(req.Messages) > 1 {
		req.Messages[0].ID = "changed"
	}
	if m.isBroken("always thinks") {
		out.Thinking = "high"
	}
	if m.isBroken("drops the schema") {
		out.Schema = nil
	}
	for _, t := range req.Tools {
		tool := ProviderTool{t.Name, t.Description, t.Schema}
		if tool.Schema == nil {
			tool.Schema = json.RawMessage(`{"type":"object"}`)
		}
		if m.isBroken("cuts descriptions") {
			tool.Description, _, _ = strings.Cut(t.Description, "\n")
		}
		out.Tools = append(out.Tools, tool)
	}
	for i, said := range req.Messages {
		if m.isBroken("drops the first of two") && i+1 < len(req.Messages) &&
			said.Role == session.MessageUser && req.Messages[i+1].Role == session.MessageUser {
			continue
		}
		if m.isBroken("drops empty results") && said.Role == session.MessageTool && said.Text == "" {
			continue
		}
		if m.isBroken("hides what failed") && said.Failed {
			said.Text = "It failed."
		}
		out.Messages = append(out.Messages, m.messageOf(ctx, req, said, &out))
	}
	switch {
	case m.isBroken("mixes results"):
		m.mix(out.Messages)
	case m.isBroken("turns results round"):
		m.turnRound(out.Messages)
	}
	return out
}

// mix exchanges the texts of results whose calls have the same id.
func (m *plainModel) mix(messages []ProviderMessage) {
	last := make(map[string]string)
	for _, said := range messages {
		if said.Role == session.MessageTool {
			last[said.CallID] = said.Text
		}
	}
	for i, said := range messages {
		if said.Role == session.MessageTool {
			messages[i].Text = last[said.CallID]
		}
	}
}

// turnRound gives the results of one answer to its calls in the order from behind.
func (m *plainModel) turnRound(messages []ProviderMessage) {
	for i := 0; i < len(messages); i++ {
		first := i
		for i < len(messages) && messages[i].Role == session.MessageTool {
			i++
		}
		for a, b := first, i-1; a < b; a, b = a+1, b-1 {
			messages[a].CallID, messages[b].CallID = messages[b].CallID, messages[a].CallID
		}
	}
}

// messageOf returns a message as the provider is sent it.
func (m *plainModel) messageOf(
	ctx context.Context, req *agent.ModelRequest, said agent.Message, out *plainRequest,
) ProviderMessage {
	to := ProviderMessage{
		Role: said.Role, Text: said.Text, CallID: said.ToolCallID, Failed: said.Failed,
	}
	if said.Internal && !m.isBroken("tells no Internal") {
		to.Name = "internal"
	}
	for _, c := range said.ToolCalls {
		out.Args = append(out.Args, string(c.Args))
		to.Calls = append(to.Calls, agent.ToolCall{ID: c.ID, Name: c.Name})
	}
	var raw struct{ Thought, Plain string }
	err := json.Unmarshal(said.Raw, &raw)
	switch {
	case m.isBroken("believes any Raw") && len(said.Raw) > 0:
		to.Text = string(said.Raw)
	case err == nil && raw.Plain == "plain" && !m.isBroken("forgets thoughts"):
		to.Thought = raw.Thought
	}
	for _, part := range said.Parts {
		if m.isBroken("drops pictures") || m.isBroken("drops pictures of tools") &&
			said.Role == session.MessageTool {
			continue
		}
		sent := ProviderPart{MediaType: part.MediaType, URL: part.URL}
		if part.URL == "" {
			file, err := req.OpenFile(ctx, part.File)
			if err != nil {
				if !m.isBroken("drops lost files") {
					to.Text += "[not found: " + part.Name + "]"
				}
				to.Text += " "
				continue
			}
			sent.Data, _ = io.ReadAll(file)
			_ = file.Close()
		}
		to.Parts = append(to.Parts, sent)
	}
	return to
}

// send makes the request.
func (m *plainModel) send(ctx context.Context, out plainRequest) (*http.Response, error) {
	body, err := json.Marshal(out)
	if err != nil {
		return nil, err
	}
	if m.isBroken("sends odd bytes") {
		body = spoiled(body)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, m.url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", m.key)
	return m.client.Do(r)
}

// read reads an answer.
func (m *plainModel) read(
	ctx context.Context, resp *http.Response, req *agent.ModelRequest,
	yield func(agent.ModelChunk, error) bool,
) error {
	if !m.isBroken("does not stop") {
		defer func() { _ = resp.Body.Close() }()
	}
	if resp.StatusCode != http.StatusOK {
		return m.refusalOf(resp)
	}
	lines := bufio.NewScanner(resp.Body)
	whole := ""
	for lines.Scan() {
		var e plainEvent
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			if m.isBroken("takes what there is") {
				break
			}
			return err
		}
		switch {
		case e.Error != "" && m.isBroken("knows no faults in streams"):
			return &plainError{said: e.Error}
		case e.Error != "":
			return agent.Retryable(errors.New(e.Error))
		case e.IsCut && m.isBroken("fails at the limit"):
			return &plainError{said: "the answer is cut"}
		case e.Done:
			answer := m.responseOf(e, req)
			if m.isBroken("does not stream") {
				answer.Text = whole
			}
			yield(agent.ModelChunk{Response: answer}, nil)
			if m.isBroken("yields too much") {
				yield(agent.ModelChunk{Text: "more"}, nil)
			}
			return errPlainOver
		}
		if !m.isBroken("knows no refusals") {
			e.Text += e.Refusal
		}
		if m.isBroken("confuses calls") && m.open.Load() > 1 {
			e.Text = "for another"
		}
		if m.isBroken("keeps odd bytes") {
			e.Text = string(spoiled([]byte(e.Text)))
		}
		if whole += e.Text; m.isBroken("does not stream") {
			continue
		}
		if !yield(agent.ModelChunk{Text: e.Text}, nil) {
			return errPlainOver
		}
	}
	if ctx.Err() != nil && m.isBroken("outlives its context") {
		<-m.release
	}
	err := lines.Err()
	if m.isBroken("takes what there is") {
		yield(agent.ModelChunk{Response: &agent.ModelResponse{Text: whole}}, nil)
		return errPlainOver
	}
	if err == nil && m.isBroken("takes what has ended") {
		yield(agent.ModelChunk{Response: &agent.ModelResponse{Text: whole}}, nil)
		return errPlainOver
	}
	return cmp.Or(err, io.ErrUnexpectedEOF)
}

// responseOf returns the response of the last event.
func (m *plainModel) responseOf(e plainEvent, req *agent.ModelRequest) *agent.ModelResponse {
	provider, _, _ := strings.Cut(req.Model, "/")
	resp := &agent.ModelResponse{Usage: e.Usage, Model: provider + "/" + e.Model}
	if m.isBroken("counts what was cached") {
		resp.Usage.Input += resp.Usage.CacheRead
	}
	if m.isBroken("says what was asked for") {
		resp.Model = req.Model
	}
	if e.Thought != "" {
		resp.Raw, _ = json.Marshal(struct{ Thought, Plain string }{e.Thought, "plain"})
	}
	for _, c := range e.Calls {
		if m.isBroken("drops broken arguments") && !json.Valid([]byte(c.Args)) {
			continue
		}
		resp.ToolCalls = append(resp.ToolCalls, toolCall(c.ID, c.Name, c.Args))
	}
	return resp
}

// plainOptions are what a plainModel promises.
func plainOptions() ModelOptions {
	return ModelOptions{
		Stream: true, Thinking: true, Thoughts: true, Schema: true, Cache: true, CacheWrite: true,
		Pictures: true, ToolPictures: true, Internal: true,
	}
}

// newPlain returns what opens a plainModel that is broken in one way.
func newPlain(broken string, release <-chan struct{}) func(t testing.TB) ModelUnderTest {
	return func(testing.TB) ModelUnderTest {
		p := &Provider{Key: "the-secret-key"}
		server := httptest.NewServer(p.Handler(plainDialect{}))
		return ModelUnderTest{
			Model: &plainModel{
				broken: broken, url: server.URL, key: p.Key, client: server.Client(),
				release: release,
			},
			Provider: p,
			Close: func() {
				server.CloseClientConnections()
				server.Close()
			},
		}
	}
}

// A Model that is not broken keeps every rule.
func TestModelKit(t *testing.T) { TestModel(t, newPlain("", nil), plainOptions()) }

// A pieceWriter keeps each piece that it is given.
type pieceWriter struct {
	*httptest.ResponseRecorder

	pieces  [][]byte
	flushed int
}

func (w *pieceWriter) Write(piece []byte) (int, error) {
	w.pieces = append(w.pieces, bytes.Clone(piece))
	return w.ResponseRecorder.Write(piece)
}

func (w *pieceWriter) Flush() { w.flushed++ }

// An answer, and an error, comes in pieces that do not care for lines and runes, each of which is
// sent before the next one is written.
func TestAnswersComeInOddPieces(t *testing.T) {
	for _, fault := range []ProviderFault{FaultNone, FaultServer} {
		p := &Provider{}
		words := strings.Repeat("grün ", 40)
		p.Answer(ProviderAnswer{Fault: fault, Text: []string{words}, Message: words})
		w := &pieceWriter{ResponseRecorder: httptest.NewRecorder()}
		p.Handler(plainDialect{}).ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/",
			strings.NewReader(`{"Model":"m","Messages":[{"Role":"user","Text":"Hello."}]}`)))
		require.NoError(t, p.Err())
		require.Contains(t, w.Body.String(), words, fault)
		require.Equal(t, len(w.pieces), w.flushed)
		sizes, halves, lines := make(map[int]bool), 0, 0
		for _, piece := range w.pieces {
			sizes[len(piece)] = true
			if !utf8.Valid(piece) {
				halves++
			}
			if bytes.HasSuffix(piece, []byte("\n")) {
				lines++
			}
		}
		require.Greater(t, len(sizes), 3, fault)
		require.Positive(t, halves, "no piece ends in the middle of a rune: %q", fault)
		require.LessOrEqual(t, lines, 1, fault)
	}
}

// Each rule of the kit notices a Model that breaks it, and no other rule does. There is such a
// Model for every rule.
func TestBrokenModels(t *testing.T) {
	caught := make(map[string]bool)
	for broken, rules := range map[string][]string{
		"Generate has no text":       {"answer"},
		"does not stream":            {"stream", "stop"},
		"yields too much":            {"stream"},
		"has no prompt":              {"prompt"},
		"drops the first of two":     {"conversation"},
		"cuts descriptions":          {"tools"},
		"drops broken arguments":     {"calls"},
		"drops empty results":        {"results"},
		"hides what failed":          {"results"},
		"turns results round":        {"results"},
		"mixes results":              {"ids"},
		"counts what was cached":     {"usage"},
		"sends the whole name":       {"model"},
		"says what was asked for":    {"model"},
		"always thinks":              {"thinking"},
		"drops the schema":           {"schema"},
		"forgets thoughts":           {"thoughts"},
		"believes any Raw":           {"thoughts", "foreign"},
		"drops pictures":             {"pictures", "tool pictures", "lost files"},
		"drops pictures of tools":    {"tool pictures"},
		"drops lost files":           {"lost files"},
		"tells no Internal":          {"internal"},
		"does not say when":          {"rate"},
		"knows no reasons":           {"rate", "server", "too long", "account"},
		"retries everything":         {"rate", "too long", "account", "request"},
		"takes what there is":        {"cut", "end", "secret"}, // and cancel, see sometimes
		"takes what has ended":       {"end"},
		"knows no faults in streams": {"stream fault"},
		"hides the words":            {"request"},
		"knows no refusals":          {"refusal"},
		"fails at the limit":         {"length"},
		"retries a cancelled call":   {"cancel"},
		"outlives its context":       {"cancel", "goroutines"},
		"does not stop":              {"stop", "goroutines"},
		"tries again":                {"server", "once", "secret"},
		"confuses calls":             {"apart"},
		"changes the request":        {"request kept"},
		"names the key":              {"secret"},
		"passes the words on":        {"secret"},
		"leaves goroutines":          {"goroutines"},
		"keeps odd bytes":            {"bytes"},
		"sends odd bytes":            {"bytes"},
	} {
		for _, rule := range rules {
			caught[rule] = true
		}
		t.Run(broken, func(t *testing.T) {
			// Whether it returns before it hears of the end of its context is a matter of time.
			sometimes := broken == "takes what there is"
			var found []string
			for i := range modelRules {
				if sometimes && modelRules[i].name == "cancel" {
					continue
				}
				if failed := brokenModelRule(t, i, broken); failed != "" {
					require.Contains(t, failed, modelRules[i].sentence)
					found = append(found, modelRules[i].name)
				}
			}
			require.ElementsMatch(t, rules, found)
		})
	}
	for _, rule := range modelRules {
		require.True(t, caught[rule.name], "no Model is broken in the rule %q", rule.name)
	}
}

// brokenModelRule tries one rule with a broken Model, and returns what it says of it.
func brokenModelRule(t *testing.T, rule int, broken string) string {
	release := make(chan struct{})
	r := &recorder{TB: t}
	tried := make(chan struct{})
	go func() {
		defer close(tried)
		o := plainOptions()
		o.Patience = 2 * time.Second
		modelRules[rule].try(r, rule+1, newPlain(broken, release), o)
	}()
	<-tried
	close(release)
	return strings.Join(r.failed, "\n")
}
