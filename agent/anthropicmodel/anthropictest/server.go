package anthropictest

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
)

// Handler is the service, for a server of package httptest, whose URL is the BaseURL. Provider says
// what is answered, and has what was asked.
func Handler(p *agenttest.Provider) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST /v1/messages", p.Handler(Messages{}))
	return mux
}

// object is a JSON object.
type object = map[string]any

// encode returns the JSON of a value of this package.
func encode(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Appendf(nil, "%q", err)
	}
	return data
}

// faults are the status and the type of each.
var faults = map[agenttest.ProviderFault]struct {
	status int
	kind   string
	words  string // in the place of a Message
}{
	agenttest.FaultRate:     {http.StatusTooManyRequests, "rate_limit_error", ""},
	agenttest.FaultServer:   {http.StatusInternalServerError, "api_error", ""},
	agenttest.FaultOverload: {529, "overloaded_error", ""},
	agenttest.FaultTooLong: {
		http.StatusBadRequest, "invalid_request_error",
		"prompt is too long: 200001 tokens > 200000 maximum",
	},
	agenttest.FaultAccount: {http.StatusUnauthorized, "authentication_error", ""},
	agenttest.FaultRequest: {http.StatusBadRequest, "invalid_request_error", ""},
}

// errorOf returns an error. In the middle of an answer it does not name the request.
func errorOf(kind, message string) object {
	return object{"type": "error", "error": object{"type": kind, "message": message}}
}

// wordsOf returns what the service says of a fault. Of a member it says first which it is.
func wordsOf(a agenttest.ProviderAnswer) string {
	member, ok := errors.AsType[*agenttest.MemberError](a.Cause)
	if !ok {
		return a.Message
	}
	path := strings.NewReplacer("[", ".", "]", "").Replace(member.Path)
	if member.Unknown {
		return path + ": it is not known"
	}
	return path + ": it is needed"
}

// headerOf returns the header of an answer of a type.
func headerOf(contentType string) http.Header {
	return http.Header{
		"Content-Type": {contentType}, "Request-Id": {"req_1"},
		"Anthropic-Organization-Id":              {"org_1"},
		"Anthropic-Ratelimit-Requests-Remaining": {"3999"},
	}
}

// A messageStream writes the events of an answer.
type messageStream struct {
	events [][]byte
	blocks int
}

// add adds an event of a type.
func (s *messageStream) add(kind string, members object) {
	members["type"] = kind
	data := encode(members)
	if kind != "ping" { // its size does not tell the text
		data = fmt.Appendf(data[:len(data)-1], "%*s", len(s.events)%7+1, "}")
	}
	s.events = append(s.events, fmt.Appendf(nil, "event: %s\ndata: %s\n\n", kind, data))
}

// block adds a block and the deltas of it.
func (s *messageStream) block(start object, deltas ...object) {
	at := s.blocks
	s.blocks++
	s.add("content_block_start", object{"index": at, "content_block": start})
	if at == 0 {
		s.add("ping", object{})
	}
	for _, d := range deltas {
		s.add("content_block_delta", object{"index": at, "delta": d})
	}
	s.add("content_block_stop", object{"index": at})
}

// pieces returns deltas of a type, one for each text.
func pieces(kind, member string, texts ...string) (deltas []object) {
	for _, text := range texts {
		deltas = append(deltas, object{"type": kind, member: text})
	}
	return deltas
}

// halves cuts a text in two.
func halves(text string) []string {
	runes := []rune(text)
	return []string{string(runes[:len(runes)/2]), string(runes[len(runes)/2:])}
}

// Encode implements agenttest.ProviderDialect.
func (Messages) Encode(
	c agenttest.ProviderCall, a agenttest.ProviderAnswer,
) (reply agenttest.ProviderReply) {
	if f, failed := faults[a.Fault]; failed {
		reply.Status, reply.Header = f.status, headerOf("application/json")
		if a.Fault == agenttest.FaultRate {
			reply.Header.Set("Anthropic-Ratelimit-Requests-Remaining", "0")
		}
		if a.After > 0 {
			reply.Header.Set("Retry-After", fmt.Sprint(int(a.After.Seconds())))
		}
		said := errorOf(f.kind, cmp.Or(f.words, wordsOf(a)))
		said["request_id"] = "req_1"
		reply.Events = [][]byte{encode(said)}
		return reply
	}
	var s messageStream
	s.start(cmp.Or(a.Model, c.Model), a.Usage)
	if a.Thought != "" {
		deltas := pieces("thinking_delta", "thinking", halves(a.Thought)...)
		s.block(object{"type": "thinking", "thinking": "", "signature": ""},
			append(deltas, pieces("signature_delta", "signature", sign(a.Thought))...)...)
	}
	text := a.Text
	if a.Refusal != "" {
		text = append(text, a.Refusal)
	}
	if len(text) > 0 {
		s.block(object{"type": "text", "text": ""}, pieces("text_delta", "text", text...)...)
	}
	for _, call := range a.Calls {
		s.tool(call)
	}
	reply.Header = headerOf("text/event-stream; charset=utf-8")
	if a.Fault == agenttest.FaultStream {
		s.add("error", errorOf("overloaded_error", a.Message))
		reply.Events = s.events
		return reply
	}
	s.end(a)
	reply.Events, reply.Last = s.events, 2
	return reply
}

// start adds the event with which an answer begins.
func (s *messageStream) start(model string, u agent.Usage) {
	usage := usageOf(u)
	usage["output_tokens"] = 1
	usage["cache_creation"] = object{
		"ephemeral_5m_input_tokens": u.CacheWrite, "ephemeral_1h_input_tokens": 0,
	}
	usage["service_tier"], usage["inference_geo"] = "standard", "not_available"
	s.add("message_start", object{"message": object{
		"id": "msg_1", "type": "message", "role": "assistant", "content": []any{},
		"model": model, "stop_reason": nil, "stop_sequence": nil, "stop_details": nil,
		"usage": usage,
	}})
}

// end adds the events with which an answer ends.
func (s *messageStream) end(a agenttest.ProviderAnswer) {
	delta := object{"stop_reason": "end_turn", "stop_sequence": nil, "stop_details": nil}
	switch {
	case a.Fault == agenttest.FaultLength:
		delta["stop_reason"] = "max_tokens"
	case a.Refusal != "":
		delta["stop_reason"] = "refusal"
		delta["stop_details"] = object{"type": "refusal", "category": nil, "explanation": nil}
	case len(a.Calls) > 0:
		delta["stop_reason"] = "tool_use"
	}
	usage := usageOf(a.Usage)
	usage["output_tokens_details"] = object{"thinking_tokens": 0}
	s.add("message_delta", object{"delta": delta, "usage": usage})
	s.add("message_stop", object{})
}

// usageOf returns a Usage in the provider's form.
func usageOf(u agent.Usage) object {
	return object{
		"input_tokens": u.Input, "output_tokens": u.Output,
		"cache_read_input_tokens": u.CacheRead, "cache_creation_input_tokens": u.CacheWrite,
	}
}

// tool adds a call. Of arguments that are empty nothing comes.
func (s *messageStream) tool(call agent.ToolCall) {
	s.block(object{
		"type": "tool_use", "id": call.ID, "name": call.Name, "input": object{},
		"caller": object{"type": "direct"},
	},
		pieces("input_json_delta", "partial_json",
			append([]string{""}, halves(string(call.Args))...)...)...)
}
