package anthropictest

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/session"
)

// Messages is the form of Messages.
type Messages struct{}

// A messageRequest is the body of a request.
type messageRequest struct {
	Model     string      `json:"model" need:"*"`
	MaxTokens int64       `json:"max_tokens" need:"*"`
	Stream    bool        `json:"stream"`
	System    []textBlock `json:"system"`
	Messages  []struct {
		Role    string            `json:"role" need:"*"`
		Content []json.RawMessage `json:"content" need:"*"`
	} `json:"messages" need:"*"`
	Tools []struct {
		Name        string          `json:"name" need:"*"`
		Description string          `json:"description"`
		InputSchema json.RawMessage `json:"input_schema" need:"*"`
	} `json:"tools"`
	Thinking *struct {
		Type         string `json:"type" need:"*"`
		BudgetTokens int64  `json:"budget_tokens" need:"enabled"`
	} `json:"thinking"`
	OutputConfig struct {
		Effort string `json:"effort"`
		Format *struct {
			Type   string          `json:"type" need:"*"`
			Schema json.RawMessage `json:"schema" need:"*"`
		} `json:"format"`
	} `json:"output_config"`
}

// A cacheMark asks the provider to keep what it has read so far.
type cacheMark struct {
	Type string `json:"type" need:"*"`
}

type textBlock struct {
	Type         string     `json:"type" need:"*"`
	Text         string     `json:"text" need:"text"`
	CacheControl *cacheMark `json:"cache_control"`
}

// A messageBlock is a block of a message, of any type.
type messageBlock struct {
	textBlock

	Source    *source           `json:"source" need:"image,document"`
	Title     string            `json:"title"`
	ID        string            `json:"id" need:"tool_use"`
	Name      string            `json:"name" need:"tool_use"`
	Input     json.RawMessage   `json:"input" need:"tool_use"`
	ToolUseID string            `json:"tool_use_id" need:"tool_result"`
	IsError   bool              `json:"is_error"`
	Content   []json.RawMessage `json:"content"`
	Thinking  string            `json:"thinking" need:"thinking"`
	Signature string            `json:"signature" need:"thinking"`
	Data      string            `json:"data" need:"redacted_thinking"`
}

// A source is where the bytes of a file are.
type source struct {
	Type      string `json:"type" need:"*"`
	MediaType string `json:"media_type" need:"base64"`
	Data      string `json:"data" need:"base64"`
	URL       string `json:"url" need:"url"`
}

// sign returns the signature of a thought.
func sign(thought string) string {
	sum := sha256.Sum256([]byte("signed: " + thought))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// efforts are the words of the provider for levels.
var efforts = []string{"", "low", "medium", "high", "xhigh", "max"}

// Decode implements agenttest.ProviderDialect.
func (Messages) Decode(r *http.Request, body []byte) (c agenttest.ProviderCall, err error) {
	var in messageRequest
	if err := agenttest.DecodeRequest(body, &in, ""); err != nil {
		return c, err
	}
	c.Key, c.Model = r.Header.Get("X-Api-Key"), in.Model
	switch {
	case r.Header.Get("Anthropic-Version") != "2023-06-01":
		return c, errors.New("anthropictest: the header Anthropic-Version is not 2023-06-01")
	case r.Header.Get("Content-Type") != "application/json":
		return c, fmt.Errorf("anthropictest: the Content-Type is %q", r.Header.Get("Content-Type"))
	case !in.Stream || in.MaxTokens <= 0:
		return c, errors.New("anthropictest: stream or max_tokens is not set")
	}
	d := decoder{call: &c, ids: make(map[string]bool)}
	for i, block := range in.System {
		if block.Type != "text" || strings.TrimSpace(block.Text) == "" {
			return c, fmt.Errorf("anthropictest: system[%d] is not a text, or blank", i)
		}
		c.System += block.Text
		if err := d.mark(block.CacheControl, c.System); err != nil {
			return c, err
		}
	}
	for _, t := range in.Tools {
		var schema struct {
			Type string `json:"type"`
		}
		if !toolName.MatchString(t.Name) || json.Unmarshal(t.InputSchema, &schema) != nil ||
			schema.Type != "object" {
			return c, fmt.Errorf("anthropictest: the tool %q has an odd name, or its schema is %s",
				t.Name, t.InputSchema)
		}
		c.Tools = append(c.Tools, agenttest.ProviderTool{
			Name: t.Name, Description: t.Description, Schema: t.InputSchema,
		})
	}
	if err := d.settings(&in); err != nil {
		return c, err
	}
	role := "assistant"
	for i, m := range in.Messages {
		if m.Role == role || m.Role != "user" && m.Role != "assistant" || len(m.Content) == 0 {
			return c, fmt.Errorf("anthropictest: messages[%d] is empty, or out of turn as %q", i,
				m.Role)
		}
		role = m.Role
		for k, raw := range m.Content {
			at := fmt.Sprintf("messages[%d].content[%d]", i, k)
			if err := d.block(m.Role, at, k, raw); err != nil {
				return c, fmt.Errorf("anthropictest: %s: %w", at, err)
			}
		}
	}
	if role != "user" {
		return c, errors.New("anthropictest: the last message is not one of a user")
	}
	return c, nil
}

// A decoder reads the blocks of a request.
type decoder struct {
	call *agenttest.ProviderCall
	ids  map[string]bool // of the calls so far
	late bool            // the message has a block that is not a result
}

// settings reads how the model is to think and to answer.
func (d *decoder) settings(in *messageRequest) error {
	if t := in.Thinking; t != nil {
		switch {
		case t.Type == "enabled" && t.BudgetTokens >= 1024 && t.BudgetTokens < in.MaxTokens:
			d.call.Thinking = fmt.Sprint(t.BudgetTokens)
		case (t.Type == "adaptive" || t.Type == "disabled") && t.BudgetTokens == 0:
			d.call.Thinking = t.Type
		default:
			return fmt.Errorf("anthropictest: thinking is %+v, and max_tokens is %d", *t,
				in.MaxTokens)
		}
	}
	if !slices.Contains(efforts, in.OutputConfig.Effort) {
		return fmt.Errorf("anthropictest: output_config.effort is %q", in.OutputConfig.Effort)
	}
	if in.OutputConfig.Effort != "" {
		d.call.Thinking += " " + in.OutputConfig.Effort
	}
	if f := in.OutputConfig.Format; f != nil {
		var schema struct {
			Type                 string `json:"type"`
			AdditionalProperties *bool  `json:"additionalProperties"`
		}
		if f.Type != "json_schema" || json.Unmarshal(f.Schema, &schema) != nil ||
			schema.Type != "object" || schema.AdditionalProperties == nil ||
			*schema.AdditionalProperties {
			return fmt.Errorf("anthropictest: output_config.format is %q with the schema %s", f.Type,
				f.Schema)
		}
		d.call.Schema = f.Schema
	}
	return nil
}

// mark reads a mark that asks the provider to keep what it has read, and says what that is.
func (d *decoder) mark(m *cacheMark, what string) error {
	if m == nil {
		return nil
	}
	d.call.Breakpoints = append(d.call.Breakpoints, what)
	if m.Type != "ephemeral" || len(d.call.Breakpoints) > 4 {
		return errors.New("anthropictest: cache_control is not ephemeral, or the fifth")
	}
	return nil
}

// callID and toolName are what the provider takes as the id of a call and as the name of a tool.
var (
	callID   = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)
	toolName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,128}$`)
)

// block reads the k-th block of a message, which stands at a path.
func (d *decoder) block(role, at string, k int, raw json.RawMessage) error {
	var b messageBlock
	if err := agenttest.DecodeRequest(raw, &b, at); err != nil {
		return err
	}
	to := agenttest.ProviderMessage{Role: session.MessageRole(role)}
	if k == 0 {
		d.late = false
	}
	err := b.fits(role, d)
	if err != nil {
		return err
	}
	switch b.Type {
	case "text":
		to.Text = b.Text
	case "image", "document":
		part, bad := b.part()
		to.Parts, err = []agenttest.ProviderPart{part}, bad
	case "tool_use":
		to.Calls = []agent.ToolCall{{ID: b.ID, Name: b.Name, Args: b.Input}}
		d.ids[b.ID] = true
	case "tool_result":
		to.Role, to.CallID, to.Failed = session.MessageTool, b.ToolUseID, b.IsError
		to.Text, to.Parts, err = resultContent(b.Content, at+".content")
	case "thinking":
		to.Thought = b.Thinking
	case "redacted_thinking":
		to.Thought = b.Data
	}
	if err != nil {
		return err
	}
	d.late = d.late || b.Type != "tool_result"
	d.call.Messages = append(d.call.Messages, to)
	return d.mark(b.CacheControl, fmt.Sprintf("%s %s %s", role, b.Type, to.Text))
}

// fits returns why a block of a message of a role cannot be there, or nil.
func (b *messageBlock) fits(role string, d *decoder) error {
	of := map[string]string{
		"image": "user", "document": "user", "tool_result": "user", "tool_use": "assistant",
		"thinking": "assistant", "redacted_thinking": "assistant", "text": role,
	}
	isThought := b.Type == "thinking" || b.Type == "redacted_thinking"
	switch {
	case of[b.Type] != role:
		return fmt.Errorf("anthropictest: a block of the type %q in a message of the %s", b.Type, role)
	case b.Type == "text" && strings.TrimSpace(b.Text) == "":
		return errors.New("anthropictest: a text is blank")
	case b.Type == "tool_result" && d.late:
		return errors.New("anthropictest: a result stands behind another block")
	case b.Type == "tool_use" && (!callID.MatchString(b.ID) || d.ids[b.ID] || b.Name == ""):
		return fmt.Errorf("anthropictest: the id %q of a call is odd, or that of another one", b.ID)
	case b.Type == "tool_use" && !bytes.HasPrefix(b.Input, []byte("{")):
		return fmt.Errorf("anthropictest: the input of a call is %s", b.Input)
	case b.Type == "thinking" && b.Signature != sign(b.Thinking):
		return errors.New("anthropictest: a thought has not the signature that it was given")
	case isThought && b.CacheControl != nil:
		return errors.New("anthropictest: a thought has a cache_control")
	case b.IsError && len(b.Content) == 0:
		return errors.New("anthropictest: a result that is an error is empty")
	}
	return nil
}

// part returns the file of a block.
func (b *messageBlock) part() (part agenttest.ProviderPart, err error) {
	s := b.Source
	switch {
	case s == nil:
		return part, errors.New("anthropictest: a file has no source")
	case s.Type == "url" && b.Type == "image" && strings.HasPrefix(s.URL, "http"):
		part.URL = s.URL
	case s.Type == "base64" && (b.Type == "document") == (s.MediaType == "application/pdf"):
		part.MediaType = s.MediaType
		part.Data, err = base64.StdEncoding.DecodeString(s.Data)
	default:
		err = fmt.Errorf("anthropictest: the source of a file is %q, %q", s.Type, s.MediaType)
	}
	return part, err
}

// resultContent returns the text and the files of a result at a path.
func resultContent(
	content []json.RawMessage, at string,
) (text string, parts []agenttest.ProviderPart, err error) {
	var texts []string
	for i, raw := range content {
		var b messageBlock
		if err := agenttest.DecodeRequest(raw, &b, fmt.Sprintf("%s[%d]", at, i)); err != nil {
			return "", nil, err
		}
		if b.Type == "text" && strings.TrimSpace(b.Text) != "" {
			texts = append(texts, b.Text)
			continue
		}
		part, err := b.part()
		if err != nil {
			return "", nil, err
		}
		parts = append(parts, part)
	}
	return strings.Join(texts, "\n"), parts, nil
}
