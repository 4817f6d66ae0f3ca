package provider

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"strconv"
	"strings"

	"github.com/offshoot-sdk/offshoot/agent"
)

// CallIDs are the ids of the calls of one conversation, as every provider takes them: each is there
// once, has at most 64 bytes, and consists of letters, digits, - and _. An id that is that already
// stays as it is. The zero CallIDs are those of a conversation that begins.
type CallIDs struct {
	taken map[string]bool
	now   sentIDs // of the calls that came last
}

// sentIDs are the ids of calls as they are sent, in order, by their id in the transcript.
type sentIDs map[string][]string

// next returns the id of the next call that has an id in the transcript: behind the last one that
// of the last, and "" if there is none.
func (s sentIDs) next(id string) string {
	list := s[id]
	if len(list) == 0 {
		return ""
	}
	if len(list) > 1 {
		s[id] = list[1:]
	}
	return list[0]
}

// Call returns the id for the next call of the conversation, of its id in the transcript, which is
// the only one of its message. The calls of one message go to [CallIDs.Calls].
func (c *CallIDs) Call(id string) string {
	return c.Calls([]agent.ToolCall{{ID: id}})(id)
}

// Calls takes the calls of the next message of the conversation. The function that it returns gives
// the ids for them, by their ids in the transcript: two calls that have the same there have two of
// their own, in the order of the calls. For an id that none of them has it returns "".
func (c *CallIDs) Calls(calls []agent.ToolCall) (next func(id string) string) {
	if c.taken == nil {
		c.taken, c.now = make(map[string]bool), make(sentIDs)
	}
	sent := make(sentIDs, len(calls))
	for _, asked := range calls {
		sent[asked.ID] = append(sent[asked.ID], c.take(asked.ID))
	}
	maps.Copy(c.now, sent)
	return sent.next
}

// take returns an id that no other call has, for one of the transcript.
func (c *CallIDs) take(id string) string {
	sent := id
	if !isCallID(id) {
		sum := sha256.Sum256([]byte(id))
		sent = "call_" + hex.EncodeToString(sum[:12])
	}
	plain := sent[:min(len(sent), maxCallID-8)]
	for n := 2; c.taken[sent]; n++ {
		sent = plain + "_" + strconv.Itoa(n)
	}
	c.taken[sent] = true
	return sent
}

// Result returns the id of the call that the next result is of, of its id in the transcript. Of
// several calls of one message with that id, the first result is that of the first.
func (c *CallIDs) Result(id string) string {
	if sent := c.now.next(id); sent != "" {
		return sent
	}
	return c.Call(id) // of a call that is not in the conversation
}

// maxCallID is how many bytes an id has at most.
const maxCallID = 64

// isCallID reports whether every provider takes an id.
func isCallID(id string) bool {
	return id != "" && len(id) <= maxCallID && strings.Trim(id, "0123456789-_"+
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
}

// Args returns the arguments of a call as every provider takes them in a conversation: an object.
// Those of a model that are another value, or not JSON, are the only member of one. They are valid
// UTF-8, see [ValidJSON].
func Args(args json.RawMessage) json.RawMessage {
	trimmed := bytes.TrimSpace(ValidJSON(args))
	switch {
	case len(trimmed) == 0:
		return json.RawMessage(`{}`)
	case trimmed[0] == '{' && json.Valid(trimmed):
		return trimmed
	}
	object, err := json.Marshal(map[string]string{"invalid_arguments": string(args)})
	if err != nil { // a map of texts has a JSON form
		return json.RawMessage(`{}`)
	}
	return object
}
