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
	Model               string        `json:"model"`
	Messages            []chatMessage `json:"messages"`
	Tools               []chatTool    `json:"tools"`
	Stream              bool          `json:"stream"`
	MaxCompletionTokens *int64        `json:"max_completion_tokens"`
	ReasoningEffort     string        `json:"reasoning_effort"`
	StreamOptions       struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	ResponseFormat *struct {
		Type       string `json:"type"`
		JSONSchema struct {
			Name   string          `json:"name"`
			Strict bool            `json:"strict"`
			Schema json.RawMessage `json:"schema"`
		} `json:"json_schema"`
	} `json:"response_format"`
}

type chatTool struct {
	Type     string `json:"type"`
	Function struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
	} `json:"function"`
}

type chatMessage struct {
	Role             string          `json:"role"`
	Name             string          `json:"name"`
	Content          json.RawMessage `json:"content"`
	ToolCallID       string          `json:"tool_call_id"`
	ReasoningContent string          `json:"reasoning_content"`
	ToolCalls        []struct {
		ID       string `json:"id"`
		Type     string `json:"type"`
		Function struct {
			Name      string `json:"name"`
			Arguments string `json:"arguments"`
		} `json:"function"`
	} `json:"tool_calls"`
}

type chatPart struct {
	Type     string  `json:"type"`
	Text     *string `json:"text"`
	ImageURL *struct {
		URL string `json:"url"`
	} `json:"image_url"`
	File *struct {
		Filename string `json:"filename"`
		FileData string `json:"file_data"`
	} `json:"file"`
	InputAudio *struct {
		Data   []byte `json:"data"`
		Format string `json:"format"`
	} `json:"input_audio"`
}

// efforts are the words for thinking levels.
var efforts = []string{"", "none", "minimal", "low", "medium", "high", "xhigh", "max"}

// Decode implements agenttest.ProviderDialect.
func (Chat) Decode(r *http.Request, body []byte) (c agenttest.ProviderCall, err error) {
	if c.Key, err = keyOf(r); err != nil {
		return c, err
	}
	var in chatRequest
	if err := strictly(body, &in); err != nil {
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
		if t.Type != "function" || t.Function.Name == "" {
			return c, errors.New("openaitest: a tool is not a function with a name")
		}
		c.Tools = append(c.Tools, agenttest.ProviderTool{
			Name: t.Function.Name, Description: t.Function.Description,
			Schema: t.Function.Parameters,
		})
	}
	for i, m := range in.Messages {
		if err := m.decode(i, &c); err != nil {
			return c, fmt.Errorf("openaitest: messages[%d]: %w", i, err)
		}
	}
	return c, nil
}

// decode adds the i-th message to a call.
func (m *chatMessage) decode(i int, c *agenttest.ProviderCall) error {
	text, parts, err := chatContent(m.Content)
	if err != nil {
		return err
	}
	to := agenttest.ProviderMessage{
		Name: m.Name, Text: text, Parts: parts, CallID: m.ToolCallID, Thought: m.ReasoningContent,
	}
	switch m.Role {
	case "system":
		if i > 0 || len(parts) > 0 {
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
		if len(parts) > 0 || m.Content == nil {
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
		if call.Type != "function" || call.Function.Name == "" || len(call.ID) > 64 {
			return errors.New("openaitest: a call is not one of a function with a name, or has a long id")
		}
		to.Calls = append(to.Calls, agent.ToolCall{
			ID: call.ID, Name: call.Function.Name, Args: json.RawMessage(call.Function.Arguments),
		})
	}
	c.Messages = append(c.Messages, to)
	return nil
}

// chatContent returns the text and the files of a content.
func chatContent(content json.RawMessage) (string, []agenttest.ProviderPart, error) {
	var text string
	if len(content) == 0 || json.Unmarshal(content, &text) == nil {
		return text, nil, nil
	}
	var list []chatPart
	if err := strictly(content, &list); err != nil {
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
		case p.Type == "text" && p.Text != nil:
			texts = append(texts, *p.Text)
			continue
		case p.Type == "image_url" && p.ImageURL != nil:
			file, err = partOf(p.ImageURL.URL)
		case p.Type == "file" && p.File != nil && p.File.Filename != "":
			file, err = partOf(p.File.FileData)
		case p.Type == "input_audio" && p.InputAudio != nil:
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
func (s *chatStream) chunk(delta map[string]any, finish any) {
	s.add(map[string]any{
		"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1795000000,
		"model": s.model, "service_tier": "default", "system_fingerprint": "fp_1", "usage": nil,
		"choices": []any{map[string]any{
			"index": 0, "delta": delta, "logprobs": nil, "finish_reason": finish,
		}},
	})
}

// add adds an event.
func (s *chatStream) add(v any) {
	s.events = append(s.events, fmt.Appendf(nil, "data: %s\n\n", encode(v)))
}

// Encode implements agenttest.ProviderDialect.
func (Chat) Encode(
	c agenttest.ProviderCall, a agenttest.ProviderAnswer,
) agenttest.ProviderReply {
	if reply, failed := faultOf(a); failed {
		return reply
	}
	s := chatStream{model: cmp.Or(a.Model, c.Model)}
	s.chunk(map[string]any{"role": "assistant", "content": "", "refusal": nil}, nil)
	if a.Thought != "" {
		for _, piece := range halves(a.Thought) {
			s.chunk(map[string]any{"reasoning_content": piece}, nil)
		}
	}
	for _, piece := range a.Text {
		s.chunk(map[string]any{"content": piece}, nil)
	}
	if a.Refusal != "" {
		for _, piece := range halves(a.Refusal) {
			s.chunk(map[string]any{"refusal": piece}, nil)
		}
	}
	for i, call := range a.Calls {
		s.chunk(map[string]any{"tool_calls": []any{map[string]any{
			"index": i, "id": call.ID, "type": "function",
			"function": map[string]any{"name": call.Name, "arguments": ""},
		}}}, nil)
		for _, piece := range halves(string(call.Args)) {
			s.chunk(map[string]any{"tool_calls": []any{map[string]any{
				"index": i, "function": map[string]any{"arguments": piece},
			}}}, nil)
		}
	}
	reply := agenttest.ProviderReply{Header: streamHeader(), Last: 3}
	if a.Fault == agenttest.FaultStream {
		s.add(map[string]fault{"error": {Message: a.Message, Type: "server_error"}})
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
	s.chunk(map[string]any{}, finish)
	s.add(map[string]any{
		"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1795000000,
		"model": s.model, "choices": []any{}, "usage": chatUsage(a.Usage),
	})
	reply.Events = append(s.events, []byte("data: [DONE]\n\n"))
	return reply
}

// chatUsage returns a Usage in the provider's form.
func chatUsage(u agent.Usage) map[string]any {
	prompt := u.Input + u.CacheRead
	return map[string]any{
		"prompt_tokens": prompt, "completion_tokens": u.Output, "total_tokens": prompt + u.Output,
		"prompt_tokens_details": map[string]any{"cached_tokens": u.CacheRead, "audio_tokens": 0},
		"completion_tokens_details": map[string]any{
			"reasoning_tokens": 0, "audio_tokens": 0, "accepted_prediction_tokens": 0,
			"rejected_prediction_tokens": 0,
		},
	}
}
