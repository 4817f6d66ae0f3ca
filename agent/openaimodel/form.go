package openaimodel

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/provider"
	"github.com/openai/openai-go/v3/shared"
)

// schemaName is the name that a provider wants for the schema of an answer.
const schemaName = "answer"

// imageTypes are the types of pictures that a model is shown.
var imageTypes = []string{"image/png", "image/jpeg", "image/gif", "image/webp"}

// fileTypes are those of all files that both APIs take, and chatTypes those of Chat Completions.
var (
	fileTypes = append([]string{"application/pdf"}, imageTypes...)
	chatTypes = append([]string{"audio/wav", "audio/x-wav", "audio/wave", "audio/mpeg"},
		fileTypes...)
)

// soundFormats are the provider's words for types of sound.
var soundFormats = map[string]string{
	"audio/wav": "wav", "audio/x-wav": "wav", "audio/wave": "wav", "audio/mpeg": "mp3",
}

// effortOf returns the provider's word for a thinking level. Adaptive, and no level, leave it to
// the model.
func effortOf(level string) shared.ReasoningEffort {
	switch level {
	case "off":
		return shared.ReasoningEffortNone
	case "minimal":
		return shared.ReasoningEffortMinimal
	case "low":
		return shared.ReasoningEffortLow
	case "medium":
		return shared.ReasoningEffortMedium
	case "high":
		return shared.ReasoningEffortHigh
	case "xhigh":
		return shared.ReasoningEffortXhigh
	}
	return ""
}

// parametersOf returns the schema of the arguments of a tool, see [provider.ToolSchema].
func parametersOf(tool agent.Tool) (map[string]any, error) {
	schema, err := provider.ToolSchema(tool)
	if err != nil {
		return nil, err
	}
	return objectOf(schema)
}

// objectOf returns an object as the client takes it. Its numbers stay, and so does the order within
// its members.
func objectOf(object json.RawMessage) (map[string]any, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(provider.ValidJSON(object), &members); err != nil {
		return nil, err
	}
	return extraOf(members), nil
}

// withNotes returns a text with notes behind it.
func withNotes(text string, notes []string) string {
	if text != "" {
		notes = append([]string{text}, notes...)
	}
	return strings.Join(notes, "\n")
}

// madeParts returns notes of what the model made beside its text, which it cannot be shown.
func madeParts(parts []agent.Part) (notes []string) {
	for _, p := range parts {
		notes = append(notes, fmt.Sprintf("[you made a %s here]", cmp.Or(string(p.Kind), "file")))
	}
	return notes
}

// base64Of returns bytes as the provider takes them.
func base64Of(data []byte) string { return base64.StdEncoding.EncodeToString(data) }

// dataURL returns the address of bytes that has them itself.
func dataURL(c provider.Content) string {
	return "data:" + c.MediaType + ";base64," + base64Of(c.Data)
}

// nameOf returns the name of a file, which the provider wants.
func nameOf(c provider.Content) string { return cmp.Or(c.Name, "file.pdf") }

// A keptRaw is the Raw of an answer: what the provider wants back beside the text and the calls.
type keptRaw struct {
	API      API    `json:"api"`
	Provider string `json:"provider"`
	// Message and Calls are the members of the message and of its calls, of Chat Completions.
	Message map[string]json.RawMessage   `json:"message,omitempty"`
	Calls   []map[string]json.RawMessage `json:"calls,omitempty"`
	// Items are all items of an answer, of Responses.
	Items []json.RawMessage `json:"items,omitempty"`
}

// encode returns the JSON form. The bytes of members and items stay.
func (k *keptRaw) encode() json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(k) != nil { // what a server sent is JSON, or was not kept
		return nil
	}
	return bytes.TrimSpace(b.Bytes())
}

// call returns the members of the i-th call.
func (k *keptRaw) call(i int) map[string]any {
	if i >= len(k.Calls) {
		return nil
	}
	return extraOf(k.Calls[i])
}

// keptOf returns what was kept of an answer by a Model with the same Provider and API.
func (c *call) keptOf(said agent.Message) (kept keptRaw) {
	if json.Unmarshal(provider.ValidJSON(said.Raw), &kept) != nil || kept.API != c.cfg.API ||
		kept.Provider != c.cfg.Provider {
		return keptRaw{}
	}
	return kept
}

// members are members of an answer that come in pieces, by name. The zero members are none.
type members map[string]*member

// A member is one as far as it has come. The pieces of a text or a list are joined when the answer
// has ended, since there may be many.
type member struct {
	kind   byte            // '"' of a text, '[' of a list, 0 of another value
	pieces int             // how many have come
	first  json.RawMessage // the first piece, or another value
	text   strings.Builder
	list   [][]byte
}

// add adds a piece of a member: texts and lists go on, and a value of another kind takes the place
// of what was there. It returns how much the answer has grown.
func (m *members) add(name, raw string) (grown int) {
	piece := bytes.TrimSpace([]byte(raw))
	if raw == "" || raw == "null" || !json.Valid(piece) {
		return 0
	}
	if *m == nil {
		*m = make(members)
	}
	kind := piece[0]
	if kind != '"' && kind != '[' {
		kind = 0
	}
	one := (*m)[name]
	if one == nil {
		grown = 1 // what takes the place of another adds nothing: it could do so without end
	}
	if one == nil || kind == 0 || one.kind != kind {
		one = &member{kind: kind, first: piece}
		(*m)[name] = one
	}
	one.pieces++
	var text string
	var list []json.RawMessage
	switch {
	case kind == '"' && json.Unmarshal(piece, &text) == nil:
		one.text.WriteString(text)
	case kind == '[' && json.Unmarshal(piece, &list) == nil:
		for _, item := range list {
			one.list = append(one.list, item)
		}
	}
	return grown + len(text) + len(list)
}

// encode returns the members, joined; nil: there are none.
func (m members) encode() map[string]json.RawMessage {
	if len(m) == 0 {
		return nil
	}
	joined := make(map[string]json.RawMessage, len(m))
	for name, one := range m {
		switch {
		case one.pieces == 1:
			joined[name] = one.first // the bytes stay
		case one.kind == '"':
			joined[name] = quoted(one.text.String())
		default:
			joined[name] = slices.Concat([]byte("["), bytes.Join(one.list, []byte(",")), []byte("]"))
		}
	}
	return joined
}

// quoted returns a text as JSON.
func quoted(text string) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(text) != nil {
		return json.RawMessage(`""`)
	}
	return bytes.TrimSpace(b.Bytes())
}
