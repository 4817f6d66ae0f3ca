package agent

import (
	"context"
	"errors"
)

// callModel makes one call of the model with what the conversation has now.
func (l *Loop) callModel(ctx context.Context, t *Turn) (*ModelResponse, error) {
	messages := t.log.since(t.Messages)
	before := t.entering(t.runner + ".Model")
	resp, err := l.Model.Generate(ctx, &ModelRequest{
		Model: t.Model, Thinking: t.Thinking, Prompt: t.Prompt, Messages: messages,
		Tools: t.Tools, Schema: t.Schema, Session: t.Session, Run: t.Run,
		New: len(messages) - len(t.Messages) + t.New, delta: t.Delta, open: t.OpenFile,
	})
	t.entering(before)
	if err == nil && resp == nil {
		err = errors.New("agent: the model returned neither a response nor an error")
	}
	return resp, err
}
