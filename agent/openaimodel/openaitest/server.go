package openaitest

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"github.com/offshoot-sdk/offshoot/agent/agenttest"
)

// Handler is the service, for a server of package httptest: its BaseURL is that of the server with
// "/v1". Provider says what is answered, and has what was asked.
func Handler(p *agenttest.Provider) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST /v1/chat/completions", p.Handler(Chat{}))
	mux.Handle("POST /v1/responses", p.Handler(Responses{}))
	return mux
}

// object is a JSON object.
type object = map[string]any

// nameForm is what the provider takes as the name of a function.
var nameForm = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// keyOf returns the key of a request.
func keyOf(r *http.Request) (string, error) {
	if r.Header.Get("Content-Type") != "application/json" {
		return "", fmt.Errorf("openaitest: the Content-Type is %q", r.Header.Get("Content-Type"))
	}
	said := r.Header.Get("Authorization")
	if said == "" {
		return "", nil
	}
	key, ok := strings.CutPrefix(said, "Bearer ")
	if !ok || key == "" {
		return "", errors.New("openaitest: the Authorization has no key")
	}
	return key, nil
}

// partOf returns a file of a data URL, or of another address.
func partOf(address string) (part agenttest.ProviderPart, err error) {
	data, ok := strings.CutPrefix(address, "data:")
	if !ok {
		if !strings.HasPrefix(address, "https://") && !strings.HasPrefix(address, "http://") {
			return part, fmt.Errorf("openaitest: %.50q is not an address", address)
		}
		return agenttest.ProviderPart{URL: address}, nil
	}
	mediaType, coded, ok := strings.Cut(data, ";base64,")
	if !ok {
		return part, errors.New("openaitest: a data URL is not in base64")
	}
	part.MediaType = mediaType
	part.Data, err = base64.StdEncoding.DecodeString(coded)
	return part, err
}

// checkFormat returns the schema of an answer, which must have a name and be strict.
func checkFormat(name string, schema json.RawMessage, strict bool) (json.RawMessage, error) {
	var object struct {
		Type string `json:"type"`
	}
	if name == "" || json.Unmarshal(schema, &object) != nil || object.Type != "object" {
		return nil, errors.New("openaitest: the format of the answer has no name, or not the schema of an object")
	}
	if !strict {
		return nil, errors.New("openaitest: the format of the answer is not strict")
	}
	return schema, nil
}

// A fault is the form of an error of the service.
type fault struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    *string `json:"code"`
}

// faults are the status, the type and the code of each.
var faults = map[agenttest.ProviderFault]struct {
	status     int
	kind, code string
}{
	agenttest.FaultRate:   {http.StatusTooManyRequests, "requests", "rate_limit_exceeded"},
	agenttest.FaultServer: {http.StatusInternalServerError, "server_error", ""},
	agenttest.FaultOverload: {
		http.StatusServiceUnavailable, "service_unavailable_error", "server_is_overloaded",
	},
	agenttest.FaultTooLong: {
		http.StatusBadRequest, "invalid_request_error", "context_length_exceeded",
	},
	agenttest.FaultAccount: {http.StatusUnauthorized, "invalid_request_error", "invalid_api_key"},
	agenttest.FaultRequest: {http.StatusBadRequest, "invalid_request_error", ""},
}

// saidOf returns what the service says of a fault, or false for one of which it says nothing. The
// history is the member of a request that is too long when the conversation is.
func saidOf(a agenttest.ProviderAnswer, history string) (said fault, failed bool) {
	f, failed := faults[a.Fault]
	said = fault{Message: a.Message, Type: f.kind}
	if f.code != "" {
		said.Code = &f.code
	}
	if a.Fault == agenttest.FaultTooLong {
		said.Param = &history
	}
	if member, ok := errors.AsType[*agenttest.MemberError](a.Cause); ok {
		code := "missing_required_parameter"
		if member.Unknown {
			code = "unknown_parameter"
		}
		said.Code, said.Param = &code, &member.Path
	}
	return said, failed
}

// faultOf returns the reply to a call that fails at once, or false.
func faultOf(
	a agenttest.ProviderAnswer, history string,
) (reply agenttest.ProviderReply, failed bool) {
	said, failed := saidOf(a, history)
	if !failed {
		return reply, false
	}
	reply.Status = faults[a.Fault].status
	reply.Header = headerOf("application/json")
	if a.Fault == agenttest.FaultRate {
		reply.Header.Set("X-Ratelimit-Remaining-Requests", "0")
		reply.Header.Set("X-Ratelimit-Reset-Requests", a.After.String())
	}
	if a.After > 0 {
		reply.Header.Set("Retry-After", fmt.Sprint(int(a.After.Seconds())))
	}
	body := object{"error": said}
	if a.Fault == agenttest.FaultAccount {
		body["status"] = reply.Status
	}
	reply.Events = [][]byte{encode(body)}
	return reply, true
}

// encode returns the JSON of a value of this package.
func encode(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Appendf(nil, "%q", err)
	}
	return data
}

// headerOf returns the header of an answer of a type.
func headerOf(contentType string) http.Header {
	return http.Header{
		"Content-Type": {contentType}, "X-Request-Id": {"req_1"},
		"Openai-Version": {"2020-10-01"}, "Openai-Processing-Ms": {"47"},
	}
}

// streamHeader is the header of an answer that is streamed.
func streamHeader() http.Header { return headerOf("text/event-stream; charset=utf-8") }

// padding is what stands beside each piece of an answer, so that its size does not tell its text.
const padding = "x8Zq0"

// halves cuts a text in two, which need not be at a rune: JSON has no half of one.
func halves(text string) []string {
	runes := []rune(text)
	if len(runes) < 2 {
		return []string{text}
	}
	return []string{string(runes[:len(runes)/2]), string(runes[len(runes)/2:])}
}

// pieces are the halves of a text, or nothing of one that is empty.
func pieces(text string) []string {
	if text == "" {
		return nil
	}
	return halves(text)
}
