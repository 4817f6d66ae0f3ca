// Existingbot is a bot that had a chat loop, a tool loop and a model client before it knew of Offshoot, and now has sub-agents
// too. This file is the bot as it was; the lines that changed are marked. What was added is in offshoot.go.
package main

import (
	"context"
	"encoding/json"
	"slices" // added
	"sync"

	"github.com/offshoot-sdk/offshoot/agent"    // added
	"github.com/offshoot-sdk/offshoot/announce" // added
)

// Msg is a message as the bot's model client wants it.
type Msg struct {
	Role, Text string
	Calls      []Call
	CallID     string
}

// Call is a tool call of the model.
type Call struct {
	ID, Name string
	Args     json.RawMessage
}

// Tool is a tool of the bot.
type Tool struct {
	Name, Doc string
	Schema    json.RawMessage
	Fn        func(ctx context.Context, c Call) (string, error)
}

// LLM is the bot's model client.
type LLM interface {
	Chat(ctx context.Context, model string, msgs []Msg, tools []Tool) (Msg, error)
}

// Telegram is the bot's transport.
type Telegram interface {
	Updates(ctx context.Context, handle func(chat int64, text string))
	Send(ctx context.Context, chat int64, text string) error
}

// Bot is the bot.
type Bot struct {
	llm      LLM
	telegram Telegram
	tools    []Tool
	sub      *agent.Runtime // added
	mu       sync.Mutex
	history  map[int64][]Msg
}

// turn answers one message in a chat.
func (b *Bot) turn(ctx context.Context, chat int64, text string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.history[chat] = append(b.history[chat], Msg{Role: "user", Text: text})
	tools := slices.Concat(b.tools, b.sessionTools(chat)) // added
	reply, err := b.loop(ctx, "gpt-5", b.history[chat], tools)
	if err != nil {
		return err
	}
	b.history[chat] = append(b.history[chat], Msg{Role: "assistant", Text: reply})
	if reply, ok := announce.Visible(reply); ok { // added: the model may choose to stay silent
		return b.telegram.Send(ctx, chat, reply)
	}
	return nil
}

// loop calls the model and the tools until the model is done.
func (b *Bot) loop(ctx context.Context, model string, msgs []Msg, tools []Tool) (string, error) {
	for {
		m, err := b.llm.Chat(ctx, model, msgs, tools)
		if err != nil || len(m.Calls) == 0 {
			return m.Text, err
		}
		msgs = append(msgs, m)
		for _, c := range m.Calls {
			msgs = append(msgs, Msg{Role: "tool", CallID: c.ID, Text: call(ctx, tools, c)})
		}
	}
}

func call(ctx context.Context, tools []Tool, c Call) string {
	for _, t := range tools {
		if t.Name == c.Name {
			out, err := t.Fn(ctx, c)
			if err != nil {
				return "error: " + err.Error()
			}
			return out
		}
	}
	return "error: no such tool"
}
