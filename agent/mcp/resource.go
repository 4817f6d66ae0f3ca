package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/offshoot-sdk/offshoot/agent"
)

// maxListed is how many resources list_resources shows, of those that fit what was asked for.
const maxListed = 200

// maxLooked is how many resources list_resources looks at.
const maxLooked = 10_000

type listArgs struct {
	Contains string `json:"contains,omitempty" doc:"Only those with this text in their line, in any letter case."`
}

type readArgs struct {
	URI string `json:"uri" doc:"The address of the resource."`
}

// resourceTools returns the tools for the resources of a server.
func resourceTools(server string) []definition {
	list := agent.NewTool[listArgs, string]("list", "", nil) // for its schema
	read := agent.NewTool[readArgs, string]("read", "", nil)
	return []definition{
		{
			name: toolName(server, "list_resources"), schema: list.Schema, readOnly: true,
			description: fmt.Sprintf("Lists what can be read from the server %s, one resource a line, "+
				"and the templates of addresses.", server),
			run: listResources,
		},
		{
			name: toolName(server, "read_resource"), schema: read.Schema, readOnly: true,
			description: fmt.Sprintf("Reads a resource of the server %s by its address.", server),
			run:         readResource,
		},
	}
}

func listResources(
	ctx context.Context, l *link, d definition, c agent.ToolCall,
) (agent.ToolResult, error) {
	var args listArgs
	if err := decode(c.Args, &args); err != nil {
		return agent.ToolResult{}, err
	}
	lines, err := ask(ctx, l, d.name, func(s *sdk.ClientSession) ([]string, error) {
		return listed(ctx, s, args.Contains)
	})
	if err != nil {
		return agent.ToolResult{}, l.answered(d.name, err)
	}
	if len(lines) == 0 {
		return agent.ToolResult{Text: "(No resource fits.)"}, nil
	}
	if more := len(lines) - maxListed; more > 0 {
		lines = append(lines[:maxListed:maxListed],
			fmt.Sprintf("(%d more are left out; ask with \"contains\".)", more))
	}
	return agent.ToolResult{Text: strings.Join(lines, "\n")}, nil
}

// listed returns a line for each resource and template that has a text in its line.
func listed(ctx context.Context, s *sdk.ClientSession, contains string) ([]string, error) {
	var lines []string
	want := strings.ToLower(contains)
	add := func(line string) {
		if strings.Contains(strings.ToLower(line), want) {
			lines = append(lines, line)
		}
	}
	n := 0
	for r, err := range s.Resources(ctx, nil) {
		if err != nil {
			return nil, err
		}
		if n++; n > maxLooked {
			break
		}
		if r != nil {
			add(describe(r))
		}
	}
	for t, err := range s.ResourceTemplates(ctx, nil) {
		if err != nil {
			if isAnswer(err) { // a server need not have templates
				break
			}
			return nil, err
		}
		if n++; n > maxLooked {
			break
		}
		if t != nil {
			add("Template " + describe(&sdk.Resource{
				URI: t.URITemplate, Name: t.Name, Title: t.Title, Description: t.Description,
				MIMEType: t.MIMEType,
			}))
		}
	}
	return lines, nil
}

func readResource(
	ctx context.Context, l *link, d definition, c agent.ToolCall,
) (agent.ToolResult, error) {
	var args readArgs
	if err := decode(c.Args, &args); err != nil {
		return agent.ToolResult{}, err
	}
	res, err := ask(ctx, l, d.name, func(s *sdk.ClientSession) (*sdk.ReadResourceResult, error) {
		return s.ReadResource(ctx, &sdk.ReadResourceParams{URI: args.URI})
	})
	if err != nil {
		return agent.ToolResult{}, l.answered(d.name, err)
	}
	var out answer
	for _, r := range res.Contents {
		if r != nil {
			out.resource(r)
		}
	}
	text := strings.Join(out.texts, "\n")
	if text == "" && len(out.parts) == 0 {
		text = "(The resource is empty.)"
	}
	return agent.ToolResult{Text: text, Parts: out.parts}, nil
}

// decode reads the arguments of a tool for resources, which the Runtime has checked.
func decode(args json.RawMessage, into any) error {
	if len(args) == 0 {
		return nil
	}
	if err := json.Unmarshal(args, into); err != nil {
		return fmt.Errorf("mcp: arguments: %w", err)
	}
	return nil
}
