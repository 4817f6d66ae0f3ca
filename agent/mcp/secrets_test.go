package mcp_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent/mcp"
)

// tellings are the ways in which a telling server answers a call with a text: those of a result,
// and those of a failure.
var tellings = map[string]func(text string) (*sdk.CallToolResult, error){
	"text": func(text string) (*sdk.CallToolResult, error) { return said(text), nil },
	"failure": func(text string) (*sdk.CallToolResult, error) {
		out := said(text)
		out.IsError = true
		return out, nil
	},
	"refusal": func(text string) (*sdk.CallToolResult, error) { return nil, errors.New(text) },
	"structured": func(text string) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{StructuredContent: map[string]string{"is": text}}, nil
	},
	"link": func(text string) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{
			&sdk.ResourceLink{URI: "note:" + url.PathEscape(text), Description: text},
		}}, nil
	},
	"embedded": func(text string) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.EmbeddedResource{
			Resource: &sdk.ResourceContents{URI: "note:x", Text: text},
		}}}, nil
	},
	"encoded": func(text string) (*sdk.CallToolResult, error) {
		return said(base64.StdEncoding.EncodeToString([]byte(text))), nil
	},
	"file": func(text string) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.EmbeddedResource{
			Resource: &sdk.ResourceContents{URI: "note:" + text, Blob: []byte("x")},
		}}}, nil
	},
}

// telling is a server that tells a secret wherever it tells a text.
func telling(secret string) *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "telling"}, &sdk.ServerOptions{
		Instructions: strings.Repeat("i", mcp.MaxDescription-10) + secret,
	})
	for name, answer := range tellings {
		s.AddTool(&sdk.Tool{
			Name: name, Description: "Knows " + secret, InputSchema: map[string]any{
				"type": "object", "description": "With " + secret,
			},
		}, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return answer("Done with " + secret + ", not with " + childKey)
		})
	}
	s.AddResource(&sdk.Resource{URI: "note:a", Name: "a", Description: secret}, func(
		context.Context, *sdk.ReadResourceRequest,
	) (*sdk.ReadResourceResult, error) {
		return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{
			{URI: "note:a", Text: "It is " + secret},
		}}, nil
	})
	return s
}

// tellingServers are servers that tell a secret that the program has given them.
func tellingServers(t *testing.T) map[string]mcp.Server {
	t.Helper()
	web := overHTTP(t, telling(hushed)).URL
	child := childServer(t, "telling")
	child.Env = append(child.Env, "SERVICE_TOKEN="+hushed)
	pair := "Basic " + base64.StdEncoding.EncodeToString([]byte("bot:"+hushed))
	return map[string]mcp.Server{
		"a child":      child,
		"Bearer":       {URL: web, Header: http.Header{"Authorization": {"Bearer " + hushed}}},
		"Basic":        {URL: web, Header: http.Header{"Authorization": {pair}}},
		"another":      {URL: web, Header: http.Header{"x-thing": {hushed}}},
		"a query":      {URL: web + "?api_key=" + hushed},
		"an odd query": {URL: web + "?x=" + hushed},
		"a path":       {URL: web + "/s/" + hushed + "/mcp"},
	}
}

// What a server is given to know the bot by comes back to no model, event or error, wherever the
// server says it. What it makes is left as it is otherwise.
func TestSecretsOfAServer(t *testing.T) {
	for name, server := range tellingServers(t) {
		t.Run(name, func(t *testing.T) {
			server.Name = "a"
			c := connect(t, mcp.Config{Servers: []mcp.Server{server}})
			isClean := func(v any) {
				text := fmt.Sprintf("%+v %#v", v, v)
				require.NotContains(t, text, hushed[:8])
				coded := base64.StdEncoding.EncodeToString([]byte(hushed))
				require.NotContains(t, text, coded[4:20])
			}
			isClean(c.Servers())
			for _, tool := range c.Tools() {
				isClean(tool.Description + string(tool.Schema))
				require.True(t, json.Valid(tool.Schema))
			}
			for way := range tellings {
				out, err := call(t, c, "mcp__a__"+way, `{}`)
				isClean(out.Text)
				isClean(out.Parts)
				isClean(err)
				_, isFailure := errors.AsType[*mcp.ToolError](err)
				require.Equal(t, way == "failure" || way == "refusal", isFailure, "%s: %v", way, err)
				if way == "text" {
					require.Equal(t, "Done with ***, not with "+childKey, out.Text)
				}
			}
			for _, args := range []string{`{}`, `{"contains":"` + hushed[:4] + `"}`} {
				isClean(mustCall(t, c, "mcp__a__list_resources", args).Text)
			}
			require.Contains(t, mustCall(t, c, "mcp__a__list_resources",
				`{"contains":"`+hushed[:9]+`"}`).Text, "No resource fits")
			isClean(mustCall(t, c, "mcp__a__read_resource", `{"uri":"note:a"}`).Text)
		})
	}
}

// A key in an address is in no error, whether the address is refused or nothing answers there.
func TestKeysInAddresses(t *testing.T) {
	const key = "hk_7f3a91bc02de4455"
	for _, address := range []string{
		"http://127.0.0.1:1/s/" + key, "http://127.0.0.1:1/s/" + key + "/mcp?x=" + key,
		"ftp://a/" + key, "a/" + key,
	} {
		_, err := mcp.Connect(t.Context(), mcp.Config{
			Servers: []mcp.Server{{Name: "a", URL: address}}, Logger: slog.New(slog.DiscardHandler),
		})
		require.Error(t, err)
		require.NotContains(t, err.Error(), key[3:9], address)
	}
	_, err := mcp.Connect(t.Context(), mcp.Config{
		Servers: []mcp.Server{{Name: "a", URL: "http://127.0.0.1:1/tools/v2-production-file-server"}},
		Logger:  slog.New(slog.DiscardHandler),
	})
	require.ErrorContains(t, err, "v2-production-file-server", "that is a name")
}
