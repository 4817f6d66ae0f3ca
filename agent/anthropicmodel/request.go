package anthropicmodel

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/packages/param"
	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/provider"
	agentctx "github.com/offshoot-sdk/offshoot/context"
	"github.com/offshoot-sdk/offshoot/session"
)

// fileTypes are the types of files that a model is shown.
var fileTypes = []string{
	"image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf",
}

// request returns the request in the provider's form.
func (m *Model) request(
	ctx context.Context, req *agent.ModelRequest, of naming,
) (body anthropic.MessageNewParams, err error) {
	body.Model = of.model
	body.MaxTokens = m.cfg.MaxTokens
	body.System = systemOf(req.Prompt)
	if provider.Strict(req.Schema) {
		var schema map[string]json.RawMessage
		if err := json.Unmarshal(provider.ValidJSON(req.Schema), &schema); err != nil {
			return body, err
		}
		body.OutputConfig.Format.Schema = make(map[string]any, len(schema))
		for name, value := range schema {
			body.OutputConfig.Format.Schema[name] = value
		}
	}
	for _, tool := range req.Tools {
		schema, err := provider.ToolSchema(tool)
		if err != nil {
			return body, err
		}
		made := &anthropic.ToolParam{
			Name: tool.Name, InputSchema: param.Override[anthropic.ToolInputSchemaParam](schema),
		}
		if tool.Description != "" {
			made.Description = param.NewOpt(tool.Description)
		}
		body.Tools = append(body.Tools, anthropic.ToolUnionParam{OfTool: made})
	}
	v := conversation{Model: m, req: req}
	for _, said := range req.Messages {
		if err := v.add(ctx, said); err != nil {
			return body, err
		}
	}
	v.cacheEnd()
	body.Messages = v.messages
	m.think(&body, of.level, v.thoughtless)
	return body, nil
}

// systemOf returns the prompt. The provider is asked to keep what is the same for all sessions of
// the agent, and what is the same for all turns of the session.
func systemOf(p agentctx.Prompt) (blocks []anthropic.TextBlockParam) {
	whole, stable, kept := p.String(), p.StablePrefix(), p.SessionPrefix()
	for _, part := range []struct {
		text  string
		cache bool
	}{
		{stable, true},
		{strings.TrimPrefix(kept, stable), true},
		{strings.TrimPrefix(whole, kept), false},
	} {
		switch {
		case part.text == "":
		case isBlank(part.text) && len(blocks) > 0:
			blocks[len(blocks)-1].Text += part.text // the provider takes no blank block
		case !isBlank(part.text):
			block := anthropic.TextBlockParam{Text: part.text}
			if part.cache {
				block.CacheControl = anthropic.NewCacheControlEphemeralParam()
			}
			blocks = append(blocks, block)
		}
	}
	return blocks
}

// think says how long the model may think.
func (m *Model) think(body *anthropic.MessageNewParams, level string, thoughtless bool) {
	if m.cfg.Budgets != nil {
		// The provider wants a thought before the calls of an answer whose results it is given.
		if budget := m.cfg.Budgets[level]; budget > 0 && !thoughtless {
			body.MaxTokens += budget
			body.Thinking = anthropic.ThinkingConfigParamOfEnabled(budget)
		}
		return
	}
	switch level {
	case "":
		return
	case "off":
		body.Thinking.OfDisabled = &anthropic.ThinkingConfigDisabledParam{}
		return
	}
	body.Thinking.OfAdaptive = &anthropic.ThinkingConfigAdaptiveParam{}
	switch level {
	case "minimal", "low":
		body.OutputConfig.Effort = anthropic.OutputConfigEffortLow
	case "medium":
		body.OutputConfig.Effort = anthropic.OutputConfigEffortMedium
	case "high":
		body.OutputConfig.Effort = anthropic.OutputConfigEffortHigh
	case "xhigh":
		body.OutputConfig.Effort = anthropic.OutputConfigEffortXhigh
	}
}

// A conversation is one in the provider's form, as far as it has been built. The speakers take
// turns, and a user's message begins with the results of the calls before it.
type conversation struct {
	*Model

	req      *agent.ModelRequest
	messages []anthropic.MessageParam
	ids      provider.CallIDs
	// thoughtless: the last answer with calls has no thought that comes back.
	thoughtless bool
}

// begun is the first message of a conversation that begins with an answer: the provider wants one
// of a user there.
const begun = "[Offshoot] The beginning of this conversation is left out."

// say adds blocks to the message of a speaker.
func (v *conversation) say(
	role anthropic.MessageParamRole, blocks ...anthropic.ContentBlockParamUnion,
) {
	if len(blocks) == 0 {
		return
	}
	if len(v.messages) == 0 && role == anthropic.MessageParamRoleAssistant {
		v.say(anthropic.MessageParamRoleUser, anthropic.NewTextBlock(begun))
	}
	if last := len(v.messages) - 1; last >= 0 && v.messages[last].Role == role {
		v.messages[last].Content = append(v.messages[last].Content, blocks...)
		return
	}
	v.messages = append(v.messages, anthropic.MessageParam{Role: role, Content: blocks})
}

// add adds a message.
func (v *conversation) add(ctx context.Context, said agent.Message) error {
	switch said.Role {
	case session.MessageUser:
		files, err := v.files(ctx, said)
		if err != nil {
			return err
		}
		v.say(anthropic.MessageParamRoleUser, append(textBlocks(said.Text), files...)...)
	case session.MessageAssistant:
		v.addAssistant(said)
	case session.MessageTool:
		return v.addResult(ctx, said)
	case session.MessageNote:
	}
	return nil
}

// isBlank reports whether the provider refuses a text, since nothing is in it.
func isBlank(text string) bool { return strings.TrimSpace(text) == "" }

// textBlocks returns the block of a text, unless it is blank.
func textBlocks(text string) []anthropic.ContentBlockParamUnion {
	if isBlank(text) {
		return nil
	}
	return []anthropic.ContentBlockParamUnion{anthropic.NewTextBlock(text)}
}

// addAssistant adds what the model has said: the blocks of its answer as they came, or else new
// ones of the text and the calls.
func (v *conversation) addAssistant(said agent.Message) {
	next := v.ids.Calls(said.ToolCalls)
	var kept keptRaw
	if json.Unmarshal(provider.ValidJSON(said.Raw), &kept) == nil &&
		kept.Provider == v.cfg.Provider &&
		len(kept.Blocks) > 0 {
		v.thoughtless = false
		for _, block := range kept.Blocks {
			v.say(anthropic.MessageParamRoleAssistant,
				param.Override[anthropic.ContentBlockParamUnion](withID(block, next)))
		}
		return
	}
	v.thoughtless = len(said.ToolCalls) > 0
	v.say(anthropic.MessageParamRoleAssistant, textBlocks(said.Text)...)
	for _, p := range said.Parts {
		v.say(anthropic.MessageParamRoleAssistant, anthropic.NewTextBlock(fmt.Sprintf(
			"[you made a %s here]", cmp.Or(string(p.Kind), "file"))))
	}
	for _, asked := range said.ToolCalls {
		v.say(anthropic.MessageParamRoleAssistant, anthropic.NewToolUseBlock(
			next(asked.ID), provider.Args(asked.Args), asked.Name))
	}
}

// withID returns a block with the id under which its call is sent, the next of its own. The bytes
// stay if it is the same.
func withID(block json.RawMessage, next func(id string) string) json.RawMessage {
	var call struct {
		Type  string          `json:"type"`
		ID    string          `json:"id"`
		Name  string          `json:"name"`
		Input json.RawMessage `json:"input"`
	}
	if json.Unmarshal(block, &call) != nil || call.Type != "tool_use" {
		return block
	}
	sent := next(call.ID)
	if sent == "" || sent == call.ID {
		return block
	}
	call.ID = sent
	return encode(call)
}

// addResult adds the result of a call.
func (v *conversation) addResult(ctx context.Context, said agent.Message) error {
	result := &anthropic.ToolResultBlockParam{ToolUseID: v.ids.Result(said.ToolCallID)}
	files, err := v.files(ctx, said)
	if err != nil {
		return err
	}
	for _, block := range append(textBlocks(said.Text), files...) {
		result.Content = append(result.Content, anthropic.ToolResultBlockParamContentUnion{
			OfText: block.OfText, OfImage: block.OfImage, OfDocument: block.OfDocument,
		})
	}
	if said.Failed {
		result.IsError = param.NewOpt(true)
		if len(result.Content) == 0 {
			result.Content = append(result.Content, anthropic.ToolResultBlockParamContentUnion{
				OfText: &anthropic.TextBlockParam{Text: "error: the call has failed"},
			})
		}
	}
	v.say(anthropic.MessageParamRoleUser,
		anthropic.ContentBlockParamUnion{OfToolResult: result})
	return nil
}

// files returns the Parts of a message, with notes in the place of those that cannot be shown.
func (v *conversation) files(
	ctx context.Context, said agent.Message,
) (blocks []anthropic.ContentBlockParamUnion, err error) {
	for _, p := range said.Parts {
		file, err := provider.ReadPart(ctx, v.req, p, fileTypes)
		if err != nil {
			return nil, err
		}
		coded := base64.StdEncoding.EncodeToString(file.Data)
		switch {
		case file.Note != "":
			blocks = append(blocks, anthropic.NewTextBlock(file.Note))
		case file.URL != "":
			blocks = append(blocks, anthropic.NewImageBlock(
				anthropic.URLImageSourceParam{URL: file.URL}))
		case file.MediaType == "application/pdf":
			block := anthropic.NewDocumentBlock(anthropic.Base64PDFSourceParam{Data: coded})
			if file.Name != "" {
				block.OfDocument.Title = param.NewOpt(file.Name)
			}
			blocks = append(blocks, block)
		default:
			blocks = append(blocks, anthropic.NewImageBlockBase64(file.MediaType, coded))
		}
	}
	return blocks, nil
}

// cacheEnd asks the provider to keep the conversation so far: the next call begins with it.
func (v *conversation) cacheEnd() {
	if len(v.messages) == 0 {
		return
	}
	blocks := v.messages[len(v.messages)-1].Content
	keep := anthropic.NewCacheControlEphemeralParam()
	switch last := blocks[len(blocks)-1]; {
	case last.OfText != nil:
		last.OfText.CacheControl = keep
	case last.OfImage != nil:
		last.OfImage.CacheControl = keep
	case last.OfDocument != nil:
		last.OfDocument.CacheControl = keep
	case last.OfToolResult != nil:
		last.OfToolResult.CacheControl = keep
	}
}

// A keptRaw is the Raw of an answer with thoughts: its blocks, which the provider wants back.
type keptRaw struct {
	Provider string            `json:"provider"`
	Blocks   []json.RawMessage `json:"blocks"`
}

// encode returns the JSON of a value. The bytes of what is JSON already stay.
func encode(v any) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(v) != nil { // what the provider sent is JSON, or was not kept
		return nil
	}
	return bytes.TrimSpace(b.Bytes())
}
