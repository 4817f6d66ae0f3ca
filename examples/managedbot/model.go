package main

import (
	"context"

	"github.com/offshoot-sdk/offshoot/agent"
)

// model adapts the bot's client to agent.Model.
type model struct{ llm LLM }

// Generate implements agent.Model.
func (m model) Generate(
	ctx context.Context, req *agent.ModelRequest,
) (*agent.ModelResponse, error) {
	msgs := []Msg{{Role: "system", Text: req.Prompt.String()}}
	for _, x := range req.Messages {
		msg := Msg{Role: string(x.Role), Text: x.Text, CallID: x.ToolCallID}
		for _, c := range x.ToolCalls {
			msg.Calls = append(msg.Calls, Call{ID: c.ID, Name: c.Name, Args: c.Args})
		}
		msgs = append(msgs, msg)
	}
	tools := make([]Tool, len(req.Tools))
	for i, t := range req.Tools {
		tools[i] = Tool{t.Name, t.Description, t.Schema}
	}
	out, err := m.llm.Chat(ctx, req.Model, msgs, tools)
	if err != nil {
		return nil, err
	}
	resp := &agent.ModelResponse{Text: out.Text}
	for _, c := range out.Calls {
		call := agent.ToolCall{ID: c.ID, Name: c.Name, Args: c.Args}
		resp.ToolCalls = append(resp.ToolCalls, call)
	}
	return resp, nil
}
