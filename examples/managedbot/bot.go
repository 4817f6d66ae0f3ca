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

// Telegram is the bot's transport. It gives every message an id, and may hand one over twice.
type Telegram interface {
	Updates(ctx context.Context, handle func(chat int64, id, text string))
	Send(ctx context.Context, chat int64, text string) error
}

// A real bot has a model client and a transport in the place of what follows. The ones here answer
// by rule, so that the program runs without either.

func dialLLM() LLM { return fakeLLM{} }

func dialTelegram() Telegram { return console{} }

// fakeLLM calls the tool weather and repeats what it says.
type fakeLLM struct{}

// Chat implements LLM.
func (fakeLLM) Chat(_ context.Context, _ string, msgs []Msg, _ []Tool) (Msg, error) {
	if last := msgs[len(msgs)-1]; last.Role == "tool" {
		return Msg{Role: "assistant", Text: last.Text}, nil
	}
	weather := Call{ID: "call_0", Name: "weather", Args: json.RawMessage(`{"city":"Lisbon"}`)}
	return Msg{Role: "assistant", Calls: []Call{weather}}, nil
}

// console is a chat with one person, who asks one question.
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
