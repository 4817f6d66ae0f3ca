package openaitest

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/session"
)

// Chat is the form of Chat Completions.
type Chat struct{}

// A chatRequest is the body of a request.
type chatRequest struct {
	Model               string            `json:"model" need:"*"`
	Messages            []json.RawMessage `json:"messages" need:"*"`
	Tools               []chatTool        `json:"tools"`
	Stream              bool              `json:"stream"`
	MaxCompletionTokens *int64            `json:"max_completion_tokens"`
	ReasoningEffort     string            `json:"reasoning_effort"`
	StreamOptions       struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	ResponseFormat *struct {
		Type       string `json:"type" need:"*"`
		JSONSchema struct {
			Name   string          `json:"name" need:"*"`
			Strict bool            `json:"strict"`
			Schema json.RawMessage `json:"schema"`
		} `json:"json_schema" need:"json_schema"`
	} `json:"response_format"`
}

type chatTool struct {
	Type     string `json:"type" need:"*"`
	Function struct {
		Name        string          `json:"name" need:"*"`
		Description string          `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
	} `json:"function" need:"*"`
}

type chatMessage struct {
	Role             string          `json:"role" need:"*"`
	Name             string          `json:"name"`
	Content          json.RawMessage `json:"content" need:"system,user,tool"`
	ToolCallID       string          `json:"tool_call_id" need:"tool"`
	ReasoningContent string          `json:"reasoning_content"`
	ToolCalls        []chatCall      `json:"tool_calls"`
}

type chatCall struct {
	ID       string `json:"id" need:"*"`
	Type     string `json:"type" need:"*"`
	Function struct {
		Name      string `json:"name" need:"*"`
		Arguments string `json:"arguments" need:"*"`
	} `json:"function" need:"*"`
}

type chatPart struct {
	Type     string `json:"type" need:"*"`
	Text     string `json:"text" need:"text"`
	ImageURL struct {
		URL string `json:"url" need:"*"`
	} `json:"image_url" need:"image_url"`
	File struct {
		Filename string `json:"filename"`
		FileData string `json:"file_data"`
	} `json:"file" need:"file"`
	InputAudio struct {
		Data   []byte `json:"data" need:"*"`
		Format string `json:"format" need:"*"`
	} `json:"input_audio" need:"input_audio"`
}

// efforts are the words for thinking levels.
var efforts = []string{"", "none", "minimal", "low", "medium", "high", "xhigh", "max"}

// Decode implements agenttest.ProviderDialect.
func (Chat) Decode(r *http.Request, body []byte) (c agenttest.ProviderCall, err error) {
	if c.Key, err = keyOf(r); err != nil {
		return c, err
	}
	var in chatRequest
	if err := agenttest.DecodeRequest(body, &in, ""); err != nil {
		return c, err
	}
	switch {
	case !in.Stream || !in.StreamOptions.IncludeUsage:
		return c, errors.New("openaitest: stream and stream_options.include_usage are not set")
	case !slices.Contains(efforts, in.ReasoningEffort):
		return c, fmt.Errorf("openaitest: reasoning_effort is %q", in.ReasoningEffort)
	}
	c.Model, c.Thinking = in.Model, in.ReasoningEffort
	if f := in.ResponseFormat; f != nil {
		if f.Type != "json_schema" {
			return c, fmt.Errorf("openaitest: response_format.type is %q", f.Type)
		}
		c.Schema, err = checkFormat(f.JSONSchema.Name, f.JSONSchema.Schema, f.JSONSchema.Strict)
		if err != nil {
			return c, err
		}
	}
	for _, t := range in.Tools {
		if t.Type != "function" || !nameForm.MatchString(t.Function.Name) {
			return c, fmt.Errorf("openaitest: the tool %q is not a function, or has an odd name",
				t.Function.Name)
		}
		c.Tools = append(c.Tools, agenttest.ProviderTool{
			Name: t.Function.Name, Description: t.Function.Description,
			Schema: t.Function.Parameters,
		})
	}
	for i, raw := range in.Messages {
		var m chatMessage
		at := fmt.Sprintf("messages[%d]", i)
		err := agenttest.DecodeRequest(raw, &m, at)
		if err == nil {
			err = m.decode(at, &c)
		}
		if err != nil {
			return c, fmt.Errorf("openaitest: %s: %w", at, err)
		}
	}
	return c, nil
}

// decode adds the message at a path to a call.
func (m *chatMessage) decode(at string, c *agenttest.ProviderCall) error {
	text, parts, err := chatContent(m.Content, at+".content")
	if err != nil {
		return err
	}
	to := agenttest.ProviderMessage{
		Name: m.Name, Text: text, Parts: parts, CallID: m.ToolCallID, Thought: m.ReasoningContent,
	}
	switch m.Role {
	case "system":
		if c.System != "" || len(c.Messages) > 0 || len(parts) > 0 {
			return errors.New("openaitest: a message of the system is not the first, or is not a text")
		}
		c.System = text
		return nil
	case "user":
		to.Role = session.MessageUser
	case "assistant":
		to.Role = session.MessageAssistant
		if len(parts) > 0 {
			return errors.New("openaitest: a message of the assistant has pictures")
		}
	case "tool":
		to.Role = session.MessageTool
		if len(parts) > 0 {
			return errors.New("openaitest: a result is not a text")
		}
	default:
		return fmt.Errorf("openaitest: the role is %q", m.Role)
	}
	if (m.Role == "tool") != (m.ToolCallID != "") || m.Role != "assistant" &&
		(len(m.ToolCalls) > 0 || m.ReasoningContent != "") || m.Role != "user" && m.Name != "" {
		return fmt.Errorf("openaitest: a message of the role %q has what only others have", m.Role)
	}
	for _, call := range m.ToolCalls {
		if call.Type != "function" || len(call.ID) > 64 {
			return errors.New("openaitest: a call is not one of a function, or has a long id")
		}
		to.Calls = append(to.Calls, agent.ToolCall{
			ID: call.ID, Name: call.Function.Name, Args: json.RawMessage(call.Function.Arguments),
		})
	}
	c.Messages = append(c.Messages, to)
	return nil
}

// chatContent returns the text and the files of a content at a path.
func chatContent(content json.RawMessage, at string) (string, []agenttest.ProviderPart, error) {
	var text string
	if len(content) == 0 || json.Unmarshal(content, &text) == nil {
		return text, nil, nil
	}
	var list []chatPart
	if err := agenttest.DecodeRequest(content, &list, at); err != nil {
		return "", nil, err
	}
	if len(list) == 0 {
		return "", nil, errors.New("openaitest: the content is empty")
	}
	var texts []string
	var files []agenttest.ProviderPart
	for _, p := range list {
		var file agenttest.ProviderPart
		var err error
		switch {
		case p.Type == "text":
			texts = append(texts, p.Text)
			continue
		case p.Type == "image_url":
			file, err = partOf(p.ImageURL.URL)
		case p.Type == "file" && p.File.Filename != "":
			file, err = partOf(p.File.FileData)
		case p.Type == "input_audio":
			file = agenttest.ProviderPart{
				MediaType: "audio/" + p.InputAudio.Format, Data: p.InputAudio.Data,
			}
		default:
			err = fmt.Errorf("openaitest: a part of the type %q is not one", p.Type)
		}
		if err != nil {
			return "", nil, err
		}
		files = append(files, file)
	}
	return strings.Join(texts, "\n"), files, nil
}

// A chatStream writes the chunks of an answer.
type chatStream struct {
	model  string
	events [][]byte
}

// chunk adds a chunk with a delta, or a reason why the answer ends.
func (s *chatStream) chunk(delta object, finish any) {
	s.add([]any{object{
		"index": 0, "delta": delta, "logprobs": nil, "finish_reason": finish,
	}}, nil, padding)
}

// add adds a chunk.
func (s *chatStream) add(choices []any, usage any, beside string) {
	s.event(object{
		"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1795000000,
		"model": s.model, "service_tier": "default", "system_fingerprint": "fp_1",
		"choices": choices, "usage": usage, "obfuscation": beside,
	})
}

// event adds an event.
func (s *chatStream) event(v any) {
	s.events = append(s.events, fmt.Appendf(nil, "data: %s\n\n", encode(v)))
}

// calls adds calls. In an answer of nothing else, the first begins in the first chunk.
func (s *chatStream) calls(calls []agent.ToolCall, first object) {
	for i, call := range calls {
		delta := object{}
		if i == 0 && first != nil {
			delta = first
		}
		delta["tool_calls"] = []any{object{
			"index": i, "id": call.ID, "type": "function",
			"function": object{"name": call.Name, "arguments": ""},
		}}
		s.chunk(delta, nil)
		for _, piece := range halves(string(call.Args)) {
			s.chunk(object{"tool_calls": []any{object{
				"index": i, "function": object{"arguments": piece},
			}}}, nil)
		}
	}
}

// Encode implements agenttest.ProviderDialect.
func (Chat) Encode(
	c agenttest.ProviderCall, a agenttest.ProviderAnswer,
) agenttest.ProviderReply {
	if reply, failed := faultOf(a, "messages"); failed {
		return reply
	}
	s := chatStream{model: cmp.Or(a.Model, c.Model)}
	first := object{"role": "assistant", "content": nil, "refusal": nil}
	if len(a.Calls) == 0 || len(a.Text) > 0 || a.Thought != "" || a.Refusal != "" {
		first["content"] = ""
		s.chunk(first, nil)
		first = nil
	}
	for _, piece := range pieces(a.Thought) {
		s.chunk(object{"reasoning_content": piece}, nil)
	}
	for _, piece := range a.Text {
		s.chunk(object{"content": piece}, nil)
	}
	for _, piece := range pieces(a.Refusal) {
		s.chunk(object{"refusal": piece}, nil)
	}
	s.calls(a.Calls, first)
	reply := agenttest.ProviderReply{Header: streamHeader(), Last: 3}
	if a.Fault == agenttest.FaultStream {
		s.event(map[string]fault{"error": {Message: a.Message, Type: "server_error"}})
		reply.Events = s.events
		return reply
	}
	finish := "stop"
	switch {
	case a.Fault == agenttest.FaultLength:
		finish = "length"
	case len(a.Calls) > 0:
		finish = "tool_calls"
	}
	s.chunk(object{}, finish)
	s.add([]any{}, chatUsage(a.Usage), "")
	reply.Events = append(s.events, []byte("data: [DONE]\n\n"))
	return reply
}

// chatUsage returns a Usage in the provider's form.
func chatUsage(u agent.Usage) object {
	prompt := u.Input + u.CacheRead + u.CacheWrite
	return object{
		"prompt_tokens": prompt, "completion_tokens": u.Output, "total_tokens": prompt + u.Output,
		"prompt_tokens_details": object{
			"cached_tokens": u.CacheRead, "cache_write_tokens": u.CacheWrite, "audio_tokens": 0,
		},
		"completion_tokens_details": object{
			"reasoning_tokens": 0, "audio_tokens": 0, "accepted_prediction_tokens": 0,
			"rejected_prediction_tokens": 0,
		},
	}
}
