// Existingbot is a bot with a chat loop, a tool loop and a model client of its own that gets
// sub-agents from Offshoot. This file is the bot as it was before. The lines that are new in it are
// marked "added", those that are different "changed". The file offshoot.go is new.
package main

import (
	"context"
	"encoding/json"
	"slices"
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

// Bot answers the messages of each chat, one at a time.
type Bot struct {
	llm      LLM
	telegram Telegram
	tools    []Tool
	sub      *agent.Runtime // added
	mu       sync.Mutex
	chats    map[int64]*chat
}

// A chat is locked while the bot answers in it.
type chat struct {
	mu      sync.Mutex
	id      int64
	history []Msg
	had     map[string]bool // added: the keys of the deliveries that it has had
}

func newBot(llm LLM, telegram Telegram) *Bot {
	return &Bot{llm: llm, telegram: telegram, chats: map[int64]*chat{}}
}

func (b *Bot) chat(id int64) *chat {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.chats[id] == nil {
		b.chats[id] = &chat{id: id, had: map[string]bool{}} // changed
	}
	return b.chats[id]
}

// turn answers one message in a chat.
func (b *Bot) turn(ctx context.Context, id int64, text string) error {
	c := b.chat(id)
	c.mu.Lock()
	defer c.mu.Unlock()
	return b.answer(ctx, c, text)
}

// answer answers a text in a chat, which is locked. If it fails, the chat is as before.
func (b *Bot) answer(ctx context.Context, c *chat, text string) error {
	tools, err := b.toolsOf(c.id) // added
	if err != nil {               // added
		return err // added
	} // added
	msgs := append(slices.Clone(c.history), Msg{Role: "user", Text: text})
	reply, err := b.loop(ctx, "gpt-5", msgs, tools) // changed
	if err != nil {
		return err
	}
	msgs = append(msgs, Msg{Role: "assistant", Text: reply})
	if reply, ok := announce.Visible(reply); ok { // added: the model may choose to say nothing
		if err := b.telegram.Send(ctx, c.id, reply); err != nil {
			return err
		}
	}
	c.history = msgs
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
