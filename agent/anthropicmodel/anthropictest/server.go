package anthropictest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"

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

// errorOf returns the body of an error.
func errorOf(kind, message string) []byte {
	return encode(object{
		"type": "error", "error": object{"type": kind, "message": message}, "request_id": "req_1",
	})
}

// A messageStream writes the events of an answer.
type messageStream struct {
	events [][]byte
	blocks int
}

// add adds an event of a type.
func (s *messageStream) add(kind string, members object) {
	members["type"] = kind
	s.events = append(s.events, fmt.Appendf(nil, "event: %s\ndata: %s\n\n", kind, encode(members)))
}

// block adds a block and the deltas of it.
func (s *messageStream) block(start object, deltas ...object) {
	at := s.blocks
	s.blocks++
	s.add("content_block_start", object{"index": at, "content_block": start})
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
		reply.Status = f.status
		reply.Header = http.Header{"Content-Type": {"application/json"}, "Request-Id": {"req_1"}}
		if a.After > 0 {
			reply.Header.Set("Retry-After", fmt.Sprint(int(a.After.Seconds())))
		}
		reply.Events = [][]byte{errorOf(f.kind, cmp.Or(f.words, a.Message))}
		return reply
	}
	var s messageStream
	s.add("message_start", object{"message": object{
		"id": "msg_1", "type": "message", "role": "assistant", "content": []any{},
		"model": cmp.Or(a.Model, c.Model), "stop_reason": nil, "stop_sequence": nil,
		"usage": object{
			"input_tokens": a.Usage.Input, "output_tokens": 1,
			"cache_read_input_tokens":     a.Usage.CacheRead,
			"cache_creation_input_tokens": a.Usage.CacheWrite,
			"service_tier":                "standard",
		},
	}})
	if a.Thought != "" {
		deltas := pieces("thinking_delta", "thinking", halves(a.Thought)...)
		s.block(object{"type": "thinking", "thinking": "", "signature": ""},
			append(deltas, pieces("signature_delta", "signature", sign(a.Thought))...)...)
	}
	s.add("ping", object{})
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
	reply.Header = http.Header{
		"Content-Type": {"text/event-stream; charset=utf-8"}, "Request-Id": {"req_1"},
	}
	if a.Fault == agenttest.FaultStream {
		reply.Events = append(s.events, fmt.Appendf(nil, "event: error\ndata: %s\n\n",
			errorOf("overloaded_error", a.Message)))
		return reply
	}
	reason := "end_turn"
	switch {
	case a.Fault == agenttest.FaultLength:
		reason = "max_tokens"
	case a.Refusal != "":
		reason = "refusal"
	case len(a.Calls) > 0:
		reason = "tool_use"
	}
	s.add("message_delta", object{
		"delta": object{"stop_reason": reason, "stop_sequence": nil},
		"usage": object{"output_tokens": a.Usage.Output},
	})
	s.add("message_stop", object{})
	reply.Events, reply.Last = s.events, 2
	return reply
}

// tool adds a call. Of arguments that are empty nothing comes.
func (s *messageStream) tool(call agent.ToolCall) {
	s.block(object{"type": "tool_use", "id": call.ID, "name": call.Name, "input": object{}},
		pieces("input_json_delta", "partial_json",
			append([]string{""}, halves(string(call.Args))...)...)...)
}
