package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// A real bot has a model client and a transport in the place of this file. The ones here answer by
// rule, so that the program runs without either.

func dialLLM() LLM { return fakeLLM{} }

func dialTelegram() Telegram { return console{} }

// fakeLLM gives each question to a sub-agent and repeats what the sub-agent has found.
type fakeLLM struct{}

func (fakeLLM) Chat(ctx context.Context, _ string, msgs []Msg, _ []Tool) (Msg, error) {
	last := msgs[len(msgs)-1]
	switch {
	case last.Role == "tool":
		return Msg{Role: "assistant", Text: "I am looking into it."}, nil
	case strings.Contains(last.Text, "[Subagent Task]:"):
		select {
		case <-time.After(time.Second): // a real one takes minutes
			return Msg{Role: "assistant", Text: "42 files"}, nil
		case <-ctx.Done():
			return Msg{}, context.Cause(ctx)
		}
	case strings.Contains(last.Text, "42 files"):
		return Msg{Role: "assistant", Text: "There are 42 files."}, nil
	}
	args, err := json.Marshal(map[string]string{"task": last.Text, "label": "research"})
	return Msg{Role: "assistant", Calls: []Call{{ID: "call_0", Name: "sessions_spawn", Args: args}}}, err
}

// console is a chat with one person, who asks one question.
type console struct{}

func (console) Updates(_ context.Context, handle func(chat int64, text string)) {
	handle(4711, "How many files are there?")
}

func (console) Send(_ context.Context, chat int64, text string) error {
	_, err := fmt.Printf("%d < %s\n", chat, text)
	return err
}
