package openaimodel

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/provider"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/packages/ssestream"
	"github.com/openai/openai-go/v3/responses"
)

// makeResponse makes a call of Responses.
func (c *call) makeResponse(
	ctx context.Context, key option.RequestOption,
) (*agent.ModelResponse, error) {
	body, err := c.responseRequest(ctx)
	if err != nil {
		return nil, err
	}
	return c.apart(ctx, func(ctx context.Context, out outlet) (*agent.ModelResponse, error) {
		return c.readResponse(c.responses.NewStreaming(ctx, body, key), out)
	})
}

// readResponse reads the answer, and shows its text.
func (c *call) readResponse(
	stream *ssestream.Stream[responses.ResponseStreamEventUnion], out outlet,
) (*agent.ModelResponse, error) {
	defer func() { _ = stream.Close() }()
	answer := responseAnswer{model: c.name}
	for stream.Next() {
		before := answer.size
		text, err := answer.add(stream.Current())
		if answer.size > before {
			c.watch.Heard()
		}
		if err == nil && text != "" && !out.show(text) {
			err = errStopped
		}
		if err != nil {
			return nil, err
		}
		if answer.done { // what is behind the last event, or is not, changes nothing
			resp, err := answer.response(c.cfg.Provider)
			if err == nil {
				c.watch.Complete()
				out.keep(resp)
			}
			return resp, err
		}
	}
	if err := stream.Err(); err != nil {
		return nil, err
	}
	return answer.response(c.cfg.Provider)
}

// responseRequest returns the request in the provider's form. The provider keeps nothing of it: the
// conversation is the transcript's, and what the model thought comes back encrypted.
func (c *call) responseRequest(
	ctx context.Context,
) (body responses.ResponseNewParams, err error) {
	body.Model = c.name
	body.Store = param.NewOpt(false)
	body.Include = []responses.ResponseIncludable{
		responses.ResponseIncludableReasoningEncryptedContent,
	}
	if c.cfg.MaxTokens > 0 {
		body.MaxOutputTokens = param.NewOpt(c.cfg.MaxTokens)
	}
	body.Reasoning.Effort = effortOf(c.level)
	if provider.Strict(c.req.Schema) {
		schema, err := objectOf(c.req.Schema)
		if err != nil {
			return body, err
		}
		body.Text.Format.OfJSONSchema = &responses.ResponseFormatTextJSONSchemaConfigParam{
			Name: schemaName, Schema: schema, Strict: param.NewOpt(true),
		}
	}
	for _, tool := range c.req.Tools {
		schema, err := parametersOf(tool)
		if err != nil {
			return body, err
		}
		function := &responses.FunctionToolParam{
			Name: tool.Name, Parameters: schema, Strict: param.NewOpt(false),
		}
		if tool.Description != "" {
			function.Description = param.NewOpt(tool.Description)
		}
		body.Tools = append(body.Tools, responses.ToolUnionParam{OfFunction: function})
	}
	if prompt := c.req.Prompt.String(); prompt != "" {
		body.Instructions = param.NewOpt(prompt)
	}
	conversation := itemConversation{call: c}
	for _, said := range c.req.Messages {
		if err := conversation.add(ctx, said); err != nil {
			return body, err
		}
	}
	body.Input.OfInputItemList = conversation.items
	return body, nil
}

// An itemConversation is a conversation in the provider's form, as far as it has been built.
type itemConversation struct {
	*call

	items []responses.ResponseInputItemUnionParam
	ids   provider.CallIDs
}

// add adds a message.
func (v *itemConversation) add(ctx context.Context, said agent.Message) error {
	switch said.Role {
	case session.MessageUser:
		return v.addUser(ctx, said)
	case session.MessageAssistant:
		v.addAssistant(said)
	case session.MessageTool:
		return v.addResult(ctx, said)
	case session.MessageNote:
	}
	return nil
}

// addMessage adds a text that has a speaker.
func (v *itemConversation) addMessage(role responses.EasyInputMessageRole, text string) {
	if text != "" {
		v.items = append(v.items, responses.ResponseInputItemParamOfMessage(text, role))
	}
}

// addUser adds what a person or the library says.
func (v *itemConversation) addUser(ctx context.Context, said agent.Message) error {
	files, notes, err := v.files(ctx, said.Parts)
	if err != nil {
		return err
	}
	text := withNotes(said.Text, notes)
	if len(files) == 0 {
		v.addMessage(responses.EasyInputMessageRoleUser, text)
		return nil
	}
	var list responses.ResponseInputMessageContentListParam
	if text != "" {
		list = append(list, responses.ResponseInputContentParamOfInputText(text))
	}
	for _, file := range files {
		part := responses.ResponseInputContentUnionParam{}
		if address, ok := pictureOf(file); ok {
			part = responses.ResponseInputContentParamOfInputImage(
				responses.ResponseInputImageDetailAuto)
			part.OfInputImage.ImageURL = param.NewOpt(address)
		} else {
			part.OfInputFile = &responses.ResponseInputFileParam{
				FileData: param.NewOpt(dataURL(file)), Filename: param.NewOpt(nameOf(file)),
			}
		}
		list = append(list, part)
	}
	v.items = append(v.items, responses.ResponseInputItemParamOfMessage(
		list, responses.EasyInputMessageRoleUser))
	return nil
}

// addAssistant adds what the model has said: the items of its answer as they came, or else new ones
// of the text and the calls.
func (v *itemConversation) addAssistant(said agent.Message) {
	next := v.ids.Calls(said.ToolCalls)
	if kept := v.keptOf(said); len(kept.Items) > 0 {
		for _, item := range kept.Items {
			v.items = append(v.items, param.Override[responses.ResponseInputItemUnionParam](
				withCallID(item, next)))
		}
		return
	}
	v.addMessage(responses.EasyInputMessageRoleAssistant,
		withNotes(said.Text, madeParts(said.Parts)))
	for _, asked := range said.ToolCalls {
		v.items = append(v.items, responses.ResponseInputItemParamOfFunctionCall(
			string(provider.Args(asked.Args)), next(asked.ID), asked.Name))
	}
}

// withCallID returns an item with the id under which its call is sent, the next of its own. The
// bytes stay if it is the same.
func withCallID(item json.RawMessage, next func(id string) string) json.RawMessage {
	var members map[string]json.RawMessage
	var id string
	if json.Unmarshal(item, &members) != nil || json.Unmarshal(members["call_id"], &id) != nil {
		return item
	}
	sent := next(id)
	if sent == "" || sent == id {
		return item
	}
	members["call_id"] = quoted(sent)
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(members) != nil {
		return item
	}
	return bytes.TrimSpace(b.Bytes())
}

// addResult adds the result of a call.
func (v *itemConversation) addResult(ctx context.Context, said agent.Message) error {
	files, notes, err := v.files(ctx, said.Parts)
	if err != nil {
		return err
	}
	output := &responses.ResponseInputItemFunctionCallOutputParam{
		CallID: param.NewOpt(v.ids.Result(said.ToolCallID)),
	}
	v.items = append(v.items, responses.ResponseInputItemUnionParam{OfFunctionCallOutput: output})
	text := withNotes(said.Text, notes)
	if len(files) == 0 {
		output.Output.OfString = param.NewOpt(text)
		return nil
	}
	var list responses.ResponseFunctionCallOutputItemListParam
	if text != "" {
		list = append(list, responses.ResponseFunctionCallOutputItemParamOfInputText(text))
	}
	for _, file := range files {
		part := responses.ResponseFunctionCallOutputItemUnionParam{}
		if address, ok := pictureOf(file); ok {
			part.OfInputImage = &responses.ResponseInputImageContentParam{
				ImageURL: param.NewOpt(address),
			}
		} else {
			part.OfInputFile = &responses.ResponseInputFileContentParam{
				FileData: param.NewOpt(dataURL(file)), Filename: param.NewOpt(nameOf(file)),
			}
		}
		list = append(list, part)
	}
	output.Output.OfResponseFunctionCallOutputItemArray = list
	return nil
}

// files returns Parts that the provider takes, and notes in the place of the others.
func (c *call) files(
	ctx context.Context, given []agent.Part,
) (files []provider.Content, notes []string, err error) {
	for _, p := range given {
		file, err := provider.ReadPart(ctx, c.req, p, fileTypes)
		switch {
		case err != nil:
			return nil, nil, err
		case file.Note != "":
			notes = append(notes, file.Note)
		default:
			files = append(files, file)
		}
	}
	return files, notes, nil
}

// pictureOf returns the address of a picture, or false for another file.
func pictureOf(file provider.Content) (address string, ok bool) {
	if file.URL != "" {
		return file.URL, true
	}
	return dataURL(file), strings.HasPrefix(file.MediaType, "image/")
}

// A responseAnswer is an answer as far as it has come.
type responseAnswer struct {
	model  string
	text   strings.Builder
	item   string // the id of the one whose text comes
	items  []json.RawMessage
	usage  agent.Usage
	done   bool
	reason string // why it is not whole; "": it is
	size   int    // grows with each event that adds something
}

// add adds an event, and returns the text in it.
func (a *responseAnswer) add(e responses.ResponseStreamEventUnion) (text string, err error) {
	if strings.HasSuffix(e.Type, ".delta") {
		a.size += len(e.Delta) // of thoughts and arguments, too, which come whole with their item
	}
	switch e.Type {
	case "response.created":
		a.size = max(a.size, 1)
	case "response.output_item.added":
		a.size++
	case "response.output_text.delta", "response.refusal.delta":
		if text = e.Delta; text == "" {
			break
		}
		if a.item != e.ItemID && a.text.Len() > 0 {
			text = "\n\n" + text // another message of the same answer
		}
		a.item = e.ItemID
		a.text.WriteString(text)
	case "response.output_item.done":
		if item := json.RawMessage(e.Item.RawJSON()); json.Valid(item) {
			a.items = append(a.items, item)
			a.size++
		}
	case "response.completed":
		a.end(e.Response)
	case "response.incomplete":
		a.reason = e.Response.IncompleteDetails.Reason
		a.end(e.Response)
	case "response.failed":
		said := e.Response.Error
		err = faultOf(string(said.Code), said.Type, said.Message)
	case "error":
		err = faultOf(e.Code, "", e.Message)
	}
	return text, err
}

// end takes what the last event says of the answer.
func (a *responseAnswer) end(r responses.Response) {
	if !a.done {
		a.size++
	}
	a.done = true
	if r.Model != "" {
		a.model = r.Model
	}
	of := r.Usage.InputTokensDetails
	a.usage = provider.Uncached(agent.Usage{
		Input: r.Usage.InputTokens, Output: r.Usage.OutputTokens,
		CacheRead: of.CachedTokens, CacheWrite: of.CacheWriteTokens,
	})
	for _, item := range r.Output {
		raw := json.RawMessage(item.RawJSON())
		if call, _ := callOf(raw); call != nil && !a.has(call.ID) { // its own event has not come
			a.items = append(a.items, raw)
		}
	}
}

// has reports whether a call has come.
func (a *responseAnswer) has(id string) bool {
	return slices.ContainsFunc(a.items, func(item json.RawMessage) bool {
		call, _ := callOf(item)
		return call != nil && call.ID == id
	})
}

// callOf returns the call that an item is, or nil if it is something else.
func callOf(item json.RawMessage) (*agent.ToolCall, error) {
	var it struct {
		Type      string `json:"type"`
		CallID    string `json:"call_id"`
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	}
	if err := json.Unmarshal(item, &it); err != nil || it.Type != "function_call" {
		return nil, err
	}
	return &agent.ToolCall{ID: it.CallID, Name: it.Name, Args: json.RawMessage(it.Arguments)}, nil
}

// response returns the answer, which must be complete.
func (a *responseAnswer) response(of string) (*agent.ModelResponse, error) {
	if !a.done {
		return nil, agent.Retryable(errEnded)
	}
	resp := &agent.ModelResponse{Text: a.text.String(), Usage: a.usage, Model: a.model}
	kept := keptRaw{API: APIResponses, Provider: of}
	for _, item := range a.items {
		call, err := callOf(item)
		if err != nil {
			continue
		}
		if call != nil {
			resp.ToolCalls = append(resp.ToolCalls, *call)
		}
		kept.Items = append(kept.Items, item)
	}
	if a.reason != "" {
		if err := withheld(resp, a.reason); err != nil {
			return nil, err
		}
		return resp, nil
	}
	// Thoughts without calls are of no use to later answers, and the text is kept anyway.
	if len(resp.ToolCalls) > 0 && len(kept.Items) > len(resp.ToolCalls) && kept.areJSON() {
		resp.Raw = kept.encode()
	}
	return resp, nil
}

// areJSON reports whether the arguments of all calls are JSON: a provider refuses an item of a call
// whose are not.
func (k *keptRaw) areJSON() bool {
	for _, item := range k.Items {
		var it struct {
			Arguments *string `json:"arguments"`
		}
		if json.Unmarshal(item, &it) != nil ||
			it.Arguments != nil && !json.Valid([]byte(*it.Arguments)) {
			return false
		}
	}
	return true
}
