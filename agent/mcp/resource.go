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
	lines, err := ask(ctx, l, d.name, func(
		ctx context.Context, s *sdk.ClientSession,
	) ([]string, error) {
		return l.listed(ctx, s, args.Contains)
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

// listed returns a line for each resource and template that has a text in its line. What a server
// lists twice is listed once.
func (l *link) listed(
	ctx context.Context, s *sdk.ClientSession, contains string,
) ([]string, error) {
	var lines []string
	want, seen := strings.ToLower(contains), map[string]bool{}
	n := 0
	add := func(line string) (more bool) {
		line = l.cfg.maskedOwn(line) // first: what a model looks for would guess a secret
		if n++; n > maxLooked {
			return false
		}
		if !seen[line] && strings.Contains(strings.ToLower(line), want) {
			seen[line] = true
			lines = append(lines, line)
		}
		return true
	}
	err := l.pages("resources", func(cursor string) (string, bool, error) {
		page, err := s.ListResources(ctx, &sdk.ListResourcesParams{Cursor: cursor})
		if err != nil {
			return "", false, err
		}
		for _, r := range page.Resources {
			if r != nil && !add(describe(r)) {
				return "", false, nil
			}
		}
		return page.NextCursor, true, nil
	})
	if err != nil {
		return nil, err
	}
	err = l.pages("resource templates", func(cursor string) (string, bool, error) {
		page, err := s.ListResourceTemplates(ctx, &sdk.ListResourceTemplatesParams{Cursor: cursor})
		if err != nil {
			return "", false, err
		}
		for _, t := range page.ResourceTemplates {
			if t != nil && !add("Template "+describe(&sdk.Resource{
				URI: t.URITemplate, Name: t.Name, Title: t.Title, Description: t.Description,
				MIMEType: t.MIMEType,
			})) {
				return "", false, nil
			}
		}
		return page.NextCursor, true, nil
	})
	if isAnswer(err) { // a server need not have templates
		err = nil
	}
	return lines, err
}

// pages reads the pages of a list, up to MaxPages of them, until one is the last or no more is
// wanted. A cursor that has come before ends the list, since the pages behind it have come, too.
func (l *link) pages(
	what string, read func(cursor string) (next string, more bool, err error),
) error {
	seen := map[string]bool{}
	cursor := ""
	for range MaxPages {
		next, more, err := read(cursor)
		if err != nil || !more || next == "" {
			return err
		}
		if seen[next] {
			l.log.Warn("mcp: a list of a server comes back to a page, and ends there", "list", what)
			return nil
		}
		seen[next], cursor = true, next
	}
	l.log.Warn("mcp: a list of a server has too many pages, the rest is left out", "list", what,
		"limit", MaxPages)
	return nil
}

func readResource(
	ctx context.Context, l *link, d definition, c agent.ToolCall,
) (agent.ToolResult, error) {
	var args readArgs
	if err := decode(c.Args, &args); err != nil {
		return agent.ToolResult{}, err
	}
	res, err := ask(ctx, l, d.name, func(
		ctx context.Context, s *sdk.ClientSession,
	) (*sdk.ReadResourceResult, error) {
		return s.ReadResource(ctx, &sdk.ReadResourceParams{URI: args.URI})
	})
	if err != nil {
		return agent.ToolResult{}, l.answered(d.name, err)
	}
	if res.NeedsInput() {
		return agent.ToolResult{}, l.asked(d.name, res.InputRequests)
	}
	var out answer
	for _, r := range res.Contents {
		if r != nil {
			out.resource(r)
		}
	}
	text := l.told(&out)
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
