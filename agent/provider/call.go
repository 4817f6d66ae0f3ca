package provider

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"strings"
)

// CallIDs are the ids of the calls of one conversation, as every provider takes them: each is there
// once, has at most 64 bytes, and consists of letters, digits, - and _. An id that is that already
// stays as it is. The zero CallIDs are those of a conversation that begins.
type CallIDs struct {
	taken map[string]bool
	now   map[string]string // by the id of the transcript, of the calls that came last
}

// Call returns the id for the next call of the conversation, of its id in the transcript.
func (c *CallIDs) Call(id string) string {
	if c.taken == nil {
		c.taken, c.now = make(map[string]bool), make(map[string]string)
	}
	sent := id
	if !isCallID(id) {
		sum := sha256.Sum256([]byte(id))
		sent = "call_" + hex.EncodeToString(sum[:12])
	}
	plain := sent[:min(len(sent), maxCallID-8)]
	for n := 2; c.taken[sent]; n++ {
		sent = plain + "_" + strconv.Itoa(n)
	}
	c.taken[sent], c.now[id] = true, sent
	return sent
}

// Result returns the id of the call that a result is of, of its id in the transcript.
func (c *CallIDs) Result(id string) string {
	if sent, ok := c.now[id]; ok {
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
