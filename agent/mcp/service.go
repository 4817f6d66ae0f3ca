package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/announce"
	"github.com/offshoot-sdk/offshoot/session"
)

// A Service is a server of the protocol: it hands tools to other programs. Its fields are not
// changed once it serves. It holds nothing between requests, so that any number of clients may use
// it, and a client goes on when the bot was started anew.
//
// It does not ask who calls. What is served over HTTP stands behind a handler that does, unless
// it listens on the machine alone; a request to a local address under the name of another host is
// refused.
type Service struct {
	// Tools returns what a client may call. It is asked at each request, with its ctx. See
	// [RuntimeTools] and [SessionTools]; any other agent.Tool will do that needs no turn. Required.
	Tools func(ctx context.Context) []agent.Tool
	// Name and Version say what the service is. Empty: "offshoot" and "0".
	Name, Version string
	// Instructions say to the model of the client what the service is for. Empty: nothing.
	Instructions string
	// Logger is told of tools that panic, or end their goroutine. Nil: slog.Default.
	Logger *slog.Logger
}

// Handler returns the service over the streamable HTTP transport, for one path of an http.Server.
// It starts no goroutine that outlives a request. The ctx of a call ends with its request, in each
// version of the protocol.
func (s *Service) Handler() http.Handler {
	return sdk.NewStreamableHTTPHandler(func(r *http.Request) *sdk.Server {
		return s.server(r.Context())
	}, &sdk.StreamableHTTPOptions{Stateless: true, PropagateRequestCancellation: true})
}

// Serve is the service over stdio: lines of JSON, from in and to out. It returns nil when in has
// come to its end, which is how a client says farewell, and the cause of ctx when that ends first.
// What it was given to write to must not be written to by others, so a program that serves on
// os.Stdout logs to os.Stderr. A line that is not JSON ends it with an error, and calls that are
// under way have no answer then.
//
// If in has a Close, as files and pipes have, Serve calls it at its end, so that no read is left
// under way. It does not close out.
func (s *Service) Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	err := s.server(ctx).Run(ctx, &sdk.IOTransport{Reader: closer(in), Writer: writer{out}})
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, io.EOF):
		return nil
	}
	return err
}

func closer(in io.Reader) io.ReadCloser {
	if c, ok := in.(io.ReadCloser); ok {
		return c
	}
	return io.NopCloser(in)
}

type writer struct{ io.Writer }

func (writer) Close() error { return nil }

// server returns a server with the tools of this moment.
func (s *Service) server(ctx context.Context) *sdk.Server {
	server := sdk.NewServer(
		&sdk.Implementation{Name: cmp.Or(s.Name, "offshoot"), Version: cmp.Or(s.Version, "0")},
		&sdk.ServerOptions{
			Instructions: s.Instructions,
			Capabilities: &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{}},
		})
	for _, t := range s.Tools(ctx) {
		server.AddTool(&sdk.Tool{
			Name: t.Name, Description: t.Description, InputSchema: objectSchema(t.Schema),
			Annotations: hints(t.Effect),
		}, s.handler(ctx, t))
	}
	return server
}

// hints returns what a client is told of the effect of a tool.
func hints(e agent.Effect) *sdk.ToolAnnotations {
	switch e {
	case agent.EffectReadOnly:
		return &sdk.ToolAnnotations{ReadOnlyHint: true}
	case agent.EffectIdempotent:
		return &sdk.ToolAnnotations{IdempotentHint: true}
	case agent.EffectUnknown, agent.EffectEffectful:
	}
	return nil
}

// objectSchema returns the schema of arguments as the SDK accepts it: an object that says that it
// is one.
func objectSchema(schema json.RawMessage) json.RawMessage {
	var members map[string]json.RawMessage
	if json.Unmarshal(schema, &members) != nil || members == nil {
		return json.RawMessage(anyObject)
	}
	if string(members["type"]) == `"object"` {
		return schema
	}
	members["type"] = json.RawMessage(`"object"`)
	whole, err := json.Marshal(members)
	if err != nil {
		return json.RawMessage(anyObject)
	}
	return whole
}

// handler returns what calls a tool for a client. An error of the tool is told as a result, so that
// the model of the client sees it, with credentials masked. A call ends with life, which is that of
// the request over HTTP: the SDK lets calls of older versions of the protocol go on.
func (s *Service) handler(life context.Context, t agent.Tool) sdk.ToolHandler {
	return func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		ctx, end := context.WithCancelCause(ctx)
		defer end(nil)
		defer context.AfterFunc(life, func() { end(context.Cause(life)) })()
		if t.Timeout > 0 {
			var done context.CancelFunc
			ctx, done = context.WithTimeout(ctx, t.Timeout)
			defer done()
		}
		out, err := s.call(ctx, t, agent.ToolCall{
			ID: session.NewID(), Name: t.Name, Args: r.Params.Arguments,
		})
		res := &sdk.CallToolResult{Content: contents(out)}
		if err != nil {
			res.IsError = true
			res.Content = []sdk.Content{&sdk.TextContent{Text: announce.Redact(err.Error())}}
		}
		return res, nil
	}
}

// call calls a tool. A panic, or the end of its goroutine, is an error whose text says nothing of
// it.
func (s *Service) call(
	ctx context.Context, t agent.Tool, c agent.ToolCall,
) (out agent.ToolResult, err error) {
	if fell := contained("a tool", func() { out, err = t.Call(ctx, c) }); fell != nil {
		fell.log(guarded(cmp.Or(s.Logger, slog.Default())), "tool", t.Name)
		return agent.ToolResult{}, fmt.Errorf("mcp: the tool %q failed unexpectedly", t.Name)
	}
	return out, err
}

// contents returns what a tool answered as a client is told. A Part whose bytes are a file of a
// session is named and left out.
func contents(out agent.ToolResult) []sdk.Content {
	list := []sdk.Content{}
	if out.Text != "" || len(out.Parts) == 0 {
		list = append(list, &sdk.TextContent{Text: out.Text})
	}
	for _, p := range out.Parts {
		switch {
		case p.URL != "":
			list = append(list, &sdk.ResourceLink{
				URI: p.URL, Name: cmp.Or(p.Name, p.URL), MIMEType: p.MediaType,
			})
		case len(p.Data) == 0:
			list = append(list, &sdk.TextContent{
				Text: strings.TrimSpace(fmt.Sprintf("(%s %s is left out.)", p.Kind, p.Name)),
			})
		case p.Kind == session.PartImage:
			list = append(list, &sdk.ImageContent{MIMEType: p.MediaType, Data: p.Data})
		case p.Kind == session.PartAudio:
			list = append(list, &sdk.AudioContent{MIMEType: p.MediaType, Data: p.Data})
		default:
			list = append(list, &sdk.EmbeddedResource{Resource: &sdk.ResourceContents{
				URI: "offshoot:" + cmp.Or(fileName(p.Name), "file"), MIMEType: p.MediaType, Blob: p.Data,
			}})
		}
	}
	return list
}
