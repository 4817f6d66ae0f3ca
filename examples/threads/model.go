package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/session"
)

// A painter is a model that gives what it is asked for to a sub-agent in a thread. As a sub-agent
// it does what it is told.
type painter struct{}

// Generate implements agent.Model.
func (painter) Generate(
	ctx context.Context, req *agent.ModelRequest,
) (*agent.ModelResponse, error) {
	last := req.Messages[len(req.Messages)-1]
	mayGive := slices.ContainsFunc(req.Tools, func(t agent.Tool) bool {
		return t.Name == "sessions_spawn"
	})
	switch {
	case last.Role == session.MessageTool:
		return &agent.ModelResponse{Text: "A painter is on it, in a thread of its own."}, nil
	case !mayGive:
		select { // paint takes a while to dry
		case <-time.After(time.Second):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		return &agent.ModelResponse{Text: "Painted: " + lastLine(last.Text)}, nil
	case last.Internal: // the end of the sub-agent
		return &agent.ModelResponse{Text: "The painter is done."}, nil
	}
	args, err := json.Marshal(map[string]any{
		"agentId": "painter", "task": lastLine(last.Text), "label": "painter", "thread": true,
	})
	return &agent.ModelResponse{ToolCalls: []agent.ToolCall{{
		ID: fmt.Sprint("call-", len(req.Messages)), Name: "sessions_spawn", Args: args,
	}}}, err
}

// lastLine returns what a person or the bot has asked for, without what the library says around it.
func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	line := lines[len(lines)-1]
	return strings.TrimSpace(strings.TrimPrefix(line, "[Subagent Task]:"))
}
