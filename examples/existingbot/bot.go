// Existingbot is a bot with a chat loop, a tool loop and a model client of its own that gets
// sub-agents from Offshoot. This file is the bot as it was before. The lines that are new in it are
// marked "added", those that are different "changed". The file offshoot.go is new.
package main

import (
	"context"
	"encoding/json"
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

// Tool is a function that the model may call.
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

// Bot answers the messages of all chats, one at a time.
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
	tools, err := b.toolsOf(chat) // added
	if err != nil {               // added
		return err // added
	} // added
	b.history[chat] = append(b.history[chat], Msg{Role: "user", Text: text})
	reply, err := b.loop(ctx, "gpt-5", b.history[chat], tools) // changed
	if err != nil {
		return err
	}
	b.history[chat] = append(b.history[chat], Msg{Role: "assistant", Text: reply})
	if reply, ok := announce.Visible(reply); ok { // added: the model may choose to say nothing
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

// call returns what a tool says to the model.
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
