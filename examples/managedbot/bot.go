package main

import (
	"context"
	"encoding/json"
	"fmt"
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

// Tool is a tool as the model client describes it to the model.
type Tool struct {
	Name, Doc string
	Schema    json.RawMessage
}

// LLM is the bot's model client.
type LLM interface {
	Chat(ctx context.Context, model string, msgs []Msg, tools []Tool) (Msg, error)
}

// Telegram is the bot's transport. It names every message, and may hand one over twice.
type Telegram interface {
	Updates(ctx context.Context, handle func(chat int64, id, text string))
	Send(ctx context.Context, chat int64, text string) error
}

// What follows stands for a real client and a real transport, so that the program runs without either.

func dialLLM() LLM { return fakeLLM{} }

func dialTelegram() Telegram { return console{} }

// fakeLLM looks the weather up.
type fakeLLM struct{}

// Chat implements LLM.
func (fakeLLM) Chat(_ context.Context, _ string, msgs []Msg, _ []Tool) (Msg, error) {
	if last := msgs[len(msgs)-1]; last.Role == "tool" {
		return Msg{Role: "assistant", Text: last.Text}, nil
	}
	return Msg{Role: "assistant", Calls: []Call{{ID: "call_0", Name: "weather", Args: json.RawMessage(`{"city":"Lisbon"}`)}}}, nil
}

// console is a chat with one person, who asks one thing.
type console struct{}

// Updates implements Telegram.
func (console) Updates(_ context.Context, handle func(chat int64, id, text string)) {
	handle(4711, "1", "How is the weather in Lisbon?")
}

// Send implements Telegram.
func (console) Send(_ context.Context, chat int64, text string) error {
	_, err := fmt.Printf("%d < %s\n", chat, text)
	return err
}
