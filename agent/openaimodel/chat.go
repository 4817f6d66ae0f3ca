package openaimodel

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/provider"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/packages/ssestream"
	"github.com/openai/openai-go/v3/shared"
)

// internalName is the name of what the library says to the model in the role of a user.
const internalName = "offshoot"

// makeChat makes a call of Chat Completions.
func (c *call) makeChat(
	ctx context.Context, key option.RequestOption,
) (*agent.ModelResponse, error) {
	body, err := c.chatRequest(ctx)
	if err != nil {
		return nil, err
	}
	return c.apart(ctx, func(ctx context.Context, out outlet) (*agent.ModelResponse, error) {
		return c.readChat(c.chat.NewStreaming(ctx, body, key), out)
	})
}

// readChat reads the answer, and shows its text.
func (c *call) readChat(
	stream *ssestream.Stream[openai.ChatCompletionChunk], out outlet,
) (*agent.ModelResponse, error) {
	defer func() { _ = stream.Close() }()
	answer := chatAnswer{model: c.name}
	for stream.Next() {
		before, wasDone, had := answer.size, answer.done, answer.usage
		text := answer.add(stream.Current())
		if answer.size > before {
			c.watch.Heard()
		}
		if answer.done && !wasDone {
			c.watch.Complete()
		}
		if text != "" && !out.show(text) {
			return nil, errStopped
		}
		isCounted := had == (session.Usage{}) && answer.usage != had
		if answer.done && (!wasDone || isCounted) { // twice at most
			if resp, err := answer.response(c.cfg.Provider); err == nil {
				out.keep(resp)
			}
		}
	}
	if err := stream.Err(); err != nil && (!answer.done || isReported(err)) {
		return nil, err
	}
	return answer.response(c.cfg.Provider) // it may lack what the call has used
}

// chatRequest returns the request in the provider's form.
func (c *call) chatRequest(ctx context.Context) (body openai.ChatCompletionNewParams, err error) {
	body.Model = c.name
	body.StreamOptions.IncludeUsage = param.NewOpt(true)
	if c.cfg.MaxTokens > 0 {
		body.MaxCompletionTokens = param.NewOpt(c.cfg.MaxTokens)
	}
	body.ReasoningEffort = effortOf(c.level)
	if provider.Strict(c.req.Schema) {
		format := &shared.ResponseFormatJSONSchemaParam{}
		format.JSONSchema.Name = schemaName
		format.JSONSchema.Schema = provider.ValidJSON(c.req.Schema)
		format.JSONSchema.Strict = param.NewOpt(true)
		body.ResponseFormat.OfJSONSchema = format
	}
	for _, tool := range c.req.Tools {
		schema, err := parametersOf(tool)
		if err != nil {
			return body, err
		}
		function := shared.FunctionDefinitionParam{Name: tool.Name, Parameters: schema}
		if tool.Description != "" {
			function.Description = param.NewOpt(tool.Description)
		}
		body.Tools = append(body.Tools, openai.ChatCompletionFunctionTool(function))
	}
	if prompt := c.req.Prompt.String(); prompt != "" {
		body.Messages = append(body.Messages, openai.SystemMessage(prompt))
	}
	conversation := chatConversation{call: c}
	for _, said := range c.req.Messages {
		if err := conversation.add(ctx, said); err != nil {
			return body, err
		}
	}
	conversation.flush()
	body.Messages = append(body.Messages, conversation.messages...)
	return body, nil
}

// A chatConversation is a conversation in the provider's form, as far as it has been built.
type chatConversation struct {
	*call

	messages []openai.ChatCompletionMessageParamUnion
	ids      provider.CallIDs
	// shown are the pictures of results, which a message of a user shows behind all of them.
	shown []openai.ChatCompletionContentPartUnionParam
}

// add adds a message.
func (v *chatConversation) add(ctx context.Context, said agent.Message) error {
	if said.Role != session.MessageTool {
		v.flush()
	}
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

// flush shows the pictures of results.
func (v *chatConversation) flush() {
	if len(v.shown) > 0 {
		v.messages = append(v.messages, namedUser(openai.UserMessage(v.shown)))
		v.shown = nil
	}
}

// namedUser gives a message of a user the name of the library.
func namedUser(m openai.ChatCompletionMessageParamUnion) openai.ChatCompletionMessageParamUnion {
	m.OfUser.Name = param.NewOpt(internalName)
	return m
}

// addUser adds what a person or the library says.
func (v *chatConversation) addUser(ctx context.Context, said agent.Message) error {
	parts, notes, err := v.chatParts(ctx, said.Parts)
	if err != nil {
		return err
	}
	text := withNotes(said.Text, notes)
	var message openai.ChatCompletionMessageParamUnion
	switch {
	case len(parts) == 0 && text == "":
		return nil
	case len(parts) == 0:
		message = openai.UserMessage(text)
	default:
		if text != "" {
			parts = slices.Insert(parts, 0, openai.TextContentPart(text))
		}
		message = openai.UserMessage(parts)
	}
	if said.Internal {
		message = namedUser(message)
	}
	v.messages = append(v.messages, message)
	return nil
}

// addAssistant adds what the model has said.
func (v *chatConversation) addAssistant(said agent.Message) {
	message := openai.ChatCompletionAssistantMessageParam{}
	text := withNotes(said.Text, madeParts(said.Parts))
	if text != "" {
		message.Content.OfString = param.NewOpt(text)
	}
	kept, next := v.keptOf(said), v.ids.Calls(said.ToolCalls)
	for i, asked := range said.ToolCalls {
		function := openai.ChatCompletionMessageFunctionToolCallParam{ID: next(asked.ID)}
		function.Function.Name = asked.Name
		function.Function.Arguments = string(provider.Args(asked.Args))
		if extra := kept.call(i); len(extra) > 0 {
			function.SetExtraFields(extra)
		}
		message.ToolCalls = append(message.ToolCalls,
			openai.ChatCompletionMessageToolCallUnionParam{OfFunction: &function})
	}
	if len(message.ToolCalls) == 0 && text == "" {
		return
	}
	if len(message.ToolCalls) > 0 && len(kept.Message) > 0 {
		message.SetExtraFields(extraOf(kept.Message))
	}
	v.messages = append(v.messages,
		openai.ChatCompletionMessageParamUnion{OfAssistant: &message})
}

// addResult adds the result of a call.
func (v *chatConversation) addResult(ctx context.Context, said agent.Message) error {
	parts, notes, err := v.chatParts(ctx, said.Parts)
	if err != nil {
		return err
	}
	id := v.ids.Result(said.ToolCallID)
	if len(parts) > 0 {
		notes = append(notes, "[its pictures and files follow]")
		v.shown = append(v.shown, openai.TextContentPart("[of the result of the call "+id+"]"))
		v.shown = append(v.shown, parts...)
	}
	v.messages = append(v.messages, openai.ToolMessage(withNotes(said.Text, notes), id))
	return nil
}

// chatParts returns Parts in the provider's form, and notes in the place of the others.
func (c *call) chatParts(ctx context.Context, given []agent.Part) (
	parts []openai.ChatCompletionContentPartUnionParam, notes []string, err error,
) {
	for _, p := range given {
		file, err := provider.ReadPart(ctx, c.req, p, chatTypes)
		switch {
		case err != nil:
			return nil, nil, err
		case file.Note != "":
			notes = append(notes, file.Note)
		case file.URL != "":
			parts = append(parts, openai.ImageContentPart(
				openai.ChatCompletionContentPartImageImageURLParam{URL: file.URL}))
		case soundFormats[file.MediaType] != "":
			parts = append(parts, openai.InputAudioContentPart(
				openai.ChatCompletionContentPartInputAudioInputAudioParam{
					Data: base64Of(file.Data), Format: soundFormats[file.MediaType],
				}))
		case strings.HasPrefix(file.MediaType, "image/"):
			parts = append(parts, openai.ImageContentPart(
				openai.ChatCompletionContentPartImageImageURLParam{URL: dataURL(file)}))
		default:
			parts = append(parts, openai.FileContentPart(
				openai.ChatCompletionContentPartFileFileParam{
					FileData: param.NewOpt(dataURL(file)), Filename: param.NewOpt(nameOf(file)),
				}))
		}
	}
	return parts, notes, nil
}

// A chatAnswer is an answer as far as it has come.
type chatAnswer struct {
	model string
	text  strings.Builder
	calls []*chatCall
	last  map[int64]*chatCall  // by index, the one that began last
	known map[chatID]*chatCall // with an id
	usage agent.Usage
	done  bool
	// reason is why it is not whole; "": it is.
	reason string
	kept   members
	size   int // grows with each chunk that adds something
}

// A chatID is what tells calls apart.
type chatID struct {
	index int64
	id    string
}

// A chatCall is a call as far as it has come.
type chatCall struct {
	id, name string
	args     strings.Builder
	kept     members
}

// keptMembers are the members of a message beside its text and calls that servers want back.
var keptMembers = []string{"reasoning_content", "reasoning", "reasoning_details"}

// add adds a chunk, and returns the text in it.
func (a *chatAnswer) add(chunk openai.ChatCompletionChunk) (text string) {
	if chunk.Model != "" {
		a.model = chunk.Model
	}
	if used := chunk.Usage; used.TotalTokens > 0 || used.PromptTokens > 0 {
		of := used.PromptTokensDetails
		a.usage = provider.Uncached(agent.Usage{
			Input: used.PromptTokens, Output: used.CompletionTokens,
			CacheRead: of.CachedTokens, CacheWrite: of.CacheWriteTokens,
		})
	}
	for _, choice := range chunk.Choices {
		if choice.Index != 0 {
			continue
		}
		text += choice.Delta.Content + choice.Delta.Refusal
		for _, part := range choice.Delta.ToolCalls {
			a.addCall(part)
		}
		for _, name := range keptMembers {
			if field, ok := choice.Delta.JSON.ExtraFields[name]; ok {
				a.size += a.kept.add(name, field.Raw())
			}
		}
		if choice.FinishReason != "" && !a.done {
			a.done = true
			a.size++
		}
		if r := choice.FinishReason; r == "length" || r == "content_filter" {
			a.reason = r
		}
	}
	a.text.WriteString(text)
	a.size += len(text)
	return text
}

// addCall adds a piece of a call.
func (a *chatAnswer) addCall(part openai.ChatCompletionChunkChoiceDeltaToolCall) {
	known := a.callOf(part.Index, part.ID)
	known.name += part.Function.Name
	known.args.WriteString(part.Function.Arguments)
	a.size += len(part.Function.Name) + len(part.Function.Arguments)
	for name, field := range part.JSON.ExtraFields {
		a.size += known.kept.add(name, field.Raw())
	}
}

// callOf returns the call that a piece is of, which may be a new one. Some servers give every call
// the index 0, whole and with an id of its own.
func (a *chatAnswer) callOf(index int64, id string) *chatCall {
	of := chatID{index, id}
	known := a.known[of]
	if last := a.last[index]; last != nil && (id == "" || last.id == "") {
		known = last
	}
	if known == nil {
		known = &chatCall{}
		a.calls = append(a.calls, known)
		a.size++
		if a.last == nil {
			a.last, a.known = make(map[int64]*chatCall), make(map[chatID]*chatCall)
		}
		a.last[index] = known
	}
	if id != "" {
		known.id, a.known[of] = id, known
	}
	return known
}

// response returns the answer, which must be complete.
func (a *chatAnswer) response(of string) (*agent.ModelResponse, error) {
	if !a.done {
		return nil, agent.Retryable(errEnded)
	}
	resp := &agent.ModelResponse{Text: a.text.String(), Usage: a.usage, Model: a.model}
	kept := keptRaw{API: APIChat, Provider: of, Message: a.kept.encode()}
	for _, c := range a.calls {
		resp.ToolCalls = append(resp.ToolCalls, agent.ToolCall{
			ID: c.id, Name: c.name, Args: json.RawMessage(c.args.String()),
		})
		kept.Calls = append(kept.Calls, c.kept.encode())
	}
	if a.reason != "" {
		if err := withheld(resp, a.reason); err != nil {
			return nil, err
		}
	}
	if !slices.ContainsFunc(kept.Calls, func(c map[string]json.RawMessage) bool {
		return len(c) > 0
	}) {
		kept.Calls = nil
	}
	if len(kept.Message) > 0 || kept.Calls != nil {
		resp.Raw = kept.encode()
	}
	return resp, nil
}

// extraOf returns members as the client takes them.
func extraOf(members map[string]json.RawMessage) map[string]any {
	extra := make(map[string]any, len(members))
	for _, name := range slices.Sorted(maps.Keys(members)) {
		extra[name] = members[name]
	}
	return extra
}
