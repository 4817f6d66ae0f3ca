package anthropicmodel

import (
	"encoding/json"
	"strings"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/provider"
)

// An answer is one as far as it has come.
type answer struct {
	model  string
	text   strings.Builder
	blocks []*block
	at     map[int64]*block // by index
	usage  agent.Usage
	reason anthropic.StopReason
	why    string // the provider's words for it; may be empty
	done   bool
	lost   bool // a piece of a block has come that did not begin
	size   int  // grows with each event that adds something
}

// isComplete reports whether the provider has told the end of the answer: its last event, or why it
// has stopped, which stands in the one before.
func (a *answer) isComplete() bool { return a.done || a.reason != "" }

// A block is one of an answer.
type block struct {
	kind      string
	id, name  string
	text      strings.Builder // of a text, a thought, or the arguments of a call
	signature strings.Builder
	whole     json.RawMessage // of one that comes at once
	input     json.RawMessage // of a call whose arguments came with its beginning
}

// arguments returns those of a call. The provider sends them in pieces behind the beginning, and
// for a tool without arguments none. Some servers send all of them with the beginning.
func (b *block) arguments() json.RawMessage {
	switch {
	case b.text.Len() > 0:
		return json.RawMessage(b.text.String())
	case len(b.input) > 0 && string(b.input) != "null":
		return b.input
	}
	return json.RawMessage(`{}`)
}

// add adds an event, and returns the text in it that is for people.
func (a *answer) add(e anthropic.MessageStreamEventUnion) (text string) {
	switch e.Type {
	case "message_start":
		a.size = max(a.size, 1)
		if e.Message.Model != "" {
			a.model = e.Message.Model
		}
		used := e.Message.Usage
		a.usage = provider.Usage(agent.Usage{
			Input: used.InputTokens, Output: used.OutputTokens,
			CacheRead: used.CacheReadInputTokens, CacheWrite: used.CacheCreationInputTokens,
		})
	case "content_block_start":
		text = a.begin(e)
	case "content_block_delta":
		text = a.more(e)
	case "message_delta":
		if e.Delta.StopReason != "" {
			if a.reason == "" {
				a.size++
			}
			a.reason, a.why = e.Delta.StopReason, e.Delta.StopDetails.Explanation
		}
		a.usage = provider.Usage(agent.Usage{
			Input:      max(a.usage.Input, e.Usage.InputTokens),
			Output:     max(a.usage.Output, e.Usage.OutputTokens),
			CacheRead:  max(a.usage.CacheRead, e.Usage.CacheReadInputTokens),
			CacheWrite: max(a.usage.CacheWrite, e.Usage.CacheCreationInputTokens),
		})
	case "message_stop":
		if !a.done {
			a.size++
		}
		a.done = true
	}
	a.text.WriteString(text)
	return text
}

// begin begins a block. A text behind a text and another block is a paragraph of its own.
func (a *answer) begin(e anthropic.MessageStreamEventUnion) (text string) {
	started := e.ContentBlock
	b := &block{kind: started.Type, id: started.ID, name: started.Name}
	if last := len(a.blocks) - 1; b.kind == "text" && a.text.Len() > 0 && last >= 0 &&
		a.blocks[last].kind != "text" {
		text = "\n\n"
	}
	switch b.kind {
	case "text":
		b.text.WriteString(started.Text)
		text += started.Text
	case "thinking":
		b.text.WriteString(started.Thinking)
		b.signature.WriteString(started.Signature)
	case "tool_use":
		b.input = json.RawMessage(started.JSON.Input.Raw())
	default:
		b.whole = json.RawMessage(started.RawJSON())
	}
	a.blocks = append(a.blocks, b)
	if a.at == nil {
		a.at = make(map[int64]*block)
	}
	a.at[e.Index] = b
	a.size++
	return text
}

// more adds a piece to a block.
func (a *answer) more(e anthropic.MessageStreamEventUnion) (text string) {
	b := a.at[e.Index]
	if b == nil {
		a.lost = true
		return ""
	}
	switch e.Delta.Type {
	case "text_delta":
		text = e.Delta.Text
		b.text.WriteString(text)
	case "thinking_delta":
		b.text.WriteString(e.Delta.Thinking)
	case "input_json_delta":
		b.text.WriteString(e.Delta.PartialJSON)
	case "signature_delta":
		b.signature.WriteString(e.Delta.Signature)
	}
	a.size += len(text) + len(e.Delta.Thinking) + len(e.Delta.PartialJSON) + len(e.Delta.Signature)
	return text
}

// response returns the answer.
func (a *answer) response(of, asked string) (*agent.ModelResponse, error) {
	resp := &agent.ModelResponse{
		Text: a.text.String(), Usage: a.usage, Model: provider.Ran(of, asked, a.model),
	}
	thought, sound := false, true
	kept := keptRaw{Provider: of}
	for _, b := range a.blocks {
		if b.kind == "tool_use" {
			args := b.arguments()
			sound = sound && json.Valid(args)
			resp.ToolCalls = append(resp.ToolCalls,
				agent.ToolCall{ID: b.id, Name: b.name, Args: args})
		}
		thought = thought || b.kind == "thinking" || b.kind == "redacted_thinking"
		if raw := b.encode(); raw != nil {
			kept.Blocks = append(kept.Blocks, raw)
		}
	}
	if resp.Text == "" && len(resp.ToolCalls) == 0 {
		if err := withheld(a.reason, a.why); err != nil {
			return nil, err
		}
	}
	if thought && sound && len(kept.Blocks) > 0 {
		resp.Raw = encode(kept)
	}
	return resp, nil
}

// withheld returns the error of an answer with nothing in it, if the provider says why, in a word
// and perhaps in a sentence.
func withheld(reason anthropic.StopReason, why string) error {
	e := &provider.Error{
		Client: "anthropicmodel", Code: string(reason), Class: provider.ClassRefused,
		Message: "the answer ended before it had begun",
	}
	if why != "" {
		e.Message += ": " + why
	}
	switch reason {
	case anthropic.StopReasonModelContextWindowExceeded:
		e.Class = provider.ClassTooLong
	case anthropic.StopReasonRefusal, anthropic.StopReasonMaxTokens:
	default:
		return nil // the model chose to say nothing
	}
	return e
}

// encode returns the block as the provider takes it back, or nil for one that it does not.
func (b *block) encode() json.RawMessage {
	said := b.text.String()
	switch b.kind {
	case "text":
		if isBlank(said) {
			return nil
		}
		return encode(struct {
			Type string `json:"type"`
			Text string `json:"text"`
		}{b.kind, said})
	case "thinking":
		return encode(struct {
			Type      string `json:"type"`
			Thinking  string `json:"thinking"`
			Signature string `json:"signature"`
		}{b.kind, said, b.signature.String()})
	case "tool_use":
		return encode(struct {
			Type  string          `json:"type"`
			ID    string          `json:"id"`
			Name  string          `json:"name"`
			Input json.RawMessage `json:"input"`
		}{b.kind, b.id, b.name, provider.Args(b.arguments())})
	case "redacted_thinking":
		return b.whole
	}
	return nil
}
