package mcp

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/session"
)

// nothing is what a model is told of a result without anything in it.
const nothing = "(The tool returned nothing.)"

// result returns what a server answered as a model is told: texts in their order, one to a line,
// and everything else as Parts. A failure is a *ToolError.
func (l *link) result(tool string, r *sdk.CallToolResult) (agent.ToolResult, error) {
	if r.NeedsInput() {
		return agent.ToolResult{}, l.asked(tool, r.InputRequests)
	}
	var out answer
	for _, c := range r.Content {
		out.add(c)
	}
	if len(out.texts)+len(out.parts) == 0 && r.StructuredContent != nil {
		if data, err := json.Marshal(r.StructuredContent); err == nil {
			out.texts = append(out.texts, string(data))
		}
	}
	text := l.told(&out)
	if r.IsError {
		if text == "" {
			text = "The tool failed and did not say why."
		}
		return agent.ToolResult{}, &ToolError{Server: l.cfg.Name, Tool: tool, Text: text}
	}
	if text == "" && len(out.parts) == 0 {
		text = nothing
	}
	return agent.ToolResult{Text: text, Parts: out.parts}, nil
}

// asked returns the error of a call whose server wants something of its client before it goes on,
// which it does not get. A server that asks for nothing is busy.
func (l *link) asked(tool string, requests sdk.InputRequestMap) error {
	if len(requests) == 0 {
		return agent.Retryable(&ToolError{
			Server: l.cfg.Name, Tool: tool, Text: "The server is busy, and has not begun.",
		})
	}
	var wants []string
	for _, r := range requests {
		switch r.(type) {
		case *sdk.ElicitParams:
			wants = append(wants, "a person")
		case *sdk.ListRootsParams: //nolint:staticcheck // it is deprecated, and servers may ask for it
			wants = append(wants, "the directories of the bot")
		default:
			wants = append(wants, "a model")
		}
	}
	slices.Sort(wants)
	return &ToolError{Server: l.cfg.Name, Tool: tool, Text: fmt.Sprintf(
		"The server asks for %s before it goes on, which this bot does not give to servers.",
		strings.Join(slices.Compact(wants), " and "))}
}

// An answer is what is gathered of the contents of a result.
type answer struct {
	texts []string
	parts []agent.Part
}

// told returns the texts of an answer in their order, one to a line. They, and the names of its
// Parts, are without the secrets of the server. The bytes of Parts are as they came.
func (l *link) told(a *answer) string {
	for i := range a.parts {
		a.parts[i].Name = l.cfg.maskedOwn(a.parts[i].Name)
		a.parts[i].MediaType = l.cfg.maskedOwn(a.parts[i].MediaType)
	}
	return l.cfg.maskedOwn(strings.Join(a.texts, "\n"))
}

func (a *answer) add(c sdk.Content) {
	switch c := c.(type) {
	case *sdk.TextContent:
		if c.Text != "" {
			a.texts = append(a.texts, c.Text)
		}
	case *sdk.ImageContent:
		a.part(c.MIMEType, "", c.Data)
	case *sdk.AudioContent:
		a.part(c.MIMEType, "", c.Data)
	case *sdk.ResourceLink:
		a.texts = append(a.texts, "Resource "+describe(&sdk.Resource{
			URI: c.URI, Name: c.Name, Title: c.Title, Description: c.Description,
			MIMEType: c.MIMEType,
		}))
	case *sdk.EmbeddedResource:
		if c.Resource != nil {
			a.resource(c.Resource)
		}
	default:
		a.texts = append(a.texts, fmt.Sprintf("(The tool returned a %T, which is not known.)", c))
	}
}

// resource adds what a resource holds: a text below its address, or bytes as a Part.
func (a *answer) resource(r *sdk.ResourceContents) {
	if r.Blob != nil {
		a.part(r.MIMEType, fileName(r.URI), r.Blob)
		return
	}
	a.texts = append(a.texts, "Resource "+oneLine(r.URI)+":\n"+r.Text)
}

// part adds bytes. Without any, they are named in the text.
func (a *answer) part(media, name string, data []byte) {
	if len(data) == 0 {
		a.texts = append(a.texts, fmt.Sprintf("(An empty %s is left out.)", kindOf(media)))
		return
	}
	a.parts = append(a.parts, agent.Part{
		Kind: kindOf(media), MediaType: media, Name: name, Data: data,
	})
}

// kindOf returns what a media type is to its receiver.
func kindOf(media string) agent.PartKind {
	kind, _, _ := strings.Cut(strings.ToLower(strings.TrimSpace(media)), "/")
	switch kind {
	case "image":
		return session.PartImage
	case "audio":
		return session.PartAudio
	case "video":
		return session.PartVideo
	}
	return session.PartFile
}

// fileName returns the last part of an address, without what makes a path of it.
func fileName(uri string) string {
	uri, _, _ = strings.Cut(uri, "?")
	uri, _, _ = strings.Cut(uri, "#")
	uri = strings.TrimRight(uri, `/\`)
	name := oneLine(uri[strings.LastIndexAny(uri, `/\:`)+1:])
	return bounded(name, 200)
}

// describe returns one line about a resource.
func describe(r *sdk.Resource) string {
	s := oneLine(r.URI)
	title := oneLine(r.Title)
	if title == "" {
		title = oneLine(r.Name)
	}
	if title != "" {
		s += " — " + title
	}
	var what []string
	if r.MIMEType != "" {
		what = append(what, oneLine(r.MIMEType))
	}
	if r.Size > 0 {
		what = append(what, fmt.Sprintf("%d bytes", r.Size))
	}
	if len(what) > 0 {
		s += " (" + strings.Join(what, ", ") + ")"
	}
	if d := oneLine(r.Description); d != "" {
		s += ": " + bounded(d, 300)
	}
	return s
}

// clean returns a text without control characters but line breaks and tabs, and with what is not
// UTF-8 replaced.
func clean(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)) {
			return -1
		}
		return r
	}, s))
}

// oneLine is clean without line breaks.
func oneLine(s string) string { return strings.Join(strings.Fields(clean(s)), " ") }

// bounded returns at most n bytes of a text, whole characters.
func bounded(s string, n int) string {
	if len(s) <= n {
		return s
	}
	const mark = "…"
	n -= len(mark)
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + mark
}
