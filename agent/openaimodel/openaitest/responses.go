package openaitest

import (
	"cmp"
	"encoding/base64"
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

// Responses is the form of Responses.
type Responses struct{}

// An itemRequest is the body of a request.
type itemRequest struct {
	Model           string            `json:"model" need:"*"`
	Instructions    string            `json:"instructions"`
	Input           []json.RawMessage `json:"input" need:"*"`
	Store           *bool             `json:"store"`
	Stream          bool              `json:"stream"`
	Include         []string          `json:"include"`
	MaxOutputTokens *int64            `json:"max_output_tokens"`
	Reasoning       struct {
		Effort string `json:"effort"`
	} `json:"reasoning"`
	Text struct {
		Format *struct {
			Type   string          `json:"type" need:"*"`
			Name   string          `json:"name" need:"json_schema"`
			Strict bool            `json:"strict"`
			Schema json.RawMessage `json:"schema" need:"json_schema"`
		} `json:"format"`
	} `json:"text"`
	Tools []struct {
		Type        string          `json:"type" need:"*"`
		Name        string          `json:"name" need:"function"`
		Description string          `json:"description"`
		Strict      *bool           `json:"strict" need:"function"`
		Parameters  json.RawMessage `json:"parameters" need:"function"`
	} `json:"tools"`
}

// An inputItem is one item of the input, of any type. One without is a message.
type inputItem struct {
	Type             string          `json:"type"`
	ID               string          `json:"id" need:"reasoning"`
	Status           string          `json:"status"`
	Role             string          `json:"role" need:",message"`
	Content          json.RawMessage `json:"content" need:",message"`
	CallID           string          `json:"call_id" need:"function_call,function_call_output"`
	Name             string          `json:"name" need:"function_call"`
	Arguments        string          `json:"arguments" need:"function_call"`
	Output           json.RawMessage `json:"output" need:"function_call_output"`
	Summary          []any           `json:"summary" need:"reasoning"`
	EncryptedContent string          `json:"encrypted_content" need:"reasoning"`
}

// An inputPart is one part of a content, of any type.
type inputPart struct {
	Type        string `json:"type" need:"*"`
	Text        string `json:"text" need:"input_text,output_text"`
	ImageURL    string `json:"image_url" need:"input_image"`
	Detail      string `json:"detail"`
	FileData    string `json:"file_data" need:"input_file"`
	Filename    string `json:"filename" need:"input_file"`
	Annotations []any  `json:"annotations"`
	Logprobs    []any  `json:"logprobs"`
	Refusal     string `json:"refusal" need:"refusal"`
}

// Decode implements agenttest.ProviderDialect.
func (Responses) Decode(r *http.Request, body []byte) (c agenttest.ProviderCall, err error) {
	if c.Key, err = keyOf(r); err != nil {
		return c, err
	}
	var in itemRequest
	if err := agenttest.DecodeRequest(body, &in, ""); err != nil {
		return c, err
	}
	switch {
	case !in.Stream:
		return c, errors.New("openaitest: stream is not set")
	case in.Store == nil || *in.Store:
		return c, errors.New("openaitest: store is not false")
	case !slices.Contains(in.Include, "reasoning.encrypted_content"):
		return c, errors.New("openaitest: reasoning.encrypted_content is not included")
	case !slices.Contains(efforts, in.Reasoning.Effort):
		return c, fmt.Errorf("openaitest: reasoning.effort is %q", in.Reasoning.Effort)
	}
	c.Model, c.System, c.Thinking = in.Model, in.Instructions, in.Reasoning.Effort
	if f := in.Text.Format; f != nil {
		if f.Type != "json_schema" {
			return c, fmt.Errorf("openaitest: text.format.type is %q", f.Type)
		}
		if c.Schema, err = checkFormat(f.Name, f.Schema, f.Strict); err != nil {
			return c, err
		}
	}
	for _, t := range in.Tools {
		if t.Type != "function" || !nameForm.MatchString(t.Name) {
			return c, fmt.Errorf("openaitest: the tool %q is not a function, or has an odd name", t.Name)
		}
		c.Tools = append(c.Tools, agenttest.ProviderTool{
			Name: t.Name, Description: t.Description, Schema: t.Parameters,
		})
	}
	for i, raw := range in.Input {
		var item inputItem
		at := fmt.Sprintf("input[%d]", i)
		err := agenttest.DecodeRequest(raw, &item, at)
		if err == nil {
			err = item.decode(at, &c)
		}
		if err != nil {
			return c, fmt.Errorf("openaitest: %s: %w", at, err)
		}
	}
	return c, nil
}

// decode adds the item at a path to a call.
func (it *inputItem) decode(at string, c *agenttest.ProviderCall) (err error) {
	to := agenttest.ProviderMessage{Role: session.MessageAssistant}
	switch cmp.Or(it.Type, "message") {
	case "message":
		to.Role = session.MessageRole(it.Role)
		if it.Role != "user" && it.Role != "assistant" {
			return fmt.Errorf("openaitest: the role is %q", it.Role)
		}
		to.Text, to.Parts, err = itemContent(it.Content, at+".content")
	case "function_call":
		if len(it.CallID) > 64 || !json.Valid([]byte(it.Arguments)) {
			return errors.New("openaitest: a call has a long id, or its arguments are not JSON")
		}
		to.Calls = []agent.ToolCall{{
			ID: it.CallID, Name: it.Name, Args: json.RawMessage(it.Arguments),
		}}
	case "function_call_output":
		to.Role, to.CallID = session.MessageTool, it.CallID
		to.Text, to.Parts, err = itemContent(it.Output, at+".output")
	case "reasoning":
		thought, bad := base64.StdEncoding.DecodeString(it.EncryptedContent)
		if bad != nil {
			return errors.New("openaitest: what the model thought does not come back as it was")
		}
		to.Thought = string(thought)
	default:
		return fmt.Errorf("openaitest: the type is %q", it.Type)
	}
	c.Messages = append(c.Messages, to)
	return err
}

// itemContent returns the text and the files of a content at a path.
func itemContent(content json.RawMessage, at string) (string, []agenttest.ProviderPart, error) {
	var text string
	if json.Unmarshal(content, &text) == nil {
		return text, nil, nil
	}
	var list []inputPart
	if err := agenttest.DecodeRequest(content, &list, at); err != nil {
		return "", nil, err
	}
	var texts []string
	var files []agenttest.ProviderPart
	for _, p := range list {
		var file agenttest.ProviderPart
		var err error
		switch {
		case p.Type == "input_text" || p.Type == "output_text":
			texts = append(texts, p.Text)
			continue
		case p.Type == "refusal":
			texts = append(texts, p.Refusal)
			continue
		case p.Type == "input_image":
			file, err = partOf(p.ImageURL)
		case p.Type == "input_file":
			file, err = partOf(p.FileData)
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

// An itemStream writes the events of an answer.
type itemStream struct {
	call   agenttest.ProviderCall
	answer agenttest.ProviderAnswer
	events [][]byte
	output []any
}

// add adds an event of a type.
func (s *itemStream) add(kind string, members object) {
	members["type"], members["sequence_number"] = kind, len(s.events)
	s.events = append(s.events, fmt.Appendf(nil, "event: %s\ndata: %s\n\n", kind, encode(members)))
}

// response returns the whole response with a status.
func (s *itemStream) response(status string) object {
	r := object{
		"id": "resp_1", "object": "response", "created_at": 1795000000, "status": status,
		"background": false, "error": nil, "incomplete_details": nil, "instructions": s.call.System,
		"max_output_tokens": nil, "max_tool_calls": nil,
		"model":  cmp.Or(s.answer.Model, s.call.Model),
		"output": append([]any{}, s.output...), "parallel_tool_calls": true,
		"previous_response_id": nil, "prompt_cache_key": nil, "prompt_cache_retention": nil,
		"reasoning":         object{"effort": "medium", "summary": nil},
		"safety_identifier": nil, "service_tier": "default", "store": false, "temperature": 1.0,
		"text":        object{"format": object{"type": "text"}, "verbosity": "medium"},
		"tool_choice": "auto", "tools": []any{}, "top_logprobs": 0, "top_p": 1.0,
		"truncation": "disabled", "usage": nil, "user": nil, "metadata": object{},
	}
	if status == "completed" || status == "incomplete" {
		u := s.answer.Usage
		input := u.Input + u.CacheRead + u.CacheWrite
		r["usage"] = object{
			"input_tokens": input, "output_tokens": u.Output, "total_tokens": input + u.Output,
			"input_tokens_details": object{
				"cached_tokens": u.CacheRead, "cache_write_tokens": u.CacheWrite,
			},
			"output_tokens_details": object{"reasoning_tokens": 0},
		}
	}
	return r
}

// item adds an item that has begun, what comes of it, and its end.
func (s *itemStream) item(begun, whole object, deltas func(at int)) {
	at := len(s.output)
	s.add("response.output_item.added", object{"output_index": at, "item": begun})
	deltas(at)
	s.add("response.output_item.done", object{"output_index": at, "item": whole})
	s.output = append(s.output, whole)
}

// message adds a message, of which the text or the refusal comes in pieces.
func (s *itemStream) message(kind, member string, pieces []string) {
	all := strings.Join(pieces, "")
	part := func(text string) object {
		p := object{"type": kind, member: text}
		if kind == "output_text" {
			p["annotations"], p["logprobs"] = []any{}, []any{}
		}
		return p
	}
	of := func(status string, content ...any) object {
		return object{
			"id": "msg_1", "type": "message", "status": status, "role": "assistant",
			"content": append([]any{}, content...),
		}
	}
	s.item(of("in_progress"), of("completed", part(all)), func(at int) {
		where := func(more object) object {
			more["item_id"], more["output_index"], more["content_index"] = "msg_1", at, 0
			return more
		}
		// more adds what only events of texts have.
		more := func(event object) object {
			if kind == "output_text" {
				event["logprobs"] = []any{}
			}
			return where(event)
		}
		s.add("response.content_part.added", where(object{"part": part("")}))
		for _, piece := range pieces {
			s.add("response."+kind+".delta", more(object{"delta": piece, "obfuscation": padding}))
		}
		s.add("response."+kind+".done", more(object{member: all}))
		s.add("response.content_part.done", where(object{"part": part(all)}))
	})
}

// function adds a call.
func (s *itemStream) function(call agent.ToolCall) {
	id := "fc_" + call.ID
	of := func(status, args string) object {
		return object{
			"id": id, "type": "function_call", "status": status, "call_id": call.ID,
			"name": call.Name, "arguments": args,
		}
	}
	args := string(call.Args)
	s.item(of("in_progress", ""), of("completed", args), func(at int) {
		for _, piece := range halves(args) {
			s.add("response.function_call_arguments.delta", object{
				"item_id": id, "output_index": at, "delta": piece, "obfuscation": padding,
			})
		}
		s.add("response.function_call_arguments.done", object{
			"item_id": id, "output_index": at, "arguments": args,
		})
	})
}

// fail adds the two events of an answer that has failed.
func (s *itemStream) fail(said fault) {
	code := said.Type
	if said.Code != nil {
		code = *said.Code
	}
	s.add("error", object{"error": said})
	r := s.response("failed")
	r["error"] = object{"code": code, "message": said.Message}
	s.add("response.failed", object{"response": r})
}

// Encode implements agenttest.ProviderDialect.
func (Responses) Encode(
	c agenttest.ProviderCall, a agenttest.ProviderAnswer,
) agenttest.ProviderReply {
	s := itemStream{call: c, answer: a}
	s.add("response.created", object{"response": s.response("in_progress")})
	s.add("response.in_progress", object{"response": s.response("in_progress")})
	if said, failed := saidOf(a, "input"); a.Fault == agenttest.FaultTooLong {
		s.fail(said)
		return agenttest.ProviderReply{Header: streamHeader(), Events: s.events}
	} else if failed {
		reply, _ := faultOf(a, "input")
		return reply
	}
	if a.Thought != "" {
		item := object{
			"id": "rs_1", "type": "reasoning", "summary": []any{},
			"encrypted_content": base64.StdEncoding.EncodeToString([]byte(a.Thought)),
		}
		s.item(item, item, func(int) {})
	}
	if len(a.Text) > 0 {
		s.message("output_text", "text", a.Text)
	}
	if a.Refusal != "" {
		s.message("refusal", "refusal", halves(a.Refusal))
	}
	for _, call := range a.Calls {
		s.function(call)
	}
	switch a.Fault {
	case agenttest.FaultStream:
		s.fail(fault{Message: a.Message, Type: "server_error"})
	case agenttest.FaultLength:
		r := s.response("incomplete")
		r["incomplete_details"] = object{"reason": "max_output_tokens"}
		s.add("response.incomplete", object{"response": r})
	default:
		s.add("response.completed", object{"response": s.response("completed")})
	}
	return agenttest.ProviderReply{Header: streamHeader(), Events: s.events, Last: 1}
}
